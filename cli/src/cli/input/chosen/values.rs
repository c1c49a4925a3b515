//! Values for inputs that are taken for something.

use rand::RngExt;
use rand::rngs::StdRng;
use tract_onnx::prelude::*;
use tract_onnx_cast::{ElementType, Family};

use super::roles::{Bound, Role};
use crate::cli::tensor::{NamedTensor, elements, of_numbers};

/// The set of indices from the end, and which of them are.
pub(crate) const UNUSUAL_SET: usize = 2;
const OFTEN: usize = 3;
/// The set of large numbers, what plain whole numbers go up to in it, and what in the others.
pub(crate) const LARGE_SET: usize = 1;
const MANY: u64 = 300;
const FEW: u64 = 10;
/// How often something is done at most, in the set of what is seldom given, and in the others.
const MANY_TIMES: i64 = 40;
const FEW_TIMES: i64 = 4;
/// The magnitudes that numbers have about, from set to set.
pub(crate) const SCALES: [f64; 3] = [1.0, 30.0, 0.01];
/// How far the numbers of a set lie off 0, by their scale: what is decided by a sum or a mean is
/// decided either way.
const CENTRES: [f64; 3] = [0.0, 0.4, -0.4];
/// Of the numbers of the first set, one in so many from one on is a multiple of a half.
const EVEN: (usize, usize) = (4, 3);
/// Of numbers one in so many is one at which what takes them does something else: in the first set
/// and row, that from one on.
const LEVELS: (usize, usize) = (8, 3);
/// Of numbers that lie well inside of a range each is the mean of so many.
const INSIDE: u32 = 3;
/// Beyond so many times their scale there are none in what was calibrated.
const WITHIN: f64 = 3.0;
/// Of large numbers one in so many is at least so many times as large, and behind so many numbers
/// the one after that: rows that are multiples of neither have them in other columns.
const RARE: (usize, f64) = (8, 4.0);
const DRIFT: usize = 61;
/// What is taken from the scores of what is hidden: FLOAT16 holds it, and nothing is left of their
/// exponentials.
const HIDDEN: i64 = 10_000;
/// The largest magnitude that such numbers come near.
pub(super) const LARGEST: f64 = 180.0;
/// Types that do not hold so much have numbers of one scale.
const WIDE: f64 = 1000.0;

/// What decides on an input's values besides its role.
pub(crate) struct Setting<'a> {
    /// Which set it is: scales, patterns of masks and truth values change from one to the next.
    pub(crate) index: usize,
    /// How much is cached.
    pub(crate) past: i64,
    /// What bounds are in this set.
    pub(crate) bound: &'a dyn Fn(Bound) -> i64,
    /// What outputs of the model held.
    pub(crate) held: &'a [NamedTensor],
    /// Whether large numbers are left out, and what is seldom given.
    pub(crate) is_tame: bool,
    pub(crate) is_usual: bool,
    /// Whether all of a row may be masked.
    pub(crate) hides_rows: bool,
    /// The numbers at which what takes the input does something else.
    pub(crate) levels: &'a [f64],
    /// The one scale of floats that are plain numbers, where there is one.
    pub(crate) calibrated: Option<f64>,
}

impl Setting<'_> {
    /// Whether the set has what is allowed and seldom given.
    fn has_unusual(&self) -> bool {
        self.index % SCALES.len() == UNUSUAL_SET && !self.is_usual
    }

    /// What plain whole numbers go up to in a wide type.
    pub(super) fn most(&self) -> u64 {
        if self.index % SCALES.len() == LARGE_SET && !self.is_tame { MANY } else { FEW }
    }

    /// Puts numbers at their places that are tried exactly, and in one of the sets zeros into a
    /// row.
    pub(super) fn pinned(&self, mut numbers: Vec<f64>, shape: &[usize]) -> Vec<f64> {
        let set = self.index % SCALES.len();
        let most = match self.calibrated {
            Some(scale) => WITHIN * scale,
            // Beside small numbers larger ones would be all that a norm sees.
            None if set == UNUSUAL_SET => 0.0,
            None => f64::INFINITY,
        };
        self.pin(&mut numbers, shape, |level| level.abs() <= most);
        // Of few numbers it takes a set to have one of them.
        if numbers.len() <= LEVELS.1 && set == UNUSUAL_SET {
            let levels = self.levels.iter().cycle().skip(1 + self.index / SCALES.len());
            numbers.iter_mut().rev().zip(levels).for_each(|(number, level)| *number = *level);
        }
        if self.has_unusual() {
            last_row(shape, &mut numbers).for_each(|number| *number = 0.0);
        }
        numbers
    }

    /// Puts levels at some places: at others in each row, and in each set, so that each column has
    /// other numbers as well.
    fn pin(&self, numbers: &mut [f64], shape: &[usize], is_allowed: impl Fn(f64) -> bool) {
        let levels = self.levels.iter().copied().filter(|level| is_allowed(*level));
        let levels: Vec<f64> = levels.collect();
        let columns = shape.last().copied().unwrap_or(1).max(1);
        let is_one =
            |place: &usize| (place % columns + place / columns + self.index) % LEVELS.0 == LEVELS.1;
        let mut places: Vec<usize> = (0..numbers.len()).filter(is_one).collect();
        if places.is_empty() {
            places = (LEVELS.1..numbers.len()).step_by(LEVELS.0).collect();
        }
        let levels = levels.iter().cycle().skip(self.index);
        for (place, level) in places.into_iter().zip(levels) {
            numbers.get_mut(place).into_iter().for_each(|number| *number = *level);
        }
    }

    /// How much of a range numbers of a type have where quantisers were calibrated for less.
    fn share(&self, ty: ElementType) -> f64 {
        self.calibrated.filter(|_| ty.is_float()).map_or(1.0, |scale| scale.min(1.0))
    }
}

