//! Plans: what tract's optimiser and this project's rewrites of it leave of a model computes what
//! the model does.

use std::collections::HashSet;

use tract_onnx::prelude::*;
use tract_onnx::tract_hir::internal::SymbolValues;

use super::models::{caught, typed};

/// Models with larger values take too long.
const ELEMENTS: usize = 1 << 14;
/// How far sums in another order are apart, of the largest value.
const SUMS: f64 = 1e-3;
/// What gives other values each time.
const CHANCE: [&str; 4] = ["Random", "Bernoulli", "Multinomial", "Dropout"];

/// A model's optimised plan and its plain one compute the same of inputs of small numbers.
pub fn run(data: &[u8]) {
    let by_chance = |name: &&str| data.windows(name.len()).any(|bytes| bytes == name.as_bytes());
    if CHANCE.iter().any(by_chance) {
        return;
    }
    let Some(plain) = caught(|| typed(data, |model| model.into_typed())) else { return };
    let Some(inputs) = inputs(&plain) else { return };
    let all_integers = (plain.nodes().iter()).flat_map(|node| &node.outputs).all(|output| {
        output.fact.datum_type.is_integer() || output.fact.datum_type == bool::datum_type()
    });
    let computed =
        |model: TypedModel| caught(|| model.into_runnable().ok()?.run(inputs.clone()).ok());
    let Some(optimised) = caught(|| plain.clone().into_optimized().ok()) else { return };
    let (Some(expected), Some(actual)) = (computed(plain), computed(optimised)) else { return };
    for (expected, actual) in expected.iter().zip(&actual) {
        assert_eq!(expected.datum_type(), actual.datum_type());
        assert_eq!(expected.shape(), actual.shape());
        if all_integers {
            assert_eq!(expected, actual);
        } else if expected.datum_type().is_float() {
            assert_close(expected, actual);
        }
    }
}

/// Inputs of small numbers, each symbol a size of its own; none, if the model has large values or
/// inputs of no numbers.
fn inputs(model: &TypedModel) -> Option<TVec<TValue>> {
    let sizes = sizes(model)?;
    for output in model.nodes().iter().flat_map(|node| &node.outputs) {
        let shape = output.fact.shape.eval_to_usize(&sizes);
        // What data decide is small, as they are.
        let elements = shape.map_or(Some(0), |shape| {
            shape.iter().try_fold(1_usize, |all, dim| all.checked_mul(*dim))
        });
        if elements? > ELEMENTS {
            return None;
        }
    }
    let facts = model.input_outlets().ok()?.iter().map(|outlet| model.outlet_fact(*outlet).ok());
    facts.enumerate().map(|(place, fact)| input(fact?, place, &sizes)).collect()
}

fn input(fact: &TypedFact, place: usize, sizes: &SymbolValues) -> Option<TValue> {
    let shape = fact.shape.eval_to_usize(sizes).ok()?;
    let least = if fact.datum_type.is_signed() || fact.datum_type.is_float() { -2 } else { 0 };
    let value = |index: usize| (index * 7 + place) as i64 % 5 + least;
    let values: Vec<i64> = (0..shape.iter().product()).map(value).collect();
    let numbers = Tensor::from_shape(&shape, &values).ok()?;
    Some(numbers.cast_to_dt(fact.datum_type).ok()?.into_owned().into_tvalue())
}

/// The sizes of the inputs' symbols: 2, 3, 4 and so on.
fn sizes(model: &TypedModel) -> Option<SymbolValues> {
    let mut seen = HashSet::new();
    let mut sizes = SymbolValues::default();
    for outlet in model.input_outlets().ok()? {
        for dim in model.outlet_fact(*outlet).ok()?.shape.iter() {
            for symbol in dim.symbols() {
                if seen.insert(symbol.clone()) {
                    sizes = sizes.with(&symbol, 1 + seen.len() as i64);
                }
            }
        }
    }
    Some(sizes)
}

fn assert_close(expected: &Tensor, actual: &Tensor) {
    let (Ok(expected), Ok(actual)) = (expected.cast_to::<f64>(), actual.cast_to::<f64>()) else {
        return;
    };
    let (Ok(expected), Ok(actual)) =
        (expected.to_plain_array_view::<f64>(), actual.to_plain_array_view::<f64>())
    else {
        return;
    };
    // What overflows may do so in one order of a sum alone.
    if expected.iter().chain(&actual).any(|value| !value.is_finite()) {
        return;
    }
    let scale = expected.iter().fold(1.0, |scale: f64, value| scale.max(value.abs()));
    for (expected, actual) in expected.iter().zip(&actual) {
        assert!((expected - actual).abs() <= SUMS * scale, "{expected} {actual} of {scale}");
    }
}
