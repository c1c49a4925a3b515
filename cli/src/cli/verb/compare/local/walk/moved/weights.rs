//! A weight of the reference and what the conversion has of it, in one layout, with how far
//! rounding may put each element off.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tract_onnx::prelude::Tensor;
use tract_onnx_cast::ElementType;
use tract_onnx_cast::interpreter::{Interpreter, SharedTensor};

use super::super::super::nodes::{is_product, region};
use super::super::super::numbers::{is_computed_in, numbers, rounding, smallest, tensor};
use super::super::super::reference_weights::ReferenceWeights;
use super::super::super::trace::{Ran, Trace};
use crate::cli::measure::weight::steps::CodeScales;

/// How many roundings a value may have had that was multiplied by a factor.
const ROUNDINGS: f64 = 4.0;

/// Both sides of a weight.
pub(super) struct BothWeights {
    pub(super) shape: Vec<usize>,
    pub(super) was: Vec<f64>,
    pub(super) is: Vec<f64>,
    pub(super) off: Vec<f64>,
    /// By how much of itself a factor may be rounded.
    pub(super) unit: f64,
}

/// Where weights of both sides are found.
#[derive(Clone, Copy)]
pub(in super::super::super) struct WeightSources<'a> {
    /// The conversion.
    pub(in super::super::super) model: &'a Interpreter,
    /// What the reference's constants are called in the conversion.
    pub(in super::super::super) names: &'a HashMap<String, String>,
    /// Those that are more than rounded there.
    pub(in super::super::super) changed: &'a HashSet<String>,
    pub(in super::super::super) held: &'a ReferenceWeights<'a>,
}

