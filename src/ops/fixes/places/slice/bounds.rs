//! The part of an axis that a slice takes.

use tract_onnx::tract_core::internal::*;

/// No axis has as many elements, as tract's symbols are of 32 bits.
const LARGE: i64 = i32::MAX as i64;

const LEAST: i64 = -LARGE;

/// A place from here on may well be beyond an axis whose size is a symbol; a smaller one is taken
/// to be in it.
const FAR: i64 = 1 << 24;

/// The elements from `low` to before `high`, every `step`th; the last one first where the step is
/// negative.
#[derive(Debug, Clone)]
pub(super) struct SlicePart {
    pub(super) low: TDim,
    pub(super) high: TDim,
    /// Not 0.
    pub(super) step: isize,
}

impl SlicePart {
    /// How many elements there are.
    pub(super) fn len(&self) -> TDim {
        (self.high.clone() - &self.low).divceil(self.step.unsigned_abs())
    }

    /// Whether they are surely places in an axis of `dim` elements, whatever its size turns out to
    /// be.
    pub(super) fn is_within(&self, dim: &TDim) -> bool {
        let is_behind =
            |place: &TDim, end: &TDim| (end.clone() - place).simplify().prove_positive_or_zero();
        self.low.prove_positive_or_zero()
            && is_behind(&self.low, &self.high)
            && is_behind(&self.high, dim)
    }
}

/// The bounds of a slice of an axis of `dim` elements.
///
/// Of an axis whose size is a symbol, a start and an end that are not far from one of its ends are
/// taken for places in it: a shape that is a minimum of a symbol and a small number would be of no
/// use to what follows. If the axis turns out to be shorter, the slice fails when it runs.
/// `is_exact` is for what never runs; an axis of one element is too short for such a guess.
pub(super) fn bounds(dim: &TDim, start: &TDim, end: &TDim, step: i64, is_exact: bool) -> SlicePart {
    if let (Some(dim), Some(start), Some(end)) = (dim.as_i64(), start.as_i64(), end.as_i64()) {
        let (low, high) = range(dim.into(), start.into(), end.into(), step);
        let place = |place: i128| TDim::Val(i64::try_from(place).unwrap_or(dim));
        return SlicePart { low: place(low), high: place(high), step: limited(step) };
    }
    let (low, high) = if step > 0 {
        (AxisPlace::of(start, dim, 0), AxisPlace::of(end, dim, 0))
    } else {
        // The first place is the one after the end. Backwards, a start before the axis is its first
        // place (ONNX, Slice-13).
        (AxisPlace::of(end, dim, 1), AxisPlace::of(start, dim, 1).at_least_one(dim))
    };
    if is_exact || dim.as_i64().is_some_and(|dim| dim <= 1) {
        let clamped = |place: AxisPlace| {
            let within = TDim::Min(vec![place.within(dim, 1), dim.clone()]);
            TDim::Max(vec![within, TDim::Val(0)]).simplify()
        };
        let (low, high) = (clamped(low), clamped(high));
        let high = TDim::Max(vec![high, low.clone()]).simplify();
        return SlicePart { low, high, step: limited(step) };
    }
    let low_dim = low.within(dim, FAR);
    let high_dim = if low.is_behind(&high) { low_dim.clone() } else { high.within(dim, FAR) };
    SlicePart { low: low_dim, high: high_dim, step: limited(step) }
}

/// A place between the elements of an axis whose size is a symbol.
enum AxisPlace {
    /// So many elements from the beginning.
    FromBegin(i64),
    /// So many elements from the end.
    FromEnd(i64),
    Other(TDim),
}

impl AxisPlace {
    /// The place of a bound on an axis of `dim` elements, or the one `after` elements further on.
    fn of(bound: &TDim, dim: &TDim, after: i64) -> AxisPlace {
        match bound.as_i64() {
            Some(LARGE..) => AxisPlace::FromEnd(0),
            Some(..=LEAST) => AxisPlace::FromBegin(0),
            Some(bound @ ..0) => AxisPlace::FromEnd(-bound - after),
            Some(bound) => AxisPlace::FromBegin(bound + after),
            None if is_from_end(bound) => AxisPlace::Other(bound.clone() + dim + after),
            None => AxisPlace::Other(bound.clone() + after),
        }
    }

    /// One element on at least, of an axis that has some.
    fn at_least_one(self, dim: &TDim) -> AxisPlace {
        match self {
            AxisPlace::FromBegin(0) => AxisPlace::FromBegin(1),
            AxisPlace::FromEnd(place @ 1..) => {
                AxisPlace::Other(TDim::Max(vec![dim.clone() - place, TDim::Val(1)]))
            }
            place => place,
        }
    }

    /// Whether there is nothing from this place on to before another.
    fn is_behind(&self, end: &AxisPlace) -> bool {
        match (self, end) {
            (AxisPlace::FromEnd(0), _) | (_, AxisPlace::FromBegin(0)) => true,
            (AxisPlace::FromBegin(begin), AxisPlace::FromBegin(end)) => begin >= end,
            (AxisPlace::FromEnd(begin), AxisPlace::FromEnd(end)) => begin <= end,
            (AxisPlace::Other(begin), AxisPlace::Other(end)) => {
                (end.clone() - begin).as_i64().is_some_and(|len| len <= 0)
            }
            _ => false,
        }
    }

    /// As a dimension, which the axis does not bound where the place is nearer than `far`.
    fn within(&self, dim: &TDim, far: i64) -> TDim {
        match self {
            AxisPlace::FromBegin(place) if *place >= far => {
                TDim::Min(vec![dim.clone(), place.to_dim()])
            }
            AxisPlace::FromBegin(place) => place.to_dim(),
            AxisPlace::FromEnd(place) if *place >= far => {
                TDim::Max(vec![dim.clone() - *place, TDim::Val(0)])
            }
            AxisPlace::FromEnd(place) => dim.clone() - *place,
            AxisPlace::Other(place) => place.clone(),
        }
    }
}

/// Whether a bound that is a symbol counts from the end of its axis: if it is negative, or is where
/// the symbols are large.
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
    // Backwards, a start before the axis is its first place (ONNX, Slice-13: `starts` is clamped to
    // [0, dims-1]).
    let (start, end) = if step > 0 {
        (place(start, 0, dim), place(end, 0, dim))
    } else {
        (place(start, 0.min(dim - 1), dim - 1), place(end, -1, dim - 1))
    };
    let (low, high) = if step > 0 { (start, end) } else { (end + 1, start + 1) };
    (low, high.max(low))
}
