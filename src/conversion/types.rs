//! Pass: the element types of all values. It changes nothing in the graph.
//!
//! A value's type is what its node makes of those of its inputs by ONNX's schemas, else what the
//! model declares of it. What contradicts itself is collected: such a model is mended before it is
//! converted.

use std::collections::HashMap;

use onnx_cast_graph::{BodyId, Graph, NodeId, NodeView, Use, ValueId};

use super::context::Context;
use crate::cast::element_type::ElementType;
use crate::error::Result;
use crate::onnx::cast_spec::Operator;
use crate::onnx::declared_shapes::element_type;
use crate::onnx::node::int;
use crate::onnx::operators::behaviour::Behaviour;
use crate::onnx::operators::schema::{self, ParameterType};
use crate::onnx::operators::types::{held_type, of_any_domain};

/// How many calls of functions are gone through.
const CALLS: usize = 1 << 12;

type Types = Vec<Option<ElementType>>;

/// Fills [`Context::types`].
pub(super) fn infer(graph: &mut Graph, context: &mut Context) -> Result<()> {
    let main = graph.main();
    Inference { graph, context, calls: 0, active: vec![], called: HashMap::new() }.body(main, &[]);
    Ok(())
}

struct Inference<'g, 'c, 'o> {
    graph: &'g Graph,
    context: &'c mut Context<'o>,
    /// How many calls have been gone through.
    calls: usize,
    /// The functions whose calls are gone through, each within the one before.
    active: Vec<BodyId>,
    /// What functions were given, and what they made of it.
    called: HashMap<BodyId, (Types, Types)>,
}

impl Inference<'_, '_, '_> {
    /// Infers the types in a body that is fed values of the types `given`, where they are known.
    /// Returns its outputs' types.
    fn body(&mut self, body: BodyId, given: &[Option<ElementType>]) -> Types {
        let graph = self.graph;
        for (place, value) in graph.body(body).inputs().iter().enumerate() {
            let fed = given.get(place).copied().flatten();
            self.learn(*value, fed);
        }
        for value in graph.body(body).constants() {
            let ty = graph.constant(*value).and_then(|t| ElementType::from_id(t.data_type));
            self.learn(*value, ty);
        }
        for id in graph.nodes_of(body) {
            self.node(id);
        }
        let outputs = graph.body(body).outputs().iter();
        outputs.map(|output| self.context.types.get(output.value).copied()).collect()
    }

    /// Holds what is made against what is declared.
    fn learn(&mut self, value: ValueId, made: Option<ElementType>) {
        let held = self.graph.value(value);
        let mut types: Vec<ElementType> = made.into_iter().collect();
        types.extend(element_type(held.declared.as_ref()));
        for used in held.uses() {
            let Use::Output(body, place) = used else { continue };
            let output = self.graph.body(body).outputs().get(place);
            types.extend(output.and_then(|output| element_type(output.declared.r#type.as_ref())));
        }
        let Some(first) = types.first().copied() else { return };
        if let Some(other) = types.iter().find(|ty| **ty != first) {
            let name = &held.name;
            let problem = format!("value `{name}` is {first}, and declared {other}");
            self.context.contradictions.push(problem);
        }
        self.context.types.insert(value, first);
    }

    fn node(&mut self, id: NodeId) {
        let node = self.graph.node(id);
        let known = |value: &Option<ValueId>| self.context.types.get((*value)?).copied();
        let inputs: Types = node.inputs().iter().map(known).collect();
        self.check_inputs(id, &inputs);
        let made = self.made(id, &inputs);
        for (place, value) in node.outputs().iter().enumerate() {
            if let Some(value) = value {
                self.learn(*value, made.get(place).copied().flatten());
            }
        }
    }

    /// Whether inputs of one type variable have one type.
    fn check_inputs(&mut self, id: NodeId, inputs: &[Option<ElementType>]) {
        let node = self.graph.node(id);
        let schema = schema::schema(&node.op_type, node.opset).filter(|_| node.is_onnx());
        let Some(schema) = schema else { return };
        for (place, ty) in inputs.iter().enumerate() {
            let (Some(ty), Some(parameter)) = (ty, schema.input(place)) else { continue };
            let wanted = match parameter.ty {
                ParameterType::Fixed(fixed) => fixed,
                ParameterType::Variable(name) if schema.binds(place, name) => {
                    schema.bound(name, inputs)
                }
                ParameterType::Variable(_) => None,
            };
            if let Some(wanted) = wanted.filter(|wanted| wanted != ty) {
                let label = node.label();
                let problem =
                    format!("node `{label}` ({}) takes {ty} beside {wanted}", node.op_type);
                self.context.contradictions.push(problem);
            }
        }
    }

    fn made(&mut self, id: NodeId, inputs: &Types) -> Types {
        let node = self.graph.node(id);
        if node.attributes.iter().any(|attribute| !attribute.ref_attr_name.is_empty()) {
            return vec![];
        }
        match Operator::of(node) {
            Some(Operator::Cast) => {
                let to = int(node, "to").and_then(|to| i32::try_from(to).ok());
                return vec![to.and_then(ElementType::from_id)];
            }
            Some(Operator::CastLike) => return vec![inputs.get(1).copied().flatten()],
            None => {}
        }
        if Behaviour::of(node).makes_attributes {
            return vec![held_type(node)];
        }
        if !node.bodies().is_empty() {
            return self.held(id, inputs);
        }
        if let Some(function) = self.context.function(node) {
            return self.call(function, inputs);
        }
        of_any_domain(node, node.opset, inputs)
    }

    /// What a node makes that holds bodies.
    fn held(&mut self, id: NodeId, inputs: &Types) -> Types {
        let node = self.graph.node(id);
        let (int, bool) = (Some(ElementType::Int64), Some(ElementType::Bool));
        let (fed, skipped): (Types, usize) = match node.op_type() {
            "Loop" => ([int, bool].into_iter().chain(inputs.iter().skip(2).copied()).collect(), 1),
            "Scan" if node.opset < 9 => (inputs.iter().skip(1).copied().collect(), 0),
            "Scan" => (inputs.clone(), 0),
            _ => (vec![], 0),
        };
        let mut first = None;
        for held in node.bodies() {
            let returned = self.body(held.body, &fed);
            first.get_or_insert(returned);
        }
        first.unwrap_or_default().into_iter().skip(skipped).collect()
    }

    /// What a function makes. One that is called with values of several types stays as it is.
    fn call(&mut self, function: BodyId, inputs: &Types) -> Types {
        match self.called.get(&function) {
            Some((given, made)) if given == inputs => return made.clone(),
            Some(_) => drop(self.context.mixed.insert(function)),
            None => {}
        }
        if self.active.contains(&function) || self.calls >= CALLS {
            return vec![];
        }
        self.calls += 1;
        self.active.push(function);
        let made = self.body(function, inputs);
        self.active.pop();
        self.called.insert(function, (inputs.clone(), made.clone()));
        made
    }
}
