//! What a run shows of each node, and what whoever watches it may change.

use std::sync::{Arc, OnceLock};

use onnx_cast_graph::{Attributes, NodeId, ValueId};
use tract_onnx::prelude::Tensor;

use super::Interpreter;
use super::value::{RuntimeValue, TypedTensor};
use crate::cast::element_type::ElementType;
use crate::error::{Error, ErrorKind, Result};
use crate::plug::guard::without_panic_at;

/// Watches a run of an [`Interpreter`] ([`Interpreter::run_observed`]), and may change what it
/// sees. The nodes of a body are seen before the node that holds it, once for each time that the
/// body runs.
pub trait Observer {
    /// The observer that is told what this one has no function for: one that wraps another passes
    /// on whatever there is to see by naming it.
    fn next(&mut self) -> Option<&mut (dyn Observer + '_)> {
        None
    }

    /// What a node is known to make of what it is about to be given, by place, so that it does not
    /// run; `None` where that is not known. A node that holds bodies is not asked for. Of another
    /// number of outputs than the node has the run fails.
    fn known(&mut self, node: &NodeRun) -> Option<Vec<Option<SharedTensor>>> {
        self.next()?.known(node)
    }

    /// A node that has run. The nodes behind it are given what is left in `outputs`.
    ///
    /// # Errors
    ///
    /// Whatever is to end the run.
    fn node(&mut self, node: &NodeRun, outputs: &mut [Option<ObservedTensor>]) -> Result<()>;

    /// A constant of the model, when it is read: once, or, where a body takes it that runs again,
    /// perhaps each time.
    ///
    /// # Errors
    ///
    /// Whatever is to end the run.
    fn constant(&mut self, tensor: &mut ObservedTensor) -> Result<()> {
        self.next().map_or(Ok(()), |next| next.constant(tensor))
    }

    /// A body of a node is about to run on these values.
    ///
    /// # Errors
    ///
    /// Whatever is to end the run.
    fn enters(&mut self, inputs: &[BodyInput]) -> Result<()> {
        self.next().map_or(Ok(()), |next| next.enters(inputs))
    }

    /// A body has run. The node that holds it is seen behind the last time that one runs.
    ///
    /// # Errors
    ///
    /// Whatever is to end the run.
    fn leaves(&mut self, outputs: &[BodyOutput]) -> Result<()> {
        self.next().map_or(Ok(()), |next| next.leaves(outputs))
    }

    /// A value or a constant that no node behind needs, or that is read again for it. What a body
    /// makes of its node's outputs is dropped behind the node.
    fn dropped(&mut self, value: &ObservedTensor) {
        if let Some(next) = self.next() {
            next.dropped(value);
        }
    }
}

/// A tensor of a running model.
#[derive(Debug, Clone)]
pub struct ObservedTensor {
    /// The value's name in the file; inside functions, behind the names of their calls.
    pub name: Arc<str>,
    /// The path of the graph in which it is made below the main one, in steps `node.attribute`;
    /// empty for the main graph.
    pub graph: Arc<str>,
    /// What the elements are.
    pub element_type: ElementType,
    /// The carrier, as tract has it. A large matrix that is a constant, or that `DequantizeLinear`
    /// or `Transpose` makes, may not be in memory until its elements are asked for, as that of
    /// [`read_late`](crate::tensor_proto::read_late).
    pub tensor: Arc<Tensor>,
    /// Whether it is an initializer.
    pub is_constant: bool,
}

impl From<ObservedTensor> for RuntimeValue {
    fn from(tensor: ObservedTensor) -> RuntimeValue {
        RuntimeValue::Tensor(TypedTensor { ty: tensor.element_type, tensor: tensor.tensor })
    }
}

/// A tensor that a body of `Loop` or `Scan` takes.
#[derive(Debug, Clone)]
pub struct BodyInput {
    /// The value in the body.
    pub value: ObservedTensor,
    /// What it is, or is a part of: an input of the node, or what the body has made the time
    /// before.
    pub source: ObservedTensor,
    /// The axis and the place along it where it is part of its source.
    pub part: Option<(usize, usize)>,
}

/// A tensor that a body has made.
#[derive(Debug, Clone)]
pub struct BodyOutput {
    /// The value in the body.
    pub value: ObservedTensor,
    /// The place of the node's output that it becomes.
    pub output: usize,
    /// The axis along which those of all times are stacked, and whether the last is the first
    /// there; `None` where the last time counts.
    pub stacks: Option<(usize, bool)>,
}