impl WeightSources<'_> {
    /// A weight of the reference that one of its nodes takes, and the conversion's, which is taken
    /// among its nodes; `None` where there is none of its size.
    pub(super) fn both(
        &self,
        (a, b): (&Trace, &Trace),
        (name, nodes_a): (&str, &[&Ran]),
        nodes_b: &[&Ran],
    ) -> Option<BothWeights> {
        let was = self.held.read(a, name)?;
        let shape = was.1.shape().to_vec();
        let named = self.names.get(name).and_then(|name| self.named(b, name));
        let (is, off) = named.or_else(|| {
            let is_factor =
                |ran: &&Ran| is_product(ran) && ran.inputs.get(1).is_some_and(|x| x == name);
            nodes_a.iter().find(|ran| is_factor(ran))?;
            nodes_b.iter().find_map(|ran| self.of_integers(ran, nodes_b))
        })?;
        let turned = |value: SharedTensor| -> Option<SharedTensor> {
            let held = value.1.shape();
            if held != shape && held.len() == 2 && held.iter().rev().eq(&shape) {
                let turned = Tensor::clone(&value.1).permute_axes(&[1, 0]).ok()?;
                return Some((value.0, Arc::new(turned)));
            }
            Some(value)
        };
        let unit = ROUNDINGS * rounding(is.0).max(rounding(was.0));
        let least = 2.0 * smallest(is.0);
        let (was, is, steps) = (numbers(&was)?, numbers(&turned(is)?)?, numbers(&turned(off)?)?);
        if was.len() != is.len() || steps.len() != is.len() {
            return None;
        }
        let off = is.iter().zip(&steps).map(|(x, step)| unit * x.abs() + least + step).collect();
        Some(BothWeights { shape, was, is, off, unit })
    }

    /// A weight of the conversion, and the steps of its codes.
    fn named(&self, b: &Trace, name: &str) -> Option<(SharedTensor, SharedTensor)> {
        let value =
            self.model.constant(name).ok().flatten().filter(|value| is_computed_in(value.0))?;
        let none = || steps(value.1.shape(), vec![0.0; value.1.len()]);
        let of = |ran: &Ran| {
            let codes = ran.inputs.first().and_then(|codes| b.form(codes))?.1;
            let scale = self.model.constant(ran.inputs.get(1)?).ok().flatten()?;
            let scales = CodeScales::of(&ran.attributes, codes, &scale, 1.0)?;
            // Quantisers give any scale to what is all 0, and none of that is rounded.
            let codes = numbers(&self.model.constant(ran.inputs.first()?).ok().flatten()?)?;
            let zero = ran.inputs.get(2).filter(|name| !name.is_empty());
            let zero = zero.and_then(|zero| self.model.constant(zero).ok().flatten());
            let zero = zero.and_then(|zero| numbers(&zero)).unwrap_or_default();
            let mut is_used = vec![false; scales.count()];
            scales.each_scale(0..codes.len(), |place, scale, _| {
                let zero = zero.get(scale).or(zero.first()).copied().unwrap_or_default();
                if let (Some(code), Some(is_used)) = (codes.get(place), is_used.get_mut(scale)) {
                    *is_used |= *code != zero;
                }
            });
            let mut all = vec![];
            scales.each_scale(0..value.1.len(), |_, scale, step| {
                let is_used = is_used.get(scale).copied().unwrap_or_default();
                all.push(if is_used { step } else { 0.0 });
            });
            Some(all)
        };
        let all = region(b, name, |_| false);
        let maker = all.iter().find(|ran| ran.op == "DequantizeLinear");
        let steps_of = match maker {
            None => none()?,
            Some(ran) if ran.outputs.iter().any(|made| made == name) => {
                steps(value.1.shape(), of(ran)?)?
            }
            // Behind a node that moves them each may have any of the steps.
            Some(ran) if value.1.shape().len() == 2 && of(ran)?.len() == value.1.len() => {
                let is_turned = all.iter().filter(|ran| ran.op == "Transpose").count() == 1;
                let shape = value.1.shape();
                let held: Vec<usize> = shape.iter().rev().copied().collect();
                let held = steps(if is_turned { &held } else { shape }, of(ran)?)?;
                let turned = || Tensor::clone(&held.1).permute_axes(&[1, 0]).ok();
                if is_turned { (held.0, Arc::new(turned()?)) } else { held }
            }
            Some(ran) => {
                let most = of(ran)?.into_iter().fold(0.0, f64::max);
                steps(value.1.shape(), vec![most; value.1.len()])?
            }
        };
        Some((value, steps_of))
    }

    /// What a product of integers takes in the place of a weight, by the scales that its result is
    /// multiplied by, and its steps.
    fn of_integers(&self, ran: &Ran, nodes: &[&Ran]) -> Option<(SharedTensor, SharedTensor)> {
        let constant = |name: &String| self.model.constant(name).ok().flatten();
        let axis_of = |rank: usize| match ran.op.as_str() {
            "MatMulInteger" => rank.checked_sub(1),
            "ConvInteger" => Some(0),
            _ => None,
        };
        let codes = ran.inputs.get(1).and_then(constant)?;
        let shape = codes.1.shape();
        let axis = axis_of(shape.len())?;
        let width: usize = shape.iter().skip(axis + 1).product();
        let count = shape.get(axis).copied()?.max(1);
        let is_scale = |scale: &SharedTensor| {
            is_computed_in(scale.0) && (scale.1.len() == count || scale.1.len() == 1)
        };
        let factors = nodes.iter().filter(|ran| ran.op == "Mul").flat_map(|ran| &ran.inputs);
        let scale = numbers(&factors.filter_map(constant).find(is_scale)?)?;
        let zero = ran.inputs.get(3).and_then(constant).and_then(|zero| numbers(&zero));
        let zero = zero.unwrap_or_default();
        let of = |all: &[f64], place: usize| {
            let own = all.get(place / width.max(1) % count);
            own.or(all.first()).copied().unwrap_or_default()
        };
        let all = numbers(&codes)?;
        let values = all.iter().enumerate().map(|(at, x)| (x - of(&zero, at)) * of(&scale, at));
        let values: Vec<f64> = values.collect();
        let mut is_used = vec![false; count];
        for (at, x) in values.iter().enumerate() {
            if let Some(is_used) = is_used.get_mut(at / width.max(1) % count) {
                *is_used |= *x != 0.0;
            }
        }
        let is_used = |at: usize| is_used.get(at / width.max(1) % count) == Some(&true);
        let off = (0..all.len()).map(|at| if is_used(at) { of(&scale, at).abs() } else { 0.0 });
        let off = off.collect();
        Some((steps(shape, values)?, steps(shape, off)?))
    }
}

fn steps(shape: &[usize], all: Vec<f64>) -> Option<SharedTensor> {
    tensor(ElementType::Float, shape, &all)
}
