//! A converted model written as a file: with the fields that tract's messages lack, the data of
//! weights piece by piece.
//!
//! - `unknown_fields`: what tract's messages lack

pub(super) mod unknown_fields;

use std::collections::HashSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use onnx_cast_graph::external_data;
use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint, key_len};
use tract_onnx::pb::{
    FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto,
};

use super::data;
use super::weights::codes::WeightCodes;
use crate::error::{Cause, Error, Result};
use crate::onnx::fields::write;
use crate::onnx::node::subgraphs;
use crate::tensor::proto::is_external;
use unknown_fields::Renamed;
use unknown_fields::unjoined;
pub(super) use unknown_fields::{MessageKind, Unknown};

/// Where the data of a tensor that is beside the model begins: what a memory map wants.
const ALIGNED: u64 = 64;

/// A converted model, to be written.
#[derive(Debug)]
pub(super) struct File {
    pub(super) model: ModelProto,
    /// What is declared of the values of each function.
    pub(super) function_values: Vec<Vec<ValueInfoProto>>,
    pub(super) unknown: Unknown,
    pub(super) renamed: Renamed,
    /// How weights are stored as codes, as the entries of their external data count them.
    pub(super) codes: Vec<WeightCodes>,
    /// Where the data beside the original is.
    pub(super) folder: Option<PathBuf>,
    /// The file there from which weights of the main graph are read that are to be in the model.
    pub(super) own: Option<String>,
}

impl File {
    /// Whether there are tensors whose data is beside the model.
    pub(super) fn has_external_data(&self) -> bool {
        !self.locations().is_empty()
    }

    /// How many bytes the files have in which that data is.
    pub(super) fn external_bytes(&self) -> u64 {
        let folder = self.folder.as_deref().unwrap_or(Path::new(""));
        let locations = self.locations().into_iter();
        let sizes = locations.filter_map(|location| fs::metadata(folder.join(location)).ok());
        sizes.map(|file| file.len()).sum()
    }

    /// Where the data of tensors is, as the model has it.
    fn locations(&self) -> HashSet<&str> {
        let mut found = HashSet::new();
        if let Some(graph) = &self.model.graph {
            let beside = graph.initializer.iter().filter(|held| !is_in(held, &self.own));
            found.extend(beside.filter_map(location));
            of_nodes(graph.node.iter(), &mut found);
        }
        of_nodes(self.model.functions.iter().flat_map(|function| &function.node), &mut found);
        found
    }

    /// Writes the data of all tensors that have theirs beside the model, and has them say that it
    /// is at `location`. Fails when something cannot be read or written.
    pub(super) fn write_data(&mut self, location: &str, out: &mut dyn Write) -> Result<()> {
        let File { model, folder, codes, own, .. } = self;
        let mut data = Data { location, folder: folder.as_deref(), codes, out, offset: 0 };
        if let Some(graph) = &mut model.graph {
            let beside = graph.initializer.iter_mut().filter(|held| !is_in(held, own));
            beside.into_iter().try_for_each(|tensor| data.tensor(tensor))?;
            data.nodes(&mut graph.node)?;
        }
        for function in &mut model.functions {
            data.nodes(&mut function.node)?;
        }
        data.out.flush().map_err(unwritten)
    }

    /// Writes the model. The data of its weights is never there twice; that of those which are read
    /// from a file is never there as a whole. Fails when it cannot be written.
    pub(super) fn write(mut self, out: &mut dyn Write) -> Result<()> {
        let graph = self.model.graph.take();
        let functions = std::mem::take(&mut self.model.functions);
        let mut head = self.model.encode_to_vec();
        for (function, values) in functions.into_iter().zip(&self.function_values) {
            let name = function.name().to_owned();
            let bytes = function_bytes(function, values);
            let bytes = self.unknown.restore_function(&name, bytes, &self.renamed)?;
            write(25, &bytes, &mut head);
        }
        head.extend_from_slice(self.unknown.fields());
        out.write_all(&head).map_err(unwritten)?;
        if let Some(graph) = graph {
            let none = Unknown::default();
            let unknown = self.unknown.only(7).unwrap_or(&none);
            self.write_graph(graph, unknown, out)?;
        }
        out.flush().map_err(unwritten)
    }

