//! Weights that come in while a model runs, as those of a node that is built alone do: what is
//! built is that of all products of its sizes.

use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_core::ops::cast::cast;

use super::constants::low_first;
use super::{CodeMeaning, NBits};
use crate::ops::host::element_wise::typed_op;
use crate::ops::weights::unpack::Unpack;

/// Whether a product is the same by such scales whether its weights are constant or come in: those
/// that are numbers of FLOAT16 may have constants in another format, by which it sums in another
/// order.
pub(crate) fn may_be_input(scales: &Tensor) -> bool {
    let scales = scales.try_as_plain_ram();
    let scales = scales.as_ref().ok().and_then(|scales| scales.as_slice::<f32>().ok());
    let is_half = |scale: &f32| f16::from_f32(*scale).to_f32() == *scale;
    scales.is_some_and(|scales| !scales.iter().all(is_half))
}

impl NBits {
    /// Whether weights come in, of codes that are integers in the order of the columns.
    pub(super) fn comes_in(&self, model: &TypedModel, inputs: &[OutletId]) -> TractResult<bool> {
        let mut places = [Some(1), Some(2), self.zero_points].into_iter().flatten();
        let is_input = |place: usize| -> TractResult<bool> {
            let Some(outlet) = inputs.get(place) else { return Ok(false) };
            Ok(model.outlet_fact(*outlet)?.konst.is_none())
        };
        let is_known = matches!(self.codes, CodeMeaning::Bits(_)) && self.order.is_none();
        Ok(is_known
            && places.try_fold(false, |any, place| Ok::<_, TractError>(any | is_input(place)?))?)
    }

    /// The weights in FLOAT, of codes, scales and perhaps zero points that come in.
    pub(super) fn wire_inputs(
        &self,
        prefix: &str,
        model: &mut TypedModel,
        inputs: &[OutletId],
    ) -> TractResult<OutletId> {
        let CodeMeaning::Bits(bits) = self.codes else {
            return Err(self.refuse("has weights that are not constant").into());
        };
        let (n, k, block, blocks) = (self.n, self.k, self.block, self.blocks());
        let count = n.checked_mul(blocks);
        let bytes = count.and_then(|count| count.checked_mul(block / (8 / bits)));
        let checked = |model: &TypedModel, place: usize, what: &str, expected| {
            let outlet = inputs.get(place).ok_or_else(|| self.refuse(format!("lacks {what}")))?;
            let fact = model.outlet_fact(*outlet)?;
            let shape = fact.shape.as_concrete();
            let shape = shape.ok_or_else(|| self.refuse(format!("has {what} of open sizes")))?;
            self.check_shape(shape, what, expected)?;
            TractResult::Ok((*outlet, fact.datum_type))
        };
        let (codes, ty) = checked(model, 1, "weights", bytes)?;
        ensure!(ty == u8::datum_type(), self.refuse("has weights that are not UINT8"));
        let (scales, _) = checked(model, 2, "scales", count)?;
        let zeros = match self.zero_points {
            None => {
                let op = MiddleCodes { count: n * blocks, code: 1u8 << (bits - 1) };
                model.wire_node(format!("{prefix}.zeros"), op, &[scales])?[0]
            }
            Some(place) => {
                let op = ZeroCodes { n, blocks, bits };
                let (zeros, ty) = checked(model, place, "zero points", n.checked_mul(op.row()))?;
                let dynamic = || self.refuse("has zero points that are not constant");
                ensure!(ty == u8::datum_type(), dynamic());
                model.wire_node(format!("{prefix}.zeros"), op, &[zeros])?[0]
            }
        };
        let name = format!("{prefix}.scales");
        let scales = model.wire_node(name, cast(f32::datum_type()), &[scales])?[0];
        let op = Unpack { n, k, block, bits };
        Ok(model.wire_node(format!("{prefix}.weights"), op, &[codes, scales, zeros])?[0])
    }
}

/// As many zero points as there are scales, a byte each: the middle one of the codes.
#[derive(Debug, Clone, PartialEq, Eq)]
struct MiddleCodes {
    count: usize,
    code: u8,
}

typed_op!(MiddleCodes, "MiddleCodes", |op| format!("{}", op.code));

impl EvalOp for MiddleCodes {
    op_out_of_plan!();

    fn eval(&self, _: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let scales = args_1!(inputs);
        ensure!(scales.len() == self.count, "{self:?} has {} scales", scales.len());
        Ok(tvec!(tensor1(&vec![self.code; scales.len()]).into_tvalue()))
    }
}

impl TypedOp for MiddleCodes {
    fn output_facts(&self, _: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        Ok(tvec!(u8::fact([self.count])))
    }

    as_op!();
}

/// The zero points of N rows of blocks, a byte each, of codes of so many bits, of which each row
/// begins a byte.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ZeroCodes {
    n: usize,
    blocks: usize,
    bits: usize,
}

typed_op!(ZeroCodes, "ZeroCodes", |op| format!("{} bits", op.bits));

impl ZeroCodes {
    /// The bytes of a row.
    fn row(&self) -> usize {
        self.blocks.div_ceil(8 / self.bits)
    }
}

impl EvalOp for ZeroCodes {
    op_out_of_plan!();

    fn eval(&self, _: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let packed = args_1!(inputs);
        let packed = packed.try_as_plain_ram()?;
        let rows = packed.as_slice::<u8>()?.chunks_exact(self.row().max(1));
        let codes = |row| (0..self.blocks).map(move |block| low_first(row, self.bits, block));
        let zeros: Vec<u8> = rows.flat_map(codes).collect();
        ensure!(zeros.len() == self.n * self.blocks, "{self:?} has other zero points");
        Ok(tvec!(tensor1(&zeros).into_tvalue()))
    }
}

impl TypedOp for ZeroCodes {
    fn output_facts(&self, _: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        Ok(tvec!(u8::fact([self.n * self.blocks])))
    }

    as_op!();
}
