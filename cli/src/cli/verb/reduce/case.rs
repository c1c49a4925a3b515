//! A part as a test case, in the layout that every ONNX runtime reads.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use onnx_cast_graph::external_data;
use prost::Message;
use tract_onnx::pb::ModelProto;
use tract_onnx::pb::tensor_proto::DataLocation;
use tract_onnx::prelude::*;

use super::part::{Part, for_tensors};
use crate::cli::output_file::{Drafts, folder_of, try_folder};
use crate::cli::tensor::write_tensors;

/// The names of what a case holds.
pub(super) const MODEL: &str = "model.onnx";
pub(super) const REFERENCE: &str = "reference.onnx";
pub(super) const SET: &str = "test_data_set_0";

/// Writes a case in the place of what is there, as a whole. Fails when it cannot be written.
pub(super) fn write(part: &Part, readme: &str, place: &Path) -> TractResult<()> {
    let _made = try_folder(folder_of(place))?;
    let mut drafts = Drafts::default();
    let folder = drafts.folder(place)?;
    write_into(part, &folder)?;
    fs::write(folder.join("README.md"), readme)?;
    drafts.put()
}

/// Writes the models and the data of a case into a folder. Fails when they cannot be written.
pub(super) fn write_into(part: &Part, folder: &Path) -> TractResult<()> {
    write_model(part.model.clone(), &folder.join(MODEL))?;
    if let Some(reference) = &part.reference {
        write_model(reference.clone(), &folder.join(REFERENCE))?;
    }
    let set = folder.join(SET);
    fs::create_dir_all(&set).with_context(|| set.display().to_string())?;
    write_tensors(&part.inputs, "input_", &set)?;
    write_tensors(&part.outputs, "output_", &set)
}

/// From so many bytes on a model has its tensors in another file: a message of more than 2 GB
/// cannot be read.
const LARGE: usize = 1 << 30;

fn write_model(mut model: ModelProto, path: &Path) -> TractResult<()> {
    if model.encoded_len() > LARGE {
        spill(&mut model, path)?;
    }
    fs::write(path, model.encode_to_vec()).with_context(|| path.display().to_string())
}

/// Moves a model's large tensors into a file beside it.
fn spill(model: &mut ModelProto, path: &Path) -> TractResult<()> {
    const SMALL: usize = 1 << 10;
    let mut beside = path.as_os_str().to_owned();
    beside.push(".data");
    let beside = PathBuf::from(beside);
    let location = beside.file_name().and_then(|name| name.to_str()).context("a file's name")?;
    let mut file = fs::File::create(&beside).with_context(|| beside.display().to_string())?;
    let mut offset = 0;
    let Some(graph) = &mut model.graph else { return Ok(()) };
    for_tensors(graph, &mut |tensor| {
        if tensor.raw_data.len() > SMALL {
            let bytes = std::mem::take(&mut tensor.raw_data);
            std::io::Write::write_all(&mut file, &bytes)?;
            tensor.data_location = Some(DataLocation::External as i32);
            let length = bytes.len() as u64;
            tensor.external_data = external_data(location, offset, length);
            offset += length;
        }
        Ok(())
    })
}

/// How many bytes a folder's files have.
pub(super) fn size_of(folder: &Path) -> u64 {
    let entries = walkdir::WalkDir::new(folder).into_iter().filter_map(Result::ok);
    entries.filter_map(|entry| entry.metadata().ok()).filter(|m| m.is_file()).map(|m| m.len()).sum()
}
