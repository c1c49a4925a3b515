//! A conversion at work: converted, searched for what must stay, written, read again, compared.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::{Deserialize, Serialize};
use tract_onnx::prelude::TractResult;
use tract_onnx_cast::convert::{Converted, Options, WeightFormat, convert_file};
use tract_onnx_cast::{ElementType, HalfArithmetic};

use super::trial::{Written, write};
use crate::cli::found::compared::Compared;
use crate::cli::found::finding::{Code, Severity};
use crate::cli::found::head::Head;
use crate::cli::found::limits::ToleranceLimits;
use crate::cli::found::status::Status;
use crate::cli::input::args::InputArgs;
use crate::cli::input::cases::Case;
use crate::cli::input::sets;
use crate::cli::input_file::read_regular_text;
use crate::cli::measure::tolerance::Tolerance;
use crate::cli::message::{ProblemKind, about, counted, size_in_words};
use crate::cli::output_file::{Drafts, folder_of};
use crate::cli::process::request::Request;
use crate::cli::progress;
use crate::cli::report::page;
use crate::cli::verb::compare::{CompareRequest, with_way_out};
use crate::cli::verb::keep::reference::{CountedRuns, Reference};
use crate::cli::verb::keep::search::{NodeList, Search};
use crate::cli::work::engine::Engine;
use crate::cli::work::model::Loader;

/// A model to be converted.
#[derive(Serialize, Deserialize)]
pub(crate) struct ConvertRequest {
    pub(super) model: PathBuf,
    /// The sets of inputs beside it that it is judged on; else `input` says which.
    pub(super) cases: Vec<Case>,
    pub(super) output: PathBuf,
    /// Nothing where only weights become others.
    pub(super) to: Option<String>,
    pub(super) from: Vec<String>,
    pub(super) weights: Option<String>,
    pub(super) block: Option<usize>,
    pub(super) opset: Option<i64>,
    pub(super) keep: Vec<String>,
    pub(super) keep_ops: Vec<String>,
    pub(super) keep_from: Option<PathBuf>,
    pub(super) convert_io: bool,
    pub(super) is_unverified: bool,
    pub(super) input: InputArgs,
    pub(super) tolerance: Tolerance,
    /// Whether it was given, and rules alone.
    pub(super) has_tolerance: bool,
}

/// What became of it, as `--json` prints it.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct ConvertAnswer {
    model: String,
    /// Where the converted model is; nothing if it was not written.
    output: Option<String>,
    to: String,
    /// What takes or makes values of the type that is converted and stays as it is.
    pub(super) kept: Vec<UnconvertedNode>,
    /// Nodes with values that were converted.
    nodes: usize,
    weights: usize,
    /// Weights that are stored in few bits, and as what, if that was asked for.
    coded_weights: usize,
    coded_as: Option<String>,
    /// Casts in the converted model, and those that were added and removed.
    casts: usize,
    added_casts: usize,
    removed_casts: usize,
    /// What was mended before, as the model contradicted itself.
    mended: usize,
    /// Of the model, in bytes, external data included.
    size_before: u64,
    /// Of what was written, external data included.
    size_after: u64,
    /// `holds`, `fails` or `unverified`.
    verdict: String,
    /// Whether it was judged by a tolerance that was given.
    is_judged_by_tolerance: bool,
    /// Why it was not written.
    pub(super) problem: Option<String>,
    pub(super) notes: Vec<String>,
    /// The comparison of what was written with the original.
    pub(super) compared: Option<Compared>,
}

/// A node that stays.
#[derive(Serialize, Deserialize)]
pub(super) struct UnconvertedNode {
    pub(super) node: String,
    pub(super) op: String,
    graph: String,
    pub(super) why: String,
}

