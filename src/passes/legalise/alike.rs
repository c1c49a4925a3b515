//! Nodes of several inputs that make the same.
//!
//! Where two such nodes use one value first, and the other first another, tract puts each in the
//! place of the other, and neither is left (tract-core, `optim/push_split_down.rs`). Here the first
//! stands for both before tract sees them.

use std::collections::{HashMap, HashSet};

use onnx_cast_graph::{BodyId, Graph, Node, NodeId, NodeView, ValueId};
use prost::Message;
use tract_onnx::pb::{AttributeProto, TensorProto};
use tract_onnx::prelude::TractResult;

use crate::onnx::cast_spec::Operator;
use crate::onnx::lowered::OperatorForm;
use crate::passes::context::PassContext;

/// What takes more bytes is not looked at: weights are no part of what this is about.
const MOST: usize = 1 << 12;

/// What a node makes, told by its operator, attributes and inputs, of which those that are alike
/// are one.
type Made = (String, String, i64, Vec<Vec<u8>>, Vec<Option<ValueId>>);

/// Has the users of a node that makes the same as one before it use that.
pub(in crate::passes) fn merge(graph: &mut Graph, context: &mut PassContext) -> TractResult<()> {
    for body in graph.all_bodies(graph.main()) {
        merge_in(graph, context, body);
    }
    Ok(())
}

fn merge_in(graph: &mut Graph, context: &PassContext, body: BodyId) {
    let mut first: HashMap<Made, ValueId> = HashMap::new();
    let mut alike = constants(graph, body);
    for id in graph.nodes_of(body) {
        let node = graph.node(id);
        let (Some(made), [Some(output)]) = (made(context, id, node, &alike), node.outputs()) else {
            continue;
        };
        let (output, inputs) = (*output, made.4.iter().flatten().collect::<HashSet<_>>().len());
        let Some(before) = first.get(&made).copied() else {
            first.insert(made, output);
            continue;
        };
        alike.insert(output, before);
        if inputs > 1 && !graph.value(output).is_output() {
            graph.replace_all_uses(output, before);
            graph.remove(id);
        }
    }
}

/// The constants of a body that have the same elements as one before them, which is told.
fn constants(graph: &Graph, body: BodyId) -> HashMap<ValueId, ValueId> {
    let mut first: HashMap<Vec<u8>, ValueId> = HashMap::new();
    let mut alike = HashMap::new();
    for value in graph.body(body).constants() {
        let held = graph.constant(*value).filter(|held| held.encoded_len() <= MOST);
        let Some(held) = held else { continue };
        let held = TensorProto { name: String::new(), ..(**held).clone() }.encode_to_vec();
        let before = *first.entry(held).or_insert(*value);
        if before != *value {
            alike.insert(*value, before);
        }
    }
    alike
}

/// An attribute whose tensor has no name.
fn unnamed(attribute: &AttributeProto) -> Vec<u8> {
    let mut attribute = attribute.clone();
    attribute.t.iter_mut().for_each(|tensor| tensor.name.clear());
    attribute.encode_to_vec()
}

/// `None` for what may make another value each time, and for what is counted by node.
fn made(
    context: &PassContext,
    id: NodeId,
    node: &Node,
    alike: &HashMap<ValueId, ValueId>,
) -> Option<Made> {
    let is_drawn = node.op_type.starts_with("Random")
        || ["Bernoulli", "Dropout", "Multinomial"].contains(&&*node.op_type);
    let is_own = matches!(context.form(id), OperatorForm::Own);
    if is_drawn || !is_own || !node.is_onnx() || !node.bodies().is_empty() {
        return None;
    }
    if Operator::of(node).is_some() {
        return None;
    }
    let one = |value: &Option<ValueId>| value.map(|value| *alike.get(&value).unwrap_or(&value));
    if node.attributes.iter().map(Message::encoded_len).sum::<usize>() > MOST {
        return None;
    }
    let mut attributes: Vec<_> = node.attributes.iter().map(unnamed).collect();
    attributes.sort();
    let inputs = node.inputs().iter().map(one).collect();
    Some((node.op_type.clone(), node.domain.to_string(), node.opset, attributes, inputs))
}