/// The magnitudes of a model that takes no large numbers, without the large ones.
pub(crate) fn scales(is_tame: bool) -> [f64; 3] {
    SCALES.map(|scale| if is_tame { scale.min(1.0) } else { scale })
}

/// Whether an output has neither NaN nor infinities.
pub(crate) fn is_finite(output: &NamedTensor) -> bool {
    let Family::Float(_) = output.ty.family() else { return true };
    elements(output.ty, &output.tensor).is_ok_and(|all| all.into_iter().all(f64::is_finite))
}

/// Values of an input that has a role; `None` where it has none that says which.
pub(crate) fn of_role(
    role: &Role,
    ty: ElementType,
    shape: &[usize],
    rng: &mut StdRng,
    around: &Setting,
) -> TractResult<Option<Tensor>> {
    let elements: usize = shape.iter().product();
    let last = shape.last().copied().unwrap_or(1).max(1);
    let up_to = |rng: &mut StdRng, most: i64| rng.random_range(1..=most.max(1));
    let whole: Vec<i64> = match role {
        Role::Plain => return Ok(None),
        Role::Cache { output } => {
            let held = around.held.iter().find(|held| held.name == *output);
            return held.map_or(Ok(None), |held| repeated(held, ty, shape));
        }
        Role::Within { low, high } => {
            let share = around.share(ty);
            return within((share * low, share * high), ty, shape, rng, around).map(Some);
        }
        Role::Words { words } => return drawn(words, shape, rng).map(Some),
        Role::Index { below, shift, has_negative } => {
            let below = (around.bound)(*below).max(1);
            let is_from_end = *has_negative && around.has_unusual();
            let is_far = |place: usize| is_from_end && place.is_multiple_of(OFTEN);
            let from_end = |place| if is_far(place) { below } else { 0 };
            (0..elements)
                .map(|place| rng.random_range(0..below) - from_end(place) - shift)
                .collect()
        }
        // One truth value is that of a choice.
        Role::Condition | Role::Mask if *role == Role::Condition || shape.is_empty() => {
            // Both ways within two sets, whichever seed they start from.
            (0..elements).map(|place| ((around.index + place) % 2) as i64).collect()
        }
        Role::Mask | Role::Condition => {
            let is_hidden = around.hides_rows && around.has_unusual();
            masks(shape, is_hidden, rng)
        }
        Role::AddedMask => {
            let rows = masks(shape, false, rng).into_iter();
            rows.map(|is_seen| (is_seen - 1) * HIDDEN).collect()
        }
        Role::Threshold { limit } => {
            (0..elements).map(|place| on_a_side(around.index + place, *limit, rng)).collect()
        }
        Role::Position { below } => {
            let below = (around.bound)(*below).max(1);
            (0..elements).map(|place| (around.past + (place % last) as i64) % below).collect()
        }
        Role::Times => {
            let most = if around.has_unusual() { MANY_TIMES } else { FEW_TIMES };
            (0..elements).map(|_| most - rng.random_range(0..FEW_TIMES)).collect()
        }
        Role::Length { most } => {
            let most = (around.bound)(*most);
            (0..elements).map(|_| up_to(rng, most)).collect()
        }
        Role::WholeType if ty.is_float() => {
            return codes(ty, shape, rng).map(Some);
        }
        Role::WholeType => (0..elements).map(|place| of_type(ty, place, rng)).collect(),
        Role::Bits { of } => bits(*of, elements, rng, around),
        Role::ShapeTarget => {
            (0..elements).map(|place| if place + 1 == elements { -1 } else { 0 }).collect()
        }
    };
    of_numbers(ty, shape, &whole).map(Some)
}

