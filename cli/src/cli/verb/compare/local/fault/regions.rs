//! Where two graphs differ between values that agree: nodes that only one of them has, and operands
//! that are others.

use std::collections::{BTreeSet, HashSet};

use super::super::nodes::{
    is_coder, is_form, is_fused, is_moving, is_of_codes, is_product, is_shaping, region,
};
use super::super::numbers::numbers;
use super::super::quantizers::biases;
use super::super::site::Site;
use super::super::trace::Ran;
use super::Fault;
use crate::cli::found::verdict::{Culprit, FaultKind};
use crate::cli::measure::number::Num;
use crate::cli::work::codes::named_after;

/// A constant is missing where the error is so far it, by the least squares, and at least so much
/// of its power is that.
const MISSING: f64 = 0.5;
const EXPLAINED: f64 = 0.1;

impl<'a> Fault<'a> {
    /// A sum with a constant that nothing in the conversion stands for, where the error is that
    /// constant: beside weights of few bits it is within the doubt.
    pub(in super::super) fn missing_sum(&self, site: &Site) -> Option<Culprit> {
        let mut sum = self.a.maker(&site.reference)?;
        while sum.op == "Identity" {
            sum = self.a.maker(sum.inputs.first()?)?;
        }
        let sum = Some(sum).filter(|ran| ran.op == "Add")?;
        let is_alone =
            |name: &&String| self.a.is_constant(name) && !self.weights.contains_key(*name);
        let constant = sum.inputs.iter().find(is_alone)?;
        let (region, made) = (self.region(site), self.b.maker(&site.converted)?);
        let is_sum = |ran: &&Ran| matches!(&*ran.op, "Add" | "Sum");
        let is_bare = region.iter().any(|ran| is_product(ran)) && !region.iter().any(is_sum);
        is_bare.then_some(())?;
        let held = numbers(&self.held.read(self.a, constant)?)?;
        let (want, got) = (self.a.first(&site.reference)?, self.b.first(&site.converted)?);
        let (wanted, got) = (numbers(want)?, numbers(got)?);
        // What a bias is: one number for each element of the last axis.
        let is_row = held.len() > 1 && want.1.shape().last() == Some(&held.len());
        let is_row = is_row && wanted.len() == got.len();
        let row = held.iter().cycle().take(if is_row { wanted.len() } else { 0 });
        let (mut product, mut squares, mut power) = (0.0, 0.0, 0.0);
        for ((want, got), x) in wanted.iter().zip(&got).zip(row) {
            let error = want - got;
            (product, squares) = (product + error * x, squares + x * x);
            power += error * error;
        }
        let times = product / squares;
        let is_missing = (times - 1.0).abs() < MISSING && product * times > EXPLAINED * power;
        is_missing.then(|| Culprit {
            node: made.name.clone(),
            op: made.op.clone(),
            tensor: site.converted.clone(),
            local_error: Num((power / wanted.len() as f64).sqrt()),
            bound: Num(0.0),
            kind: FaultKind::MissingNode,
            text: format!(
                "Add `{}` of the reference, with the constant `{constant}`, is missing behind it",
                sum.name
            ),
        })
    }

