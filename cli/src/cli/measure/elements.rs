//! The elements of a tensor, some at a time: of one in memory, or of a weight that stays in its
//! file, of which no more is read than is asked for.

use std::borrow::Cow;
use std::ops::Range;
use std::path::Path;

use anyhow::Context;
use tract_onnx::pb::{StringStringEntryProto, TensorProto};
use tract_onnx::prelude::*;
use tract_onnx_cast::audit::{Number, Numbers};
use tract_onnx_cast::tensor_proto::LateReader;
use tract_onnx_cast::{ElementType, Family, tensor_proto};

use crate::cli::measure::reals::{NumberReader, pieces};
use crate::cli::measure::value::part;
use crate::cli::tensor::NamedTensor;

/// How many elements are read at once.
const PART: usize = 1 << 16;

/// A tensor whose elements can be read some at a time.
#[derive(Clone)]
pub(crate) struct Elements<'a> {
    pub(crate) ty: ElementType,
    pub(crate) shape: Vec<usize>,
    held: ElementStorage<'a>,
}

#[derive(Clone)]
enum ElementStorage<'a> {
    InMemory(Cow<'a, Tensor>),
    /// A matrix of one column that stays in its file.
    Late(Tensor),
    /// Elements of less than a byte, or few. The file is said in the tensor's entries; the data
    /// begins at a byte of it.
    InFile {
        proto: &'a TensorProto,
        folder: Option<&'a Path>,
        offset: usize,
    },
}

/// A tensor of no more bytes is read at once where its elements are wanted several times.
const READ_ONCE: usize = 16 << 20;

/// The keys by which a file has elements one behind the other.
const PLAIN: [&str; 4] = ["location", "offset", "length", "checksum"];

/// As many elements begin at a byte in every type.
const ALIGNED: usize = 8;

impl<'a> Elements<'a> {
    /// Those of a tensor in memory.
    pub(crate) fn of(ty: ElementType, tensor: Cow<'a, Tensor>) -> Elements<'a> {
        Elements { ty, shape: tensor.shape().to_vec(), held: ElementStorage::InMemory(tensor) }
    }

    /// Those of an initializer. What is in the message itself is read as a whole.
    /// Fails when what is read is not what the model says.
    pub(crate) fn of_proto(
        proto: &'a TensorProto,
        folder: Option<&'a Path>,
    ) -> TractResult<Elements<'a>> {
        if let Some(elements) = Elements::in_file(proto, folder) {
            return Ok(elements);
        }
        let (ty, tensor) = tensor_proto::read_late(proto, folder)?;
        Ok(Elements::of(ty, Cow::Owned(tensor)))
    }

