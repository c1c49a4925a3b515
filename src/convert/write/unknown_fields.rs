//! The fields of a file that tract's messages do not have or drop, such as `metadata_props` of
//! nodes and the types of sequences: they are taken out of the file before it is decoded, and put
//! back when the model is written.

use std::collections::{HashMap, HashSet};

use crate::cast::element_type::ElementType;
use crate::error::Result;
use crate::onnx::fields::{Field, fields, write, write_number};

/// What stands between the name and the output of a node in what it is known by.
const SEPARATOR: &str = "\n";

/// The messages of onnx.proto in which there may be such fields. The numbers are those of
/// onnx.proto.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::convert) enum MessageKind {
    Model,
    Graph,
    Node,
    Attribute,
    Tensor,
    Value,
    Type,
    Function,
}

impl MessageKind {
    /// The fields that tract's messages have. A function's `value_info`, which they lack, is
    /// written anew.
    fn known(self) -> &'static [u32] {
        match self {
            MessageKind::Model => &[1, 2, 3, 4, 5, 6, 7, 8, 14, 20, 25],
            MessageKind::Graph => &[1, 2, 5, 10, 11, 12, 13, 14, 15],
            MessageKind::Node => &[1, 2, 3, 4, 5, 6, 7],
            MessageKind::Attribute => &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 15, 20, 21, 22, 23],
            MessageKind::Tensor => &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14],
            MessageKind::Value => &[1, 2, 3],
            MessageKind::Type => &[1, 6],
            MessageKind::Function => &[1, 4, 5, 6, 7, 8, 9, 10, 12],
        }
    }

    /// What a field holds.
    fn child(self, field: u32) -> Option<MessageKind> {
        Some(match (self, field) {
            (MessageKind::Model, 7) | (MessageKind::Attribute, 6 | 11) => MessageKind::Graph,
            (MessageKind::Model, 25) => MessageKind::Function,
            (MessageKind::Graph, 1) | (MessageKind::Function, 7) => MessageKind::Node,
            (MessageKind::Graph, 5) | (MessageKind::Attribute, 5) => MessageKind::Tensor,
            (MessageKind::Graph, 11..=13) => MessageKind::Value,
            (MessageKind::Node, 5) => MessageKind::Attribute,
            (MessageKind::Value, 2) => MessageKind::Type,
            _ => return None,
        })
    }

    /// The fields that a message of this kind is known by among others, by their first values: a
    /// node's name may be that of several, and only its output tells it apart.
    fn names(self) -> &'static [u32] {
        match self {
            MessageKind::Node => &[3, 2],
            MessageKind::Attribute | MessageKind::Value => &[1],
            MessageKind::Function => &[1, 13],
            MessageKind::Tensor => &[8],
            MessageKind::Model | MessageKind::Graph | MessageKind::Type => &[],
        }
    }
}

/// The fields of a message, and of those in it, that tract's do not have.
#[derive(Debug, Default)]
pub(in crate::convert) struct Unknown {
    fields: Vec<u8>,
    children: HashMap<(u32, String), Unknown>,
}

/// The first outputs of nodes that have another name now: by that, what it was.
#[derive(Debug, Default)]
pub(in crate::convert) struct Renamed(pub(in crate::convert) HashMap<String, String>);

impl Renamed {
    /// What a message was known by.
    fn before(&self, kind: MessageKind, key: String) -> String {
        let Some((name, output)) = key.rsplit_once(SEPARATOR).filter(|_| kind == MessageKind::Node)
        else {
            return key;
        };
        self.0.get(output).map_or(key.clone(), |before| format!("{name}{SEPARATOR}{before}"))
    }
}

/// Whether a field of an attribute is the number 0 or the empty text. tract's messages do not tell
/// these from none at all, ONNX does.
fn is_zero(field: &Field) -> bool {
    let (_, value) = field.raw.split_at_checked(1).unwrap_or_default();
    matches!(field.number, 2..=4) && value.iter().all(|byte| *byte == 0)
}

impl Unknown {
    /// Takes them out of a message, nested no deeper than decoding allows.
    /// Fails when the bytes are no message.
    pub(in crate::convert) fn of(kind: MessageKind, message: &[u8]) -> Result<Unknown> {
        let mut unknown = Unknown::default();
        let mut ordinals: HashMap<u32, usize> = HashMap::new();
        for field in fields(message)? {
            let number = field.number;
            if !kind.known().contains(&number)
                || (kind == MessageKind::Attribute && is_zero(&field))
            {
                unknown.fields.extend_from_slice(field.raw);
            }
            let (Some(child), Some(value)) = (kind.child(number), field.value) else { continue };
            let inner = Unknown::of(child, value)?;
            let key = key(child, value, ordinals.entry(number).or_default())?;
            if !inner.is_empty() {
                unknown.children.insert((number, key), inner);
            }
        }
        Ok(unknown)
    }

