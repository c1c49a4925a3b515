//! Attention as one operator of tract's.

use tract_onnx::tract_core::internal::*;

use crate::error::Error;
use crate::ops::host::element_wise::typed_op;
use crate::ops::host::hook::refused;
use crate::ops::host::label::Label;
use crate::ops::host::saved::{fields, members, save};

members! {
    /// What may be given beside Q, K and V, in ONNX's order.
    pub(super) enum AttentionInput {
        Mask,
        PastKey,
        PastValue,
        /// How many keys of a cache are no padding.
        Lengths,
    }
}

impl AttentionInput {
    /// What ONNX's input at a place is.
    pub(super) fn of(place: usize) -> Option<AttentionInput> {
        AttentionInput::ALL.get(place.checked_sub(3)?).copied()
    }
}

/// The heads of inputs of three axes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Heads {
    pub(super) queries: usize,
    pub(super) keys: usize,
}

/// Q, K, V and what is given beside them in; Y, the present keys and values and the products out.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Attend {
    /// For messages.
    pub(super) node: Label,
    pub(super) heads: Option<Heads>,
    /// What the products are multiplied by, if it is not one by the root of a key's size.
    pub(super) scale: Option<f32>,
    /// 0 for none.
    pub(super) softcap: f32,
    pub(super) is_causal: bool,
    /// How many keys before, and behind, a query's own it sees, if not all.
    pub(super) left: Option<usize>,
    pub(super) right: Option<usize>,
    /// When the products are put out: as they are, after the softcap, with what is added, after the
    /// softmax.
    pub(super) mode: usize,
    /// Whether the softmax is computed in DOUBLE.
    pub(super) in_double: bool,
    /// In ONNX's order.
    pub(super) given: TVec<AttentionInput>,
    /// Which of the outputs there are.
    pub(super) emitted: [bool; 4],
}

impl Eq for Attend {}

impl Attend {
    pub(super) fn error(&self, problem: impl Into<String>) -> Error {
        refused(&self.node, "Attention", problem)
    }

    /// Which of ONNX's outputs there are.
    pub(super) fn places(&self) -> impl Iterator<Item = usize> {
        let emitted = self.emitted;
        (0..4).filter(move |place| emitted.get(*place) == Some(&true))
    }

    /// Which of the inputs it is.
    pub(super) fn place(&self, which: AttentionInput) -> Option<usize> {
        Some(3 + self.given.iter().position(|given| *given == which)?)
    }
}

typed_op!(Attend, "Attention");

impl EvalOp for Attend {
    op_out_of_plan!();

    fn eval(&self, _: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let ty = inputs.first().map(|q| q.datum_type());
        match ty {
            Some(DatumType::F32) => self.eval_as::<f32>(&inputs),
            Some(DatumType::F64) => self.eval_as::<f64>(&inputs),
            _ => Err(self.error(format!("is computed in FLOAT and DOUBLE, not {ty:?}")))?,
        }
    }
}

impl TypedOp for Attend {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let shapes: Vec<TVec<TDim>> = inputs.iter().map(|fact| fact.shape.to_tvec()).collect();
        let shapes: Vec<&[TDim]> = shapes.iter().map(|shape| &**shape).collect();
        let ty = inputs.first().context("has no Q")?.datum_type;
        let shapes = self.shapes(&shapes)?;
        let there = self.places().filter_map(|place| shapes.get(place));
        Ok(there.map(|shape| ty.fact(&**shape)).collect())
    }

    as_op!();
}

fields!(Heads { queries, keys });
save!(
    Attend,
    "tract_onnx_cast_attention" => ["y", "key", "value", "products"],
    node { heads, scale, softcap, is_causal, left, right, mode, in_double, given, emitted }
);
