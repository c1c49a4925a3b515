//! `TensorProto` ↔ carrier tensor, for all 26 element types, packed as the format says ([SEMANTICS
//! §11](crate::semantics)).
//!
//! - `field`: which of its fields holds the data
//! - `packed`: elements of fewer than 8 bits, and matrices that stay so
//! - `external`: data beside the model
//! - `transposed`: matrices that stay there, and ones whose transposes do

#![forbid(unsafe_code)]

pub(crate) mod external;
mod field;
mod packed;
mod transposed;

use std::path::{Path, PathBuf};

use anyhow::Context;
use onnx_cast_graph::counted;
use tract_onnx::pb::{StringStringEntryProto, TensorProto};
use tract_onnx::prelude::{Tensor, TractResult};

use crate::cast::element_type::{self, ElementType};
use crate::error::{self, Cause, Error, Result};
use crate::tensor::carrier;
use crate::tensor::late::PIECE;
pub use crate::tensor::late::reader::LateReader;
pub use crate::tensor::late::{altered, untransposed};
use crate::tensor::memory::Memory;
use crate::tensor::output;
use external::{External, FileData, Resolver, inside, is_transposed};
pub(crate) use external::{TRANSPOSED, is_external};
use field::TensorField;
pub(crate) use packed::packed_matrix;
use packed::{pack, packed_length, unpack};
pub use transposed::transposed;

/// Reads a tensor, from whichever field holds its data.
///
/// External data is looked for in `folder`, and refused outside it or when there is none.
///
/// # Errors
///
/// When the element type is not one of the 26, a dimension is negative, the data is not exactly as
/// long as the dimensions say, or more than one field holds data.
pub fn read(proto: &TensorProto, folder: Option<&Path>) -> Result<(ElementType, Tensor)> {
    read_with(proto, folder, &Resolver::File).map_err(Error::of)
}

/// As [`read`], external data through the resolver of a tract `Onnx`.
pub(crate) fn read_with(
    proto: &TensorProto,
    folder: Option<&Path>,
    resolver: &Resolver,
) -> TractResult<(ElementType, Tensor)> {
    let reader = TensorReader::new(proto)?;
    let memory = Memory::default();
    let tensor = if is_external(proto) {
        reader.external(folder, (resolver, &memory))
    } else {
        reader.data(&memory)
    };
    Ok((reader.ty, tensor?))
}

/// As [`read`], but that a large matrix of external data stays in its file until all of it is asked
/// for, by [`Tensor::try_as_plain_ram`]. [`Tensor::slice`] reads the rows that it is asked for
/// alone, and [`Tensor::as_plain_ram`] is `None` until then.
///
/// # Errors
///
/// Those of [`read`]. A file that becomes shorter afterwards is an error of what reads it.
pub fn read_late(proto: &TensorProto, folder: Option<&Path>) -> Result<(ElementType, Tensor)> {
    late_with(proto, folder, (&Resolver::File, &Memory::default())).map_err(Error::of)
}

/// The matrix of which [`read_late`] reads nothing; `None` of any other tensor.
///
/// # Errors
///
/// Those of [`read_late`] for such a matrix.
pub fn late_matrix(
    proto: &TensorProto,
    folder: Option<&Path>,
) -> Result<Option<(ElementType, Tensor)>> {
    let matrix =
        || TensorReader::new(proto)?.late_matrix(folder, (&Resolver::File, &Memory::default()));
    matrix().map_err(Error::of)
}

/// As [`read_late`], external data through the resolver of a tract `Onnx`, into memory that is used
/// again.
pub(crate) fn late_with(
    proto: &TensorProto,
    folder: Option<&Path>,
    (resolver, memory): (&Resolver, &Memory),
) -> TractResult<(ElementType, Tensor)> {
    let reader = TensorReader::new(proto)?;
    if !is_external(proto) {
        return Ok((reader.ty, reader.data(memory)?));
    }
    if let Some(matrix) = reader.late_matrix(folder, (resolver, memory))? {
        return Ok(matrix);
    }
    Ok((reader.ty, reader.external(folder, (resolver, memory))?))
}

/// Checks what [`read_with`] would refuse, without copying the data of numeric tensors and without
/// reading a side file.
pub(crate) fn check(proto: &TensorProto, folder: Option<&Path>) -> TractResult<ElementType> {
    let reader = TensorReader::new(proto)?;
    if !is_external(proto) {
        reader.field()?;
    } else {
        let FileData { path, offset, bytes, .. } = reader.external_data(folder)?;
        let available = std::fs::metadata(&path)
            .with_context(|| format!("tensor `{}`: external data", error::shown(&proto.name)))?
            .len();
        let rest = usize::try_from(available).unwrap_or(usize::MAX).saturating_sub(offset);
        if rest < bytes {
            Err(reader.refuse(format!(
                "external data holds {} from offset {offset}, the dimensions ask for {bytes}",
                counted(rest, "byte")
            )))?;
        }
    }
    Ok(reader.ty)
}

