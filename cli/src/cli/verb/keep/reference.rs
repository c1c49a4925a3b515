//! The model in FLOAT, what its values are, and runs that are counted.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use anyhow::{Context, ensure};
use onnx_cast_graph::{named_value, subgraphs, tensor_type};
use tract_onnx::pb::{GraphProto, ModelProto};
use tract_onnx::prelude::*;
use tract_onnx_cast::{CastOnnx, ElementType};

use super::suspects::{Broken, NarrowedValues, add_broken, values_of};
use crate::cli::input::declared::Declared;
use crate::cli::input::sets::Set;
use crate::cli::message::single_line;
use crate::cli::progress;
use crate::cli::tensor::NamedTensor;
use crate::cli::work::adapt_inputs::taken_alike;
use crate::cli::work::model::Loader;

/// The most runs of the model, each on one set of inputs; and of how many sets at most each has so
/// many.
pub(super) const RUNS: usize = 30;
const SETS_IN_FULL: usize = 5;
/// How often the model runs on all sets however many there are: in FLOAT, and converted as a whole.
const ALWAYS: usize = 2;

/// Runs models and counts how often.
pub(crate) struct CountedRuns<'a> {
    pub(crate) loader: &'a Loader,
    pub(crate) onnx: CastOnnx,
    pub(crate) folder: Option<&'a Path>,
    pub(crate) to: ElementType,
    pub(crate) sets: &'a [Set],
    /// What the model in FLOAT takes.
    pub(crate) takes: &'a Declared,
    pub(crate) count: usize,
    /// Whether a search alone takes them: others take what they need.
    is_limited: bool,
}

impl<'a> CountedRuns<'a> {
    pub(crate) fn new(
        (loader, onnx, folder): (&'a Loader, CastOnnx, Option<&'a Path>),
        to: ElementType,
        (sets, takes): (&'a [Set], &'a Declared),
        is_limited: bool,
    ) -> CountedRuns<'a> {
        CountedRuns { loader, onnx, folder, to, sets, takes, count: 0, is_limited }
    }

    pub(super) fn run(
        &mut self,
        proto: ModelProto,
        folder: Option<&Path>,
        set: &Set,
    ) -> TractResult<Vec<NamedTensor>> {
        self.count_one();
        let model = self.loader.load(&self.onnx, proto, folder.or(self.folder))?;
        let called = ["the model", "the converted model"];
        let tensors = taken_alike(self.takes, &model.takes, called, set)?;
        Ok(model.run(tensors)?.outputs)
    }

    /// Counts a run that begins, and tells of it.
    pub(super) fn count_one(&mut self) {
        self.count += 1;
        let count = self.count;
        if self.is_limited {
            let most = self.most().max(ALWAYS * self.sets.len());
            progress::tell(format_args!("run {count} of at most {most}"));
        } else {
            progress::tell(format_args!("run {count}"));
        }
    }

    /// Whether all sets can be run once more.
    pub(super) fn has_more(&self) -> bool {
        self.count + self.sets.len() <= self.most()
    }

    fn most(&self) -> usize {
        RUNS * self.sets.len().clamp(1, SETS_IN_FULL)
    }
}

/// The model in FLOAT: what its values are.
#[derive(Default)]
pub(crate) struct Reference {
    /// The outputs of every set.
    pub(super) outputs: Vec<Vec<NamedTensor>>,
    pub(crate) types: HashMap<String, ElementType>,
    /// The FLOAT values of the first set.
    pub(super) values: HashMap<String, Tensor>,
    /// What FLOAT values there are over all sets.
    pub(super) ranges: HashMap<String, NarrowedValues>,
    /// How many of the values are not finite.
    pub(super) broken: Broken,
}

