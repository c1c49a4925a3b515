//! Whether the names inside a conversion tell what stands for what of the reference. Exporters
//! number nodes, values and constants: one node more or less gives all that are behind it other
//! names, which are those of others in the reference.

use std::collections::{HashMap, HashSet};

use tract_onnx_cast::interpreter::SharedTensor;

use super::super::nodes::{is_coder, is_form};
use super::super::numbers::numbers;
use super::super::trace::{Ran, Trace};
use super::Links;

/// The share of its size by which a constant may be off that is the same one, in codes of few bits
/// as well.
const SAME: f64 = 0.2;

/// What is said of which values and constants of two runs belong together.
#[derive(Clone, Copy)]
pub(in super::super) struct Hints<'a> {
    pub(in super::super) sides: (&'a Trace, &'a Trace),
    pub(in super::super) links: &'a Links,
    /// What the reference's constants are called in the conversion.
    pub(in super::super) weights: &'a HashMap<String, String>,
}

/// What constants of the reference are called in the conversion, as their takers tell it.
pub(in super::super) struct Counterparts {
    pub(in super::super) weights: HashMap<String, String>,
    /// Constants of the reference that have other values than those of their name, which stand for
    /// others.
    pub(in super::super) strangers: HashSet<String>,
    /// Whether the names of what is made tell anything.
    pub(in super::super) has_names: bool,
}

impl<'a> Hints<'a> {
    /// Whether names are chance: more than twice as many nodes take what belongs together without
    /// them alone, by `nameless`, as do so with them alone. A node that takes another's operand by
    /// a fault is of the former, and what takes its value of the latter. What is in no pair without
    /// its name tells nothing against it.
    pub(in super::super) fn are_worse_than(&self, nameless: &Links) -> bool {
        let linked: HashSet<&String> = nameless.values().map(|link| &link.reference).collect();
        let mut others = nameless.clone();
        for (value, link) in self.links.iter().filter(|(_, link)| !linked.contains(&link.reference))
        {
            others.entry(value.clone()).or_insert_with(|| link.clone());
        }
        let without = Hints { links: &others, ..*self }.explained();
        let with = self.explained();
        without.difference(&with).count() > 2 * with.difference(&without).count()
    }

