//! `MatMulNBits`: the weights of few bits, dequantised in blocks, and the product with them.

use onnx_cast_graph::{int_attribute, ints_attribute};
use tract_onnx::pb::{NodeProto, TensorProto};
use tract_onnx::prelude::Tensor;
use tract_onnx_cast::{ElementType, tensor_proto};

use super::{Parts, Writer};

/// A weight in codes: of each of `rows` columns of the weight, its rows in `blocks` of `size`, the
/// last one padded.
struct Packed<'a> {
    bits: usize,
    depth: usize,
    rows: usize,
    blocks: usize,
    size: usize,
    /// As they are stored, padded.
    codes: &'a TensorProto,
    /// Of each block, as the scales.
    zeros: Vec<u8>,
    scales: &'a TensorProto,
}

impl<'a> Writer<'a> {
    /// The product with a matrix in blocks of codes of a few bits.
    pub(super) fn product(&mut self, node: &NodeProto, mut parts: Parts) -> Option<Vec<NodeProto>> {
        let packed = self.packed(node)?;
        let ty = ElementType::from_id(packed.scales.data_type)?;
        let name = self.weight(parts.output, node.input.get(1)).or_else(|| parts.named("weight"));
        let weight = if self.has_blocks {
            self.in_blocks(packed, &mut parts, name)?
        } else {
            self.in_rows(packed, &mut parts, name)?
        };
        let name = parts.named("weight as it is taken");
        let weight = parts.cast(weight, (ElementType::Float, ty), name);
        let (given, name) = (vec![node.input.first()?.clone(), weight], parts.named("product"));
        let product = parts.add("MatMul", given, vec![], name);
        if let Some(bias) = node.input.get(5).filter(|name| !name.is_empty()) {
            parts.add("Add", vec![product, bias.clone()], vec![], None);
        }
        parts.done()
    }

    fn packed(&self, node: &NodeProto) -> Option<Packed<'a>> {
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
        let codes = *self.held.get(input(1)?.as_str())?;
        let mut dims = codes.dims.iter().map(|dim| usize::try_from(*dim).ok());
        let bytes = dims.try_fold(1usize, |count, dim| count.checked_mul(dim?))?;
        let stride = size.checked_mul(bits)?.div_ceil(8);
        let is_of_bytes = ElementType::from_id(codes.data_type)?.bits() == 8;
        if !is_of_bytes || stride.checked_mul(count)? != bytes {
            return None;
        }
        let zeros = match input(3) {
            Some(zeros) => unpacked(
                self.stored(self.held.get(zeros.as_str())?)?.as_bytes(),
                bits,
                rows,
                blocks,
            )?,
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
        // Blocks came with types of 4 bits, and before those of 2.
        let ty = if bits == 4 { ElementType::Uint4 } else { ElementType::Uint8 };
        let beside =
            (bits > 2).then(|| self.beside(value, "codes in blocks", codes, (ty, [depth, rows])));
        let codes = match beside.flatten() {
            Some(name) => name,
            None => {
                let count = rows.checked_mul(blocks)?;
                let codes = unpacked(self.stored(codes)?.as_bytes(), bits, count, size)?;
                let codes = in_bytes(turned(&codes, rows, depth)?, bits);
                self.codes((value, "codes in blocks"), bits, ty, &[depth, rows], codes)?
            }
        };
        let of_scales = ElementType::from_id(scales.data_type)?;
        let scales =
            match self.beside(value, "scales in blocks", scales, (of_scales, [blocks, rows])) {
                Some(name) => name,
                None => {
                    let scales = self.stored(scales)?;
                    let scales = scales.as_bytes().chunks_exact(of_scales.bits() as usize / 8);
                    let scales = turned(&scales.collect::<Vec<&[u8]>>(), rows, blocks)?.concat();
                    self.hold(value, "scales in blocks", of_scales, &[blocks, rows], scales)?
                }
            };
        let name_of_scales = parts.named("scales in FLOAT");
        let scales = parts.cast(scales, (of_scales, ElementType::Float), name_of_scales);
        let zeros = in_bytes(turned(&zeros, rows, blocks)?, bits);
        let zeros = self.hold(value, "zeros in blocks", ty, &[blocks, rows], zeros)?;
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
        let codes = unpacked(self.stored(codes)?.as_bytes(), bits, count, size)?;
        let codes = self.codes((value, "codes"), bits, ty, &[count, size], codes)?;
        let held = format!("{value}:scales");
        let mut dims = vec![i64::try_from(count).ok()?];
        if !self.has_axes {
            dims.push(1);
        }
        self.constants.push(TensorProto { name: held.clone(), dims, ..scales.clone() });
        let of_scales = ElementType::from_id(scales.data_type)?;
        let name_of_scales = parts.named("scales in FLOAT");
        let held = parts.cast(held, (of_scales, ElementType::Float), name_of_scales);
        let rows_named = parts.named("rows");
        let mut weight = if self.has_axes {
            let zeros = self.hold(value, "zeros", ty, &[count], zeros)?;
            let axis = vec![int_attribute("axis", 0)];
            parts.add("DequantizeLinear", vec![codes, held, zeros], axis, rows_named)
        } else {
            let zeros = zeros.iter().flat_map(|zero| f32::from(*zero).to_le_bytes()).collect();
            let zeros = self.hold(value, "zeros", ElementType::Float, &[count, 1], zeros)?;
            let to = vec![int_attribute("to", ElementType::Float as i64)];
            let (floats, off) = (parts.named("codes in FLOAT"), parts.named("codes off zero"));
            let codes = parts.add("Cast", vec![codes], to, floats);
            let codes = parts.add("Sub", vec![codes, zeros], vec![], off);
            parts.add("Mul", vec![codes, held], vec![], rows_named)
        };
        let shape = self.numbers(value, "shape", &[rows, blocks.checked_mul(size)?])?;
        let whole = parts.named("whole rows");
        weight = parts.add("Reshape", vec![weight, shape], vec![], whole);
        if blocks * size != depth {
            let mut taken = vec![weight];
            for (name, number) in [("start", 0), ("end", depth), ("axis", 1)] {
                taken.push(self.numbers(value, name, &[number])?);
            }
            let unpadded = parts.named("unpadded rows");
            weight = parts.add("Slice", taken, vec![], unpadded);
        }
        let order = ints_attribute("perm", vec![1, 0]);
        Some(parts.add("Transpose", vec![weight], vec![order], name))
    }

