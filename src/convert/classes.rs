//! Places that have one element type whatever that is: a union-find of what makes values and what
//! takes them.
//!
//! The inputs and outputs of an operator that its schema gives one type variable are one class, and
//! so are a value that a `Loop` carries on, the input and the output of its body, and what the node
//! makes of it. Between what makes a value and what takes it there may be a cast, so these are
//! apart.

use std::collections::HashMap;

use onnx_cast_graph::{Graph, NodeId, NodeView, Use, ValueId};

/// A place with an element type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Point {
    /// A value, as it is made.
    Made(ValueId),
    /// A value, as it is taken at a place.
    Taken(Use),
}

/// The places of a node.
pub(super) fn points(graph: &Graph, id: NodeId) -> impl Iterator<Item = Point> + '_ {
    let node = graph.node(id);
    let taken = (0..node.input_places()).map(move |place| Point::Taken(Use::Node(id, place)));
    taken.chain(node.outputs().iter().flatten().map(|value| Point::Made(*value)))
}

/// Places of one type.
#[derive(Debug, Clone)]
pub(super) struct Class {
    /// Why the type stays as it is, if it must.
    pub(super) stays: Option<String>,
    /// Whether a node computes in this type. Others only move elements, or make something else of
    /// them: they may stay where that saves a cast.
    pub(super) is_computed: bool,
    /// Whether the type is converted.
    pub(super) converts: bool,
    pub(super) points: Vec<Point>,
}

/// All classes.
#[derive(Debug, Default)]
pub(super) struct Classes {
    index: HashMap<Point, usize>,
    parents: Vec<usize>,
    classes: Vec<Class>,
}

impl Classes {
    /// The class of a place, which is made for it if there is none.
    pub(super) fn of(&mut self, point: Point) -> usize {
        if let Some(index) = self.index.get(&point).copied() {
            return self.root(index);
        }
        let index = self.parents.len();
        self.parents.push(index);
        let class = Class { stays: None, is_computed: false, converts: true, points: vec![point] };
        self.classes.push(class);
        self.index.insert(point, index);
        index
    }

    /// The class of a place, if it has one: a place that takes any type has none.
    pub(super) fn find(&self, point: Point) -> Option<usize> {
        self.index.get(&point).map(|index| self.root(*index))
    }

    fn root(&self, mut index: usize) -> usize {
        while self.parents[index] != index {
            index = self.parents[index];
        }
        index
    }

    /// Makes two places one class.
    pub(super) fn join(&mut self, a: Point, b: Point) {
        let (a, b) = (self.of(a), self.of(b));
        if a == b {
            return;
        }
        let larger_first = self.classes[a].points.len() >= self.classes[b].points.len();
        let (a, b) = if larger_first { (a, b) } else { (b, a) };
        let points = std::mem::take(&mut self.classes[b].points);
        let (stays, is_computed) = (self.classes[b].stays.take(), self.classes[b].is_computed);
        self.parents[b] = a;
        let class = &mut self.classes[a];
        class.points.extend(points);
        class.stays = class.stays.take().or(stays);
        class.is_computed |= is_computed;
    }

    /// Has the type of a place stay as it is; the first reason counts.
    pub(super) fn fix(&mut self, point: Point, why: &str) {
        let class = self.of(point);
        self.classes[class].stays.get_or_insert_with(|| why.into());
    }

    /// Says that a node computes in the type of a place.
    pub(super) fn compute(&mut self, point: Point) {
        let class = self.of(point);
        self.classes[class].is_computed = true;
    }

    /// A class by what [`Classes::of`] has returned.
    pub(super) fn get(&self, class: usize) -> &Class {
        &self.classes[class]
    }

    /// Says whether the type of a class is converted.
    pub(super) fn set(&mut self, class: usize, converts: bool) {
        self.classes[class].converts = converts;
    }

    /// All classes, in the order in which they were made: that of computation.
    pub(super) fn all(&self) -> Vec<usize> {
        (0..self.parents.len()).filter(|index| self.parents[*index] == *index).collect()
    }

    /// Whether the type of a place is converted; `None` for a place that takes any type.
    pub(super) fn converts(&self, point: Point) -> Option<bool> {
        self.find(point).map(|class| self.get(class).converts)
    }
}
