//! `onnx-cast run`: a model's outputs for given or random inputs.

use std::fs;
use std::path::Path;

use anyhow::Context;
use prost::Message;
use serde::Serialize;
use tract_onnx::prelude::*;
use tract_onnx_cast::tensor_proto;

use super::message::single_line;
use super::model::{Model, Output};
use super::show::{Value, table, values};
use super::{RunArgs, inputs};

/// How many of an output's values are shown.
const SHOWN_VALUES: usize = 10;

/// What `--json` prints.
#[derive(Serialize)]
struct Report<'a> {
    outputs: Vec<Shown<'a>>,
}

#[derive(Serialize)]
struct Shown<'a> {
    name: &'a str,
    r#type: &'static str,
    shape: &'a [usize],
    values: Vec<Value>,
}

/// Runs the model, writes the outputs' files and says what they hold.
pub(super) fn show(args: &RunArgs) -> TractResult<String> {
    if let Some(folder) = &args.output {
        // Before the work, which may take long.
        fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    let model = Model::open(&args.model)?;
    let tensors = inputs::gather(&model, &args.input)?;
    let outputs = model.run(tensors)?;
    if let Some(folder) = &args.output {
        for (position, output) in outputs.iter().enumerate() {
            write(output, &folder.join(format!("output_{position}.pb")))?;
        }
    }
    let outputs = outputs.iter().map(shown).collect::<TractResult<Vec<_>>>()?;
    Ok(match args.json {
        true => serde_json::to_string(&Report { outputs })?,
        false => table(&outputs.iter().map(row).collect::<Vec<_>>()),
    })
}

fn write(output: &Output, path: &Path) -> TractResult<()> {
    let proto = tensor_proto::write(&output.name, output.ty, &output.tensor)?;
    fs::write(path, proto.encode_to_vec()).with_context(|| path.display().to_string())
}

fn shown(output: &Output) -> TractResult<Shown<'_>> {
    let Output { name, ty, tensor } = output;
    let values = values(*ty, tensor, 0..SHOWN_VALUES)?;
    Ok(Shown { name, r#type: ty.name(), shape: tensor.shape(), values })
}

fn row(output: &Shown) -> Vec<String> {
    let mut values: Vec<String> = output.values.iter().map(Value::to_string).collect();
    if output.shape.iter().product::<usize>() > values.len() {
        values.push("…".into());
    }
    vec![
        single_line(output.name),
        output.r#type.into(),
        format!("{:?}", output.shape),
        values.join(" "),
    ]
}
