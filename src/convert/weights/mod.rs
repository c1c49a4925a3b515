//! Pass: weights in few bits. Before: `y = MatMul(x, w)` with w FLOAT; after: `d =
//! DequantizeLinear(w, w_scale)`, `y = MatMul(x, d)` with w INT8. Activations stay as they are,
//! and so does w for others that take it: a table of a Gather would be widened as a whole.

pub(super) mod codes;

use std::iter::once;

use onnx_cast_graph::{
    BodyId, Graph, NewNode, Node, NodeView, Place, Use, ValueId, int_attribute, value_attribute,
};
use tract_onnx::pb::TensorProto;
use tract_onnx::prelude::{TractResult, tensor1};

use codes::WeightCodes;

use super::context::Context;
use super::keep::has_referred;
use super::rewrite::copy_constant;
use super::{KeptNode, WeightFormat, check_since, data};
use crate::cast::element_type::ElementType;
use crate::cast::rules::Rules;
use crate::error::{Cause, Error, Result};
use crate::onnx::node::{attribute, int};
use crate::onnx::operators::schema;
use crate::tensor::conversion::Conversion;
use crate::tensor::proto;

/// Weights of fewer elements stay as they are: a scale and a node more would save nothing.
const FEWEST: usize = 256;

/// A weight that may be stored so, and along which axes.
struct Candidate {
    value: ValueId,
    body: BodyId,
    /// The axis whose places have a scale of their own: that of the results.
    channels: usize,
    /// The axis that is summed over, which is divided into blocks where these are wanted.
    summed: Option<usize>,
    /// The products and convolutions that take it.
    products: Vec<Use>,
    /// The first of them, for the report.
    user: KeptNode,
}

/// Stores the weights of products and convolutions as codes, where [`super::Options::weights`] says
/// so; those of nodes that are kept aside.
/// Fails when the model's opset does not have such weights, or one cannot be read.
pub(super) fn code(graph: &mut Graph, context: &mut Context) -> Result<()> {
    let Some(wanted) = context.options.weights else { return Ok(()) };
    check_opset(graph.opset, wanted)?;
    for candidate in candidates(graph, context) {
        store(graph, context, &candidate, wanted)?;
    }
    Ok(())
}

/// Since which opset `DequantizeLinear` takes codes of a type, a scale for each place or block.
fn check_opset(opset: i64, wanted: WeightFormat) -> Result<()> {
    let (ty, blocks) = match (wanted.ty, wanted.block) {
        (ElementType::Int8, None) => ("INT8 weights", 13),
        (ElementType::Float8E4M3FN, None) => ("FLOAT8E4M3FN weights", 19),
        (ElementType::Int4, None) => ("INT4 weights", 21),
        (ElementType::Int8 | ElementType::Float8E4M3FN | ElementType::Int4, Some(1..)) => {
            ("scales of blocks", 21)
        }
        (_, Some(0)) => {
            let message = "a block of weights has at least one".into();
            return Err(Cause::Argument { message }.into());
        }
        (other, _) => {
            let message = format!("weights cannot be {other}: INT8, INT4 or FLOAT8E4M3FN");
            return Err(Cause::Argument { message }.into());
        }
    };
    check_since(opset, blocks, ty)
}

fn candidates(graph: &Graph, context: &Context) -> Vec<Candidate> {
    let mut found = vec![];
    for body in context.bodies(graph) {
        let made = graph.nodes_of(body).into_iter().filter_map(|id| graph.node(id).output(0));
        for value in graph.body(body).constants().iter().copied().chain(made) {
            let is_default = context.is_default(graph, value);
            let Some(tensor) = constant_tensor(graph, value).filter(|_| !is_default) else {
                continue;
            };
            let of_product = |used: Use| match used {
                Use::Node(id, place) if !context.kept.contains(id) => {
                    Some((used, graph.node(id), axes(graph.node(id), place, tensor)?))
                }
                _ => None,
            };
            let mut products = graph.value(value).uses().filter_map(of_product);
            let Some((first, user, along)) = products.next() else { continue };
            let others: Vec<_> = products.collect();
            if others.iter().any(|(.., other)| *other != along) {
                continue;
            }
            let products = once(first).chain(others.iter().map(|(used, ..)| *used)).collect();
            let user = KeptNode::of(user, String::new());
            let (channels, summed) = along;
            found.push(Candidate { value, body, channels, summed, products, user });
        }
    }
    found
}

