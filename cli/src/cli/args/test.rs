//! What can be typed after `onnx-cast test`.

use std::path::PathBuf;

use clap::Args;

use super::tolerance::parse_tolerance;
use crate::cli::judge::tolerance::Tolerance;

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
pub(crate) struct TestArgs {
    /// Case folders, or folders that hold them.
    #[arg(value_name = "PATH", required = true)]
    pub(crate) paths: Vec<PathBuf>,
    /// Relative tolerance for floating-point outputs.
    #[arg(long, value_name = "R", value_parser = parse_tolerance)]
    pub(crate) rtol: Option<f64>,
    /// Absolute tolerance for floating-point outputs.
    #[arg(long, value_name = "A", value_parser = parse_tolerance)]
    pub(crate) atol: Option<f64>,
    /// Write JUnit's XML, for CI.
    #[arg(long, value_name = "FILE.xml")]
    pub(crate) junit: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

impl TestArgs {
    /// What the two options mean together; without either, outputs are compared bit for bit.
    pub(crate) fn tolerance(&self) -> Option<Tolerance> {
        let TestArgs { rtol, atol, .. } = *self;
        let either = rtol.is_some() || atol.is_some();
        either.then(|| Tolerance { rtol, atol, ..Tolerance::default() })
    }
}
