//! Data that a tensor has in a file beside the model.

#![forbid(unsafe_code)]

use std::collections::HashSet;
use std::fmt;
use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use anyhow::bail;
use onnx_cast_graph::counted;
use tract_onnx::data_resolver::ModelDataResolver;
use tract_onnx::pb::TensorProto;
use tract_onnx::pb::tensor_proto::DataLocation;
use tract_onnx::prelude::TractResult;

use crate::tensor::late::{MatrixSource, PartReader};

/// Whether a tensor's data is beside the model.
pub(crate) fn is_external(proto: &TensorProto) -> bool {
    proto.data_location == Some(DataLocation::External as i32)
}

/// The key among the entries of a tensor's external data that says how many bytes each row of the
/// matrix has in the file of which the tensor is the transpose. Of the elements of a row the first
/// ones are there, as many as the tensor has rows.
pub(crate) const TRANSPOSED: &str = "onnx-cast:bytes-of-transposed-row";

/// Whether a tensor's data beside the model is that of its transpose.
pub(super) fn is_transposed(proto: &TensorProto) -> bool {
    is_external(proto) && proto.external_data.iter().any(|entry| entry.key == TRANSPOSED)
}

/// Where a sound tensor's data is.
pub(super) struct FileData {
    /// A file inside the model's folder.
    pub(super) path: PathBuf,
    /// In bytes, as the next.
    pub(super) offset: usize,
    pub(super) bytes: usize,
    /// That of [`External`].
    pub(super) stride: Option<usize>,
}

/// Where a tensor's data is, as the tensor says.
pub(super) struct External<'a> {
    /// Relative to the model's folder.
    pub(super) location: &'a str,
    /// In bytes.
    pub(super) offset: usize,
    /// In bytes, where it is given.
    pub(super) length: Option<usize>,
    /// How many bytes each row has of the matrix of which the tensor is the transpose, if it is.
    pub(super) stride: Option<usize>,
}

impl<'a> External<'a> {
    /// Reads the entries, of which no key may come twice: readers of ONNX differ in which they
    /// take. The error is what is wrong with them, to be put after the tensor's type.
    pub(super) fn of(proto: &'a TensorProto) -> Result<External<'a>, String> {
        let mut keys = HashSet::new();
        if let Some(again) = proto.external_data.iter().find(|entry| !keys.insert(&entry.key)) {
            return Err(format!("external data has `{}` twice", again.key));
        }
        let entry = |key: &str| {
            proto.external_data.iter().find(|entry| entry.key == key).map(|e| e.value.as_str())
        };
        let number = |key: &str| {
            let parse = |value: &str| {
                value.parse().map_err(|_| format!("external data has {key} {value:?}"))
            };
            entry(key).map(parse).transpose()
        };
        let (offset, length) = (number("offset")?.unwrap_or(0), number("length")?);
        let (location, stride) = (entry("location"), number(TRANSPOSED)?);
        let location = location.ok_or("external data has no location")?;
        Ok(External { location, offset, length, stride })
    }
}

/// The file at a relative location, which must not leave the folder, not even through a link.
pub(super) fn inside(folder: &Path, location: &str) -> TractResult<PathBuf> {
    let relative = Path::new(location);
    anyhow::ensure!(
        relative.components().all(|c| matches!(c, Component::Normal(_) | Component::CurDir)),
        "is not a path inside the model's folder"
    );
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let folder = folder.canonicalize()?;
    let path = folder.join(relative).canonicalize()?;
    anyhow::ensure!(path.starts_with(&folder), "leads outside the model's folder");
    // A pipe would be waited for.
    anyhow::ensure!(path.is_file(), "is no file");
    Ok(path)
}

/// How external data is read.
#[derive(Clone)]
pub(crate) enum Resolver {
    /// From its file, of which no more is read than is asked for.
    File,
    /// As a program has told tract's loader.
    Given(Arc<dyn ModelDataResolver + Send + Sync>),
}

impl Resolver {
    /// A file whose parts are to be read. Fails when it cannot be opened.
    pub(super) fn open<'a>(&'a self, path: &'a Path) -> TractResult<DataFile<'a>> {
        Ok(match self {
            Resolver::File => DataFile::Open(File::open(path)?),
            Resolver::Given(resolver) => DataFile::Resolved { resolver: &**resolver, path },
        })
    }
}

/// A file of external data, of which parts are read.
pub(super) enum DataFile<'a> {
    Open(File),
    Resolved { resolver: &'a dyn ModelDataResolver, path: &'a Path },
}

impl DataFile<'_> {
    /// Fills a buffer with what the file holds from an offset on, in bytes. Fails when it holds
    /// less.
    pub(super) fn read(&mut self, offset: usize, buffer: &mut [u8]) -> TractResult<()> {
        let wanted = buffer.len();
        let found = match self {
            DataFile::Open(file) => {
                file.seek(SeekFrom::Start(offset as u64))?;
                match file.read_exact(buffer) {
                    Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                        file.metadata()?.len().saturating_sub(offset as u64)
                    }
                    read => return Ok(read?),
                }
            }
            DataFile::Resolved { resolver, path } => {
                let mut bytes = vec![];
                resolver.read_bytes_from_path(&mut bytes, path, offset, Some(wanted))?;
                if bytes.len() == wanted {
                    buffer.copy_from_slice(&bytes);
                    return Ok(());
                }
                bytes.len() as u64
            }
        };
        bail!("holds {} from offset {offset}, not {wanted}", counted(found, "byte"))
    }
}

/// Where the elements of a matrix are, one behind the other.
pub(super) struct ExternalPlace {
    pub(super) resolver: Resolver,
    pub(super) path: PathBuf,
    /// In bytes.
    pub(super) offset: usize,
}

/// Of rows that are shorter than `LEAST_ROW`, and whose parts are shorter than this, all is read at
/// once: each part is a call of the system's.
const LEAST_PART: usize = 1 << 12;
const LEAST_ROW: usize = 1 << 14;

impl MatrixSource for ExternalPlace {
    fn reader(&self) -> TractResult<PartReader<'_>> {
        let mut file = self.resolver.open(&self.path)?;
        Ok(Box::new(move |before, bytes| file.read(self.offset.saturating_add(before), bytes)))
    }

    fn block(&self) -> usize {
        // A part of each row is read, which is a call of the system's.
        16 << 20
    }

    fn is_read_by_parts(&self, part: usize, row: usize) -> bool {
        part >= LEAST_PART || row >= LEAST_ROW
    }
}

impl fmt::Debug for ExternalPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", self.path.display(), self.offset)
    }
}

/// Reads what is asked for of a file. tract's own maps all of it each time, which counts as memory
/// of the process.
pub(crate) struct FileReader;

impl ModelDataResolver for FileReader {
    fn read_bytes_from_path(
        &self,
        buf: &mut Vec<u8>,
        path: &Path,
        offset: usize,
        length: Option<usize>,
    ) -> TractResult<()> {
        let mut file = File::open(path)?;
        let rest = file.metadata()?.len().saturating_sub(offset as u64);
        let length = length.map_or(rest, |length| length as u64);
        anyhow::ensure!(
            length <= rest,
            "holds {} from offset {offset}, not {length}",
            counted(rest, "byte")
        );
        file.seek(SeekFrom::Start(offset as u64))?;
        // As many as there are.
        buf.reserve_exact(usize::try_from(length)?);
        file.take(length).read_to_end(buf)?;
        Ok(())
    }
}
