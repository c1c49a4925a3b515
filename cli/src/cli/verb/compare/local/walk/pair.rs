//! Holds a value of the conversion against the reference's that it belongs to, and puts that in its
//! place.

use std::borrow::Cow;
use std::sync::Arc;

use tract_onnx_cast::interpreter::{NodeRun, ObservedTensor, SharedTensor};
use tract_onnx_cast::kernel::Level;
use tract_onnx_cast::{ElementType, Family};

use super::super::doubt::{Carried, Doubt, Twin};
use super::super::held::{HeldElements, Whole, Worst};
use super::super::links::Link;
use super::super::numbers::{
    blocks, cast, is_computed_in, largest, peak, rounding, shaped, smallest, smallest_normal, wide,
};
use super::super::quantizers::WeightCodes;
use super::super::site::Site;
use super::super::trace::shared;
use super::Walk;
use super::layout::in_layout_of;
use super::values::{INSIDE, held_in, is_mask};
use crate::cli::measure::elements::Elements;
use crate::cli::measure::lanes::AT_ONCE;
use crate::cli::measure::reals::NumberReader;
use crate::cli::measure::weight::compensated::CodedWeight;
use crate::cli::measure::weight::ends::CutOffPower;

/// How many roundings of the reference's type two ways to compute one value may be apart.
const ROUNDINGS: f64 = 16.0;
/// The same where that is half precision: nodes compute it in FLOAT and round their results once,
/// and what is rounded between two of them is carried beside (`own`).
const ROUNDINGS_OF_HALF: f64 = 2.0;
/// Kernels may flush what has not all its digits, and what they make of it: so many times the
/// smallest value that has.
const VANISHING: f64 = 4.0;

/// A value of the conversion that a node has made, and the reference's.
struct PairedValue<'a> {
    name: &'a str,
    link: &'a Link,
    made: &'a SharedTensor,
    want: &'a SharedTensor,
    /// How far the reference's own rounding puts its elements off.
    of_reference: Option<&'a [f64]>,
}

