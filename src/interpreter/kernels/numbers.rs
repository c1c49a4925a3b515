//! `CumProd`, `Det`, `Unique`.

use std::cmp::Ordering;

use tract_onnx::prelude::tract_ndarray::{ArrayD, Axis, Ix2, IxDyn};
use tract_onnx::prelude::*;

use super::{KernelInputs, KernelOutputs, KernelSite};
use crate::cast::element_type::ElementType;
use crate::cast::value::Number;
use crate::interpreter::value::TypedTensor;
use crate::onnx::node::from_front;
use crate::tensor::numbers::Numbers;

/// `CumProd`: of integers modulo their range, of floats in DOUBLE.
pub(super) fn cumulative_product(site: &KernelSite, inputs: &KernelInputs) -> KernelOutputs {
    let x = site.input(inputs, 0)?;
    let given = site.numbers(inputs, 1)?;
    let along = given.first().and_then(|given| from_front(*given, x.tensor.rank()));
    let Some(along) = along.filter(|_| given.len() == 1) else {
        return site
            .refuse(format!("has the axis {given:?} of a tensor of rank {}", x.tensor.rank()));
    };
    macro_rules! products {
        ($array:expr, $one:expr, $times:expr) => {{
            let mut array = $array;
            for mut lane in array.lanes_mut(Axis(along)) {
                let mut product = $one;
                let mut step = |x: &mut _| {
                    let next = $times(product, *x);
                    *x = if site.int("exclusive") == 1 { product } else { next };
                    product = next;
                };
                match site.int("reverse") {
                    1 => lane.iter_mut().rev().for_each(&mut step),
                    _ => lane.iter_mut().for_each(&mut step),
                }
            }
            array
        }};
    }
    macro_rules! integers {
        ($ty:ty) => {{
            let array = x.tensor.to_plain_array_view::<$ty>()?.to_owned();
            let made = products!(array, 1, |a: $ty, b: $ty| a.wrapping_mul(b));
            Ok(vec![TypedTensor::new(x.ty, made.into_tensor())?])
        }};
    }
    match x.ty {
        ElementType::Int32 => integers!(i32),
        ElementType::Int64 => integers!(i64),
        ElementType::Uint32 => integers!(u32),
        ElementType::Uint64 => integers!(u64),
        _ => {
            let made = products!(site.doubles(inputs, 0)?, 1.0, |a: f64, b: f64| a * b);
            Ok(vec![site.made(made, x)?])
        }
    }
}

/// `Det`: the product of the pivots of each matrix.
pub(super) fn determinant(site: &KernelSite, inputs: &KernelInputs) -> KernelOutputs {
    let x = site.doubles(inputs, 0)?;
    let [batch @ .., rows, columns] = x.shape() else {
        return site.refuse("is given no matrix");
    };
    if rows != columns {
        return site.refuse(format!("is given matrices of {rows} × {columns}"));
    }
    let (batch, rows) = (batch.to_vec(), *rows);
    let count: usize = batch.iter().product();
    let matrices = x.to_shape((count, rows, rows))?;
    let of = |matrix: tract_ndarray::ArrayView<f64, Ix2>| {
        let mut matrix = matrix.to_owned();
        let mut product = 1.0;
        for at in 0..rows {
            let greatest =
                (at..rows).max_by(|a, b| matrix[[*a, at]].abs().total_cmp(&matrix[[*b, at]].abs()));
            let pivot = greatest.unwrap_or(at);
            if pivot != at {
                product = -product;
                for column in 0..rows {
                    matrix.swap([at, column], [pivot, column]);
                }
            }
            product *= matrix[[at, at]];
            if matrix[[at, at]] == 0.0 {
                return 0.0;
            }
            for row in at + 1..rows {
                let factor = matrix[[row, at]] / matrix[[at, at]];
                for column in at..rows {
                    matrix[[row, column]] -= factor * matrix[[at, column]];
                }
            }
        }
        product
    };
    let made: Vec<f64> = matrices.outer_iter().map(of).collect();
    let made = ArrayD::from_shape_vec(IxDyn(&batch), made)?;
    Ok(vec![site.made(made, site.input(inputs, 0)?)?])
}

