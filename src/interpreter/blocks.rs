//! A product by a large matrix, in blocks of the matrix's columns.
//!
//! tract packs a matrix whole before it multiplies, widened if it is of halves: beside the vocabulary of a language model,
//! which is its largest weight, stands that weight once or twice more. A sum of products takes a row and a column alone, so
//! blocks of columns give the same values.

use tract_onnx::prelude::*;

use super::value::Typed;
use crate::cast::element_type::ElementType;
use crate::onnx::node::is_default_domain;

/// So many bytes a matrix may have, its elements widened to FLOAT, and is packed whole; so many has a block.
const BLOCK: usize = 4 << 20;
/// The columns of a block are a multiple of this, which the rows of tract's kernels divide.
const TILE: usize = 192;

/// The columns of each block in which a node computes, if it is a `MatMul` by a large matrix.
pub(super) fn columns(domain: &str, op_type: &str, inputs: &[Option<Typed>]) -> Option<usize> {
    let [Some(rows), Some(matrix)] = inputs else { return None };
    let is_product = is_default_domain(domain) && op_type == "MatMul" && rows.tensor.rank() > 0;
    let &[depth, columns] = matrix.tensor.shape() else { return None };
    let column = depth.checked_mul(size_of::<f32>())?;
    let most = (BLOCK / column.max(1) / TILE).max(1) * TILE;
    (is_product && columns > most).then_some(most)
}

/// What a product makes of each block of so many columns, side by side.
///
/// # Errors
///
/// Those of `multiply`, which is given the inputs of a block.
pub(super) fn in_blocks(
    inputs: &[Option<Typed>],
    columns: usize,
    mut multiply: impl FnMut(&[Option<Typed>]) -> TractResult<Vec<Typed>>,
) -> TractResult<Vec<Typed>> {
    let [rows, Some(matrix)] = inputs else { return multiply(inputs) };
    let all = matrix.tensor.shape().last().copied().unwrap_or_default();
    let mut whole: Option<(ElementType, Tensor)> = None;
    for start in (0..all).step_by(columns) {
        let end = all.min(start + columns);
        let part = Typed::new(matrix.ty, matrix.tensor.slice(1, start, end)?)?;
        for Typed { ty, tensor } in multiply(&[rows.clone(), Some(part)])? {
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
    whole.into_iter().map(|(ty, tensor)| Typed::new(ty, tensor)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_large_matrix_is_in_blocks() {
        let typed = |shape: &[usize]| Typed::native(Tensor::zero::<f32>(shape).expect("zeros"));
        let columns = |op_type, shape: &[usize]| {
            let inputs = [typed(&[3, 2048]), typed(shape)].map(|typed| Some(typed.expect("FLOAT")));
            columns("", op_type, &inputs)
        };
        assert_eq!(columns("MatMul", &[2048, 384]), None);
        assert_eq!(columns("MatMul", &[2048, 385]), Some(384));
        assert_eq!(columns("MatMul", &[1, 2048, 385]), None);
        assert_eq!(columns("Mul", &[2048, 385]), None);
    }
}
