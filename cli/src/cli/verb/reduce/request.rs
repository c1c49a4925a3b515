//! A reduction at work.

use std::path::{Path, PathBuf};
use std::time::Instant;

use serde::{Deserialize, Serialize};
use tract_onnx::prelude::*;

use super::of_command::OneRequest;
use super::reduced::Reduced;
use super::{of_command, pair};
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
