//! Every value of a run, with the nodes that made it.

use std::collections::{HashMap, HashSet};

use tract_onnx::pb::{
    AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto,
};
use tract_onnx_cast::OnnxTensor;
use tract_onnx_cast::interpreter::{Interpreter, NodeRun, ObservedTensor, Observer, SharedTensor};

use crate::cli::work::spelt::label;

/// A node as it ran first.
pub(super) struct Ran {
    pub(super) name: String,
    pub(super) op: String,
    pub(super) domain: String,
    /// Without those of a `Constant`.
    pub(super) attributes: Vec<AttributeProto>,
    /// By place; empty for what is not given.
    pub(super) inputs: Vec<String>,
    pub(super) outputs: Vec<String>,
}

/// What a run has shown, by the values' full names.
#[derive(Default)]
pub(super) struct Trace {
    /// What each value was, as often as it was made.
    pub(super) values: HashMap<String, Vec<SharedTensor>>,
    pub(super) nodes: Vec<Ran>,
    /// The place of the node that makes a value.
    makers: HashMap<String, usize>,
    pub(super) constants: HashMap<String, SharedTensor>,
    pub(super) inputs: HashSet<String>,
}

/// The name of a value with the path of its graph below the main one.
pub(super) fn full_name(tensor: &ObservedTensor) -> String {
    match &*tensor.graph {
        "" => tensor.name.to_string(),
        graph => format!("{graph}/{}", tensor.name),
    }
}

pub(super) fn shared(tensor: &ObservedTensor) -> SharedTensor {
    (tensor.element_type, tensor.tensor.clone())
}

impl Trace {
    /// What a model does on inputs.
    ///
    /// # Errors
    ///
    /// When a node cannot be built or run.
    pub(super) fn of(
        model: &Interpreter,
        inputs: Vec<OnnxTensor>,
    ) -> tract_onnx_cast::Result<Trace> {
        let inputs_of = model.input_names().into_iter().map(String::from).collect();
        let mut trace = Trace { inputs: inputs_of, ..Trace::default() };
        model.run_observed(inputs, &mut trace)?;
        Ok(trace)
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

    /// A constant, or what a `Constant` node makes.
    pub(super) fn constant(&self, value: &str) -> Option<&SharedTensor> {
        let made = || self.maker(value).filter(|ran| ran.op == "Constant");
        self.constants.get(value).or_else(|| made().and_then(|_| self.first(value)))
    }

    /// The nodes that ran, those of bodies and functions among them, as one graph. It is to be read
    /// and cannot be run.
    pub(super) fn graph(&self, outputs: &[String]) -> ModelProto {
        let info = |name: &String| ValueInfoProto { name: name.clone(), ..Default::default() };
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
            input: self.inputs.iter().map(info).collect(),
            output: outputs.iter().map(info).collect(),
            ..GraphProto::default()
        };
        ModelProto { graph: Some(graph), ..ModelProto::default() }
    }
}

impl Observer for Trace {
    fn node(
        &mut self,
        node: &NodeRun,
        outputs: &mut [Option<ObservedTensor>],
    ) -> tract_onnx_cast::Result<()> {
        let name =
            |tensor: &Option<ObservedTensor>| tensor.as_ref().map_or_else(String::new, full_name);
        let made: Vec<String> = outputs.iter().map(name).collect();
        let is_new = made.iter().all(|name| !self.makers.contains_key(name));
        for (name, output) in made.iter().zip(outputs.iter()) {
            if let Some(output) = output {
                self.makers.entry(name.clone()).or_insert(self.nodes.len());
                self.values.entry(name.clone()).or_default().push(shared(output));
            }
        }
        if is_new {
            let is_constant = node.op_type == "Constant";
            self.nodes.push(Ran {
                name: label(node.name, node.op_type).into(),
                op: node.op_type.into(),
                domain: node.domain.into(),
                attributes: if is_constant { vec![] } else { node.attributes.to_vec() },
                inputs: node.inputs.iter().map(name).collect(),
                outputs: made,
            });
        }
        Ok(())
    }

    fn constant(&mut self, tensor: &mut ObservedTensor) -> tract_onnx_cast::Result<()> {
        self.constants.insert(full_name(tensor), shared(tensor));
        Ok(())
    }
}
