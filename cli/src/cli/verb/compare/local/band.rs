//! How far the conversion's roundings may put its values: it runs a few times with each result
//! moved up or down by a unit in the last place, at random.

use std::collections::HashMap;
use std::sync::Arc;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tract_onnx::prelude::TractResult;
use tract_onnx_cast::interpreter::{Interpreter, NodeRun, ObservedTensor, Observer};
use tract_onnx_cast::{ElementType, Family, OnnxTensor};

use super::doubt::MOVED;
use super::numbers::{is_computed_in, largest, numbers, rounding, tensor};
use super::site::{Site, Sites};
use super::trace::{Trace, full_name, shared};
use crate::cli::found::verdict::BothErrors;
use crate::cli::measure::number::Num;

/// A conversion whose results are moved at random, and how far its values go from `exact`.
struct Perturbed<'a> {
    exact: &'a Trace,
    rng: StdRng,
    /// The power of what values are off, by their names.
    noise: HashMap<String, f64>,
}

/// A constant of fewer elements may be a size or an epsilon.
const WEIGHT: usize = 64;

impl Perturbed<'_> {
    fn perturb(&mut self, held: &mut ObservedTensor) {
        let ty = held.element_type;
        if let Some((normal, infinity)) = half_words(ty) {
            let tensor = Arc::make_mut(&mut held.tensor);
            return self.perturb_words(tensor.as_bytes_mut(), normal, infinity);
        }
        let (low, high) = match ty {
            ElementType::Int8 => (-128.0, 127.0),
            ElementType::Uint8 => (0.0, 255.0),
            ElementType::Int4 => (-8.0, 7.0),
            ElementType::Uint4 => (0.0, 15.0),
            _ => (-largest(ty), largest(ty)),
        };
        let is_code = !matches!(ty.family(), Family::Float(_));
        if is_code && high.is_infinite() {
            return;
        }
        let unit = 2.0 * rounding(ty);
        let Some(values) = numbers(&shared(held)) else { return };
        let moved = |x: f64| match self.rng.random_range(0..4u8) {
            _ if !x.is_finite() => x,
            side if is_code => (x + [-1.0, 0.0, 0.0, 1.0][usize::from(side)]).clamp(low, high),
            side => (x + x.abs() * if side < 2 { unit } else { -unit }).clamp(low, high),
        };
        let values: Vec<f64> = values.into_iter().map(moved).collect();
        if let Some((_, tensor)) = tensor(ty, held.tensor.shape(), &values) {
            held.tensor = tensor;
        }
    }
}

impl Perturbed<'_> {
    /// Moves words of half precision, which are most of a model; subnormal ones stay.
    fn perturb_words(&mut self, bytes: &mut [u8], normal: u16, infinity: u16) {
        for block in bytes.chunks_mut(2 * u64::BITS as usize) {
            let mut ups = self.rng.random::<u64>();
            for bytes in block.as_chunks_mut::<2>().0 {
                let word = u16::from_ne_bytes(*bytes);
                let magnitude = word & 0x7fff;
                // Up or down without a branch, which no CPU could foresee.
                let up = (ups & 1) as u16;
                ups >>= 1;
                let moved = (magnitude + 2 * up).wrapping_sub(1).min(infinity - 1);
                if (normal..infinity).contains(&magnitude) {
                    *bytes = ((word & 0x8000) | moved).to_ne_bytes();
                }
            }
        }
    }
}

/// The smallest normal value and infinity, as words of a type of half precision.
fn half_words(ty: ElementType) -> Option<(u16, u16)> {
    match ty {
        ElementType::Float16 => Some((0x0400, 0x7c00)),
        ElementType::BFloat16 => Some((0x0080, 0x7f80)),
        _ => None,
    }
}

impl Observer for Perturbed<'_> {
    fn node(
        &mut self,
        node: &NodeRun,
        outputs: &mut [Option<ObservedTensor>],
    ) -> tract_onnx_cast::Result<()> {
        let is_result = !MOVED.iter().any(|(name, ..)| *name == node.op_type)
            && !node.has_bodies()
            && node.op_type != "Constant";
        let is_quantiser = node.op_type.contains("Quantize");
        for output in outputs.iter_mut().flatten() {
            let is_float = is_computed_in(output.element_type);
            if is_result && (is_float || is_quantiser && output.tensor.len() > 1) {
                self.perturb(output);
            }
            let name = full_name(output);
            let exact = self.exact.first(&name).filter(|_| is_float);
            if self.noise.contains_key(&name) {
                continue;
            }
            if let Some((x, y)) = exact.and_then(|x| Some((numbers(x)?, numbers(&shared(output))?)))
                && x.len() == y.len()
            {
                self.noise.insert(name, power(&x, &y));
            }
        }
        Ok(())
    }

    fn constant(&mut self, constant: &mut ObservedTensor) -> tract_onnx_cast::Result<()> {
        if constant.element_type.bits() <= 16 && constant.tensor.len() >= WEIGHT {
            self.perturb(constant);
        }
        Ok(())
    }
}

fn power(x: &[f64], y: &[f64]) -> f64 {
    let error = x.iter().zip(y).map(|(x, y)| (x - y) * (x - y));
    error.filter(|error| error.is_finite()).sum()
}

/// How far samples put the values of a conversion from what `exact` has of them, by their power.
pub(super) type Band = HashMap<String, f64>;

/// Runs the conversion perturbed. The seeds are those that it runs with.
pub(super) fn band(
    exact: &Trace,
    (model, inputs): (&Interpreter, &dyn Fn() -> TractResult<Vec<OnnxTensor>>),
    samples: u64,
) -> TractResult<(Band, Vec<u64>)> {
    let (mut band, mut seeds) = (Band::new(), vec![]);
    for seed in 1..=samples {
        let rng = StdRng::seed_from_u64(seed);
        let mut perturbed = Perturbed { exact, rng, noise: HashMap::new() };
        // A size that is computed of perturbed values may not fit.
        if model.run_observed(inputs()?, &mut perturbed).is_err() {
            continue;
        }
        seeds.push(seed);
        for (name, noise) in perturbed.noise {
            let most = band.entry(name).or_default();
            *most = most.max(noise);
        }
    }
    Ok((band, seeds))
}

/// The errors of each value of both sides, with the band of those that samples reach.
pub(super) fn both_errors((a, b, sites): (&Trace, &Trace, &Sites), band: &Band) -> Vec<BothErrors> {
    let row = |site: &Site| {
        let want = a.first(&site.reference).and_then(numbers);
        let got = b.first(&site.converted).and_then(numbers);
        let size: f64 = want.iter().flatten().filter(|x| x.is_finite()).map(|x| x * x).sum();
        let relative = |noise: f64| if noise == 0.0 { 0.0 } else { (noise / size).sqrt() };
        let accumulated = want.zip(got).filter(|(x, y)| x.len() == y.len());
        let accumulated = accumulated.map(|(x, y)| relative(power(&x, &y)));
        errors(site, accumulated, band.get(&site.converted).map(|noise| relative(*noise)))
    };
    sites.all.iter().map(row).collect()
}

/// The errors of a value.
pub(super) fn errors(site: &Site, accumulated: Option<f64>, band: Option<f64>) -> BothErrors {
    BothErrors {
        tensor: site.converted.clone(),
        node: site.node.clone(),
        op: site.op.clone(),
        accumulated: accumulated.map(Num),
        local: Num(site.relative()),
        band: band.map(Num),
    }
}
