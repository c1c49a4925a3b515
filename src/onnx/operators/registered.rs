//! The operators that a loader builds, and whose they are.

use tract_onnx::model::{OnnxOpRegister, ParsingContext};
use tract_onnx::pb::NodeProto;
use tract_onnx::prelude::TractResult;
use tract_onnx::tract_hir::internal::InferenceOp;

/// An operator that is not typed yet, and the values from outside that its bodies take.
pub(crate) type Built = TractResult<(Box<dyn InferenceOp>, Vec<String>)>;

/// What tract has an operator built by.
pub(crate) type Build = fn(&ParsingContext, &NodeProto) -> Built;

/// The operators that a loader builds.
#[derive(Clone, Copy)]
pub(crate) struct Registered<'a> {
    pub(crate) operators: &'a OnnxOpRegister,
    /// Whether this is how tract or this crate builds the operator.
    pub(crate) is_known: fn(&str, Build) -> bool,
}

impl Registered<'_> {
    /// Whether there is one of this name.
    pub(crate) fn has(&self, operator: &str) -> bool {
        self.operators.0.contains_key(operator)
    }

    /// Whether the program's user has registered what builds an operator.
    pub(crate) fn is_of_user(&self, operator: &str) -> bool {
        let build = self.operators.0.get(operator);
        build.is_some_and(|build| !(self.is_known)(operator, *build))
    }
}