    /// Those of a tensor whose data is beside the model as it is in memory; `None` if there is
    /// anything odd about it, which reading it will tell.
    fn in_file(proto: &'a TensorProto, folder: Option<&'a Path>) -> Option<Elements<'a>> {
        const BESIDE: i32 = 1;
        let ty = ElementType::from_id(proto.data_type)?;
        if proto.data_location != Some(BESIDE) || ty.family() == Family::Text {
            return None;
        }
        let shape = proto.dims.iter().map(|dim| usize::try_from(*dim).ok());
        let shape: Vec<usize> = shape.collect::<Option<_>>()?;
        let count = shape.iter().try_fold(1usize, |count, dim| count.checked_mul(*dim))?;
        let bytes = count.checked_mul(ty.bits() as usize)?.div_ceil(8);
        let entry = |key: &str| {
            let mut all = proto.external_data.iter().filter(|entry| entry.key == key);
            all.next().map(|entry| entry.value.parse::<usize>().ok())
        };
        let is_whole = entry("length").is_none_or(|length| length == Some(bytes));
        let offset = entry("offset").unwrap_or(Some(0))?;
        let is_plain = proto.external_data.iter().all(|entry| PLAIN.contains(&&*entry.key));
        if !is_whole || !is_plain || count == 0 {
            return None;
        }
        let mut column = section(proto, offset, (0, count));
        column.dims.push(1);
        // What cannot be read so is refused when it is read.
        let late = tensor_proto::late_matrix(&column, folder).ok().flatten();
        let late = late.map(|(_, tensor)| tensor);
        let in_file = ElementStorage::InFile { proto, folder, offset };
        Some(Elements { ty, shape, held: late.map_or(in_file, ElementStorage::Late) })
    }

    /// Those of a matrix whose transpose is in a file that is not read yet, in the file's order, in
    /// which they are read a part at a time.
    pub(crate) fn untransposed(&self) -> Option<Elements<'static>> {
        let ElementStorage::InMemory(tensor) = &self.held else { return None };
        let stored = tensor_proto::untransposed(tensor)?;
        Some(Elements::of(self.ty, Cow::Owned(stored)))
    }

    /// All of them, where they are in memory.
    pub(crate) fn in_memory(&self) -> Option<&Tensor> {
        match &self.held {
            ElementStorage::InMemory(tensor) => tensor.as_plain_ram().map(|_| &**tensor),
            ElementStorage::Late(_) | ElementStorage::InFile { .. } => None,
        }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Some of them, which there are, in row-major order, as a tensor of one dimension; no text.
    /// Fails when they are not there, or the file cannot be read.
    pub(crate) fn part(&self, places: Range<usize>) -> TractResult<Tensor> {
        let (proto, folder, offset) = match &self.held {
            ElementStorage::InMemory(tensor) => return part(self.ty, tensor, places),
            ElementStorage::Late(column) => return part(self.ty, column, places),
            ElementStorage::InFile { proto, folder, offset } => (proto, folder, offset),
        };
        let start = places.start / ALIGNED * ALIGNED;
        let count = places.end.saturating_sub(start);
        let (ty, read) = tensor_proto::read(&section(proto, *offset, (start, count)), *folder)?;
        if start == places.start {
            return Ok(read);
        }
        part(ty, &read, places.start - start..count)
    }

    /// All of them. Fails when the file cannot be read, or is not what the model says.
    pub(crate) fn whole(&self) -> TractResult<Cow<'_, Tensor>> {
        Ok(match &self.held {
            ElementStorage::InMemory(tensor) => Cow::Borrowed(tensor),
            ElementStorage::Late(column) => {
                Cow::Owned(part(self.ty, column, 0..self.len())?.into_shape(&self.shape)?)
            }
            ElementStorage::InFile { proto, folder, .. } => {
                Cow::Owned(tensor_proto::read(proto, *folder)?.1)
            }
        })
    }

    /// The same, which are read once, unless they are too many. Fails as [`Elements::whole`] does.
    pub(crate) fn at_hand(&self) -> TractResult<Cow<'_, Elements<'a>>> {
        let bytes = self.len().saturating_mul(self.ty.carrier_bytes().unwrap_or(0));
        Ok(match &self.held {
            ElementStorage::Late(_) | ElementStorage::InFile { .. } if bytes <= READ_ONCE => {
                Cow::Owned(Elements::of(self.ty, Cow::Owned(self.whole()?.into_owned())))
            }
            _ => Cow::Borrowed(self),
        })
    }

    /// All of them, as a tensor of a name. Fails as [`Elements::whole`] does.
    pub(crate) fn named(self, name: &str) -> TractResult<NamedTensor> {
        let (name, ty) = (name.into(), self.ty);
        let tensor = match self.held {
            ElementStorage::InMemory(tensor) => tensor.into_owned(),
            _ => self.whole()?.into_owned(),
        };
        Ok(NamedTensor { name, ty, tensor })
    }
}

/// Reads parts of elements as they are: those of a matrix that stays in its file by one reader,
/// into the same memory.
pub(crate) struct PartReader<'a> {
    elements: &'a Elements<'a>,
    /// Of a matrix that stays in its file.
    late: Option<LateReader<'a>>,
    held: Tensor,
}

impl<'a> PartReader<'a> {
    /// Fails when the file cannot be opened.
    pub(crate) fn of(elements: &'a Elements<'a>) -> TractResult<PartReader<'a>> {
        let late = match &elements.held {
            ElementStorage::InMemory(tensor) => LateReader::of(tensor)?,
            ElementStorage::Late(column) => LateReader::of(column)?,
            ElementStorage::InFile { .. } => None,
        };
        let held = Tensor::zero_dt(elements.ty.datum_type(), &[0])?;
        Ok(PartReader { elements, late, held })
    }

    /// As [`Elements::part`].
    pub(crate) fn part(&mut self, places: Range<usize>) -> TractResult<&Tensor> {
        let PartReader { elements, late, held } = self;
        match late {
            Some(reader) => {
                if held.len() != places.len() {
                    *held = Tensor::zero_dt(held.datum_type(), &[places.len()])?;
                }
                reader.read(places.start, held.as_bytes_mut())?;
            }
            None => *held = elements.part(places)?,
        }
        Ok(held)
    }
}

