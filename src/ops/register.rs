//! Operators of ours in the place of tract's own.

use std::collections::HashMap;
use std::sync::LazyLock;

use anyhow::Context;
use tract_onnx::Onnx;
use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::prelude::*;
use tract_onnx::tract_hir::internal::InferenceOp;

use super::fixes::{functions, rows, shapes};
use super::hook::{Hook, Site, Wires, build_hooked};
use super::stock::{Build, replace_stock};
use super::{
    arithmetic, at_opset, bit_cast, bit_shift, cast, dynamic_quantize, expand, extremum, fixes,
    greater, if_, indices, is_nan, measured, n_bits, one_hot, operands, product, quantize, range,
    reduce, scan, slice, squeeze, tree_ensemble,
};
use crate::audit::probe;

/// The operators that tract computes rightly in some models only, and what ours do in the others.
const HOOKS: &[(&str, Hook)] = &[
    ("Acosh", Hook::Instead(functions::function)),
    ("Add", Hook::Instead(arithmetic::add)),
    ("ArgMax", Hook::Checked(reduce::check, row)),
    ("ArgMin", Hook::Checked(reduce::check, row)),
    ("Asinh", Hook::Instead(functions::function)),
    ("Attention", Hook::Products),
    ("BitShift", Hook::Instead(bit_shift::bit_shift)),
    ("Celu", Hook::Instead(functions::function)),
    ("Clip", Hook::Instead(functions::extreme)),
    ("Conv", Hook::Products),
    ("ConvInteger", Hook::Products),
    ("Div", Hook::Instead(arithmetic::div)),
    ("Einsum", Hook::Instead(product::einsum)),
    ("Elu", Hook::Instead(functions::function)),
    ("Equal", Hook::Instead(arithmetic::equal)),
    ("Erf", Hook::Instead(functions::function)),
    ("GRU", Hook::Checked(fixes::recurrent::check, fixes::recurrent::recurrent)),
    ("GatherND", Hook::Instead(indices::gather_nd)),
    ("Gelu", Hook::Instead(functions::function)),
    ("Gemm", Hook::Instead(product::gemm)),
    ("GlobalLpPool", Hook::Instead(shapes::global_lp_pool)),
    ("HardSigmoid", Hook::Instead(functions::function)),
    ("HardSwish", Hook::Instead(functions::function)),
    ("IsNaN", Hook::Instead(is_nan::is_nan)),
    ("LSTM", Hook::Checked(fixes::recurrent::check, fixes::recurrent::recurrent)),
    ("LeakyRelu", Hook::Instead(functions::function)),
    ("LogSoftmax", Hook::Instead(rows::log_softmax)),
    ("MatMul", Hook::Instead(shapes::matmul)),
    ("MatMulInteger", Hook::Products),
    ("Max", Hook::Instead(functions::extreme)),
    ("Mean", Hook::Instead(shapes::mean)),
    ("Min", Hook::Instead(functions::extreme)),
    ("Mish", Hook::Instead(functions::function)),
    ("Mod", Hook::Instead(arithmetic::modulo)),
    ("Mul", Hook::Instead(arithmetic::mul)),
    ("OneHot", Hook::Instead(one_hot::one_hot)),
    ("Pow", Hook::Instead(arithmetic::pow)),
    ("QLinearConv", Hook::Products),
    ("QLinearMatMul", Hook::Products),
    ("RNN", Hook::Checked(fixes::recurrent::check, fixes::recurrent::recurrent)),
    ("ReduceL1", Hook::Checked(reduce::check, reduced)),
    ("ReduceL2", Hook::Checked(reduce::check, reduced)),
    ("ReduceLogSum", Hook::Checked(reduce::check, reduced)),
    ("ReduceLogSumExp", Hook::Checked(reduce::check, row)),
    ("ReduceMax", Hook::Checked(reduce::check, extreme)),
    ("ReduceMean", Hook::Checked(reduce::check, reduced)),
    ("ReduceMin", Hook::Checked(reduce::check, extreme)),
    ("ReduceProd", Hook::Checked(reduce::check, reduced)),
    ("ReduceSum", Hook::Checked(reduce::check, reduced)),
    ("ReduceSumSquare", Hook::Checked(reduce::check, reduced)),
    ("Relu", Hook::Instead(functions::function)),
    ("Round", Hook::Instead(functions::function)),
    ("ScatterND", Hook::Instead(indices::scatter_nd)),
    ("Selu", Hook::Instead(functions::function)),
    ("Sigmoid", Hook::Instead(functions::function)),
    ("Softplus", Hook::Instead(functions::function)),
    ("SpaceToDepth", Hook::Instead(shapes::space_to_depth)),
    ("Squeeze", Hook::Instead(squeeze::squeeze)),
    ("Sub", Hook::Instead(arithmetic::sub)),
    ("Swish", Hook::Instead(functions::function)),
    ("Tanh", Hook::Instead(functions::function)),
];

