//! Elements of fewer than 8 bits, packed as the format says ([SEMANTICS §11](crate::semantics)).

use std::array;
use std::fmt;
use std::sync::Arc;

use anyhow::Context;
use tract_onnx::pb::TensorProto;
use tract_onnx::prelude::{Tensor, TractResult};

use super::field::TensorField;
use super::{TensorReader, is_external};
use crate::cast::element_type::ElementType;
use crate::tensor::carrier;
use crate::tensor::late::{self, MatrixSource, PartReader};
use crate::tensor::memory::Memory;

/// How many elements end with a byte, whatever their bits.
const GROUP: usize = 8;

/// Elements of fewer than 8 bits as one little-endian stream of bits; for 4 and 2 bits that is two
/// and four per byte, the first in the lowest bits. Pad bits are zero.
pub(super) fn pack(elements: &[u8], bits: u32) -> Vec<u8> {
    let mask = (1u64 << bits) - 1;
    let group = |elements: &[u8]| {
        let places = elements.iter().zip((0..).step_by(bits as usize));
        let whole =
            places.fold(0, |whole, (code, shift)| whole | (u64::from(*code) & mask) << shift);
        whole.to_le_bytes().into_iter().take(packed_length(elements.len(), bits))
    };
    elements.chunks(GROUP).flat_map(group).collect()
}

/// From so many elements on a matrix of 4 or 2 bits stays packed.
const PACKED: usize = 1 << 20;

/// A large matrix of 4 or 2 bits that is in its message, which somebody holds: it stays packed
/// until all of it is asked for, as a late one is read ([`read_late`](super::read_late)). `None` of
/// any other tensor. Fails when the message contradicts itself.
pub(crate) fn packed_matrix(
    held: &Arc<TensorProto>,
    memory: &Memory,
) -> TractResult<Option<(ElementType, Tensor)>> {
    let reader = TensorReader::new(held)?;
    let (ty, bits) = (reader.ty, reader.ty.bits());
    let (&[rows, columns], 2 | 4) = (&*reader.shape, bits) else { return Ok(None) };
    let is_large = reader.count >= PACKED && !is_external(held);
    if !is_large || !matches!(reader.field()?, TensorField::Raw) {
        return Ok(None);
    }
    let source = PackedMatrix { held: held.clone(), bits, carriers: carrier::of_bytes(ty) };
    let matrix = late::matrix(Arc::new(source), ty.datum_type(), [rows, columns], memory);
    Ok(Some((ty, matrix)))
}

/// A matrix in a message, of which elements are unpacked when they are asked for.
struct PackedMatrix {
    held: Arc<TensorProto>,
    bits: u32,
    /// What each code is in memory.
    carriers: [u8; 256],
}

impl MatrixSource for PackedMatrix {
    fn reader(&self) -> TractResult<PartReader<'_>> {
        let PackedMatrix { held, bits, carriers } = self;
        Ok(Box::new(move |before, elements| {
            unpack_from(&held.raw_data, (*bits, carriers), before, elements)
        }))
    }

    fn block(&self) -> usize {
        // It fits into a cache.
        1 << 18
    }

    fn is_read_by_parts(&self, _: usize, _: usize) -> bool {
        true
    }
}

impl fmt::Debug for PackedMatrix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bits of {:?}", self.bits, self.held.dims)
    }
}

/// As [`unpack`], of elements of 4 or 2 bits from one on. Fails where there are fewer.
pub(super) fn unpack_from(
    packed: &[u8],
    (bits, carriers): (u32, &[u8; 256]),
    before: usize,
    elements: &mut [u8],
) -> TractResult<()> {
    let in_byte = 8 / bits as usize;
    let skipped = before % in_byte;
    let bytes = (skipped + elements.len()).div_ceil(in_byte);
    let packed = packed.get(before / in_byte..).and_then(|all| all.get(..bytes));
    let packed = packed.context("the codes are fewer than the matrix has elements")?;
    if skipped == 0 {
        unpack(packed, bits, carriers, elements);
        return Ok(());
    }
    let mut all = vec![0; skipped + elements.len()];
    unpack(packed, bits, carriers, &mut all);
    elements.copy_from_slice(&all[skipped..]);
    Ok(())
}

