//! Operators that sum and search along axes.

use tract_onnx_cast::ElementType;

use crate::answer::{Answer, Ask, epsilon, finite, largest, moved, numbers, only, sum, unit, wide};
use crate::data::{FLOATS, NUMBERS};
use crate::draw::{Attributed, Draw};
use crate::graph::Attribute::Int;
use crate::reduce::{groups, without};
use crate::table::{Row, row};
use crate::tensor::{Val, axis_of};

use ElementType::{Double, Float, Int32, Int64};

pub const ROWS: &[Row] = &[
    row(
        "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd \
         ReduceSum ReduceSumSquare",
        reduction,
        reduced,
    ),
    row("ArgMax ArgMin", search, found),
    row("CumSum", cumulation, cumulated),
    row("Softmax LogSoftmax Hardmax", softmax, soft),
];

fn reduction(d: &mut Draw) -> Option<usize> {
    let x = d.operand(&NUMBERS, 1..5)?;
    let since = if d.op() == "ReduceSum" { 13 } else { 18 };
    let (mut inputs, mut attributes): (_, Attributed) = (vec![Some(x)], vec![]);
    if !d.random.one_in(4) {
        let axes = d.axes(d.rank(x));
        d.list(since, "axes", &axes, &mut inputs, &mut attributes);
    } else if d.opset() >= since && d.random.one_in(2) {
        attributes.push(("noop_with_empty_axes", Int(d.random.below(2) as i64)));
    }
    if d.random.one_in(2) {
        attributes.push(("keepdims", Int(d.random.below(2) as i64)));
    }
    Some(d.node(&inputs, 1, attributes)?[0])
}

fn reduced(ask: &Ask) -> Option<Vec<Answer>> {
    let x = ask.input(0)?;
    if x.is_int() {
        return moved(ask);
    }
    let rank = x.shape.len();
    let axes = ask.list(1, "axes").unwrap_or_default();
    let mut axes = axes.iter().map(|axis| axis_of(*axis, rank)).collect::<Option<Vec<_>>>()?;
    if axes.is_empty() && ask.int("noop_with_empty_axes", 0) == 1 {
        // What else becomes of each element, versions of ONNX see differently.
        let is_plain =
            matches!(ask.op, "ReduceSum" | "ReduceMax" | "ReduceMin" | "ReduceMean" | "ReduceProd");
        return is_plain.then(|| only(x.clone()))?;
    } else if axes.is_empty() {
        axes = (0..rank).collect();
    }
    let all = numbers(x);
    let value = |group: Vec<usize>| {
        let own: Vec<f64> = group.iter().map(|at| all[*at]).collect();
        reduced_value(&ask.op["Reduce".len()..], x.ty, &own)
    };
    let values = groups(&x.shape, &axes).into_iter().map(value).collect::<Vec<_>>();
    let units = if matches!(ask.op, "ReduceMax" | "ReduceMin") { 0.0 } else { 1.0 };
    let shape = without(&x.shape, &axes, ask.int("keepdims", 1) != 0);
    Some(vec![Answer::near(x.ty, shape, units, values)])
}

/// A reduction, and by how much FLOAT or DOUBLE may be off.
fn reduced_value(op: &str, ty: ElementType, own: &[f64]) -> (f64, f64) {
    let ty = wide(ty);
    let of = |f: fn(f64) -> f64| sum(ty, &own.iter().map(|x| f(*x)).collect::<Vec<_>>());
    let has_nan = own.iter().any(|x| x.is_nan());
    let most = own.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let count = own.len() as f64;
    match op {
        "Sum" => of(|x| x),
        "Mean" => {
            let (total, slack) = of(|x| x);
            (total / count, slack / count)
        }
        "L1" => of(f64::abs),
        "SumSquare" => of(|x| x * x),
        "L2" => {
            let (squares, slack) = of(|x| x * x);
            // Squares of small numbers vanish, those of large ones overflow.
            let vanish = (count * unit(ty, 0.0)).sqrt() * 2.0;
            let lost = if squares > largest(ty) { f64::INFINITY } else { vanish };
            (squares.sqrt(), finite(slack / squares.sqrt()) + lost)
        }
        "LogSum" => {
            let (total, slack) = of(|x| x);
            let is_open = slack >= 0.1 * total.abs() && slack > 0.0;
            (total.ln(), if is_open { f64::INFINITY } else { finite(slack / total.abs()) })
        }
        "LogSumExp" if has_nan => (f64::NAN, 0.0),
        "LogSumExp" if most.is_infinite() => (most, 0.0),
        "LogSumExp" => {
            let total: f64 = own.iter().map(|x| (x - most).exp()).sum();
            (most + total.ln(), (count + 4.0) * epsilon(ty) * (1.0 + most.abs()))
        }
        "Prod" => {
            let product: f64 = own.iter().product();
            let (up, down) = own.iter().fold((1.0f64, 1.0f64), |(up, down), x| {
                (up * x.abs().max(1.0), down * if *x == 0.0 { 1.0 } else { x.abs().min(1.0) })
            });
            let is_open = up > largest(ty) || down < unit(ty, 0.0) * 1e9;
            let slack = count * epsilon(ty) * product.abs();
            (product, if is_open { f64::INFINITY } else { finite(slack) })
        }
        _ if has_nan => (f64::NAN, 0.0),
        "Max" => (most, 0.0),
        _ => (own.iter().copied().fold(f64::INFINITY, f64::min), 0.0),
    }
}

