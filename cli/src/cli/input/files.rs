//! Files that hold arrays: TensorProto, .npy and .npz.

use std::fs::{self, File};
use std::io::BufReader;
use std::path::Path;

use anyhow::{Context, ensure};
use prost::Message;
use tract_onnx::pb::TensorProto;
use tract_onnx::prelude::*;
use tract_onnx_cast::{ElementType, tensor_proto};
use zip::ZipArchive;

use super::array::{Array, Origin};
use super::npy;
use crate::cli::message::at;

/// How a file holds arrays.
#[derive(Clone, Copy)]
pub(crate) enum Format {
    TensorProto,
    Npy,
    Npz,
}

impl Format {
    /// What a file's name says.
    pub(crate) fn of(path: &Path) -> Option<Format> {
        match path.extension()?.to_string_lossy().to_ascii_lowercase().as_str() {
            "pb" => Some(Format::TensorProto),
            "npy" => Some(Format::Npy),
            "npz" => Some(Format::Npz),
            _ => None,
        }
    }
}

/// Reads a .pb file.
pub(crate) fn read_tensor_proto(path: &Path) -> TractResult<Array> {
    let source = path.display().to_string();
    let read = || {
        let proto = TensorProto::decode(fs::read(path)?.as_slice())?;
        let (ty, tensor) = tensor_proto::read(&proto, path.parent())?;
        Ok((proto.name, ty, tensor))
    };
    let (name, ty, tensor) = at(&source, read())?;
    let name = Some(name).filter(|name| !name.is_empty());
    Ok(Array { source, name, tensor, ty, origin: Origin::TensorProto })
}

/// Whether a .pb file is a tensor rather than a model: the two do not read as each other.
///
/// # Errors
///
/// When the file cannot be read.
pub(crate) fn is_tensor_proto(path: &Path) -> TractResult<bool> {
    let bytes = fs::read(path).with_context(|| path.display().to_string())?;
    let tensor = TensorProto::decode(bytes.as_slice());
    Ok(tensor.is_ok_and(|tensor| ElementType::from_id(tensor.data_type).is_some()))
}

/// Reads a .npy file.
pub(crate) fn read_npy(path: &Path) -> TractResult<Array> {
    let source = path.display().to_string();
    let read = || npy::read(BufReader::new(File::open(path)?), &source);
    at(&source, read())
}

/// Arrays in a .npz file may be so many times as long as they are packed, and any may have so many bytes.
const UNPACKED_TIMES: u64 = 100;
const UNPACKED_BYTES: u64 = 1 << 28;

/// Reads the arrays of a .npz file, with their names.
pub(crate) fn read_npz(path: &Path) -> TractResult<Vec<(String, Array)>> {
    let source = path.display().to_string();
    let read = || {
        let mut archive = ZipArchive::new(BufReader::new(File::open(path)?))?;
        let count = archive.len();
        let array = |index| {
            let file = archive.by_index(index)?;
            let (size, packed) = (file.size(), file.compressed_size());
            let most = packed.saturating_mul(UNPACKED_TIMES).max(UNPACKED_BYTES);
            ensure!(
                size <= most,
                "holds {size} bytes in {packed}, more than {UNPACKED_TIMES} times as many"
            );
            let name = file.name().strip_suffix(".npy").unwrap_or(file.name()).to_owned();
            let array = at(format!("array `{name}`"), npy::read(file, &source))?;
            Ok((name, array))
        };
        (0..count).map(array).collect()
    };
    at(&source, read())
}
