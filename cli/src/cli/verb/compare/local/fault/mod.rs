//! What kind of fault a local error looks like: what the conversion has otherwise than the
//! reference, between the values before it that agree and the one that does not.

mod attributes;
mod holders;
mod regions;

use std::collections::{HashMap, HashSet};

use tract_onnx::pb::AttributeProto;
use tract_onnx_cast::interpreter::{Interpreter, SharedTensor};

use attributes::attributes;
use regions::results_turned;

use super::exact_inputs::laid_out;
use super::links::Links;
use super::nodes::{is_coder, is_form, is_fused, is_moving, is_of_codes, is_product, region};
use super::numbers::{numbers, rounding, smallest};
use super::quantizers::Wrong;
use super::reference_weights::ReferenceWeights;
use super::site::{Site, Sites};
use super::trace::{Ran, Trace};
use crate::cli::found::verdict::{Culprit, FaultKind};
use crate::cli::found::weights::ComparedWeight;
use crate::cli::measure::number::Num;
use crate::cli::measure::value::coordinates;

/// Introduces what a node computes of the reference's inputs.
pub(super) const GIVEN: &str = "given the reference's inputs, ";

/// A weight in codes that is off by more of its size is another.
const OTHER: f64 = 0.2;

/// What a fault is looked for in.
pub(super) struct Fault<'a> {
    pub(super) a: &'a Trace,
    pub(super) b: &'a Trace,
    /// The conversion.
    pub(super) model: &'a Interpreter,
    /// Whether the names of what is made inside tell anything.
    pub(super) has_names: bool,
    pub(super) links: &'a Links,
    pub(super) sites: &'a Sites,
    /// The reference's values that replace the conversion's.
    pub(super) replaced: HashSet<&'a str>,
    /// The reference's weights.
    pub(super) held: &'a ReferenceWeights<'a>,
    /// What the reference's constants are called in the conversion.
    pub(super) weights: &'a HashMap<String, String>,
    pub(super) changed: &'a [ComparedWeight],
}

