//! Holds a value of the conversion against the reference's that it belongs to, and puts that in its
//! place.

use std::borrow::Cow;
use std::sync::Arc;

use tract_onnx_cast::interpreter::{NodeRun, ObservedTensor, SharedTensor};
use tract_onnx_cast::kernel::Level;
use tract_onnx_cast::{ElementType, Family};

use super::super::doubt::{Carried, Doubt, Twin, UNIFORM};
use super::super::links::Link;
use super::super::numbers::{
    blocks, cast, is_computed_in, largest, peak, rounding, shaped, smallest, smallest_normal, wide,
};
use super::super::quantizers::WeightCodes;
use super::super::site::Site;
use super::super::site::held::{HeldElements, Whole, Worst};
use super::super::trace::shared;
use super::Walk;
use super::layout::in_layout_of;
use super::plain::{Block, Margin, PlainBounds};
use super::values::{INSIDE, held_in, is_mask};
use crate::cli::measure::elements::Elements;
use crate::cli::measure::lanes::AT_ONCE;
use crate::cli::measure::reals::NumberReader;
use crate::cli::measure::weight::compensated::CodedWeight;
use crate::cli::measure::weight::ends::{CutOffPower, EndCodes};

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
    /// Whether the reference's value is in its own order.
    is_in_order: bool,
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
        let own = self.own.get(&link.reference).and_then(|times| times.get(*time));
        let own = own.map(|own| self.moved.doubts(name, output, own));
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
        let is_turned = is_alike && node.op_type != "Transpose" && is_taken;
        let (want, is_in_order) = if is_turned && !self.moved.has(name) {
            in_layout_of(&want, &twin.value)?
        } else {
            (self.moved.value(name, shaped(&want, output.tensor.shape())?)?, true)
        };
        let of_reference = own.as_deref().filter(|_| is_in_order);
        let made = &shared(output);
        let pair = PairedValue { name, link, made, want: &want, is_in_order, of_reference };
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
        if is_in_order {
            self.note_form(node, output);
        }
        is_replaced.then_some(want)
    }

    /// What is found where a value belongs to one of the reference.
    fn site(&self, node: &NodeRun, pair: &PairedValue, twin: (&Twin, bool)) -> Option<Site> {
        if let Some(site) = self.of_nearest(node, pair, twin) {
            return Some(site);
        }
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

    /// What is found of a weight that was held against the reference's before, and whose codes are
    /// the nearest ones: the half of a step that is in doubt explains each value, and so all
    /// together.
    fn of_nearest(
        &self,
        node: &NodeRun,
        pair: &PairedValue,
        (twin, is_doubted): (&Twin, bool),
    ) -> Option<Site> {
        let PairedValue { name, link, made, .. } = pair;
        let is_half = matches!(twin.doubt, Doubt::Steps(_)) && twin.share >= UNIFORM;
        let is_weight = node.op_type == "DequantizeLinear" && is_one(made, &twin.value);
        let found = self.weights.nearest(name, &link.reference);
        let found = found.filter(|_| is_doubted && is_half && is_weight && pair.is_in_order)?;
        let mut site = Site::new(name, link, node);
        site.local_sums((found.noise, found.power), found.largest, made.0);
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
        let PairedValue { name, link, made, want, of_reference, .. } = pair;
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
        let (mut whole, mut doubts, mut is_end) = (Whole::default(), vec![], vec![]);
        let is_made = is_one(made, got);
        let [mut wants, mut gots, mut mades] =
            [want, got, made].map(|(ty, tensor)| NumberReader::of(*ty, tensor));
        let mut codes =
            ends.as_ref().map(|(held, _)| NumberReader::of(held.codes.0, &held.codes.1));
        for places in blocks(want.1.len()) {
            let start = places.start;
            let (want, got) = (wants.numbers(places.clone())?, gots.numbers(places.clone())?);
            let made = if is_made { got } else { mades.numbers(places.clone())? };
            if is_doubted {
                twin.doubts_in(places.clone(), got, &mut doubts);
            } else {
                doubts.clear();
            }
            doubts.resize(got.len(), 0.0);
            if let Some(own) = of_reference {
                let both = doubts.iter_mut().zip(own.iter().skip(start));
                both.for_each(|(doubt, own)| *doubt = doubt.max(*own));
            }
            let codes = match codes.as_mut() {
                Some(codes) => codes.numbers(places)?,
                None => &[],
            };
            let block = Block { start, made, want, got, codes, doubts: &doubts };
            let whole = is_doubted.then_some(&mut whole);
            let ends = ends.as_mut().map(|(held, lost)| (held.ends, &mut **lost));
            Level::best().run(
                #[inline(always)]
                || block.hold(&margin, &mut is_end, ends, (&mut site, ty, whole)),
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
    let coded = CodedWeight { codes, ends: held.ends, steps: steps.scales.clone() };
    Some(coded.errors(&want, &got).ok()??.is_compensated)
}

/// Whether two values are one tensor.
fn is_one(value: &SharedTensor, other: &SharedTensor) -> bool {
    value.0 == other.0 && Arc::ptr_eq(&value.1, &other.1)
}

impl Block<'_> {
    /// Holds the elements against the reference's, so many together that what is known of them
    /// stays in the nearest cache.
    #[inline(always)]
    fn hold(
        &self,
        margin: &Margin,
        is_end: &mut Vec<bool>,
        mut ends: Option<(EndCodes, &mut CutOffPower)>,
        (site, ty, mut whole): (&mut Site, ElementType, Option<&mut Whole>),
    ) {
        let bounds = PlainBounds::of(margin, ty, ends.as_ref().map(|(ends, _)| ends));
        let sides = self.made.chunks(AT_ONCE).zip(self.want.chunks(AT_ONCE));
        let sides = sides.zip(self.got.chunks(AT_ONCE).zip(self.doubts.chunks(AT_ONCE)));
        let mut codes = self.codes.chunks(AT_ONCE);
        for (part, ((made, want), (got, doubts))) in sides.enumerate() {
            let codes = codes.next().unwrap_or_default();
            let part = Block { start: self.start + part * AT_ONCE, made, want, got, codes, doubts };
            let largest = whole.as_ref().map_or(f64::INFINITY, |whole| whole.largest.error);
            let plain = bounds.as_ref().and_then(
                #[inline(always)]
                |bounds| bounds.sums(&part).filter(|sums| sums.whole.largest <= largest),
            );
            let ends = ends.as_mut().map(|(ends, lost)| (&*ends, &mut **lost));
            let Some(sums) = plain else {
                part.hold_each(margin, is_end, ends, (site, ty, whole.as_deref_mut()));
                continue;
            };
            site.local_sums((sums.noise, sums.power), sums.largest, ty);
            if let Some((_, lost)) = ends {
                lost.add(sums.cut_off, sums.power);
            }
            if let Some(whole) = &mut whole {
                whole.add_sums(&sums.whole);
            }
        }
    }

    /// Holds no more than are looked at together.
    #[inline(never)]
    fn hold_each(
        &self,
        margin: &Margin,
        is_end: &mut Vec<bool>,
        ends: Option<(&EndCodes, &mut CutOffPower)>,
        (site, ty, whole): (&mut Site, ElementType, Option<&mut Whole>),
    ) {
        let Block { start: first, made, want, got, codes, doubts } = *self;
        is_end.clear();
        if let Some((ends, lost)) = ends {
            ends.lies_beyond(codes, (got, want), (is_end, lost));
        }
        is_end.resize(want.len(), false);
        let mut own = [0.0; AT_ONCE];
        Level::best().run(
            #[inline(always)]
            || {
                site.local(made, want, ty);
                let places = own.iter_mut().zip(is_end.iter_mut());
                for ((own, is_end), (got, want)) in places.zip(got.iter().zip(want)) {
                    let size = want.abs().max(got.abs()).min(f64::MAX);
                    *own = margin.unit * size + margin.least;
                    *is_end |= want.is_finite() & (want.abs() > margin.end)
                        | is_mask(*got, *want, margin.cuts_masks);
                }
                let own = own.get(..want.len()).unwrap_or_default();
                let held = HeldElements { first, got, want, own, doubts, is_end };
                site.worst.hold(&held);
                if let Some(whole) = whole {
                    whole.add(&held);
                }
            },
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ELEMENTS: usize = 3 * AT_ONCE + 5;

    /// A number between -1 and 1 of a place.
    fn number(place: usize, of: usize) -> f64 {
        let mixed = (place * 4 + of + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        mixed as f64 / (1 << 23) as f64 - 1.0
    }

    fn site() -> Site {
        Site { is_sure: true, ..Site::default() }
    }

    /// All that is found of elements, in words that tell every bit of numbers.
    fn found(
        sides: [&[f64]; 5],
        (ends, cuts_masks): (Option<EndCodes>, bool),
        hold: impl Fn(
            &Block,
            &Margin,
            Option<(EndCodes, &mut CutOffPower)>,
            (&mut Site, ElementType, Option<&mut Whole>),
        ),
    ) -> String {
        let [made, want, got, codes, doubts] = sides;
        let margin = Margin { unit: 1e-6, least: 1e-30, end: 1e6, cuts_masks };
        let (mut site, mut whole, mut lost) = (site(), Whole::default(), CutOffPower::default());
        let block = Block { start: 7, made, want, got, codes, doubts };
        let ends = ends.map(|ends| (ends, &mut lost));
        hold(&block, &margin, ends, (&mut site, ElementType::Float16, Some(&mut whole)));
        format!("{site:?} {whole:?} {lost:?}")
    }

    #[test]
    fn elements_at_once_come_to_what_each_comes_to() {
        let want: Vec<f64> = (0..ELEMENTS).map(|place| number(place, 0)).collect();
        let moved = |place: usize, by: f64| want[place] + by * number(place, 1);
        let got: Vec<f64> = (0..ELEMENTS).map(|place| moved(place, 0.1)).collect();
        let made: Vec<f64> = (0..ELEMENTS).map(|place| moved(place, 0.2)).collect();
        let codes: Vec<f64> = (0..ELEMENTS).map(|place| (place % 16) as f64).collect();
        let doubts: Vec<f64> = (0..ELEMENTS).map(|place| 0.1 + number(place, 2).abs()).collect();
        let odd = [f64::NAN, f64::INFINITY, -1e9, 2e6, 7e4, -2e4, 5.0, f64::MAX, -0.0];
        let places = [0, AT_ONCE - 1, AT_ONCE + 8, ELEMENTS - 1];
        let at = |place: usize| odd.into_iter().map(move |x| (place, x));
        let changes: Vec<_> = places.into_iter().flat_map(at).collect();
        let ends = EndCodes::of(ElementType::Uint4);
        let mut all = std::collections::HashSet::new();
        for (place, x) in changes {
            for side in 0..6 {
                let mut sides =
                    [made.clone(), want.clone(), got.clone(), codes.clone(), doubts.clone()];
                if let Some(changed) = sides.get_mut(side) {
                    changed[place] = x;
                }
                for (ends, cuts_masks) in [(ends, false), (None, false), (ends, true)] {
                    let sides = [0, 1, 2, 3, 4].map(|side| &*sides[side]);
                    let sides = if ends.is_none() {
                        [sides[0], sides[1], sides[2], &[], sides[4]]
                    } else {
                        sides
                    };
                    let at_once = found(sides, (ends, cuts_masks), |block, margin, ends, of| {
                        block.hold(margin, &mut vec![], ends, of);
                    });
                    let each = found(sides, (ends, cuts_masks), |block, margin, mut ends, of| {
                        let (site, ty, mut whole) = of;
                        for start in (0..ELEMENTS).step_by(AT_ONCE) {
                            let part = |side: &'_ [f64]| {
                                let end = side.len().min(start + AT_ONCE);
                                side.get(start..end).unwrap_or_default().to_vec()
                            };
                            let of_block =
                                [block.made, block.want, block.got, block.codes, block.doubts];
                            let [made, want, got, codes, doubts] = &of_block.map(part);
                            let part = Block { start: 7 + start, made, want, got, codes, doubts };
                            let ends = ends.as_mut().map(|(ends, lost)| (&*ends, &mut **lost));
                            let of = (&mut *site, ty, whole.as_deref_mut());
                            part.hold_each(margin, &mut vec![], ends, of);
                        }
                    });
                    assert_eq!(at_once, each, "{x} at {place} of {side}");
                    all.insert(each);
                }
            }
        }
        assert!(all.len() > 60);
    }
}
