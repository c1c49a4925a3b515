//! Every value of a run, with the nodes that made it.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;

use onnx_cast_graph::{Attributes, named_value};
use tract_onnx::pb::{GraphProto, ModelProto, NodeProto, TensorProto};
use tract_onnx::prelude::*;
use tract_onnx_cast::interpreter::{
    BodyInput, BodyOutput, Interpreter, NodeRun, ObservedTensor, Observer, SharedTensor,
};
use tract_onnx_cast::{ElementType, OnnxTensor, Result};

/// The most elements of a constant that is kept: larger ones stay in their files.
const KEPT: usize = 4096;

/// What models compute of their weights.
const OF_WEIGHTS: &[&str] = &[
    "Cast",
    "CastLike",
    "DequantizeLinear",
    "Identity",
    "Mul",
    "Reshape",
    "Slice",
    "Squeeze",
    "Sub",
    "Transpose",
    "Unsqueeze",
];

/// A node as it ran first.
pub(super) struct Ran {
    pub(super) name: String,
    pub(super) op: String,
    pub(super) domain: String,
    /// The version of the default domain by which it is understood.
    pub(super) opset: i64,
    /// Without those of a `Constant`.
    pub(super) attributes: Attributes,
    /// By place; empty for what is not given.
    pub(super) inputs: Vec<String>,
    pub(super) outputs: Vec<String>,
    /// What of its bodies becomes its outputs, as far as they ran.
    pub(super) inside: Vec<String>,
}

/// A constant that a run has read.
pub(super) struct TracedConstant {
    pub(super) ty: ElementType,
    pub(super) shape: Vec<usize>,
    /// Its values, where they are few.
    value: Option<SharedTensor>,
}

impl TracedConstant {
    fn of(tensor: &ObservedTensor) -> TracedConstant {
        let value = (tensor.tensor.len() <= KEPT).then(|| shared(tensor));
        TracedConstant { ty: tensor.element_type, shape: tensor.tensor.shape().to_vec(), value }
    }
}

/// What a run has shown, by the values' full names.
#[derive(Default)]
pub(in crate::cli::verb::compare) struct Trace {
    /// What each value was, as often as it was made.
    pub(in crate::cli::verb::compare) values: HashMap<String, Vec<SharedTensor>>,
    /// Of values of bodies, the path of their graph below the main one.
    paths: HashMap<String, Arc<str>>,
    pub(super) nodes: Vec<Ran>,
    /// The place of the node that makes a value.
    makers: HashMap<String, usize>,
    /// The values that nodes take.
    taken: HashSet<String>,
    pub(super) constants: HashMap<String, TracedConstant>,
    /// What is large and made of constants alone, and not kept either.
    pub(super) computed: HashMap<String, TracedConstant>,
    pub(super) inputs: HashSet<String>,
    /// What the bodies of nodes that are running have made, the outermost first.
    running: Vec<Vec<String>>,
    /// In how many bodies the run is.
    depth: usize,
}

/// The name of a value with the path of its graph below the main one.
pub(super) fn full_name(tensor: &ObservedTensor) -> String {
    name_in(&tensor.graph, &tensor.name)
}

/// The name of a value of a graph with the path of that below the main one.
pub(super) fn name_in(graph: &str, name: &str) -> String {
    if graph.is_empty() { name.to_string() } else { format!("{graph}/{name}") }
}

pub(super) fn shared(tensor: &ObservedTensor) -> SharedTensor {
    (tensor.element_type, tensor.tensor.clone())
}

impl Trace {
    /// What a model does on inputs. Fails when a node cannot be built or run.
    pub(in crate::cli::verb::compare) fn of(
        model: &Interpreter,
        inputs: Vec<OnnxTensor>,
    ) -> Result<Trace> {
        let mut trace = Trace::empty(model.input_names());
        model.run_observed(inputs, &mut trace)?;
        Ok(trace)
    }

    /// The same of a model some of whose values another trace has: what makes these does not run.
    /// Fails as [`Trace::of`].
    pub(super) fn beside(
        model: &Interpreter,
        inputs: Vec<OnnxTensor>,
        known: &Trace,
    ) -> Result<Trace> {
        let mut beside = BesideTrace { trace: Trace::empty(model.input_names()), known };
        model.run_observed(inputs, &mut beside)?;
        Ok(beside.trace)
    }

    /// What is to observe a run of a model that takes these inputs.
    pub(in crate::cli::verb::compare) fn empty(inputs: Vec<&str>) -> Trace {
        let inputs = inputs.into_iter().map(String::from).collect();
        Trace { inputs, ..Trace::default() }
    }

