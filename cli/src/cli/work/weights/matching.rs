//! Weights that have other names in two models, by their values, or by where they are taken.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet, VecDeque};
use std::path::Path;

use onnx_cast_graph::{NodeView, int};
use tract_onnx::pb::{ModelProto, NodeProto};
use tract_onnx::prelude::*;
use tract_onnx_cast::ElementType;
use tract_onnx_cast::audit::{Number, Numbers, Reach};

use crate::cli::work::weights::constants::Constant;

/// How many values of a weight are looked at before all of them are.
const SAMPLES: usize = 64;
/// How many weights of one size are tried for another.
const CANDIDATES: usize = 1024;
/// How far two values may be apart that belong together, by their size: more than a rounding to
/// BFLOAT16.
const NEAR: f64 = 0.02;
/// The same by the largest value.
const NEAR_ZERO: f64 = 1e-4;
/// Half a step of a code, and somewhat more.
const HALF_STEP: f64 = 0.6;

/// Some values of a weight, and those at the same places of its transpose.
struct WeightSample {
    values: Vec<f64>,
    peak: f64,
    /// Whether the values tell it from others.
    is_telling: bool,
    /// How far they may be off, by their size and by the largest.
    near: (f64, f64),
}

/// Who takes the values of a model's main graph, each with the place among its inputs.
struct Takers<'a>(HashMap<&'a str, Vec<(&'a NodeProto, usize)>>);

impl<'a> Takers<'a> {
    fn of(model: &'a ModelProto) -> Takers<'a> {
        let mut takers: HashMap<&str, Vec<(&NodeProto, usize)>> = HashMap::new();
        for node in model.graph.iter().flat_map(|graph| &graph.node) {
            for (place, input) in node.input.iter().enumerate() {
                takers.entry(input).or_default().push((node, place));
            }
        }
        Takers(takers)
    }

    /// The one node that takes a value, as it is or cast, and at which place.
    fn sole<'b>(&'b self, mut value: &'b str) -> Option<(&'a NodeProto, usize)> {
        const CASTS: usize = 8;
        for _ in 0..CASTS {
            let [(node, place)] = self.0.get(value)?[..] else { return None };
            if !matches!(node.op_type.as_str(), "Cast" | "Identity") {
                return Some((node, place));
            }
            value = node.output.first()?;
        }
        None
    }
}

/// Whether two matrices of one name are each taken by one node, which multiplies by them alike:
/// neither stands for the other's transpose then.
fn are_taken_alike((of_a, x): (&Takers, &Constant), (of_b, y): (&Takers, &Constant)) -> bool {
    let is_one = x.name == y.name && x.path.is_empty() && y.path.is_empty();
    let takers = of_a.sole(&x.name).zip(of_b.sole(&y.name)).filter(|_| is_one);
    takers.is_some_and(|((taker, place), (other, other_place))| {
        let is_product = |node: &NodeProto| node.is("Gemm") || node.is("MatMul");
        let is_alike = if is_product(taker) {
            let turns =
                |node: &NodeProto| ["transA", "transB"].map(|name| int(node, name) == Some(1));
            is_product(other) && turns(taker) == turns(other)
        } else {
            let is_known = taker.is("Einsum") || taker.is("Gather");
            is_known && other.is(&taker.op_type) && taker.attribute == other.attribute
        };
        is_alike && place == other_place
    })
}

/// Which weights of one model are which of the other: places in the two lists, and whether the
/// second is transposed. Fails when a weight cannot be read.
pub(super) fn by_values(
    (model_a, a): (&ModelProto, &[Constant]),
    of_a: Option<&Path>,
    (model_b, b): (&ModelProto, &[Constant]),
    of_b: Option<&Path>,
) -> TractResult<Vec<(usize, usize, bool)>> {
    let (takers_a, takers_b) = (Takers::of(model_a), Takers::of(model_b));
    let mut by_size: HashMap<usize, VecDeque<usize>> = HashMap::new();
    for (place, constant) in b.iter().enumerate().filter(|(_, constant)| constant.is_weight()) {
        by_size.entry(constant.elements()).or_default().push_back(place);
    }
    let mut samples: HashMap<(usize, bool), WeightSample> = HashMap::new();
    let (mut pairs, mut taken) = (vec![], HashSet::new());
    for (x, constant) in a.iter().enumerate().filter(|(_, constant)| constant.is_weight()) {
        let Some(candidates) = by_size.get_mut(&constant.elements()) else { continue };
        while candidates.front().is_some_and(|y| taken.contains(y)) {
            candidates.pop_front();
        }
        let mine = sample(constant, of_a, false)?;
        let mut best: Option<(usize, usize, bool)> = None;
        for y in candidates.iter().take(CANDIDATES).filter(|y| !taken.contains(*y)) {
            // None can agree in more, and of equals it is the first.
            if best.is_some_and(|(most, ..)| most == mine.values.len()) {
                break;
            }
            let Some(other) = b.get(*y) else { continue };
            let is_square = matches!(other.shape[..], [rows, columns] if rows == columns);
            let turned = other.shape.iter().rev().eq(&constant.shape) && other.shape.len() == 2;
            let is_upright = || are_taken_alike((&takers_a, constant), (&takers_b, other));
            let ways: &[bool] = match (turned, is_square) {
                (true, true) if !is_upright() => &[false, true],
                (true, false) => &[true],
                _ => &[false],
            };
            for way in ways {
                let theirs = match samples.entry((*y, *way)) {
                    Entry::Occupied(entry) => entry.into_mut(),
                    Entry::Vacant(entry) => entry.insert(sample(other, of_b, *way)?),
                };
                let agreeing = mine.agreeing(theirs);
                if agreeing * 4 >= mine.values.len() * 3
                    && mine.is_telling
                    && best.is_none_or(|(most, ..)| agreeing > most)
                {
                    best = Some((agreeing, *y, *way));
                }
            }
        }
        if let Some((_, y, way)) = best {
            taken.insert(y);
            pairs.push((x, y, way));
        }
    }
    Ok(pairs)
}

/// Which of the weights that belong to no other by their values are taken at the same place by a
/// node of the same name and operator, such as one whose values are all wrong: places in the two
/// lists.
pub(super) fn by_place(
    (of_a, a): (&ModelProto, &[Constant]),
    (of_b, b): (&ModelProto, &[Constant]),
    pairs: &[(usize, usize, bool)],
) -> Vec<(usize, usize)> {
    let (mut taken_a, mut taken_b): (HashSet<usize>, HashSet<usize>) =
        pairs.iter().map(|(x, y, _)| (*x, *y)).unzip();
    let by_name = |all: &[Constant], taken: &HashSet<usize>| -> HashMap<String, usize> {
        let places = all.iter().enumerate().filter(|(place, constant)| {
            constant.is_weight() && constant.path.is_empty() && !taken.contains(place)
        });
        places.map(|(place, constant)| (constant.name.clone(), place)).collect()
    };
    let (in_a, in_b) = (by_name(a, &taken_a), by_name(b, &taken_b));
    let mut nodes: HashMap<(&str, &str), &NodeProto> = HashMap::new();
    for node in of_b.graph.iter().flat_map(|graph| &graph.node) {
        nodes.insert((&node.op_type, node.label()), node);
    }
    let mut found = vec![];
    for node in of_a.graph.iter().flat_map(|graph| &graph.node) {
        let Some(other) = nodes.get(&(node.op_type.as_str(), node.label())) else { continue };
        for (mine, theirs) in node.input.iter().zip(&other.input) {
            let Some((x, y)) = in_a.get(mine).zip(in_b.get(theirs)) else { continue };
            let fits = a.get(*x).zip(b.get(*y)).is_some_and(|(x, y)| x.may_be(y));
            if fits && taken_a.insert(*x) && taken_b.insert(*y) {
                found.push((*x, *y));
            }
        }
    }
    found
}

impl WeightSample {
    fn agreeing(&self, other: &WeightSample) -> usize {
        let (relative, share) = (self.near.0.max(other.near.0), self.near.1.max(other.near.1));
        let is_near = |(x, y): &(&f64, &f64)| {
            let error = (*x - *y).abs();
            error <= relative * x.abs() || error <= share * self.peak || x.to_bits() == y.to_bits()
        };
        self.values.iter().zip(&other.values).filter(is_near).count()
    }
}

fn sample(
    constant: &Constant,
    folder: Option<&Path>,
    is_turned: bool,
) -> TractResult<WeightSample> {
    let elements = constant.values(folder)?;
    let length = elements.len();
    // Of the transpose, the element at a place is at another one here.
    let (rows, columns) = match elements.shape[..] {
        [rows, columns] if is_turned => (rows.max(1), columns),
        _ => (1, 1),
    };
    // An odd stride meets every column of a matrix; the diagonal of a square one is that of its
    // transpose.
    let stride = (length / SAMPLES).max(1) | 1;
    let stride = if (stride - 1) * (stride - 1) == length { stride + 2 } else { stride };
    let mut values: Vec<f64> = vec![];
    for place in (0..length).step_by(stride) {
        let place = place % rows * columns + place / rows;
        let numbers = Numbers::of(elements.ty, &elements.part(place..place + 1)?)?;
        values.extend(numbers.get(0).map(Number::rounded));
    }
    let peak = values.iter().map(|x| x.abs()).filter(|x| x.is_finite()).fold(0.0, f64::max);
    let mut different: Vec<u64> = values.iter().map(|x| x.to_bits()).collect();
    different.sort_unstable();
    different.dedup();
    let is_telling = different.len() * 4 > values.len();
    Ok(WeightSample { is_telling, values, peak, near: near(constant.stored) })
}

/// How far values may be off that were stored so, by their size and by the largest.
fn near(stored: Option<ElementType>) -> (f64, f64) {
    match stored.map(|ty| (Reach::of(ty), ty.bits())) {
        Some((Some(Reach::Float(float)), ..=8)) => {
            (HALF_STEP * 0.5f64.powi(float.mantissa_bits as i32), NEAR_ZERO)
        }
        Some((Some(Reach::Integer(_)), bits @ 3..=8)) => {
            (NEAR, HALF_STEP / ((1 << (bits - 1)) - 1) as f64)
        }
        _ => (NEAR, NEAR_ZERO),
    }
}
