//! What the bodies of If and Scan hold, as values of the main graph: `NODE.body/value`.
//!
//! A body's values are nobody's outputs. Of an If the branch that is taken stands in its place in a
//! copy of the model; a Scan gets every value of its body as a further output, of all iterations in
//! one tensor.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use onnx_cast_graph::{free_names, subgraphs};
use tract_onnx::pb::{
    AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto,
};
use tract_onnx::prelude::*;

use crate::cli::input::sets::Tensors;
use crate::cli::tensor::NamedTensor;
use crate::cli::verb::compare::main_graph::MainGraph;
use crate::cli::verb::compare::open::Loaded;
use crate::cli::work::weights::constants::value_of;

/// How deep Ifs in the branches of others are looked into; a model is run once more for each step.
const DEPTH: usize = 8;

/// The model with what its bodies compute among the nodes of the main graph, before the node whose
/// bodies they are. It is to be read and cannot be run: both branches are there, and a Scan's body
/// once.
pub(in crate::cli::verb::compare) fn spread(model: &ModelProto) -> Cow<'_, ModelProto> {
    let nodes = model.graph.as_ref().map_or(&[][..], |graph| &graph.node);
    if !nodes.iter().any(has_bodies) {
        return Cow::Borrowed(model);
    }
    let mut copy = model.clone();
    if let Some(graph) = &mut copy.graph {
        let nodes = std::mem::take(&mut graph.node);
        spread_nodes(nodes, "", true, &mut graph.node, &mut graph.initializer);
    }
    Cow::Owned(copy)
}

/// Whether a node has subgraphs.
pub(super) fn has_bodies(node: &NodeProto) -> bool {
    node.attribute.iter().any(|attribute| attribute.g.is_some())
}

/// Whether a node of a graph that is spread had bodies before.
pub(in crate::cli::verb::compare) fn had_bodies(node: &NodeProto) -> bool {
    ["If", "Scan", "Loop"].iter().any(|op| is(node, op)) || has_bodies(node)
}

