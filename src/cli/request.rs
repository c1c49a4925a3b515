//! What the supervisor asks of the worker, and what it is told.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tract_onnx::prelude::TractResult;

use super::audit::{self, AuditOrder};
use super::cases::Case;
use super::compare::Tolerance;
use super::inputs::InputArgs;
use super::record::{self, RecordOrder};
use super::versus::{self, CompareOrder};
use super::{InspectArgs, RunArgs, check, inputs, inspect, run};

/// Work that may panic, run out of stack or of memory.
#[derive(Serialize, Deserialize)]
pub(super) enum Request {
    Run(RunArgs),
    Inspect(InspectArgs),
    Check(Case, Option<Tolerance>),
    Audit(AuditOrder),
    Compare(CompareOrder),
    Record(RecordOrder),
}

/// What became of it.
#[derive(Serialize, Deserialize)]
pub(super) enum Answer {
    /// Text for standard output.
    Shown(String),
    /// What was found, in JSON.
    Facts(String),
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
            Request::Audit(order) => facts(&audit::audit(order)?),
            Request::Compare(order) => facts(&versus::compare(order)?),
            Request::Record(order) => record::record(order).map(Answer::Shown),
        }
    }

    /// The model that it is about.
    pub(super) fn model(&self) -> &Path {
        match self {
            Request::Run(args) => &args.model,
            Request::Inspect(args) => &args.model,
            Request::Check(case, _) => &case.model,
            Request::Audit(order) => &order.model,
            Request::Compare(order) => &order.reference,
            Request::Record(order) => &order.model,
        }
    }

    /// The files that are read, and the folders whose files may be.
    pub(super) fn places(&self) -> Vec<PathBuf> {
        let folder = self.model().parent().filter(|folder| !folder.as_os_str().is_empty());
        let mut places = vec![folder.unwrap_or(Path::new(".")).into()];
        match self {
            Request::Run(args) => places.extend(files_of(&args.input)),
            Request::Inspect(_) => {}
            Request::Check(case, _) => places.push(case.set.clone()),
            Request::Audit(order) => {
                places.extend(files_of(&order.input));
                places.extend(order.cases.iter().map(|case| case.set.clone()));
            }
            Request::Compare(order) => {
                places.extend(files_of(&order.input));
                places.extend([&order.reference, &order.converted].map(|path| path.clone()));
                places.extend(order.converted.parent().map(PathBuf::from));
            }
            Request::Record(order) => places.extend(files_of(&order.input)),
        }
        places
    }
}

fn files_of(input: &InputArgs) -> impl Iterator<Item = PathBuf> {
    input.inputs.iter().map(|argument| inputs::file_of(argument))
}

fn facts(facts: &impl Serialize) -> TractResult<Answer> {
    Ok(Answer::Facts(serde_json::to_string(facts)?))
}
