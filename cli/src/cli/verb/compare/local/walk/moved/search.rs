//! Looks for what was moved, in the order of computation: what makes a value says by its weights
//! which channels it makes, and what takes one that was moved either makes up for that by its
//! weights or hands it on.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::super::super::links::Links;
use super::super::super::nodes::region;
use super::super::super::numbers::{is_computed_in, numbers};
use super::super::super::trace::{Trace, Traces};
use super::channels::{
    Channel, Places, STRAY, axes_of, between, channels_of, ratio, settled, weight_axes,
};
use super::fits::{
    Carried, EVEN, Factors, Fit, Seen, expected, nearest_fit, not_known, taken_fits,
};
use super::weights::{BothWeights, WeightSources};
use super::{Moved, MovedRegion, MovedValue};

/// The share of a value's power that it may be off by, where it is looked for which one it is.
const NEAR: f64 = 0.25;
/// So many times as far apart two readings are alike.
const ALIKE: f64 = 1.2;
/// What roundings alone make of it.
const ROUNDED: f64 = 1e-12;
/// A weight of more elements is not looked into: as numbers of both sides it is several times what
/// the model has.
const MOST: usize = 1 << 24;
/// So large a weight whose values are the reference's, rounded, has nothing to do with what was
/// moved. Few may all be one number, which is the same wherever it is.
const LARGE: usize = 1 << 16;
/// How often factors are measured, each time with what the others were found to be.
const ROUNDS: usize = 3;

/// A weight of a region, and how it has to do with what was moved.
type FittedWeight<'a> = (&'a Seen<'a>, &'a (String, Fit));

/// What is looked through.
pub(in super::super::super) struct Search<'a> {
    sides: (&'a Trace, &'a Trace),
    links: &'a Links,
    sources: WeightSources<'a>,
    /// The outputs of the conversion, which nothing makes up for.
    outputs: HashSet<&'a str>,
}

