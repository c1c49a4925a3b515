//! What the casts of nodes have done, added to an audit of the whole model.
//!
//! A node is built as a model of its own, with probes of its own; nodes that are alike share them.
//! So after each run of a node what its probes have counted is taken from there and added to the
//! rows of that node.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use onnx_cast_graph::{Graph, Node, NodeView};

use crate::audit::Audit;
use crate::passes::casts::node::{CastKind, CastNode};

/// An audit of a whole model, by the nodes that its rows are about.
pub(super) struct Counted {
    audit: Audit,
    places: HashMap<CastKey, Vec<usize>>,
}

/// A graph, the name of a node in it, and the operator where its result is rounded.
type CastKey = (Arc<str>, String, Option<String>);

impl Counted {
    pub(super) fn new(audit: &Audit) -> Counted {
        let mut places: HashMap<CastKey, Vec<usize>> = HashMap::new();
        for (place, cast) in audit.casts().iter().enumerate() {
            places.entry(row(cast, &cast.graph, cast.node.clone())).or_default().push(place);
        }
        Counted { audit: audit.clone(), places }
    }

    /// Whether it adds to this audit.
    pub(super) fn is_of(&self, audit: &Audit) -> bool {
        self.audit.is_same(audit)
    }

    /// Adds what was counted of a node that was built under a name, which need not be its own, by
    /// another run or by another part of the same one.
    pub(super) fn add(
        &self,
        graph: &Graph,
        node: &Node,
        (built_as, counted): (&str, &Audit),
        is_same_run: bool,
    ) {
        let made = node.outputs().iter().flatten().map(|made| &*graph.value(*made).name);
        let made: Vec<&str> = made.collect();
        let mut taken: HashSet<usize> = HashSet::new();
        for (place, cast) in counted.casts().iter().enumerate() {
            let part = cast.node.strip_prefix(built_as);
            let name = part.map_or(cast.node.clone(), |part| format!("{}{part}", node.label()));
            let places =
                self.places.get(&row(cast, &node.path, name)).map_or(&[][..], Vec::as_slice);
            let mut free = places.iter().filter(|place| !taken.contains(*place));
            // Several nodes may have one name, but each makes values of its own.
            let is_own = |place: &&usize| {
                let whole = self.audit.casts().get(**place);
                whole.is_some_and(|whole| made.contains(&whole.output.as_str()))
            };
            if let Some(whole) = free.clone().find(is_own).or_else(|| free.next()) {
                taken.insert(*whole);
                self.audit.take(*whole, counted, place, is_same_run);
            }
        }
        counted.begin_anew();
    }
}

fn row(cast: &CastNode, graph: &Arc<str>, node: String) -> CastKey {
    let rounded = match &cast.kind {
        CastKind::Rounding(operator) => Some(operator.clone()),
        _ => None,
    };
    (graph.clone(), node, rounded)
}
