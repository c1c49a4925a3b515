//! What is remarkable about a model's casts before it runs.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use tract_onnx::pb::type_proto::Value as TypeValue;
use tract_onnx::pb::{GraphProto, ModelProto, TypeProto, ValueInfoProto};

use crate::cast::algebra::TypePair;
use crate::cast::element_type::{ElementType, Family};
use crate::cast::reach::{holds_every_integral_part, holds_every_value};
use crate::error;
use crate::onnx::casts::{CastKind, CastNode};
use crate::onnx::node::node_name;
use crate::onnx::operators::behaviour::Behaviour;
use crate::onnx::scope::step;

/// Something to know about a cast that can be seen without running the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FindingKind {
    /// Source and target are the same type: the node does nothing, but where FLOAT8E5M2 saturates.
    NoOp,
    /// The cast takes the result of another that widened, so every value arrives here as it was; most often one cast
    /// would do, or none.
    WidenedBefore,
    /// The cast's target could hold more than what another cast before it has left: that does not come back.
    NarrowedBefore,
    /// The model declares the result to be of another type. No runtime should accept it.
    Contradicted,
    /// INT64 to INT32: an identifier or a size may not fit.
    Int64ToInt32,
    /// Floating point to an integer type that does not hold the integral parts of all its values; the result of the
    /// others is undefined.
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
#[non_exhaustive]
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
    let mut graphs = Graphs::default();
    if let Some(graph) = &proto.graph {
        graphs.look_at(graph, error::name(&graph.name).into());
    }
    let mut by_output: HashMap<&str, Vec<&CastNode>> = HashMap::new();
    for cast in casts {
        by_output.entry(&cast.output).or_default().push(cast);
    }
    let mut found = vec![];
    let of_the_model = casts.iter().enumerate().filter(|(_, cast)| cast.kind == CastKind::Cast);
    for (place, cast) in of_the_model {
        let mut add = |kind, text| found.push(Finding { place, kind, text });
        let (from, to) = (cast.from, cast.to);
        if let Some(to) = to
            && let Some(declared) = graphs.declared.get(&(cast.graph.clone(), cast.output.clone()))
            && *declared != to
        {
            let text =
                format!("makes `{}` {to}, but the model declares it {declared}", cast.output);
            add(FindingKind::Contradicted, text);
        }
        let (Some(from), Some(to)) = (from, to) else { continue };
        let step = TypePair { from, to, rules: cast.rules() };
        if from == to {
            let but = if step.is_lossless() { "" } else { ": only infinities change" };
            add(FindingKind::NoOp, format!("casts {from} to itself{but}"));
        }
        if (from, to) == (ElementType::Int64, ElementType::Int32) {
            let text = "INT64 to INT32: values beyond 2147483647 wrap around".into();
            add(FindingKind::Int64ToInt32, text);
        }
        let is_integer = matches!(to.family(), Family::Signed | Family::Unsigned);
        if is_integer && !holds_every_integral_part(from, to) {
            let text =
                format!("{from} to {to}: NaN, infinities and values out of range are undefined");
            add(FindingKind::FloatToInteger, text);
        }
        let input = graphs.origin(cast);
        let makers = by_output.get(&*input).into_iter().flatten();
        let before = makers
            .copied()
            .find(|other| !std::ptr::eq(*other, cast) && sees(&cast.graph, &other.graph));
        if let Some(before) = before
            && let Some(first) = before.from
            && first != from
            && let Some((kind, text)) = chain(first, before, step)
        {
            add(kind, text);
        }
    }
    found
}

/// What two casts in a row do, the first of them from another type than the second.
fn chain(first: ElementType, before: &CastNode, step: TypePair) -> Option<(FindingKind, String)> {
    let TypePair { from, to, rules: second } = step;
    let both = format!("{first} became {from} in `{}` and becomes {to}", before.node);
    let direct = TypePair { from: first, to, rules: second };
    if holds_every_value(first, from) {
        let is_lossless = direct.is_lossless() || to == ElementType::String;
        let loss = match is_lossless {
            true => "nothing is lost".to_owned(),
            false => format!("what {to} cannot hold is lost"),
        };
        let advice = match (TypePair { from: first, to: from, rules: before.rules() }).joins(to) {
            true if first == to && is_lossless => ", and neither cast is needed".to_owned(),
            true => format!(", and one cast from {first} to {to} does the same"),
            false => String::new(),
        };
        Some((FindingKind::WidenedBefore, format!("{both}: {loss}{advice}")))
    } else if holds_every_value(from, to) || holds_every_value(first, to) {
        let text = format!("{both}: what {from} could not hold is lost");
        Some((FindingKind::NarrowedBefore, text))
    } else {
        None
    }
}

/// Whether the values of one graph can be seen in another: in itself, and in its subgraphs.
fn sees(inner: &str, outer: &str) -> bool {
    inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// What a model's graphs say of their values, by the graph's path and the value's name.
#[derive(Default)]
struct Graphs {
    declared: HashMap<(Arc<str>, String), ElementType>,
    /// The value that another is but for its shape.
    moved: HashMap<(Arc<str>, String), String>,
}

impl Graphs {
    /// Collects what a graph and its subgraphs say.
    fn look_at(&mut self, graph: &GraphProto, path: Arc<str>) {
        for value in graph.output.iter().chain(&graph.value_info) {
            if let Some(ty) = declared_type(value) {
                self.declared.entry((path.clone(), value.name.clone())).or_insert(ty);
            }
        }
        for node in &graph.node {
            if Behaviour::of(node).only_rearranges
                && let (Some(input), Some(output)) = (node.input.first(), node.output.first())
            {
                self.moved.insert((path.clone(), output.clone()), input.clone());
            }
            for attribute in &node.attribute {
                for inner in attribute.g.iter().chain(&attribute.graphs) {
                    let step = step(&node_name(node), &attribute.name);
                    self.look_at(inner, format!("{path}/{step}").into());
                }
            }
        }
    }

    /// The value that a cast's input has its elements from.
    fn origin(&mut self, cast: &CastNode) -> String {
        let mut key = (cast.graph.clone(), cast.input.clone());
        let mut passed = vec![];
        // A model that goes in circles is refused elsewhere.
        while let Some(input) = self.moved.get(&key).filter(|_| passed.len() <= self.moved.len()) {
            let input = input.clone();
            passed.push(std::mem::replace(&mut key.1, input));
        }
        // The next cast of the same chain has one step to go.
        for value in passed {
            self.moved.insert((cast.graph.clone(), value), key.1.clone());
        }
        key.1
    }
}

fn declared_type(value: &ValueInfoProto) -> Option<ElementType> {
    let Some(TypeProto { value: Some(TypeValue::TensorType(tensor)), .. }) = &value.r#type else {
        return None;
    };
    ElementType::from_id(tensor.elem_type)
}
