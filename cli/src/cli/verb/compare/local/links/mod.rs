//! Which values of a conversion are to be which values of its reference; `names` says whether what
//! they are called tells that.

mod names;

use std::collections::{HashMap, HashSet};

use tract_onnx::prelude::TractResult;

pub(super) use names::Counterparts;
use names::Hints;

use super::nodes::is_product;
use super::numbers::numbers;
use super::trace::{Ran, Trace};
use crate::cli::measure::weight::change::WEIGHT;
use crate::cli::verb::compare::matching::{MatchKind, Pair, Seen, pairs};
use crate::cli::work::codes::named_after;
use crate::cli::work::main_graph::MainGraph;

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

/// Links the values of two runs, and says what stands for the reference's constants. `outputs` are
/// those of the models, in pairs, `weights` says what the reference's constants are called in the
/// conversion, and `changed` are those of them that have other values there. Fails when a tensor is
/// not of its type's carrier.
pub(super) fn links(
    a: &Trace,
    b: &Trace,
    outputs: &[(String, String)],
    (weights, changed): (&HashMap<String, String>, &HashSet<String>),
) -> TractResult<(Links, Counterparts)> {
    let (of_a, of_b): (Vec<String>, Vec<String>) = outputs.iter().cloned().unzip();
    let (graph_a, graph_b) = (a.graph(&of_a), b.graph(&of_b));
    let (main_a, main_b) = (MainGraph::of(&graph_a), MainGraph::of(&graph_b));
    let (seen_a, seen_b) = (seen(a), seen(b));
    let known: Vec<(&str, &str)> = outputs.iter().map(|(x, y)| (x.as_str(), y.as_str())).collect();
    let pairs = |has_names, weights: &_| {
        pairs((&main_a, &seen_a), (&main_b, &seen_b), (&known, has_names), weights)
    };
    let mut found = pairs(true, weights)?;
    let mut links = linked(found.iter());
    found.retain(|pair| pair.how != MatchKind::Name || is_likely((a, b), pair, &links, weights));
    links = linked(found.iter());
    let mut has_names = true;
    let hints = Hints { sides: (a, b), links: &links, weights };
    if hints.has_others(outputs) {
        // What a constant of other values is called tells no more than what it is taken by.
        let mut certain = weights.clone();
        certain.retain(|name, _| !changed.contains(name));
        let without = pairs(false, &certain)?;
        let nameless = linked(without.iter());
        if hints.are_worse_than(&nameless) {
            (found, links, has_names) = (without, nameless, false);
        }
    }
    let hints = Hints { sides: (a, b), links: &links, weights };
    let counterparts = hints.counterparts(changed, has_names);
    let weights = &counterparts.weights;
    let is_sure = |pair: &&Pair| {
        if has_names {
            return is_same_place(a, b, pair, &links, weights);
        }
        let both = a.maker(&pair.reference).zip(b.maker(&pair.converted));
        both.is_some_and(|(x, y)| {
            let is_same = x.op == y.op && x.domain == y.domain;
            is_same && same_operands((x, y), &links, weights, |name| a.inputs.contains(name))
        })
    };
    let sure: Vec<String> =
        found.iter().filter(is_sure).map(|pair| pair.converted.clone()).collect();
    for name in sure {
        if let Some(link) = links.get_mut(&name) {
            link.is_sure = true;
        }
    }
    through_codes(a, b, &mut links, has_names);
    // Whatever an output is like, it stands for the reference's.
    let output =
        |(x, y): &(String, String)| (y.clone(), Link { reference: x.clone(), is_sure: true });
    links.extend(outputs.iter().map(output));
    // Constants are held against each other as weights.
    links.retain(|name, link| !b.is_constant(name) && !a.is_constant(&link.reference));
    links.retain(|name, link| match (b.first(name), a.first(&link.reference)) {
        (Some((ty, _)), Some((other, _))) => ty.is_float() == other.is_float(),
        _ => false,
    });
    Ok((links, counterparts))
}

/// Links of pairs, none of which is sure yet.
fn linked<'a>(pairs: impl Iterator<Item = &'a Pair>) -> Links {
    let mut links = Links::new();
    for Pair { reference, converted, .. } in pairs {
        let link = Link { reference: reference.clone(), is_sure: false };
        links.entry(converted.clone()).or_insert(link);
    }
    links
}

