//! A search for the inputs that show the most: from the sets that were chosen it climbs towards
//! those of the largest error, and of the least headroom, by changing sizes, scales, seeds,
//! patterns and single values, within what inputs were taken for.

use std::time::Instant;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tract_onnx::prelude::{TractError, TractResult};

use super::change::{Choice, InputChange, TargetNumber, ValueChange};
use super::price::{Price, SECOND};
use super::size_plan::{DimensionKind, Lengths, ROUNDS};
use super::values::SCALES;
use crate::cli::found::look::LookFurther;
use crate::cli::input::args::Budget;
use crate::cli::input::recipe::Recipe;
use crate::cli::measure::number::Num;
use crate::cli::tensor::Tensors;

/// What a set shows.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Score {
    /// The relative error of the worst output; infinite where NaN, infinities or shapes differ, or
    /// one side alone runs.
    pub(crate) error: f64,
    /// The largest share that values have of what a type holds.
    pub(crate) reach: f64,
}

/// Runs sets.
pub(crate) trait Judge {
    /// What a set shows; `None` where the model does not take it, or both models cost more than
    /// they may. Fails where memory ends.
    fn score(&mut self, tensors: Tensors, price: &mut Price) -> TractResult<Option<Score>>;

    /// How far the reference moves, as [`Score::error`], where its inputs move by a relative error.
    /// Fails where memory ends.
    fn moved(&mut self, tensors: Tensors, by: f64, price: &mut Price) -> TractResult<f64>;

    /// Whether a set has shown already what fails the models.
    fn has_failed(&self) -> bool;
}

/// What was found.
pub(crate) struct Searched {
    /// How many runs there were.
    pub(crate) steps: usize,
    /// Whether time ended it.
    pub(crate) is_cut: bool,
    /// The largest error and the largest reach of the sets that it began with.
    pub(crate) before: Score,
    /// What is worth a set of its own, the gravest first.
    pub(crate) found: Vec<(Choice, Score)>,
}

impl Searched {
    /// The same, as reports have it.
    pub(crate) fn look_further(&self, recipe: &Recipe) -> LookFurther {
        let told = |(choice, score): &(Choice, Score)| {
            let what = if score.error > self.before.error {
                format!("a relative error of {}", Num(score.error))
            } else {
                format!("values at {:.0} % of what a type holds", 100.0 * score.reach)
            };
            format!("{what} ({})", recipe.in_words(choice))
        };
        LookFurther {
            steps: self.steps,
            is_cut: self.is_cut,
            error_before: Num(self.before.error),
            found: self.found.iter().map(told).collect(),
        }
    }
}

/// What a search may cost, and what a run may that is made for it.
const MOST: f64 = 4.0 * SECOND;
const SLOW: f64 = SECOND;
/// Runs without a record after which a search ends.
const PATIENCE: usize = 80;
/// A record is so many times as large as the one before.
const BETTER: f64 = 1.05;
/// What is told and judged has so many times the error of the sets before, whichever the seed: one
/// rounding in another direction does not last.
const LASTING: f64 = 3.0;
/// Beside errors that were there before, a smaller one is no more than imprecise.
const GRAVE: f64 = 0.05;
/// Lengths beyond those of the sets, tried one after the other, and the next smaller ones for
/// tables that end there.
const LONG: [[usize; 2]; 2] = [[1025, 1024], [2049, 2048]];
/// Sizes that are tried, about the powers of 2.
const LENGTHS: [usize; 18] =
    [1, 2, 3, 4, 8, 9, 15, 16, 17, 31, 64, 65, 127, 128, 129, 256, 513, 1025];
/// Inputs move by so much at most, to see whether the reference's results hold.
const FICKLE: f64 = 4e-3;
/// The share of the price after which nothing new is tried.
const CLIMBING: f64 = 0.8;

/// Searches from so many sets on. Fails where memory ends, but at sizes that no set has.
pub(crate) fn search(
    recipe: &Recipe,
    (sets, seed): (usize, u64),
    budget: Budget,
    judge: &mut dyn Judge,
) -> TractResult<Option<Searched>> {
    let mut climb = Climb {
        recipe,
        budget,
        judge,
        start: Instant::now(),
        steps: 0,
        spent: 0.0,
        largest: 0.0,
        idle: 0,
        rng: StdRng::seed_from_u64(seed ^ 0x5ea2c4),
        known: vec![],
        records: vec![],
        ended: None,
    };
    let searched = climb.searched(sets, seed);
    climb.ended.map_or(Ok(searched), Err)
}

