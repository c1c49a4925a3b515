//! The plug: a drop-in for tract's `Onnx` that rewrites each model before tract sees it.

use std::fmt::{Debug, Display};
use std::fs;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, bail};
use prost::Message;
use tract_onnx::Onnx;
use tract_onnx::model::{ParseResult, ParsingContext};
use tract_onnx::pb::{ModelProto, NodeProto};
use tract_onnx::prelude::*;
use tract_onnx::tract_core::internal::{Fact, Op, OutletId};
use tract_onnx::tract_hir::internal::InferenceOp;

use crate::at_opset;
use crate::branch;
use crate::element_type::ElementType;
use crate::error::Error;
use crate::expand;
use crate::function_fields;
use crate::op;
use crate::open_shapes;
use crate::rewrite::{self, CastNode, Options, Rewritten};

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

/// Makes a tract `Onnx` build `Cast` and `CastLike` nodes with this crate's op, and `If` nodes so that a cast after one
/// sees the branch that runs.
///
/// This alone serves models whose element types tract knows. The exotic ones (BFLOAT16, float8, …) need the model to be
/// rewritten first, which [`CastOnnx`] does.
pub fn register(onnx: &mut Onnx) {
    onnx.op_register.insert("Cast", op::build);
    onnx.op_register.insert("CastLike", op::build);
    branch::register(onnx);
    expand::register(onnx);
}

/// What tract has an operator built by.
type Build = fn(&ParsingContext, &NodeProto) -> TractResult<(Box<dyn InferenceOp>, Vec<String>)>;

/// Registers `build` in place of tract's own operator: one that somebody else has registered is theirs.
pub(crate) fn replace_stock(onnx: &mut Onnx, operator: &'static str, build: Build) {
    let stock = tract_onnx::onnx().op_register.0.get(operator).copied();
    let current = onnx.op_register.0.get(operator).copied();
    if let (Some(stock), Some(current)) = (stock, current)
        && std::ptr::fn_addr_eq(stock, current)
    {
        onnx.op_register.insert(operator, build);
    }
}

/// A tract `Onnx` and what it takes to load models with all 26 element types.
///
/// Model-local functions are put in place of their calls. Read models by [`Framework`]'s methods of this type: tract's own
/// messages drop a function's attribute defaults and overloads, which these keep.
///
/// Inputs and outputs of an exotic type are carrier tensors (see [`ElementType::datum_type`]);
/// [`input_element_types`] and [`output_element_types`] tell what they mean.
#[derive(Clone)]
pub struct CastOnnx {
    onnx: Onnx,
    probes: bool,
}

/// Adds the plug-in to an `Onnx` that may have operators and options of its own.
impl From<Onnx> for CastOnnx {
    fn from(mut onnx: Onnx) -> CastOnnx {
        register(&mut onnx);
        at_opset::register(&mut onnx);
        CastOnnx { onnx, probes: false }
    }
}

impl CastOnnx {
    /// As [`Onnx::with_ignore_output_shapes`], which is the default: declared shapes are used last of all (SEMANTICS §12).
    pub fn with_ignore_output_shapes(self, ignore: bool) -> CastOnnx {
        CastOnnx { onnx: self.onnx.with_ignore_output_shapes(ignore), ..self }
    }

    /// As [`Onnx::with_ignore_output_types`]. A declared type that contradicts a Cast is then overlooked.
    pub fn with_ignore_output_types(self, ignore: bool) -> CastOnnx {
        CastOnnx { onnx: self.onnx.with_ignore_output_types(ignore), ..self }
    }

    /// As [`Onnx::with_ignore_value_info`]; no model needs it on account of shapes. A declared type that contradicts a Cast is then overlooked.
    pub fn with_ignore_value_info(self, ignore: bool) -> CastOnnx {
        CastOnnx { onnx: self.onnx.with_ignore_value_info(ignore), ..self }
    }

