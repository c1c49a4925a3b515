//! Numbers in reports: JSON has no NaN and no infinities, so they are strings there.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A number of a report.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default)]
pub(crate) struct Num(pub(crate) f64);

const NAN: &str = "NaN";
const INFINITY: &str = "Infinity";
const MINUS_INFINITY: &str = "-Infinity";

impl Serialize for Num {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            x if x.is_nan() => serializer.serialize_str(NAN),
            f64::INFINITY => serializer.serialize_str(INFINITY),
            f64::NEG_INFINITY => serializer.serialize_str(MINUS_INFINITY),
            x => serializer.serialize_f64(x),
        }
    }
}

impl<'de> Deserialize<'de> for Num {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Num, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Either {
            Number(f64),
            Word(String),
        }
        match Either::deserialize(deserializer)? {
            Either::Number(x) => Ok(Num(x)),
            Either::Word(word) => match word.as_str() {
                NAN => Ok(Num(f64::NAN)),
                INFINITY => Ok(Num(f64::INFINITY)),
                MINUS_INFINITY => Ok(Num(f64::NEG_INFINITY)),
                _ => Err(serde::de::Error::custom("no number")),
            },
        }
    }
}

/// For people: four digits are enough, and whole numbers stand as they are.
impl fmt::Display for Num {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let magnitude = self.0.abs();
        let text = if self.0.fract() == 0.0 && magnitude < 1e7 {
            format!("{}", self.0)
        } else if !self.0.is_finite() || (1e-3..1e7).contains(&magnitude) {
            let digits = 3 - magnitude.log10().floor().clamp(-4.0, 3.0) as i32;
            format!("{:.*}", digits.unsigned_abs() as usize, self.0)
        } else {
            format!("{:.3e}", self.0)
        };
        f.pad(&text)
    }
}

impl Num {
    /// As it is shown, but rounded up: a tolerance that would pass must still pass when somebody
    /// types what is shown.
    pub(crate) fn at_least(self) -> String {
        let is_enough = |text: &str| text.parse::<f64>().is_ok_and(|shown| shown >= self.0);
        // Rounding to four digits takes away at most 5e-4 of a number. Try to add less first.
        let steps = [0.0, 1e-4, 2e-4, 5e-4, 1e-3].map(|step| self.0 + self.0.abs() * step);
        let shown = steps.iter().map(|number| Num(*number).to_string());
        let whole = std::iter::once(self.0.ceil().to_string());
        shown.chain(whole).find(|text| is_enough(text)).unwrap_or_else(|| self.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_as_enough_is_enough() {
        let mut number = 1.234_449e-7;
        while number < 1e12 {
            let shown = Num(number).at_least();
            let read: f64 = shown.parse().expect("a number");
            assert!(read >= number && read <= number * 1.002, "{number} as {shown}");
            number *= 1.000_37;
        }
        assert_eq!(Num(0.0).at_least(), "0");
        assert_eq!(Num(2.420_61e-6).at_least(), "2.421e-6");
        assert_eq!(Num(1.000_000_1).at_least(), "1.001");
    }
}