/// Where a sound tensor's external data is: a file inside `folder`, the place in it, and how many
/// bytes. The error is what [`check`] would refuse.
pub(crate) fn external_place(
    proto: &TensorProto,
    folder: Option<&Path>,
) -> TractResult<(PathBuf, u64, u64)> {
    let FileData { path, offset, bytes, .. } = TensorReader::new(proto)?.external_data(folder)?;
    Ok((path, offset as u64, bytes as u64))
}

/// Writes a carrier tensor, packed into `raw_data` (strings into `string_data`).
///
/// # Errors
///
/// When the tensor is not of the type's carrier.
pub fn write(name: &str, ty: ElementType, tensor: &Tensor) -> Result<TensorProto> {
    written(name, ty, tensor).map_err(Error::of_argument)
}

fn written(name: &str, ty: ElementType, tensor: &Tensor) -> TractResult<TensorProto> {
    let mut proto = TensorProto {
        name: name.into(),
        data_type: ty as i32,
        dims: tensor.shape().iter().map(|dim| *dim as i64).collect(),
        ..TensorProto::default()
    };
    anyhow::ensure!(
        tensor.datum_type() == ty.datum_type(),
        "tensor `{name}`: {ty} is held in {:?}, not {:?}",
        ty.datum_type(),
        tensor.datum_type()
    );
    let Some(width) = ty.carrier_bytes() else {
        let texts = tensor.try_as_plain_ram()?.as_slice::<String>()?;
        proto.string_data = texts.iter().map(|text| text.clone().into_bytes()).collect();
        return Ok(proto);
    };
    let bytes = tensor.as_bytes();
    proto.raw_data = match ty.bits() {
        bits @ ..8 => pack(bytes, bits),
        _ if cfg!(target_endian = "little") => bytes.to_vec(),
        _ => bytes.chunks_exact(width).flat_map(little_endian).collect(),
    };
    Ok(proto)
}

fn little_endian(element: &[u8]) -> impl Iterator<Item = u8> {
    let big = cfg!(target_endian = "big");
    let last = element.len() - 1;
    (0..element.len()).map(move |i| element[if big { last - i } else { i }])
}

/// A `TensorProto` whose description is sound; its data is not looked at yet.
struct TensorReader<'a> {
    proto: &'a TensorProto,
    ty: ElementType,
    shape: Vec<usize>,
    count: usize,
}

