//! What became of the values of one weight.

use std::collections::BTreeMap;
use std::ops::Range;

use anyhow::ensure;
use tract_onnx::prelude::*;
use tract_onnx_cast::audit::{self, CastStats, Numbers, Outcome};
use tract_onnx_cast::kernel::Level;
use tract_onnx_cast::{Conversion, ElementType, Family, Rules};

use crate::cli::found::finding::Code;
use crate::cli::measure::elements::{ElementReader, Elements, PartReader, parts};
use crate::cli::measure::exact::ExactValues;
use crate::cli::measure::number::Num;
use crate::cli::measure::range::peak;
use crate::cli::measure::reach::is_cut_mask;
use crate::cli::measure::reals::blocks;
use crate::cli::measure::value::{coordinates, shown};
use crate::cli::measure::weight::grid::{Grid, Rounded};
use crate::cli::measure::weight::most::Most;
use crate::cli::measure::weight::nearest::NearestCodes;
use crate::cli::measure::weight::outcomes::{ElementOutcomes, Halved, Halving};
use crate::cli::measure::weight::steps::CodeScales;

/// From how many elements on a constant is a weight, rather than a number of the computation or a
/// shape.
pub(crate) const WEIGHT: usize = 8;

/// From how many elements on integers are a table, rather than the pads or the shape of some
/// tensor.
const TABLE: u64 = 64;

/// A few odd values among many that came through are a fault, whatever else is done to weights: so
/// many in a hundred.
const FEW: u64 = 10;

/// How many places of values that are more than rounded are kept.
const PLACES: usize = 1 << 20;

/// Numbers of both sides at some places of a weight.
struct NumberPairs<'a> {
    places: Range<usize>,
    x: &'a ElementReader<'a>,
    y: &'a ElementReader<'a>,
    /// The largest magnitude of the whole reference.
    peak: f64,
}

/// What else those are judged by that are more than rounded.
struct Whole {
    /// The largest magnitude of the converted side.
    end: f64,
    /// Whether the reference's are zeros and one negative number.
    is_mask: bool,
}

/// What became of the values of a weight.
pub(crate) struct WeightChange {
    /// The types of the two sides.
    types: [ElementType; 2],
    pub(crate) elements: u64,
    pub(crate) outcomes: BTreeMap<Code, u64>,
    pub(crate) max_abs: f64,
    /// Where the largest difference is, in words.
    pub(crate) largest: Option<String>,
    /// How many values are more than rounded.
    odd: u64,
    /// The places of the first of them, in row-major order.
    pub(crate) places: Vec<usize>,
    /// The largest difference of a value that is more than rounded, by the largest magnitude of the
    /// reference.
    share: f64,
    /// Whether a value of a size that counts was spoiled.
    is_damage: bool,
    /// Whether the converted side is what a Cast makes of the reference, which spoils nothing.
    is_cast: bool,
    /// What it is off, where it was asked for and its codes are the nearest ones.
    pub(crate) nearest: Option<NearestCodes>,
}

impl Whole {
    fn of(reference: &Elements, converted: &Elements, peak: f64) -> TractResult<Whole> {
        let is_mask = is_cut_mask(-1e4, -peak) && is_zero_or(reference, -peak)?;
        Ok(Whole { end: largest(converted)?, is_mask })
    }
}

