//! A model's message without its weights, which stay in the file: initializers that the file holds,
//! those of bodies as well, become external data of the file itself. What is decoded is small then,
//! and a weight is read where it is needed.

#![forbid(unsafe_code)]

use std::fs::{self, File};
use std::io::{BufReader, Read};
use std::path::Path;

use onnx_cast_graph::external_data;
use prost::encoding::encode_varint;
use tract_onnx::pb::TensorProto;

use super::fields::{FieldPayload, FieldReader};

/// From how many bytes on data stays in the file.
const LEAST: u64 = 1 << 12;

/// The bytes of a model's file without its large weights; `None` where they cannot stay there: the
/// file is a link, or is not what it should be, which reading all of it will tell.
pub(crate) fn read(path: &Path) -> Option<Vec<u8>> {
    let name = path.file_name()?.to_str()?;
    if !fs::symlink_metadata(path).ok()?.is_file() {
        return None;
    }
    let file = File::open(path).ok()?;
    let length = file.metadata().ok()?.len();
    let mut copy = FileCopy { source: FieldReader { reader: BufReader::new(file), at: 0 }, name };
    copy.message(length, &mut |copy, number, length| match number {
        GRAPH => copy.graph(length),
        _ => copy.bytes(length),
    })
}

/// Fields of onnx.proto.
const GRAPH: u64 = 7;
const NODE: u64 = 1;
const ATTRIBUTE: u64 = 5;
const BODY: u64 = 6;
const BODIES: u64 = 11;
const INITIALIZER: u64 = 5;
const RAW_DATA: u64 = 9;
const EXTERNAL_DATA: u64 = 13;

struct FileCopy<'a> {
    source: FieldReader<BufReader<File>>,
    name: &'a str,
}

/// What becomes of a field of a number and a length.
type FieldRewrite<'f> = dyn FnMut(&mut FileCopy, u64, u64) -> Option<Vec<u8>> + 'f;

impl FileCopy<'_> {
    /// A message of so many bytes, whose fields with a length are what `field` makes of them.
    fn message(&mut self, length: u64, field: &mut FieldRewrite) -> Option<Vec<u8>> {
        let (end, mut made) = (self.source.at.checked_add(length)?, vec![]);
        while let Some((tag, held)) = self.source.field(end).ok()? {
            encode_varint(tag, &mut made);
            match held {
                FieldPayload::Number(number) => encode_varint(number, &mut made),
                FieldPayload::Fixed(bytes) => made.extend(self.bytes(bytes)?),
                FieldPayload::Bytes(length) => {
                    let held = field(self, tag >> 3, length)?;
                    encode_varint(held.len() as u64, &mut made);
                    made.extend(held);
                }
            }
        }
        Some(made)
    }

    fn graph(&mut self, length: u64) -> Option<Vec<u8>> {
        self.message(length, &mut |copy, number, length| match number {
            INITIALIZER => copy.tensor(length),
            NODE if length >= LEAST => copy.node(length),
            _ => copy.bytes(length),
        })
    }

    /// A node, perhaps with bodies, which have initializers of their own.
    fn node(&mut self, length: u64) -> Option<Vec<u8>> {
        self.message(length, &mut |copy, number, length| match number {
            ATTRIBUTE => copy.message(length, &mut |copy, number, length| match number {
                BODY | BODIES => copy.graph(length),
                _ => copy.bytes(length),
            }),
            _ => copy.bytes(length),
        })
    }

    /// An initializer, whose data stays where it is if it is large.
    fn tensor(&mut self, length: u64) -> Option<Vec<u8>> {
        let (mut places, mut is_elsewhere) = (vec![], false);
        let made = self.message(length, &mut |copy, number, length| {
            is_elsewhere |= number == EXTERNAL_DATA;
            if number != RAW_DATA || length < LEAST {
                return copy.bytes(length);
            }
            places.push((copy.source.at, length));
            copy.source.skip(length).ok().map(|()| vec![])
        })?;
        let mut tensor = made;
        match places[..] {
            [] => Some(tensor),
            [(offset, length)] if !is_elsewhere => {
                let external_data = external_data(self.name, offset, length);
                let own =
                    TensorProto { data_location: Some(1), external_data, ..Default::default() };
                // Messages behind each other are one, whose later fields count.
                prost::Message::encode(&own, &mut tensor).ok()?;
                Some(tensor)
            }
            _ => None,
        }
    }

    fn bytes(&mut self, length: u64) -> Option<Vec<u8>> {
        let mut bytes = vec![];
        let read = self.source.reader.by_ref().take(length).read_to_end(&mut bytes).ok()?;
        self.source.at = self.source.at.checked_add(length)?;
        (read as u64 == length).then_some(bytes)
    }
}
