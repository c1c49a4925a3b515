//! Which values there were: the extremes, the special ones, and how many of each magnitude.

use crate::cast::value::{Number, exponent};

/// The exponents that a finite number of any element type can have: from DOUBLE's smallest
/// subnormal to its largest value.
const EXPONENTS: std::ops::Range<i32> = -1074..1024;

/// The values of a tensor, or of several.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Range {
    /// The smallest finite value and the largest; `None` if there was no finite one. 64-bit
    /// integers are rounded to DOUBLE.
    pub limits: Option<(f64, f64)>,
    /// How many were zero, −0 included.
    pub zeros: u64,
    /// How many were NaN.
    pub nans: u64,
    /// How many were infinite.
    pub infinities: u64,
    /// The exponent that the histogram begins with.
    first: i32,
    /// By exponent; no longer than it needs to be at either end.
    histogram: Vec<u64>,
}

impl Range {
    /// How many finite values x, zero excepted, have each ⌊log₂|x|⌋; in ascending order, those with
    /// none left out.
    pub fn histogram(&self) -> impl Iterator<Item = (i32, u64)> {
        let counts = (self.first..).zip(self.histogram.iter().copied());
        counts.filter(|(_, count)| *count > 0)
    }

    pub(super) fn add_number(&mut self, x: Number) {
        match x {
            Number::Real(x) => self.add(x),
            Number::Integer(x) => self.add_integer(x),
        }
    }

    pub(super) fn add(&mut self, x: f64) {
        match x {
            _ if x.is_nan() => self.nans += 1,
            _ if x.is_infinite() => self.infinities += 1,
            _ => {
                self.widen(x, x);
                match exponent(x) {
                    Some(exponent) => self.add_exponent(exponent, 1),
                    None => self.zeros += 1,
                }
            }
        }
    }

    /// Adds an integer, whose DOUBLE may be in the next binade.
    pub(super) fn add_integer(&mut self, x: i128) {
        self.widen(x as f64, x as f64);
        match x.unsigned_abs().checked_ilog2() {
            Some(exponent) => self.add_exponent(exponent as i32, 1),
            None => self.zeros += 1,
        }
    }

    pub(super) fn widen(&mut self, low: f64, high: f64) {
        let (l, h) = self.limits.unwrap_or((low, high));
        // −0 and 0 are the same value.
        self.limits = Some((l.min(low) + 0.0, h.max(high) + 0.0));
    }

    pub(super) fn add_exponent(&mut self, exponent: i32, elements: u64) {
        if elements == 0 || !EXPONENTS.contains(&exponent) {
            return;
        }
        if self.histogram.is_empty() {
            self.first = exponent;
        }
        if exponent < self.first {
            let more = self.first.abs_diff(exponent) as usize;
            self.histogram.splice(..0, std::iter::repeat_n(0, more));
            self.first = exponent;
        }
        let place = exponent.abs_diff(self.first) as usize;
        if self.histogram.len() <= place {
            self.histogram.resize(place + 1, 0);
        }
        if let Some(count) = self.histogram.get_mut(place) {
            *count += elements;
        }
    }

    /// Adds other values.
    pub fn merge(&mut self, other: &Range) {
        if let Some((low, high)) = other.limits {
            self.widen(low, high);
        }
        self.zeros += other.zeros;
        self.nans += other.nans;
        self.infinities += other.infinities;
        for (exponent, count) in other.histogram() {
            self.add_exponent(exponent, count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_is_the_same_in_any_order() {
        let range = |exponents: &[i32]| {
            let mut range = Range::default();
            exponents.iter().for_each(|exponent| range.add_exponent(*exponent, 2));
            range
        };
        let all = range(&[3, -1074, 0, 1023, 3, 1024, -1075]);
        let wanted = [(-1074, 2), (0, 2), (3, 4), (1023, 2)];
        assert_eq!(all.histogram().collect::<Vec<_>>(), wanted);
        assert_eq!(all, range(&[1023, 3, 3, 0, -1074]));
        let mut merged = range(&[3, 1023]);
        merged.merge(&range(&[-1074, 0, 3]));
        assert_eq!(merged, all);
    }
}
