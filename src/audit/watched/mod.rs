//! What a probe looks at, and how it is counted: a cast, or a `QuantizeLinear`.
//!
//! What a quantiser makes of x is seen by what a `DequantizeLinear` with the same scale and zero
//! point makes of y again. The outcomes and errors are those of that number in place of x, but an x
//! beyond the reach of y that became a finite number is saturated. A unit in the last place has no
//! meaning there, so no such error is counted.

use std::sync::Arc;

use anyhow::Context;
use tract_onnx::prelude::{TValue, Tensor, TractResult};

use super::counts::{CastStats, Outcome};
use super::measure::{measure_by, measure_conversion, shared};
use crate::cast::element_type::ElementType;
use crate::cast::quantize::layout::ScaleLayout;
use crate::cast::quantize::operator::{Dequantize, Quantize, Quantizer};
use crate::cast::rules::Rules;
use crate::tensor::conversion::Conversion;
use crate::tensor::quantization::Quantization;

/// What makes the output that a probe sees.
#[derive(Debug, Clone)]
pub(super) enum WatchedOp {
    /// A cast of its first input.
    Cast(Conversion),
    /// A quantiser of its first input by a scale and perhaps a zero point.
    Quantizer(Arc<WatchedQuantizer>),
}

/// A `QuantizeLinear`, and what is needed to look at it.
#[derive(Debug)]
pub(super) struct WatchedQuantizer {
    op: Quantize,
    axis: i64,
    block_size: usize,
    quantize: Quantization,
    /// From y, by scales of FLOAT, to FLOAT.
    back: Quantization,
}

impl WatchedQuantizer {
    /// `None` of a `DequantizeLinear`.
    pub(super) fn new(
        quantize: &Quantization,
        axis: i64,
        block_size: usize,
    ) -> Option<WatchedQuantizer> {
        let Quantizer::Quantize(op) = quantize.quantizer() else { return None };
        let float = ElementType::Float;
        let back = Quantizer::Dequantize(Dequantize { x: op.y, scale: float, y: float });
        let (back, quantize) = (Quantization::new(back)?, quantize.clone());
        Some(WatchedQuantizer { op, axis, block_size, quantize, back })
    }

    fn measure(&self, inputs: &[TValue], y: &Tensor, threads: usize) -> TractResult<CastStats> {
        let [x, scale, zero_point @ ..] = inputs else { anyhow::bail!("it has an x and a scale") };
        let zero_point = zero_point.first().map(|value| &**value);
        let Quantize { x: from, scale: scale_type, y: to, .. } = self.op;
        let scales = floats(scale_type, scale)?;
        let back = self.back.run(y, &scales, zero_point, self.axis, self.block_size)?;
        let mut stats = measure_by(from, x, ElementType::Float, &back, threads)?;
        stats.errors.ulp = 0.0;

        let layout = ScaleLayout::new(x.shape(), self.axis, self.block_size, scale.shape());
        let layout = layout.map_err(anyhow::Error::msg)?;
        let x = floats(from, x)?;
        let zeros = zero_point.map(|zeros| floats(to, zeros)).transpose()?;
        let [x, back, scales] = [&x, &back, &scales].map(|tensor| view(tensor));
        let (x, back, scales) = (x?, back?, scales?);
        let zeros = zeros.as_ref().map(view).transpose()?.unwrap_or_default();
        let saturated = shared(x.len(), threads, |start, end| {
            let mut beyond = CastStats::default();
            for (index, (x, back)) in x.iter().zip(back).enumerate().take(end).skip(start) {
                if x == back || !(x.is_finite() && back.is_finite()) {
                    continue;
                }
                let scale = layout.scale_of(index);
                let zero = zeros.get(scale).or(zeros.first()).copied().unwrap_or(0.0);
                let quotient = scales.get(scale).map_or(f32::NAN, |scale| x / scale);
                if !quotient.is_nan() && !self.op.reaches(self.in_precision(quotient), zero) {
                    let was = if *back == 0.0 { Outcome::Flushed } else { Outcome::Rounded };
                    beyond.add(was, 1);
                    beyond.cut_off_at = beyond.cut_off_at.max(back.abs().into());
                }
            }
            beyond
        });
        stats.cut_off_at = saturated.cut_off_at;
        stats.saturated_to_zero = saturated.count(Outcome::Flushed);
        for outcome in [Outcome::Flushed, Outcome::Rounded] {
            stats.recount(saturated.count(outcome), outcome, Outcome::Saturated);
        }
        Ok(stats)
    }

    /// A quotient as the operator rounds it before it makes y of it.
    fn in_precision(&self, quotient: f32) -> f32 {
        let (float, precision) = (ElementType::Float, self.op.precision);
        if precision == float {
            return quotient;
        }
        let convert = |from, to, code| {
            crate::cast::scalar::convert(from, to, Rules::default(), code).unwrap_or(code)
        };
        let code = convert(float, precision, quotient.to_bits().into());
        f32::from_bits(convert(precision, float, code) as u32)
    }
}

fn floats(ty: ElementType, tensor: &Tensor) -> TractResult<Tensor> {
    Ok(Conversion::new(ty, ElementType::Float, Rules::default()).run(tensor)?)
}

fn view(tensor: &Tensor) -> TractResult<&[f32]> {
    tensor.try_as_plain_ram()?.as_slice()
}

impl WatchedOp {
    /// The types of the first input and the output.
    pub(super) fn types(&self) -> (ElementType, ElementType) {
        match self {
            WatchedOp::Cast(conversion) => (conversion.source(), conversion.target()),
            WatchedOp::Quantizer(quantizer) => (quantizer.op.x, quantizer.op.y),
        }
    }

    /// How many inputs there are to see.
    pub(super) fn inputs(&self) -> usize {
        match self {
            WatchedOp::Cast(_) => 1,
            WatchedOp::Quantizer(_) => 3,
        }
    }

    /// Makes the output, as the model does.
    pub(super) fn run(&self, inputs: &[TValue]) -> TractResult<Tensor> {
        let x = inputs.first().context("a cast has an input")?;
        match self {
            WatchedOp::Cast(conversion) => Ok(conversion.run(x)?),
            WatchedOp::Quantizer(quantizer) => {
                let WatchedQuantizer { axis, block_size, quantize, .. } = &**quantizer;
                let scale = inputs.get(1).context("a quantiser has a scale")?;
                let zero_point = inputs.get(2).map(|value| &**value);
                Ok(quantize.run(x, scale, zero_point, *axis, *block_size)?)
            }
        }
    }

    /// Counts what was made of inputs, by so many threads.
    pub(super) fn measure(
        &self,
        inputs: &[TValue],
        y: &Tensor,
        threads: usize,
    ) -> TractResult<CastStats> {
        match self {
            WatchedOp::Cast(conversion) => {
                let x = inputs.first().context("a cast has an input")?;
                measure_conversion(conversion, x, y, threads)
            }
            WatchedOp::Quantizer(quantizer) => quantizer.measure(inputs, y, threads),
        }
    }
}

#[cfg(test)]
mod tests;
