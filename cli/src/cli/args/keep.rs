//! What can be typed after `onnx-cast keep`.

use std::path::PathBuf;

use clap::Args;

use super::input::{InputArgs, SetsArgs};
use super::report::JsonArgs;
use super::tolerance::{parse_cosine, parse_sqnr, parse_tolerance};
use crate::cli::judge::tolerance::Tolerance;

/// Find the smallest set of nodes to keep in FLOAT when a model is converted to FLOAT16 or BFLOAT16.
///
/// One run of the model shows which nodes make, take or hold values that the narrow type cannot hold. The conversion is then
/// simulated: every FLOAT tensor is rounded, weights as onnxconverter-common clips them, save inside the nodes that are kept.
/// The list is tried with nodes left out until it fails without any one of them, in at most 30 runs of the model.
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
    /// Relative tolerance of the outputs [default without any: 1e-2, and where no list passes an absolute one of 1e-2 too].
    #[arg(long, value_name = "R", value_parser = parse_tolerance, allow_negative_numbers = true)]
    pub(crate) rtol: Option<f64>,
    /// Absolute tolerance.
    #[arg(long, value_name = "A", value_parser = parse_tolerance, allow_negative_numbers = true)]
    pub(crate) atol: Option<f64>,
    /// Tolerance in units in the last place.
    #[arg(long, value_name = "N", value_parser = parse_tolerance, allow_negative_numbers = true)]
    pub(crate) ulp: Option<f64>,
    /// The least cosine similarity of an output.
    #[arg(long, value_name = "C", value_parser = parse_cosine, allow_negative_numbers = true)]
    pub(crate) cosine: Option<f64>,
    /// The least signal-to-quantisation-noise ratio of an output, in decibels.
    #[arg(long, value_name = "DB", value_parser = parse_sqnr, allow_negative_numbers = true)]
    pub(crate) sqnr: Option<f64>,
    #[command(flatten)]
    pub(crate) to: JsonArgs,
}

/// What an output may be off by where nobody says, and what besides where no list passes by that alone.
const RTOL: f64 = 1e-2;
const ATOL: f64 = 1e-2;

impl KeepArgs {
    /// What every output is judged by, and what by where no list passes by that.
    pub(crate) fn tolerances(&self) -> (Tolerance, Option<Tolerance>) {
        let KeepArgs { rtol, atol, ulp, cosine, sqnr, .. } = *self;
        let given = Tolerance { rtol, atol, ulp, cosine, sqnr };
        match given == Tolerance::default() {
            true => {
                let tolerance = Tolerance { rtol: Some(RTOL), ..given };
                (tolerance, Some(Tolerance { atol: Some(ATOL), ..tolerance }))
            }
            false => (given, None),
        }
    }
}
