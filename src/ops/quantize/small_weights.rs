//! The format for one row of x: weights in tract's blocks of 32, whose scales are FLOAT16, and
//! whether a model may have them. `small` says which weights become so.

#![forbid(unsafe_code)]

use tract_onnx::model::ParsingContext;
use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_core::ops::konst::Const;
use tract_onnx::tract_core::tract_linalg::block_quant::{
    BlockQuant, BlockQuantFact, BlockQuantStorage, Q2_0_T, Q4_0,
};

/// Elements of a block of tract's.
const BLOCK: usize = 32;

/// Which weights stay in few bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SmallWeights {
    /// Those whose scales are FLOAT16 numbers.
    WhereExact,
    /// Those that tract has a format for, their scales rounded to normal FLOAT16 numbers.
    Always,
}

impl SmallWeights {
    /// The property of a loader's models that asks for [`SmallWeights::Always`].
    pub(crate) const PROPERTY: &str = "onnx_cast.small_weights";

    /// What the loader asks for that builds a node.
    pub(crate) fn of(context: &ParsingContext) -> SmallWeights {
        if context.template.properties.contains_key(SmallWeights::PROPERTY) {
            SmallWeights::Always
        } else {
            SmallWeights::WhereExact
        }
    }
}

/// Weights (code − base) · scale.
pub(crate) struct PackedWeights {
    /// Of shape 1 × N × K.
    pub(crate) constant: Const,
    /// That of all codes.
    pub(crate) base: f32,
    /// As they are kept.
    pub(crate) scales: Vec<f32>,
}

/// Packs N rows of K codes of so many bits, the first in the low bits of its byte, with a scale for
/// each `block` of a row. `None` where tract has no format, or none that is exact.
pub(crate) fn packed(
    small: SmallWeights,
    bits: usize,
    codes: &[u8],
    scales: &[f32],
    [n, k]: [usize; 2],
    block: usize,
) -> TractResult<Option<PackedWeights>> {
    if !block.is_multiple_of(BLOCK) || !k.is_multiple_of(block) {
        return Ok(None);
    }
    let rounded: Vec<f32> = scales.iter().map(|scale| f16::from_f32(*scale).to_f32()).collect();
    let may_round = match small {
        SmallWeights::WhereExact => rounded == scales,
        // As closely as its normal numbers are, which leaves out what overflows or is flushed.
        SmallWeights::Always => rounded
            .iter()
            .zip(scales)
            .all(|(rounded, scale)| (rounded - scale).abs() <= scale.abs() * f32::powi(0.5, 11)),
    };
    if !may_round {
        return Ok(None);
    }
    let each = block / BLOCK;
    let repeated: Vec<f32> =
        rounded.iter().flat_map(|scale| std::iter::repeat_n(*scale, each)).collect();
    let (format, base, bytes): (Box<dyn BlockQuant>, f32, Blob) = match bits {
        4 => (Box::new(Q4_0), 8.0, Q4_0.pack_prequantized_nibbles(codes, &repeated, n, k)?),
        2 => {
            let code = |byte: &u8| [0, 2, 4, 6].map(|shift| byte >> shift & 3);
            let codes: Vec<u8> = codes.iter().flat_map(code).collect();
            (Box::new(Q2_0_T), 1.0, Q2_0_T.pack_prequantized(&codes, &repeated, n, k)?)
        }
        _ => return Ok(None),
    };
    let fact = Box::new(BlockQuantFact::new(format.clone(), tvec!(1, n, k)));
    let storage = BlockQuantStorage::new(format, n, k, Arc::new(bytes))?;
    let tensor = storage.into_tensor_with_shape(f32::datum_type(), &[1, n, k]);
    let constant = Const::new_with_exotic_fact(Arc::new(tensor), fact)?;
    Ok(Some(PackedWeights { constant, base, scales: rounded }))
}
