//! `onnx-cast keep`: the smallest set of nodes to keep in FLOAT when a model is converted.

mod minimal;
mod node_lists;
mod simulated;
mod suspects;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use clap::Args;
use serde::{Deserialize, Serialize};
use simulated::{Original, exposing};
use suspects::{Values, jumps, values_of};
use tract_onnx::pb::{ModelProto, NodeProto};
use tract_onnx::prelude::*;
use tract_onnx_cast::{CastOnnx, ElementType, HalfArithmetic};

use crate::cli::args::input::{InputArgs, SetsArgs};
use crate::cli::args::report::JsonArgs;
use crate::cli::args::resources::Resources;
use crate::cli::args::tolerance::ToleranceArgs;
use crate::cli::found::status::Status;
use crate::cli::input::saved::{self, Content};
use crate::cli::input::sets::{self, Provenance, Set};
use crate::cli::measure::metrics::Metrics;
use crate::cli::measure::tolerance::Tolerance;
use crate::cli::message::single_line;
use crate::cli::process::jobs::ask;
use crate::cli::process::progress;
use crate::cli::process::request::{Request, Verb};
use crate::cli::report::destinations::{check_files, write_json};
use crate::cli::report::json;
use crate::cli::report::terminal::{Output, print_notes};
use crate::cli::tensor::NamedTensor;
use crate::cli::work::model::Loader;
use minimal::minimal;
use node_lists::NodeLists;

/// Find the smallest set of nodes to keep in FLOAT when a model is converted to FLOAT16 or BFLOAT16.
///
/// One run of the model shows which nodes make, take or hold values that the narrow type cannot hold. The conversion is then
/// simulated: every FLOAT tensor is rounded, weights as onnxconverter-common clips them, save inside the nodes that are kept.
/// The list is tried with nodes left out until it fails without any one of them, in at most 30 runs of the model.
///
/// Without a tolerance the outputs may be off by --rtol 1e-2, and where no list passes by that, by --atol 1e-2 too.
///
/// The exit status is 1 if no list will do: the outputs are NaN or infinite in FLOAT too, or the conversion fails with every
/// node kept.
#[derive(Args)]
#[command(after_help = "Examples:
  onnx-cast keep model.onnx --to FLOAT16 -i x=x.npy
  onnx-cast keep model.onnx --to BFLOAT16 --rtol 2e-2 --atol 1e-3 --json=keep.json")]
pub(crate) struct Keep {
    /// The model in FLOAT, or a folder with a model.onnx and test_data_set_* folders.
    #[arg(value_name = "MODEL")]
    model: PathBuf,
    /// What the model is to be converted to.
    #[arg(long = "to", value_name = "TYPE", value_parser = ["FLOAT16", "BFLOAT16"])]
    ty: String,
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    sets: SetsArgs,
    #[command(flatten)]
    tolerance: ToleranceArgs,
    #[command(flatten)]
    to: JsonArgs,
}

/// What an output may be off by where nobody says, and what besides where no list passes by that alone.
const RTOL: f64 = 1e-2;
const ATOL: f64 = 1e-2;

impl Keep {
    /// What every output is judged by, and what by where no list passes by that.
    fn tolerances(&self) -> (Tolerance, Option<Tolerance>) {
        let given = self.tolerance.of_every_output();
        if given != Tolerance::default() {
            return (given, None);
        }
        let tolerance = Tolerance { rtol: Some(RTOL), ..given };
        (tolerance, Some(Tolerance { atol: Some(ATOL), ..tolerance }))
    }
}

/// What `--json` prints.
#[derive(Serialize)]
struct Report<'a> {
    model: String,
    to: &'a str,
    #[serde(flatten)]
    kept: &'a NodeList,
    formats: &'a NodeLists,
}

impl Verb for Keep {
    type Request = KeepRequest;

