//! One tensor for each input of a model: what `-i` gives, and random values for the rest.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use anyhow::{bail, ensure};
use tract_onnx::prelude::*;
use tract_onnx_cast::Error as OwnError;

use crate::cli::found::look::InputLook;
use crate::cli::input::args::InputArgs;
use crate::cli::input::chosen::change::{Choice, ValueChange, changed, is_changeable, is_scalable};
use crate::cli::input::chosen::made_up::MadeUp;
use crate::cli::input::chosen::price::{Price, SECOND};
use crate::cli::input::chosen::random::{Ends, Generator};
use crate::cli::input::chosen::roles::Role;
use crate::cli::input::chosen::size_plan::{DimensionKind, ROUNDS};
use crate::cli::input::chosen::values::{LARGE_SET, SCALES, UNUSUAL_SET, is_finite};
use crate::cli::input::declared::{Declared, Input};
use crate::cli::input::given::GivenTensors;
use crate::cli::input::sizes;
use crate::cli::input::source::{CutOff, Source};
use crate::cli::measure::number::Num;
use crate::cli::message::{ProblemKind, about, at, counted, names};
use crate::cli::tensor::NamedTensor;

/// The scales that are tried, and of how many quantisers one is too narrow at scales of so many
/// times as much.
const LARGEST_SCALE: f64 = 32.0;
const SCALINGS: i32 = 12;
const FEW: usize = 5;
const MUCH: f64 = 2.5;
/// Up to this scale the numbers of 1 fill a range.
const USUAL: f64 = 8.0;
/// What is spent on trying sizes, after which no other is tried.
const TRYING: f64 = 2.5 * SECOND;
/// What all further sets may cost, where so many of the first one cost less: a verdict takes some
/// ten times as long.
const FURTHER: f64 = 0.15 * SECOND;
const FIRSTS: f64 = 2.0;

/// Whether a run has failed at a loop that does not end.
fn is_endless(error: &TractError) -> bool {
    error.chain().any(|link| link.downcast_ref().is_some_and(OwnError::is_endless))
}

/// How a tensor for each of a model's inputs is made.
pub(crate) struct Recipe {
    inputs: Vec<Input>,
    given: Vec<Option<Arc<Tensor>>>,
    /// What `--range` says, by the input's name.
    ends: HashMap<String, Ends>,
    /// What the random inputs are.
    made_up: MadeUp,
    /// The inputs whose values are random.
    pub(crate) random: Vec<String>,
    /// What to know about the others.
    pub(crate) notes: Vec<String>,
    /// What the first set costs, and how many elements it has.
    first: (Price, f64),
    /// What further sets cost, and may cost.
    further: Price,
}

impl Recipe {
    /// Of what the arguments give, and of so many sets otherwise. Fails when a given array is not
    /// what the model declares, names no input or an input twice, or sizes contradict each other.
    pub(crate) fn of(
        source: &Source,
        args: &InputArgs,
        given: GivenTensors,
        sets: usize,
    ) -> TractResult<Recipe> {
        let model = source.takes;
        let read = || {
            let GivenTensors { tensors: given, notes, .. } = given;
            let ends = ranges(model, args, &given)?;
            let places = model.inputs.iter().zip(&given).filter(|(_, given)| given.is_none());
            let random: Vec<String> = places.map(|(input, _)| input.name.clone()).collect();
            let shapes: Vec<Option<&[usize]>> =
                given.iter().map(|tensor| tensor.as_ref().map(|tensor| tensor.shape())).collect();
            let sizes = sizes::find(model, &args.sizes, &shapes)?;
            let is_random: Vec<bool> = given.iter().map(Option::is_none).collect();
            let made_up = MadeUp::of(source, &is_random, sizes);
            let given = given.into_iter().map(|tensor| tensor.map(Arc::new)).collect();
            let (inputs, first, further) =
                (model.inputs.clone(), (Price::up_to(0.0), 1.0), Price::up_to(FURTHER));
            Ok(Recipe { inputs, given, ends, made_up, random, notes, first, further })
        };
        let mut recipe = about(ProblemKind::Input, read())?;
        if !recipe.random.is_empty() {
            about(ProblemKind::Model, recipe.settle(source, args.seed, sets))?;
        }
        Ok(recipe)
    }

