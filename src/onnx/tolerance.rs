//! What a walk does with what is wrong with a model: it ends, or it remembers and goes on to list the casts.

use tract_onnx::prelude::TractResult;

use super::casts::CastNode;
use super::quantizers::QuantizerNode;
use super::widen::WidenedNode;

/// The casts of a model that need not be sound, and what is wrong with it.
#[derive(Debug)]
#[non_exhaustive]
pub struct Survey {
    /// Every `Cast` and `CastLike` that can be made out, in the order of computation.
    pub casts: Vec<CastNode>,
    /// Every `QuantizeLinear` and `DequantizeLinear`.
    pub quantizers: Vec<QuantizerNode>,
    /// The operators that compute in FLOAT instead of half precision.
    pub widened: Vec<WidenedNode>,
    /// Why the model cannot be loaded; empty for one that can, as far as this crate is concerned.
    pub problems: Vec<Problem>,
}

/// Something wrong with a model.
#[derive(Debug)]
#[non_exhaustive]
pub struct Problem {
    /// What it is.
    pub error: anyhow::Error,
    /// Whether a `Cast` or `CastLike` itself is wrong.
    pub is_of_cast: bool,
}

/// What is done with an error.
pub(super) enum Tolerance {
    /// The first one ends the walk.
    None,
    /// All are kept.
    All(Vec<Problem>),
}

impl Tolerance {
    /// What was tolerated.
    pub(super) fn into_problems(self) -> Vec<Problem> {
        match self {
            Tolerance::None => vec![],
            Tolerance::All(problems) => problems,
        }
    }

    /// The result; `None` for an error that is tolerated.
    pub(super) fn take<T>(
        &mut self,
        result: TractResult<T>,
        is_of_cast: bool,
    ) -> TractResult<Option<T>> {
        match (result, self) {
            (Ok(value), _) => Ok(Some(value)),
            (Err(error), Tolerance::None) => Err(error),
            (Err(error), Tolerance::All(problems)) => {
                problems.push(Problem { error, is_of_cast });
                Ok(None)
            }
        }
    }
}
