//! How much memory a model's file takes when it is decoded, found out without decoding it: an empty attribute has two bytes in a
//! file and most of a kilobyte in memory.

#![forbid(unsafe_code)]

use std::io::{self, BufRead, Seek};

use tract_onnx::pb::{
    AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto,
};

use super::fields::{Held, Source};
use super::limits::{Limits, within};
use crate::error::Error;

/// The messages of onnx.proto that hold others of these.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Model,
    Graph,
    Node,
    Attribute,
    Tensor,
    Function,
    Value,
}

impl Kind {
    /// What a field of a message of this kind holds. The numbers are those of onnx.proto.
    fn field(self, number: u64) -> Option<Kind> {
        Some(match (self, number) {
            (Kind::Model, 7) | (Kind::Attribute, 6 | 11) => Kind::Graph,
            (Kind::Model, 25) => Kind::Function,
            (Kind::Graph, 1) | (Kind::Function, 7) => Kind::Node,
            (Kind::Graph, 5) | (Kind::Attribute, 5 | 10) => Kind::Tensor,
            (Kind::Graph, 11..=13) | (Kind::Function, 12) => Kind::Value,
            (Kind::Node, 5) | (Kind::Function, 11) => Kind::Attribute,
            _ => return None,
        })
    }

    /// What one takes in memory without what it holds.
    fn bytes(self) -> u64 {
        let bytes = match self {
            Kind::Model => size_of::<ModelProto>(),
            Kind::Graph => size_of::<GraphProto>(),
            Kind::Node => size_of::<NodeProto>(),
            Kind::Attribute => size_of::<AttributeProto>(),
            Kind::Tensor => size_of::<TensorProto>(),
            Kind::Function => size_of::<FunctionProto>(),
            Kind::Value => size_of::<ValueInfoProto>(),
        };
        bytes as u64
    }

    /// How much longer a field is in memory than in the file, where it is none that holds others: packed numbers of one byte
    /// take eight.
    fn times(self, number: u64) -> u64 {
        match (self, number) {
            (Kind::Tensor, 1 | 5 | 7 | 11) | (Kind::Attribute, 8) => 8,
            _ => 1,
        }
    }

    /// Whether the field is the data of a tensor.
    fn is_data(self, number: u64) -> bool {
        self == Kind::Tensor && matches!(number, 4 | 9 | 10)
    }
}

/// What any other field takes that has a length: text, or a message without others.
const OTHER: u64 = 64;
/// What a number takes.
const NUMBER: u64 = 16;
/// A list may have room for twice as many as it holds.
const ROOM: u64 = 2;

/// Refuses a file, `length` bytes from where the reader is, that would be too large when decoded. What is no model at all passes:
/// decoding it will tell.
/// Fails when it has too many nodes, graphs nested too deep, or takes too much memory; `Ok(Err(_))` is a file that cannot be read.
pub(crate) fn check(
    reader: &mut (impl BufRead + Seek),
    length: u64,
    limits: &Limits,
) -> io::Result<Result<(), Error>> {
    let source = Source { reader, at: 0 };
    let mut scan = Scan { source, limits, bytes: 0, nodes: 0 };
    match scan.message(Kind::Model, length, 0) {
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
    source: Source<&'a mut R>,
    limits: &'a Limits,
    bytes: u64,
    nodes: u64,
}

impl<R: BufRead + Seek> Scan<'_, R> {
    /// A message of so many bytes, in graphs nested so deep.
    fn message(&mut self, kind: Kind, length: u64, depth: u64) -> Result<(), Stop> {
        let depth = depth + u64::from(kind == Kind::Graph);
        let place = || "the model's file".to_owned();
        within(place, "nesting", depth, self.limits.nesting)?;
        self.nodes += u64::from(kind == Kind::Node);
        within(place, "nodes", self.nodes, self.limits.nodes)?;
        let end = self.source.at.saturating_add(length);
        while let Some((tag, held)) = self.source.field(end)? {
            let number = tag >> 3;
            match held {
                Held::Number(_) => self.take(NUMBER)?,
                Held::Fixed(bytes) => self.source.skip(bytes)?,
                Held::Bytes(inner) => match kind.field(number) {
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
