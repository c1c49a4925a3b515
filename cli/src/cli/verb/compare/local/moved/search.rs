//! Looks for what was moved, in the order of computation: what makes a value says by its weights
//! which channels it makes, and what takes one that was moved either makes up for that by its
//! weights or hands it on.

use std::collections::{HashMap, HashSet};

use super::super::links::Links;
use super::super::nodes::region;
use super::super::numbers::{is_computed_in, numbers};
use super::super::trace::{Ran, Trace};
use super::channels::{Channel, Places, between, ratio};
use super::weights::{BothWeights, WeightSources};
use super::{Moved, MovedRegion, MovedValue};

/// The share of a value's power that it may be off by, where it is looked for which one it is.
const NEAR: f64 = 0.01;
/// So many times as far apart two readings are alike.
const ALIKE: f64 = 1.2;
/// So many times as far as is likely what is measured may be off.
const STRAY: f64 = 4.0;

/// What is looked through.
pub(in super::super) struct Search<'a> {
    pub(in super::super) sides: (&'a Trace, &'a Trace),
    pub(in super::super) links: &'a Links,
    pub(in super::super) sources: WeightSources<'a>,
    /// The outputs of the conversion, which nothing makes up for.
    pub(in super::super) outputs: HashSet<&'a str>,
}

/// Factors that several values have in common, each with how far it may be off, by its size.
type Factors = Vec<(f64, f64)>;

/// What became of the channels of a value: which of the reference's each is, and which of some
/// factors it has.
#[derive(Clone)]
struct Carried {
    set: usize,
    axes: Vec<usize>,
    channels: Vec<(usize, usize)>,
}

impl Carried {
    fn channels(&self, sets: &[Factors]) -> Vec<Channel> {
        let factors = sets.get(self.set).map(Vec::as_slice).unwrap_or_default();
        let factor = |at: usize| factors.get(at).map_or(1.0, |(factor, _)| *factor);
        let channels = self.channels.iter();
        channels.map(|(from, at)| Channel { from: *from, factor: factor(*at) }).collect()
    }

    fn spread(&self, sets: &[Factors], channel: usize) -> f64 {
        let factor = self.channels.get(channel).and_then(|(_, at)| sets.get(self.set)?.get(*at));
        factor.map_or(0.0, |(_, spread)| *spread)
    }
}

/// By which axes a weight makes up for a value that was moved, which is at a place among those that
/// its node takes, and by which it moves what is made.
#[derive(Clone, Default)]
struct Fit {
    taken: Option<(usize, Vec<usize>)>,
    made: Option<Vec<usize>>,
}

/// A region that is looked at.
struct Seen<'a> {
    value: String,
    nodes: (Vec<&'a Ran>, Vec<&'a Ran>),
    taken: Vec<(String, Carried)>,
    made: Option<Carried>,
    weights: Vec<(String, Fit)>,
}

impl<'a> Search<'a> {
    /// What was moved, given the values that deviate, whose weights may be others.
    pub(in super::super) fn moved(&self, deviating: &HashSet<String>) -> Moved {
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
        self.refine(&seen, &mut sets);
        self.sound(seen, &sets)
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
        self.sources.both(self.sides, (name, &seen.nodes.0), &seen.nodes.1)
    }

    /// Says what a region makes: what it hands on, what its weights say, or the reference's value;
    /// and how each weight has to do with that.
    fn look(&self, seen: &mut Seen, sets: &mut Vec<Factors>) {
        let Some(both) = self.value(&seen.value) else { return };
        let mut best = both.off(None);
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
        let told = weights.iter().find_map(|(name, _)| {
            let weight = self.both(seen, name)?;
            self.told(&weight, seen, sets, &both)
        });
        let made = told.map(|(off, axes, channels)| {
            let list = channels.iter().enumerate().map(|(at, channel)| (channel.from, at));
            let carried = Carried { set: sets.len(), axes, channels: list.collect() };
            (off, carried, channels)
        });
        best = best.min(made.as_ref().map_or(f64::INFINITY, |(off, ..)| *off));
        seen.made = match (handed_on, made) {
            // Where channels are all 0 it is handed on as well: only weights make up for it.
            (Some((off, carried)), _) if off <= NEAR && off <= ALIKE * best => Some(carried),
            (_, Some((off, carried, channels))) if off <= NEAR && off <= best => {
                sets.push(channels.iter().map(|channel| (channel.factor, 0.0)).collect());
                Some(carried)
            }
            _ => None,
        };
        seen.weights = weights
            .into_iter()
            .map(|(name, _)| {
                let fit = self.both(seen, &name).map(|weight| nearest_fit(&weight, seen, sets));
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
                all.iter().filter_map(|axes| reshaped(carried, &from.shape, &to.shape, axes)),
            );
        }
        found
    }

