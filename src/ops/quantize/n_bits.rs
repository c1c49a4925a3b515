//! `MatMulNBits` and `MatMulBnb4` of ONNX Runtime's: products with constant weights of few bits, N
//! rows of K in blocks.
//!
//! tract has the first, rounds its scales to FLOAT16 where it keeps the bits, trusts the lengths of
//! the tensors, and has neither 8 bits nor `g_idx`.

#![forbid(unsafe_code)]

use tract_onnx::model::{ParsingContext, optional_inputs};
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_core::ops::cast::cast;
use tract_onnx::tract_core::ops::change_axes::wire_with_rank_broadcast;
use tract_onnx::tract_core::ops::einsum::EinSum;
use tract_onnx::tract_core::ops::math::add;
use tract_onnx::tract_core::ops::nn::{Reduce, Reducer};
use tract_onnx::tract_hir::internal::*;

use crate::error::Error;
use crate::onnx::node::{int, node_name, refusal};
use crate::ops::fixes::products::keep_apart;
use crate::ops::host::at_opset::imported;
use crate::ops::host::element_wise::rules;
use crate::ops::host::hook::Wired;
use crate::ops::host::stock::Built;
use crate::ops::quantize::small_weights::{self, SmallWeights};
use crate::ops::weights::{self, unpack::Unpack};

const N_BITS: &str = "MatMulNBits";
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

