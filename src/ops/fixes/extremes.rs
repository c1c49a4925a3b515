//! The larger and the smaller of two floats, which is NaN where one of them is; tract takes the one
//! that is not NaN.

use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_core::ndarray::Zip;
use tract_onnx::tract_core::ops::binary::BinMiniOp;
use tract_onnx::tract_core::ops::math::{Max, Min};

/// `Max` of floats, or `Min`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KeepNan<const IS_MAX: bool>;

impl<const IS_MAX: bool> KeepNan<IS_MAX> {
    fn of<T: Datum + Copy + PartialOrd>(
        self,
        c: &mut Tensor,
        a: Option<&Tensor>,
        b: &Tensor,
    ) -> TractResult<()> {
        // What is not equal to itself is NaN.
        #[allow(clippy::eq_op, reason = "NaN is no equal of itself")]
        let larger = |a: T, b: T| if a > b || a != a { a } else { b };
        #[allow(clippy::eq_op, reason = "NaN is no equal of itself")]
        let smaller = |a: T, b: T| if a < b || a != a { a } else { b };
        let b = b.to_plain_array_view::<T>()?;
        let mut plain = c.try_as_plain_ram_mut()?;
        let c = plain.to_array_view_mut::<T>()?;
        let b = b.broadcast(c.raw_dim()).context("an operand that can be broadcast")?;
        match a {
            None if IS_MAX => Zip::from(c).and(b).for_each(|c, b| *c = larger(*c, *b)),
            None => Zip::from(c).and(b).for_each(|c, b| *c = smaller(*c, *b)),
            Some(a) => {
                let a = a.to_plain_array_view::<T>()?;
                let a = a.broadcast(c.raw_dim()).context("an operand that can be broadcast")?;
                let zip = Zip::from(c).and(a).and(b);
                if IS_MAX {
                    zip.for_each(|c, a, b| *c = larger(*a, *b));
                } else {
                    zip.for_each(|c, a, b| *c = smaller(*a, *b));
                }
            }
        }
        Ok(())
    }

    fn of_any(self, c: &mut Tensor, a: Option<&Tensor>, b: &Tensor) -> TractResult<()> {
        match c.datum_type() {
            DatumType::F16 => self.of::<f16>(c, a, b),
            DatumType::F32 => self.of::<f32>(c, a, b),
            DatumType::F64 => self.of::<f64>(c, a, b),
            other => bail!("{} of floats, not of {other:?}", self.name()),
        }
    }
}

impl<const IS_MAX: bool> BinMiniOp for KeepNan<IS_MAX> {
    fn name(&self) -> &'static str {
        if IS_MAX { Max.name() } else { Min.name() }
    }

    fn result_datum_type(&self, a: DatumType, b: DatumType) -> TractResult<DatumType> {
        Max.result_datum_type(a, b)
    }

    fn eval_in_a(&self, a: &mut Tensor, b: &Tensor) -> TractResult<()> {
        self.of_any(a, None, b)
    }

    fn eval_out_of_place(&self, c: &mut Tensor, a: &Tensor, b: &Tensor) -> TractResult<()> {
        self.of_any(c, Some(a), b)
    }

    fn cost_per_element(&self, ty: DatumType) -> TVec<(Cost, usize)> {
        Max.cost_per_element(ty)
    }
}