fn search(d: &mut Draw) -> Option<usize> {
    let x = d.operand(&NUMBERS, 1..5)?;
    let mut attributes: Attributed = vec![("axis", Int(d.axis(d.rank(x))))];
    let names = ["keepdims", "select_last_index"];
    for name in &names[..if d.opset() >= 12 { 2 } else { 1 }] {
        if d.random.one_in(2) {
            attributes.push((name, Int(d.random.below(2) as i64)));
        }
    }
    d.make(&[x], attributes)
}

fn found(ask: &Ask) -> Option<Vec<Answer>> {
    let x = ask.input(0)?;
    let axis = ask.axis(0, x.shape.len())?;
    let is_max = ask.op == "ArgMax";
    // Integers in full, and NaN beyond all numbers.
    let ranks: Vec<(bool, f64, i128)> = if x.is_int() {
        x.ints().into_iter().map(|i| (false, 0.0, i)).collect()
    } else {
        numbers(x).into_iter().map(|x| (x.is_nan(), if x.is_nan() { 0.0 } else { x }, 0)).collect()
    };
    let last = ask.int("select_last_index", 0) == 1;
    if last && ranks.iter().any(|rank| rank.0) {
        return None;
    }
    let better = |a: (bool, f64, i128), b: (bool, f64, i128)| match (a.0, b.0) {
        (one, other) if one != other => one,
        _ if is_max => a.1 > b.1 || a.2 > b.2,
        _ => a.1 < b.1 || a.2 < b.2,
    };
    let best = |group: Vec<usize>| {
        let mut best = 0;
        for at in 1..group.len() {
            let (new, old) = (ranks[group[at]], ranks[group[best]]);
            if better(new, old) || last && !better(old, new) {
                best = at;
            }
        }
        best as i128
    };
    let places: Vec<i128> = groups(&x.shape, &[axis]).into_iter().map(best).collect();
    let shape = without(&x.shape, &[axis], ask.int("keepdims", 1) != 0);
    only(Val::of_ints(Int64, shape, places))
}

fn cumulation(d: &mut Draw) -> Option<usize> {
    let x = d.operand(&[Float, Float, Double, Int32, Int64], 1..5)?;
    let axis = d.axis(d.rank(x));
    let axis = if d.random.one_in(2) { d.scalar(axis) } else { d.ints(&[axis]) };
    let mut attributes: Attributed = vec![];
    for name in ["exclusive", "reverse"] {
        if d.random.one_in(2) {
            attributes.push((name, Int(d.random.below(2) as i64)));
        }
    }
    d.make(&[x, axis], attributes)
}

fn cumulated(ask: &Ask) -> Option<Vec<Answer>> {
    let x = ask.input(0)?;
    if x.is_int() {
        return moved(ask);
    }
    let axis = axis_of(ask.input(1)?.i64()?, x.shape.len())?;
    let all = numbers(x);
    let mut values = vec![(0.0, 0.0); all.len()];
    for mut group in groups(&x.shape, &[axis]) {
        if ask.int("reverse", 0) == 1 {
            group.reverse();
        }
        let own: Vec<f64> = group.iter().map(|at| all[*at]).collect();
        for (end, at) in group.iter().enumerate() {
            let end = if ask.int("exclusive", 0) == 1 { end } else { end + 1 };
            values[*at] = sum(x.ty, &own[..end]);
        }
    }
    Some(vec![Answer::near(x.ty, x.shape.clone(), 0.0, values)])
}

fn softmax(d: &mut Draw) -> Option<usize> {
    let x = d.operand(&FLOATS, 1..5)?;
    let axis = if d.opset() < 11 { d.random.below(d.rank(x)) as i64 } else { d.axis(d.rank(x)) };
    d.make(&[x], vec![("axis", Int(axis))])
}

fn soft(ask: &Ask) -> Option<Vec<Answer>> {
    let x = ask.input(0)?;
    let rank = x.shape.len();
    let axis = ask.axis(if ask.opset < 13 { 1 } else { -1 }, rank)?;
    let axes: Vec<usize> = if ask.opset < 13 { (axis..rank).collect() } else { vec![axis] };
    let all = numbers(x);
    let is_hard = ask.op == "Hardmax";
    if is_hard && all.iter().any(|x| x.is_nan()) {
        return None;
    }
    let eps = epsilon(wide(x.ty));
    // Exponentials end about where normal numbers do.
    let least = 2f64.powi(if x.ty == Double { -1020 } else { -124 });
    let mut values = vec![(0.0, 0.0); all.len()];
    for group in groups(&x.shape, &axes) {
        let most = group.iter().map(|at| all[*at]).fold(f64::NEG_INFINITY, f64::max);
        let has_nan = group.iter().any(|at| all[*at].is_nan());
        let total: f64 = group.iter().map(|at| (all[*at] - most).exp()).sum();
        let first = group.iter().find(|at| all[**at] == most);
        for at in &group {
            let less = all[*at] - most;
            let off = (group.len() as f64 + 6.0 + less.abs()) * eps;
            values[*at] = match ask.op {
                "Hardmax" => (f64::from(first == Some(at)), 0.0),
                _ if has_nan || most.is_infinite() => (f64::NAN, 0.0),
                "Softmax" => (less.exp() / total, least + finite(off * less.exp() / total)),
                _ => (less - total.ln(), finite(off + eps * total.ln())),
            };
        }
    }
    // Infinity less infinity is NaN where it stands, and everywhere by the sum; some leave
    // -infinity alone.
    let units = if is_hard { 0.0 } else { 1.0 };
    Some(vec![Answer::near(x.ty, x.shape.clone(), units, values)])
}
