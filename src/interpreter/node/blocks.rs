//! Operators of a large matrix, which is never there as a whole.
//!
//! The vocabulary of a language model is its largest weight. A `Gather` takes a few of its rows,
//! which are read from the file, or dequantised, alone. The last product is by its transpose: tract
//! packs a matrix whole before it multiplies, widened if it is of halves, and so that weight would
//! be there two or three times. A sum of products takes a row and a column alone, so blocks of
//! columns give the same values.

use onnx_cast_graph::NodeView;
use tract_onnx::prelude::*;

use crate::cast::element_type::ElementType;
use crate::interpreter::value::TypedTensor;
use crate::tensor::late;

/// The bytes of a block of a matrix in memory, its elements widened to FLOAT. One that has no more
/// is packed whole.
const BLOCK: usize = 32 << 20;
/// The columns of a block are a multiple of this, which the rows of tract's kernels divide.
const TILE: usize = 192;
/// Rows are taken one by one where a matrix has more than so many times as many.
const FEW: usize = 4;

/// The columns of each block in which a node computes, if it is a `MatMul` by a large matrix.
pub(in crate::interpreter) fn columns(
    node: &impl NodeView,
    inputs: &[Option<TypedTensor>],
) -> Option<usize> {
    let [Some(rows), Some(matrix)] = inputs else { return None };
    let &[depth, columns] = matrix.tensor.shape() else { return None };
    let is_product = node.is("MatMul") && rows.tensor.shape().last() == Some(&depth);
    let column = depth.checked_mul(size_of::<f32>())?;
    let block = late::block(&matrix.tensor).unwrap_or(BLOCK);
    let most = (block / column.max(1) / TILE).max(1) * TILE;
    (is_product && columns > most).then_some(most)
}

/// What a product makes of each block of so many columns, side by side.
/// Its errors are those of `multiply`, which is given the inputs of a block.
pub(in crate::interpreter) fn in_blocks(
    inputs: &[Option<TypedTensor>],
    columns: usize,
    mut multiply: impl FnMut(&[Option<TypedTensor>]) -> TractResult<Vec<TypedTensor>>,
) -> TractResult<Vec<TypedTensor>> {
    let [rows, Some(matrix)] = inputs else { return multiply(inputs) };
    let all = matrix.tensor.shape().last().copied().unwrap_or_default();
    let mut whole: Option<(ElementType, Tensor)> = None;
    let mut end = 0;
    while end < all {
        let start = end;
        end = start.saturating_add(columns);
        // A column alone is multiplied by another kernel, which sums in another order.
        if all.saturating_sub(end) < TILE {
            end = all;
        }
        let part = match late::columns(&matrix.tensor, start, end) {
            Some(part) => part,
            None => matrix.tensor.slice(1, start, end)?,
        };
        let part = TypedTensor::new(matrix.ty, part)?;
        for TypedTensor { ty, tensor } in multiply(&[rows.clone(), Some(part)])? {
            let axis = tensor.rank().saturating_sub(1);
            if whole.is_none() {
                let mut shape = tensor.shape().to_vec();
                shape.splice(axis.., [all]);
                whole = Some((ty, Tensor::zero_dt(tensor.datum_type(), &shape)?));
            }
            if let Some((_, whole)) = &mut whole {
                whole.assign_slice(start..end, &tensor, .., axis)?;
            }
        }
    }
    whole.into_iter().map(|(ty, tensor)| TypedTensor::new(ty, tensor)).collect()
}

/// Reads the late factors of a product of a body, which stay as they are read: the body runs again.
/// Fails when they cannot be read.
pub(super) fn keep_factors(
    node: &impl NodeView,
    inputs: &[Option<TypedTensor>],
) -> TractResult<()> {
    let is_product = ["Gemm", "MatMul"].iter().any(|op| node.is(op));
    for typed in inputs.iter().flatten().filter(|_| is_product) {
        typed.tensor.try_as_plain_ram()?;
    }
    Ok(())
}

/// The inputs of a `Gather` that takes rows of a late matrix, with those rows alone in its place;
/// `None` of any other node, and where it does not take few. Fails when the rows cannot be read.
pub(in crate::interpreter) fn of_rows(
    node: &impl NodeView,
    inputs: &[Option<TypedTensor>],
) -> TractResult<Option<Vec<Option<TypedTensor>>>> {
    let [Some(matrix), Some(places)] = inputs else { return Ok(None) };
    let axis = node.attributes().iter().find(|attribute| attribute.name == "axis");
    let takes_rows = node.is("Gather") && axis.is_none_or(|axis| matches!(axis.i, 0 | -2));
    let &[all, _] = matrix.tensor.shape() else { return Ok(None) };
    let are_few = places.tensor.len() < all / FEW;
    if !takes_rows || !late::is_late(&matrix.tensor) || !are_few {
        return Ok(None);
    }
    let held = places.tensor.cast_to::<i64>()?;
    let held = held.try_as_plain_ram()?;
    let row = |place: &i64| match usize::try_from(*place) {
        Ok(row) => Some(row),
        Err(_) => all.checked_sub(usize::try_from(place.unsigned_abs()).ok()?),
    };
    let wanted: Option<Vec<usize>> = held.as_slice::<i64>()?.iter().map(row).collect();
    let Some(wanted) = wanted else { return Ok(None) };
    let Some(rows) = late::rows(&matrix.tensor, &wanted)? else { return Ok(None) };
    let order: Vec<i64> = (0..).take(wanted.len()).collect();
    let order = Tensor::from_shape(places.tensor.shape(), &order)?;
    Ok(Some(vec![Some(TypedTensor::new(matrix.ty, rows)?), Some(TypedTensor::native(order)?)]))
}

#[cfg(test)]
mod tests {
    use tract_onnx::pb::NodeProto;

    use super::*;

    #[test]
    fn only_a_large_matrix_is_in_blocks() {
        let typed =
            |shape: &[usize]| TypedTensor::native(Tensor::zero::<f32>(shape).expect("zeros"));
        let columns = |op_type, shape: &[usize]| {
            let inputs = [typed(&[3, 2048]), typed(shape)].map(|typed| Some(typed.expect("FLOAT")));
            let node = NodeProto { op_type: String::from(op_type), ..NodeProto::default() };
            columns(&&node, &inputs)
        };
        assert_eq!(columns("MatMul", &[2048, 4032]), None);
        assert_eq!(columns("MatMul", &[2048, 4097]), Some(4032));
        assert_eq!(columns("MatMul", &[1, 2048, 4097]), None);
        assert_eq!(columns("Mul", &[2048, 4097]), None);
    }
}
