//! `onnx-cast convert`: a model in another floating-point type.

mod request;
mod trial;

use std::path::PathBuf;

use anyhow::ensure;
use clap::{ArgGroup, Args};

use crate::cli::args::half_precision;
use crate::cli::args::report::JsonArgs;
use crate::cli::args::resources::Resources;
use crate::cli::args::tolerance::ToleranceArgs;
use crate::cli::found::status::Status;
use crate::cli::input::args::SetsArgs;
use crate::cli::input::cases::{self, model_file};
use crate::cli::measure::tolerance::{Tolerance, least_sqnr};
use crate::cli::message::{listed, quoted, single_line};
use crate::cli::output_file::write_whole;
use crate::cli::process::jobs::ask;
use crate::cli::report::destinations::{check_files, write_json};
use crate::cli::report::json;
use crate::cli::report::terminal::{Output, print_notes};
use crate::cli::verb::Verb;
use request::{ConvertAnswer, ConvertRequest};

/// Convert a model to FLOAT16, BFLOAT16 or low-bit weights, if its results hold.
///
/// Every FLOAT value and weight becomes the narrow type, in the bodies of If, Loop and Scan and in
/// functions too. A node stays as it is if its operator does not take the type, if a weight of it
/// does not fit, if it computes a shape, or if it is kept. Casts stand only where types meet.
/// Inputs and outputs keep their types.
///
/// The new model is run beside the original, on the given inputs, on those recorded beside the
/// model, or on random ones. Where outputs are too far off, the nodes are searched that need to
/// stay in FLOAT. The file is written only if the outputs hold; else the exit status is 1. Without
/// a tolerance they hold if `compare` calls the conversion the same or rounded, and if on each set
/// of inputs the signal-to-noise ratio of each output is at least 40 dB in FLOAT16, 26 dB in
/// BFLOAT16 and with INT8 weights, 20 dB with FLOAT8E4M3FN and 10 dB with INT4 weights.
#[derive(Args)]
#[command(group = ArgGroup::new("what").args(["ty", "weights"]).required(true).multiple(true))]
#[command(after_help = "Examples:
  onnx-cast convert model.onnx --to FLOAT16 -o model_fp16.onnx
  onnx-cast convert model.onnx --to BFLOAT16 -o model_bf16.onnx -i x=x.npy --report page.html
  onnx-cast convert model.onnx --to FLOAT16 -o model_fp16.onnx --keep-op Softmax --keep /norm/Pow
  onnx-cast convert model.onnx --weights INT4 --block 32 --opset 21 -o model_int4.onnx")]
pub(crate) struct Convert {
    /// The model, or a folder with a model.onnx.
    #[arg(value_name = "MODEL.onnx")]
    model: PathBuf,
    /// The type to convert to: FLOAT16 or BFLOAT16; FLOAT, from both of these; or DOUBLE.
    #[arg(long = "to", value_name = "TYPE", value_parser = parse_type)]
    ty: Option<String>,
    /// The type to convert from, such as DOUBLE [default: FLOAT, and to FLOAT both types of half
    /// precision].
    #[arg(long, value_name = "TYPE", requires = "ty", value_parser = parse_type)]
    from: Vec<String>,
    /// Store the weights of products and convolutions in this type, each with scales and a
    /// DequantizeLinear; alone or with --to.
    #[arg(long, value_name = "TYPE", ignore_case = true,
          value_parser = ["INT8", "INT4", "FLOAT8E4M3FN"])]
    weights: Option<String>,
    /// How many elements of a weight share a scale [default: all of a channel].
    #[arg(long, value_name = "N", requires = "weights")]
    block: Option<usize>,
    /// Raise the model to this opset first, where its operators mean the same there.
    #[arg(long, value_name = "N")]
    opset: Option<i64>,
    /// The converted model: a new file. External data goes beside it, as OUT.onnx.data.
    #[arg(short, long, value_name = "OUT.onnx")]
    output: PathBuf,
    /// A node to keep as it is, by its name, or its first output's where it has none.
    #[arg(long, value_name = "NODE")]
    keep: Vec<String>,
    /// An operator of which all nodes are kept.
    #[arg(long, value_name = "OP")]
    keep_op: Vec<String>,
    /// A file with a node to keep in each line, or what `keep --json` has written.
    #[arg(long, value_name = "FILE")]
    keep_from: Option<PathBuf>,
    /// Convert the inputs and outputs too.
    #[arg(long)]
    convert_io: bool,
    /// Write the model without running it.
    #[arg(long)]
    unverified: bool,
    #[command(flatten, next_help_heading = "Inputs")]
    sets: SetsArgs,
    #[command(flatten, next_help_heading = "Tolerance")]
    tolerance: ToleranceArgs,
    /// Write a page to look at: the comparison with the original.
    #[arg(long, value_name = "FILE.html", conflicts_with = "unverified", help_heading = "Reports")]
    report: Option<PathBuf>,
    #[command(flatten, next_help_heading = "Reports")]
    to: JsonArgs,
}

