//! `MatMulInteger` and `QLinearMatMul` of few weights by tract's product of FLOATs, where no sum
//! can be too large for it to be exact.
//!
//! tract's own goes through several passes over sums and results, element by element. On x86-64 its
//! kernels for codes are faster than those for FLOAT only as full tiles of 16 × 16, which VNNI has
//! (tract-linalg, `x86_64/fma/avx512vnni_mmm_i32_16x16.S.j2`); those of 8 × 8 take several times as
//! long.

use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_core::ndarray::{ArrayD, Axis};
use tract_onnx::tract_core::ops::cast::cast;
use tract_onnx::tract_core::tract_linalg::isa::{self, Arch, Isa};
use tract_onnx::tract_hir::internal::Expansion;
use tract_onnx::tract_hir::ops::matmul::MatMulInference;

use super::convolution::{EXACT, INTEGERS, Places, QUANTIZED, constant, is_byte, less_zero, reach};
use super::requantize::Requantize;
use crate::ops::fixes::arithmetic::product;
use crate::ops::fixes::shapes::{of_no_terms, zeros};
use crate::ops::host::hook::{HookSite, Instead};

/// So many weights are kept as FLOATs, which are four times as large, where tract has VNNI for
/// codes, and where it has not.
const FEW: [usize; 2] = [1 << 18, 1 << 20];

/// What wires a product.
type Product = fn(&HookSite, &mut TypedModel, &[OutletId]) -> Instead;

/// Wires `MatMulInteger`.
pub(crate) fn matmul_integer(
    site: &HookSite,
    model: &mut TypedModel,
    inputs: &[OutletId],
) -> Instead {
    if let Some(product) = of_vectors(site, model, inputs, (INTEGERS, matmul_integer))? {
        return Ok(Some(product));
    }
    match product_of_floats(site, model, inputs, INTEGERS)? {
        Some(sum) => model.wire_node(&site.name, cast(DatumType::I32), &[sum]).map(Some),
        None => product::matmul_integer(site, model, inputs),
    }
}

/// Wires `QLinearMatMul` of one scale each of the data, the weights and the output.
pub(crate) fn qlinear_matmul(
    site: &HookSite,
    model: &mut TypedModel,
    inputs: &[OutletId],
) -> Instead {
    const CHANNELS: usize = 1;
    if let Some(product) = of_vectors(site, model, inputs, (QUANTIZED, qlinear_matmul))? {
        return Ok(Some(product));
    }
    let [data, weights, output, zero] = [1, 4, 6, 7].map(|place| site.given(inputs, place));
    let last = Requantize::of(model, CHANNELS, &[data, weights, output, zero, None])?;
    let Some((op, scale, bias)) = last else { return Ok(None) };
    let Some(sum) = product_of_floats(site, model, inputs, QUANTIZED)? else {
        return Ok(None);
    };
    let scale = model.add_const(site.part("scale"), scale)?;
    let bias = model.add_const(site.part("bias"), bias)?;
    model.wire_node(&site.name, op, &[sum, scale, bias]).map(Some)
}

/// Wires a product of a vector, of whose zero point tract makes a matrix, as that of a row or a
/// column.
fn of_vectors(
    site: &HookSite,
    model: &mut TypedModel,
    inputs: &[OutletId],
    ([data, _, weights, _], product): (Places, Product),
) -> Instead {
    let (mut operands, mut added) = (inputs.to_vec(), vec![]);
    for (axis, place) in [data, weights].into_iter().enumerate() {
        let operand = operands.get_mut(place).context("an operand")?;
        if model.outlet_fact(*operand)?.rank() == 1 {
            let name = site.part(&format!("matrix-{axis}"));
            let matrix = model.wire_node(name, AxisOp::Add(axis), &[*operand])?;
            *operand = matrix.first().copied().context("an output")?;
            added.push(axis);
        }
    }
    if added.is_empty() {
        return Ok(None);
    }
    let of_matrices = site.named(site.part("matrix"));
    let mut made = match product(&of_matrices, model, &operands)? {
        Some(made) => made,
        None => of_matrices.wire_stock(model, &operands)?,
    };
    let product = made.first().context("an output")?;
    let before = model.outlet_fact(*product)?.rank().checked_sub(2).context("a matrix")?;
    while let Some(axis) = added.pop() {
        let name = if added.is_empty() { site.name.clone() } else { site.part("vector") };
        made = model.wire_node(name, AxisOp::Rm(before + axis), &made)?;
    }
    Ok(Some(made))
}

