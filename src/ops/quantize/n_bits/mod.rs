//! `MatMulNBits` and `MatMulBnb4` of ONNX Runtime's: products with constant weights of few bits, N
//! rows of K in blocks.
//!
//! tract has the first, rounds its scales to FLOAT16 where it keeps the bits, trusts the lengths of
//! the tensors, and has neither 8 bits nor `g_idx`.
//!
//! - `constants`: weights that are read when a model is typed; `inputs`: those that come while it
//!   runs

#![forbid(unsafe_code)]

mod constants;
mod inputs;

use tract_onnx::model::{ParsingContext, optional_inputs};
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_core::ops::cast::cast;
use tract_onnx::tract_core::ops::change_axes::wire_with_rank_broadcast;
use tract_onnx::tract_core::ops::einsum::EinSum;
use tract_onnx::tract_core::ops::math::add;
use tract_onnx::tract_core::ops::nn::{Reduce, Reducer};
use tract_onnx::tract_hir::internal::*;

use constants::NBitsConstants;
pub(crate) use inputs::may_be_input;

use crate::error::Error;
use crate::onnx::node::{int, node_name, refusal};
use crate::ops::fixes::products::keep_apart;
use crate::ops::host::at_opset::imported;
use crate::ops::host::element_wise::rules;
use crate::ops::host::hook::Wired;
use crate::ops::host::stock::Built;
use crate::ops::quantize::small_weights::{self, SmallWeights};
use crate::ops::weights::{self, unpack::Unpack};

pub(crate) const N_BITS: &str = "MatMulNBits";
pub(crate) const BNB4: &str = "MatMulBnb4";

/// What the codes of FP4 and NF4 are worth, times the greatest magnitude of their block.
const FP4: [f32; 16] = [
    0.0,
    5.208_333_3e-3,
    0.666_666_7,
    1.0,
    0.333_333_34,
    0.5,
    0.166_666_67,
    0.25, //
    -0.0,
    -5.208_333_3e-3,
    -0.666_666_7,
    -1.0,
    -0.333_333_34,
    -0.5,
    -0.166_666_67,
    -0.25,
];
const NF4: [f32; 16] = [
    -1.0,
    -0.696_192_8,
    -0.525_073_05,
    -0.394_917_5,
    -0.284_441_38,
    -0.184_773_43,
    -0.091_050_036,
    0.0, //
    0.079_580_3,
    0.160_930_2,
    0.246_112_3,
    0.337_915_24,
    0.440_709_83,
    0.562_617,
    0.722_956_84,
    1.0,
];

/// Builds a node of one of both.
pub(crate) fn build(context: &ParsingContext, node: &NodeProto) -> Built {
    let small = SmallWeights::of(context);
    let opset = imported(node, context.onnx_operator_set_version);
    let refuse = |problem: String| {
        let problem = format!("{problem} (opset {opset})");
        refusal(node, problem)
    };
    let size = |name: &str| {
        let size = int(node, name).and_then(|size| usize::try_from(size).ok());
        let size = size.filter(|size| (1..i32::MAX as usize).contains(size));
        size.ok_or_else(|| refuse(format!("attribute `{name}` is no size")))
    };
    let (k, n, block) = (size("K")?, size("N")?, size("block_size")?);
    let codes = if node.op_type == BNB4 {
        if int(node, "transB") == Some(0) {
            Err(refuse("attribute `transB` is 0: its weights are K rows, not N".into()))?;
        }
        match int(node, "quant_type") {
            Some(0) => CodeMeaning::Table(&FP4),
            Some(1) => CodeMeaning::Table(&NF4),
            other => {
                let got = other.map_or("missing".into(), |got| format!("{got}"));
                Err(refuse(format!("attribute `quant_type` is {got}, not 0 (FP4) or 1 (NF4)")))?
            }
        }
    } else {
        match int(node, "bits").unwrap_or(4) {
            bits @ (2 | 4 | 8) if block.is_multiple_of(8 / bits as usize) => {
                CodeMeaning::Bits(bits as usize)
            }
            bits => Err(refuse(format!(
                "attributes `bits` {bits} and `block_size` {block} do not go together"
            )))?,
        }
    };
    let mut places = optional_inputs(node);
    let mut place = || places.next().flatten();
    let (x, weights, scales) = (place(), place(), place());
    let (Some(0), Some(1), Some(2)) = (x, weights, scales) else {
        Err(refuse("has no x, no weights or no scales".into()))?
    };
    let (zero_points, order, bias) = (place(), place(), place());
    let name = node_name(node);
    let op = NBits { name, opset, k, n, block, codes, zero_points, order, bias, small };
    Ok((expand(op), vec![]))
}

