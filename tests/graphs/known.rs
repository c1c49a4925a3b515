//! What is known to be wrong, so that the rest shows. An entry goes when what it names is right: it
//! excuses smallest graphs of its kind and nothing else, and the report says how often each did.

use crate::form::Form;
use crate::graph::Graph;

/// A graph that is as small as it gets, and what is wrong with its output.
pub struct Failure<'a> {
    pub graph: &'a Graph,
    pub problem: &'a str,
}

pub struct Known {
    pub name: &'static str,
    /// Why, and whose fault it is.
    pub reason: &'static str,
    pub excuses: fn(&Failure) -> bool,
}

/// Faults of tract's own that nothing here puts right.
const STOCK: [Known; 1] = [Known {
    name: "stock: sign of a constant zero",
    reason: "tract takes constants for one that are equal, as 0 and -0 are",
    excuses: |f| (f.says("is 0.0, not -0.0") || f.says("is -0.0, not 0.0")) && !f.has("Cast"),
}];

/// Whether tract would not come to an end. Its Scan goes round in circles over a single element or
/// constants, where what it collects is constant, and where a Transpose stands between two Scans
/// that it moves operators out of and into. Such models are not run at all.
pub fn is_endless(graph: &Graph, form: &Form) -> bool {
    // What has no elements, and what is only measured, does not vary.
    let has_elements =
        |id: &usize| graph.values[*id].worlds.iter().all(|val| !val.codes.is_empty());
    let mut varying: Vec<usize> = form.inputs().into_iter().filter(has_elements).collect();
    let mut scanned: Vec<usize> = vec![];
    for node in &graph.nodes {
        let uses = node.uses();
        let is_fed = |list: &[usize]| uses.iter().any(|id| list.contains(id));
        if node.op == "Scan" {
            let series = node.inputs.last().copied().flatten();
            let has_one = |id: usize| graph.values[id].worlds.iter().any(|val| val.shape[0] == 1);
            let is_odd = series.is_some_and(|id| has_one(id) || !varying.contains(&id));
            if is_odd || is_fed(&scanned) {
                return true;
            }
        }
        if is_fed(&varying) && !matches!(node.op, "Shape" | "Size") {
            varying.extend(node.outputs.iter().filter(|id| has_elements(id)));
        }
        if node.op == "Scan" || is_fed(&scanned) {
            scanned.extend(&node.outputs);
        }
    }
    false
}

pub fn all() -> impl Iterator<Item = &'static Known> {
    STOCK.iter()
}

pub fn known(failure: &Failure) -> Option<&'static Known> {
    all().find(|known| (known.excuses)(failure))
}

impl Failure<'_> {
    fn says(&self, text: &str) -> bool {
        self.problem.contains(text)
    }

    fn has(&self, op: &str) -> bool {
        self.graph.operators().contains(&op)
    }
}
