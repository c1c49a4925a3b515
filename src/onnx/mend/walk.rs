//! The walk through a model's graphs and functions, in the order of computation.

use std::collections::{BTreeMap, HashMap};

use onnx_cast_graph::sorted;
use tract_onnx::pb::{FunctionProto, ModelProto, NodeProto};

use super::body::{Body, Names, OF_FUNCTION, OF_GRAPH};
use super::change::Work;
use super::settle::Fed;
use super::types::{declared, made};
use super::wants::wants;
use super::wire::{ONLY, Place};
use crate::cast::element_type::ElementType;
use crate::onnx::cast_spec::{CastSpec, Operator};
use crate::onnx::function_fields::Parts;
use crate::onnx::node::{default_opset, is_default_domain, node_name};
use crate::onnx::operators::schema;
use crate::onnx::subgraphs;
use crate::passes::error_of;
use crate::passes::facts::fact::Fact;

/// What a walk is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Aim {
    /// To mend types that contradict each other.
    Types,
    /// To remove the casts that change nothing.
    Redundancy,
}

/// How deep calls of functions may be nested, and how many a walk looks into.
const DEPTH: usize = 100;
const CALLS: usize = 10_000;

type Types = Vec<Option<ElementType>>;

/// Finds what is to be mended in a model.
pub(super) fn walk(proto: &ModelProto, aim: Aim) -> Work {
    let Some(graph) = &proto.graph else { return Work::default() };
    let opset = default_opset(&proto.opset_import).unwrap_or(1);
    let mut names = Names::default();
    names.add_graph(graph);
    let mut functions = HashMap::new();
    for (index, function) in proto.functions.iter().enumerate() {
        names.pinned.extend(function.output.iter().cloned());
        names.add_nodes(&function.node);
        functions.insert((domain(function.domain()), function.name()), (index, function));
    }
    let mut walk = Walk {
        aim,
        model_opset: opset,
        functions,
        names,
        active: vec![],
        known: HashMap::new(),
        of_functions: BTreeMap::new(),
        work: Work::default(),
    };
    walk.body(Body::new(graph, vec![(7, ONLY)], OF_GRAPH, String::new(), opset, None), &[]);
    let mut work = walk.work;
    // What two calls would have mended in two ways is left as it is.
    walk.of_functions.into_values().flatten().for_each(|mended| work.extend(mended));
    work
}

fn domain(name: &str) -> &str {
    if is_default_domain(name) { "" } else { name }
}

struct Walk<'m> {
    aim: Aim,
    model_opset: i64,
    functions: HashMap<(&'m str, &'m str), (usize, &'m FunctionProto)>,
    names: Names,
    /// The functions that are being walked through, each within the one before.
    active: Vec<usize>,
    /// What functions make of inputs of some types.
    known: HashMap<(usize, Types), Types>,
    /// What is mended in a function; nothing where two calls disagree.
    of_functions: BTreeMap<usize, Option<Work>>,
    work: Work,
}