/// Wires the sums as FLOATs, where they are exact and fast.
fn product_of_floats(
    site: &HookSite,
    model: &mut TypedModel,
    inputs: &[OutletId],
    places: Places,
) -> TractResult<Option<OutletId>> {
    let Some((weights, reach)) = weights(site, model, inputs, places)? else { return Ok(None) };
    let [data, data_zero, ..] = places;
    let (Some(data), true) = (site.given(inputs, data), is_exact(&weights, reach)) else {
        return Ok(None);
    };
    let data = less_zero(site, model, data, site.given(inputs, data_zero))?;
    #[allow(clippy::cast_precision_loss, reason = "they are of 9 bits")]
    let weights = weights.mapv(|weight| weight as f32).into_tensor();
    let weights = model.add_const(site.part("weights"), weights)?;
    let name = site.part("sum");
    let sum = match of_no_terms(model.outlet_fact(data)?, model.outlet_fact(weights)?) {
        Some(shape) => zeros(model, &name, f32::datum_type(), shape)?,
        None => MatMulInference::default().wire(&name, model, &[data, weights])?,
    };
    Ok(sum.first().copied())
}

/// The weights less their zero points, and how far the data may be from its own. `None` where these
/// are no constants, not few, or of zero points for each row.
fn weights(
    site: &HookSite,
    model: &TypedModel,
    inputs: &[OutletId],
    [data, data_zero, weights, weights_zero]: Places,
) -> TractResult<Option<(ArrayD<i32>, u64)>> {
    let (Some(data), Some(weights)) = (site.given(inputs, data), site.given(inputs, weights))
    else {
        return Ok(None);
    };
    let fact = model.outlet_fact(data)?;
    let Some(weights) = constant(model, weights) else { return Ok(None) };
    if fact.konst.is_some() || !is_byte(fact.datum_type) || !is_byte(weights.datum_type()) {
        return Ok(None);
    }
    let Some(reach) = reach(model, fact.datum_type, site.given(inputs, data_zero))? else {
        return Ok(None);
    };
    let rows = fact.shape.iter().rev().nth(1).and_then(TDim::as_i64);
    if fact.rank() < 2 || weights.rank() < 2 || !is_faster(rows, weights.len()) {
        return Ok(None);
    }
    let mut weights = weights.cast_to::<i32>()?.to_plain_array_view::<i32>()?.to_owned();
    if let Some(zeros) = site.given(inputs, weights_zero) {
        let Some(zeros) = constant(model, zeros) else { return Ok(None) };
        let zeros = zeros.cast_to::<i32>()?;
        let zeros = zeros.to_plain_array_view::<i32>()?;
        // One of all, or one of each column.
        let is_list = zeros.ndim() <= 1
            && [1, weights.shape().last().copied().unwrap_or(1)].contains(&zeros.len());
        let Some(zeros) = zeros.broadcast(weights.raw_dim()).filter(|_| is_list) else {
            return Ok(None);
        };
        weights -= &zeros;
    }
    Ok(Some((weights, reach)))
}

/// Whether FLOATs are faster than codes, of so many rows, if that is known, and weights.
fn is_faster(rows: Option<i64>, weights: usize) -> bool {
    const TILE: i64 = 16;
    let native = isa::native();
    // Of other processors' kernels for codes nothing has been measured.
    let is_known = native.arch() == Some(Arch::X86_64);
    let [few, few_without] = FEW;
    let is_few = if native.has(Isa::X86_64Avx512Vnni) {
        weights <= few && rows.is_none_or(|rows| rows % TILE != 0)
    } else {
        weights <= few_without
    };
    is_known && is_few
}

/// Whether FLOAT has every sum of the products of a column, in whatever order they are summed.
fn is_exact(weights: &ArrayD<i32>, reach: u64) -> bool {
    let columns = weights.lanes(Axis(weights.ndim().saturating_sub(2)));
    columns.into_iter().all(|column| {
        column.iter().map(|weight| u64::from(weight.unsigned_abs()) * reach).sum::<u64>() < EXACT
    })
}
