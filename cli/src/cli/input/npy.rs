//! NumPy's arrays.

use std::io::Read;

use anyhow::{Context, ensure};
use ndarray_npy::npy::header::Header;
use tract_onnx::pb::TensorProto;
use tract_onnx::prelude::*;
use tract_onnx_cast::{ElementType, tensor_proto};

use super::array::{Array, ArrayOrigin};

/// A .npy file's element type: how NumPy writes it, and how ONNX calls it.
struct Dtype {
    ty: ElementType,
    origin: ArrayOrigin,
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
            ('b', 1) => (Bool, ArrayOrigin::NumPy),
            ('i', 1) => (Int8, ArrayOrigin::NumPy),
            ('i', 2) => (Int16, ArrayOrigin::NumPy),
            ('i', 4) => (Int32, ArrayOrigin::NumPy),
            ('i', 8) => (Int64, ArrayOrigin::NumPy),
            ('u', 1) => (Uint8, ArrayOrigin::NumPy),
            ('u', 2) => (Uint16, ArrayOrigin::NumPy),
            ('u', 4) => (Uint32, ArrayOrigin::NumPy),
            ('u', 8) => (Uint64, ArrayOrigin::NumPy),
            ('f', 2) => (Float16, ArrayOrigin::NumPy),
            ('f', 4) => (Float, ArrayOrigin::NumPy),
            ('f', 8) => (Double, ArrayOrigin::NumPy),
            ('U' | 'S', _) => (String, ArrayOrigin::NumPy),
            ('V' | 'f', 1) => (Uint8, ArrayOrigin::Opaque),
            ('V', 2) => (Uint16, ArrayOrigin::Opaque),
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

/// How long a header may be, in bytes, and how many brackets it may open. An array of numbers has a
/// dictionary and a tuple, and the parser takes twice as long for each more.
const HEADER_BYTES: usize = 1 << 16;
const HEADER_BRACKETS: usize = 4;

/// The header of a .npy file with all that stands before it.
fn header_bytes(reader: &mut impl Read) -> TractResult<Vec<u8>> {
    let mut bytes = vec![0; 8];
    reader.read_exact(&mut bytes)?;
    // The version's first number says how wide the length is.
    let width = if bytes.get(6) == Some(&1) { 2 } else { 4 };
    let mut length = [0; 4];
    let (length_bytes, _) = length.split_at_mut(width);
    reader.read_exact(length_bytes)?;
    bytes.extend_from_slice(length_bytes);
    let length = u32::from_le_bytes(length) as usize;
    ensure!(length <= HEADER_BYTES, "its header has {length} bytes, more than {HEADER_BYTES}");
    let start = bytes.len();
    reader.take(length as u64).read_to_end(&mut bytes)?;
    let header = bytes.get(start..).unwrap_or_default();
    let brackets = header.iter().filter(|byte| b"([{".contains(byte)).count();
    ensure!(brackets <= HEADER_BRACKETS, "its header is not that of an array of numbers");
    Ok(bytes)
}

/// Reads what a .npy file, or a member of a .npz file, holds; `source` is the file, for messages.
/// Fails when it is no array, or one of a type that ONNX does not have.
pub(super) fn read(mut reader: impl Read, source: &str) -> TractResult<Array> {
    let header = Header::from_reader(&mut &*header_bytes(&mut reader)?)?;
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
