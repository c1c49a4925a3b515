//! What attributes operators have: a row per operator and version, made from the schemas of the
//! onnx package and of ONNX Runtime by `scripts/operators/make_operator_table.py`, which also
//! describes the columns.

use std::collections::HashMap;
use std::sync::LazyLock;

use onnx_cast_graph::attribute_type;
use tract_onnx::pb::AttributeProto;
use tract_onnx::pb::attribute_proto::AttributeType;

use super::schema::{entries, rows_in_full};

const TABLE: &str = include_str!("attributes.tsv");

const TYPES: [AttributeType; 12] = [
    AttributeType::Float,
    AttributeType::Floats,
    AttributeType::Graph,
    AttributeType::Graphs,
    AttributeType::Int,
    AttributeType::Ints,
    AttributeType::SparseTensor,
    AttributeType::String,
    AttributeType::Strings,
    AttributeType::Tensor,
    AttributeType::Tensors,
    AttributeType::TypeProto,
];

/// The attributes of an operator in one of its versions.
#[derive(Debug)]
pub(crate) struct Version {
    /// The opset that it came with.
    pub(crate) since: i64,
    pub(crate) attributes: Vec<Attribute>,
}

/// An attribute of an operator.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attribute {
    pub(crate) name: &'static str,
    pub(crate) ty: AttributeType,
    pub(crate) is_required: bool,
    /// What it is where a node does not give it, as [`is_value`] reads it.
    pub(crate) default: Option<&'static str>,
}

impl Version {
    /// The attribute of this name.
    pub(crate) fn attribute(&self, name: &str) -> Option<&Attribute> {
        self.attributes.iter().find(|attribute| attribute.name == name)
    }
}

/// By domain and operator.
static VERSIONS: LazyLock<HashMap<&str, HashMap<&str, Vec<Version>>>> = LazyLock::new(|| {
    let mut versions: HashMap<&str, HashMap<&str, Vec<Version>>> = HashMap::new();
    for [name, since, attributes] in rows() {
        let since = since.parse().unwrap_or_default();
        let attributes = entries(attributes).filter_map(attribute).collect();
        let (domain, operator) = qualified(name);
        let of_domain = versions.entry(domain).or_default();
        of_domain.entry(operator).or_default().push(Version { since, attributes });
    }
    versions
});

/// An operator as it is in an opset: its newest version that is not newer, or else its first one.
/// `domain` is empty for the default one; of the others the newest version counts. `None` for an
/// operator that is not known.
pub(crate) fn version(domain: &str, operator: &str, opset: i64) -> Option<&'static Version> {
    let versions = all(domain, operator);
    match domain {
        "" => versions.iter().rfind(|version| version.since <= opset).or(versions.first()),
        _ => versions.last(),
    }
}

/// All versions of an operator, oldest first.
pub(crate) fn all(domain: &str, operator: &str) -> &'static [Version] {
    let versions = VERSIONS.get(domain).and_then(|of_domain| of_domain.get(operator));
    versions.map_or(&[], |versions| versions)
}

/// The operators of a domain.
#[cfg(test)]
pub(super) fn operators(domain: &str) -> impl Iterator<Item = &'static str> {
    VERSIONS.get(domain).into_iter().flat_map(HashMap::keys).copied()
}

/// An attribute with its default, if it has one that is a number or a word.
pub(crate) fn parsed(attribute: &Attribute) -> Option<AttributeProto> {
    let default = attribute.default?;
    let (name, r#type) = (attribute.name.into(), attribute.ty as i32);
    let made = AttributeProto { name, r#type, ..AttributeProto::default() };
    match attribute.ty {
        AttributeType::Float => Some(AttributeProto { f: default.parse().ok()?, ..made }),
        AttributeType::Int => Some(AttributeProto { i: default.parse().ok()?, ..made }),
        AttributeType::String => Some(AttributeProto { s: default.into(), ..made }),
        _ => None,
    }
}

/// The domain and the operator of a name in a table: `Add` or `com.microsoft::QGemm`.
pub(super) fn qualified(name: &'static str) -> (&'static str, &'static str) {
    name.split_once("::").unwrap_or(("", name))
}

/// Whether an attribute has the value that a table has as text, the members of a list apart by
/// commas.
pub(crate) fn is_value(attribute: &AttributeProto, text: &str) -> bool {
    let is_number = |number: &f32, word: &str| word.parse() == Ok(*number);
    let is_integer = |integer: &i64, word: &str| word.parse() == Ok(*integer);
    match attribute_type(attribute) {
        AttributeType::Float => is_number(&attribute.f, text),
        AttributeType::Int => is_integer(&attribute.i, text),
        AttributeType::String => attribute.s == text.as_bytes(),
        AttributeType::Floats => is_list(&attribute.floats, text, is_number),
        AttributeType::Ints => is_list(&attribute.ints, text, is_integer),
        AttributeType::Strings => {
            is_list(&attribute.strings, text, |string, word| string == word.as_bytes())
        }
        _ => false,
    }
}

fn is_list<T>(members: &[T], text: &str, is_member: impl Fn(&T, &str) -> bool) -> bool {
    let words = text.split(',').filter(|word| !word.is_empty());
    words.clone().count() == members.len()
        && members.iter().zip(words).all(|(member, word)| is_member(member, word))
}

fn rows() -> impl Iterator<Item = [&'static str; 3]> {
    rows_in_full(TABLE)
}

/// `axis:INT=0`, `to:INT!` or `shape:INTS`.
fn attribute(entry: &'static str) -> Option<Attribute> {
    let (name, rest) = entry.split_once(':')?;
    let (ty, default) = match rest.split_once('=') {
        Some((ty, default)) => (ty, Some(default)),
        None => (rest.trim_end_matches('!'), None),
    };
    let ty = TYPES.into_iter().find(|known| known.as_str_name() == ty)?;
    Some(Attribute { name, ty, is_required: rest.ends_with('!') && default.is_none(), default })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_read() {
        let rows: Vec<_> = rows().collect();
        assert!(rows.len() > 800);
        for [operator, since, attributes] in rows {
            let (domain, operator) = qualified(operator);
            let since: i64 = since.parse().expect("a version");
            let found = all(domain, operator).iter().find(|version| version.since == since);
            let found = found.unwrap_or_else(|| panic!("{operator} {since}"));
            assert_eq!(found.attributes.len(), entries(attributes).count(), "{operator} {since}");
        }
    }

    #[test]
    fn a_version_is_the_newest_of_its_opset() {
        let has = |opset, name| {
            version("", "ReduceMean", opset).expect("a version").attribute(name).is_some()
        };
        assert!(has(17, "axes") && !has(18, "axes") && has(18, "noop_with_empty_axes"));
        let attention = version("com.microsoft", "MultiHeadAttention", 1).expect("a version");
        let heads = attention.attribute("num_heads").expect("an attribute");
        assert!(heads.is_required && heads.ty == AttributeType::Int);
    }
}