impl ConvertAnswer {
    /// What became of it, in lines.
    pub(super) fn lines(&self) -> Vec<String> {
        let ConvertAnswer { casts, added_casts, removed_casts, .. } = self;
        let nodes = counted(self.nodes, "node");
        let weights = counted(self.weights, "weight");
        let mut lines = vec![match (&self.output, &self.problem) {
            (Some(output), _) => format!(
                "PASS  {output}: {}, {}; {} had {}",
                self.verdict,
                size_in_words(self.size_after),
                self.model,
                size_in_words(self.size_before)
            ),
            (None, problem) => format!(
                "FAIL  nothing is written: {}; {}--unverified writes it all the same{}",
                problem.as_deref().unwrap_or_default(),
                if self.is_judged_by_tolerance {
                    ""
                } else {
                    "a tolerance (--rtol, --sqnr) may allow it, "
                },
                // Of nodes that stay in FLOAT the best were searched.
                if self.coded_weights > 0 { ", --keep leaves weights as they are" } else { "" },
            ),
        }];
        if self.output.is_some() && !self.to.is_empty() {
            lines.push(format!(
                "{nodes} and {weights} as {}, {} as before; {}: {added_casts} added, \
                 {removed_casts} removed",
                self.to,
                counted(self.kept.len(), "node"),
                counted(casts, "cast"),
            ));
        }
        if let Some(ty) = self.coded_as.as_ref().filter(|_| self.output.is_some()) {
            lines.push(format!("{} stored as {ty}", counted(self.coded_weights, "weight")));
        }
        if let Some(compared) = &self.compared {
            let Head { inputs, sets, .. } = &compared.head;
            lines.push(format!("on    {}", inputs.sets_in_words(*sets)));
            let random = compared.head.sentences_of(Code::RandomInputs);
            lines.extend(random.into_iter().map(|told| format!("warning: {told}")));
            for output in &compared.outputs {
                let sqnr = output.sqnr.map_or("no noise".into(), |sqnr| format!("SQNR {sqnr} dB"));
                lines.push(format!("output `{}`: {sqnr}", output.name));
            }
        }
        lines
    }

    /// The page: the comparison, and what stays. Fails when it cannot be made.
    pub(super) fn page(&self) -> anyhow::Result<String> {
        let (nodes, weights) = (counted(self.nodes, "node"), counted(self.weights, "weight"));
        let mut facts = vec![("converted", format!("{nodes} and {weights}"))];
        facts.push(("stay", counted(self.kept.len(), "node")));
        facts.push(("casts", self.casts.to_string()));
        if self.size_after > 0 {
            facts.push((
                "size",
                [self.size_after, self.size_before].map(size_in_words).join(", before "),
            ));
        }
        let stays = self.kept.iter();
        let stays = stays.map(|kept| [&kept.op, &kept.node, &kept.why].map(String::clone));
        let (compared, problem) = (self.compared.as_ref(), self.problem.as_deref());
        page::of_conversion(&self.model, compared, problem, facts, stays.collect())
    }
}

/// What can be done where the model cannot be run.
const UNVERIFIED: &str = "--unverified writes the model without running it";

/// Where the external data of a model goes.
pub(super) fn data_of(output: &Path) -> PathBuf {
    let mut name = output.as_os_str().to_owned();
    name.push(".data");
    name.into()
}

impl Request for ConvertRequest {
    const NAME: &'static str = "convert";

    const ENGINE: Engine = Engine::Nodes;

    type Answer = ConvertAnswer;

