//! The sizes of symbolic dimensions that nobody sets: never 1 unless nothing else will do, a
//! different one for each symbol unless the model needs them equal, and several lengths over the
//! sets.
//!
//! Which of them have to be equal is found by trying: [`Unset::attempts`] lists plans, the first of
//! which gives each symbol a size of its own and the last of which makes all of them 1, and the
//! model runs on the first that it takes.

use tract_onnx::prelude::*;
use tract_onnx::tract_hir::infer::Factoid;

use crate::cli::input::chosen::roles::{InputRole, Role};
use crate::cli::input::declared::{Declared, Input};
use crate::cli::input::sizes::with_sizes;

/// Sides of images differ by so much.
pub(crate) const SIDE: usize = 32;
/// How many sets there are of different sizes.
pub(crate) const ROUNDS: usize = 6;
/// The set in which lengths are large, and the one in which every size is 1. In the last one
/// nothing is cached yet.
pub(crate) const LARGE: usize = 3;
const ONES: usize = 4;
/// Of so many dimensions at most, two at a time are tried to be equal.
const PAIRED: usize = 8;
/// Of how many dimensions a search changes the sizes.
const MOST_FREE: usize = 32;
/// How many parts there are.
const PARTS: usize = 6;
/// The sets of large sizes have at most so many elements in all inputs together.
const MOST_ELEMENTS: usize = 1 << 22;

/// Which sizes a set has: those of a round, save where others are forced.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Lengths {
    pub(crate) round: usize,
    /// Variables by their places, and their sizes.
    pub(crate) forced: Vec<(usize, usize)>,
}

impl Lengths {
    pub(crate) fn of(round: usize) -> Lengths {
        Lengths { round, forced: vec![] }
    }
}

/// What a dimension is of.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum DimensionKind {
    Batch,
    Length,
    /// The length of what is cached.
    Past,
    /// What is cached and what is new.
    Total,
    /// The height or the width of an image.
    Side,
    /// The length of a signal.
    Signal,
}

impl DimensionKind {
    /// The size in a set, of the dimension of this part that has so many of its kind before it.
    fn size(self, place: usize, round: usize) -> usize {
        let sizes: [usize; ROUNDS] = match self {
            DimensionKind::Batch => [2, 3, 2, 2, 1, 2],
            DimensionKind::Length | DimensionKind::Total => [7, 33, 2, 517, 1, 7],
            DimensionKind::Past => [5, 9, 3, 11, 1, 0],
            DimensionKind::Side => [64, 96, 33, 224, 1, 64],
            DimensionKind::Signal => [4000, 8000, 1600, 16_000, 1, 4000],
        };
        let size = sizes.get(round % ROUNDS).copied().unwrap_or(1);
        let step = match self {
            DimensionKind::Side => SIDE,
            DimensionKind::Signal => 160,
            DimensionKind::Batch => 1,
            _ if round % ROUNDS == 2 => 1,
            _ => 4,
        };
        if size <= 1 { size } else { size + place * step }
    }
}

/// A dimension whose size nobody sets: a symbol, or an axis without one.
#[derive(Clone)]
struct Variable {
    name: String,
    symbol: Option<Symbol>,
    part: DimensionKind,
    /// The input and the axis where it occurs first.
    at: (usize, usize),
    fixed: Option<usize>,
}

/// The dimensions of a model's inputs whose sizes nobody sets.
pub(crate) struct Unset {
    variables: Vec<Variable>,
    known: SymbolValues,
}

/// Which dimensions are equal, and how large they are.
#[derive(Clone, PartialEq)]
pub(crate) struct SizePlan {
    /// For each variable the one whose size it has.
    like: Vec<usize>,
    unit: usize,
    is_one: bool,
}

impl SizePlan {
    /// What sizes are multiples of, those of batches excepted.
    pub(crate) fn unit(&self) -> usize {
        self.unit
    }
}

