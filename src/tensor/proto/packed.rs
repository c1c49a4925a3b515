//! Elements of fewer than 8 bits, packed as the format says ([SEMANTICS §11](crate::semantics)).

use std::array;
use std::fmt;
use std::sync::Arc;

use anyhow::Context;
use tract_onnx::pb::TensorProto;
use tract_onnx::prelude::{Tensor, TractResult};

use super::field::TensorField;
use super::{TensorReader, is_external};
use crate::cast::element_type::{ElementType, Family};
use crate::cast::kernel::level::Level;
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
    let ty = reader.ty;
    let (&[rows, columns], 2 | 4) = (&*reader.shape, ty.bits()) else { return Ok(None) };
    let is_large = reader.count >= PACKED && !is_external(held);
    if !is_large || !matches!(reader.field()?, TensorField::Raw) {
        return Ok(None);
    }
    let source = PackedMatrix { held: held.clone(), ty };
    let matrix = late::matrix(Arc::new(source), ty.datum_type(), [rows, columns], memory);
    Ok(Some((ty, matrix)))
}

/// A matrix in a message, of which elements are unpacked when they are asked for.
struct PackedMatrix {
    held: Arc<TensorProto>,
    ty: ElementType,
}

impl MatrixSource for PackedMatrix {
    fn reader(&self) -> TractResult<PartReader<'_>> {
        let PackedMatrix { held, ty } = self;
        Ok(Box::new(|before, elements| unpack_from(&held.raw_data, *ty, before, elements)))
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
        write!(f, "{} of {:?}", self.ty, self.held.dims)
    }
}

/// As [`unpack`], of elements of 4 or 2 bits from one on. Fails where there are fewer.
pub(super) fn unpack_from(
    packed: &[u8],
    ty: ElementType,
    before: usize,
    elements: &mut [u8],
) -> TractResult<()> {
    let in_byte = 8 / ty.bits() as usize;
    let skipped = before % in_byte;
    let bytes = (skipped + elements.len()).div_ceil(in_byte);
    let packed = packed.get(before / in_byte..).and_then(|all| all.get(..bytes));
    let packed = packed.context("the codes are fewer than the matrix has elements")?;
    if skipped == 0 {
        unpack(packed, ty, elements);
        return Ok(());
    }
    let mut all = vec![0; skipped + elements.len()];
    unpack(packed, ty, &mut all);
    elements.copy_from_slice(&all[skipped..]);
    Ok(())
}

/// The inverse of [`pack`], as carriers: `packed` holds at least as many elements as there is room
/// for.
pub(super) fn unpack(packed: &[u8], ty: ElementType, elements: &mut [u8]) {
    let bits = ty.bits();
    // A carrier has the sign of a code in all bits above it.
    let sign = if ty.family() == Family::Signed { 1 << (bits - 1) } else { 0 };
    let carrier = |code: u8| (code ^ sign).wrapping_sub(sign);
    match bits {
        4 => Level::best().run(
            #[inline(always)]
            || unpack_bytes::<2>(packed, elements, carrier),
        ),
        2 => Level::best().run(
            #[inline(always)]
            || unpack_bytes::<4>(packed, elements, carrier),
        ),
        _ => {
            let mask = (1u64 << bits) - 1;
            let groups = elements.chunks_mut(GROUP).zip(packed.chunks(bits as usize));
            for (elements, bytes) in groups {
                let whole = bytes.iter().rev().fold(0, |whole, byte| whole << 8 | u64::from(*byte));
                for (element, shift) in elements.iter_mut().zip((0..).step_by(bits as usize)) {
                    *element = carrier((whole >> shift & mask) as u8);
                }
            }
        }
    }
}

/// Of elements that share no byte with half of another one, `N` to a byte.
#[inline(always)]
fn unpack_bytes<const N: usize>(packed: &[u8], elements: &mut [u8], carrier: impl Fn(u8) -> u8) {
    let bits = 8 / N;
    let code = |byte: u8, place: usize| byte >> (place * bits) & (u8::MAX >> (8 - bits));
    let held = |byte: u8| array::from_fn(|place| carrier(code(byte, place)));
    let (whole, rest) = elements.as_chunks_mut::<N>();
    for (elements, byte) in whole.iter_mut().zip(packed) {
        *elements = held(*byte);
    }
    if let Some(byte) = packed.get(whole.len()) {
        rest.iter_mut().zip(held(*byte)).for_each(|(element, held)| *element = held);
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
    use crate::tensor::carrier;
    use crate::tensor::proto::{LateReader, read, write};

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
            let mut reader = LateReader::of(&late)?.context("a late matrix")?;
            for (first, count) in [(1, 4), (0, 1023), (1027 * 1023 - 3, 3)] {
                let mut read = vec![0; count];
                reader.read(first, &mut read)?;
                assert_eq!(read, codes.as_bytes()[first..first + count], "{ty} from {first}");
                assert!(reader.read(1027 * 1023 - count + 1, &mut read).is_err());
            }
            assert!(late::is_late(&late) && LateReader::of(&codes)?.is_none());
            assert!(LateReader::of(&late::turned(&late).context("its transpose")?)?.is_none());
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
