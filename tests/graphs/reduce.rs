//! Operators that sum, order and search along axes.

use tract_onnx_cast::ElementType;

use crate::eval::{Attributes, Inputs, computes};
use crate::tensor::{Val, axis_of, indices, place, volume};

use ElementType::{Double, Float, Int64};

pub fn eval(op: &str, attributes: Attributes, inputs: Inputs) -> Option<Vec<Val>> {
    let x = inputs.first().copied().flatten()?;
    let second = inputs.get(1).copied().flatten();
    let one = |val: Val| Some(vec![val]);
    match op {
        "CumSum" => one(cumulated(attributes, x, second?)?),
        "ArgMax" | "ArgMin" => one(extreme_place(op, attributes, x)?),
        "TopK" => top(attributes, x, second?),
        "MatMul" => one(product(x, second?)?),
        _ => {
            let axes = match second {
                Some(axes) => axes.i64s()?,
                None => attributes.ints("axes").unwrap_or_default().to_vec(),
            };
            one(reduced(op.strip_prefix("Reduce")?, attributes, x, &axes)?)
        }
    }
}

/// Sums of floats that are exact in any order, so that their order does not matter; so are the
/// products.
fn exact_sum(ty: ElementType, terms: &[f64]) -> Option<f64> {
    let limit = if ty == Double { 2f64.powi(50) } else { 2f64.powi(22) };
    let is_fine = |x: &f64| (x * 16.0).fract() == 0.0 && x.abs() < limit / 64.0;
    terms.iter().all(is_fine).then(|| terms.iter().fold(0.0, |sum, x| sum + x))
}

fn of_float(ty: ElementType, x: f64) -> u64 {
    if ty == Double { x.to_bits() } else { (x as f32).to_bits().into() }
}

/// The groups of places that differ only in these axes, in order.
pub fn groups(shape: &[usize], axes: &[usize]) -> Vec<Vec<usize>> {
    let kept: Vec<usize> = shape
        .iter()
        .enumerate()
        .map(|(axis, size)| if axes.contains(&axis) { 1 } else { *size })
        .collect();
    let mut groups = vec![vec![]; volume(&kept)];
    for index in indices(shape) {
        let own: Vec<usize> = index
            .iter()
            .enumerate()
            .map(|(axis, at)| if axes.contains(&axis) { 0 } else { *at })
            .collect();
        groups[place(&kept, &own)].push(place(shape, &index));
    }
    groups
}

pub fn without(shape: &[usize], axes: &[usize], keep: bool) -> Vec<usize> {
    let size = |(axis, size): (usize, &usize)| match (axes.contains(&axis), keep) {
        (true, true) => Some(1),
        (true, false) => None,
        (false, _) => Some(*size),
    };
    shape.iter().enumerate().filter_map(size).collect()
}

fn reduced(op: &str, attributes: Attributes, x: &Val, axes: &[i64]) -> Option<Val> {
    let rank = x.shape.len();
    let mut axes = axes.iter().map(|axis| axis_of(*axis, rank)).collect::<Option<Vec<_>>>()?;
    if axes.is_empty() {
        if attributes.int("noop_with_empty_axes") == Some(1) {
            return None;
        }
        axes = (0..rank).collect();
    }
    if !computes(x.ty) || matches!(x.ty.bits(), 8 | 16) {
        return None;
    }
    let shape = without(&x.shape, &axes, attributes.int("keepdims") != Some(0));
    let value = |group: Vec<usize>| {
        let own = x.picked(vec![group.len()], group)?;
        if own.is_float() { float_value(op, &own) } else { int_value(op, &own) }
    };
    let codes = groups(&x.shape, &axes).into_iter().map(value).collect::<Option<_>>()?;
    Some(Val::new(x.ty, shape, codes))
}

fn int_value(op: &str, group: &Val) -> Option<u64> {
    let ints = group.ints();
    let value = match op {
        "Sum" => ints.iter().sum(),
        "SumSquare" => ints.iter().fold(0i128, |sum, i| sum.wrapping_add(i.wrapping_mul(*i))),
        "L1" => ints.iter().map(|i| i.abs()).sum(),
        "Prod" => ints.iter().fold(1i128, |product, i| {
            // Only the low 64 bits count.
            product.wrapping_mul(*i) as i64 as i128
        }),
        "Max" => *ints.iter().max()?,
        "Min" => *ints.iter().min()?,
        // ONNX does not say how a mean of integers is rounded, nor how wide its sum is.
        "Mean" => {
            let (sum, count) = (ints.iter().sum::<i128>(), ints.len() as i128);
            let is_held = Val::of_ints(group.ty, vec![], [sum]).ints() == [sum];
            (count > 0 && sum % count == 0 && is_held).then(|| sum / count)?
        }
        _ => return None,
    };
    Some(value as u64 & group.ty.code_mask())
}

