//! Which element type the users of a value want it to have, from the end of a graph to its
//! beginning.

use std::collections::HashMap;

use onnx_cast_graph::{BodyId, Graph, Node, NodeId, NodeView, Origin, ValueId};

use crate::cast::element_type::ElementType;
use crate::onnx::cast_spec::Operator;
use crate::onnx::declared_shapes::element_type;
use crate::onnx::operators::behaviour::Behaviour;
use crate::onnx::operators::schema::{self, ParameterType, Schema};
use crate::onnx::operators::types::held_type;
use crate::typed::inference::{KnownTypes, declared};

/// What those users of a value want that want something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Want {
    All(ElementType),
    Different,
}

/// What is wanted of the values that a body and those in it use.
pub(super) fn wants(known: &KnownTypes, body: BodyId) -> HashMap<ValueId, Want> {
    let mut users = UserWants { known, body, wants: HashMap::new() };
    for id in known.graph.all_nodes(body).into_iter().rev() {
        let node = known.graph.node(id);
        if let Some(schema) = schema_of(node) {
            for (value, ty) in users.wanted_by(node, schema) {
                let want = users.wants.entry(value).or_insert(Want::All(ty));
                if *want != Want::All(ty) {
                    *want = Want::Different;
                }
            }
        }
    }
    users.wants
}

/// The schema of a node that wants something: a cast takes anything.
pub(super) fn schema_of(node: &Node) -> Option<&'static Schema> {
    let is_picky = node.is_onnx() && Operator::of(node).is_none();
    schema::schema(&node.op_type, node.opset).filter(|_| is_picky)
}

/// The type of a value that no other node decides on: an input's, or a constant's.
pub(super) fn given_type(graph: &Graph, value: ValueId) -> Option<ElementType> {
    let held = graph.value(value);
    match held.origin() {
        Origin::Input => element_type(held.declared.as_ref()),
        Origin::Constant(tensor) => ElementType::from_id(tensor.data_type),
        Origin::Node(id, _) if Behaviour::of(graph.node(*id)).makes_attributes => {
            held_type(graph.node(*id))
        }
        Origin::Node(..) | Origin::Missing => None,
    }
}

/// The users of values, and what is known before they have been asked.
struct UserWants<'k, 'g> {
    known: &'k KnownTypes<'g>,
    body: BodyId,
    wants: HashMap<ValueId, Want>,
}

impl UserWants<'_, '_> {
    /// What a node wants its inputs to be: their only type, or that of the other values of the same
    /// type variable.
    fn wanted_by(&self, node: &Node, schema: &'static Schema) -> Vec<(ValueId, ElementType)> {
        let mut wanted = vec![];
        let mut variables = HashMap::new();
        for (place, value) in node.inputs().iter().enumerate() {
            let (Some(value), Some(parameter)) = (*value, schema.input(place)) else { continue };
            if let Some(only) = schema.only_type(parameter.ty) {
                wanted.push((value, only));
            } else if let ParameterType::Variable(variable) = parameter.ty
                && schema.binds(place, variable)
            {
                let (sure, inputs) = variables
                    .entry(variable)
                    .or_insert_with(|| self.variable(node, schema, variable));
                let by_input = inputs.iter().find(|(other, _)| *other != place).map(|(_, ty)| *ty);
                let ty = sure.or(by_input).filter(|ty| schema.allows(parameter.ty, *ty));
                wanted.extend(ty.map(|ty| (value, ty)));
            }
        }
        wanted
    }

    /// What a type variable is: by constants and the graph's inputs, by what is wanted of the
    /// outputs, by what is declared of them; and what the first two inputs that are declared say,
    /// with their places.
    fn variable(
        &self,
        node: &Node,
        schema: &Schema,
        variable: &'static str,
    ) -> (Option<ElementType>, Vec<(usize, ElementType)>) {
        let graph = &*self.known.graph;
        let inputs = node.inputs().iter().enumerate();
        let inputs = inputs.filter_map(|(place, value)| Some((place, (*value)?)));
        let inputs = inputs.filter(|(place, _)| schema.binds(*place, variable));
        let outputs = outputs_of(node, schema, variable);
        let wanted = |value: &ValueId| match self.wants.get(value) {
            Some(Want::All(ty)) => Some(*ty),
            _ => None,
        };
        let sure = inputs.clone().find_map(|(_, value)| self.sure(value));
        let sure = sure.or_else(|| outputs.iter().find_map(wanted));
        let sure = sure.or_else(|| outputs.iter().find_map(|value| declared(graph, *value)));
        let by_inputs = inputs.filter_map(|(place, value)| Some((place, declared(graph, value)?)));
        (sure, by_inputs.take(2).collect())
    }

    /// The type of a value that is not in question: one that is given, or from around the body.
    fn sure(&self, value: ValueId) -> Option<ElementType> {
        let graph = &*self.known.graph;
        if graph.is_within(graph.value(value).body(), self.body) {
            given_type(graph, value)
        } else {
            self.known.ty(value)
        }
    }
}

/// The outputs of a node that have the type of a variable.
pub(super) fn outputs_of(node: &Node, schema: &Schema, variable: &'static str) -> Vec<ValueId> {
    let outputs = node.outputs().iter().enumerate().filter(|(place, _)| {
        let output = schema.output(*place);
        output.is_some_and(|output| output.ty == ParameterType::Variable(variable))
    });
    outputs.filter_map(|(_, value)| *value).collect()
}

/// Two types that a node takes where it takes one.
pub(super) fn mixed(known: &KnownTypes, id: NodeId) -> Option<(ElementType, ElementType)> {
    let (schema, types) = (schema_of(known.graph.node(id))?, known.inputs(id));
    let of_variable = |variable| {
        let bound = types.iter().enumerate().filter(|(place, _)| schema.binds(*place, variable));
        let mut bound = bound.filter_map(|(_, ty)| *ty);
        let first = bound.next()?;
        bound.find(|ty| *ty != first).map(|other| (first, other))
    };
    schema.variables().find_map(of_variable).or_else(|| apart_in_insert(known, id))
}

/// The type of a sequence's elements, and that of a tensor to be put among them, where it is
/// another one.
pub(super) fn apart_in_insert(
    known: &KnownTypes,
    id: NodeId,
) -> Option<(ElementType, ElementType)> {
    let (node, types) = (known.graph.node(id), known.inputs(id));
    let (elements, inserted) = (types.first().copied()??, types.get(1).copied()??);
    (node.is("SequenceInsert") && elements != inserted).then_some((elements, inserted))
}
