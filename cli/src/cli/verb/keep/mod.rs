//! `onnx-cast keep`: the smallest set of nodes to keep in FLOAT when a model is converted.
//!
//! A `trial` is a conversion of which nodes can be kept: to half precision `simulated` here, to few
//! bits `quantized`. `search` looks for the smallest list by running trials against the
//! `reference`, from what `suspects` says is likely on, and `minimal` leaves out what is not
//! needed. Inputs that show `worse` are searched for, and `node_lists` writes the list as
//! converters take it.

mod minimal;
mod node_lists;
mod quantized;
pub(crate) mod reference;
pub(crate) mod search;
mod simulated;
mod suspects;
pub(crate) mod trial;
mod worse;

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use onnx_cast_graph::has_bodies;
use serde::{Deserialize, Serialize};
use tract_onnx::pb::ModelProto;
use tract_onnx::prelude::TractResult;
use tract_onnx_cast::{ElementType, HalfArithmetic};

use crate::cli::args::half_precision;
use crate::cli::args::report::JsonArgs;
use crate::cli::args::resources::Resources;
use crate::cli::args::tolerance::ToleranceArgs;
use crate::cli::caller::told;
use crate::cli::found::status::Status;
use crate::cli::input::args::{Budget, InputArgs, SearchArgs, SetsArgs};
use crate::cli::input::cases::Case;
use crate::cli::input::saved::{self, Content};
use crate::cli::input::sets::{self, Provenance, Set};
use crate::cli::measure::tolerance::{Tolerance, least_sqnr};
use crate::cli::message::{counted, single_line};
use crate::cli::process::jobs::ask;
use crate::cli::process::request::Request;
use crate::cli::report::destinations::{check_files, write_json};
use crate::cli::report::json;
use crate::cli::report::terminal::{Output, print_notes};
use crate::cli::verb::Verb;
use crate::cli::work::engine::Engine;
use crate::cli::work::half::half_type;
use crate::cli::work::model::{Loader, Model};
use node_lists::NodeLists;
use quantized::QuantizedModel;
use quantized::scheme::Scheme;
use reference::{CountedRuns, Reference};
use search::{NodeList, Search};
use simulated::Original;
use trial::named;

/// Find the nodes that have to stay in FLOAT when a model becomes FLOAT16 or BFLOAT16, or is
/// quantised.
///
/// One run of the model shows which nodes make, take or hold values that the narrow type cannot
/// hold. The conversion is then simulated: every FLOAT tensor is rounded, weights as
/// onnxconverter-common clips them, except inside the nodes that are kept. Nodes are taken off the
/// list until the conversion fails without any one of them, in at most 30 runs of the model on each
/// of up to five sets of inputs. Inputs that nobody gives are three sets, and what a search for
/// worse ones finds. Nodes that overflow without harm to the outputs are kept too, unless --fewest
/// is given.
///
/// Without a tolerance the signal-to-noise ratio of each output has to be at least 40 dB in FLOAT16
/// and 26 dB in BFLOAT16, as for `convert`.
///
/// To INT8, UINT8 and FLOAT8E4M3FN the conversion is that of ONNX Runtime's quantize_static, with
/// scales from the same inputs; to INT4 that of its MatMulNBitsQuantizer. What each quantiser does
/// alone to each output is told, worst first. Without a tolerance outputs may be off by --sqnr 20.
///
/// The exit status is 1 if no list helps: the outputs are NaN or infinite in FLOAT too, or the
/// conversion fails with every node kept.
#[derive(Args)]
#[command(after_help = "Examples:
  onnx-cast keep model.onnx --to FLOAT16 -i x=x.npy
  onnx-cast keep model.onnx --to BFLOAT16 --rtol 2e-2 --atol 1e-3 --json=keep.json
  onnx-cast keep model.onnx --to INT8 --sqnr 25 -i calibration.npz")]
pub(crate) struct Keep {
    /// The model in FLOAT, or a folder with a model.onnx and test_data_set_* folders.
    #[arg(value_name = "MODEL")]
    model: PathBuf,
    /// What the model is to be converted to: FLOAT16, BFLOAT16, INT8, UINT8, FLOAT8E4M3FN or INT4.
    #[arg(long = "to", value_name = "TYPE", value_parser = parse_type)]
    ty: String,
    #[command(flatten, next_help_heading = "Inputs")]
    sets: SetsArgs,
    #[command(flatten, next_help_heading = "Inputs")]
    search: SearchArgs,
    #[command(flatten, next_help_heading = "Tolerance")]
    tolerance: ToleranceArgs,
    /// Keep only what the outputs need, though other nodes overflow.
    #[arg(long, help_heading = "Tolerance")]
    fewest: bool,
    #[command(flatten, next_help_heading = "Reports")]
    to: JsonArgs,
}

