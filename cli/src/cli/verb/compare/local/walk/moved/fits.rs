//! How weights have to do with what was moved: what each is to be, and by which axes.

use super::super::super::trace::Ran;
use super::channels::{Channel, Places, STRAY, ratio, weight_axes};
use super::weights::BothWeights;

/// A factor that may be off by more of its size is not known.
const KNOWN: f64 = 0.1;
/// The spread of what is spread evenly, by how far it reaches.
pub(super) const EVEN: f64 = 12.0;

/// Factors that several values have in common, each with how far it may be off, by its size.
pub(super) type Factors = Vec<(f64, f64)>;

/// What became of the channels of a value: which of the reference's each is, and which of some
/// factors it has.
#[derive(Clone)]
pub(super) struct Carried {
    pub(super) set: usize,
    pub(super) axes: Vec<usize>,
    pub(super) channels: Vec<(usize, usize)>,
}

impl Carried {
    pub(super) fn channels(&self, sets: &[Factors]) -> Vec<Channel> {
        let factors = sets.get(self.set).map(Vec::as_slice).unwrap_or_default();
        let channel = |(from, at): &(usize, usize)| {
            let (factor, spread) = factors.get(*at).copied().unwrap_or((1.0, 0.0));
            Channel { from: *from, factor, spread }
        };
        self.channels.iter().map(channel).collect()
    }

    /// The channels by these axes of a value in another shape, whose elements are those of one
    /// that was moved, in their order; `None` if they are not all of one of its channels each.
    pub(super) fn reshaped(&self, from: &[usize], to: &[usize], axes: &[usize]) -> Option<Carried> {
        let (old, new) = (Places::of(from, &self.axes), Places::of(to, axes));
        let mut sources = vec![None; from.iter().product()];
        for (first, (channel, factor)) in old.firsts.iter().zip(&self.channels) {
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
        Some(Carried { set: self.set, axes: axes.to_vec(), channels })
    }

    /// Whether a value that was moved so is handed on in one that was moved like that: by the same
    /// factors, or in the same order without any.
    pub(super) fn is_in(&self, made: &Carried, sets: &[Factors]) -> bool {
        let mut both = self.channels(sets).into_iter().zip(made.channels(sets));
        let is_alike = self.channels.len() == made.channels.len();
        self.set == made.set
            || is_alike && both.all(|(own, other)| own.from == other.from && own.factor == 1.0)
    }
}

/// By which axes a weight makes up for a value that was moved, which is at a place among those that
/// its node takes, and by which it moves what is made.
#[derive(Clone, Default)]
pub(super) struct Fit {
    pub(super) taken: Option<(usize, Vec<usize>)>,
    pub(super) made: Option<Vec<usize>>,
}

/// A region that is looked at.
pub(super) struct Seen<'a> {
    pub(super) value: String,
    pub(super) nodes: (Vec<&'a Ran>, Vec<&'a Ran>),
    pub(super) taken: Vec<(String, Carried)>,
    pub(super) made: Option<Carried>,
    pub(super) weights: Vec<(String, Fit)>,
}

/// One of the two ways in which a weight has to do with what was moved.
pub(super) struct Side<'s> {
    pub(super) carried: &'s Carried,
    pub(super) axes: &'s [usize],
    pub(super) is_made_up_for: bool,
    /// Whether the weight's channels are in the order of what was moved already.
    is_in_order: bool,
}

impl Side<'_> {
    /// The channels of the weight that its channels are made of.
    pub(super) fn origins(&self) -> impl Iterator<Item = usize> {
        let origins = self.carried.channels.iter().enumerate();
        origins.map(|(at, (from, _))| if self.is_in_order { at } else { *from })
    }

    pub(super) fn channels(&self, sets: &[Factors]) -> Vec<Channel> {
        let channels = self.carried.channels(sets).into_iter().zip(self.origins());
        channels.map(|(channel, from)| Channel { from, ..channel }).collect()
    }
}

/// What a weight of the reference is to be in the conversion.
pub(super) fn expected(
    weight: &BothWeights,
    sides: &[&Side],
    sets: &[Factors],
) -> Option<Vec<f64>> {
    let mut values = weight.was.clone();
    for side in sides {
        let places = Places::of(&weight.shape, side.axes);
        values = places.moved(&values, &side.channels(sets), side.is_made_up_for)?;
    }
    Some(values)
}

/// How far elements of the conversion's weight may be off by their rounding and for what is not
/// known of factors.
pub(super) fn not_known(
    weight: &BothWeights,
    sides: &[&Side],
    sets: &[Factors],
) -> Option<Vec<f64>> {
    let mut all = weight.off.clone();
    for side in sides {
        let places = Places::of(&weight.shape, side.axes);
        for (first, channel) in places.firsts.iter().zip(side.channels(sets)) {
            for at in places.behind.iter().map(|behind| first + behind) {
                *all.get_mut(at)? += EVEN.sqrt() * channel.spread * weight.is.get(at)?.abs();
            }
        }
    }
    Some(all)
}