    fn answer(&self, loader: &Loader) -> TractResult<ConvertAnswer> {
        let mut options = self.options()?;
        let mut drafts = Drafts::default();
        let scratch = drafts.folder_in(folder_of(&self.output))?;
        let (mut notes, mut problem, mut needed) = (vec![], None, HashMap::new());
        if !self.is_unverified && self.narrows(&options) {
            let found = self.search(loader, &options, &scratch);
            let found = with_way_out(found, UNVERIFIED)?;
            (notes, problem) = (found.notes, found.problem);
            options.keep.extend(found.keep.iter().map(|node| node.node.clone()));
            needed = found.keep.into_iter().map(|node| (node.node, node.why)).collect();
        }
        progress::tell(format_args!("writing"));
        let converted = convert_file(&self.model, &options)?;
        let mut report = self.report(&converted, &needed);
        (report.notes, report.problem) = (notes, problem);
        report.size_before = fs::metadata(&self.model)?.len() + converted.external_bytes();
        if let Some(ty) = report.coded_as.as_ref().filter(|_| report.coded_weights == 0) {
            let none =
                "no product or convolution has a weight of 256 elements or more that could be";
            report.notes.push(format!("{none} stored as {ty}"));
        }
        if report.nodes == 0 && report.coded_weights == 0 && !needed.is_empty() {
            let problem = "the outputs hold only where nothing is converted";
            report.problem.get_or_insert(problem.into());
        }
        if report.problem.is_some() {
            return Ok(report);
        }
        let name = self.output.file_name().context("-o: it needs the name of a file")?;
        let name = name.to_str().context("-o: the file's name is not UTF-8")?;
        let (draft, data) = (scratch.join(name), format!("{name}.data"));
        let mut model = BufWriter::new(File::create(&draft)?);
        let has_data = write(converted, &mut model, &scratch, &data)?;
        drop(model);
        if !self.is_unverified {
            let mut found = with_way_out(self.compare(loader, &draft), UNVERIFIED)?;
            found.converted = self.output.display().to_string();
            report.problem = self.fault(&found);
            report.compared = Some(found);
        }
        if report.problem.is_some() {
            return Ok(report);
        }
        report.size_after = fs::metadata(&draft)?.len();
        let data = scratch.join(data);
        if has_data {
            report.size_after += fs::metadata(&data)?.len();
            drafts.adopt(&data, &data_of(&self.output));
        }
        drafts.adopt(&draft, &self.output);
        drafts.put()?;
        report.output = Some(self.output.display().to_string());
        report.verdict = if self.is_unverified { "unverified" } else { "holds" }.into();
        Ok(report)
    }

    fn model(&self) -> &Path {
        &self.model
    }

    fn running(&self) -> Vec<&Path> {
        if self.is_unverified { vec![] } else { vec![&self.model] }
    }

    fn output(&self) -> Option<&Path> {
        Some(&self.output)
    }

    fn places(&self) -> Vec<PathBuf> {
        let folder = folder_of(&self.output).to_owned();
        self.input
            .files()
            .chain([self.model.clone(), folder])
            .chain(self.cases.iter().map(|case| case.set.clone()))
            .chain(self.keep_from.clone())
            .collect()
    }
}

impl ConvertRequest {
    fn folder(&self) -> Option<&Path> {
        Some(folder_of(&self.model))
    }

    fn options(&self) -> TractResult<Options> {
        let ty = |name: &String| ElementType::from_name(name).context("no such type");
        let to = self.to.as_ref().map_or(Ok(ElementType::Float), ty)?;
        let mut options = Options::new(to);
        options.opset = self.opset;
        if self.to.is_none() || !self.from.is_empty() {
            options.from = Some(self.from.iter().map(ty).collect::<TractResult<_>>()?);
        }
        if let Some(weights) = &self.weights {
            options.weights = Some(WeightFormat::new(ty(weights)?, self.block));
        }
        (options.keep, options.keep_ops) = (self.keep.clone(), self.keep_ops.clone());
        options.convert_io = self.convert_io;
        if let Some(path) = &self.keep_from {
            let listed = read_list(path).with_context(|| path.display().to_string());
            options.keep.extend(about(ProblemKind::Call, listed)?);
        }
        Ok(options)
    }

    /// Whether FLOAT becomes a narrower type, for which nodes to keep may be found.
    fn narrows(&self, options: &Options) -> bool {
        let from = options.from.as_ref();
        options.to.is_half() && from.is_none_or(|from| from.contains(&ElementType::Float))
    }

