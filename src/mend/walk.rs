//! The walk through a model in the order of computation, on which types are settled and casts
//! removed.

use std::collections::{HashMap, HashSet};

use onnx_cast_graph::{BodyId, Graph, NodeId, NodeView, Origin, Use, ValueId, tensor_type_mut};
use tract_onnx::pb::TypeProto;

use super::change::{Change, ChangeKind};
use super::wants::{Want, mixed, wants};
use crate::cast::element_type::ElementType;
use crate::onnx::cast_spec::{CastSpec, Operator};
use crate::onnx::declared_shapes::element_type;
use crate::typed::functions::Functions;
use crate::typed::inference::{KnownTypes, Visitor, declared};
use crate::typed::sequences;

/// What is found out on one walk.
pub(super) struct MendingWalk {
    /// Whether casts that change nothing are removed, beside types that contradict each other being
    /// mended.
    removes: bool,
    pub(super) changes: Vec<Change>,
    /// What contradicts itself and cannot be mended.
    pub(super) left: Vec<String>,
    /// Nodes that take what a later version of their operator takes.
    pub(super) early: Vec<String>,
    /// The names of values that annotations are about.
    annotated: HashSet<String>,
    /// What the users of the values of each body want.
    wants: HashMap<BodyId, HashMap<ValueId, Want>>,
    /// Values that have the same numbers as one that a cast makes of them; one of each type.
    pub(super) same: HashMap<ValueId, Vec<(ValueId, ElementType)>>,
    /// The casts that were added to a body, by the value and the type.
    pub(super) added: HashMap<(BodyId, ValueId, ElementType), ValueId>,
}

impl Visitor for MendingWalk {
    fn body(&mut self, known: &mut KnownTypes, body: BodyId) {
        self.wants.insert(body, wants(known, body));
    }

    fn node(&mut self, known: &mut KnownTypes, id: NodeId) {
        match Operator::of(known.graph.node(id)) {
            Some(_) => self.cast(known, id),
            None => self.settle_inputs(known, id),
        }
    }

    /// A function that is called with several types is mended by none of them.
    fn called(&mut self, known: &KnownTypes, id: NodeId) {
        if let Some((first, other)) = mixed(known, id) {
            let problem = format!("mixes {first} and {other} in a call of its function");
            let problem = about(known.graph, id, problem);
            if !self.left.contains(&problem) {
                self.left.push(problem);
            }
        }
    }

    fn made(&self, known: &KnownTypes, value: ValueId) -> Option<ElementType> {
        sequences::made(known, value).or_else(|| sequences::of_optional(known, value))
    }

    fn value(
        &mut self,
        known: &mut KnownTypes,
        value: ValueId,
        made: Option<ElementType>,
    ) -> Option<ElementType> {
        self.check_bodies(known, value);
        let graph = &mut *known.graph;
        let held = graph.value(value);
        let of_input = element_type(held.declared.as_ref());
        let ty = match (held.origin(), made, of_input) {
            (Origin::Input, Some(fed), Some(ty)) if fed != ty => {
                let name = place(graph, held.body(), &held.name);
                self.left.push(format!("input `{name}` is declared {ty}, but is fed {fed}"));
                of_input
            }
            (Origin::Input, ..) => of_input.or(made),
            (Origin::Constant(_), Some(made), Some(ty))
                if made != ty && graph.body(held.body()).inputs().contains(&value) =>
            {
                let name = place(graph, held.body(), &held.name);
                let problem = format!("input `{name}` is declared {ty}, but its default is {made}");
                self.left.push(problem);
                return Some(made);
            }
            _ => made,
        };
        match ty {
            Some(ty) => self.declare(graph, value, ty),
            None => return declared(graph, value),
        }
        ty
    }
}

impl MendingWalk {
    pub(super) fn new(graph: &Graph, functions: &Functions, removes: bool) -> MendingWalk {
        let mut annotated = HashSet::new();
        for root in functions.roots(graph) {
            for body in graph.all_bodies(root) {
                let annotations = graph.body(body).annotations().iter();
                annotated.extend(annotations.filter_map(|about| about.tensor_name.clone()));
            }
        }
        MendingWalk {
            removes,
            changes: vec![],
            left: vec![],
            early: vec![],
            annotated,
            wants: HashMap::new(),
            same: HashMap::new(),
            added: HashMap::new(),
        }
    }

    /// Whether the branches of an `If` make a value of one type, and the body of a `Loop` what it
    /// is given.
    fn check_bodies(&mut self, known: &KnownTypes, value: ValueId) {
        let graph = &*known.graph;
        let Some(id) = graph.maker(value) else { return };
        let node = graph.node(id);
        let mut outputs = node.outputs().iter();
        let Some(place) = outputs.position(|output| *output == Some(value)) else { return };
        let bodies: Vec<BodyId> = node.bodies().iter().map(|held| held.body).collect();
        let made =
            |body: BodyId, place: usize| known.ty(graph.body(body).outputs().get(place)?.value);
        let given = |body: BodyId, place: usize| known.ty(*graph.body(body).inputs().get(place)?);
        let both = match bodies[..] {
            [first, second] if node.is("If") => made(first, place).zip(made(second, place)),
            [body] if node.is("Loop") => given(body, place + 2).zip(made(body, place + 1)),
            _ => None,
        };
        if let Some((first, second)) = both.filter(|(first, second)| first != second) {
            let name = &graph.value(value).name;
            let problem = if node.is("If") {
                format!("its branches make `{name}` {first} and {second}")
            } else {
                format!("its body is given `{name}` as {first} and makes it {second}")
            };
            self.leave(graph, id, problem);
        }
    }

