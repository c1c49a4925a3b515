//! The weights of the reference, each read from its file where it is needed.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use tract_onnx_cast::Result;
use tract_onnx_cast::interpreter::{Interpreter, SharedTensor};

use super::Subject;
use super::exact_inputs::{is_turned, laid_out, rounded};
use super::links::{Link, Links};
use super::nodes::{codes, is_moving};
use super::numbers::{cast, is_computed_in, numbers, wide};
use super::trace::Trace;
use crate::cli::measure::elements::{Elements, PartReader};
use crate::cli::measure::reach::is_cut_mask;
use crate::cli::measure::reals::pieces;
use crate::cli::measure::weight::nearest::NearestCodes;
use crate::cli::work::weights::constants::{Holder, elements_of, initializer};

/// Which constants of the conversion are roundings of which weights of the reference.
#[derive(Default)]
pub(super) struct ReferenceWeights<'a> {
    holder: Option<Holder<'a>>,
    /// The reference, where it computes weights of others.
    model: Option<Rc<Interpreter>>,
    roundings: HashMap<String, String>,
    /// Those of them that are casts, value by value.
    casts: HashSet<String>,
    /// What values of the conversion are off whose codes are the nearest ones to the values of a
    /// weight, which is named.
    nearest: HashMap<String, (String, NearestCodes)>,
    /// Whether one is a mask of the reference's that the conversion has cut off.
    pub(super) cuts_masks: bool,
    /// The constants of the conversion that are codes.
    pub(super) codes: HashSet<String>,
    /// Those of them, and of narrow weights, that are the reference's own: nothing was rounded
    /// again.
    own_codes: HashSet<String>,
    /// What both models make of codes.
    pub(super) of_both: HashSet<String>,
    /// What is made of codes whose scales or zero points put it off, with the weight that it is
    /// unless something makes up for that.
    pub(super) rescaled: Links,
}

