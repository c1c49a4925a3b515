//! `DynamicQuantizeLinear`: the scale and the zero point of UINT8 from the least and the greatest
//! element.

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_hir::internal::*;

use crate::cast::element_type::ElementType;
use crate::cast::kernel::level::Level;
use crate::cast::quantize::operator::{Quantize, Quantizer};
use crate::error;
use crate::onnx::node::node_name;
use crate::ops::host::element_wise::{rules, typed_op};
use crate::ops::host::hook::Wired;
use crate::ops::host::label::Label;
use crate::ops::host::saved::{Row, Save, Saved};
use crate::ops::host::stock::Built;
use crate::tensor::quantization::Quantization;

pub(crate) fn build(_: &ParsingContext, node: &NodeProto) -> Built {
    Ok((expand(DynamicQuantize::new(node_name(node))?), vec![]))
}

/// A FLOAT tensor in; its elements as UINT8, their scale and their zero point out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DynamicQuantize {
    /// For messages.
    node: Label,
    quantization: Quantization,
}

/// All of them do the same.
impl DynamicQuantize {
    fn new(node: impl Into<Label>) -> TractResult<DynamicQuantize> {
        let (x, y) = (ElementType::Float, ElementType::Uint8);
        let op = Quantize { x, scale: x, y, precision: x, saturate: true };
        let quantization = Quantization::new(Quantizer::Quantize(op));
        Ok(DynamicQuantize {
            node: node.into(),
            quantization: quantization.context("types of the operator")?,
        })
    }
}

/// The least and the greatest of some numbers and zero; NaN is passed over.
fn range(numbers: &[f32]) -> (f32, f32) {
    const LANES: usize = 16;
    Level::best().run(
        #[inline(always)]
        || {
            let (mut least, mut greatest) = ([0f32; LANES], [0f32; LANES]);
            let (chunks, rest) = numbers.as_chunks::<LANES>();
            let mut last = [0f32; LANES];
            last[..rest.len()].copy_from_slice(rest);
            for chunk in chunks.iter().chain([&last]) {
                for lane in 0..LANES {
                    let x = chunk[lane];
                    least[lane] = if x < least[lane] { x } else { least[lane] };
                    greatest[lane] = if x > greatest[lane] { x } else { greatest[lane] };
                }
            }
            (least.into_iter().fold(0.0, f32::min), greatest.into_iter().fold(0.0, f32::max))
        },
    )
}

/// The scale and the zero point for numbers between two, zero among them.
fn parameters(least: f32, greatest: f32) -> (f32, u8) {
    let scale = (greatest - least) / 255.0;
    let zero_point = (0.0 - least / scale).round_ties_even();
    // Of NaN, which 0/0 is, 0; the cast saturates.
    (scale, zero_point as u8)
}

impl Expansion for DynamicQuantize {
    fn name(&self) -> StaticName {
        "DynamicQuantizeLinear".into()
    }

    fn nboutputs(&self) -> TractResult<usize> {
        Ok(3)
    }

    rules!(self, [1, 3], |s, inputs, outputs| {
        s.equals(&inputs[0].datum_type, f32::datum_type())?;
        s.equals(&outputs[0].rank, &inputs[0].rank)?;
        s.equals(&outputs[0].shape, &inputs[0].shape)?;
        s.equals(&outputs[0].datum_type, u8::datum_type())?;
        s.equals(&outputs[1].datum_type, f32::datum_type())?;
        s.equals(&outputs[1].rank, 0)?;
        s.equals(&outputs[2].datum_type, u8::datum_type())?;
        s.equals(&outputs[2].rank, 0)
    });

    fn wire(&self, prefix: &str, model: &mut TypedModel, inputs: &[OutletId]) -> Wired {
        model.wire_node(prefix, self.clone(), inputs)
    }
}

typed_op!(DynamicQuantize, "OnnxDynamicQuantizeLinear");

impl EvalOp for DynamicQuantize {
    op_out_of_plan!();

    fn eval(&self, _: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let x = args_1!(inputs);
        let (least, greatest) = range(x.try_as_plain_ram()?.as_slice::<f32>()?);
        let (scale, zero_point) = parameters(least, greatest);
        let (scale, zero_point) = (tensor0(scale), tensor0(zero_point));
        let y = self.quantization.run(&x, &scale, Some(&zero_point), 0, 0);
        let y = y.with_context(|| format!("node `{}`", error::shown(&self.node)))?;
        Ok(tvec!(y.into_tvalue(), scale.into_tvalue(), zero_point.into_tvalue()))
    }
}

impl TypedOp for DynamicQuantize {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let [x] = inputs else { bail!("has {} inputs, not 1", inputs.len()) };
        let y = u8::datum_type().fact(x.shape.clone());
        Ok(tvec!(y, f32::scalar_fact(), u8::scalar_fact()))
    }

    as_op!();
}

impl Save for DynamicQuantize {
    const NAME: &'static str = "tract_onnx_cast_dynamic_quantize";

    const OUTPUTS: &'static [&'static str] = &["y", "scale", "zero_point"];

    fn save(&self) -> Saved {
        Saved::default()
    }

    fn restore(node: Label, _: &mut Row) -> TractResult<DynamicQuantize> {
        DynamicQuantize::new(node)
    }
}

#[cfg(test)]
mod tests;