impl Walk<'_> {
    /// By how much of its elements, and of all alike, a value may be off that is computed another
    /// sound way.
    fn margin(
        &self,
        node: &NodeRun,
        want: &SharedTensor,
        twin: &Twin,
        has_own: bool,
    ) -> (f64, f64) {
        let is_once = self.is_half(want.0) && (has_own || self.wanted.is_none());
        let unit = if is_once { ROUNDINGS_OF_HALF } else { ROUNDINGS } * rounding(want.0);
        let slack = if node.has_bodies() { self.slack.max(INSIDE) } else { self.slack };
        let slack = if slack > 0.0 { slack * rounding(want.0) * peak(want) } else { 0.0 };
        // The reference's own type may be the one that does not hold what is small.
        let least = (VANISHING * smallest_normal(twin.value.0)).max(smallest(want.0));
        (unit, least + slack)
    }

    /// What belongs to the reference behind a node: the conversion's tensor and the twin are
    /// replaced.
    pub(super) fn replaced(
        &self,
        name: &str,
        want: &SharedTensor,
        output: &mut ObservedTensor,
    ) -> Option<Twin> {
        if let Some(held) = held_in(want, &shared(output)) {
            output.tensor = held.1;
        }
        let own = match self.links.get(name) {
            // A cast to another type is another rounding of one value.
            Some(link) if self.is_half(want.0) => {
                let maker = self.reference.maker(&link.reference);
                let is_cast = maker.is_some_and(|ran| ran.op == "Cast");
                if is_cast && want.0 != output.element_type { rounding(want.0) } else { 0.0 }
            }
            _ => 4.0 * rounding(want.0),
        };
        let unit = own + self.narrowed(name);
        let value = cast(want, wide(want.0)).filter(|_| want.0.family() != Family::Text)?;
        let value = if is_computed_in(value.0) { value } else { shared(output) };
        let doubt = Doubt::Relative(if is_computed_in(value.0) { unit } else { 0.0 });
        Some(Twin::new(value, doubt))
    }

    /// Holds a value against the reference's, and says whether it is to be replaced by it. A twin
    /// that is off without a doubt that was worked out is given the one that `carried` works out,
    /// if it can.
    pub(super) fn judge(
        &mut self,
        node: &NodeRun,
        output: &ObservedTensor,
        (name, link): (&str, &Link),
        (twin, mut is_doubted): (&mut Twin, bool),
        carried: impl FnOnce() -> Option<Carried>,
    ) -> Option<SharedTensor> {
        let time = self.seen.entry(name.into()).or_default();
        let want = match self.reference.values.get(&link.reference) {
            Some(times) => times.get(*time)?.clone(),
            None => self.weights.read(self.reference, &link.reference)?,
        };
        let of_reference = self.own.get(&link.reference).and_then(|times| times.get(*time));
        *time += 1;
        if want.1.len() != output.tensor.len() {
            let (a, b) = (want.1.shape(), output.tensor.shape());
            let mut site = Site::new(name, link, node);
            site.problem = Some(format!("its shape is {b:?}, and the reference's {a:?}"));
            self.sites.add(site);
            return None;
        }
        // What a `Transpose` itself has in another order, or an output, which nobody takes, is a
        // fault of its own.
        let is_taken = self.reference.is_taken(&link.reference);
        let is_alike = twin.value.1.shape() == output.tensor.shape();
        let is_moved = is_alike && node.op_type != "Transpose" && is_taken;
        let (want, is_in_order) = if is_moved {
            in_layout_of(&want, &twin.value)?
        } else {
            (shaped(&want, output.tensor.shape())?, true)
        };
        let of_reference = of_reference.map(Vec::as_slice).filter(|_| is_in_order);
        let made = &shared(output);
        let pair = PairedValue { name, link, made, want: &want, of_reference };
        let mut site = self.site(node, &pair, (twin, is_doubted))?;
        if !is_doubted
            && site.deviates()
            && let Some(Carried { doubt, share }) = carried()
        {
            (twin.doubt, twin.share) = (doubt, share);
            site = self.site(node, &pair, (twin, true))?;
            is_doubted = true;
        }
        if is_doubted && self.wanted.is_none() {
            self.doubted.push(name.into());
        }
        let is_replaced = link.is_sure && !self.loose.contains(name) || !site.deviates();
        site.is_replaced = is_replaced;
        if self.wanted.is_some() && link.is_sure && site.deviates() {
            self.made.entry(name.into()).or_insert_with(|| twin.value.clone());
        }
        self.sites.add(site);
        is_replaced.then_some(want)
    }

    /// What is found where a value belongs to one of the reference.
    fn site(&self, node: &NodeRun, pair: &PairedValue, twin: (&Twin, bool)) -> Option<Site> {
        let codes = WeightCodes::of(node, pair.want, &twin.0.value);
        let mut lost = CutOffPower::default();
        let mut site =
            self.compare(node, pair, twin, codes.as_ref().map(|codes| (codes, &mut lost)))?;
        if lost.is_much() {
            return self.compare(node, pair, twin, None);
        }
        if let (Some(codes), true) = (codes, site.deviates())
            && is_compensated(pair.want, twin.0, &codes) == Some(true)
        {
            site.worst = Worst::default();
        }
        Some(site)
    }

    /// Holds a value against the reference's; what lies beyond the codes of a weight may be off,
    /// and is added up.
    fn compare(
        &self,
        node: &NodeRun,
        pair: &PairedValue,
        (twin, is_doubted): (&Twin, bool),
        mut ends: Option<(&WeightCodes, &mut CutOffPower)>,
    ) -> Option<Site> {
        let PairedValue { name, link, made, want, of_reference } = pair;
        let ty = made.0;
        let mut site = Site::new(name, link, node);
        // Beyond the range of the reference's type its own value is infinite.
        let held = cast(&twin.value, wide(want.0)).filter(|_| is_computed_in(want.0));
        let got = held.as_ref().unwrap_or(&twin.value);
        let (unit, least) = self.margin(node, want, twin, of_reference.is_some());
        // Nor does an operator that has no DOUBLE make what is beyond FLOAT.
        let (end, cuts_masks) = (largest(twin.value.0), self.weights.cuts_masks);
        let margin = Margin { unit, least, end, cuts_masks };
        if is_one(made, want) && is_one(got, want) {
            let mut wants = NumberReader::of(want.0, &want.1);
            for places in blocks(want.1.len()) {
                let numbers = wants.numbers(places)?;
                Level::best().run(
                    #[inline(always)]
                    || site.local(numbers, numbers, ty),
                );
            }
            return Some(site);
        }
        let (mut whole, mut bounds) = (Whole::default(), Bounds::default());
        let is_made = is_one(made, got);
        let [mut wants, mut gots, mut mades] =
            [want, got, made].map(|(ty, tensor)| NumberReader::of(*ty, tensor));
        let mut codes =
            ends.as_ref().map(|(held, _)| NumberReader::of(held.codes.0, &held.codes.1));
        for places in blocks(want.1.len()) {
            let start = places.start;
            let (want, got) = (wants.numbers(places.clone())?, gots.numbers(places.clone())?);
            let made = if is_made { got } else { mades.numbers(places.clone())? };
            let Bounds { doubts, is_end } = &mut bounds;
            doubts.clear();
            if is_doubted {
                twin.doubts_in(places.clone(), got, doubts);
            }
            doubts.resize(got.len(), 0.0);
            if let Some(own) = of_reference {
                let both = doubts.iter_mut().zip(own.iter().skip(start));
                both.for_each(|(doubt, own)| *doubt = doubt.max(*own));
            }
            is_end.clear();
            if let Some(((held, lost), codes)) = ends.as_mut().zip(codes.as_mut()) {
                held.ends.lies_beyond(codes.numbers(places)?, (got, want), (is_end, lost));
            }
            is_end.resize(got.len(), false);
            let block = Block { start, made, want, got };
            let whole = is_doubted.then_some(&mut whole);
            Level::best().run(
                #[inline(always)]
                || block.hold(&margin, &mut bounds, (&mut site, ty, whole)),
            );
        }
        if is_doubted {
            site.hold_whole(&whole, twin.share);
        }
        Some(site)
    }
}

