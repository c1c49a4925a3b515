//! The nodes that make numbers of integer products: a `Cast` of what `MatMulInteger` or
//! `ConvInteger` makes, which may be beyond any FLOAT16, and the product with its scale, which may
//! be below all of them.

use onnx_cast_graph::{Graph, NodeId, NodeView, Table, ValueId};

use crate::convert::context::Context;
use crate::onnx::cast_spec::Operator;
use crate::onnx::operators::behaviour::{Behaviour, ElementUse};

const WHY: &str = "it scales integer products";

/// What a value is on the way from integers to numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ProductPart {
    /// Sums of products of integers.
    Product,
    /// The scale of a quantiser, or a product of such scales.
    Scale,
}

/// Keeps them.
pub(super) fn keep(graph: &Graph, context: &mut Context) {
    let mut parts: Table<ValueId, ProductPart> = Table::default();
    for id in context.nodes(graph) {
        let node = graph.node(id);
        if !node.is_onnx() {
            continue;
        }
        match node.op_type() {
            "MatMulInteger" | "ConvInteger" => {
                insert(&mut parts, node.output(0), ProductPart::Product)
            }
            "DynamicQuantizeLinear" => insert(&mut parts, node.output(1), ProductPart::Scale),
            _ => follow(graph, context, id, &mut parts),
        }
    }
}

fn insert(parts: &mut Table<ValueId, ProductPart>, value: Option<ValueId>, part: ProductPart) {
    if let Some(value) = value {
        parts.insert(value, part);
    }
}

/// What a node makes of products and scales.
fn follow(
    graph: &Graph,
    context: &mut Context,
    id: NodeId,
    parts: &mut Table<ValueId, ProductPart>,
) {
    let node = graph.node(id);
    let part = |place: usize| node.input(place).and_then(|value| parts.get(value).copied());
    let is_cast = Operator::of(node) == Some(Operator::Cast);
    let is_moved = matches!(Behaviour::of(node).elements(node), ElementUse::Moved(_));
    let made = match (part(0), part(1)) {
        (Some(part), _) if is_cast || is_moved => Some(part),
        (Some(ProductPart::Product), _) | (_, Some(ProductPart::Product)) if node.is("Mul") => None,
        (Some(ProductPart::Scale), _) | (_, Some(ProductPart::Scale)) if node.is("Mul") => {
            Some(ProductPart::Scale)
        }
        _ => return,
    };
    let is_float = node.output(0).is_some_and(|value| context.source(value).is_some());
    if is_float {
        context.keep(id, WHY);
    }
    if let Some(part) = made {
        insert(parts, node.output(0), part);
    }
}
