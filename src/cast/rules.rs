//! The attributes of a `Cast` that change values, as the conversions read them.

#![forbid(unsafe_code)]

use std::fmt;
use std::str::FromStr;

/// The attribute `round_mode`: rounding towards FLOAT8E8M0 ([SEMANTICS §5.4](crate::semantics)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum RoundMode {
    /// To the next power of two at or above; the operator's default.
    #[default]
    Up,
    /// To the next power of two at or below.
    Down,
    /// To the nearer power of two, a tie going up.
    Nearest,
}

impl RoundMode {
    /// The attribute's word.
    pub const fn name(self) -> &'static str {
        match self {
            RoundMode::Up => "up",
            RoundMode::Down => "down",
            RoundMode::Nearest => "nearest",
        }
    }
}

impl fmt::Display for RoundMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A word that names no [`RoundMode`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not \"up\", \"down\" or \"nearest\"")]
#[non_exhaustive]
pub struct UnknownRoundMode;

impl FromStr for RoundMode {
    type Err = UnknownRoundMode;

    fn from_str(word: &str) -> Result<RoundMode, UnknownRoundMode> {
        [RoundMode::Up, RoundMode::Down, RoundMode::Nearest]
            .into_iter()
            .find(|mode| mode.name() == word)
            .ok_or(UnknownRoundMode)
    }
}

/// How values that the target cannot hold are treated. The default is the operator's: saturate,
/// round up.
///
/// Each attribute matters only for the targets it is about: `saturate` for the float8 types,
/// `round_mode` for FLOAT8E8M0 ([SEMANTICS §2](crate::semantics)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Rules {
    /// Out of range becomes the nearest finite value; otherwise infinity or NaN.
    pub saturate: bool,
    /// Rounding towards FLOAT8E8M0.
    pub round_mode: RoundMode,
}

impl Rules {
    /// The rules of a node with both attributes.
    pub const fn new(saturate: bool, round_mode: RoundMode) -> Rules {
        Rules { saturate, round_mode }
    }
}

impl Default for Rules {
    fn default() -> Self {
        Rules { saturate: true, round_mode: RoundMode::Up }
    }
}