impl<'a> ReferenceWeights<'a> {
    /// Finds them; `model` is the conversion. What it computes of its constants, as the values of a
    /// quantised weight, is linked with the weight. Fails when memory does not suffice for that.
    pub(super) fn of(
        subject: &Subject,
        holder: Holder<'a>,
        (a, b, of_reference, model): (&Trace, &Trace, Option<Rc<Interpreter>>, &Interpreter),
        links: &mut Links,
    ) -> Result<ReferenceWeights<'a>> {
        let mut weights = ReferenceWeights::begun(subject, (holder, of_reference), b);
        // A constant that several weights claim is the one of which it is a cast.
        let mut pairs: Vec<_> = subject.weights.iter().collect();
        pairs.sort_by_key(|(reference, _)| (subject.casts.contains(*reference), *reference));
        weights.cuts_masks = pairs.iter().any(|(reference, converted)| {
            let held = a.constant(reference).zip(b.constant(converted));
            held.is_some_and(|(want, got)| is_cut(want, got) == Some(true))
        });
        for (reference, converted) in pairs {
            // What both make of codes is one value, whatever the codes are.
            let are_both = is_of_codes(a, reference) && is_of_codes(b, converted);
            let is_held = a.is_constant(reference) || are_both;
            let held = a.form(reference).filter(|_| is_held);
            let Some((ty, shape)) = held.filter(|(ty, _)| is_computed_in(wide(*ty))) else {
                continue;
            };
            let is_float = b.form(converted).is_some_and(|(ty, _)| is_computed_in(ty));
            let is_other = if are_both {
                false
            } else if b.is_constant(converted) {
                subject.changed.contains(reference)
            } else {
                // Whether a few of a weight's codes are wrong its values tell.
                subject.changed.contains(reference) && !subject.changed_in_few.contains(reference)
            };
            let is_rescaled = is_other && subject.rescaled.contains(reference);
            if is_other && !is_rescaled || !is_float {
                continue;
            }
            if b.is_constant(converted) {
                weights.add_rounding(subject, (a, b), (reference, converted));
                continue;
            }
            let exact = || cast(&weights.read(a, reference)?, wide(ty));
            let by_values = || {
                let made = b.again(model, converted)?;
                Result::Ok(made.and_then(|made| Some(laid_out(&exact()?, &made)?.1)))
            };
            let is_nearest = weights.nearest(converted, reference).is_some();
            let has_order = || {
                if is_nearest {
                    // Its values are near in the reference's order.
                    return Ok(Some(false));
                }
                let turned = b.form(converted).map(|(_, made)| is_turned(shape, made));
                if turned == Some(None) { by_values() } else { Ok(turned.flatten()) }
            };
            let is_made = b.maker(converted).is_some_and(|ran| ran.op == "DequantizeLinear");
            if (is_made || are_both) && has_order()? == Some(false) {
                let link = Link { reference: reference.clone(), is_sure: true };
                weights.of_both.extend(are_both.then(|| converted.clone()));
                let links = if is_rescaled { &mut weights.rescaled } else { &mut *links };
                links.insert(converted.clone(), link);
            }
        }
        Ok(weights)
    }

    /// What is known before the weights are looked at, of the reference's file, of the reference
    /// where it computes some, and of the conversion.
    fn begun(
        subject: &Subject,
        (holder, model): (Holder<'a>, Option<Rc<Interpreter>>),
        b: &Trace,
    ) -> ReferenceWeights<'a> {
        let codes = codes(b);
        let is_code = |name: &String| {
            let narrow = b.form(name).is_some_and(|(ty, _)| ty.bits() <= 8);
            codes.contains(name) || narrow && b.is_constant(name)
        };
        let same = subject.same.iter().filter_map(|name| subject.weights.get(name));
        ReferenceWeights {
            holder: Some(holder),
            model,
            nearest: subject.nearest.clone(),
            own_codes: same.filter(|name| is_code(name)).cloned().collect(),
            codes,
            ..ReferenceWeights::default()
        }
    }

    /// Notes that a constant of the conversion is the rounding of one of the reference.
    fn add_rounding(
        &mut self,
        subject: &Subject,
        (a, b): (&Trace, &Trace),
        (reference, converted): (&String, &String),
    ) {
        self.roundings.insert(converted.clone(), reference.clone());
        let (of_a, of_b) = (a.form(reference), b.form(converted));
        let is_alike = of_a.zip(of_b).is_some_and(|((_, a), (_, b))| a == b);
        if is_alike && subject.casts.contains(reference) {
            self.casts.insert(converted.clone());
        } else {
            self.casts.remove(converted);
        }
    }

    /// Whether a constant of the conversion is codes that the reference has as well.
    pub(super) fn is_own_code(&self, name: &str) -> bool {
        self.own_codes.contains(name)
    }

    /// A constant of the reference, or what it computes of constants.
    pub(super) fn read(&self, reference: &Trace, name: &str) -> Option<SharedTensor> {
        if let Some(kept) = reference.constant(name).or_else(|| reference.first(name)) {
            return Some(kept.clone());
        }
        match &self.model {
            Some(model) if reference.computed.contains_key(name) => model.constant(name).ok()?,
            _ => initializer(self.holder.as_ref()?, name),
        }
    }

    /// The weight of the reference of which a constant of the conversion is the cast, value by
    /// value.
    pub(super) fn cast_of(&self, name: &str) -> Option<&str> {
        self.roundings.get(name).filter(|_| self.casts.contains(name)).map(String::as_str)
    }

    /// What a value of the conversion is off whose codes are the nearest ones to the values of a
    /// weight, in its order.
    pub(super) fn nearest(&self, converted: &str, reference: &str) -> Option<NearestCodes> {
        let (name, found) = self.nearest.get(converted)?;
        (name == reference).then_some(*found)
    }

    /// Whether a weight of the reference is these values, bit for bit. It is read a part at a time.
    fn is_held(&self, name: &str, held: &SharedTensor) -> bool {
        const PART: usize = 1 << 18;
        let elements = self.holder.as_ref().and_then(|holder| elements_of(holder, name));
        let alike = |elements: &Elements| {
            elements.ty == held.0 && elements.shape == held.1.shape() && held.0.bits() >= 8
        };
        let Some(elements) = elements.filter(alike) else { return false };
        let own = Elements::of(held.0, Cow::Borrowed(&*held.1));
        let readers = PartReader::of(&own).and_then(|own| Ok((own, PartReader::of(&elements)?)));
        let Ok((mut is, mut was)) = readers else { return false };
        pieces(0..elements.len(), PART).all(|places| {
            let both = is.part(places.clone()).and_then(|own| Ok((own, was.part(places)?)));
            both.is_ok_and(|(own, part)| own.as_bytes() == part.as_bytes())
        })
    }

    /// The weight of the reference of which a constant of the conversion, which holds these values,
    /// is the rounding, as the conversion has it.
    pub(super) fn exact(
        &self,
        reference: &Trace,
        name: &str,
        held: &SharedTensor,
    ) -> Option<SharedTensor> {
        let of_reference = self.roundings.get(name)?;
        let is_cast = self.casts.contains(name);
        let has_type = || reference.form(of_reference).is_some_and(|(ty, _)| ty == held.0);
        let is_same = if is_cast { has_type() } else { self.is_held(of_reference, held) };
        if is_same {
            return Some(held.clone());
        }
        let weight = self.read(reference, of_reference)?;
        if is_cast && weight.1.shape() == held.1.shape() {
            return cast(&weight, wide(weight.0));
        }
        let (exact, _) = laid_out(&cast(&weight, wide(weight.0))?, held)?;
        rounded(&exact, held, weight.0)
    }
}

/// Whether a value is made of codes, which nodes may have moved behind that.
fn is_of_codes(trace: &Trace, value: &str) -> bool {
    let mut made = trace.maker(value);
    while let Some(ran) = made.filter(|ran| ran.op == "Cast" || is_moving(ran)) {
        made = ran.inputs.first().and_then(|input| trace.maker(input));
    }
    made.is_some_and(|ran| ran.op == "DequantizeLinear")
}

/// Whether a constant is a mask, of zeros and one number, that is cut off.
fn is_cut(want: &SharedTensor, got: &SharedTensor) -> Option<bool> {
    let (want, got) = (numbers(want)?, numbers(got)?);
    let least = want.iter().copied().fold(0.0, f64::min);
    let is_of_mask = |(want, got): (&f64, &f64)| {
        (*want == 0.0 && *got == 0.0) || *want == least && is_cut_mask(*got, *want)
    };
    Some(least < 0.0 && want.len() == got.len() && want.iter().zip(&got).all(is_of_mask))
}
