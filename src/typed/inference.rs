//! The element types of all values, told in the order of computation: a value's type is what its
//! node makes of those of its inputs by ONNX's schemas, else what the model declares of it.
//!
//! A [`Visitor`] looks on: it holds what is made against what is declared, or edits nodes before it
//! is told what they make.

use std::collections::{HashMap, HashSet};

use onnx_cast_graph::{BodyId, Graph, NodeId, NodeView, Table, ValueId};

use super::functions::Functions;
use crate::cast::element_type::ElementType;
use crate::onnx::cast_spec::{CastSpec, Operator};
use crate::onnx::declared_shapes::element_type;
use crate::onnx::operators::behaviour::Behaviour;
use crate::onnx::operators::types::{depends_on_call, held_type, of_any_domain};
use crate::passes::facts::subgraphs;
use crate::passes::facts::value_type::output_declarations;

/// How many calls of functions are gone through, and how deep they may be nested.
const CALLS: usize = 1 << 12;
const DEPTH: usize = 100;

/// The types of some values, by place, where they are known.
pub(crate) type Types = Vec<Option<ElementType>>;

/// A graph, and what has been told so far of the types of its values.
pub(crate) struct KnownTypes<'g> {
    pub(crate) graph: &'g mut Graph,
    pub(crate) types: Table<ValueId, ElementType>,
}

impl KnownTypes<'_> {
    /// The type of a value, where it is known.
    pub(crate) fn ty(&self, value: ValueId) -> Option<ElementType> {
        self.types.get(value).copied()
    }

    /// The types of a node's inputs.
    pub(crate) fn inputs(&self, node: NodeId) -> Types {
        let inputs = self.graph.node(node).inputs().iter();
        inputs.map(|value| value.and_then(|value| self.ty(value))).collect()
    }
}

/// Whoever looks on while types are told.
pub(crate) trait Visitor {
    /// A body whose inputs and constants are known is gone into.
    fn body(&mut self, _known: &mut KnownTypes, _body: BodyId) {}

    /// What a node takes is known; it may be edited, and nodes may be added before it.
    fn node(&mut self, _known: &mut KnownTypes, _node: NodeId) {}

    /// What a node of a function takes in one of its calls is known.
    fn called(&mut self, _known: &KnownTypes, _node: NodeId) {}

    /// The type of a value for which its maker's schema does not tell one.
    fn made(&self, _known: &KnownTypes, _value: ValueId) -> Option<ElementType> {
        None
    }

    /// A value is of type `made`, where that is known. Returns what it is taken for.
    fn value(
        &mut self,
        known: &mut KnownTypes,
        value: ValueId,
        made: Option<ElementType>,
    ) -> Option<ElementType> {
        made.or_else(|| declared(known.graph, value))
    }
}

/// Knows what another does, who looks on at a call.
struct Called<'v>(&'v mut dyn Visitor);

impl Visitor for Called<'_> {
    fn node(&mut self, known: &mut KnownTypes, node: NodeId) {
        self.0.called(known, node);
    }

    fn called(&mut self, known: &KnownTypes, node: NodeId) {
        self.0.called(known, node);
    }

    fn made(&self, known: &KnownTypes, value: ValueId) -> Option<ElementType> {
        self.0.made(known, value)
    }
}

/// The type that a model declares of a value; what any body declares of it as its output goes
/// before the others.
pub(crate) fn declared(graph: &Graph, value: ValueId) -> Option<ElementType> {
    let of_output = output_declarations(graph, value).find_map(|(_, ty)| element_type(ty));
    of_output.or_else(|| element_type(graph.value(value).declared.as_ref()))
}

/// The types of all values, and the functions that are called with values of several types.
///
/// A function's body is visited once, with the types that all of its calls agree on.
pub(crate) fn infer(
    graph: &mut Graph,
    functions: &Functions,
    visitor: &mut dyn Visitor,
) -> (Table<ValueId, ElementType>, HashSet<BodyId>) {
    let main = graph.main();
    let mut inference = Inference {
        known: KnownTypes { graph, types: Table::default() },
        functions,
        calls: 0,
        active: vec![],
        called: HashMap::new(),
        fed: HashMap::new(),
        mixed: HashSet::new(),
    };
    inference.body(main, &[], visitor);
    for body in &functions.bodies {
        if let Some(fed) = inference.fed.get(body).cloned() {
            inference.body(*body, &fed, visitor);
        }
    }
    (inference.known.types, inference.mixed)
}

