//! A value of the reference in the order of axes that the conversion has it in, where an optimiser
//! has moved a `Transpose` past the node that makes it.

use std::sync::Arc;

use tract_onnx::prelude::Tensor;
use tract_onnx_cast::interpreter::SharedTensor;

use super::super::numbers::{each_pair, shaped};

/// Of more axes no order is looked for.
const MOST_AXES: usize = 4;
/// Values are in another order of axes if they are off by less than so much of their size there, by
/// powers.
const NEAR: f64 = 0.01;

/// A value in a shape of as many elements: in its own order, or in the order of axes in which it is
/// near to `made`. The second of the result is whether it is in its own order.
pub(in super::super) fn in_layout_of(
    value: &SharedTensor,
    made: &SharedTensor,
) -> Option<(SharedTensor, bool)> {
    let shape = made.1.shape();
    let (from, to) = (without_ones(value.1.shape()), without_ones(shape));
    let plain = shaped(value, shape)?;
    if from == to || from.len() > MOST_AXES || value.1.as_plain_ram().is_none() {
        return Some((plain, true));
    }
    let mut orders = vec![];
    add_orders(&from, &to, &mut vec![], &mut orders);
    let held = shaped(value, &from)?;
    let turned = |order: &Vec<usize>| -> Option<SharedTensor> {
        let turned = Tensor::clone(&held.1).permute_axes(order).ok()?;
        Some((held.0, Arc::new(turned.into_shape(shape).ok()?)))
    };
    let near = orders.iter().filter_map(turned).find(|turned| is_near(turned, made));
    match near.filter(|_| !is_near(&plain, made)) {
        Some(turned) => Some((turned, false)),
        None => Some((plain, true)),
    }
}

fn without_ones(shape: &[usize]) -> Vec<usize> {
    shape.iter().copied().filter(|size| *size != 1).collect()
}

/// All orders of axes by which one shape becomes another, each with `taken` before it.
fn add_orders(from: &[usize], to: &[usize], taken: &mut Vec<usize>, found: &mut Vec<Vec<usize>>) {
    let Some(wanted) = to.get(taken.len()) else {
        if taken.len() == from.len() {
            found.push(taken.clone());
        }
        return;
    };
    for (axis, size) in from.iter().enumerate() {
        if size == wanted && !taken.contains(&axis) {
            taken.push(axis);
            add_orders(from, to, taken, found);
            taken.pop();
        }
    }
}

fn is_near(value: &SharedTensor, made: &SharedTensor) -> bool {
    let (mut error, mut size) = (0.0, 0.0);
    let told = each_pair(value, made, |_, want, got| {
        error += (want - got) * (want - got);
        size += want * want;
    });
    told.is_some() && error <= NEAR * size
}

#[cfg(test)]
mod tests {
    use tract_onnx::prelude::*;
    use tract_onnx_cast::ElementType;

    use super::*;

    fn value(shape: &[usize], values: &[f32]) -> TractResult<SharedTensor> {
        Ok((ElementType::Float, Arc::new(Tensor::from_shape(shape, values)?)))
    }

    #[test]
    fn a_value_is_taken_in_the_order_in_which_it_is_near() -> TractResult<()> {
        let held = value(&[1, 2, 3], &[1., 2., 3., 4., 5., 6.])?;
        let turned = value(&[1, 3, 2], &[1., 4., 2., 5., 3., 6.])?;
        assert_eq!(in_layout_of(&held, &turned), Some((turned.clone(), false)));
        // Near to neither order, or to that of its own, it is as it is.
        let own = value(&[1, 3, 2], &[1., 2., 3., 4., 5., 6.])?;
        let off = value(&[1, 3, 2], &[9., 4., 2., 5., 3., 6.])?;
        for made in [&own, &off] {
            assert_eq!(in_layout_of(&held, made), Some((own.clone(), true)));
        }
        let flat = value(&[6], &[1., 4., 2., 5., 3., 6.])?;
        assert!(in_layout_of(&held, &flat).is_some_and(|(_, is_own)| is_own));
        Ok(())
    }
}
