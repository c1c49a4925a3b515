//! `MatMulNBits`: the weights of few bits, dequantised in blocks, and the product with them.

use onnx_cast_graph::{int_attribute, ints_attribute};
use tract_onnx::pb::{NodeProto, TensorProto};
use tract_onnx::prelude::Tensor;
use tract_onnx_cast::kernel::Level;
use tract_onnx_cast::{ElementType, tensor_proto};

use super::{Parts, Writer};

/// A weight in codes: of each of `rows` columns of the weight, its rows in `blocks` of `size`, the
/// last one padded.
struct Packed {
    bits: usize,
    depth: usize,
    rows: usize,
    blocks: usize,
    size: usize,
    /// As they are stored, padded.
    codes: Tensor,
    /// Of each block, as the scales.
    zeros: Vec<u8>,
    scales: TensorProto,
}

impl Writer<'_> {
    /// The product with a matrix in blocks of codes of a few bits.
    pub(super) fn product(&mut self, node: &NodeProto, mut parts: Parts) -> Option<Vec<NodeProto>> {
        let packed = self.packed(node)?;
        let name = self.weight(parts.output, node.input.get(1));
        let weight = if self.has_blocks {
            self.in_blocks(packed, &mut parts, name)?
        } else {
            self.in_rows(packed, &mut parts, name)?
        };
        let product = parts.add("MatMul", vec![node.input.first()?.clone(), weight], vec![], None);
        if let Some(bias) = node.input.get(5).filter(|name| !name.is_empty()) {
            parts.add("Add", vec![product, bias.clone()], vec![], None);
        }
        parts.done()
    }

    fn packed(&self, node: &NodeProto) -> Option<Packed> {
        let input = |place: usize| node.input.get(place).filter(|name| !name.is_empty());
        let int = |name: &str| {
            let held = node.attribute.iter().find(|held| held.name == name)?;
            usize::try_from(held.i).ok().filter(|x| *x > 0)
        };
        let (depth, rows, size) = (int("K")?, int("N")?, int("block_size")?);
        let has_bits = node.attribute.iter().any(|held| held.name == "bits");
        let bits = if has_bits { int("bits")? } else { 4 };
        if !matches!(bits, 2 | 4 | 8) || input(4).is_some() {
            return None;
        }
        let blocks = depth.div_ceil(size);
        let count = rows.checked_mul(blocks)?;
        let codes = self.stored(input(1)?)?;
        let stride = size.checked_mul(bits)?.div_ceil(8);
        if stride.checked_mul(count)? != codes.as_bytes().len() {
            return None;
        }
        let zeros = match input(3) {
            Some(zeros) => unpacked(self.stored(zeros)?.as_bytes(), bits, rows, blocks)?,
            None => vec![1 << (bits - 1); count],
        };
        let scales = self.scales(input(2)?, count)?;
        Some(Packed { bits, depth, rows, blocks, size, codes, zeros, scales })
    }

    /// Dequantises the weight as the product takes it.
    fn in_blocks(
        &mut self,
        packed: Packed,
        parts: &mut Parts,
        name: Option<String>,
    ) -> Option<String> {
        let Packed { bits, depth, rows, blocks, size, codes, zeros, scales } = packed;
        let value = parts.output;
        let (_, scales) = tensor_proto::read(&scales, self.folder).ok()?;
        let scales = scales.try_as_plain_ram().ok()?.as_slice::<f32>().ok()?;
        let scales = turned(scales, rows, blocks)?;
        let scales = scales.iter().flat_map(|scale| scale.to_le_bytes()).collect();
        let (codes, count) = (codes.as_bytes(), rows.checked_mul(blocks)?);
        let of_bytes = || turned(&unpacked(codes, bits, count, size)?, rows, depth);
        let zeros = turned(&zeros, rows, blocks)?;
        let is_in_pairs = depth % 2 == 0 && size % 2 == 0;
        // Blocks came with types of 4 bits, and before those of 2.
        let (ty, codes, zeros) = match bits {
            4 if is_in_pairs => {
                (ElementType::Uint4, turned_pairs(codes, rows, depth)?, in_pairs(&zeros))
            }
            4 => (ElementType::Uint4, in_pairs(&of_bytes()?), in_pairs(&zeros)),
            _ => (ElementType::Uint8, of_bytes()?, zeros),
        };
        let codes = self.codes(value, bits, ty, &[depth, rows], codes)?;
        let scales = self.hold(value, "scales", ElementType::Float, &[blocks, rows], scales)?;
        let zeros = self.hold(value, "zeros", ty, &[blocks, rows], zeros)?;
        let size = int_attribute("block_size", i64::try_from(size).ok()?);
        let blocks = vec![int_attribute("axis", 0), size];
        Some(parts.add("DequantizeLinear", vec![codes, scales, zeros], blocks, name))
    }

    /// Dequantises each block as a row, and puts these together. Before opset 13 `DequantizeLinear`
    /// has one scale.
    fn in_rows(
        &mut self,
        packed: Packed,
        parts: &mut Parts,
        name: Option<String>,
    ) -> Option<String> {
        let Packed { bits, depth, rows, blocks, size, codes, zeros, scales } = packed;
        let (value, count) = (parts.output, rows * blocks);
        let ty = ElementType::Uint8;
        let codes = unpacked(codes.as_bytes(), bits, count, size)?;
        let codes = self.codes(value, bits, ty, &[count, size], codes)?;
        let held = format!("{value}:scales");
        let mut dims = vec![i64::try_from(count).ok()?];
        if !self.has_axes {
            dims.push(1);
        }
        self.constants.push(TensorProto { name: held.clone(), dims, ..scales });
        let mut weight = if self.has_axes {
            let zeros = self.hold(value, "zeros", ty, &[count], zeros)?;
            let axis = vec![int_attribute("axis", 0)];
            parts.add("DequantizeLinear", vec![codes, held, zeros], axis, None)
        } else {
            let zeros = zeros.iter().flat_map(|zero| f32::from(*zero).to_le_bytes()).collect();
            let zeros = self.hold(value, "zeros", ElementType::Float, &[count, 1], zeros)?;
            let to = vec![int_attribute("to", ElementType::Float as i64)];
            let codes = parts.add("Cast", vec![codes], to, None);
            let codes = parts.add("Sub", vec![codes, zeros], vec![], None);
            parts.add("Mul", vec![codes, held], vec![], None)
        };
        let shape = self.numbers(value, "shape", &[rows, blocks.checked_mul(size)?])?;
        weight = parts.add("Reshape", vec![weight, shape], vec![], None);
        if blocks * size != depth {
            let mut taken = vec![weight];
            for (name, number) in [("start", 0), ("end", depth), ("axis", 1)] {
                taken.push(self.numbers(value, name, &[number])?);
            }
            weight = parts.add("Slice", taken, vec![], None);
        }
        let order = ints_attribute("perm", vec![1, 0]);
        Some(parts.add("Transpose", vec![weight], vec![order], name))
    }

    /// Adds codes of so many bits, and keeps their type where a wider one holds them.
    fn codes(
        &mut self,
        value: &str,
        bits: usize,
        ty: ElementType,
        shape: &[usize],
        raw_data: Vec<u8>,
    ) -> Option<String> {
        let name = self.hold(value, "codes", ty, shape, raw_data)?;
        let held = match bits {
            2 => Some(ElementType::Uint2),
            4 => Some(ElementType::Uint4),
            _ => None,
        };
        self.unpacked.extend(held.filter(|held| *held != ty).map(|held| (name.clone(), held)));
        Some(name)
    }

    /// Adds a constant, which is called after a value.
    fn hold(
        &mut self,
        value: &str,
        name: &str,
        ty: ElementType,
        shape: &[usize],
        raw_data: Vec<u8>,
    ) -> Option<String> {
        let (name, data_type) = (format!("{value}:{name}"), ty as i32);
        let dims = shape.iter().map(|dim| i64::try_from(*dim).ok()).collect::<Option<_>>()?;
        let held =
            TensorProto { name: name.clone(), dims, data_type, raw_data, ..Default::default() };
        self.constants.push(held);
        Some(name)
    }

    fn numbers(&mut self, value: &str, name: &str, numbers: &[usize]) -> Option<String> {
        let all = numbers.iter().map(|x| i64::try_from(*x).ok()).collect::<Option<Vec<i64>>>()?;
        let data = all.iter().flat_map(|x| x.to_le_bytes()).collect();
        self.hold(value, name, ElementType::Int64, &[numbers.len()], data)
    }

    /// A constant of so many FLOAT scales.
    fn scales(&self, name: &str, count: usize) -> Option<TensorProto> {
        let scales = self.held.get(name)?;
        let stored = scales.dims.iter().try_fold(1i64, |count, dim| count.checked_mul(*dim))?;
        let is_float = scales.data_type == ElementType::Float as i32;
        (is_float && usize::try_from(stored).ok()? == count).then(|| TensorProto::clone(scales))
    }

    /// A constant, as it is stored.
    fn stored(&self, name: &str) -> Option<Tensor> {
        Some(tensor_proto::read(self.held.get(name)?, self.folder).ok()?.1)
    }
}