    /// The values of the conversion that one operator makes of what belongs together.
    fn explained(&self) -> HashSet<&'a str> {
        let made = self.both().filter(|(x, y)| {
            let is_same = x.op == y.op && x.domain == y.domain && x.attributes == y.attributes;
            let mut operands = x.inputs.iter().zip(&y.inputs);
            is_same && x.inputs.len() == y.inputs.len() && operands.all(|both| self.belong(both))
        });
        made.filter_map(|(_, y)| y.outputs.first().map(String::as_str)).collect()
    }

    /// The nodes that make values which belong together.
    fn both(&self) -> impl Iterator<Item = (&'a Ran, &'a Ran)> + use<'a> {
        let ((a, b), links) = (self.sides, self.links);
        let computing = b.nodes.iter().filter(|ran| !is_form(ran) && !is_coder(ran));
        computing.filter_map(move |y| {
            let link = links.get(y.outputs.first()?)?;
            Some((a.maker(&link.reference)?, y))
        })
    }

    /// Whether two operands belong together, also cast or in codes.
    fn belong(&self, (x, y): (&String, &String)) -> bool {
        let (a, b) = self.sides;
        let (of_x, of_y) = (source(a, x), source(b, y));
        if a.is_constant(of_x) && b.is_constant(of_y) {
            return self.is_one_constant(x, y);
        }
        let is_linked = |y: &str| {
            let link = self.links.get(y);
            link.is_some_and(|link| link.reference == *x || link.reference == of_x)
        };
        is_linked(y) || is_linked(of_y) || of_x == of_y && !a.values.contains_key(of_x)
    }

    /// Whether two constants have the same values, but for a conversion's roundings; whether one
    /// stands for the other where they are large.
    fn is_one_constant(&self, x: &str, y: &str) -> bool {
        let (a, b) = self.sides;
        match held(a, x).zip(held(b, y)) {
            Some(both) => are_near(both),
            None => self.weights.get(x).is_some_and(|own| own == y || own == source(b, y)),
        }
    }

    /// The constants that two nodes of one operator take at one place that make what belongs
    /// together, and whether their values are the same.
    fn constants(&self) -> Vec<(&'a str, &'a str, bool)> {
        let (a, b) = self.sides;
        let alike = self.both().filter(|(x, y)| x.op == y.op);
        let operands = alike.flat_map(|(x, y)| x.inputs.iter().zip(&y.inputs));
        let constant = operands.filter(|(x, y)| {
            let (x, y) = (source(a, x), source(b, y));
            a.is_constant(x) && b.is_constant(y)
        });
        constant.map(|(x, y)| (x.as_str(), y.as_str(), self.is_one_constant(x, y))).collect()
    }

    /// What one node divides by, with each factor of another one that makes the same, or the other
    /// way round.
    fn reciprocals(&self) -> HashSet<(&'a str, &'a str)> {
        let is_turned =
            |(x, y): &(&Ran, &Ran)| matches!((&*x.op, &*y.op), ("Div", "Mul") | ("Mul", "Div"));
        let of = |(x, y): (&'a Ran, &'a Ran)| {
            let factor = x.inputs.get(1);
            factor.into_iter().flat_map(|x| y.inputs.iter().map(|y| (x.as_str(), y.as_str())))
        };
        self.both().filter(is_turned).flat_map(of).collect()
    }

    /// What the constants are called. One that has other values than that of its name is another,
    /// if a node that takes either takes the same values at its place on the other side, or if one
    /// divides by what the other one multiplies by; where names are chance, unless nodes that
    /// belong together take both.
    pub(in super::super) fn counterparts(
        &self,
        changed: &HashSet<String>,
        has_names: bool,
    ) -> Counterparts {
        let taken = self.constants();
        let [mut of_reference, mut of_conversion] =
            [(); 2].map(|()| HashMap::<&str, Vec<_>>::new());
        for (x, y, _) in taken.iter().filter(|(.., is_same)| *is_same) {
            of_reference.entry(x).or_default().push(*y);
            of_conversion.entry(y).or_default().push(*x);
        }
        let both: HashSet<(&str, &str)> = taken.iter().map(|(x, y, _)| (*x, *y)).collect();
        let reciprocals = self.reciprocals();
        let is_stranger = |name: &&String| {
            let (name, Some(own)) = (name.as_str(), self.weights.get(*name)) else { return false };
            let own = own.as_str();
            let stands_for = |all: &HashMap<&str, Vec<&str>>, x, y| {
                all.get(x).is_some_and(|all| all.iter().any(|other| *other != y))
            };
            stands_for(&of_reference, name, own)
                || stands_for(&of_conversion, own, name)
                || reciprocals.contains(&(name, own))
                || !has_names && !both.contains(&(name, own))
        };
        let strangers: HashSet<String> = changed.iter().filter(is_stranger).cloned().collect();
        let mut weights = self.weights.clone();
        weights.retain(|name, _| !strangers.contains(name));
        let open = taken.iter().filter(|(x, ..)| !has_names || strangers.contains(*x));
        for (x, y, _) in open {
            weights.entry((*x).into()).or_insert_with(|| (*y).into());
        }
        Counterparts { weights, strangers, has_names }
    }

    /// Whether nodes of one name that make a value of one name are others.
    pub(in super::super) fn has_others(&self, outputs: &[(String, String)]) -> bool {
        let (a, b) = self.sides;
        let of_reference: HashSet<&String> = self.weights.values().collect();
        let is_inside = |value: &&String| outputs.iter().all(|(_, output)| output != *value);
        b.nodes.iter().filter(|ran| !ran.outputs.contains(&ran.name)).any(|y| {
            let made = y.outputs.first().filter(is_inside);
            let both = made.and_then(|value| Some((value, a.maker(value)?)));
            let Some((value, x)) = both.filter(|(_, x)| x.name == y.name) else { return false };
            let shapes = a.form(value).zip(b.form(value)).map(|(x, y)| (x.1, y.1));
            // What the conversion has of a node's weights another node takes, and this one
            // another's.
            let wanted: Vec<&String> =
                x.inputs.iter().filter_map(|name| self.weights.get(name)).collect();
            let taken: Vec<&String> =
                y.inputs.iter().filter(|name| of_reference.contains(name)).collect();
            let has_others = !wanted.is_empty()
                && !taken.is_empty()
                && wanted.iter().all(|name| !taken.contains(name));
            // Nor does it take what the other one takes, but what belongs elsewhere.
            let operands = x.inputs.iter().zip(&y.inputs);
            let mut linked =
                operands.filter_map(|(x, y)| Some((x, &self.links.get(y)?.reference))).peekable();
            let takes_others = linked.peek().is_some() && linked.all(|(x, y)| x != y);
            x.op != y.op || shapes.is_some_and(|(x, y)| x != y) || has_others || takes_others
        })
    }
}

/// The value of which a value is a cast, or the codes or what those are taken back to.
fn source<'a>(trace: &'a Trace, value: &'a str) -> &'a str {
    let mut value = value;
    while let Some(ran) = trace.maker(value).filter(|ran| is_form(ran) || is_coder(ran))
        && let Some(input) = ran.inputs.first()
    {
        value = input;
    }
    value
}

/// The values of a constant, or of what is made of one.
fn held<'a>(trace: &'a Trace, name: &str) -> Option<&'a SharedTensor> {
    trace.constant(name).or_else(|| trace.first(name))
}

fn are_near((x, y): (&SharedTensor, &SharedTensor)) -> bool {
    let Some((x, y)) = numbers(x).zip(numbers(y)) else { return false };
    let off: f64 = x.iter().zip(&y).map(|(x, y)| (x - y) * (x - y)).sum();
    let power: f64 = x.iter().map(|x| x * x).sum();
    x.len() == y.len() && off <= SAME * SAME * power
}