    /// Finds the list and shows it as converters take it.
    fn run(self, resources: Resources, output: &mut Output) -> anyhow::Result<Status> {
        let written = [("--json", self.to.json.as_ref())];
        check_files(&written, &self.input, [self.model.as_path()].into_iter())?;
        let (tolerance, fallback) = self.tolerances();
        let mut input = self.input.with_sets(self.sets);
        // Each set is a run.
        input.sets = input.sets.or(Some(1));
        let request = KeepRequest { model: self.model, to: self.ty, input, tolerance, fallback };
        let kept = ask(&request, resources)?;
        print_notes(&request.model, &kept.notes);
        let names: Vec<&str> = kept.keep.iter().map(|node| node.node.as_str()).collect();
        let formats = NodeLists::of(&names, request.to == "BFLOAT16");
        let (model, to) = (request.model.display().to_string(), request.to.as_str());
        let text = text(&model, to, &kept, &formats);
        let report = Report { model, to, kept: &kept, formats: &formats };
        write_json(&self.to, &|| json::document("keep", &report), &text, output)?;
        Ok(if kept.problem.is_none() { Status::Passed } else { Status::Failed })
    }
}

fn text(model: &str, to: &str, kept: &NodeList, formats: &NodeLists) -> String {
    let runs = kept.runs;
    if let Some(problem) = &kept.problem {
        return format!("{model} as {to}: {problem} ({runs} runs)");
    }
    if kept.keep.is_empty() {
        return format!("{model} as {to}: no node needs to stay in FLOAT ({runs} runs)");
    }
    let count = kept.keep.len();
    let confirmed = if kept.confirmed {
        "with any one less the conversion fails"
    } else {
        "not each was tried alone"
    };
    let mut lines =
        vec![format!("{model} as {to}: keep {count} node(s) in FLOAT, {confirmed} ({runs} runs)")];
    for node in &kept.keep {
        lines.push(format!("{} `{}`: {}", node.op_type, single_line(&node.node), node.why));
    }
    lines.push(String::new());
    lines.extend(formats.lines());
    lines.join("\n")
}

/// The most runs of the model, each on one set of inputs.
const RUNS: usize = 30;

/// A model to be converted.
#[derive(Serialize, Deserialize)]
pub(crate) struct KeepRequest {
    pub(crate) model: PathBuf,
    /// FLOAT16 or BFLOAT16.
    pub(crate) to: String,
    pub(crate) input: InputArgs,
    pub(crate) tolerance: Tolerance,
    /// What it is judged by where no list passes by `tolerance`, if nobody has asked for that.
    pub(crate) fallback: Option<Tolerance>,
}

/// What was found.
#[derive(Serialize, Deserialize)]
pub(crate) struct NodeList {
    pub(crate) keep: Vec<ListedNode>,
    /// How often the model was run.
    pub(crate) runs: usize,
    /// Whether the simulated conversion passes with the list, and fails with any one node less.
    pub(crate) confirmed: bool,
    /// What outputs were judged by.
    pub(crate) tolerance: Tolerance,
    /// Why there is no list.
    pub(crate) problem: Option<String>,
    pub(crate) notes: Vec<String>,
}

/// A node to keep in FLOAT.
#[derive(Serialize, Deserialize)]
pub(crate) struct ListedNode {
    pub(crate) node: String,
    pub(crate) op_type: String,
    pub(crate) why: String,
    /// Whether the conversion has been seen to fail where it alone is not kept.
    pub(crate) needed: bool,
}

impl Request for KeepRequest {
    const NAME: &'static str = "keep";

    type Answer = NodeList;

    fn answer(&self, loader: &Loader) -> TractResult<NodeList> {
        let Content::Model(file, cases) = saved::read(&self.model)? else {
            bail!("holds saved outputs, not a model");
        };
        let to = ElementType::from_name(&self.to).context("no such type")?;
        let model = loader.open(&file)?;
        let sets = match (&cases[..], self.input.inputs.is_empty()) {
            ([_, ..], true) => {
                self.input.check_nothing_is_random("those beside the model are recorded")?;
                sets::of_cases(&model.takes, &cases)?
            }
            _ => sets::gather(&model.takes, &file, &self.input)?,
        };
        let folder = file.parent();
        let onnx = loader.onnx().with_half_arithmetic(HalfArithmetic::Widened);
        let proto = loader.read(&file)?;
        let mut runner = Runner { loader, onnx, folder, to, sets: &sets, runs: 0 };
        let reference = Reference::of(&proto, &mut runner)?;
        let notes = notes(&sets, &proto);
        if let Some(problem) = reference.problem() {
            return Ok(NodeList::none(problem, runner.runs, self.tolerance, notes));
        }
        let original = Original::new(proto, folder, to, reference.types.clone())?;
        let mut search =
            Search { original, reference, runner, tolerance: self.tolerance, seen: HashMap::new() };
        let kept = search.find(notes)?;
        match (&kept.problem, self.fallback) {
            (Some(problem), Some(fallback)) if search.runner.has_more() => {
                let rtol = self.tolerance.rtol.unwrap_or_default();
                let note = format!("no list passes by rtol {rtol} alone: {problem}");
                (search.tolerance, search.seen) = (fallback, HashMap::new());
                search.find([kept.notes, vec![note]].concat())
            }
            _ => Ok(kept),
        }
    }