/// A node as it ran.
pub struct NodeRun<'a> {
    model: &'a Interpreter,
    id: NodeId,
    /// What messages call it: its name, or its first output where it has none.
    pub name: &'a str,
    /// The path of the graph in which it stands below the main one; empty for the main graph.
    pub graph: Arc<str>,
    /// The operator's name.
    pub op_type: &'a str,
    /// The operator's domain.
    pub domain: &'a str,
    /// The version of the default domain by which the operator is understood.
    pub opset: i64,
    /// Its attributes, those that hold graphs excepted.
    pub attributes: &'a Attributes,
    /// What it was given, by place; `None` for what is not given, and for what is no tensor.
    pub inputs: Vec<Option<ObservedTensor>>,
    /// That memory ran out when it ran on other inputs.
    short: OnceLock<Error>,
}

impl NodeRun<'_> {
    /// Whether it holds bodies, which have run before it is seen.
    pub fn has_bodies(&self) -> bool {
        !self.model.graph.node(self.id).bodies().is_empty()
    }

    /// Whether all that it was given are tensors: it takes no sequence and no optional.
    pub fn takes_tensors(&self) -> bool {
        let given = self.model.graph.node(self.id).inputs().iter().zip(&self.inputs);
        given.clone().all(|(given, shown)| given.is_some() == shown.is_some())
    }

    /// The names of what it makes, by place; `None` for what nobody takes.
    pub fn output_names(&self) -> impl Iterator<Item = Option<&str>> {
        let graph = &self.model.graph;
        graph.node(self.id).outputs().iter().map(|made| made.map(|id| &*graph.value(id).name))
    }

    /// An error that names the node: what ends a run.
    pub fn refused(&self, problem: impl Into<String>) -> Error {
        Error::of_node(self.name, self.op_type, problem)
    }

    /// What the node makes of other inputs, by place. It is built as for the run, which ends behind
    /// the node where memory does not suffice: what an observer then knows depends on how much
    /// there is.
    ///
    /// # Errors
    ///
    /// When it cannot be built for these inputs, or run on them; when it holds bodies.
    pub fn run_on(&self, inputs: &[Option<SharedTensor>]) -> Result<Vec<Option<SharedTensor>>> {
        let given = |input: &Option<SharedTensor>| {
            let (ty, tensor) = input.clone()?;
            Some(RuntimeValue::Tensor(TypedTensor { ty, tensor }))
        };
        let given = inputs.iter().map(given).collect();
        let node = self.model.graph.node(self.id);
        let made = without_panic_at(node, || self.model.made(self.id, given)).map_err(|error| {
            let error = Error::of(error);
            if error.kind() == ErrorKind::Memory {
                let _ = self.short.set(error.clone());
            }
            error
        })?;
        let tensor = |value| match value {
            RuntimeValue::Tensor(TypedTensor { ty, tensor }) => Some((ty, tensor)),
            _ => None,
        };
        Ok(made.into_iter().map(tensor).collect())
    }
}

impl NodeRun<'_> {
    /// Fails when memory ran out where an observer had the node run on other inputs.
    pub(super) fn ended(self) -> Result<()> {
        self.short.into_inner().map_or(Ok(()), Err)
    }
}

/// A type, and a carrier of it.
pub type SharedTensor = (ElementType, Arc<Tensor>);

impl Interpreter {
    /// The path of a value's body below the main graph.
    fn path_below(&self, path: &Arc<str>) -> Arc<str> {
        let main = &self.graph.body(self.graph.main()).path;
        let below = path.strip_prefix(&**main).unwrap_or(path);
        below.strip_prefix('/').unwrap_or(below).into()
    }

    pub(super) fn observed(&self, id: ValueId, value: &RuntimeValue) -> Option<ObservedTensor> {
        let RuntimeValue::Tensor(TypedTensor { ty, tensor }) = value else { return None };
        let held = self.graph.value(id);
        Some(ObservedTensor {
            name: held.name.clone(),
            graph: self.path_below(&self.graph.body(held.body()).path),
            element_type: *ty,
            tensor: tensor.clone(),
            is_constant: held.is_constant(),
        })
    }

    pub(super) fn node_run(&self, id: NodeId, inputs: &[Option<RuntimeValue>]) -> NodeRun<'_> {
        let node = self.graph.node(id);
        let observed = |(id, value): (&Option<ValueId>, &Option<RuntimeValue>)| {
            self.observed((*id)?, value.as_ref()?)
        };
        NodeRun {
            model: self,
            id,
            name: node.shared_label(),
            graph: self.path_below(&self.graph.body(node.body()).path),
            op_type: &node.op_type,
            domain: &node.domain,
            opset: node.opset,
            attributes: &node.attributes,
            inputs: node.inputs().iter().zip(inputs).map(observed).collect(),
            short: OnceLock::new(),
        }
    }
}
