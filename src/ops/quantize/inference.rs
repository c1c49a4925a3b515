//! `QuantizeLinear` and `DequantizeLinear` nodes as tract's loader builds them: the inference op,
//! which becomes an [`OnnxQuantizer`] once types are known.

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_hir::internal::*;

use super::op::{OnnxQuantizer, may_stay_small};
use crate::cast::element_type::ElementType;
use crate::cast::rules::Rules;
use crate::onnx::lowered::quantizer_of;
use crate::onnx::quantizers::QuantizerSpec;
use crate::ops::cast::op::OnnxCast;
use crate::ops::host::element_wise::rules;
use crate::ops::host::hook::Wired;
use crate::ops::host::stock::Built;
use crate::ops::quantize::small_weights::SmallWeights;
use crate::tensor::quantization::Quantization;

/// Builds the inference op of a node: of one that the rewrite has prepared, or, where only the ops
/// were registered, of one as it stands in the file.
pub(crate) fn build(context: &ParsingContext, node: &NodeProto) -> Built {
    // tract says 0 for a model that imports no default domain, which is opset 1.
    let spec = quantizer_of(node, context.onnx_operator_set_version.max(1))?;
    Ok((expand(InferenceQuantizer { spec, small: SmallWeights::of(context) }), vec![]))
}

/// A quantiser whose inputs' tract types are still to be inferred.
#[derive(Debug, Clone)]
struct InferenceQuantizer {
    spec: QuantizerSpec,
    small: SmallWeights,
}

impl InferenceQuantizer {
    fn inputs(&self) -> usize {
        if self.spec.has_zero_point { 3 } else { 2 }
    }

    /// The element type of an input, which tract holds as `datum_type`.
    fn element_type(&self, index: usize, datum_type: DatumType) -> TractResult<ElementType> {
        let refuse = |problem: String| Err(self.spec.error(problem))?;
        match self.spec.exotic[index] {
            Some(ty) if ty.datum_type() != datum_type => {
                refuse(format!("its input of {ty} came as {datum_type:?}"))
            }
            Some(ty) => Ok(ty),
            None => match ElementType::native(datum_type) {
                Some(ty) => Ok(ty),
                None => refuse(format!("tract's {datum_type:?} is no ONNX element type")),
            },
        }
    }

    /// The output's type, from that of the input that decides on it.
    fn output_type(&self, index: usize, datum_type: DatumType) -> TractResult<DatumType> {
        let ty = Some(self.element_type(index, datum_type)?);
        let (scale, zero_point) = if index == 1 { (ty, None) } else { (None, ty) };
        let y = self.spec.inferred_y(scale, zero_point)?;
        Ok(y.map_or(datum_type, ElementType::datum_type))
    }
}

impl Expansion for InferenceQuantizer {
    fn name(&self) -> StaticName {
        self.spec.name().into()
    }

    /// As [`OnnxQuantizer`](super::op::OnnxQuantizer) in a typed model: weights that may stay in
    /// few bits are not folded yet.
    fn runs_out_of_plan(&self) -> bool {
        !may_stay_small(self.spec.quantizes, self.spec.exotic[0])
    }

    rules!(self, [self.inputs(), 1], |s, inputs, outputs| {
        s.equals(&outputs[0].rank, &inputs[0].rank)?;
        s.equals(&outputs[0].shape, &inputs[0].shape)?;
        if let Some(y) = self.spec.inferred_y(None, None)? {
            return s.equals(&outputs[0].datum_type, y.datum_type());
        }
        let decides = if self.spec.quantizes { 2 } else { 1 };
        s.given(&inputs[decides].datum_type, move |s, datum_type| {
            s.equals(&outputs[0].datum_type, self.output_type(decides, datum_type)?)
        })
    });

    fn wire(&self, prefix: &str, model: &mut TypedModel, inputs: &[OutletId]) -> Wired {
        let fact = |index: usize| {
            let outlet = inputs.get(index).context("an input is missing")?;
            model.outlet_fact(*outlet)
        };
        let ty = |index: usize| self.element_type(index, fact(index)?.datum_type);
        let zero_point = if self.spec.has_zero_point { Some(ty(2)?) } else { None };
        let (x, scale) = (ty(0)?, ty(1)?);
        let inputs = self.in_precision(prefix, model, inputs, [x, scale])?;
        let fact = |index: usize| {
            let outlet = inputs.get(index).context("an input is missing")?;
            model.outlet_fact(*outlet)
        };
        let quantizer = self.spec.quantizer(x, scale, zero_point)?;
        let quantization = Quantization::new(quantizer).context("types that the operator has")?;
        let op = OnnxQuantizer::new(&self.spec, quantization).beside_ops_of(model);
        let op = OnnxQuantizer { small: self.small, ..op };
        op.check_shapes(&fact(0)?.shape, &fact(1)?.shape)?;
        if zero_point.is_some() {
            op.check_zero_points(&fact(1)?.shape, fact(2)?)?;
        }
        model.wire_node(prefix, op, &inputs)
    }
}

impl InferenceQuantizer {
    /// The inputs: of an attribute `precision` of half precision floats are rounded to it before
    /// one is divided by the other, as onnx's evaluator has it.
    fn in_precision(
        &self,
        prefix: &str,
        model: &mut TypedModel,
        inputs: &[OutletId],
        types: [ElementType; 2],
    ) -> TractResult<TVec<OutletId>> {
        let mut inputs = TVec::from_slice(inputs);
        let precision = self.spec.precision.filter(|ty| *ty != ElementType::Float);
        for ((input, ty), name) in inputs.iter_mut().zip(types).zip(["x", "scale"]) {
            let is_rounded = |to: &ElementType| *to != ty && ty.is_float();
            let Some(to) = precision.filter(is_rounded) else { continue };
            for (from, to, part) in [(ty, to, "rounded"), (to, ty, "back")] {
                let cast = OnnxCast::new(prefix, from, to, Rules::default()).beside_casts_of(model);
                let made = model.wire_node(format!("{prefix}.{name}-{part}"), cast, &[*input])?;
                *input = *made.first().context("a cast has an output")?;
            }
        }
        Ok(inputs)
    }
}
