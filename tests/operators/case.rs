//! Cases: an operator alone, with movers around it, or in a chain.

use tract_onnx_cast::ElementType;

use crate::answer::{Ask, moved};
use crate::data::Data;
use crate::draw::{Attributed, Draw};
use crate::eval::Attributes;
use crate::graph::Attribute::Ints;
use crate::graph::{Node, WORLDS};
use crate::table::{Row, opsets};
use crate::tensor::Val;

use ElementType::Double;

/// How a case is put together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    Alone,
    Moved,
    Chain,
}

/// The case of a seed, with the tolerance of each value; `None` where nothing that ONNX defines was
/// drawn.
pub fn case(seed: u64, rows: &[Row]) -> Option<Draw> {
    let row = rows[(seed % rows.len() as u64) as usize];
    let kind = [Kind::Alone, Kind::Moved, Kind::Chain][(seed / rows.len() as u64 % 3) as usize];
    for attempt in 0..40u64 {
        let own = seed ^ attempt << 48;
        if let Some(mut draw) = Draw::new(own, row, kind != Kind::Alone, kind != Kind::Chain)
            && draw.finish(kind, rows).is_some()
        {
            draw.graph.seed = seed;
            return Some(draw);
        }
    }
    None
}

impl Draw {
    /// Such a tensor that a mover makes of another.
    pub fn dressed(&mut self, ty: ElementType, shape: &[usize], data: Data) -> Option<usize> {
        match self.random.below(4) {
            0 if !self.is_symbolic() => self.expanded(ty, shape, data),
            1 if shape.len() > 1 => {
                let perm = self.permutation(shape.len());
                let mut from = self.worlds(shape);
                for (world, from) in from.iter_mut().enumerate() {
                    let to = self.worlds(shape)[world].clone();
                    perm.iter().zip(to).for_each(|(axis, size)| from[*axis as usize] = size);
                }
                let x = self.leaf_of(ty, from, data);
                self.mover("Transpose", &[x], vec![("perm", Ints(perm))])
            }
            2 if !shape.is_empty() => {
                let mut from = self.worlds(shape);
                let last = self.random.below(shape.len());
                from.iter_mut().for_each(|from| from.insert(last + 1, 1));
                let x = self.leaf_of(ty, from, data);
                self.reshaped(x, shape)
            }
            _ => {
                let axis =
                    self.random.below(shape.len().max(1)).max(usize::from(self.is_symbolic()));
                let mut from = self.worlds(shape);
                let size = *shape.get(axis)?;
                from.iter_mut().for_each(|from| from[axis] = 2 * size);
                let x = self.leaf_of(ty, from, data);
                let [start, end, axes, step] =
                    [1, i64::MAX, axis as i64, 2].map(|i| self.ints(&[i]));
                (self.opset() >= 10)
                    .then(|| self.mover("Slice", &[x, start, end, axes, step], vec![]))?
            }
        }
    }

    /// Such a tensor from one with sizes of 1.
    pub fn expanded(&mut self, ty: ElementType, shape: &[usize], data: Data) -> Option<usize> {
        let from: Vec<usize> =
            shape.iter().map(|size| if self.random.one_in(2) { 1 } else { *size }).collect();
        let x = self.fixed(ty, &from, data);
        let to = self.ints(&shape.iter().map(|size| *size as i64).collect::<Vec<_>>());
        (self.opset() >= 8).then(|| self.mover("Expand", &[x, to], vec![]))?
    }

    /// The axes in any order.
    pub fn permutation(&mut self, rank: usize) -> Vec<i64> {
        let mut perm: Vec<i64> = (0..rank as i64).collect();
        (1..rank).for_each(|at| perm.swap(at, self.random.below(at + 1)));
        perm
    }

    /// To this shape, whatever the leading axis is.
    pub fn reshaped(&mut self, x: usize, shape: &[usize]) -> Option<usize> {
        let mut to: Vec<i64> = shape.iter().map(|size| *size as i64).collect();
        if self.is_symbolic() {
            *to.first_mut()? = -1;
        }
        let to = self.ints(&to);
        self.mover("Reshape", &[x, to], vec![])
    }