    /// What a weight says of the value that is made: by which axes and channels it is moved, and
    /// how far the value is off by that.
    fn told(
        &self,
        weight: &BothWeights,
        seen: &Seen,
        sets: &[Factors],
        value: &BothValues,
    ) -> Option<(f64, Vec<usize>, Vec<Channel>)> {
        let mut bases = vec![weight.was.clone()];
        for place in 0..seen.taken.len() {
            for axes in weight_axes(&weight.shape) {
                let fit = Fit { taken: Some((place, axes)), made: None };
                bases.extend(fit.expected(weight, seen, sets));
            }
        }
        let mut best: Option<(f64, Vec<usize>, Vec<Channel>)> = None;
        for (base, axes) in bases
            .iter()
            .flat_map(|base| weight_axes(&weight.shape).into_iter().map(move |axes| (base, axes)))
        {
            let places = Places::of(&weight.shape, &axes);
            let Some(channels) = between(base, &weight.is, &weight.off, &places) else { continue };
            let is_own =
                |(at, channel): (usize, &Channel)| channel.from == at && channel.factor == 1.0;
            if channels.iter().enumerate().all(is_own) {
                continue;
            }
            for axes in axes_of(&value.shape) {
                let off = value.off(Some((&axes, &channels)));
                if best.as_ref().is_none_or(|(least, ..)| off < *least) {
                    best = Some((off, axes, channels.clone()));
                }
            }
        }
        best
    }

    /// Measures each factor by all weights that tell it.
    fn refine(&self, seen: &[Seen], sets: &mut [Factors]) {
        let mut told: Vec<Vec<(f64, f64)>> =
            sets.iter().map(|factors| vec![(0.0, 0.0); factors.len()]).collect();
        for seen in seen {
            for (name, fit) in &seen.weights {
                let Some(weight) = self.both(seen, name) else { continue };
                for (carried, axes, is_made_up_for) in fit.sides(seen) {
                    let other = if is_made_up_for {
                        Fit { taken: None, ..fit.clone() }
                    } else {
                        Fit { made: None, ..fit.clone() }
                    };
                    let Some(base) = other.expected(&weight, seen, sets) else { continue };
                    let places = Places::of(&weight.shape, axes);
                    for (channel, (from, at)) in carried.channels.iter().enumerate() {
                        let found = ratio(
                            places.channel(&base, *from),
                            places.channel(&weight.is, channel),
                            places.channel(&weight.off, channel),
                        );
                        let sum = told.get_mut(carried.set).and_then(|set| set.get_mut(*at));
                        let (Some((ratio, spread)), Some(sum)) = (found, sum) else { continue };
                        let factor = if is_made_up_for { 1.0 / ratio } else { ratio };
                        let counts = 1.0 / (spread * spread + weight.unit * weight.unit / 12.0);
                        *sum = (sum.0 + counts * factor, sum.1 + counts);
                    }
                }
            }
        }
        for (factor, (sum, counts)) in sets.iter_mut().flatten().zip(told.into_iter().flatten()) {
            if counts > 0.0 {
                *factor = (sum / counts, counts.sqrt().recip());
            }
        }
    }

