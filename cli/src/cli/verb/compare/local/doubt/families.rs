//! The doubt behind a node, by family of operators.

use std::sync::Arc;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tract_onnx_cast::ElementType::{self, Double};
use tract_onnx_cast::Family;
use tract_onnx_cast::interpreter::{NodeRun, SharedTensor};

use super::super::numbers::{magnitudes, numbers, rounding, tensor, wide};
use super::known::{MOVED, SUMS};
use super::twin::{Carried, Doubt, Twin};
use crate::cli::measure::reach::MASK;

pub(super) type Doubts = Option<Vec<Carried>>;

/// A node, what it has run on, and what it made of that.
#[derive(Clone, Copy)]
pub(super) struct NodeStep<'a> {
    pub(super) node: &'a NodeRun<'a>,
    pub(super) inputs: &'a [Option<Twin>],
    pub(super) made: &'a [Option<SharedTensor>],
}

impl NodeStep<'_> {
    /// That there is no doubt.
    pub(super) fn certain(self) -> Vec<Carried> {
        vec![Carried { doubt: Doubt::Same(0.0), share: 1.0 }; self.made.len()]
    }
}

/// The power of an error that is anything up to a doubt, of that of the doubt.
pub(in super::super) const UNIFORM: f64 = 1.0 / 3.0;

/// The place of what is added to a product.
const BIAS: usize = 2;

/// How many times the root of the number of terms their roundings stray together, in units:
/// roundings that know nothing of one another do so once in 10¹³ sums (Higham and Mary, 2019).
const STRAYING: f64 = 8.0;

/// What leaves elements in their order.
pub(in super::super) const IN_PLACE: [&str; 5] =
    ["Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"];

/// How often a node runs on inputs that are moved at random, and how many times as far off its
/// result may be.
const SAMPLES: u64 = 4;
const BEYOND_SAMPLES: f64 = 4.0;

pub(super) fn length(made: &Option<SharedTensor>) -> usize {
    made.as_ref().map_or(0, |(_, tensor)| tensor.len())
}

pub(super) fn values(inputs: &[Option<Twin>]) -> Vec<Option<SharedTensor>> {
    inputs.iter().map(|twin| twin.as_ref().map(|twin| twin.value.clone())).collect()
}

/// The elements that a node makes of other inputs.
fn run(node: &NodeRun, inputs: &[Option<SharedTensor>]) -> Option<Vec<Vec<f64>>> {
    let made = node.run_on(inputs).ok()?;
    let all = made.iter().map(|made| made.as_ref().map_or(Some(vec![]), numbers));
    all.collect()
}

fn is_as_long(x: &[Vec<f64>], y: &[Vec<f64>]) -> bool {
    x.iter().zip(y).all(|(x, y)| x.len() == y.len())
}

/// How far apart two results are; a NaN on one side alone is infinitely far off.
pub(super) fn apart(a: f64, b: f64) -> f64 {
    match (a - b).abs() {
        _ if a == b || (a.is_nan() && b.is_nan()) => 0.0,
        apart if apart.is_nan() => f64::INFINITY,
        apart => apart,
    }
}

