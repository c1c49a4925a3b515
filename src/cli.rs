//! The command line: what can be typed, and who does it.
//!
//! The process that the user starts only talks to the user. tract is run by a second process of the
//! same program, the [`worker`], because it can panic, run out of stack or out of memory on a
//! hostile file; the [`supervisor`] turns whatever becomes of it into an exit status and one line.
//!
//! ```text
//! Cli → run, test, inspect, audit, … (Request) → supervisor ⇄ worker → answer → terminal, files
//! ```

mod audit;
mod cases;
mod charts;
mod check;
mod compare;
mod facts;
mod files;
mod front;
mod inputs;
mod inspect;
mod jobs;
mod markdown;
mod message;
mod metrics;
mod model;
mod num;
mod page;
mod random;
mod record;
mod report;
mod request;
mod run;
mod saved;
mod sets;
mod show;
mod supervisor;
mod terminal;
mod test;
mod tolerance;
mod versus;
mod words;
mod worker;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use serde::{Deserialize, Serialize};

use compare::Tolerance;
use inputs::InputArgs;
use request::{Answer, Request};
use supervisor::Supervisor;
use terminal::Output;

/// Exit status: a case failed, or a tolerance was exceeded.
const FAILED: u8 = 1;
/// Exit status: the model, an input or the call cannot be used.
const UNUSABLE: u8 = 2;

/// Run, test, inspect, audit and compare ONNX models with tract and a complete Cast operator.
#[derive(Parser)]
#[command(name = "onnx-cast", version, arg_required_else_help = false, after_help = EXIT_STATUS)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// Memory that tract may use [default: 4 GiB and six times the files' size].
    #[arg(long, value_name = "GIB", global = true)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..1 << 20))]
    max_memory: Option<u64>,
}

const EXIT_STATUS: &str = "\
Exit status: 0 done, and every case passed; 1 a case failed, or something is beyond its limits or \
tolerance; 2 the model, an input or the call cannot be used, which one line on standard error \
explains.

Examples:
  onnx-cast run model.onnx
  onnx-cast test models/
  onnx-cast inspect model.onnx
  onnx-cast audit model.onnx --report audit.html
  onnx-cast compare model.onnx model_fp16.onnx --rtol 1e-2
  onnx-cast record model.onnx goldens/model";

#[derive(Subcommand)]
enum Command {
    Run(RunArgs),
    Test(TestArgs),
    Inspect(InspectArgs),
    Audit(front::AuditArgs),
    Compare(front::CompareArgs),
    Record(front::RecordArgs),
    Rerecord(front::RerecordArgs),
}

/// Run a model and show its outputs.
///
/// FILE is an ONNX TensorProto (.pb), a NumPy array (.npy) or an archive of arrays by input name
/// (.npz).
///
/// An element type that NumPy lacks is given in a .npy as bit patterns of the same width (uint16
/// for BFLOAT16; uint8 for the float8, float6 and float4 types and the small unsigned integers;
/// int8 for the small signed ones), as an array of the ml_dtypes package, or as float32 or float64
/// values, which are then cast as ONNX casts them. Otherwise the array must have the input's own
/// type.
///
/// An input that is not given gets random values. Its symbolic dimensions come from --set, else
/// from the shapes of the given inputs, else they are 1.
#[derive(Args, Serialize, Deserialize)]
#[command(after_help = "Examples:
  onnx-cast run model.onnx --set batch=4 --seed 7
  onnx-cast run model.onnx -i x=x.npy -i scale=scale.pb -o outputs
  onnx-cast run model.onnx -i inputs.npz --json")]