/// What codes mean.
#[derive(Debug, Clone, Copy)]
enum CodeMeaning {
    /// Unsigned integers of so many bits, the first in the low bits of its byte.
    Bits(usize),
    /// Places in a table, the first in the high bits of its byte; blocks go on from row to row.
    Table(&'static [f32; 16]),
}

#[derive(Debug, Clone)]
struct NBits {
    /// For messages.
    name: String,
    opset: i64,
    k: usize,
    n: usize,
    block: usize,
    codes: CodeMeaning,
    /// The places of optional inputs.
    zero_points: Option<usize>,
    order: Option<usize>,
    bias: Option<usize>,
    small: SmallWeights,
}

impl NBits {
    fn refuse(&self, problem: impl Into<String>) -> Error {
        let op = match self.codes {
            CodeMeaning::Bits(_) => N_BITS,
            CodeMeaning::Table(_) => BNB4,
        };
        Error::of_node(&self.name, op, format!("{} (opset {})", problem.into(), self.opset))
    }

    /// The blocks of a row.
    fn blocks(&self) -> usize {
        self.k.div_ceil(self.block)
    }

    fn check(&self, tensor: &Tensor, what: &str, expected: Option<usize>) -> Result<(), Error> {
        self.check_shape(tensor.shape(), what, expected)
    }

    fn check_shape(
        &self,
        shape: &[usize],
        what: &str,
        expected: Option<usize>,
    ) -> Result<(), Error> {
        let length = shape.iter().try_fold(1usize, |length, dim| length.checked_mul(*dim));
        if expected.is_some() && expected == length {
            return Ok(());
        }
        let (k, n, block) = (self.k, self.n, self.block);
        let sizes = format!("N {n}, K {k} and `block_size` {block}");
        Err(self.refuse(format!("has {what} of shape {shape:?}, which do not fit {sizes}")))
    }

    /// x · weights, the weights in few bits; `None` where they are to be FLOAT.
    fn small_product(
        &self,
        prefix: &str,
        model: &mut TypedModel,
        x: OutletId,
        constants: &NBitsConstants,
    ) -> TractResult<Option<OutletId>> {
        let (CodeMeaning::Bits(bits), None) = (self.codes, &constants.order) else {
            return Ok(None);
        };
        let weights = constants.codes.try_as_plain_ram()?;
        let Some(small) = small_weights::packed(
            self.small,
            bits,
            weights.as_slice()?,
            &constants.scales,
            [self.n, self.k],
            self.block,
        )?
        else {
            return Ok(None);
        };
        let (rank, blocks) = (model.outlet_fact(x)?.rank(), self.blocks());
        let lead = leading_axes(rank);
        let weights = model.wire_node(format!("{prefix}.weights"), small.constant, &[])?[0];
        let axes =
            AxesMapping::from_strs(&[format!("{lead}k"), "gnk".into()], &[format!("{lead}n")])?;
        let product = EinSum::new(axes, f32::datum_type());
        let y = model.wire_node(format!("{prefix}.matmul"), product, &[x, weights])?[0];
        // (q − z)·s = (q − base)·s + (base − z)·s, of which the second is the same for all of a
        // block.
        let zeros = constants.zeros.iter().zip(&small.scales);
        let moves: Vec<f32> = zeros.map(|(zero, scale)| (small.base - zero) * scale).collect();
        if moves.iter().all(|by| *by == 0.0) {
            return Ok(Some(y));
        }
        let moves = Tensor::from_shape(&[self.n, blocks], &moves)?;
        let moves = model.add_const(format!("{prefix}.moves"), moves)?;
        let split = AxisOp::Reshape(
            rank - 1,
            tvec![self.k.to_dim()],
            tvec![blocks.to_dim(), self.block.to_dim()],
        );
        let split = model.wire_node(format!("{prefix}.blocks"), split, &[x])?;
        let sum = Reduce::new(tvec![rank], Reducer::Sum);
        let sums = model.wire_node(format!("{prefix}.sums"), sum, &split)?;
        let sums = model.wire_node(format!("{prefix}.sum"), AxisOp::Rm(rank), &sums)?[0];
        let axes =
            AxesMapping::from_strs(&[format!("{lead}z"), "nz".into()], &[format!("{lead}n")])?;
        let moved = EinSum::new(axes, f32::datum_type());
        let moved = model.wire_node(format!("{prefix}.moved"), moved, &[sums, moves])?[0];
        let name = format!("{prefix}.move");
        Ok(Some(wire_with_rank_broadcast(name, model, add(), &[y, moved])?[0]))
    }
}

/// x · weights, N rows of K in FLOAT.
fn wire_matmul(
    prefix: &str,
    model: &mut TypedModel,
    x: OutletId,
    weights: OutletId,
) -> TractResult<OutletId> {
    let lead = leading_axes(model.outlet_fact(x)?.rank());
    let axes = AxesMapping::from_strs(&[format!("{lead}k"), "nk".into()], &[format!("{lead}n")])?;
    let product = EinSum::new(axes, f32::datum_type());
    Ok(model.wire_node(format!("{prefix}.matmul"), product, &[x, weights])?[0])
}

/// Letters for all axes of x but the last.
fn leading_axes(rank: usize) -> String {
    "abcdefhi".chars().take(rank - 1).collect()
}

impl Expansion for NBits {
    fn name(&self) -> StaticName {
        match self.codes {
            CodeMeaning::Bits(_) => N_BITS.into(),
            CodeMeaning::Table(_) => BNB4.into(),
        }
    }

