//! What the bodies of If, Scan and Loop hold, as values of the main graph: `NODE.body/value`.
//!
//! A run node by node shows them; what is made in each iteration is compared as one tensor.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use onnx_cast_graph::{NodeView, free_names, has_bodies, message_node, subgraphs};
use tract_onnx::pb::{AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto};

/// The model with what its bodies compute among the nodes of the main graph, before the node whose
/// bodies they are. It is to be read and cannot be run: both branches are there, and what is
/// iterated once.
pub(in crate::cli::verb::compare) fn spread(model: &ModelProto) -> Cow<'_, ModelProto> {
    let nodes = model.graph.as_ref().map_or(&[][..], |graph| &graph.node);
    if !nodes.iter().any(has_bodies) {
        return Cow::Borrowed(model);
    }
    let mut copy = model.clone();
    if let Some(graph) = &mut copy.graph {
        let nodes = std::mem::take(&mut graph.node);
        spread_nodes(nodes, "", &mut graph.node, &mut graph.initializer);
    }
    Cow::Owned(copy)
}

/// Whether a node of a graph that is spread had bodies before.
pub(in crate::cli::verb::compare) fn had_bodies(node: &NodeProto) -> bool {
    ["If", "Scan", "Loop"].iter().any(|op| node.is(op)) || has_bodies(node)
}

fn spread_nodes(
    nodes: Vec<NodeProto>,
    prefix: &str,
    all: &mut Vec<NodeProto>,
    held: &mut Vec<TensorProto>,
) {
    for mut node in nodes {
        if node.is("If") {
            for (name, branch) in take_graphs(&mut node) {
                let path = path(prefix, &node, &name);
                let branch = localised(branch, &path, &HashMap::new());
                node.input.extend(branch.output.into_iter().map(|output| output.name));
                held.extend(branch.initializer);
                spread_nodes(branch.node, &format!("{path}/"), all, held);
            }
        } else if let Some(States { first, count, made }) = states(&node) {
            for (name, body) in take_graphs(&mut node) {
                let path = path(prefix, &node, &name);
                // A slice of what is scanned is as far off as all of it; a state is so as well by
                // what the body made of it before.
                let operands = body.input.iter().zip(&node.input);
                let scanned = operands.skip(first + count);
                let bound =
                    scanned.map(|(inner, outer)| (inner.name.clone(), outer.clone())).collect();
                let body = localised(body, &path, &bound);
                held.extend(body.initializer);
                spread_nodes(body.node, &format!("{path}/"), all, held);
                let fed = body.input.iter().zip(&node.input).skip(first).take(count);
                all.extend(fed.zip(body.output.iter().skip(made)).map(|((inner, first), next)| {
                    message_node("Identity", &[&first.clone(), &next.name], &inner.name)
                }));
                node.input.extend(body.output.into_iter().map(|output| output.name));
            }
        } else {
            let bodies = node.attribute.iter().flat_map(subgraphs);
            let free: BTreeSet<String> = bodies.flat_map(free_names).map(String::from).collect();
            node.input.extend(free);
        }
        all.push(node);
    }
}

/// The states of a `Scan` or a `Loop`: the place of the first among the inputs, of the node and of
/// its body, how many there are, and the place of the first among the body's outputs.
struct States {
    first: usize,
    count: usize,
    made: usize,
}

fn states(node: &NodeProto) -> Option<States> {
    let inputs = node.input.len();
    if node.is("Loop") {
        return Some(States { first: 2, count: inputs.checked_sub(2)?, made: 1 });
    }
    let scanned = node.attribute.iter().find(|a| a.name == "num_scan_inputs" && node.is("Scan"))?;
    let count = inputs.checked_sub(usize::try_from(scanned.i).ok()?)?;
    Some(States { first: 0, count, made: 0 })
}

/// What a subgraph of a node is called; without a name of its own a node has that of its first
/// output, which has the prefix already. It is before each name in there, so one that is very long
/// is cut, and told from others by its digest.
fn path(prefix: &str, node: &NodeProto, attribute: &str) -> String {
    const LONGEST: usize = 1000;
    let prefix = if node.name.is_empty() { "" } else { prefix };
    let name = format!("{prefix}{}", node.label());
    match name.char_indices().nth(LONGEST) {
        None => format!("{name}.{attribute}"),
        Some((end, _)) => {
            let mut digest = DefaultHasher::new();
            name.hash(&mut digest);
            let start = name.get(..end).unwrap_or_default();
            format!("{start}…{:016x}.{attribute}", digest.finish())
        }
    }
}

/// Takes the subgraphs out of a node's attributes.
fn take_graphs(node: &mut NodeProto) -> Vec<(String, GraphProto)> {
    let (graphs, others): (Vec<AttributeProto>, Vec<AttributeProto>) =
        std::mem::take(&mut node.attribute).into_iter().partition(|a| a.g.is_some());
    node.attribute = others;
    graphs.into_iter().filter_map(|attribute| Some((attribute.name, attribute.g?))).collect()
}

/// The names that a graph itself has.
fn own_names(graph: &GraphProto) -> impl Iterator<Item = &String> {
    let held = graph.initializer.iter().map(|held| &held.name);
    let made = graph.node.iter().flat_map(|node| &node.output);
    graph.input.iter().map(|input| &input.name).chain(held).chain(made)
}

/// A graph whose own names have a path before them, but for those that stand for others.
fn localised(mut graph: GraphProto, path: &str, bound: &HashMap<String, String>) -> GraphProto {
    let new = |name: &String| {
        let otherwise = || format!("{path}/{name}");
        (name.clone(), bound.get(name).cloned().unwrap_or_else(otherwise))
    };
    let names = own_names(&graph).filter(|name| !name.is_empty()).map(new).collect();
    rename(&mut graph, &names);
    let renamed = |name: &mut String| {
        if let Some(new) = names.get(name) {
            name.clone_from(new);
        }
    };
    graph.input.iter_mut().chain(&mut graph.value_info).for_each(|info| renamed(&mut info.name));
    graph.initializer.iter_mut().for_each(|held| renamed(&mut held.name));
    graph.node.iter_mut().flat_map(|node| &mut node.output).for_each(renamed);
    graph
}

/// Renames what the nodes of a graph, and of those in it, use.
fn rename(graph: &mut GraphProto, names: &HashMap<String, String>) {
    let used = graph.node.iter_mut().flat_map(|node| &mut node.input);
    for name in used.chain(graph.output.iter_mut().map(|output| &mut output.name)) {
        if let Some(new) = names.get(name) {
            name.clone_from(new);
        }
    }
    for inner in graph.node.iter_mut().flat_map(|n| &mut n.attribute).filter_map(|a| a.g.as_mut()) {
        let own: HashSet<&String> = own_names(inner).collect();
        let outer = names.iter().filter(|(name, _)| !own.contains(name));
        let outer = outer.map(|(name, new)| (name.clone(), new.clone())).collect();
        rename(inner, &outer);
    }
}