/// Codes, a byte each, of rows that are padded to whole bytes.
fn unpacked(bytes: &[u8], bits: usize, rows: usize, count: usize) -> Option<Vec<u8>> {
    let stride = count.checked_mul(bits)?.div_ceil(8);
    if stride.checked_mul(rows)? != bytes.len() || stride == 0 {
        return None;
    }
    let mut codes = vec![0; count.checked_mul(rows)?];
    for (row, codes) in bytes.chunks_exact(stride).zip(codes.chunks_exact_mut(count)) {
        match bits {
            2 => unpack::<2, 4>(row, codes),
            4 => unpack::<4, 2>(row, codes),
            _ => unpack::<8, 1>(row, codes),
        }
    }
    Some(codes)
}

/// The codes of a row, of which each byte holds `COUNT` of `BITS` bits, the first one lowest.
fn unpack<const BITS: usize, const COUNT: usize>(row: &[u8], codes: &mut [u8]) {
    let code = |byte: u8, place: usize| (byte >> (place * BITS)) & (u8::MAX >> (8 - BITS));
    let (whole, rest) = codes.as_chunks_mut::<COUNT>();
    for (byte, codes) in row.iter().zip(whole.iter_mut()) {
        *codes = std::array::from_fn(|place| code(*byte, place));
    }
    let last = row.get(whole.len()).copied().unwrap_or_default();
    rest.iter_mut().enumerate().for_each(|(place, held)| *held = code(last, place));
}

