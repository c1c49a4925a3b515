//! A model between its file and its outputs: what it takes, and running it.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use tract_onnx::pb::ModelProto;
use tract_onnx::prelude::*;
use tract_onnx_cast::audit::Audit;
use tract_onnx_cast::interpreter::Observer;
use tract_onnx_cast::untrusted::without_panic;
use tract_onnx_cast::{
    CastOnnx, ElementType, Error as OwnError, ErrorKind as OwnKind, Limits, OnnxTensor,
    input_element_types, model_proto, onnx, output_element_types, sizes_of_weights,
};

use crate::cli::input::chosen::price::Price;
use crate::cli::input::declared::{Declared, Input};
use crate::cli::input::source::Source;
use crate::cli::input_file::open_regular;
use crate::cli::message::single_line;
use crate::cli::progress::tell;
use crate::cli::tensor::NamedTensor;
use crate::cli::work::deadline::{Deadline, NODES_FOR_ONE_RUN, NotWorthIt};
use crate::cli::work::engine::{Bystander, Engine, Interpreted, NoPlan, ProgressObserver};
use crate::cli::work::plan::{Plan, plan};

/// Opens models, within the limits of a worker. Every model of the command line is opened here.
#[derive(Clone)]
pub(crate) struct Loader {
    /// The plug-in, with the worker's limits.
    onnx: CastOnnx,
    deadline: Deadline,
    pub(super) engine: Engine,
    /// Why it is not a plan that runs, where nobody has asked for another engine.
    no_plan: Option<NoPlan>,
    /// Whether a model runs once, and by a plan where that is soon made.
    is_once: bool,
    /// The memory that there is.
    pub(super) memory_bytes: u64,
}

impl Loader {
    /// `nodes` is how many tract may be given to load, if not as many as by default.
    pub(crate) fn new(nodes: Option<u64>, deadline: Deadline) -> Loader {
        let mut limits = Limits::default();
        if let Some(nodes) = nodes {
            limits.loaded_nodes = nodes;
            limits.nodes = limits.nodes.max(nodes);
        }
        let memory_bytes = u64::MAX;
        let (engine, no_plan, is_once) = (Engine::Plan, None, false);
        let onnx = tract_onnx_cast::onnx().with_limits(limits);
        Loader { onnx, deadline, engine, no_plan, is_once, memory_bytes }
    }

    /// The same with so much memory.
    pub(crate) fn within(self, memory_bytes: u64) -> Loader {
        Loader { memory_bytes, ..self }
    }

    /// The same for models that another engine runs, and why.
    pub(crate) fn by(&self, engine: Engine, no_plan: Option<NoPlan>) -> Loader {
        Loader { engine, no_plan, ..self.clone() }
    }

    /// The same for a model that runs once, by whatever has it done first; or not.
    pub(crate) fn once(self, is_once: bool) -> Loader {
        Loader { is_once, ..self }
    }

    /// Whether models run node by node.
    pub(crate) fn interprets(&self) -> bool {
        self.engine == Engine::Nodes
    }

    /// The plug-in. What runs models packs their weights into the same memory, one after another.
    pub(crate) fn onnx(&self) -> CastOnnx {
        self.onnx.clone()
    }

    /// Reads a model's file.
    pub(crate) fn read(&self, path: &Path) -> TractResult<ModelProto> {
        check_file(path)?;
        is_model(path, self.onnx.proto_model_for_path(path).and_then(with_graph))
    }

    /// As [`Loader::read`], but weights stay in the file.
    pub(crate) fn read_light(&self, path: &Path) -> TractResult<ModelProto> {
        check_file(path)?;
        let read = model_proto::light(&self.onnx, path).map_err(Into::into);
        is_model(path, read.and_then(with_graph))
    }

    /// Reads and loads a model's file.
    pub(crate) fn open(&self, file: &Path) -> TractResult<Model> {
        check_file(file)?;
        match self.engine {
            Engine::Plan => {
                // A node has more bytes than this. What is wrong with the file is told by loading
                // it.
                const OF_A_NODE: u64 = 8;
                let may_have_many = file.metadata()?.len() > OF_A_NODE * NODES_FOR_ONE_RUN as u64;
                if may_have_many && let Ok(proto) = self.read_light(file) {
                    self.check_nodes(&proto)?;
                }
                let (onnx, path) = (self.onnx(), file.to_owned());
                let again = move || onnx.model_for_path(&path);
                let load = || {
                    let model = self.model(&again)?;
                    let file = Some(file.to_owned());
                    Ok(Model { again: Some(Arc::new(again)), file, ..model })
                };
                is_model(file, load())
            }
            Engine::Nodes => self.interpreted(&self.onnx, self.read_light(file)?, file.parent()),
        }
    }

