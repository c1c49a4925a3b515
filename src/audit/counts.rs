//! What a cast did to the values that passed, in numbers that add up.

use super::range::Range;

/// What became of one element. Every element has exactly one outcome.
///
/// `x` is the source's exact value and `y` the result's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
#[non_exhaustive]
pub enum Outcome {
    /// `y` is the same value: NaN of NaN, an infinity of itself, 0 of −0. What is spelled as STRING
    /// is exact, for the digits read back as the value.
    Exact,
    /// Another value, the nearest by the target's rounding, within its range; not zero.
    Rounded,
    /// A finite `x` beyond the target's range after rounding, and an infinite `y`.
    Overflowed,
    /// `x` is infinite, or beyond the target's range after rounding, and `y` is the end of that
    /// range: float8, float6 and float4. For FLOAT8E8M0 the range is tested before rounding, and
    /// zero and negative values are below it.
    Saturated,
    /// `x` is a value or an infinity, `y` is NaN.
    BecameNan,
    /// `x` is NaN, `y` is a number, for the floating-point target has no NaN.
    NanLost,
    /// `x` is not zero, `y` is, in a floating-point target.
    Flushed,
    /// The integer target holds the integral part, or BOOL the truth, of an `x` that is something
    /// else.
    Truncated,
    /// An integer that does not fit an integer target, of which the low bits are left.
    Wrapped,
    /// From floating point to an integer target that does not hold the integral part: an infinity,
    /// NaN, or out of range. The specification leaves the result undefined.
    Undefined,
}

impl Outcome {
    /// Every outcome, the harmless ones first.
    pub const ALL: [Outcome; 10] = [
        Outcome::Exact,
        Outcome::Rounded,
        Outcome::Truncated,
        Outcome::Flushed,
        Outcome::Saturated,
        Outcome::NanLost,
        Outcome::Wrapped,
        Outcome::Overflowed,
        Outcome::BecameNan,
        Outcome::Undefined,
    ];

    /// The outcome's name in reports: `became_nan`.
    pub const fn name(self) -> &'static str {
        match self {
            Outcome::Exact => "exact",
            Outcome::Rounded => "rounded",
            Outcome::Overflowed => "overflowed",
            Outcome::Saturated => "saturated",
            Outcome::BecameNan => "became_nan",
            Outcome::NanLost => "nan_lost",
            Outcome::Flushed => "flushed",
            Outcome::Truncated => "truncated",
            Outcome::Wrapped => "wrapped",
            Outcome::Undefined => "undefined",
        }
    }

    /// Whether the result has nothing to do with the value any more, so that one such element can
    /// spoil a model's output.
    pub const fn is_damage(self) -> bool {
        matches!(
            self,
            Outcome::Overflowed
                | Outcome::BecameNan
                | Outcome::NanLost
                | Outcome::Wrapped
                | Outcome::Undefined
        )
    }
}

/// The largest errors of a cast, over the elements where source and result are both finite; 0 where
/// there is none.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[non_exhaustive]
pub struct Errors {
    /// The largest |x − y|.
    pub absolute: f64,
    /// The largest |x − y| / |x|, where x is not zero.
    pub relative: f64,
    /// The largest |x − y| in units of the target's last place at x: of the last binade's for
    /// values beyond, of the smallest for values below the normal ones; 1 for integers and BOOL,
    /// and none for STRING.
    pub ulp: f64,
}

impl Errors {
    pub(super) fn include(&mut self, other: Errors) {
        self.absolute = self.absolute.max(other.absolute);
        self.relative = self.relative.max(other.relative);
        self.ulp = self.ulp.max(other.ulp);
    }
}

/// What a cast did to the elements that passed.
///
/// Two of them of the same cast can be merged, in any order, to what both together did.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CastStats {
    /// How many elements had each outcome, by [`Outcome`] as an index.
    outcomes: [u64; Outcome::ALL.len()],
    /// Elements that are subnormal in the target's format and were not in the source's; counted by
    /// their outcome as well.
    pub became_subnormal: u64,
    /// Elements below zero, or −0 on the way to a floating-point type, whose result is a number
    /// without a minus sign; counted by their outcome as well.
    pub sign_lost: u64,
    /// Elements that a quantiser cut off at 0, which is an end of its range: a `Relu` that is part
    /// of it does so. They are counted by their outcome as well.
    pub saturated_to_zero: u64,
    /// The largest magnitude that a quantiser has made of an element beyond its range, as a
    /// `DequantizeLinear` reads it.
    pub cut_off_at: f64,
    /// The largest errors.
    pub errors: Errors,
    /// What the source's values were.
    pub source: Range,
}

impl CastStats {
    /// How many elements passed.
    pub fn elements(&self) -> u64 {
        self.outcomes.iter().sum()
    }

    /// How many elements had an outcome.
    pub fn count(&self, outcome: Outcome) -> u64 {
        self.outcomes.get(outcome as usize).copied().unwrap_or(0)
    }

    /// The outcomes that elements had, by name, and how many had each; the harmless ones first.
    pub fn outcomes(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let counts = Outcome::ALL.map(|outcome| (outcome.name(), self.count(outcome)));
        counts.into_iter().filter(|(_, count)| *count > 0)
    }

    /// How many results have nothing to do with their values: the sum over [`Outcome::is_damage`].
    pub fn damaged(&self) -> u64 {
        Outcome::ALL.into_iter().filter(|o| o.is_damage()).map(|o| self.count(o)).sum()
    }

    /// Of elements that all came through.
    pub(super) fn all_exact(source: Range, elements: u64) -> CastStats {
        let mut stats = CastStats { source, ..CastStats::default() };
        stats.add(Outcome::Exact, elements);
        stats
    }

    pub(super) fn add(&mut self, outcome: Outcome, elements: u64) {
        if let Some(count) = self.outcomes.get_mut(outcome as usize) {
            *count += elements;
        }
    }

    /// Counts elements as of another outcome.
    pub(super) fn recount(&mut self, elements: u64, from: Outcome, to: Outcome) {
        if let Some(count) = self.outcomes.get_mut(from as usize) {
            *count = count.saturating_sub(elements);
        }
        self.add(to, elements);
    }

    /// Adds what the same cast did to other elements.
    pub fn merge(&mut self, other: &CastStats) {
        for (count, others) in self.outcomes.iter_mut().zip(other.outcomes) {
            *count += others;
        }
        self.became_subnormal += other.became_subnormal;
        self.sign_lost += other.sign_lost;
        self.saturated_to_zero += other.saturated_to_zero;
        self.cut_off_at = self.cut_off_at.max(other.cut_off_at);
        self.errors.include(other.errors);
        self.source.merge(&other.source);
    }
}
