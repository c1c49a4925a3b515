//! The work of `onnx-cast run`: a model's outputs for given or random inputs.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use prost::Message;
use serde::{Deserialize, Serialize};
use tract_onnx::prelude::*;
use tract_onnx_cast::tensor_proto;

use super::model::{Model, Ran};
use super::numpy;
use super::request::{Kind, Request};
use crate::cli::args::input::InputArgs;
use crate::cli::input::cases::Case;
use crate::cli::input::files::Format;
use crate::cli::input::given::{OtherFloats, Recipe};
use crate::cli::input::sets;
use crate::cli::judge::inputs::Inputs;
use crate::cli::judge::value::{Value, values};
use crate::cli::output_file::{Drafts, locked};
use crate::cli::tensor::NamedTensor;

/// How many of an output's values are told.
const TOLD_VALUES: usize = 10;

/// A model to run.
#[derive(Serialize, Deserialize)]
pub(crate) struct RunRequest {
    pub(crate) model: PathBuf,
    pub(crate) input: InputArgs,
    /// The set of recorded inputs to run on, instead of what `input` says.
    pub(crate) case: Option<Case>,
    /// Where the outputs are written: a .npy, a .npz or a folder.
    pub(crate) output: Option<PathBuf>,
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
        let (file, folder) = match &self.output {
            Some(path) if is_numpy(path) => (Some(path), None),
            path => (None, path.as_ref()),
        };
        if let Some(folder) = folder {
            // Before the work, which may take long.
            fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        }
        let model = Model::open(&self.model)?;
        let (tensors, random, mut notes) = match &self.case {
            Some(case) => {
                let (tensors, notes) = sets::of_case(&model.takes, case)?;
                (tensors, vec![], notes)
            }
            None => {
                let recipe = Recipe::of(&model.takes, &self.input, OtherFloats::Refused)?;
                (recipe.tensors(self.input.seed)?, recipe.random, recipe.notes)
            }
        };
        let random = (!random.is_empty()).then_some((random, self.input.seed));
        let inputs = Inputs::of(model.takes.inputs.len(), [random].into_iter());
        let Ran { outputs, note } = model.run(tensors)?;
        notes.extend(note);
        let note = (!notes.is_empty()).then(|| notes.join("; "));
        if let Some(file) = file {
            numpy::write(&outputs, file)?;
        }
        if let Some(folder) = folder {
            let mut drafts = Drafts::default();
            for (position, output) in outputs.iter().enumerate() {
                let proto = tensor_proto::write(&output.name, output.ty, &output.tensor)?;
                let path = folder.join(format!("output_{position}.pb"));
                drafts.file(&path, &proto.encode_to_vec())?;
            }
            let _lock = locked(folder);
            drafts.put()?;
            remove_stale(folder, outputs.len())?;
        }
        let outputs = outputs.into_iter().map(told).collect::<TractResult<_>>()?;
        Ok(RunAnswer { outputs, inputs, note })
    }

    fn model(&self) -> &Path {
        &self.model
    }

    fn places(&self) -> Vec<PathBuf> {
        self.input.files().chain(self.case.iter().map(|case| case.set.clone())).collect()
    }

    fn output(&self) -> Option<&Path> {
        self.output.as_deref()
    }
}

/// Whether a path is where NumPy's arrays go.
fn is_numpy(path: &Path) -> bool {
    matches!(Format::of(path), Some(Format::Npy | Format::Npz)) && !path.is_dir()
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
