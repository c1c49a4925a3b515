//! `onnx-cast compare`: a model against its conversions.

mod bodies;
mod divergence;
mod dumped;
mod error_profile;
mod inner;
mod main_graph;
mod open;
mod pairs;
mod runner;

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use anyhow::ensure;
use bodies::{had_bodies, spread};
use clap::Args;
use divergence::{Growth, changes, parting};
use dumped::Dumped;
use error_profile::profile;
use inner::{Inner, inner_tensors};
use main_graph::MainGraph;
use open::Sides;
use runner::Runner;
use serde::{Deserialize, Serialize};
use tract_onnx::pb::ModelProto;
use tract_onnx::prelude::*;
use tract_onnx_cast::Family;

use crate::cli::args::input::{InputArgs, SetsArgs};
use crate::cli::args::report::ReportArgs;
use crate::cli::args::resources::Resources;
use crate::cli::args::tolerance::{ToleranceArgs, parse_output};
use crate::cli::found::compared::{CastChanges, Compared, ComparedTensor, Parting};
use crate::cli::found::headroom;
use crate::cli::found::limits::Limits;
use crate::cli::found::profile::Profile;
use crate::cli::found::status::Status;
use crate::cli::found::weights::ComparedWeights;
use crate::cli::input::cases::file_of;
use crate::cli::measure::metrics::Metrics;
use crate::cli::measure::pairing::{Pairs, pair};
use crate::cli::measure::tolerance::Tolerance;
use crate::cli::message::{ErrorKind, Problem, add_once, at, one_line};
use crate::cli::process::jobs::ask_all;
use crate::cli::process::request::{Request, Verb};
use crate::cli::report::destinations::{Report, check_places};
use crate::cli::report::terminal::Output;
use crate::cli::report::{json, junit, markdown, model_explorer, page, plain_text};
use crate::cli::tensor::NamedTensor;
use crate::cli::work::model::Loader;
use crate::cli::work::probed::casts_of;
use crate::cli::work::watched::unexercised;
use crate::cli::work::weights::Weights;

/// Compare a model with its conversion, on the same inputs.
///
/// REFERENCE and CONVERTED are models; folders with a model.onnx, whose test_data_set_* folders then give the inputs; or
/// outputs that were saved, by any runtime: a folder of output_*.pb files, a .pb, a .npy or a .npz; with inner tensors by name, a
/// folder of .pb files, a .npz, or the .json of Polygraphy. Outputs are matched by name, and by
/// position where no name is shared. Their element types may differ. With -i, a folder stands for the sets of inputs in it.
///
/// Without a tolerance values must be the same. With --rtol and --atol a value passes when
/// |got − want| ≤ atol + rtol·|want|, with --ulp when it is that many units in the last place of the coarser type away; one
/// of the two is enough. --cosine asks for a least cosine similarity of the whole output, --sqnr for
/// a least ratio of its signal to the noise. NaN only passes for NaN, and an
/// infinity for itself.
#[derive(Args)]
#[command(after_help = "Examples:
  onnx-cast compare model.onnx model_fp16.onnx --rtol 1e-2 --atol 1e-3
  onnx-cast compare model.onnx slim.onnx fp16.onnx --all-tensors --report compare.html
  onnx-cast compare model.onnx saved_outputs/ -i x=x.npy --ulp 4
  onnx-cast compare good.npz bad.npz --graph model.onnx --rtol 1e-2
  onnx-cast compare a.onnx b.onnx --rtol 1e-3 --per-output scores:atol=1e-2")]
pub(crate) struct Compare {
    /// What is right.
    reference: PathBuf,
    /// What is to be judged.
    #[arg(required = true)]
    converted: Vec<PathBuf>,
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    sets: SetsArgs,
    #[command(flatten)]
    tolerance: ToleranceArgs,
    /// A tolerance of one output's own.
    #[arg(long, value_name = "NAME:rtol=R,…", value_parser = parse_output)]
    per_output: Vec<(String, Tolerance)>,
    /// Compare every tensor that belongs to one of the other graph, by name, values or structure; else only where the outputs
    /// fail, to find where they part.
    #[arg(long)]
    all_tensors: bool,
    /// The model whose tensors were saved, where both sides were: nodes are then named, and nothing is run. It need not be one
    /// that tract can run.
    #[arg(long, value_name = "MODEL.onnx")]
    graph: Option<PathBuf>,
    #[command(flatten)]
    to: ReportArgs,
}

