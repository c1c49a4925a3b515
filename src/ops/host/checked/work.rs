//! How long tract may compute of constants while it loads a model: what takes longer is computed
//! when the model runs.

use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_hir::internal::*;

use super::Checked;
use crate::ops::host::operands::BROADCASTING;

/// Steps for each byte that may be made of constants, for all nodes of a model together: 2³⁴ by
/// default, which is seconds, and more for what has large weights.
pub(super) const STEPS_PER_BYTE: u64 = 1 << 6;

/// Operators beside those of [`BROADCASTING`] that go through each element of the operands and of
/// the results a few times. Of any other, each element of the results may take all of the largest
/// operand.
const LINEAR: &[&str] = &[
    "Abs",
    "BitCast",
    "Cast",
    "CastLike",
    "Ceil",
    "Concat",
    "Constant",
    "ConstantOfShape",
    "CumSum",
    "DepthToSpace",
    "DequantizeLinear",
    "Erf",
    "Exp",
    "Expand",
    "Flatten",
    "Floor",
    "Gather",
    "GatherElements",
    "GatherND",
    "Identity",
    "Log",
    "Neg",
    "Not",
    "OneHot",
    "Pad",
    "QuantizeLinear",
    "Range",
    "Reciprocal",
    "ReduceL1",
    "ReduceL2",
    "ReduceMax",
    "ReduceMean",
    "ReduceMin",
    "ReduceProd",
    "ReduceSum",
    "ReduceSumSquare",
    "Relu",
    "Reshape",
    "Round",
    "ScatterElements",
    "ScatterND",
    "Shape",
    "Sigmoid",
    "Sign",
    "Size",
    "Slice",
    "Softmax",
    "SpaceToDepth",
    "Split",
    "Sqrt",
    "Squeeze",
    "Tanh",
    "Tile",
    "Transpose",
    "Trilu",
    "Unsqueeze",
];

/// Products of matrices: `m·k`, `k·n` and `m·n` elements are the square of `m·k·n` steps.
const PRODUCTS: &[&str] = &["Gemm", "MatMul", "MatMulInteger"];

/// How many elements a fact has, as far as that is known.
fn elements(fact: &InferenceFact) -> Option<u64> {
    let sizes = fact.shape.concretize()?;
    let sizes = sizes.iter().map(|dim| u64::try_from(dim.as_i64()?).ok());
    sizes
        .collect::<Option<TVec<u64>>>()
        .map(|sizes| sizes.iter().fold(1u64, |a, b| a.saturating_mul(*b)))
}

impl Checked {
    /// Whether the node, whose inputs are constants, may be computed while the model is loaded.
    pub(super) fn has_time<'a>(
        &self,
        inputs: impl Iterator<Item = &'a InferenceFact>,
        outputs: impl Iterator<Item = &'a InferenceFact>,
    ) -> bool {
        let given: TVec<u64> = inputs.filter_map(elements).collect();
        let sum = given.iter().fold(0, |a: u64, b| a.saturating_add(*b));
        let made = outputs.map(elements).try_fold(0u64, |a, b| Some(a.saturating_add(b?)));
        let made = made.unwrap_or(sum);
        let operator = &*self.node.op_type;
        let steps = if BROADCASTING.contains(&operator) || LINEAR.contains(&operator) {
            sum.saturating_add(made)
        } else if PRODUCTS.contains(&operator) {
            let volumes = given.iter().take(2).chain([&made]);
            let square = volumes.fold(1u128, |a, b| a.saturating_mul(u128::from(*b)));
            u64::try_from(square.isqrt()).unwrap_or(u64::MAX)
        } else {
            made.max(1).saturating_mul(given.iter().copied().max().unwrap_or(1))
        };
        self.account.spend(steps)
    }
}
