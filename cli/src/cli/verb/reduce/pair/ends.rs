//! What a converter puts around the nodes of a part, which is seldom what is wrong: quantisers with
//! their dequantisers, and Casts at the ends. What is blamed stays.

use onnx_cast_graph::{NodeView, all_graphs, int, named_value};
use tract_onnx::pb::{GraphProto, ModelProto, NodeProto, TensorProto};
use tract_onnx::prelude::*;
use tract_onnx_cast::{CastOnnx, ElementType};

use super::codes::ADDED;
use crate::cli::tensor::{NamedTensor, elements};
use crate::cli::verb::reduce::part::{Part, drop_unused};
use crate::cli::verb::reduce::side;
use crate::cli::verb::reduce::trial::Attempts;
use crate::cli::verb::reduce::values::{Values, are_alike, declared, read, saturated};

/// How a part may have less; nothing if it has none of that.
pub(super) type PartCut<'a> = dyn Fn(&Part) -> TractResult<Option<Part>> + 'a;

/// The part without pairs of quantisers and those of weights, but for the nodes that are kept, and
/// without Casts between numbers at its ends, as long as it shows what it did. Fails as
/// [`Attempts::shown`] does.
pub(super) fn without_ends(
    mut part: Part,
    kept: &[String],
    onnx: &CastOnnx,
    attempts: &mut Attempts,
) -> TractResult<Part> {
    let without_codes = |part: &Part| Ok(without_pairs(part, kept, makes_codes_again));
    let without_roundings = |part: &Part| Ok(without_pairs(part, kept, takes_codes_back));
    let with_weights = |part: &Part| with_weights(part, kept, onnx);
    let ways: [&PartCut; 5] =
        [&without_codes, &without_roundings, &with_weights, &without_first, &without_last];
    for fewer in ways {
        let Some(fewer) = fewer(&part)? else { continue };
        part = attempts.shown(fewer)?.unwrap_or(part);
    }
    Ok(part)
}

/// Whether a node quantises what the one before dequantises, by the same scale: it makes the same
/// codes.
fn makes_codes_again(before: &NodeProto, node: &NodeProto) -> bool {
    let is_pair = before.op_type == "DequantizeLinear" && node.op_type == "QuantizeLinear";
    is_pair && before.input.get(1..) == node.input.get(1..)
}

/// Whether a node dequantises what the one before quantises.
fn takes_codes_back(before: &NodeProto, node: &NodeProto) -> bool {
    before.op_type == "QuantizeLinear" && node.op_type == "DequantizeLinear"
}

/// The part without nodes and the next ones that are such pairs; nothing if there are none.
fn without_pairs(
    part: &Part,
    kept: &[String],
    are_pair: fn(&NodeProto, &NodeProto) -> bool,
) -> Option<Part> {
    let mut fewer = Part { outputs: vec![], ..part.clone() };
    let graph = fewer.model.graph.as_mut()?;
    let mut is_fewer = false;
    let mut place = 0;
    while let Some(node) = graph.node.get(place).cloned() {
        place += 1;
        let is_kept = |node: &NodeProto| kept.iter().any(|name| name == node.label());
        let between = node.input.first();
        let makes = |other: &&NodeProto| between.is_some() && other.output.first() == between;
        let Some(before) = graph.node.iter().find(makes).cloned() else { continue };
        let is_plain = are_pair(&before, &node) && !is_kept(&node) && !is_kept(&before);
        let both = before.input.first().zip(node.output.first());
        let Some((from, to)) = both.filter(|_| is_plain && uses(graph, &node.input) == 1) else {
            continue;
        };
        let is_output = graph.output.iter().any(|output| output.name == *to);
        let is_made = graph.node.iter().any(|node| node.output.contains(from));
        if is_output && !is_made {
            continue;
        }
        graph.node.retain(|held| *held != node && *held != before);
        let (old, new) = if is_output { (from, to) } else { (to, from) };
        rename(graph, old, new);
        (place, is_fewer) = (0, true);
    }
    if !graph
        .node
        .iter()
        .any(|node| matches!(&*node.op_type, "QuantizeLinear" | "DequantizeLinear"))
    {
        fewer.added = fewer.added.replace(ADDED, "");
    }
    drop_unused(&mut fewer.model);
    is_fewer.then_some(fewer)
}

