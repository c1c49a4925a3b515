//! The data of weights: whether they fit another type, and the same in it. Data beside the model is
//! read in pieces.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::path::Path;

use tract_onnx::pb::{StringStringEntryProto, TensorProto};
use tract_onnx::prelude::{Tensor, TractResult};

use super::weights::codes::WeightCodes;
use crate::cast::element_type::ElementType;
use crate::cast::rules::Rules;
use crate::error::{Cause, Error, Result};
use crate::tensor::conversion::Conversion;
use crate::tensor::proto;

/// How many elements are converted at once.
const PIECE: usize = 1 << 18;

/// The error of a whole tensor, relative to it, from which on it does not fit: most of its elements
/// are lost.
const LOST: f64 = 0.125;

/// Why a tensor does not fit a type; `None` where it does: no finite element becomes infinite, and
/// the elements together, as one vector, do not change by an eighth of its length.
/// Fails when the tensor's data cannot be read.
pub(super) fn misfit(
    tensor: &TensorProto,
    folder: Option<&Path>,
    to: ElementType,
) -> Result<Option<String>> {
    let Some(from) = ElementType::from_id(tensor.data_type) else { return Ok(None) };
    if Conversion::new(from, to, Rules::default()).is_lossless() {
        return Ok(None);
    }
    let (mut lost, mut length, mut largest) = (0.0f64, 0.0f64, None::<f32>);
    let mut count = |before: &[f32], after: &[f32]| {
        for (x, y) in before.iter().zip(after) {
            if !x.is_finite() {
                continue;
            }
            if y.is_infinite() {
                largest = Some(largest.map_or(*x, |l: f32| if x.abs() > l.abs() { *x } else { l }));
                continue;
            }
            let (x, y) = (f64::from(*x), f64::from(*y));
            lost += (x - y) * (x - y);
            length += x * x;
        }
    };
    let there = Conversion::new(from, to, Rules::default());
    let exact = Conversion::new(from, ElementType::Float, Rules::default());
    let back = Conversion::new(to, ElementType::Float, Rules::default());
    each_piece(tensor, folder, |piece| {
        let (before, after) = (exact.run(&piece)?, back.run(&there.run(&piece)?)?);
        count(before.try_as_plain_ram()?.as_slice()?, after.try_as_plain_ram()?.as_slice()?);
        Ok(())
    })?;
    if let Some(largest) = largest {
        return Ok(Some(format!("{largest:e} overflows in {to}")));
    }
    let is_lost = lost > LOST * LOST * length;
    Ok(is_lost.then(|| format!("its values are too small for {to}")))
}

/// The key among the entries of a tensor's external data that says what type the file beside the
/// model has it in, and which of the codes it becomes, if any.
pub(super) const STORED_AS: &str = "onnx-cast:stored-as";

/// A tensor in another type. Data in the model is converted into `raw_data`; data beside it when it
/// is written. Fails when the tensor's data cannot be read.
pub(super) fn recast(tensor: TensorProto, to: ElementType) -> Result<TensorProto> {
    restored(tensor, to, None)
}

/// A weight as codes, which are at `place` among all. Data in the model is converted into
/// `raw_data`; data beside it when it is written. Fails when the weight's data cannot be read.
pub(super) fn coded(tensor: TensorProto, codes: &WeightCodes, place: usize) -> Result<TensorProto> {
    restored(tensor, codes.ty, Some((codes, place)))
}

fn restored(
    mut tensor: TensorProto,
    to: ElementType,
    codes: Option<(&WeightCodes, usize)>,
) -> Result<TensorProto> {
    let Some(from) = ElementType::from_id(tensor.data_type) else { return Ok(tensor) };
    if proto::is_external(&tensor) {
        // What was converted already is stored as it was before.
        if tensor.external_data.iter().all(|entry| entry.key != STORED_AS) {
            let place = codes.map_or(String::new(), |(_, place)| format!(" {place}"));
            let (key, value) = (STORED_AS.to_owned(), format!("{}{place}", from as i32));
            tensor.external_data.push(StringStringEntryProto { key, value });
        }
        tensor.data_type = to as i32;
        return Ok(tensor);
    }
    let mut data = Vec::new();
    convert(&tensor, None, (to, codes.map(|(codes, _)| codes)), |bytes| {
        data.extend_from_slice(bytes);
        Ok(())
    })?;
    tensor.data_type = to as i32;
    (tensor.float_data, tensor.double_data, tensor.int32_data) = (vec![], vec![], vec![]);
    tensor.raw_data = data;
    Ok(tensor)
}

/// Has `sink` take the bytes of a tensor in another type, or of its codes, as a file has them.
fn convert(
    tensor: &TensorProto,
    folder: Option<&Path>,
    (to, codes): (ElementType, Option<&WeightCodes>),
    mut sink: impl FnMut(&[u8]) -> TractResult<()>,
) -> Result<()> {
    let Some(from) = ElementType::from_id(tensor.data_type) else { return Ok(()) };
    let between = codes.map_or(to, |_| ElementType::Float);
    let conversion = Conversion::new(from, between, Rules::default());
    let mut first = 0;
    each_piece(tensor, folder, |piece| {
        let mut converted = conversion.run(&piece)?;
        if let Some(codes) = codes {
            converted = codes.encode(first, converted.try_as_plain_ram()?.as_slice()?)?;
        }
        first += converted.len();
        sink(&proto::write("", to, &converted)?.raw_data)
    })
}

