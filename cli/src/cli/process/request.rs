//! What a verb asks of a worker.

use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;
use tract_onnx::prelude::TractResult;

use crate::cli::work::engine::Engine;
use crate::cli::work::model::Loader;

/// Work that may panic, run out of stack or of memory, because tract does it on somebody's file.
pub(crate) trait Request: Serialize + DeserializeOwned {
    /// By which a worker knows which request it reads: no two requests share one.
    const NAME: &'static str;

    /// The engine if nobody says. Verbs that check a model have it run node by node: it runs a few
    /// times at most, and every tensor is wanted.
    const ENGINE: Engine = Engine::Plan;

    /// Whether a model runs once, so that a plan which takes longer to make is not worth it.
    const RUNS_ONCE: bool = false;

    /// What the work finds.
    type Answer: Serialize + DeserializeOwned;

    /// Does the work. Only a worker should, for its errors are those of the model or an input, and
    /// it may not survive.
    fn answer(&self, loader: &Loader) -> TractResult<Self::Answer>;

    /// The model that it is about.
    fn model(&self) -> &Path;

    /// The models that run, or the folders that hold them: of these it is told how much memory they
    /// need.
    fn running(&self) -> Vec<&Path> {
        vec![self.model()]
    }

    /// What is looked at, as the user is told while it goes on.
    fn subject(&self) -> &Path {
        self.model()
    }

    /// The files that are read besides those in the model's folder, and the folders whose files may
    /// be.
    fn places(&self) -> Vec<PathBuf> {
        vec![]
    }

    /// What is written: a file, or a folder of files.
    fn output(&self) -> Option<&Path> {
        None
    }
}