    /// Adds codes of so many bits, and keeps their type where a wider one holds them.
    fn codes(
        &mut self,
        (value, name): (&str, &str),
        bits: usize,
        ty: ElementType,
        shape: &[usize],
        raw_data: Vec<u8>,
    ) -> Option<String> {
        let name = self.hold(value, name, ty, shape, raw_data)?;
        let held = match bits {
            2 => Some(ElementType::Uint2),
            4 => Some(ElementType::Uint4),
            _ => None,
        };
        self.unpacked.extend(held.filter(|held| *held != ty).map(|held| (name.clone(), held)));
        Some(name)
    }

    /// Adds a constant, which is called after a value: the transpose of one that stays beside the
    /// model. `None` where it does not.
    fn beside(
        &mut self,
        value: &str,
        name: &str,
        stored: &TensorProto,
        (ty, shape): (ElementType, [usize; 2]),
    ) -> Option<String> {
        let name = format!("{value}:{name}");
        self.constants.push(tensor_proto::transposed(stored, &name, ty, shape)?);
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

    /// A constant of so many scales.
    fn scales(&self, name: &str, count: usize) -> Option<&'a TensorProto> {
        let scales = *self.held.get(name)?;
        let stored = scales.dims.iter().try_fold(1i64, |count, dim| count.checked_mul(*dim))?;
        let of_products = [ElementType::Float, ElementType::Float16, ElementType::BFloat16];
        let is_float = of_products.contains(&ElementType::from_id(scales.data_type)?);
        (is_float && usize::try_from(stored).ok()? == count).then_some(scales)
    }

    /// A constant, as it is stored.
    fn stored(&self, held: &TensorProto) -> Option<Tensor> {
        Some(tensor_proto::read(held, self.folder).ok()?.1)
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

/// Codes as a file has them of their type: those of 4 bits are two to a byte.
fn in_bytes(codes: Vec<u8>, bits: usize) -> Vec<u8> {
    if bits == 4 { in_pairs(&codes) } else { codes }
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

#[cfg(test)]
mod tests {
    use super::*;

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
