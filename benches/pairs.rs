//! What the benches measure: a cast as the only op of a tract plan.

use tract_onnx::prelude::*;
use tract_onnx::tract_core::ops::cast::cast;
use tract_onnx_cast::interop::OnnxCast;
use tract_onnx_cast::{Conversion, ElementType, Rules};

use ElementType::*;

/// Pairs that models use, and at least one of each kind that converts in its own way.
pub const PAIRS: &[(ElementType, ElementType)] = &[
    (Float, Float16),
    (Float16, Float),
    (Float, BFloat16),
    (BFloat16, Float),
    (Float, Int8),
    (Float, Uint8),
    (Float, Int16),
    (Float, Int32),
    (Float, Int64),
    (Float, Uint32),
    (Float, Uint64),
    (Float, Bool),
    (Int8, Float),
    (Uint8, Float),
    (Int32, Float),
    (Int64, Float),
    (Bool, Float),
    (Double, Float),
    (Float, Double),
    (Double, Float16),
    (Int64, Int32),
    (Int32, Int64),
    (Int32, Int8),
    (Uint8, Float16),
    (Float16, Int32),
    (Float, Float8E4M3FN),
    (Float8E4M3FN, Float),
    (Float, Float8E4M3FNUZ),
    (Float8E4M3FNUZ, Float),
    (Float, Float8E5M2),
    (Float8E5M2, Float),
    (Float, Float8E5M2FNUZ),
    (Float8E5M2FNUZ, Float),
    (Float16, Float8E4M3FN),
    (BFloat16, Float8E4M3FN),
    (Float8E4M3FN, Float16),
    (Float8E4M3FN, Float8E5M2),
    (Float, Float8E8M0),
    (Float8E8M0, Float),
    (Float, Float4E2M1),
    (Float4E2M1, Float),
    (Float, Int4),
    (Int4, Float),
    (Float, String),
    (Int64, String),
    (String, Float),
    (String, Int64),
];

/// Elements that every pair converts without going out of range.
pub fn input(ty: ElementType, elements: usize) -> TractResult<TValue> {
    let numbers: Vec<f32> = (0..elements).map(|i| (i % 97) as f32 * 0.25).collect();
    let numbers = tensor1(&numbers);
    if ty == String {
        // Of the length that ids and prices have, some with a fraction.
        let texts = Conversion::new(Float, String, Rules::default()).run(&numbers)?;
        let whole: Vec<std::string::String> = texts
            .try_as_plain_ram()?
            .as_slice::<std::string::String>()?
            .iter()
            .map(|text| text.replace('.', ""))
            .collect();
        return Ok(tensor1(&whole).into_tvalue());
    }
    Ok(Conversion::new(Float, ty, Rules::default()).run(&numbers)?.into_tvalue())
}

pub type Plan = std::sync::Arc<TypedRunnableModel>;

pub fn ours(from: ElementType, to: ElementType, elements: usize) -> TractResult<Plan> {
    plan(Box::new(OnnxCast::new("cast", from, to, Rules::default())), from, elements)
}

/// tract's own cast, for the types that it has.
pub fn stock(from: ElementType, to: ElementType, elements: usize) -> Option<Plan> {
    let known = !from.is_exotic() && !to.is_exotic();
    known.then(|| plan(Box::new(cast(to.datum_type())), from, elements).ok()).flatten()
}

fn plan(op: Box<dyn TypedOp>, from: ElementType, elements: usize) -> TractResult<Plan> {
    let mut model = TypedModel::default();
    let source = model.add_source("x", from.datum_type().fact([elements]))?;
    let output = model.wire_node("cast", op, &[source])?;
    model.select_output_outlets(&output)?;
    model.into_optimized()?.into_runnable()
}
