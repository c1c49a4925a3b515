//! Which tensors inside two models are the same: by name, by their values, or by the operators that
//! make them of pairs.
//!
//! - `fingerprint`: some values of a tensor, and which others may be like it
//! - `values`: pairs by values

mod fingerprint;
mod values;

use std::collections::{HashMap, HashSet};

use tract_onnx::prelude::*;
use tract_onnx_cast::ElementType;

use crate::cli::found::compared::{Confidence, PairedBy};
use crate::cli::work::main_graph::MainGraph;
use fingerprint::{Fingerprint, Likeness};

/// How many tensors, and pairs of them, are looked at to find those that are made of the same ones.
const BUDGET: usize = 5_000_000;

/// What more tensors than these are made of tells none from the others.
const MOST_TAKERS: usize = 64;

/// Two tensors that are the same one, as far as can be told.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::cli::verb::compare) struct Pair {
    pub(in crate::cli::verb::compare) reference: String,
    pub(in crate::cli::verb::compare) converted: String,
    pub(in crate::cli::verb::compare) how: MatchKind,
}

/// A tensor that belongs to one of the other side, or to none.
pub(in crate::cli::verb::compare) struct Seen<'a> {
    pub(in crate::cli::verb::compare) name: &'a str,
    pub(in crate::cli::verb::compare) ty: ElementType,
    pub(in crate::cli::verb::compare) tensor: &'a Tensor,
}

/// How a pair was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli::verb::compare) enum MatchKind {
    Name,
    /// All values that were looked at are the same.
    SameValues,
    /// They are the same but for rounding.
    NearValues,
    Structure,
}

impl MatchKind {
    /// Of values that are alike.
    fn of(likeness: Likeness) -> MatchKind {
        if likeness.same == 1.0 { MatchKind::SameValues } else { MatchKind::NearValues }
    }

    /// As reports have it, and how sure that is.
    pub(in crate::cli::verb::compare) const fn paired_by(self) -> (PairedBy, Confidence) {
        match self {
            MatchKind::Name => (PairedBy::Name, Confidence::Certain),
            MatchKind::SameValues => (PairedBy::Values, Confidence::Certain),
            MatchKind::NearValues => (PairedBy::Values, Confidence::Likely),
            MatchKind::Structure => (PairedBy::Structure, Confidence::Likely),
        }
    }
}

/// A side of the search.
struct SampledGraph<'a> {
    graph: &'a MainGraph<'a>,
    /// The values that nodes compute of inputs, in their order, with what is known of them.
    fingerprints: Vec<(&'a str, Fingerprint)>,
    places: HashMap<&'a str, usize>,
}

/// Pairs the tensors of two models that have run on the same inputs; one may stand for several of
/// the other model that are only moved or reshaped. `known` are pairs by their names, which no
/// others replace, and `weights` tells what the reference's constants are called in the converted
/// model; `has_names` is whether the names of values tell anything. Fails when a tensor is not of
/// its type's carrier.
pub(in crate::cli::verb::compare) fn pairs(
    (a, of_a): (&MainGraph, &[Seen]),
    (b, of_b): (&MainGraph, &[Seen]),
    (known, has_names): (&[(&str, &str)], bool),
    weights: &HashMap<String, String>,
) -> TractResult<Vec<Pair>> {
    let (a, b) = (SampledGraph::of(a, of_a)?, SampledGraph::of(b, of_b)?);
    let mut search = Pairing {
        pairs: HashMap::new(),
        taken: HashSet::new(),
        a: &a,
        b: &b,
        weights,
        budget: BUDGET,
    };
    let mut doubtful = vec![];
    for (name, other) in known {
        search.add(name, other, MatchKind::Name);
    }
    for (name, fingerprint) in a.fingerprints.iter().filter(|_| has_names) {
        if search.pairs.contains_key(name) || search.taken.contains(name) {
            continue;
        }
        let Some(other) = b.fingerprint(name) else { continue };
        let is_alike =
            fingerprint.elements == other.elements && fingerprint.likeness(other).near >= 0.5;
        // What the same operator makes of the same tensors is the same one, or the place of a
        // fault.
        let is_in_place =
            || search.is_same_op(name, name) && search.are_operands_paired(name, name);
        if is_alike || is_in_place() {
            search.add(name, name, MatchKind::Name);
        } else {
            doubtful.push(*name);
        }
    }
    search.by_values();
    search.by_structure(&doubtful.iter().copied().collect());
    for name in doubtful {
        let is_free = !search.pairs.contains_key(name) && !search.taken.contains(name);
        let is_same_kind = a.graph.op(name) == b.graph.op(name)
            || a.fingerprint(name).map(|s| &s.shape) == b.fingerprint(name).map(|s| &s.shape);
        if is_free && is_same_kind {
            search.add(name, name, MatchKind::Name);
        }
    }
    search.by_structure(&HashSet::new());
    let found = a.fingerprints.iter().filter_map(|(name, _)| {
        let (converted, how) = *search.pairs.get(name)?;
        Some(Pair { reference: (*name).into(), converted: converted.into(), how })
    });
    Ok(found.chain(search.further()).chain(search.of_codes()).collect())
}

