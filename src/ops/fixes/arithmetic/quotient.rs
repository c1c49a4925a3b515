//! Quotients of floats, which tract makes products with the reciprocal: they are rounded twice, and
//! infinite where the divisor is subnormal (tract-core, `ops/math/mod.rs`, `declutter_div`).
//!
//! It is left to do so where it takes the factor into a product or a norm, which are sums of
//! rounded numbers anyway, and where the reciprocal is exact (`reciprocal`).

use std::ops::DivAssign;

use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_core::ops::binary::BinMiniOp;
use tract_onnx::tract_core::ops::math::Div;

use crate::ops::host::element_wise::binary_like;

/// A quotient of floats, rounded once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Quotient;

/// How many elements that stand one after the other have one divisor, where it is as many for each.
fn period(dividends: &[usize], divisors: &[usize]) -> Option<usize> {
    let ones = divisors.iter().rev().take_while(|size| **size == 1).count();
    let (outer, inner) = dividends.split_at_checked(dividends.len().checked_sub(ones)?)?;
    divisors.starts_with(outer).then(|| inner.iter().product())
}

fn divide<T: Datum + Copy + DivAssign>(
    a: &mut Tensor,
    b: &Tensor,
    period: usize,
) -> TractResult<()> {
    let b = b.try_as_plain_ram()?;
    let mut plain = a.try_as_plain_ram_mut()?;
    let (a, b) = (plain.as_slice_mut::<T>()?, b.as_slice::<T>()?);
    if period == 1 {
        a.iter_mut().zip(b).for_each(|(a, b)| *a /= *b);
    } else {
        for (part, b) in a.chunks_mut(period.max(1)).zip(b) {
            part.iter_mut().for_each(|a| *a /= *b);
        }
    }
    Ok(())
}

impl BinMiniOp for Quotient {
    binary_like!(self, Div);

    fn validation(&self) -> Validation {
        Validation::Rounding
    }

    fn is_commutative(&self) -> bool {
        false
    }

    fn eval_in_a(&self, a: &mut Tensor, b: &Tensor) -> TractResult<()> {
        match (period(a.shape(), b.shape()), a.datum_type()) {
            (Some(period), DatumType::F32) => divide::<f32>(a, b, period),
            (Some(period), DatumType::F64) => divide::<f64>(a, b, period),
            _ => Div.eval_in_a(a, b),
        }
    }

    fn eval_out_of_place(&self, c: &mut Tensor, a: &Tensor, b: &Tensor) -> TractResult<()> {
        Div.eval_out_of_place(c, a, b)
    }
}