/// Reads `--to`, in any case.
fn parse_type(text: &str) -> Result<String, String> {
    let half = half_precision(text).map(String::from);
    let found = half.or_else(|| Scheme::of(text).map(|scheme| scheme.name.into()));
    found.ok_or("it should be FLOAT16, BFLOAT16, INT8, UINT8, FLOAT8E4M3FN or INT4".into())
}

/// How many sets of inputs there are where nobody says.
const SETS: usize = 3;
/// The least ratio of signal to noise of a quantised model's outputs where nobody says: a tenth of
/// their size. To half precision it is that of `convert`.
const SQNR: f64 = 20.0;

impl Keep {
    /// What every output is judged by.
    fn tolerance(&self) -> Tolerance {
        let given = self.tolerance.of_every_output();
        if given != Tolerance::default() {
            return given;
        }
        let half = || least_sqnr(None, &self.ty);
        let least = if Scheme::of(&self.ty).is_some() { SQNR } else { half() };
        Tolerance { sqnr: Some(least), ..given }
    }
}

/// What `--json` prints.
#[derive(Serialize)]
struct KeepReport<'a> {
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
        check_files(&written, &self.sets.input, [self.model.as_path()].into_iter())?;
        let tolerance = self.tolerance();
        let mut input = self.sets.input();
        input.random = !input.takes_recorded(self.model.is_dir());
        let search = self.search.budget(!input.inputs.is_empty() || input.sets.is_some());
        let (model, to, is_fewest) = (self.model, self.ty, self.fewest);
        let keep_inputs = self.search.keep_inputs;
        let request = KeepRequest { model, to, input, search, keep_inputs, tolerance, is_fewest };
        let kept = ask(&request, resources)?;
        print_notes(&request.model, &kept.notes);
        let names: Vec<&str> = kept.keep.iter().map(|node| node.node.as_str()).collect();
        let formats = NodeLists::of(&names, &request.to);
        let (model, to) = (request.model.display().to_string(), request.to.as_str());
        let lines = lines(&model, to, &kept, &formats);
        let report = KeepReport { model, to, kept: &kept, formats: &formats };
        write_json(&self.to, &|| json::document("keep", &report), &lines, output)?;
        Ok(if kept.problem.is_none() { Status::Passed } else { Status::Failed })
    }
}

fn lines(model: &str, to: &str, kept: &NodeList, formats: &NodeLists) -> Vec<String> {
    let runs = counted(kept.runs, "run");
    if let Some(problem) = &kept.problem {
        return vec![format!("{model} as {to}: {problem} ({runs})")];
    }
    if kept.is_quantized {
        let count = counted(kept.quantizers.len(), "quantiser");
        let told = format!("{model} is quantised: what each of {count} does alone ({runs})");
        return [vec![told], ranking(kept)].concat();
    }
    if kept.keep.is_empty() {
        let none = format!("{model} as {to}: no node needs to stay in FLOAT ({runs})");
        return [vec![none], ranking(kept)].concat();
    }
    let count = counted(kept.keep.len(), "node");
    let confirmed = if kept.confirmed {
        "without any one of them the conversion fails or overflows"
    } else {
        "not each was tried alone"
    };
    let mut lines = vec![format!("{model} as {to}: keep {count} in FLOAT, {confirmed} ({runs})")];
    for node in &kept.keep {
        lines.push(format!("{} `{}`: {}", node.op_type, single_line(&node.node), node.why));
    }
    lines.push(String::new());
    lines.extend(formats.lines());
    lines.extend(ranking(kept));
    lines
}

/// What the worst quantisers do alone.
fn ranking(kept: &NodeList) -> Vec<String> {
    const SHOWN: usize = 10;
    let rows = kept.quantizers.iter().take(SHOWN);
    let mut lines: Vec<String> =
        rows.map(|row| format!("{} {}: {}", row.ty, row.kind, row.in_words())).collect();
    if !lines.is_empty() {
        lines.insert(0, String::new());
        let more = kept.quantizers.len().saturating_sub(SHOWN);
        lines.extend(
            (more > 0).then(|| format!("and {}, in --json", counted(more, "more quantiser"))),
        );
    }
    lines
}

/// A model to be converted.
#[derive(Serialize, Deserialize)]
pub(crate) struct KeepRequest {
    pub(crate) model: PathBuf,
    /// FLOAT16 or BFLOAT16, or a type of few bits.
    pub(crate) to: String,
    pub(crate) input: InputArgs,
    /// How far inputs are searched for that show more.
    pub(crate) search: Option<Budget>,
    /// Where the sets of inputs are written.
    pub(crate) keep_inputs: Option<PathBuf>,
    pub(crate) tolerance: Tolerance,
    /// Whether nodes that overflow are left out where the outputs bear it.
    pub(crate) is_fewest: bool,
}

