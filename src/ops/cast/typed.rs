//! A cast as tract's `TypedOp`: facts, what it shares with other elementwise operators,
//! decluttering.

use tract_onnx::tract_core::internal::*;

use super::op::OnnxCast;
use super::{fuse, simplify};
use crate::cast::element_type::ElementType;
use crate::cast::rules::Rules;
use crate::error;
use crate::ops::host::element_wise::{element_wise, typed_op};
use crate::ops::host::hook::Patch;
use crate::ops::weights;

typed_op!(OnnxCast, "OnnxCast", |op| {
    let (from, to) = (op.conversion().source(), op.conversion().target());
    let Rules { saturate, round_mode } = op.conversion().rules();
    let mut info = format!("{from} to {to}");
    if !saturate {
        info.push_str(", saturate=0");
    }
    if to == ElementType::Float8E8M0 {
        info.push_str(&format!(", round_mode={round_mode}"));
    }
    info
});

impl EvalOp for OnnxCast {
    fn eval_out_of_plan(&self, inputs: TVec<TValue>) -> TractResult<Option<TVec<TValue>>> {
        // tract would cast weights anew whenever it looks for what is constant.
        let is_weight = |input: &TValue| weights::may_stay_half(self.conversion(), input.len());
        if inputs.iter().any(is_weight) {
            return Ok(None);
        }
        self.eval(&EvalContext::out_of_plan(), inputs).map(Some)
    }

    fn eval(&self, context: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let input = args_1!(inputs);
        let got = input.datum_type();
        let output = if got == self.conversion().source().datum_type() {
            self.conversion().run_value(input)
        } else if let Some(adapted) = self.adapted_to(got) {
            return adapted.eval(context, tvec!(input));
        } else if self.changes_nothing(got) {
            Ok(input)
        } else {
            self.convert(&input, context.symbols).map(IntoTValue::into_tvalue)
        };
        Ok(tvec!(output.with_context(|| format!("node `{}`", error::shown(self.node())))?))
    }
}

impl TypedOp for OnnxCast {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let [input] = inputs else { bail!("a cast has one input, not {}", inputs.len()) };
        if let Some(adapted) = self.adapted_to(input.datum_type) {
            return adapted.output_facts(inputs);
        }
        let mut fact = self.output_type(input.datum_type).fact(input.shape.clone());
        fact.uniform_tdim = self.uniform_tdim(input);
        if let Some(uniform) = &input.uniform {
            fact.uniform = if self.changes_nothing(uniform.datum_type()) {
                Some(uniform.clone())
            } else {
                // A symbolic value has no number yet, and a string that is none fails when the
                // model runs.
                let converted = self.convert(uniform, &SymbolValues::default());
                converted.ok().map(Tensor::into_arc_tensor)
            };
        }
        Ok(tvec!(fact))
    }

    fn input_roi(
        &self,
        model: &TypedModel,
        node: &TypedNode,
    ) -> TractResult<Option<TVec<Option<TDim>>>> {
        tract_onnx::tract_core::optim::propagate_roi::bubble_roi(model, node)
    }

    fn declutter(&self, model: &TypedModel, node: &TypedNode) -> Patch {
        simplify::simplify(self, model, node)
    }

    fn codegen(&self, model: &TypedModel, node: &TypedNode) -> Patch {
        simplify::pack_weights(self, model, node)
    }

    fn fuse(&self, model: &TypedModel, node: &TypedNode) -> Patch {
        fuse::fuse(self, model, node)
    }

    element_wise!();

    as_op!();
}