impl Verb for Compare {
    type Request = CompareRequest;

    /// Compares the reference with every conversion.
    fn run(self, resources: Resources, output: &mut Output) -> anyhow::Result<Status> {
        let read =
            self.converted.iter().chain([&self.reference]).chain(&self.graph).map(PathBuf::as_path);
        check_places(&self.to, &self.input, read)?;
        let request = |converted: &PathBuf| {
            let file = self.to.tolerance.as_deref();
            let (mut limits, limits_file) = Limits::of(&file_of(converted), file)?;
            limits.judge_by(self.tolerance.of_every_output(), &self.per_output);
            Ok(CompareRequest {
                reference: self.reference.clone(),
                converted: converted.clone(),
                input: self.input.with_sets(self.sets),
                limits,
                limits_file,
                // Model Explorer colours every node.
                all_tensors: self.all_tensors || self.to.model_explorer.is_some(),
                graph: self.graph.clone(),
            })
        };
        let requests = self.converted.iter().map(request).collect::<anyhow::Result<Vec<_>>>()?;
        let pairs = ask_all(&requests, self.to.jobs(), resources, |request, problem| {
            let CompareRequest { reference, converted, .. } = request;
            let [reference, converted] =
                [reference, converted].map(|path| path.display().to_string());
            Compared::unusable(reference, converted, problem)
        })?;
        let report = Report {
            json: &|| Ok(json::of_comparisons(&pairs)?),
            page: &|| page::of_comparisons(&pairs, self.to.top),
            markdown: &|| Ok(markdown::of_comparisons(&pairs, self.to.top)),
            junit: &|| Ok(junit::of_comparisons(&pairs)),
            model_explorer: &|| model_explorer::of_comparisons(&pairs),
            text: &|output| plain_text::of_comparisons(&pairs, self.to.shown(), output),
        };
        report.write(&self.to, pairs.iter().map(|pair| pair.error.clone()), output)?;
        Ok(pairs.iter().map(|pair| pair.status).max().unwrap_or(Status::Passed))
    }
}

/// A pair to compare.
#[derive(Serialize, Deserialize)]
pub(crate) struct CompareRequest {
    pub(crate) reference: PathBuf,
    pub(crate) converted: PathBuf,
    pub(crate) input: InputArgs,
    pub(crate) limits: Limits,
    pub(crate) limits_file: Option<PathBuf>,
    pub(crate) all_tensors: bool,
    /// The model of saved tensors.
    pub(crate) graph: Option<PathBuf>,
}

impl Request for CompareRequest {
    const NAME: &'static str = "compare";

    type Answer = Compared;

