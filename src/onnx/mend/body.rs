//! A graph or a function while it is walked through.

use std::collections::{HashMap, HashSet};

use tract_onnx::pb::{GraphProto, NodeProto};

use super::change::{Change, ChangeKind, Work};
use super::types::{constants, declared};
use super::wants::{Want, Wants};
use super::wire::{Edits, ONLY, Place};
use crate::cast::element_type::ElementType;
use crate::onnx::node::{node_name, subgraphs};

/// The numbers of the fields that a body has its parts in.
#[derive(Clone, Copy)]
pub(super) struct Fields {
    pub(super) node: u32,
    value_info: u32,
    output: u32,
}

pub(super) const OF_GRAPH: Fields = Fields { node: 1, value_info: 13, output: 12 };
/// A function's outputs have no types, so they are never edited.
pub(super) const OF_FUNCTION: Fields = Fields { node: 7, value_info: 12, output: 5 };

/// The names of a whole model.
#[derive(Default)]
pub(super) struct Names {
    /// Values that must keep their names: outputs of graphs and functions, and what annotations are about.
    pub(super) pinned: HashSet<String>,
    /// All values.
    taken: HashSet<String>,
}

impl Names {
    pub(super) fn add_graph(&mut self, graph: &GraphProto) {
        self.pinned.extend(graph.output.iter().map(|output| output.name.clone()));
        let annotated = graph.quantization_annotation.iter();
        self.pinned.extend(annotated.filter_map(|annotation| annotation.tensor_name.clone()));
        self.taken.extend(graph.input.iter().map(|input| input.name.clone()));
        self.taken.extend(graph.initializer.iter().map(|tensor| tensor.name.clone()));
        self.add_nodes(&graph.node);
    }

    pub(super) fn add_nodes(&mut self, nodes: &[NodeProto]) {
        for node in nodes {
            self.taken.extend(node.input.iter().chain(&node.output).cloned());
            for graph in node.attribute.iter().flat_map(subgraphs) {
                self.add_graph(graph);
            }
        }
    }

    /// A name that no value has.
    pub(super) fn new_value(&mut self, value: &str, ty: ElementType) -> String {
        let mut name = format!("{value}_as_{ty}");
        while !self.taken.insert(name.clone()) {
            name.push('_');
        }
        name
    }
}

/// Where a value's type is declared.
struct Declaration {
    place: Place,
    ty: ElementType,
}

/// A graph, or a function in the form of one, and what is known of its values.
pub(super) struct Body<'a> {
    pub(super) graph: &'a GraphProto,
    /// The way to it in the file.
    pub(super) way: Vec<Place>,
    pub(super) fields: Fields,
    /// What stands before the names in it in messages; nothing for the main graph.
    pub(super) path: String,
    pub(super) opset: i64,
    pub(super) outer: Option<&'a Body<'a>>,
    /// The types of the values that have been made so far.
    pub(super) types: HashMap<String, Option<ElementType>>,
    pub(super) constants: HashMap<String, ElementType>,
    /// The nodes that make values.
    pub(super) producers: HashMap<&'a str, usize>,
    pub(super) wants: Wants,
    declarations: HashMap<&'a str, Vec<Declaration>>,
    /// Values that have the same numbers as one that a cast makes of them, by the latter's name; one of each type.
    pub(super) same: HashMap<String, Vec<(String, ElementType)>>,
    /// The values that stand for others, by the others' names.
    pub(super) stands_for: HashMap<String, String>,
    /// The casts that change nothing: their places, the values that they make, and those that stand for them.
    pub(super) redundant: Vec<(usize, String, String)>,
    /// The casts that were added, by the value and the type.
    pub(super) added: HashMap<(String, ElementType), String>,
}

