//! What is remarkable about a model's casts before it runs.

use std::collections::HashMap;
use std::fmt;

use tract_onnx::pb::type_proto::Value as TypeValue;
use tract_onnx::pb::{GraphProto, ModelProto, TypeProto, ValueInfoProto};

use super::target::holds_every_value;
use crate::element_type::ElementType;
use crate::rewrite::CastNode;
use crate::spec::node_name;

/// Something to know about a cast that can be seen without running the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FindingKind {
    /// Source and target are the same type: the node does nothing, but where FLOAT8E5M2 saturates.
    NoOp,
    /// The cast takes the result of another that widened, so every value arrives here as it was: one cast would do, or
    /// none.
    WidenedBefore,
    /// The cast widens the result of another that narrowed: what that lost does not come back.
    NarrowedBefore,
    /// The model declares the result to be of another type. No runtime should accept it.
    Contradicted,
    /// INT64 to INT32: an identifier or a size may not fit.
    Int64ToInt32,
    /// Floating point to an integer type that does not hold all its values; beyond, the result is undefined.
    FloatToInteger,
}

impl FindingKind {
    /// The kind's name in reports: `narrowed_before`.
    pub const fn name(self) -> &'static str {
        match self {
            FindingKind::NoOp => "no_op",
            FindingKind::WidenedBefore => "widened_before",
            FindingKind::NarrowedBefore => "narrowed_before",
            FindingKind::Contradicted => "contradicted",
            FindingKind::Int64ToInt32 => "int64_to_int32",
            FindingKind::FloatToInteger => "float_to_integer",
        }
    }
}

/// A finding about one cast.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The cast's place among the model's casts.
    pub place: usize,
    /// What kind of finding it is.
    pub kind: FindingKind,
    /// What was found, in words.
    pub text: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Looks at the casts of a model, which are those that [`CastOnnx::casts`](crate::CastOnnx::casts) lists.
pub fn findings(proto: &ModelProto, casts: &[CastNode]) -> Vec<Finding> {
    let mut declared = HashMap::new();
    if let Some(graph) = &proto.graph {
        declarations(graph, graph.name.clone(), &mut declared);
    }
    let mut found = vec![];
    for (place, cast) in casts.iter().enumerate() {
        let mut add = |kind, text| found.push(Finding { place, kind, text });
        let (from, to) = (cast.from, cast.to);
        if let Some(to) = to
            && let Some(declared) = declared.get(&(cast.graph.clone(), cast.output.clone()))
            && *declared != to
        {
            let text =
                format!("makes `{}` {to}, but the model declares it {declared}", cast.output);
            add(FindingKind::Contradicted, text);
        }
        let (Some(from), Some(to)) = (from, to) else { continue };
        if from == to {
            add(FindingKind::NoOp, format!("casts {from} to itself"));
        }
        if (from, to) == (ElementType::Int64, ElementType::Int32) {
            let text = "INT64 to INT32: values beyond 2147483647 wrap around".into();
            add(FindingKind::Int64ToInt32, text);
        }
        if is_float(from) && is_integer(to) {
            let text =
                format!("{from} to {to}: NaN, infinities and values out of range are undefined");
            add(FindingKind::FloatToInteger, text);
        }
        let before = casts.iter().find(|other| {
            other.output == cast.input
                && !std::ptr::eq(*other, cast)
                && sees(&cast.graph, &other.graph)
        });
        if let Some(before) = before
            && let Some(first) = before.from
            && first != from
        {
            let text = format!("{first} became {from} in `{}` and becomes {to}", before.node);
            if holds_every_value(first, from) {
                add(FindingKind::WidenedBefore, format!("{text}: {first} to {to} says the same"));
            } else if holds_every_value(from, to) {
                let text = format!("{text}: what {from} could not hold is lost");
                add(FindingKind::NarrowedBefore, text);
            }
        }
    }
    found
}

fn is_float(ty: ElementType) -> bool {
    matches!(ty.family(), crate::Family::Float(_))
}

fn is_integer(ty: ElementType) -> bool {
    matches!(ty.family(), crate::Family::Signed | crate::Family::Unsigned)
}

/// Whether the values of one graph can be seen in another: in itself, and in its subgraphs.
fn sees(inner: &str, outer: &str) -> bool {
    inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Collects the types that a graph and its subgraphs declare, by the graph's path and the value's name.
fn declarations(
    graph: &GraphProto,
    path: String,
    declared: &mut HashMap<(String, String), ElementType>,
) {
    for value in graph.output.iter().chain(&graph.value_info) {
        if let Some(ty) = declared_type(value) {
            declared.entry((path.clone(), value.name.clone())).or_insert(ty);
        }
    }
    for node in &graph.node {
        for attribute in &node.attribute {
            for inner in attribute.g.iter().chain(&attribute.graphs) {
                let path = format!("{path}/{}.{}", node_name(node), attribute.name);
                declarations(inner, path, declared);
            }
        }
    }
}

fn declared_type(value: &ValueInfoProto) -> Option<ElementType> {
    let Some(TypeProto { value: Some(TypeValue::TensorType(tensor)), .. }) = &value.r#type else {
        return None;
    };
    ElementType::from_id(tensor.elem_type)
}
