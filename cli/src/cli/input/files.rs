//! Files that hold arrays: TensorProto, .npy and .npz.

use std::io::{BufReader, Read, Seek};
use std::path::Path;

use anyhow::{Context, bail, ensure};
use prost::Message;
use tract_onnx::pb::TensorProto;
use tract_onnx::prelude::*;
use tract_onnx_cast::{ElementType, tensor_proto};
use zip::ZipArchive;

use super::array::{Array, ArrayOrigin};
use super::npy;
use crate::cli::input_file::{open_regular, read_regular};
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
    let read = || -> TractResult<_> {
        let proto = TensorProto::decode(read_regular(path)?.as_slice())?;
        let (ty, tensor) = tensor_proto::read(&proto, path.parent())?;
        Ok((proto.name, ty, tensor))
    };
    let (name, ty, tensor) = at(&source, read())?;
    let name = Some(name).filter(|name| !name.is_empty());
    Ok(Array { source, name, tensor, ty, origin: ArrayOrigin::TensorProto })
}

/// Whether a .pb file is a tensor rather than a model: the two do not read as each other.
/// Fails when the file cannot be read.
pub(crate) fn is_tensor_proto(path: &Path) -> TractResult<bool> {
    let bytes = read_regular(path).with_context(|| path.display().to_string())?;
    let tensor = TensorProto::decode(bytes.as_slice());
    Ok(tensor.is_ok_and(|tensor| ElementType::from_id(tensor.data_type).is_some()))
}

/// Reads a .npy file.
pub(crate) fn read_npy(path: &Path) -> TractResult<Array> {
    let source = path.display().to_string();
    let read = || npy::read(BufReader::new(open_regular(path)?.into_file()), &source);
    at(&source, read())
}

/// Reads a file that holds one array.
pub(crate) fn read_array(path: &Path) -> TractResult<Array> {
    match Format::of(path) {
        Some(Format::TensorProto) => read_tensor_proto(path),
        Some(Format::Npy) => read_npy(path),
        _ => bail!("{}: is neither a .npy nor a .pb", path.display()),
    }
}

/// The arrays of a .npz file may be so many times as long as the file, or have so many bytes, all
/// of them together.
const UNPACKED_TIMES: u64 = 100;
const UNPACKED_BYTES: u64 = 1 << 28;

/// Reads the arrays of a .npz file whose names are wanted; of the others there are the names alone.
/// Fails when it is no archive of arrays, members share bytes, or what is wanted is longer than it
/// may be, whatever the archive says.
pub(crate) fn read_npz(
    path: &Path,
    is_wanted: impl Fn(&str) -> bool,
) -> TractResult<Vec<(String, Option<Array>)>> {
    let source = path.display().to_string();
    let read = || {
        let file = open_regular(path)?;
        let most = file.length.saturating_mul(UNPACKED_TIMES).max(UNPACKED_BYTES);
        let mut left = most;
        let mut archive = ZipArchive::new(BufReader::new(file.into_file()))?;
        check_members(&mut archive)?;
        let count = archive.len();
        let array = |index| {
            let member = archive.name_for_index(index).unwrap_or_default();
            let name = member.strip_suffix(".npy").unwrap_or(member).to_owned();
            if !is_wanted(&name) {
                return Ok((name, None));
            }
            // What the directory says of its length need not be so.
            let mut unpacked = archive.by_index(index)?.take(left.saturating_add(1));
            let array = npy::read(&mut unpacked, &source);
            let read = left.saturating_add(1) - unpacked.limit();
            ensure!(
                read <= left,
                "array `{name}`: its arrays have more than {most} bytes unpacked"
            );
            left -= read;
            Ok((name.clone(), Some(at(format!("array `{name}`"), array)?)))
        };
        (0..count).map(array).collect()
    };
    at(&source, read())
}

/// Refuses an archive two of whose members share bytes: what it unpacks to is in no proportion to
/// it.
fn check_members(archive: &mut ZipArchive<impl Read + Seek>) -> TractResult<()> {
    let mut members = vec![];
    for index in 0..archive.len() {
        let member = archive.by_index_raw(index)?;
        let end = member.data_start().saturating_add(member.compressed_size());
        members.push((member.header_start(), end, index));
    }
    members.sort_unstable();
    for pair in members.windows(2) {
        let &[(_, end, one), (start, _, other)] = pair else { continue };
        let name = |index| archive.name_for_index(index).unwrap_or_default();
        ensure!(end <= start, "`{}` and `{}` share bytes of the archive", name(one), name(other));
    }
    Ok(())
}
