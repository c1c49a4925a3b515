//! Which operators of a loader are ours.

use anyhow::Context;
use tract_onnx::Onnx;
use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;

use super::hook::Hook;
use super::hooked::build_hooked;
use super::stock::{Build, Built, is_stock, operators, stock};
use super::{at_opset, checked, measured, operands};
use crate::ops::fixes::places::grid_sample;
use crate::ops::fixes::table::{By, FIXES};
use crate::ops::fixes::{functions, rows};
use crate::ops::weights::{filed, tied};
use crate::ops::{cast, quantize};

/// What this crate is for: these are ours, whoever else has registered them.
const OWN_OPERATORS: &[(&str, Build)] = &[
    ("BitCast", cast::bit_cast::build),
    ("Cast", cast::inference::build),
    ("CastLike", cast::inference::build),
    ("DequantizeLinear", quantize::inference::build),
    ("QuantizeLinear", quantize::inference::build),
];

/// What tract does not have, or what is faster here. What somebody else has registered is theirs.
const ADDED_OPERATORS: &[(&str, Build)] = &[
    ("Cos", function),
    ("DynamicQuantizeLinear", quantize::dynamic::build),
    (quantize::n_bits::BNB4, quantize::n_bits::build),
    ("GridSample", grid_sample::build),
    ("Sin", function),
    ("Softmax", rows::build_softmax),
];

/// Builds a function of tract's, in whose place ours is wired, which is faster behind a product.
fn function(context: &ParsingContext, node: &NodeProto) -> Built {
    build_hooked(context, node, node, Hook::Instead(functions::function))
}

/// Operators without operands, whose values tract finds in the model by what it builds of them.
const CONSTANT_OPERATORS: &[&str] = &["Constant", "ConstantLike"];

/// Makes a tract `Onnx` build `Cast`, `CastLike`, `QuantizeLinear`, `DequantizeLinear` and
/// `BitCast` nodes with this crate's ops, and the operators that tract computes wrongly with
/// corrected ones: `If`, `Expand`, and those of integers in `docs/upstream.md`. Of these, what
/// somebody else has registered is theirs.
///
/// This alone serves models whose element types tract knows. The exotic ones (BFLOAT16, float8, …)
/// need the model to be rewritten first, which [`CastOnnx`](crate::CastOnnx) does.
pub fn register(onnx: &mut Onnx) {
    for (operator, _) in OWN_OPERATORS {
        onnx.op_register.insert(operator, build_own);
    }
    for (operator, _) in ADDED_OPERATORS {
        if is_stock(onnx, operator) || !onnx.op_register.0.contains_key(*operator) {
            onnx.op_register.insert(operator, build_own);
        }
    }
    for operator in operators().filter(|operator| !CONSTANT_OPERATORS.contains(operator)) {
        if is_stock(onnx, operator) {
            onnx.op_register.insert(operator, build);
        }
    }
}

/// Builds an operator of tract's, put right, and compared with what it takes.
fn build(context: &ParsingContext, node: &NodeProto) -> Built {
    checked::build(context, node, |context, node| {
        let fix = FIXES.iter().find(|fix| fix.operators.contains(&&*node.op_type));
        let (op, closures) = match fix.map(|fix| fix.by) {
            Some(By::Build(build)) => build(context, node)?,
            Some(By::Hook(hook)) => build_hooked(context, node, node, hook)?,
            None => stock(&node.op_type).context("an operator of tract's")?(context, node)?,
        };
        Ok((operands::guarded(context, node, op), closures))
    })
}

/// Builds an operator of this crate, compared with what it takes.
fn build_own(context: &ParsingContext, node: &NodeProto) -> Built {
    let (_, build) = OWN_OPERATORS
        .iter()
        .chain(ADDED_OPERATORS)
        .find(|(operator, _)| *operator == node.op_type)
        .context("an operator of this crate")?;
    checked::build(context, node, *build)
}

/// Makes an `Onnx` build the nodes that only the rewrite makes: those of other opsets than the
/// model's, shapes that are measured when the model runs, and weights that two nodes share.
pub(crate) fn register_private(onnx: &mut Onnx) {
    at_opset::register(onnx);
    measured::register(onnx);
    tied::register(onnx);
    filed::register(onnx);
}
