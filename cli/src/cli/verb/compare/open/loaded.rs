//! A model of a comparison, and how it runs node by node.

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::Arc;

use tract_onnx::pb::ModelProto;
use tract_onnx::prelude::*;
use tract_onnx_cast::OnnxTensor;
use tract_onnx_cast::interpreter::Interpreter;

use crate::cli::work::model::Model;
use crate::cli::work::probed::Probed;
use crate::cli::work::spelt::spelt;

/// A model of which the casts are known.
pub(in crate::cli::verb::compare) struct LoadedModel {
    pub(in crate::cli::verb::compare) probed: Probed,
    pub(in crate::cli::verb::compare) path: PathBuf,
    pub(in crate::cli::verb::compare) model: Model,
}

impl LoadedModel {
    /// The model, to be run node by node.
    pub(in crate::cli::verb::compare) fn interpreter(&self) -> TractResult<Interpreter> {
        self.interpreter_of(self.probed.proto.clone())
    }

    fn interpreter_of(&self, proto: ModelProto) -> TractResult<Interpreter> {
        let onnx = self.probed.onnx.clone().with_probes(false);
        Ok(Interpreter::of_proto(onnx, proto, self.probed.folder.as_deref())?)
    }

    /// The model with its products of codes written out, and whether it has any.
    pub(in crate::cli::verb::compare) fn spelt_out(
        &self,
        reference: Option<&ModelProto>,
    ) -> TractResult<(Interpreter, bool)> {
        let spelt = spelt(&self.probed.proto, reference, self.probed.folder.as_deref());
        let is_changed = matches!(spelt, Cow::Owned(_));
        Ok((self.interpreter_of(spelt.into_owned())?, is_changed))
    }

    /// The inputs of a set in the model's types.
    pub(in crate::cli::verb::compare) fn inputs(
        &self,
        tensors: &[Arc<Tensor>],
    ) -> TractResult<Vec<OnnxTensor>> {
        let inputs = self.model.takes.inputs.iter().zip(tensors);
        inputs
            .map(|(input, tensor)| Ok(OnnxTensor::new(input.ty, Tensor::clone(tensor))?))
            .collect()
    }
}
