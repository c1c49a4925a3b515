//! What is chosen of inputs that nobody gives: what they are taken for, their sizes, and what
//! caches hold.

use std::sync::Arc;

use tract_onnx::prelude::*;

use crate::cli::found::look::{DimensionSizes, InputLook, LookedAt};
use crate::cli::input::chosen::random::check_size;
use crate::cli::input::chosen::roles::{self, Bound, InputRole, Role};
use crate::cli::input::chosen::size_plan::{DimensionKind, LARGE, Lengths, SIDE, SizePlan, Unset};
use crate::cli::input::chosen::values::{Setting, scales};
use crate::cli::input::declared::Input;
use crate::cli::input::source::Source;
use crate::cli::message::at;
use crate::cli::tensor::NamedTensor;

/// Large lengths of models that take none so large, the second that of a table of 512 with what is
/// cached before, and sides of images beside them.
const SMALLER: [(usize, usize); 5] = [(512, 192), (501, 160), (256, 128), (128, 128), (64, 96)];
/// How many sizes are told of a set.
const TOLD: usize = 6;

/// What is chosen.
pub(crate) struct MadeUp {
    taken: Vec<InputRole>,
    unset: Unset,
    pub(crate) plan: SizePlan,
    /// The sizes of each set, over and over.
    pub(crate) rounds: Vec<Lengths>,
    /// The sizes of rounds that cost too much.
    left_out: Vec<String>,
    /// What outputs held that are caches when they come in again.
    held: Vec<NamedTensor>,
    /// Whether large numbers spoil the model's outputs, and whether what is seldom given does.
    pub(crate) is_tame: bool,
    pub(crate) is_usual: bool,
    /// Whether all of a row may be masked: nothing makes shares of what is left of it.
    hides_rows: bool,
    /// The scale for which what the model is compared with was calibrated.
    pub(crate) calibrated: Option<f64>,
}

/// What the inputs are taken for; what numbers are by what the model is compared with, whose
/// quantisers know what they were calibrated with. Those of the model itself are a part of what is
/// looked at, beyond their range too.
fn roles(source: &Source) -> Vec<InputRole> {
    let mut taken = roles::of(source.proto, source.takes, false);
    let Some((takes, proto)) = source.other else { return taken };
    let is_open = |role: &Role| matches!(role, Role::Plain | Role::Within { .. });
    if taken.iter().any(|taken| is_open(&taken.role)) {
        let [mut others, without] = [true, false].map(|held| roles::of(proto, takes, held));
        let own = roles::of(source.proto, source.takes, true);
        let is_held = |place: usize, role: &Role| {
            without.get(place).is_some_and(|without| without.role != *role)
        };
        for ((input, taken), own) in source.takes.inputs.iter().zip(&mut taken).zip(&own) {
            let place = takes.inputs.iter().position(|other| other.name == input.name);
            let other = place.and_then(|place| {
                let other = others.get_mut(place)?;
                is_held(place, &other.role).then_some(other)
            });
            if let Some(other) = other.filter(|other| matches!(other.role, Role::Within { .. }))
                && is_open(&taken.role)
                && own.role == taken.role
            {
                let levels = std::mem::take(&mut taken.levels);
                *taken = InputRole { levels, ..std::mem::replace(other, InputRole::plain()) };
            }
        }
    }
    taken
}

impl MadeUp {
    /// Of those inputs that are random, with what is known of sizes.
    pub(crate) fn of(source: &Source, random: &[bool], known: SymbolValues) -> MadeUp {
        let is_random = random.iter().any(|random| *random);
        let taken = if is_random {
            roles(source)
        } else {
            random.iter().map(|_| InputRole::plain()).collect()
        };
        let hides_rows = is_random && !roles::has_shares(source.proto);
        let other = source.other.map(|(takes, _)| takes);
        let unset = Unset::of(source.takes, &taken, random, known, other);
        let plan = unset.attempts().swap_remove(0);
        let rounds = vec![Lengths::default()];
        MadeUp {
            taken,
            unset,
            plan,
            rounds,
            left_out: vec![],
            held: vec![],
            is_tame: false,
            is_usual: false,
            hides_rows,
            calibrated: None,
        }
    }

    /// The plans of sizes, in the order in which they are tried.
    pub(crate) fn attempts(&self) -> Vec<SizePlan> {
        self.unset.attempts()
    }