    /// Values that were saved, of which no node is known.
    pub(super) fn of_saved(values: impl Iterator<Item = (String, SharedTensor)>) -> Trace {
        let values = values.map(|(name, value)| (name, vec![value])).collect();
        Trace { values, ..Trace::default() }
    }

    /// The node that makes a value.
    pub(super) fn maker(&self, value: &str) -> Option<&Ran> {
        self.nodes.get(*self.makers.get(value)?)
    }

    /// Where in the order of computation a value is made.
    pub(super) fn place(&self, value: &str) -> Option<usize> {
        self.makers.get(value).copied()
    }

    /// What a value was when it was made for the first time.
    pub(super) fn first(&self, value: &str) -> Option<&SharedTensor> {
        self.values.get(value).and_then(|times| times.first())
    }

    /// A value as it was made for the first time; one that is not kept is computed of the constants
    /// again. Fails when memory does not suffice for that.
    pub(super) fn again(&self, model: &Interpreter, value: &str) -> Result<Option<SharedTensor>> {
        if self.computed.contains_key(value) {
            model.constant(value)
        } else {
            Ok(self.first(value).cloned())
        }
    }

    /// The path of the graph of a value that is made in each iteration of a body.
    pub(in crate::cli::verb::compare) fn iterated(&self, value: &str) -> Option<&str> {
        let path = self.paths.get(value)?;
        (path.ends_with(".body") || path.contains(".body/")).then_some(path)
    }

    /// The types of all values and constants of more than one element.
    pub(super) fn types(&self) -> impl Iterator<Item = ElementType> {
        let values = self.values.values().flatten().map(|(ty, tensor)| (*ty, tensor.len()));
        let held = self.constants.values().chain(self.computed.values());
        let held = held.map(|held| (held.ty, held.shape.iter().product()));
        values.chain(held).filter(|(_, length)| *length > 1).map(|(ty, _)| ty)
    }

    /// A value; what is made in each iteration of a body as one tensor of all iterations. `None`
    /// where their shapes differ.
    pub(in crate::cli::verb::compare) fn whole(&self, value: &str) -> Option<SharedTensor> {
        let times = self.values.get(value)?;
        let (ty, first) = times.first()?;
        if self.iterated(value).is_none() {
            return Some((*ty, first.clone()));
        }
        let each = times.iter().map(|(_, tensor)| {
            let mut tensor = Tensor::clone(tensor);
            tensor.insert_axis(0)?;
            TractResult::Ok(tensor)
        });
        let each = each.collect::<TractResult<Vec<Tensor>>>().ok()?;
        Some((*ty, Arc::new(Tensor::stack_tensors(0, &each).ok()?)))
    }

    /// How many elements its constants have.
    pub(super) fn weights(&self) -> usize {
        self.constants.values().map(|held| held.shape.iter().product::<usize>()).sum()
    }

    /// How many bytes its values have.
    pub(in crate::cli::verb::compare) fn bytes(&self) -> usize {
        let bytes = |(_, tensor): &SharedTensor| tensor.len() * tensor.datum_type().size_of();
        self.values.values().flatten().map(bytes).sum()
    }

    /// Whether a value is a constant, or what a `Constant` node makes.
    pub(super) fn is_constant(&self, value: &str) -> bool {
        let is_made = || self.maker(value).is_some_and(|ran| ran.op == "Constant");
        self.constants.contains_key(value) || is_made()
    }

    /// The type and the shape of a value, a constant or not.
    pub(super) fn form(&self, value: &str) -> Option<(ElementType, &[usize])> {
        let held = self.constants.get(value).or_else(|| self.computed.get(value));
        let made = || self.first(value).map(|(ty, tensor)| (*ty, tensor.shape()));
        held.map(|held| (held.ty, &*held.shape)).or_else(made)
    }

    /// Whether a node takes a value.
    pub(super) fn is_taken(&self, value: &str) -> bool {
        self.taken.contains(value)
    }

    /// The values of a constant that are kept.
    pub(super) fn constant(&self, value: &str) -> Option<&SharedTensor> {
        match self.constants.get(value) {
            Some(held) => held.value.as_ref(),
            None => self.first(value).filter(|_| self.is_constant(value)),
        }
    }