    fn answer(&self, loader: &Loader) -> TractResult<Compared> {
        let mut sides = Sides::open(
            loader,
            &self.reference,
            &self.converted,
            self.graph.as_deref(),
            &self.input,
        )?;
        if self.all_tensors {
            for side in [&sides.reference, &sides.converted] {
                let name = side.path.display();
                ensure!(
                    side.model.is_some(),
                    "{name}: --all-tensors is for models, these are saved outputs"
                );
            }
        }
        let weights = match (&sides.reference.model, &sides.converted.model) {
            (Some(a), Some(b)) => Some(Weights::of(&a.probed.holder(), &b.probed.holder())?),
            _ => None,
        };
        let (count, mut notes) = (sides.count()?, std::mem::take(&mut sides.notes));
        let mut reference = Runner::of(&sides.reference, &sides.converted, &mut notes);
        let mut converted = Runner::of(&sides.converted, &sides.reference, &mut notes);
        let mut metrics = OutputMetrics::default();
        let mut dumped = Dumped::of(&sides);
        for place in 0..count {
            let a = reference.outputs(place, &sides.reference_sets, &mut notes)?;
            let b = converted.outputs(place, &sides.converted_sets, &mut notes)?;
            let (a, b) = dumped.add(a, b, &self.limits, &mut notes)?;
            metrics.add(&a, &b, &self.limits, &mut notes)?;
        }
        let outputs = metrics.finish(&self.limits)?;
        let mut tensors = dumped.finish();
        let failed = outputs.iter().chain(&tensors).any(|tensor| !tensor.passed);
        let renamed_weights = weights.as_ref().map(|weights| weights.names.clone());
        let weights = weights.map(|mut weights| {
            notes.append(&mut weights.notes);
            weights.judged(converted.exercise(), failed)
        });
        let rows = converted.rows();
        let mut casts = (CastChanges::default(), vec![]);
        let mut profiled = Profile::default();
        let (mut largest_jump, mut first_difference) = (None, None);
        let (mut first_damage, mut first_beyond) = (None, None);
        if let (Some(a), Some(b)) = (&sides.reference.model, &sides.converted.model) {
            let mut inner = Inner::default();
            let is_wanted = self.all_tensors || failed;
            let (spread_a, spread_b) = (spread(&a.probed.proto), spread(&b.probed.proto));
            if is_wanted {
                let found = inner_tensors(
                    (a, b, &renamed_weights.unwrap_or_default()),
                    &sides,
                    self.limits.inner(),
                    &outputs,
                );
                match at("the inner tensors", found) {
                    Ok(found) => {
                        inner = found;
                        let graph = MainGraph::of(&spread_b);
                        let all = inner.tensors.iter().chain(&outputs);
                        let healed = Growth::of(graph, None, all, &outputs).healed();
                        inner.tensors.retain(|tensor| !healed.contains(&tensor.name));
                    }
                    Err(error) => notes.push(one_line(&error)),
                }
            }
            let all = || inner.tensors.iter().chain(&outputs);
            // Of several that stand for one, the first is its own counterpart.
            let mut renamed: HashMap<String, String> = HashMap::new();
            for tensor in all() {
                if let Some(name) = &tensor.converted_name {
                    renamed.entry(tensor.name.clone()).or_insert(name.clone());
                }
            }
            casts = (
                changes(a, b, &renamed),
                [casts_of(&rows), b.probed.roundings(&rows, &sides.converted_sets)].concat(),
            );
            if is_wanted && !inner.tensors.is_empty() {
                let is_damaged = |tensor: &&ComparedTensor| {
                    tensor.nan_differences + tensor.infinity_differences > 0
                };
                let is_beyond = |tensor: &&ComparedTensor| tensor.beyond_target > 0;
                let of_a = Some(MainGraph::of(&spread_a));
                let growth = Growth::of(MainGraph::of(&spread_b), of_a, all(), &outputs);
                let parting = |tensor| parting(&growth.graph, tensor, &casts.0, &casts.1, &growth);
                largest_jump = parting(growth.largest().filter(|_| failed));
                first_difference = parting(all().find(|tensor| !tensor.passed));
                first_beyond = parting(all().find(is_beyond));
                first_damage = parting(all().find(is_damaged));
                let places = [&first_damage, &largest_jump, &first_beyond, &first_difference];
                profiled = profile(&spread_b, all(), gravest(places).as_deref());
                notes
                    .extend(places.into_iter().flatten().find_map(|p| closed(p, &spread_b, all())));
                notes.extend(inner.differs_from);
                tensors = if self.all_tensors { inner.tensors } else { vec![] };
            }
        }
        if failed && let Some(proto) = sides.saved_of() {
            let graph = MainGraph::of(proto);
            let all = || tensors.iter().chain(&outputs);
            let growth = Growth::of(graph, None, all(), &outputs);
            let parting = |tensor| parting(&growth.graph, tensor, &casts.0, &casts.1, &growth);
            largest_jump = parting(growth.largest());
            first_difference = parting(all().find(|tensor| !tensor.passed));
            let places = [&first_damage, &largest_jump, &first_beyond, &first_difference];
            profiled = profile(proto, all(), gravest(places).as_deref());
        }
        let is_compared = outputs.iter().any(|output| output.elements > output.both_nan);
        let is_wrong = weights.as_ref().is_some_and(ComparedWeights::has_errors);
        let status =
            if failed || is_wrong || !is_compared { Status::Failed } else { Status::Passed };
        let inputs = sides.inputs();
        let random = inputs.warning(status);
        let warnings = random.into_iter().chain(headroom::warning(casts.1.iter())).collect();
        let identical = outputs.iter().all(|output| output.identical);
        notes.extend(outputs.iter().filter_map(emptiness));
        Ok(Compared {
            reference: self.reference.display().to_string(),
            converted: self.converted.display().to_string(),
            status,
            problem: None,
            error: None,
            sets: count,
            inputs,
            tolerance_file: self.limits_file.as_ref().map(|path| path.display().to_string()),
            identical,
            notes,
            warnings,
            outputs,
            tensors,
            largest_jump,
            first_difference,
            first_damage,
            first_beyond,
            casts: casts.0,
            profile: profiled,
            converted_casts: casts.1,
            weights: weights.unwrap_or_default(),
            unexercised: unexercised(converted.exercise(), &rows),
        })
    }

