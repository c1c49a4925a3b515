//! The error along a graph, and the part of the graph where it breaks: plain data.

use serde::{Deserialize, Serialize};

use crate::cli::measure::number::Num;

/// How the errors of tensors grow from the inputs of a graph to its outputs.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Profile {
    /// The name of the converted model's graph.
    pub(crate) graph: String,
    /// In the order of computation; only where the inner tensors were compared.
    pub(crate) points: Vec<ProfilePoint>,
    /// The nodes about the one where the graphs part.
    pub(crate) around: Vec<Neighbour>,
}

/// One tensor.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ProfilePoint {
    pub(crate) tensor: String,
    pub(crate) node: String,
    pub(crate) op: String,
    /// How many nodes there are on the longest way to it from an input.
    pub(crate) depth: usize,
    /// The root of the errors' power by that of the reference's values; infinite where NaN or
    /// infinities differ.
    pub(crate) error: Num,
}

/// A node near the one where the graphs part.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Neighbour {
    pub(crate) node: String,
    pub(crate) op: String,
    pub(crate) depth: usize,
    /// Whether it is the node itself.
    pub(crate) is_centre: bool,
    /// The inputs that other neighbours make, by their places in the list.
    pub(crate) from: Vec<usize>,
    /// What it makes.
    pub(crate) tensor: String,
    /// The error of that, where it was compared.
    pub(crate) error: Option<Num>,
}

impl ProfilePoint {
    /// Whether a cast makes it.
    pub(crate) fn is_cast(&self) -> bool {
        ["Cast", "CastLike", "QuantizeLinear", "DequantizeLinear"].contains(&self.op.as_str())
    }
}
