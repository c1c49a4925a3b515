//! Weights that a product shares with a `Gather`, as language models tie the embedding of words to
//! the scores of words. Before: `Gather(w, …)` and `MatMul(x, Transpose(w))`; after: both take
//! `Tied(w)`, which hides from tract that `w` is constant: it would keep a transposed copy, and
//! pack that, beside the weights that the `Gather` takes.

use onnx_cast_graph::{
    Graph, NewNode, NodeId, NodeView, Place, Use, ValueId, attribute, int, value_attribute,
};
use tract_onnx::prelude::TractResult;

use super::context::PassContext;
use crate::cast::element_type::ElementType;
use crate::onnx::lowered::{FILED, OperatorForm, TIED};
use crate::passes::facts::fact::{Fact, FactOrigin};
use crate::tensor::proto::is_external;

/// Weights of fewer elements are there twice: tract makes constants of them where it can.
const FROM: i64 = 1 << 20;
/// Weights of so many elements are tied where one product alone takes them: there is no room for
/// them beside what is packed.
const ALONE: i64 = 1 << 24;

/// Ties the weights of the main graph.
pub(super) fn tie(graph: &mut Graph, context: &mut PassContext) -> TractResult<()> {
    for value in graph.body(graph.main()).constants().to_vec() {
        let is_tied = tie_one(graph, context, value);
        leave_in_file(graph, context, (value, is_tied));
    }
    Ok(())
}

/// Has large weights that are in a file be read by this project's loader, once.
fn leave_in_file(graph: &mut Graph, context: &mut PassContext, (value, stays): (ValueId, bool)) {
    let Some(held) = graph.constant(value) else { return };
    let elements = held.dims.iter().try_fold(1i64, |product, dim| product.checked_mul(*dim));
    let is_large = elements.is_some_and(|elements| elements >= FROM);
    let is_used = graph.value(value).uses().len() > 0 && !graph.value(value).is_output();
    let ty = ElementType::from_id(held.data_type).filter(|ty| !ty.is_exotic());
    if !is_large || !is_used || !is_external(held) || ty.is_none() {
        return;
    }
    let Some(held) = graph.take_constant(value) else { return };
    let made = NewNode::making(FILED, &[], value).with(vec![value_attribute((*held).clone())]);
    let node = graph.add(Place::First(graph.main()), made);
    context.lower(node, OperatorForm::Filed { stays });
}

/// Ties weights, if they are to be tied.
fn tie_one(graph: &mut Graph, context: &mut PassContext, value: ValueId) -> bool {
    let Some(users) = users(graph, value) else { return false };
    let first = graph.nodes_of(graph.main()).into_iter().find(|node| users.contains(node));
    let Some(first) = first else { return false };
    let name = format!("{}.tied", graph.value(value).name);
    let tied = graph.add(Place::Before(first), NewNode::of(TIED, &[value], name));
    context.lower(tied, OperatorForm::Tied);
    let Some(made) = graph.node(tied).output(0) else { return false };
    let ty = Some(ElementType::Float);
    context.facts.insert(made, Fact { ty, origin: FactOrigin::Data });
    graph.replace_uses(value, made, |used| used != Use::Node(tied, 0));
    true
}

/// The nodes that use a weight, if they are as they should be: some that gather rows, and one
/// product.
fn users(graph: &Graph, value: ValueId) -> Option<Vec<NodeId>> {
    let held = graph.constant(value)?;
    let [rows, columns] = held.dims[..] else { return None };
    let elements = rows.checked_mul(columns).filter(|elements| *elements >= FROM)?;
    if held.data_type != ElementType::Float as i32 {
        return None;
    }
    // A file's alone can be read as they are packed.
    let is_alone = elements >= ALONE && is_external(held);
    let (mut users, mut products) = (vec![], 0);
    for used in graph.value(value).uses() {
        let Use::Node(id, place) = used else { return None };
        let node = graph.node(id);
        let is_gather = node.is("Gather") && place == 0 && int(node, "axis").unwrap_or(0) == 0;
        let is_product = is_transposed_factor(graph, id, place)
            || is_alone && place == 1 && (node.is("MatMul") || node.is("Gemm"));
        if node.body() != graph.main() || !(is_gather || is_product) {
            return None;
        }
        products += usize::from(is_product);
        users.push(id);
    }
    (products == 1 && (users.len() > 1 || is_alone)).then_some(users)
}

/// Whether a node transposes two axes for a product, or is a product that does.
fn is_transposed_factor(graph: &Graph, id: NodeId, place: usize) -> bool {
    let node = graph.node(id);
    if node.is("Gemm") {
        return place == 1 && int(node, "transB") == Some(1);
    }
    let swaps = attribute(node, "perm").is_none_or(|perm| perm.ints == [1, 0]);
    let Some(made) = node.output(0).filter(|_| node.is("Transpose") && swaps) else { return false };
    let mut uses = graph.value(made).uses();
    let next = uses.next().filter(|_| uses.next().is_none());
    matches!(next, Some(Use::Node(id, 1)) if graph.node(id).is("MatMul"))
}
