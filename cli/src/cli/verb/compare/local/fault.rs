//! What kind of fault a local error looks like: what the conversion has otherwise than the
//! reference, between the values before it that agree and the one that does not.

use std::collections::{BTreeSet, HashMap, HashSet};

use tract_onnx::pb::AttributeProto;
use tract_onnx_cast::Family;

use super::links::Links;
use super::numbers::{numbers, rounding};
use super::site::{Site, Sites};
use super::trace::{Ran, Trace};
use crate::cli::found::verdict::{Culprit, FaultKind};
use crate::cli::found::weights::ComparedWeight;
use crate::cli::measure::number::Num;
use crate::cli::measure::value::coordinates;

/// What a fault is looked for in.
pub(super) struct Fault<'a> {
    pub(super) a: &'a Trace,
    pub(super) b: &'a Trace,
    pub(super) links: &'a Links,
    pub(super) sites: &'a Sites,
    /// What the reference's constants are called in the conversion.
    pub(super) weights: &'a HashMap<String, String>,
    pub(super) changed: &'a [ComparedWeight],
}

/// The nodes that compute a value of those where a walk back ends, in their order.
pub(super) fn region<'a>(
    trace: &'a Trace,
    value: &str,
    ends: impl Fn(&str) -> bool,
) -> Vec<&'a Ran> {
    let (mut seen, mut next) = (HashSet::new(), vec![value.to_owned()]);
    while let Some(value) = next.pop() {
        let Some(ran) = trace.maker(&value) else { continue };
        if ran.op != "Constant" && ran.outputs.iter().all(|made| seen.insert(made.clone())) {
            next.extend(ran.inputs.iter().filter(|input| !ends(input)).cloned());
        }
    }
    let made = |ran: &&Ran| ran.outputs.iter().any(|output| seen.contains(output));
    trace.nodes.iter().filter(made).collect()
}