/// The tensor that a value is: an initializer, or what a `Constant` holds.
fn constant_tensor(graph: &Graph, value: ValueId) -> Option<&TensorProto> {
    match graph.maker(value).map(|id| graph.node(id)) {
        None => graph.constant(value).map(|tensor| &**tensor),
        Some(node) if node.is("Constant") => attribute(node, "value")?.t.as_ref(),
        Some(_) => None,
    }
}

fn constant_tensor_mut(graph: &mut Graph, value: ValueId) -> Option<&mut TensorProto> {
    match graph.maker(value) {
        None => graph.constant_mut(value),
        Some(id) => {
            let mut attributes = graph.node_mut(id).attributes.iter_mut();
            attributes.find(|held| held.name == "value")?.t.as_mut()
        }
    }
}

/// The axes of the weight that a node takes at a place: of the results, and summed over.
fn axes(node: &Node, place: usize, tensor: &TensorProto) -> Option<(usize, Option<usize>)> {
    if !node.is_onnx() || has_referred(node) {
        return None;
    }
    let is_turned = int(node, "transB").unwrap_or(0) != 0;
    let rank = tensor.dims.len();
    match (node.op_type(), place) {
        ("MatMul", 1) if rank > 1 => Some((rank - 1, Some(rank - 2))),
        ("MatMul", 0) if rank > 1 => Some((rank - 2, Some(rank - 1))),
        ("Gemm", 1) if rank == 2 && is_turned => Some((0, Some(1))),
        ("Gemm", 1) if rank == 2 => Some((1, Some(0))),
        ("Conv", 1) if rank > 2 => Some((0, None)),
        ("ConvTranspose", 1) if rank > 2 => Some((1, None)),
        _ => None,
    }
}

/// The largest error of a weight, relative to it: the root of the errors' power by that of the
/// elements. What 8 and 4 bits cost a weight of the usual distribution is a third of it.
fn most_lost(ty: ElementType) -> f64 {
    match ty {
        ElementType::Int8 => 0.02,
        ElementType::Float8E4M3FN => 0.05,
        _ => 0.25,
    }
}

/// The codes of a weight; nothing where it stays, with the reason in the report.
fn fit(
    graph: &Graph,
    context: &mut Context,
    candidate: &Candidate,
    wanted: WeightFormat,
) -> Result<Option<WeightCodes>> {
    let Some(tensor) = constant_tensor(graph, candidate.value) else { return Ok(None) };
    let dims: Option<Vec<usize>> =
        tensor.dims.iter().map(|size| usize::try_from(*size).ok()).collect();
    let from = ElementType::from_id(tensor.data_type).filter(|from| is_weight(graph, *from));
    let (Some(dims), Some(from)) = (dims, from) else { return Ok(None) };
    let count = dims.iter().try_fold(1usize, |count, size| count.checked_mul(*size));
    if count.is_none_or(|count| count < FEWEST) {
        return Ok(None);
    }
    let (axis, block) = match (wanted.block, candidate.summed) {
        (Some(block), Some(summed)) => (summed, Some(block)),
        _ => (candidate.channels, None),
    };
    let values = data::floats(tensor, context.folder)?;
    let scale_type = scale_type(graph, context, from);
    let name = &graph.value(candidate.value).name;
    let mut left_out = |why: String| {
        context.report.push(KeptNode { why, ..candidate.user.clone() });
        Ok(None)
    };
    if values.iter().any(|value| !value.is_finite()) {
        return left_out(format!("`{name}` has values that are not finite"));
    }
    let mut codes = WeightCodes { ty: wanted.ty, from, dims, axis, block, scales: vec![] };
    let lost = codes.fit(&values, scale_type).map_err(Error::of)?.sqrt();
    if lost > most_lost(wanted.ty) {
        let percent = lost * 100.0;
        return left_out(format!("of `{name}`, {percent:.0} % would be lost in {}", wanted.ty));
    }
    Ok(Some(codes))
}

