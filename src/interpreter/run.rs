//! One run: the values that are there, and the walk over a body.

use onnx_cast_graph::{BodyId, Node, NodeId, Table, ValueId, counted};
use tract_onnx::pb::TypeProto;
use tract_onnx::prelude::TractResult;

use super::node::blocks;
use super::observer::{NodeRun, ObservedTensor, Observer};
use super::value::{RuntimeValue, TypedTensor};
use super::{Interpreter, kernels};
use crate::cast::element_type::ElementType;
use crate::error::{self, Cause, Error};
use crate::onnx::declared_shapes::element_type;
use crate::onnx::node::refusal;
use crate::passes::facts::value_type::output_declarations;
use crate::plug::guard::without_panic_at;
use crate::tensor::memory::Memory;
use crate::tensor::proto::packed_matrix;

/// The values of a running model.
pub(super) struct ModelRun<'a> {
    pub(super) model: &'a Interpreter,
    values: Table<ValueId, RuntimeValue>,
    pub(super) observer: Option<&'a mut dyn Observer>,
    /// What bodies have handed over last, which the observer knows until the node around has run.
    pub(super) handed: Table<BodyId, Vec<ObservedTensor>>,
    /// Of weights that nothing takes any more.
    pub(super) memory: Memory,
}

/// What runs an operator here rather than by tract: the inputs by place, then the outputs by place.
pub(super) type OperatorFn = fn(&mut ModelRun, NodeId, NodeInputs) -> NodeOutputs;