fn float_value(op: &str, group: &Val) -> Option<u64> {
    let floats = group.floats();
    let squares: Vec<f64> = floats.iter().map(|x| x * x).collect();
    let sizes: Vec<f64> = floats.iter().map(|x| x.abs()).collect();
    let value = match op {
        "Sum" => exact_sum(group.ty, &floats)?,
        "SumSquare" => exact_sum(group.ty, &squares)?,
        "L1" => exact_sum(group.ty, &sizes)?,
        "Max" | "Min" => {
            let zeros = floats.iter().filter(|x| **x == 0.0).count();
            if floats.is_empty() || floats.iter().any(|x| x.is_nan()) || zeros > 1 {
                return None;
            }
            let pick = if op == "Max" { f64::max } else { f64::min };
            floats.iter().copied().reduce(pick)?
        }
        _ => return None,
    };
    // A sum of nothing but negative zeros has a sign that depends on where it starts.
    (value != 0.0 || !matches!(op, "Sum")).then(|| of_float(group.ty, value))
}

fn cumulated(attributes: Attributes, x: &Val, axis: &Val) -> Option<Val> {
    let axis = axis_of(axis.i64()?, x.shape.len())?;
    let (exclusive, reverse) = (attributes.int("exclusive"), attributes.int("reverse"));
    if !computes(x.ty) || x.ty.bits() < 32 || x.codes.iter().any(|_| x.is_float() && x.has_nan()) {
        return None;
    }
    let mut codes = vec![0; x.codes.len()];
    for mut group in groups(&x.shape, &[axis]) {
        if reverse == Some(1) {
            group.reverse();
        }
        for end in 0..group.len() {
            let last = if exclusive == Some(1) { end } else { end + 1 };
            let own = x.picked(vec![last], group[..last].to_vec())?;
            codes[group[end]] = if own.is_float() {
                of_float(x.ty, exact_sum(x.ty, &own.floats())? + 0.0)
            } else {
                int_value("Sum", &own)?
            };
        }
    }
    Some(Val::new(x.ty, x.shape.clone(), codes))
}

/// Places from the first in order to the last; of equals the first comes first.
fn ordered(x: &Val, group: &[usize], largest: bool) -> Option<Vec<usize>> {
    if x.has_nan() || !computes(x.ty) {
        return None;
    }
    let floats = if x.is_float() { x.floats() } else { vec![] };
    let ints = if x.is_int() { x.ints() } else { vec![] };
    let mut order: Vec<usize> = (0..group.len()).collect();
    order.sort_by(|a, b| {
        let (a, b) = (group[*a], group[*b]);
        let order = if x.is_float() {
            floats[a].partial_cmp(&floats[b]).expect("no NaN")
        } else {
            ints[a].cmp(&ints[b])
        };
        if largest { order.reverse() } else { order }
    });
    Some(order)
}

fn extreme_place(op: &str, attributes: Attributes, x: &Val) -> Option<Val> {
    let axis = axis_of(attributes.int("axis").unwrap_or(0), x.shape.len())?;
    let first = |group: Vec<usize>| {
        let order = ordered(x, &group, op == "ArgMax")?;
        order.first().map(|at| *at as u64)
    };
    let codes = groups(&x.shape, &[axis]).into_iter().map(first).collect::<Option<_>>()?;
    let shape = without(&x.shape, &[axis], attributes.int("keepdims") != Some(0));
    Some(Val::new(Int64, shape, codes))
}

fn top(attributes: Attributes, x: &Val, k: &Val) -> Option<Vec<Val>> {
    let axis = axis_of(attributes.int("axis").unwrap_or(-1), x.shape.len())?;
    let k = usize::try_from(k.i64()?).ok().filter(|k| *k <= x.shape[axis])?;
    let mut shape = x.shape.clone();
    shape[axis] = k;
    let (mut values, mut places) = (vec![0; volume(&shape)], vec![0; volume(&shape)]);
    let (of, to) = (groups(&x.shape, &[axis]), groups(&shape, &[axis]));
    for (of, to) in of.iter().zip(&to) {
        let order = ordered(x, of, attributes.int("largest") != Some(0))?;
        for (at, place) in to.iter().zip(order) {
            (values[*at], places[*at]) = (x.codes[of[place]], place as u64);
        }
    }
    Some(vec![Val::new(x.ty, shape.clone(), values), Val::new(Int64, shape, places)])
}

/// A product of two matrices.
fn product(a: &Val, b: &Val) -> Option<Val> {
    let ([rows, inner], [other, columns]) = (&a.shape[..], &b.shape[..]) else { return None };
    if a.ty != b.ty || inner != other || !matches!(a.ty, Float) || *inner == 0 {
        return None;
    }
    let (x, y) = (a.floats(), b.floats());
    let cell = |at: usize| {
        let (row, column) = (at / columns, at % columns);
        let terms: Vec<f64> =
            (0..*inner).map(|i| x[row * inner + i] * y[i * columns + column]).collect();
        exact_sum(a.ty, &terms).map(|sum| of_float(a.ty, sum)).filter(|code| *code != 0)
    };
    let codes = (0..rows * columns).map(cell).collect::<Option<_>>()?;
    Some(Val::new(a.ty, vec![*rows, *columns], codes))
}