impl<'a> TensorReader<'a> {
    fn new(proto: &'a TensorProto) -> Result<TensorReader<'a>> {
        let refuse = |problem| Cause::Tensor { tensor: proto.name.clone(), problem }.into();
        let ty = ElementType::from_id(proto.data_type).ok_or_else(|| {
            refuse(format!(
                "{} is no element type that can be read",
                element_type::name_of_id(proto.data_type)
            ))
        })?;
        if proto.segment.is_some() {
            return Err(refuse("is a segment of a tensor".into()));
        }
        let mut shape = Vec::with_capacity(proto.dims.len());
        // Counted with every dimension at least 1, so that the strides of an empty tensor cannot
        // overflow either.
        let mut extent = 1usize;
        for dim in &proto.dims {
            let dim = usize::try_from(*dim).map_err(|_| refuse(format!("has dimension {dim}")))?;
            shape.push(dim);
            extent = extent
                .checked_mul(dim.max(1))
                .filter(|extent| {
                    extent.checked_mul(8).is_some_and(|bytes| bytes <= isize::MAX as usize)
                })
                .ok_or_else(|| refuse(format!("its dimensions {:?} overflow", proto.dims)))?;
        }
        let count = if shape.contains(&0) { 0 } else { extent };
        Ok(TensorReader { proto, ty, shape, count })
    }

    fn refuse(&self, problem: String) -> Error {
        Cause::Tensor { tensor: self.proto.name.clone(), problem: format!("{} {problem}", self.ty) }
            .into()
    }

    fn packed_bytes(&self) -> Result<usize> {
        match self.ty.bits() {
            0 => Err(self.refuse("cannot be in raw or external data".into())),
            bits => Ok(packed_length(self.count, bits)),
        }
    }

    fn check_length(&self, field: &str, found: usize, expected: usize) -> Result<()> {
        if found == expected {
            return Ok(());
        }
        let dims = &self.proto.dims;
        Err(self.refuse(format!("has {found} in {field}, dimensions {dims:?} ask for {expected}")))
    }

    /// Whether the carrier's bytes are those of the file.
    fn is_copied(&self) -> bool {
        self.ty.bits() >= 8 && self.ty != ElementType::Bool && cfg!(target_endian = "little")
    }

    /// From external data, of which a piece at a time is copied.
    fn external(
        &self,
        folder: Option<&Path>,
        (resolver, memory): (&Resolver, &Memory),
    ) -> TractResult<Tensor> {
        if is_transposed(self.proto) {
            let matrix = self.late_matrix(folder, (resolver, memory))?;
            let (_, matrix) = matrix.with_context(|| self.refuse("is no matrix".into()))?;
            matrix.try_as_plain_ram()?;
            return Ok(matrix);
        }
        let FileData { path, offset, bytes: whole, .. } = self.external_data(folder)?;
        let mut file = self.in_file(resolver.open(&path))?;
        let mut read =
            |at: usize, bytes: &mut [u8]| self.in_file(file.read(offset.saturating_add(at), bytes));
        if whole > PIECE {
            // Room is made for what the file holds.
            read(whole - 1, &mut [0])?;
        }
        if !self.is_copied() {
            let mut bytes = vec![0; whole];
            read(0, &mut bytes)?;
            return self.raw(&bytes, memory);
        }
        output::in_pieces((self.ty.datum_type(), &self.shape), PIECE, memory, read)
    }

    /// What was read of a file, or an error that names the tensor.
    fn in_file<T>(&self, read: TractResult<T>) -> TractResult<T> {
        read.with_context(|| format!("tensor `{}`: external data", error::shown(&self.proto.name)))
    }

    /// From packed little-endian bytes.
    fn raw(&self, bytes: &[u8], memory: &Memory) -> TractResult<Tensor> {
        self.check_length("bytes of data", bytes.len(), self.packed_bytes()?)?;
        match self.ty.bits() {
            ..8 => {
                let mut output = memory.written(self.ty.datum_type(), &self.shape)?;
                unpack(bytes, self.ty, output.as_bytes_mut());
                Ok(output)
            }
            8 if self.ty == ElementType::Bool => {
                self.codes(bytes.iter().map(|byte| u64::from(*byte != 0)))
            }
            bits => {
                let width = bits as usize / 8;
                let mut output = memory.written(self.ty.datum_type(), &self.shape)?;
                output.as_bytes_mut().copy_from_slice(bytes);
                if cfg!(target_endian = "big") {
                    output.as_bytes_mut().chunks_exact_mut(width).for_each(<[u8]>::reverse);
                }
                Ok(output)
            }
        }
    }

    /// From codes, as many as the tensor has elements.
    fn codes(&self, codes: impl Iterator<Item = u64>) -> TractResult<Tensor> {
        let mut output = Tensor::zero_dt(self.ty.datum_type(), &self.shape)?;
        carrier::write(self.ty, codes, output.as_bytes_mut());
        Ok(output)
    }

    /// The one field that holds the data, of the right length; an empty tensor needs none.
    fn field(&self) -> Result<TensorField> {
        let mut filled = TensorField::ALL
            .into_iter()
            .map(|field| (field, field.length(self.proto)))
            .filter(|f| f.1 > 0);
        let own = TensorField::of(self.ty);
        let (field, length) = filled.next().unwrap_or((own, 0));
        if let Some((other, _)) = filled.next() {
            let (field, other) = (field.name(), other.name());
            return Err(self.refuse(format!("has data in both {field} and {other}")));
        }
        let expected = match field {
            TensorField::Raw => self.packed_bytes()?,
            _ if field != own => {
                return Err(self.refuse(format!("has its data in {}", field.name())));
            }
            // The types of 4 and 2 bits have an entry per packed byte.
            _ if matches!(self.ty.bits(), 2 | 4) => self.packed_bytes()?,
            _ => self.count,
        };
        self.check_length(field.name(), length, expected)?;
        Ok(field)
    }

    /// From the field that holds the data.
    fn data(&self, memory: &Memory) -> TractResult<Tensor> {
        let p = self.proto;
        match self.field()? {
            TensorField::Raw => self.raw(&p.raw_data, memory),
            TensorField::Float => self.codes(p.float_data.iter().map(|x| u64::from(x.to_bits()))),
            TensorField::Double => self.codes(p.double_data.iter().map(|x| x.to_bits())),
            TensorField::Int64 => self.codes(p.int64_data.iter().map(|x| *x as u64)),
            TensorField::Uint64 => {
                let bits = self.ty.bits();
                if let Some(big) = p.uint64_data.iter().find(|x| **x >> (bits - 1) > 1) {
                    return Err(self.refuse(format!("has {big} in uint64_data")))?;
                }
                self.codes(p.uint64_data.iter().copied())
            }
            TensorField::String => self.strings(),
            TensorField::Int32 => self.int32_data(),
        }
    }

    /// One element per entry, but one packed byte for the types of 4 and 2 bits.
    fn int32_data(&self) -> TractResult<Tensor> {
        let data = &self.proto.int32_data;
        if self.ty == ElementType::Bool {
            return self.codes(data.iter().map(|entry| u64::from(*entry != 0)));
        }
        let is_packed = matches!(self.ty.bits(), 2 | 4);
        // Writers differ in whether a pattern is stored as an unsigned number or sign-extended.
        let width = if is_packed { 8 } else { self.ty.bits() };
        let range = -(1i64 << (width - 1))..1i64 << width;
        if let Some(entry) = data.iter().find(|entry| !range.contains(&i64::from(**entry))) {
            return Err(self.refuse(format!("has {entry} in int32_data")))?;
        }
        if is_packed {
            let bytes: Vec<u8> = data.iter().map(|entry| *entry as u8).collect();
            return self.raw(&bytes, &Memory::default());
        }
        self.codes(data.iter().map(|entry| *entry as u64 & self.ty.code_mask()))
    }

    fn strings(&self) -> TractResult<Tensor> {
        let texts = self
            .proto
            .string_data
            .iter()
            .enumerate()
            .map(|(index, bytes)| {
                String::from_utf8(bytes.clone())
                    .map_err(|_| self.refuse(format!("element {index} is not UTF-8")))
            })
            .collect::<Result<Vec<_>>>()?;
        tensor_of_strings(texts, &self.shape)
    }

    /// Where the data is. A length that is given is the right one.
    fn external_data(&self, folder: Option<&Path>) -> TractResult<FileData> {
        let External { location, offset, length, stride } =
            External::of(self.proto).map_err(|problem| self.refuse(problem))?;
        if let Some(other) = TensorField::ALL.into_iter().find(|field| field.length(self.proto) > 0)
        {
            Err(self.refuse(format!("has data in {} beside its external data", other.name())))?;
        }
        let bytes = match stride.zip(self.shape.last()) {
            Some((stride, rows)) => rows.checked_mul(stride),
            None => Some(self.packed_bytes()?),
        };
        let bytes = bytes.with_context(|| self.refuse("has rows that overflow".into()))?;
        if let Some(length) = length {
            self.check_length("bytes of external data", length, bytes)?;
        }
        let folder = folder.ok_or_else(|| {
            self.refuse("has external data, and the model comes from no folder".into())
        })?;
        let path = inside(folder, location)
            .with_context(|| self.refuse(format!("external data {location:?}")).to_string())?;
        Ok(FileData { path, offset, bytes, stride })
    }
}

/// A STRING tensor; `texts` has as many elements as the shape.
pub(crate) fn tensor_of_strings(texts: Vec<String>, shape: &[usize]) -> TractResult<Tensor> {
    // tract panics at what is too large, even where a dimension that follows is 0.
    let bytes = |bytes: usize, dim: &usize| bytes.checked_mul(*dim);
    let bytes = shape.iter().try_fold(size_of::<String>(), bytes);
    bytes.with_context(|| format!("strings of shape {shape:?} are too many"))?;
    Ok(tract_onnx::prelude::tract_ndarray::ArrayD::from_shape_vec(shape, texts)?.into())
}

/// The same tensor as tract can read it: the carrier's own element type, data in `raw_data` or
/// `string_data`.
pub(crate) fn as_carrier(name: &str, tensor: &Tensor) -> TractResult<TensorProto> {
    let ty = ElementType::native(tensor.datum_type()).with_context(|| {
        format!("tensor `{}`: {:?} is no element type", error::shown(name), tensor.datum_type())
    })?;
    written(name, ty, tensor)
}

/// Whether tract 0.23 refuses or misreads a tensor of a native type that [`check`] finds sound: it
/// takes UINT32 and UINT64 from other fields than the standard's, cuts off numbers that are too
/// large for a narrow type, and knows nothing of a [`transposed`] one.
pub(crate) fn is_misread_by_tract(proto: &TensorProto, ty: ElementType) -> bool {
    let narrow = ty != ElementType::Int32 && !proto.int32_data.is_empty();
    narrow || ty == ElementType::String || !proto.uint64_data.is_empty() || is_transposed(proto)
}

/// Writes down how long a sound tensor's external data is, where the file leaves it open: tract
/// would read to the end of the side file.
pub(crate) fn bound_external_data(proto: &mut TensorProto) {
    let is_open =
        is_external(proto) && proto.external_data.iter().all(|entry| entry.key != "length");
    let length =
        TensorReader::new(proto).and_then(|reader| reader.packed_bytes()).ok().filter(|_| is_open);
    if let Some(length) = length {
        let (key, value) = ("length".into(), length.to_string());
        proto.external_data.push(StringStringEntryProto { key, value });
    }
}
