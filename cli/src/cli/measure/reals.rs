//! The elements of tensors as numbers, many at once.

use std::ops::Range;

use anyhow::{Context, ensure};
use tract_onnx::prelude::*;
use tract_onnx_cast::kernel::Level;
use tract_onnx_cast::tensor_proto::LateReader;
use tract_onnx_cast::{ElementType, Family};

use crate::cli::measure::value::part;
use crate::cli::tensor::elements;

/// How many elements of a matrix are read from its file at once, at least.
const READ: usize = 1 << 16;

/// How many elements are looked at at once: as numbers of several sides they stay in a near cache.
const BLOCK: usize = 1 << 10;

/// All places, as many at once as are looked at.
pub(crate) fn blocks(length: usize) -> impl Iterator<Item = Range<usize>> {
    pieces(0..length, BLOCK)
}

/// Places, so many at once.
pub(crate) fn pieces(all: Range<usize>, count: usize) -> impl Iterator<Item = Range<usize>> {
    all.clone().step_by(count).map(move |start| start..all.end.min(start + count))
}

/// All elements as numbers; `None` for text.
pub(crate) fn reals(ty: ElementType, tensor: &Tensor) -> Option<Vec<f64>> {
    tensor.try_as_plain_ram().ok()?;
    reals_in(ty, tensor, 0..tensor.len())
}

/// Some of the elements as numbers; `None` for text. Of a matrix that stays in its file no more is
/// read.
pub(crate) fn reals_in(ty: ElementType, tensor: &Tensor, places: Range<usize>) -> Option<Vec<f64>> {
    let mut numbers = vec![0.0; places.len()];
    fill(ty, tensor, places, &mut numbers)?;
    Some(numbers)
}

/// Puts some of the elements in the place of as many numbers; `None` for text.
fn fill(ty: ElementType, tensor: &Tensor, places: Range<usize>, numbers: &mut [f64]) -> Option<()> {
    let is_whole = places == (0..tensor.len());
    if tensor.as_plain_ram().is_none() {
        let all = 0..places.len();
        return fill(ty, &part(ty, tensor, places).ok()?, all, numbers);
    }
    // A conversion of 8 bits begins with a table, which is more than a block is worth.
    match ty.family() {
        Family::Text => return None,
        Family::Float(_) if ty == ElementType::Float => fill_plain::<f32>(tensor, places, numbers)?,
        Family::Signed if ty.bits() <= 8 => fill_plain::<i8>(tensor, places, numbers)?,
        Family::Unsigned if ty.bits() <= 8 => fill_plain::<u8>(tensor, places, numbers)?,
        _ => {
            let of = |tensor: &Tensor| elements::<f64>(ty, tensor).ok();
            let cast = if is_whole { of(tensor) } else { of(&part(ty, tensor, places).ok()?) }?;
            numbers.get_mut(..cast.len())?.copy_from_slice(&cast);
        }
    }
    Some(())
}

/// The same of a tensor of one of Rust's types, which holds those of its element type.
fn fill_plain<T: Datum + Copy + Into<f64>>(
    tensor: &Tensor,
    places: Range<usize>,
    numbers: &mut [f64],
) -> Option<()> {
    let held = tensor.as_plain_ram()?;
    let held = held.as_slice::<T>().ok()?.get(places)?;
    Level::best().run(
        #[inline(always)]
        || numbers.iter_mut().zip(held).for_each(|(number, x)| *number = (*x).into()),
    );
    Some(())
}

/// Reads elements in their order as numbers, many at a time of a matrix that stays in its file.
pub(crate) struct NumberReader<'a> {
    ty: ElementType,
    tensor: &'a Tensor,
    late: Option<LateElements<'a>>,
    numbers: Vec<f64>,
}

/// The elements of a matrix that stays in its file that were read last.
struct LateElements<'a> {
    /// What reads them; without it the matrix is the transpose of that of its file, or has other
    /// rows than that.
    reader: Option<LateReader<'a>>,
    /// The place of the first of them, and how many there are.
    first: usize,
    count: usize,
    /// They, and what was there before.
    held: Tensor,
}

