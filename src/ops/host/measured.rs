//! Shapes that are measured when the model runs.
//!
//! tract takes what it knows of a value's shape for the value of a `Shape` and never makes the
//! value itself. Where it knows no more than what the model declares, as of an `Expand` to
//! dimensions that are data, nobody would notice that the declaration is wrong.

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_hir::internal::*;

use crate::onnx::lowered::{Lowered, MEASURED, OperatorForm};
use crate::onnx::node::int;
use crate::ops::host::checked;
use crate::ops::host::element_wise::{rules, typed_op};
use crate::ops::host::hook::Wired;
use crate::ops::host::stock::Built;

/// Makes an `Onnx` build the nodes that the rewrite has put in the place of a `Shape` or `Size`.
pub(crate) fn register(onnx: &mut tract_onnx::Onnx) {
    onnx.op_register.insert(MEASURED, build);
}

fn build(context: &ParsingContext, node: &NodeProto) -> Built {
    checked::build(context, node, build_measured)
}

fn build_measured(_: &ParsingContext, node: &NodeProto) -> Built {
    let op = ShapeMeasure {
        counts: Lowered::read(node)?
            .is_some_and(|own| own.form == OperatorForm::Measured { counts: true }),
        start: int(node, "start").unwrap_or(0),
        end: int(node, "end"),
    };
    Ok((expand(op), vec![]))
}

/// Makes the dimensions of its input, or the number of its elements, as INT64.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ShapeMeasure {
    /// Whether it is a `Size`.
    counts: bool,
    /// The first dimension, and the one after the last, as attributes of `Shape`.
    start: i64,
    end: Option<i64>,
}

impl ShapeMeasure {
    fn dimensions(&self, rank: usize) -> std::ops::Range<usize> {
        let rank = rank as i64;
        let place = |axis: i64| (if axis < 0 { axis + rank } else { axis }).clamp(0, rank) as usize;
        let start = place(self.start);
        start..self.end.map_or(rank as usize, place).max(start)
    }
}

impl Expansion for ShapeMeasure {
    fn name(&self) -> StaticName {
        "Measured".into()
    }

    rules!(self, [1, 1], |s, inputs, outputs| {
        s.equals(&outputs[0].datum_type, i64::datum_type())?;
        if self.counts {
            return s.equals(&outputs[0].rank, 0);
        }
        s.equals(&outputs[0].rank, 1)?;
        s.given(&inputs[0].rank, |s, rank| {
            s.equals(&outputs[0].shape[0], self.dimensions(rank as usize).len().to_dim())
        })
    });

    fn wire(&self, prefix: &str, model: &mut TypedModel, inputs: &[OutletId]) -> Wired {
        model.wire_node(prefix, self.clone(), inputs)
    }
}

typed_op!(ShapeMeasure, "Measured");

impl EvalOp for ShapeMeasure {
    op_out_of_plan!();

    fn eval(&self, _: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let input = args_1!(inputs);
        if self.counts {
            return Ok(tvec!(tensor0(input.volume() as i64).into_tvalue()));
        }
        let dims = input.shape().get(self.dimensions(input.rank())).unwrap_or_default();
        let dims: Vec<i64> = dims.iter().map(|dim| *dim as i64).collect();
        Ok(tvec!(tensor1(&dims).into_tvalue()))
    }
}

impl TypedOp for ShapeMeasure {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let [input] = inputs else { bail!("has {} inputs, not 1", inputs.len()) };
        Ok(tvec!(if self.counts {
            i64::scalar_fact()
        } else {
            i64::fact([self.dimensions(input.rank()).len()])
        }))
    }

    as_op!();
}
