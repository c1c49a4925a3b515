//! Whether a computed tensor is the one that a test case expects, and if not, how far off.

use anyhow::{Context, ensure};
use tract_onnx::prelude::*;
use tract_onnx_cast::{ElementType, Family};

use crate::cli::measure::tolerance::Tolerance;
use crate::cli::measure::value::{coordinates, shown};
use crate::cli::message::counted;
use crate::cli::tensor::elements;

/// What distinguishes two tensors of the type; `None` where nothing does. Without a tolerance they
/// must have the same bits, except that any NaN is any other. Only floating-point types have
/// tolerances.
pub(crate) fn difference(
    ty: ElementType,
    got: &Tensor,
    want: &Tensor,
    tolerance: Option<Tolerance>,
) -> TractResult<Option<String>> {
    if got.shape() != want.shape() {
        return Ok(Some(format!("shape {:?}, expected {:?}", got.shape(), want.shape())));
    }
    let mismatches: Vec<usize> = match (ty.family(), tolerance) {
        (Family::Text, _) => {
            let (got, want) = (texts(got)?, texts(want)?);
            places(got.iter().zip(want).map(|(got, want)| got == want))
        }
        (Family::Float(_), Some(tolerance)) => {
            let (got, want) = (elements::<f64>(ty, got)?, elements::<f64>(ty, want)?);
            places(got.iter().zip(&want).map(|(got, want)| is_near(tolerance, *got, *want)))
        }
        (family, _) => {
            let is_nan = |code| matches!(family, Family::Float(format) if format.is_nan(code));
            let same = |got, want| got == want || (is_nan(got) && is_nan(want));
            places(codes(ty, got)?.zip(codes(ty, want)?).map(|(got, want)| same(got, want)))
        }
    };
    let Some(first) = mismatches.first() else {
        return Ok(None);
    };
    let mut text = format!(
        "{} of {} differ, the first at {:?}: got {}, expected {}",
        mismatches.len(),
        counted(got.len(), "value"),
        coordinates(*first, got.shape()),
        shown(ty, got, *first)?,
        shown(ty, want, *first)?
    );
    if ty.is_float() {
        text += &largest_errors(&mismatches, &elements(ty, got)?, &elements(ty, want)?);
    }
    Ok(Some(text))
}

fn is_near(tolerance: Tolerance, got: f64, want: f64) -> bool {
    let is_same = got == want || (got.is_nan() && want.is_nan());
    is_same || (want.is_finite() && tolerance.allows((got - want).abs(), want))
}

fn places(same: impl Iterator<Item = bool>) -> Vec<usize> {
    same.enumerate().filter(|(_, same)| !same).map(|(place, _)| place).collect()
}

/// The largest absolute and relative error among these places, infinite ones left out.
fn largest_errors(places: &[usize], got: &[f64], want: &[f64]) -> String {
    let (mut absolute, mut relative) = (0f64, 0f64);
    for (got, want) in places.iter().filter_map(|place| got.get(*place).zip(want.get(*place))) {
        let error = (got - want).abs();
        let finite = |x: f64| if x.is_finite() { x } else { 0.0 };
        absolute = absolute.max(finite(error));
        relative = relative.max(finite(error / want.abs()));
    }
    format!("; largest error {absolute:.3e}, relative {relative:.3e}")
}

fn texts(tensor: &Tensor) -> TractResult<&[String]> {
    tensor.try_as_plain_ram()?.as_slice()
}

/// The bit patterns of a tensor that does not hold strings.
fn codes(ty: ElementType, tensor: &Tensor) -> TractResult<impl Iterator<Item = u64>> {
    let width = ty.carrier_bytes().context("strings have no bit patterns")?;
    ensure!(tensor.datum_type() == ty.datum_type(), "{ty} is held in {:?}", ty.datum_type());
    let code = move |element: &[u8]| {
        let is_big = cfg!(target_endian = "big");
        let bytes: &mut dyn Iterator<Item = &u8> =
            if is_big { &mut element.iter() } else { &mut element.iter().rev() };
        bytes.fold(0, |code, byte| code << 8 | u64::from(*byte)) & ty.code_mask()
    };
    Ok(tensor.as_bytes().chunks_exact(width).map(code))
}