    /// As [`Loader::open`], with what [`Loader::read_light`] reads of the file. Node by node that
    /// is what runs, and the file is read once. A plan is made of the file itself, once more for
    /// each form that tract fails at.
    pub(crate) fn open_with_proto(&self, file: &Path) -> TractResult<(Model, ModelProto)> {
        match self.engine {
            Engine::Plan => Ok((self.open(file)?, self.read_light(file)?)),
            Engine::Nodes => {
                let proto = self.read_light(file)?;
                let model = self.interpreted(&self.onnx, proto.clone(), file.parent())?;
                Ok((model, proto))
            }
        }
    }

    /// Loads a model, whose external data is in the folder, as the plug-in is set up.
    pub(crate) fn load(
        &self,
        onnx: &CastOnnx,
        model: ModelProto,
        folder: Option<&Path>,
    ) -> TractResult<Model> {
        match self.engine {
            Engine::Plan => {
                self.check_nodes(&model)?;
                self.model(|| Ok(model_proto::load(onnx, model, folder)?.into_model()))
            }
            Engine::Nodes => self.interpreted(onnx, model, folder),
        }
    }

    /// Refuses a model whose nodes alone take tract too long, or longer than one run of them takes.
    fn check_nodes(&self, proto: &ModelProto) -> TractResult<()> {
        let nodes = proto.graph.as_ref().map_or(0, |graph| graph.node.len());
        self.deadline.check(nodes)?;
        if self.is_once && nodes > NODES_FOR_ONE_RUN {
            return Err(NotWorthIt { nodes }.into());
        }
        Ok(())
    }

    /// Makes a model one that is run node by node.
    fn interpreted(
        &self,
        onnx: &CastOnnx,
        model: ModelProto,
        folder: Option<&Path>,
    ) -> TractResult<Model> {
        let interpreted = Interpreted::of(onnx.clone(), model, folder)?;
        let takes = Model::of(interpreted.heading()?, self.deadline.clone())?;
        let note = self.no_plan.as_ref().map(|no_plan| no_plan.note.clone());
        Ok(Model { interpreted: Some(interpreted), note, ..takes })
    }

    fn model(&self, load: impl FnOnce() -> TractResult<InferenceModel>) -> TractResult<Model> {
        Model::of(self.deadline.within(load)?, self.deadline.clone())
    }
}

/// A loaded model whose inputs have no fixed shapes yet.
#[derive(Clone)]
pub(crate) struct Model {
    model: InferenceModel,
    /// What loads it once more, so that nothing of it need be kept once it is a plan.
    again: Option<Arc<dyn Fn() -> TractResult<InferenceModel> + Send + Sync>>,
    /// Its file, which says what operators of its nodes are called.
    file: Option<PathBuf>,
    deadline: Deadline,
    /// What runs instead of the model, of which there are only the inputs then.
    interpreted: Option<Interpreted>,
    /// Why what runs is not a plan, where that was not asked for.
    note: Option<String>,
    pub(crate) takes: Declared,
}

/// What came of running a model.
pub(crate) struct RunResult {
    pub(crate) outputs: Vec<NamedTensor>,
    /// What the user should know about how it was run.
    pub(crate) note: Option<String>,
}

impl Model {
    fn of(model: InferenceModel, deadline: Deadline) -> TractResult<Model> {
        let types = input_element_types(&model)?;
        let input = |(outlet, ty): (&OutletId, ElementType)| {
            let shape = model.outlet_fact(*outlet)?.shape.clone();
            Ok(Input { name: model.node(outlet.node).name.clone(), ty, shape })
        };
        let inputs = model.inputs.iter().zip(types).map(input).collect::<TractResult<_>>()?;
        let of_weights = sizes_of_weights(&model);
        let takes = Declared { inputs, symbols: model.symbols.clone(), of_weights };
        Ok(Model { model, again: None, file: None, deadline, takes, interpreted: None, note: None })
    }

    /// The model, whose file holds `proto`, as one whose inputs are wanted. Nobody knows whether it
    /// takes those that are tried: a panic is an error.
    pub(crate) fn source<'a>(&'a self, proto: &'a ModelProto) -> Source<'a> {
        let run = |tensors: Vec<_>, price: &mut Price| {
            without_panic(|| self.clone().ready(&tensors, None)?.run_at(tensors, price))
        };
        Source { takes: &self.takes, proto, other: None, run: Box::new(run), cut_off: None }
    }

    /// What runs the model, if that is node by node.
    pub(crate) fn interpreted(&self) -> Option<&Interpreted> {
        self.interpreted.as_ref()
    }

    /// The same model, if it runs node by node, with nodes built by a plug-in that is set up
    /// otherwise; the graph is shared.
    pub(crate) fn built_by(&self, onnx: CastOnnx) -> Option<Model> {
        let interpreted = Some(self.interpreted.as_ref()?.built_by(onnx));
        Some(Model { interpreted, ..self.clone() })
    }

