//! The plug: a drop-in for tract's `Onnx` that rewrites each model before tract sees it.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{BufReader, Cursor, Read};
use std::path::Path;
use std::sync::{Arc, LazyLock};

use anyhow::Context;
use onnx_cast_graph::Graph;
use prost::Message;
use tract_onnx::Onnx;
use tract_onnx::model::ParseResult;
use tract_onnx::pb::ModelProto;
use tract_onnx::prelude::*;
use tract_onnx::tract_core::tract_data::knobs::set_config_global;

use crate::audit::probe;
use crate::error::{Cause, Error, Result};
use crate::onnx::limits::Limits;
use crate::onnx::operators::registered::{Build, Registered};
use crate::onnx::{declared_shapes, function_fields as fields, light, wire};
use crate::ops::host::checked::allowance::Allowance;
use crate::ops::host::open_shapes;
use crate::ops::host::register::{register, register_private};
use crate::ops::quantize::small_weights::SmallWeights;
use crate::ops::weights::filed;
use crate::panels::floats::PanelRoom;
use crate::passes::diagnostics::Survey;
use crate::passes::half_in_float::{HalfArithmetic, Widening};
use crate::passes::{self, PassOptions};
use crate::plug::guard::in_words_of;
use crate::plug::loaded::Loaded;
use crate::plug::model_types::{record_sizes, record_types};
use crate::tensor::proto::external::{FileReader, Resolver};

/// tract's ONNX loader with a complete `Cast`: wherever [`tract_onnx::onnx`] stands, this one can.
///
/// ```no_run
/// use tract_onnx::prelude::*;
///
/// let model = tract_onnx_cast::onnx().model_for_path("model.onnx")?.into_optimized()?.into_runnable()?;
/// # TractResult::Ok(())
/// ```
pub fn onnx() -> CastOnnx {
    let onnx = Onnx { provider: Arc::new(FileReader), ..tract_onnx::onnx() };
    CastOnnx { resolver: Resolver::File, ..CastOnnx::from(onnx) }
}

/// A tract `Onnx` and what it takes to load models with all 26 element types.
///
/// Model-local functions are put in place of their calls. Read models by [`Framework`]'s methods of
/// this type: tract's own messages drop a function's attribute defaults and overloads, which these
/// keep.
///
/// Inputs and outputs of an exotic type are carrier tensors (see
/// [`ElementType::datum_type`](crate::ElementType::datum_type));
/// [`input_element_types`](crate::input_element_types) and
/// [`output_element_types`](crate::output_element_types) tell what they mean.
#[derive(Clone)]
pub struct CastOnnx {
    onnx: Onnx,
    resolver: Resolver,
    widening: Widening,
    probes: bool,
    small_weights: bool,
    limits: Limits,
    /// What nodes pack weights into while they run, whichever model they are of: one after another.
    room: PanelRoom,
}

/// Has tract choose none of its AMX kernels for codes, unless the environment says which
/// instructions it is to use: they read beyond the end of what `Im2Col` packs, which ends the
/// process where no memory follows.
fn leave_out_kernels() {
    // Another architecture's instructions are refused, and what the process was told before stays.
    if cfg!(target_arch = "x86_64") {
        set_config_global("TRACT_CPU_ISA", "-amx-int8").ok();
    }
}

/// Whether an operator is built by tract or by this crate, and not by something that the program's
/// user has registered.
fn is_known_build(operator: &str, build: Build) -> bool {
    static BUILDS: LazyLock<HashMap<String, Vec<Build>>> = LazyLock::new(|| {
        let mut onnx = tract_onnx::onnx();
        let mut builds: HashMap<String, Vec<Build>> = HashMap::new();
        let mut add = |onnx: &Onnx| {
            for (operator, build) in &onnx.op_register.0 {
                builds.entry(operator.clone()).or_default().push(*build);
            }
        };
        add(&onnx);
        register(&mut onnx);
        register_private(&mut onnx);
        add(&onnx);
        probe::register(&mut onnx);
        add(&onnx);
        builds
    });
    let builds = BUILDS.get(operator);
    builds.is_some_and(|builds| builds.iter().any(|known| std::ptr::fn_addr_eq(*known, build)))
}

/// Adds the plug-in to an `Onnx` that may have operators and options of its own.
impl From<Onnx> for CastOnnx {
    fn from(mut onnx: Onnx) -> CastOnnx {
        register(&mut onnx);
        register_private(&mut onnx);
        probe::register(&mut onnx);
        leave_out_kernels();
        CastOnnx {
            resolver: Resolver::Given(onnx.provider.clone()),
            onnx,
            widening: Widening::default(),
            probes: false,
            small_weights: false,
            limits: Limits::default(),
            room: PanelRoom::default(),
        }
    }
}

impl CastOnnx {
    /// As [`Onnx::with_ignore_output_shapes`], which is the default: declared shapes are used last
    /// of all ([SEMANTICS §12](crate::semantics)).
    pub fn with_ignore_output_shapes(self, ignore: bool) -> CastOnnx {
        CastOnnx { onnx: self.onnx.with_ignore_output_shapes(ignore), ..self }
    }

