//! What a verb of the command line is, and what it asks of a worker.

use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;
use tract_onnx::prelude::TractResult;

use crate::cli::args::resources::Resources;
use crate::cli::found::status::Status;
use crate::cli::report::terminal::Output;
use crate::cli::work::engine::Engine;
use crate::cli::work::model::Loader;

/// A verb: what can be typed after it, read by clap.
pub(crate) trait Verb {
    /// What it asks of a worker.
    type Request: Request;

    /// Does what was typed, in the process that the user started. Nothing here runs a model.
    ///
    /// # Errors
    ///
    /// When the call, the model or an input cannot be used.
    fn run(self, resources: Resources, output: &mut Output) -> anyhow::Result<Status>;
}

/// Work that may panic, run out of stack or of memory, because tract does it on somebody's file.
pub(crate) trait Request: Serialize + DeserializeOwned {
    /// By which a worker knows which request it reads: no two requests share one.
    const NAME: &'static str;

    /// By what models run if nobody says: what checks a model runs each node a few times at most, and wants every tensor.
    const ENGINE: Engine = Engine::Plan;

    /// What the work finds.
    type Answer: Serialize + DeserializeOwned;

    /// Does the work. Only a worker should, for its errors are those of the model or an input, and
    /// it may not survive.
    fn answer(&self, loader: &Loader) -> TractResult<Self::Answer>;

    /// The model that it is about.
    fn model(&self) -> &Path;

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
