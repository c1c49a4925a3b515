//! What a Relu or a Clip of the reference makes of a value that a quantiser takes: what lies beyond
//! it is no loss, whether the conversion has such a node itself or leaves it to the range of the
//! codes, and what lies within it is one.

use std::collections::HashMap;
use std::iter::successors;

use tract_onnx_cast::interpreter::{NodeRun, SharedTensor};

use super::super::doubt::MOVED;
use super::super::links::Links;
use super::super::numbers::{each_pair, numbers, tensor};
use super::super::trace::{Ran, Trace};
use super::super::walk::layout::in_layout_of;

/// The ends of a range that values are cut to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Cut {
    pub(super) low: f64,
    pub(super) high: f64,
}

impl Cut {
    /// What leaves all as it is.
    pub(super) const NONE: Cut = Cut { low: f64::NEG_INFINITY, high: f64::INFINITY };

    pub(super) fn of(self, x: f64) -> f64 {
        if x.is_nan() { x } else { x.max(self.low).min(self.high) }
    }

    /// This and then another one.
    fn then(self, other: Cut) -> Cut {
        Cut { low: other.of(self.low), high: other.of(self.high) }
    }

    /// Whether a range lets through no more than this.
    fn is_done_by(self, (from, to): (f64, f64)) -> bool {
        let step = (to - from) / STEPS;
        self.low - step <= from && to <= self.high + step
    }

    /// A value that is cut so.
    pub(super) fn of_all(self, value: &SharedTensor) -> Option<SharedTensor> {
        let all: Vec<f64> = numbers(value)?.into_iter().map(|x| self.of(x)).collect();
        tensor(value.0, value.1.shape(), &all)
    }
}

/// What a range loses of values that the reference cuts, and these, by their powers.
pub(super) struct Lost {
    pub(super) cut: Cut,
    /// What comes back as 0, and what as anything else.
    pub(super) at_zero: f64,
    pub(super) cut_off: f64,
    pub(super) power: f64,
}

impl Lost {
    /// Of values that come back, by their codes, of which the least and the greatest end the range;
    /// `step` is how far a code may be off.
    pub(super) fn of<'v>(
        cut: Cut,
        values: impl Iterator<Item = ((&'v f64, &'v f64), &'v f64)>,
        ends: [f64; 2],
        step: impl Fn(f64) -> f64,
    ) -> Lost {
        let mut lost = Lost { cut, at_zero: 0.0, cut_off: 0.0, power: 0.0 };
        for ((want, got), code) in values {
            let want = cut.of(*want);
            let error = (want - cut.of(*got)).abs();
            lost.power += want * want;
            if ends.contains(code) && error > step(*code) {
                *(if *got == 0.0 { &mut lost.at_zero } else { &mut lost.cut_off }) += error * error;
            }
        }
        lost
    }

    pub(super) fn share(&self) -> f64 {
        ((self.cut_off + self.at_zero) / self.power).sqrt()
    }
}

/// A range of 8 bits has so many steps.
const STEPS: f64 = 255.0;

/// A value is what another one is, in some order of axes, that is off by less than so much of its
/// size, by powers.
const NEAR: f64 = 0.01;

/// Where the reference cuts values of the conversion.
pub(super) struct Cuts<'a> {
    reference: &'a Trace,
    links: &'a Links,
    /// Of what only moves elements, or casts them: what it makes, and what it takes.
    sources: HashMap<String, String>,
}