/// Whether the codes of a weight make up for one another's errors; `None` where that cannot be
/// told.
fn is_compensated(want: &SharedTensor, twin: &Twin, held: &WeightCodes) -> Option<bool> {
    let Doubt::Steps(steps) = &twin.doubt else { return None };
    let [want, got, codes] = [want, &twin.value, &held.codes]
        .map(|(ty, tensor)| Elements::of(*ty, Cow::Borrowed(&**tensor)));
    let coded = CodedWeight { codes, ends: held.ends, steps: steps.clone() };
    coded.is_compensated(&want, &got).ok()?
}

/// Whether two values are one tensor.
fn is_one(value: &SharedTensor, other: &SharedTensor) -> bool {
    value.0 == other.0 && Arc::ptr_eq(&value.1, &other.1)
}

/// By how much two sound ways to compute an element may be apart.
struct Margin {
    /// For each unit of its size.
    unit: f64,
    least: f64,
    /// Where the twin's type ends.
    end: f64,
    /// Whether the conversion has a mask that is cut off.
    cuts_masks: bool,
}

/// What bounds how far elements are off: by how much each may be, and whether a type ends at it.
#[derive(Default)]
struct Bounds {
    doubts: Vec<f64>,
    is_end: Vec<bool>,
}

/// Elements that follow one another, as numbers of one length.
struct Block<'a> {
    start: usize,
    made: &'a [f64],
    want: &'a [f64],
    got: &'a [f64],
}

impl Block<'_> {
    /// Holds the elements against the reference's, so many together that what is known of them
    /// stays in the nearest cache.
    #[inline(always)]
    fn hold(
        &self,
        margin: &Margin,
        bounds: &mut Bounds,
        (site, ty, mut whole): (&mut Site, ElementType, Option<&mut Whole>),
    ) {
        let (mut own, Bounds { doubts, is_end }) = ([0.0; AT_ONCE], bounds);
        let sides = self.made.chunks(AT_ONCE).zip(self.want.chunks(AT_ONCE));
        let sides = sides.zip(self.got.chunks(AT_ONCE));
        let bounds = doubts.chunks(AT_ONCE).zip(is_end.chunks_mut(AT_ONCE));
        for (part, (((made, want), got), (doubts, is_end))) in sides.zip(bounds).enumerate() {
            site.local(made, want, ty);
            let places = own.iter_mut().zip(is_end.iter_mut());
            for ((own, is_end), (got, want)) in places.zip(got.iter().zip(want)) {
                let size = want.abs().max(got.abs()).min(f64::MAX);
                *own = margin.unit * size + margin.least;
                *is_end |= want.is_finite() & (want.abs() > margin.end)
                    | is_mask(*got, *want, margin.cuts_masks);
            }
            let (first, own) = (self.start + part * AT_ONCE, &own[..want.len()]);
            let held = HeldElements { first, got, want, own, doubts, is_end };
            site.worst.hold(&held);
            if let Some(whole) = &mut whole {
                whole.add(&held);
            }
        }
    }
}