impl<'a> NumberReader<'a> {
    pub(crate) fn of(ty: ElementType, tensor: &'a Tensor) -> NumberReader<'a> {
        NumberReader { ty, tensor, late: None, numbers: vec![] }
    }

    /// Some of the elements; `None` for text, and where they cannot be read.
    pub(crate) fn numbers(&mut self, places: Range<usize>) -> Option<&[f64]> {
        let mut numbers = std::mem::take(&mut self.numbers);
        let read = self.read(places, &mut numbers);
        self.numbers = numbers;
        read.map(|()| &*self.numbers)
    }

    /// Puts some of the elements in the place of other numbers; `None` for text, and where they
    /// cannot be read.
    pub(crate) fn read(&mut self, places: Range<usize>, numbers: &mut Vec<f64>) -> Option<()> {
        numbers.resize(places.len(), 0.0);
        let ty = self.ty;
        let (tensor, places) = self.held(places)?;
        fill(ty, tensor, places, numbers)
    }

    /// Some of the elements, where they are FLOAT; `None` of others, and where they cannot be read.
    pub(crate) fn floats(&mut self, places: Range<usize>) -> Option<&[f32]> {
        if self.ty != ElementType::Float {
            return None;
        }
        let (tensor, places) = self.held(places)?;
        tensor.as_plain_ram()?.as_slice::<f32>().ok()?.get(places)
    }

    /// A tensor that has some of the elements, and which of its own they are.
    fn held(&mut self, places: Range<usize>) -> Option<(&Tensor, Range<usize>)> {
        let NumberReader { tensor, late, .. } = self;
        // Of another shape it is read as a whole.
        let (&[_, columns], None) = (tensor.shape(), tensor.as_plain_ram()) else {
            return Some((*tensor, places));
        };
        if late.is_none() {
            *late = Some(LateElements::of(tensor).ok()?);
        }
        let late = late.as_mut()?;
        if !late.has(&places) {
            late.read((*tensor, columns), &places).ok()?;
        }
        Some((&late.held, places.start - late.first..places.end - late.first))
    }
}

impl<'a> LateElements<'a> {
    fn of(tensor: &'a Tensor) -> TractResult<LateElements<'a>> {
        let reader = LateReader::of(tensor)?;
        let held = Tensor::zero_dt(tensor.datum_type(), &[0])?;
        Ok(LateElements { reader, first: 0, count: 0, held })
    }

    fn has(&self, places: &Range<usize>) -> bool {
        self.first <= places.start && places.end <= self.first + self.count
    }

    /// Reads elements of a matrix of so many columns, and some behind them.
    fn read(
        &mut self,
        (tensor, columns): (&Tensor, usize),
        places: &Range<usize>,
    ) -> TractResult<()> {
        self.count = 0;
        let (first, count) = match &mut self.reader {
            Some(reader) => {
                let end = places.end.max(places.start + READ).min(tensor.len());
                let count = end.saturating_sub(places.start);
                if self.held.len() < count {
                    self.held = Tensor::zero_dt(tensor.datum_type(), &[count])?;
                }
                let bytes = count * tensor.datum_type().size_of();
                let room = self.held.as_bytes_mut().get_mut(..bytes).context("room")?;
                reader.read(places.start, room)?;
                (places.start, count)
            }
            None => {
                let row = places.start.checked_div(columns).context("no columns")?;
                let end = places.end.max(row * columns + READ).min(tensor.len());
                self.held = tensor.slice(0, row, end.div_ceil(columns))?;
                (row * columns, self.held.len())
            }
        };
        (self.first, self.count) = (first, count);
        ensure!(self.has(places), "the matrix has fewer elements");
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use tract_onnx::pb::tensor_proto::DataLocation;
    use tract_onnx::pb::{StringStringEntryProto, TensorProto};
    use tract_onnx_cast::interpreter::SharedTensor;
    use tract_onnx_cast::tensor_proto;

    use super::*;

    /// A matrix that stays in a file of a folder, which holds these bytes.
    pub(crate) fn in_file(
        folder: &Path,
        ty: ElementType,
        sizes: [usize; 2],
        bytes: &[u8],
    ) -> TractResult<SharedTensor> {
        std::fs::write(folder.join("w"), bytes)?;
        let entry = StringStringEntryProto { key: "location".into(), value: "w".into() };
        let held = TensorProto {
            dims: sizes.map(|size| size as i64).into(),
            data_type: ty as i32,
            data_location: Some(DataLocation::External as i32),
            external_data: vec![entry],
            ..TensorProto::default()
        };
        let (ty, tensor) = tensor_proto::read_late(&held, Some(folder))?;
        assert!(tensor.as_plain_ram().is_none());
        Ok((ty, Arc::new(tensor)))
    }

    /// A folder whose file holds a matrix of FLOAT that counts, and the matrix.
    fn counting(sizes: [usize; 2]) -> TractResult<(tempfile::TempDir, SharedTensor)> {
        let folder = tempfile::tempdir()?;
        let length = sizes.iter().product::<usize>();
        let bytes: Vec<u8> = (0..length).flat_map(|i| (i as f32).to_le_bytes()).collect();
        let matrix = in_file(folder.path(), ElementType::Float, sizes, &bytes)?;
        Ok((folder, matrix))
    }

    /// Rows of fewer elements than a block has, and of more.
    const SIZES: [[usize; 2]; 2] = [[1100, 1000], [40, 30_000]];

    #[test]
    fn a_matrix_in_its_file_is_read_in_its_order() -> TractResult<()> {
        for sizes in SIZES {
            let (_folder, (ty, tensor)) = counting(sizes)?;
            let mut reader = NumberReader::of(ty, &tensor);
            for places in blocks(tensor.len()).chain(std::iter::once(0..1000)) {
                let wanted = places.clone().map(|place| place as f64).collect::<Vec<f64>>();
                assert_eq!(reader.numbers(places), Some(&*wanted), "{sizes:?}");
            }
            assert!(tensor.as_plain_ram().is_none());
        }
        Ok(())
    }

    /// What stands behind a matrix in its file is no element of it.
    #[test]
    fn no_more_is_read_than_the_matrix_has() -> TractResult<()> {
        let (folder, (_, tensor)) = counting(SIZES[0])?;
        let mut file = std::fs::File::options().append(true).open(folder.path().join("w"))?;
        std::io::Write::write_all(&mut file, &[1; 64])?;
        let mut reader = LateReader::of(&tensor)?.context("a matrix in its file")?;
        let mut read = [0; 8];
        reader.read(tensor.len() - 2, &mut read)?;
        assert_eq!(read[4..], (tensor.len() as f32 - 1.0).to_le_bytes());
        assert!(reader.read(tensor.len() - 1, &mut read).is_err());
        assert!(reader.read(tensor.len() - 1, &mut read[..5]).is_err());
        assert!(reader.read(usize::MAX, &mut read).is_err());
        Ok(())
    }

    #[test]
    fn floats_are_those_of_their_places() -> TractResult<()> {
        for sizes in SIZES {
            let (_folder, (ty, late)) = counting(sizes)?;
            let length = late.len();
            let plain = late.slice(0, 0, sizes[0])?;
            // Forth and back, so that the rows that are held are not always those that are wanted.
            let back = [length - 7..length, 70_000..70_003, 5..2000, 0..1];
            for tensor in [&plain, &*late] {
                let mut reader = NumberReader::of(ty, tensor);
                for places in blocks(length).chain(back.clone()) {
                    let wanted = places.clone().map(|place| place as f32).collect::<Vec<f32>>();
                    assert_eq!(reader.floats(places), Some(&*wanted), "{sizes:?}");
                }
                assert_eq!(reader.floats(length - 1..length + 1), None, "{sizes:?}");
            }
            assert!(late.as_plain_ram().is_none() && plain.as_plain_ram().is_some());
        }
        let [rows, columns] = SIZES[0];
        let others: [&[usize]; 4] = [
            &[1, rows, columns],
            &[rows * columns],
            &[rows / 4, 4, columns],
            &[rows / 2, 2 * columns],
        ];
        for shape in others {
            let (_folder, (ty, late)) = counting(SIZES[0])?;
            let late = Tensor::clone(&late).into_shape(shape)?;
            let mut reader = NumberReader::of(ty, &late);
            for places in [4000..5000, 0..1000] {
                let wanted = places.clone().map(|place| place as f64).collect::<Vec<f64>>();
                assert_eq!(reader.numbers(places), Some(&*wanted), "{shape:?}");
            }
        }
        for ty in [ElementType::Float16, ElementType::Double, ElementType::Int32] {
            let others = Tensor::zero_dt(ty.datum_type(), &[2, 2])?;
            assert_eq!(NumberReader::of(ty, &others).floats(0..4), None, "{ty}");
        }
        Ok(())
    }
}