/// The inverse of [`pack`]: `packed` holds at least as many elements as there is room for, and
/// `carriers` says what each code is in memory.
pub(super) fn unpack(packed: &[u8], bits: u32, carriers: &[u8; 256], elements: &mut [u8]) {
    match bits {
        4 => unpack_bytes::<2>(packed, carriers, elements),
        2 => unpack_bytes::<4>(packed, carriers, elements),
        _ => {
            let mask = (1u64 << bits) - 1;
            let groups = elements.chunks_mut(GROUP).zip(packed.chunks(bits as usize));
            for (elements, bytes) in groups {
                let whole = bytes.iter().rev().fold(0, |whole, byte| whole << 8 | u64::from(*byte));
                for (element, shift) in elements.iter_mut().zip((0..).step_by(bits as usize)) {
                    *element = carriers[(whole >> shift & mask) as usize];
                }
            }
        }
    }
}

/// Of elements that share no byte with half of another one: what each byte holds is looked up.
fn unpack_bytes<const N: usize>(packed: &[u8], carriers: &[u8; 256], elements: &mut [u8]) {
    let bits = 8 / N;
    let mask = (1 << bits) - 1;
    let held: [[u8; N]; 256] =
        array::from_fn(|byte| array::from_fn(|place| carriers[byte >> (place * bits) & mask]));
    let (whole, rest) = elements.as_chunks_mut();
    for (elements, byte) in whole.iter_mut().zip(packed) {
        *elements = held[usize::from(*byte)];
    }
    if let Some(byte) = packed.get(whole.len()) {
        rest.iter_mut().zip(held[usize::from(*byte)]).for_each(|(element, held)| *element = held);
    }
}

/// Bytes of so many elements, packed. Elements that fit memory one to a byte do not overflow on the
/// way.
pub(super) fn packed_length(elements: usize, bits: u32) -> usize {
    let bits = bits as usize;
    elements / GROUP * bits + (elements % GROUP * bits).div_ceil(8)
}

#[cfg(test)]
mod tests {
    use crate::tensor::proto::{read, write};

    use super::*;

    #[test]
    fn a_matrix_that_stays_packed_is_what_is_read_of_it() -> TractResult<()> {
        let shape = [1027, 1023];
        for ty in [ElementType::Uint4, ElementType::Int4, ElementType::Uint2, ElementType::Int2] {
            let mut codes = Tensor::zero_dt(ty.datum_type(), &shape)?;
            let carriers = carrier::of_bytes(ty);
            let mask = (1 << ty.bits()) - 1;
            for (place, code) in codes.as_bytes_mut().iter_mut().enumerate() {
                *code = carriers[(place * 7919 % 61) & mask];
            }
            let held = Arc::new(write("w", ty, &codes)?);
            let packed = |held: &Arc<TensorProto>| packed_matrix(held, &Memory::default());
            let (is, late) = packed(&held)?.context("a large matrix")?;
            assert!(is == ty && late::is_late(&late));
            for (from, to) in [(0, 1), (1, 2), (3, 5), (1026, 1027)] {
                assert_eq!(late.slice(0, from, to)?, codes.slice(0, from, to)?, "{ty} from {from}");
            }
            assert!(late::is_late(&late));
            assert_eq!(late.try_as_plain_ram()?.as_bytes(), read(&held, None)?.1.as_bytes());
            let dims = vec![1027, 1023, 1];
            assert!(
                packed(&Arc::new(TensorProto { dims, ..TensorProto::clone(&held) }))?.is_none()
            );
            let raw_data = held.raw_data[1..].to_vec();
            assert!(
                packed(&Arc::new(TensorProto { raw_data, ..TensorProto::clone(&held) })).is_err()
            );
        }
        Ok(())
    }
}
