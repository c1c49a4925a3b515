//! Limits: how large a model may be, so that a small file cannot ask for more than there is. Here
//! they are held against what a file says; `ops/host/checked/allowance` holds them against what
//! tract would make of it.

#![forbid(unsafe_code)]

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use tract_onnx::pb::{GraphProto, ModelProto, NodeProto, TensorProto};

use super::consistency;
use super::declared_shapes;
use super::node::{node_name, subgraphs};
use crate::cast::element_type::ElementType;
use crate::error::{Cause, Error};
use crate::tensor::proto as tensor_proto;

/// What a model may be made of, beyond which [`CastOnnx`](crate::CastOnnx) refuses it by an error
/// of kind [`Limit`](crate::ErrorKind::Limit).
///
/// The defaults are such that a hostile file of a few bytes needs neither gigabytes nor minutes.
/// All but [`loaded_nodes`](Limits::loaded_nodes), which a model with many nodes and hardly any
/// weights may need more of, are far beyond the models that people have.
///
/// ```
/// let mut limits = tract_onnx_cast::Limits::default();
/// limits.nodes = 1000;
/// let onnx = tract_onnx_cast::onnx().with_limits(limits);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Bytes that a model takes in memory besides the data of its tensors: nodes, attributes, names
    /// and the like. An attribute of two bytes in a file takes more than a kilobyte. Default: 512
    /// MiB.
    pub bytes: u64,
    /// Bytes of the tensors' data, in the model and beside it, each counted as often as it is read.
    /// Default: 1 TiB. Besides, side files are read for no more than 256 MiB and eight times what
    /// they hold on the disk: holes do not count.
    pub data_bytes: u64,
    /// Nodes in all graphs and functions. Default: 2¹⁷.
    pub nodes: u64,
    /// Nodes that tract is given to load: those of all graphs, functions put in place and what this
    /// crate adds included, with the graphs' inputs, twice their outputs, and what nodes have of
    /// operands and results beyond six. tract's time grows by the square of them, so a file that is
    /// small must not have many. A `Scan` inside the body of another it goes through three times
    /// for each time that it goes through that one, and so the nodes of its body count three times.
    /// Default: 6144, and besides one for each KiB that the tensors hold, as large models have
    /// large weights.
    pub loaded_nodes: u64,
    /// Elements of a tensor in the model. Default: 2⁴⁰.
    pub tensor_elements: u64,
    /// Bytes of what tract makes of constants while it loads a model, whatever operator makes them,
    /// texts by their lengths; of what operators such as `Expand`, `Tile` and `Pad` make of inputs
    /// each, beyond 16 times the inputs that the model declares; and 8 for each place of a padded
    /// window. Default: 256 MiB, and besides 32 for each byte that the tensors hold.
    pub made_bytes: u64,
    /// How deep graphs are nested. Default: 32.
    pub nesting: u64,
    /// How many dimensions a tensor has, where the model tells. Default: 64.
    pub rank: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            bytes: 1 << 29,
            data_bytes: 1 << 40,
            nodes: 1 << 17,
            loaded_nodes: 6 << 10,
            tensor_elements: 1 << 40,
            made_bytes: 1 << 28,
            nesting: 32,
            rank: 64,
        }
    }
}

impl Limits {
    /// No limits: for models whose origin is known.
    pub fn none() -> Limits {
        Limits {
            bytes: u64::MAX,
            data_bytes: u64::MAX,
            nodes: u64::MAX,
            loaded_nodes: u64::MAX,
            tensor_elements: u64::MAX,
            made_bytes: u64::MAX,
            // tract's messages are decoded no deeper.
            nesting: 100,
            rank: u64::MAX,
        }
    }

