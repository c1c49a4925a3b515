//! The fourth stage: where the two graphs part, what their casts have to do with it, and the error
//! along the graph.

use std::collections::HashMap;

use tract_onnx::pb::ModelProto;

use super::divergence::{Growth, changes, divergence};
use super::error_profile::profile;
use super::inner::bodies::{had_bodies, spread};
use super::measure::Measured;
use super::open::{CompareRequest, LoadedModel, Sides};
use crate::cli::found::compared::{Compared, ComparedTensor, Divergence, Divergences};
use crate::cli::found::finding::{Code, FindingRow};
use crate::cli::found::profile::Profile;
use crate::cli::work::half::half_type;
use crate::cli::work::main_graph::MainGraph;
use crate::cli::work::probed::casts_of;

/// Explains what was measured: why the two sides differ.
pub(super) fn explain(
    request: &CompareRequest,
    sides: &Sides,
    measured: &Measured,
    notes: &mut Vec<String>,
) -> Compared {
    let mut explained = Compared { tensors: measured.saved.clone(), ..Compared::default() };
    if let (Some(a), Some(b)) = (&sides.reference.model, &sides.converted.model) {
        explained.of_models((a, b), sides, measured, notes);
        if let Some(inner) = measured.inner.as_ref().filter(|inner| !inner.tensors.is_empty()) {
            explained.tensors = if request.all_tensors { inner.tensors.clone() } else { vec![] };
        }
    } else if measured.failed()
        && let Some(proto) = sides.saved_of()
    {
        let all = || measured.saved.iter().chain(&measured.outputs);
        let growth = Growth::of(MainGraph::of(proto), None, all(), &measured.outputs);
        explained.divergences = Divergences {
            largest_jump: explained.divergence(growth.largest(), &growth),
            first_difference: explained.divergence(all().find(|t| !t.passed), &growth),
            ..Divergences::default()
        };
        explained.profile = explained.error_profile(proto, all());
    }
    explained
}

impl Compared {
    /// How the casts of two models differ, and where the graphs part, if what is inside was
    /// compared.
    fn of_models(
        &mut self,
        (a, b): (&LoadedModel, &LoadedModel),
        sides: &Sides,
        measured: &Measured,
        notes: &mut Vec<String>,
    ) {
        let inner = measured.inner.as_ref();
        let tensors = inner.map_or(&[][..], |inner| &inner.tensors);
        let all = || tensors.iter().chain(&measured.outputs);
        // Of several that stand for one, the first is its own counterpart.
        let mut renamed: HashMap<String, String> = HashMap::new();
        for tensor in all() {
            if let Some(name) = &tensor.converted_name {
                renamed.entry(tensor.name.clone()).or_insert(name.clone());
            }
        }
        self.casts = changes(a, b, &renamed);
        if let (Some(half), None) = (half_type(&a.probed.proto), half_type(&b.probed.proto)) {
            let swapped = format!(
                "the reference is {half} and the converted model is not: the original comes first, then its conversion"
            );
            self.head.rows.push(FindingRow::new(Code::Swapped, swapped));
        }
        let roundings = b.probed.roundings(&measured.rows, &sides.converted_sets);
        self.converted_casts = [casts_of(&measured.rows), roundings].concat();
        if tensors.is_empty() {
            return;
        }
        let (spread_a, spread_b) = (spread(&a.probed.proto), spread(&b.probed.proto));
        let of_a = Some(MainGraph::of(&spread_a));
        let growth = Growth::of(MainGraph::of(&spread_b), of_a, all(), &measured.outputs);
        let failed = measured.failed();
        self.divergences = Divergences {
            largest_jump: self.divergence(growth.largest().filter(|_| failed), &growth),
            first_difference: self.divergence(
                all().find(|t| !t.passed && !t.is_masked()).or_else(|| all().find(|t| !t.passed)),
                &growth,
            ),
            first_beyond: self
                .divergence(all().find(|t| t.beyond_target > 0 && !t.is_masked()), &growth),
            first_damage: self.divergence(all().find(|t| t.apart() > 0), &growth),
        };
        self.profile = self.error_profile(&spread_b, all().filter(|tensor| !tensor.is_masked()));
        let mut places = self.divergences.gravest_first();
        notes.extend(places.find_map(|place| closed(place, &spread_b, all())));
        notes.extend(inner.and_then(|inner| inner.differs_from.clone()));
    }

    fn divergence(&self, tensor: Option<&ComparedTensor>, growth: &Growth) -> Option<Divergence> {
        divergence(tensor?, &self.casts, &self.converted_casts, growth)
    }

    /// The error along a graph, and about the place where the graphs part for the worst.
    fn error_profile<'a>(
        &self,
        graph: &ModelProto,
        tensors: impl Iterator<Item = &'a ComparedTensor>,
    ) -> Profile {
        let gravest = self.divergences.gravest_first().next();
        profile(graph, tensors, gravest.map(|place| place.tensor.converted()))
    }
}

/// A note that models part at a node with bodies, where what is inside could not be compared.
fn closed<'a>(
    place: &Divergence,
    converted: &ModelProto,
    mut tensors: impl Iterator<Item = &'a ComparedTensor>,
) -> Option<String> {
    let tensor = &place.tensor;
    let name = tensor.converted();
    let mut nodes = converted.graph.iter().flat_map(|graph| &graph.node);
    let node = nodes
        .find(|node| node.output.iter().any(|made| made == name))
        .filter(|node| had_bodies(node))?;
    let within = format!("{}.", place.node);
    let is_inside = |tensor: &ComparedTensor| tensor.converted().starts_with(&within);
    let op = &node.op_type;
    (!tensors.any(is_inside)).then(|| {
        format!("`{}` ({op}) has a body, and what is inside could not be compared", place.node)
    })
}