/// All elements of a tensor. Fails when its data cannot be read.
pub(super) fn floats(tensor: &TensorProto, folder: Option<&Path>) -> Result<Vec<f32>> {
    let mut floats = vec![];
    let Some(from) = ElementType::from_id(tensor.data_type) else { return Ok(floats) };
    let exact = Conversion::new(from, ElementType::Float, Rules::default());
    each_piece(tensor, folder, |piece| {
        floats.extend_from_slice(exact.run(&piece)?.try_as_plain_ram()?.as_slice()?);
        Ok(())
    })?;
    Ok(floats)
}

/// Writes the data that a tensor has beside the model, converted if [`recast`] or [`coded`] says
/// so. Returns how many bytes. Fails when it cannot be read or written.
pub(super) fn stream(
    tensor: &TensorProto,
    folder: Option<&Path>,
    codes: &[WeightCodes],
    out: &mut dyn Write,
) -> Result<u64> {
    let stored = tensor.external_data.iter().position(|entry| entry.key == STORED_AS);
    let Some(place) = stored else {
        let mut copied = || -> TractResult<u64> {
            let (mut reader, length) = open(tensor, folder)?;
            let copied = io::copy(&mut reader.by_ref().take(length), out)?;
            anyhow::ensure!(copied == length, "the file ends too early");
            Ok(copied)
        };
        return copied().map_err(|error| about(tensor, error));
    };
    let mut source = tensor.clone();
    let stored = source.external_data.remove(place).value;
    let (from, place) = stored.split_once(' ').unwrap_or((&stored, ""));
    let (from, place) = (from.parse().ok(), place.parse::<usize>().ok());
    let to = ElementType::from_id(tensor.data_type);
    let (Some(from), Some(to)) = (from.and_then(ElementType::from_id), to) else { return Ok(0) };
    source.data_type = from as i32;
    let codes = place.and_then(|place| codes.get(place));
    let mut written = 0;
    convert(&source, folder, (to, codes), |bytes| {
        out.write_all(bytes)?;
        written += bytes.len() as u64;
        Ok(())
    })?;
    Ok(written)
}

/// How many bytes the data of a tensor has, whose dimensions were held against the file.
pub(super) fn bytes(tensor: &TensorProto) -> u64 {
    let count = tensor
        .dims
        .iter()
        .fold(1u64, |count, size| count.saturating_mul(u64::try_from(*size).unwrap_or_default()));
    let bits = ElementType::from_id(tensor.data_type).map_or(0, ElementType::bits);
    count.saturating_mul(u64::from(bits)).div_ceil(8)
}

/// The data that a tensor has beside the model, from where it begins, and how many bytes it has.
fn open(tensor: &TensorProto, folder: Option<&Path>) -> TractResult<(BufReader<File>, u64)> {
    let (path, offset, length) = proto::external_place(tensor, folder)?;
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(offset))?;
    Ok((BufReader::new(file), length))
}

/// Has `f` take a tensor in pieces of one dimension.
fn each_piece(
    tensor: &TensorProto,
    folder: Option<&Path>,
    mut f: impl FnMut(Tensor) -> TractResult<()>,
) -> Result<()> {
    let mut pieces = || -> TractResult<()> {
        let ty = proto::check(tensor, folder)?;
        let width = ty.bits() as usize / 8;
        if proto::is_external(tensor) {
            let (mut reader, mut left) = open(tensor, folder)?;
            let mut bytes = vec![];
            while left > 0 {
                let length = left.min((PIECE * width) as u64);
                bytes.clear();
                reader.by_ref().take(length).read_to_end(&mut bytes)?;
                anyhow::ensure!(bytes.len() as u64 == length, "the file ends too early");
                left -= length;
                f(from_bytes(ty, &bytes)?)?;
            }
            return Ok(());
        }
        if tensor.raw_data.is_empty() {
            let (_, whole) = proto::read(tensor, None)?;
            let count = whole.len();
            return f(whole.into_shape(&[count])?);
        }
        tensor
            .raw_data
            .chunks((PIECE * width).max(1))
            .try_for_each(|bytes| f(from_bytes(ty, bytes)?))
    };
    pieces().map_err(|error| about(tensor, error))
}

/// Elements from the bytes that a file has.
fn from_bytes(ty: ElementType, bytes: &[u8]) -> TractResult<Tensor> {
    let count = bytes.len() / (ty.bits() as usize / 8).max(1);
    let piece = TensorProto {
        data_type: ty as i32,
        dims: vec![count as i64],
        raw_data: bytes.to_vec(),
        ..TensorProto::default()
    };
    Ok(proto::read(&piece, None)?.1)
}

fn about(tensor: &TensorProto, error: anyhow::Error) -> Error {
    match error.downcast::<Error>() {
        Ok(own) => own,
        Err(other) => {
            let problem = format!("{other:#}");
            Cause::Tensor { tensor: tensor.name.clone(), problem }.into()
        }
    }
}

/// Whether every value of a type is one of another.
pub(super) fn is_lossless(from: ElementType, to: ElementType) -> bool {
    Conversion::new(from, to, Rules::default()).is_lossless()
}
