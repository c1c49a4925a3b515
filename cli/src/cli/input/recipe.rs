//! One tensor for each input of a model: what `-i` gives, and random values for the rest.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{bail, ensure};
use tract_onnx::pb::ModelProto;
use tract_onnx::prelude::*;

use crate::cli::args::input::InputArgs;
use crate::cli::found::look::Look;
use crate::cli::input::chosen::made_up::MadeUp;
use crate::cli::input::chosen::random::{Ends, Generator};
use crate::cli::input::chosen::size_plan::ROUNDS;
use crate::cli::input::declared::{Declared, Input};
use crate::cli::input::given::Given;
use crate::cli::input::sizes;
use crate::cli::tensor::NamedTensor;

/// How long sizes are tried.
const TRYING: Duration = Duration::from_millis(2500);
use crate::cli::message::{ErrorKind, about, at};

/// A model whose inputs are wanted, and what helps to choose those that nobody gives.
pub(crate) struct Source<'a> {
    pub(crate) takes: &'a Declared,
    pub(crate) proto: &'a ModelProto,
    /// What the model is compared with takes.
    pub(crate) other: Option<&'a Declared>,
    /// Runs the model.
    pub(crate) run: &'a dyn Fn(Vec<Arc<Tensor>>) -> TractResult<Vec<NamedTensor>>,
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
}

impl Recipe {
    /// Of what the arguments give, and of so many sets otherwise.
    ///
    /// # Errors
    ///
    /// When a given array is not what the model declares, names no input or an input twice, or
    /// sizes contradict each other.
    pub(crate) fn of(
        source: &Source,
        args: &InputArgs,
        given: Given,
        sets: usize,
    ) -> TractResult<Recipe> {
        let model = source.takes;
        let read = || {
            let Given { tensors: given, notes, .. } = given;
            let ends = ranges(model, args, &given)?;
            let places = model.inputs.iter().zip(&given).filter(|(_, given)| given.is_none());
            let random: Vec<String> = places.map(|(input, _)| input.name.clone()).collect();
            let shapes: Vec<Option<&[usize]>> =
                given.iter().map(|tensor| tensor.as_ref().map(|tensor| tensor.shape())).collect();
            let sizes = sizes::find(model, &args.sizes, &shapes)?;
            let is_random: Vec<bool> = given.iter().map(Option::is_none).collect();
            let made_up = MadeUp::of(source, &is_random, sizes);
            let given = given.into_iter().map(|tensor| tensor.map(Arc::new)).collect();
            Ok(Recipe { inputs: model.inputs.clone(), given, ends, made_up, random, notes })
        };
        let mut recipe = about(ErrorKind::Input, read())?;
        if !recipe.random.is_empty() {
            recipe.settle(source, args.seed, sets);
        }
        Ok(recipe)
    }

    /// Chooses the sizes by trying: those of the first plan on which the model runs, and then those of further sets on which it does.
    fn settle(&mut self, source: &Source, seed: u64, sets: usize) {
        if !self.made_up.has_choice() {
            return;
        }
        let start = Instant::now();
        let is_late = || start.elapsed() > TRYING;
        let mut plans = self.made_up.attempts().into_iter().peekable();
        while let Some(plan) = plans.next() {
            if is_late() && plans.peek().is_some() {
                continue;
            }
            self.made_up.plan = plan;
            if let Ok(outputs) = self.tensors(0, seed).and_then(source.run) {
                self.made_up.remember(outputs);
                break;
            }
        }
        for round in 1..ROUNDS.min(sets) {
            let set = seed.wrapping_add(round as u64);
            if !is_late() && self.made_up.is_new(round) {
                self.made_up.rounds.push(round);
                let place = self.made_up.rounds.len() - 1;
                if self.tensors(place, set).and_then(source.run).is_err() {
                    self.made_up.rounds.pop();
                }
            }
        }
    }

    /// The shapes of all inputs in a set.
    ///
    /// # Errors
    ///
    /// As [`Recipe::tensors`].
    pub(crate) fn shapes(&self, index: usize) -> TractResult<Vec<Vec<usize>>> {
        self.made_up.shapes(&self.inputs, &self.given, index)
    }

    /// How many sets differ in their sizes.
    pub(crate) fn rounds(&self) -> usize {
        self.made_up.rounds.len()
    }

    /// What was chosen for so many sets.
    pub(crate) fn look(&self, sets: usize) -> Look {
        let is_free = |name: &String| !self.ends.contains_key(name);
        self.made_up.look(&self.inputs, &|name| self.random.contains(name) && is_free(name), sets)
    }

    /// A tensor for each input, the random ones those of a set and of its seed.
    ///
    /// # Errors
    ///
    /// When an input has no known number of dimensions, or a type does not hold what is wanted of
    /// it.
    pub(crate) fn tensors(&self, index: usize, seed: u64) -> TractResult<Vec<Arc<Tensor>>> {
        let mut generator = Generator::new(seed);
        let mut made = || {
            let shapes = self.shapes(index)?;
            let mut tensors = vec![];
            let given = self.inputs.iter().zip(&self.given).zip(&shapes);
            for (position, ((input, given), shape)) in given.enumerate() {
                if let Some(tensor) = given {
                    tensors.push(tensor.clone());
                    continue;
                }
                let ends = self.ends.get(&input.name).copied();
                let tensor = self.made_up.with(index, position, &shapes, |role| {
                    generator.tensor(position, input.ty, shape, ends, role)
                });
                tensors.push(at(format!("input `{}`", input.name), tensor.map(Arc::new))?);
            }
            Ok(tensors)
        };
        about(ErrorKind::Input, made())
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
            let names: Vec<&str> = model.inputs.iter().map(|i| i.name.as_str()).collect();
            bail!("--range {name}: the model has no such input, but {names:?}");
        };
        let is_given = given.get(place).is_some_and(Option::is_some);
        ensure!(!is_given, "--range {name}: -i gives that input, so its values are not random");
        ensure!(ranges.insert(name.clone(), *ends).is_none(), "--range {name}: is given twice");
    }
    Ok(ranges)
}