    /// Chooses sizes and scales by trying. Fails when a loop does not end on the first set: to find
    /// that out takes long, and would each time.
    fn settle(&mut self, source: &Source, seed: u64, sets: usize) -> TractResult<()> {
        let mut tried = Price::up_to(TRYING);
        let mut known = vec![];
        if self.made_up.has_choice() {
            known = self.settle_sizes(source, seed, sets, &mut tried)?;
        }
        let ran = |place: usize| {
            let set = seed.wrapping_add(place as u64);
            self.ran(source, (place, set), &mut Price::up_to(f64::INFINITY))
        };
        let spoils = |place: usize| match known.get(place) {
            Some(is_finite) => Ok(!is_finite),
            None => match ran(place) {
                Err(error) if is_endless(&error) => match ran(0) {
                    Err(error) if is_endless(&error) => Err(error),
                    _ => Ok(true),
                },
                ran => Ok(!ran.is_ok_and(|outputs| outputs.iter().all(is_finite))),
            },
        };
        let is_tried = sets > 1 && self.has_scales() && !tried.is_exceeded();
        let large = is_tried && spoils(LARGE_SET)?;
        let unusual = is_tried && spoils(UNUSUAL_SET)?;
        if (large || unusual) && !spoils(0)? {
            (self.made_up.is_tame, self.made_up.is_usual) = (large, unusual);
        }
        if let Some(cut_off) = source.cut_off.as_ref().filter(|_| self.has_floats()) {
            self.settle_scale(cut_off, seed);
        }
        Ok(())
    }

    /// Chooses the scale for which the ranges hold that a model was calibrated for. One that holds
    /// at no scale tells nothing; one that holds at far smaller ones than most others is too
    /// narrow, and is to be told.
    fn settle_scale(&mut self, cut_off: &CutOff, seed: u64) {
        let is_plain = self.has_scales();
        let scales = (0..SCALINGS).map(|halvings| LARGEST_SCALE * 0.5f64.powi(halvings));
        let scales = scales.filter(|scale| is_plain || *scale <= 1.0);
        let (mut tried, mut count) = (vec![], 0);
        for scale in scales {
            self.made_up.calibrated = Some(scale);
            if let Ok((all, off)) = self.tensors(0, seed).and_then(cut_off) {
                count = all;
                tried.push((scale, off));
            }
        }
        let always = tried.iter().map(|(_, off)| off.clone()).reduce(|x, y| &x & &y);
        let always = always.unwrap_or_default();
        let beyond = |off: &HashSet<String>| off.difference(&always).count();
        let least = tried.iter().map(|(_, off)| beyond(off)).min().unwrap_or(0);
        let up_to = |most: usize| {
            tried.iter().filter(move |(_, off)| beyond(off) <= most).map(|(scale, _)| *scale)
        };
        let (all, most) = (up_to(least).next(), up_to(least.max(count / FEW)).next());
        let is_far = all.zip(most).is_some_and(|(all, most)| most.min(1.0) > MUCH * all);
        let taken = if is_far { most.map(|most| most.min(1.0)) } else { all };
        // 1 is what most models are given, unless far larger numbers end a range.
        let is_usual = |scale: f64| scale <= USUAL || scale == LARGEST_SCALE;
        let holds = is_far || up_to(least).any(|scale| scale == 1.0);
        let usual = |scale: f64| if scale >= 1.0 && is_usual(scale) && holds { 1.0 } else { scale };
        self.made_up.calibrated = taken.filter(|_| count > 0).map(usual);
    }

    /// Whether there are floats that nobody gives.
    fn has_floats(&self) -> bool {
        let mut free = self.inputs.iter().zip(&self.given).enumerate();
        free.any(|(place, (input, given))| {
            let is_free = given.is_none() && !self.ends.contains_key(&input.name);
            let is_number = matches!(self.made_up.role(place), Role::Plain | Role::Within { .. });
            is_free && is_number && input.ty.is_float()
        })
    }

    /// Whether sets differ in how large their numbers are.
    fn has_scales(&self) -> bool {
        let mut free = self.inputs.iter().zip(&self.given).enumerate();
        free.any(|(place, (input, given))| {
            let role = self.made_up.role(place);
            let differs =
                matches!(role, Role::Plain | Role::Times | Role::Index { has_negative: true, .. });
            differs && given.is_none() && !self.ends.contains_key(&input.name)
        })
    }

    /// The magnitudes that numbers have about, from set to set.
    pub(crate) fn scales(&self) -> [f64; 3] {
        self.made_up.scales()
    }