/// A limit, a whole number up to it, or one beyond it, by turns.
fn on_a_side(turn: usize, limit: i64, rng: &mut StdRng) -> i64 {
    match turn % 3 {
        0 => rng.random_range((limit - 3).min(0)..=limit),
        1 => rng.random_range(limit + 1..=limit + 3),
        _ => limit,
    }
}

/// The elements of the last row: all that are last along the last axis but one, of those that are
/// longer than 1. None where there is no such axis.
fn last_row<'a, T>(shape: &[usize], values: &'a mut [T]) -> impl Iterator<Item = &'a mut T> {
    let mut long = shape.iter().copied().filter(|size| *size > 1).rev();
    let (row, rows) = (long.next().unwrap_or(1), long.next().unwrap_or(0));
    let is_last = move |place: usize| rows > 0 && place / row % rows == rows - 1;
    values.iter_mut().enumerate().filter(move |(place, _)| is_last(*place)).map(|(_, value)| value)
}

/// Strings, each one of these.
fn drawn(words: &[String], shape: &[usize], rng: &mut StdRng) -> TractResult<Tensor> {
    let place = |rng: &mut StdRng| rng.random_range(0..words.len().max(1));
    let word = |_| words.get(place(rng)).cloned().unwrap_or_default();
    let words: Vec<String> = (0..shape.iter().product()).map(word).collect();
    tensor1(&words).into_shape(shape)
}

/// The bits of numbers of a type.
fn bits(of: ElementType, elements: usize, rng: &mut StdRng, around: &Setting) -> Vec<i64> {
    let mut number = scaled(of, around, || f64::from(normal(rng)));
    let bits = |number: f64| match of {
        ElementType::Double => number.to_bits().cast_signed(),
        _ => i64::from((number as f32).to_bits().cast_signed()),
    };
    (0..elements).map(|_| bits(number())).collect()
}

/// The halvings of the largest value of a type of few bits, down to which its codes reach mostly.
const HALVINGS: f64 = 7.0;

/// Codes that are floats of few bits: of either sign, up to the largest.
fn codes(ty: ElementType, shape: &[usize], rng: &mut StdRng) -> TractResult<Tensor> {
    let most =
        tract_onnx_cast::audit::Reach::of(ty).map_or(1.0, |reach| reach.limits().1.rounded());
    let number = |place: usize| {
        let sign = if place.is_multiple_of(2) { 1.0 } else { -1.0 };
        let down = if place < 2 { 0.0 } else { HALVINGS * rng.random::<f64>() };
        sign * most * (-down).exp2()
    };
    let numbers: Vec<f64> = (0..shape.iter().product()).map(number).collect();
    of_numbers(ty, shape, &numbers)
}

/// A whole number of a type; of a wide one all magnitudes are as likely, and the first two are
/// large, of either sign.
fn of_type(ty: ElementType, place: usize, rng: &mut StdRng) -> i64 {
    let is_signed = ty.family() == Family::Signed;
    if ty.bits() <= 8 {
        let most = (ty.code_mask() >> u32::from(is_signed)) as i64;
        return rng.random_range(if is_signed { -most - 1 } else { 0 }..=most);
    }
    let (number, bits): (u64, u32) = (rng.random(), ty.bits());
    let down = rng.random_range(0..bits);
    // A number that begins with 0 and 1 is positive and large, its complement negative.
    let (large, down) = ((number >> 2) | (1 << 62), if place < 2 { 0 } else { down });
    let number = match place {
        0 => large,
        1 => !large,
        _ => number,
    };
    let by = u64::BITS.saturating_sub(bits) + down;
    if is_signed { number.cast_signed() >> by } else { (number >> by).cast_signed() }
}

