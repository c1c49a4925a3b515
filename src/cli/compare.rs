//! Whether a computed tensor is the expected one, and if not, how far off.

use anyhow::{Context, ensure};
use serde::{Deserialize, Serialize};
use tract_onnx::prelude::*;
use tract_onnx_cast::{Conversion, ElementType, Family, Rules};

use super::show;

/// How far a floating-point value may be off: |got − want| ≤ atol + rtol·|want|.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Tolerance {
    pub(super) rtol: f64,
    pub(super) atol: f64,
}

impl Tolerance {
    fn allows(self, got: f64, want: f64) -> bool {
        let near = || (got - want).abs() <= self.atol + self.rtol * want.abs();
        got == want || (got.is_nan() && want.is_nan()) || (want.is_finite() && near())
    }
}

/// Reads `--rtol` or `--atol`.
pub(super) fn parse_tolerance(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().map_err(|error| error.to_string())?;
    let is_one = number.is_finite() && number >= 0.0;
    is_one.then_some(number).ok_or_else(|| "a tolerance is a number from 0 up".into())
}

/// What distinguishes two tensors of the type; `None` where nothing does. Without a tolerance they
/// must have the same bits, except that any NaN is any other. Only floating-point types have
/// tolerances.
pub(super) fn difference(
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
            let (got, want) = (doubles(ty, got)?, doubles(ty, want)?);
            places(got.iter().zip(&want).map(|(got, want)| tolerance.allows(*got, *want)))
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
    let shown = |tensor: &Tensor| -> TractResult<String> {
        let value = show::values(ty, tensor, *first..first + 1)?;
        Ok(value.first().map(ToString::to_string).unwrap_or_default())
    };
    let mut text = format!(
        "{} of {} values differ, the first at {:?}: got {}, expected {}",
        mismatches.len(),
        got.len(),
        coordinates(*first, got.shape()),
        shown(got)?,
        shown(want)?
    );
    if matches!(ty.family(), Family::Float(_)) {
        text += &largest_errors(&mismatches, &doubles(ty, got)?, &doubles(ty, want)?);
    }
    Ok(Some(text))
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

/// The coordinates of an element, given its place in row-major order.
pub(super) fn coordinates(place: usize, shape: &[usize]) -> Vec<usize> {
    let mut rest = place;
    let mut reversed: Vec<usize> = vec![];
    for size in shape.iter().rev() {
        reversed.push(rest % size.max(&1));
        rest /= size.max(&1);
    }
    reversed.into_iter().rev().collect()
}

/// The exact values of a floating-point tensor.
fn doubles(ty: ElementType, tensor: &Tensor) -> TractResult<Vec<f64>> {
    let doubles = Conversion::new(ty, ElementType::Double, Rules::default()).run(tensor)?;
    Ok(doubles.try_as_plain_ram()?.as_slice()?.to_vec())
}

fn texts(tensor: &Tensor) -> TractResult<&[String]> {
    tensor.try_as_plain_ram()?.as_slice()
}

/// The bit patterns of a tensor that does not hold strings.
fn codes(ty: ElementType, tensor: &Tensor) -> TractResult<impl Iterator<Item = u64>> {
    let width = ty.carrier_bytes().context("strings have no bit patterns")?;
    ensure!(tensor.datum_type() == ty.datum_type(), "{ty} is held in {:?}", ty.datum_type());
    let code = move |element: &[u8]| {
        let bytes: &mut dyn Iterator<Item = &u8> = match cfg!(target_endian = "big") {
            true => &mut element.iter(),
            false => &mut element.iter().rev(),
        };
        bytes.fold(0, |code, byte| code << 8 | u64::from(*byte)) & ty.code_mask()
    };
    Ok(tensor.as_bytes().chunks_exact(width).map(code))
}
