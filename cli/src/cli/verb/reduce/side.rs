//! A model of which parts are taken: its graph, and its values on one set of inputs.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use onnx_cast_graph::{Given, Graph, NodeId, NodeView, Origin, Table, Use, ValueId, attribute};
use tract_onnx::pb::{AttributeProto, ModelProto, TensorProto, ValueInfoProto};
use tract_onnx::prelude::*;
use tract_onnx_cast::interpreter::{Interpreter, NodeRun, ObservedTensor, Observer};
use tract_onnx_cast::{CastOnnx, ElementType, HalfArithmetic, Result, model_proto, tensor_proto};

use super::values::{Values, declared, in_order, type_of};
use crate::cli::message::at;
use crate::cli::tensor::NamedTensor;
use crate::cli::work::model::Loader;
use crate::cli::work::weights::folded::is_random;

/// A model whose parts are taken.
pub(super) struct SourceModel {
    pub(super) graph: Graph,
    /// Where its external data is.
    pub(super) folder: Option<PathBuf>,
    onnx: CastOnnx,
    /// The values of the main graph.
    names: HashMap<Arc<str>, ValueId>,
}

/// Keeps what the nodes of the main graph make.
struct Recorder {
    values: Values,
}

impl Observer for Recorder {
    fn node(&mut self, node: &NodeRun, outputs: &mut [Option<ObservedTensor>]) -> Result<()> {
        for made in outputs.iter().flatten().filter(|_| node.graph.is_empty()) {
            self.values.insert(made.name.to_string(), NamedTensor::observed(made));
        }
        Ok(())
    }
}

/// What runs the parts of models: each operator as it is, everywhere the same.
pub(super) fn onnx(loader: &Loader) -> CastOnnx {
    loader.onnx().with_half_arithmetic(HalfArithmetic::Widened)
}

/// Runs a model, whose external data is in the folder, on the values that it takes.
pub(super) fn run(
    onnx: &CastOnnx,
    proto: ModelProto,
    folder: Option<&Path>,
    values: &Values,
) -> TractResult<Vec<NamedTensor>> {
    let model = Interpreter::of_proto(onnx.clone(), proto, folder)?;
    let outputs = model.run(in_order(model.input_names().into_iter(), values)?)?;
    let named = model.output_names().into_iter().zip(outputs);
    Ok(named.map(|(name, output)| NamedTensor::of(name, output)).collect())
}

impl SourceModel {
    /// A model. Functions are put in the place of their calls where they can be, and constants that
    /// are nodes become initializers. Fails when the model is not sound.
    pub(super) fn of(
        onnx: CastOnnx,
        proto: ModelProto,
        folder: Option<PathBuf>,
    ) -> TractResult<SourceModel> {
        let inlined = if proto.functions.is_empty() {
            None
        } else {
            model_proto::inlined(&onnx, proto.clone(), folder.as_deref()).ok()
        };
        let step = |node: &str, part: &str| format!("{node}.{part}");
        let imported = Graph::import(inlined.unwrap_or(proto), &step);
        let (mut graph, problems) = imported.ok_or_else(|| anyhow::anyhow!("holds no graph"))?;
        if let Some(problem) = problems.into_iter().next() {
            anyhow::bail!("{}", problem.text);
        }
        graph.strip();
        Ok(SourceModel::of_graph(onnx, graph, folder))
    }

    /// The model of a file. Fails when that cannot be read, or the model is not sound.
    pub(super) fn of_file(loader: &Loader, file: &Path) -> TractResult<SourceModel> {
        let proto = loader.read_light(file)?;
        let folder = file.parent().map(Path::to_path_buf);
        at(file.display(), SourceModel::of(onnx(loader), proto, folder))
    }

    /// Another graph of the same model.
    pub(super) fn with(&self, graph: Graph) -> SourceModel {
        SourceModel::of_graph(self.onnx.clone(), graph, self.folder.clone())
    }

    fn of_graph(onnx: CastOnnx, mut graph: Graph, folder: Option<PathBuf>) -> SourceModel {
        hold_constants(&mut graph);
        let main = graph.body(graph.main());
        let given = main.inputs().iter().chain(main.constants()).copied();
        let nodes = graph.nodes_of(graph.main());
        let made = nodes.iter().flat_map(|id| graph.node(*id).outputs()).flatten().copied();
        let named = |value: ValueId| (graph.value(value).name.clone(), value);
        let names = given.chain(made).map(named).collect();
        SourceModel { graph, folder, onnx, names }
    }