    /// Runs the model on tensors of the inputs' types, in their order. The tensors' shapes replace
    /// the declared ones, which tract would insist on.
    pub(crate) fn run(self, tensors: Vec<Arc<Tensor>>) -> TractResult<RunResult> {
        self.ready(&tensors, None)?.run(tensors, None)
    }

    /// The same, and says how far it is.
    pub(crate) fn run_told(self, tensors: Vec<Arc<Tensor>>) -> TractResult<RunResult> {
        const RUNNING: &str = "running";
        let Some(nodes) = self.interpreted.as_ref().map(Interpreted::nodes) else {
            tell("making a plan");
            let ready = self.ready(&tensors, None)?;
            tell(RUNNING);
            return ready.run(tensors, None);
        };
        let mut bystander = Bystander;
        let mut told = ProgressObserver::of(&mut bystander, RUNNING, nodes);
        self.ready(&tensors, None)?.run(tensors, Some(&mut told))
    }

    /// Makes the model ready to run on tensors of these types and shapes, with its casts counted if
    /// somebody asks for that.
    pub(crate) fn ready(
        self,
        tensors: &[Arc<Tensor>],
        audit: Option<&Audit>,
    ) -> TractResult<Ready> {
        let facts: Vec<InputFact> = tensors.iter().map(|tensor| taken(tensor)).collect();
        if let Some(interpreted) = self.interpreted {
            if let Some(audit) = audit {
                interpreted.watch(audit);
            }
            let types = self.takes.inputs.iter().map(|input| input.ty).collect();
            return Ok(Ready {
                facts,
                way: RunMode::Nodes { interpreted, types, note: self.note },
            });
        }
        let names = self.output_names();
        let (again, deadline) = (self.again, self.deadline);
        let mut first = Some(self.model);
        let typed = || {
            let loaded = match &again {
                Some(again) => first.take().map_or_else(&**again, Ok)?,
                None => first.clone().context("a model that is kept")?,
            };
            let mut model = with_inputs(loaded, &facts)?.into_typed()?;
            if let Some(audit) = audit {
                audit.watch(&mut model)?;
            }
            Ok(model)
        };
        let plan = deadline.within(|| without_panic(|| plan(typed)));
        let plan = plan.map_err(|error| in_file(error, self.file.as_deref()))?;
        let types = output_element_types(plan.plan.model())?;
        Ok(Ready { facts, way: RunMode::Plan { plan, names, types, file: self.file } })
    }

    /// What its outputs are called, in their order.
    pub(crate) fn output_names(&self) -> Vec<String> {
        match &self.interpreted {
            Some(interpreted) => interpreted.output_names(),
            None => self.model.outputs.iter().map(|outlet| self.name(*outlet)).collect(),
        }
    }

    fn name(&self, outlet: OutletId) -> String {
        let label = self.model.outlet_label(outlet);
        label.unwrap_or(&self.model.node(outlet.node).name).into()
    }
}

/// An error in the words of a model's file: tract has names of its own for operators.
fn in_file(error: TractError, file: Option<&Path>) -> TractError {
    let own = error.downcast_ref::<OwnError>().filter(|own| own.kind() == OwnKind::Tract);
    let proto = own.and_then(|_| model_proto::light(&onnx(), file?).ok());
    match (own, proto) {
        (Some(own), Some(proto)) => own.clone().in_model(&proto).into(),
        _ => error,
    }
}

/// The model, whose inputs are of these types and shapes.
fn with_inputs(mut model: InferenceModel, facts: &[InputFact]) -> TractResult<InferenceModel> {
    for (outlet, (ty, shape)) in model.inputs.clone().into_iter().zip(facts) {
        model.set_outlet_fact(outlet, InferenceFact::dt_shape(*ty, shape))?;
    }
    Ok(model)
}

/// The type and the shape of a tensor that a model takes.
type InputFact = (DatumType, Vec<usize>);

fn taken(tensor: &Tensor) -> InputFact {
    (tensor.datum_type(), tensor.shape().to_vec())
}

/// A model that runs as often as there are tensors of the same types and shapes: to make it ready
/// takes longer than to run it.
pub(crate) struct Ready {
    facts: Vec<InputFact>,
    way: RunMode,
}

/// How it runs.
enum RunMode {
    /// With the names and types of its outputs.
    Plan { plan: Plan, names: Vec<String>, types: Vec<ElementType>, file: Option<PathBuf> },
    /// With the types of its inputs, and why it is not a plan.
    Nodes { interpreted: Interpreted, types: Vec<ElementType>, note: Option<String> },
}

