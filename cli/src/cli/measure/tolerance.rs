//! How far values may be off.

use serde::{Deserialize, Serialize};

/// The least signal-to-noise ratio of an output, in decibels, where nobody says how far it may be
/// off: errors of a hundredth of what the output is, of a twentieth, a tenth and a third.
const FLOAT16_SQNR: f64 = 40.0;
const BFLOAT16_SQNR: f64 = 26.0;
const FLOAT8_SQNR: f64 = 20.0;
const INT4_SQNR: f64 = 10.0;

/// The least ratio for weights that are stored in a type, and values of another.
pub(crate) fn least_sqnr(weights: Option<&str>, ty: &str) -> f64 {
    match (weights, ty) {
        (Some("INT4"), _) => INT4_SQNR,
        (Some("FLOAT8E4M3FN"), _) => FLOAT8_SQNR,
        (None, "FLOAT16") => FLOAT16_SQNR,
        _ => BFLOAT16_SQNR,
    }
}

/// What an output is judged by; each part may be missing. All numbers are finite.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Tolerance {
    /// The part of |got − want| ≤ atol + rtol·|want| that grows with the value.
    pub(crate) rtol: Option<f64>,
    /// The part that is the same for every value.
    pub(crate) atol: Option<f64>,
    /// |got − want| in units in the last place of the coarser type.
    pub(crate) ulp: Option<f64>,
    /// The least cosine similarity of the whole output.
    pub(crate) cosine: Option<f64>,
    /// The least signal-to-quantisation-noise ratio of the whole output, in decibels.
    pub(crate) sqnr: Option<f64>,
}

impl Tolerance {
    /// Whether |got − want| ≤ atol + rtol·|want|, where what is missing is 0.
    pub(crate) fn allows(&self, error: f64, want: f64) -> bool {
        error <= self.atol.unwrap_or(0.0) + self.rtol.unwrap_or(0.0) * want.abs()
    }

    /// Whether there are that few units in the last place between the two values.
    pub(crate) fn allows_ulp(&self, ulp: f64) -> bool {
        self.ulp.is_some_and(|most| ulp <= most)
    }

    /// Whether values are judged one by one: a cosine and a ratio of noise on their own judge
    /// nothing but the whole.
    pub(crate) fn judges_elements(&self) -> bool {
        let Tolerance { rtol, atol, ulp, cosine, sqnr } = self;
        let is_whole = cosine.is_some() || sqnr.is_some();
        rtol.is_some() || atol.is_some() || ulp.is_some() || !is_whole
    }

    /// The parts that there are, by the names of their options.
    pub(crate) fn parts(&self) -> impl Iterator<Item = (&'static str, f64)> {
        let Tolerance { rtol, atol, ulp, cosine, sqnr } = *self;
        let all =
            [("rtol", rtol), ("atol", atol), ("ulp", ulp), ("cosine", cosine), ("sqnr", sqnr)];
        all.into_iter().filter_map(|(name, part)| Some((name, part?)))
    }

    /// This one, and for its missing parts the other.
    pub(crate) fn or(self, other: Tolerance) -> Tolerance {
        Tolerance {
            rtol: self.rtol.or(other.rtol),
            atol: self.atol.or(other.atol),
            ulp: self.ulp.or(other.ulp),
            cosine: self.cosine.or(other.cosine),
            sqnr: self.sqnr.or(other.sqnr),
        }
    }

    /// What is wrong with the first number that cannot be a tolerance, or a cosine.
    pub(crate) fn problem(&self) -> Option<String> {
        let Tolerance { rtol, atol, ulp, cosine, sqnr } = *self;
        let sizes = [rtol, atol, ulp].into_iter().flatten().map(|x| (x, check_tolerance(x)));
        let cosines = cosine.into_iter().map(|x| (x, check_cosine(x)));
        let ratios = sqnr.into_iter().map(|x| (x, check_sqnr(x)));
        sizes
            .chain(cosines)
            .chain(ratios)
            .find_map(|(x, checked)| Some(format!("{x}: {}", checked.err()?)))
    }
}

/// Whether a number can be a relative or absolute tolerance, or one in units in the last place.
pub(crate) fn check_tolerance(number: f64) -> Result<(), &'static str> {
    let is_good = number.is_finite() && number >= 0.0;
    is_good.then_some(()).ok_or("a tolerance is a number from 0 up")
}

/// Whether a number can be the cosine of an angle.
pub(crate) fn check_cosine(number: f64) -> Result<(), &'static str> {
    (-1.0..=1.0).contains(&number).then_some(()).ok_or("a cosine is a number from -1 to 1")
}

/// Whether a number can be a ratio of powers in decibels.
pub(crate) fn check_sqnr(number: f64) -> Result<(), &'static str> {
    number.is_finite().then_some(()).ok_or("a ratio in decibels is a finite number")
}