    fn cast(&mut self, known: &mut KnownTypes, id: NodeId) {
        let node = known.graph.node(id);
        if node.attributes.iter().any(|attribute| !attribute.ref_attr_name.is_empty()) {
            return;
        }
        let spec = match CastSpec::of(node, node.opset) {
            Ok(spec) => spec,
            Err(error) => return self.left.push(error.to_string()),
        };
        let inputs = known.inputs(id);
        let Some(to) = spec.to.or_else(|| inputs.get(1).copied().flatten()) else { return };
        let settled = self.settle_cast(known.graph, id, &spec, to);
        let node = known.graph.node(id);
        if let (Some(input), Some(Some(from)), Some(output)) =
            (node.input(0), inputs.first().copied(), node.output(0))
        {
            let rules = spec.rules();
            if !self.removes || !self.remove(known.graph, id, (from, settled), rules) {
                self.follow((input, from), (output, settled), rules);
            }
        }
    }

    /// Whether a value must keep its name: an output of a graph or a function, and what annotations
    /// are about.
    pub(super) fn is_pinned(&self, graph: &Graph, value: ValueId) -> bool {
        let held = graph.value(value);
        held.is_output() || self.annotated.contains(&*held.name)
    }

    /// The type that all users of a value want that want one.
    pub(super) fn wanted(&self, graph: &Graph, value: ValueId) -> Option<ElementType> {
        match self.wants.get(&graph.value(value).body())?.get(&value)? {
            Want::All(ty) => Some(*ty),
            Want::Different => None,
        }
    }

    /// The value of a type that has the numbers of another one.
    pub(super) fn same_of_type(&self, value: ValueId, ty: ElementType) -> Option<ValueId> {
        let all = self.same.get(&value)?;
        all.iter().find(|(_, of)| *of == ty).map(|(same, _)| *same)
    }

    /// Has the model declare a value as what it is, wherever it declares it.
    pub(super) fn declare(&mut self, graph: &mut Graph, value: ValueId, ty: ElementType) {
        let uses: Vec<Use> = graph.value(value).uses().collect();
        for used in uses {
            let Use::Output(body, index) = used else { continue };
            let Some(output) = graph.declared_output_mut(body, index) else { continue };
            let name = output.name.clone();
            if let Some(from) = declare(output.r#type.as_mut(), ty) {
                self.change(ChangeKind::Output, place(graph, body, &name), from.name(), ty.name());
            }
        }
        if matches!(graph.value(value).origin(), Origin::Input) {
            return;
        }
        if let Some(from) = declare(graph.value_mut(value).declared.as_mut(), ty) {
            let held = graph.value(value);
            let place = place(graph, held.body(), &held.name);
            self.change(ChangeKind::ValueInfo, place, from.name(), ty.name());
        }
    }

    pub(super) fn change(&mut self, kind: ChangeKind, place: String, from: &str, to: &str) {
        self.changes.push(Change { kind, place, from: from.into(), to: to.into() });
    }

    /// Remembers what is wrong with a node.
    pub(super) fn leave(&mut self, graph: &Graph, id: NodeId, problem: String) {
        self.left.push(about(graph, id, problem));
    }
}

/// A sentence about a node.
pub(super) fn about(graph: &Graph, id: NodeId, problem: String) -> String {
    let (name, node) = (place_of(graph, id), graph.node(id));
    format!("node `{name}` ({}): {problem} (opset {})", node.op_type, node.opset)
}

/// Has a declaration of another type say this one. Returns what it said.
fn declare(declared: Option<&mut TypeProto>, ty: ElementType) -> Option<ElementType> {
    let tensor = tensor_type_mut(declared)?;
    let from = ElementType::from_id(tensor.elem_type).filter(|from| *from != ty)?;
    tensor.elem_type = ty as i32;
    Some(from)
}

/// A name in a body as messages have it: below the main graph and in functions with the path in
/// front.
fn place(graph: &Graph, body: BodyId, name: &str) -> String {
    let path = &*graph.body(body).path;
    let main = &*graph.body(graph.main()).path;
    let path = match path.strip_prefix(main) {
        Some(rest) if graph.is_within(body, graph.main()) => rest.trim_start_matches('/'),
        _ => path,
    };
    if path.is_empty() { name.into() } else { format!("{path}/{name}") }
}

/// The same of a node: its name, or its first output where it has none.
pub(super) fn place_of(graph: &Graph, id: NodeId) -> String {
    let node = graph.node(id);
    let first = node.outputs().iter().flatten().next();
    let name = match first {
        Some(value) if node.name.is_empty() => &graph.value(*value).name,
        _ => node.shared_label(),
    };
    place(graph, node.body(), name)
}
