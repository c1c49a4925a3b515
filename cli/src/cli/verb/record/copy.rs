//! Putting a model, and the files that hold its tensors, where the goldens are.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, bail, ensure};
use onnx_cast_graph::all_tensors;
use prost::Message;
use tract_onnx::pb::tensor_proto::DataLocation;
use tract_onnx::pb::{GraphProto, ModelProto, TensorProto};
use tract_onnx::prelude::TractResult;

use crate::cli::input_file::read_regular;
use crate::cli::output_file::{Drafts, folder_of};

/// Drafts a copy of the model at `from` for `to`, and of its side files beside it, under their
/// names. What is there and differs is changed only if it is to be written anew. Fails when a file
/// cannot be read or written, when one that is there differs, or when a side file would be outside
/// the folder of `to` or in the model's own place.
pub(crate) fn copy_model(
    from: &Path,
    to: &Path,
    is_anew: bool,
    drafts: &mut Drafts,
) -> TractResult<()> {
    let is_itself = match (from.canonicalize(), to.canonicalize()) {
        (Ok(from), Ok(to)) => from == to,
        _ => false,
    };
    if is_itself {
        return Ok(());
    }
    let (source, target) = (folder_of(from), folder_of(to));
    let bytes = read(from)?;
    let proto = ModelProto::decode(&*bytes)?;
    let mut copies = BTreeMap::from([(to.to_path_buf(), bytes)]);
    for location in proto.graph.iter().flat_map(locations) {
        let relative = inside(location)?;
        let copy = target.join(&relative);
        check_no_link(target, &relative)?;
        let bytes = read(&source.join(&relative))?;
        let taken = copies.insert(copy, bytes);
        ensure!(taken.is_none(), "{location:?} is both a model's place and a side file's");
    }
    let mut differing = BTreeMap::new();
    for (path, bytes) in copies {
        let is_there = path.exists();
        if is_there && read(&path)? == bytes {
            continue;
        }
        if is_there && !is_anew {
            let name = path.display();
            bail!(
                "{name}: is another model's; `onnx-cast rerecord {} {}` puts this one in its place",
                target.display(),
                from.display()
            );
        }
        differing.insert(path, bytes);
    }
    // The model comes last: where something goes wrong in between, there is none that lacks a file.
    let model = differing.remove(to).map(|bytes| (to.to_path_buf(), bytes));
    for (path, bytes) in differing.into_iter().chain(model) {
        let folder = folder_of(&path);
        fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        drafts.file(&path, &bytes)?;
    }
    Ok(())
}

/// Reads a file that is none else by the time it is read: it is judged by its descriptor.
fn read(path: &Path) -> TractResult<Vec<u8>> {
    read_regular(path).with_context(|| path.display().to_string())
}

/// A location without its dots, which must not lead upwards.
fn inside(location: &str) -> TractResult<PathBuf> {
    let mut relative = PathBuf::new();
    for component in Path::new(location).components() {
        match component {
            Component::Normal(part) => relative.push(part),
            Component::CurDir => {}
            _ => bail!("external data {location:?} is not a path inside the model's folder"),
        }
    }
    Ok(relative)
}

/// Refuses a place that a link on the way to it leads elsewhere. A link at the place itself is
/// replaced.
fn check_no_link(folder: &Path, relative: &Path) -> TractResult<()> {
    for part in relative.ancestors().skip(1).filter(|part| !part.as_os_str().is_empty()) {
        let path = folder.join(part);
        let is_link = fs::symlink_metadata(&path).is_ok_and(|metadata| metadata.is_symlink());
        ensure!(!is_link, "{}: is a link, which may lead outside the folder", path.display());
    }
    Ok(())
}

/// Where a graph's external data is, each place once.
fn locations<'a>(graph: &'a GraphProto) -> BTreeSet<&'a str> {
    let external =
        |tensor: &&TensorProto| tensor.data_location == Some(DataLocation::External as i32);
    // A further entry is not what tract reads, so nobody has looked where it leads.
    let location = |tensor: &'a TensorProto| {
        let entry = tensor.external_data.iter().find(|entry| entry.key == "location")?;
        Some(entry.value.as_str())
    };
    all_tensors(graph).filter(external).filter_map(location).collect()
}
