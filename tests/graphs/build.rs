//! Random graphs, node by node, each with its value.

use tract_onnx_cast::{ElementType, Family};

use crate::eval;
use crate::graph::{Attribute, Body, Graph, Leaf, Node, Value, WORLDS};
use crate::random::Random;
use crate::tensor::{Val, volume};

use ElementType::*;

pub type Attributes = Vec<(&'static str, Attribute)>;

/// What computes, and what only moves.
const LEAF_TYPES: [ElementType; 24] = [
    Int64,
    Int64,
    Int64,
    Int64,
    Int64,
    Float,
    Float,
    Float,
    Float,
    Double,
    Double,
    Int32,
    Int32,
    Int8,
    Uint8,
    Bool,
    Float16,
    BFloat16,
    BFloat16,
    Float8E4M3FN,
    Float8E5M2,
    Uint32,
    Uint64,
    Int4,
];

/// Where 32 bits end, where 64 do, where DOUBLE's integers do, and small numbers, most of them
/// sizes and places.
const INTEGERS: [i128; 24] = [
    0,
    1,
    -1,
    2,
    3,
    5,
    -3,
    7,
    (1 << 31) - 1,
    1 << 31,
    -(1 << 31),
    -(1 << 31) - 1,
    1 << 32,
    (1 << 32) + 5,
    1 << 33,
    -(1 << 33),
    10_000_000_000,
    86_400_000_000,
    (1 << 53) + 1,
    -(1 << 53) - 1,
    (1 << 63) - 1,
    -(1 << 63),
    -(1 << 63) + 1,
    1_000_000_007,
];

const FLOATS: [f64; 24] = [
    0.0,
    1.0,
    -1.0,
    0.5,
    1.5,
    -2.5,
    3.0,
    100.25,
    2147483648.0,
    -2147483649.0,
    4294967296.0,
    8589934592.0,
    1e10,
    -1e10,
    9.223372036854776e18,
    -9.3e18,
    1.8446744073709552e19,
    3e38,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::NAN,
    1e-40,
    65520.0,
    448.0,
];

pub struct Builder {
    pub random: Random,
    pub graph: Graph,
    /// The values that a node made now may take.
    pub scope: Vec<usize>,
    /// The sizes of the symbols in each world.
    symbols: Vec<[usize; WORLDS]>,
    /// How many graphs are around the one that is made now.
    pub depth: usize,
}

pub fn graph(seed: u64) -> Graph {
    let mut random = Random::new(seed);
    let first = [1 + random.below(4), random.below(6)];
    let second = [1 + random.below(4), random.below(6)];
    // What is equal in one world differs in the other.
    let apart = |[a, b]: [usize; WORLDS], step: usize| if a == b { [a, b + step] } else { [a, b] };
    let first = apart(first, 1);
    let second = apart(second, 2);
    let second = if second[1] == first[1] { [second[0], second[1] + 7] } else { second };
    let graph = Graph {
        seed,
        opset: random.of(&[13, 18, 21, 21]),
        values: vec![],
        nodes: vec![],
        outputs: vec![],
    };
    let symbols = vec![first, second];
    let mut builder = Builder { random, graph, scope: vec![], symbols, depth: 0 };
    for _ in 0..1 + builder.random.below(3) {
        builder.any_leaf();
    }
    let wanted = 2 + builder.random.below(9);
    for _ in 0..12 * wanted {
        if builder.graph.nodes.len() >= wanted {
            break;
        }
        crate::choices::any(&mut builder);
    }
    builder.finish()
}

impl Builder {
    fn finish(mut self) -> Graph {
        let made = self.graph.made();
        let mut used: Vec<usize> = self.graph.nodes.iter().flat_map(Node::uses).collect();
        let is_end = |id: &usize| !used.contains(id);
        let mut outputs: Vec<usize> = made.iter().copied().filter(is_end).collect();
        // Some ends are left unused, and some inner values are outputs.
        if outputs.len() > 1 && self.random.one_in(4) {
            let at = self.random.below(outputs.len());
            outputs.remove(at);
        }
        used.retain(|id| made.contains(id));
        if self.random.one_in(3) {
            outputs.extend(self.random.maybe(&used).filter(|id| !outputs.contains(id)));
        }
        self.graph.outputs = outputs;
        self.graph.prune();
        self.graph
    }

    pub fn ty(&self, id: usize) -> ElementType {
        self.graph.values[id].ty()
    }

    pub fn rank(&self, id: usize) -> usize {
        self.graph.values[id].shape().len()
    }

    pub fn value(&self, id: usize) -> &Value {
        &self.graph.values[id]
    }

    fn opset_of(ty: ElementType) -> i64 {
        ty.since()
    }

    /// Whether values of the type may be in the model.
    pub fn is_allowed(&self, ty: ElementType) -> bool {
        Builder::opset_of(ty) <= self.graph.opset
    }

    /// A value in reach, the later ones more often.
    pub fn pick(&mut self, fits: impl Fn(&Value) -> bool) -> Option<usize> {
        let all: Vec<usize> =
            self.scope.iter().copied().filter(|id| fits(&self.graph.values[*id])).collect();
        if all.is_empty() {
            return None;
        }
        let (a, b) = (self.random.below(all.len()), self.random.below(all.len()));
        Some(all[a.max(b)])
    }

    pub fn element(&mut self, ty: ElementType) -> u64 {
        match ty.family() {
            Family::Bool => self.random.bits() & 1,
            Family::Signed | Family::Unsigned => {
                let integer = if self.random.one_in(2) {
                    self.random.below(6) as i128 - 1
                } else {
                    self.random.of(&INTEGERS)
                };
                integer as u64 & ty.code_mask()
            }
            _ => {
                let float = if self.random.one_in(2) {
                    (self.random.below(17) as f64 - 8.0) / 2.0
                } else {
                    self.random.of(&FLOATS)
                };
                // A zero has no sign here: which one an operator makes is often open.
                let code = (float + 0.0).to_bits();
                Val::new(Double, vec![], vec![code]).cast(ty).expect("numeric").codes[0]
            }
        }
    }

    pub fn elements(&mut self, ty: ElementType, shape: &[usize]) -> Val {
        let codes = (0..volume(shape)).map(|_| self.element(ty)).collect();
        Val::new(ty, shape.to_vec(), codes)
    }

    fn add_value(&mut self, worlds: [Val; WORLDS], leaf: Option<Leaf>) -> usize {
        let is_shape = leaf.as_ref().is_some_and(|leaf| leaf.is_constant);
        self.graph.values.push(Value { worlds, leaf, is_shape });
        self.graph.values.len() - 1
    }

    /// A leaf of any type and shape, symbols among its sizes.
    fn any_leaf(&mut self) -> usize {
        let ty = loop {
            let ty = self.random.of(&LEAF_TYPES);
            if self.is_allowed(ty) {
                break ty;
            }
        };
        let rank = self.random.of(&[0, 1, 1, 1, 2, 2, 2, 3]);
        let is_symbolic = self.random.one_in(2);
        let (mut shapes, mut symbols) = ([vec![], vec![]], vec![]);
        for _ in 0..rank {
            let symbol = (is_symbolic && self.random.one_in(2)).then(|| self.random.below(2));
            let fixed = if self.random.one_in(12) { 0 } else { 1 + self.random.below(4) };
            for (world, shape) in shapes.iter_mut().enumerate() {
                shape.push(symbol.map_or(fixed, |symbol| self.symbols[symbol][world]));
            }
            symbols.push(symbol);
        }
        let first = self.elements(ty, &shapes[0]);
        let second = if symbols.iter().any(Option::is_some) {
            self.elements(ty, &shapes[1])
        } else {
            first.clone()
        };
        let id = self.add_value([first, second], Some(Leaf { symbols, is_constant: false }));
        self.scope.push(id);
        id
    }

    /// A leaf that is the same in every world.
    pub fn leaf(&mut self, val: Val, is_constant: bool) -> usize {
        let symbols = vec![None; val.shape.len()];
        self.add_value([val.clone(), val], Some(Leaf { symbols, is_constant }))
    }

    pub fn ints(&mut self, ints: &[i64]) -> usize {
        self.leaf(Val::int64(ints), true)
    }

    pub fn scalar(&mut self, int: i64) -> usize {
        let val = Val::int64(&[int]).reshaped(vec![]).expect("one element");
        self.leaf(val, true)
    }

    /// Something to compute with beside a value: one in reach, or a leaf of a shape that
    /// broadcasts.
    pub fn operand(&mut self, beside: usize) -> usize {
        let ty = self.ty(beside);
        if self.random.one_in(2)
            && let Some(id) = self.pick(|value| value.ty() == ty)
        {
            return id;
        }
        let shape = match self.value(beside).fixed_sizes() {
            Some(sizes) if self.random.one_in(2) => {
                let tail = self.random.below(sizes.len() + 1);
                let sizes = sizes[tail..].iter().map(|size| size.unwrap_or(1));
                sizes.collect()
            }
            _ if self.random.one_in(2) => vec![1],
            _ => vec![],
        };
        let val = self.elements(ty, &shape);
        let is_constant = self.random.one_in(2);
        self.leaf(val, is_constant)
    }

    /// Adds a node, if its result is defined in every world and small; its outputs are in reach
    /// from then on.
    pub fn node(
        &mut self,
        op: &'static str,
        inputs: &[usize],
        attributes: Attributes,
    ) -> Option<Vec<usize>> {
        self.node_with(op, &inputs.iter().copied().map(Some).collect::<Vec<_>>(), attributes)
    }

    pub fn node_with(
        &mut self,
        op: &'static str,
        inputs: &[Option<usize>],
        attributes: Attributes,
    ) -> Option<Vec<usize>> {
        let mut node = Node { op, inputs: inputs.to_vec(), outputs: vec![], attributes };
        let worlds: Vec<Vec<Val>> =
            (0..WORLDS).map(|w| self.result(&node, w)).collect::<Option<_>>()?;
        let [first, second] = &worlds[..] else { unreachable!("as many as worlds") };
        if first.len() != second.len() || worlds.iter().flatten().any(|val| !is_small(val)) {
            return None;
        }
        let same = |(a, b): (&Val, &Val)| a.ty == b.ty && a.shape.len() == b.shape.len();
        if !first.iter().zip(second).all(same) {
            return None;
        }
        let measures = matches!(op, "Shape" | "Size");
        let is_shape = measures || node.uses().iter().all(|id| self.graph.values[*id].is_shape);
        for (a, b) in first.iter().zip(second) {
            let id = self.add_value([a.clone(), b.clone()], None);
            self.graph.values[id].is_shape = is_shape;
            node.outputs.push(id);
        }
        self.scope.extend(&node.outputs);
        let outputs = node.outputs.clone();
        self.graph.nodes.push(node);
        Some(outputs)
    }

    fn result(&self, node: &Node, world: usize) -> Option<Vec<Val>> {
        let of = |id: usize| &self.graph.values[id].worlds[world];
        let inputs: Vec<Option<&Val>> = node.inputs.iter().map(|id| id.map(of)).collect();
        eval::node(node, &inputs, &|id| of(id).clone())
    }

    /// A graph inside a node, of a few nodes that see what is in reach here.
    pub fn body(
        &mut self,
        inputs: Vec<usize>,
        make: impl FnOnce(&mut Builder) -> Option<Vec<usize>>,
    ) -> Option<Body> {
        let (around, scope) = (std::mem::take(&mut self.graph.nodes), self.scope.clone());
        self.scope.extend(&inputs);
        self.depth += 1;
        let outputs = make(self);
        self.depth -= 1;
        let nodes = std::mem::replace(&mut self.graph.nodes, around);
        self.scope = scope;
        Some(Body { inputs, nodes, outputs: outputs? })
    }

    /// A value that stands for a body's input.
    pub fn body_input(&mut self, worlds: [Val; WORLDS]) -> usize {
        self.add_value(worlds, None)
    }
}

fn is_small(val: &Val) -> bool {
    val.codes.len() <= 256 && val.shape.len() <= 5
}