    /// Checks a decoded model, whose external data is in `folder`, and returns the limits of what
    /// is made of it: what grows with the data that there really is.
    pub(crate) fn check(&self, proto: &ModelProto, folder: Option<&Path>) -> Result<Limits, Error> {
        const BYTES_PER_NODE: u64 = 1 << 10;
        /// Weights of four bits become FLOAT, and are transposed and packed then.
        const TIMES_MADE: u64 = 32;
        consistency::check(proto)?;
        let mut sum = Sum { limits: self, nodes: 0, data: 0, external: 0, beside: vec![] };
        for function in &proto.functions {
            function.node.iter().try_for_each(|node| sum.node(node, 1))?;
        }
        if let Some(graph) = &proto.graph {
            sum.graph(graph, 1)?;
        }
        let data = sum.check_files(folder)?;
        Ok(Limits {
            loaded_nodes: self.loaded_nodes.saturating_add(data / BYTES_PER_NODE),
            made_bytes: self.made_bytes.saturating_add(data.saturating_mul(TIMES_MADE)),
            ..*self
        })
    }

    /// Checks what tract is to load.
    pub(crate) fn check_loaded(&self, proto: &ModelProto) -> Result<(), Error> {
        let found = proto.graph.as_ref().map_or(0, |graph| loaded_nodes(graph, false));
        let place = || "the model, with its functions in place".to_owned();
        within(place, "loaded_nodes", found, self.loaded_nodes)
    }
}

/// The [`loaded_nodes`](Limits::loaded_nodes) of a graph, which may be inside the body of a `Scan`.
fn loaded_nodes(graph: &GraphProto, is_scanned: bool) -> u64 {
    const ENDS: usize = 6;
    const TIMES_IN_SCAN: u64 = 3;
    let of_node = |node: &NodeProto| {
        let is_scan = node.op_type == "Scan";
        let graphs = node.attribute.iter().flat_map(subgraphs);
        let inner = graphs.map(|graph| loaded_nodes(graph, is_scanned || is_scan));
        let inner = inner.fold(0, u64::saturating_add);
        let times = if is_scan && is_scanned { TIMES_IN_SCAN } else { 1 };
        // Of some operators tract makes a node for each operand.
        let ends = (node.input.len() + node.output.len()).saturating_sub(ENDS);
        inner.saturating_mul(times).saturating_add(1 + ends as u64)
    };
    // Each output is looked for among all.
    let ends = (graph.input.len() + 2 * graph.output.len()) as u64;
    graph.node.iter().map(of_node).fold(ends, u64::saturating_add)
}

/// Fails where something is beyond a limit, at a place such as a node.
pub(crate) fn within(
    place: impl FnOnce() -> String,
    what: &'static str,
    found: u64,
    limit: u64,
) -> Result<(), Error> {
    if found > limit {
        return Err(Cause::Limit { place: place(), what, found, limit }.into());
    }
    Ok(())
}

/// What a model is made of, so far.
struct Sum<'a> {
    limits: &'a Limits,
    nodes: u64,
    data: u64,
    external: u64,
    /// The tensors whose data is beside the model, each with its file and its bytes.
    beside: Vec<(&'a TensorProto, &'a str, u64)>,
}