/// The part with what its weights are dequantised to in their place, in the reference as well;
/// nothing if there are none.
fn with_weights(part: &Part, kept: &[String], onnx: &CastOnnx) -> TractResult<Option<Part>> {
    without_nodes(part, kept, |node, graph, reference| {
        let is_held = |name: &String| graph.initializer.iter().any(|held| held.name == *name);
        let is_weight = node.op_type == "DequantizeLinear" && node.input.iter().all(is_held);
        if !is_weight {
            return Ok(());
        }
        let output = node.output.iter().map(named_value).collect();
        let node = vec![node.clone()];
        let initializer = graph.initializer.clone();
        let alone = GraphProto { node, output, initializer, ..Default::default() };
        let mut alone = ModelProto { graph: Some(alone), ..part.model.clone() };
        drop_unused(&mut alone);
        let [made] = &*side::run(onnx, alone, None, &Values::new())? else { return Ok(()) };
        let Some(weight) = nearest(reference, made)? else { return Ok(()) };
        let (name, dims) = (weight.name.clone(), weight.dims.clone());
        *weight = TensorProto { name, dims, ..made.to_proto()? };
        graph.initializer.push(made.to_proto()?);
        graph.node.retain(|node| node.output.first() != Some(&made.name));
        Ok(())
    })
}

/// The part without what adds constants that the reference adds as well, where they are zeros then;
/// nothing if there is none, but for nodes that are kept.
pub(super) fn without_sums(part: &Part, kept: &[String]) -> TractResult<Option<Part>> {
    without_nodes(part, kept, |node, graph, reference| {
        let ([a, b], [made]) = (&*node.input, &*node.output) else { return Ok(()) };
        let held = |name: &String| graph.initializer.iter().find(|held| held.name == *name);
        let Some((from, held)) = held(a).map(|held| (b, held)).or(held(b).map(|held| (a, held)))
        else {
            return Ok(());
        };
        let is_made = graph.node.iter().any(|node| node.output.contains(from));
        if node.op_type != "Add" || !is_made || uses(graph, std::slice::from_ref(from)) > 1 {
            return Ok(());
        }
        let Some(constant) = nearest(reference, &read(held, None)?)? else { return Ok(()) };
        let mut zeros = read(constant, None)?;
        zeros.tensor = Tensor::zero_dt(zeros.tensor.datum_type(), zeros.tensor.shape())?;
        *constant = zeros.to_proto()?;
        graph.node.retain(|held| held.output != node.output);
        rename(graph, from, made);
        Ok(())
    })
}

/// The part without the nodes that are left out of its model, one after the other, as its reference
/// allows; nothing if none is. Those that are kept are not asked for.
fn without_nodes(
    part: &Part,
    kept: &[String],
    mut leave_out: impl FnMut(&NodeProto, &mut GraphProto, &mut ModelProto) -> TractResult<()>,
) -> TractResult<Option<Part>> {
    let mut fewer = Part { outputs: vec![], ..part.clone() };
    let (Some(graph), Some(reference)) = (&mut fewer.model.graph, &mut fewer.reference) else {
        return Ok(None);
    };
    let count = graph.node.len();
    let nodes = part.model.graph.iter().flat_map(|graph| &graph.node);
    for node in nodes.filter(|node| kept.iter().all(|name| name != node.label())) {
        leave_out(node, graph, reference)?;
    }
    let is_fewer = graph.node.len() < count;
    drop_unused(&mut fewer.model);
    Ok(is_fewer.then_some(fewer))
}

/// The initializer of a model's that a tensor is but for its rounding.
fn nearest<'a>(
    model: &'a mut ModelProto,
    tensor: &NamedTensor,
) -> TractResult<Option<&'a mut TensorProto>> {
    const NEAR: f64 = 0.2;
    let values: Vec<f64> = elements(tensor.ty, &tensor.tensor)?;
    let size = |values: &[f64]| values.iter().map(|value| value * value).sum::<f64>().sqrt();
    let mut best = None;
    for held in model.graph.iter_mut().flat_map(|graph| &mut graph.initializer) {
        let other = read(held, None)?;
        if (other.ty, other.tensor.len()) != (tensor.ty, tensor.tensor.len()) {
            continue;
        }
        let others: Vec<f64> = elements(other.ty, &other.tensor)?;
        let off: Vec<f64> = values.iter().zip(&others).map(|(x, y)| x - y).collect();
        let off = size(&off);
        if off <= NEAR * size(&values) && best.as_ref().is_none_or(|(least, _)| off < *least) {
            best = Some((off, held));
        }
    }
    Ok(best.map(|(_, held)| held))
}

/// How often nodes and the graph itself have the first of these names.
fn uses(graph: &GraphProto, names: &[String]) -> usize {
    let all = all_graphs(graph).into_iter();
    let taken = all.flat_map(|graph| graph.node.iter().flat_map(|node| &node.input));
    let returned = graph.output.iter().map(|output| &output.name);
    taken.chain(returned).filter(|name| names.first() == Some(name)).count()
}

/// Gives a value another name, in bodies too.
fn rename(graph: &mut GraphProto, old: &str, new: &str) {
    for node in &mut graph.node {
        let names = node.input.iter_mut().chain(&mut node.output);
        names.filter(|name| *name == old).for_each(|name| *name = new.into());
        let bodies =
            node.attribute.iter_mut().flat_map(|held| held.g.iter_mut().chain(&mut held.graphs));
        bodies.for_each(|body| rename(body, old, new));
    }
}

