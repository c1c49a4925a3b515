//! `onnx-cast inspect`: a model's Cast and CastLike nodes, and its quantisers.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::bail;
use clap::Args;
use serde::{Deserialize, Serialize};
use tract_onnx::prelude::TractResult;
use tract_onnx_cast::survey::{CastNode, Fate, QuantizerNode};
use tract_onnx_cast::{ElementType, RoundMode, model_proto};

use crate::cli::args::resources::Resources;
use crate::cli::found::status::Status;
use crate::cli::input::cases::model_file;
use crate::cli::message::{add_once, counted, one_line, single_line};
use crate::cli::process::jobs::ask;
use crate::cli::process::request::Request;
use crate::cli::report::json;
use crate::cli::report::phrases::{NO_CASTS, type_name};
use crate::cli::report::table::table;
use crate::cli::report::terminal::{Output, print_notes};
use crate::cli::verb::Verb;
use crate::cli::work::model::Loader;

/// List a model's casts and quantisers, and how each will run.
///
/// These are the nodes Cast, CastLike, QuantizeLinear and DequantizeLinear, those in subgraphs
/// included.
#[derive(Args, Serialize, Deserialize)]
#[command(after_help = "Examples:
  onnx-cast inspect model.onnx
  onnx-cast inspect model.onnx --json")]
pub(crate) struct Inspect {
    /// The model, or a folder with a model.onnx.
    #[arg(value_name = "MODEL.onnx")]
    model: PathBuf,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

impl Verb for Inspect {
    type Request = Inspect;

    /// Lists the nodes. That a cast is wrong is an error after the list.
    fn run(self, resources: Resources, output: &mut Output) -> anyhow::Result<Status> {
        let request = Inspect { model: model_file(self.model)?, ..self };
        let Inspected { list, wrong_casts, others } = ask(&request, resources)?;
        let json = request.json.then(|| json::document("inspect", &list)).transpose()?;
        output.line(&json.unwrap_or_else(|| list.text()))?;
        let others: Vec<_> = others.iter().map(|other| format!("cannot be run: {other}")).collect();
        print_notes(&request.model, &others);
        let Some((first, more)) = wrong_casts.split_first() else { return Ok(Status::Passed) };
        print_notes(&request.model, more);
        bail!("{}: {first}", request.model.display())
    }
}

/// What a problem names that is about data beside the model.
const EXTERNAL_DATA: &str = "external data";

/// A cast, and what becomes of it, as `--json` prints it.
#[derive(Serialize, Deserialize)]
struct InspectedCast {
    node: String,
    op: String,
    from: Option<String>,
    to: Option<String>,
    version: i64,
    saturate: Option<i64>,
    round_mode: Option<String>,
    graph: String,
    fate: String,
}

/// An operator that computes in FLOAT.
#[derive(Serialize, Deserialize)]
struct InspectedWidening {
    node: String,
    op: String,
    r#type: String,
}

/// A quantiser, and what becomes of it, as `--json` prints it.
#[derive(Serialize, Deserialize)]
struct InspectedQuantizer {
    node: String,
    op: String,
    x: Option<String>,
    scale: Option<String>,
    y: Option<String>,
    zero_point: bool,
    version: i64,
    axis: i64,
    block_size: usize,
    saturate: bool,
    precision: Option<String>,
    graph: String,
    fate: String,
}

/// What the model has, as `--json` prints it.
#[derive(Serialize, Deserialize)]
struct List {
    casts: Vec<InspectedCast>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    quantizers: Vec<InspectedQuantizer>,
    /// The operators that compute in FLOAT instead of half precision. Left out where there are
    /// none: most models compute in the types that they say.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    computed_in_float: Vec<InspectedWidening>,
}

/// What was found.
#[derive(Serialize, Deserialize)]
pub(crate) struct Inspected {
    list: List,
    /// What is wrong with the casts.
    wrong_casts: Vec<String>,
    /// Why else the model cannot be run.
    others: Vec<String>,
}

impl Request for Inspect {
    const NAME: &'static str = "inspect";

    type Answer = Inspected;

    fn answer(&self, loader: &Loader) -> TractResult<Inspected> {
        let proto = loader.read(&self.model)?;
        let folder = self.model.parent();
        let missing = folder.map(|folder| model_proto::missing_data(&proto, folder));
        let missing = missing.unwrap_or_default();
        let survey = model_proto::survey(&loader.onnx(), proto, folder)?;
        let (mut wrong_casts, mut others) = (vec![], vec![]);
        others.extend(missing.split_first().map(|(first, more)| match more.len() {
            0 => first.to_string(),
            more => format!("{first}; the same of {}", counted(more, "other tensor")),
        }));
        for problem in survey.problems() {
            let told = one_line(&problem.error().clone().into());
            if problem.is_of_cast() {
                add_once(&mut wrong_casts, Some(told));
            } else if missing.is_empty() || !told.contains(EXTERNAL_DATA) {
                add_once(&mut others, Some(told));
            }
        }
        let widened = survey.widened().iter().map(|widened| InspectedWidening {
            node: widened.node.clone(),
            op: widened.operator.clone(),
            r#type: widened.ty.name().into(),
        });
        let list = List {
            casts: survey.casts().map(inspected).collect(),
            quantizers: survey.quantizers().iter().map(inspected_quantizer).collect(),
            computed_in_float: widened.collect(),
        };
        Ok(Inspected { list, wrong_casts, others })
    }