/// Reads elements in their order, integers of 64 bits exactly, others as numbers.
pub(crate) struct ElementReader<'a> {
    elements: &'a Elements<'a>,
    /// Of what is a tensor.
    reader: Option<NumberReader<'a>>,
    /// Of others, and of integers of 64 bits.
    parts: Option<PartReader<'a>>,
    /// The places that were read last of a file.
    held: Range<usize>,
    reals: Vec<f64>,
    exact: Option<Numbers>,
}

impl<'a> ElementReader<'a> {
    pub(crate) fn of(elements: &'a Elements<'a>) -> ElementReader<'a> {
        let reader = match &elements.held {
            ElementStorage::InMemory(tensor) => Some(NumberReader::of(elements.ty, tensor)),
            ElementStorage::Late(column) => Some(NumberReader::of(elements.ty, column)),
            ElementStorage::InFile { .. } => None,
        };
        ElementReader { elements, reader, parts: None, held: 0..0, reals: vec![], exact: None }
    }

    /// Reads some of them, not more than are read of a file at once; no text. Fails when they
    /// cannot be read.
    pub(crate) fn read(&mut self, places: Range<usize>) -> TractResult<()> {
        let ElementReader { elements, reader, parts, held, reals, exact } = self;
        let ty = elements.ty;
        let is_wide = matches!(ty, ElementType::Int64 | ElementType::Uint64);
        if let Some(reader) = reader
            && !is_wide
        {
            return reader.read(places, reals).context("its elements cannot be read");
        }
        let parts = match parts {
            Some(parts) => parts,
            None => parts.insert(PartReader::of(elements)?),
        };
        if is_wide {
            *exact = Some(Numbers::of(ty, parts.part(places)?)?);
            return Ok(());
        }
        if !(held.start <= places.start && places.end <= held.end) {
            let wanted = places.start..elements.len().min(places.start + PART);
            *held = 0..0;
            parts.part(wanted.clone())?;
            *held = wanted;
        }
        let places = places.start - held.start..places.end - held.start;
        let read = NumberReader::of(ty, &parts.held).read(places, reals);
        read.context("its elements cannot be read")
    }

    /// Some of them as they are, where they are FLOAT in a tensor; `None` of others, and where they
    /// cannot be read.
    pub(crate) fn floats(&mut self, places: Range<usize>) -> Option<&[f32]> {
        self.reader.as_mut()?.floats(places)
    }

    /// What was read last; nothing of integers of 64 bits.
    pub(crate) fn reals(&self) -> &[f64] {
        &self.reals
    }

    /// One of those that were read last.
    pub(crate) fn get(&self, index: usize) -> Option<Number> {
        match &self.exact {
            Some(exact) => exact.get(index),
            None => self.reals.get(index).map(|x| Number::Real(*x)),
        }
    }
}

/// A tensor of some of the elements of one whose data begins at a byte of a file: so many from a
/// place on at which a byte begins.
fn section(proto: &TensorProto, offset: usize, (start, count): (usize, usize)) -> TensorProto {
    let bits = ElementType::from_id(proto.data_type).map_or(8, |ty| ty.bits() as usize);
    let at = offset.saturating_add(start / ALIGNED * bits);
    let length = (count * bits).div_ceil(8);
    let entry = |(key, value): (&str, String)| StringStringEntryProto { key: key.into(), value };
    let own = ["offset", "length"];
    let others = proto.external_data.iter().filter(|entry| !own.contains(&&*entry.key)).cloned();
    let places = [("offset", at.to_string()), ("length", length.to_string())];
    TensorProto {
        name: proto.name.clone(),
        data_type: proto.data_type,
        dims: vec![i64::try_from(count).unwrap_or(i64::MAX)],
        data_location: proto.data_location,
        external_data: others.chain(places.into_iter().map(entry)).collect(),
        ..TensorProto::default()
    }
}

/// All places, as many at once as are read.
pub(super) fn parts(length: usize) -> impl Iterator<Item = Range<usize>> {
    pieces(0..length, PART)
}

#[cfg(test)]
mod tests {
    use onnx_cast_graph::external_data;

    use super::*;
    use crate::cli::measure::reals::tests::in_file;