    fn cached(&self) -> impl Iterator<Item = &String> {
        self.taken.iter().filter_map(|taken| match &taken.role {
            Role::Cache { output } => Some(output),
            _ => None,
        })
    }

    /// Whether a first run has something to tell.
    pub(crate) fn has_choice(&self) -> bool {
        !self.unset.is_empty() || self.cached().next().is_some()
    }

    /// Keeps what a first run has put out for caches.
    pub(crate) fn remember(&mut self, outputs: Vec<NamedTensor>) {
        let wanted: Vec<String> = self.cached().cloned().collect();
        self.held = outputs.into_iter().filter(|output| wanted.contains(&output.name)).collect();
    }

    /// Whether the sets of a round have sizes that those before have not.
    pub(crate) fn is_new(&self, round: usize) -> bool {
        let sizes = |lengths: &Lengths| self.unset.taken(&self.plan, std::slice::from_ref(lengths));
        let new = sizes(&Lengths::of(round));
        self.rounds.iter().all(|before| sizes(before) != new)
    }

    /// What is tried of a round: its own sizes, and where lengths are large, then smaller ones;
    /// each in a batch of its own as well.
    pub(crate) fn tries(&self, round: usize) -> Vec<Lengths> {
        let smaller = if round == LARGE { &SMALLER[..] } else { &[] };
        let free = self.free();
        let is_long =
            |part: &DimensionKind| matches!(part, DimensionKind::Length | DimensionKind::Side);
        let lengths: Vec<_> = free.iter().filter(|(_, part, _)| is_long(part)).collect();
        let forced = |(length, side): &(usize, usize)| {
            let one = |(nth, (place, part, unit)): (usize, &&(usize, DimensionKind, usize))| {
                let is_side = *part == DimensionKind::Side;
                let (size, step) = if is_side { (side, SIDE) } else { (length, 4) };
                (*place, (size.saturating_sub(step * nth) / unit * unit).max(*unit))
            };
            Lengths { round, forced: lengths.iter().enumerate().map(one).collect() }
        };
        let smaller = smaller.iter().filter(|_| !lengths.is_empty()).map(forced);
        let batches = free.iter().filter(|(_, part, _)| *part == DimensionKind::Batch);
        let single: Vec<_> = batches.map(|(place, ..)| (*place, 1)).collect();
        let alone = |lengths: &Lengths| {
            let forced = [&lengths.forced[..], &single].concat();
            (!single.is_empty()).then_some(Lengths { forced, ..*lengths })
        };
        let all = std::iter::once(Lengths::of(round)).chain(smaller);
        all.flat_map(|lengths| [alone(&lengths), Some(lengths)].into_iter().rev().flatten())
            .collect()
    }

    /// Takes the last sizes away again, which is told of a round's own if they cost too much.
    pub(crate) fn leave_out(&mut self, is_too_much: bool) {
        let last = self.rounds.pop().filter(|last| is_too_much && last.forced.is_empty());
        self.left_out.extend(last.map(|last| self.sizes_in_words(&last)));
    }

    /// The sizes of a set.
    pub(crate) fn lengths(&self, index: usize) -> Lengths {
        self.rounds.get(index % self.rounds.len().max(1)).cloned().unwrap_or_default()
    }

    /// The dimensions whose sizes can be others, by their places, and what a size is a multiple of.
    pub(crate) fn free(&self) -> Vec<(usize, DimensionKind, usize)> {
        let unit =
            |part: DimensionKind| if part == DimensionKind::Batch { 1 } else { self.plan.unit() };
        let free = self.unset.free(&self.plan).into_iter();
        free.map(|(place, part)| (place, part, unit(part))).collect()
    }

    /// What an input is taken for.
    pub(crate) fn role(&self, position: usize) -> &Role {
        self.taken.get(position).map_or(&Role::Plain, |taken| &taken.role)
    }

    /// The sizes in words.
    pub(crate) fn sizes_in_words(&self, lengths: &Lengths) -> String {
        let taken = self.unset.taken(&self.plan, std::slice::from_ref(lengths)).into_iter();
        let named = taken.filter_map(|(name, sizes)| Some(format!("{name} {}", sizes.first()?)));
        named.take(TOLD).collect::<Vec<_>>().join(", ")
    }