impl WeightChange {
    /// Compares the values of a weight in two models, of the same number of elements. `stored` is
    /// the narrow type from which the converted model computes it, if it does, and `half_steps`
    /// half of the steps of its codes, where it is asked whether each is the nearest one.
    /// Fails when a tensor is not of its type's carrier.
    pub(crate) fn between(
        reference: &Elements,
        converted: &Elements,
        stored: Option<ElementType>,
        half_steps: Option<&CodeScales>,
    ) -> TractResult<WeightChange> {
        let (from, to, length) = (reference.ty, converted.ty, reference.len());
        ensure!(length == converted.len(), "a weight has other lengths on both sides");
        let mut change = WeightChange {
            types: [from, to],
            elements: length as u64,
            outcomes: BTreeMap::new(),
            max_abs: 0.0,
            largest: None,
            odd: 0,
            places: vec![],
            share: 0.0,
            is_damage: false,
            is_cast: false,
            nearest: None,
        };
        let is_text = |ty: ElementType| ty.family() == Family::Text;
        if is_text(from) || is_text(to) {
            change.texts(reference, converted)?;
            return Ok(change);
        }
        if change.is_plain_cast(reference, converted)? {
            change.is_cast = true;
            return Ok(change);
        }
        if let Some(grid) = Grid::of_codes([reference, converted], stored)
            && let Some(most) = Most::of([reference, converted], &grid, half_steps)?
        {
            change.nearest = most.nearest;
            change.numbers([reference, converted], (&grid, Some(most)), stored)?;
            return Ok(change);
        }
        let both = [&*reference.at_hand()?, &*converted.at_hand()?];
        if let Some(grid) = Grid::of(both, stored)? {
            change.numbers(both, (&grid, None), stored)?;
        }
        Ok(change)
    }

    /// Compares numbers, one by one, but for `most` of them, of which it is known what became.
    fn numbers(
        &mut self,
        [reference, converted]: [&Elements; 2],
        (grid, most): (&Grid, Option<Most>),
        stored: Option<ElementType>,
    ) -> TractResult<()> {
        let (from, to, length) = (reference.ty, converted.ty, reference.len());
        let (peak, near, left) = match most {
            Some(Most { peak, near, left, .. }) => (peak, near, left),
            None => (largest(reference)?, Rounded::default(), blocks(length).collect()),
        };
        let mut found = ElementOutcomes::default();
        found.add_rounded(&near);
        self.max_abs = near.farthest;
        let [mut x, mut y] = [reference, converted].map(ElementReader::of);
        let (mut whole, mut rows) = (None, vec![]);
        for places in left {
            x.read(places.clone())?;
            y.read(places.clone())?;
            let block = NumberPairs { places, x: &x, y: &y, peak };
            Level::best().run(
                #[inline(always)]
                || self.hold(&block, grid, &mut found, &mut rows),
            );
            if rows.is_empty() {
                continue;
            }
            let whole = match &whole {
                Some(whole) => whole,
                None => whole.insert(Whole::of(reference, converted, peak)?),
            };
            for row in rows.drain(..) {
                self.hold_each(&block, row, (grid, whole), &mut found);
            }
        }
        let ElementOutcomes { outcomes, farthest, is_clipped, is_at_end, is_spoiled } = found;
        self.outcomes = outcomes.into_iter().collect();
        if peak > 0.0 && self.may_have_vanished() && largest(converted)? == 0.0 {
            // An epsilon that vanishes divides by zero.
            (0..length).for_each(|place| self.add_place(place));
        }
        // What is cut off at one end is a clip; among values that are all different it is chance.
        let is_changed = self.outcomes.contains_key(&Code::Changed);
        let is_clip = is_clipped && !is_changed && (length > 1 || from != to);
        self.is_damage = is_spoiled || stored.is_none() && (is_at_end || is_clip);
        let worst = farthest.map_or(0.0, |(_, error)| error);
        self.share = if peak > 0.0 { worst / peak } else { f64::INFINITY };
        if let Some((place, error)) = farthest {
            let at = coordinates(place, &reference.shape);
            let value = |side: &Elements| shown(side.ty, &side.part(place..place + 1)?, 0);
            let (was, is) = (value(reference)?, value(converted)?);
            let by =
                if error < f64::MAX { format!(", off by {}", Num(error)) } else { String::new() };
            self.largest = Some(format!("the largest difference at {at:?}: {was} became {is}{by}"));
        }
        Ok(())
    }

    /// Judges numbers, a row together where none of it is more than rounded. Other rows are left.
    #[inline(always)]
    fn hold(
        &mut self,
        pairs: &NumberPairs,
        grid: &Grid,
        found: &mut ElementOutcomes,
        left: &mut Vec<Range<usize>>,
    ) {
        let both = (pairs.x.reals(), pairs.y.reals());
        let together =
            grid.rounded_rows(both, (pairs.peak, 0.0), pairs.places.len(), |row| left.push(row));
        self.max_abs = self.max_abs.max(together.farthest);
        found.add_rounded(&together);
    }