    fn model(&self) -> &Path {
        &self.model
    }

    fn places(&self) -> Vec<PathBuf> {
        self.input.files().chain([self.model.clone()]).collect()
    }
}

impl NodeList {
    fn none(problem: String, runs: usize, tolerance: Tolerance, notes: Vec<String>) -> NodeList {
        let problem = Some(problem);
        NodeList { keep: vec![], runs, confirmed: false, tolerance, problem, notes }
    }
}

/// What to know about the inputs, and about nodes that cannot be told apart.
fn notes(sets: &[Set], proto: &ModelProto) -> Vec<String> {
    let mut notes: Vec<String> = sets.iter().flat_map(|set| set.notes.iter().cloned()).collect();
    for set in sets {
        if let Provenance::Random { seed, .. } = &set.provenance {
            notes.push(format!(
                "the inputs are random, of seed {seed}: what real ones need (-i) may be more"
            ));
        }
    }
    let nodes = proto.graph.as_ref().map_or(&[][..], |graph| &graph.node);
    let unnamed = nodes.len() - named(nodes).len();
    if unnamed > 0 {
        notes
            .push(format!("{unnamed} node(s) have no name of their own, so no list can hold them"));
    }
    if nodes.iter().any(|node| node.attribute.iter().any(|a| a.g.is_some() || !a.graphs.is_empty()))
    {
        notes.push("what is in subgraphs is taken to stay FLOAT, save its results".into());
    }
    notes
}

/// The places of the nodes with a name that no other node has.
fn named(nodes: &[NodeProto]) -> Vec<usize> {
    let mut count: HashMap<&str, usize> = HashMap::new();
    for node in nodes {
        *count.entry(&node.name).or_default() += 1;
    }
    let is_named = |node: &NodeProto| !node.name.is_empty() && count.get(&*node.name) == Some(&1);
    (0..nodes.len()).filter(|place| nodes.get(*place).is_some_and(is_named)).collect()
}

/// Runs models and counts how often.
struct Runner<'a> {
    loader: &'a Loader,
    onnx: CastOnnx,
    folder: Option<&'a Path>,
    to: ElementType,
    sets: &'a [Set],
    runs: usize,
}

impl Runner<'_> {
    fn run(&mut self, proto: ModelProto, set: &Set) -> TractResult<Vec<NamedTensor>> {
        self.runs += 1;
        progress::tell(format_args!("run {}", self.runs));
        let model = self.loader.load(&self.onnx, proto, self.folder)?;
        Ok(model.run(set.tensors()?)?.outputs)
    }

    /// Whether all sets can be run once more.
    fn has_more(&self) -> bool {
        self.runs + self.sets.len() <= RUNS
    }
}

/// The model in FLOAT: what its values are.
struct Reference {
    /// The outputs of every set.
    outputs: Vec<Vec<NamedTensor>>,
    types: HashMap<String, ElementType>,
    /// The FLOAT values of the first set.
    values: HashMap<String, Tensor>,
    /// What FLOAT values there are over all sets.
    ranges: HashMap<String, Values>,
}

