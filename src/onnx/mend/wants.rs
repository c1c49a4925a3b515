//! Which element type the users of a value want it to have, from the end of a graph to its beginning.

use std::collections::{HashMap, HashSet};

use tract_onnx::pb::{GraphProto, NodeProto, ValueInfoProto};

use super::types::{Known, constants, declared};
use crate::cast::element_type::ElementType;
use crate::onnx::cast_spec::Operator;
use crate::onnx::node::{is_default_domain, subgraphs};
use crate::onnx::operators::schema::{self, ParameterType, Schema};

/// What the users of values want, by the values' names.
pub(super) type Wants = HashMap<String, Want>;

/// What those users of a value want that want something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Want {
    All(ElementType),
    Different,
}

/// What is wanted of the values that a graph uses, whose nodes are in `order`. `outer` tells what is known around it.
pub(super) fn wants(
    graph: &GraphProto,
    order: &[usize],
    opset: i64,
    outer: &dyn Fn(&str) -> Option<ElementType>,
) -> Wants {
    let mut known = Known { outer, types: constants(graph) };
    let given = |input: &ValueInfoProto| Some((input.name.clone(), declared(input)?));
    known.types.extend(graph.input.iter().filter_map(given));
    let values = graph.value_info.iter().chain(&graph.output);
    let declared =
        values.filter_map(|value| Some((value.name.as_str(), declared(value)?))).collect();
    let mut wants = Wants::new();
    for node in order.iter().rev().filter_map(|index| graph.node.get(*index)) {
        for inner in node.attribute.iter().flat_map(subgraphs) {
            let order: Vec<usize> = (0..inner.node.len()).collect();
            let made = inner.node.iter().flat_map(|node| &node.output).map(String::as_str);
            let own: HashSet<&str> =
                onnx_cast_graph::given(inner).into_iter().chain(made).collect();
            for (value, want) in self::wants(inner, &order, opset, &|name| known.get(name)) {
                if !own.contains(value.as_str()) {
                    add(&mut wants, &value, want);
                }
            }
        }
        if let Some(schema) = schema_of(node, opset) {
            let node = Node { node, schema, known: &known, declared: &declared };
            for (value, want) in node.wants(&wants) {
                add(&mut wants, value, Want::All(want));
            }
        }
    }
    wants
}

/// The schema of a node that wants something: a cast takes anything.
pub(super) fn schema_of(node: &NodeProto, opset: i64) -> Option<&'static Schema> {
    let is_picky = is_default_domain(&node.domain) && Operator::of(node).is_none();
    schema::schema(&node.op_type, opset).filter(|_| is_picky)
}

fn add(wants: &mut Wants, value: &str, want: Want) {
    match wants.get_mut(value) {
        Some(all) if *all != want => *all = Want::Different,
        Some(_) => {}
        None => {
            wants.insert(value.into(), want);
        }
    }
}

/// A node, and what is known before its users have been asked.
struct Node<'a> {
    node: &'a NodeProto,
    schema: &'static Schema,
    known: &'a Known<'a>,
    declared: &'a HashMap<&'a str, ElementType>,
}

impl<'a> Node<'a> {
    /// What it wants its inputs to be: their only type, or that of the other values of the same type variable.
    fn wants(&self, wants: &Wants) -> Vec<(&'a str, ElementType)> {
        let mut wanted = vec![];
        let mut variables = HashMap::new();
        for (place, value) in self.node.input.iter().enumerate() {
            let Some(parameter) = self.schema.input(place).filter(|_| !value.is_empty()) else {
                continue;
            };
            if let Some(only) = self.schema.only_type(parameter.ty) {
                wanted.push((value.as_str(), only));
            } else if let ParameterType::Variable(variable) = parameter.ty
                && self.schema.binds(place, variable)
            {
                let (sure, inputs) =
                    variables.entry(variable).or_insert_with(|| self.variable(variable, wants));
                let by_input = inputs.iter().find(|(other, _)| *other != place).map(|(_, ty)| *ty);
                let ty = sure.or(by_input).filter(|ty| self.schema.allows(parameter.ty, *ty));
                wanted.extend(ty.map(|ty| (value.as_str(), ty)));
            }
        }
        wanted
    }

    /// What a type variable is: by constants and the graph's inputs, by what is wanted of the outputs, by what is declared of
    /// them; and what the first two inputs that are declared say, with their places.
    fn variable(
        &self,
        variable: &'static str,
        wants: &Wants,
    ) -> (Option<ElementType>, Vec<(usize, ElementType)>) {
        let inputs = self.node.input.iter().enumerate();
        let inputs = inputs.filter(|(place, _)| self.schema.binds(*place, variable));
        let outputs = self.node.output.iter().enumerate().filter(|(place, _)| {
            let output = self.schema.output(*place);
            output.is_some_and(|output| output.ty == ParameterType::Variable(variable))
        });
        let wanted = |name: &String| match wants.get(name) {
            Some(Want::All(ty)) => Some(*ty),
            _ => None,
        };
        let declared = |name: &String| self.declared.get(name.as_str()).copied();
        let sure = inputs.clone().find_map(|(_, name)| self.known.get(name));
        let sure = sure.or_else(|| outputs.clone().find_map(|(_, name)| wanted(name)));
        let sure = sure.or_else(|| outputs.clone().find_map(|(_, name)| declared(name)));
        let by_inputs = inputs.filter_map(|(place, name)| Some((place, declared(name)?)));
        (sure, by_inputs.take(2).collect())
    }
}