/// An operator that runs here, its function, the most inputs that it takes, and its attributes.
pub(super) type OperatorEntry = (&'static str, OperatorFn, usize, &'static [&'static str]);

/// What runs a node.
#[derive(Clone, Copy)]
pub(super) enum NodeRunner {
    /// An operator of this folder's.
    Here(&'static OperatorEntry),
    /// A kernel of this project's.
    Kernel(kernels::Kernel),
    Tract,
}

/// The inputs of a node by place; `None` for one that is not given.
pub(super) type NodeInputs = Vec<Option<RuntimeValue>>;

/// The outputs of a node by place, or why it cannot be run.
pub(super) type NodeOutputs = TractResult<Vec<RuntimeValue>>;

impl<'a> ModelRun<'a> {
    pub(super) fn new(model: &'a Interpreter) -> ModelRun<'a> {
        ModelRun {
            model,
            values: Table::default(),
            observer: None,
            handed: Table::default(),
            memory: Memory::of_weights(),
        }
    }

    pub(super) fn observed_by(
        model: &'a Interpreter,
        observer: &'a mut dyn Observer,
    ) -> ModelRun<'a> {
        ModelRun { observer: Some(observer), ..ModelRun::new(model) }
    }

    /// Runs a body on values for its inputs, and returns those of its outputs.
    pub(super) fn body(&mut self, body: BodyId, inputs: Vec<RuntimeValue>) -> NodeOutputs {
        let open: Vec<ValueId> = self.model.open_inputs(body).collect();
        if open.len() != inputs.len() {
            let graph = &self.model.graph.body(body).path;
            let problem = format!("takes {}, given {}", counted(open.len(), "input"), inputs.len());
            Err(Error::graph(&**graph, problem))?;
        }
        for (id, value) in open.into_iter().zip(inputs) {
            self.values.insert(id, value);
        }
        let Some(schedule) = self.model.schedules.of_body(body) else { return Ok(vec![]) };
        for step in &schedule.steps {
            self.node(step.node)?;
            self.forget(&step.last_uses);
        }
        self.forget(&schedule.unused);
        let held = self.model.graph.body(body);
        let mut outputs = vec![];
        for output in held.outputs() {
            let value = self.value(output.value)?;
            if let Some((ty, declared)) = contradiction(&value, output.declared.r#type.as_ref()) {
                let name = &output.declared.name;
                let problem =
                    format!("output `{name}` is {ty}, but the model declares it {declared}");
                Err(Error::graph(&*held.path, problem))?;
            }
            outputs.push(value);
        }
        for id in &schedule.handed {
            self.values.remove(*id);
        }
        Ok(outputs)
    }

    /// Drops values, and tells the observer.
    fn forget(&mut self, values: &[ValueId]) {
        for id in values {
            let value = self.values.remove(*id);
            let Some(observer) = &mut self.observer else { continue };
            if let Some(dropped) = value.and_then(|value| self.model.observed(*id, &value)) {
                observer.dropped(&dropped);
            }
        }
    }

    /// A value that is there, or a constant, which is read.
    pub(super) fn value(&mut self, id: ValueId) -> TractResult<RuntimeValue> {
        if let Some(value) = self.values.get(id) {
            return Ok(value.clone());
        }
        let value = self.model.graph.value(id);
        let Some(constant) = self.model.graph.constant(id) else {
            let problem = format!("has nothing that makes `{}`", value.name);
            return Err(Error::from(Cause::Model { problem }).into());
        };
        let read = match packed_matrix(constant, &self.memory)? {
            Some((ty, packed)) => TypedTensor::new(ty, packed)?,
            None => self.model.builder.constant(constant, &self.memory)?,
        };
        let mut value = RuntimeValue::Tensor(read);
        if let Some(observer) = &mut self.observer
            && let Some(mut tensor) = self.model.observed(id, &value)
        {
            // What the observer changes is then no copy.
            drop(value);
            observer.constant(&mut tensor)?;
            value = tensor.into();
        }
        self.values.insert(id, value.clone());
        Ok(value)
    }

    pub(super) fn node(&mut self, id: NodeId) -> TractResult<()> {
        let node = self.model.graph.node(id);
        let mut inputs = vec![];
        for input in node.inputs() {
            inputs.push(input.map(|id| without_panic_at(node, || self.value(id))).transpose()?);
        }
        let seen = self.observer.is_some().then(|| self.model.node_run(id, &inputs));
        let mut outputs = match self.known(node, seen.as_ref())? {
            Some(known) => known,
            None => without_panic_at(node, || self.made(id, inputs))?,
        };
        if let (Some(observer), Some(seen)) = (&mut self.observer, seen) {
            // What the observer changes is no copy: a value is held by what it is shown alone.
            let shown = |(id, value): (&Option<ValueId>, RuntimeValue)| match id
                .and_then(|id| self.model.observed(id, &value))
            {
                Some(tensor) => (Some(tensor), None),
                None => (None, Some(value)),
            };
            let places = node.outputs().iter().zip(outputs);
            let (mut observed, others): (Vec<Option<ObservedTensor>>, Vec<Option<RuntimeValue>>) =
                places.map(shown).unzip();
            without_panic_at(node, || Ok(observer.node(&seen, &mut observed)?))?;
            seen.ended()?;
            let handed = node.bodies().iter().filter_map(|held| self.handed.remove(held.body));
            handed.flatten().for_each(|dropped| observer.dropped(&dropped));
            let left = observed.into_iter().zip(others);
            let left = left.map(|(tensor, other)| tensor.map(RuntimeValue::from).or(other));
            outputs = match left.collect::<Option<Vec<RuntimeValue>>>() {
                Some(left) => left,
                None => return self.refuse(id, "has lost an output to what observes it"),
            };
        }
        for (made, value) in node.outputs().iter().zip(outputs) {
            if let Some(made) = *made {
                self.check(id, made, &value)?;
                self.values.insert(made, value);
            }
        }
        Ok(())
    }

    /// What the observer knows of what a node makes, by place.
    fn known(
        &mut self,
        node: &Node,
        seen: Option<&NodeRun>,
    ) -> TractResult<Option<Vec<RuntimeValue>>> {
        let (Some(observer), Some(seen)) = (&mut self.observer, seen) else { return Ok(None) };
        if !node.bodies().is_empty() {
            return Ok(None);
        }
        let tensor = |made| match made {
            Some((ty, tensor)) => Ok(TypedTensor { ty, tensor }),
            None => TypedTensor::unwanted(),
        };
        let Some(known) = observer.known(seen) else { return Ok(None) };
        if known.len() != node.outputs().len() {
            let [known, made] = [known.len(), node.outputs().len()];
            let problem = format!("makes {}, and {known} are known", counted(made, "output"));
            Err(refusal(node, problem))?;
        }
        let known = known.into_iter().map(tensor);
        known.map(|made| made.map(RuntimeValue::Tensor)).collect::<TractResult<_>>().map(Some)
    }

    /// What a node makes of its inputs, by place.
    pub(super) fn made(&mut self, id: NodeId, inputs: NodeInputs) -> NodeOutputs {
        let node = self.model.graph.node(id);
        let (_, operator, most, attributes) = match self.model.runners.get(id) {
            Some(NodeRunner::Here(row)) => row,
            Some(NodeRunner::Kernel(kernel)) => {
                let made = kernel(&kernels::KernelSite::of(node)?, &self.all_tensors(id, inputs)?)?;
                return Ok(made.into_iter().map(RuntimeValue::Tensor).collect());
            }
            Some(NodeRunner::Tract) | None => return self.tensors(id, inputs),
        };
        if inputs.len() > *most {
            return self
                .refuse(id, format!("has {}, and takes {most}", counted(inputs.len(), "input")));
        }
        self.check_attributes(id, attributes)?;
        operator(self, id, inputs)
    }

    /// Refuses an attribute that the operator does not have: of the others the passes do.
    fn check_attributes(&self, id: NodeId, known: &[&str]) -> TractResult<()> {
        let node = self.model.graph.node(id);
        let held = node.bodies().iter().map(|held| &held.attribute);
        let mut names = node.attributes.iter().map(|attribute| &attribute.name).chain(held);
        match names.find(|name| !known.contains(&name.as_str())) {
            Some(name) => {
                let (name, opset) = (error::shown(name), node.opset);
                self.refuse(
                    id,
                    format!("has the attribute `{name}`, which opset {opset} does not have"),
                )
            }
            None => Ok(()),
        }
    }

    /// Holds what a node makes against the type that the model declares: of an output what is
    /// declared there, as ONNX Runtime does.
    fn check(&self, id: NodeId, made: ValueId, value: &RuntimeValue) -> TractResult<()> {
        if self.model.builder.overlooks_types() {
            return Ok(());
        }
        let graph = &self.model.graph;
        let mut of_outputs = output_declarations(graph, made);
        let made = graph.value(made);
        let of_output = of_outputs.find(|(body, _)| *body == made.body()).and_then(|(_, ty)| ty);
        match contradiction(value, of_output.or(made.declared.as_ref())) {
            Some((ty, declared)) => {
                let name = &made.name;
                self.refuse(
                    id,
                    format!("makes `{name}` {ty}, but the model declares it {declared}"),
                )
            }
            None => Ok(()),
        }
    }

    /// Runs a node that takes and makes tensors by tract.
    pub(super) fn tensors(&mut self, id: NodeId, inputs: NodeInputs) -> NodeOutputs {
        let mut tensors = self.all_tensors(id, inputs)?;
        let (graph, builder) = (&self.model.graph, &self.model.builder);
        let node = graph.node(id);
        if let Some(rows) = blocks::of_rows(node, &tensors)? {
            tensors = rows;
        }
        let outputs = match blocks::columns(node, &tensors) {
            Some(columns) => {
                let mut is_same_run = false;
                blocks::in_blocks(&tensors, columns, |part| {
                    let made = builder.run(graph, id, part, is_same_run);
                    is_same_run = true;
                    made
                })?
            }
            None => builder.run(graph, id, &tensors, false)?,
        };
        Ok(outputs.into_iter().map(RuntimeValue::Tensor).collect())
    }

    /// Inputs that have to be tensors.
    fn all_tensors(&self, id: NodeId, inputs: NodeInputs) -> TractResult<Vec<Option<TypedTensor>>> {
        let node = self.model.graph.node(id);
        let mut tensors = vec![];
        for (place, input) in inputs.into_iter().enumerate() {
            tensors.push(match input {
                None => None,
                Some(RuntimeValue::Tensor(tensor)) => Some(tensor),
                Some(other) => {
                    let problem = format!("input {place} is {}, a tensor is wanted", other.kind());
                    Err(refusal(node, problem))?
                }
            });
        }
        Ok(tensors)
    }

    /// The body that an attribute of a node holds.
    pub(super) fn body_at(&self, id: NodeId, attribute: &str) -> TractResult<BodyId> {
        let node = self.model.graph.node(id);
        let held = node.bodies().iter().find(|held| held.attribute == attribute);
        Ok(held.map(|held| held.body).ok_or_else(|| {
            refusal(node, format!("has no attribute `{attribute}` that is a graph"))
        })?)
    }

    /// The error about a node.
    pub(super) fn refuse<T>(&self, id: NodeId, problem: impl Into<String>) -> TractResult<T> {
        Err(refusal(self.model.graph.node(id), problem).into())
    }

    /// A tensor that has to be given at a place.
    pub(super) fn tensor(
        &self,
        id: NodeId,
        inputs: &NodeInputs,
        place: usize,
    ) -> TractResult<TypedTensor> {
        match inputs.get(place) {
            Some(Some(RuntimeValue::Tensor(tensor))) => Ok(tensor.clone()),
            _ => self.refuse(id, format!("input {place} is no tensor")),
        }
    }

    /// The one element of a tensor at a place, as INT64; `None` where the input is not given.
    pub(super) fn number(
        &self,
        id: NodeId,
        inputs: &NodeInputs,
        place: usize,
    ) -> TractResult<Option<i64>> {
        if !matches!(inputs.get(place), Some(Some(_))) {
            return Ok(None);
        }
        let tensor = self.tensor(id, inputs, place)?.tensor;
        if tensor.len() != 1 {
            return self.refuse(id, format!("input {place} is of size {}, not 1", tensor.len()));
        }
        let number = tensor.cast_to::<i64>()?;
        Ok(number.try_as_plain_ram()?.as_slice::<i64>()?.first().copied())
    }
}

/// The type of a tensor that is declared as one of another type, and that type.
fn contradiction(
    value: &RuntimeValue,
    declared: Option<&TypeProto>,
) -> Option<(ElementType, ElementType)> {
    let RuntimeValue::Tensor(TypedTensor { ty, .. }) = value else { return None };
    let declared = element_type(declared)?;
    (declared != *ty).then_some((*ty, declared))
}