struct RunArgs {
    /// The model.
    #[arg(value_name = "MODEL.onnx")]
    model: PathBuf,
    #[command(flatten)]
    input: InputArgs,
    /// Folder for the outputs, written as output_0.pb, output_1.pb, …
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Run test cases and compare the outputs with the expected ones.
///
/// A case is a folder with model.onnx and, beside it or in test_data_set_* folders, input_*.pb and
/// output_*.pb: the layout of ONNX's own tests. Files and the model's inputs and outputs are
/// matched by position.
///
/// Outputs must be equal bit for bit, but any NaN equals any NaN. With --rtol or --atol a
/// floating-point value passes when |got − want| ≤ atol + rtol·|want|, where the one that is not
/// given is 0.
#[derive(Args)]
#[command(after_help = "Examples:
  onnx-cast test models/node/cast_opset13_FLOAT_to_BFLOAT16
  onnx-cast test models --rtol 1e-4 --atol 1e-5
  onnx-cast test models --json")]
struct TestArgs {
    /// Case folders, or folders that hold them.
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    /// Relative tolerance for floating-point outputs.
    #[arg(long, value_name = "R", value_parser = compare::parse_tolerance)]
    rtol: Option<f64>,
    /// Absolute tolerance for floating-point outputs.
    #[arg(long, value_name = "A", value_parser = compare::parse_tolerance)]
    atol: Option<f64>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

impl TestArgs {
    /// What the two options mean together; without either, outputs are compared bit for bit.
    fn tolerance(&self) -> Option<Tolerance> {
        let either = self.rtol.is_some() || self.atol.is_some();
        either.then(|| Tolerance { rtol: self.rtol.unwrap_or(0.0), atol: self.atol.unwrap_or(0.0) })
    }
}

/// List a model's Cast and CastLike nodes, those in subgraphs included, and what becomes of each.
#[derive(Args, Serialize, Deserialize)]
#[command(after_help = "Examples:
  onnx-cast inspect model.onnx
  onnx-cast inspect model.onnx --json")]
struct InspectArgs {
    /// The model.
    #[arg(value_name = "MODEL.onnx")]
    model: PathBuf,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// The program, in either of its two roles.
pub(crate) fn main() -> ExitCode {
    if worker::is_this_process() {
        return worker::serve();
    }
    let mut output = Output::stdout();
    let status = match Cli::try_parse_from(report::joined(std::env::args_os())) {
        Ok(cli) => execute(cli, &mut output),
        Err(error) => explain_usage(&error, &mut output),
    };
    match status.and_then(|status| output.flush().map(|()| status)) {
        Ok(status) => ExitCode::from(status),
        Err(error) => {
            terminal::print_error(&message::one_line(&error));
            ExitCode::from(UNUSABLE)
        }
    }
}

fn execute(cli: Cli, output: &mut Output) -> anyhow::Result<u8> {
    let mut supervisor = Supervisor::new(cli.max_memory);
    let request = match cli.command {
        Command::Test(args) => return test::run(&args, &mut supervisor, output),
        Command::Run(args) => Request::Run(args),
        Command::Inspect(args) => Request::Inspect(args),
        Command::Audit(args) => return front::audit(args, cli.max_memory, output),
        Command::Compare(args) => return front::compare(args, cli.max_memory, output),
        Command::Record(args) => return front::record(args, cli.max_memory, output),
        Command::Rerecord(args) => return front::rerecord(args, cli.max_memory, output),
    };
    match supervisor.ask(&request)? {
        Answer::Shown(text) => output.line(&text)?,
        Answer::Unusable(problem) => anyhow::bail!("{}: {problem}", request.model().display()),
        Answer::Passed | Answer::Failed(_) | Answer::Facts(_) => {}
    }
    Ok(0)
}

/// `--help` and `--version` go to standard output; what clap has to say about a wrong call is
/// reduced to its first paragraph.
fn explain_usage(error: &clap::Error, output: &mut Output) -> anyhow::Result<u8> {
    if !error.use_stderr() {
        output.line(error.to_string().trim_end())?;
        return Ok(0);
    }
    let text = error.to_string();
    let first = text.split("\n\n").next().unwrap_or_default();
    anyhow::bail!("{}", first.strip_prefix("error: ").unwrap_or(first))
}
