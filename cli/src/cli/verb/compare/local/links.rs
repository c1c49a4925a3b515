//! Which values of a conversion are to be which values of its reference.

use std::collections::HashMap;

use tract_onnx::prelude::TractResult;
use tract_onnx_cast::Family;

use super::trace::{Ran, Trace};
use crate::cli::verb::compare::main_graph::MainGraph;
use crate::cli::verb::compare::pairs::{How, Pair, Seen, pairs};

/// The value of the reference that one of the conversion is to be.
#[derive(Clone)]
pub(super) struct Link {
    pub(super) reference: String,
    /// Whether it stands there without doubt, so that another value is a fault; else it counts
    /// where the values agree.
    pub(super) is_sure: bool,
}

/// The values of the conversion that have one, by their names.
pub(super) type Links = HashMap<String, Link>;

/// Links the values of two runs. `outputs` are those of the models, in pairs, and `weights` says
/// what the reference's constants are called in the conversion.
///
/// # Errors
///
/// When a tensor is not of its type's carrier.
pub(super) fn links(
    a: &Trace,
    b: &Trace,
    outputs: &[(String, String)],
    weights: &HashMap<String, String>,
) -> TractResult<Links> {
    let (of_a, of_b): (Vec<String>, Vec<String>) = outputs.iter().cloned().unzip();
    let (graph_a, graph_b) = (a.graph(&of_a), b.graph(&of_b));
    let (main_a, main_b) = (MainGraph::of(&graph_a), MainGraph::of(&graph_b));
    let (seen_a, seen_b) = (seen(a), seen(b));
    let known: Vec<(&str, &str)> = outputs.iter().map(|(x, y)| (x.as_str(), y.as_str())).collect();
    let found = pairs((&main_a, &seen_a), (&main_b, &seen_b), &known, weights)?;
    let mut links = Links::new();
    for Pair { reference, converted, .. } in &found {
        let link = Link { reference: reference.clone(), is_sure: false };
        links.entry(converted.clone()).or_insert(link);
    }
    let sure: Vec<String> = found
        .iter()
        .filter(|pair| pair.how == How::Name && is_same_place(a, b, pair, &links, weights))
        .map(|pair| pair.converted.clone())
        .chain(of_b)
        .collect();
    for name in sure {
        if let Some(link) = links.get_mut(&name) {
            link.is_sure = true;
        }
    }
    // Constants are held against each other as weights.
    let is_constant = |trace: &Trace, name: &str| trace.constant(name).is_some();
    links.retain(|name, link| !is_constant(b, name) && !is_constant(a, &link.reference));
    links.retain(|name, link| match (b.first(name), a.first(&link.reference)) {
        (Some((ty, _)), Some((other, _))) => is_number(*ty) == is_number(*other),
        _ => false,
    });
    Ok(links)
}

fn is_number(ty: tract_onnx_cast::ElementType) -> bool {
    matches!(ty.family(), Family::Float(_))
}

fn seen(trace: &Trace) -> Vec<Seen<'_>> {
    let first = |(name, times): (&'_ String, &'_ Vec<_>)| times.first().map(|_| name.clone());
    let names: Vec<String> = trace.values.iter().filter_map(first).collect();
    let mut seen: Vec<Seen> = vec![];
    for name in names {
        if let Some((name, times)) = trace.values.get_key_value(&name)
            && let Some((ty, tensor)) = times.first()
        {
            seen.push(Seen { name, ty: *ty, tensor });
        }
    }
    seen
}

/// Whether the nodes that make a pair are one node of both models: of one operator, and of one name
/// or of the same operands.
fn is_same_place(
    a: &Trace,
    b: &Trace,
    pair: &Pair,
    links: &Links,
    weights: &HashMap<String, String>,
) -> bool {
    let (Some(x), Some(y)) = (a.maker(&pair.reference), b.maker(&pair.converted)) else {
        return false;
    };
    let is_named = !x.name.is_empty() && x.name == y.name && !x.outputs.contains(&x.name);
    x.op == y.op && x.domain == y.domain && (is_named || same_operands(x, y, links, weights))
}

/// Whether two nodes take what belongs together, place by place.
pub(super) fn same_operands(
    x: &Ran,
    y: &Ran,
    links: &Links,
    weights: &HashMap<String, String>,
) -> bool {
    let is_pair = |(x, y): (&String, &String)| {
        x == y || links.get(y).is_some_and(|link| link.reference == *x) || weights.get(x) == Some(y)
    };
    x.inputs.len() == y.inputs.len() && x.inputs.iter().zip(&y.inputs).all(is_pair)
}
