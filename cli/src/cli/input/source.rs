//! A model whose inputs are wanted, as choosing them asks of it.

use std::collections::HashSet;
use std::sync::Arc;

use tract_onnx::pb::ModelProto;
use tract_onnx::prelude::*;

use crate::cli::input::chosen::price::Price;
use crate::cli::input::declared::Declared;
use crate::cli::tensor::NamedTensor;

/// Runs a model on a tensor for each of its inputs, at such a price.
type PricedRun<'a> =
    Box<dyn Fn(Vec<Arc<Tensor>>, &mut Price) -> TractResult<Vec<NamedTensor>> + 'a>;

/// How many quantisers a model that is compared has, and those whose ranges do not hold what they
/// are given of such inputs.
pub(crate) type CutOff<'a> =
    Box<dyn Fn(Vec<Arc<Tensor>>) -> TractResult<(usize, HashSet<String>)> + 'a>;

/// A model whose inputs are wanted, and what helps to choose those that nobody gives.
pub(crate) struct Source<'a> {
    pub(crate) takes: &'a Declared,
    pub(crate) proto: &'a ModelProto,
    /// What the model is compared with, and what it takes.
    pub(crate) other: Option<(&'a Declared, &'a ModelProto)>,
    pub(crate) run: PricedRun<'a>,
    /// Where what it is compared with was calibrated.
    pub(crate) cut_off: Option<CutOff<'a>>,
}
