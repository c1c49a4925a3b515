//! What can be typed after `onnx-cast audit`.

use std::path::PathBuf;

use clap::Args;

use super::input::{InputArgs, SetsArgs};
use super::report::ReportArgs;
use super::tolerance::parse_allow;

/// Show what a model's casts do to the numbers.
///
/// Runs the model and counts, for each Cast and CastLike, those in subgraphs included, what became of the values that
/// passed: exact, rounded, overflowed to infinity, saturated, turned into NaN, flushed to zero, … The worst come first.
/// The model's results are not changed.
///
/// PATH is a model, or a folder: then every model.onnx in it is audited with the inputs of its test_data_set_* folders, or
/// with random ones where it has none. With -i, a folder stands for the inputs in it: input_*.pb, or several sets of them
/// in test_data_set_* folders.
///
/// The exit status is 1 if a cast did more than its limits allow. Without limits, that is any value that overflowed,
/// became NaN, lost its NaN, wrapped around, or is undefined; and a model that declares another type than a cast makes, or
/// whose casts have seen no value at all.
#[derive(Args)]
#[command(after_help = "Examples:
  onnx-cast audit model.onnx -i x=x.npy
  onnx-cast audit model.onnx -i recorded/ --report audit.html
  onnx-cast audit model_fp16.onnx --baseline model.onnx -i recorded/
  onnx-cast audit models/ --jobs 4 --allow wrapped --markdown=comment.md")]
pub(crate) struct AuditArgs {
    /// The models, or folders that hold them.
    #[arg(value_name = "PATH", required = true)]
    pub(crate) paths: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) input: InputArgs,
    #[command(flatten)]
    pub(crate) sets: SetsArgs,
    /// Let casts do that much: KIND is rounded, truncated, flushed, saturated, nan_lost, wrapped, overflowed, became_nan,
    /// undefined, made_infinite, made_nan, became_subnormal, sign_lost, max_abs, max_rel or max_ulp.
    #[arg(long, value_name = "KIND[=N]", value_parser = parse_allow)]
    pub(crate) allow: Vec<(String, f64)>,
    /// The model of which PATH is a conversion: what it does as well is excused, and its weights are compared. Of a
    /// folder with a model.onnx, the test_data_set_* folders give the inputs where PATH has none.
    #[arg(long, value_name = "ORIGINAL")]
    pub(crate) baseline: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) to: ReportArgs,
}