/// Numbers between two ends, whole ones in types that hold no others.
fn within(
    (low, high): (f64, f64),
    ty: ElementType,
    shape: &[usize],
    rng: &mut StdRng,
    around: &Setting,
) -> TractResult<Tensor> {
    let is_float = ty.is_float();
    // Of what was calibrated one set lies well inside of the ranges.
    let terms = if around.calibrated.is_some() && around.index == 0 { INSIDE } else { 1 };
    let number = |_| {
        if is_float {
            let share = (0..terms).map(|_| rng.random::<f64>()).sum::<f64>() / f64::from(terms);
            low + (high - low) * share
        } else {
            rng.random_range(low as i64..=high as i64) as f64
        }
    };
    let mut numbers: Vec<f64> = (0..shape.iter().product()).map(number).collect();
    if is_float {
        around.pin(&mut numbers, shape, |level| (low..=high).contains(&level));
    }
    of_numbers(ty, shape, &numbers)
}

/// Rows of a mask, all of the last of which may be hidden.
fn masks(shape: &[usize], is_hidden: bool, rng: &mut StdRng) -> Vec<i64> {
    let elements: usize = shape.iter().product();
    let row = shape.iter().rev().copied().find(|size| *size > 1).unwrap_or(1);
    let rows = (0..elements.div_ceil(row)).flat_map(|_| runs(row, rng));
    let mut rows: Vec<i64> = rows.take(elements).collect();
    if is_hidden {
        last_row(shape, &mut rows).for_each(|held| *held = 0);
    }
    rows
}

/// A row of a mask: runs of 1 and of 0, of which the first is of 1, so that a softmax over what is
/// masked, and over what comes before each place, always has a value to look at.
fn runs(row: usize, rng: &mut StdRng) -> Vec<i64> {
    if row < 2 {
        return vec![1; row];
    }
    let begin = rng.random_range(1..row);
    // As often padding to the end as a hole.
    let end = if rng.random() { row } else { rng.random_range(begin + 1..=row) };
    (0..row).map(|place| i64::from(!(begin..end).contains(&place))).collect()
}

/// Whether a type holds too little for numbers of several scales.
pub(super) fn is_narrow(ty: ElementType) -> bool {
    let most = tract_onnx_cast::audit::Reach::of(ty).map(|reach| reach.limits().1.rounded());
    most.is_some_and(|most| most < WIDE)
}

/// Close enough to the standard normal distribution, and the same on every machine: a sum of twelve
/// uniform numbers.
pub(super) fn normal(rng: &mut StdRng) -> f32 {
    (0..12).map(|_| rng.random::<f32>()).sum::<f32>() - 6.0
}

/// Numbers of a set in a type of floats, made of normally distributed ones.
pub(super) fn scaled(
    ty: ElementType,
    around: &Setting,
    mut normal: impl FnMut() -> f64,
) -> impl FnMut() -> f64 {
    let is_one = is_narrow(ty) || around.calibrated.is_some();
    let set = if is_one { 0 } else { around.index % SCALES.len() };
    let usual = || scales(around.is_tame).get(set).copied().unwrap_or(1.0);
    let scale = around.calibrated.unwrap_or_else(usual);
    let centre = CENTRES.get(set).copied().unwrap_or(0.0);
    let mut place = 0;
    move || {
        let number = normal() + centre;
        // Beyond the first set there is one of either sign, and in that of large numbers a rare one
        // among the first.
        let number = match place {
            // Halves and zeros: what is told apart by a tie, a sign or a rounding.
            _ if set == 0 && place % EVEN.0 == EVEN.1 => (2.0 * number).round() / 2.0,
            _ if set == 0 => number,
            0 => number.abs(),
            1 => -number.abs(),
            _ => number,
        };
        let is_rare = set > 0 && scale > 1.0 && (place + place / DRIFT).is_multiple_of(RARE.0);
        place += 1;
        scale * if is_rare { number.signum() * (RARE.1 + number.abs()) } else { number }
    }
}

/// What an output held, repeated or cut off to a shape; `None` where it has nothing to repeat.
fn repeated(held: &NamedTensor, ty: ElementType, shape: &[usize]) -> TractResult<Option<Tensor>> {
    let from = held.tensor.shape();
    if from.len() != shape.len() || from.contains(&0) || held.ty.family() == Family::Text {
        return Ok(None);
    }
    let values: Vec<f64> = elements(held.ty, &held.tensor)?;
    let place = |mut index: usize| {
        let (mut place, mut stride) = (0, 1);
        for (size, size_from) in shape.iter().zip(from).rev() {
            place += index % size % size_from * stride;
            (index, stride) = (index / size, stride * size_from);
        }
        place
    };
    let elements: usize = shape.iter().product();
    let taken =
        (0..elements).map(|index| values.get(place(index)).copied().filter(|x| x.is_finite()));
    let Some(taken) = taken.collect::<Option<Vec<f64>>>() else { return Ok(None) };
    of_numbers(ty, shape, &taken).map(Some)
}