    /// Writes the main graph as a field of the model.
    fn write_graph(
        &self,
        mut graph: GraphProto,
        unknown: &Unknown,
        out: &mut dyn Write,
    ) -> Result<()> {
        let renamed = &self.renamed;
        let tensors = std::mem::take(&mut graph.initializer);
        let mut head = vec![];
        for mut node in std::mem::take(&mut graph.node) {
            unjoin(&mut node);
            let bytes =
                unknown.restore_child(MessageKind::Graph, 1, node.encode_to_vec(), renamed)?;
            write(1, &bytes, &mut head);
        }
        let mut tail = vec![];
        let lists = [
            (11, std::mem::take(&mut graph.input)),
            (12, std::mem::take(&mut graph.output)),
            (13, std::mem::take(&mut graph.value_info)),
        ];
        for (field, values) in lists {
            for value in values {
                let bytes = unknown.restore_child(
                    MessageKind::Graph,
                    field,
                    value.encode_to_vec(),
                    renamed,
                )?;
                write(field, &bytes, &mut tail);
            }
        }
        tail.extend_from_slice(unknown.fields());
        head.extend(graph.encode_to_vec());
        // The data of each tensor is the last field of its message.
        let mut written = vec![];
        for tensor in tensors {
            let (tensor, data) = self.apart(tensor);
            let mut head =
                unknown.restore_child(MessageKind::Graph, 5, tensor.encode_to_vec(), renamed)?;
            if data.length() > 0 {
                encode_key(9, WireType::LengthDelimited, &mut head);
                encode_varint(data.length(), &mut head);
            }
            written.push((head, data));
        }
        let length = |(head, data): &(Vec<u8>, RawData)| head.len() as u64 + data.length();
        let tensors = written.iter().map(|tensor| field_length(5, length(tensor)));
        let whole = (head.len() + tail.len()) as u64 + tensors.sum::<u64>();
        out.write_all(&[key(7, whole), head].concat()).map_err(unwritten)?;
        for tensor in written {
            let whole = length(&tensor);
            let (head, data) = tensor;
            out.write_all(&[key(5, whole), head].concat()).map_err(unwritten)?;
            match data {
                RawData::Held(data) => out.write_all(&data).map_err(unwritten)?,
                RawData::InFile(tensor, length) => {
                    let folder = self.folder.as_deref();
                    let written = data::stream(&tensor, folder, &self.codes, out)?;
                    if written != length {
                        let problem = format!("has {written} bytes in the file, not {length}");
                        return Err(Cause::Tensor { tensor: tensor.name, problem }.into());
                    }
                }
            }
        }
        out.write_all(&tail).map_err(unwritten)
    }

    /// A tensor without its data, and that.
    fn apart(&self, mut tensor: TensorProto) -> (TensorProto, RawData) {
        if !is_in(&tensor, &self.own) {
            let data = std::mem::take(&mut tensor.raw_data);
            return (tensor, RawData::Held(data));
        }
        let length = data::bytes(&tensor);
        let message = TensorProto { external_data: vec![], data_location: None, ..tensor.clone() };
        (message, RawData::InFile(Box::new(tensor), length))
    }
}

/// The data of a tensor.
enum RawData {
    Held(Vec<u8>),
    /// That of a tensor whose data is read from a file, and how many bytes it becomes.
    InFile(Box<TensorProto>, u64),
}

impl RawData {
    fn length(&self) -> u64 {
        match self {
            RawData::Held(data) => data.len() as u64,
            RawData::InFile(_, length) => *length,
        }
    }
}

/// Whether a tensor's data is in the file of this name.
fn is_in(tensor: &TensorProto, own: &Option<String>) -> bool {
    own.is_some() && location(tensor) == own.as_deref()
}

