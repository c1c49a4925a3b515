//! A case in the making: a node of an operator, alone, with movers around it, or in a chain.

use tract_onnx_cast::ElementType;

use crate::answer::{Answer, Ask, Oracle, numbers, rounded, unit};
use crate::data::{Data, elements};
use crate::eval::Attributes;
use crate::graph::{Attribute, Graph, Leaf, Node, Value, WORLDS};
use crate::random::Random;
use crate::table::{Row, opsets, takes};
use crate::tensor::Val;

use ElementType::Int64;

pub type Attributed = Vec<(&'static str, Attribute)>;

pub struct Draw {
    pub random: Random,
    pub graph: Graph,
    /// By how much each value may be off, in each world.
    pub slack: Vec<[Option<Vec<f64>>; WORLDS]>,
    /// The operator whose node is drawn.
    pub row: Row,
    /// What a chain has made so far.
    pub given: Option<usize>,
    /// The sizes of the leading axis, where that is a symbol.
    leading: Option<[usize; WORLDS]>,
    /// Whether operands come from movers.
    is_dressed: bool,
    /// Whether the first operand may have special values.
    has_special: bool,
}

impl Draw {
    /// With movers around operands and special values where these may be.
    pub fn new(seed: u64, row: Row, is_dressed: bool, may_be_special: bool) -> Option<Draw> {
        let mut random = Random::new(seed);
        let (since, end) = random.maybe(&opsets(row.op))?;
        let opset = since + random.below((end - since + 1) as usize) as i64;
        let graph = Graph { seed, opset, values: vec![], nodes: vec![], outputs: vec![] };
        let first = if random.one_in(12) { 0 } else { 1 + random.below(4) };
        let leading = random.one_in(2).then(|| [first, first + 1 + random.below(3)]);
        let has_special = may_be_special && random.one_in(3);
        let slack = vec![];
        Some(Draw { random, graph, slack, row, given: None, leading, is_dressed, has_special })
    }

    pub fn op(&self) -> &'static str {
        self.row.op
    }

    pub fn opset(&self) -> i64 {
        self.graph.opset
    }

    pub fn is_symbolic(&self) -> bool {
        self.leading.is_some()
    }

    pub fn ty(&self, id: usize) -> ElementType {
        self.graph.values[id].ty()
    }

    pub fn shape(&self, id: usize) -> Vec<usize> {
        self.graph.values[id].shape().to_vec()
    }

    pub fn rank(&self, id: usize) -> usize {
        self.graph.values[id].shape().len()
    }

    /// One of these types that the operator takes.
    pub fn one_of(&mut self, types: &[ElementType]) -> Option<ElementType> {
        let fits =
            |ty: &&ElementType| ty.since() <= self.opset() && takes(self.op(), self.opset(), **ty);
        let types: Vec<ElementType> = types.iter().filter(fits).copied().collect();
        self.random.maybe(&types)
    }

    /// Any size, and now and then 0 or 1.
    pub fn size(&mut self) -> usize {
        if self.random.one_in(24) { 0 } else { self.random.of(&[1, 2, 2, 3, 3, 4, 5]) }
    }

    pub fn sizes(&mut self, rank: usize) -> Vec<usize> {
        (0..rank).map(|_| self.size()).collect()
    }

    /// The first operand: what the chain has made, where it has such a type and rank, or a tensor.
    pub fn operand(
        &mut self,
        types: &[ElementType],
        ranks: std::ops::Range<usize>,
    ) -> Option<usize> {
        if let Some(given) = self.given.take() {
            let fits = types.contains(&self.ty(given)) && ranks.contains(&self.rank(given));
            return (fits && takes(self.op(), self.opset(), self.ty(given))).then_some(given);
        }
        let rank = ranks.start + self.random.below(ranks.len());
        let shape = self.sizes(rank);
        self.shaped(types, &shape)
    }

    /// The first operand with this very shape, but for the leading axis.
    pub fn shaped(&mut self, types: &[ElementType], shape: &[usize]) -> Option<usize> {
        if let Some(given) = self.given.take() {
            let fits = types.contains(&self.ty(given)) && self.shape(given) == shape;
            return (fits && takes(self.op(), self.opset(), self.ty(given))).then_some(given);
        }
        let ty = self.one_of(types)?;
        let data = if self.has_special {
            Data::Special
        } else {
            self.random.of(&[Data::Small, Data::Usual])
        };
        Some(self.tensor(ty, shape, data))
    }

    /// An operand that is broadcast to another: of its shape, of its last axes, or with sizes of 1.
    pub fn beside(&mut self, other: usize, ty: ElementType, data: Data) -> usize {
        let rank = self.rank(other);
        let skipped = self.random.below(rank + 1);
        let ones = self.random.one_in(2);
        let sizes: Vec<Option<usize>> = (skipped..rank)
            .map(
                |axis| {
                    if ones && self.random.one_in(2) { Some(1) } else { self.sized(other, axis) }
                },
            )
            .collect();
        self.leaf_of(ty, self.of_sizes(&sizes), data)
    }

    /// An operand of these sizes, of the symbol's where none is given; now and then from an
    /// expansion.
    pub fn weights(&mut self, ty: ElementType, sizes: &[Option<usize>], data: Data) -> usize {
        let fixed: Option<Vec<usize>> = sizes.iter().copied().collect();
        if let Some(shape) = fixed
            && self.is_dressed
            && self.random.one_in(3)
            && let Some(id) = self.expanded(ty, &shape, data)
        {
            return id;
        }
        self.leaf_of(ty, self.of_sizes(sizes), data)
    }

    /// The size of an axis; none where it is the symbol's, and 1 where it comes of the symbol
    /// otherwise.
    pub fn sized(&self, id: usize, axis: usize) -> Option<usize> {
        let [a, b] = [0, 1].map(|world| self.graph.values[id].worlds[world].shape[axis]);
        match self.leading {
            Some(leading) if leading == [a, b] => None,
            _ if a == b => Some(a),
            _ => Some(1),
        }
    }

    fn of_sizes(&self, sizes: &[Option<usize>]) -> [Vec<usize>; WORLDS] {
        let leading = self.leading.unwrap_or([1; WORLDS]);
        leading.map(|leading| sizes.iter().map(|size| size.unwrap_or(leading)).collect())
    }

    /// An operand of the very shape of another.
    pub fn like(&mut self, other: usize, ty: ElementType, data: Data) -> usize {
        let sizes: Vec<Option<usize>> =
            (0..self.rank(other)).map(|axis| self.sized(other, axis)).collect();
        self.weights(ty, &sizes, data)
    }

    /// A tensor whose leading axis may be a symbol, from a mover now and then.
    pub fn tensor(&mut self, ty: ElementType, shape: &[usize], data: Data) -> usize {
        if self.is_dressed
            && self.random.one_in(2)
            && let Some(id) = self.dressed(ty, shape, data)
        {
            return id;
        }
        let worlds = self.worlds(shape);
        self.leaf_of(ty, worlds, data)
    }

    pub fn worlds(&self, shape: &[usize]) -> [Vec<usize>; WORLDS] {
        std::array::from_fn(|world| {
            let mut shape = shape.to_vec();
            if let (Some(leading), Some(first)) = (self.leading, shape.first_mut()) {
                *first = leading[world];
            }
            shape
        })
    }

    /// A tensor of the same shape in both worlds.
    pub fn fixed(&mut self, ty: ElementType, shape: &[usize], data: Data) -> usize {
        self.leaf_of(ty, std::array::from_fn(|_| shape.to_vec()), data)
    }

    pub fn leaf_of(&mut self, ty: ElementType, shapes: [Vec<usize>; WORLDS], data: Data) -> usize {
        let symbols = shapes[0].iter().zip(&shapes[1]);
        let symbols: Vec<Option<usize>> = symbols.map(|(a, b)| (a != b).then_some(0)).collect();
        let is_fixed = symbols.iter().all(Option::is_none);
        let [first, second] = shapes.map(|shape| elements(&mut self.random, ty, shape, data));
        let second = if is_fixed { first.clone() } else { second };
        // Weights are constants more often than not; the first tensor never is, so that there is
        // something to compute.
        let is_constant = is_fixed && !self.graph.values.is_empty() && self.random.one_in(2);
        self.value([first, second], Some(Leaf { symbols, is_constant }), [None, None])
    }

    pub fn scalar(&mut self, int: i64) -> usize {
        self.constant(Val::of_ints(Int64, vec![], [i128::from(int)]))
    }

    /// A list for an input since an opset, and for an attribute before it.
    pub fn list(
        &mut self,
        since: i64,
        name: &'static str,
        list: &[i64],
        inputs: &mut Vec<Option<usize>>,
        attributes: &mut Attributed,
    ) {
        if self.opset() >= since {
            let list = self.ints(list);
            inputs.push(Some(list));
        } else {
            attributes.push((name, Attribute::Ints(list.to_vec())));
        }
    }

    /// Some of the axes of a shape, each from the front or from behind.
    pub fn axes(&mut self, rank: usize) -> Vec<i64> {
        let mut axes: Vec<i64> = (0..rank as i64).filter(|_| self.random.one_in(2)).collect();
        if axes.is_empty() && rank > 0 {
            axes.push(self.random.below(rank) as i64);
        }
        axes.iter().map(|axis| axis - self.random.of(&[0, rank as i64])).collect()
    }

    pub fn axis(&mut self, rank: usize) -> i64 {
        self.random.below(2 * rank) as i64 - rank as i64
    }

    /// A constant.
    pub fn constant(&mut self, val: Val) -> usize {
        let symbols = vec![None; val.shape.len()];
        let leaf = Leaf { symbols, is_constant: true };
        self.value([val.clone(), val], Some(leaf), [None, None])
    }

    pub fn ints(&mut self, ints: &[i64]) -> usize {
        self.constant(Val::int64(ints))
    }

    fn value(
        &mut self,
        worlds: [Val; WORLDS],
        leaf: Option<Leaf>,
        slack: [Option<Vec<f64>>; WORLDS],
    ) -> usize {
        self.graph.values.push(Value { worlds, leaf, is_shape: false });
        self.slack.push(slack);
        self.graph.values.len() - 1
    }

    /// The node, if the operator's result is defined in every world and small; its outputs.
    pub fn node(
        &mut self,
        inputs: &[Option<usize>],
        outputs: usize,
        attributes: Attributed,
    ) -> Option<Vec<usize>> {
        self.apply(self.row.op, self.row.oracle, inputs, outputs, attributes)
    }

    /// The node with one output and all its inputs.
    pub fn make(&mut self, inputs: &[usize], attributes: Attributed) -> Option<usize> {
        let inputs: Vec<Option<usize>> = inputs.iter().copied().map(Some).collect();
        Some(self.node(&inputs, 1, attributes)?[0])
    }

    pub fn apply(
        &mut self,
        op: &'static str,
        oracle: Oracle,
        inputs: &[Option<usize>],
        outputs: usize,
        attributes: Attributed,
    ) -> Option<Vec<usize>> {
        let worlds: Vec<Vec<Answer>> = (0..WORLDS)
            .map(|world| self.answers(op, oracle, inputs, outputs, &attributes, world))
            .collect::<Option<_>>()?;
        let mut ids = vec![];
        for at in 0..outputs {
            let of: [&Answer; WORLDS] = [worlds[0].get(at)?, worlds[1].get(at)?];
            if of[0].val.shape.len() != of[1].val.shape.len() || of[0].val.ty != of[1].val.ty {
                return None;
            }
            let slack = of.map(|answer| answer.slack.clone());
            ids.push(self.value(of.map(|answer| answer.val.clone()), None, slack));
        }
        let (inputs, outputs) = (inputs.to_vec(), ids.clone());
        self.graph.nodes.push(Node { op, inputs, outputs, attributes });
        Some(ids)
    }

    /// What a node answers; where its inputs may be off, what that comes to is allowed besides.
    fn answers(
        &mut self,
        op: &'static str,
        oracle: Oracle,
        inputs: &[Option<usize>],
        outputs: usize,
        attributes: &Attributed,
        world: usize,
    ) -> Option<Vec<Answer>> {
        let opset = self.graph.opset;
        let ask = |vals: &[Option<Val>]| {
            let inputs: Vec<Option<&Val>> = vals.iter().map(Option::as_ref).collect();
            let attributes = Attributes(attributes);
            let mut all = oracle(&Ask { op, opset, attributes, inputs: &inputs, outputs })?;
            all.truncate(outputs);
            all.iter().all(|answer| answer.val.codes.len() <= 4096).then_some(all)
        };
        let val = |id: usize| self.graph.values[id].worlds[world].clone();
        let vals: Vec<Option<Val>> = inputs.iter().map(|id| id.map(val)).collect();
        let mut all = ask(&vals)?;
        let off = |id: usize| self.slack[id][world].clone();
        let off: Vec<Option<Vec<f64>>> = inputs.iter().map(|id| id.and_then(off)).collect();
        // What a mover beside the operator may be off moves with the elements.
        if off.iter().all(Option::is_none) || op != self.row.op {
            return Some(all);
        }
        if off.iter().flatten().flatten().any(|off| off.is_infinite()) {
            return None;
        }
        let mut spread: Vec<Vec<f64>> = all.iter().map(|a| vec![0.0; a.val.codes.len()]).collect();
        for way in 0..4 {
            let shifted = vals.iter().zip(&off).map(|(val, off)| match (val, off) {
                (Some(val), Some(off)) => Some(shifted(val, off, way, &mut self.random)),
                _ => val.clone(),
            });
            let shifted: Vec<Option<Val>> = shifted.collect();
            for ((answer, other), spread) in all.iter().zip(ask(&shifted)?).zip(&mut spread) {
                widen(&answer.val, &other.val, spread)?;
            }
        }
        for (answer, spread) in all.iter_mut().zip(spread) {
            let own = answer.slack.take().unwrap_or_else(|| vec![0.0; spread.len()]);
            answer.slack = Some(own.iter().zip(spread).map(|(own, off)| own + 4.0 * off).collect());
        }
        Some(all)
    }
}

