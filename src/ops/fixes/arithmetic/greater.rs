//! `Greater`, as `Less` of exchanged inputs.
//!
//! What tract 0.23 knows of `Greater` of dimensions is off by two (`CompGT`: a ≥ b − 1), and a
//! selection by it, as by a mask, is then taken for decided. Of `Less` it knows the right thing.

use crate::ops::host::element_wise::rules;
use crate::ops::host::hook::Wired;
use crate::ops::host::stock::Built;
use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_core::ops::logic::comp_lt;
use tract_onnx::tract_hir::internal::*;
use tract_onnx::tract_hir::ops::binary::{self, InferenceBinOp};

/// Builds it of any node.
pub(crate) fn build(_: &ParsingContext, _: &NodeProto) -> Built {
    Ok((expand(Greater), vec![]))
}

#[derive(Debug, Clone)]
struct Greater;

impl Expansion for Greater {
    fn name(&self) -> StaticName {
        "Greater".into()
    }

    rules!(self, |solver, inputs, outputs| {
        binary::rules(solver, inputs, outputs, |_, _| Ok(bool::datum_type()))
    });

    fn wire(&self, prefix: &str, model: &mut TypedModel, inputs: &[OutletId]) -> Wired {
        let [left, right] = inputs else { bail!("has {} inputs, not 2", inputs.len()) };
        InferenceBinOp(comp_lt()).wire(prefix, model, &[*right, *left])
    }
}