    /// Runs the model on a set, of a seed.
    fn ran(
        &self,
        source: &Source,
        (place, seed): (usize, u64),
        price: &mut Price,
    ) -> TractResult<Vec<NamedTensor>> {
        (source.run)(self.tensors(place, seed)?, price)
    }

    /// Chooses the sizes by trying: those of the first plan on which the model runs, and then those
    /// of further sets on which it does. Returns of these sets whether their outputs are finite.
    /// Fails when a loop does not end.
    fn settle_sizes(
        &mut self,
        source: &Source,
        seed: u64,
        sets: usize,
        tried: &mut Price,
    ) -> TractResult<Vec<bool>> {
        let mut known = vec![];
        let mut plans = self.made_up.attempts().into_iter().peekable();
        while let Some(plan) = plans.next() {
            if tried.is_exceeded() && plans.peek().is_some() {
                continue;
            }
            self.made_up.plan = plan;
            let mut price = Price::up_to(f64::INFINITY);
            let ran = self.ran(source, (0, seed), &mut price);
            tried.spent += price.spent;
            match ran {
                Ok(outputs) => {
                    known.push(outputs.iter().all(is_finite));
                    self.made_up.remember(outputs);
                    self.first = (price, self.elements(0));
                    break;
                }
                Err(error) if is_endless(&error) => return Err(error),
                Err(_) => {}
            }
        }
        self.further = Price::up_to(FURTHER.max(FIRSTS * self.first.0.spent));
        for round in 1..ROUNDS.min(sets) {
            if !self.made_up.is_new(round) {
                continue;
            }
            for lengths in self.made_up.tries(round) {
                self.made_up.rounds.push(lengths);
                let place = self.made_up.rounds.len() - 1;
                let mut price = Price::up_to(self.further.left());
                let is_much = tried.is_exceeded() || !self.bears(self.elements(place));
                let set = (place, seed.wrapping_add(place as u64));
                let ran = (!is_much).then(|| self.ran(source, set, &mut price).ok()).flatten();
                if let Some(outputs) = ran {
                    known.push(outputs.iter().all(is_finite));
                    self.further.spent += price.spent;
                    break;
                }
                tried.spent += price.spent;
                self.made_up.leave_out(is_much || price.is_exceeded());
            }
        }
        Ok(known)
    }

    /// How many elements a set has.
    fn elements(&self, index: usize) -> f64 {
        let shapes = self.shapes(index).unwrap_or_default();
        shapes.iter().map(|shape| shape.iter().product::<usize>()).sum::<usize>().max(1) as f64
    }

    /// The shapes of all inputs in a set. Fails as [`Recipe::tensors`] does.
    pub(crate) fn shapes(&self, index: usize) -> TractResult<Vec<Vec<usize>>> {
        self.made_up.shapes(&self.inputs, &self.given, &self.made_up.lengths(index))
    }

    /// As [`Recipe::shapes`], of a set that is made otherwise. Fails as [`Recipe::tensors`] does.
    pub(crate) fn shapes_of(&self, choice: &Choice) -> TractResult<Vec<Vec<usize>>> {
        self.made_up.shapes(&self.inputs, &self.given, &choice.lengths)
    }

    /// How many sets differ in their sizes.
    pub(crate) fn rounds(&self) -> usize {
        self.made_up.rounds.len()
    }

    /// What was chosen for so many sets.
    pub(crate) fn look(&self, sets: usize) -> InputLook {
        let is_free = |name: &String| !self.ends.contains_key(name);
        self.made_up.look(&self.inputs, &|name| self.random.contains(name) && is_free(name), sets)
    }

    /// A tensor for each input, the random ones those of a set and of its seed. Fails when an input
    /// has no known number of dimensions, or a type does not hold what is wanted of it.
    pub(crate) fn tensors(&self, index: usize, seed: u64) -> TractResult<Vec<Arc<Tensor>>> {
        self.tensors_of(&self.choice(index, seed))
    }

    /// How a set is made, without changes.
    pub(crate) fn choice(&self, index: usize, seed: u64) -> Choice {
        Choice { index, seed, lengths: self.made_up.lengths(index), changes: vec![] }
    }