    /// Whether each cast of a model is followed by a probe, which an [`Audit`](crate::audit::Audit) has count. The model's
    /// results are the same.
    pub fn with_probes(self, probes: bool) -> CastOnnx {
        CastOnnx { probes, ..self }
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
            function_fields::restore(&mut proto, &fs::read(path)?)?;
        }
        Ok(proto)
    }

    fn proto_model_for_read(&self, reader: &mut dyn Read) -> TractResult<ModelProto> {
        let mut bytes = vec![];
        reader.read_to_end(&mut bytes)?;
        let mut proto = ModelProto::decode(&*bytes)?;
        if !proto.functions.is_empty() {
            function_fields::restore(&mut proto, &bytes)?;
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

/// The ONNX element types of a model's inputs, in their order.
///
/// They are remembered through typing and optimisation. For a model that was not loaded by [`CastOnnx`] they are what
/// tract's types say.
///
/// # Errors
///
/// When an input's tract type is not known yet, or is none of ONNX's.
pub fn input_element_types<F, O>(model: &Graph<F, O>) -> TractResult<Vec<ElementType>>
where
    F: Fact + Clone + 'static,
    O: Debug + Display + AsRef<dyn Op> + AsMut<dyn Op> + Clone + 'static,
{
    element_types(model, &model.inputs, INPUT_TYPES)
}

/// The ONNX element types of a model's outputs, in their order; see [`input_element_types`].
///
/// # Errors
///
/// When an output's tract type is not known yet, or is none of ONNX's.
pub fn output_element_types<F, O>(model: &Graph<F, O>) -> TractResult<Vec<ElementType>>
where
    F: Fact + Clone + 'static,
    O: Debug + Display + AsRef<dyn Op> + AsMut<dyn Op> + Clone + 'static,
{
    element_types(model, &model.outputs, OUTPUT_TYPES)
}

const INPUT_TYPES: &str = "onnx_cast.inputs";
const OUTPUT_TYPES: &str = "onnx_cast.outputs";

/// Keeps the known types of inputs and outputs among the model's properties, as texts `BFLOAT16 name`.
fn record_types(model: &mut InferenceModel, rewritten: &Rewritten) {
    let inputs = rewritten.inputs.iter().map(|(name, ty)| (name, Some(*ty)));
    let outputs = rewritten.output_names.iter().zip(rewritten.outputs.iter().copied());
    let mut record = |key: &str, entries: Vec<String>| {
        if !entries.is_empty() {
            model.properties.insert(key.into(), tensor1(&entries).into_arc_tensor());
        }
    };
    let entry = |(name, ty): (&String, Option<ElementType>)| ty.map(|ty| format!("{ty} {name}"));
    record(INPUT_TYPES, inputs.filter_map(entry).collect());
    record(OUTPUT_TYPES, outputs.filter_map(entry).collect());
}

fn element_types<F, O>(
    model: &Graph<F, O>,
    outlets: &[OutletId],
    key: &str,
) -> TractResult<Vec<ElementType>>
where
    F: Fact + Clone + 'static,
    O: Debug + Display + AsRef<dyn Op> + AsMut<dyn Op> + Clone + 'static,
{
    let entries: &[String] = match model.properties.get(key) {
        Some(entries) => entries.try_as_plain_ram()?.as_slice()?,
        None => &[],
    };
    let recorded = |name: &str| {
        let mut entries = entries.iter().filter_map(|entry| entry.split_once(' '));
        entries.find(|(_, of)| *of == name).and_then(|(ty, _)| ElementType::from_name(ty))
    };
    let type_of = |outlet: &OutletId| {
        let node =
            model.nodes.get(outlet.node).context("the model names a node it does not have")?;
        // An input's label is an output's name where a no-op in between has gone.
        let label = model.outlet_labels.get(outlet).filter(|_| key == OUTPUT_TYPES);
        let name = label.unwrap_or(&node.name);
        let recorded = recorded(name);
        let fact = node.outputs.get(outlet.slot).map(|output| output.fact.datum_type());
        // Of a native type tract has the last word, once it has analysed the model.
        match (recorded, fact.flatten()) {
            (Some(ty), _) if ty.is_exotic() => Ok(ty),
            (_, Some(datum_type)) => ElementType::native(datum_type).with_context(|| {
                format!("`{name}`: tract's {datum_type:?} is no ONNX element type")
            }),
            (Some(ty), None) => Ok(ty),
            (None, None) => bail!("the type of `{name}` is not known yet"),
        }
    };
    outlets.iter().map(type_of).collect()
}
