//! A reduction at work.

use std::path::{Path, PathBuf};
use std::time::Instant;

use serde::{Deserialize, Serialize};
use tract_onnx::prelude::*;

use super::{of_command, pair};
use crate::cli::args::input::InputArgs;
use crate::cli::process::command::Check;
use crate::cli::process::request::Request;
use crate::cli::verb::compare::CompareRequest;
use crate::cli::work::engine::Engine;
use crate::cli::work::model::Loader;

/// What is to be reduced.
#[derive(Serialize, Deserialize)]
pub(crate) struct ReduceRequest {
    /// Where the case is written.
    pub(super) output: PathBuf,
    pub(super) of: Of,
}

/// A pair of models that a comparison tells apart, or a model that a command fails on.
#[derive(Serialize, Deserialize)]
pub(super) enum Of {
    Pair(Box<CompareRequest>),
    Command(Box<OneRequest>),
}

/// A model that a command fails on.
#[derive(Serialize, Deserialize)]
pub(super) struct OneRequest {
    pub(super) model: PathBuf,
    pub(super) input: InputArgs,
    pub(super) check: Check,
}

/// What became of it, as `--json` prints it.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Reduced {
    /// The model; of a pair the converted one.
    pub(super) model: String,
    pub(super) reference: Option<String>,
    /// How many nodes it has, those in bodies and functions included.
    pub(super) nodes: usize,
    /// How often models, parts or the command were run.
    pub(super) runs: usize,
    /// How many of these were of further sets of inputs, to find the one that shows it most.
    #[serde(skip)]
    pub(super) of_sets: usize,
    pub(super) seconds: f64,
    /// The cases that were written, the gravest first.
    pub(super) cases: Vec<ReducedCase>,
    /// Why there is none.
    pub(super) problem: Option<String>,
    pub(super) notes: Vec<String>,
}

/// A case that was written.
#[derive(Serialize, Deserialize)]
pub(crate) struct ReducedCase {
    pub(super) folder: String,
    /// The node of the whole model that is blamed; of a command's case the last node.
    pub(super) node: String,
    pub(super) op: String,
    /// `overflow`, `nan`, `shape`, `tolerance`, `broken`, `imprecise` or `command`.
    pub(super) kind: String,
    /// What is wrong, in words.
    pub(super) finding: String,
    /// The nodes that are left, each with its operator.
    pub(super) left: Vec<(String, String)>,
    pub(super) inputs: usize,
    pub(super) bytes: u64,
}

impl Reduced {
    /// The runs that count for the first case.
    pub(super) fn counted(&self) -> usize {
        self.runs.saturating_sub(self.of_sets)
    }
}

impl Request for ReduceRequest {
    const NAME: &'static str = "reduce";

    const ENGINE: Engine = Engine::Nodes;

    type Answer = Reduced;

    fn answer(&self, loader: &Loader) -> TractResult<Reduced> {
        let start = Instant::now();
        let mut reduced = match &self.of {
            Of::Pair(request) => pair::reduce(loader, request, &self.output)?,
            Of::Command(request) => of_command::reduce(loader, request, &self.output)?,
        };
        reduced.seconds = start.elapsed().as_secs_f64();
        Ok(reduced)
    }

    fn model(&self) -> &Path {
        match &self.of {
            Of::Pair(request) => &request.reference,
            Of::Command(request) => &request.model,
        }
    }

    fn subject(&self) -> &Path {
        match &self.of {
            Of::Pair(request) => &request.converted,
            Of::Command(request) => &request.model,
        }
    }

    fn places(&self) -> Vec<PathBuf> {
        match &self.of {
            Of::Pair(request) => request.places(),
            Of::Command(request) => request.input.files().chain([request.model.clone()]).collect(),
        }
    }

    fn output(&self) -> Option<&Path> {
        Some(&self.output)
    }
}
