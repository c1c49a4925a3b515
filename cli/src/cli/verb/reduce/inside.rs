//! The bodies of `If`, `Loop` and `Scan` as models of their own, on what they were given when they
//! ran.

use std::collections::HashSet;

use onnx_cast_graph::{BodyId, Node, Table, ValueId};
use tract_onnx::prelude::*;
use tract_onnx_cast::Result;
use tract_onnx_cast::interpreter::{NodeRun, ObservedTensor, Observer};

use super::side::SourceModel;
use super::values::{Values, type_of};
use crate::cli::tensor::NamedTensor;

/// A body of a node of the main graph that ran.
pub(super) struct RanBody {
    /// Which of the nodes with bodies holds it, and by which attribute.
    pub(super) place: (usize, String),
    pub(super) body: BodyId,
    /// The values in it and those around it that it uses, each time that it ran; constants are left
    /// out.
    pub(super) times: Vec<Values>,
    path: String,
    /// What the bodies in it have used since.
    deeper: Values,
}

/// Of how many times the values are kept: of the first ones and the last.
const TIMES: usize = 16;

impl RanBody {
    fn add(&mut self, given: Values, made: Values) {
        let is_begun = |last: &Values| made.keys().any(|name| last.contains_key(name));
        if self.times.last().is_none_or(is_begun) {
            if self.times.len() == TIMES {
                self.times.pop();
            }
            self.times.push(Values::new());
        }
        let deeper = std::mem::take(&mut self.deeper);
        if let Some(time) = self.times.last_mut() {
            time.extend(deeper.into_iter().chain(given).chain(made));
        }
    }
}

/// Keeps what bodies are given and make.
struct BodyRecorder(Vec<RanBody>);

impl Observer for BodyRecorder {
    fn node(&mut self, node: &NodeRun, outputs: &mut [Option<ObservedTensor>]) -> Result<()> {
        for body in &mut self.0 {
            let Some(below) = node.graph.strip_prefix(&*body.path) else { continue };
            let given = values(node.inputs.iter().flatten());
            if below.is_empty() {
                body.add(given, values(outputs.iter().flatten()));
            } else if below.starts_with('/') {
                body.deeper.extend(given);
            }
        }
        Ok(())
    }
}

fn values<'a>(tensors: impl Iterator<Item = &'a ObservedTensor>) -> Values {
    let named = |held: &ObservedTensor| (held.name.to_string(), NamedTensor::observed(held));
    tensors.filter(|held| !held.is_constant).map(named).collect()
}

impl SourceModel {
    /// The main graph's nodes with bodies, counted.
    pub(super) fn holders(&self) -> impl Iterator<Item = (usize, &Node)> {
        let nodes = self.nodes().into_iter().map(|id| self.graph.node(id));
        nodes.filter(|node| !node.bodies().is_empty()).enumerate()
    }

    /// The bodies of the main graph's nodes that run on these inputs. Fails when the model cannot
    /// be run.
    pub(super) fn bodies(&self, inputs: &Values) -> TractResult<Vec<RanBody>> {
        let mut bodies: Vec<RanBody> = vec![];
        for (place, node) in self.holders() {
            bodies.extend(node.bodies().iter().map(|held| RanBody {
                place: (place, held.attribute.clone()),
                body: held.body,
                times: vec![],
                path: format!("{}.{}", node.local_name(), held.attribute),
                deeper: Values::new(),
            }));
        }
        let mut recorder = BodyRecorder(bodies);
        if !recorder.0.is_empty() {
            self.observed(inputs, &mut recorder)?;
        }
        Ok(recorder.0.into_iter().filter(|body| !body.times.is_empty()).collect())
    }

    /// A body as a model of its own, which makes what the body makes of these values; nothing where
    /// it makes nothing. Fails when a tensor cannot be written.
    pub(super) fn opened(&self, body: BodyId, values: &Values) -> TractResult<Option<SourceModel>> {
        let mut graph = self.graph.clone();
        let held = |name: &str| values.get(name);
        graph.open(body, |value| held(self.name(value)).map(type_of));
        let opened = self.with(graph);
        let inputs = opened.inputs().into_iter();
        let given: Vec<_> = inputs.filter_map(|id| Some((id, held(opened.name(id))?))).collect();
        let mut seen = HashSet::new();
        let is_made = |id: &ValueId| opened.graph.maker(*id).is_some();
        let outputs = opened.outputs().into_iter().filter(is_made).filter(|id| seen.insert(*id));
        let wanted: Vec<_> =
            outputs.filter_map(|id| Some((id, Some(held(opened.name(id))?)))).collect();
        if wanted.is_empty() {
            return Ok(None);
        }
        let (graph, _) = opened.part(&given, &wanted, &Table::default())?;
        Ok(Some(self.with(graph)))
    }
}