    /// As [`Onnx::with_ignore_output_types`]. A declared type that contradicts a Cast is then
    /// overlooked.
    pub fn with_ignore_output_types(self, ignore: bool) -> CastOnnx {
        CastOnnx { onnx: self.onnx.with_ignore_output_types(ignore), ..self }
    }

    /// As [`Onnx::with_ignore_value_info`]; no model needs it on account of shapes. A declared type
    /// that contradicts a Cast is then overlooked.
    pub fn with_ignore_value_info(self, ignore: bool) -> CastOnnx {
        CastOnnx { onnx: self.onnx.with_ignore_value_info(ignore), ..self }
    }

    /// How operators compute on FLOAT16: by default in FLOAT, each result rounded to FLOAT16, where
    /// tract would have to emulate FLOAT16 on this CPU ([SEMANTICS §16](crate::semantics)). On
    /// BFLOAT16 they always compute in FLOAT.
    pub fn with_half_arithmetic(self, arithmetic: HalfArithmetic) -> CastOnnx {
        let widening = Widening { float16: arithmetic, ..self.widening };
        CastOnnx { widening, ..self }
    }

    /// Whether an operator that computes in FLOAT in the place of half precision takes the results
    /// of others before they are rounded, as ONNX Runtime does in FLOAT16. By default each result
    /// is rounded, so that what overflows in half precision does so here.
    pub fn with_excess_precision(self, excess: bool) -> CastOnnx {
        let widening = Widening { excess_precision: excess, ..self.widening };
        CastOnnx { widening, ..self }
    }

    /// Whether constant weights of a product stay in four or two bits wherever tract has a format
    /// for them, though that rounds their scales to FLOAT16 and is slower for x of many rows. By
    /// default they do where it costs nothing ([SEMANTICS §15](crate::semantics)), and are FLOAT
    /// otherwise.
    pub fn with_small_weights(self, small: bool) -> CastOnnx {
        CastOnnx { small_weights: small, ..self }
    }

    /// Whether that was asked for.
    pub(crate) fn keeps_small(&self) -> bool {
        self.small_weights
    }

    /// How large a model may be. What is beyond these limits is refused by an error of kind
    /// [`Limit`](crate::ErrorKind::Limit).
    pub fn with_limits(self, limits: Limits) -> CastOnnx {
        CastOnnx { limits, ..self }
    }

    /// Whether each cast, `QuantizeLinear` and rounding of half precision of a model is followed by
    /// a probe, which an [`Audit`](crate::audit::Audit) has count. The model's results are the
    /// same.
    pub fn with_probes(self, probes: bool) -> CastOnnx {
        CastOnnx { probes, ..self }
    }

    /// Reads a model's file once, and gives the model with all that is known of it.
    ///
    /// # Errors
    ///
    /// When the file cannot be read, is beyond the [`Limits`], is not sound, or tract cannot load
    /// it.
    pub fn load(&self, path: impl AsRef<Path>) -> Result<Loaded> {
        let path = path.as_ref();
        let place = || path.display().to_string();
        let proto = self.light_proto(path).with_context(place).map_err(Error::of)?;
        self.load_proto(proto, path.parent())
    }

    /// Reads a model's file that need not be sound, and tells of its casts as far as they can be
    /// made out, and what is wrong with it. tract is not given the model.
    ///
    /// # Errors
    ///
    /// When the file cannot be read, is beyond the [`Limits`], or holds no graph.
    pub fn survey(&self, path: impl AsRef<Path>) -> Result<Survey> {
        self.survey_proto(self.read(&path)?, path.as_ref().parent())
    }

    fn read(&self, path: impl AsRef<Path>) -> Result<ModelProto> {
        let place = || path.as_ref().display().to_string();
        self.proto_model_for_path(&path).with_context(place).map_err(Error::of)
    }

    /// Holds a model's file against the limits, before it is decoded.
    fn check_file(&self, path: &Path) -> TractResult<()> {
        let place = || path.display().to_string();
        let meta = fs::metadata(path).with_context(place)?;
        // To open a pipe would wait for who writes it.
        anyhow::ensure!(meta.is_file(), "{}: is no file", place());
        let file = File::open(path).with_context(place)?;
        wire::check(&mut BufReader::new(file), meta.len(), &self.limits)?.map_err(Into::into)
    }

    /// A model's file, of which large weights stay there, as external data of the file itself.
    pub(crate) fn light_proto(&self, path: &Path) -> TractResult<ModelProto> {
        self.check_file(path)?;
        let bytes = light::read(path);
        let decoded = bytes.and_then(|bytes| Some((ModelProto::decode(&*bytes).ok()?, bytes)));
        let Some((mut proto, bytes)) = decoded else { return self.proto_model_for_path(path) };
        if !proto.functions.is_empty() {
            fields::restore(&mut proto, &bytes)?;
        }
        Ok(proto)
    }

