//! Whether the names in a graph fit together, and an order in which every value is made before it is used.

use std::collections::{BTreeSet, HashMap, HashSet};

use tract_onnx::pb::{GraphProto, NodeProto};

use super::node::{node_name, refusal, subgraphs};
use crate::error::Error;

/// The indices of the graph's nodes, each after those whose outputs it uses, otherwise as they stand in the file.
///
/// `outer` tells whether an enclosing graph has a value.
pub(super) fn sort(graph: &GraphProto, outer: impl Fn(&str) -> bool) -> Result<Vec<usize>, Error> {
    let refuse = |problem: String| Error::graph(&graph.name, problem);
    let producers = producers(graph)?;
    let given = given_values(graph);
    let mut waiting_for = vec![0usize; graph.node.len()];
    let mut users: HashMap<usize, Vec<usize>> = HashMap::new();
    for (index, node) in graph.node.iter().enumerate() {
        for name in used_names(node) {
            match producers.get(name) {
                Some(producer) => {
                    waiting_for[index] += 1;
                    users.entry(*producer).or_default().push(index);
                }
                None if given.contains(name) || outer(name) => {}
                None => {
                    return Err(refusal(node, format!("nothing makes its input `{name}`")));
                }
            }
        }
    }
    let mut ready: BTreeSet<usize> =
        (0..graph.node.len()).filter(|index| waiting_for[*index] == 0).collect();
    let mut order = Vec::with_capacity(graph.node.len());
    while let Some(index) = ready.pop_first() {
        order.push(index);
        for user in users.remove(&index).unwrap_or_default() {
            waiting_for[user] -= 1;
            if waiting_for[user] == 0 {
                ready.insert(user);
            }
        }
    }
    if let Some(stuck) = (0..graph.node.len()).find(|index| waiting_for[*index] > 0) {
        let node = node_name(&graph.node[stuck]);
        return Err(refuse(format!("node `{node}` depends on its own output")));
    }
    for output in &graph.output {
        let name = output.name.as_str();
        if !producers.contains_key(name) && !given.contains(name) && !outer(name) {
            return Err(refuse(format!("nothing makes the output `{name}`")));
        }
    }
    Ok(order)
}

/// Which node makes each value; none may be made twice.
fn producers(graph: &GraphProto) -> Result<HashMap<&str, usize>, Error> {
    let refuse = |problem: String| Error::graph(&graph.name, problem);
    let given = given_values(graph);
    let mut initializers = HashSet::new();
    for tensor in &graph.initializer {
        if !initializers.insert(&tensor.name) {
            return Err(refuse(format!("initializer `{}` is given twice", tensor.name)));
        }
    }
    let mut inputs = HashSet::new();
    for input in &graph.input {
        if !inputs.insert(&input.name) {
            return Err(refuse(format!("input `{}` is given twice", input.name)));
        }
    }
    if let Some(sparse) = graph.sparse_initializer.first() {
        let name = sparse.values.as_ref().map_or("", |values| &values.name);
        return Err(refuse(format!("sparse initializer `{name}`: tract has no sparse tensors")));
    }
    let mut producers = HashMap::new();
    for (index, node) in graph.node.iter().enumerate() {
        for output in node.output.iter().filter(|output| !output.is_empty()) {
            if given.contains(output.as_str()) || producers.insert(output.as_str(), index).is_some()
            {
                return Err(refuse(format!("value `{output}` is made twice")));
            }
        }
    }
    Ok(producers)
}

/// The values that no node makes.
pub(super) fn given_values(graph: &GraphProto) -> HashSet<&str> {
    let inputs = graph.input.iter().map(|input| input.name.as_str());
    inputs.chain(graph.initializer.iter().map(|tensor| tensor.name.as_str())).collect()
}

/// The values that a node needs: its inputs, and what its subgraphs take from around them.
pub(super) fn used_names(node: &NodeProto) -> HashSet<&str> {
    let mut names: HashSet<&str> =
        node.input.iter().map(String::as_str).filter(|name| !name.is_empty()).collect();
    for graph in node.attribute.iter().flat_map(subgraphs) {
        let inside: HashSet<&str> = given_values(graph)
            .into_iter()
            .chain(graph.node.iter().flat_map(|node| node.output.iter().map(String::as_str)))
            .collect();
        let used = graph.node.iter().flat_map(used_names);
        let returned = graph.output.iter().map(|output| output.name.as_str());
        names.extend(used.chain(returned).filter(|name| !inside.contains(name)));
    }
    names
}