    /// The shapes of all inputs in a set.
    /// Fails when an input has no shape that is declared, or all together are too large.
    pub(crate) fn shapes(
        &self,
        inputs: &[Input],
        given: &[Option<Arc<Tensor>>],
        lengths: &Lengths,
    ) -> TractResult<Vec<Vec<usize>>> {
        let is_given = |place: usize| given.get(place).is_some_and(Option::is_some);
        let chosen = self.unset.shapes(inputs, is_given, &self.plan, lengths)?;
        let all = inputs.iter().zip(given).zip(chosen);
        let shape = |((input, given), chosen): ((&Input, &Option<Arc<Tensor>>), TractResult<_>)| {
            if let Some(tensor) = given {
                return Ok(tensor.shape().to_vec());
            }
            let shape = chosen.and_then(|shape: Vec<usize>| {
                check_size(input.ty, &shape)?;
                Ok(shape)
            });
            at(format!("input `{}`", input.name), shape)
        };
        let shapes: Vec<Vec<usize>> = all.map(shape).collect::<TractResult<_>>()?;
        anyhow::ensure!(Unset::is_bearable(lengths, &shapes), "the inputs are too large to try");
        Ok(shapes)
    }

    /// Makes something with the role of an input, and with what it depends on in a set of these
    /// shapes.
    pub(crate) fn with<T>(
        &self,
        (index, lengths): (usize, &Lengths),
        position: usize,
        shapes: &[Vec<usize>],
        make: impl FnOnce((&Role, &Setting)) -> T,
    ) -> T {
        let size = |input: usize, axis: usize| shapes.get(input).and_then(|shape| shape.get(axis));
        let bound = |bound: Bound| {
            let size = match bound {
                Bound::Fixed(size) => usize::try_from(size).unwrap_or(usize::MAX),
                Bound::Axis(input, axis) => size(input, axis).copied().unwrap_or(1),
                Bound::Shortest => self.unset.shortest(&self.plan, lengths).unwrap_or(4),
            };
            i64::try_from(size).unwrap_or(i64::MAX)
        };
        let is_cache = |taken: &InputRole| matches!(taken.role, Role::Cache { .. });
        let cache = self.taken.iter().position(is_cache).and_then(|place| shapes.get(place));
        // Keys and values are [batch, heads, length, channels].
        let past = cache.filter(|shape| shape.len() == 4).map_or(0, |shape| shape[2]);
        let past = i64::try_from(past).unwrap_or(0);
        let MadeUp { is_tame, is_usual, hides_rows, calibrated, .. } = *self;
        let held = self.held.as_slice();
        let levels = self.taken.get(position).map_or(&[][..], |taken| &taken.levels);
        let bound = &bound;
        let around =
            Setting { index, past, bound, held, is_tame, is_usual, hides_rows, levels, calibrated };
        make((self.role(position), &around))
    }

    /// The magnitudes that numbers have about, from set to set.
    pub(crate) fn scales(&self) -> [f64; 3] {
        self.calibrated.map_or_else(|| scales(self.is_tame), |scale| [scale; 3])
    }

    /// What was chosen for so many sets, of the inputs that are wanted.
    pub(crate) fn look(
        &self,
        inputs: &[Input],
        is_wanted: &dyn Fn(&String) -> bool,
        sets: usize,
    ) -> InputLook {
        let rounds: Vec<Lengths> = (0..sets).map(|index| self.lengths(index)).collect();
        let named = inputs.iter().zip(&self.taken).filter(|(input, _)| is_wanted(&input.name));
        let told = |(input, taken): (&Input, &InputRole)| LookedAt {
            name: input.name.clone(),
            taken_for: taken.in_words(),
            why: taken.why.clone(),
        };
        let is_plain =
            |input: &Input, taken: &InputRole| taken.role == Role::Plain && input.ty.is_float();
        let has_plain = named.clone().any(|(input, taken)| is_plain(input, taken));
        let sizes = self.unset.taken(&self.plan, &rounds).into_iter();
        InputLook {
            sizes: sizes.map(|(dimension, sizes)| DimensionSizes { dimension, sizes }).collect(),
            scales: self.scales().into_iter().take(if has_plain { sets } else { 0 }).collect(),
            inputs: named.map(told).collect(),
            left_out: self.left_out.clone(),
            search: None,
            operators: vec![],
        }
    }
}