    /// Has the sequences of these names be declared with elements of a type.
    /// Fails when the bytes are no message.
    pub(in crate::convert) fn retype_sequences(
        &mut self,
        kind: MessageKind,
        names: &HashSet<String>,
        to: ElementType,
    ) -> Result<()> {
        for ((field, name), inner) in &mut self.children {
            match kind.child(*field) {
                Some(MessageKind::Type) => {
                    inner.fields = with_element(&inner.fields, SEQUENCE, to)?
                }
                Some(MessageKind::Value) if !names.contains(name) => {}
                Some(child) => inner.retype_sequences(child, names, to)?,
                None => {}
            }
        }
        Ok(())
    }

    /// Whether there are none.
    pub(in crate::convert) fn is_empty(&self) -> bool {
        self.fields.is_empty() && self.children.is_empty()
    }

    /// Those of this message itself.
    pub(in crate::convert) fn fields(&self) -> &[u8] {
        &self.fields
    }

    /// Those of the message in a field that is not repeated.
    pub(in crate::convert) fn only(&self, field: u32) -> Option<&Unknown> {
        self.children.get(&(field, "0".into()))
    }

    /// Puts them back into a message in a field of one of this kind. Fails when the bytes are no
    /// message.
    pub(in crate::convert) fn restore_child(
        &self,
        kind: MessageKind,
        field: u32,
        message: Vec<u8>,
        renamed: &Renamed,
    ) -> Result<Vec<u8>> {
        let Some(child) = kind.child(field).filter(|_| !self.children.is_empty()) else {
            return Ok(message);
        };
        let key = renamed.before(child, key(child, &message, &mut 0)?);
        self.restore_known(child, (field, key), message, renamed)
    }

    /// Puts them back into a function, given its name with the overload that is joined to it.
    /// Fails when the bytes are no message.
    pub(in crate::convert) fn restore_function(
        &self,
        name: &str,
        message: Vec<u8>,
        renamed: &Renamed,
    ) -> Result<Vec<u8>> {
        self.restore_known(MessageKind::Function, (25, name.into()), message, renamed)
    }

    fn restore_known(
        &self,
        child: MessageKind,
        key: (u32, String),
        message: Vec<u8>,
        renamed: &Renamed,
    ) -> Result<Vec<u8>> {
        match self.children.get(&key) {
            Some(unknown) => unknown.restore(child, &message, renamed),
            None => Ok(message),
        }
    }

    fn restore(&self, kind: MessageKind, message: &[u8], renamed: &Renamed) -> Result<Vec<u8>> {
        let mut out = Vec::with_capacity(message.len() + self.fields.len());
        // A number that has become another is behind the zero that it was, so that it counts.
        out.extend_from_slice(&self.fields);
        let mut ordinals: HashMap<u32, usize> = HashMap::new();
        for field in fields(message)? {
            let inner = kind.child(field.number).zip(field.value);
            let Some((child, value)) = inner.filter(|_| !self.children.is_empty()) else {
                out.extend_from_slice(field.raw);
                continue;
            };
            let key = key(child, value, ordinals.entry(field.number).or_default())?;
            match self.children.get(&(field.number, renamed.before(child, key))) {
                Some(unknown) => {
                    write(field.number, &unknown.restore(child, value, renamed)?, &mut out);
                }
                None => out.extend_from_slice(field.raw),
            }
        }
        Ok(out)
    }
}

/// The fields in which the type of a sequence's elements is, each in the one before.
const SEQUENCE: &[u32] = &[4, 1, 1, 1];

/// A message with this element type where it has one below the fields of `path`.
fn with_element(message: &[u8], path: &[u32], to: ElementType) -> Result<Vec<u8>> {
    let mut out = Vec::with_capacity(message.len());
    for field in fields(message)? {
        match (path, field.value) {
            ([number], _) if *number == field.number => write_number(*number, to as u64, &mut out),
            ([number, rest @ ..], Some(value)) if *number == field.number => {
                write(*number, &with_element(value, rest, to)?, &mut out);
            }
            _ => out.extend_from_slice(field.raw),
        }
    }
    Ok(out)
}

/// What a message is known by: its name, or its place among those of its field.
fn key(kind: MessageKind, message: &[u8], ordinal: &mut usize) -> Result<String> {
    if kind.names().is_empty() {
        *ordinal += 1;
        return Ok((*ordinal - 1).to_string());
    }
    let fields = fields(message)?;
    let name = |number: &u32| {
        let mut named = fields.iter().filter(|field| field.number == *number);
        let value = named.find_map(|field| field.value.filter(|value| !value.is_empty()));
        value.map(|value| String::from_utf8_lossy(value).into_owned())
    };
    let names = kind.names().iter().map(name);
    Ok(match kind {
        // As this crate joins a name and an overload.
        MessageKind::Function => names.flatten().collect::<Vec<_>>().join(":"),
        _ => names.map(Option::unwrap_or_default).collect::<Vec<_>>().join(SEPARATOR),
    })
}

/// The name of a function without the overload that this crate has joined to it.
pub(in crate::convert) fn unjoined(name: &str) -> &str {
    name.split_once(':').map_or(name, |(name, _)| name)
}
