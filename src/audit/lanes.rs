//! The loops that count a tile without branching, for FLOAT and for DOUBLE: plain arithmetic on
//! values and their bits, which compilers turn into vector instructions.
//!
//! They stop at anything odd: infinities, NaN, subnormal numbers, results at the end of the
//! target's range. What is left is exact, rounded, truncated or flushed, and the errors are those
//! of values of like magnitude, where a difference is exact.

use super::counts::{CastStats, Outcome};
use super::element::CastPair;
use crate::cast::element_type::{ElementType, Family};
use crate::cast::kernel::level::Level;
use crate::cast::reach::Reach;
use crate::cast::value::{exponent, power_of_two};

/// What the loops need to know of a pair of types.
pub(super) struct Lanes {
    /// What is not exact but for the loops still in order: `None` if nothing is.
    inexact: Option<Outcome>,
    /// The target's smallest normal value; 0 for an integer.
    target_min_normal: f64,
    /// Values of at least this magnitude may have been saturated or wrapped, and so may values up
    /// to `low`.
    end: f64,
    low: f64,
    source_min_normal: f64,
    to_float: bool,
}

/// Counts that are kept in a form that is fast to add to.
pub(super) struct Tally {
    /// By exponent field, four times over, so that equal values in a row do not wait for each
    /// other.
    fields: Box<[[u32; 4]; FIELDS]>,
    /// Elements in `fields`, which must not overflow.
    counted: u32,
    is_double: bool,
}

/// As many as DOUBLE has.
const FIELDS: usize = 2048;

impl Default for Tally {
    fn default() -> Tally {
        Tally { fields: Box::new([[0; 4]; FIELDS]), counted: 0, is_double: false }
    }
}

impl Tally {
    /// Moves the counts to where they belong.
    pub(super) fn finish(&mut self, stats: &mut CastStats) {
        let bias = if self.is_double { 1023 } else { 127 };
        for (field, counts) in self.fields.iter_mut().enumerate() {
            let count = counts.iter().map(|count| u64::from(*count)).sum();
            match field {
                0 => stats.source.zeros += count,
                _ => stats.source.add_exponent(field as i32 - bias, count),
            }
            *counts = [0; 4];
        }
        self.counted = 0;
    }
}

/// Elements that are looked at together; few, for one odd element slows down all of them.
pub(super) const TILE: usize = 512;
/// Magnitudes of a tile are counted one after the other as long as there are no more of them than
/// this, for a comparison of many elements at once is faster than finding each one's place.
const SPAN: usize = 24;

/// What one pass over a tile finds.
pub(super) struct TileCounts {
    odd: bool,
    exact: u32,
    flushed: u32,
    became_subnormal: u32,
    sign_lost: u32,
}

/// A floating-point type that tiles are widened to.
pub(super) trait Lane: Copy {
    const IS_DOUBLE: bool;

    /// Counts outcomes.
    fn find(lanes: &Lanes, x: &[Self], y: &[Self]) -> TileCounts;

    /// Whether one of the errors may be larger than the largest so far.
    fn may_exceed(
        lanes: &Lanes,
        x: &[Self],
        y: &[Self],
        pair: &CastPair,
        stats: &CastStats,
    ) -> bool;

    /// Whether there are infinities, NaN or subnormal numbers.
    fn is_odd(x: &[Self]) -> bool;

    /// The smallest and the largest value, and the exponents.
    fn survey(x: &[Self], fields: &mut [[u32; 4]; FIELDS]) -> (f64, f64);

    fn real(self) -> f64;
}

impl Lanes {
    pub(super) fn new(from: ElementType, to: ElementType) -> Lanes {
        let pair = CastPair::new(from, to);
        let from_float = from.is_float();
        let (inexact, target_min_normal, end) = match pair.target {
            Some(Reach::Float(target)) if target.is_scale => (None, target.min_normal, target.max),
            Some(Reach::Float(target)) => (Some(Outcome::Rounded), target.min_normal, target.max),
            Some(Reach::Integer(target)) if from_float => {
                let end = target.max.min((1 << 53) - 1) as f64;
                (Some(Outcome::Truncated), 0.0, end)
            }
            Some(Reach::Integer(_) | Reach::Bool) | None => (None, 0.0, f64::INFINITY),
        };
        let low = if to.family() == Family::Unsigned { -1.0 } else { f64::NEG_INFINITY };
        let to_float = matches!(pair.target, Some(Reach::Float(_)));
        let source_min_normal = pair.source_min_normal;
        Lanes { inexact, target_min_normal, end, low, source_min_normal, to_float }
    }

