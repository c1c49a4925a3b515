//! Outputs that were saved: by `onnx-cast run -o`, as a test case's, or by another runtime.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use prost::Message;
use tract_onnx::pb::TensorProto;
use tract_onnx::prelude::*;
use tract_onnx_cast::{ElementType, tensor_proto};

use super::cases::{self, Case};
use super::files;
use super::message::at;
use super::model::Output;

/// What one side of a comparison is.
pub(super) enum Side {
    /// A model's file, and the sets of data beside it if the user named the folder.
    Model(PathBuf, Vec<Case>),
    /// Outputs, a list for each set.
    Saved(Vec<Saved>),
}

/// The outputs of one run, and its inputs if they were saved as well.
pub(super) struct Saved {
    pub(super) outputs: Vec<Output>,
    pub(super) case: Option<Case>,
}

/// Finds out what a path is.
///
/// # Errors
///
/// When it is nothing that can be compared.
pub(super) fn side(path: &Path) -> TractResult<Side> {
    let metadata = fs::metadata(path).with_context(|| path.display().to_string())?;
    let extension = path.extension().map(|e| e.to_string_lossy().to_ascii_lowercase());
    match extension.as_deref() {
        _ if metadata.is_dir() => folder(path),
        Some("pb") if is_tensor(path)? => {
            Ok(Side::Saved(vec![Saved { outputs: vec![tensor(path, 0)?], case: None }]))
        }
        Some("npy") => {
            let output = files::read_npy(path)?.into_output("output 0".into());
            Ok(Side::Saved(vec![Saved { outputs: vec![output?], case: None }]))
        }
        Some("npz") => {
            let arrays = files::read_npz(path)?;
            let outputs = arrays.into_iter().map(|(name, array)| array.into_output(name));
            let outputs = outputs.collect::<TractResult<_>>()?;
            Ok(Side::Saved(vec![Saved { outputs, case: None }]))
        }
        _ => Ok(Side::Model(path.into(), vec![])),
    }
}

fn folder(path: &Path) -> TractResult<Side> {
    let model = path.join("model.onnx");
    if model.is_file() {
        let has_data = |case: &Case| case.inputs().is_ok_and(|inputs| !inputs.is_empty());
        let sets = cases::sets_in(path, &model)?.into_iter().filter(has_data);
        return Ok(Side::Model(model, sets.collect()));
    }
    let mut saved = vec![];
    for case in cases::sets_in(path, &model)? {
        let files = at(case.set.display(), case.outputs())?;
        ensure!(
            !files.is_empty(),
            "{}: holds neither a model.onnx nor an output_0.pb",
            case.set.display()
        );
        let outputs = files.iter().enumerate().map(|(index, file)| tensor(file, index));
        let outputs = outputs.collect::<TractResult<_>>()?;
        let has_inputs = !at(case.set.display(), case.inputs())?.is_empty();
        saved.push(Saved { outputs, case: has_inputs.then_some(case) });
    }
    Ok(Side::Saved(saved))
}

/// Whether a .pb file is a tensor rather than a model: the two do not read as each other.
fn is_tensor(path: &Path) -> TractResult<bool> {
    let bytes = fs::read(path).with_context(|| path.display().to_string())?;
    let tensor = TensorProto::decode(bytes.as_slice());
    Ok(tensor.is_ok_and(|tensor| ElementType::from_id(tensor.data_type).is_some()))
}

fn tensor(path: &Path, index: usize) -> TractResult<Output> {
    let read = || {
        let proto = TensorProto::decode(fs::read(path)?.as_slice())?;
        let (ty, tensor) = tensor_proto::read(&proto, path.parent())?;
        let name = if proto.name.is_empty() { format!("output {index}") } else { proto.name };
        Ok(Output { name, ty, tensor })
    };
    at(path.display(), read())
}

/// Which output of one side belongs to which of the other, by their places.
pub(super) struct Pairs {
    pub(super) places: Vec<(usize, usize)>,
    /// How that was decided, if not by name.
    pub(super) note: Option<String>,
}

/// Pairs the outputs of two sides: by name, or by position where no name is shared.
///
/// # Errors
///
/// When there is no way to tell which belongs to which.
pub(super) fn pair(reference: &[Output], converted: &[Output]) -> TractResult<Pairs> {
    let place = |name: &str| converted.iter().position(|output| output.name == name);
    let by_name: Vec<(usize, usize)> = reference
        .iter()
        .enumerate()
        .filter_map(|(index, output)| Some((index, place(&output.name)?)))
        .collect();
    let names = |outputs: &[Output]| {
        outputs.iter().map(|output| format!("`{}`", output.name)).collect::<Vec<_>>().join(", ")
    };
    if by_name.len() == reference.len() && reference.len() == converted.len() {
        return Ok(Pairs { places: by_name, note: None });
    }
    if by_name.is_empty() && reference.len() == converted.len() {
        let same = |(a, b): (&Output, &Output)| a.tensor.shape() == b.tensor.shape();
        if !reference.iter().zip(converted).all(same) {
            let (a, b) = (names(reference), names(converted));
            bail!("the outputs are not the same ones: {a} and {b}, of other shapes as well");
        }
        let note = format!(
            "no output has the same name on both sides, so they are compared by position: {} with {}",
            names(reference),
            names(converted)
        );
        let places = (0..reference.len()).map(|index| (index, index)).collect();
        return Ok(Pairs { places, note: Some(note) });
    }
    bail!(
        "the outputs differ: the reference has {}, the converted side {}",
        names(reference),
        names(converted)
    )
}
