//! `BitCast`: the same bits as elements of another type.

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_hir::internal::*;

use crate::cast::element_type::{ElementType, Family};
use crate::onnx::bit_casts::{BIT_CAST, BitCastSpec};
use crate::onnx::lowered::bit_cast_of;
use crate::ops::host::element_wise::{element_wise, rules, typed_op};
use crate::ops::host::hook::Wired;
use crate::ops::host::saved::save;
use crate::ops::host::stock::Built;

/// Builds the inference op of a node.
pub(crate) fn build(context: &ParsingContext, node: &NodeProto) -> Built {
    let spec = bit_cast_of(node, context.onnx_operator_set_version.max(1))?;
    Ok((expand(InferenceBitCast { spec }), vec![]))
}

/// A `BitCast` whose input's tract type is still to be inferred.
#[derive(Debug, Clone)]
struct InferenceBitCast {
    spec: BitCastSpec,
}

impl Expansion for InferenceBitCast {
    fn name(&self) -> StaticName {
        BIT_CAST.into()
    }

    rules!(self, [1, 1], |s, inputs, outputs| {
        s.equals(&outputs[0].rank, &inputs[0].rank)?;
        s.equals(&outputs[0].shape, &inputs[0].shape)?;
        s.equals(&outputs[0].datum_type, self.spec.to.datum_type())
    });

    fn wire(&self, prefix: &str, model: &mut TypedModel, inputs: &[OutletId]) -> Wired {
        let input = inputs.first().context("an input is missing")?;
        let datum_type = model.outlet_fact(*input)?.datum_type;
        let native = ElementType::native(datum_type).filter(|_| datum_type != DatumType::TDim);
        let from = self.spec.exotic.or(native);
        let from = from.ok_or_else(|| {
            self.spec.error(format!("tract's {datum_type:?} is no ONNX element type"))
        })?;
        self.spec.check(from)?;
        model.wire_node(prefix, OnnxBitCast { from, to: self.spec.to }, inputs)
    }
}

/// Elements of a type as those of another that is as wide: of carriers, the codes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OnnxBitCast {
    from: ElementType,
    to: ElementType,
}

impl OnnxBitCast {
    /// From elements of a type to those of one that is as wide.
    pub(crate) fn new(from: ElementType, to: ElementType) -> OnnxBitCast {
        OnnxBitCast { from, to }
    }
}

typed_op!(OnnxBitCast, "OnnxBitCast", |op| format!("{} as {}", op.from, op.to));

impl EvalOp for OnnxBitCast {
    op_out_of_plan!();

    fn eval(&self, _: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let input = args_1!(inputs);
        let mut output = Tensor::zero_dt(self.to.datum_type(), input.shape())?;
        if output.len() == 0 {
            return Ok(tvec!(output.into_tvalue()));
        }
        let bytes = output.as_bytes_mut();
        let input = input.try_as_plain_ram()?;
        ensure!(
            input.as_bytes().len() == bytes.len(),
            "{} and {} are not as wide",
            self.from,
            self.to
        );
        bytes.copy_from_slice(input.as_bytes());
        let unused = 8u32.saturating_sub(self.to.bits());
        match self.to.family() {
            // Tensors of truth values hold 0 and 1.
            Family::Bool => bytes.iter_mut().for_each(|byte| *byte = u8::from(*byte != 0)),
            Family::Signed if unused > 0 => {
                bytes.iter_mut().for_each(|byte| *byte = ((*byte << unused) as i8 >> unused) as u8);
            }
            _ if unused > 0 => {
                bytes.iter_mut().for_each(|byte| *byte = *byte << unused >> unused);
            }
            _ => {}
        }
        Ok(tvec!(output.into_tvalue()))
    }
}

impl TypedOp for OnnxBitCast {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let [input] = inputs else { bail!("has {} inputs, not 1", inputs.len()) };
        let (got, expected) = (input.datum_type, self.from.datum_type());
        ensure!(got == expected, "its input of {} is {got:?}, not {expected:?}", self.from);
        Ok(tvec!(self.to.datum_type().fact(input.shape.clone())))
    }

    element_wise!();

    as_op!();
}

save!(
    OnnxBitCast,
    "tract_onnx_cast_bit_cast",
    { from, to },
    |op| {
        let is_text = |ty: ElementType| ty.family() == Family::Text;
        ensure!(!is_text(op.from) && !is_text(op.to), "STRING has no bits");
        ensure!(op.from.bits() == op.to.bits(), "{} and {} are not as wide", op.from, op.to);
    }
);