/// Makes a tract `Onnx` build `Cast`, `CastLike`, `QuantizeLinear`, `DequantizeLinear` and `BitCast` nodes with this crate's
/// ops, and the operators that tract computes wrongly with corrected ones: `If`, `Expand`, and those of integers in
/// `docs/upstream.md`.
///
/// This alone serves models whose element types tract knows. The exotic ones (BFLOAT16, float8, …) need the model to be
/// rewritten first, which [`CastOnnx`](crate::CastOnnx) does.
pub fn register(onnx: &mut Onnx) {
    register_unguarded(onnx);
    operands::register(onnx);
}

/// All of them, but tensors without elements are not looked for.
pub(crate) fn register_unguarded(onnx: &mut Onnx) {
    onnx.op_register.insert("Cast", cast::inference::build);
    onnx.op_register.insert("CastLike", cast::inference::build);
    if_::register(onnx);
    expand::register(onnx);
    fixes::attention::register(onnx);
    range::register(onnx);
    slice::register(onnx);
    replace_stock(onnx, "Scan", scan::build);
    replace_stock(onnx, "TreeEnsembleClassifier", tree_ensemble::build);
    for (operator, _) in HOOKS {
        replace_stock(onnx, operator, build);
    }
    bit_cast::register(onnx);
    for operator in ["QuantizeLinear", "DequantizeLinear"] {
        onnx.op_register.insert(operator, quantize::inference::build);
    }
    replace_stock(onnx, "DynamicQuantizeLinear", dynamic_quantize::build);
    greater::register(onnx);
    n_bits::register(onnx);
}

/// Has the constant weights of a product stay in few bits wherever tract has a format for them, or only where that is exact.
pub(crate) fn keep_weights_small(onnx: &mut Onnx, always: bool) {
    let dequantize: Build =
        if always { quantize::inference::build_small } else { quantize::inference::build };
    onnx.op_register.insert("DequantizeLinear", dequantize);
    n_bits::register_small(onnx, always);
}

/// Whether an operator is built by tract or by this crate, and not by something that the program's user has registered.
pub(crate) fn is_known_build(operator: &str, build: Build) -> bool {
    static BUILDS: LazyLock<HashMap<String, Vec<Build>>> = LazyLock::new(|| {
        let mut onnx = tract_onnx::onnx();
        let mut builds: HashMap<String, Vec<Build>> = HashMap::new();
        let mut add = |onnx: &Onnx| {
            for (operator, build) in &onnx.op_register.0 {
                builds.entry(operator.clone()).or_default().push(*build);
            }
        };
        add(&onnx);
        register(&mut onnx);
        register_private(&mut onnx);
        for small in [true, false] {
            keep_weights_small(&mut onnx, small);
            add(&onnx);
        }
        probe::register(&mut onnx);
        add(&onnx);
        builds
    });
    let builds = BUILDS.get(operator);
    builds.is_some_and(|builds| builds.iter().any(|known| std::ptr::fn_addr_eq(*known, build)))
}

fn build(
    context: &ParsingContext,
    node: &NodeProto,
) -> TractResult<(Box<dyn InferenceOp>, Vec<String>)> {
    let found = HOOKS.iter().find(|(operator, _)| *operator == node.op_type);
    let (_, hook) = found.with_context(|| format!("{} is left to tract", node.op_type))?;
    build_hooked(context, node, node, *hook)
}

/// What is made of elements along axes, of floats where there are none, or of integers.
fn reduced(site: &Site, model: &mut TypedModel, inputs: &[OutletId]) -> TractResult<Option<Wires>> {
    match shapes::of_none(site, model, inputs)? {
        Some(wires) => Ok(Some(wires)),
        None => reduce::reduce(site, model, inputs),
    }
}

/// What is made of rows, of floats or of integers.
fn row(site: &Site, model: &mut TypedModel, inputs: &[OutletId]) -> TractResult<Option<Wires>> {
    if let Some(wires) = shapes::of_none(site, model, inputs)? {
        return Ok(Some(wires));
    }
    match rows::reduction(site, model, inputs)? {
        Some(wires) => Ok(Some(wires)),
        None => reduce::reduce(site, model, inputs),
    }
}

/// `ReduceMax` and `ReduceMin`, of floats or of integers.
fn extreme(site: &Site, model: &mut TypedModel, inputs: &[OutletId]) -> TractResult<Option<Wires>> {
    if let Some(wires) = shapes::of_none(site, model, inputs)? {
        return Ok(Some(wires));
    }
    match extremum::extremum(site, model, inputs)? {
        Some(wires) => Ok(Some(wires)),
        None => reduce::reduce(site, model, inputs),
    }
}

/// Makes an `Onnx` build the nodes that only the rewrite makes: those of other opsets than the model's, and shapes that are
/// measured when the model runs.
pub(crate) fn register_private(onnx: &mut Onnx) {
    at_opset::register(onnx);
    measured::register(onnx);
}