impl Reference {
    pub(crate) fn of(proto: &ModelProto, runs: &mut CountedRuns) -> TractResult<Reference> {
        let graph = proto.graph.as_ref().context("the model holds no graph")?;
        let count = graph.output.len();
        let sequences = sequences(graph, HashSet::new());
        let made = graph.node.iter().flat_map(|node| &node.output);
        let is_tensor = |name: &&String| !name.is_empty() && !sequences.contains(name.as_str());
        let made: Vec<String> = made.filter(is_tensor).cloned().collect();
        let exposed = exposing(proto.clone(), &made);
        let mut reference = Reference::default();
        for input in &graph.input {
            let declared = tensor_type(input.r#type.as_ref());
            let ty = declared.and_then(|tensor| ElementType::from_id(tensor.elem_type));
            reference.types.extend(ty.map(|ty| (input.name.clone(), ty)));
        }
        let sets = runs.sets;
        for (place, set) in sets.iter().enumerate() {
            let mut outputs = runs.run(exposed.clone(), None, set)?;
            add_broken(&mut reference.broken, &outputs)?;
            for output in outputs.iter() {
                reference.types.insert(output.name.clone(), output.ty);
                if output.ty == ElementType::Float {
                    let values = values_of(&output.tensor, runs.to)?;
                    reference.ranges.entry(output.name.clone()).or_default().add(&values);
                    if place == 0 {
                        reference.values.insert(output.name.clone(), output.tensor.clone());
                    }
                }
            }
            outputs.truncate(count);
            reference.outputs.push(outputs);
        }
        let has_floats = reference.types.values().any(|ty| *ty == ElementType::Float);
        ensure!(has_floats, "the model has no FLOAT that could be converted");
        Ok(reference)
    }

    /// The values that are FLOAT.
    pub(super) fn names(&self) -> Vec<String> {
        self.values.keys().cloned().collect()
    }

    /// Whether some of a value is too large for the narrow type.
    pub(super) fn overflows(&self, value: &str) -> bool {
        self.ranges.get(value).is_some_and(NarrowedValues::overflows)
    }

    /// The values of which more are not finite than here.
    pub(super) fn newly<'b>(&self, broken: &'b Broken) -> HashSet<&'b str> {
        let here = |name: &str| self.broken.get(name).copied().unwrap_or(0);
        let newly = broken.iter().filter(|(name, count)| **count > here(name));
        newly.map(|(name, _)| name.as_str()).collect()
    }

    /// Why no conversion can be right.
    pub(crate) fn problem(&self) -> Option<String> {
        let outputs = self.outputs.iter().flatten();
        let mut broken = outputs.filter_map(|output| {
            let range = tract_onnx_cast::audit::range(output.ty, &output.tensor).ok()?;
            let what = match (range.nans, range.infinities) {
                (0, 0) => return None,
                (0, infinities) => format!("{infinities} infinities"),
                (nans, _) => format!("{nans} NaN"),
            };
            let name = single_line(&output.name);
            Some(format!("output `{name}` has {what} in FLOAT too: no list of nodes helps"))
        });
        broken.next()
    }
}

/// The values of a graph that are sequences or optionals, beside those that are known to be.
fn sequences<'g>(graph: &'g GraphProto, mut found: HashSet<&'g str>) -> HashSet<&'g str> {
    for node in &graph.node {
        let is_one = match node.op_type.as_str() {
            "Optional" | "SequenceConstruct" | "SequenceEmpty" | "SequenceErase"
            | "SequenceInsert" | "SequenceMap" | "SplitToSequence" => true,
            "Identity" => node.input.iter().any(|name| found.contains(name.as_str())),
            _ => false,
        };
        found.extend(node.output.iter().filter(|_| is_one).map(String::as_str));
        // A Loop gives the values that it carries on to its body behind the count and the
        // condition, which its body returns alone.
        let skipped = usize::from(node.op_type == "Loop");
        for body in node.attribute.iter().flat_map(subgraphs) {
            let fed = node.input.iter().zip(&body.input).filter(|_| skipped == 1);
            let carried = fed.filter(|(given, _)| found.contains(given.as_str()));
            let carried = carried.map(|(_, input)| input.name.as_str());
            let inner = sequences(body, found.iter().copied().chain(carried).collect());
            let made = node.output.iter().zip(body.output.iter().skip(skipped));
            let made = made.filter(|(_, returned)| inner.contains(returned.name.as_str()));
            found.extend(made.map(|(name, _)| name.as_str()));
        }
    }
    found
}

/// The model with these values, as far as nodes of its main graph make them, as further outputs.
pub(super) fn exposing(mut proto: ModelProto, values: &[String]) -> ModelProto {
    if let Some(graph) = &mut proto.graph {
        let outputs: HashSet<String> = graph.output.iter().map(|o| o.name.clone()).collect();
        let made: HashSet<&str> =
            graph.node.iter().flat_map(|node| &node.output).map(String::as_str).collect();
        let is_inner = |value: &&String| made.contains(value.as_str()) && !outputs.contains(*value);
        let inner = values.iter().filter(is_inner);
        graph.output.extend(inner.map(named_value));
    }
    proto
}