    fn model(&self) -> &Path {
        &self.reference
    }

    fn subject(&self) -> &Path {
        &self.converted
    }

    fn places(&self) -> Vec<PathBuf> {
        let sides = [&self.reference, &self.converted].map(PathBuf::clone);
        let folder = self.converted.parent().map(PathBuf::from);
        self.input.files().chain(sides).chain(folder).chain(self.graph.clone()).collect()
    }
}

/// A note that models part at a node with bodies, where what is inside could not be compared.
fn closed<'a>(
    parting: &Parting,
    converted: &ModelProto,
    mut tensors: impl Iterator<Item = &'a ComparedTensor>,
) -> Option<String> {
    let tensor = &parting.tensor;
    let name = tensor.converted_name.as_ref().unwrap_or(&tensor.name);
    let mut nodes = converted.graph.iter().flat_map(|graph| &graph.node);
    let node = nodes.find(|node| node.output.contains(name)).filter(|node| had_bodies(node))?;
    let within = format!("{}.", parting.node);
    let is_inside = |tensor: &ComparedTensor| {
        tensor.converted_name.as_ref().unwrap_or(&tensor.name).starts_with(&within)
    };
    let op = &node.op_type;
    (!tensors.any(is_inside)).then(|| {
        format!("`{}` ({op}) has a body, and what is inside could not be compared", parting.node)
    })
}

/// The converted side's name of the tensor where the graphs part for the worst.
fn gravest(partings: [&Option<Parting>; 4]) -> Option<String> {
    let tensor = &partings.into_iter().flatten().next()?.tensor;
    Some(tensor.converted_name.as_ref().unwrap_or(&tensor.name).clone())
}

/// The outputs of both sides, compared a set at a time.
#[derive(Default)]
struct OutputMetrics(Vec<Metrics>);

impl OutputMetrics {
    fn add(
        &mut self,
        reference: &[NamedTensor],
        converted: &[NamedTensor],
        limits: &Limits,
        notes: &mut Vec<String>,
    ) -> TractResult<()> {
        let Pairs { places, note } = pair(reference, converted)?;
        add_once(notes, note);
        for (index, (a, b)) in places.into_iter().enumerate() {
            let (Some(a), Some(b)) = (reference.get(a), converted.get(b)) else { continue };
            if self.0.len() <= index {
                let is_text = |output: &NamedTensor| output.ty.family() == Family::Text;
                if a.ty != b.ty && !is_text(a) && !is_text(b) {
                    notes.push(format!(
                        "output `{}` is {} in the reference and {} converted: their values are compared",
                        a.name, a.ty, b.ty
                    ));
                }
                self.0.push(Metrics::new(a, b, limits.output(&a.name)));
            }
            if let Some(metrics) = self.0.get_mut(index) {
                metrics.add(a, b)?;
            }
        }
        Ok(())
    }

    fn finish(self, limits: &Limits) -> TractResult<Vec<ComparedTensor>> {
        ensure!(!self.0.is_empty(), "there are no outputs to compare");
        let outputs: Vec<ComparedTensor> = self.0.into_iter().map(Metrics::finish).collect();
        let names: Vec<&str> = outputs.iter().map(|output| output.name.as_str()).collect();
        if let Some(name) = limits.unknown_outputs(&names).next() {
            let message =
                format!("there is a tolerance for `{name}`, but the outputs are {names:?}");
            return Err(Problem { kind: ErrorKind::Call, message }.into());
        }
        Ok(outputs)
    }
}

/// A note that the comparison of an output shows nothing, if it does not.
fn emptiness(output: &ComparedTensor) -> Option<String> {
    let name = &output.name;
    match output {
        _ if output.problem.is_some() => None,
        _ if output.elements == 0 => {
            Some(format!("output `{name}` has no elements: nothing was compared"))
        }
        _ if output.both_nan == output.elements => {
            Some(format!("output `{name}` is nothing but NaN on both sides, which shows nothing"))
        }
        _ => None,
    }
}