/// Elements in an order.
enum OrderedElements {
    Numbers(Numbers),
    Texts(Vec<String>),
}

impl OrderedElements {
    fn of(typed: &TypedTensor) -> TractResult<OrderedElements> {
        Ok(match typed.ty {
            ElementType::String => OrderedElements::Texts(
                typed.tensor.try_as_plain_ram()?.as_slice::<String>()?.to_vec(),
            ),
            ty => OrderedElements::Numbers(Numbers::of(ty, &typed.tensor)?),
        })
    }

    /// Compares elements at two places.
    fn compare(&self, a: usize, b: usize) -> Ordering {
        match self {
            OrderedElements::Texts(all) => all.get(a).cmp(&all.get(b)),
            OrderedElements::Numbers(all) => match [a, b].map(|at| all.get(at)) {
                [Some(Number::Integer(a)), Some(Number::Integer(b))] => a.cmp(&b),
                // Zeros are one number, and so is NaN, which comes last.
                [Some(Number::Real(a)), Some(Number::Real(b))] => {
                    a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
                }
                _ => Ordering::Equal,
            },
        }
    }
}

/// `Unique`: of elements, or of slices along an axis; sorted, or as they come first.
pub(super) fn unique(site: &KernelSite, inputs: &KernelInputs) -> KernelOutputs {
    let x = site.input(inputs, 0)?;
    let (along, tensor) = match site.attribute("axis") {
        Some(given) => match from_front(given.i, x.tensor.rank()) {
            Some(along) => (along, x.tensor.clone()),
            None => return site.refuse(format!("attribute `axis` is {}", given.i)),
        },
        None => {
            let mut flat = (*x.tensor).clone();
            flat.set_shape(&[x.tensor.len()])?;
            (0, flat.into_arc_tensor())
        }
    };
    let elements = OrderedElements::of(x)?;
    let size = |axes: &[usize]| axes.iter().product::<usize>();
    let (before, behind) = tensor.shape().split_at(along);
    let [length, behind @ ..] = behind else { return site.refuse("is given no axis") };
    let (outer, length, inner) = (size(before), *length, size(behind));
    let compare = |a: &usize, b: &usize| {
        let places = (0..outer).flat_map(|at| (0..inner).map(move |rest| (at * length, rest)));
        let mut orders = places
            .map(|(at, rest)| elements.compare((at + a) * inner + rest, (at + b) * inner + rest));
        orders.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    };
    let mut sorted: Vec<usize> = (0..length).collect();
    sorted.sort_by(compare);
    let mut groups: Vec<Vec<usize>> = vec![];
    for place in sorted {
        match groups.last_mut().filter(|group| compare(&group[0], &place).is_eq()) {
            Some(group) => group.push(place),
            None => groups.push(vec![place]),
        }
    }
    if site.int("sorted") == 0 {
        groups.sort_by_key(|group| group.first().copied());
    }
    let mut inverse = vec![0i64; length];
    for (at, group) in groups.iter().enumerate() {
        for place in group {
            inverse[*place] = at as i64;
        }
    }
    let firsts: Vec<usize> = groups.iter().filter_map(|group| group.first().copied()).collect();
    let slices: TractResult<Vec<Tensor>> =
        firsts.iter().map(|at| tensor.slice(along, *at, at + 1)).collect();
    let y = match slices?.as_slice() {
        [] => (*tensor).clone(),
        slices => Tensor::stack_tensors(along, slices)?,
    };
    let indices: Vec<i64> = firsts.iter().map(|at| *at as i64).collect();
    let counts: Vec<i64> = groups.iter().map(|group| group.len() as i64).collect();
    let list = |numbers: &[i64]| TypedTensor::native(tensor1(numbers));
    Ok(vec![TypedTensor::new(x.ty, y)?, list(&indices)?, list(&inverse)?, list(&counts)?])
}
