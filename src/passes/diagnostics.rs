//! Diagnostics: stop at the first error (loading), or collect all (survey).

use tract_onnx::prelude::TractResult;

use super::casts::finding::Finding;
use super::casts::node::{CastKind, CastNode};
use super::half_in_float::WidenedNode;
use crate::error::Error;
use crate::onnx::quantizers::QuantizerNode;

/// The casts of a model that need not be sound, and what is wrong with it.
#[derive(Debug)]
pub struct Survey {
    pub(super) rows: Vec<CastNode>,
    pub(super) quantizers: Vec<QuantizerNode>,
    pub(super) widened: Vec<WidenedNode>,
    pub(super) findings: Vec<Finding>,
    pub(super) overlooked: Vec<Error>,
    pub(super) problems: Vec<Problem>,
}

impl Survey {
    /// Every `Cast` and `CastLike` that can be made out, in the order of computation.
    pub fn casts(&self) -> impl Iterator<Item = &CastNode> {
        self.rows.iter().filter(|row| matches!(row.kind, CastKind::Cast(_)))
    }

    /// What an audit of the model counts, in the order of computation: every `Cast` and `CastLike`
    /// that can be made out, and, as [`CastKind`] tells, each `QuantizeLinear` and each rounding of
    /// half precision.
    pub fn rows(&self) -> &[CastNode] {
        &self.rows
    }

    /// Every `QuantizeLinear` and `DequantizeLinear`, in the order of computation.
    pub fn quantizers(&self) -> &[QuantizerNode] {
        &self.quantizers
    }

    /// The operators that compute in FLOAT instead of half precision.
    pub fn widened(&self) -> &[WidenedNode] {
        &self.widened
    }

    /// What can be said of casts without running the model, by their places among the
    /// [`rows`](Survey::rows).
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// What is wrong with declared types, which the loader's options had it overlook.
    pub fn overlooked(&self) -> &[Error] {
        &self.overlooked
    }

    /// Why the model cannot be loaded; nothing of one that can, as far as this crate is concerned.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }
}

/// Something wrong with a model.
#[derive(Debug, Clone)]
pub struct Problem {
    error: Error,
    is_of_cast: bool,
}

impl Problem {
    /// What it is.
    pub fn error(&self) -> &Error {
        &self.error
    }

    /// Whether a `Cast` or `CastLike` itself is wrong.
    pub fn is_of_cast(&self) -> bool {
        self.is_of_cast
    }
}

/// What is done with an error.
pub(crate) enum Diagnostics {
    /// The first one ends it all.
    Stop,
    /// All are kept.
    Collect(Vec<Problem>),
}

impl Diagnostics {
    /// What was collected.
    pub(super) fn into_problems(self) -> Vec<Problem> {
        match self {
            Diagnostics::Stop => vec![],
            Diagnostics::Collect(problems) => problems,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        match self {
            Diagnostics::Stop => true,
            Diagnostics::Collect(problems) => problems.is_empty(),
        }
    }

    /// The result; `None` for an error that is collected.
    pub(super) fn take<T>(
        &mut self,
        result: TractResult<T>,
        is_of_cast: bool,
    ) -> TractResult<Option<T>> {
        match (result, self) {
            (Ok(value), _) => Ok(Some(value)),
            (Err(error), Diagnostics::Stop) => Err(error),
            (Err(error), Diagnostics::Collect(problems)) => {
                problems.push(Problem { error: Error::of(error), is_of_cast });
                Ok(None)
            }
        }
    }
}
