//! Packed weights of few bits, FLOAT while a product of many columns runs: its kernels ask for each
//! panel again for every few columns, and to widen it takes about as long as to multiply it by
//! these.

use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_core::tract_linalg::mmm::{MMMInputValue, PackedMatrixStorage};

use crate::ops::host::element_wise::typed_op;
use crate::panels::Panels;

/// A product of no more columns asks for each panel once or twice.
const FEW: usize = 8;
/// Of no more columns weights that do not stay in the cache are widened a panel at a time: to write
/// and to read them takes longer.
const FEW_OF_LARGE: usize = 48;
/// Larger weights do not stay in the cache.
const LARGE: usize = 1 << 20;

/// Passes the packed weights that are its first input on, FLOAT where the packed operand that is
/// its second has many columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Widen;

typed_op!(Widen, "WidenWeights");

impl EvalOp for Widen {
    op_out_of_plan!();

    fn eval(&self, _: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let (weights, other) = args_2!(inputs);
        let packed = weights.try_storage_as::<PackedMatrixStorage>()?.value();
        let others = other.try_storage_as::<PackedMatrixStorage>()?.values();
        let columns: usize = others.iter().map(|other| other.mn()).sum();
        let few =
            if packed.k() * packed.mn() * size_of::<f32>() > LARGE { FEW_OF_LARGE } else { FEW };
        let Some(panels) = packed.downcast_ref::<Panels>().filter(|_| columns > few) else {
            return Ok(tvec!(weights));
        };
        let widened: Box<dyn MMMInputValue> = Box::new(panels.widened()?);
        let storage = PackedMatrixStorage::new_batched(weights.shape(), tvec![widened]);
        Ok(tvec!(storage.into_tensor(f32::datum_type()).into_tvalue()))
    }
}

impl TypedOp for Widen {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let [weights, _] = inputs else { bail!("has {} inputs, not 2", inputs.len()) };
        Ok(tvec!(weights.without_value()))
    }

    as_op!();
}