    /// The nodes that have to stay besides.
    fn search(&self, loader: &Loader, options: &Options, scratch: &Path) -> TractResult<NodeList> {
        let (model, proto) = loader.open_with_proto(&self.model)?;
        let folder = self.folder();
        let sets = match &self.cases[..] {
            [] => sets::gather(&model.source(&proto), &self.model, &self.input)?,
            cases => sets::of_cases(&model.takes, cases, &self.input)?,
        };
        let onnx = loader.onnx().with_half_arithmetic(HalfArithmetic::Widened);
        let to = options.to;
        let takes = &model.takes;
        let mut runs = CountedRuns::new((loader, onnx, folder), to, (&sets, takes), true);
        let reference = Reference::of(&proto, &mut runs)?;
        let types = reference.types.clone();
        let written = Written::new(&self.model, options, &proto, types, scratch)?;
        let notes = sets.iter().flat_map(|set| set.notes.iter().cloned()).collect();
        Search::new(Box::new(written), reference, runs, self.tolerance, false).find(notes)
    }

    /// What was written, beside the original.
    fn compare(&self, loader: &Loader, draft: &Path) -> TractResult<Compared> {
        let mut limits = ToleranceLimits::default();
        limits.judge_by(self.tolerance, &[]);
        // What was decided stands on these sets.
        let input = self.input.clone();
        let pair = CompareRequest::of(&self.model, draft);
        CompareRequest { input, limits, band_runs: None, shows_band: true, ..pair }.answer(loader)
    }

    /// Why what was written does not hold: outputs beyond the tolerance, of all sets or of one, or,
    /// where none was given, what the verdict says.
    fn fault(&self, found: &Compared) -> Option<String> {
        if found.head.status != Status::Passed {
            return Some(found.head.sentences(Severity::Error).join("; "));
        }
        // What is loud in one set drowns what is wrong in another, as `keep` has it.
        if found.head.samples.iter().any(|sample| !sample.passed) {
            return Some(found.head.sentences_of(Code::BySample).join("; "));
        }
        let judgement = &found.judgement;
        let verdict = judgement.verdict.filter(|verdict| !self.has_tolerance && !verdict.passes());
        verdict.map(|verdict| format!("it is {}: {}", verdict.name(), judgement.reason))
    }

    /// What was converted, before it is known whether it holds. `needed` says why the nodes stay
    /// that the search has found.
    fn report(&self, converted: &Converted, needed: &HashMap<String, String>) -> ConvertAnswer {
        let kept = converted.kept.iter().map(|kept| UnconvertedNode {
            node: kept.node.clone(),
            op: kept.op.clone(),
            graph: kept.graph.clone(),
            why: needed.get(&kept.node).unwrap_or(&kept.why).clone(),
        });
        let counts = converted.counts;
        ConvertAnswer {
            model: self.model.display().to_string(),
            to: self.to.clone().unwrap_or_default(),
            kept: kept.collect(),
            nodes: counts.nodes,
            weights: counts.weights,
            coded_weights: counts.coded,
            coded_as: self.weights.clone(),
            casts: counts.casts,
            added_casts: counts.added_casts,
            removed_casts: counts.removed_casts,
            mended: converted.mended.len(),
            verdict: "fails".into(),
            is_judged_by_tolerance: self.has_tolerance,
            ..ConvertAnswer::default()
        }
    }
}

/// The nodes that a file lists: one in each line, or `keep` in JSON.
fn read_list(path: &Path) -> TractResult<Vec<String>> {
    #[derive(Deserialize)]
    struct Node {
        node: String,
    }
    #[derive(Deserialize)]
    struct KeepList {
        keep: Vec<Node>,
    }
    let text = read_regular_text(path)?;
    if text.trim_start().starts_with('{') {
        let list: KeepList = serde_json::from_str(&text)?;
        return Ok(list.keep.into_iter().map(|node| node.node).collect());
    }
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    Ok(lines.map(String::from).collect())
}