/// The name of a type of numbers; what weights alone may be is for another option.
fn parse_type(text: &str) -> Result<String, String> {
    let name = text.to_ascii_uppercase();
    match name.as_str() {
        "FLOAT" | "DOUBLE" => Ok(name),
        _ => half_precision(text).map(String::from).ok_or_else(|| {
            "it should be FLOAT16, BFLOAT16, FLOAT or DOUBLE; weights are stored in INT8, INT4 or FLOAT8E4M3FN \
             by --weights"
                .into()
        }),
    }
}

impl Convert {
    /// What every output is judged by, and whether it was given.
    fn tolerance(&self) -> (Tolerance, bool) {
        let given = self.tolerance.of_every_output();
        if given != Tolerance::default() {
            return (given, true);
        }
        let least = least_sqnr(self.weights.as_deref(), self.ty.as_deref().unwrap_or_default());
        (Tolerance { sqnr: Some(least), ..given }, false)
    }
}

impl Verb for Convert {
    type Request = ConvertRequest;

    /// Writes the converted model, and says what was converted, what stays, and why.
    fn run(mut self, resources: Resources, output: &mut Output) -> anyhow::Result<Status> {
        self.weights.iter_mut().for_each(|name| name.make_ascii_uppercase());
        let written = [
            ("-o", Some(&self.output)),
            ("--json", self.to.json.as_ref()),
            ("--report", self.report.as_ref()),
        ];
        let read = [&self.model].into_iter().chain(&self.keep_from).map(PathBuf::as_path);
        check_files(&written, &self.sets.input, read)?;
        for place in [&self.output, &request::data_of(&self.output)] {
            let is_there = place.symlink_metadata().is_ok();
            ensure!(
                !is_there,
                "-o: {} is there already, and a model is never replaced: name another, or delete it",
                place.display()
            );
        }
        let (tolerance, has_tolerance) = self.tolerance();
        let (model, mut input) = (model_file(self.model)?, self.sets.input());
        let cases = if input.takes_recorded(false) { cases::beside(&model) } else { vec![] };
        // Each set is a run of every trial.
        (input.random, input.takes_few) = (cases.is_empty(), true);
        let request = ConvertRequest {
            model,
            cases,
            output: self.output,
            to: self.ty,
            from: self.from,
            weights: self.weights,
            block: self.block,
            opset: self.opset,
            keep: self.keep,
            keep_ops: self.keep_op,
            keep_from: self.keep_from,
            convert_io: self.convert_io,
            is_unverified: self.unverified,
            input,
            tolerance,
            has_tolerance,
        };
        let conversion = ask(&request, resources)?;
        print_notes(&request.model, &conversion.notes);
        if let Some(place) = &self.report {
            write_whole(place, conversion.page()?.as_bytes())?;
        }
        write_json(
            &self.to,
            &|| json::document("convert", &conversion),
            &lines(&conversion),
            output,
        )?;
        Ok(if conversion.problem.is_none() { Status::Passed } else { Status::Failed })
    }
}

/// How many of the nodes are named that stay for one reason; `--json` has all.
const NAMED: usize = 5;

fn lines(conversion: &ConvertAnswer) -> Vec<String> {
    let mut lines = conversion.lines();
    let mut kept: Vec<(&str, Vec<String>)> = vec![];
    for stays in conversion.kept.iter().filter(|_| conversion.problem.is_none()) {
        let node = format!("{} {}", single_line(&stays.op), quoted(&stays.node));
        match kept.iter_mut().find(|(why, _)| *why == stays.why) {
            Some((_, alike)) => alike.push(node),
            None => kept.push((&stays.why, vec![node])),
        }
    }
    lines.extend(kept.into_iter().map(|(why, nodes)| {
        format!("stays: {}: {}", listed(nodes.into_iter(), NAMED), single_line(why))
    }));
    lines
}
