//! Edits of a protobuf message in its wire form. What is not edited is copied byte for byte: fields
//! that nobody here knows, their order, and how their lengths are written.

use std::collections::BTreeMap;

use prost::encoding::{WireType, encode_key, encode_varint};

use crate::error::Error;
use crate::onnx::fields::{Field, fields, unsound, write};

/// A field of a message: its number, and which of its occurrences.
pub(super) type FieldPlace = (u32, usize);

/// The occurrence of a field that is not repeated.
pub(super) const ONLY: usize = usize::MAX;

/// What is done to a message.
#[derive(Debug, Default, Clone, PartialEq)]
pub(super) struct Edits {
    fields: BTreeMap<FieldPlace, Edit>,
    /// Messages that are put before an occurrence of the same field.
    before: BTreeMap<FieldPlace, Vec<Vec<u8>>>,
}

#[derive(Debug, Clone, PartialEq)]
enum Edit {
    Within(Edits),
    Number(u64),
    Bytes(Vec<u8>),
    Remove,
}

impl Edits {
    /// The edits of a message inside, by the way to it.
    pub(super) fn within(&mut self, way: &[FieldPlace]) -> &mut Edits {
        let [first, rest @ ..] = way else { return self };
        let edit = self.fields.entry(*first).or_insert_with(|| Edit::Within(Edits::default()));
        if !matches!(edit, Edit::Within(_)) {
            *edit = Edit::Within(Edits::default());
        }
        match edit {
            Edit::Within(edits) => edits.within(rest),
            _ => unreachable!("it was made one"),
        }
    }

    /// Sets a number that is not repeated, whether the message has it or not.
    pub(super) fn set_number(&mut self, field: u32, number: u64) {
        self.fields.insert((field, ONLY), Edit::Number(number));
    }

    /// Replaces the bytes, or the text, of a field that is there.
    pub(super) fn set_bytes(&mut self, place: FieldPlace, bytes: &[u8]) {
        self.fields.insert(place, Edit::Bytes(bytes.into()));
    }

    pub(super) fn remove(&mut self, place: FieldPlace) {
        self.fields.insert(place, Edit::Remove);
    }

    pub(super) fn put_before(&mut self, place: FieldPlace, message: Vec<u8>) {
        self.before.entry(place).or_default().push(message);
    }

    /// The message, edited. Fails when the bytes are no message, or a field that is not repeated
    /// occurs twice on the way to an edit.
    pub(super) fn apply(&self, message: &[u8]) -> Result<Vec<u8>, Error> {
        let mut out = Vec::with_capacity(message.len());
        let mut seen: BTreeMap<u32, usize> = BTreeMap::new();
        for Field { number: field, raw, value } in fields(message)? {
            let occurrence = seen.entry(field).or_insert(0);
            let place = (field, *occurrence);
            *occurrence += 1;
            for message in self.before.get(&place).into_iter().flatten() {
                write(field, message, &mut out);
            }
            let only = self.fields.get(&(field, ONLY));
            match self.fields.get(&place).or(only) {
                None => out.extend_from_slice(raw),
                Some(Edit::Remove) => {}
                Some(Edit::Number(number)) => write_number(field, *number, &mut out),
                Some(Edit::Bytes(bytes)) => write(field, bytes, &mut out),
                Some(Edit::Within(_)) if only.is_some() && place.1 > 0 => {
                    return Err(unsound(format!("field {field} is given twice")));
                }
                Some(Edit::Within(edits)) => {
                    let Some(inner) = value else {
                        return Err(unsound(format!("field {field} is no message")));
                    };
                    write(field, &edits.apply(inner)?, &mut out);
                }
            }
        }
        for ((field, occurrence), edit) in &self.fields {
            if let Edit::Number(number) = edit
                && *occurrence == ONLY
                && !seen.contains_key(field)
            {
                write_number(*field, *number, &mut out);
            }
        }
        Ok(out)
    }
}

fn write_number(field: u32, number: u64, out: &mut Vec<u8>) {
    encode_key(field, WireType::Varint, out);
    encode_varint(number, out);
}

#[cfg(test)]
mod tests;
