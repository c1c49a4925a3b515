//! What the supervisor asks of the worker, and what it is told.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tract_onnx::prelude::TractResult;

use super::cases::Case;
use super::compare::Tolerance;
use super::{InspectArgs, RunArgs, check, inputs, inspect, run};

/// Work that may panic, run out of stack or of memory.
#[derive(Serialize, Deserialize)]
pub(super) enum Request {
    Run(RunArgs),
    Inspect(InspectArgs),
    Check(Case, Option<Tolerance>),
}

/// What became of it.
#[derive(Serialize, Deserialize)]
pub(super) enum Answer {
    /// Text for standard output.
    Shown(String),
    /// The case's outputs are as expected.
    Passed,
    /// They are not, for this reason.
    Failed(String),
    /// The model or an input cannot be used, for this reason.
    Unusable(String),
}

impl Request {
    /// Does the work.
    pub(super) fn answer(&self) -> TractResult<Answer> {
        match self {
            Request::Run(args) => run::show(args).map(Answer::Shown),
            Request::Inspect(args) => inspect::show(args).map(Answer::Shown),
            Request::Check(case, tolerance) => check::check(case, *tolerance),
        }
    }

    /// The model that it is about.
    pub(super) fn model(&self) -> &Path {
        match self {
            Request::Run(args) => &args.model,
            Request::Inspect(args) => &args.model,
            Request::Check(case, _) => &case.model,
        }
    }

    /// The files that are read, and the folders whose files may be.
    pub(super) fn places(&self) -> Vec<PathBuf> {
        let folder = self.model().parent().filter(|folder| !folder.as_os_str().is_empty());
        let mut places = vec![folder.unwrap_or(Path::new(".")).into()];
        match self {
            Request::Run(args) => places.extend(args.inputs.iter().map(|i| inputs::file_of(i))),
            Request::Inspect(_) => {}
            Request::Check(case, _) => places.push(case.set.clone()),
        }
        places
    }
}
