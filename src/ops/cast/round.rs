//! A cast from FLOAT to half precision and the cast back, as one op that holds what it rounds as
//! FLOAT.

use std::fmt;

use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_core::ops::element_wise::{ElementWiseMiniOp, ElementWiseOp};

use super::op::OnnxCast;
use crate::cast::element_type::ElementType;
use crate::cast::kernel::rounding::Rounding;
use crate::ops::host::hook::Patch;
use crate::tensor::rounding::round;

/// FLOATs rounded to half precision, in place where the buffer is nobody else's.
#[derive(Clone)]
struct RoundToHalf {
    to: ElementType,
    rounding: Rounding,
}

impl fmt::Debug for RoundToHalf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RoundToHalf({})", self.to)
    }
}

impl PartialEq for RoundToHalf {
    fn eq(&self, other: &RoundToHalf) -> bool {
        self.to == other.to
    }
}

impl Eq for RoundToHalf {}

impl ElementWiseMiniOp for RoundToHalf {
    fn name(&self) -> String {
        format!("RoundTo{}", self.to)
    }

    fn eval_in_place(&self, tensor: &mut Tensor, _: Option<DatumType>) -> TractResult<()> {
        round(&self.rounding, tensor)
    }
}

/// A cast back to FLOAT after a cast to half precision.
pub(super) fn join(op: &OnnxCast, model: &TypedModel, node: &TypedNode) -> Patch {
    let before = model.node(node.inputs[0].node);
    let Some(first) = before.op_as::<OnnxCast>().filter(|first| is_pair(first, op)) else {
        return Ok(None);
    };
    let to = first.conversion().target();
    let Some(rounding) = Rounding::to(to) else { return Ok(None) };
    let op = ElementWiseOp(Box::new(RoundToHalf { to, rounding }), None);
    TypedModelPatch::replace_single_op(model, node, &before.inputs, op).map(Some)
}

/// Whether every user of a cast to half precision casts it back to FLOAT.
pub(super) fn is_only_rounding(op: &OnnxCast, model: &TypedModel, node: &TypedNode) -> bool {
    let is_output = model.outputs.iter().any(|outlet| outlet.node == node.id);
    let mut users = node.outputs.iter().flat_map(|output| &output.successors);
    let is_back = |user: &InletId| {
        let user = model.node(user.node).op_as::<OnnxCast>();
        user.is_some_and(|user| is_pair(op, user))
    };
    !is_output && users.clone().next().is_some() && users.all(is_back)
}

fn is_pair(first: &OnnxCast, second: &OnnxCast) -> bool {
    let (first, second) = (first.conversion(), second.conversion());
    first.source() == ElementType::Float
        && second.target() == ElementType::Float
        && first.target() == second.source()
        && Rounding::to(first.target()).is_some()
}