impl Request for KeepRequest {
    const NAME: &'static str = "keep";

    const ENGINE: Engine = Engine::Nodes;

    type Answer = NodeList;

    fn answer(&self, loader: &Loader) -> TractResult<NodeList> {
        let Content::Model(file, cases) = saved::read(&self.model)? else {
            bail!("holds saved outputs, not a model");
        };
        let _made = self.keep_inputs.as_deref().map(sets::try_sets).transpose()?;
        let proto = loader.read(&file)?;
        if let Some(half) = half_type(&proto) {
            bail!("the model is {half} already: `keep` takes the FLOAT original")
        }
        let model = loader.open(&file)?;
        let mut sets = self.sets((&file, &proto), &cases, &model)?;
        let to = ElementType::from_name(&self.to).context("no such type")?;
        let folder = file.parent();
        let onnx = loader.onnx().with_half_arithmetic(HalfArithmetic::Widened);
        let (takes, scheme) = (&model.takes, Scheme::of(&self.to));
        if let Some(budget) = self.search.filter(|_| scheme.is_none()) {
            let (first, onnx) = (sets.get(..1).unwrap_or_default().to_vec(), onnx.clone());
            let mut runs = CountedRuns::new((loader, onnx, folder), to, (&first, takes), false);
            worse::searched(&proto, &mut runs, &mut sets, (budget, self.input.seed))?;
        }
        if let Some(folder) = &self.keep_inputs {
            sets::write_sets(folder, takes, &sets)?;
        }
        let is_limited = scheme.is_none();
        let mut runs = CountedRuns::new((loader, onnx, folder), to, (&sets, takes), is_limited);
        let notes = notes(&sets, &proto);
        if let Some(given) = scheme.and_then(|_| QuantizedModel::of(&proto, folder)) {
            return quantized::ranking(&given, runs, self.tolerance, notes);
        }
        if let Some(scheme) = scheme {
            return quantized::node_list(proto, scheme, runs, self.tolerance, notes);
        }
        let reference = Reference::of(&proto, &mut runs)?;
        if let Some(problem) = reference.problem() {
            return Ok(NodeList::none(problem, runs.count, self.tolerance, notes));
        }
        let original = Original::new(proto, folder, to, reference.types.clone())?;
        Search::new(Box::new(original), reference, runs, self.tolerance, self.is_fewest).find(notes)
    }

    fn model(&self) -> &Path {
        &self.model
    }

    fn places(&self) -> Vec<PathBuf> {
        self.input.files().chain([self.model.clone()]).collect()
    }

    fn output(&self) -> Option<&Path> {
        self.keep_inputs.as_deref()
    }
}

impl KeepRequest {
    /// The sets of inputs: those beside the model, those that are given, or random ones.
    fn sets(
        &self,
        (file, proto): (&Path, &ModelProto),
        cases: &[Case],
        model: &Model,
    ) -> TractResult<Vec<Set>> {
        if !cases.is_empty() && !self.input.random {
            self.input.check_nothing_is_random("those beside the model are recorded")?;
            return sets::of_cases(&model.takes, cases, &self.input);
        }
        let mut sets = sets::gather(&model.source(proto), file, &self.input)?;
        if self.input.sets.is_none() && sets.first().is_some_and(|set| set.recipe().is_some()) {
            // Each set is a run of every trial.
            sets.truncate(SETS);
        }
        Ok(sets)
    }
}

/// What to know about the inputs, and about nodes that cannot be told apart.
fn notes(sets: &[Set], proto: &ModelProto) -> Vec<String> {
    let mut notes: Vec<String> = sets.iter().flat_map(|set| set.notes.iter().cloned()).collect();
    let mut seeds = vec![];
    let mut looks = vec![];
    for set in sets {
        if let Provenance::Random { seed, look, .. } = &set.provenance {
            seeds.push(seed.to_string());
            looks = look.note().into_iter().collect();
        }
    }
    if !seeds.is_empty() {
        let (seeds, seed) = (seeds.join(", "), if seeds.len() == 1 { "seed" } else { "seeds" });
        let given = told("-i", "`inputs`");
        notes.push(format!(
            "the inputs are random, of {seed} {seeds}: real ones ({given}) may need more nodes"
        ));
    }
    notes.extend(looks);
    let nodes = proto.graph.as_ref().map_or(&[][..], |graph| &graph.node);
    let unnamed = nodes.len() - named(nodes).len();
    if unnamed > 0 {
        notes.push(format!("no list can hold {} without a name", counted(unnamed, "node")));
    }
    if nodes.iter().any(has_bodies) {
        notes.push("what is in subgraphs is taken to stay FLOAT, save its results".into());
    }
    notes
}