/// Codes of 4 bits as a file has them, two to a byte.
fn in_pairs(codes: &[u8]) -> Vec<u8> {
    let (pairs, rest) = codes.as_chunks();
    let pairs = pairs.iter().map(|[low, high]| low | high << 4);
    pairs.chain(rest.iter().copied()).collect()
}

/// The first `columns` elements of each row, column by column.
fn turned<T: Copy + Default>(elements: &[T], rows: usize, columns: usize) -> Option<Vec<T>> {
    // As many columns as are written at once are lines that the cache holds.
    const TILE: usize = 64;
    let padded = elements.len().checked_div(rows)?;
    let mut turned = vec![T::default(); rows.checked_mul(columns)?];
    for left in (0..columns).step_by(TILE) {
        let right = columns.min(left + TILE);
        for (place, row) in elements.chunks_exact(padded.max(1)).enumerate() {
            let made = turned.get_mut(left * rows..)?.iter_mut().skip(place).step_by(rows);
            row.get(left..right)?.iter().zip(made).for_each(|(x, made)| *made = *x);
        }
    }
    Some(turned)
}

/// As [`turned`], of codes of 4 bits that are two to a byte, before and after: the columns are
/// even.
fn turned_pairs(bytes: &[u8], rows: usize, columns: usize) -> Option<Vec<u8>> {
    let stride = bytes.len().checked_div(rows)?;
    let mut turned = vec![0; rows.checked_mul(columns / 2)?];
    // Of an odd number of rows every other column begins in the middle of a byte, which the last
    // code of the column before it begins.
    let (is_odd, middle) = (rows % 2 == 1, rows / 2);
    let low = |one: u64, other: u64| one & LOW | (other & LOW) << 4;
    turn_columns(bytes, (stride, columns), (&mut turned, rows, 0), low)?;
    let high = |one: u64, other: u64| (one >> 4) & LOW | other & (LOW << 4);
    let rest = bytes.get(if is_odd { stride } else { 0 }..)?;
    turn_columns(rest, (stride, columns), (&mut turned, rows, middle + rows % 2), high)?;
    if is_odd {
        let (first, last) = (bytes.get(..columns / 2)?, bytes.get((rows - 1) * stride..)?);
        let middles = turned.get_mut(middle..)?.iter_mut().step_by(rows);
        for ((first, last), made) in first.iter().zip(last).zip(middles) {
            *made = last & 15 | first & 0xf0;
        }
    }
    Some(turned)
}

