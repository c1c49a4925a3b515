//! From sums of products to the quantized output, in one pass.

use tract_onnx::tract_core::internal::*;

use crate::cast::kernel::level::Level;
use crate::ops::host::element_wise::{mapping_apart, typed_op};
use crate::ops::host::hook::Mapped;
use crate::ops::host::saved::save;

/// saturate(round(scale · (sum + bias)) + zero), halves to even: of sums, INT32 or integers in
/// FLOAT; scale and bias are FLOATs and INT32s, one of each, or one for each channel, which are the
/// second axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Requantize {
    /// INT8 or UINT8.
    is_signed: bool,
    zero: i32,
}

/// Adding it rounds to an integer, which is in the low bits of the sum.
const ROUNDS: f32 = 12_582_912.0;

impl Requantize {
    /// The operator, scales and biases of a `QLinearConv` or `QLinearMatMul` of constant scales of
    /// data, weights and output, zero point and bias, the last of which may not be there.
    pub(super) fn of(
        model: &TypedModel,
        channels: usize,
        inputs: &[Option<OutletId>; 5],
    ) -> TractResult<Option<(Requantize, Tensor, Tensor)>> {
        let constant = |input: &Option<OutletId>| {
            input.and_then(|outlet| model.outlet_fact(outlet).ok()?.konst.clone())
        };
        let [data, weights, output, zero, bias] = inputs;
        let (Some(data), Some(weights), Some(output), Some(zero)) =
            (constant(data), constant(weights), constant(output), constant(zero))
        else {
            return Ok(None);
        };
        let ty = zero.datum_type();
        let is_signed = ty == DatumType::I8;
        let is_number = |tensor: &Tensor| tensor.len() == 1;
        if !is_signed && ty != DatumType::U8
            || ![&data, &output, &zero].into_iter().all(|tensor| is_number(tensor))
            || weights.datum_type() != DatumType::F32
            || weights.len() != 1 && weights.len() != channels
        {
            return Ok(None);
        }
        let bias = match (bias, constant(bias)) {
            (None, _) => tensor1(&[0i32]),
            (Some(_), Some(bias)) if bias.len() == channels => {
                bias.cast_to_dt(DatumType::I32)?.into_owned()
            }
            _ => return Ok(None),
        };
        let number = |tensor: &Tensor| tensor.clone().into_shape(&[])?.cast_to_scalar::<f32>();
        let (data, output) = (number(&data)?, number(&output)?);
        let scales = weights
            .to_plain_array_view::<f32>()?
            .iter()
            .map(|w| w * data / output)
            .collect::<Vec<f32>>();
        let zero = zero.cast_to::<i32>()?.into_owned().into_shape(&[])?.cast_to_scalar::<i32>()?;
        Ok(Some((Requantize { is_signed, zero }, tensor1(&scales), bias)))
    }

    /// Of the sums of one channel, each of which `read` makes an INT32.
    #[inline(always)]
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        clippy::cast_possible_wrap,
        reason = "FLOAT is what the definition computes in, and the rest is within a byte"
    )]
    fn channel<T: Copy>(
        self,
        sums: &[T],
        made: &mut [u8],
        (scale, bias): (f32, i32),
        read: impl Fn(T) -> i32,
    ) {
        let (least, most) = if self.is_signed { (-128, 127) } else { (0, 255) };
        let (least, most) = ((least - self.zero) as f32, (most - self.zero) as f32);
        for (made, sum) in made.iter_mut().zip(sums) {
            let x = read(*sum).wrapping_add(bias) as f32 * scale;
            // What is not a number is 0.
            let x = if x.is_nan() { 0.0 } else { x };
            let x = if x < least { least } else { x };
            let x = if x > most { most } else { x };
            let rounded = (x + ROUNDS).to_bits() as i32 - ROUNDS.to_bits() as i32;
            *made = (rounded + self.zero) as u8;
        }
    }

    fn of_sums<T: Copy + Sync>(
        self,
        sums: &[T],
        channels: usize,
        inner: usize,
        [scales, biases]: [&Tensor; 2],
        read: impl Fn(T) -> i32 + Copy,
    ) -> TractResult<Vec<u8>> {
        let (scales, biases) =
            (scales.to_plain_array_view::<f32>()?, biases.to_plain_array_view::<i32>()?);
        let mut made = vec![0; sums.len()];
        let alike = if scales.len() == 1 && biases.len() == 1 { sums.len() } else { inner };
        let parts = made.chunks_mut(alike.max(1)).zip(sums.chunks(alike.max(1)));
        for (place, (made, sums)) in parts.enumerate() {
            let channel = place % channels.max(1);
            let scale = scales.iter().nth(channel % scales.len().max(1)).copied().unwrap_or(0.0);
            let bias = biases.iter().nth(channel % biases.len().max(1)).copied().unwrap_or(0);
            Level::best().run_on(
                sums,
                made,
                #[inline(always)]
                |sums, made| self.channel(sums, made, (scale, bias), read),
            );
        }
        Ok(made)
    }
}

/// An integer below 2^24, which DOUBLE has in the low bits of a sum. A cast, which saturates, is no
/// vector instruction.
#[inline(always)]
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "the low bits are those of the integer"
)]
fn integer(sum: f32) -> i32 {
    (f64::from(sum) + 6_755_399_441_055_744.0).to_bits() as i32
}

typed_op!(Requantize, "Requantize", |op| format!("zero point {}", op.zero));

impl EvalOp for Requantize {
    op_out_of_plan!();

    fn eval(&self, _: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let (sums, scales, biases) = args_3!(inputs);
        let [_, channels, inner @ ..] = sums.shape() else { bail!("sums have no channels") };
        let (channels, inner) = (*channels, inner.iter().product());
        let with: [&Tensor; 2] = [&scales, &biases];
        let plain = sums.try_as_plain_ram()?;
        let made = match sums.datum_type() {
            DatumType::F32 => {
                self.of_sums(plain.as_slice::<f32>()?, channels, inner, with, integer)?
            }
            DatumType::I32 => {
                self.of_sums(plain.as_slice::<i32>()?, channels, inner, with, |sum| sum)?
            }
            other => bail!("sums are INT32 or FLOAT, not {other:?}"),
        };
        let made = if self.is_signed {
            Tensor::from_shape(sums.shape(), bytemuck::cast_slice::<u8, i8>(&made))?
        } else {
            Tensor::from_shape(sums.shape(), &made)?
        };
        Ok(tvec!(made.into_tvalue()))
    }
}

impl TypedOp for Requantize {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let [sums, _, _] = inputs else { bail!("has {} inputs, not 3", inputs.len()) };
        ensure!(sums.rank() >= 2, "sums have no channels");
        let ty = if self.is_signed { DatumType::I8 } else { DatumType::U8 };
        Ok(tvec!(ty.fact(sums.shape.clone())))
    }

    fn axes_mapping(&self, inputs: &[&TypedFact], _outputs: &[&TypedFact]) -> Mapped {
        let is_one = |list: &&TypedFact| list.shape.volume().is_one();
        let channels: &[usize] = if inputs.iter().skip(1).all(is_one) { &[] } else { &[1] };
        mapping_apart(inputs, channels)
    }

    as_op!();
}

save!(
    Requantize,
    "tract_onnx_cast_requantize",
    { is_signed, zero },
    |op| ensure!((-128..=255).contains(&op.zero), "zero point {} is not within a byte", op.zero)
);
