//! What can be asked of a worker, and of what type the answer is.

use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tract_onnx::prelude::TractResult;

/// Work that may panic, run out of stack or of memory, because tract does it on somebody's file.
pub(crate) trait Request: Serialize + DeserializeOwned {
    /// By which the worker knows which request it reads: no two requests share one.
    const KIND: Kind;

    /// What the work finds.
    type Answer: Serialize + DeserializeOwned;

    /// Does the work. Only a worker should.
    ///
    /// # Errors
    ///
    /// When the model or an input cannot be used.
    fn answer(&self) -> TractResult<Self::Answer>;

    /// The model that it is about.
    fn model(&self) -> &Path;

    /// What is looked at, as the user is told while it goes on.
    fn subject(&self) -> &Path {
        self.model()
    }

    /// The files that are read besides those in the model's folder, and the folders whose files may be.
    fn places(&self) -> Vec<PathBuf>;

    /// What is written: a file, or a folder of files.
    fn output(&self) -> Option<&Path> {
        None
    }
}

/// The kinds of work.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(crate) enum Kind {
    Run,
    Inspect,
    Check,
    Audit,
    Compare,
    Record,
    Fix,
    Keep,
}