impl Seen<'_> {
    /// Whether the reference adds a weight to what is moved.
    pub(super) fn is_added(&self, weight: &str) -> bool {
        let mut nodes = self.nodes.0.iter();
        let adds = |ran: &&Ran| {
            let is_bias = ran.inputs.get(2).is_some_and(|input| input == weight);
            let is_sum = matches!(&*ran.op, "Add" | "Sub");
            is_bias || is_sum && ran.inputs.iter().any(|input| input == weight)
        };
        self.made.is_some() && nodes.any(adds)
    }
}

impl Fit {
    /// Whether it has to do with it at all.
    pub(super) fn is_any(&self) -> bool {
        self.taken.is_some() || self.made.is_some()
    }

    /// What a weight of the reference is to be in the conversion by this.
    pub(super) fn expected(
        &self,
        weight: &BothWeights,
        seen: &Seen,
        sets: &[Factors],
    ) -> Option<Vec<f64>> {
        let sides = self.sides(seen);
        expected(weight, &sides.iter().collect::<Vec<_>>(), sets)
    }

    /// How far the factors that it makes up for may be off, by their size.
    pub(super) fn spread(&self, seen: &Seen, sets: &[Factors]) -> f64 {
        let channels = self.sides(seen).into_iter().flat_map(|side| side.channels(sets));
        let known = channels.map(|channel| channel.spread).filter(|spread| *spread <= KNOWN);
        known.fold(0.0, f64::max)
    }

    /// What is made up for, and what is moved, each with the axes of it.
    pub(super) fn sides<'s>(&'s self, seen: &'s Seen) -> Vec<Side<'s>> {
        let taken = self.taken.as_ref().and_then(|(place, axes)| {
            let carried = &seen.taken.get(*place)?.1;
            Some(Side { carried, axes, is_made_up_for: true, is_in_order: false })
        });
        let made = self.made.as_ref().zip(seen.made.as_ref());
        let made = made.map(|(axes, carried)| {
            let is_in_order = taken.as_ref().is_some_and(|taken| taken.axes == axes);
            Side { carried, axes, is_made_up_for: false, is_in_order }
        });
        taken.into_iter().chain(made).collect()
    }

    /// Whether each element is what it is to be, within its rounding and what is not known of
    /// factors, and each channel as a whole.
    pub(super) fn is_exact(&self, weight: &BothWeights, seen: &Seen, sets: &[Factors]) -> bool {
        let sides = self.sides(seen);
        let all: Vec<&Side> = sides.iter().collect();
        let both = expected(weight, &all, sets).zip(not_known(weight, &all, sets));
        let Some((expected, off)) = both else { return false };
        let is_channel = |side: &Side| {
            let places = Places::of(&weight.shape, side.axes);
            let mut channels = side.channels(sets).into_iter().enumerate();
            channels.all(|(at, channel)| {
                let found = ratio(
                    places.channel(&expected, at),
                    places.channel(&weight.is, at),
                    places.channel(&off, at),
                );
                let is_one = |(ratio, own): (f64, f64)| {
                    (ratio - 1.0).abs() <= weight.unit + STRAY * (own + channel.spread)
                };
                channel.spread <= KNOWN && found.is_none_or(is_one)
            })
        };
        let mut all = expected.iter().zip(&weight.is).zip(&off);
        sides.iter().all(is_channel) && all.all(|((x, y), off)| (x - y).abs() <= *off)
    }
}

/// The ways in which a weight may make up for what its node takes: not at all, or by an axis.
pub(super) fn taken_fits(weight: &BothWeights, seen: &Seen) -> Vec<Fit> {
    let axes: Vec<Vec<usize>> = weight_axes(&weight.shape).collect();
    let taken = (0..seen.taken.len())
        .flat_map(|place| axes.iter().map(move |axes| Some((place, axes.clone()))));
    [None].into_iter().chain(taken).map(|taken| Fit { taken, made: None }).collect()
}

/// The way in which a weight has to do with what is moved by which it is nearest to what it is to
/// be: none, if it is only rounded. What is added to what is moved has to be moved as well.
pub(super) fn nearest_fit(
    weight: &BothWeights,
    is_added: bool,
    seen: &Seen,
    sets: &[Factors],
) -> Fit {
    let made = weight_axes(&weight.shape).filter(|_| seen.made.is_some()).map(Some);
    let none = [None].into_iter().filter(|_| !is_added);
    let made: Vec<Option<Vec<usize>>> = none.chain(made).collect();
    let taken = taken_fits(weight, seen);
    let fits = made
        .into_iter()
        .flat_map(|made| taken.iter().map(move |fit| Fit { made: made.clone(), ..fit.clone() }));
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
