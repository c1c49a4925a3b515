//! The work of `onnx-cast fix`: a model's file, mended.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use prost::Message;
use serde::{Deserialize, Serialize};
use tract_onnx::pb::{GraphProto, ModelProto, TensorProto};
use tract_onnx::prelude::TractResult;
use tract_onnx_cast::{Change, Mended, mend};

use super::model::check_file;
use super::request::{Kind, Request};
use crate::cli::output_file::write_whole;

/// A model to mend.
#[derive(Serialize, Deserialize)]
pub(crate) struct FixRequest {
    pub(crate) model: PathBuf,
    pub(crate) output: PathBuf,
}

/// What became of it, as `--json` prints it.
#[derive(Serialize, Deserialize)]
pub(crate) struct Fixed {
    pub(crate) model: String,
    pub(crate) output: String,
    pub(crate) changes: Vec<FixedPart>,
    /// What is wrong and stays so.
    pub(crate) left: Vec<String>,
    pub(crate) notes: Vec<String>,
}

/// Something that was changed.
#[derive(Serialize, Deserialize)]
pub(crate) struct FixedPart {
    pub(crate) kind: String,
    pub(crate) place: String,
    pub(crate) from: String,
    pub(crate) to: String,
}

impl Request for FixRequest {
    const KIND: Kind = Kind::Fix;

    type Answer = Fixed;

    fn answer(&self) -> TractResult<Fixed> {
        check_file(&self.model)?;
        let Mended { bytes, changes, left, .. } = mend(&fs::read(&self.model)?)?;
        let notes = self.note_on_data(&bytes)?.into_iter().collect();
        write_whole(&self.output, &bytes)?;
        Ok(Fixed {
            model: self.model.display().to_string(),
            output: self.output.display().to_string(),
            changes: changes.into_iter().map(part).collect(),
            left,
            notes,
        })
    }

    fn model(&self) -> &Path {
        &self.model
    }

    fn places(&self) -> Vec<PathBuf> {
        vec![]
    }

    fn output(&self) -> Option<&Path> {
        Some(&self.output)
    }
}

impl FixRequest {
    /// A note that the model's external data is looked for beside the new file, where that is another folder.
    fn note_on_data(&self, bytes: &[u8]) -> TractResult<Option<String>> {
        let folder = |path: &Path| {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            let folder = folder.unwrap_or(Path::new("."));
            folder.canonicalize().with_context(|| folder.display().to_string())
        };
        let (from, to) = (folder(&self.model)?, folder(&self.output)?);
        let model = ModelProto::decode(bytes)?;
        let is_elsewhere = from != to && model.graph.as_ref().is_some_and(has_external_data);
        Ok(is_elsewhere.then(|| {
            let (from, to) = (from.display(), to.display());
            format!(
                "the model's external data stays in {from}: it is looked for in {to} from now on"
            )
        }))
    }
}

fn has_external_data(graph: &GraphProto) -> bool {
    let is_external = |tensor: &TensorProto| !tensor.external_data.is_empty();
    let mut attributes = graph.node.iter().flat_map(|node| &node.attribute);
    graph.initializer.iter().any(is_external)
        || attributes.any(|attribute| {
            attribute.t.iter().any(is_external)
                || attribute.g.iter().chain(&attribute.graphs).any(has_external_data)
        })
}

fn part(change: Change) -> FixedPart {
    let Change { kind, place, from, to, .. } = change;
    FixedPart { kind: kind.name().into(), place, from, to }
}