impl<'a> Fault<'a> {
    /// The conversion's nodes between a site and the values before it that are the reference's.
    pub(super) fn region(&self, site: &Site) -> Vec<&'a Ran> {
        let ends = |value: &str| self.sites.get(value).is_some_and(|site| site.is_replaced);
        region(self.b, &site.converted, ends)
    }

    /// What is to blame for what a site is off by.
    pub(super) fn culprit(&self, site: &Site) -> Culprit {
        let region = self.region(site);
        let is_quantised = region.iter().any(|ran| is_of_codes(ran));
        let is_folded = self.is_folded(site, &region);
        let of_reference = self.region_of_reference(site);
        let other = || {
            let of = |ran: &Ran| {
                let only = || Fault::only_one_of(ran, [&of_reference, &region]);
                let partner = self.partner(ran).or_else(only);
                self.of_node((ran, partner), is_quantised, is_folded)
            };
            region.iter().find_map(|ran| Some((*ran, of(ran)?)))
        };
        let alone = || self.only_one_side(site, &region);
        let turned = || {
            let of = |ran: &&'a Ran| {
                let partner = self.partner(ran)?;
                self.operands(partner, ran).or_else(|| Some((*ran, results_turned(partner, ran)?)))
            };
            region.iter().find_map(of)
        };
        // A weight into which a normalisation was folded is another one.
        let found = if is_folded { alone().or_else(other) } else { other().or_else(alone) };
        let found = self.holder(site).or(found).or_else(turned);
        let found = found.or_else(|| self.biased(&region)).or_else(|| self.unbiased(site, &region));
        let (ran, (kind, text)) = match found {
            Some((ran, found)) => (Some(ran), found),
            None => (self.suspect(&region, &of_reference), unknown(is_quantised)),
        };
        let (node, op) = ran.map_or((&site.node, &site.op), |ran| (&ran.name, &ran.op));
        let tensor = match ran.and_then(|ran| ran.outputs.first()) {
            Some(made) if ran.is_some_and(|ran| !ran.outputs.contains(&site.converted)) => made,
            _ => &site.converted,
        };
        let made = self.in_words(site);
        let text = if text.is_empty() { made } else { format!("{text}; {made}") };
        Culprit {
            node: node.clone(),
            op: op.clone(),
            tensor: tensor.clone(),
            local_error: Num(if site.problem.is_some() { f64::INFINITY } else { site.worst.error }),
            bound: Num(site.worst.bound),
            kind,
            text,
        }
    }

    /// What is to blame for values that a quantiser cuts off: an added node before it, else itself.
    pub(super) fn before(&self, wrong: Wrong) -> Culprit {
        let ends = |value: &str| self.sites.get(value).is_some_and(|site| site.is_replaced);
        let is_form =
            |ran: &Ran| is_form(ran) || is_coder(ran) || is_moving(ran) || is_product(ran);
        let is_alone = |ran: &Ran| {
            let Some(partner) = self.partner(ran) else { return true };
            let mut made = partner.outputs.iter().filter_map(|made| self.b.maker(made));
            partner.op != ran.op && made.any(|other| other.name != ran.name)
        };
        let is_added = |ran: &&Ran| !is_form(ran) && !self.is_scaling(ran) && is_alone(ran);
        let nodes = region(self.b, &wrong.value, ends);
        match nodes.into_iter().find(is_added) {
            Some(ran) => Culprit {
                node: ran.name.clone(),
                op: ran.op.clone(),
                tensor: ran.outputs.first().cloned().unwrap_or_default(),
                kind: FaultKind::AddedNode,
                text: format!(
                    "the reference has no such node here; behind it, {}",
                    wrong.culprit.text
                ),
                ..wrong.culprit
            },
            None => wrong.culprit,
        }
    }

    /// Whether the reference, which is in codes itself, has a quantiser of the same value.
    pub(super) fn is_cut_by_both(&self, wrong: &Wrong) -> bool {
        // What a quantiser that stays takes is cast for it.
        let cast = self.b.maker(&wrong.value).filter(|ran| ran.op == "Cast");
        let source = cast.and_then(|ran| ran.inputs.first()).unwrap_or(&wrong.value);
        let link = [&wrong.value, source].into_iter().find_map(|value| self.links.get(value));
        let reference = link.map_or(source, |link| &link.reference);
        let quantises =
            |ran: &Ran| ran.op == "QuantizeLinear" && ran.inputs.first() == Some(reference);
        wrong.is_cut_off && self.a.nodes.iter().any(quantises)
    }

    /// A kernel of another runtime that is off for its own inputs.
    pub(super) fn kernel(&self, site: &Site) -> Culprit {
        let text = format!(
            "given its own inputs, the other runtime computed {} instead of {}: \
             off by {}, of which rounding explains {} at most",
            Num(site.worst.want),
            Num(site.worst.got),
            Num(site.worst.error),
            Num(site.worst.bound)
        );
        let text = site.problem.clone().unwrap_or(text);
        Culprit { kind: FaultKind::Kernel, text, ..self.of_site(site) }
    }

    /// A node whose type does not hold what it makes.
    pub(super) fn beyond(&self, site: &Site) -> Culprit {
        let text = format!(
            "{} of its values are infinite or NaN where the reference has numbers, \
            {} of them beyond the range of its type: keep it in FLOAT",
            site.broken_off, site.beyond_type
        );
        Culprit { kind: FaultKind::Overflow, text, ..self.of_site(site) }
    }

    fn of_site(&self, site: &Site) -> Culprit {
        Culprit {
            node: site.node.clone(),
            op: site.op.clone(),
            tensor: site.converted.clone(),
            local_error: Num(site.worst.error),
            bound: Num(site.worst.bound),
            kind: FaultKind::Unexplained,
            text: String::new(),
        }
    }

    /// What it should have made.
    fn in_words(&self, site: &Site) -> String {
        if let Some(problem) = &site.problem {
            return format!("{GIVEN}it computes another tensor: {problem}");
        }
        let worst = &site.worst;
        let shape = self.b.form(&site.converted).map(|(_, shape)| shape.to_vec());
        let at = coordinates(worst.place, &shape.unwrap_or_default());
        if worst.error <= worst.bound {
            return format!(
                "{GIVEN}its values are off, taken together, by {} times what random rounding \
                 explains; most at {at:?} of `{}`: it computes {} instead of {}",
                Num(worst.excess),
                site.converted,
                Num(worst.got),
                Num(worst.want)
            );
        }
        format!(
            "{GIVEN}it computes {} at {at:?} of `{}` instead of {}: off by {}, of which rounding \
             explains {} at most",
            Num(worst.got),
            site.converted,
            Num(worst.want),
            Num(worst.error),
            Num(worst.bound)
        )
    }

    /// The node that is likely to be wrong where none has anything otherwise than in the reference.
    pub(super) fn suspect<'b>(&self, region: &[&'b Ran], of_reference: &[&Ran]) -> Option<&'b Ran> {
        let is_off = |made: &String| self.sites.get(made).is_some_and(Site::deviates);
        let is_made = |codes: &String| {
            self.b.maker(codes).is_some_and(|ran| ran.op.ends_with("QuantizeLinear"))
        };
        let is_wrong = |ran: &Ran| {
            let is_taker = ran.op == "DequantizeLinear" && !ran.inputs.iter().any(is_made);
            is_taker && ran.outputs.iter().any(is_off)
        };
        let is_of_constant =
            |ran: &Ran| ran.inputs.first().is_some_and(|codes| self.b.is_constant(codes));
        let computes = |ran: &Ran| !is_form(ran) && !is_coder(ran) && !self.is_scaling(ran);
        // Products are held against the reference's; what several of its nodes were fused into is
        // not.
        let is_alone = |ran: &Ran| {
            let is_plain = is_moving(ran) || is_product(ran) || is_of_codes(ran);
            let is_other = of_reference.iter().all(|was| was.op != ran.op);
            !is_plain && computes(ran) && is_other && self.partner(ran).is_none()
        };
        let of = |is_it: &dyn Fn(&Ran) -> bool| region.iter().copied().find(|ran| is_it(ran));
        of(&|ran| self.is_scale_of_other(ran) || self.is_scaled_by_other(ran))
            .or_else(|| of(&|ran| is_wrong(ran) && is_of_constant(ran)))
            .or_else(|| of(&is_alone))
            .or_else(|| of(&is_product))
            .or_else(|| of(&is_wrong))
            .or_else(|| of(&|ran| computes(ran) && !is_moving(ran)))
            .or_else(|| of(&computes))
            .or_else(|| of(&is_of_codes))
    }

    /// The node of the reference that a node stands for.
    pub(super) fn partner(&self, ran: &Ran) -> Option<&'a Ran> {
        let linked = ran.outputs.iter().find_map(|made| {
            let link = self.links.get(made)?;
            self.a.maker(&link.reference)
        });
        let same = || ran.outputs.iter().find_map(|made| self.a.maker(made));
        let name = ran.name.strip_suffix("_quant").unwrap_or(&ran.name);
        let named = || self.a.nodes.iter().find(|other| !name.is_empty() && other.name == name);
        let by_name = || same().or_else(named);
        let found = linked.or_else(|| by_name().filter(|_| self.has_names));
        match found {
            Some(other) if !is_product(ran) || is_product(other) => found,
            _ if !is_product(ran) => None,
            _ => found
                .and_then(|other| self.product_before(other))
                .or_else(|| self.of_weight(ran))
                .or(found),
        }
    }

    /// The product of the reference that a product takes in what is behind it of.
    fn product_before(&self, behind: &'a Ran) -> Option<&'a Ran> {
        let mut ran = behind;
        while !is_product(ran) {
            let is_taken_in = is_fused(ran) || matches!(ran.op.as_str(), "Relu" | "Clip");
            let mut makers = ran.inputs.iter().filter_map(|input| self.a.maker(input));
            ran = makers.next().filter(|_| is_taken_in)?;
        }
        Some(ran)
    }

    /// The product of the reference that takes the same weight.
    fn of_weight(&self, ran: &Ran) -> Option<&'a Ran> {
        let is_weight = |held: &String| ran.inputs.contains(held);
        let mut weights = self.weights.iter().filter(|(_, held)| is_weight(held));
        weights.find_map(|(weight, _)| {
            self.a.nodes.iter().find(|other| is_product(other) && other.inputs.contains(weight))
        })
    }

    /// What a node has otherwise than its partner.
    fn of_node(
        &self,
        (ran, partner): (&Ran, Option<&'a Ran>),
        is_quantised: bool,
        is_folded: bool,
    ) -> Option<(FaultKind, String)> {
        let is_taken = |weight: &&ComparedWeight| {
            let name = weight.converted_name.as_ref().unwrap_or(&weight.name);
            let is_made = ran.op == "DequantizeLinear" && ran.outputs.contains(name);
            let is_another = || weight.is_rescaled || self.is_another(&weight.name, name);
            (is_made || ran.inputs.contains(name)) && is_another()
        };
        let mut changed = self.changed.iter().filter(|_| !is_folded);
        if let Some(weight) = changed.find(is_taken) {
            let text = format!("its weight `{}` is a different one: {}", weight.name, weight.text);
            return Some((FaultKind::Weight, text));
        }
        if let Some(found) = self.dequantised(ran).filter(|_| !is_folded) {
            return Some(found);
        }
        let partner = partner?;
        if (&partner.op, &partner.domain) != (&ran.op, &ran.domain) {
            if let ("Gemm", "MatMul") = (ran.op.as_str(), partner.op.as_str()) {
                return scaled(ran).or_else(|| self.constants(partner, ran));
            }
            let is_plain = [ran, partner].iter().any(|ran| is_form(ran) || is_moving(ran))
                || is_product(ran) && (is_fused(partner) || is_product(partner));
            let text = format!("it is {}, and {} in the reference", ran.op, partner.op);
            return (!is_plain && !is_quantised).then_some((FaultKind::Operator, text));
        }
        // The width of a Pad that only the reference has is in the operator behind it.
        let is_padded = |ran: &Ran, trace: &Trace| {
            let made = ran.inputs.first().and_then(|input| trace.maker(input));
            made.is_some_and(|ran| ran.op == "Pad")
        };
        let is_folded = is_padded(partner, self.a) && !is_padded(ran, self.b);
        attributes(partner, ran, if is_folded { "pads" } else { "" })
            .or_else(|| self.constants(partner, ran))
    }

    /// A weight that is made of codes, and is none of the reference's.
    fn dequantised(&self, ran: &Ran) -> Option<(FaultKind, String)> {
        let made = ran.outputs.first().filter(|_| ran.op == "DequantizeLinear")?;
        let taker = self.b.nodes.iter().find(|taker| taker.inputs.contains(made))?;
        let place = taker.inputs.iter().position(|input| input == made)?;
        let weight = self.partner(taker)?.inputs.get(place)?;
        let is_weight = self.a.is_constant(weight) && self.is_another(weight, made);
        let text = format!("the weight `{weight}` has different codes");
        is_weight.then_some((FaultKind::Weight, text))
    }

    /// Whether a weight is more than quantised, as far as that can be told.
    fn is_another(&self, reference: &str, converted: &str) -> bool {
        let made = self.b.again(self.model, converted).ok().flatten();
        let held = self.held.read(self.a, reference).zip(made);
        let Some((was, is)) = held.filter(|_| !self.b.is_constant(converted)) else {
            return self.b.constants.contains_key(converted) || self.b.maker(converted).is_some();
        };
        let was = laid_out(&was, &is).map_or(was, |(was, _)| was);
        let (Some(was), Some(is)) = (numbers(&was), numbers(&is)) else { return false };
        let error: f64 = was.iter().zip(&is).map(|(x, y)| (x - y) * (x - y)).sum();
        let power: f64 = was.iter().map(|x| x * x).sum();
        was.len() == is.len() && error > OTHER * OTHER * power
    }

    /// A small constant that is another one.
    fn constants(&self, partner: &Ran, ran: &Ran) -> Option<(FaultKind, String)> {
        for (place, (x, y)) in partner.inputs.iter().zip(&ran.inputs).enumerate() {
            let (Some(was), Some(is)) = (self.a.constant(x), self.b.constant(y)) else { continue };
            let is_float = |held: &SharedTensor| held.0.is_float();
            if is_float(was) != is_float(is) {
                continue;
            }
            // One of the two may be stored transposed.
            let turned = laid_out(was, is);
            let was = turned.as_ref().map_or(was, |(was, _)| was);
            let (unit, floats) = (rounding(is.0), is.0.is_float());
            let least = 2.0 * smallest(is.0);
            let (Some(was), Some(is)) = (numbers(was), numbers(is)) else { continue };
            let is_near = |(x, y): (&f64, &f64)| {
                x == y
                    || (x - y).abs() <= 2.0 * unit * x.abs().max(y.abs()) + least
                    || floats && x.abs() > 1e4
            };
            if was.len() == is.len() && was.iter().zip(&is).all(is_near) {
                continue;
            }
            let kind = match (was.as_slice(), ran.op.as_str(), place) {
                ([x], "Add" | "Max", _) if *x > 0.0 && *x < 1e-2 => FaultKind::Epsilon,
                (_, "QuantizeLinear" | "DequantizeLinear", 1) => FaultKind::Scale,
                (_, "QuantizeLinear" | "DequantizeLinear", 2) => FaultKind::ZeroPoint,
                _ if !floats => FaultKind::Attribute,
                _ => FaultKind::Weight,
            };
            let text =
                format!("its input `{y}` is {}, and {} in the reference", shown(&is), shown(&was));
            return Some((kind, text));
        }
        None
    }
}

/// What is told of a fault that looks like none that is known.
fn unknown(is_quantised: bool) -> (FaultKind, String) {
    let text = "its codes, scales or zero points do not stand for the reference's values";
    if is_quantised {
        (FaultKind::Scale, text.into())
    } else {
        (FaultKind::Unexplained, String::new())
    }
}

/// What a Gemm that stands for a product and a sum multiplies them by.
fn scaled(ran: &Ran) -> Option<(FaultKind, String)> {
    let is_factor = |held: &&AttributeProto| matches!(held.name.as_str(), "alpha" | "beta");
    let held = ran.attributes.iter().filter(is_factor).find(|held| held.f != 1.0)?;
    let text = format!("its attribute `{}` is {}, and the reference has none", held.name, held.f);
    Some((FaultKind::Attribute, text))
}

/// A few numbers.
fn shown(values: &[f64]) -> String {
    const SHOWN: usize = 6;
    let some: Vec<String> = values.iter().take(SHOWN).map(|x| Num(*x).to_string()).collect();
    let more = if values.len() > SHOWN { ", …" } else { "" };
    match values {
        [one] => Num(*one).to_string(),
        _ => format!("[{}{more}]", some.join(", ")),
    }
}