struct Inference<'g, 'f> {
    known: KnownTypes<'g>,
    functions: &'f Functions,
    /// How many calls have been gone through.
    calls: usize,
    /// The functions whose calls are gone through, each within the one before.
    active: Vec<BodyId>,
    /// What functions were given last, and what they made of it.
    called: HashMap<BodyId, (Types, Types)>,
    /// What all calls give a function.
    fed: HashMap<BodyId, Types>,
    mixed: HashSet<BodyId>,
}

impl Inference<'_, '_> {
    /// Infers the types in a body that is fed values of the types `given`. Returns its outputs'.
    fn body(&mut self, body: BodyId, given: &[Option<ElementType>], to: &mut dyn Visitor) -> Types {
        for (place, value) in self.known.graph.body(body).inputs().to_vec().into_iter().enumerate()
        {
            self.learn(value, given.get(place).copied().flatten(), to);
        }
        for value in self.known.graph.body(body).constants().to_vec() {
            let tensor = self.known.graph.constant(value);
            let ty = tensor.and_then(|tensor| ElementType::from_id(tensor.data_type));
            self.learn(value, ty, to);
        }
        to.body(&mut self.known, body);
        for id in self.known.graph.nodes_of(body) {
            to.node(&mut self.known, id);
            let made = self.made(id, to);
            let outputs = self.known.graph.node(id).outputs().to_vec();
            for (place, value) in outputs.into_iter().enumerate() {
                if let Some(value) = value {
                    self.learn(value, made.get(place).copied().flatten(), to);
                }
            }
        }
        let outputs = self.known.graph.body(body).outputs().iter();
        outputs.map(|output| self.known.ty(output.value)).collect()
    }

    fn learn(&mut self, value: ValueId, made: Option<ElementType>, to: &mut dyn Visitor) {
        let made = made.or_else(|| to.made(&self.known, value));
        match to.value(&mut self.known, value, made) {
            Some(ty) => self.known.types.insert(value, ty),
            None => self.known.types.remove(value),
        };
    }

    fn made(&mut self, id: NodeId, to: &mut dyn Visitor) -> Types {
        let inputs = self.known.inputs(id);
        let node = self.known.graph.node(id);
        if depends_on_call(node) && self.functions.called(node).is_none() {
            return vec![];
        }
        match Operator::of(node) {
            Some(Operator::Cast) => {
                return vec![CastSpec::of(node, node.opset).ok().and_then(|spec| spec.to)];
            }
            Some(Operator::CastLike) => return vec![inputs.get(1).copied().flatten()],
            None => {}
        }
        if Behaviour::of(node).makes_attributes {
            return vec![held_type(node)];
        }
        if !node.bodies().is_empty() {
            return self.of_bodies(id, &inputs, to);
        }
        match self.functions.called(node) {
            Some(function) => self.call(function, &inputs, to),
            None => of_any_domain(node, node.opset, &inputs),
        }
    }

    /// What a node makes that holds bodies.
    fn of_bodies(
        &mut self,
        id: NodeId,
        inputs: &[Option<ElementType>],
        to: &mut dyn Visitor,
    ) -> Types {
        let node = self.known.graph.node(id);
        // The first input of the first version is the lengths of sequences.
        let lengths = usize::from(node.is("Scan") && node.opset < 9);
        let fed = subgraphs::fed_types(node, inputs.get(lengths..).unwrap_or_default());
        let bodies: Vec<BodyId> = node.bodies().iter().map(|held| held.body).collect();
        let skipped = usize::from(node.is("Loop"));
        let returned: Vec<Types> =
            bodies.into_iter().map(|body| self.body(body, &fed, to)).collect();
        let places = skipped..returned.first().map_or(0, Vec::len);
        // What branches return in the same place is of one type.
        let common = |place: usize| {
            let mut known = returned.iter().filter_map(|types| types.get(place).copied().flatten());
            let first = known.next()?;
            known.all(|ty| ty == first).then_some(first)
        };
        places.map(common).collect()
    }

    /// What a function makes.
    fn call(&mut self, function: BodyId, inputs: &Types, to: &mut dyn Visitor) -> Types {
        let fed = self.fed.entry(function).or_insert_with(|| inputs.clone());
        if fed != inputs {
            self.mixed.insert(function);
            for (place, ty) in fed.iter_mut().enumerate() {
                *ty = ty.filter(|ty| inputs.get(place) == Some(&Some(*ty)));
            }
        }
        match self.called.get(&function) {
            Some((given, made)) if given == inputs => return made.clone(),
            _ => {}
        }
        let is_too_deep = self.active.contains(&function) || self.active.len() >= DEPTH;
        if is_too_deep || self.calls >= CALLS {
            return vec![];
        }
        self.calls += 1;
        self.active.push(function);
        let made = self.body(function, inputs, &mut Called(to));
        self.active.pop();
        self.called.insert(function, (inputs.clone(), made.clone()));
        made
    }
}
