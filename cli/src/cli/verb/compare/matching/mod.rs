//! Which tensors inside two models are the same: by name, by their values, or by the operators that
//! make them of pairs.
//!
//! - `fingerprint`: some values of a tensor, and which others may be like it
//! - `values`: pairs by values; `structure`: pairs by what makes them

mod fingerprint;
mod structure;
mod values;

use std::collections::{HashMap, HashSet};

use tract_onnx::prelude::*;
use tract_onnx_cast::ElementType;

use crate::cli::found::compared::{Confidence, PairedBy};
use crate::cli::work::main_graph::MainGraph;
use fingerprint::{Fingerprint, Likeness};

/// How many tensors, and pairs of them, are looked at to find those that are made of the same ones.
const BUDGET: usize = 5_000_000;

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

    fn names(&self) -> impl Iterator<Item = &'a str> {
        self.fingerprints.iter().map(|(name, _)| *name)
    }

    /// What the node that makes a value takes, also as it was before its codes were made.
    fn taken(&self, name: &str) -> impl Iterator<Item = &'a str> {
        let taken = self.graph.taken(name).iter().map(String::as_str);
        taken.flat_map(|value| [Some(value), self.quantised(value)]).flatten()
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

    fn is_same_op(&self, a: &str, b: &str) -> bool {
        self.a.graph.op(a) == self.b.graph.op(b)
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

    /// Of many that are alike each belongs to the one of its depth.
    #[test]
    fn a_long_chain_whose_values_come_to_rest_is_paired_by_depth() -> TractResult<()> {
        const COUNT: usize = 500;
        let models = [chain('a', COUNT, None), chain('b', 2 * COUNT, None)];
        let [a, b] = models.each_ref().map(MainGraph::of);
        let (of_a, of_b) = (a.made(), b.made());
        let rest = tensor1(&(0..16).map(|x| x as f32).collect::<Vec<f32>>());
        let seen = |name| Seen { name, ty: ElementType::Float, tensor: &rest };
        let seen_a: Vec<Seen> = of_a.iter().map(|name| seen(name.as_str())).collect();
        let seen_b: Vec<Seen> = of_b.iter().map(|name| seen(name.as_str())).collect();
        let found = pairs((&a, &seen_a), (&b, &seen_b), (&[], false), &HashMap::new())?;
        assert_eq!(found.len(), 2 * COUNT);
        // What is left of the conversion comes behind them.
        for (place, pair) in found.iter().take(COUNT).enumerate() {
            assert_eq!(pair.how, MatchKind::SameValues);
            assert_eq!([&pair.reference, &pair.converted], [&of_a[place], &of_b[2 * place]]);
        }
        Ok(())
    }

    /// More tensors are made of a value than tell one from another.
    const MANY: usize = 100;

    /// Sums of inputs, each called by a number.
    fn sums(letter: char, operands: &[[&str; 2]]) -> ModelProto {
        let node = |(place, operands): (usize, &[&str; 2])| NodeProto {
            op_type: "Add".into(),
            input: operands.map(String::from).into(),
            output: vec![format!("{letter}{place}")],
            ..NodeProto::default()
        };
        let named = |name: &str| ValueInfoProto { name: name.into(), ..ValueInfoProto::default() };
        let node = operands.iter().enumerate().map(node).collect();
        let input = ["x", "y", "z"].map(named).into();
        let graph = Some(GraphProto { input, node, ..GraphProto::default() });
        ModelProto { graph, ..ModelProto::default() }
    }

    #[test]
    fn one_operand_makes_no_pair_where_others_share_the_other_one() -> TractResult<()> {
        for others in [0, 1, MANY] {
            let mut operands = vec![["z", "y"]];
            operands.resize(1 + others, ["x", "z"]);
            let models = [sums('a', &[["x", "y"]]), sums('b', &operands)];
            let [a, b] = models.each_ref().map(MainGraph::of);
            let (of_a, of_b) = (a.made(), b.made());
            let values: Vec<Tensor> = (0..=others).map(|place| tensor0(place as f32)).collect();
            let lone = tensor0(-1.0f32);
            let ty = ElementType::Float;
            let seen_a = [Seen { name: &of_a[0], ty, tensor: &lone }];
            let seen_b = zip(of_b.iter(), &values).map(|(name, tensor)| Seen { name, ty, tensor });
            let seen_b: Vec<Seen> = seen_b.collect();
            let found = pairs((&a, &seen_a), (&b, &seen_b), (&[], false), &HashMap::new())?;
            assert_eq!(found.len(), usize::from(others == 0), "{others}");
        }
        Ok(())
    }
}
