//! Graphs whose values are known: nodes over values of one arena, so that names are unique, graphs
//! in nodes included.

use tract_onnx_cast::ElementType;

use crate::tensor::Val;

#[derive(Debug, Clone)]
#[allow(dead_code, reason = "the tests of single operators have them all")]
pub enum Attribute {
    Int(i64),
    Ints(Vec<i64>),
    Float(f32),
    Text(&'static str),
    Tensor(Val),
    Graph(Body),
}

/// A graph inside a node.
#[derive(Debug, Clone)]
pub struct Body {
    pub inputs: Vec<usize>,
    pub nodes: Vec<Node>,
    pub outputs: Vec<usize>,
}

#[derive(Debug, Clone)]
pub struct Node {
    pub op: &'static str,
    pub inputs: Vec<Option<usize>>,
    pub outputs: Vec<usize>,
    pub attributes: Vec<(&'static str, Attribute)>,
}

impl Node {
    /// Every value that the node takes, from around its graphs too.
    pub fn uses(&self) -> Vec<usize> {
        let mut uses: Vec<usize> = self.inputs.iter().copied().flatten().collect();
        for body in self.bodies() {
            let made: Vec<usize> = body
                .nodes
                .iter()
                .flat_map(|node| node.outputs.clone())
                .chain(body.inputs.clone())
                .collect();
            let taken = body.nodes.iter().flat_map(Node::uses).chain(body.outputs.iter().copied());
            uses.extend(taken.filter(|id| !made.contains(id)));
        }
        uses
    }

    pub fn bodies(&self) -> impl Iterator<Item = &Body> {
        self.attributes.iter().filter_map(|(_, attribute)| match attribute {
            Attribute::Graph(body) => Some(body),
            _ => None,
        })
    }

    /// The operators of this node and of those inside.
    pub fn operators(&self) -> Vec<&'static str> {
        let inner = self.bodies().flat_map(|body| &body.nodes).flat_map(Node::operators);
        [self.op].into_iter().chain(inner).collect()
    }
}

/// How many sizes the symbols of a graph are tried with.
pub const WORLDS: usize = 2;

/// A value. In the second world the symbols have other sizes.
#[derive(Debug, Clone)]
pub struct Value {
    pub worlds: [Val; WORLDS],
    /// Of a value that no node makes.
    pub leaf: Option<Leaf>,
    /// Whether it comes from sizes and constants alone, as tract wants the shapes that operators
    /// are given.
    pub is_shape: bool,
}

#[derive(Debug, Clone)]
pub struct Leaf {
    /// The symbol of each axis that has one.
    pub symbols: Vec<Option<usize>>,
    /// tract wants to know it when the model is loaded.
    pub is_constant: bool,
}

impl Value {
    pub fn ty(&self) -> ElementType {
        self.worlds[0].ty
    }

    pub fn shape(&self) -> &[usize] {
        &self.worlds[0].shape
    }

    /// The size of each axis that has the same one in both worlds.
    pub fn fixed_sizes(&self) -> Option<Vec<Option<usize>>> {
        let [a, b] = &self.worlds;
        if a.shape.len() != b.shape.len() {
            return None;
        }
        Some(a.shape.iter().zip(&b.shape).map(|(a, b)| (a == b).then_some(*a)).collect())
    }

    /// Whether the value is the same whatever the symbols are.
    pub fn is_fixed(&self) -> bool {
        self.worlds[0] == self.worlds[1]
    }
}

#[derive(Debug, Clone)]
pub struct Graph {
    /// What it was made from.
    pub seed: u64,
    pub opset: i64,
    pub values: Vec<Value>,
    /// In the order of computation.
    pub nodes: Vec<Node>,
    pub outputs: Vec<usize>,
}

impl Graph {
    /// The values that no node makes and that something needs, in order.
    pub fn leaves(&self) -> Vec<usize> {
        let mut used: Vec<usize> = self.nodes.iter().flat_map(Node::uses).collect();
        used.extend(&self.outputs);
        let is_leaf = |id: &usize| self.values[*id].leaf.is_some() && used.contains(id);
        (0..self.values.len()).filter(is_leaf).collect()
    }

    /// The values that the nodes of the graph itself make.
    pub fn made(&self) -> Vec<usize> {
        self.nodes.iter().flat_map(|node| node.outputs.clone()).collect()
    }

    /// Removes the nodes that nothing needs.
    pub fn prune(&mut self) {
        let mut needed: Vec<usize> = self.outputs.clone();
        let mut kept = vec![];
        for node in std::mem::take(&mut self.nodes).into_iter().rev() {
            if node.outputs.iter().any(|id| needed.contains(id)) {
                needed.extend(node.uses());
                kept.push(node);
            }
        }
        kept.reverse();
        self.nodes = kept;
    }

    pub fn operators(&self) -> Vec<&'static str> {
        self.nodes.iter().flat_map(Node::operators).collect()
    }
}
