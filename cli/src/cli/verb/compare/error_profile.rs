//! The error along the converted graph.

use std::collections::{BTreeSet, HashMap, HashSet};

use onnx_cast_graph::NodeView;
use tract_onnx::pb::ModelProto;

use crate::cli::found::compared::ComparedTensor;
use crate::cli::found::profile::{Neighbour, Profile, ProfilePoint};
use crate::cli::measure::number::Num;
use crate::cli::work::main_graph::MainGraph;

/// How far the drawing goes from its centre, in nodes, and how many nodes it has at most.
const STEPS: usize = 2;
const NEIGHBOURS: usize = 14;

/// The errors of the tensors that were compared, and the nodes about the one that makes `centre`.
pub(super) fn profile<'a>(
    converted: &ModelProto,
    tensors: impl Iterator<Item = &'a ComparedTensor>,
    centre: Option<&str>,
) -> Profile {
    let Some(named) = &converted.graph else { return Profile::default() };
    let graph = ProfileGraph::of(converted);
    let mut points: Vec<ProfilePoint> = tensors.filter_map(|tensor| graph.point(tensor)).collect();
    // An output is an inner tensor as well.
    let mut seen = HashSet::new();
    points.retain(|point| seen.insert(point.tensor.clone()));
    points.sort_by_key(|point| point.depth);
    let around = centre.map_or(vec![], |centre| graph.around(centre, &points));
    Profile { graph: named.name.clone(), points, around }
}

/// The nodes of the main graph, and how many stand before each on the longest way to it.
struct ProfileGraph<'a> {
    graph: MainGraph<'a>,
    depths: Vec<usize>,
}

impl<'a> ProfileGraph<'a> {
    fn of(model: &'a ModelProto) -> ProfileGraph<'a> {
        let graph = MainGraph::of(model);
        // Nodes stand after those that make their inputs, or the model would not have been loaded.
        let mut depths = vec![];
        for node in graph.nodes() {
            let before = node.input.iter().filter_map(|name| depths.get(graph.place(name)?));
            depths.push(before.max().map_or(0, |depth: &usize| depth + 1));
        }
        ProfileGraph { graph, depths }
    }

    fn point(&self, tensor: &ComparedTensor) -> Option<ProfilePoint> {
        let name = tensor.converted();
        let place = self.graph.place(name)?;
        let node = self.graph.nodes().get(place)?;
        let is_measured = tensor.apart() > 0 || tensor.sqnr.is_some();
        (is_measured && tensor.problem.is_none()).then(|| ProfilePoint {
            tensor: name.into(),
            node: node.label().into(),
            op: node.op_type.clone(),
            depth: self.depths.get(place).copied().unwrap_or(0),
            error: Num(tensor.relative_error()),
        })
    }

    /// The nodes on the ways of a few steps to the one that makes a tensor, and from it.
    fn around(&self, centre: &str, points: &[ProfilePoint]) -> Vec<Neighbour> {
        let Some(centre) = self.graph.place(centre) else { return vec![] };
        let mut chosen = vec![centre];
        let (mut before, mut after) = (vec![centre], vec![centre]);
        for _ in 0..STEPS {
            before = before.iter().flat_map(|place| self.inputs(*place)).collect();
            after = after.iter().flat_map(|place| self.readers(*place)).collect();
            for place in before.iter().chain(&after) {
                if chosen.len() < NEIGHBOURS && !chosen.contains(place) {
                    chosen.push(*place);
                }
            }
        }
        chosen.sort_by_key(|place| (self.depths.get(*place).copied(), *place));
        let errors: HashMap<&str, Num> =
            points.iter().map(|point| (point.tensor.as_str(), point.error)).collect();
        let neighbour = |place: &usize| {
            let node = self.graph.nodes().get(*place)?;
            let tensor = node.output.first()?.clone();
            let inputs = self.inputs(*place);
            let from = chosen.iter().enumerate().filter(|(_, other)| inputs.contains(other));
            Some(Neighbour {
                node: node.label().into(),
                op: node.op_type.clone(),
                depth: self.depths.get(*place).copied().unwrap_or(0),
                is_centre: *place == centre,
                from: from.map(|(index, _)| index).collect(),
                error: errors.get(tensor.as_str()).copied(),
                tensor,
            })
        };
        chosen.iter().filter_map(neighbour).collect()
    }

    /// The nodes that make a node's inputs.
    fn inputs(&self, place: usize) -> Vec<usize> {
        let names = self.graph.nodes().get(place).map_or(&[][..], |node| &node.input);
        names.iter().filter_map(|name| self.graph.place(name)).collect()
    }

    /// The nodes that take what a node makes.
    fn readers(&self, place: usize) -> Vec<usize> {
        let made = self.graph.nodes().get(place).map_or(&[][..], |node| &node.output);
        let users = made.iter().flat_map(|name| self.graph.users(name)).copied();
        let users: BTreeSet<usize> = users.collect();
        users.into_iter().take(NEIGHBOURS).collect()
    }
}
