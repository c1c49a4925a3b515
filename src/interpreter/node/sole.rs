//! Nodes that take no plan of tract's: their results are views of what is there, or are made when
//! they are asked for.

use tract_onnx::prelude::*;
use tract_onnx::tract_core::ops::change_axes::AxisOp;

use crate::interpreter::value::TypedTensor;
use crate::ops::quantize::op::OnnxQuantizer;
use crate::tensor::late;
use crate::tensor::output::with_axis_moved;

/// What a node may do of which tract would make copies.
pub(super) enum SoleOp {
    /// Moves an axis, and to where.
    Moves(usize, usize),
    Dequantizes(Box<OnnxQuantizer>),
}

impl SoleOp {
    /// What a model does of its inputs and of constants, if it does nothing else.
    pub(super) fn of(model: &TypedModel) -> Option<SoleOp> {
        let mut ops = model.nodes.iter().filter(|node| !node.inputs.is_empty());
        let (Some(node), None) = (ops.next(), ops.next()) else { return None };
        if let Some(AxisOp::Move(from, to)) = node.op_as() {
            return Some(SoleOp::Moves(*from, *to));
        }
        node.op_as::<OnnxQuantizer>().map(|op| SoleOp::Dequantizes(Box::new(op.clone())))
    }

    /// What it makes without the plan, if it can.
    pub(super) fn run(&self, inputs: &[Option<TypedTensor>]) -> TractResult<Option<Tensor>> {
        let input = |place: usize| Some(&inputs.get(place)?.as_ref()?.tensor);
        match (self, input(0), input(1)) {
            // tract copies what is shared, and zeroes what it writes.
            (SoleOp::Moves(from, to), Some(x), None) => match late::turned(x) {
                Some(turned) => Ok(Some(turned)),
                None => with_axis_moved(x, *from, *to),
            },
            (SoleOp::Dequantizes(op), Some(x), Some(scale)) => {
                op.late(x, scale, input(2).map(|zero_point| &**zero_point))
            }
            _ => Ok(None),
        }
    }
}
