//! Which tensors are the same by their values.

use std::collections::BTreeMap;
use std::iter::repeat;

use super::fingerprint::{ALIKE, AlikePlaces, Fingerprint, Likeness};
use super::{MatchKind, Pair, Pairing};

/// Of more tensors that are alike no more are looked at: in a long chain whose values come to rest
/// all are.
const MOST_ALIKE: usize = 256;

/// Of places in their order those that count, as many as are looked at: the nearest ones to a place
/// among all.
fn nearest(places: &[usize], wanted: f64, counts: impl Fn(usize) -> bool) -> Vec<usize> {
    let middle = places.partition_point(|place| (*place as f64) < wanted);
    let (before, behind) = places.split_at(middle);
    let both = before.iter().rev().map(Some).chain(repeat(None));
    let both = both.zip(behind.iter().map(Some).chain(repeat(None)));
    let outwards = both.take(before.len().max(behind.len())).flat_map(|(x, y)| [x, y]);
    let counting = outwards.flatten().copied().filter(|place| counts(*place));
    let mut found: Vec<usize> = counting.take(MOST_ALIKE).collect();
    found.sort_unstable();
    found
}

impl Pairing<'_> {
    /// Pairs tensors of the same size whose values are alike: the most alike first, and of equals
    /// those at the same depth.
    pub(super) fn by_values(&mut self) {
        let (by_size, b) = (AlikePlaces::of(&self.b.fingerprints), &self.b.fingerprints);
        let is_known: Vec<bool> = b.iter().map(|(x, _)| self.a.places.contains_key(x)).collect();
        // In a long chain many are alike, and most are taken.
        let mut is_taken: Vec<bool> = b.iter().map(|(x, _)| self.taken.contains(x)).collect();
        let is_it = |all: &[bool], place: usize| all.get(place) == Some(&true);
        let ops: Vec<Option<&str>> = b.iter().map(|(x, _)| self.b.graph.op(x)).collect();
        // A tensor may stand for several that are only reshaped, but one of its own is better.
        for may_share in [false, true] {
            for (name, fingerprint) in &self.a.fingerprints {
                if self.pairs.contains_key(name) {
                    continue;
                }
                let (depth, op) = (self.a.depth(name), self.a.graph.op(name));
                let mut best: Option<(Likeness, bool, f64, usize)> = None;
                let alike = by_size.get(&fingerprint.elements);
                let alike = alike.map(|alike| alike.of_those_like(fingerprint)).unwrap_or_default();
                let is_free = |place: &&usize| may_share || !is_it(&is_taken, **place);
                let free: Vec<usize> = alike.iter().filter(is_free).copied().collect();
                let is_same_op = |place: usize| op == ops.get(place).copied().flatten();
                let may_be = |place: usize| {
                    let is_told = fingerprint.is_telling || is_same_op(place);
                    is_told && b.get(place).is_some_and(|(_, theirs)| fingerprint.may_be(theirs))
                };
                for place in nearest(&free, depth * b.len() as f64, may_be) {
                    let Some((other, theirs)) = b.get(place) else { continue };
                    let is_same_op = is_same_op(place);
                    let is_named = is_it(&is_known, place) && name != other && !may_share;
                    let likeness = fingerprint.likeness(theirs);
                    let least = if may_share { likeness.same } else { likeness.near };
                    if least < ALIKE || (is_named && likeness.same < 1.0) {
                        continue;
                    }
                    let apart = -(depth - self.b.depth(other)).abs();
                    let this = (likeness, is_same_op, apart, place);
                    let is_best =
                        best.is_none_or(|best| (this.0, this.1, this.2) > (best.0, best.1, best.2));
                    let is_telling =
                        || fingerprint.is_telling || self.are_operands_paired(name, other);
                    if is_best && is_telling() {
                        best = Some(this);
                    }
                }
                let found = best.and_then(|best| Some((best.0, best.3, b.get(best.3)?.0)));
                if let Some((likeness, place, other)) = found {
                    self.add(name, other, MatchKind::of(likeness));
                    is_taken.get_mut(place).into_iter().for_each(|is_taken| *is_taken = true);
                }
            }
        }
    }

    /// What is left of the converted side, with tensors that have their own counterparts already:
    /// it may be one of these that is only moved or reshaped, as the reference's are that share
    /// one.
    pub(super) fn further(&self) -> Vec<Pair> {
        let is_left = |(name, fingerprint): &(&str, Fingerprint)| {
            let is_named = !self.taken.contains(name) && !self.b.graph.is_constant(name);
            is_named && fingerprint.is_telling
        };
        let left: Vec<bool> = self.b.fingerprints.iter().map(is_left).collect();
        if !left.contains(&true) {
            return vec![];
        }
        let by_size = AlikePlaces::of(&self.b.fingerprints);
        // The best one of each place of the converted side.
        let mut best: BTreeMap<usize, (Likeness, f64, &str)> = BTreeMap::new();
        let all = self.a.fingerprints.iter().filter(|(name, _)| !self.a.graph.is_constant(name));
        for (name, fingerprint) in all {
            let Some(alike) = by_size.get(&fingerprint.elements) else { continue };
            let alike = alike.of_those_like(fingerprint);
            let is_left = |place: &&usize| left.get(**place) == Some(&true);
            let alike: Vec<usize> = alike.iter().filter(is_left).copied().collect();
            let depth = self.a.depth(name);
            let theirs = &self.b.fingerprints;
            let may_be = |place: usize| {
                theirs.get(place).is_some_and(|(_, theirs)| fingerprint.may_be(theirs))
            };
            for place in nearest(&alike, depth * theirs.len() as f64, may_be) {
                let Some((other, theirs)) = theirs.get(place) else { continue };
                let likeness = fingerprint.likeness(theirs);
                let apart = -(depth - self.b.depth(other)).abs();
                let is_best =
                    best.get(&place).is_none_or(|best| (likeness, apart) > (best.0, best.1));
                if likeness.same >= ALIKE && is_best {
                    best.insert(place, (likeness, apart, name));
                }
            }
        }
        let pair = |(place, (likeness, _, name)): (usize, (Likeness, f64, &str))| {
            let (converted, _) = self.b.fingerprints.get(place)?;
            let how = MatchKind::of(likeness);
            Some(Pair { reference: name.into(), converted: (*converted).into(), how })
        };
        best.into_iter().filter_map(pair).collect()
    }

    /// What codes of few bits are taken back to, with the one tensor that it is nearer to than to
    /// any other: it may be off by more than rounding of its own.
    pub(super) fn of_codes(&self) -> Vec<Pair> {
        /// By the size of the tensor.
        const MOST: f64 = 0.25;
        /// How many times as far away all others are.
        const APART: f64 = 2.0;
        let is_taken_back = |(name, fingerprint): &&(&str, Fingerprint)| {
            let is_coder = self.b.graph.op(name) == Some("DequantizeLinear");
            is_coder && fingerprint.is_telling && !self.taken.contains(name)
        };
        let counterpart = |(converted, theirs): &(&str, Fingerprint)| {
            let alike = self.a.fingerprints.iter().filter(|(name, fingerprint)| {
                fingerprint.shape == theirs.shape
                    && fingerprint.is_float
                    && !self.a.graph.is_constant(name)
            });
            let mut alike: Vec<(f64, &str)> =
                alike.map(|(name, fingerprint)| (fingerprint.error(theirs), *name)).collect();
            alike.sort_by(|(x, _), (y, _)| x.total_cmp(y));
            let (least, reference) = *alike.first()?;
            let is_nearest = alike.get(1).is_none_or(|(other, _)| *other >= APART * least);
            let (reference, converted) = (reference.into(), (*converted).into());
            let pair = Pair { reference, converted, how: MatchKind::NearValues };
            (least <= MOST && is_nearest).then_some(pair)
        };
        self.b.fingerprints.iter().filter(is_taken_back).filter_map(counterpart).collect()
    }
}
