//! The plug: a drop-in for tract's `Onnx` that rewrites each model before tract sees it.

use std::fs;
use std::io::Read;
use std::path::Path;

use anyhow::Context;
use prost::Message;
use tract_onnx::Onnx;
use tract_onnx::model::ParseResult;
use tract_onnx::pb::ModelProto;
use tract_onnx::prelude::*;

use crate::audit::probe;
use crate::error::Error;
use crate::onnx::casts::CastNode;
use crate::onnx::functions::fields;
use crate::onnx::quantizers::QuantizerNode;
use crate::onnx::rewrite::{self, Options, Rewritten};
use crate::ops::open_shapes;
use crate::ops::register::{register, register_private};
use crate::plug::model_types::record_types;

/// tract's ONNX loader with a complete `Cast`: wherever [`tract_onnx::onnx`] stands, this one can.
///
/// ```no_run
/// use tract_onnx::prelude::*;
///
/// let model = tract_onnx_cast::onnx().model_for_path("model.onnx")?.into_optimized()?.into_runnable()?;
/// # TractResult::Ok(())
/// ```
pub fn onnx() -> CastOnnx {
    CastOnnx::from(tract_onnx::onnx())
}

/// A tract `Onnx` and what it takes to load models with all 26 element types.
///
/// Model-local functions are put in place of their calls. Read models by [`Framework`]'s methods of this type: tract's
/// own messages drop a function's attribute defaults and overloads, which these keep.
///
/// Inputs and outputs of an exotic type are carrier tensors (see [`ElementType::datum_type`](crate::ElementType::datum_type));
/// [`input_element_types`](crate::input_element_types) and [`output_element_types`](crate::output_element_types) tell
/// what they mean.
#[derive(Clone)]
pub struct CastOnnx {
    onnx: Onnx,
    probes: bool,
}

/// Adds the plug-in to an `Onnx` that may have operators and options of its own.
impl From<Onnx> for CastOnnx {
    fn from(mut onnx: Onnx) -> CastOnnx {
        register(&mut onnx);
        register_private(&mut onnx);
        CastOnnx { onnx, probes: false }
    }
}

impl CastOnnx {
    /// As [`Onnx::with_ignore_output_shapes`], which is the default: declared shapes are used last of all ([SEMANTICS
    /// §12](crate::semantics)).
    pub fn with_ignore_output_shapes(self, ignore: bool) -> CastOnnx {
        CastOnnx { onnx: self.onnx.with_ignore_output_shapes(ignore), ..self }
    }

    /// As [`Onnx::with_ignore_output_types`]. A declared type that contradicts a Cast is then overlooked.
    pub fn with_ignore_output_types(self, ignore: bool) -> CastOnnx {
        CastOnnx { onnx: self.onnx.with_ignore_output_types(ignore), ..self }
    }

    /// As [`Onnx::with_ignore_value_info`]; no model needs it on account of shapes. A declared type that contradicts a
    /// Cast is then overlooked.
    pub fn with_ignore_value_info(self, ignore: bool) -> CastOnnx {
        CastOnnx { onnx: self.onnx.with_ignore_value_info(ignore), ..self }
    }

    /// Whether each cast of a model is followed by a probe, which an [`Audit`](crate::audit::Audit) has count. The
    /// model's results are the same.
    pub fn with_probes(self, probes: bool) -> CastOnnx {
        let mut onnx = self.onnx;
        if probes {
            probe::register(&mut onnx)
        } else {
            register(&mut onnx)
        }
        CastOnnx { onnx, probes }
    }

    /// As [`Framework::model_for_proto_model`], of a model whose external data is in `folder`.
    ///
    /// # Errors
    ///
    /// As loading the model from a file.
    pub fn model_for_proto_in(
        &self,
        proto: ModelProto,
        folder: Option<&Path>,
    ) -> TractResult<InferenceModel> {
        self.load(proto, folder, InferenceModel::default())
    }

    /// Every `Cast` and `CastLike` node of a model, those in subgraphs included, in the order of computation.
    ///
    /// `folder` is where the model's external data is.
    ///
    /// # Errors
    ///
    /// As loading the model: when a node, a type or a tensor in it is not sound.
    pub fn casts(&self, proto: &ModelProto, folder: Option<&Path>) -> TractResult<Vec<CastNode>> {
        Ok(self.rewrite(proto.clone(), folder)?.casts)
    }

    /// Every `QuantizeLinear` and `DequantizeLinear` node of a model, as [`CastOnnx::casts`].
    ///
    /// # Errors
    ///
    /// As loading the model: when a node, a type or a tensor in it is not sound.
    pub fn quantizers(
        &self,
        proto: &ModelProto,
        folder: Option<&Path>,
    ) -> TractResult<Vec<QuantizerNode>> {
        Ok(self.rewrite(proto.clone(), folder)?.quantizers)
    }

    fn rewrite(&self, proto: ModelProto, folder: Option<&Path>) -> TractResult<Rewritten> {
        let options = Options {
            folder,
            resolver: self.onnx.provider.as_ref(),
            operators: &self.onnx.op_register,
            ignore_value_info: self.onnx.ignore_value_info,
            ignore_output_types: self.onnx.ignore_output_types,
            probes: self.probes,
        };
        rewrite::rewrite(proto, &options)
    }

    fn load(
        &self,
        proto: ModelProto,
        folder: Option<&Path>,
        template: InferenceModel,
    ) -> TractResult<InferenceModel> {
        let rewritten = self.rewrite(proto, folder)?;
        let folder = folder.map(|folder| {
            folder.to_str().with_context(|| format!("the path {folder:?} is not UTF-8"))
        });
        let ParseResult { mut model, unresolved_inputs, outlets_by_name } =
            self.onnx.parse_with_template(&rewritten.proto, folder.transpose()?, template)?;
        if let Some(name) = unresolved_inputs.first() {
            return Err(Error::Model { problem: format!("has nothing that makes `{name}`") })?;
        }
        let outputs = model.outputs.clone();
        for (outlet, name) in outputs.iter().zip(&rewritten.output_names) {
            model.set_outlet_label(*outlet, name.clone())?;
        }
        record_types(&mut model, &rewritten);
        open_shapes::settle(&mut model, &rewritten.declared, &outlets_by_name)?;
        Ok(model)
    }
}

impl Framework<ModelProto, InferenceModel> for CastOnnx {
    fn proto_model_for_path(&self, path: impl AsRef<Path>) -> TractResult<ModelProto> {
        let mut proto = self.onnx.proto_model_for_path(&path)?;
        if !proto.functions.is_empty() {
            fields::restore(&mut proto, &fs::read(path)?)?;
        }
        Ok(proto)
    }

    fn proto_model_for_read(&self, reader: &mut dyn Read) -> TractResult<ModelProto> {
        let mut bytes = vec![];
        reader.read_to_end(&mut bytes)?;
        let mut proto = ModelProto::decode(&*bytes)?;
        if !proto.functions.is_empty() {
            fields::restore(&mut proto, &bytes)?;
        }
        Ok(proto)
    }

    fn model_for_path(&self, path: impl AsRef<Path>) -> TractResult<InferenceModel> {
        let proto = self.proto_model_for_path(&path)?;
        self.load(proto, path.as_ref().parent(), InferenceModel::default())
    }

    fn model_for_proto_model_with_model_template(
        &self,
        proto: &ModelProto,
        template: InferenceModel,
    ) -> TractResult<InferenceModel> {
        self.load(proto.clone(), None, template)
    }
}
