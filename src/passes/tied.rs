//! Weights that a product shares with a `Gather`, as language models tie the embedding of words to the scores of words. Before:
//! `Gather(w, …)` and `MatMul(x, Transpose(w))`; after: both take `Tied(w)`, which hides from tract that `w` is constant: it would
//! keep a transposed copy, and pack that, beside the weights that the `Gather` takes.

use onnx_cast_graph::{Graph, NewNode, NodeId, NodeView, Place, Use, ValueId, attribute, int};
use tract_onnx::prelude::TractResult;

use super::context::PassContext;
use crate::cast::element_type::ElementType;
use crate::onnx::lowered::{OperatorForm, TIED};
use crate::passes::facts::fact::{Fact, FactOrigin};

/// Weights of fewer elements are there twice: tract makes constants of them where it can.
const FROM: i64 = 1 << 20;

/// Ties the weights of the main graph.
pub(super) fn tie(graph: &mut Graph, context: &mut PassContext) -> TractResult<()> {
    for value in graph.body(graph.main()).constants().to_vec() {
        let Some(users) = users(graph, value) else { continue };
        let first = graph.nodes_of(graph.main()).into_iter().find(|node| users.contains(node));
        let Some(first) = first else { continue };
        let name = format!("{}.tied", graph.value(value).name);
        let tied = graph.add(Place::Before(first), NewNode::of(TIED, &[value], name));
        context.lower(tied, OperatorForm::Tied);
        let Some(made) = graph.node(tied).output(0) else { continue };
        let ty = Some(ElementType::Float);
        context.facts.insert(made, Fact { ty, origin: FactOrigin::Data });
        graph.replace_uses(value, made, |used| used != Use::Node(tied, 0));
    }
    Ok(())
}

/// The nodes that use a weight, if they are as they should be: one or more that gather rows, and one product.
fn users(graph: &Graph, value: ValueId) -> Option<Vec<NodeId>> {
    let held = graph.constant(value)?;
    let [rows, columns] = held.dims[..] else { return None };
    let is_large = rows.checked_mul(columns).is_some_and(|elements| elements >= FROM);
    if held.data_type != ElementType::Float as i32 || !is_large {
        return None;
    }
    let (mut users, mut products) = (vec![], 0);
    for used in graph.value(value).uses() {
        let Use::Node(id, place) = used else { return None };
        let node = graph.node(id);
        let is_gather = node.is("Gather") && place == 0 && int(node, "axis").unwrap_or(0) == 0;
        let is_product = is_transposed_factor(graph, id, place);
        if node.body() != graph.main() || !(is_gather || is_product) {
            return None;
        }
        products += usize::from(is_product);
        users.push(id);
    }
    (products == 1 && users.len() > 1).then_some(users)
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