impl<'a> Body<'a> {
    pub(super) fn new(
        graph: &'a GraphProto,
        way: Vec<Place>,
        fields: Fields,
        path: String,
        opset: i64,
        outer: Option<&'a Body<'a>>,
    ) -> Body<'a> {
        let mut declarations: HashMap<&str, Vec<Declaration>> = HashMap::new();
        for (field, values) in
            [(fields.output, &graph.output), (fields.value_info, &graph.value_info)]
        {
            for (index, value) in values.iter().enumerate() {
                if let Some(ty) = declared(value) {
                    let declaration = Declaration { place: (field, index), ty };
                    declarations.entry(&value.name).or_default().push(declaration);
                }
            }
        }
        let made = graph.node.iter().enumerate();
        let made =
            made.flat_map(|(i, node)| node.output.iter().map(move |name| (name.as_str(), i)));
        Body {
            graph,
            way,
            fields,
            path,
            opset,
            outer,
            types: HashMap::new(),
            constants: constants(graph),
            producers: made.filter(|(name, _)| !name.is_empty()).collect(),
            wants: Wants::new(),
            declarations,
            same: HashMap::new(),
            stands_for: HashMap::new(),
            redundant: vec![],
            added: HashMap::new(),
        }
    }

    /// Whether a value can be seen from here.
    pub(super) fn sees(&self, value: &str) -> bool {
        self.types.contains_key(value) || self.outer.is_some_and(|outer| outer.sees(value))
    }

    pub(super) fn ty(&self, value: &str) -> Option<ElementType> {
        match self.types.get(value) {
            Some(ty) => *ty,
            None => self.outer.and_then(|outer| outer.ty(value)),
        }
    }

    /// The value of a type that has the numbers of another one.
    pub(super) fn same_of_type(&self, value: &str, ty: ElementType) -> Option<&str> {
        match self.same.get(value) {
            Some(all) => all.iter().find(|(_, of)| *of == ty).map(|(name, _)| name.as_str()),
            None => self.outer.and_then(|outer| outer.same_of_type(value, ty)),
        }
    }

    /// The value that is used where the file has this one.
    pub(super) fn stand_in(&self, value: &str) -> Option<&str> {
        match self.stands_for.get(value) {
            Some(other) => Some(other),
            None => self.outer.and_then(|outer| outer.stand_in(value)),
        }
    }

    /// The type that the graph declares of a value; an output's declaration goes before the others.
    pub(super) fn declared(&self, value: &str) -> Option<ElementType> {
        self.declarations.get(value).and_then(|all| all.first()).map(|declaration| declaration.ty)
    }

    /// The type that all users of a value want that want one.
    pub(super) fn wanted(&self, value: &str) -> Option<ElementType> {
        match self.wants.get(value) {
            Some(Want::All(ty)) => Some(*ty),
            _ => None,
        }
    }

    /// A name in this body as messages have it.
    pub(super) fn place(&self, name: &str) -> String {
        if self.path.is_empty() { name.into() } else { format!("{}/{name}", self.path) }
    }

    pub(super) fn edits<'w>(&self, work: &'w mut Work, further: &[Place]) -> &'w mut Edits {
        work.edits.within(&[&self.way[..], further].concat())
    }

    /// Has the graph declare a value as what it is, wherever it declares it.
    pub(super) fn declare(&mut self, value: &str, ty: ElementType, work: &mut Work) {
        let place = self.place(value);
        let Some(declarations) = self.declarations.get_mut(value) else { return };
        for declaration in declarations.iter_mut().filter(|declaration| declaration.ty != ty) {
            let is_output = declaration.place.0 == self.fields.output;
            let kind = if is_output { ChangeKind::Output } else { ChangeKind::ValueInfo };
            let (from, to) = (declaration.ty.name().into(), ty.name().into());
            work.changes.push(Change { kind, place: place.clone(), from, to });
            // `type`, `tensor_type`, `elem_type`.
            let way = [&self.way[..], &[declaration.place, (2, ONLY), (1, ONLY)]].concat();
            work.edits.within(&way).set_number(1, ty as u64);
            declaration.ty = ty;
        }
    }

    /// Removes what the graph declares of an inner value that is no more.
    pub(super) fn forget(&self, value: &str, work: &mut Work) {
        for declaration in self.declarations.get(value).into_iter().flatten() {
            self.edits(work, &[]).remove(declaration.place);
        }
    }

    /// Has a node take another value.
    pub(super) fn set_input(&self, node: usize, input: usize, value: &str, work: &mut Work) {
        self.edits(work, &[(self.fields.node, node)]).set_bytes((1, input), value.as_bytes());
    }

    /// Remembers what is wrong with a node.
    pub(super) fn leave(&self, node: &NodeProto, problem: String, work: &mut Work) {
        let (name, op) = (self.place(&node_name(node)), &node.op_type);
        work.left.push(format!("node `{name}` ({op}): {problem} (opset {})", self.opset));
    }
}
