//! Everything that can be typed, a file for each command, and how it is read. What is typed is data here; what it means is
//! decided in `command`.

pub(crate) mod audit;
pub(crate) mod compare;
pub(crate) mod fix;
pub(crate) mod input;
pub(crate) mod inspect;
pub(crate) mod keep;
pub(crate) mod record;
pub(crate) mod report;
pub(crate) mod run;
pub(crate) mod test;
mod tolerance;

use clap::{Parser, Subcommand};

use audit::AuditArgs;
use compare::CompareArgs;
use fix::FixArgs;
use inspect::InspectArgs;
use keep::KeepArgs;
use record::{RecordArgs, RerecordArgs};
use run::RunArgs;
use test::TestArgs;

/// Run, test, inspect, audit, compare and fix ONNX models with tract and a complete Cast operator.
#[derive(Parser)]
#[command(name = "onnx-cast", version, arg_required_else_help = false, after_help = EXIT_STATUS)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Memory that tract may use [default: 4 GiB and six times what the files hold].
    #[arg(long, value_name = "GIB", global = true)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..1 << 20))]
    pub(crate) max_memory: Option<u64>,
    /// Nodes that tract may be given to load, by whose square its time grows [default: 4096, and one for each KiB of weights].
    #[arg(long, value_name = "N", global = true)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) max_nodes: Option<u64>,
    /// Time that tract may take for a model [default: any to run it; to load it 4 s, and 1 s for each MiB of the file and its data].
    #[arg(long, value_name = "SECONDS", global = true)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) timeout: Option<u64>,
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
  onnx-cast record model.onnx goldens/model
  onnx-cast fix model_fp16.onnx -o fixed.onnx
  onnx-cast keep model.onnx --to FLOAT16";

#[derive(Subcommand)]
pub(crate) enum Command {
    Run(RunArgs),
    Test(TestArgs),
    Inspect(InspectArgs),
    Audit(AuditArgs),
    Compare(CompareArgs),
    Record(RecordArgs),
    Rerecord(RerecordArgs),
    Fix(FixArgs),
    Keep(KeepArgs),
}
