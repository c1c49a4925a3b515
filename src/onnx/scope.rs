//! Which values can be seen from a node, and where its graph stands.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;

use tract_onnx::pb::{GraphProto, NodeProto};

use super::annotation::{DOMAIN, mark_probe, widening_cast};
use super::fact::Fact;
use super::functions::inline::Call;
use super::node::node_name;
use crate::cast::element_type::ElementType;
use crate::error;

/// The values that can be seen from a node.
pub(super) struct Scope<'a> {
    pub(super) outer: Option<&'a Scope<'a>>,
    pub(super) facts: HashMap<String, Fact>,
    /// What values of half precision are called that are held as FLOAT in this graph.
    pub(super) wide: HashMap<String, String>,
    /// The values of half precision that have been computed in FLOAT in this graph.
    pub(super) computed_wide: HashSet<String>,
    /// The masks of numbers that have been made of masks of truths in this graph.
    pub(super) made_masks: HashSet<String>,
    /// Nodes to be added to this graph.
    pub(super) added: Vec<NodeProto>,
}

impl<'a> Scope<'a> {
    pub(super) fn within(outer: Option<&'a Scope<'a>>) -> Scope<'a> {
        let (facts, wide) = (HashMap::new(), HashMap::new());
        let (computed_wide, made_masks) = (HashSet::new(), HashSet::new());
        Scope { outer, facts, wide, computed_wide, made_masks, added: vec![] }
    }

    /// Has the added node that makes a value be followed by a probe, given its place among the casts.
    pub(super) fn mark_probe(&mut self, value: &str, place: usize) {
        let makes = |node: &&mut NodeProto| node.output.first().is_some_and(|name| name == value);
        if let Some(node) = self.added.iter_mut().find(makes) {
            mark_probe(node, place);
        }
    }

    /// A value of half precision as FLOAT.
    pub(super) fn wide(&mut self, value: &str, ty: ElementType) -> String {
        if let Some(wide) = self.wide.get(value) {
            return wide.clone();
        }
        let wide = format!("{DOMAIN}:wide:{value}");
        self.added.push(widening_cast(value, ty, ElementType::Float, wide.clone()));
        self.wide.insert(value.into(), wide.clone());
        wide
    }

    /// What is known of a value of this graph or one around it.
    pub(super) fn get(&self, name: &str) -> Option<Fact> {
        let own = self.facts.get(name).copied();
        own.or_else(|| self.outer.and_then(|outer| outer.get(name)))
    }

    pub(super) fn facts(&self, names: &[String]) -> Vec<Option<Fact>> {
        names.iter().map(|name| self.get(name)).collect()
    }

    pub(super) fn types(&self, names: &[String]) -> Vec<Option<ElementType>> {
        names.iter().map(|name| self.get(name).and_then(|fact| fact.ty)).collect()
    }
}

/// Where a graph stands.
pub(super) struct Place<'a> {
    pub(super) path: Arc<str>,
    pub(super) outer: Option<&'a Scope<'a>>,
    pub(super) is_main: bool,
    /// The call that the node around the graph has come from.
    pub(super) call: Option<Rc<Call>>,
    /// The opset by which tract builds the graph's nodes.
    pub(super) opset: i64,
    /// The path to where the nodes of a call stand, of the last one that was asked for: they come in a row.
    pub(super) inside: RefCell<Option<(Rc<Call>, Arc<str>)>>,
}

/// A step of a path: where in a graph another one is.
pub(crate) fn step(node: &str, part: &str) -> String {
    format!("{}.{}", error::name(node), error::name(part))
}

impl Place<'_> {
    /// That of the main graph.
    pub(super) fn main(graph: &GraphProto, opset: i64) -> Place<'static> {
        Place {
            path: error::name(&graph.name).into(),
            outer: None,
            is_main: true,
            call: None,
            opset,
            inside: RefCell::default(),
        }
    }

    /// The path to where a node of the graph stands, and the node's name there.
    pub(super) fn of_node(&self, node: &NodeProto, call: Option<&Rc<Call>>) -> (Arc<str>, String) {
        let name = node_name(node);
        let Some(call) = call else { return (self.path.clone(), name) };
        let local = name.strip_prefix(&call.prefix).map_or(name.clone(), String::from);
        let last = self.inside.borrow();
        if let Some((_, path)) = last.as_ref().filter(|(last, _)| Rc::ptr_eq(last, call)) {
            return (path.clone(), local);
        }
        drop(last);
        let around = self.call.as_ref().map_or("", |call| &call.path);
        let inside = call.path.strip_prefix(around).unwrap_or(&call.path).trim_start_matches('/');
        let path: Arc<str> = match inside {
            "" => self.path.clone(),
            inside => format!("{}/{inside}", self.path).into(),
        };
        *self.inside.borrow_mut() = Some((call.clone(), path.clone()));
        (path, local)
    }
}