impl<'a> Fault<'a> {
    /// What is to blame for what a site is off by.
    pub(super) fn culprit(&self, site: &Site) -> Culprit {
        let ends = |value: &str| self.sites.get(value).is_some_and(|site| site.is_replaced);
        let region = region(self.b, &site.converted, ends);
        let is_quantised = region.iter().any(|ran| is_quantiser(ran));
        let found = region.iter().find_map(|ran| Some((*ran, self.of_node(ran, is_quantised)?)));
        let turned =
            || region.iter().find_map(|ran| Some((*ran, self.operands(self.partner(ran)?, ran)?)));
        let found = found.or_else(|| self.only_one_side(site, &region)).or_else(turned);
        let (ran, (kind, text)) = match found {
            Some((ran, found)) => (Some(ran), found),
            None => (self.suspect(&region), (FaultKind::Unexplained, String::new())),
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

    /// A kernel of another runtime that is off for its own inputs.
    pub(super) fn kernel(&self, site: &Site) -> Culprit {
        let text = format!(
            "of its own inputs the other runtime made {}, and the operator makes {}: \
             off by {}, rounding explains {} at most",
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
            return format!("of the reference's inputs it makes another tensor: {problem}");
        }
        let worst = &site.worst;
        let shape = self.b.first(&site.converted).map(|(_, tensor)| tensor.shape().to_vec());
        let at = coordinates(worst.place, &shape.unwrap_or_default());
        format!(
            "of the reference's inputs it makes {} at {at:?} of `{}`, and should make {}: off by {}, \
             and rounding explains {} at most",
            Num(worst.got),
            site.converted,
            Num(worst.want),
            Num(worst.error),
            Num(worst.bound)
        )
    }

    /// The first node whose value is likely off as well, else the one that makes the value.
    fn suspect<'b>(&self, region: &[&'b Ran]) -> Option<&'b Ran> {
        let is_off = |made: &String| self.sites.get(made).is_some_and(Site::deviates);
        region.iter().copied().find(|ran| ran.outputs.iter().any(is_off))
    }

    /// The node of the reference that a node stands for.
    fn partner(&self, ran: &Ran) -> Option<&'a Ran> {
        let linked = ran.outputs.iter().find_map(|made| {
            let link = self.links.get(made)?;
            self.a.maker(&link.reference)
        });
        let same = || ran.outputs.iter().find_map(|made| self.a.maker(made));
        let named =
            || self.a.nodes.iter().find(|other| !ran.name.is_empty() && other.name == ran.name);
        linked.or_else(same).or_else(named)
    }

    /// What a node has otherwise than its partner.
    fn of_node(&self, ran: &Ran, is_quantised: bool) -> Option<(FaultKind, String)> {
        let is_taken = |weight: &&ComparedWeight| {
            let name = weight.converted_name.as_ref().unwrap_or(&weight.name);
            ran.inputs.contains(name)
        };
        if let Some(weight) = self.changed.iter().find(is_taken) {
            let text = format!("its weight `{}` is another: {}", weight.name, weight.text);
            return Some((FaultKind::Weight, text));
        }
        let partner = self.partner(ran)?;
        if (&partner.op, &partner.domain) != (&ran.op, &ran.domain) {
            let is_plain = is_form(ran) || is_form(partner);
            let text = format!("it is {}, and {} in the reference", ran.op, partner.op);
            return (!is_plain && !is_quantised).then_some((FaultKind::Operator, text));
        }
        attributes(partner, ran).or_else(|| self.constants(partner, ran))
    }

    /// A small constant that is another one.
    fn constants(&self, partner: &Ran, ran: &Ran) -> Option<(FaultKind, String)> {
        for (place, (x, y)) in partner.inputs.iter().zip(&ran.inputs).enumerate() {
            let (Some(was), Some(is)) = (self.a.constant(x), self.b.constant(y)) else { continue };
            let (unit, floats) = (rounding(is.0), matches!(is.0.family(), Family::Float(_)));
            let (Some(was), Some(is)) = (numbers(was), numbers(is)) else { continue };
            let is_near = |(x, y): (&f64, &f64)| {
                x == y
                    || (x - y).abs() <= 2.0 * unit * x.abs().max(y.abs())
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

    /// The operands in another order, or another operand.
    fn operands(&self, partner: &Ran, ran: &Ran) -> Option<(FaultKind, String)> {
        let of_reference = |name: &String| match self.links.get(name) {
            Some(link) => Some(link.reference.clone()),
            None if self.b.constants.contains_key(name) => {
                let named = self.weights.iter().find(|(_, converted)| *converted == name);
                named.map(|(reference, _)| reference.clone())
            }
            None => self.b.inputs.contains(name).then(|| name.clone()),
        };
        let taken: Option<Vec<String>> = ran.inputs.iter().map(of_reference).collect();
        let taken = taken.filter(|taken| *taken != partner.inputs)?;
        let sorted = |names: &[String]| names.iter().cloned().collect::<BTreeSet<String>>();
        let is_turned = sorted(&taken) == sorted(&partner.inputs);
        let (kind, what) = match is_turned {
            true => (FaultKind::InputOrder, "its inputs stand in another order"),
            false => (FaultKind::Input, "it takes other tensors"),
        };
        let listed = |names: &[String]| names.join("`, `");
        let text = format!(
            "{what}: `{}`, and `{}` in the reference",
            listed(&ran.inputs),
            listed(&partner.inputs)
        );
        Some((kind, text))
    }

    /// A node that only one of the two models has between the same values.
    fn only_one_side<'b>(
        &self,
        site: &Site,
        region_b: &[&'b Ran],
    ) -> Option<(&'b Ran, (FaultKind, String))> {
        let known: HashSet<&String> = self
            .sites
            .all
            .iter()
            .filter(|site| site.is_replaced)
            .map(|site| &site.reference)
            .collect();
        let region_a = region(self.a, &site.reference, |value| {
            known.contains(&value.to_owned()) || self.a.inputs.contains(value)
        });
        let mut ops: Vec<&str> = region_b.iter().map(|ran| ran.op.as_str()).collect();
        let (mut missing, is_quantised) = (vec![], region_b.iter().any(|ran| is_quantiser(ran)));
        let is_left = |ran: &Ran, is_part: bool| is_form(ran) || is_quantised && is_part;
        let is_told = |ran: &&&Ran| !is_left(ran, is_scaling(ran));
        let is_kept = |ran: &&&Ran| !is_left(ran, is_product(ran));
        for ran in region_a.iter().filter(is_kept) {
            match ops.iter().position(|op| *op == ran.op) {
                Some(place) => drop(ops.swap_remove(place)),
                None => missing.push(*ran),
            }
        }
        let added: Vec<&&Ran> =
            region_b.iter().filter(is_told).filter(|ran| ops.contains(&ran.op.as_str())).collect();
        if is_quantised && missing.is_empty() && added.is_empty() {
            let is_of_codes =
                |ran: &&&Ran| ran.op.contains("Integer") || ran.op.contains("QLinear");
            let text = "its codes, scales or zero points do not stand for the reference's values";
            let found = region_b.iter().find(is_of_codes);
            let found = found.or_else(|| region_b.iter().find(|ran| is_quantiser(ran)))?;
            return Some((found, (FaultKind::Scale, text.into())));
        }
        match (missing.first(), added.first()) {
            (Some(missing), None) => {
                let text = format!(
                    "{} `{}` of the reference is missing before it",
                    missing.op, missing.name
                );
                let last = region_b.iter().rev().find(|ran| ran.outputs.contains(&site.converted));
                Some((last?, (FaultKind::MissingNode, text)))
            }
            (None, Some(added)) => {
                Some((added, (FaultKind::AddedNode, "the reference has no such node here".into())))
            }
            _ => None,
        }
    }
}

/// What conversions add and leave out.
fn is_form(ran: &Ran) -> bool {
    matches!(ran.op.as_str(), "Cast" | "Identity" | "Constant")
}

/// What takes or makes codes.
fn is_quantiser(ran: &Ran) -> bool {
    ["Quantize", "Integer", "QLinear"].iter().any(|part| ran.op.contains(part))
}

/// What is written in codes where a model is quantised.
fn is_product(ran: &Ran) -> bool {
    matches!(ran.op.as_str(), "MatMul" | "Gemm" | "Conv")
}

/// What a product in codes is written with.
fn is_scaling(ran: &Ran) -> bool {
    matches!(ran.op.as_str(), "Mul" | "Add" | "Reshape") || is_product(ran) || is_quantiser(ran)
}

/// Whether an attribute may be what it is where it is not given.
fn is_usual(held: &AttributeProto) -> bool {
    let whole = |x: &i64| [-1, 0, 1].contains(x);
    held.s.is_empty() && held.f == 0.0 && whole(&held.i) && held.ints.iter().all(whole)
}

/// The first attribute that is another one.
fn attributes(partner: &Ran, ran: &Ran) -> Option<(FaultKind, String)> {
    let names: BTreeSet<&String> =
        partner.attributes.iter().chain(&ran.attributes).map(|held| &held.name).collect();
    let of = |ran: &'_ Ran, name: &str| -> Option<AttributeProto> {
        let held = ran.attributes.iter().find(|held| held.name == name)?;
        Some(AttributeProto { doc_string: String::new(), r#type: 0, ..held.clone() })
    };
    names.into_iter().find_map(|name| {
        let (was, is) = (of(partner, name), of(ran, name));
        // A type that is named is what a conversion changes.
        let is_left_out = match (&was, &is) {
            (Some(held), None) | (None, Some(held)) => is_usual(held),
            _ => false,
        };
        if was == is
            || is_left_out
            || matches!(name.as_str(), "dtype" | "to" | "stash_type" | "saturate")
        {
            return None;
        }
        let kind = match name.as_str() {
            "axis" | "axes" => FaultKind::Axis,
            "epsilon" => FaultKind::Epsilon,
            _ => FaultKind::Attribute,
        };
        let said = |held: &Option<AttributeProto>| held.as_ref().map_or("not given".into(), value);
        Some((
            kind,
            format!("its attribute `{name}` is {}, and {} in the reference", said(&is), said(&was)),
        ))
    })
}

fn value(held: &AttributeProto) -> String {
    match held {
        _ if !held.ints.is_empty() => format!("{:?}", held.ints),
        _ if !held.floats.is_empty() => format!("{:?}", held.floats),
        _ if !held.s.is_empty() => format!("\"{}\"", String::from_utf8_lossy(&held.s)),
        _ if held.f != 0.0 => format!("{:?}", held.f),
        _ => held.i.to_string(),
    }
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