impl<'a> SampledGraph<'a> {
    fn of(graph: &'a MainGraph<'a>, tensors: &'a [Seen<'a>]) -> TractResult<SampledGraph<'a>> {
        let by_name: HashMap<&str, &Seen> =
            tensors.iter().map(|tensor| (tensor.name, tensor)).collect();
        let mut side = SampledGraph { graph, fingerprints: vec![], places: HashMap::new() };
        for name in graph.made() {
            if let Some(tensor) = by_name.get(name.as_str()) {
                side.places.insert(tensor.name, side.fingerprints.len());
                side.fingerprints.push((tensor.name, Fingerprint::of(tensor)?));
            }
        }
        Ok(side)
    }

    fn fingerprint(&self, name: &str) -> Option<&Fingerprint> {
        self.fingerprints.get(*self.places.get(name)?).map(|(_, fingerprint)| fingerprint)
    }

    /// The value of whose codes another is made.
    fn quantised(&self, value: &str) -> Option<&'a str> {
        let of = |op: &str, made: &str| {
            let input = self.graph.taken(made).first().map(String::as_str);
            input.filter(|_| self.graph.op(made) == Some(op))
        };
        of("QuantizeLinear", of("DequantizeLinear", value)?)
    }

    /// How far along the graph a value is, from 0 to 1.
    fn depth(&self, name: &str) -> f64 {
        let place = self.places.get(name).copied().unwrap_or(0);
        place as f64 / self.fingerprints.len().max(1) as f64
    }

    /// What the node that makes a value computes it of, constants left out; an input of the model
    /// is known by its name.
    fn operands(&self, name: &str) -> Vec<&'a str> {
        let taken = self.graph.taken(name).iter().map(String::as_str);
        let is_computed = |name: &&str| {
            let is_there = self.places.contains_key(*name) || self.graph.is_input(name);
            is_there && !self.graph.is_constant(name)
        };
        taken.filter(is_computed).collect()
    }
}

struct Pairing<'a> {
    /// The converted side's tensor of each of the reference's.
    pairs: HashMap<&'a str, (&'a str, MatchKind)>,
    taken: HashSet<&'a str>,
    a: &'a SampledGraph<'a>,
    b: &'a SampledGraph<'a>,
    /// What the reference's constants are called in the converted model.
    weights: &'a HashMap<String, String>,
    budget: usize,
}

impl<'a> Pairing<'a> {
    fn add(&mut self, a: &'a str, b: &'a str, how: MatchKind) {
        self.pairs.insert(a, (b, how));
        self.taken.insert(b);
    }

    fn are_operands_paired(&self, a: &str, b: &str) -> bool {
        let (x, y) = (self.a.operands(a), self.b.operands(b));
        !x.is_empty() && x.len() == y.len() && x.iter().zip(y).all(|(x, y)| self.is_pair(x, y))
    }

    /// Whether two operands belong together, that of the converted side also as its codes are
    /// taken back.
    fn is_pair(&self, a: &str, b: &str) -> bool {
        let is_one = |b: &str| match self.pairs.get(a) {
            Some((other, _)) => *other == b,
            None => a == b && self.a.graph.is_input(a) && self.b.graph.is_input(b),
        };
        is_one(b) || self.b.quantised(b).is_some_and(is_one)
    }