    pub(crate) fn load_proto(&self, proto: ModelProto, folder: Option<&Path>) -> Result<Loaded> {
        let built = self.build(proto, folder, InferenceModel::default());
        let (model, survey) = built.map_err(Error::of)?;
        Ok(Loaded { model, survey })
    }

    pub(crate) fn survey_proto(&self, proto: ModelProto, folder: Option<&Path>) -> Result<Survey> {
        passes::survey(proto, &self.options(folder)).map_err(Error::of)
    }

    /// The graph of a model that was read already, with functions in the place of their calls.
    pub(crate) fn inlined(&self, proto: ModelProto, folder: Option<&Path>) -> TractResult<Graph> {
        passes::inlined(proto, &self.options(folder))
    }

    /// Whether declared types are overlooked.
    pub(crate) fn overlooks_types(&self) -> bool {
        self.onnx.ignore_value_info && self.onnx.ignore_output_types
    }

    /// Where nodes that run alone pack weights.
    pub(crate) fn room(&self) -> &PanelRoom {
        &self.room
    }

    /// How external data is read.
    pub(crate) fn resolver(&self) -> &Resolver {
        &self.resolver
    }

    /// The operators that can be built, whatever their domains.
    #[cfg(test)]
    pub(crate) fn operators(&self) -> impl Iterator<Item = &str> {
        self.onnx.op_register.0.keys().map(String::as_str)
    }

    fn options<'a>(&'a self, folder: Option<&'a Path>) -> PassOptions<'a> {
        PassOptions {
            folder,
            resolver: &self.resolver,
            registered: Registered { operators: &self.onnx.op_register, is_known: is_known_build },
            ignore_value_info: self.onnx.ignore_value_info,
            ignore_output_types: self.onnx.ignore_output_types,
            widening: self.widening,
            probes: self.probes,
            limits: self.limits,
        }
    }

    fn build(
        &self,
        proto: ModelProto,
        folder: Option<&Path>,
        mut template: InferenceModel,
    ) -> TractResult<(InferenceModel, Survey)> {
        let lowered = passes::load(proto, &self.options(folder))?;
        lowered.limits.check_loaded(&lowered.proto)?;
        template.properties.extend(filed::properties(&lowered.proto, folder, &self.resolver)?);
        let folder = folder.map(|folder| {
            folder.to_str().with_context(|| format!("the path {folder:?} is not UTF-8"))
        });
        if self.small_weights {
            template.properties.insert(SmallWeights::PROPERTY.into(), rctensor0(true));
        }
        let folder = folder.transpose()?;
        let given = lowered.proto.graph.iter().flat_map(|graph| &graph.input);
        let given = given.map(declared_shapes::bytes).fold(0, u64::saturating_add);
        let parse = || self.onnx.parse_with_template(&lowered.proto, folder, template);
        let parsed = Allowance::new(&lowered.limits, given).share(parse);
        let ParseResult { mut model, unresolved_inputs, outlets_by_name } =
            parsed.map_err(|error| in_words_of(error, &lowered.proto))?;
        if let Some(name) = unresolved_inputs.first() {
            let problem = format!("has nothing that makes `{name}`");
            return Err(Error::from(Cause::Model { problem }))?;
        }
        model.properties.remove(SmallWeights::PROPERTY);
        model.properties.retain(|name, _| !name.starts_with(filed::PROPERTIES));
        let outputs = model.outputs.clone();
        for (outlet, (name, _)) in outputs.iter().zip(&lowered.outputs) {
            model.set_outlet_label(*outlet, name.clone())?;
        }
        record_types(&mut model, &lowered);
        record_sizes(&mut model, &lowered.sizes);
        open_shapes::settle(&mut model, &lowered.declared, &outlets_by_name)?;
        Ok((model, lowered.survey))
    }
}

impl Framework<ModelProto, InferenceModel> for CastOnnx {
    fn proto_model_for_path(&self, path: impl AsRef<Path>) -> TractResult<ModelProto> {
        self.check_file(path.as_ref())?;
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
        let proto = self.light_proto(path.as_ref())?;
        Ok(self.build(proto, path.as_ref().parent(), InferenceModel::default())?.0)
    }

    fn model_for_proto_model_with_model_template(
        &self,
        proto: &ModelProto,
        template: InferenceModel,
    ) -> TractResult<InferenceModel> {
        Ok(self.build(proto.clone(), None, template)?.0)
    }
}

#[cfg(test)]
mod tests {
    use tract_onnx::tract_core::tract_linalg::knobs::TRACT_CPU_ISA;

    use super::*;

    #[test]
    fn kernels_that_read_beyond_their_operands_are_left_out() {
        onnx();
        let is_told = TRACT_CPU_ISA.get().is_some_and(|told| told.contains("-amx-int8"));
        assert_eq!(is_told, cfg!(target_arch = "x86_64"));
    }
}