/// The doubt of elements goes where the elements go.
pub(super) fn moved(step: NodeStep) -> Doubts {
    let NodeStep { node, inputs, made } = step;
    let (_, first, count) = MOVED.iter().find(|(name, ..)| *name == node.op_type)?;
    let is_certain = |twin: &Twin| matches!(twin.doubt, Doubt::Relative(share) if share == 0.0);
    if inputs.iter().skip(*first).take(*count).flatten().all(is_certain) {
        return Some(step.certain());
    }
    if IN_PLACE.contains(&node.op_type)
        && let ([Some(twin), ..], [Some(made)]) = (inputs, made)
        && twin.value.1.len() == made.1.len()
    {
        return Some(vec![Carried { doubt: twin.doubt.clone(), share: twin.share }]);
    }
    let of_element = |doubt: &Doubt| !matches!(doubt, Doubt::Steps(_) | Doubt::Each(_));
    if (*first, *count) == (0, 1)
        && let Some(Some(twin)) = inputs.first()
        && of_element(&twin.doubt)
        && made.iter().flatten().all(|(ty, _)| ty.is_float())
    {
        // It is told by the element, wherever that goes. A maximum may be off as far as the element
        // that it is: none that is less gets beyond that within its own doubt.
        let carried = Carried { doubt: twin.doubt.clone(), share: twin.share };
        return Some(vec![carried; made.len()]);
    }
    let mut given = values(inputs);
    for (input, twin) in given.iter_mut().zip(inputs).skip(*first).take(*count) {
        let Some(twin) = twin else { continue };
        let ty = if twin.value.0 == Double { Double } else { ElementType::Float };
        *input = Some(tensor(ty, twin.value.1.shape(), &twin.doubts())?);
    }
    let mut doubts = run(node, &given)?;
    doubts.resize(made.len(), vec![]);
    let fits = doubts.iter().zip(made).all(|(doubts, made)| doubts.len() == length(made));
    let share = inputs.iter().skip(*first).take(*count).flatten().map(|twin| twin.share);
    let share = share.fold(0.0, f64::max);
    let carried = |doubts| Carried { doubt: Doubt::each(doubts), share };
    fits.then(|| doubts.into_iter().map(carried).collect())
}

/// What each input alone changes, at either end of its doubt.
pub(super) fn elementwise(step: NodeStep) -> Doubts {
    let NodeStep { node, inputs, made } = step;
    let given = values(inputs);
    let base = run(node, &given)?;
    let none = || -> Vec<Vec<f64>> { made.iter().map(|made| vec![0.0; length(made)]).collect() };
    let (mut doubts, mut likely) = (none(), none());
    for (place, twin) in inputs.iter().enumerate() {
        let Some(twin) = twin.as_ref().filter(|twin| !twin.is_exact()) else { continue };
        let mut most = none();
        for sign in [-1.0, 1.0] {
            let mut given = given.clone();
            *given.get_mut(place)? = shifted(twin, || sign);
            for ((most, base), moved) in most.iter_mut().zip(&base).zip(run(node, &given)?) {
                for ((most, base), moved) in most.iter_mut().zip(base).zip(moved) {
                    *most = most.max(apart(*base, moved));
                }
            }
        }
        for ((doubts, likely), most) in doubts.iter_mut().zip(&mut likely).zip(most) {
            for ((doubt, likely), most) in doubts.iter_mut().zip(likely).zip(most) {
                *doubt += most;
                *likely += twin.share * most * most;
            }
        }
    }
    // Near zero a product is moved by both of its factors, and by neither alone.
    for flip in [1.0, -1.0] {
        let mut sign = flip;
        let mut all = || {
            sign *= flip;
            sign
        };
        let both = |twin: &Option<Twin>| {
            let (twin, sign) = (twin.as_ref()?, all());
            if twin.is_exact() { Some(twin.value.clone()) } else { shifted(twin, || sign) }
        };
        let given: Vec<Option<SharedTensor>> = inputs.iter().map(both).collect();
        for ((doubts, base), moved) in doubts.iter_mut().zip(&base).zip(run(node, &given)?) {
            for ((doubt, base), moved) in doubts.iter_mut().zip(base).zip(moved) {
                *doubt = doubt.max(apart(*base, moved));
            }
        }
    }
    let both = doubts.into_iter().zip(likely);
    Some(both.map(|(doubts, likely)| Carried::of(doubts, likely.into_iter())).collect())
}