/// Links what a quantiser is given, and what its codes are taken back to, with the value of the
/// reference that it is or that ONNX Runtime has named it after. A converter that leaves a Relu
/// out, whose work the range of the codes does, gives its name to what is before it.
fn through_codes(a: &Trace, b: &Trace, links: &mut Links, has_names: bool) {
    for taker in b.nodes.iter().filter(|ran| ran.op == "DequantizeLinear") {
        let quantizer = taker.inputs.first().and_then(|codes| b.maker(codes));
        let quantizer = quantizer.filter(|ran| ran.op == "QuantizeLinear");
        let values = quantizer.and_then(|ran| Some((ran.inputs.first()?, ran.outputs.first()?)));
        let Some(made) = taker.outputs.first() else { continue };
        // A reference that has codes of its own has what they are taken back to.
        let of_reference = links.get(made).and_then(|link| a.maker(&link.reference));
        if of_reference.is_some_and(|ran| ran.op == "DequantizeLinear") {
            continue;
        }
        let Some((given, codes)) = values else {
            let is_sure = links.get(made).is_some_and(|link| link.is_sure);
            let is_open = has_names && !is_sure;
            if let Some(link) = of_moved_codes(a, b, taker, made).filter(|_| is_open) {
                links.insert(made.clone(), link);
            }
            continue;
        };
        let named = named_after(codes);
        let mut named = named.into_iter().chain([given.as_str()]);
        let named = named.find(|name| has_names && a.values.contains_key(*name));
        let link = match (links.get(given), named) {
            (Some(link), _) if link.is_sure => link.clone(),
            (_, Some(named)) => {
                let is_same = a
                    .maker(named)
                    .zip(b.maker(given))
                    .is_some_and(|(x, y)| x.op == y.op || !x.name.is_empty() && x.name == y.name);
                links.insert(given.clone(), Link { reference: named.into(), is_sure: is_same });
                Link { reference: named.into(), is_sure: true }
            }
            (Some(link), None) => link.clone(),
            (None, None) => {
                let left_out = of_reference.filter(|ran| matches!(&*ran.op, "Relu" | "Clip"));
                if let Some(reference) = left_out.and_then(|ran| ran.inputs.first()) {
                    let reference = reference.clone();
                    links.insert(given.clone(), Link { reference, is_sure: false });
                }
                continue;
            }
        };
        if let Some(reference) = nearest(a, b, made, &link.reference, named) {
            links.insert(made.clone(), Link { reference, ..link });
        }
    }
}

/// What codes that something other than a quantiser makes are taken back to: the value that they
/// are named after.
fn of_moved_codes(a: &Trace, b: &Trace, taker: &Ran, made: &str) -> Option<Link> {
    let codes = taker.inputs.first().filter(|codes| b.maker(codes).is_some())?;
    let named = named_after(codes)?;
    let reference = nearest(a, b, made, named, None).filter(|_| a.values.contains_key(named))?;
    Some(Link { reference, is_sure: true })
}