impl Walk<'_> {
    /// Walks through a body whose inputs are fed values of the types `given`, where they are known. Returns the outputs' types.
    fn body(&mut self, mut body: Body, given: &[Option<ElementType>]) -> Types {
        let graph = body.graph;
        self.given(&mut body, given);
        let is_outer = |name: &str| body.outer.is_some_and(|outer| outer.sees(name));
        let (mut order, problems) = sorted(graph, &graph.node, "", &is_outer);
        let is_whole = graph.sparse_initializer.is_empty();
        if let Some(problem) = problems.into_iter().next().filter(|_| is_whole) {
            self.work.left.push(error_of(problem).to_string());
            order = (0..graph.node.len()).collect();
        }
        let around = body.outer;
        body.wants = wants(graph, &order, body.opset, &|name| around.and_then(|o| o.ty(name)));
        for index in order {
            if let Some(node) = graph.node.get(index) {
                self.node(&mut body, index, node);
            }
        }
        if self.aim == Aim::Redundancy {
            body.remove_redundant(&self.names, &mut self.work);
        }
        graph.output.iter().map(|output| body.ty(&output.name)).collect()
    }

    /// The values that a body has before its first node.
    fn given(&mut self, body: &mut Body, given: &[Option<ElementType>]) {
        let graph = body.graph;
        for (index, input) in graph.input.iter().enumerate() {
            let fed = given.get(index).copied().flatten();
            let ty = declared(input);
            if let (Some(fed), Some(ty)) = (fed, ty)
                && fed != ty
            {
                let name = body.place(&input.name);
                self.work.left.push(format!("input `{name}` is declared {ty}, but is fed {fed}"));
            }
            body.types.insert(input.name.clone(), ty.or(fed));
        }
        for tensor in &graph.initializer {
            let ty = ElementType::from_id(tensor.data_type);
            if let (Some(Some(input)), Some(ty)) = (body.types.get(&tensor.name), ty)
                && *input != ty
            {
                let name = body.place(&tensor.name);
                self.work
                    .left
                    .push(format!("input `{name}` is declared {input}, but its default is {ty}"));
            }
            body.types.insert(tensor.name.clone(), ty);
        }
        for sparse in &graph.sparse_initializer {
            if let Some(values) = &sparse.values {
                body.types.insert(values.name.clone(), ElementType::from_id(values.data_type));
            }
        }
        let known: Vec<(String, ElementType)> =
            body.types.iter().filter_map(|(name, ty)| Some((name.clone(), (*ty)?))).collect();
        for (name, ty) in known {
            body.declare(&name, ty, &mut self.work);
        }
    }

    fn node(&mut self, body: &mut Body, index: usize, node: &NodeProto) {
        let mut inputs = node.input.clone();
        for (place, input) in inputs.iter_mut().enumerate() {
            if let Some(other) = body.stand_in(input).map(String::from) {
                body.set_input(index, place, &other, &mut self.work);
                *input = other;
            }
        }
        let types = inputs.iter().map(|name| body.ty(name)).collect();
        let mut fed = Fed { index, node, inputs, types };
        let made = match Operator::of(node) {
            Some(_) => vec![self.cast(body, &fed)],
            None => {
                body.settle_inputs(&mut fed, &mut self.names, &mut self.work);
                let made = self.ordinary(body, &fed);
                let outputs = node.output.iter().zip(&made);
                for (value, ty) in outputs.filter_map(|(value, ty)| Some((value, (*ty)?))) {
                    body.declare(value, ty, &mut self.work);
                }
                made
            }
        };
        for (place, value) in node.output.iter().enumerate().filter(|(_, name)| !name.is_empty()) {
            let ty = made.get(place).copied().flatten().or_else(|| body.declared(value));
            body.types.insert(value.clone(), ty);
        }
    }

    fn cast(&mut self, body: &mut Body, fed: &Fed) -> Option<ElementType> {
        let refers = fed.node.attribute.iter().any(|attribute| !attribute.ref_attr_name.is_empty());
        if refers {
            return None;
        }
        let spec = match CastSpec::parse(fed.node, body.opset) {
            Ok(spec) => spec,
            Err(error) => {
                self.work.left.push(error.to_string());
                return None;
            }
        };
        let to = spec.to.or_else(|| fed.types.get(1).copied().flatten())?;
        let settled = body.settle_cast(fed, &spec, to, &self.names, &mut self.work);
        if self.aim == Aim::Types {
            // Only to find values of another type with the same numbers.
            body.follow_values(fed, settled, spec.rules());
        } else {
            body.follow_cast(fed, settled, spec.rules(), &self.names);
        }
        Some(settled)
    }

    fn ordinary(&mut self, body: &Body, fed: &Fed) -> Types {
        let Fed { node, types, .. } = fed;
        let mut returned = vec![];
        let given = subgraphs::fed_types(node, types);
        for (attribute, held) in node.attribute.iter().enumerate() {
            let one = held.g.iter().map(|graph| ((6, ONLY), graph));
            let all = held.graphs.iter().enumerate().map(|(index, graph)| ((11, index), graph));
            for (place, graph) in one.chain(all) {
                let steps = [(body.fields.node, fed.index), (5, attribute), place];
                let way: Vec<Place> = [&body.way[..], &steps].concat();
                let path = body.place(&format!("{}.{}", node_name(node), held.name));
                let inner = Body::new(graph, way, OF_GRAPH, path, body.opset, Some(body));
                let types = self.body(inner, &given);
                returned.push(types.into_iter().map(|ty| Some(Fact::data(ty))).collect());
            }
        }
        if !returned.is_empty() {
            return match subgraphs::join(node, types, &returned) {
                Ok(facts) => facts.into_iter().map(|fact| fact.and_then(|fact| fact.ty)).collect(),
                Err(_) => vec![],
            };
        }
        let is_operator =
            is_default_domain(&node.domain) && !schema::versions(&node.op_type).is_empty();
        match self.functions.get(&(domain(&node.domain), node.op_type.as_str())).copied() {
            Some((index, function)) if !is_operator => self.call(index, function, types),
            _ => made(node, body.opset, types),
        }
    }

    /// What a function makes of inputs of these types.
    fn call(&mut self, index: usize, function: &FunctionProto, inputs: &Types) -> Types {
        let key = (index, inputs.clone());
        if let Some(known) = self.known.get(&key) {
            return known.clone();
        }
        let is_too_deep = self.active.contains(&index) || self.active.len() >= DEPTH;
        if is_too_deep || self.known.len() >= CALLS {
            return vec![];
        }
        let graph = Parts::of(function).graph(function);
        let opset = default_opset(&function.opset_import).unwrap_or(self.model_opset);
        let path = function.name().to_owned();
        let around = std::mem::take(&mut self.work);
        self.active.push(index);
        let body = Body::new(&graph, vec![(25, index)], OF_FUNCTION, path, opset, None);
        let outputs = self.body(body, inputs);
        self.active.pop();
        let mended = std::mem::replace(&mut self.work, around);
        let first = self.of_functions.entry(index).or_insert_with(|| Some(mended.clone()));
        if first.as_ref() != Some(&mended) {
            *first = None;
        }
        self.known.insert(key, outputs.clone());
        outputs
    }
}