/// The value moved within its doubt, by a unit in its last place at least.
fn shifted(twin: &Twin, mut sign: impl FnMut() -> f64) -> Option<SharedTensor> {
    let (ty, held) = &twin.value;
    let unit = 2.2 * rounding(*ty);
    let is_whole = !ty.is_float();
    let shift = |(x, doubt): (f64, f64)| {
        let by = if is_whole { doubt.ceil() } else { doubt.max(unit * x.abs()) };
        if doubt > 0.0 && x.abs() < MASK { x + sign() * by } else { x }
    };
    let moved: Vec<f64> = numbers(&twin.value)?.into_iter().zip(twin.doubts()).map(shift).collect();
    let held_in = |x: &f64| match *ty {
        ElementType::Uint8 => x.clamp(0.0, 255.0),
        ElementType::Int8 => x.clamp(-128.0, 127.0),
        _ => *x,
    };
    let moved: Vec<f64> = moved.iter().map(held_in).collect();
    tensor(*ty, held.shape(), &moved)
}

/// γₙ for the sum of n terms, or what it is likely to be at most, by the sum of their magnitudes,
/// and the doubt of each factor by the magnitudes of the others.
pub(super) fn sums(step: NodeStep) -> Doubts {
    let (doubts, likely) = match columns_at_once(step) {
        Some(columns) => sums_by_columns(step, columns)?,
        None => sums_at_once(step)?,
    };
    Some(vec![Carried::of(doubts, likely.into_iter())])
}

/// So many elements of a weight are looked at at once: they, and what is computed of them, stay in
/// a cache.
const PART: usize = 1 << 19;

/// How many columns of a weight its product with a matrix is looked at in, where there are more.
fn columns_at_once(NodeStep { node, inputs, made }: NodeStep) -> Option<usize> {
    let ("MatMul", [Some(_), Some(weight)]) = (node.op_type, inputs) else { return None };
    let [rows, columns] = *weight.value.1.shape() else { return None };
    let at_once = (PART / rows.max(1)).max(1);
    let result = made.first()?.as_ref()?.1.shape();
    (columns > at_once && result.last() == Some(&columns)).then_some(at_once)
}

/// [`sums_at_once`], of some columns of the weight after others.
fn sums_by_columns(step: NodeStep, at_once: usize) -> Option<(Vec<f64>, Vec<f64>)> {
    let NodeStep { node, inputs, made } = step;
    let (x, weight) = (inputs.first()?, inputs.get(1)?.as_ref()?);
    let (ty, result) = made.first()?.as_ref()?;
    let (last, length) = (result.rank().checked_sub(1)?, result.len());
    let columns = *result.shape().get(last)?;
    let (mut doubts, mut likely) = (vec![0.0; length], vec![0.0; length]);
    for start in (0..columns).step_by(at_once) {
        let part = start..columns.min(start + at_once);
        let inputs = [x.clone(), Some(weight.columns(part.clone())?)];
        let made = [Some((*ty, Arc::new(result.slice(last, part.start, part.end).ok()?)))];
        let (of_part, likely_of_part) =
            sums_at_once(NodeStep { node, inputs: &inputs, made: &made })?;
        let put = |all: &mut Vec<f64>, of_part: Vec<f64>| {
            let rows = all.chunks_mut(columns).zip(of_part.chunks(part.len()));
            for (row, of_part) in rows {
                row.get_mut(part.clone())?.copy_from_slice(of_part);
            }
            Some(())
        };
        put(&mut doubts, of_part)?;
        put(&mut likely, likely_of_part)?;
    }
    Some((doubts, likely))
}