impl<'a> Cuts<'a> {
    pub(super) fn new(reference: &'a Trace, links: &'a Links) -> Cuts<'a> {
        Cuts { reference, links, sources: HashMap::new() }
    }

    /// Notes what a node makes of what.
    pub(super) fn see(
        &mut self,
        node: &NodeRun,
        (input, output): (Option<String>, Option<String>),
    ) {
        let is_moved = moves_one(node.op_type) || node.op_type == "Cast";
        if let Some((input, output)) = input.zip(output).filter(|_| is_moved) {
            self.sources.insert(output, input);
        }
    }

    /// The value of the reference that one of the conversion, of so many elements, is, or moves.
    fn of_reference(&self, value: &str, length: usize) -> Option<String> {
        let source = |value: &&str| self.sources.get(*value).map(String::as_str);
        let moved = || successors(Some(value), source);
        let is_there = |name: &&str| {
            let form = self.reference.form(name);
            form.is_some_and(|(_, shape)| shape.iter().product::<usize>() == length)
                || self.reference.inputs.contains(*name)
        };
        match moved().find_map(|value| self.links.get(value)) {
            Some(link) => Some(link.reference.clone()),
            None => moved().find(is_there).map(String::from),
        }
    }

    /// What the reference cuts a value to that a quantiser takes, whose range ends somewhere: each
    /// of the nodes that take it, if all of them do, or the one that has made it. `None` of a value
    /// that is none of the reference's. `back` is what the codes are taken back to: where their
    /// range does the work of one of several nodes, what that makes.
    pub(super) fn of(
        &self,
        (name, value): (&str, &SharedTensor),
        (back, ends): (Option<&str>, (f64, f64)),
    ) -> Option<Vec<Cut>> {
        let value = &self.of_reference(name, value.1.len())?;
        let back = back.and_then(|back| self.links.get(back)).map(|link| &*link.reference);
        let before = self.before(value);
        let mut behind = vec![];
        if !self.add_behind(value, &mut behind) {
            let is_left_out = |ran: &&Ran| {
                ran.inputs.first().is_some_and(|input| input == value)
                    && ran.outputs.iter().any(|made| Some(&**made) == back)
            };
            let left_out = self.reference.nodes.iter().find(is_left_out);
            let cut = left_out.and_then(|ran| self.cut(ran)).filter(|cut| cut.is_done_by(ends));
            behind = cut.into_iter().collect();
        }
        Some(match before {
            Some(before) if behind.is_empty() => vec![before],
            Some(before) => behind.into_iter().map(|cut| before.then(cut)).collect(),
            None => behind,
        })
    }

    /// What a Relu or a Clip cuts.
    fn cut(&self, ran: &Ran) -> Option<Cut> {
        if ran.op == "Relu" {
            return Some(Cut { low: 0.0, ..Cut::NONE });
        }
        if ran.op != "Clip" {
            return None;
        }
        let end = |place: usize, name: &str, none: f64| {
            let held = ran.attributes.iter().find(|held| held.name == name);
            match ran.inputs.get(place).filter(|input| !input.is_empty()) {
                Some(input) => {
                    let held = self.reference.constant(input);
                    numbers(held.or_else(|| self.reference.first(input))?)?.first().copied()
                }
                None => Some(held.map_or(none, |held| f64::from(held.f))),
            }
        };
        let Cut { low, high } = Cut::NONE;
        Some(Cut { low: end(1, "min", low)?, high: end(2, "max", high)? })
    }

    /// What has cut a value where it was made, before it was moved.
    fn before(&self, value: &str) -> Option<Cut> {
        let mut ran = self.reference.maker(value)?;
        while moves_one(&ran.op) {
            ran = self.reference.maker(ran.inputs.first()?)?;
        }
        self.cut(ran)
    }

    /// Adds what nodes cut that take a value, behind what moves it; whether all of them do.
    fn add_behind(&self, value: &str, cuts: &mut Vec<Cut>) -> bool {
        let mut takers =
            self.reference.nodes.iter().filter(|ran| ran.inputs.iter().any(|x| x == value));
        let is_any = self.reference.is_taken(value);
        is_any
            && takers.all(|ran| match self.cut(ran) {
                Some(cut) if ran.inputs.first().is_some_and(|input| input == value) => {
                    cuts.push(cut);
                    true
                }
                _ => {
                    let is_moved = MOVED.iter().any(|(op, ..)| *op == ran.op);
                    is_moved && ran.outputs.iter().all(|made| self.add_behind(made, cuts))
                }
            })
    }

    /// What the reference cuts a value to that is told to be none of its own, where that makes one
    /// of its own of it: a product whose matrix was given another shape has no partner.
    pub(super) fn by_values(&self, value: &SharedTensor) -> Option<Cut> {
        let makes = |ran: &Ran| {
            let (cut, made) = (self.cut(ran)?, self.reference.first(ran.outputs.first()?)?);
            if made.1.len() != value.1.len() {
                return None;
            }
            let held = cut.of_all(value)?;
            let (made, _) = in_layout_of(made, &held)?;
            let (mut error, mut size) = (0.0, 0.0);
            each_pair(&made, &held, |_, want, got| {
                error += (want - got) * (want - got);
                size += want * want;
            })?;
            (error < NEAR * size).then_some(cut)
        };
        self.reference.nodes.iter().find_map(makes)
    }
}

/// Whether an operator only moves what one value has.
fn moves_one(op: &str) -> bool {
    MOVED.iter().any(|(name, first, count)| *name == op && (*first, *count) == (0, 1))
}