impl Ready {
    /// Whether it takes these tensors.
    pub(crate) fn takes(&self, tensors: &[Arc<Tensor>]) -> bool {
        tensors.iter().map(|tensor| taken(tensor)).eq(self.facts.iter().cloned())
    }

    /// As [`Ready::run`], unless it costs too much: then it fails as well.
    pub(crate) fn run_at(
        &self,
        tensors: Vec<Arc<Tensor>>,
        price: &mut Price,
    ) -> TractResult<Vec<NamedTensor>> {
        if let RunMode::Plan { plan, .. } = &self.way {
            price.add_plan(plan.plan.model())?;
        }
        Ok(self.run(tensors, Some(price))?.outputs)
    }

    /// Runs the model, which is shown to an observer if it runs node by node.
    pub(crate) fn run(
        &self,
        tensors: Vec<Arc<Tensor>>,
        observer: Option<&mut dyn Observer>,
    ) -> TractResult<RunResult> {
        let (plan, names, types, file) = match &self.way {
            RunMode::Plan { plan, names, types, file } => (plan, names, types, file),
            RunMode::Nodes { interpreted, types, note } => {
                let typed = |(tensor, ty): (Arc<Tensor>, &ElementType)| {
                    Ok(OnnxTensor::new(*ty, Arc::unwrap_or_clone(tensor))?)
                };
                let inputs = tensors.into_iter().zip(types).map(typed);
                let outputs = interpreted.run(inputs.collect::<TractResult<_>>()?, observer)?;
                return Ok(RunResult { outputs, note: note.clone() });
            }
        };
        let inputs = tensors.into_iter().map(IntoTValue::into_tvalue).collect();
        let values = plan.plan.run(inputs);
        let values = without_panic(|| values);
        let values = values.map_err(|error| in_file(error, file.as_deref()))?;
        let output = |((value, ty), name): ((TValue, &ElementType), &String)| {
            let tensor = with_type(value.into_tensor(), *ty)
                .with_context(|| format!("output `{name}` ({ty})"))?;
            Ok(NamedTensor { name: name.clone(), ty: *ty, tensor })
        };
        let outputs = values.into_iter().zip(types).zip(names).map(output);
        Ok(RunResult { outputs: outputs.collect::<TractResult<_>>()?, note: plan.note.clone() })
    }
}

/// Whether there is a regular file. tract itself would wait at a pipe, and repeat the path in its
/// errors.
pub(crate) fn check_file(path: &Path) -> TractResult<()> {
    open_regular(path)?;
    Ok(())
}

/// The model, if it has a graph: many a file that is no model reads as one without anything.
fn with_graph(proto: ModelProto) -> TractResult<ModelProto> {
    let is_none =
        || std::io::Error::new(std::io::ErrorKind::InvalidData, "the model holds no graph");
    proto.graph.is_some().then_some(proto).ok_or_else(|| is_none().into())
}

/// The result; an error says what a file is that is no model.
pub(crate) fn is_model<T>(path: &Path, result: TractResult<T>) -> TractResult<T> {
    result.map_err(|error| {
        let mut start = [0; 24];
        let read = open_regular(path).and_then(|file| file.into_file().read(&mut start));
        let start = start.get(..read.unwrap_or(0)).unwrap_or_default();
        let is_text = |byte: &u8| matches!(byte, b' '..=b'~' | b'\n' | b'\r' | b'\t');
        let is = match std::str::from_utf8(start) {
            Ok(text) if text.starts_with("version https://git-lfs") => {
                "is a Git LFS pointer and not the model: `git lfs pull` fetches it".into()
            }
            Ok(text) if !text.is_empty() && start.iter().all(is_text) => {
                format!("is not an ONNX model: it begins {:?}", single_line(text))
            }
            _ => match not_decoded(&error) {
                Some(problem) => format!("is not an ONNX file, or only a part of one: {problem}"),
                None => return error,
            },
        };
        std::io::Error::new(std::io::ErrorKind::InvalidData, is).into()
    })
}

/// What decoding says of a file that is no model, be it the library's or tract's.
fn not_decoded(error: &TractError) -> Option<String> {
    if error.chain().any(|link| link.is::<prost::DecodeError>()) {
        return Some(error.to_string());
    }
    error.downcast_ref().and_then(OwnError::no_model).map(String::from)
}

/// The tensor in its type's carrier: a symbolic dimension that reaches an output is an INT64.
fn with_type(tensor: Tensor, ty: ElementType) -> TractResult<Tensor> {
    if tensor.datum_type() == DatumType::TDim && ty == ElementType::Int64 {
        return Ok(tensor.cast_to_dt(DatumType::I64)?.into_owned());
    }
    let (held, expected) = (tensor.datum_type(), ty.datum_type());
    anyhow::ensure!(held == expected, "tract computed {held:?}, not {expected:?}");
    Ok(tensor)
}
