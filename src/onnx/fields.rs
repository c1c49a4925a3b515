//! The fields of a protobuf message in its wire form, in memory and in a file.

#![forbid(unsafe_code)]

use std::io::{self, BufRead, Seek};

use prost::encoding::{
    DecodeContext, WireType, decode_key, decode_varint, encode_key, encode_varint, skip_field,
};

use crate::error::{Cause, Error};

/// A field of a message in memory.
pub(crate) struct Field<'a> {
    pub(crate) number: u32,
    /// With its key and length.
    pub(crate) raw: &'a [u8],
    /// What is in it, of one that has a length.
    pub(crate) value: Option<&'a [u8]>,
}

/// The fields of a message, in their order. Fails when the bytes are no message.
pub(crate) fn fields(message: &[u8]) -> Result<Vec<Field<'_>>, Error> {
    let (mut found, mut rest) = (vec![], message);
    while !rest.is_empty() {
        let whole = rest;
        let (number, wire_type) = decode_key(&mut rest).map_err(unsound)?;
        let mut value = rest;
        skip_field(wire_type, number, &mut rest, DecodeContext::default()).map_err(unsound)?;
        let raw = whole.get(..whole.len() - rest.len()).unwrap_or_default();
        let value = if wire_type == WireType::LengthDelimited {
            decode_varint(&mut value).map_err(unsound)?;
            value.get(..value.len() - rest.len())
        } else {
            None
        };
        found.push(Field { number, raw, value });
    }
    Ok(found)
}

/// The error about bytes that are no message.
pub(crate) fn unsound(problem: impl ToString) -> Error {
    Cause::Model { problem: format!("is no sound protobuf message: {}", problem.to_string()) }
        .into()
}

/// Writes a field that has a length.
pub(crate) fn write(number: u32, value: &[u8], out: &mut Vec<u8>) {
    encode_key(number, WireType::LengthDelimited, out);
    encode_varint(value.len() as u64, out);
    out.extend_from_slice(value);
}

/// Writes a field that is a number.
pub(crate) fn write_number(number: u32, value: u64, out: &mut Vec<u8>) {
    encode_key(number, WireType::Varint, out);
    encode_varint(value, out);
}

/// A file whose fields are read one after the other.
pub(crate) struct FieldReader<R> {
    pub(crate) reader: R,
    /// How many bytes are behind.
    pub(crate) at: u64,
}

/// What stands behind a field's tag.
pub(crate) enum FieldPayload {
    Number(u64),
    /// As many bytes as this, which are not read yet.
    Fixed(u64),
    /// As many as the field's length says, all within the message.
    Bytes(u64),
}

impl<R: BufRead + Seek> FieldReader<R> {
    /// The tag of the next field of a message that ends there, and what stands behind it; `None` at
    /// the end. Fails when the file cannot be read. What is no message ends too early or is invalid
    /// data.
    pub(crate) fn field(&mut self, end: u64) -> io::Result<Option<(u64, FieldPayload)>> {
        let malformed = || io::Error::from(io::ErrorKind::InvalidData);
        if self.at >= end {
            return if self.at == end { Ok(None) } else { Err(malformed()) };
        }
        let tag = self.number()?;
        let held = match tag & 7 {
            0 => FieldPayload::Number(self.number()?),
            1 => FieldPayload::Fixed(8),
            5 => FieldPayload::Fixed(4),
            2 => FieldPayload::Bytes(self.number()?),
            _ => return Err(malformed()),
        };
        match held {
            FieldPayload::Bytes(length)
                if end.checked_sub(self.at).is_none_or(|rest| length > rest) =>
            {
                Err(malformed())
            }
            held => Ok(Some((tag, held))),
        }
    }

    /// A number of seven bits a byte.
    fn number(&mut self) -> io::Result<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = *self.reader.fill_buf()?.first().ok_or(io::ErrorKind::UnexpectedEof)?;
            self.reader.consume(1);
            self.at += 1;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(io::ErrorKind::InvalidData.into())
    }

    /// Goes on behind so many bytes.
    pub(crate) fn skip(&mut self, bytes: u64) -> io::Result<()> {
        let malformed = |_| io::Error::from(io::ErrorKind::InvalidData);
        // Within what is buffered this is no call of the system.
        let buffered = self.reader.fill_buf()?.len();
        match usize::try_from(bytes) {
            Ok(bytes) if bytes <= buffered => self.reader.consume(bytes),
            _ => self.reader.seek_relative(i64::try_from(bytes).map_err(malformed)?)?,
        }
        self.at = self.at.saturating_add(bytes);
        Ok(())
    }
}
