//! What types are inferred from and later passes need not read again: casts, quantisers, and
//! operators on half precision.

use crate::onnx::bit_casts::BitCastSpec;
use crate::onnx::lowered::PrivateCast;
use crate::onnx::quantizers::{QuantizerNode, QuantizerSpec};
use crate::passes::casts::node::CastNode;
use crate::passes::half_in_float::Halves;

/// What a node means that is more than an operator on its inputs.
#[derive(Debug, Clone)]
pub(crate) enum Meaning {
    Cast(Box<CastNode>, PrivateCast),
    /// A cast that is wrong, as far as it can be read.
    Refused(Box<CastNode>),
    Quantizer(Box<QuantizerNode>, QuantizerSpec),
    BitCast(BitCastSpec),
    /// An operator that computes on half precision, in FLOAT.
    Half(Halves),
}
