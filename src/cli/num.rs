//! Numbers in reports: JSON has no NaN and no infinities, so they are strings there.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A number of a report.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default)]
pub(super) struct Num(pub(super) f64);

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
