//! A reduction at work.

use std::path::{Path, PathBuf};
use std::time::Instant;

use serde::{Deserialize, Serialize};
use tract_onnx::prelude::*;

use super::of_command::OneRequest;
use super::reduced::Reduced;
use super::{of_command, pair};
use crate::cli::output_file::{folder_of, try_folder};
use crate::cli::process::request::Request;
use crate::cli::verb::compare::CompareRequest;
use crate::cli::work::engine::Engine;
use crate::cli::work::model::Loader;

/// What is to be reduced.
#[derive(Serialize, Deserialize)]
pub(crate) struct ReduceRequest {
    /// Where the case is written.
    pub(super) output: PathBuf,
    pub(super) of: ReduceTask,
}

/// A pair of models that a comparison tells apart, or a model that a command fails on.
#[derive(Serialize, Deserialize)]
pub(super) enum ReduceTask {
    Pair(Box<CompareRequest>),
    Command(Box<OneRequest>),
}

impl Request for ReduceRequest {
    const NAME: &'static str = "reduce";

    const ENGINE: Engine = Engine::Nodes;

    type Answer = Reduced;

    fn answer(&self, loader: &Loader) -> TractResult<Reduced> {
        let _made = try_folder(folder_of(&self.output))?;
        let start = Instant::now();
        let mut reduced = match &self.of {
            ReduceTask::Pair(request) => pair::reduce(loader, request, &self.output)?,
            ReduceTask::Command(request) => of_command::reduce(loader, request, &self.output)?,
        };
        reduced.seconds = start.elapsed().as_secs_f64();
        Ok(reduced)
    }

    fn model(&self) -> &Path {
        match &self.of {
            ReduceTask::Pair(request) => &request.reference,
            ReduceTask::Command(request) => &request.model,
        }
    }

    fn running(&self) -> Vec<&Path> {
        match &self.of {
            ReduceTask::Pair(request) => request.running(),
            ReduceTask::Command(_) => vec![],
        }
    }

    fn subject(&self) -> &Path {
        match &self.of {
            ReduceTask::Pair(request) => &request.converted,
            ReduceTask::Command(request) => &request.model,
        }
    }

    fn places(&self) -> Vec<PathBuf> {
        match &self.of {
            ReduceTask::Pair(request) => request.places(),
            ReduceTask::Command(request) => {
                request.input.files().chain([request.model.clone()]).collect()
            }
        }
    }

    fn output(&self) -> Option<&Path> {
        Some(&self.output)
    }
}
