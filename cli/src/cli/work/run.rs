//! The work of `onnx-cast run`: a model's outputs for given or random inputs.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use prost::Message;
use serde::{Deserialize, Serialize};
use tract_onnx::prelude::*;
use tract_onnx_cast::tensor_proto;

use super::model::{Model, Ran};
use super::request::{Kind, Request};
use crate::cli::args::input::InputArgs;
use crate::cli::input::given;
use crate::cli::judge::inputs::Inputs;
use crate::cli::judge::value::{Value, values};
use crate::cli::output_file::write_whole;
use crate::cli::tensor::NamedTensor;

/// How many of an output's values are told.
const TOLD_VALUES: usize = 10;

/// A model to run.
#[derive(Serialize, Deserialize)]
pub(crate) struct RunRequest {
    pub(crate) model: PathBuf,
    pub(crate) input: InputArgs,
    /// Where the outputs are written.
    pub(crate) folder: Option<PathBuf>,
}

/// What came of it.
#[derive(Serialize, Deserialize)]
pub(crate) struct RunAnswer {
    pub(crate) outputs: Vec<RunOutput>,
    pub(crate) inputs: Inputs,
    pub(crate) note: Option<String>,
}

/// An output of the model.
#[derive(Serialize, Deserialize)]
pub(crate) struct RunOutput {
    pub(crate) name: String,
    pub(crate) ty: String,
    pub(crate) shape: Vec<usize>,
    /// The first ones.
    pub(crate) values: Vec<Value>,
}

impl Request for RunRequest {
    const KIND: Kind = Kind::Run;

    type Answer = RunAnswer;

    fn answer(&self) -> TractResult<RunAnswer> {
        if let Some(folder) = &self.folder {
            // Before the work, which may take long.
            fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        }
        let model = Model::open(&self.model)?;
        let gathered = given::gather(&model.takes, &self.input)?;
        let is_random = !gathered.random.is_empty();
        let random = is_random.then_some((gathered.random, self.input.seed));
        let inputs = Inputs::of(model.takes.inputs.len(), [random].into_iter());
        let Ran { outputs, note } = model.run(gathered.tensors)?;
        if let Some(folder) = &self.folder {
            for (position, output) in outputs.iter().enumerate() {
                write(output, &folder.join(format!("output_{position}.pb")))?;
            }
            remove_stale(folder, outputs.len())?;
        }
        let outputs = outputs.into_iter().map(told).collect::<TractResult<_>>()?;
        Ok(RunAnswer { outputs, inputs, note })
    }

    fn model(&self) -> &Path {
        &self.model
    }

    fn places(&self) -> Vec<PathBuf> {
        self.input.files().collect()
    }
}

fn write(output: &NamedTensor, path: &Path) -> TractResult<()> {
    let proto = tensor_proto::write(&output.name, output.ty, &output.tensor)?;
    write_whole(path, &proto.encode_to_vec())
}

/// Removes what an earlier run of a model with more outputs has left: `test` would take it for an output of this one.
fn remove_stale(folder: &Path, outputs: usize) -> TractResult<()> {
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let name = entry?.file_name();
        let number =
            name.to_str().and_then(|name| name.strip_prefix("output_")?.strip_suffix(".pb"));
        let number = number.and_then(|number| number.parse::<usize>().ok());
        if number.is_some_and(|number| number >= outputs) {
            let path = folder.join(&name);
            fs::remove_file(&path).with_context(|| path.display().to_string())?;
        }
    }
    Ok(())
}

fn told(output: NamedTensor) -> TractResult<RunOutput> {
    let NamedTensor { name, ty, tensor } = output;
    let values = values(ty, &tensor, 0..TOLD_VALUES)?;
    Ok(RunOutput { name, ty: ty.name().into(), shape: tensor.shape().to_vec(), values })
}