    /// Judges the numbers of a row one by one.
    #[inline(never)]
    fn hold_each(
        &mut self,
        pairs: &NumberPairs,
        row: Range<usize>,
        (grid, whole): (&Grid, &Whole),
        found: &mut ElementOutcomes,
    ) {
        let NumberPairs { places, x, y, peak } = pairs;
        for index in row {
            let Some((a, b)) = x.get(index).zip(y.get(index)) else { continue };
            let (outcome, error) = (grid.outcome(a, b, *peak, whole.end), a.distance(b));
            self.max_abs = self.max_abs.max(if error.is_finite() { error } else { 0.0 });
            let place = places.start + index;
            let (want, got) = (a.rounded(), b.rounded());
            let is_cut = whole.is_mask && is_cut_mask(got, want);
            let magnitude = if is_cut { f64::INFINITY } else { want.abs() };
            if found.is_odd(place, outcome, error, magnitude) {
                self.add_place(place);
            }
        }
    }

    fn add_place(&mut self, place: usize) {
        self.odd += 1;
        if self.places.len() < PLACES {
            self.places.push(place);
        }
    }

    /// Whether each value is the same or has become 0, and some have, so that nothing may be left.
    fn may_have_vanished(&self) -> bool {
        let is_gone = |code: &Code| matches!(code, Code::Flushed | Code::Exact);
        self.outcomes.contains_key(&Code::Flushed) && self.outcomes.keys().all(is_gone)
    }

    /// Whether there is more than a rounding.
    pub(crate) fn is_odd(&self) -> bool {
        self.odd > 0
    }

    /// Whether values that no conversion rounds are others, or a few of what may be codes of a bias
    /// by more than a step. Of numbers that may be pads, shapes or axes nobody can tell.
    pub(crate) fn is_told_by_type(&self) -> bool {
        let [from, to] = self.types;
        let is_told = !may_be_codes(from) || self.is_few() && self.max_abs > 1.0;
        let is_table = !is_integer(from) || self.elements >= TABLE;
        self.is_odd() && is_told && is_table && from == to && is_never_rounded(from)
    }

    /// Whether it has too few integers or truth values for a weight, as shapes and axes have.
    pub(crate) fn is_few_numbers(&self) -> bool {
        is_integer(self.types[0]) && self.elements < WEIGHT as u64
    }

    /// Whether every value is the same.
    pub(crate) fn is_exact(&self) -> bool {
        self.outcomes.keys().all(|outcome| *outcome == Code::Exact)
    }

    /// Whether the converted side is what a Cast makes of the reference, value by value, and none
    /// is spoiled.
    pub(crate) fn is_cast(&self) -> bool {
        self.is_cast
    }

    /// Whether values were spoiled that a weight of that type could have kept.
    pub(crate) fn is_damage(&self) -> bool {
        self.is_damage
    }

    /// Whether a few values are far off, while all others came through.
    pub(crate) fn is_local(&self) -> bool {
        matches!(self.types[0].family(), Family::Float(_))
            && self.elements >= 4
            && self.is_few()
            && self.share >= 0.05
            && self.outcomes.get(&Code::Changed).is_some_and(|changed| *changed > 0)
    }

    /// Whether a few values are more than rounded, and most are not.
    pub(crate) fn is_few(&self) -> bool {
        self.odd > 0 && self.odd <= (self.elements * FEW / 100).max(1)
    }

    /// Whether so few values agree that the two are hardly the same weight.
    pub(crate) fn is_another(&self) -> bool {
        self.odd * 2 > self.elements
    }