    /// Counts a tile, unless it has something odd: then nothing is counted, and the answer is no.
    pub(super) fn count<L: Lane>(
        &self,
        pair: &CastPair,
        x: &[L],
        y: &[L],
        tally: &mut Tally,
        stats: &mut CastStats,
    ) -> bool {
        let found = L::find(self, x, y);
        let inexact = x.len() as u64 - u64::from(found.exact);
        let outcome = match (inexact, self.inexact) {
            _ if found.odd => return false,
            (0, _) => Outcome::Exact,
            (_, None) => return false,
            (_, Some(outcome)) => outcome,
        };
        stats.add(Outcome::Exact, found.exact.into());
        if inexact > 0 {
            let flushed = if self.to_float { u64::from(found.flushed) } else { 0 };
            stats.add(Outcome::Flushed, flushed);
            stats.add(outcome, inexact - flushed);
            if L::may_exceed(self, x, y, pair, stats) {
                self.include_errors(pair, x, y, stats);
            }
        }
        stats.became_subnormal += u64::from(found.became_subnormal);
        stats.sign_lost += u64::from(found.sign_lost);
        Lanes::survey(x, tally, stats);
        true
    }

    /// Raises the largest errors. There are not many elements in a tile that raise them, so most of
    /// the others are passed over a few at a time.
    fn include_errors<L: Lane>(&self, pair: &CastPair, x: &[L], y: &[L], stats: &mut CastStats) {
        const FEW: usize = 32;
        for (x, y) in x.chunks(FEW).zip(y.chunks(FEW)) {
            if L::may_exceed(self, x, y, pair, stats) {
                for (x, y) in x.iter().zip(y) {
                    let (x, y) = (x.real(), y.real());
                    stats.errors.include(pair.errors(x, exponent(x), (x - y).abs()));
                }
            }
        }
    }

    /// Counts the source of a tile alone, unless it has something odd: then nothing is counted, and
    /// the answer is no.
    pub(super) fn count_source<L: Lane>(x: &[L], tally: &mut Tally, stats: &mut CastStats) -> bool {
        let is_odd = L::is_odd(x);
        if !is_odd {
            Lanes::survey(x, tally, stats);
        }
        !is_odd
    }

    fn survey<L: Lane>(x: &[L], tally: &mut Tally, stats: &mut CastStats) {
        if tally.counted > u32::MAX - x.len() as u32 {
            tally.finish(stats);
        }
        tally.counted += x.len() as u32;
        tally.is_double = L::IS_DOUBLE;
        let (low, high) = L::survey(x, &mut tally.fields);
        stats.source.widen(low, high);
    }
}

/// Makes DOUBLE of words that are signed integers, if they all have few enough digits for that.
pub(super) fn doubles_of_signed(words: &mut [u64]) -> bool {
    let sizes = words.iter().fold(0, |all, word| all | (*word as i64).unsigned_abs());
    in_doubles(sizes, words, |word| (word as i64 as f64).to_bits())
}

/// Makes DOUBLE of words that are unsigned integers, if they all have few enough digits for that.
pub(super) fn doubles_of_unsigned(words: &mut [u64]) -> bool {
    let sizes = words.iter().fold(0, |all, word| all | word);
    in_doubles(sizes, words, |word| (word as f64).to_bits())
}

fn in_doubles(sizes: u64, words: &mut [u64], convert: impl Fn(u64) -> u64) -> bool {
    const EXACT: u64 = 1 << 53;
    if sizes < EXACT {
        Level::best().run(
            #[inline(always)]
            || words.iter_mut().for_each(|word| *word = convert(*word)),
        );
    }
    sizes < EXACT
}

/// What one pass over a tile finds of the source.
struct TileScan<K, F> {
    /// The smallest and the largest value, by their keys.
    low: K,
    high: K,
    /// The smallest exponent field that is not 0, and the largest.
    least: F,
    most: F,
    zeros: u32,
    /// How many have the least field, the next, and so on; zeros where there are more than these.
    counts: [u32; SPAN],
}