    fn mover(&mut self, op: &'static str, inputs: &[usize], with: Attributed) -> Option<usize> {
        let inputs: Vec<Option<usize>> = inputs.iter().copied().map(Some).collect();
        let x = inputs[0]?;
        let attributes = with.clone();
        let state = (self.graph.values.len(), self.graph.nodes.len());
        let y = self.apply(op, moved, &inputs, 1, with).map(|outputs| outputs[0]);
        // What is open moves as well, but is nothing to compute with; axes without elements are a
        // matter of their own.
        let Some(y) = y.filter(|y| self.goes_on(*y)) else {
            self.back(state);
            return None;
        };
        // What moves may be off by as much as it was.
        for world in 0..WORLDS {
            let Some(slack) = self.slack[x][world].clone() else { continue };
            let shape = self.graph.values[x].worlds[world].shape.clone();
            let mut vals: Vec<Option<&Val>> =
                inputs.iter().map(|id| id.map(|id| &self.graph.values[id].worlds[world])).collect();
            let slack = Val::new(Double, shape, slack.iter().map(|x| x.to_bits()).collect());
            vals[0] = Some(&slack);
            let (opset, attributes) = (self.graph.opset, Attributes(&attributes));
            let moved = moved(&Ask { op, opset, attributes, inputs: &vals, outputs: 1 })?;
            self.slack[y][world] = Some(moved.first()?.val.floats());
        }
        Some(y)
    }

    fn finish(&mut self, kind: Kind, rows: &[Row]) -> Option<()> {
        let mut last = (self.row.draw)(self)?;
        if kind == Kind::Moved || kind == Kind::Chain && self.random.one_in(2) {
            for _ in 0..1 + self.random.below(2) {
                last = self.moved(last).unwrap_or(last);
            }
        }
        let mut length = if kind == Kind::Chain { 1 + self.random.below(2) } else { 0 };
        for _ in 0..60 {
            if length == 0 || !self.goes_on(last) {
                break;
            }
            self.row = rows[self.random.below(rows.len())];
            let state = (self.graph.values.len(), self.graph.nodes.len());
            self.given = Some(last);
            let next = match opsets(self.row.op).first() {
                Some((since, _)) if *since <= self.opset() => (self.row.draw)(self),
                _ => None,
            };
            // One that did not look at what it was given goes on with nothing.
            match next.filter(|_| self.given.is_none()) {
                Some(next) => (last, length) = (next, length - 1),
                None => self.back(state),
            }
        }
        let outputs = match kind {
            Kind::Alone => self.graph.nodes.last()?.outputs.clone(),
            _ => vec![last],
        };
        self.graph.outputs = outputs;
        self.graph.prune();
        Some(())
    }

    /// Whether there are elements in every world, as many as are known before the model runs.
    fn goes_on(&self, id: usize) -> bool {
        let is_empty = self.graph.values[id].worlds.iter().any(|val| val.codes.is_empty());
        let is_counted = |node: &Node| {
            matches!(node.op, "NonZero" | "NonMaxSuppression") && node.outputs.contains(&id)
        };
        !is_empty && !self.graph.nodes.iter().any(is_counted)
    }

    fn back(&mut self, (values, nodes): (usize, usize)) {
        self.graph.values.truncate(values);
        self.slack.truncate(values);
        self.graph.nodes.truncate(nodes);
    }

    /// A Slice with a step, a Transpose, a Reshape or an axis more.
    fn moved(&mut self, x: usize) -> Option<usize> {
        let shape = self.shape(x);
        if shape.is_empty() || !self.goes_on(x) {
            return None;
        }
        match self.random.below(4) {
            0 | 1 if self.opset() >= 10 => {
                let axis = self.random.below(shape.len()) as i64;
                let step = self.random.of(&[2, 2, 3, -1, -2]);
                let start = self.random.below(3) as i64;
                let start = if step < 0 { -1 - start } else { start };
                let end = if step < 0 { i64::MIN } else { i64::MAX };
                let [start, end, axis, step] = [start, end, axis, step].map(|i| self.ints(&[i]));
                self.mover("Slice", &[x, start, end, axis, step], vec![])
            }
            2 => {
                let perm = self.permutation(shape.len());
                self.mover("Transpose", &[x], vec![("perm", Ints(perm))])
            }
            _ => {
                let sizes = self.graph.values[x].fixed_sizes()?;
                let size = |size: &Option<usize>| size.map_or(-1, |size| size as i64);
                let mut to: Vec<i64> = sizes.iter().map(size).collect();
                match self.random.below(3) {
                    0 => to.push(1),
                    1 => to.insert(1, 1),
                    _ => to = vec![-1],
                }
                let to = self.ints(&to);
                self.mover("Reshape", &[x, to], vec![])
            }
        }
    }
}
