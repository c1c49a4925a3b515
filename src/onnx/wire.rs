//! How much memory a model's file takes when it is decoded, found out without decoding it: an empty
//! attribute has two bytes in a file and most of a kilobyte in memory.

#![forbid(unsafe_code)]

use std::io::{self, BufRead, Seek};

use tract_onnx::pb::{
    AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto,
};

use super::fields::{FieldPayload, FieldReader};
use super::limits::{Limits, within};
use crate::error::Error;

/// The messages of onnx.proto that hold others of these.
#[derive(Clone, Copy, PartialEq)]
enum ScannedMessage {
    Model,
    Graph,
    Node,
    Attribute,
    Tensor,
    Function,
    Value,
}

impl ScannedMessage {
    /// What a field of a message of this kind holds. The numbers are those of onnx.proto.
    fn field(self, number: u64) -> Option<ScannedMessage> {
        Some(match (self, number) {
            (ScannedMessage::Model, 7) | (ScannedMessage::Attribute, 6 | 11) => {
                ScannedMessage::Graph
            }
            (ScannedMessage::Model, 25) => ScannedMessage::Function,
            (ScannedMessage::Graph, 1) | (ScannedMessage::Function, 7) => ScannedMessage::Node,
            (ScannedMessage::Graph, 5) | (ScannedMessage::Attribute, 5 | 10) => {
                ScannedMessage::Tensor
            }
            (ScannedMessage::Graph, 11..=13) | (ScannedMessage::Function, 12) => {
                ScannedMessage::Value
            }
            (ScannedMessage::Node, 5) | (ScannedMessage::Function, 11) => ScannedMessage::Attribute,
            _ => return None,
        })
    }

    /// What one takes in memory without what it holds.
    fn bytes(self) -> u64 {
        let bytes = match self {
            ScannedMessage::Model => size_of::<ModelProto>(),
            ScannedMessage::Graph => size_of::<GraphProto>(),
            ScannedMessage::Node => size_of::<NodeProto>(),
            ScannedMessage::Attribute => size_of::<AttributeProto>(),
            ScannedMessage::Tensor => size_of::<TensorProto>(),
            ScannedMessage::Function => size_of::<FunctionProto>(),
            ScannedMessage::Value => size_of::<ValueInfoProto>(),
        };
        bytes as u64
    }

    /// How much longer a field is in memory than in the file, where it is none that holds others:
    /// packed numbers of one byte take eight.
    fn times(self, number: u64) -> u64 {
        match (self, number) {
            (ScannedMessage::Tensor, 1 | 5 | 7 | 11) | (ScannedMessage::Attribute, 8) => 8,
            _ => 1,
        }
    }

    /// Whether the field is the data of a tensor.
    fn is_data(self, number: u64) -> bool {
        self == ScannedMessage::Tensor && matches!(number, 4 | 9 | 10)
    }
}

/// What any other field takes that has a length: text, or a message without others.
const OTHER: u64 = 64;
/// What a number takes.
const NUMBER: u64 = 16;
/// A list may have room for twice as many as it holds.
const ROOM: u64 = 2;

/// Refuses a file, `length` bytes from where the reader is, that would be too large when decoded.
/// What is no model at all passes: decoding it will tell. Fails when it has too many nodes, graphs
/// nested too deep, or takes too much memory; `Ok(Err(_))` is a file that cannot be read.
pub(crate) fn check(
    reader: &mut (impl BufRead + Seek),
    length: u64,
    limits: &Limits,
) -> io::Result<Result<(), Error>> {
    let source = FieldReader { reader, at: 0 };
    let mut scan = Scan { source, limits, bytes: 0, nodes: 0 };
    match scan.message(ScannedMessage::Model, length, 0) {
        Ok(()) => Ok(Ok(())),
        Err(Stop::Limit(error)) => Ok(Err(error)),
        Err(Stop::Io(error)) => match error.kind() {
            io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData => Ok(Ok(())),
            _ => Err(error),
        },
    }
}

enum Stop {
    Limit(Error),
    Io(io::Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::Limit(error)
    }
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Stop {
        Stop::Io(error)
    }
}

struct Scan<'a, R> {
    source: FieldReader<&'a mut R>,
    limits: &'a Limits,
    bytes: u64,
    nodes: u64,
}

impl<R: BufRead + Seek> Scan<'_, R> {
    /// A message of so many bytes, in graphs nested so deep.
    fn message(&mut self, kind: ScannedMessage, length: u64, depth: u64) -> Result<(), Stop> {
        let depth = depth + u64::from(kind == ScannedMessage::Graph);
        let place = || "the model's file".to_owned();
        within(place, "nesting", depth, self.limits.nesting)?;
        self.nodes += u64::from(kind == ScannedMessage::Node);
        within(place, "nodes", self.nodes, self.limits.nodes)?;
        let end = self.source.at.saturating_add(length);
        while let Some((tag, held)) = self.source.field(end)? {
            let number = tag >> 3;
            match held {
                FieldPayload::Number(_) => self.take(NUMBER)?,
                FieldPayload::Fixed(bytes) => self.source.skip(bytes)?,
                FieldPayload::Bytes(inner) => match kind.field(number) {
                    Some(held) => {
                        self.take(held.bytes() * ROOM)?;
                        self.message(held, inner, depth)?;
                    }
                    None => {
                        if !kind.is_data(number) {
                            let bytes = inner.saturating_mul(kind.times(number));
                            self.take(bytes.saturating_add(OTHER))?;
                        }
                        self.source.skip(inner)?;
                    }
                },
            }
        }
        Ok(())
    }

    fn take(&mut self, bytes: u64) -> Result<(), Stop> {
        self.bytes = self.bytes.saturating_add(bytes);
        let place = || "the model's file, decoded".to_owned();
        Ok(within(place, "bytes", self.bytes, self.limits.bytes)?)
    }
}
