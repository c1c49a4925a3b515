//! What can be typed after `onnx-cast compare`.

use std::path::PathBuf;

use clap::Args;

use super::input::{InputArgs, SetsArgs};
use super::report::ReportArgs;
use super::tolerance::{ToleranceArgs, parse_output};
use crate::cli::judge::tolerance::Tolerance;

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
pub(crate) struct CompareArgs {
    /// What is right.
    pub(crate) reference: PathBuf,
    /// What is to be judged.
    #[arg(required = true)]
    pub(crate) converted: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) input: InputArgs,
    #[command(flatten)]
    pub(crate) sets: SetsArgs,
    #[command(flatten)]
    pub(crate) tolerance: ToleranceArgs,
    /// A tolerance of one output's own.
    #[arg(long, value_name = "NAME:rtol=R,…", value_parser = parse_output)]
    pub(crate) per_output: Vec<(String, Tolerance)>,
    /// Compare every tensor that belongs to one of the other graph, by name, values or structure; else only where the outputs
    /// fail, to find where they part.
    #[arg(long)]
    pub(crate) all_tensors: bool,
    /// The model whose tensors were saved, where both sides were: nodes are then named, and nothing is run. It need not be one
    /// that tract can run.
    #[arg(long, value_name = "MODEL.onnx")]
    pub(crate) graph: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) to: ReportArgs,
}