    fn model(&self) -> &Path {
        &self.model
    }

    fn running(&self) -> Vec<&Path> {
        vec![]
    }
}

fn inspected(cast: &CastNode) -> InspectedCast {
    InspectedCast {
        node: cast.node.clone(),
        op: cast.op_type().into(),
        from: cast.from.map(name),
        to: cast.to.map(name),
        version: cast.version,
        saturate: cast.saturate,
        round_mode: cast.round_mode.map(|mode| RoundMode::name(mode).into()),
        graph: cast.graph.to_string(),
        fate: cast.fate.to_string(),
    }
}

fn inspected_quantizer(quantizer: &QuantizerNode) -> InspectedQuantizer {
    let fate = if quantizer.is_constant { Fate::Folded } else { Fate::Kernel };
    InspectedQuantizer {
        node: quantizer.node.clone(),
        op: quantizer.operator.into(),
        x: quantizer.x.map(name),
        scale: quantizer.scale.map(name),
        y: quantizer.y.map(name),
        zero_point: quantizer.has_zero_point,
        version: quantizer.version,
        axis: quantizer.axis,
        block_size: quantizer.block_size,
        saturate: quantizer.saturate,
        precision: quantizer.precision.map(name),
        graph: quantizer.graph.to_string(),
        fate: fate.to_string(),
    }
}

fn name(ty: ElementType) -> String {
    ty.name().into()
}

const HEADS: [&str; 9] =
    ["node", "op", "from", "to", "version", "saturate", "round_mode", "graph", "becomes"];

const QUANTIZER_HEADS: [&str; 10] =
    ["node", "op", "x", "scale", "y", "axis", "block_size", "version", "graph", "becomes"];

impl List {
    fn text(&self) -> String {
        let List { casts, quantizers, computed_in_float } = self;
        let mut parts = vec![];
        if !casts.is_empty() {
            parts.push(of_rows(&HEADS, casts.iter().map(row)));
        }
        if !quantizers.is_empty() {
            parts.push(of_rows(&QUANTIZER_HEADS, quantizers.iter().map(quantizer_row)));
        }
        if parts.is_empty() {
            parts.push(NO_CASTS.into());
        }
        let lines = computed_in_float_lines(computed_in_float);
        [vec![parts.join("\n\n")], lines].concat().join("\n")
    }
}

fn of_rows(heads: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let heads = heads.iter().map(|head| (*head).into()).collect();
    table(&std::iter::once(heads).chain(rows).collect::<Vec<_>>())
}

fn quantizer_row(quantizer: &InspectedQuantizer) -> Vec<String> {
    let block_size = Some(quantizer.block_size).filter(|size| *size > 0);
    vec![
        single_line(&quantizer.node),
        quantizer.op.clone(),
        type_name(&quantizer.x).into(),
        type_name(&quantizer.scale).into(),
        type_name(&quantizer.y).into(),
        quantizer.axis.to_string(),
        or_none(block_size),
        quantizer.version.to_string(),
        single_line(&quantizer.graph),
        quantizer.fate.clone(),
    ]
}

fn row(cast: &InspectedCast) -> Vec<String> {
    vec![
        single_line(&cast.node),
        cast.op.clone(),
        type_name(&cast.from).into(),
        type_name(&cast.to).into(),
        cast.version.to_string(),
        or_none(cast.saturate),
        or_none(cast.round_mode.as_ref()),
        single_line(&cast.graph),
        cast.fate.clone(),
    ]
}

fn or_none(cell: Option<impl ToString>) -> String {
    cell.map_or("-".into(), |cell| cell.to_string())
}

/// How many operators compute in FLOAT instead of half precision, which, and why: a line for each
/// type.
fn computed_in_float_lines(widened: &[InspectedWidening]) -> Vec<String> {
    let types: BTreeSet<&str> = widened.iter().map(|node| node.r#type.as_str()).collect();
    let line = |ty: &str| {
        let mut operators = BTreeMap::<&str, usize>::new();
        for node in widened.iter().filter(|node| node.r#type == ty) {
            *operators.entry(node.op.as_str()).or_default() += 1;
        }
        let count: usize = operators.values().sum();
        let each = operators.iter().map(|(op, count)| format!("{count} {}", single_line(op)));
        let why = match ty {
            "BFLOAT16" => "tract does not have that type",
            _ => "tract lacks the operator or has no instructions of this CPU for it",
        };
        let each = each.collect::<Vec<_>>().join(", ");
        let computed = if count == 1 { "is computed" } else { "are computed" };
        format!("{} on {ty} {computed} in FLOAT ({why}): {each}", counted(count, "operator"))
    };
    types.into_iter().map(line).collect()
}