/// Which value of the reference the values of codes are: the one that was quantised, the one of its
/// name, or what a Relu or a Clip makes of them.
fn nearest(a: &Trace, b: &Trace, made: &str, given: &str, named: Option<&str>) -> Option<String> {
    let values = numbers(b.first(made)?)?;
    let first: Vec<&str> = [given].into_iter().chain(named).collect();
    let cuts = a.nodes.iter().filter(|ran| {
        let is_of = ran.inputs.first().is_some_and(|input| first.contains(&input.as_str()));
        is_of && matches!(ran.op.as_str(), "Relu" | "Clip")
    });
    let cut = cuts.filter_map(|ran| ran.outputs.first()).map(String::as_str);
    let off = |name: &str| {
        let other = numbers(a.first(name)?)?;
        let errors = values.iter().zip(&other).map(|(x, y)| (x - y).abs().min(f64::MAX));
        (other.len() == values.len()).then(|| errors.sum::<f64>())
    };
    let others = first.iter().copied().chain(cut);
    let all = others.filter_map(|name| Some((name, off(name)?)));
    Some(all.min_by(|(_, x), (_, y)| x.total_cmp(y))?.0.to_owned())
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

/// What several nodes are fused into.
const FUSED: [&str; 5] =
    ["FastGelu", "Gelu", "LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization"];

/// Whether a pair may be one by its name: what has that by chance has another shape, and takes
/// nothing that the other one takes, but for a few numbers.
fn is_likely(
    (a, b): (&Trace, &Trace),
    pair: &Pair,
    links: &Links,
    weights: &HashMap<String, String>,
) -> bool {
    let Some((x, y)) = a.maker(&pair.reference).zip(b.maker(&pair.converted)) else { return true };
    let shapes = a.form(&pair.reference).zip(b.form(&pair.converted));
    let is_held = |name: &str| a.maker(name).is_none();
    let is_few = |name: &str| {
        let count = a.form(name).map(|(_, shape)| shape.iter().product::<usize>());
        a.is_constant(name) && count.is_some_and(|count| count < WEIGHT)
    };
    let mut operands = x.inputs.iter().zip(&y.inputs).filter(|(x, _)| !is_few(x));
    shapes.is_none_or(|(x, y)| x.1 == y.1)
        || operands.any(|both| is_pair(both, links, weights, is_held))
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
    let has_name = !x.name.is_empty() && x.name == y.name && !x.outputs.contains(&x.name);
    let is_named = (has_name || is_bias_of(x, y)) && is_likely((a, b), pair, links, weights);
    // Another operator under the same names is a fault; one of another name may be fused.
    let is_one = is_named && pair.reference == pair.converted && !y.op.contains("Quantize");
    let is_same = x.op == y.op && x.domain == y.domain;
    let is_fused = || pair.reference == pair.converted && is_fused_of((a, x), y, weights);
    let is_in_place = || same_operands((x, y), links, weights, |_| true);
    is_one || is_same && (is_named || is_in_place()) || is_fused()
}

/// Whether a node has the name by which ONNX Runtime adds the bias behind a product of codes, after
/// what a Conv makes or after a Gemm: it makes what the product of the reference does.
fn is_bias_of(product: &Ran, sum: &Ran) -> bool {
    let is_value = |name: &str| product.outputs.iter().any(|made| made == name);
    let is_named = sum.name.strip_suffix("_bias_add").is_some_and(is_value)
        || sum.name.strip_suffix("_Add") == Some(&product.name);
    let has_bias = product.inputs.get(2).is_some_and(|bias| !bias.is_empty());
    has_bias && is_product(product) && is_named
}

/// Whether a node may be several of the reference, fused, which make the value of the last of these
/// and take its weights.
fn is_fused_of((a, last): (&Trace, &Ran), fused: &Ran, weights: &HashMap<String, String>) -> bool {
    let is_taken = |name: &String| {
        let own = weights.get(name).unwrap_or(name);
        fused.inputs.contains(name) || fused.inputs.contains(own)
    };
    let is_weight = |name: &&String| {
        let elements = a.form(name).map(|(_, shape)| shape.iter().product::<usize>());
        a.is_constant(name) && elements.is_some_and(|elements| elements > 1)
    };
    let mut own = last.inputs.iter().filter(is_weight).peekable();
    let has_weights = own.peek().is_some() || last.op == "Div" || !fused.op.contains("Norm");
    FUSED.contains(&fused.op.as_str())
        && a.nodes.iter().all(|ran| ran.op != fused.op)
        && matches!(last.op.as_str(), "Add" | "Div" | "Mul")
        && has_weights
        && own.all(is_taken)
}

/// Whether two nodes take what belongs together, place by place; `is_named` says of which values
/// the name tells that.
fn same_operands(
    (x, y): (&Ran, &Ran),
    links: &Links,
    weights: &HashMap<String, String>,
    is_named: impl Fn(&str) -> bool,
) -> bool {
    let is_pair = |both| is_pair(both, links, weights, &is_named);
    x.inputs.len() == y.inputs.len() && x.inputs.iter().zip(&y.inputs).all(is_pair)
}

/// Whether what two nodes take belongs together; `is_named` says of which values the name tells
/// that.
fn is_pair(
    (x, y): (&String, &String),
    links: &Links,
    weights: &HashMap<String, String>,
    is_named: impl Fn(&str) -> bool,
) -> bool {
    let is_one = x == y && is_named(x);
    is_one || links.get(y).is_some_and(|link| link.reference == *x) || weights.get(x) == Some(y)
}