impl Reference {
    fn of(proto: &ModelProto, runner: &mut Runner) -> TractResult<Reference> {
        let graph = proto.graph.as_ref().context("the model holds no graph")?;
        let count = graph.output.len();
        let made = graph.node.iter().flat_map(|node| &node.output).filter(|name| !name.is_empty());
        let made: Vec<String> = made.cloned().collect();
        let exposed = exposing(proto.clone(), &made);
        let mut reference = Reference {
            outputs: vec![],
            types: HashMap::new(),
            values: HashMap::new(),
            ranges: HashMap::new(),
        };
        for input in &graph.input {
            let inputs = input.r#type.as_ref().and_then(|ty| match &ty.value {
                Some(tract_onnx::pb::type_proto::Value::TensorType(tensor)) => {
                    ElementType::from_id(tensor.elem_type)
                }
                _ => None,
            });
            reference.types.extend(inputs.map(|ty| (input.name.clone(), ty)));
        }
        let sets = runner.sets;
        for (place, set) in sets.iter().enumerate() {
            let mut outputs = runner.run(exposed.clone(), set)?;
            for output in outputs.iter() {
                reference.types.insert(output.name.clone(), output.ty);
                if output.ty == ElementType::Float {
                    let values = values_of(&output.tensor, runner.to)?;
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

    /// Why no conversion can be right.
    fn problem(&self) -> Option<String> {
        let outputs = self.outputs.iter().flatten();
        let mut broken = outputs.filter_map(|output| {
            let range = tract_onnx_cast::audit::range(output.ty, &output.tensor).ok()?;
            let what = match (range.nans, range.infinities) {
                (0, 0) => return None,
                (0, infinities) => format!("{infinities} infinities"),
                (nans, _) => format!("{nans} NaN"),
            };
            let name = single_line(&output.name);
            Some(format!("output `{name}` has {what} in FLOAT too: no list of nodes mends that"))
        });
        broken.next()
    }
}

/// The search for the smallest list.
struct Search<'a> {
    original: Original,
    reference: Reference,
    runner: Runner<'a>,
    tolerance: Tolerance,
    /// What is wrong with a conversion that keeps these nodes; nothing if it passes.
    seen: HashMap<BTreeSet<usize>, Option<String>>,
}

impl Search<'_> {
    fn find(&mut self, notes: Vec<String>) -> TractResult<NodeList> {
        let (order, failed) = self.order()?;
        if !failed {
            return self.list(&[], &HashSet::new(), notes);
        }
        let told = self.original.note().filter(|note| !notes.contains(note));
        let notes: Vec<String> = notes.into_iter().chain(told).collect();
        let first = order.iter().filter(|node| !self.damage(**node).is_empty()).count();
        let mut passing = order.get(..first).unwrap_or_default().to_vec();
        if first == 0 || self.passes(&passing)? != Some(true) {
            if self.passes(&order)? != Some(true) {
                let problem = self.seen.get(&order.iter().copied().collect()).cloned().flatten();
                let problem = problem.unwrap_or_else(|| "the runs are used up".into());
                let to = self.runner.to;
                let problem = format!(
                    "{problem}, even with every node that has a name kept in FLOAT: no list makes a {to} conversion pass"
                );
                return Ok(NodeList::none(problem, self.runner.runs, self.tolerance, notes));
            }
            // The shortest part of the order that passes, by halves.
            let (mut fails, mut passes) = (first, order.len());
            while passes - fails > 1 && self.runner.has_more() {
                let middle = fails + (passes - fails) / 2;
                match self.passes(order.get(..middle).unwrap_or_default())? {
                    Some(true) => passes = middle,
                    Some(false) => fails = middle,
                    None => break,
                }
            }
            passing = order.get(..passes).unwrap_or_default().to_vec();
        }
        // The least suspicious first.
        passing.reverse();
        let found = minimal(passing, |rest| self.passes(rest))?;
        self.list(&found.kept, &found.needed, notes)
    }

    /// The nodes that may be kept, the most suspicious first, and whether the conversion that keeps none fails.
    fn order(&mut self) -> TractResult<(Vec<usize>, bool)> {
        let nodes = self.original.nodes();
        let is_candidate = |place: &usize| {
            nodes.get(*place).is_some_and(|node| {
                let mut values = node.input.iter().chain(&node.output);
                values.any(|value| self.original.is_float(value))
                    && !self.original.is_never_converted(node)
            })
        };
        let candidates: Vec<usize> = named(nodes).into_iter().filter(is_candidate).collect();
        let values: Vec<String> = self.reference.values.keys().cloned().collect();
        let proto = exposing(self.original.converted(&HashSet::new()), &values);
        let mut failure = None;
        let mut jump = HashMap::new();
        let sets = self.runner.sets;
        for (place, set) in sets.iter().enumerate() {
            let mut outputs = self.runner.run(proto.clone(), set)?;
            if place == 0 {
                jump = jumps(self.original.nodes(), &self.reference.values, &outputs)?;
            }
            let wanted = self.reference.outputs.get(place).map_or(&[][..], |wanted| wanted);
            outputs.truncate(wanted.len());
            failure = failure.or(self.failure(wanted, &outputs)?);
        }
        let failed = failure.is_some();
        self.seen.insert(BTreeSet::new(), failure);
        let mut order = candidates;
        order.sort_by(|a, b| {
            let score = |node: &usize| {
                let jump = jump.get(node).copied().unwrap_or(0.0);
                if self.damage(*node).is_empty() { jump } else { f64::INFINITY }
            };
            score(b).total_cmp(&score(a)).then(a.cmp(b))
        });
        Ok((order, failed))
    }

    /// Whether the conversion that keeps these nodes passes; `None` if the runs are used up.
    fn passes(&mut self, kept: &[usize]) -> TractResult<Option<bool>> {
        let key: BTreeSet<usize> = kept.iter().copied().collect();
        if let Some(seen) = self.seen.get(&key) {
            return Ok(Some(seen.is_none()));
        }
        if !self.runner.has_more() {
            return Ok(None);
        }
        let proto = self.original.converted(&kept.iter().copied().collect());
        let mut failure = None;
        let sets = self.runner.sets;
        for (place, set) in sets.iter().enumerate() {
            let outputs = self.runner.run(proto.clone(), set)?;
            let wanted = self.reference.outputs.get(place).map_or(&[][..], |wanted| wanted);
            failure = self.failure(wanted, &outputs)?;
            if failure.is_some() {
                break;
            }
        }
        let passes = failure.is_none();
        self.seen.insert(key, failure);
        Ok(Some(passes))
    }

    /// What is wrong with outputs.
    fn failure(
        &self,
        wanted: &[NamedTensor],
        outputs: &[NamedTensor],
    ) -> TractResult<Option<String>> {
        for (want, got) in wanted.iter().zip(outputs) {
            let mut metrics = Metrics::new(want, got, self.tolerance);
            metrics.add(want, got)?;
            let compared = metrics.finish();
            if !compared.passed {
                let name = single_line(&compared.name);
                let what = compared.problem.or(compared.first_mismatch).unwrap_or_default();
                let (of, elements) = (compared.mismatches, compared.elements);
                return Ok(Some(format!(
                    "output `{name}`: {of} of {elements} beyond the tolerance, {what}"
                )));
            }
        }
        Ok(None)
    }

    /// What the narrow type does to the values that a node makes, takes and holds.
    fn damage(&self, node: usize) -> Vec<String> {
        let Some(node) = self.original.nodes().get(node) else { return vec![] };
        let ends = |value: &String| {
            self.reference.ranges.get(value).and_then(|values| values.overflow(self.runner.to))
        };
        let mut damage = vec![];
        for (what, values) in [("makes", &node.output), ("takes", &node.input)] {
            for value in values.iter() {
                let name = single_line(value);
                damage.extend(ends(value).map(|told| format!("{what} `{name}`, {told}")));
            }
        }
        for value in &node.input {
            if let Some((before, after)) = self.original.spoiled_weight(value) {
                let name = single_line(value);
                damage.push(format!("holds `{name}`, whose {before} becomes {after}"));
            }
        }
        damage
    }

    fn list(
        &self,
        kept: &[usize],
        needed: &HashSet<usize>,
        notes: Vec<String>,
    ) -> TractResult<NodeList> {
        let mut kept = kept.to_vec();
        kept.sort_unstable();
        let all: BTreeSet<usize> = kept.iter().copied().collect();
        let keep = kept.iter().filter_map(|place| {
            let node = self.original.nodes().get(*place)?;
            let mut without = all.clone();
            without.remove(place);
            let failure = self.seen.get(&without).cloned().flatten();
            let mut why = self.damage(*place);
            why.truncate(2);
            why.push(match failure {
                Some(failure) => format!("without it {failure}"),
                None => format!("not tried without it alone: {RUNS} runs are the most"),
            });
            Some(ListedNode {
                node: node.name.clone(),
                op_type: node.op_type.clone(),
                why: why.join("; "),
                needed: needed.contains(place),
            })
        });
        let keep: Vec<ListedNode> = keep.collect();
        let confirmed = keep.iter().all(|node| node.needed);
        let (runs, tolerance) = (self.runner.runs, self.tolerance);
        Ok(NodeList { keep, runs, confirmed, tolerance, problem: None, notes })
    }
}