fn largest(all: &[(Choice, Score)], of: impl Fn(&Score) -> f64) -> f64 {
    all.iter().map(|(_, score)| of(score)).fold(0.0, f64::max)
}

struct Climb<'a> {
    recipe: &'a Recipe,
    budget: Budget,
    judge: &'a mut dyn Judge,
    start: Instant,
    steps: usize,
    /// What the runs have cost, and the largest of them.
    spent: f64,
    largest: f64,
    /// Runs since the last record.
    idle: usize,
    rng: StdRng,
    /// The sets that it began with.
    known: Vec<(Choice, Score)>,
    /// What had the largest error, or the largest reach, when it was found.
    records: Vec<(Choice, Score)>,
    /// That memory has ended.
    ended: Option<TractError>,
}

impl Climb<'_> {
    /// What is found; nothing where the models are slow and nobody has said how long it may take.
    fn searched(&mut self, sets: usize, seed: u64) -> Option<Searched> {
        for index in 0..sets {
            let choice = self.recipe.choice(index, seed.wrapping_add(index as u64));
            if self.is_over() {
                break;
            }
            if let Some(score) = self.run(&choice) {
                self.known.push((choice, score));
            }
            if index == 0 && self.budget.time.is_none() && self.largest > SLOW {
                return None;
            }
        }
        let before = Score {
            error: largest(&self.known, |score| score.error),
            reach: largest(&self.known, |score| score.reach),
        };
        if self.known.is_empty() || before.error >= 1.0 || self.judge.has_failed() {
            // What is wrong beyond measure shows already.
            let (steps, is_cut) = (self.steps, false);
            return Some(Searched { steps, is_cut, before, found: vec![] });
        }
        self.records = vec![(self.known.first().cloned()?.0, before)];
        self.go_flat();
        self.go_far();
        self.go_on();
        let found = self.lasting(before);
        let is_cut = self.is_late() && self.budget.time.is_some();
        Some(Searched { steps: self.steps, is_cut, before, found })
    }

    /// What all runs may cost. Where somebody has said how long they may take, that is told by how
    /// long those so far took.
    fn most(&self) -> f64 {
        let Some(time) = self.budget.time else { return MOST };
        let rate = self.spent / self.start.elapsed().as_secs_f64();
        if self.spent > 0.0 { time.as_secs_f64() * rate } else { f64::INFINITY }
    }

    fn is_late(&self) -> bool {
        self.spent + 2.0 * self.largest > self.most()
    }

    /// Whether what is left is for what is to be confirmed.
    fn is_over(&self) -> bool {
        self.spent + 2.0 * self.largest > CLIMBING * self.most()
            || self.steps >= self.budget.steps
            || self.ended.is_some()
    }

    fn run(&mut self, choice: &Choice) -> Option<Score> {
        let is_new = choice.lengths != self.recipe.choice(choice.index, choice.seed).lengths;
        let left = (self.most() - self.spent).max(0.0);
        // What is found is a set more.
        let is_bounded = is_new && self.budget.time.is_none();
        let most = if is_bounded { left.min(2.0 * self.recipe.room()) } else { left };
        let tensors = self.recipe.tensors_of(choice).ok()?;
        self.steps += 1;
        let score = self.priced(most, |judge, price| judge.score(tensors, price));
        // Sizes that nobody has asked for may be too large, as they may cost too much.
        let score = if is_new { score.ok() } else { self.known_or_ended(score) };
        score.flatten()
    }

    /// The result, unless memory has ended.
    fn known_or_ended<T>(&mut self, result: TractResult<T>) -> Option<T> {
        result.map_err(|error| self.ended = Some(error)).ok()
    }

    /// Runs for no more than so much, and counts it.
    fn priced<T>(&mut self, most: f64, run: impl FnOnce(&mut dyn Judge, &mut Price) -> T) -> T {
        let mut price = Price::up_to(most);
        let made = run(&mut *self.judge, &mut price);
        self.spent += price.spent;
        self.largest = self.largest.max(price.spent);
        made
    }

    /// Runs what was changed, and keeps it if it is a record.
    fn attempt(&mut self, choice: Choice) -> Option<Score> {
        self.idle += 1;
        let score = self.run(&choice)?;
        let is_record = |of: fn(&Score) -> f64| of(&score) > BETTER * largest(&self.records, of);
        if is_record(|score| score.error) || is_record(|score| score.reach) {
            self.records.push((choice, score));
            self.idle = 0;
        }
        Some(score)
    }

    /// Long sets first: that is where most hides that small sets do not show.
    fn go_far(&mut self) {
        let free = self.recipe.free_sizes();
        let of_length =
            |part: &DimensionKind| matches!(part, DimensionKind::Length | DimensionKind::Past);
        let lengths: Vec<_> = free.iter().filter(|(_, part, _)| of_length(part)).collect();
        let seed = self.known.first().map_or(0, |(choice, _)| choice.seed);
        for sizes in LONG.iter().filter(|_| !lengths.is_empty()) {
            let runs = |climb: &mut Self, size: &usize| {
                let forced = |(nth, (place, _, unit)): (usize, &&(usize, DimensionKind, usize))| {
                    (*place, size.saturating_add(4 * nth).saturating_mul(*unit))
                };
                let forced: Vec<_> = lengths.iter().enumerate().map(forced).collect();
                let lengths = Lengths { round: 0, forced };
                let choice = Choice { index: 0, seed, lengths, changes: vec![] };
                !climb.is_over() && climb.attempt(choice).is_some()
            };
            if !sizes.iter().any(|size| runs(self, size)) {
                return;
            }
        }
    }

    /// All numbers one: what is left of a norm, or of a ratio, where there is nothing.
    fn go_flat(&mut self) {
        let Some((mut choice, _)) = self.known.first().cloned() else { return };
        let inputs = self.recipe.changeable().into_iter();
        let kind = ValueChange::Set { start: 0.0, share: 1.0, to: TargetNumber::Level(0) };
        let flat = inputs.filter(|(_, is_number)| *is_number);
        choice.changes.extend(flat.map(|(input, _)| InputChange { input, kind }));
        if !choice.changes.is_empty() && !self.is_over() {
            self.attempt(choice);
        }
    }

    fn go_on(&mut self) {
        self.idle = 0;
        while !self.is_over() && self.idle < PATIENCE {
            let parent = self.parent();
            let Some(mut choice) = parent else { return };
            for _ in 0..self.rng.random_range(1..=2) {
                self.change(&mut choice);
            }
            self.attempt(choice);
        }
    }

    /// A record mostly, else one of the sets that it began with.
    fn parent(&mut self) -> Option<Choice> {
        let from = if self.rng.random_bool(0.6) { &self.records } else { &self.known };
        let recent = from.len().min(4);
        let place = from.len() - 1 - self.rng.random_range(0..recent.max(1)).min(from.len() - 1);
        from.get(place).map(|(choice, _)| choice.clone())
    }

    fn change(&mut self, choice: &mut Choice) {
        let (free, inputs) = (self.recipe.free_sizes(), self.recipe.changeable());
        match self.rng.random_range(0..10) {
            0 => choice.seed = u64::from(self.rng.random::<u32>()),
            1 => choice.index = self.rng.random_range(0..SCALES.len() * 2),
            2 | 3 if !free.is_empty() => {
                let Some((place, part, unit)) = self.one_of(&free) else { return };
                let size = self.size(part).saturating_mul(unit);
                choice.lengths.forced.retain(|(other, _)| *other != place);
                choice.lengths.forced.push((place, size));
            }
            _ if inputs.is_empty() => choice.seed = u64::from(self.rng.random::<u32>()),
            kind => {
                let Some((input, is_scalable)) = self.one_of(&inputs) else { return };
                let is_scaled = kind < 6 && is_scalable;
                let kind = if is_scaled { self.scaled(choice) } else { self.set() };
                let is_same = |change: &InputChange| {
                    change.input == input && matches!(change.kind, ValueChange::Scaled(_))
                };
                choice.changes.retain(|change| !(is_scaled && is_same(change)));
                choice.changes.push(InputChange { input, kind });
            }
        }
        choice.lengths.round %= ROUNDS;
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> Option<T> {
        all.get(self.rng.random_range(0..all.len().max(1))).copied()
    }

    fn size(&mut self, part: DimensionKind) -> usize {
        match part {
            DimensionKind::Batch => self.rng.random_range(1..=9),
            DimensionKind::Side if self.rng.random_bool(0.3) => self.rng.random_range(17..=200),
            DimensionKind::Side => 32 * self.rng.random_range(1..=12),
            DimensionKind::Signal => 160 * self.rng.random_range(1..=200),
            _ => self.one_of(&LENGTHS).unwrap_or(1),
        }
    }

    /// Another scale, between the smallest and the largest that sets have.
    fn scaled(&mut self, choice: &Choice) -> ValueChange {
        let scales = self.recipe.scales();
        let own = scales.get(choice.index % SCALES.len()).copied().unwrap_or(1.0);
        let (low, high) = scales.iter().fold((own, own), |(l, h), s| (l.min(*s), h.max(*s)));
        let wanted = low * (high / low).powf(self.rng.random::<f64>());
        ValueChange::Scaled(wanted / own)
    }

    fn set(&mut self) -> ValueChange {
        // Ends and middles are where cases part, and what values are compared with.
        let to = match self.rng.random_range(0..6) {
            0 => TargetNumber::Between(0.0),
            1 => TargetNumber::Between(0.5),
            2 => TargetNumber::Between(1.0),
            3 => TargetNumber::Level(self.rng.random_range(0..64)),
            _ => TargetNumber::Between(self.rng.random()),
        };
        // A single value, or a run of a few.
        let share = if self.rng.random() { 0.0 } else { 0.3 * self.rng.random::<f64>() };
        ValueChange::Set { start: self.rng.random(), share, to }
    }

    /// Whether an error no larger than those before, in what the reference takes, moves its results
    /// about as far.
    fn is_fickle(&mut self, choice: &Choice, score: Score, before: Score) -> bool {
        let by = before.error.clamp(f64::from(f32::EPSILON), FICKLE);
        let Ok(tensors) = self.recipe.tensors_of(choice) else { return true };
        if self.is_late() {
            return true;
        }
        self.steps += 1;
        let moved = |judge: &mut dyn Judge, price: &mut Price| judge.moved(tensors, by, price);
        let moved = self.priced(f64::INFINITY, moved).unwrap_or(f64::INFINITY);
        score.error.is_finite() && moved > score.error / 8.0
    }

    /// The records that are worth it: any error where there was none before; else what is far
    /// worse, whichever the seed.
    fn lasting(&mut self, before: Score) -> Vec<(Choice, Score)> {
        let mut by_error: Vec<(Choice, Score)> = self.records.iter().skip(1).cloned().collect();
        let mut by_reach = by_error.clone();
        by_error.sort_by(|(_, a), (_, b)| b.error.total_cmp(&a.error));
        by_reach.sort_by(|(_, a), (_, b)| b.reach.total_cmp(&a.reach));
        let least = if before.error == 0.0 { 0.0 } else { GRAVE.max(LASTING * before.error) };
        let worse = |score: &Score| score.error > least;
        let mut found = vec![];
        for (choice, score) in by_error.into_iter().filter(|(_, score)| worse(score)).take(3) {
            let lasts = |climb: &mut Self, by: u64| {
                let other = Choice { seed: choice.seed.wrapping_add(by), ..choice.clone() };
                climb.run(&other).is_some_and(|score| worse(&score))
            };
            let is_lasting = before.error == 0.0
                || lasts(self, 1001)
                    && lasts(self, 2003)
                    && !self.is_fickle(&choice, score, before);
            if is_lasting {
                found.push((choice, score));
                break;
            }
        }
        let is_new = |choice: &Choice| found.iter().all(|(other, _)| other != choice);
        let closest = by_reach.into_iter().find(|(choice, score)| {
            is_new(choice) && score.reach > before.reach * 1.2 && score.reach > 0.5
        });
        // Values that a type does not hold are an error, which must last as well.
        found.extend(closest.filter(|(_, score)| score.error.is_finite()));
        found
    }
}