/// The weight, or a copy of it for the products where others take it as well.
fn own(graph: &mut Graph, candidate: &Candidate, ty: ElementType) -> Result<ValueId> {
    let (value, products) = (candidate.value, &candidate.products);
    if graph.value(value).uses().all(|used| products.contains(&used)) {
        return Ok(value);
    }
    let name = format!("{}_{ty}", graph.value(value).name);
    let copy = copy_constant(graph, value, &name)?;
    graph.replace_uses(value, copy, |used| products.contains(&used));
    Ok(copy)
}

fn store(
    graph: &mut Graph,
    context: &mut Context,
    candidate: &Candidate,
    wanted: WeightFormat,
) -> Result<()> {
    let Some(codes) = fit(graph, context, candidate, wanted)? else { return Ok(()) };
    let value = own(graph, candidate, codes.ty)?;
    let name = graph.value(value).name.to_string();
    let scales = scales(&format!("{name}_scale"), &codes)?;
    if let Some(held) = constant_tensor_mut(graph, value) {
        *held = data::coded(std::mem::take(held), &codes, context.codes.len())?;
    }
    // Functions have no initializers: what stands beside a `Constant` is one.
    let scale = match graph.maker(value) {
        None => graph.add_constant(candidate.body, scales),
        Some(id) => {
            let new = NewNode::of("Constant", &[], scales.name.clone());
            graph.add_value(Place::After(id), new.with(vec![value_attribute(scales)]))
        }
    };
    let mut attributes = vec![int_attribute("axis", codes.axis as i64)];
    attributes.extend(codes.block.map(|block| int_attribute("block_size", block as i64)));
    let new = NewNode::of("DequantizeLinear", &[value, scale], format!("{name}_dequantized"));
    let new =
        NewNode { name: format!("{name}/DequantizeLinear"), attributes: attributes.into(), ..new };
    let place = graph.maker(scale).map_or(Place::First(candidate.body), Place::After);
    let node = graph.add(place, new);
    let Some(made) = graph.node(node).output(0) else { return Ok(()) };
    graph.replace_uses(value, made, |used| used != Use::Node(node, 0));
    for (value, ty) in [(value, codes.ty), (scale, codes.from), (made, codes.from)] {
        context.types.insert(value, ty);
    }
    // What the file declares of the weight is of no use beside its codes, and may be of another
    // shape.
    graph.value_mut(value).declared = None;
    context.counts.coded += 1;
    context.codes.push(codes);
    Ok(())
}

/// Whether a scale can be of the type of a weight.
fn is_weight(graph: &Graph, ty: ElementType) -> bool {
    let is_float = matches!(ty, ElementType::Float | ElementType::Float16 | ElementType::BFloat16);
    is_float && takes_scale(graph, ty)
}

fn takes_scale(graph: &Graph, ty: ElementType) -> bool {
    let schema = schema::schema("DequantizeLinear", graph.opset);
    let scale = schema.and_then(|schema| Some((schema, schema.input(1)?)));
    scale.is_some_and(|(schema, scale)| schema.allows(scale.ty, ty))
}

/// The type that the scales of a weight will have in the end.
fn scale_type(graph: &Graph, context: &Context, from: ElementType) -> ElementType {
    let converts = context.is_source(from) && takes_scale(graph, context.to());
    if converts { context.to() } else { from }
}

fn scales(name: &str, codes: &WeightCodes) -> Result<TensorProto> {
    let written = || -> TractResult<TensorProto> {
        let narrow = Conversion::new(ElementType::Float, codes.from, Rules::default());
        let scales = narrow.run(&tensor1(&codes.scales))?;
        Ok(proto::write(name, codes.from, &scales.into_shape(&codes.scale_dims())?)?)
    };
    written().map_err(Error::of)
}

#[cfg(test)]
mod tests;
