//! Constants, read from the model or from files beside it where a node needs them.

use std::path::{Path, PathBuf};

use tract_onnx::data_resolver::ModelDataResolver;
use tract_onnx::pb::TensorProto;
use tract_onnx::prelude::TractResult;

use super::value::Typed;
use crate::tensor::proto;

/// Where the constants of a model are.
#[derive(Debug)]
pub(super) struct Weights {
    folder: Option<PathBuf>,
}

impl Weights {
    pub(super) fn beside(folder: Option<&Path>) -> Weights {
        Weights { folder: folder.map(Path::to_path_buf) }
    }

    /// Reads a constant.
    ///
    /// # Errors
    ///
    /// When it contradicts its description, or its file does not hold it.
    pub(super) fn read(
        &self,
        tensor: &TensorProto,
        resolver: &dyn ModelDataResolver,
    ) -> TractResult<Typed> {
        let (ty, tensor) = proto::read_with(tensor, self.folder.as_deref(), resolver)?;
        Typed::new(ty, tensor)
    }

    pub(super) fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }
}