/// How far sums of products may be off, and the power of what each is likely to be.
fn sums_at_once(step: NodeStep) -> Option<(Vec<f64>, Vec<f64>)> {
    let NodeStep { node, inputs, made } = step;
    let (_, factors) = SUMS.iter().find(|(name, _)| *name == node.op_type)?;
    let result = made.first()?.as_ref()?;
    if !result.0.is_float() || inputs.len() > 3 {
        return None;
    }
    let magnitudes: Vec<Option<SharedTensor>> = inputs
        .iter()
        .enumerate()
        .map(|(place, twin)| {
            let twin = twin.as_ref()?;
            if place >= *factors {
                return Some(twin.value.clone());
            }
            if twin.is_exact() {
                return magnitudes(&twin.value);
            }
            twin.mapped(|x, doubt| x.abs() + doubt)
        })
        .collect();
    let all = run(node, &magnitudes)?.swap_remove(0);
    let terms = terms(node, inputs, result);
    // Half precision is summed up in FLOAT.
    let share = terms.min(STRAYING * terms.sqrt()) * rounding(wide(result.0));
    let mut doubts: Vec<f64> = all.iter().map(|x| x.abs() * share).collect();
    // What is added to the products is in `all` as well.
    let is_product = inputs.get(BIAS).is_none_or(Option::is_none);
    for (place, twin) in inputs.iter().enumerate().take(*factors) {
        let Some(twin) = twin.as_ref().filter(|twin| !twin.is_exact()) else { continue };
        if let Doubt::Relative(share) = twin.doubt
            && is_product
        {
            doubts.iter_mut().zip(&all).for_each(|(doubt, x)| *doubt += share * x.abs());
            continue;
        }
        let own = alone(node, &magnitudes, place, twin.mapped(|_, doubt| doubt))?;
        doubts.iter_mut().zip(own).for_each(|(doubt, x)| *doubt += x.abs());
    }
    let likely = likely(node, inputs, &all.iter().map(|x| x * share).collect::<Vec<_>>());
    let whole = doubts.iter().map(|doubt| doubt * doubt).collect();
    let likely = likely.unwrap_or(whole);
    let length = result.1.len();
    (doubts.len() == length && likely.len() == length).then_some((doubts, likely))
}

/// What sums of products are of these values, with another one at a place.
fn alone(
    node: &NodeRun,
    values: &[Option<SharedTensor>],
    place: usize,
    value: Option<SharedTensor>,
) -> Option<Vec<f64>> {
    let mut given = values.to_vec();
    *given.get_mut(place)? = value;
    // What is added to the product has no part in its factors' doubts, nor they in its own.
    let others = if place == BIAS { 0 } else { BIAS };
    if let Some(Some((ty, held))) = given.get_mut(others) {
        *held = tensor(*ty, held.shape(), &vec![0.0; held.len()])?.1;
    }
    Some(run(node, &given)?.swap_remove(0))
}

/// What sums of products are likely to be off, by its power: doubts of elements of which none knows
/// of another add up by their powers. `own` is the rounding of the sums. `None` of an operator that
/// weighs its terms.
fn likely(node: &NodeRun, inputs: &[Option<Twin>], own: &[f64]) -> Option<Vec<f64>> {
    let is_plain = |name: &str| {
        let held = node.attributes.iter().find(|held| held.name == name);
        held.is_none_or(|held| held.f == 1.0)
    };
    let is_weighed = !matches!(node.op_type, "Conv" | "ConvTranspose" | "Gemm" | "MatMul");
    if is_weighed || !is_plain("alpha") || !is_plain("beta") {
        return None;
    }
    let square = |twin: &Option<Twin>| twin.as_ref()?.mapped(|x, doubt| (x.abs() + doubt).powi(2));
    let values: Vec<Option<SharedTensor>> = inputs.iter().map(square).collect();
    let mut likely: Vec<f64> = own.iter().map(|x| x * x).collect();
    for (place, twin) in inputs.iter().enumerate() {
        let Some(twin) = twin.as_ref().filter(|twin| !twin.is_exact()) else { continue };
        let own = alone(node, &values, place, twin.mapped(|_, doubt| doubt * doubt))?;
        likely.iter_mut().zip(own).for_each(|(likely, x)| *likely += twin.share * x.abs());
    }
    Some(likely)
}