/// The lower half of each byte.
const LOW: u64 = 0x0f0f_0f0f_0f0f_0f0f;

/// How many bytes a square has along either side, and how many squares are transposed at once.
const SIDE: usize = 8;

/// A word of each of these squares.
type Words = [u64; SIDE];

/// Puts what becomes of each pair of rows into columns, those of as many squares at once: of the
/// first byte of each row into the first column, which begins at a place, and the next ones so many
/// bytes behind.
fn turn_columns(
    bytes: &[u8],
    (stride, columns): (usize, usize),
    (turned, behind, first): (&mut [u8], usize, usize),
    pair: impl Fn(u64, u64) -> u64,
) -> Option<()> {
    let (width, double) = (columns / 2, (2 * stride).max(1));
    // As many columns as are written at once are lines that the cache holds.
    for left in (0..width).step_by(SIDE * SIDE) {
        for (group, pairs) in bytes.chunks(SIDE * double).enumerate() {
            let count = pairs.len() / double;
            let mut squares = [[0; SIDE]; SIDE];
            for (paired, rows) in squares.iter_mut().zip(pairs.chunks_exact(double)) {
                let (one, other) = rows.split_at_checked(stride)?;
                let (one, other) = (words(one.get(left..width)?), words(other.get(left..width)?));
                for (place, (one, other)) in paired.iter_mut().zip(one.into_iter().zip(other)) {
                    *place = pair(one, other);
                }
            }
            Level::best().run(
                #[inline(always)]
                || transpose(&mut squares),
            );
            let made = turned.get_mut(left * behind + first + group * SIDE..)?;
            let made = made.chunks_mut(behind.max(1)).take(width - left);
            let columns = (0..SIDE * SIDE).map(|at| squares[at % SIDE][at / SIDE].to_le_bytes());
            for (column, made) in columns.zip(made) {
                match made.first_chunk_mut().filter(|_| count == SIDE) {
                    Some(made) => *made = column,
                    None => made.get_mut(..count)?.copy_from_slice(column.get(..count)?),
                }
            }
        }
    }
    Some(())
}

/// The first bytes as words, whose lowest byte is the first; zeros stand for those that are not
/// there.
#[inline(always)]
fn words(bytes: &[u8]) -> Words {
    let mut words = [0; SIDE];
    match bytes.first_chunk::<{ SIDE * SIDE }>() {
        Some(bytes) => {
            let bytes = bytes.as_chunks().0;
            words
                .iter_mut()
                .zip(bytes)
                .for_each(|(word, bytes)| *word = u64::from_le_bytes(*bytes));
        }
        None => {
            for (word, bytes) in words.iter_mut().zip(bytes.chunks(SIDE)) {
                *word = bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
            }
        }
    }
    words
}

