//! Elements of fewer than 8 bits, packed as the format says ([SEMANTICS §11](crate::semantics)).

/// Elements of fewer than 8 bits as one little-endian stream of bits; for 4 and 2 bits that is two and four per byte,
/// the first in the lowest bits. Pad bits are zero.
pub(super) fn pack(elements: &[u8], bits: u32) -> Vec<u8> {
    let bits = bits as usize;
    let mask = (1u16 << bits) - 1;
    let mut packed = vec![0u8; packed_length(elements.len(), bits as u32)];
    for (index, element) in elements.iter().enumerate() {
        let (byte, shift) = bit_place(index, bits);
        let shifted = (u16::from(*element) & mask) << shift;
        let [low, high] = shifted.to_le_bytes();
        packed[byte] |= low;
        if high != 0 {
            packed[byte + 1] |= high;
        }
    }
    packed
}

/// The inverse of [`pack`]; `packed` holds at least `count` elements.
pub(super) fn unpack(packed: &[u8], bits: u32, count: usize) -> impl Iterator<Item = u64> {
    let bits = bits as usize;
    (0..count).map(move |index| {
        let (byte, shift) = bit_place(index, bits);
        let low = u64::from(packed[byte]);
        let high = u64::from(packed.get(byte + 1).copied().unwrap_or(0));
        (low | high << 8) >> shift & ((1 << bits) - 1)
    })
}

/// Bytes of so many elements, packed. Elements that fit memory one to a byte do not overflow on the way.
pub(super) fn packed_length(elements: usize, bits: u32) -> usize {
    let bits = bits as usize;
    elements / 8 * bits + (elements % 8 * bits).div_ceil(8)
}

/// The byte and the bit in it where an element begins.
fn bit_place(index: usize, bits: usize) -> (usize, usize) {
    let rest = index % 8 * bits;
    (index / 8 * bits + rest / 8, rest % 8)
}
