//! Elements of fewer than 8 bits, packed as the format says ([SEMANTICS §11](crate::semantics)).

use std::array;

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