/// How many of at most a tile's fields are this one.
#[inline(always)]
fn equal<F: ExponentField>(fields: &[F], wanted: F) -> u32 {
    // As many lanes as fill a vector of any level; each counts no further than a tile has rows of
    // them.
    const LANES: usize = 64;
    let mut counts = [0u8; LANES];
    let (rows, rest) = fields.as_chunks::<LANES>();
    for row in rows {
        for (count, field) in counts.iter_mut().zip(row) {
            *count = count.wrapping_add(u8::from(*field == wanted));
        }
    }
    let all = counts.iter().fold(0u16, |all, count| all.wrapping_add(u16::from(*count)));
    u32::from(all) + rest.iter().filter(|field| **field == wanted).count() as u32
}

/// An exponent field.
trait ExponentField: Copy + PartialEq {}

impl ExponentField for u8 {}
impl ExponentField for u16 {}

/// Bits in an order in which integers compare as the numbers do, and back.
macro_rules! key_of {
    ($signed:ident, $bits:ident, $of:expr) => {{
        let bits = $of as $signed;
        bits ^ ((bits >> ($bits::BITS - 1)) & $signed::MAX)
    }};
}

macro_rules! lane {
    ($float:ident, $bits:ident, $signed:ident, $field:ident, $mantissa_bits:literal, $is_double:literal) => {
        impl Lane for $float {
            const IS_DOUBLE: bool = $is_double;

            fn find(lanes: &Lanes, x: &[$float], y: &[$float]) -> TileCounts {
                const SIGN: $bits = 1 << ($bits::BITS - 1);
                let infinity = $float::INFINITY.to_bits();
                let normal = $float::MIN_POSITIVE.to_bits();
                let end = (lanes.end as $float).to_bits();
                let low = lanes.low as $float;
                let target_normal = (lanes.target_min_normal as $float).to_bits();
                let source_normal = (lanes.source_min_normal as $float).to_bits();
                let keeps_zero_sign = $bits::from(lanes.to_float);
                let (odd, exact, flushed, became_subnormal, sign_lost) = Level::best().run(
                    #[inline(always)]
                    || {
                        let (mut odd, mut exact, mut flushed): ($bits, $bits, $bits) = (0, 0, 0);
                        let (mut subnormal, mut sign_lost): ($bits, $bits) = (0, 0);
                        for (x, y) in x.iter().zip(y) {
                            let (xs, ys) = (x.to_bits(), y.to_bits());
                            let (xm, ym) = (xs & !SIGN, ys & !SIGN);
                            let (x_some, y_some) = ($bits::from(xm != 0), $bits::from(ym != 0));
                            let y_none = y_some ^ 1;
                            let same = $bits::from(x == y);
                            let small = $bits::from(xm < normal) & x_some
                                | $bits::from(ym < normal) & y_some;
                            let large = $bits::from(ym >= end) | $bits::from(xm >= end);
                            odd |= $bits::from(xm >= infinity) | $bits::from(ym >= infinity);
                            odd |= small | $bits::from(*x <= low) | large & (same ^ 1);
                            exact = exact.wrapping_add(same);
                            flushed = flushed.wrapping_add(x_some & y_none);
                            subnormal = subnormal.wrapping_add(
                                y_some
                                    & $bits::from(ym < target_normal)
                                    & $bits::from(xm >= source_normal),
                            );
                            let lost = (xs & !ys) >> ($bits::BITS - 1);
                            sign_lost = sign_lost.wrapping_add(lost & (x_some | keeps_zero_sign));
                        }
                        (odd, exact, flushed, subnormal, sign_lost)
                    },
                );
                // There are no more elements in a tile.
                let count = |word: $bits| word as u32;
                TileCounts {
                    odd: odd != 0,
                    exact: count(exact),
                    flushed: count(flushed),
                    became_subnormal: count(became_subnormal),
                    sign_lost: count(sign_lost),
                }
            }

            fn may_exceed(
                lanes: &Lanes,
                x: &[$float],
                y: &[$float],
                pair: &CastPair,
                stats: &CastStats,
            ) -> bool {
                const SIGN: $bits = 1 << ($bits::BITS - 1);
                // What rounding of a product may hide.
                const SLACK: $float = 1.0 + 8.0 * $float::EPSILON;
                // The double of the bias, with an exponent field subtracted, is that of the
                // reciprocal's power of two.
                let fields = $float::MAX.to_bits() >> $mantissa_bits;
                // In units of each value's binade, as long as the target has normal values there.
                let (units, target_normal) = match pair.target {
                    Some(Reach::Float(target)) => (
                        power_of_two(target.mantissa_bits as i32),
                        lanes.target_min_normal as $float,
                    ),
                    _ => (0.0, $float::MIN_POSITIVE),
                };
                let max_ulp = if units > 0.0 { stats.errors.ulp / units } else { f64::INFINITY };
                let limit = |largest: f64| {
                    let near = largest as $float;
                    if f64::from(near) > largest { near.next_down() } else { near }
                };
                let (max_absolute, max_ulp) = (limit(stats.errors.absolute), limit(max_ulp));
                // Rounding, truncating and flushing are off by the value itself at most, and often
                // by just that.
                let max_relative = match stats.errors.relative {
                    1.0.. => $float::INFINITY,
                    relative => limit(relative) / SLACK,
                };
                let target_normal = target_normal.to_bits();
                let exceeds = Level::best().run(
                    #[inline(always)]
                    || {
                        let mut exceeds: $bits = 0;
                        for (x, y) in x.iter().zip(y) {
                            let magnitude = x.to_bits() & !SIGN;
                            let error = (x - y).abs();
                            let field = magnitude.max(target_normal) >> $mantissa_bits;
                            let reciprocal = fields.wrapping_sub(field).max(1) << $mantissa_bits;
                            let ulp = error * $float::from_bits(reciprocal);
                            let relative = max_relative * $float::from_bits(magnitude);
                            exceeds |= $bits::from(error > max_absolute)
                                | $bits::from(error > relative)
                                | $bits::from(ulp > max_ulp);
                        }
                        exceeds
                    },
                );
                exceeds != 0
            }

            fn is_odd(x: &[$float]) -> bool {
                let infinity = $float::INFINITY.to_bits();
                let normal = $float::MIN_POSITIVE.to_bits();
                let odd = Level::best().run(
                    #[inline(always)]
                    || {
                        let mut odd: $bits = 0;
                        for x in x {
                            let magnitude = x.to_bits() << 1 >> 1;
                            odd |= $bits::from(magnitude >= infinity);
                            odd |= $bits::from(magnitude < normal) & $bits::from(magnitude != 0);
                        }
                        odd
                    },
                );
                odd != 0
            }

            fn survey(x: &[$float], fields: &mut [[u32; 4]; FIELDS]) -> (f64, f64) {
                let mut held = [0; TILE];
                let Some(held) = held.get_mut(..x.len()) else { return (0.0, 0.0) };
                let survey = Level::best().run_on(
                    x,
                    held,
                    #[inline(always)]
                    |x, held| {
                        let (mut low, mut high) = ($signed::MAX, $signed::MIN);
                        let (mut least, mut most): ($field, $field) = ($field::MAX, 0);
                        for (x, place) in x.iter().zip(held.iter_mut()) {
                            let key = key_of!($signed, $bits, x.to_bits());
                            low = low.min(key);
                            high = high.max(key);
                            *place = (x.to_bits() << 1 >> (1 + $mantissa_bits)) as $field;
                            // Zeros, whose field is 0, come last: they are counted apart.
                            least = least.min(place.wrapping_sub(1));
                            most = most.max(*place);
                        }
                        let least = least.wrapping_add(1);
                        let mut counts = [0; SPAN];
                        if usize::from(most.saturating_sub(least)) < SPAN {
                            for (field, count) in (least..=most).zip(&mut counts) {
                                *count = equal::<$field>(held, field);
                            }
                        }
                        TileScan { low, high, least, most, zeros: equal::<$field>(held, 0), counts }
                    },
                );
                let value = |of: $signed| {
                    f64::from($float::from_bits(key_of!($signed, $bits, of) as $bits))
                };
                let TileScan { low, high, least, most, zeros, counts } = survey;
                let mut add = |field: $field, lane: usize, more: u32| {
                    let count = &mut fields[usize::from(field) % FIELDS][lane];
                    *count = count.wrapping_add(more);
                };
                add(0, 0, zeros);
                if usize::from(most.saturating_sub(least)) < SPAN {
                    // The largest field is 0 where there are zeros only.
                    let counts = (least..=most).zip(counts).filter(|(field, _)| *field > 0);
                    counts.for_each(|(field, count)| add(field, 0, count));
                } else {
                    // Four in a row do not wait for each other.
                    for (place, field) in held.iter().enumerate().filter(|(_, field)| **field > 0) {
                        add(*field, place % 4, 1);
                    }
                }
                (value(low), value(high))
            }

            fn real(self) -> f64 {
                f64::from(self)
            }
        }
    };
}

lane!(f32, u32, i32, u8, 23, false);
lane!(f64, u64, i64, u16, 52, true);
