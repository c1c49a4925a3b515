//! Whether the data beside a model is there: its files, and as much in them as its tensors say.

#![forbid(unsafe_code)]

use std::path::Path;

use tract_onnx::pb::{GraphProto, ModelProto, TensorProto};

use super::node::subgraphs;
use crate::error::Error;
use crate::tensor::proto::{check, is_external};

/// What is missing: an error for each tensor of the model's graphs whose data is not there. A run
/// that comes to one late would have been for nothing.
pub(crate) fn missing(model: &ModelProto, folder: &Path) -> impl Iterator<Item = Error> {
    let mut beside = vec![];
    if let Some(graph) = &model.graph {
        collect(graph, &mut beside);
    }
    beside.into_iter().filter_map(move |tensor| check(tensor, Some(folder)).err().map(Error::of))
}

/// The tensors of a graph whose data is beside the model.
fn collect<'a>(graph: &'a GraphProto, found: &mut Vec<&'a TensorProto>) {
    found.extend(graph.initializer.iter().filter(|tensor| is_external(tensor)));
    for attribute in graph.node.iter().flat_map(|node| &node.attribute) {
        let held = attribute.t.iter().chain(&attribute.tensors);
        found.extend(held.filter(|tensor| is_external(tensor)));
        subgraphs(attribute).for_each(|graph| collect(graph, found));
    }
}
