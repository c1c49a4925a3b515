//! Squares of bytes in words, many of which are transposed at once: what turns a matrix of bytes.

#![forbid(unsafe_code)]

/// How many bytes a square has along either side, and how many squares are transposed at once.
pub(crate) const SIDE: usize = 8;

/// A word of each of these squares: a row of it, whose first byte is the lowest.
pub(crate) type Words = [u64; SIDE];

/// The lower half of each byte.
const LOW: u64 = 0x0f0f_0f0f_0f0f_0f0f;

/// The first bytes as words; zeros stand for those that are not there.
#[inline(always)]
pub(crate) fn words(bytes: &[u8]) -> Words {
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

/// The lower halves of the bytes of two words, in pairs: that of the first is the lower one.
#[inline(always)]
pub(crate) fn low_pairs(one: u64, other: u64) -> u64 {
    one & LOW | (other & LOW) << 4
}

/// The same of the upper halves.
#[inline(always)]
pub(crate) fn high_pairs(one: u64, other: u64) -> u64 {
    (one >> 4) & LOW | other & (LOW << 4)
}

/// Transposes squares.
#[inline(always)]
pub(crate) fn transpose(squares: &mut [Words; SIDE]) {
    swap(squares, 1, 0x00ff_00ff_00ff_00ff);
    swap(squares, 2, 0x0000_ffff_0000_ffff);
    swap(squares, 4, 0x0000_0000_ffff_ffff);
}

/// Swaps the bytes of rows that are so far apart which are as far apart in their columns; `mask`
/// has those that stay in the upper row.
#[inline(always)]
fn swap(squares: &mut [Words; SIDE], distance: usize, mask: u64) {
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
}