/// A value moved within what it may be off: up, down, and to either side at random.
fn shifted(val: &Val, off: &[f64], way: usize, random: &mut Random) -> Val {
    let moved = |(x, off): (f64, &f64)| match way {
        0 => x + off,
        1 => x - off,
        _ if random.one_in(2) => x + off,
        _ => x - off,
    };
    let numbers: Vec<f64> = numbers(val).into_iter().zip(off).map(moved).collect();
    rounded(val.ty, val.shape.clone(), &numbers)
}

/// Takes in how far apart two results are. `None` where that is no small step.
fn widen(one: &Val, other: &Val, spread: &mut [f64]) -> Option<()> {
    if one.shape != other.shape || one.ty != other.ty {
        return None;
    }
    let pairs = numbers(one).into_iter().zip(numbers(other));
    for ((a, b), spread) in pairs.zip(spread) {
        let is_same = a == b || a.is_nan() && b.is_nan();
        let apart = if is_same { 0.0 } else { (a - b).abs() };
        let is_step = apart <= 0.05 * (a.abs() + 1.0) && one.ty.is_float();
        if apart.is_nan() || apart > 0.0 && !is_step {
            return None;
        }
        *spread = spread.max(apart + if apart > 0.0 { unit(one.ty, a) } else { 0.0 });
    }
    Some(())
}