impl Unset {
    /// Of inputs with these roles, of which those in `random` are made up. `other` is what the
    /// model is compared with, which may know sizes that this one leaves open.
    pub(crate) fn of(
        model: &Declared,
        taken: &[InputRole],
        random: &[bool],
        known: SymbolValues,
        other: Option<&Declared>,
    ) -> Unset {
        let mut unset = Unset { variables: vec![], known };
        let all = model.inputs.iter().zip(taken).zip(random).enumerate();
        for (place, ((input, taken), _)) in all.filter(|(_, (_, random))| **random) {
            let twin = other.and_then(|other| other.inputs.iter().find(|o| o.name == input.name));
            for (axis, declared) in input.shape.dims().enumerate() {
                let fixed = twin.and_then(|twin| twin.size(axis));
                unset.add(input, taken, (place, axis), declared.concretize(), fixed);
            }
        }
        unset.lengthen_batches();
        unset
    }

    fn add(
        &mut self,
        input: &Input,
        taken: &InputRole,
        at: (usize, usize),
        declared: Option<TDim>,
        fixed: Option<usize>,
    ) {
        let Some(declared) = declared else {
            let (name, part) = (format!("{}[{}]", input.name, at.1), part("", input, taken, at.1));
            self.variables.push(Variable { name, symbol: None, part, at, fixed });
            return;
        };
        let is_bare = matches!(declared, TDim::Sym(_));
        for symbol in declared.symbols() {
            if self.known.get(&symbol).is_some() {
                continue;
            }
            let name = symbol.to_string();
            let is_it = |variable: &&mut Variable| variable.symbol.as_ref() == Some(&symbol);
            if let Some(variable) = self.variables.iter_mut().find(is_it) {
                variable.fixed = variable.fixed.or(fixed.filter(|_| is_bare));
                continue;
            }
            let part = part(&name, input, taken, at.1);
            let fixed = fixed.filter(|_| is_bare);
            self.variables.push(Variable { name, symbol: Some(symbol), part, at, fixed });
        }
    }

    /// Where there is no length but a batch, the batch is what faults may show along.
    fn lengthen_batches(&mut self) {
        if self.variables.iter().all(|variable| variable.part == DimensionKind::Batch) {
            self.variables.iter_mut().for_each(|variable| variable.part = DimensionKind::Length);
        }
    }

    /// Whether all sizes are set.
    pub(crate) fn is_empty(&self) -> bool {
        self.variables.iter().all(|variable| variable.fixed.is_some())
    }

    /// Plans in the order in which they are tried.
    pub(crate) fn attempts(&self) -> Vec<SizePlan> {
        let count = self.variables.len();
        let plan = |like: Vec<usize>| SizePlan { like, unit: 1, is_one: false };
        let first_like = |alike: &dyn Fn(&Variable, &Variable) -> bool| -> Vec<usize> {
            let first = |one: &Variable| self.variables.iter().position(|other| alike(one, other));
            self.variables.iter().enumerate().map(|(i, one)| first(one).unwrap_or(i)).collect()
        };
        let distinct: Vec<usize> = (0..count).collect();
        let is_same = |a: &Variable, b: &Variable| a.name == b.name;
        let by_axis = first_like(&|a, b| {
            let is_bare = a.symbol.is_none() && b.symbol.is_none();
            is_same(a, b) || is_bare && a.at.1 == b.at.1 && a.part == b.part
        });
        let by_part = first_like(&|a, b| is_same(a, b) || a.part == b.part);
        let all = first_like(&|a, b| {
            is_same(a, b) || (a.part == DimensionKind::Side) == (b.part == DimensionKind::Side)
        });
        let mut plans = vec![plan(distinct.clone()), plan(by_axis.clone()), plan(by_part.clone())];
        let paired = if count <= PAIRED { count } else { 0 };
        for (one, other) in (0..paired).flat_map(|one| (0..one).map(move |other| (one, other))) {
            let like = by_axis.iter().map(|like| if *like == one { other } else { *like });
            plans.push(plan(like.collect()));
        }
        plans.push(plan(all.clone()));
        for unit in [8, 32] {
            plans.extend(
                [&by_axis, &by_part, &all].map(|like| SizePlan { unit, ..plan(like.clone()) }),
            );
        }
        plans.push(SizePlan { is_one: true, ..plan(distinct) });
        let mut tried: Vec<SizePlan> = vec![];
        plans.into_iter().for_each(|plan| {
            if !tried.contains(&plan) {
                tried.push(plan);
            }
        });
        tried
    }