    /// What was moved, by regions whose weights all are what they are to be.
    fn sound(&self, seen: Vec<Seen>, sets: &[Factors]) -> Moved {
        let mut moved = Moved::default();
        let is_taken = |value: &str| {
            seen.iter().any(|seen| seen.taken.iter().any(|(taken, _)| taken == value))
        };
        for region in &seen {
            let fits = |(name, fit): &(String, Fit)| {
                let weight = self.both(region, name);
                weight.is_some_and(|weight| fit.is_exact(&weight, region, sets))
            };
            let is_handed_on = |carried: &Carried| {
                region.made.as_ref().is_some_and(|made| made.set == carried.set)
            };
            let takes_up = |place: usize| {
                let mut fits = region.weights.iter().filter_map(|(_, fit)| fit.taken.as_ref());
                fits.any(|(taken, _)| *taken == place)
            };
            let mut taken = region.taken.iter().enumerate();
            let is_made = region.made.as_ref().is_none_or(|made| {
                region.weights.iter().any(|(_, fit)| fit.made.is_some())
                    || region.taken.iter().any(|(_, taken)| taken.set == made.set)
            });
            let has_end = region.made.is_none()
                || is_taken(&region.value) && !self.outputs.contains(region.value.as_str());
            let is_sound = is_made
                && has_end
                && taken.all(|(at, (_, carried))| is_handed_on(carried) || takes_up(at))
                && region.weights.iter().all(fits);
            if let Some(made) = &region.made {
                let value = MovedValue { axes: made.axes.clone(), channels: made.channels(sets) };
                moved.values.insert(region.value.clone(), value);
            }
            let is_other = |(_, fit): &&(String, Fit)| fit.taken.is_some() || fit.made.is_some();
            moved.regions.push(MovedRegion {
                value: region.value.clone(),
                taken: region.taken.iter().map(|(name, _)| name.clone()).collect(),
                weights: region
                    .weights
                    .iter()
                    .filter(is_other)
                    .map(|(name, _)| name.clone())
                    .collect(),
                is_sound,
            });
        }
        moved.without(|_| false)
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

impl Fit {
    /// What a weight of the reference is to be in the conversion by this.
    fn expected(&self, weight: &BothWeights, seen: &Seen, sets: &[Factors]) -> Option<Vec<f64>> {
        let mut values = weight.was.clone();
        for (carried, axes, is_made_up_for) in self.sides(seen) {
            let places = Places::of(&weight.shape, axes);
            values = places.moved(&values, &carried.channels(sets), is_made_up_for)?;
        }
        Some(values)
    }

    /// What is made up for, and what is moved, each with the axes of it.
    fn sides<'s>(&'s self, seen: &'s Seen) -> Vec<(&'s Carried, &'s [usize], bool)> {
        let taken = self
            .taken
            .as_ref()
            .and_then(|(place, axes)| Some((&seen.taken.get(*place)?.1, axes.as_slice(), true)));
        let made = self.made.as_ref().zip(seen.made.as_ref());
        let made = made.map(|(axes, carried)| (carried, axes.as_slice(), false));
        taken.into_iter().chain(made).collect()
    }

    /// Whether each element is what it is to be, within its rounding and what is not known of
    /// factors, and each channel as a whole.
    fn is_exact(&self, weight: &BothWeights, seen: &Seen, sets: &[Factors]) -> bool {
        let Some(expected) = self.expected(weight, seen, sets) else { return false };
        let mut off = weight.off.clone();
        for (carried, axes, _) in self.sides(seen) {
            let places = Places::of(&weight.shape, axes);
            for (channel, first) in places.firsts.iter().enumerate() {
                let spread = carried.spread(sets, channel);
                let found = ratio(
                    places.channel(&expected, channel),
                    places.channel(&weight.is, channel),
                    places.channel(&weight.off, channel),
                );
                let is_one = |(ratio, own): (f64, f64)| {
                    (ratio - 1.0).abs() <= weight.unit + STRAY * (own + spread)
                };
                if !found.is_none_or(is_one) {
                    return false;
                }
                for at in places.behind.iter().map(|behind| first + behind) {
                    if let (Some(off), Some(x)) = (off.get_mut(at), expected.get(at)) {
                        *off += STRAY * spread * x.abs();
                    }
                }
            }
        }
        let all = expected.iter().zip(&weight.is).zip(&off);
        all.into_iter().all(|((x, y), off)| (x - y).abs() <= *off)
    }
}

/// The way in which a weight has to do with what is moved by which it is nearest to what it is to
/// be: none, if it is only rounded.
fn nearest_fit(weight: &BothWeights, seen: &Seen, sets: &[Factors]) -> Fit {
    let axes = weight_axes(&weight.shape);
    let made: Vec<Option<Vec<usize>>> = [None]
        .into_iter()
        .chain(axes.iter().filter(|_| seen.made.is_some()).cloned().map(Some))
        .collect();
    let places = 0..seen.taken.len();
    let taken = places.flat_map(|place| axes.iter().map(move |axes| Some((place, axes.clone()))));
    let taken: Vec<_> = [None].into_iter().chain(taken).collect();
    let fits = made.into_iter().flat_map(|made| {
        taken.iter().map(move |taken| Fit { taken: taken.clone(), made: made.clone() })
    });
    let (mut nearest, mut least) = (Fit::default(), f64::INFINITY);
    for fit in fits {
        if fit.sides(seen).is_empty() && fit.is_exact(weight, seen, sets) {
            return fit;
        }
        let Some(expected) = fit.expected(weight, seen, sets) else { continue };
        let off = expected.iter().zip(&weight.is).map(|(x, y)| (x - y) * (x - y)).sum::<f64>();
        if off < least {
            (nearest, least) = (fit, off);
        }
    }
    nearest
}

/// The axes by which a weight's channels may be told: none, or one.
fn weight_axes(shape: &[usize]) -> Vec<Vec<usize>> {
    let single = (0..shape.len()).filter(|axis| shape.get(*axis).is_some_and(|size| *size > 1));
    [vec![]].into_iter().chain(single.map(|axis| vec![axis])).collect()
}

/// The axes by which a value's channels may be told: any of those that are longer than 1.
fn axes_of(shape: &[usize]) -> Vec<Vec<usize>> {
    const MOST: usize = 6;
    let single = (0..shape.len()).filter(|axis| shape.get(*axis).is_some_and(|size| *size > 1));
    let mut all: Vec<Vec<usize>> = vec![vec![]];
    for axis in single.take(MOST) {
        let more: Vec<Vec<usize>> =
            all.iter().map(|axes| axes.iter().copied().chain([axis]).collect()).collect();
        all.extend(more);
    }
    all
}

fn channels_of(shape: &[usize], axes: &[usize]) -> usize {
    axes.iter().filter_map(|axis| shape.get(*axis)).product()
}

/// The channels by these axes of a value in another shape, whose elements are those of one that was
/// moved, in their order; `None` if they are not all of one of its channels each.
fn reshaped(carried: &Carried, from: &[usize], to: &[usize], axes: &[usize]) -> Option<Carried> {
    let (old, new) = (Places::of(from, &carried.axes), Places::of(to, axes));
    let mut sources = vec![None; from.iter().product()];
    for (first, (channel, factor)) in old.firsts.iter().zip(&carried.channels) {
        let origin = old.firsts.get(*channel)?;
        for behind in &old.behind {
            *sources.get_mut(first + behind)? = Some((origin + behind, *factor));
        }
    }
    let mut channel_at = vec![0; sources.len()];
    for (channel, first) in new.firsts.iter().enumerate() {
        for behind in &new.behind {
            *channel_at.get_mut(first + behind)? = channel;
        }
    }
    let channel = |first: &usize| {
        let told = |behind: &usize| {
            let (origin, factor) = (*sources.get(first + behind)?)?;
            Some((*channel_at.get(origin)?, factor))
        };
        let mut all = new.behind.iter().map(told);
        let one = all.next()??;
        all.all(|other| other == Some(one)).then_some(one)
    };
    let channels = new.firsts.iter().map(channel).collect::<Option<_>>()?;
    Some(Carried { set: carried.set, axes: axes.to_vec(), channels })
}