/// The part that takes what the Casts of its inputs make; nothing if there is none.
fn without_first(part: &Part) -> TractResult<Option<Part>> {
    let mut fewer = Part { outputs: vec![], ..part.clone() };
    let mut is_fewer = false;
    for input in &mut fewer.inputs {
        if let Some(to) = drop_first(&mut fewer.model, input) {
            *input = saturated(input, to)?;
            is_fewer = true;
            take(&mut fewer.model, input);
        }
        let Some(reference) = &mut fewer.reference else { continue };
        if let Some(to) = drop_first(reference, input) {
            is_fewer = true;
            take(reference, &saturated(input, to)?);
        }
    }
    Ok(is_fewer.then_some(fewer))
}

/// Has the model take an input as this one is.
fn take(model: &mut ModelProto, input: &NamedTensor) {
    let inputs = model.graph.iter_mut().flat_map(|graph| &mut graph.input);
    inputs.filter(|held| held.name == input.name).for_each(|held| *held = declared(input));
}

/// Drops the Cast that alone takes an input; the type that it makes.
fn drop_first(model: &mut ModelProto, input: &NamedTensor) -> Option<ElementType> {
    let graph = model.graph.as_mut()?;
    let takes = |node: &&NodeProto| node.input.contains(&input.name);
    let node = graph.node.iter().find(takes).filter(|node| uses(graph, &node.input) == 1)?;
    let to = to(node).filter(|to| are_alike(*to, input.ty))?;
    let made = node.output.first()?.clone();
    if graph.output.iter().any(|output| output.name == made) {
        return None;
    }
    graph.node.retain(|node| node.output.first() != Some(&made));
    rename(graph, &made, &input.name);
    Some(to)
}

/// The part without the Cast that makes its output; nothing if there is none.
fn without_last(part: &Part) -> TractResult<Option<Part>> {
    let mut fewer = Part { outputs: vec![], ..part.clone() };
    let is_number = part.outputs.iter().all(|output| are_alike(output.ty, ElementType::Float));
    Ok(drop_last(&mut fewer.model).filter(|()| is_number).map(|()| fewer))
}

fn drop_last(model: &mut ModelProto) -> Option<()> {
    let graph = model.graph.as_mut()?;
    let [output] = &*graph.output else { return None };
    let name = output.name.clone();
    let makes = |node: &NodeProto| node.output.first() == Some(&name);
    let node = graph.node.iter().find(|node| makes(node))?;
    to(node).filter(|to| are_alike(*to, ElementType::Float))?;
    let from = node.input.first()?.clone();
    if uses(graph, &node.output) > 1 || !graph.node.iter().any(|node| node.output.contains(&from)) {
        return None;
    }
    graph.node.retain(|node| !makes(node));
    graph.output.iter_mut().for_each(|output| output.r#type = None);
    rename(graph, &from, &name);
    Some(())
}

/// What a Cast makes.
fn to(node: &NodeProto) -> Option<ElementType> {
    let to = int(node, "to").filter(|_| node.is("Cast"))?;
    ElementType::from_id(i32::try_from(to).ok()?)
}

#[cfg(test)]
mod tests {
    use onnx_cast_graph::message_node;

    use super::*;

    /// Codes that are taken back and quantised again by a scale.
    fn part(scale: &str, more: Vec<NodeProto>) -> Part {
        let mut nodes = vec![
            message_node("QLinearMatMul", &["x"], "codes"),
            message_node("DequantizeLinear", &["codes", "s", "z"], "v"),
            message_node("QuantizeLinear", &["v", scale, "z"], "again"),
            message_node("QLinearSigmoid", &["again"], "y"),
        ];
        nodes.extend(more);
        let graph =
            GraphProto { node: nodes, output: vec![named_value("y")], ..Default::default() };
        Part {
            model: ModelProto { graph: Some(graph), ..Default::default() },
            reference: None,
            inputs: vec![],
            outputs: vec![],
            added: ADDED.into(),
        }
    }

    #[test]
    fn what_makes_the_same_codes_again_goes() {
        let kept = ["v".to_owned()];
        let without = |part, kept| without_pairs(&part, kept, makes_codes_again);
        let fewer = without(part("s", vec![]), &[]).expect("fewer nodes");
        let nodes = fewer.model.graph.expect("a graph").node;
        let expected = [
            message_node("QLinearMatMul", &["x"], "codes"),
            message_node("QLinearSigmoid", &["codes"], "y"),
        ];
        assert_eq!((nodes, fewer.added.as_str()), (expected.to_vec(), ""));
        // By another scale, blamed, or with a value that something else takes, they do not.
        assert!(without(part("t", vec![]), &[]).is_none());
        assert!(without(part("s", vec![]), &kept).is_none());
        assert!(without(part("s", vec![message_node("Abs", &["v"], "w")]), &[]).is_none());
    }
}