/// Transposes squares of bytes: each word is a row of one, and its lowest byte is the first.
#[inline(always)]
fn transpose(squares: &mut [Words; SIDE]) {
    let mut swap = |distance: usize, mask: u64| {
        let bits = 8 * distance;
        for place in (0..SIDE).filter(|place| place & distance == 0) {
            let (mut ones, mut others) = (squares[place], squares[place + distance]);
            for (one, other) in ones.iter_mut().zip(&mut others) {
                let (first, second) = (*one, *other);
                *one = first & mask | (second & mask) << bits;
                *other = (first >> bits) & mask | second & !mask;
            }
            (squares[place], squares[place + distance]) = (ones, others);
        }
    };
    swap(1, 0x00ff_00ff_00ff_00ff);
    swap(2, 0x0000_ffff_0000_ffff);
    swap(4, 0x0000_0000_ffff_ffff);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_turned_as_their_codes_are() {
        for (rows, padded, columns) in [
            (2, 2, 2),
            (4, 8, 6),
            (10, 144, 134),
            (66, 64, 64),
            (1, 2, 2),
            (7, 144, 134),
            (16, 32, 30),
            (17, 32, 32),
            (51, 320, 290),
        ] {
            let bytes: Vec<u8> = (0..rows * padded / 2).map(|at| (at * 37 % 256) as u8).collect();
            let codes = unpacked(&bytes, 4, rows, padded).expect("codes");
            let wanted = in_pairs(&turned(&codes, rows, columns).expect("codes"));
            assert_eq!(turned_pairs(&bytes, rows, columns), Some(wanted), "{rows} by {padded}");
        }
        assert_eq!(turned_pairs(&[1, 2], 2, 4), None);
        assert_eq!(turned_pairs(&[], 0, 4), None);
    }

    #[test]
    fn codes_are_unpacked_from_the_lowest_bits_on() {
        let row = [0b1110_0100, 0b0001_1011, 0b0000_0010];
        let (mut two, mut four, mut eight) = ([9; 9], [9; 5], [9; 3]);
        unpack::<2, 4>(&row, &mut two);
        unpack::<4, 2>(&row, &mut four);
        unpack::<8, 1>(&row, &mut eight);
        assert_eq!(two, [0, 1, 2, 3, 3, 2, 1, 0, 2]);
        assert_eq!(four, [0b0100, 0b1110, 0b1011, 0b0001, 0b0010]);
        assert_eq!(eight, row);
    }

    #[test]
    fn codes_of_4_bits_go_into_bytes_as_they_came_out() {
        let row = [0b1110_0100, 0b0001_1011, 0b0000_0010];
        for count in 0..6 {
            let mut codes = vec![0; count];
            unpack::<4, 2>(&row, &mut codes);
            let mut bytes = row[..count.div_ceil(2)].to_vec();
            bytes.last_mut().filter(|_| count % 2 == 1).into_iter().for_each(|last| *last &= 15);
            assert_eq!(in_pairs(&codes), bytes);
        }
    }

    #[test]
    fn a_matrix_is_turned_without_its_padding() {
        for (rows, padded, columns) in [(1, 1, 1), (3, 4, 4), (5, 70, 67), (130, 3, 2)] {
            let elements: Vec<u32> = (0..rows * padded).map(|place| place as u32).collect();
            let wanted = |place: usize| elements[place % rows * padded + place / rows];
            let wanted: Vec<u32> = (0..rows * columns).map(wanted).collect();
            assert_eq!(turned(&elements, rows, columns), Some(wanted), "{rows} by {padded}");
        }
        assert_eq!(turned(&[1u8, 2], 1, 3), None);
        assert_eq!(turned::<u8>(&[], 0, 3), None);
    }
}