    /// The value of the main graph of that name.
    pub(super) fn value(&self, name: &str) -> Option<ValueId> {
        self.names.get(name).copied()
    }

    pub(super) fn name(&self, value: ValueId) -> &str {
        &self.graph.value(value).name
    }

    /// The nodes of the main graph, in topological order.
    pub(super) fn nodes(&self) -> Vec<NodeId> {
        self.graph.nodes_of(self.graph.main())
    }

    /// How many nodes there are, those in bodies included.
    pub(super) fn count(&self) -> usize {
        self.graph.all_nodes(self.graph.main()).len()
    }

    /// The values that the model returns.
    pub(super) fn outputs(&self) -> Vec<ValueId> {
        let outputs = self.graph.body(self.graph.main()).outputs();
        outputs.iter().map(|output| output.value).collect()
    }

    /// The inputs that have no default.
    pub(super) fn inputs(&self) -> Vec<ValueId> {
        let inputs = self.graph.body(self.graph.main()).inputs().iter().copied();
        inputs.filter(|id| matches!(self.graph.value(*id).origin(), Origin::Input)).collect()
    }

    /// The values of the main graph that are made of one.
    pub(super) fn behind(&self, value: ValueId) -> HashSet<ValueId> {
        let graph = &self.graph;
        let (mut behind, mut next) = (HashSet::new(), vec![value]);
        while let Some(value) = next.pop() {
            for used in graph.value(value).uses() {
                if matches!(used, Use::Output(body, _) if body == graph.main()) {
                    continue;
                }
                let Some(node) = graph.user_in(used, graph.main()) else { continue };
                let made = graph.node(node).outputs().iter().flatten();
                next.extend(made.copied().filter(|made| behind.insert(*made)));
            }
        }
        behind
    }

    /// The values that one is made of, as far as those that are given.
    pub(super) fn needed(&self, end: ValueId, given: &HashSet<ValueId>) -> HashSet<ValueId> {
        let (mut needed, mut next) = (HashSet::from([end]), vec![end]);
        while let Some(value) = next.pop() {
            let maker = self.graph.maker(value).filter(|_| !given.contains(&value));
            let taken = maker.into_iter().flat_map(|id| self.graph.needs(id));
            next.extend(taken.filter(|taken| needed.insert(*taken)));
        }
        needed
    }

    /// Runs the whole model.
    pub(super) fn run_whole(&self, inputs: &Values) -> TractResult<Vec<NamedTensor>> {
        self.run(self.graph.clone(), inputs)
    }

    /// Runs a part of it.
    pub(super) fn run(&self, part: Graph, inputs: &Values) -> TractResult<Vec<NamedTensor>> {
        run(&self.onnx, part.export(|_, _| {}), self.folder.as_deref(), inputs)
    }

    /// The tensors of the main graph on these inputs, those of the inputs included, as far as the
    /// model can be run, and why it cannot; constants are left out.
    pub(super) fn record(&self, inputs: &Values) -> (Values, TractResult<()>) {
        let mut recorder = Recorder { values: Values::new() };
        let ran = self.observed(inputs, &mut recorder);
        let mut values = recorder.values;
        for input in self.inputs() {
            let name = self.name(input);
            values.extend(inputs.get(name).map(|tensor| (name.to_owned(), tensor.clone())));
        }
        (values, ran)
    }

    /// Runs the model, watched.
    pub(super) fn observed(&self, inputs: &Values, recorder: &mut dyn Observer) -> TractResult<()> {
        let proto = self.graph.clone().export(|_, _| {});
        let model = Interpreter::of_proto(self.onnx.clone(), proto, self.folder.as_deref())?;
        let given = in_order(model.input_names().into_iter(), inputs)?;
        model.run_observed(given, recorder)?;
        Ok(())
    }

    /// The values that are made of constants alone.
    pub(super) fn fixed(&self) -> Table<ValueId, ()> {
        let mut fixed = Table::default();
        for id in self.nodes() {
            let needs = self.graph.needs(id);
            let is_fixed =
                |value: &ValueId| self.graph.value(*value).is_constant() || fixed.contains(*value);
            if needs.iter().all(is_fixed) && !is_random(&self.graph.node(id).op_type) {
                for value in self.graph.node(id).outputs().iter().flatten() {
                    fixed.insert(*value, ());
                }
            }
        }
        fixed
    }