impl<'a> Search<'a> {
    pub(in super::super::super) fn of(
        traces: &'a Traces,
        links: &'a Links,
        sources: WeightSources<'a>,
    ) -> Search<'a> {
        let sides = (&*traces.sides.0, &*traces.sides.1);
        let outputs = traces.outputs.iter().map(|(_, output)| output.as_str()).collect();
        Search { sides, links, sources, outputs }
    }

    /// What was moved, given the values that deviate, whose weights may be others.
    pub(in super::super::super) fn moved(&self, deviating: &HashSet<String>) -> Moved {
        let (a, b) = self.sides;
        let is_sure = |name: &&String| {
            self.links.get(*name).is_some_and(|link| {
                link.is_sure
                    && !a.is_constant(&link.reference)
                    && a.maker(&link.reference).is_some()
            })
        };
        let mut values: Vec<&String> = self.links.keys().filter(is_sure).collect();
        let is_once = |name: &&String| b.values.get(*name).is_some_and(|times| times.len() == 1);
        values.retain(is_once);
        values.sort_by_key(|name| b.place(name));
        let sure: HashSet<&str> = values.iter().map(|name| name.as_str()).collect();
        let of_reference: HashSet<&str> = values
            .iter()
            .filter_map(|name| Some(self.links.get(*name)?.reference.as_str()))
            .collect();
        let (mut sets, mut seen): (Vec<Factors>, Vec<Seen>) = (vec![], vec![]);
        let mut moved: HashMap<&str, Carried> = HashMap::new();
        for value in values {
            let Some(link) = self.links.get(value) else { continue };
            let nodes_b = region(b, value, |name| sure.contains(name));
            let inputs = nodes_b.iter().flat_map(|ran| &ran.inputs).filter(|name| *name != value);
            let ends: HashSet<&String> =
                inputs.filter(|name| sure.contains(name.as_str())).collect();
            let carried =
                |name: &&String| Some(((*name).clone(), moved.get(name.as_str())?.clone()));
            let mut taken: Vec<(String, Carried)> = ends.iter().filter_map(carried).collect();
            taken.sort_by(|(x, _), (y, _)| x.cmp(y));
            if taken.is_empty() && !deviating.contains(value) {
                continue;
            }
            // What a quantiser is given, and its codes are taken back to, are one value there.
            let is_same = |name: &&String| {
                self.links.get(*name).is_some_and(|other| other.reference == link.reference)
            };
            let nodes_a = if ends.iter().any(is_same) {
                vec![]
            } else {
                region(a, &link.reference, |name| of_reference.contains(name))
            };
            let mut found = Seen {
                value: value.clone(),
                nodes: (nodes_a, nodes_b),
                taken,
                made: None,
                weights: vec![],
            };
            self.look(&mut found, &mut sets);
            if let Some(made) = &found.made {
                moved.insert(value, made.clone());
            }
            if found.made.is_some() || !found.taken.is_empty() {
                seen.push(found);
            }
        }
        (0..ROUNDS).for_each(|_| self.refine(&seen, &mut sets));
        self.sound(&seen, &sets)
    }

    /// The weights that the nodes of a region take in the reference, the largest first.
    fn weights(&self, seen: &Seen) -> Vec<(String, usize)> {
        let a = self.sides.0;
        let names: HashSet<&String> = seen.nodes.0.iter().flat_map(|ran| &ran.inputs).collect();
        let weight = |name: &String| {
            let (ty, shape) = a.form(name).filter(|_| a.is_constant(name))?;
            let count: usize = shape.iter().product();
            (is_computed_in(ty) && count > 1).then(|| (name.clone(), count))
        };
        let mut weights: Vec<(String, usize)> = names.into_iter().filter_map(weight).collect();
        weights.sort_by(|(x, of_x), (y, of_y)| (of_y, x).cmp(&(of_x, y)));
        weights
    }

    fn both(&self, seen: &Seen, name: &str) -> Option<BothWeights> {
        let is_small = self.elements(name).is_some_and(|count| count <= MOST);
        is_small.then(|| self.sources.both(self.sides, (name, &seen.nodes.0), &seen.nodes.1))?
    }

    fn elements(&self, name: &str) -> Option<usize> {
        self.sides.0.form(name).map(|(_, shape)| shape.iter().product())
    }

    /// Whether a weight stands for itself, so that it need not be read.
    fn is_kept(&self, name: &str) -> bool {
        let WeightSources { names, changed, .. } = self.sources;
        let is_large = self.elements(name).is_some_and(|count| count >= LARGE);
        is_large && names.contains_key(name) && !changed.contains(name)
    }

    /// Says what a region makes: what it hands on, what its weights say, or the reference's value;
    /// and how each weight has to do with that.
    fn look(&self, seen: &mut Seen, sets: &mut Vec<Factors>) {
        let Some(both) = self.value(&seen.value) else { return };
        let plain = both.off(None);
        let mut handed_on: Option<(f64, Carried)> = None;
        for (name, carried) in &seen.taken {
            for carried in self.handed_on(name, carried, &both) {
                let off = both.off(Some((&carried.axes, &carried.channels(sets))));
                if handed_on.as_ref().is_none_or(|(least, _)| off < *least) {
                    handed_on = Some((off, carried));
                }
            }
        }
        let weights = self.weights(seen);
        let told = self.told(&weights, seen, sets, &both);
        let made = told.map(|(off, axes, channels)| {
            let list = channels.iter().enumerate().map(|(at, channel)| (channel.from, at));
            let carried = Carried { set: sets.len(), axes, channels: list.collect() };
            (off, carried, channels)
        });
        let best = made.as_ref().map_or(plain, |(off, ..)| plain.min(*off));
        seen.made = match (handed_on, made) {
            // Where channels are all 0 it is handed on as well: only weights make up for it.
            (Some((off, carried)), _) if off <= NEAR && off <= ALIKE * best + ROUNDED => {
                Some(carried)
            }
            (_, Some((off, carried, channels))) if off <= NEAR && ALIKE * off < plain => {
                let factors = channels.iter().map(|channel| (channel.factor, channel.spread));
                sets.push(factors.collect());
                Some(carried)
            }
            _ => None,
        };
        seen.weights = weights
            .into_iter()
            .map(|(name, _)| {
                let is_added = seen.is_added(&name);
                let weight = if self.is_kept(&name) { None } else { self.both(seen, &name) };
                let fit = weight.map(|weight| nearest_fit(&weight, is_added, seen, sets));
                (name, fit.unwrap_or_default())
            })
            .collect();
    }

    /// A value of the two sides, as many elements as they have.
    fn value(&self, name: &str) -> Option<BothValues> {
        let (a, b) = self.sides;
        let was = a.first(&self.links.get(name)?.reference)?;
        let is = b.first(name)?;
        let shape = is.1.shape().to_vec();
        let (was, is) = (numbers(was)?, numbers(is)?);
        (was.len() == is.len()).then_some(BothValues { shape, was, is })
    }

    /// How a value that was moved may be handed on to another one: by as many channels, or, where
    /// that has as many elements in another shape, by the elements.
    fn handed_on(&self, name: &str, carried: &Carried, to: &BothValues) -> Vec<Carried> {
        let count = carried.channels.len();
        let all = axes_of(&to.shape);
        let is_alike = |axes: &&Vec<usize>| channels_of(&to.shape, axes) == count;
        let alike = all.iter().filter(is_alike);
        let mut found: Vec<Carried> =
            alike.map(|axes| Carried { axes: axes.clone(), ..carried.clone() }).collect();
        if let Some(from) =
            self.value(name).filter(|from| from.shape != to.shape && from.was.len() == to.was.len())
        {
            found.extend(
                all.iter().filter_map(|axes| carried.reshaped(&from.shape, &to.shape, axes)),
            );
        }
        found
    }

    /// What weights say of the value that is made, each alone and all together: by which axes and
    /// channels it is moved, and how far the value is off by that.
    fn told(
        &self,
        weights: &[(String, usize)],
        seen: &Seen,
        sets: &[Factors],
        value: &BothValues,
    ) -> Option<(f64, Vec<usize>, Vec<Channel>)> {
        let mut all: Vec<Vec<Channel>> = vec![];
        let moved = weights.iter().filter(|(name, _)| !self.is_kept(name));
        for weight in moved.filter_map(|(name, _)| self.both(seen, name)) {
            for fit in taken_fits(&weight, seen) {
                let least = weight.unit + STRAY * fit.spread(seen, sets);
                let Some(base) = fit.expected(&weight, seen, sets) else { continue };
                for axes in weight_axes(&weight.shape) {
                    let places = Places::of(&weight.shape, &axes);
                    let found = between(&base, &weight.is, &weight.off, &places);
                    let before = fit.taken.as_ref().filter(|(_, taken)| *taken == axes);
                    let before = before.and_then(|(at, _)| seen.taken.get(*at));
                    // Where a weight has one axis for both, what it takes is in that order already.
                    let origin = |from: usize| match before {
                        Some((_, carried)) => carried.channels.get(from).map_or(from, |it| it.0),
                        None => from,
                    };
                    let moved =
                        |channel: Channel| Channel { from: origin(channel.from), ..channel };
                    let found = found.map(|found| settled(found, least));
                    all.extend(found.map(|found| found.into_iter().map(moved).collect()));
                }
            }
        }
        let is_moved = |channels: &Vec<Channel>| {
            let mut channels = channels.iter().enumerate();
            channels.any(|(at, channel)| channel.from != at || channel.factor != 1.0)
        };
        all.extend(together(&all));
        let mut best: Option<(f64, Vec<usize>, Vec<Channel>)> = None;
        for channels in all.into_iter().filter(is_moved) {
            for axes in axes_of(&value.shape) {
                let off = value.off(Some((&axes, &channels)));
                if best.as_ref().is_none_or(|(least, ..)| off < *least) {
                    best = Some((off, axes, channels.clone()));
                }
            }
        }
        best
    }

    /// Measures the factors of each set by all weights that tell them, one set after the other, as
    /// a weight may tell of two.
    fn refine(&self, seen: &[Seen], sets: &mut [Factors]) {
        let mut by_set: HashMap<usize, Vec<FittedWeight>> = HashMap::new();
        for (seen, weight) in seen.iter().flat_map(|it| it.weights.iter().map(move |x| (it, x))) {
            let sides = weight.1.sides(seen);
            let of: BTreeSet<usize> = sides.iter().map(|side| side.carried.set).collect();
            of.into_iter().for_each(|set| by_set.entry(set).or_default().push((seen, weight)));
        }
        for place in 0..sets.len() {
            let weights = by_set.get(&place).map(Vec::as_slice).unwrap_or_default();
            let told = self.measured(weights, sets, place);
            let Some(set) = sets.get_mut(place) else { continue };
            let all = set.iter().zip(told).map(|(held, told)| {
                let (factor, spread) = mean(told.into_iter()).unwrap_or(*held);
                Channel { from: 0, factor, spread }
            });
            let all = settled(all.collect(), 0.0).into_iter();
            *set = all.map(|channel| (channel.factor, channel.spread)).collect();
        }
    }

    /// What weights tell of the factors of a set, each with its spread.
    fn measured(
        &self,
        weights: &[FittedWeight],
        sets: &[Factors],
        place: usize,
    ) -> Vec<Vec<(f64, f64)>> {
        let mut told = vec![vec![]; sets.get(place).map_or(0, Vec::len)];
        for (seen, (name, fit)) in weights {
            let sides = fit.sides(seen);
            let Some(weight) = self.both(seen, name) else { continue };
            for side in sides.iter().filter(|side| side.carried.set == place) {
                // What is not known of a factor itself is what is asked.
                let others = sides.iter().filter(|other| !std::ptr::eq(*other, side));
                let off = not_known(&weight, &others.collect::<Vec<_>>(), sets);
                let made = expected(&weight, &sides.iter().collect::<Vec<_>>(), sets);
                let Some((made, off)) = made.zip(off) else { continue };
                let places = Places::of(&weight.shape, side.axes);
                let channels = side.carried.channels(sets).into_iter();
                for (at, (channel, (_, own))) in channels.zip(&side.carried.channels).enumerate() {
                    let found = ratio(
                        places.channel(&made, at),
                        places.channel(&weight.is, at),
                        places.channel(&off, at),
                    );
                    let (Some((ratio, spread)), Some(all)) = (found, told.get_mut(*own)) else {
                        continue;
                    };
                    let by = if side.is_made_up_for { 1.0 / ratio } else { ratio };
                    all.push((by * channel.factor, spread.hypot(weight.unit / EVEN.sqrt())));
                }
            }
        }
        told
    }

    /// What was moved, by regions whose weights all are what they are to be.
    fn sound(&self, seen: &[Seen], sets: &[Factors]) -> Moved {
        let mut moved = Moved::default();
        let taken: HashSet<&String> =
            seen.iter().flat_map(|seen| &seen.taken).map(|(taken, _)| taken).collect();
        for region in seen {
            let value = &region.value;
            let has_end = taken.contains(value) && !self.outputs.contains(value.as_str());
            let is_sound = (region.made.is_none() || has_end) && self.is_made_up_for(region, sets);
            if let Some(made) = &region.made {
                let (axes, channels) = (made.axes.clone(), made.channels(sets));
                moved.values.insert(value.clone(), MovedValue { axes, channels });
            }
            let weights = region.weights.iter().filter(|(_, fit)| fit.is_any());
            moved.regions.push(MovedRegion {
                value: value.clone(),
                taken: region.taken.iter().map(|(name, _)| name.clone()).collect(),
                weights: weights.map(|(name, _)| name.clone()).collect(),
                is_sound,
            });
        }
        moved.without(|_| false)
    }

    /// Whether all that a region takes is handed on or made up for by a weight, all that it makes
    /// is made by one or was handed on, and each weight is what it is to be.
    fn is_made_up_for(&self, region: &Seen, sets: &[Factors]) -> bool {
        let fits = |(name, fit): &(String, Fit)| {
            let is_exact = || {
                let weight = self.both(region, name);
                weight.is_some_and(|weight| fit.is_exact(&weight, region, sets))
            };
            let is_whole = fit.made.is_some() || !region.is_added(name);
            is_whole && (self.is_kept(name) || is_exact())
        };
        let made = region.made.as_ref();
        let is_handed_on = |carried: &Carried| made.is_some_and(|made| carried.is_in(made, sets));
        let all = || region.weights.iter().map(|(_, fit)| fit);
        let mut taken = region.taken.iter().enumerate();
        let is_made = made.is_none()
            || all().any(|fit| fit.made.is_some())
            || region.taken.iter().any(|(_, carried)| is_handed_on(carried));
        is_made
            && taken.all(|(at, (_, carried))| {
                is_handed_on(carried)
                    || all().any(|fit| fit.taken.as_ref().is_some_and(|(place, _)| *place == at))
            })
            && region.weights.iter().all(fits)
    }
}

