//! A model of a comparison, and how it runs node by node.

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use tract_onnx::pb::ModelProto;
use tract_onnx::prelude::*;
use tract_onnx_cast::interpreter::Interpreter;
use tract_onnx_cast::{CastOnnx, ElementType, OnnxTensor};

use crate::cli::work::model::Model;
use crate::cli::work::probed::Probed;
use crate::cli::work::spelt::{Spelt, spelt};
use crate::cli::work::weights::constants::Holder;

/// The types of the codes of which constants hold one in each byte.
type Unpacked = Vec<(String, ElementType)>;

/// A model of which the casts are known.
pub(in crate::cli::verb::compare) struct LoadedModel {
    pub(in crate::cli::verb::compare) probed: Probed,
    pub(in crate::cli::verb::compare) path: PathBuf,
    pub(in crate::cli::verb::compare) model: Model,
    /// The model with its products of codes written out, until it runs.
    spelt: Mutex<Option<(ModelProto, Unpacked)>>,
}

impl LoadedModel {
    pub(super) fn new(probed: Probed, path: PathBuf, model: Model) -> LoadedModel {
        LoadedModel { probed, path, model, spelt: Mutex::default() }
    }

    /// The model, to be run node by node.
    pub(in crate::cli::verb::compare) fn interpreter(&self) -> TractResult<Interpreter> {
        match self.model.interpreted() {
            Some(interpreted) => Ok(interpreted.interpreter_by(self.onnx())),
            None => self.interpreter_of(self.probed.proto.clone()),
        }
    }

    fn interpreter_of(&self, proto: ModelProto) -> TractResult<Interpreter> {
        Ok(Interpreter::of_proto(self.onnx(), proto, self.probed.folder.as_deref())?)
    }

    fn onnx(&self) -> CastOnnx {
        self.probed.onnx.clone().with_probes(false)
    }

    /// The model with its products of codes written out, and the types of the codes of which that
    /// holds one in each byte; `None` if it has none.
    pub(in crate::cli::verb::compare) fn spelt_out(
        &self,
        reference: Option<&ModelProto>,
    ) -> TractResult<Option<(Interpreter, Unpacked)>> {
        let kept = self.spelt.lock().unwrap_or_else(PoisonError::into_inner).take();
        let spelt = kept.or_else(|| match self.spelt(reference) {
            Spelt { proto: Cow::Owned(spelt), unpacked } => Some((spelt, unpacked)),
            Spelt { proto: Cow::Borrowed(_), .. } => None,
        });
        let of = |(spelt, unpacked)| Ok((self.interpreter_of(spelt)?, unpacked));
        spelt.map(of).transpose()
    }

    fn spelt(&self, reference: Option<&ModelProto>) -> Spelt<'_> {
        spelt(&self.probed.proto, reference, self.probed.folder.as_deref())
    }

    /// What a function makes of the model with its products of codes written out as the reference
    /// has them, which are kept until [`LoadedModel::spelt_out`] takes them.
    pub(in crate::cli::verb::compare) fn with_spelt<T>(
        &self,
        reference: &ModelProto,
        of: impl FnOnce(&Holder) -> T,
    ) -> T {
        let spelt = self.spelt(Some(reference));
        let Spelt { proto, unpacked } = &spelt;
        let made = of(&Holder { proto, unpacked, ..self.probed.holder() });
        if let Spelt { proto: Cow::Owned(spelt), unpacked } = spelt {
            let kept = Some((spelt, unpacked));
            *self.spelt.lock().unwrap_or_else(PoisonError::into_inner) = kept;
        }
        made
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