    /// The nodes that ran, those of bodies and functions among them, as one graph. It is to be read
    /// and cannot be run.
    pub(super) fn graph(&self, outputs: &[String]) -> ModelProto {
        let node = |ran: &Ran| NodeProto {
            name: ran.name.clone(),
            op_type: ran.op.clone(),
            domain: ran.domain.clone(),
            input: ran.inputs.clone(),
            output: ran.outputs.clone(),
            ..NodeProto::default()
        };
        let held = |name: &String| TensorProto { name: name.clone(), ..TensorProto::default() };
        let graph = GraphProto {
            node: self.nodes.iter().map(node).collect(),
            initializer: self.constants.keys().map(held).collect(),
            input: self.inputs.iter().map(named_value).collect(),
            output: outputs.iter().map(named_value).collect(),
            ..GraphProto::default()
        };
        ModelProto { graph: Some(graph), ..ModelProto::default() }
    }
}

/// What both models have made of a set, and the names of their outputs in pairs.
pub(in super::super) struct Traces {
    pub(in super::super) sides: (Rc<Trace>, Rc<Trace>),
    pub(in super::super) outputs: Vec<(String, String)>,
}

impl Observer for Trace {
    fn node(&mut self, node: &NodeRun, outputs: &mut [Option<ObservedTensor>]) -> Result<()> {
        let name =
            |tensor: &Option<ObservedTensor>| tensor.as_ref().map_or_else(String::new, full_name);
        let made: Vec<String> = outputs.iter().map(name).collect();
        let is_new = made.iter().all(|name| !self.makers.contains_key(name));
        let is_held = |input: &Option<ObservedTensor>| {
            let name = input.as_ref().map(full_name).unwrap_or_default();
            input.is_none()
                || self.constants.contains_key(&name)
                || self.computed.contains_key(&name)
        };
        let is_computed = OF_WEIGHTS.contains(&node.op_type) && node.inputs.iter().all(is_held);
        for (name, output) in made.iter().zip(outputs.iter()) {
            if let Some(output) = output {
                self.makers.entry(name.clone()).or_insert(self.nodes.len());
                if is_computed && output.tensor.len() > KEPT {
                    self.computed.insert(name.clone(), TracedConstant::of(output));
                    continue;
                }
                if !output.graph.is_empty() {
                    self.paths.entry(name.clone()).or_insert_with(|| output.graph.clone());
                }
                self.values.entry(name.clone()).or_default().push(shared(output));
            }
        }
        let has_left = node.has_bodies() && self.running.len() > self.depth;
        let inside = if has_left { self.running.pop().unwrap_or_default() } else { vec![] };
        if is_new {
            self.taken.extend(node.inputs.iter().flatten().map(full_name));
            let is_constant = node.op_type == "Constant";
            self.nodes.push(Ran {
                name: node.name.into(),
                op: node.op_type.into(),
                domain: node.domain.into(),
                opset: node.opset,
                attributes: if is_constant {
                    Attributes::default()
                } else {
                    node.attributes.clone()
                },
                inputs: node.inputs.iter().map(name).collect(),
                outputs: made,
                inside,
            });
        }
        Ok(())
    }

    fn enters(&mut self, _: &[BodyInput]) -> Result<()> {
        self.depth += 1;
        Ok(())
    }

    fn leaves(&mut self, outputs: &[BodyOutput]) -> Result<()> {
        self.depth = self.depth.saturating_sub(1);
        self.running.resize_with(self.running.len().max(self.depth + 1), Vec::new);
        if let Some(running) = self.running.get_mut(self.depth) {
            *running = outputs.iter().map(|output| full_name(&output.value)).collect();
        }
        Ok(())
    }

    fn constant(&mut self, tensor: &mut ObservedTensor) -> Result<()> {
        self.constants.insert(full_name(tensor), TracedConstant::of(tensor));
        Ok(())
    }
}

/// A trace of a run of which another one has some of the values.
struct BesideTrace<'a> {
    trace: Trace,
    known: &'a Trace,
}

impl Observer for BesideTrace<'_> {
    fn known(&mut self, node: &NodeRun) -> Option<Vec<Option<SharedTensor>>> {
        let value = |name: Option<&str>| {
            let Some(name) = name else { return Some(None) };
            let name = name_in(&node.graph, name);
            let time = self.trace.values.get(&name).map_or(0, Vec::len);
            self.known.values.get(&name)?.get(time).cloned().map(Some)
        };
        node.output_names().map(value).collect()
    }

    fn next(&mut self) -> Option<&mut (dyn Observer + '_)> {
        Some(&mut self.trace)
    }

    fn node(&mut self, node: &NodeRun, outputs: &mut [Option<ObservedTensor>]) -> Result<()> {
        self.trace.node(node, outputs)
    }
}
