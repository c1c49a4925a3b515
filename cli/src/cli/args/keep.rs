//! What can be typed after `onnx-cast keep`.

use std::path::PathBuf;

use clap::Args;

use super::input::{InputArgs, SetsArgs};
use super::report::JsonArgs;
use super::tolerance::ToleranceArgs;
use crate::cli::judge::tolerance::Tolerance;

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
pub(crate) struct KeepArgs {
    /// The model in FLOAT, or a folder with a model.onnx and test_data_set_* folders.
    #[arg(value_name = "MODEL")]
    pub(crate) model: PathBuf,
    /// What the model is to be converted to.
    #[arg(long = "to", value_name = "TYPE", value_parser = ["FLOAT16", "BFLOAT16"])]
    pub(crate) ty: String,
    #[command(flatten)]
    pub(crate) input: InputArgs,
    #[command(flatten)]
    pub(crate) sets: SetsArgs,
    #[command(flatten)]
    pub(crate) tolerance: ToleranceArgs,
    #[command(flatten)]
    pub(crate) to: JsonArgs,
}

/// What an output may be off by where nobody says, and what besides where no list passes by that alone.
const RTOL: f64 = 1e-2;
const ATOL: f64 = 1e-2;

impl KeepArgs {
    /// What every output is judged by, and what by where no list passes by that.
    pub(crate) fn tolerances(&self) -> (Tolerance, Option<Tolerance>) {
        let given = self.tolerance.of_every_output();
        match given == Tolerance::default() {
            true => {
                let tolerance = Tolerance { rtol: Some(RTOL), ..given };
                (tolerance, Some(Tolerance { atol: Some(ATOL), ..tolerance }))
            }
            false => (given, None),
        }
    }
}