    /// Pairs what the same operator makes of pairs, if nothing else does, and what the same
    /// operator takes that makes a pair. Tensors of the names `spared` are left.
    fn by_structure(&mut self, spared: &HashSet<&str>) {
        let is_free = |search: &Pairing, a: &str, b: &str| {
            let is_spared = spared.contains(a) || spared.contains(b);
            let is_paired = search.pairs.contains_key(a) || search.taken.contains(b);
            let sizes = search.a.fingerprint(a).zip(search.b.fingerprint(b));
            let fits =
                sizes.is_some_and(|(a, b)| a.elements == b.elements && a.is_float == b.is_float);
            !is_spared && !is_paired && fits
        };
        loop {
            let before = self.pairs.len();
            let left = self.b.fingerprints.iter().filter(|(name, _)| !self.taken.contains(name));
            // What an operator makes of a value: a long chain has many nodes of one operator.
            let mut made_of: HashMap<(Option<&str>, &str), Vec<&str>> = HashMap::new();
            for (name, _) in left {
                let first = self.b.operands(name).first().copied();
                let codes_of = first.and_then(|first| self.b.quantised(first));
                for operand in first.into_iter().chain(codes_of) {
                    made_of.entry((self.b.graph.op(name), operand)).or_default().push(name);
                }
            }
            for (name, _) in &self.a.fingerprints {
                if self.pairs.contains_key(name) {
                    continue;
                }
                let Some(first) = self.a.operands(name).first().copied() else { continue };
                let first = self.pairs.get(first).map_or(first, |(other, _)| *other);
                let made = made_of.get(&(self.a.graph.op(name), first));
                let made = made.into_iter().flatten().copied();
                let mut alike = made.filter(|other| {
                    is_free(self, name, other) && self.are_operands_paired(name, other)
                });
                if let (Some(other), None) = (alike.next(), alike.next()) {
                    self.add(name, other, MatchKind::Structure);
                }
            }
            for (name, _) in self.a.fingerprints.iter().rev() {
                let Some((other, _)) = self.pairs.get(name).copied() else { continue };
                if self.a.graph.op(name) != self.b.graph.op(other) {
                    continue;
                }
                let (x, y) = (self.a.operands(name), self.b.operands(other));
                let mut open = x.iter().zip(&y).filter(|(x, y)| !self.is_pair(x, y));
                if x.len() == y.len()
                    && let (Some((x, y)), None) = (open.next(), open.next())
                    && is_free(self, x, y)
                {
                    self.add(x, y, MatchKind::Structure);
                }
            }
            if self.pairs.len() == before && !self.by_what_is_left(&is_free) {
                return;
            }
        }
    }

    /// Pairs a tensor with the only one that is made of the same weight by the same operator; else
    /// of the same tensors in another order; else of the same tensors by another operator; else of
    /// one of them. Says whether there was any. A fault in the wiring of a graph is such a pair.
    fn by_what_is_left(&mut self, is_free: &impl Fn(&Pairing, &str, &str) -> bool) -> bool {
        let ways: [fn(&Pairing, &str, &str) -> bool; 4] = [
            |search, a, b| search.is_same_op(a, b) && search.shares_weight(a, b),
            |search, a, b| search.is_same_op(a, b) && search.are_operands_turned(a, b),
            |search, a, b| search.is_same_shape(a, b) && search.are_operands_paired(a, b),
            |search, a, b| search.is_same_op(a, b) && search.shares_operand(a, b),
        ];
        let Some(candidates) = self.sharing(is_free) else { return false };
        for is_alike in ways {
            let alike = candidates.iter().filter(|(a, b)| is_alike(self, a, b));
            let alike: Vec<(&str, &str)> = alike.copied().collect();
            let [mut of_a, mut of_b] = [HashMap::new(), HashMap::new()];
            for (a, b) in &alike {
                *of_a.entry(*a).or_insert(0) += 1;
                *of_b.entry(*b).or_insert(0) += 1;
            }
            let is_only =
                |(a, b): &(&str, &str)| of_a.get(a) == Some(&1) && of_b.get(b) == Some(&1);
            // The first one only: what is behind it may belong together for better reasons.
            if let Some((a, b)) = alike.into_iter().find(is_only) {
                self.add(a, b, MatchKind::Structure);
                return true;
            }
        }
        false
    }

    /// What is left of both sides that may belong together, in the order of the reference, and is
    /// computed of an operand or a weight that does; `None` when too much has been looked at.
    fn sharing(
        &mut self,
        is_free: &impl Fn(&Pairing, &str, &str) -> bool,
    ) -> Option<Vec<(&'a str, &'a str)>> {
        let (a, b) = (self.a, self.b);
        self.budget = self.budget.checked_sub(a.fingerprints.len() + b.fingerprints.len())?;
        let mut taking: HashMap<&str, Vec<&'a str>> = HashMap::new();
        for (name, _) in b.fingerprints.iter().filter(|(name, _)| !self.taken.contains(name)) {
            for value in b.graph.taken(name) {
                for value in [value.as_str()].into_iter().chain(b.quantised(value)) {
                    taking.entry(value).or_default().push(name);
                }
            }
        }
        let mut found = vec![];
        for (name, _) in a.fingerprints.iter().filter(|(name, _)| !self.pairs.contains_key(name)) {
            let mut others: Vec<&'a str> = vec![];
            for value in a.graph.taken(name) {
                let weight = self.weights.get(value).map(String::as_str);
                let pair = self.pairs.get(value.as_str()).map(|(other, _)| *other);
                let input = Some(value.as_str()).filter(|value| a.graph.is_input(value));
                for value in [weight, pair, input].into_iter().flatten() {
                    let takers = taking.get(value).map(Vec::as_slice).unwrap_or_default();
                    if takers.len() > MOST_TAKERS {
                        continue;
                    }
                    self.budget = self.budget.checked_sub(takers.len())?;
                    others.extend(takers);
                }
            }
            others.sort_unstable();
            others.dedup();
            others.retain(|other| is_free(self, name, other));
            found.extend(others.into_iter().map(|other| (*name, other)));
        }
        Some(found)
    }

