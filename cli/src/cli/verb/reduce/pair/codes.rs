//! Cuts where operators on codes hand them to each other: a converter leaves no value there that
//! the reference has.

use std::collections::HashMap;

use onnx_cast_graph::{Made, NewNode, NodeId, Place, Use, ValueId};

use crate::cli::verb::reduce::side::SourceModel;
use crate::cli::work::codes::{MOVERS, named_after};

/// What a part is told to have where it was cut so.
pub(super) const ADDED: &str = "A quantiser at an end stands where the whole has codes alone. ";

/// The model with codes of the reference's values, which go from one operator to the next, taken
/// back to these values and quantised again by the same scale, which makes the same codes. Returns
/// it, and by the names of the values those of the nodes that make them and take them.
pub(super) fn taken_back(
    converted: SourceModel,
    reference: &SourceModel,
) -> (SourceModel, HashMap<String, [String; 2]>) {
    let mut graph = converted.graph.clone();
    let mut scales: HashMap<ValueId, [ValueId; 2]> = HashMap::new();
    let mut added = HashMap::new();
    for id in converted.nodes() {
        let node = graph.node(id);
        let given = |place: usize| Some([node.input(place)?, node.input(place + 1)?]);
        let moved = || scales.get(&node.input(0)?).copied();
        let is_mover = MOVERS.contains(&&*node.op_type);
        let scale = if is_mover { moved() } else { place(&node.op_type).and_then(given) };
        let Some((codes, scale)) = node.output(0).zip(scale) else { continue };
        scales.insert(codes, scale);
        let name = graph.value(codes).name.clone();
        let Some(name) = named_after(&name) else { continue };
        let is_one = |id: &ValueId| graph.constant(*id).is_some_and(|held| held.dims.is_empty());
        let is_made = reference.value(name).is_some_and(|id| reference.graph.maker(id).is_some());
        let is_new = &*node.op_type != "QuantizeLinear" && converted.value(name).is_none();
        if !is_made || !is_new || !scale.iter().all(is_one) {
            continue;
        }
        let again = cut(&mut graph, id, (codes, scale), name);
        scales.insert(again, scale);
        added.insert(name.to_owned(), quantizers(name));
    }
    (converted.with(graph), added)
}

/// Takes codes back to the value of that name, and quantises it again for all that take them.
fn cut(
    graph: &mut onnx_cast_graph::Graph,
    maker: NodeId,
    (codes, [scale, zero]): (ValueId, [ValueId; 2]),
    name: &str,
) -> ValueId {
    let [of_back, of_again] = quantizers(name);
    let back = NewNode {
        name: of_back,
        outputs: vec![Made::New(name.to_owned())],
        ..NewNode::of("DequantizeLinear", &[codes, scale, zero], "")
    };
    let back = graph.add(Place::After(maker), back);
    let Some(value) = graph.node(back).output(0) else { return codes };
    let again = NewNode {
        name: of_again,
        ..NewNode::of("QuantizeLinear", &[value, scale, zero], format!("{name}_codes"))
    };
    let again = graph.add_value(Place::After(back), again);
    graph.replace_uses(codes, again, |used| used != Use::Node(back, 0));
    again
}

/// What the nodes are called that take codes back to a value, and quantise it again.
fn quantizers(name: &str) -> [String; 2] {
    ["DequantizeLinear", "QuantizeLinear"].map(|op| format!("{name}_{op}"))
}

/// Where an operator that makes codes takes their scale; the zero point is behind it.
fn place(op: &str) -> Option<usize> {
    match op {
        "QuantizeLinear" => Some(1),
        "QLinearConcat" => Some(0),
        "QGemm" => Some(7),
        "QLinearAdd" | "QLinearConv" | "QLinearMatMul" | "QLinearMul" => Some(6),
        "QLinearAveragePool" | "QLinearGlobalAveragePool" => Some(3),
        "QLinearLeakyRelu" | "QLinearSigmoid" | "QLinearSoftmax" => Some(3),
        _ => None,
    }
}