    /// As [`Recipe::tensors`], of a set that is made otherwise. Fails as [`Recipe::tensors`] does.
    pub(crate) fn tensors_of(&self, choice: &Choice) -> TractResult<Vec<Arc<Tensor>>> {
        let mut generator = Generator::new(choice.seed);
        let mut made = || {
            let shapes = self.made_up.shapes(&self.inputs, &self.given, &choice.lengths)?;
            let mut tensors = vec![];
            let given = self.inputs.iter().zip(&self.given).zip(&shapes);
            for (position, ((input, given), shape)) in given.enumerate() {
                if let Some(tensor) = given {
                    tensors.push(tensor.clone());
                    continue;
                }
                let ends = self.ends.get(&input.name).copied();
                let changes = choice.changes.iter().filter(|change| change.input == position);
                let set = (choice.index, &choice.lengths);
                let tensor = self.made_up.with(set, position, &shapes, |role| {
                    let tensor = generator.tensor(position, input.ty, shape, ends, role)?;
                    changed(tensor, input.ty, ends, role, changes.map(|change| &change.kind))
                });
                tensors.push(at(format!("input `{}`", input.name), tensor.map(Arc::new))?);
            }
            Ok(tensors)
        };
        about(ProblemKind::Input, made())
    }

    /// The dimensions whose sizes a search may change: their places, parts, and what a size is a
    /// multiple of.
    pub(crate) fn free_sizes(&self) -> Vec<(usize, DimensionKind, usize)> {
        self.made_up.free()
    }

    /// The inputs whose values a search may change, and whether it may scale them.
    pub(crate) fn changeable(&self) -> Vec<(usize, bool)> {
        let all = self.inputs.iter().zip(&self.given).enumerate();
        let free = all.filter(|(position, (input, given))| {
            given.is_none() && is_changeable(self.made_up.role(*position), input.ty)
        });
        free.map(|(position, (input, _))| {
            let ends = self.ends.get(&input.name).copied();
            let is_free = self.made_up.calibrated.is_none();
            (position, is_free && is_scalable(self.made_up.role(position), input.ty, ends))
        })
        .collect()
    }

    /// What a set is made of, in words.
    pub(crate) fn in_words(&self, choice: &Choice) -> String {
        let mut parts = vec![format!("seed {}", choice.seed)];
        let sizes = self.made_up.sizes_in_words(&choice.lengths);
        parts.extend((!sizes.is_empty()).then_some(sizes));
        let scale = self.scales().get(choice.index % SCALES.len()).copied().unwrap_or(1.0);
        for (position, input) in self.inputs.iter().enumerate() {
            let changes = || choice.changes.iter().filter(|change| change.input == position);
            let by = changes().find_map(|change| match change.kind {
                ValueChange::Scaled(by) => Some(by),
                ValueChange::Set { .. } => None,
            });
            let ends = self.ends.get(&input.name).copied();
            let is_scalable = is_scalable(self.made_up.role(position), input.ty, ends);
            let scale = scale * by.unwrap_or(1.0);
            if is_scalable && scale != 1.0 {
                parts.push(format!("`{}` of scale {}", input.name, Num(scale)));
            }
            let set =
                changes().filter(|change| matches!(change.kind, ValueChange::Set { .. })).count();
            if set > 0 {
                parts.push(format!("{} of values in `{}`", counted(set, "change"), input.name));
            }
        }
        parts.join(", ")
    }

    /// Whether a further set of so many elements does not cost too much, if an element costs what
    /// one of the first does.
    fn bears(&self, elements: f64) -> bool {
        let (cost, of) = self.first;
        self.further.bears(cost.on(elements / of))
    }

    /// What one more set may cost.
    pub(crate) fn room(&self) -> f64 {
        self.further.left()
    }
}

/// What `--range` says, by the input's name.
fn ranges(
    model: &Declared,
    args: &InputArgs,
    given: &[Option<Tensor>],
) -> TractResult<HashMap<String, Ends>> {
    let mut ranges = HashMap::new();
    for (name, ends) in &args.ranges {
        let place = model.inputs.iter().position(|input| input.name == *name);
        let Some(place) = place else {
            let inputs = names(model.inputs.iter().map(|input| input.name.as_str()));
            bail!("--range {name}: the model has no such input; its inputs: {inputs}");
        };
        let is_given = given.get(place).is_some_and(Option::is_some);
        ensure!(!is_given, "--range {name}: -i gives that input, so its values are not random");
        ensure!(ranges.insert(name.clone(), *ends).is_none(), "--range {name}: is given twice");
    }
    Ok(ranges)
}