    /// The sizes of the variables in a set.
    fn sizes(&self, plan: &SizePlan, lengths: &Lengths) -> Vec<usize> {
        let round = lengths.round;
        let mut own = vec![1; self.variables.len()];
        let mut fixed: Vec<Option<usize>> = vec![None; self.variables.len()];
        let mut alike = vec![0usize; self.variables.len()];
        let mut of_part = [0usize; PARTS];
        for (place, (variable, like)) in self.variables.iter().zip(&plan.like).enumerate() {
            if let (Some(count), Some(fixed)) = (alike.get_mut(*like), fixed.get_mut(*like)) {
                *count += 1;
                *fixed = fixed.or(variable.fixed);
            }
            let (Some(nth), Some(own)) =
                (of_part.get_mut(variable.part as usize), own.get_mut(place))
            else {
                continue;
            };
            let unit = match variable.part {
                DimensionKind::Batch => 1,
                _ if round % ROUNDS == ONES => 1,
                _ => plan.unit,
            };
            *own = variable.part.size(*nth, round) * unit;
            *nth += usize::from(*like == place);
        }
        for (place, size) in &lengths.forced {
            let is_free = fixed.get(*place) == Some(&None) && !plan.is_one;
            if let Some(own) = own.get_mut(*place).filter(|_| is_free) {
                *own = *size;
            }
        }
        let first = |part: DimensionKind| {
            let place = self.variables.iter().position(|variable| variable.part == part)?;
            let like = *plan.like.get(place)?;
            fixed.get(like).copied().flatten().or(own.get(like).copied())
        };
        let size = |like: &usize| {
            let is_alone = alike.get(*like) == Some(&1);
            let is_forced = lengths.forced.iter().any(|(place, _)| place == like);
            let part = self.variables.get(*like).map(|variable| variable.part);
            match fixed.get(*like).copied().flatten() {
                Some(fixed) => fixed,
                None if plan.is_one => 1,
                None if part == Some(DimensionKind::Total) && is_alone && !is_forced => {
                    first(DimensionKind::Length).unwrap_or(1)
                        + first(DimensionKind::Past).unwrap_or(0)
                }
                None => own.get(*like).copied().unwrap_or(1),
            }
        };
        plan.like.iter().map(size).collect()
    }

    /// The dimensions whose sizes can be others, by their places: a place for those that are equal.
    pub(crate) fn free(&self, plan: &SizePlan) -> Vec<(usize, DimensionKind)> {
        let is_fixed = |place: usize| {
            let mut alike = self.variables.iter().zip(&plan.like);
            alike.any(|(variable, like)| *like == place && variable.fixed.is_some())
        };
        let roots = self.variables.iter().enumerate().zip(&plan.like);
        let roots = roots.filter(|((place, _), like)| place == *like && !plan.is_one);
        let free = roots.filter(|((place, variable), _)| {
            variable.part != DimensionKind::Total && !is_fixed(*place)
        });
        free.take(MOST_FREE).map(|((place, variable), _)| (place, variable.part)).collect()
    }

    /// The shapes of inputs in a set, those that are given excepted. Fails as [`with_sizes`] does.
    pub(crate) fn shapes(
        &self,
        inputs: &[Input],
        is_given: impl Fn(usize) -> bool,
        plan: &SizePlan,
        lengths: &Lengths,
    ) -> TractResult<Vec<TractResult<Vec<usize>>>> {
        let sizes = self.sizes(plan, lengths);
        let mut symbols = self.known.clone();
        for (variable, size) in self.variables.iter().zip(&sizes) {
            if let Some(symbol) = &variable.symbol {
                symbols.set(symbol, i64::try_from(*size)?);
            }
        }
        let shape = |(place, input): (usize, &Input)| {
            let open = |axis: usize| {
                let mut all = self.variables.iter().zip(&sizes);
                let found = all.find(|(variable, _)| {
                    variable.symbol.is_none() && variable.at == (place, axis)
                });
                found.map_or(1, |(_, size)| *size)
            };
            if is_given(place) { Ok(vec![]) } else { with_sizes(&input.shape, &symbols, open) }
        };
        Ok(inputs.iter().enumerate().map(shape).collect())
    }