/// How many terms are summed up, or a little more.
fn terms(node: &NodeRun, inputs: &[Option<Twin>], result: &SharedTensor) -> f64 {
    let size = |place: usize| {
        let twin = inputs.get(place).and_then(Option::as_ref);
        twin.map_or(1.0, |twin| twin.value.1.len().max(1) as f64)
    };
    let axis = |place: usize| {
        let shape = inputs.get(place).and_then(Option::as_ref).map(|twin| twin.value.1.shape());
        shape.and_then(|shape| shape.first()).map_or(1.0, |size| (*size).max(1) as f64)
    };
    let made = result.1.len().max(1) as f64;
    let terms = match node.op_type {
        "Conv" => size(1) / axis(1),
        "ConvTranspose" => size(1),
        "MatMul" | "Gemm" | "Einsum" => (size(0) * size(1) / made).sqrt(),
        "CumSum" | "AveragePool" => size(0).sqrt(),
        _ => size(0) / made,
    };
    terms.max(1.0) + 1.0
}

/// A cast to floating-point numbers keeps the doubt.
pub(super) fn cast(step: NodeStep) -> Doubts {
    let NodeStep { inputs, made, .. } = step;
    let twin = inputs.first()?.as_ref()?;
    match made.first()?.as_ref()?.0.family() {
        Family::Float(_) => {
            Some(vec![Carried { doubt: Doubt::each(twin.doubts()), share: twin.share }])
        }
        _ => elementwise(step),
    }
}

/// What becomes of the result where the inputs are moved at random: as far as any element went
/// in any run, or all of them in the mean.
pub(super) fn sampled(step: NodeStep) -> Doubts {
    let NodeStep { node, inputs, made } = step;
    if node.has_bodies() {
        return None;
    }
    let given = values(inputs);
    let base = run(node, &given)?;
    let inexact = inputs.iter().flatten().filter(|twin| !twin.is_exact());
    let share = inexact.map(|twin| twin.share).fold(0.0, f64::max);
    let none = || -> Vec<Vec<f64>> { base.iter().map(|base| vec![0.0; base.len()]).collect() };
    let (mut doubts, mut likely) = (none(), none());
    for seed in 0..SAMPLES {
        let mut rng = StdRng::seed_from_u64(seed);
        let move_by = |(place, twin): (usize, &Option<Twin>)| {
            let twin = twin.as_ref()?;
            // Where a pixel is taken from is no rounding.
            if twin.is_exact() || node.op_type == "Resize" && place > 0 {
                return Some(twin.value.clone());
            }
            shifted(twin, || if rng.random::<bool>() { 1.0 } else { -1.0 })
        };
        let inputs: Vec<Option<SharedTensor>> = inputs.iter().enumerate().map(move_by).collect();
        // A size that is computed of what is moved may be another one.
        let Some(moved) = run(node, &inputs).filter(|moved| is_as_long(moved, &base)) else {
            continue;
        };
        let both = doubts.iter_mut().zip(&mut likely);
        for (((doubts, likely), base), moved) in both.zip(&base).zip(moved) {
            let both = doubts.iter_mut().zip(likely);
            for (((doubt, likely), base), moved) in both.zip(base).zip(moved) {
                let apart = apart(*base, moved);
                *doubt = doubt.max(apart);
                *likely += share * apart * apart / SAMPLES as f64;
            }
        }
    }
    for (doubts, base) in doubts.iter_mut().zip(&base) {
        let finite = doubts.iter().filter(|doubt| doubt.is_finite());
        let power: f64 = finite.clone().map(|doubt| doubt * doubt).sum();
        let mean = (power / finite.count().max(1) as f64).sqrt();
        let peak =
            base.iter().filter(|x| x.is_finite()).fold(0.0, |most: f64, x| most.max(x.abs()));
        let own = 64.0 * rounding(ElementType::Float) * peak;
        for doubt in doubts {
            *doubt = BEYOND_SAMPLES * doubt.max(mean) + own;
        }
    }
    let both = doubts.into_iter().zip(likely);
    let mut all: Vec<Carried> =
        both.map(|(doubts, likely)| Carried::of(doubts, likely.into_iter())).collect();
    all.resize(made.len(), Carried { doubt: Doubt::each(vec![]), share: 0.0 });
    Some(all)
}