    /// Counts what an exact cast of the reference makes, if that is what the converted side has,
    /// and spoils nothing.
    fn is_plain_cast(&mut self, reference: &Elements, converted: &Elements) -> TractResult<bool> {
        let (from, to) = (reference.ty, converted.ty);
        let cast = Conversion::new(from, to, Rules::default());
        let mut halving = Halving::of(&cast)?;
        let (mut stats, mut found, mut most) =
            (CastStats::default(), ElementOutcomes::default(), 0.0f64);
        let (mut was, mut is) = (PartReader::of(reference)?, PartReader::of(converted)?);
        for places in parts(reference.len()) {
            let (x, y) = (was.part(places.clone())?, is.part(places.clone())?);
            if from == to && x.as_bytes() == y.as_bytes() {
                found.add(Code::Exact, places.len() as u64);
                continue;
            }
            let (is_cast, halved) = match &mut halving {
                Some(halving) => halving.halved(x, y)?,
                None => (from != to && cast.run(x)?.as_bytes() == y.as_bytes(), None),
            };
            if !is_cast {
                return Ok(false);
            }
            match halved {
                Some(Halved { exact, flushed, farthest }) => {
                    found.add(Code::Exact, exact);
                    found.add(Code::Flushed, flushed);
                    found.add(Code::Rounded, places.len() as u64 - exact - flushed);
                    most = most.max(farthest);
                }
                None => stats.merge(&audit::measure(from, x, to, y)?),
            }
        }
        for outcome in Outcome::ALL {
            found.add(outcome.into(), stats.count(outcome));
        }
        let outcomes: BTreeMap<Code, u64> =
            found.outcomes.into_iter().filter(|(_, count)| *count > 0).collect();
        // A few that vanish beside others are rounded; what vanishes as a whole is more.
        let count = |code| outcomes.get(&code).copied().unwrap_or(0);
        let (flushed, exact) = (count(Code::Flushed), count(Code::Exact));
        let is_gone = flushed > 0 && flushed + exact == self.elements;
        let is_harmless = stats.damaged() + stats.count(Outcome::Saturated) == 0 && !is_gone;
        if is_harmless {
            (self.max_abs, self.outcomes) = (stats.errors.absolute.max(most), outcomes);
        }
        Ok(is_harmless)
    }

    fn texts(&mut self, reference: &Elements, converted: &Elements) -> TractResult<()> {
        let exact = |side: &Elements| ExactValues::of(side.ty, &*side.whole()?, 0..side.len());
        let (x, y) = (exact(reference)?, exact(converted)?);
        for place in 0..reference.len() {
            let is_same = x.element(place).is(y.element(place));
            let outcome = if is_same { Code::Exact } else { Code::Changed };
            *self.outcomes.entry(outcome).or_default() += 1;
            if !is_same {
                self.add_place(place);
            }
        }
        Ok(())
    }
}

/// Whether a type holds integers or truth values.
fn is_integer(ty: ElementType) -> bool {
    matches!(ty.family(), Family::Signed | Family::Unsigned | Family::Bool)
}

/// Whether a quantiser may take what is of this type.
fn may_be_codes(ty: ElementType) -> bool {
    is_integer(ty) && ty.family() != Family::Bool && ty.bits() <= 32
}

/// Whether no conversion rounds what is of this type: integers of 8 bits and less may be codes.
fn is_never_rounded(ty: ElementType) -> bool {
    match ty.family() {
        Family::Text | Family::Bool => true,
        Family::Signed | Family::Unsigned => ty.bits() > 8,
        Family::Float(_) => false,
    }
}

/// Whether all elements are zeros or this number.
fn is_zero_or(weight: &Elements, number: f64) -> TractResult<bool> {
    let mut reader = PartReader::of(weight)?;
    for places in parts(weight.len()) {
        let part = Numbers::of(weight.ty, reader.part(places)?)?;
        if !part.reals().is_some_and(|all| all.iter().all(|x| *x == 0.0 || *x == number)) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The largest finite magnitude.
fn largest(weight: &Elements) -> TractResult<f64> {
    if let Some(tensor) = weight.in_memory() {
        return peak(weight.ty, tensor);
    }
    let (mut largest, mut reader) = (0.0f64, PartReader::of(weight)?);
    for places in parts(weight.len()) {
        largest = largest.max(peak(weight.ty, reader.part(places)?)?);
    }
    Ok(largest)
}