    /// Of every place on, also where no byte begins.
    #[test]
    fn a_part_of_a_file_is_that_part_of_the_whole() {
        let folder = tempfile::tempdir().expect("a folder");
        for ty in [ElementType::Uint4, ElementType::Int2, ElementType::Float16, ElementType::Float]
        {
            let count = 21;
            let mut whole = Tensor::zero_dt(ty.datum_type(), &[3, 7]).expect("a tensor");
            let width = ty.carrier_bytes().expect("numbers");
            for (place, bytes) in whole.as_bytes_mut().chunks_mut(width).enumerate() {
                bytes[0] = (place % 2) as u8;
            }
            let mut proto = tensor_proto::write("w", ty, &whole).expect("a tensor");
            let mut data = vec![0xff; 5];
            data.append(&mut proto.raw_data);
            std::fs::write(folder.path().join("data"), &data).expect("a file");
            proto.data_location = Some(1);
            proto.external_data = external_data("data", 5, data.len() as u64 - 5);
            let elements = Elements::of_proto(&proto, Some(folder.path())).expect("a weight");
            assert!(matches!(elements.held, ElementStorage::InFile { .. }));
            for start in 0..count {
                let some = elements.part(start..count).expect("a part");
                let wanted = part(ty, &whole, start..count).expect("a part");
                assert_eq!(some.as_bytes(), wanted.as_bytes(), "{ty} from {start}");
            }
            assert!(elements.part(0..count + 64).is_err());
        }
    }

    #[test]
    fn a_reader_reads_the_parts_of_whatever_holds_them() -> TractResult<()> {
        let folder = tempfile::tempdir()?;
        let sizes = [1100, 700];
        let count = sizes.iter().product::<usize>();
        let bytes: Vec<u8> = (0..count).flat_map(|place| (place as f32).to_le_bytes()).collect();
        let (ty, late) = in_file(folder.path(), ElementType::Float, sizes, &bytes)?;
        let [plain, late] = [late.slice(0, 0, sizes[0])?, Tensor::clone(&late)];
        let flat = late.clone().into_shape(&[count])?;
        let codes = Tensor::from_shape(&[7, 3], &(0..21).map(|at| at % 16).collect::<Vec<u8>>())?;
        let proto = tensor_proto::write("w", ElementType::Uint4, &codes)?;
        std::fs::write(folder.path().join("codes"), &proto.raw_data)?;
        let length = proto.raw_data.len() as u64;
        let proto = TensorProto {
            raw_data: vec![],
            data_location: Some(1),
            external_data: external_data("codes", 0, length),
            ..proto
        };
        let of = |tensor| Elements::of(ty, Cow::Owned(tensor));
        let packed = Elements::of_proto(&proto, Some(folder.path()))?;
        for elements in [of(plain), of(late), of(flat), packed] {
            let (count, mut reader) = (elements.len(), PartReader::of(&elements)?);
            for places in [3..9, 3..9, 2..4, 0..count, count - 5..count] {
                let own = elements.part(places.clone())?;
                assert_eq!(reader.part(places.clone())?, &own, "{places:?}");
            }
            assert!(reader.part(count - 3..count + 64).is_err());
        }
        Ok(())
    }

    #[test]
    fn a_large_one_of_whole_bytes_stays_in_its_file() -> TractResult<()> {
        let (folder, shape, count) = (tempfile::tempdir()?, [3, 700, 401], 3 * 700 * 401);
        let bytes: Vec<u8> = (0..count).flat_map(|place| (place as u16).to_le_bytes()).collect();
        std::fs::write(folder.path().join("data"), [&[0xff; 6][..], &bytes].concat())?;
        let proto = TensorProto {
            dims: shape.map(|size| size as i64).into(),
            data_type: ElementType::Float16 as i32,
            data_location: Some(1),
            external_data: external_data("data", 6, bytes.len() as u64),
            ..TensorProto::default()
        };
        let elements = Elements::of_proto(&proto, Some(folder.path()))?;
        assert!(matches!(elements.held, ElementStorage::Late(_)));
        for places in [0..count, 5..9, PART - 1..PART + 1, count - 3..count] {
            let some = elements.part(places.clone())?;
            assert_eq!(some.shape(), [places.len()]);
            assert!(*some.as_bytes() == bytes[2 * places.start..2 * places.end], "{places:?}");
        }
        let mut reader = PartReader::of(&elements)?;
        for places in [5..9, 5..9, PART - 1..PART + 1, 0..count, count - 3..count] {
            let own = elements.part(places.clone())?;
            assert_eq!(reader.part(places.clone())?, &own, "{places:?}");
        }
        assert!(reader.part(count - 3..count + 1).is_err());
        let whole = elements.whole()?;
        assert!(whole.shape() == shape && *whole.as_bytes() == *bytes);
        assert!(elements.at_hand()?.in_memory().is_some_and(|held| held.shape() == shape));
        assert!(elements.in_memory().is_none() && elements.part(0..count + 64).is_err());
        std::fs::write(folder.path().join("data"), &bytes[..count])?;
        assert!(elements.part(count - 3..count).is_err());
        assert!(reader.part(count - 3..count).is_err());
        Ok(())
    }
}