    /// The part of the model that makes some values from others, which have these tensors: inputs,
    /// or constants where a model computes sizes and axes. Returns the part, and which of its
    /// values is given in the place of each.
    pub(super) fn part(
        &self,
        given: &[(ValueId, &NamedTensor)],
        wanted: &[(ValueId, Option<&NamedTensor>)],
        fixed: &Table<ValueId, ()>,
    ) -> TractResult<(Graph, Vec<ValueId>)> {
        let give = |(value, tensor): &(ValueId, &NamedTensor)| {
            let is_made = self.graph.maker(*value).is_some();
            let is_size = is_made && self.is_size(*value, tensor);
            let given = if is_made && fixed.contains(*value) || is_size {
                Given::Constant(Arc::new(tensor.to_proto()?))
            } else {
                Given::Input(type_of(tensor))
            };
            TractResult::Ok((*value, given))
        };
        let given = given.iter().map(give).collect::<TractResult<_>>()?;
        let want = |(value, tensor): &(ValueId, Option<&NamedTensor>)| {
            let name = self.name(*value).to_owned();
            let declared = tensor.map_or_else(|| self.declared(*value), declared);
            (*value, ValueInfoProto { name, ..declared })
        };
        Ok(self.graph.part(given, wanted.iter().map(want).collect()))
    }

    /// What the file declares of a value.
    fn declared(&self, value: ValueId) -> ValueInfoProto {
        let outputs = self.graph.body(self.graph.main()).outputs();
        let output = outputs.iter().find(|output| output.value == value);
        let r#type = self.graph.value(value).declared.clone();
        let inner = || ValueInfoProto { r#type, ..ValueInfoProto::default() };
        output.map_or_else(inner, |output| output.declared.clone())
    }

    /// Whether a value is a list of sizes or axes: whole numbers that operators take behind what
    /// they compute on.
    fn is_size(&self, value: ValueId, tensor: &NamedTensor) -> bool {
        const MOST: usize = 64;
        let is_short = tensor.tensor.rank() <= 1 && tensor.tensor.len() <= MOST;
        let is_operand = |used: Use| match used {
            Use::Node(node, place) => place > 0 || self.graph.node(node).op_type == "Range",
            Use::Output(..) => false,
        };
        tensor.ty == ElementType::Int64
            && is_short
            && self.graph.value(value).uses().any(is_operand)
    }
}

/// Has initializers in the place of the main graph's nodes that are constants.
fn hold_constants(graph: &mut Graph) {
    let main = graph.main();
    for id in graph.nodes_of(main) {
        let node = graph.node(id);
        let Some(value) = node.output(0).filter(|_| node.is("Constant")) else { continue };
        let Some(tensor) = constant(node).filter(|_| !graph.value(value).is_output()) else {
            continue;
        };
        let name = graph.value(value).name.clone();
        let held = graph.add_constant(main, tensor);
        graph.replace_all_uses(value, held);
        graph.remove(id);
        graph.value_mut(held).name = name;
    }
}

/// The tensor that a Constant makes.
fn constant(node: &onnx_cast_graph::Node) -> Option<TensorProto> {
    let of = |name: &str| attribute(node, name);
    if let Some(tensor) = of("value").and_then(|attribute| attribute.t.clone()) {
        return Some(tensor);
    }
    let native = |tensor: Tensor| {
        let ty = ElementType::native(tensor.datum_type())?;
        tensor_proto::write("", ty, &tensor).ok()
    };
    let ints = |attribute: &AttributeProto| native(tensor1(&attribute.ints));
    let floats = |attribute: &AttributeProto| native(tensor1(&attribute.floats));
    let int = |attribute: &AttributeProto| native(tensor0(attribute.i));
    let float = |attribute: &AttributeProto| native(tensor0(attribute.f));
    of("value_ints")
        .and_then(ints)
        .or_else(|| of("value_floats").and_then(floats))
        .or_else(|| of("value_int").and_then(int))
        .or_else(|| of("value_float").and_then(float))
}

/// How many nodes a model has, those in bodies included.
pub(super) fn nodes_in(model: &ModelProto) -> usize {
    let graph = model.graph.iter().flat_map(onnx_cast_graph::all_graphs);
    graph.map(|graph| graph.node.len()).sum()
}

/// The operators of a model's nodes, those in bodies included, each with its name.
pub(super) fn named_nodes(model: &ModelProto) -> Vec<(String, String)> {
    let graphs = model.graph.iter().flat_map(onnx_cast_graph::all_graphs);
    let nodes = graphs.flat_map(|graph| &graph.node);
    nodes.map(|node| (node.label().to_owned(), node.op_type.clone())).collect()
}
