//! Elements of fewer than 8 bits, packed as the format says ([SEMANTICS §11](crate::semantics)).

/// How many elements end with a byte, whatever their bits.
const GROUP: usize = 8;

/// Elements of fewer than 8 bits as one little-endian stream of bits; for 4 and 2 bits that is two and four per byte,
/// the first in the lowest bits. Pad bits are zero.
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

/// The inverse of [`pack`]; `packed` holds at least `count` elements.
pub(super) fn unpack(packed: &[u8], bits: u32, count: usize) -> impl Iterator<Item = u64> {
    let mask = (1u64 << bits) - 1;
    let group = move |bytes: &[u8]| {
        let whole = bytes.iter().rev().fold(0, |whole, byte| whole << 8 | u64::from(*byte));
        (0..GROUP as u32).map(move |place| whole >> (place * bits) & mask)
    };
    packed.chunks(bits as usize).flat_map(group).take(count)
}

/// Bytes of so many elements, packed. Elements that fit memory one to a byte do not overflow on the way.
pub(super) fn packed_length(elements: usize, bits: u32) -> usize {
    let bits = bits as usize;
    elements / GROUP * bits + (elements % GROUP * bits).div_ceil(8)
}
