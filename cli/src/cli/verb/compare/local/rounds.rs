//! The walks that a verdict takes: one that finds what deviates, and knows the doubts of what is
//! made of values that the reference has; where something deviates still, one with the doubts of
//! all on the way to it and of the reference's own rounding, and one that tells a fault from a pair
//! that is none.
//!
//! A converter that folds a node into the one before it leaves the latter its name, with another
//! value. Such a pair is sure by its name, and wrong: what is behind it is the reference's all the
//! same if the value is left as the conversion has it. A factor that is folded in goes through
//! several such pairs in a row.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use tract_onnx::prelude::TractResult;
use tract_onnx_cast::interpreter::SharedTensor;

use super::links::{Link, Links};
use super::nodes::{is_form, region};
use super::numbers::numbers;
use super::quantizers::Wrong;
use super::reference_weights::ReferenceWeights;
use super::site::{Site, Sites};
use super::trace::{Ran, Trace};
use super::walk::Walk;
use super::walk::moved::{Moved, Search};
use super::walk::own::{Own, OwnRounding};

/// What walks have found.
pub(super) struct Walked {
    pub(super) sites: Sites,
    /// The quantisers that are wrong by themselves.
    pub(super) wrong: Vec<Wrong>,
    /// The links that hold, and what was moved, if they are others.
    pub(super) links: Option<Links>,
    pub(super) moved: Option<Rc<Moved>>,
}

impl Walked {
    fn of((sites, wrong): (Sites, Vec<Wrong>), links: Option<Links>) -> Walked {
        Walked { sites, wrong, links, moved: None }
    }
}

/// The share of what a pair that is none is off, below which what is behind it is off.
const PASSED: f64 = 0.1;

/// How many nodes behind a value may have been taken in.
const TAKEN_IN: usize = 3;

/// What is walked along.
pub(super) struct Rounds<'a> {
    pub(super) reference: &'a Trace,
    pub(super) links: &'a Links,
    pub(super) weights: &'a ReferenceWeights<'a>,
    pub(super) inputs: HashMap<String, SharedTensor>,
    /// How many roundings, at a tensor's largest value, other kernels are allowed.
    pub(super) slack: f64,
    /// Runs the reference.
    pub(super) run_reference: &'a dyn Fn(&mut OwnRounding) -> TractResult<()>,
    pub(super) own: Rc<Own>,
    /// What was moved as far as that is known, and what looks for it, where there are two models.
    pub(super) moved: Rc<Moved>,
    pub(super) search: Option<Search<'a>>,
}

impl<'a> Rounds<'a> {
    /// Of two sides, with nothing allowed to kernels and nothing known to be moved.
    pub(super) fn of(
        reference: &'a Trace,
        (links, weights): (&'a Links, &'a ReferenceWeights<'a>),
        inputs: HashMap<String, SharedTensor>,
        run_reference: &'a dyn Fn(&mut OwnRounding) -> TractResult<()>,
    ) -> Rounds<'a> {
        let (own, moved) = (Rc::default(), Rc::default());
        let (slack, search) = (0.0, None);
        Rounds { reference, links, weights, inputs, slack, run_reference, own, moved, search }
    }

