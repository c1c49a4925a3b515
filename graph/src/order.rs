//! The topological order of a message's nodes, and whether its names are given once and before
//! their use.

use std::collections::{BTreeSet, HashMap, HashSet};

use tract_onnx::pb::{GraphProto, NodeProto};

use crate::names::{At, Misnamed};
use crate::node::{NodeView, subgraphs};

/// The places of a message's nodes in topological order, otherwise as in the file, and what is
/// wrong with its names: each is to be given once, and made before its use. The nodes of a graph
/// that goes in circles are as in the file.
///
/// `prefix` stands before names in messages; `is_outer` tells whether a graph around this one has a
/// value.
pub fn sorted(
    proto: &GraphProto,
    nodes: &[NodeProto],
    prefix: &str,
    is_outer: &dyn Fn(&str) -> bool,
) -> (Vec<usize>, Vec<Misnamed>) {
    let mut problems = vec![];
    let (mut order, stuck) = Sorting::new(proto, nodes, prefix, &mut problems, is_outer).sort();
    let refuse = |text: String| Misnamed { at: At::Graph(proto.name.clone()), text };
    if let Some(stuck) = stuck {
        let node = nodes.get(stuck).map_or("", NodeView::label);
        problems.push(refuse(format!("node `{node}` depends on its own output")));
        order = (0..nodes.len()).collect();
    }
    let made: HashSet<&str> =
        nodes.iter().flat_map(|node| &node.output).map(String::as_str).collect();
    let given = given(proto);
    for output in &proto.output {
        let name = output.name.as_str();
        if !made.contains(name) && !given.contains(name) && !is_outer(name) {
            problems.push(refuse(format!("nothing makes the output `{name}`")));
        }
    }
    (order, problems)
}

/// The names that no node of a message's graph makes.
pub fn given(proto: &GraphProto) -> HashSet<&str> {
    let inputs = proto.input.iter().map(|input| input.name.as_str());
    inputs.chain(proto.initializer.iter().map(|tensor| tensor.name.as_str())).collect()
}

/// The names that a message's node needs: its inputs, and what its graphs use from around them.
pub fn needed(node: &NodeProto) -> HashSet<&str> {
    let mut names: HashSet<&str> =
        node.input.iter().map(String::as_str).filter(|name| !name.is_empty()).collect();
    node.attribute.iter().flat_map(subgraphs).for_each(|graph| names.extend(free_names(graph)));
    names
}

/// The names that a message's graph, and those in it, use from around it.
pub fn free_names(graph: &GraphProto) -> HashSet<&str> {
    let made = graph.node.iter().flat_map(|node| node.output.iter().map(String::as_str));
    let inside: HashSet<&str> = given(graph).into_iter().chain(made).collect();
    let returned = graph.output.iter().map(|output| output.name.as_str());
    let used = graph.node.iter().flat_map(needed).chain(returned);
    used.filter(|name| !name.is_empty() && !inside.contains(name)).collect()
}

/// A topological sort that takes the first node of the file that is ready.
struct Sorting {
    waiting_for: Vec<usize>,
    users: HashMap<usize, Vec<usize>>,
}

impl Sorting {
    fn new(
        proto: &GraphProto,
        nodes: &[NodeProto],
        prefix: &str,
        problems: &mut Vec<Misnamed>,
        is_outer: &dyn Fn(&str) -> bool,
    ) -> Sorting {
        let producers = producers(proto, nodes, problems);
        let given = given(proto);
        let mut waiting_for = vec![0usize; nodes.len()];
        let mut users: HashMap<usize, Vec<usize>> = HashMap::new();
        for (index, node) in nodes.iter().enumerate() {
            for name in needed(node) {
                if let Some(producer) = producers.get(name) {
                    waiting_for[index] += 1;
                    users.entry(*producer).or_default().push(index);
                } else if !given.contains(name) && !is_outer(name) {
                    let label = format!("{prefix}{}", node.label());
                    let at = At::Node(label, node.op_type.clone());
                    let text = format!("nothing makes its input `{prefix}{name}`");
                    problems.push(Misnamed { at, text });
                }
            }
        }
        Sorting { waiting_for, users }
    }

    /// The order, and the first node that waits for itself.
    fn sort(mut self) -> (Vec<usize>, Option<usize>) {
        let is_ready = |(index, count): (usize, &usize)| (*count == 0).then_some(index);
        let mut ready: BTreeSet<usize> =
            self.waiting_for.iter().enumerate().filter_map(is_ready).collect();
        let mut order = Vec::with_capacity(self.waiting_for.len());
        while let Some(index) = ready.pop_first() {
            order.push(index);
            for user in self.users.remove(&index).unwrap_or_default() {
                self.waiting_for[user] -= 1;
                if self.waiting_for[user] == 0 {
                    ready.insert(user);
                }
            }
        }
        let stuck = self.waiting_for.iter().position(|count| *count > 0);
        (order, stuck)
    }
}

/// Which node makes each value; none may be made twice.
fn producers<'a>(
    proto: &'a GraphProto,
    nodes: &'a [NodeProto],
    problems: &mut Vec<Misnamed>,
) -> HashMap<&'a str, usize> {
    let mut refuse = |text: String| {
        problems.push(Misnamed { at: At::Graph(proto.name.clone()), text });
    };
    let mut initializers = HashSet::new();
    for tensor in &proto.initializer {
        if !initializers.insert(&tensor.name) {
            refuse(format!("initializer `{}` is given twice", tensor.name));
        }
    }
    let mut inputs = HashSet::new();
    for input in &proto.input {
        if !inputs.insert(&input.name) {
            refuse(format!("input `{}` is given twice", input.name));
        }
    }
    let given = given(proto);
    let mut producers = HashMap::new();
    for (index, node) in nodes.iter().enumerate() {
        for output in node.output.iter().filter(|output| !output.is_empty()) {
            if given.contains(output.as_str()) || producers.contains_key(output.as_str()) {
                refuse(format!("value `{output}` is made twice"));
            } else {
                producers.insert(output.as_str(), index);
            }
        }
    }
    producers
}