/// Constants of the model, read.
struct NBitsConstants {
    codes: Arc<Tensor>,
    scales: Vec<f32>,
    /// For each scale.
    zeros: Vec<f32>,
    /// The block of each column, where that is not its place.
    order: Option<Vec<usize>>,
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
        if expected == Some(tensor.len()) {
            return Ok(());
        }
        let (k, n, block) = (self.k, self.n, self.block);
        let shape = tensor.shape();
        let sizes = format!("N {n}, K {k} and `block_size` {block}");
        Err(self.refuse(format!("has {what} of shape {shape:?}, which do not fit {sizes}")))
    }

    /// The zero point of each scale, of which there are `count`: numbers, or codes of so many bits.
    fn zeros(&self, tensor: &Tensor, bits: usize, count: Option<usize>) -> TractResult<Vec<f32>> {
        const WHAT: &str = "zero points";
        if tensor.datum_type() != u8::datum_type() {
            self.check(tensor, WHAT, count)?;
            return floats(tensor);
        }
        let (blocks, row) = (self.blocks(), self.blocks().div_ceil(8 / bits));
        self.check(tensor, WHAT, self.n.checked_mul(row))?;
        let bytes = tensor.try_as_plain_ram()?;
        let zero = |row: &[u8], block: usize| f32::from(low_first(row, bits, block));
        let rows = bytes.as_slice::<u8>()?.chunks_exact(row);
        Ok(rows.flat_map(|row| (0..blocks).map(move |block| zero(row, block))).collect())
    }

    fn constants(&self, model: &TypedModel, inputs: &[OutletId]) -> TractResult<NBitsConstants> {
        let constant = |index: usize, what: &str| -> TractResult<Arc<Tensor>> {
            let outlet = inputs.get(index).ok_or_else(|| self.refuse(format!("lacks {what}")))?;
            let constant = model.outlet_fact(*outlet)?.konst.clone();
            let dynamic = || self.refuse(format!("has {what} that are not constant"));
            Ok(constant.ok_or_else(dynamic)?)
        };
        let (codes, scales) = (constant(1, "weights")?, constant(2, "scales")?);
        let is_bytes = codes.datum_type() == u8::datum_type();
        ensure!(is_bytes, self.refuse("has weights that are not UINT8"));
        let (blocks, all) = (self.blocks(), self.n.checked_mul(self.k));
        let (bytes, count) = match self.codes {
            CodeMeaning::Bits(bits) => {
                let count = self.n.checked_mul(blocks);
                (count.and_then(|count| count.checked_mul(self.block / (8 / bits))), count)
            }
            CodeMeaning::Table(_) => {
                (all.map(|all| all.div_ceil(2)), all.map(|all| all.div_ceil(self.block)))
            }
        };
        self.check(&codes, "weights", bytes)?;
        self.check(&scales, "scales", count)?;
        let zeros = match (self.codes, self.zero_points) {
            (CodeMeaning::Bits(bits), Some(place)) => {
                let tensor = constant(place, "zero points")?;
                self.zeros(&tensor, bits, count)?
            }
            (CodeMeaning::Bits(bits), None) => vec![(1 << (bits - 1)) as f32; scales.len()],
            (CodeMeaning::Table(_), _) => vec![],
        };
        let order = match self.order {
            Some(place) => {
                let tensor = constant(place, "an order of columns")?;
                Some(self.order(&tensor)?)
            }
            None => None,
        };
        Ok(NBitsConstants { codes, scales: floats(&scales)?, zeros, order })
    }

    /// The block of each column; a list may go on to the end of the last block.
    fn order(&self, tensor: &Tensor) -> TractResult<Vec<usize>> {
        let blocks = tensor.cast_to::<i64>()?;
        let blocks = blocks.try_as_plain_ram()?;
        let blocks = blocks.as_slice::<i64>()?;
        let block =
            |block: &i64| usize::try_from(*block).ok().filter(|block| *block < self.blocks());
        let is_whole = [Some(self.k), self.blocks().checked_mul(self.block)];
        let columns = blocks.get(..self.k).filter(|_| is_whole.contains(&Some(blocks.len())));
        let known: Option<Vec<usize>> =
            columns.and_then(|columns| columns.iter().map(block).collect());
        Ok(known.ok_or_else(|| self.refuse("has a `g_idx` that is not a block for each column"))?)
    }

    /// The weights in FLOAT, N rows of K.
    fn floats(&self, constants: &NBitsConstants) -> TractResult<Tensor> {
        let NBitsConstants { codes, scales, zeros, order } = constants;
        let (codes, blocks) = (codes.try_as_plain_ram()?, self.blocks());
        let codes = codes.as_slice::<u8>()?;
        let mut weights = Vec::with_capacity(self.n * self.k);
        for row in 0..self.n {
            match (self.codes, order) {
                (CodeMeaning::Bits(bits), None) => {
                    for block in 0..blocks {
                        let (first, place) = (block * self.block, row * blocks + block);
                        let (zero, scale) = (zeros[place], scales[place]);
                        let codes = &codes[place * self.block / (8 / bits)..];
                        weights.extend((0..self.block.min(self.k - first)).map(|column| {
                            (f32::from(low_first(codes, bits, column)) - zero) * scale
                        }));
                    }
                }
                (CodeMeaning::Bits(bits), Some(order)) => {
                    for (column, block) in order.iter().enumerate() {
                        let code = low_first(codes, bits, row * blocks * self.block + column);
                        let block = row * blocks + block;
                        weights.push((f32::from(code) - zeros[block]) * scales[block]);
                    }
                }
                (CodeMeaning::Table(table), _) => {
                    for place in row * self.k..(row + 1) * self.k {
                        // The first is in the high bits.
                        let code = low_first(codes, 4, place ^ 1);
                        weights.push(table[usize::from(code)] * scales[place / self.block]);
                    }
                }
            }
        }
        Tensor::from_shape(&[self.n, self.k], &weights)
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

fn floats(tensor: &Tensor) -> TractResult<Vec<f32>> {
    let tensor = tensor.cast_to::<f32>()?;
    Ok(tensor.try_as_plain_ram()?.as_slice::<f32>()?.to_vec())
}

/// An integer of so many bits, the first of a byte in its low bits.
fn low_first(bytes: &[u8], bits: usize, index: usize) -> u8 {
    // A power of two.
    let each = 8 / bits;
    bytes[index >> each.trailing_zeros()] >> ((index & (each - 1)) * bits) & (u8::MAX >> (8 - bits))
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
        let constants = self.constants(model, inputs)?;
        let ty = model.outlet_fact(inputs[0])?.datum_type;
        let x = model.wire_node(format!("{prefix}.x"), cast(f32::datum_type()), &inputs[..1])?[0];
        let y = match self.small_product(prefix, model, x, &constants)? {
            Some(y) => y,
            None => {
                let lead = leading_axes(model.outlet_fact(x)?.rank());
                let weights = self.wire_weights(prefix, model, inputs[1], constants)?;
                let axes = AxesMapping::from_strs(
                    &[format!("{lead}k"), "nk".into()],
                    &[format!("{lead}n")],
                )?;
                let product = EinSum::new(axes, f32::datum_type());
                model.wire_node(format!("{prefix}.matmul"), product, &[x, weights])?[0]
            }
        };
        let Some(bias) = self.bias else { return model.wire_node(prefix, cast(ty), &[y]) };
        let y = model.wire_node(format!("{prefix}.y"), cast(ty), &[y])?[0];
        wire_with_rank_broadcast(prefix, model, add(), &[y, inputs[bias]])
    }
}