    fn walk(&self, wanted: Option<HashSet<String>>, loose: HashSet<String>) -> Walk<'a> {
        let mut walk = Walk::new(self.reference, self.links, self.weights, self.inputs.clone());
        (walk.slack, walk.wanted, walk.loose) = (self.slack, wanted, loose);
        (walk.own, walk.moved) = (self.own.clone(), self.moved.clone());
        walk
    }

    /// What as many walks as it takes have found. Fails when a node cannot be run.
    pub(super) fn walked(
        mut self,
        run: impl Fn(&mut Walk) -> TractResult<()>,
    ) -> TractResult<Walked> {
        let mut walk = self.walk(None, HashSet::new());
        run(&mut walk)?;
        if walk.sites.deviating().next().is_none() {
            return Ok(Walked::of(self.held_to_weights(walk, &run)?, None));
        }
        let mut own = OwnRounding::of(self.reference, &walk.sites);
        if !own.wanted.is_empty() {
            (self.run_reference)(&mut own)?;
        }
        self.own = Rc::new(own.own);
        // What a doubt explains already is to have it in the next walk as well.
        let mut doubtful: Vec<&str> = walk.sites.deviating().map(|site| &*site.converted).collect();
        doubtful.extend(walk.doubted.iter().map(String::as_str));
        let wanted = walk.regions(&doubtful);
        let mut again = self.walk_after(&walk, wanted.clone(), HashSet::new());
        run(&mut again)?;
        let Some(moved) = self.moved(&again, &run)? else {
            return self.without_others(again, wanted, &run);
        };
        let (links, moved, wanted) = (self.unmoved(&moved), Rc::new(moved), again.all_values());
        let rounds = Rounds { links: &links, moved: moved.clone(), ..self };
        let mut again = rounds.walk(Some(wanted.clone()), HashSet::new());
        run(&mut again)?;
        let found = rounds.without_others(again, wanted, &run)?;
        Ok(Walked { links: found.links.or(Some(links)), moved: Some(moved), ..found })
    }

    /// What is left of a walk without values that are what others are to be, and pairs that are
    /// none.
    fn without_others(
        &self,
        again: Walk,
        wanted: HashSet<String>,
        run: &impl Fn(&mut Walk) -> TractResult<()>,
    ) -> TractResult<Walked> {
        let others = self.taken_in(&again);
        if others.is_empty() {
            return Ok(Walked::of(self.settled(again, wanted, run)?, None));
        }
        let mut links = self.links.clone();
        links.extend(others);
        let rounds = self.with(&links, self.moved.clone());
        let wanted = again.all_values();
        let mut again = rounds.walk(Some(wanted.clone()), HashSet::new());
        run(&mut again)?;
        let found = rounds.settled(again, wanted, run)?;
        Ok(Walked::of(found, Some(links)))
    }

    /// What was moved between layers, so that all that is made of it is the reference's.
    fn moved(
        &self,
        again: &Walk,
        run: &impl Fn(&mut Walk) -> TractResult<()>,
    ) -> TractResult<Option<Moved>> {
        let sure = |walk: &Walk| -> HashSet<String> {
            let sure = walk.sites.deviating().filter(|site| site.is_sure);
            sure.map(|site| site.converted.clone()).collect()
        };
        let (deviating, search) = (sure(again), self.search.as_ref());
        let is_known = self.moved.count() > 0;
        let Some(search) = search.filter(|_| !is_known && !deviating.is_empty()) else {
            return Ok(None);
        };
        let mut moved = search.moved(&deviating);
        while moved.count() > 0 {
            let (links, tried) = (self.unmoved(&moved), Rc::new(moved));
            let rounds = self.with(&links, tried.clone());
            let mut walk = rounds.walk(Some(again.all_values()), HashSet::new());
            run(&mut walk)?;
            let (wrong, count) = (sure(&walk), tried.count());
            drop((walk, rounds));
            let Some(tried) = Rc::into_inner(tried) else { return Ok(None) };
            moved = tried.without(|value| wrong.contains(value));
            if moved.count() == count {
                return Ok(Some(moved));
            }
        }
        Ok(None)
    }

    /// The links without those of weights that were moved, which are not the reference's.
    fn unmoved(&self, moved: &Moved) -> Links {
        let weights: HashSet<&String> = moved.weights().collect();
        let mut links = self.links.clone();
        links.retain(|_, link| !weights.contains(&link.reference));
        links
    }

    /// The same along other links.
    fn with<'l>(&'l self, links: &'l Links, moved: Rc<Moved>) -> Rounds<'l> {
        let (inputs, own, search) = (self.inputs.clone(), self.own.clone(), None);
        Rounds { links, inputs, own, moved, search, ..*self }
    }

    /// A walk behind another one, whose order it has, which leaves `loose` values as they are. It
    /// looks into nothing that is as it was there.
    fn walk_after(
        &self,
        before: &Walk,
        wanted: HashSet<String>,
        loose: HashSet<String>,
    ) -> Walk<'a> {
        let roots: HashSet<String> = before.unsure().chain(loose.iter().cloned()).collect();
        let settled = before.settled(&wanted, &before.behind_all(&roots, &loose));
        let mut walk = self.walk(Some(wanted), loose);
        walk.settled = settled;
        walk
    }

    /// Values that keep their name though the nodes behind them were taken in: what was made is no
    /// longer the reference's value of that name, and is the one that those nodes make of it there.
    fn taken_in(&self, walk: &Walk) -> Links {
        let off = |made: &SharedTensor, wanted: &SharedTensor| {
            let (x, y) = (numbers(made)?, numbers(wanted)?);
            let apart = x.iter().zip(&y).map(|(x, y)| (x - y) * (x - y));
            (x.len() == y.len()).then(|| apart.sum::<f64>().sqrt())
        };
        let mut found = Links::new();
        let mut takers: HashMap<&String, Vec<&Ran>> = HashMap::new();
        for ran in &self.reference.nodes {
            let inputs: HashSet<&String> = ran.inputs.iter().collect();
            inputs.into_iter().for_each(|input| takers.entry(input).or_default().push(ran));
        }
        let mut sure: HashMap<&String, Vec<&String>> = HashMap::new();
        for (name, link) in self.links.iter().filter(|(_, link)| link.is_sure) {
            sure.entry(&link.reference).or_default().push(name);
        }
        for (name, made) in &walk.made {
            let Some(link) = self.links.get(name) else { continue };
            let Some(wanted) = self.reference.first(&link.reference) else { continue };
            let (Some(least), mut value) = (off(made, wanted), &link.reference) else { continue };
            for _ in 0..TAKEN_IN {
                let Some([taker]) = takers.get(value).map(Vec::as_slice) else { break };
                let Some(behind) = taker.outputs.first() else { break };
                // A node that the conversion has as well was not taken in.
                if sure.get(behind).is_some_and(|all| all.iter().any(|other| *other != name)) {
                    break;
                }
                let apart = self.reference.first(behind).and_then(|wanted| off(made, wanted));
                if apart.is_some_and(|apart| apart <= PASSED * least) {
                    found.insert(name.clone(), Link { reference: behind.clone(), is_sure: true });
                }
                value = behind;
            }
        }
        found
    }

    /// The sites, and the quantisers that are wrong by themselves, without pairs that are none,
    /// behind a walk before whose `wanted` values doubt was carried along.
    fn settled(
        &self,
        again: Walk,
        wanted: HashSet<String>,
        run: &impl Fn(&mut Walk) -> TractResult<()>,
    ) -> TractResult<(Sites, Vec<Wrong>)> {
        let sure = again.sites.deviating().filter(|site| site.is_sure);
        let suspects: HashSet<String> = sure.map(|site| site.converted.clone()).collect();
        if suspects.is_empty() || self.reference.nodes.is_empty() {
            return self.held_to_weights(again, run);
        }
        let carried = if self.has_others(&again) { again.carried(&suspects) } else { vec![] };
        let loose: HashSet<String> = suspects.into_iter().chain(carried).collect();
        let deviating: Vec<&str> = again.sites.deviating().map(|site| &*site.converted).collect();
        let wanted: HashSet<String> = wanted.union(&again.regions(&deviating)).cloned().collect();
        // What is made of them is held against its own doubt.
        let left_as_they_are = |loose: HashSet<String>| {
            let behind = again.behind_all(&loose, &loose);
            let behind = again.regions(&behind.iter().map(String::as_str).collect::<Vec<_>>());
            self.walk_after(&again, wanted.union(&behind).cloned().collect(), loose)
        };
        let mut left = left_as_they_are(loose.clone());
        run(&mut left)?;
        // Where the reference's own weight makes its value, no factor was folded into it.
        let fits = |name: &String| {
            let (behind, _) = again.behind(name);
            let agrees = |name: &&str| again.sites.get(name).is_some_and(|site| !site.deviates());
            self.weights.of_both.contains(name) && !behind.is_empty() && behind.iter().all(agrees)
        };
        let others = (self.linked(), left.sites.replaced());
        let is_passed_by = |name: &String| self.is_passed_by(name, &left, &others);
        let passed = loose.iter().filter(|name| is_passed_by(name) && !fits(name));
        let wrong: HashSet<String> = passed.cloned().collect();
        if wrong.is_empty() {
            return self.held_to_weights(again, run);
        }
        let mut last = left_as_they_are(wrong.clone());
        run(&mut last)?;
        last.sites.all.iter_mut().for_each(|site| site.is_sure &= !wrong.contains(&site.converted));
        self.held_to_weights(last, run)
    }

    /// What a last walk has found, and the weights that have other scales or zero points though
    /// nothing makes up for that: the reference's own weight makes its value there, and makes it
    /// better.
    fn held_to_weights(
        &self,
        mut last: Walk,
        run: &impl Fn(&mut Walk) -> TractResult<()>,
    ) -> TractResult<(Sites, Vec<Wrong>)> {
        let rescaled = &self.weights.rescaled;
        if rescaled.is_empty() {
            return Ok((last.sites, last.quantizers.wrong()));
        }
        let behind: HashMap<&String, Vec<String>> = rescaled
            .keys()
            .map(|name| (name, last.behind(name).0.into_iter().map(String::from).collect()))
            .collect();
        let mut wanted: Vec<&str> = behind.values().flatten().map(String::as_str).collect();
        wanted.extend(rescaled.keys().map(String::as_str));
        let mut links = self.links.clone();
        links.extend(rescaled.iter().map(|(name, link)| (name.clone(), link.clone())));
        let rounds = self.with(&links, self.moved.clone());
        let mut given = rounds.walk(Some(last.regions(&wanted)), last.loose.clone());
        run(&mut given)?;
        let is_better = |name: &String| {
            let sites = given.sites.get(name).zip(last.sites.get(name));
            sites.is_some_and(|(given, own)| {
                !given.deviates() && !own.deviates() && given.noise < own.noise
            })
        };
        let wrong = behind.iter().filter(|(_, all)| !all.is_empty() && all.iter().all(is_better));
        let wrong: Vec<Site> =
            wrong.filter_map(|(name, _)| given.sites.get(name)).cloned().collect();
        wrong.into_iter().filter(Site::deviates).for_each(|site| last.sites.add(site));
        Ok((last.sites, last.quantizers.wrong()))
    }

    /// The values of the reference that one of the conversion belongs to.
    fn linked(&self) -> HashSet<&str> {
        self.links.values().map(|link| link.reference.as_str()).collect()
    }

    /// Whether one of the two computes what the other one does not.
    fn has_others(&self, walk: &Walk) -> bool {
        let linked = self.linked();
        let is_linked = |made: &String| linked.contains(made.as_str());
        let is_lacking = |ran: &Ran| !is_form(ran) && !ran.outputs.iter().any(is_linked);
        walk.adds()
            || linked.len() < self.links.len()
            || self.reference.nodes.iter().any(is_lacking)
    }

    /// Whether all that is made of a value is the reference's, though the value is not, nor others
    /// in between that are suspected as it is, and one of the two has nodes in between that the
    /// other one lacks. Given the values of the reference that belong to one of the conversion, and
    /// those that replace one.
    fn is_passed_by(
        &self,
        name: &str,
        walk: &Walk,
        (linked, replaced): &(HashSet<&str>, HashSet<&str>),
    ) -> bool {
        let (behind, is_longer) = walk.behind(name);
        let deviates = |name: &&str| {
            let site = walk.sites.get(name).filter(|_| walk.loose.contains(*name));
            site.is_some_and(Site::deviates)
        };
        let (suspected, behind): (Vec<&str>, Vec<&str>) = behind.into_iter().partition(deviates);
        let reference = |name: &&str| self.links.get(*name).map(|link| &link.reference);
        let is_made_later = suspected.iter().chain([&name]).any(|suspect| {
            let of_suspect = reference(suspect);
            behind.iter().any(|name| of_suspect.is_some() && reference(name) == of_suspect)
        });
        let ends = |value: &str| replaced.contains(value);
        let is_short = || {
            let sites = behind.iter().filter_map(|name| walk.sites.get(name));
            let mut nodes = sites.flat_map(|site| region(self.reference, &site.reference, ends));
            nodes.any(|ran| ran.outputs.iter().all(|made| !linked.contains(made.as_str())))
        };
        let Some(site) = walk.sites.get(name).filter(|site| !site.op.contains("Quantize")) else {
            return false;
        };
        let agrees = |name: &&str| {
            let behind = walk.sites.get(name);
            behind
                .is_some_and(|x| !x.deviates() && x.relative() <= PASSED * site.relative().min(1.0))
        };
        let has_others = is_longer || is_made_later || is_short();
        !behind.is_empty() && behind.iter().all(agrees) && has_others
    }
}