    fn is_same_op(&self, a: &str, b: &str) -> bool {
        self.a.graph.op(a) == self.b.graph.op(b)
    }

    fn is_same_shape(&self, a: &str, b: &str) -> bool {
        let shapes = self.a.fingerprint(a).zip(self.b.fingerprint(b));
        shapes.is_some_and(|(a, b)| a.shape == b.shape)
    }

    fn shares_weight(&self, a: &str, b: &str) -> bool {
        let theirs = self.b.graph.taken(b);
        let is_there =
            |name: &String| self.weights.get(name).is_some_and(|name| theirs.contains(name));
        self.a.graph.taken(a).iter().any(is_there)
    }

    fn are_operands_turned(&self, a: &str, b: &str) -> bool {
        let (x, mut y) = (self.a.operands(a), self.b.operands(b));
        let is_even = x.len() > 1 && x.len() == y.len();
        is_even
            && x.iter().all(|x| match y.iter().position(|y| self.is_pair(x, y)) {
                Some(place) => {
                    y.remove(place);
                    true
                }
                None => false,
            })
    }

    fn shares_operand(&self, a: &str, b: &str) -> bool {
        let (x, y) = (self.a.operands(a), self.b.operands(b));
        x.len() > 1 && x.len() == y.len() && x.iter().zip(y).any(|(x, y)| self.is_pair(x, y))
    }
}

#[cfg(test)]
mod tests {
    use std::iter::zip;

    use tract_onnx::pb::{GraphProto, ModelProto, NodeProto, ValueInfoProto};

    use super::*;

    /// A chain of so many subtractions from the input, each of what the one before it makes; one of
    /// them has its operands the other way about. Its values are called by a letter.
    fn chain(letter: char, count: usize, turned: Option<usize>) -> ModelProto {
        let node = |place: usize| {
            let before = if place == 0 { "x".into() } else { format!("{letter}{}", place - 1) };
            let mut input = vec![before, "x".into()];
            if turned == Some(place) {
                input.reverse();
            }
            let (op_type, output) = ("Sub".into(), vec![format!("{letter}{place}")]);
            NodeProto { op_type, input, output, ..NodeProto::default() }
        };
        let input = vec![ValueInfoProto { name: "x".into(), ..ValueInfoProto::default() }];
        let node = (0..count).map(node).collect();
        let graph = Some(GraphProto { input, node, ..GraphProto::default() });
        ModelProto { graph, ..ModelProto::default() }
    }

    #[test]
    fn a_long_chain_goes_on_behind_an_operator_of_other_operands() -> TractResult<()> {
        const COUNT: usize = 10_000;
        let models = [chain('a', COUNT, None), chain('b', COUNT, Some(2))];
        let [a, b] = models.each_ref().map(MainGraph::of);
        let [of_a, of_b] = [&a, &b].map(MainGraph::made);
        let tensors: Vec<Tensor> = (0..2 * COUNT).map(|place| tensor0(place as f32)).collect();
        let (values_a, values_b) = tensors.split_at(COUNT);
        let [seen_a, seen_b] = [(&of_a, values_a), (&of_b, values_b)].map(|(names, values)| {
            let all = zip(names.iter(), values);
            let all = all.map(|(name, tensor)| Seen { name, ty: ElementType::Float, tensor });
            all.collect::<Vec<Seen>>()
        });
        let found = pairs((&a, &seen_a), (&b, &seen_b), (&[], false), &HashMap::new())?;
        assert_eq!(found.len(), COUNT);
        for (place, pair) in found.iter().enumerate() {
            assert_eq!(pair.how, MatchKind::Structure);
            assert_eq!([&pair.reference, &pair.converted], [&of_a[place], &of_b[place]]);
        }
        Ok(())
    }
}
