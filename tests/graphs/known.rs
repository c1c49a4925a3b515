//! What is known to be wrong, so that the rest shows. An entry goes when what it names is right: it
//! excuses smallest graphs of its kind and nothing else, and the report says how often each did.

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
