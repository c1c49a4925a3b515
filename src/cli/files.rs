//! Arrays from files: TensorProto, .npy and .npz.

use std::fs::{self, File};
use std::io::{BufReader, Read};
use std::path::Path;

use anyhow::{Context, bail, ensure};
use ndarray_npy::npy::header::Header;
use prost::Message;
use tract_onnx::pb::TensorProto;
use tract_onnx::prelude::*;
use tract_onnx_cast::{Conversion, ElementType, Family, Rules, tensor_proto};
use zip::ZipArchive;

use super::message::at;
use super::model::Output;

/// What a file holds, and how it says so.
pub(super) struct Array {
    /// The file, for messages.
    source: String,
    /// What the file calls the array, if anything.
    pub(super) name: Option<String>,
    tensor: Tensor,
    ty: ElementType,
    origin: Origin,
}

/// Where an array comes from decides what else its elements may stand for.
#[derive(Clone, Copy, PartialEq)]
enum Origin {
    TensorProto,
    /// NumPy has none of the exotic types.
    NumPy,
    /// NumPy's bytes without a meaning, as which the arrays of the ml_dtypes package are saved.
    Opaque,
}

/// Reads a .pb file.
pub(super) fn read_tensor_proto(path: &Path) -> TractResult<Array> {
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

/// Reads a .npy file.
pub(super) fn read_npy(path: &Path) -> TractResult<Array> {
    let source = path.display().to_string();
    let read = || npy(BufReader::new(File::open(path)?), &source);
    at(&source, read())
}

/// Reads the arrays of a .npz file, with their names.
pub(super) fn read_npz(path: &Path) -> TractResult<Vec<(String, Array)>> {
    let source = path.display().to_string();
    let read = || {
        let mut archive = ZipArchive::new(BufReader::new(File::open(path)?))?;
        let count = archive.len();
        let array = |index| {
            let file = archive.by_index(index)?;
            let name = file.name().strip_suffix(".npy").unwrap_or(file.name()).to_owned();
            let array = at(format!("array `{name}`"), npy(file, &source))?;
            Ok((name, array))
        };
        (0..count).map(array).collect()
    };
    at(&source, read())
}

impl Array {
    /// The array as somebody's output, of the type that the file says.
    ///
    /// # Errors
    ///
    /// When the file has bytes without a type.
    pub(super) fn into_output(self, name: String) -> TractResult<Output> {
        let ty = self.ty;
        Ok(Output { name, ty, tensor: self.into_tensor(ty)? })
    }

    /// Its element type and its shape.
    pub(super) fn kind(&self) -> (ElementType, &[usize]) {
        (self.ty, self.tensor.shape())
    }

    /// The array as a carrier tensor of the type, cast if it is of another; then the second part says of which.
    ///
    /// # Errors
    ///
    /// When one of the two types is STRING and the other is not.
    pub(super) fn cast_to(self, ty: ElementType) -> TractResult<(Tensor, Option<ElementType>)> {
        let held = self.ty;
        let is_text = |ty: ElementType| ty.family() == Family::Text;
        match self.ty == ty || is_text(held) || is_text(ty) {
            true => Ok((self.into_tensor(ty)?, None)),
            false => {
                let cast = Conversion::new(held, ty, Rules::default()).run(&self.tensor)?;
                Ok((cast, Some(held)))
            }
        }
    }

    /// The array as a carrier tensor of the type.
    ///
    /// # Errors
    ///
    /// When its elements are not of the type, nor anything that by agreement stands for it.
    pub(super) fn into_tensor(self, ty: ElementType) -> TractResult<Tensor> {
        let is_bits = ty.is_exotic()
            && match self.origin {
                // Releases of ONNX that could not make such tensors wrote the bit patterns as
                // integers.
                Origin::TensorProto => {
                    let is_plain = self.ty.family() == Family::Unsigned;
                    let is_float = matches!(ty.family(), Family::Float(_));
                    is_plain && is_float && self.ty.bits() == ty.bits()
                }
                Origin::NumPy => self.ty.datum_type() == ty.datum_type(),
                Origin::Opaque => self.ty.carrier_bytes() == ty.carrier_bytes(),
            };
        let is_values = ty.is_exotic()
            && self.origin == Origin::NumPy
            && matches!(self.ty, ElementType::Float | ElementType::Double);
        if self.ty == ty && self.origin != Origin::Opaque {
            Ok(self.tensor)
        } else if is_bits {
            at(self.source, as_carrier(self.ty, &self.tensor, ty))
        } else if is_values {
            Conversion::new(self.ty, ty, Rules::default()).run(&self.tensor)
        } else if self.origin == Origin::Opaque {
            bail!("{} holds bytes without a type, not {ty}", self.source)
        } else {
            bail!("{} holds {}, not {ty}", self.source, self.ty)
        }
    }
}

/// Bit patterns, held in integers of their own width, in the type's carrier.
fn as_carrier(held: ElementType, tensor: &Tensor, ty: ElementType) -> TractResult<Tensor> {
    let carrier = ElementType::native(ty.datum_type()).context("a carrier is a type of tract's")?;
    let tensor = Conversion::new(held, carrier, Rules::default()).run(tensor)?;
    if let Some(unused @ 1..) = 8u32.checked_sub(ty.bits()) {
        let fits = |byte: &u8| match carrier {
            ElementType::Int8 => ((byte << unused) as i8 >> unused) as u8 == *byte,
            _ => byte << unused >> unused == *byte,
        };
        if let Some(odd) = tensor.as_bytes().iter().find(|byte| !fits(byte)) {
            bail!("the byte {odd:#04x} is no {ty}");
        }
    }
    Ok(tensor)
}

/// A .npy file's element type: how NumPy writes it, and how ONNX calls it.
struct Dtype {
    ty: ElementType,
    origin: Origin,
    bytes: usize,
    is_big_endian: bool,
}

impl Dtype {
    /// Reads a descriptor such as `<f4`.
    fn parse(descriptor: &str) -> Option<Dtype> {
        use ElementType::*;
        let mut characters = descriptor.chars();
        let (order, kind) = (characters.next()?, characters.next()?);
        let size: usize = characters.as_str().parse().ok()?;
        let (ty, origin) = match (kind, size) {
            ('b', 1) => (Bool, Origin::NumPy),
            ('i', 1) => (Int8, Origin::NumPy),
            ('i', 2) => (Int16, Origin::NumPy),
            ('i', 4) => (Int32, Origin::NumPy),
            ('i', 8) => (Int64, Origin::NumPy),
            ('u', 1) => (Uint8, Origin::NumPy),
            ('u', 2) => (Uint16, Origin::NumPy),
            ('u', 4) => (Uint32, Origin::NumPy),
            ('u', 8) => (Uint64, Origin::NumPy),
            ('f', 2) => (Float16, Origin::NumPy),
            ('f', 4) => (Float, Origin::NumPy),
            ('f', 8) => (Double, Origin::NumPy),
            ('U' | 'S', _) => (String, Origin::NumPy),
            ('V' | 'f', 1) => (Uint8, Origin::Opaque),
            ('V', 2) => (Uint16, Origin::Opaque),
            _ => return None,
        };
        let bytes = if kind == 'U' { size.checked_mul(4)? } else { size };
        let is_big_endian = order == '>' || (order == '=' && cfg!(target_endian = "big"));
        Some(Dtype { ty, origin, bytes, is_big_endian })
    }

    /// The text in an element of fixed length: UTF-32 or bytes, filled up with zeros.
    fn text(&self, element: &[u8], is_utf32: bool) -> TractResult<Vec<u8>> {
        let filled = |bytes: &[u8]| bytes.iter().rposition(|byte| *byte != 0).map_or(0, |l| l + 1);
        if !is_utf32 {
            return Ok(element.get(..filled(element)).unwrap_or_default().to_vec());
        }
        let mut text = std::string::String::new();
        for unit in element.chunks_exact(4) {
            let code = unit.iter().rev().fold(0, |code, byte| code << 8 | u32::from(*byte));
            text.push(char::from_u32(code).context("a string is not Unicode")?);
        }
        Ok(text.trim_end_matches('\0').as_bytes().to_vec())
    }
}

/// Reads what a .npy file, or a member of a .npz file, holds.
fn npy(mut reader: impl Read, source: &str) -> TractResult<Array> {
    let header = Header::from_reader(&mut reader)?;
    let descriptor = header.type_descriptor.as_string().map_or("", String::as_str);
    let dtype = Dtype::parse(descriptor)
        .with_context(|| format!("NumPy's type {} is none of ONNX's", header.type_descriptor))?;
    let length = header.shape.iter().try_fold(dtype.bytes, |bytes, dim| bytes.checked_mul(*dim));
    let length = length.with_context(|| format!("its shape {:?} overflows", header.shape))?;
    let mut bytes = vec![];
    reader.take((length as u64).saturating_add(1)).read_to_end(&mut bytes)?;
    ensure!(bytes.len() >= length, "has {} bytes of data, needs {length}", bytes.len());
    ensure!(bytes.len() == length, "has more than its {length} bytes of data");

    let is_utf32 = descriptor.contains('U');
    let unit = if is_utf32 { 4 } else { dtype.bytes };
    if dtype.is_big_endian && unit > 0 {
        bytes.chunks_exact_mut(unit).for_each(<[u8]>::reverse);
    }
    let is_transposed = header.layout.is_fortran();
    let mut shape = header.shape;
    if is_transposed {
        shape.reverse();
    }
    let mut proto = TensorProto {
        data_type: dtype.ty as i32,
        dims: shape.iter().map(|dim| i64::try_from(*dim)).collect::<Result<_, _>>()?,
        ..TensorProto::default()
    };
    if dtype.ty == ElementType::String {
        let elements = bytes.chunks_exact(dtype.bytes.max(1));
        proto.string_data =
            elements.map(|e| dtype.text(e, is_utf32)).collect::<TractResult<_>>()?;
    } else {
        proto.raw_data = bytes;
    }
    let (ty, mut tensor) = tensor_proto::read(&proto, None)?;
    if is_transposed {
        let reversed: Vec<usize> = (0..tensor.rank()).rev().collect();
        tensor = tensor.permute_axes(&reversed)?;
    }
    Ok(Array { source: source.into(), name: None, tensor, ty, origin: dtype.origin })
}
