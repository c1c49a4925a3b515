//! A smaller graph that fails as well.

use std::path::Path;

use crate::form::{Form, Source, ValueInfo};
use crate::graph::{Graph, Leaf, Node};
use crate::run::{Outcome, run};

/// Drops outputs, nodes and peculiarities of the form while what comes of it stays one of `these`.
pub fn minimise(
    graph: &Graph,
    form: &Form,
    folder: &Path,
    these: &dyn Fn(&Outcome) -> bool,
) -> (Graph, Form) {
    let mut best = (graph.clone(), form.clone());
    loop {
        let smaller = candidates(&best.0, &best.1)
            .into_iter()
            .find(|(graph, form)| these(&run(graph, form, folder)));
        match smaller {
            Some(smaller) => best = smaller,
            None => return best,
        }
    }
}

/// How much there is to read.
fn size(graph: &Graph, form: &Form) -> usize {
    let elements: usize =
        form.sources.iter().map(|(id, _)| graph.values[*id].worlds[0].codes.len()).sum();
    let peculiar = [form.is_symbolic, form.value_info != ValueInfo::None, form.outlined.is_some()];
    let kinds = form
        .sources
        .iter()
        .filter(|(_, s)| !matches!(s, Source::Input | Source::Initializer))
        .count();
    let inner: usize = graph.operators().len();
    let flags = peculiar.iter().filter(|is| **is).count();
    1000 * inner
        + 100 * form.outputs(graph).len()
        + 20 * flags
        + 10 * form.sources.len()
        + 5 * kinds
        + elements.min(4)
}

/// Graphs one step smaller, the boldest steps first.
fn candidates(graph: &Graph, form: &Form) -> Vec<(Graph, Form)> {
    let now = size(graph, form);
    let mut all = vec![];
    let mut add = |mut graph: Graph, mut form: Form| {
        graph.prune();
        let leaves = graph.leaves();
        let kept = |id: &usize| leaves.contains(id) || form.also.contains(id);
        form.sources.retain(|(id, _)| kept(id));
        let known: Vec<usize> = form.sources.iter().map(|(id, _)| *id).collect();
        form.sources.extend(
            leaves.iter().filter(|id| !known.contains(id)).map(|id| (*id, Source::Initializer)),
        );
        form.sources.sort_by_key(|(id, _)| *id);
        if !form.outputs(&graph).is_empty() && size(&graph, &form) < now {
            all.push((graph, form));
        }
    };
    let plain = |form: &Form| Form { outlined: None, ..form.clone() };
    // One output alone, an inner one too.
    for id in graph.made() {
        add(Graph { outputs: vec![id], ..graph.clone() }, Form { also: vec![], ..plain(form) });
    }
    let outputs = form.outputs(graph);
    for drop in &outputs {
        let without =
            |list: &[usize]| list.iter().copied().filter(|id| id != drop).collect::<Vec<_>>();
        let fewer = Graph { outputs: without(&graph.outputs), ..graph.clone() };
        add(fewer, Form { also: without(&form.also), ..plain(form) });
    }
    // A node's outputs become leaves.
    for at in (0..graph.nodes.len()).rev() {
        for source in [Source::Input, Source::Initializer] {
            if let Some((graph, form)) = cut(graph, form, at, source) {
                add(graph, form);
            }
        }
        let mut shorter = graph.clone();
        if inline(&mut shorter, at) {
            add(shorter, plain(form));
        }
    }
    add(graph.clone(), plain(form));
    add(graph.clone(), Form { value_info: ValueInfo::None, ..form.clone() });
    add(graph.clone(), Form { is_symbolic: false, ..form.clone() });
    for at in 0..form.sources.len() {
        let mut simpler = form.clone();
        simpler.sources[at].1 = Source::Initializer;
        add(graph.clone(), simpler);
    }
    all
}

fn cut(graph: &Graph, form: &Form, at: usize, source: Source) -> Option<(Graph, Form)> {
    let mut graph = graph.clone();
    let node = graph.nodes.remove(at);
    let mut form = Form { outlined: None, ..form.clone() };
    for id in &node.outputs {
        let value = &mut graph.values[*id];
        if form.is_symbolic && !value.is_fixed() {
            return None;
        }
        value.leaf = Some(Leaf { symbols: vec![None; value.shape().len()], is_constant: false });
        form.sources.push((*id, source));
    }
    // An output that is a leaf now would show nothing.
    let is_made = |id: &usize| !node.outputs.contains(id);
    graph.outputs.retain(is_made);
    form.also.retain(is_made);
    Some((graph, form))
}

/// Puts the nodes of the branch that an `If` takes in its place.
fn inline(graph: &mut Graph, at: usize) -> bool {
    let node: Node = graph.nodes[at].clone();
    if node.op != "If" {
        return false;
    }
    let Some(condition) = node.inputs[0] else { return false };
    let [a, b] = &graph.values[condition].worlds;
    if a.codes != b.codes {
        return false;
    }
    let taken = usize::from(a.codes[0] == 0);
    let Some(body) = node.bodies().nth(taken).cloned() else { return false };
    let names = ["then_branch", "else_branch"];
    if node.attributes.first().map(|(name, _)| *name) != Some(names[0]) {
        return false;
    }
    graph.nodes.splice(at..=at, body.nodes);
    let renamed: Vec<(usize, usize)> = node.outputs.iter().copied().zip(body.outputs).collect();
    let new = |id: usize| renamed.iter().find(|(old, _)| *old == id).map_or(id, |(_, new)| *new);
    for id in graph.outputs.iter_mut() {
        *id = new(*id);
    }
    let is_captured = |node: &Node| {
        node.bodies()
            .flat_map(|body| body.nodes.iter().flat_map(Node::uses).chain(body.outputs.clone()))
            .any(|id| new(id) != id)
    };
    if graph.nodes.iter().any(is_captured) {
        return false;
    }
    for node in &mut graph.nodes {
        for id in node.inputs.iter_mut().flatten() {
            *id = new(*id);
        }
    }
    true
}
