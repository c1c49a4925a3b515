//! Products of what a `Scan` goes along. Before: `MatMul(e, w)` of an element and a weight in each
//! turn; after: `MatMul(x, w)` of all elements before the `Scan`, which goes along that. Many rows
//! fill the blocks of a kernel, where each turn has few, and the weight is read once.

use onnx_cast_graph::{
    BodyId, Graph, NewNode, NodeId, NodeView, Place, attribute, int, named_value,
};
use tract_onnx::prelude::TractResult;

use crate::cast::element_type::ElementType;
use crate::onnx::declared_shapes::shape;
use crate::passes::context::PassContext;
use crate::passes::facts::fact::{Fact, FactOrigin};

/// From so many columns on tract multiplies a single row by the widest of its kernels, which sum up
/// in the order of those for many rows. Of fewer it may take one that sums up in another order, and
/// results would no longer be those of a product in each turn (tract-linalg, `x86_64/mmm.rs`,
/// `avx512_mmv_f32`; `arm64/mod.rs`, `neon_mmv_f32`).
const FROM: i64 = 128;

/// Takes such products out of the bodies that they stand in.
pub(in crate::passes) fn take_out(graph: &mut Graph, context: &mut PassContext) -> TractResult<()> {
    for body in graph.all_bodies(graph.main()) {
        let Some(scan) = graph.body(body).owner() else { continue };
        if graph.node(scan).is("Scan") && graph.node(scan).opset >= 9 {
            for product in graph.nodes_of(body) {
                take_one(graph, context, (scan, body), product);
            }
        }
    }
    Ok(())
}

fn take_one(
    graph: &mut Graph,
    context: &mut PassContext,
    (scan, body): (NodeId, BodyId),
    product: NodeId,
) -> Option<()> {
    let (node, around) = (graph.node(product), graph.node(scan));
    let inputs = graph.body(body).inputs();
    let (element, weight, made) = (node.input(0)?, node.input(1)?, node.output(0)?);
    let place = inputs.iter().position(|input| *input == element)?;
    let scanned = int(around, "num_scan_inputs")?;
    let states = inputs.len().checked_sub(usize::try_from(scanned).ok()?)?;
    let index = place.checked_sub(states)?;
    // A weight of two axes multiplies rows, however many axes these have before.
    let held = graph.constant(weight)?.clone();
    let [_, columns] = held.dims[..] else { return None };
    let is_first =
        attribute(around, "scan_input_axes").is_none_or(|axes| axes.ints.get(index) == Some(&0));
    let rank = |value| shape(graph.value(value).declared.as_ref()).map(|shape| shape.dim.len());
    let rank = rank(element).or_else(|| rank(around.input(place)?)?.checked_sub(1));
    let is_float = |value| context.facts.ty(value) == Some(ElementType::Float);
    // A scalar is no operand, and the scanned axis would become the one that is summed over.
    if !node.is("MatMul")
        || rank.is_none_or(|rank| rank == 0)
        || columns < FROM
        || !is_first
        || !is_float(element)
        || !is_float(weight)
        || graph.value(made).is_output()
        || inputs.len() != around.inputs().len()
        || inputs.iter().any(|input| graph.value(*input).is_constant())
    {
        return None;
    }
    let all = around.input(place)?;
    let (outside, name) = (around.body(), format!("{}.all", graph.value(made).name));
    let fact = Fact { ty: Some(ElementType::Float), origin: FactOrigin::Data };
    let weight = if graph.value(weight).body() == body {
        let moved = graph.add_constant(outside, (*held).clone());
        context.facts.insert(moved, fact);
        moved
    } else {
        weight
    };
    let products = NewNode::of("MatMul", &[all, weight], name);
    let products = graph.add_value(Place::Before(scan), products);
    let turned = graph.add_input(body, named_value(graph.value(made).name.to_string()));
    context.facts.insert(products, fact);
    context.facts.insert(turned, fact);
    graph.push_input(scan, Some(products));
    for attribute in graph.node_mut(scan).attributes.iter_mut() {
        match &*attribute.name {
            "num_scan_inputs" => attribute.i = scanned + 1,
            "scan_input_axes" => attribute.ints.push(0),
            "scan_input_directions" => {
                let direction = attribute.ints.get(index).copied().unwrap_or(0);
                attribute.ints.push(direction);
            }
            _ => {}
        }
    }
    graph.replace_all_uses(made, turned);
    graph.remove(product);
    Some(())
}