    /// A bias of a region in codes of another scale than the products have to which it is added.
    pub(super) fn biased<'b>(&self, region: &[&'b Ran]) -> Option<(&'b Ran, (FaultKind, String))> {
        let wrong = biases(self.b);
        let of = |ran: &'b Ran| {
            let bias = wrong.iter().find(|bias| bias.node == ran.name)?;
            Some((ran, (bias.kind, bias.text.clone())))
        };
        region.iter().copied().find_map(of)
    }

    /// What takes a product of codes, without the bias that the reference's product has.
    pub(super) fn unbiased<'b>(
        &self,
        site: &Site,
        region: &[&'b Ran],
    ) -> Option<(&'b Ran, (FaultKind, String))> {
        let product = region.iter().position(|ran| ran.op.ends_with("Integer"))?;
        let is_sum = |ran: &&Ran| matches!(&*ran.op, "Add" | "Sum");
        let of_reference = self.region_of_reference(site);
        let mut products = of_reference.iter().filter(|ran| is_product(ran));
        let (was, None) = (products.next()?, products.next()) else { return None };
        let bias = was.inputs.get(2).filter(|bias| self.a.is_constant(bias))?;
        let is_alone = !region.iter().any(is_sum);
        let behind = region.iter().skip(product + 1);
        let taker = behind.copied().find(|ran| !is_form(ran) && !self.is_scaling(ran));
        let (was, op) = (&was.name, &was.op);
        let text =
            format!("the bias `{bias}` of {op} `{was}` of the reference is missing before it");
        taker.filter(|_| is_alone).map(|ran| (ran, (FaultKind::MissingNode, text)))
    }

    /// The operands in another order, or another operand, with the node that takes it.
    pub(super) fn operands<'b>(
        &self,
        partner: &Ran,
        ran: &'b Ran,
    ) -> Option<(&'b Ran, (FaultKind, String))>
    where
        'a: 'b,
    {
        let is_same = partner.op == ran.op && partner.inputs.len() == ran.inputs.len();
        let are_products = is_product(partner) && is_product(ran) && partner.op != ran.op;
        if !is_same && !are_products {
            return None;
        }
        // Products of other names have other operands behind the two that are multiplied.
        let count = if are_products { 2 } else { ran.inputs.len() };
        let pairs = || partner.inputs.iter().zip(&ran.inputs).take(count);
        let known: Vec<(&String, String, &Ran)> = pairs()
            .filter_map(|(was, is)| {
                let (is, taker) = self.of_reference(is, ran)?;
                Some((was, is, taker))
            })
            .collect();
        // What was taken in by the operator behind it, as a Pad, is nobody's operand.
        let is_there = |was: &str| {
            let is_linked = || self.links.values().any(|link| link.reference == was);
            self.a.maker(was).is_none() || self.a.is_constant(was) || is_linked()
        };
        let is_other = |(was, is, _): &&(&String, String, &Ran)| {
            *was != is && is_there(was) && !self.is_equal(was, is)
        };
        let is_astray = |was: &str, is: &str| {
            self.is_astray(was, is) || is_product(ran) && self.is_other(was, is)
        };
        let astray = || pairs().any(|(was, is)| is_astray(was, is)).then_some(ran);
        let taker = known.iter().find(is_other).map(|(_, _, taker)| *taker).or_else(astray)?;
        let sorted = |names: &mut dyn Iterator<Item = &String>| -> BTreeSet<String> {
            names.cloned().collect()
        };
        let is_turned = known.iter().any(|known| is_other(&known))
            && sorted(&mut known.iter().map(|(was, ..)| *was))
                == sorted(&mut known.iter().map(|(_, is, _)| is));
        // A quantiser before an operand takes what it is to, at another place.
        let (taker, kind, what) = if is_turned {
            (ran, FaultKind::InputOrder, "its inputs stand in another order")
        } else {
            (taker, FaultKind::Input, "it takes other tensors")
        };
        let listed = |names: &[String]| names.join("`, `");
        let text = format!(
            "{what}: `{}`, and `{}` in the reference",
            listed(&taker.inputs),
            listed(&partner.inputs)
        );
        Some((taker, (kind, text)))
    }

    /// Whether an operand is not made of the value that the conversion has for the reference's.
    fn is_astray(&self, was: &str, is: &str) -> bool {
        let is_replaced = |name: &str| self.sites.get(name).is_some_and(|site| site.is_replaced);
        let stands_for =
            |name: &str| self.links.get(name).is_some_and(|link| link.reference == was);
        let has_one = || self.links.keys().any(|name| stands_for(name) && is_replaced(name));
        let nodes = region(self.b, is, is_replaced);
        let taken = || nodes.iter().flat_map(|ran| &ran.inputs);
        !nodes.is_empty() && !stands_for(is) && has_one() && !taken().any(|name| stands_for(name))
    }

    /// Whether the conversion has the reference's value, and an operand is another that something
    /// computes.
    fn is_other(&self, was: &str, is: &str) -> bool {
        let stands_for =
            |name: &str| self.links.get(name).is_some_and(|link| link.reference == was);
        let is_replaced = |name: &String| self.sites.get(name).is_some_and(|site| site.is_replaced);
        let has_one = self.links.keys().any(|name| stands_for(name) && is_replaced(name));
        let mut value = is;
        loop {
            if !has_one || stands_for(value) {
                return false;
            }
            let Some(ran) = self.b.maker(value) else { return false };
            if !is_form(ran) && !is_shaping(ran) && !is_moving(ran) && !is_coder(ran) {
                return !self.links.contains_key(value) && !self.is_scaling(ran);
            }
            let Some(input) = ran.inputs.first() else { return false };
            value = input;
        }
    }

    /// The value of the reference that an operand is, behind what only changes its form, and the
    /// node that takes it: the last of these, if it is there for this operand alone.
    fn of_reference<'b>(&self, operand: &str, ran: &'b Ran) -> Option<(String, &'b Ran)>
    where
        'a: 'b,
    {
        let (mut value, mut taker) = (operand, ran);
        loop {
            if let Some(link) = self.links.get(value) {
                return Some((link.reference.clone(), taker));
            }
            if self.b.inputs.contains(value) {
                return Some((value.to_owned(), taker));
            }
            if self.b.constants.contains_key(value) {
                let (reference, _) = self.weights.iter().find(|(_, held)| *held == value)?;
                return Some((reference.clone(), taker));
            }
            let form = self.b.maker(value).filter(|ran| is_form(ran) || is_coder(ran))?;
            let taken = self.b.nodes.iter().flat_map(|ran| &ran.inputs);
            let takers = taken.filter(|input| *input == value);
            taker = if takers.count() == 1 { form } else { taker };
            value = form.inputs.first()?;
        }
    }

    /// Whether two values of the reference are the same all the same.
    fn is_equal(&self, x: &str, y: &str) -> bool {
        let value = |name: &str| self.a.first(name).or_else(|| self.a.constant(name));
        let values = value(x).zip(value(y));
        values.is_some_and(|(x, y)| x.0 == y.0 && x.1.as_bytes() == y.1.as_bytes())
    }

    /// The nodes of the reference between a site and the values before it that are the
    /// conversion's.
    pub(super) fn region_of_reference(&self, site: &Site) -> Vec<&'a Ran> {
        region(self.a, &site.reference, |value| {
            self.replaced.contains(value) || self.a.inputs.contains(value)
        })
    }

    /// Whether a normalisation of the reference is in a weight of the conversion.
    pub(super) fn is_folded(&self, site: &Site, region_b: &[&Ran]) -> bool {
        let is_norm = |ran: &&Ran| ran.op == "BatchNormalization";
        let nodes = self.region_of_reference(site);
        nodes.iter().any(is_norm) && !region_b.iter().any(is_norm)
    }

    /// A node that only one of the two models has between the same values.
    pub(super) fn only_one_side<'b>(
        &self,
        site: &Site,
        region_b: &[&'b Ran],
    ) -> Option<(&'b Ran, (FaultKind, String))> {
        let region_a = self.region_of_reference(site);
        let is_quantised = region_b.iter().any(|ran| is_of_codes(ran));
        let computes = |ran: &&&'b Ran| {
            !is_form(ran) && !is_shaping(ran) && !self.is_scaling(ran) && !is_coder(ran)
        };
        let mut left: Vec<&Ran> = region_b.iter().filter(computes).copied().collect();
        // A product's bias is added behind it where the product is one of codes.
        let products = region_a.iter().filter(|ran| is_product(ran));
        let biases = products.filter_map(|ran| ran.inputs.get(2));
        let biases: Vec<&String> =
            biases.map(|name| self.weights.get(name).unwrap_or(name)).collect();
        let is_bias = |ran: &Ran| ran.op == "Add" && ran.inputs.iter().any(|x| biases.contains(&x));
        left.retain(|ran| !is_bias(ran));
        let mut missing: Vec<&Ran> = {
            let computes = |ran: &&Ran| !is_form(ran) && !is_shaping(ran);
            region_a.into_iter().filter(computes).collect()
        };
        // Nodes of one name first, then those of one operator, then what others are fused into.
        type IsSame = fn(&Ran, &Ran) -> bool;
        let ways: [IsSame; 3] = [
            |x, y| x.op == y.op && x.name == y.name,
            |x, y| x.op == y.op,
            |x, y| is_product(x) && is_product(y),
        ];
        for is_same in ways {
            missing.retain(|x| match left.iter().position(|y| is_same(x, y)) {
                Some(place) => {
                    let other = left.remove(place);
                    // What stands for a product takes in what is beside it.
                    if x.op != other.op && other.op == "Gemm" || other.op == "Conv" {
                        left.push(other);
                    }
                    false
                }
                None => true,
            });
        }
        let fused = left.iter().any(|ran| is_product(ran));
        left.retain(|ran| !is_product(ran));
        missing.retain(|ran| !(fused && is_fused(ran) || is_quantised && is_product(ran)));
        // The range of codes does the work of a Relu.
        if region_b.iter().any(|ran| ran.op == "QuantizeLinear") {
            missing.retain(|ran| !matches!(ran.op.as_str(), "Relu" | "Clip"));
        }
        match (missing.first(), left.first()) {
            (Some(missing), None) => {
                let text = format!(
                    "{} `{}` of the reference is missing before it",
                    missing.op, missing.name
                );
                Some((self.taker_of(missing, region_b)?, (FaultKind::MissingNode, text)))
            }
            (None, Some(added)) => {
                Some((added, (FaultKind::AddedNode, "the reference has no such node here".into())))
            }
            (Some(was), Some(is)) if missing.len() == 1 && left.len() == 1 => {
                let text = format!("it is {}, and {} in the reference", is.op, was.op);
                Some((is, (FaultKind::Operator, text)))
            }
            _ => None,
        }
    }

    /// The node that takes what a missing node should have made: the partner of its taker, or what
    /// takes the same operand.
    fn taker_of<'b>(&self, missing: &Ran, region_b: &[&'b Ran]) -> Option<&'b Ran> {
        let takers = self
            .a
            .nodes
            .iter()
            .filter(|ran| ran.inputs.iter().any(|input| missing.outputs.contains(input)));
        let takers = takers.filter(|_| self.has_names);
        let names: HashSet<&str> = takers.map(|ran| ran.name.as_str()).collect();
        let of = |ran: &str| ran.strip_suffix("_quant").unwrap_or(ran).to_owned();
        let named = region_b.iter().find(|ran| names.contains(&*of(&ran.name)));
        let operand = |input: &String| {
            self.links.get(input).is_some_and(|link| missing.inputs.contains(&link.reference))
        };
        let mut nodes = region_b.iter().filter(|ran| !self.is_scaling(ran));
        let taker = nodes.clone().find(|ran| ran.inputs.iter().any(operand));
        // What only gives the operand another type is not what a node is missing before.
        let behind = |taker: &'b Ran| {
            let mut taker = taker;
            while is_form(taker) {
                let of_it =
                    |ran: &&&'b Ran| ran.inputs.iter().any(|input| taker.outputs.contains(input));
                taker = region_b.iter().find(of_it)?;
            }
            Some(taker)
        };
        taker
            .and_then(|taker| behind(taker).or(Some(taker)))
            .or(named.copied())
            .or(nodes.next_back().copied())
    }

    /// Whether a node multiplies what is no product of codes by the scale of one.
    pub(super) fn is_scale_of_other(&self, ran: &Ran) -> bool {
        let is_scale = |input: &&String| {
            let made = self.b.maker(input).filter(|ran| ran.op == "Mul");
            made.is_some_and(|ran| {
                let of_quantizer = |input: &String| {
                    self.b.maker(input).is_some_and(|ran| {
                        ran.op == "DynamicQuantizeLinear" && ran.outputs.first() != Some(input)
                    })
                };
                ran.inputs.iter().any(of_quantizer) && self.is_scaling(ran)
            })
        };
        let is_scale = |input: &&String| is_scale(input);
        ran.op == "Mul"
            && ran.inputs.iter().any(|input| is_scale(&input))
            && !self.is_scaled_product(ran)
    }

    /// Whether a node multiplies a product of codes by what is no scale.
    pub(super) fn is_scaled_by_other(&self, ran: &Ran) -> bool {
        let is_scale = |input: &String| {
            let made = self.b.maker(input).map_or("", |ran| ran.op.as_str());
            self.b.is_constant(input) || matches!(made, "Mul" | "DynamicQuantizeLinear" | "Reshape")
        };
        ran.op == "Mul" && self.is_scaled_product(ran) && !ran.inputs.iter().any(is_scale)
    }

    /// Whether a node multiplies a product of codes.
    fn is_scaled_product(&self, ran: &Ran) -> bool {
        ran.inputs.iter().any(|input| self.is_product_of_codes(input, "Integer"))
    }

    /// Whether a value is what an operator whose name ends so makes, or a cast of it.
    fn is_product_of_codes(&self, value: &str, op: &str) -> bool {
        let made = self.b.maker(value);
        let cast = made.filter(|ran| ran.op == "Cast");
        let made = cast.and_then(|ran| self.b.maker(ran.inputs.first()?)).or(made);
        made.is_some_and(|ran| ran.op.ends_with(op))
    }

    /// Whether a node only scales a product of codes, or is a scale for it.
    pub(super) fn is_scaling(&self, ran: &Ran) -> bool {
        let maker = |input: &String| self.b.maker(input);
        let is_scale = |input: &String| {
            self.b.is_constant(input)
                || maker(input).is_some_and(|ran| {
                    ran.op == "DynamicQuantizeLinear" && ran.outputs.first() != Some(input)
                })
        };
        let is_scale_too = |input: &String| {
            is_scale(input)
                || maker(input)
                    .is_some_and(|ran| ran.op == "Mul" && ran.inputs.iter().all(is_scale))
        };
        match ran.op.as_str() {
            // The bias of a convolution.
            "Add" => ran.inputs.iter().any(|input| {
                let product = maker(input).filter(|ran| ran.op == "Mul");
                product.is_some_and(|ran| {
                    ran.inputs.iter().any(|x| self.is_product_of_codes(x, "ConvInteger"))
                })
            }),
            "Mul" => self.is_scaled_product(ran) || ran.inputs.iter().all(is_scale_too),
            "Reshape" => ran.inputs.first().is_some_and(|input| self.b.is_constant(input)),
            _ => false,
        }
    }
}

/// What a node makes, in another order than its partner does. Codes are named after their values.
pub(super) fn results_turned(partner: &Ran, ran: &Ran) -> Option<(FaultKind, String)> {
    let named = |made: &'_ String| named_after(made).unwrap_or(made).to_owned();
    let (is, was) = (ran.outputs.iter().map(named).collect::<Vec<_>>(), &partner.outputs);
    let sorted = |names: &[String]| names.iter().cloned().collect::<BTreeSet<_>>();
    let is_turned = partner.op == ran.op && is != *was && sorted(&is) == sorted(was);
    let text = || {
        let (is, was) = (ran.outputs.join("`, `"), was.join("`, `"));
        format!("its results stand in another order: `{is}`, and `{was}` in the reference")
    };
    is_turned.then(|| (FaultKind::InputOrder, text()))
}
