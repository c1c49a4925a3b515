//! The part of an axis that a slice takes.

use tract_onnx::tract_core::internal::*;

/// No axis has as many elements, as tract's symbols are of 32 bits.
const LARGE: i64 = i32::MAX as i64;

const LEAST: i64 = -LARGE;

/// The elements from `low` to before `high`, every `step`th; the last one first where the step is negative.
#[derive(Debug, Clone)]
pub(super) struct Bounds {
    pub(super) low: TDim,
    pub(super) high: TDim,
    /// Not 0.
    pub(super) step: isize,
}

impl Bounds {
    /// How many elements there are.
    pub(super) fn len(&self) -> TDim {
        (self.high.clone() - &self.low).divceil(self.step.unsigned_abs())
    }
}

/// The bounds of a slice of an axis of `dim` elements.
///
/// Of an axis whose size is a symbol, a start and an end within 32 bits are taken for places in it.
pub(super) fn bounds(dim: &TDim, start: &TDim, end: &TDim, step: i64) -> Bounds {
    if let (Some(dim), Some(start), Some(end)) = (dim.as_i64(), start.as_i64(), end.as_i64()) {
        let (low, high) = range(dim.into(), start.into(), end.into(), step);
        let place = |place: i128| TDim::Val(i64::try_from(place).unwrap_or(dim));
        return Bounds { low: place(low), high: place(high), step: limited(step) };
    }
    let before = if step > 0 { TDim::Val(0) } else { TDim::Val(-1) };
    let after = if step > 0 { dim.clone() } else { dim.clone() - 1 };
    let place = |bound: &TDim| match bound.as_i64() {
        Some(LARGE..) => after.clone(),
        Some(..=LEAST) => before.clone(),
        Some(..0) => bound.clone() + dim,
        Some(_) => bound.clone(),
        None if is_from_end(bound) => bound.clone() + dim,
        None => bound.clone(),
    };
    let (start, end) = (place(start), place(end));
    let (low, high) = if step > 0 { (start, end) } else { (end + 1, start + 1) };
    let is_empty = (high.clone() - &low).as_i64().is_some_and(|len| len <= 0);
    let high = if is_empty { low.clone() } else { high };
    Bounds { low, high, step: limited(step) }
}

/// Whether a bound that is a symbol counts from the end of its axis: if it is negative, or is where the symbols are large.
fn is_from_end(bound: &TDim) -> bool {
    if bound.prove_positive_or_zero() {
        return false;
    }
    if bound.prove_negative_or_zero() {
        return true;
    }
    let symbols = bound.symbols();
    let large = symbols
        .iter()
        .fold(SymbolValues::default(), |values, symbol| values.with(symbol, 100_000_000));
    bound.eval(&large).as_i64().is_some_and(|bound| bound < 0)
}

/// A step beyond every axis takes one element, as a shorter one does that tract can add to a place.
fn limited(step: i64) -> isize {
    isize::try_from(step.clamp(LEAST, LARGE)).unwrap_or(if step < 0 {
        isize::MIN / 4
    } else {
        isize::MAX / 4
    })
}

/// The first place of a slice and the one after its last, in the order of the axis.
pub(super) fn range(dim: i128, start: i128, end: i128, step: i64) -> (i128, i128) {
    let place = |bound: i128, least: i128, most: i128| {
        (if bound < 0 { bound + dim } else { bound }).clamp(least, most.max(least))
    };
    // Backwards, a start before the axis is its first place (ONNX, Slice-13: `starts` is clamped to [0, dims-1]).
    let (start, end) = match step > 0 {
        true => (place(start, 0, dim), place(end, 0, dim)),
        false => (place(start, 0.min(dim - 1), dim - 1), place(end, -1, dim - 1)),
    };
    let (low, high) = if step > 0 { (start, end) } else { (end + 1, start + 1) };
    (low, high.max(low))
}