/// The key of a field whose value has so many bytes, and that length.
fn key(field: u32, length: u64) -> Vec<u8> {
    let mut key = vec![];
    encode_key(field, WireType::LengthDelimited, &mut key);
    encode_varint(length, &mut key);
    key
}

/// How many bytes a field takes whose value has so many.
fn field_length(field: u32, length: u64) -> u64 {
    (key_len(field) + encoded_len_varint(length)) as u64 + length
}

fn function_bytes(mut function: FunctionProto, values: &[ValueInfoProto]) -> Vec<u8> {
    function.node.iter_mut().for_each(unjoin);
    function.name = function.name.map(|name| unjoined(&name).into());
    let mut bytes = function.encode_to_vec();
    for value in values {
        write(12, &value.encode_to_vec(), &mut bytes);
    }
    bytes
}

/// Gives calls of a function the name that the function has in the file.
fn unjoin(node: &mut NodeProto) {
    if node.op_type.contains(':') {
        node.op_type = unjoined(&node.op_type).into();
    }
    for attribute in &mut node.attribute {
        for graph in attribute.g.iter_mut().chain(&mut attribute.graphs) {
            graph.node.iter_mut().for_each(unjoin);
        }
    }
}

fn unwritten(error: std::io::Error) -> Error {
    Cause::File { message: format!("cannot be written: {error}") }.into()
}

fn of_graph<'a>(graph: &'a GraphProto, found: &mut HashSet<&'a str>) {
    found.extend(graph.initializer.iter().filter_map(location));
    of_nodes(graph.node.iter(), found);
}

fn of_nodes<'a>(nodes: impl Iterator<Item = &'a NodeProto>, found: &mut HashSet<&'a str>) {
    for attribute in nodes.flat_map(|node| &node.attribute) {
        found.extend(attribute.t.iter().chain(&attribute.tensors).filter_map(location));
        subgraphs(attribute).for_each(|graph| of_graph(graph, found));
    }
}

/// Where the data of a tensor is, if that is beside the model.
fn location(tensor: &TensorProto) -> Option<&str> {
    let given = tensor.external_data.iter().find(|entry| entry.key == "location");
    // One without a place is refused where it is read.
    is_external(tensor).then(|| given.map_or("", |entry| &*entry.value))
}

/// A file of data that is being written.
struct Data<'a> {
    location: &'a str,
    folder: Option<&'a Path>,
    codes: &'a [WeightCodes],
    out: &'a mut dyn Write,
    offset: u64,
}

impl Data<'_> {
    fn graph(&mut self, graph: &mut GraphProto) -> Result<()> {
        graph.initializer.iter_mut().try_for_each(|tensor| self.tensor(tensor))?;
        self.nodes(&mut graph.node)
    }

    fn nodes(&mut self, nodes: &mut [NodeProto]) -> Result<()> {
        for attribute in nodes.iter_mut().flat_map(|node| &mut node.attribute) {
            let tensors = attribute.t.iter_mut().chain(&mut attribute.tensors);
            tensors.into_iter().try_for_each(|tensor| self.tensor(tensor))?;
            let graphs = attribute.g.iter_mut().chain(&mut attribute.graphs);
            graphs.into_iter().try_for_each(|graph| self.graph(graph))?;
        }
        Ok(())
    }

    fn tensor(&mut self, tensor: &mut TensorProto) -> Result<()> {
        if !is_external(tensor) {
            return Ok(());
        }
        let gap = self.offset.next_multiple_of(ALIGNED) - self.offset;
        let zeros = [0; ALIGNED as usize];
        let gap_bytes = zeros.get(..gap as usize).unwrap_or_default();
        self.out.write_all(gap_bytes).map_err(unwritten)?;
        self.offset += gap;
        let length = data::stream(tensor, self.folder, self.codes, self.out)?;
        tensor.external_data = external_data(self.location, self.offset, length);
        self.offset += length;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