fn spread_nodes(
    nodes: Vec<NodeProto>,
    prefix: &str,
    may_branch: bool,
    all: &mut Vec<NodeProto>,
    held: &mut Vec<TensorProto>,
) {
    for mut node in nodes {
        if is(&node, "If") && may_branch {
            for (name, branch) in take_graphs(&mut node) {
                let path = path(prefix, &node, &name);
                let branch = localised(branch, &path, &HashMap::new());
                node.input.extend(branch.output.into_iter().map(|output| output.name));
                held.extend(branch.initializer);
                spread_nodes(branch.node, &format!("{path}/"), true, all, held);
            }
        } else if is(&node, "Scan")
            && let Some(states) = states(&node)
        {
            for (name, body) in take_graphs(&mut node) {
                let path = path(prefix, &node, &name);
                // A slice of what is scanned is as far off as all of it; a state is so as well by
                // what the body made of it before.
                let operands = body.input.iter().zip(&node.input).skip(states);
                let bound =
                    operands.map(|(inner, outer)| (inner.name.clone(), outer.clone())).collect();
                let body = localised(body, &path, &bound);
                held.extend(body.initializer);
                spread_nodes(body.node, &format!("{path}/"), false, all, held);
                let fed = body.input.iter().zip(&node.input).zip(&body.output).take(states);
                all.extend(fed.map(|((inner, first), next)| {
                    identity(&[&first.clone(), &next.name], &inner.name)
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

/// A model that shows what is inside its bodies on one set of inputs.
pub(super) struct Opened {
    pub(super) proto: ModelProto,
    /// Which branches stand in the place of their Ifs.
    pub(super) branches: Vec<String>,
    /// By the names of values of Scan's bodies, of which there are as many as iterations, what they
    /// share with those of the same Scan.
    pub(super) stacked: HashMap<String, String>,
}

/// How far a model is opened. Further outputs of a Scan may be what tract cannot make.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Extent {
    All,
    Branches,
    Nothing,
}

/// A copy of the model with its bodies opened, as they run on these inputs.
///
/// # Errors
///
/// When tract cannot run the model to see which branches it takes.
pub(super) fn opened(loaded: &Loaded, tensors: &Tensors, extent: Extent) -> TractResult<Opened> {
    let mut proto = loaded.probed.proto.clone();
    let mut opened =
        Opened { proto: ModelProto::default(), branches: vec![], stacked: HashMap::new() };
    let nodes = proto.graph.as_ref().map_or(&[][..], |graph| &graph.node);
    if extent == Extent::Nothing || !nodes.iter().any(has_bodies) {
        opened.proto = proto;
        return Ok(opened);
    }
    let mut prefixes = vec![String::new(); nodes.len()];
    for _ in 0..DEPTH {
        let taken = conditions(loaded, &proto, tensors)?;
        let Some(graph) = &mut proto.graph else { break };
        if taken.is_empty() {
            break;
        }
        let nodes = std::mem::take(&mut graph.node).into_iter().zip(std::mem::take(&mut prefixes));
        for (mut node, prefix) in nodes {
            let condition = node.input.first().and_then(|name| taken.get(name).copied());
            let Some(condition) = condition.filter(|_| is(&node, "If") && has_bodies(&node)) else {
                graph.node.push(node);
                prefixes.push(prefix);
                continue;
            };
            let wanted = if condition { "then_branch" } else { "else_branch" };
            let branch = take_graphs(&mut node).into_iter().find(|(name, _)| name == wanted);
            let Some((name, branch)) = branch else { continue };
            let path = path(&prefix, &node, &name);
            let branch = localised(branch, &path, &HashMap::new());
            prefixes.extend(branch.node.iter().map(|_| format!("{path}/")));
            graph.node.extend(branch.node);
            graph.initializer.extend(branch.initializer);
            graph.value_info.extend(branch.value_info);
            for (inner, outer) in branch.output.iter().zip(&node.output) {
                graph.node.push(identity(&[&inner.name], outer));
                prefixes.push(String::new());
            }
            opened.branches.push(path);
        }
    }
    if extent == Extent::All
        && let Some(graph) = &mut proto.graph
    {
        let whole = spread(&loaded.probed.proto);
        let whole = MainGraph::of(&whole);
        for (node, prefix) in graph.node.iter_mut().zip(&prefixes) {
            let path = path(prefix, node, "body");
            for name in open_scan(node, prefix, &|name| whole.is_constant(name)) {
                opened.stacked.insert(name, path.clone());
            }
        }
    }
    opened.proto = proto;
    Ok(opened)
}

/// The conditions of the Ifs in the main graph, where they can be known.
fn conditions(
    loaded: &Loaded,
    proto: &ModelProto,
    tensors: &Tensors,
) -> TractResult<HashMap<String, bool>> {
    let mut known = HashMap::new();
    let nodes = proto.graph.as_ref().map_or(&[][..], |graph| &graph.node);
    let made: HashSet<&String> = nodes.iter().flat_map(|node| &node.output).collect();
    let mut asked = vec![];
    for node in nodes.iter().filter(|node| is(node, "If") && has_bodies(node)) {
        let Some(name) = node.input.first() else { continue };
        if made.contains(name) && !asked.contains(name) {
            asked.push(name.clone());
            continue;
        }
        let inputs = loaded.model.takes.inputs.iter().zip(tensors);
        let given = inputs.into_iter().find(|(input, _)| input.name == *name);
        let held = || value_of(&loaded.probed.holder(), name).map(|held| held.tensor);
        let value = given.map(|(_, tensor)| Tensor::clone(tensor)).or_else(held);
        known.extend(value.and_then(|value| Some((name.clone(), is_true(&value)?))));
    }
    if !asked.is_empty() {
        let model = loaded.probed.exposing_in(proto.clone(), &asked, false)?;
        let outputs: Vec<NamedTensor> = model.run(tensors.clone())?.outputs;
        let asked = outputs.iter().filter(|output| asked.contains(&output.name));
        known.extend(asked.filter_map(|o| Some((o.name.clone(), is_true(&o.tensor)?))));
    }
    Ok(known)
}

fn is_true(condition: &Tensor) -> Option<bool> {
    let plain = condition.try_as_plain_ram().ok()?;
    plain.as_slice::<bool>().ok()?.first().copied()
}

/// Has a Scan make the values of its body, and those of Scans in it, as further outputs, of which
/// the names come back. What is made of constants is left out.
fn open_scan(
    node: &mut NodeProto,
    prefix: &str,
    is_constant: &dyn Fn(&str) -> bool,
) -> Vec<String> {
    let Some(states) = states(node).filter(|_| is(node, "Scan")) else { return vec![] };
    let path = path(prefix, node, "body");
    let Some(body) = node.attribute.iter_mut().find_map(|a| a.g.as_mut()) else { return vec![] };
    for inner in &mut body.node {
        open_scan(inner, "", &|name| is_constant(&format!("{path}/{name}")));
    }
    let made = body.node.iter().flat_map(|node| &node.output).filter(|name| !name.is_empty());
    let states = body.input.iter().take(states).map(|state| &state.name);
    let values: Vec<String> = made.chain(states).cloned().collect();
    node.output.resize(body.output.len().max(node.output.len()), String::new());
    let mut names = vec![];
    for value in values {
        let name = format!("{path}/{value}");
        if is_constant(&name) {
            continue;
        }
        // An output of a body cannot be another one as well.
        let each = format!("{value}:each");
        body.node.push(identity(&[&value], &each));
        body.output.push(ValueInfoProto { name: each, ..ValueInfoProto::default() });
        node.output.push(name.clone());
        names.push(name);
    }
    for attribute in &mut node.attribute {
        if matches!(attribute.name.as_str(), "scan_output_axes" | "scan_output_directions") {
            attribute.ints.extend(names.iter().map(|_| 0));
        }
    }
    names
}

/// Whether a node is of this operator of ONNX's.
fn is(node: &NodeProto, op: &str) -> bool {
    node.op_type == op && matches!(node.domain.as_str(), "" | "ai.onnx")
}

/// How many of a Scan's inputs are states.
fn states(node: &NodeProto) -> Option<usize> {
    let scanned = node.attribute.iter().find(|a| a.name == "num_scan_inputs")?.i;
    node.input.len().checked_sub(usize::try_from(scanned).ok()?)
}

/// What a subgraph of a node is called; without a name of its own a node has that of its first
/// output, which has the prefix already. It is before each name in there, so one that is very long
/// is cut, and told from others by its digest.
fn path(prefix: &str, node: &NodeProto, attribute: &str) -> String {
    const LONGEST: usize = 1000;
    let name = if node.name.is_empty() {
        node.output.first().cloned().unwrap_or_default()
    } else {
        format!("{prefix}{}", node.name)
    };
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

fn identity(inputs: &[&str], output: &str) -> NodeProto {
    NodeProto {
        op_type: "Identity".into(),
        input: inputs.iter().map(|input| (*input).to_owned()).collect(),
        output: vec![output.into()],
        ..NodeProto::default()
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