/// A value of both sides.
struct BothValues {
    shape: Vec<usize>,
    was: Vec<f64>,
    is: Vec<f64>,
}

impl BothValues {
    /// The share of its power that it is off, where it was moved so, or not at all.
    fn off(&self, by: Option<(&[usize], &[Channel])>) -> f64 {
        let moved = by.map(|(axes, channels)| {
            Places::of(&self.shape, axes).moved(&self.was, channels, false)
        });
        let want = match &moved {
            None => &self.was,
            Some(Some(moved)) => moved,
            Some(None) => return f64::INFINITY,
        };
        let power: f64 = self.is.iter().map(|x| x * x).sum();
        let noise: f64 = want.iter().zip(&self.is).map(|(x, y)| (x - y) * (x - y)).sum();
        if noise == 0.0 { 0.0 } else { noise / power }
    }
}

/// What several measurements of a factor say together, each with its spread, by its size.
fn mean(told: impl Iterator<Item = (f64, f64)>) -> Option<(f64, f64)> {
    let (mut sum, mut counts) = (0.0, 0.0);
    for (factor, spread) in told {
        let count = 1.0 / (spread * spread).max(f64::MIN_POSITIVE);
        (sum, counts) = (sum + count * factor, counts + count);
    }
    (counts > 0.0).then(|| (sum / counts, f64::sqrt(counts).recip()))
}

/// What all channels say together that are in the order of the first ones.
fn together(all: &[Vec<Channel>]) -> Option<Vec<Channel>> {
    let first = all.iter().max_by_key(|channels| channels.len())?;
    let is_alike = |other: &&Vec<Channel>| {
        let mut both = first.iter().zip(*other);
        first.len() == other.len() && both.all(|(own, other)| own.from == other.from)
    };
    let alike: Vec<&Vec<Channel>> = all.iter().filter(is_alike).collect();
    let channel = |(at, own): (usize, &Channel)| {
        let told = alike.iter().filter_map(|channels| channels.get(at));
        let told = mean(told.map(|channel| (channel.factor, channel.spread)));
        told.map_or(*own, |(factor, spread)| Channel { factor, spread, ..*own })
    };
    Some(first.iter().enumerate().map(channel).collect())
}