    /// Whether inputs of these shapes are made for a set: those of a large one may be too many.
    pub(crate) fn is_bearable(lengths: &Lengths, shapes: &[Vec<usize>]) -> bool {
        let elements = |shape: &Vec<usize>| {
            shape.iter().try_fold(1usize, |elements, size| elements.checked_mul(*size))
        };
        let all = shapes.iter().map(elements).try_fold(0usize, |all, more| all.checked_add(more?));
        let is_usual = lengths.round % ROUNDS != LARGE && lengths.forced.is_empty();
        is_usual || all.is_some_and(|all| all <= MOST_ELEMENTS)
    }

    /// The smallest length of a set.
    pub(crate) fn shortest(&self, plan: &SizePlan, lengths: &Lengths) -> Option<usize> {
        let sizes = self.sizes(plan, lengths);
        let lengths = self.variables.iter().zip(sizes);
        lengths
            .filter(|(variable, _)| variable.part == DimensionKind::Length)
            .map(|(_, size)| size)
            .min()
    }

    /// The sizes that were taken in these sets, by the names of the dimensions.
    pub(crate) fn taken(&self, plan: &SizePlan, sets: &[Lengths]) -> Vec<(String, Vec<usize>)> {
        let by_set: Vec<Vec<usize>> = sets.iter().map(|set| self.sizes(plan, set)).collect();
        let of = |place: usize| by_set.iter().filter_map(move |sizes| sizes.get(place).copied());
        let named = self.variables.iter().enumerate();
        named.map(|(place, variable)| (variable.name.clone(), of(place).collect())).collect()
    }
}

/// What a dimension is of, by its symbol's name, by what its input is taken for, and by where it
/// is.
fn part(symbol: &str, input: &Input, taken: &InputRole, axis: usize) -> DimensionKind {
    let name = symbol.to_ascii_lowercase();
    let rank = input.rank().unwrap_or(0);
    let has = |words: &[&str]| words.iter().any(|word| name.contains(word));
    let is_picture = rank == 4
        && (matches!(taken.role, Role::Within { .. } | Role::WholeType)
            || taken.role == Role::Plain && has_open_sides(input));
    let is_of_channels = |axis| input.size(axis).is_some();
    let is_sound = taken.role == (Role::Within { low: -1.0, high: 1.0 });
    match () {
        () if has(&["batch", "bs"]) || matches!(name.as_str(), "n" | "b") => DimensionKind::Batch,
        () if has(&["total"]) => DimensionKind::Total,
        () if has(&["past", "cache"]) => DimensionKind::Past,
        () if has(&["height", "width"]) => DimensionKind::Side,
        () if axis == 0 && rank > 1 && (name.is_empty() || name.starts_with("unk_")) => {
            DimensionKind::Batch
        }
        () if is_picture && has(&["seq", "len", "time", "frame", "tok"]) => DimensionKind::Length,
        // Of an image whose sizes are all open the second are its channels.
        () if is_picture && axis == 1 && !is_of_channels(1) && !is_of_channels(3) => {
            DimensionKind::Batch
        }
        () if axis > 0 && is_picture => DimensionKind::Side,
        () if is_sound && axis > 0 => DimensionKind::Signal,
        () if matches!(taken.role, Role::Cache { .. }) && name.is_empty() && axis == 2 => {
            DimensionKind::Past
        }
        () => DimensionKind::Length,
    }
}

/// Whether the two sides of an image are open, if an input is one: behind the channels, or before
/// them.
fn has_open_sides(input: &Input) -> bool {
    let is_open = |axis| input.size(axis).is_none();
    is_open(2) && (is_open(3) || is_open(1) && matches!(input.size(3), Some(1 | 3 | 4)))
}
