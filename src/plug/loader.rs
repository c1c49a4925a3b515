//! The plug: a drop-in for tract's `Onnx` that rewrites each model before tract sees it.

use std::fs::{self, File};
use std::io::{BufReader, Cursor, Read};
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
use crate::onnx::rewrite::{self, Rewritten};
use crate::onnx::size::Limits;
use crate::onnx::tolerance::{Problem, Survey};
use crate::onnx::walk::Options;
use crate::onnx::widen::{HalfArithmetic, Widening};
use crate::onnx::wire;
use crate::ops::open_shapes;
use crate::ops::register::{keep_weights_small, register, register_private};
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
    widening: Widening,
    probes: bool,
    small_weights: bool,
    limits: Limits,
}

/// Adds the plug-in to an `Onnx` that may have operators and options of its own.
impl From<Onnx> for CastOnnx {
    fn from(mut onnx: Onnx) -> CastOnnx {
        register(&mut onnx);
        register_private(&mut onnx);
        CastOnnx {
            onnx,
            widening: Widening::default(),
            probes: false,
            small_weights: false,
            limits: Limits::default(),
        }
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

    /// How operators compute on FLOAT16: by default in FLOAT, each result rounded to FLOAT16, where tract would have to
    /// emulate FLOAT16 on this CPU ([SEMANTICS §16](crate::semantics)). On BFLOAT16 they always compute in FLOAT.
    pub fn with_half_arithmetic(self, arithmetic: HalfArithmetic) -> CastOnnx {
        let widening = Widening { float16: arithmetic, ..self.widening };
        CastOnnx { widening, ..self }
    }

    /// Whether an operator that computes in FLOAT in the place of half precision takes the results of others before they are
    /// rounded, as ONNX Runtime does in FLOAT16. By default each result is rounded, so that what overflows in half precision
    /// does so here.
    pub fn with_excess_precision(self, excess: bool) -> CastOnnx {
        let widening = Widening { excess_precision: excess, ..self.widening };
        CastOnnx { widening, ..self }
    }

    /// Whether constant weights of a product stay in four or two bits wherever tract has a format for them, though that
    /// rounds their scales to FLOAT16 and is slower for x of many rows. By default they do where it costs nothing
    /// ([SEMANTICS §15](crate::semantics)), and are FLOAT otherwise.
    pub fn with_small_weights(self, small: bool) -> CastOnnx {
        let mut onnx = self.onnx.clone();
        keep_weights_small(&mut onnx, small);
        CastOnnx { onnx, small_weights: small, ..self }
    }

    /// How large a model may be. What is beyond these limits is refused by an [`Error::Limit`].
    pub fn with_limits(self, limits: Limits) -> CastOnnx {
        CastOnnx { limits, ..self }
    }

    /// Whether each cast, `QuantizeLinear` and rounding of half precision of a model is followed by a probe, which an
    /// [`Audit`](crate::audit::Audit) has count. The model's results are the same.
    pub fn with_probes(self, probes: bool) -> CastOnnx {
        let mut onnx = self.onnx.clone();
        if probes {
            probe::register(&mut onnx)
        } else {
            register(&mut onnx)
        }
        keep_weights_small(&mut onnx, self.small_weights);
        CastOnnx { onnx, probes, ..self }
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
        Ok(self.rewrite(proto.clone(), folder)?.survey.casts)
    }

    /// As [`CastOnnx::casts`], of a model that need not be sound: its casts as far as they can be made out, and what is wrong
    /// with it.
    ///
    /// # Errors
    ///
    /// When the model holds no graph.
    pub fn survey(&self, proto: &ModelProto, folder: Option<&Path>) -> TractResult<Survey> {
        let error = match self.rewrite(proto.clone(), folder) {
            Ok(rewritten) => return Ok(rewritten.survey),
            Err(error) => error,
        };
        let mut survey = rewrite::survey(proto.clone(), &self.options(folder))?;
        if survey.problems.is_empty() {
            survey.problems.push(Problem { error, is_of_cast: false });
        }
        Ok(survey)
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
        Ok(self.rewrite(proto.clone(), folder)?.survey.quantizers)
    }

    fn rewrite(&self, proto: ModelProto, folder: Option<&Path>) -> TractResult<Rewritten> {
        rewrite::rewrite(proto, &self.options(folder))
    }

    fn options<'a>(&'a self, folder: Option<&'a Path>) -> Options<'a> {
        Options {
            folder,
            resolver: self.onnx.provider.as_ref(),
            operators: &self.onnx.op_register,
            ignore_value_info: self.onnx.ignore_value_info,
            ignore_output_types: self.onnx.ignore_output_types,
            widening: self.widening,
            probes: self.probes,
            limits: self.limits,
        }
    }

    fn load(
        &self,
        proto: ModelProto,
        folder: Option<&Path>,
        template: InferenceModel,
    ) -> TractResult<InferenceModel> {
        let rewritten = self.rewrite(proto, folder)?;
        rewritten.limits.check_loaded(&rewritten.proto)?;
        let folder = folder.map(|folder| {
            folder.to_str().with_context(|| format!("the path {folder:?} is not UTF-8"))
        });
        let parsed = self.onnx.parse_with_template(&rewritten.proto, folder.transpose()?, template);
        let ParseResult { mut model, unresolved_inputs, outlets_by_name } =
            parsed.map_err(Error::of_tract)?;
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
        let file = File::open(&path)?;
        let length = file.metadata()?.len();
        wire::check(&mut BufReader::new(file), length, &self.limits)??;
        let mut proto = self.onnx.proto_model_for_path(&path)?;
        if !proto.functions.is_empty() {
            fields::restore(&mut proto, &fs::read(path)?)?;
        }
        Ok(proto)
    }

    fn proto_model_for_read(&self, reader: &mut dyn Read) -> TractResult<ModelProto> {
        let mut bytes = vec![];
        reader.read_to_end(&mut bytes)?;
        wire::check(&mut Cursor::new(&bytes), bytes.len() as u64, &self.limits)??;
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