    rules!(self, |s, inputs, outputs| {
        check_output_arity(outputs, 1)?;
        s.given(&inputs[0].datum_type, |_, ty| {
            ensure!(ty != f64::datum_type(), self.refuse("takes no x of DOUBLE"));
            Ok(())
        })?;
        s.equals(&outputs[0].datum_type, &inputs[0].datum_type)?;
        s.equals(&outputs[0].rank, &inputs[0].rank)?;
        s.given(&inputs[0].rank, move |s, rank| {
            let last = usize::try_from(rank - 1).ok().filter(|last| *last < 9);
            let last = last.ok_or_else(|| self.refuse(format!("has an x of rank {rank}")))?;
            for axis in 0..last {
                s.equals(&outputs[0].shape[axis], &inputs[0].shape[axis])?;
            }
            s.equals(&inputs[0].shape[last], self.k.to_dim())?;
            s.equals(&outputs[0].shape[last], self.n.to_dim())
        })
    });

    fn wire(&self, prefix: &str, model: &mut TypedModel, inputs: &[OutletId]) -> Wired {
        let first = model.nodes.len();
        let outlets = self.wire_product(prefix, model, inputs)?;
        keep_apart(model, first, outlets)
    }
}

impl NBits {
    /// The weights in FLOAT, of which many are made when the product runs.
    fn wire_weights(
        &self,
        prefix: &str,
        model: &mut TypedModel,
        codes: OutletId,
        constants: NBitsConstants,
    ) -> TractResult<OutletId> {
        let is_code = |zero: &f32| f32::from(*zero as u8).to_bits() == zero.to_bits();
        let name = format!("{prefix}.weights");
        let (CodeMeaning::Bits(bits), None, true, true) = (
            self.codes,
            &constants.order,
            self.n * self.k >= weights::FROM,
            constants.zeros.iter().all(is_code),
        ) else {
            return model.add_const(name, self.floats(&constants)?);
        };
        let zeros: Vec<u8> = constants.zeros.iter().map(|zero| *zero as u8).collect();
        let zeros = model.add_const(format!("{prefix}.zeros"), tensor1(&zeros))?;
        let scales = model.add_const(format!("{prefix}.scales"), tensor1(&constants.scales))?;
        let op = Unpack { n: self.n, k: self.k, block: self.block, bits };
        Ok(model.wire_node(name, op, &[codes, scales, zeros])?[0])
    }

    fn wire_product(&self, prefix: &str, model: &mut TypedModel, inputs: &[OutletId]) -> Wired {
        let ty = model.outlet_fact(inputs[0])?.datum_type;
        let x = |model: &mut TypedModel| -> TractResult<OutletId> {
            let name = format!("{prefix}.x");
            Ok(model.wire_node(name, cast(f32::datum_type()), &inputs[..1])?[0])
        };
        let y = if self.comes_in(model, inputs)? {
            let weights = self.wire_inputs(prefix, model, inputs)?;
            let x = x(model)?;
            wire_matmul(prefix, model, x, weights)?
        } else {
            let constants = self.constants(model, inputs)?;
            let x = x(model)?;
            match self.small_product(prefix, model, x, &constants)? {
                Some(y) => y,
                None => {
                    let weights = self.wire_weights(prefix, model, inputs[1], constants)?;
                    wire_matmul(prefix, model, x, weights)?
                }
            }
        };
        let Some(bias) = self.bias else { return model.wire_node(prefix, cast(ty), &[y]) };
        let y = model.wire_node(format!("{prefix}.y"), cast(ty), &[y])?[0];
        wire_with_rank_broadcast(prefix, model, add(), &[y, inputs[bias]])
    }
}
