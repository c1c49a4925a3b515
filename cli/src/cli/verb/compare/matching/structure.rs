//! Which tensors are the same by what makes them.

use std::collections::{HashMap, HashSet};

use super::{MatchKind, Pairing};

/// A value that more tensors than these are made of tells none of them from the others.
const MOST_TAKERS: usize = 64;

/// Tensors of both sides that may belong together, as they share an operand or a weight.
struct Candidate<'a> {
    a: &'a str,
    b: &'a str,
    /// Whether one of the two is made of what very many are made of, which are no candidates.
    has_rivals: bool,
}

impl<'a> Pairing<'a> {
    /// Pairs what the same operator makes of pairs, if nothing else does, and what the same
    /// operator takes that makes a pair. Tensors of the names `spared` are left.
    pub(super) fn by_structure(&mut self, spared: &HashSet<&str>) {
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
        let ways: [fn(&Pairing, &Candidate) -> bool; 4] = [
            |search, Candidate { a, b, .. }| search.is_same_op(a, b) && search.shares_weight(a, b),
            |search, Candidate { a, b, .. }| {
                search.is_same_op(a, b) && search.are_operands_turned(a, b)
            },
            |search, Candidate { a, b, .. }| {
                search.is_same_shape(a, b) && search.are_operands_paired(a, b)
            },
            |search, Candidate { a, b, has_rivals }| {
                !has_rivals && search.is_same_op(a, b) && search.shares_operand(a, b)
            },
        ];
        let Some(candidates) = self.sharing(is_free) else { return false };
        for is_alike in ways {
            let alike = candidates.iter().filter(|both| is_alike(self, both));
            let alike: Vec<(&str, &str)> = alike.map(|both| (both.a, both.b)).collect();
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
    ) -> Option<Vec<Candidate<'a>>> {
        let (a, b) = (self.a, self.b);
        let left_a: Vec<&'a str> = a.names().filter(|a| !self.pairs.contains_key(a)).collect();
        let left_b: Vec<&'a str> = b.names().filter(|b| !self.taken.contains(b)).collect();
        // What is left is looked at closely, and all else again when there is a pair more.
        let all = (a.fingerprints.len() + b.fingerprints.len()) / 4;
        let mut budget = self.budget.checked_sub(left_a.len() + left_b.len() + all)?;
        let mut taking: HashMap<&str, Vec<&'a str>> = HashMap::new();
        for name in left_b {
            for value in b.taken(name) {
                let takers = taking.entry(value).or_default();
                if takers.last() != Some(&name) {
                    takers.push(name);
                }
            }
        }
        let is_crowded =
            |value: &str| taking.get(value).is_some_and(|takers| takers.len() > MOST_TAKERS);
        let mut found = vec![];
        for name in left_a {
            let counterparts: Vec<&str> = self.counterparts(name).collect();
            let mut others: Vec<&'a str> = vec![];
            for value in counterparts.iter().filter(|value| !is_crowded(value)) {
                let takers = taking.get(value).map(Vec::as_slice).unwrap_or_default();
                budget = budget.checked_sub(takers.len())?;
                others.extend(takers);
            }
            others.sort_unstable();
            others.dedup();
            others.retain(|other| is_free(self, name, other));
            let of_name = counterparts.iter().any(|value| is_crowded(value));
            found.extend(others.into_iter().map(|other| {
                let has_rivals = of_name || b.taken(other).any(is_crowded);
                Candidate { a: name, b: other, has_rivals }
            }));
        }
        self.budget = budget;
        Some(found)
    }

    /// What the conversion may have in the place of what a tensor of the reference is computed of.
    fn counterparts(&self, name: &str) -> impl Iterator<Item = &str> {
        self.a.graph.taken(name).iter().flat_map(|value| {
            let weight = self.weights.get(value).map(String::as_str);
            let pair = self.pairs.get(value.as_str()).map(|(other, _)| *other);
            let input = Some(value.as_str()).filter(|value| self.a.graph.is_input(value));
            [weight, pair, input].into_iter().flatten()
        })
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