impl<'a> Sum<'a> {
    fn graph(&mut self, graph: &'a GraphProto, depth: u64) -> Result<(), Error> {
        within(|| format!("graph `{}`", graph.name), "nesting", depth, self.limits.nesting)?;
        for value in graph.input.iter().chain(&graph.output).chain(&graph.value_info) {
            let rank =
                declared_shapes::shape(value.r#type.as_ref()).map_or(0, |shape| shape.dim.len());
            self.rank(|| format!("value `{}`", value.name), rank)?;
        }
        graph.initializer.iter().try_for_each(|tensor| self.tensor(tensor, &tensor.name))?;
        graph.node.iter().try_for_each(|node| self.node(node, depth))
    }

    fn rank(&self, place: impl Fn() -> String, rank: usize) -> Result<(), Error> {
        within(place, "rank", rank as u64, self.limits.rank)
    }

    fn node(&mut self, node: &'a NodeProto, depth: u64) -> Result<(), Error> {
        self.nodes += 1;
        let place = || format!("node `{}`", node_name(node));
        within(place, "nodes", self.nodes, self.limits.nodes)?;
        for attribute in &node.attribute {
            let tensors = attribute.t.iter().chain(&attribute.tensors);
            for tensor in tensors {
                let name = if tensor.name.is_empty() { &attribute.name } else { &tensor.name };
                self.tensor(tensor, name)?;
            }
            subgraphs(attribute).try_for_each(|graph| self.graph(graph, depth + 1))?;
        }
        Ok(())
    }

    fn tensor(&mut self, tensor: &'a TensorProto, name: &str) -> Result<(), Error> {
        let size = |count: u64, dim: &i64| count.checked_mul(u64::try_from(*dim).ok()?);
        // Dimensions that overflow are wrong whatever the limit, which is said where the tensor is
        // read.
        let elements = tensor.dims.iter().try_fold(1, size).unwrap_or(0);
        let place = || format!("tensor `{name}`");
        let Limits { tensor_elements, data_bytes, .. } = *self.limits;
        self.rank(place, tensor.dims.len())?;
        within(place, "tensor_elements", elements, tensor_elements)?;
        let location = tensor.external_data.iter().find(|entry| entry.key == "location");
        let bytes = match location.filter(|_| tensor.data_location == Some(1)) {
            Some(location) => {
                let bits = ElementType::from_id(tensor.data_type).map_or(8, ElementType::bits);
                let bytes = (elements / 8).saturating_mul(bits.into()).saturating_add(bits.into());
                self.external = self.external.saturating_add(bytes);
                self.beside.push((tensor, &location.value, bytes));
                bytes
            }
            None => held_inside(tensor),
        };
        self.data = self.data.saturating_add(bytes);
        within(place, "data_bytes", self.data, data_bytes)
    }

    /// Checks that what is read of the side files is in a proportion to what they hold, and returns
    /// how many bytes the tensors hold. Where the files are is checked when they are read.
    fn check_files(&self, folder: Option<&Path>) -> Result<u64, Error> {
        const ALWAYS: u64 = 1 << 28;
        const TIMES: u64 = 8;
        let Some(folder) = folder.filter(|_| self.limits.data_bytes < u64::MAX) else {
            return Ok(self.data);
        };
        let files: HashSet<&str> = self.beside.iter().map(|(_, file, _)| *file).collect();
        let paths: HashSet<PathBuf> =
            files.iter().filter_map(|file| folder.join(file).canonicalize().ok()).collect();
        let held = paths.iter().filter_map(|path| fs::metadata(path).ok());
        let held = held.map(|metadata| held_bytes(&metadata)).fold(0, u64::saturating_add);
        let most = held.saturating_mul(TIMES).saturating_add(ALWAYS);
        if self.external > most {
            // What is not there is not read: whoever wants it says which file lacks it.
            let is_there = |tensor: &TensorProto| tensor_proto::check(tensor, Some(folder)).is_ok();
            let there = self.beside.iter().filter(|(tensor, ..)| is_there(tensor));
            let there = there.map(|(.., bytes)| *bytes).fold(0, u64::saturating_add);
            within(|| "its external data".into(), "data_bytes", there, most)?;
        }
        Ok(self.data.saturating_sub(self.external) + self.external.min(held))
    }
}

/// The bytes of a tensor's data in the model.
fn held_inside(tensor: &TensorProto) -> u64 {
    let wide = tensor.int64_data.len() + tensor.uint64_data.len() + tensor.double_data.len();
    let narrow = tensor.int32_data.len() + tensor.float_data.len();
    let texts: usize = tensor.string_data.iter().map(Vec::len).sum();
    (tensor.raw_data.len() + 8 * wide + 4 * narrow + texts) as u64
}

/// What a file has on the disk, of which holes are no part.
fn held_bytes(metadata: &fs::Metadata) -> u64 {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        metadata.len().min(metadata.blocks().saturating_mul(512))
    }
    #[cfg(not(unix))]
    metadata.len()
}
