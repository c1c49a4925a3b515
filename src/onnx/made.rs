//! How many elements an operator makes of constants, as far as the constants tell: tract makes them while it loads a model.

#![forbid(unsafe_code)]

use std::collections::HashMap;

use tract_onnx::pb::{GraphProto, NodeProto, TensorProto, ValueInfoProto};

use super::declared_shapes::shape;
use super::node::{attribute, is_default_domain, node_name, subgraphs};
use super::size::beyond;
use crate::cast::element_type::ElementType;
use crate::error::Error;
use crate::tensor::proto;

/// A constant that may be a shape has no more elements.
const LONGEST: i64 = 64;

/// What is known of a value: its numbers, if it is a short constant, and how many elements it surely has.
#[derive(Clone, Default)]
pub(super) struct Known {
    numbers: Option<Vec<f64>>,
    least: f64,
}

/// Refuses a node of the graph, or of a graph in it, that makes more than `limit` elements. `outer` is what is known around it.
pub(super) fn check<'a>(
    graph: &'a GraphProto,
    outer: &HashMap<&'a str, Known>,
    limit: u64,
) -> Result<(), Error> {
    let makes =
        |node: &NodeProto| is_default_domain(&node.domain) && MAKERS.contains(&&*node.op_type);
    let has_graphs =
        |node: &NodeProto| node.attribute.iter().any(|a| subgraphs(a).next().is_some());
    if !graph.node.iter().any(|node| makes(node) || has_graphs(node)) {
        return Ok(());
    }
    let mut known = outer.clone();
    for input in &graph.input {
        known.insert(&input.name, declared(input));
    }
    for tensor in &graph.initializer {
        known.insert(&tensor.name, constant(tensor));
    }
    for node in &graph.node {
        if node.op_type == "Constant"
            && is_default_domain(&node.domain)
            && let Some(output) = node.output.first()
        {
            known.insert(output, constant_of(node));
        }
    }
    for node in &graph.node {
        for inner in node.attribute.iter().flat_map(subgraphs) {
            check(inner, &known, limit)?;
        }
        if makes(node) {
            let elements = made(node, &known);
            if elements > limit as f64 {
                let place = format!("node `{}` ({})", node_name(node), node.op_type);
                return Err(beyond(place, "made_elements", elements as u64, limit));
            }
            if let Some(output) = node.output.first() {
                known.insert(output, Known { numbers: None, least: elements });
            }
        }
    }
    Ok(())
}

const MAKERS: [&str; 5] = ["ConstantOfShape", "Expand", "Tile", "Range", "Pad"];

/// At least so many elements are made, if any: a dimension of 0 that is not known makes it none.
fn made(node: &NodeProto, known: &HashMap<&str, Known>) -> f64 {
    let input = |place: usize| node.input.get(place).and_then(|name| known.get(name.as_str()));
    let numbers = |place: usize| input(place).and_then(|known| known.numbers.as_deref());
    let least = input(0).map_or(1.0, |known| known.least);
    match &*node.op_type {
        "ConstantOfShape" => numbers(0).map_or(0.0, |shape| shape.iter().product()),
        // A dimension of 1, or -1, keeps that of the input.
        "Expand" => numbers(1).map_or(least, |shape| {
            shape.iter().map(|size| size.max(0.0)).product::<f64>().max(least)
        }),
        "Tile" => numbers(1).map_or(least, |times| times.iter().product::<f64>() * least),
        "Range" => match [numbers(0), numbers(1), numbers(2)] {
            [Some([start]), Some([limit]), Some([delta])] if *delta != 0.0 => {
                ((limit - start) / delta).ceil().max(0.0)
            }
            _ => 0.0,
        },
        _ => {
            let attribute = attribute(node, "pads").or(attribute(node, "paddings"));
            let of_attribute =
                attribute.map(|pads| pads.ints.iter().map(|pad| *pad as f64).collect::<Vec<_>>());
            let pads = numbers(1).map(<[f64]>::to_vec).or(of_attribute).unwrap_or_default();
            let (before, after) = pads.split_at(pads.len() / 2);
            let sizes = before.iter().zip(after).map(|(before, after)| (before + after).max(1.0));
            sizes.product::<f64>().max(least)
        }
    }
}

/// An input's elements where all its dimensions are declared.
fn declared(value: &ValueInfoProto) -> Known {
    use tract_onnx::pb::tensor_shape_proto::dimension::Value::DimValue;
    let sizes = shape(value).map(|shape| shape.dim.iter());
    let size = |value: &Option<_>| match value {
        Some(DimValue(size)) => *size as f64,
        _ => 1.0,
    };
    let least = sizes.map_or(1.0, |sizes| sizes.map(|dim| size(&dim.value).max(0.0)).product());
    Known { numbers: None, least }
}

fn constant(tensor: &TensorProto) -> Known {
    let elements = tensor.dims.iter().map(|dim| *dim as f64).product::<f64>();
    let is_short = tensor.dims.iter().try_fold(1i64, |count, dim| count.checked_mul(*dim));
    let is_short = is_short.is_some_and(|count| (0..=LONGEST).contains(&count));
    let numbers = || {
        let (ty, tensor) = proto::read(tensor, None).ok()?;
        let view = tensor.try_as_plain_ram().ok()?;
        Some(match ty {
            ElementType::Int64 => view.as_slice::<i64>().ok()?.iter().map(|n| *n as f64).collect(),
            ElementType::Int32 => {
                view.as_slice::<i32>().ok()?.iter().map(|n| (*n).into()).collect()
            }
            ElementType::Float => {
                view.as_slice::<f32>().ok()?.iter().map(|n| (*n).into()).collect()
            }
            ElementType::Double => view.as_slice::<f64>().ok()?.to_vec(),
            _ => return None,
        })
    };
    Known { numbers: is_short.then(numbers).flatten(), least: elements }
}

fn constant_of(node: &NodeProto) -> Known {
    let Some(attribute) = node.attribute.first() else { return Known::default() };
    let numbers = match (&*attribute.name, &attribute.t) {
        ("value", Some(tensor)) => return constant(tensor),
        ("value_ints", _) => attribute.ints.iter().map(|number| *number as f64).collect(),
        ("value_int", _) => vec![attribute.i as f64],
        ("value_float", _) => vec![attribute.f.into()],
        ("value_floats", _) => attribute.floats.iter().map(|number| (*number).into()).collect(),
        _ => return Known { numbers: None, least: 1.0 },
    };
    let least = numbers.len() as f64;
    Known {
        numbers: Some(numbers)
            .filter(|numbers: &Vec<f64>| least <= LONGEST as f64 && !numbers.is_empty()),
        least,
    }
}
