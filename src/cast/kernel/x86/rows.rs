//! Sums of rows by `vpshufb`, 32 codes at a time.

#![expect(unsafe_code, reason = "vector loads and stores, and calls that need their instructions")]

use std::arch::x86_64::*;
use std::mem::MaybeUninit;

use crate::cast::kernel::level::Avx2;
use crate::cast::kernel::rows::{BytePlaces, DigitRow, RowSums, Term, TermReach};

/// Codes of a vector.
const CODES: usize = 32;

/// The sums of a table that take the fewest instructions, if there are any.
pub(super) fn cheapest(targets: &[u8], width: usize) -> Option<RowSums> {
    let ways = [TermReach::Row, TermReach::Above, TermReach::Everything]
        .map(|reach| RowSums::new(targets, width, reach));
    ways.into_iter().flatten().min_by_key(|rows| rows.cost(width))
}

/// Looks up whole blocks of codes, for targets of `width` bytes; returns how many codes. As many
/// are written.
pub(super) fn avx2(
    _proof: Avx2,
    rows: &RowSums,
    width: usize,
    src: &[u8],
    dst: &mut [MaybeUninit<u8>],
) -> usize {
    let block = if width == 1 { 4 * CODES } else { 2 * CODES };
    let done = src.len() / block * block;
    let (src, dst) = (&src[..done], &mut dst[..done * width]);
    // SAFETY: the proof says that the CPU has the instructions.
    unsafe {
        match (width, rows.form) {
            (1, _) => bytes(rows, src, dst),
            (2, _) => wider::<2, true>(rows, src, dst),
            (4, BytePlaces::Upper) => wider::<4, true>(rows, src, dst),
            (4, BytePlaces::Extended) => wider::<4, false>(rows, src, dst),
            (8, BytePlaces::Upper) => wider::<8, true>(rows, src, dst),
            (8, BytePlaces::Extended) => wider::<8, false>(rows, src, dst),
            _ => return 0,
        }
    }
    done
}

#[target_feature(enable = "avx2")]
fn bytes(rows: &RowSums, src: &[u8], dst: &mut [MaybeUninit<u8>]) {
    for (codes, out) in src.chunks_exact(4 * CODES).zip(dst.chunks_exact_mut(4 * CODES)) {
        let mut vectors = [_mm256_setzero_si256(); 4];
        for (vector, codes) in vectors.iter_mut().zip(codes.chunks_exact(CODES)) {
            // SAFETY: the chunk is of 32 bytes.
            *vector = unsafe { _mm256_loadu_si256(codes.as_ptr().cast()) };
        }
        let [sums] = match rows.reach {
            TermReach::Row => look_up::<1, 4, false>(rows, vectors),
            _ => look_up::<1, 4, true>(rows, vectors),
        };
        for (out, sum) in out.chunks_exact_mut(CODES).zip(sums) {
            // SAFETY: the chunk is of 32 bytes.
            unsafe { _mm256_storeu_si256(out.as_mut_ptr().cast(), sum) };
        }
    }
}

/// Targets of more than a byte; the two that differ are the upper ones if `UPPER`.
#[target_feature(enable = "avx2")]
fn wider<const WIDTH: usize, const UPPER: bool>(
    rows: &RowSums,
    src: &[u8],
    dst: &mut [MaybeUninit<u8>],
) {
    // Interleaving takes the lower halves of both lanes first, and again for each doubling: codes
    // are moved to where it leaves them in order.
    let order = if WIDTH == 8 {
        _mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15)
    } else {
        _mm_setr_epi8(0, 1, 2, 3, 8, 9, 10, 11, 4, 5, 6, 7, 12, 13, 14, 15)
    };
    let order = _mm256_broadcastsi128_si256(order);
    let blocks = src.chunks_exact(2 * CODES).zip(dst.chunks_exact_mut(2 * CODES * WIDTH));
    for (codes, out) in blocks {
        let mut vectors = [_mm256_setzero_si256(); 2];
        for (vector, codes) in vectors.iter_mut().zip(codes.chunks_exact(CODES)) {
            // SAFETY: the chunk is of 32 bytes.
            let codes = unsafe { _mm256_loadu_si256(codes.as_ptr().cast()) };
            let codes = if WIDTH == 2 { codes } else { _mm256_shuffle_epi8(codes, order) };
            *vector = _mm256_permute4x64_epi64::<0xD8>(codes);
        }
        let [firsts, seconds] = match rows.reach {
            TermReach::Row => look_up::<2, 2, false>(rows, vectors),
            _ => look_up::<2, 2, true>(rows, vectors),
        };
        let pairs = firsts.into_iter().zip(seconds);
        for (out, (first, second)) in out.chunks_exact_mut(CODES * WIDTH).zip(pairs) {
            spread::<WIDTH, UPPER>(first, second, out);
        }
    }
}

/// Each of the codes' bytes. Terms are of their own row and those above it if `ABOVE`: where a row
/// is subtracted from an index, a lesser one becomes negative, and a negative one stays so.
#[inline]
#[target_feature(enable = "avx2")]
fn look_up<const BYTES: usize, const VECTORS: usize, const ABOVE: bool>(
    rows: &RowSums,
    codes: [__m256i; VECTORS],
) -> [[__m256i; VECTORS]; BYTES] {
    let (digit, mask) = (_mm256_set1_epi8(0x0F), _mm256_set1_epi8(rows.mask as i8));
    let (mut shared, mut upper, mut own) = (codes, codes, codes);
    for vector in 0..VECTORS {
        // Of an index, a shuffle reads the lower digit and the top bit, which is not in the mask.
        shared[vector] = _mm256_and_si256(codes[vector], mask);
        upper[vector] = _mm256_and_si256(_mm256_srli_epi16::<4>(codes[vector]), digit);
        if ABOVE {
            own[vector] = _mm256_xor_si256(codes[vector], _mm256_set1_epi8(i8::MIN));
        }
    }
    let mut sums = [[_mm256_setzero_si256(); VECTORS]; BYTES];
    for (byte, sums) in sums.iter_mut().enumerate() {
        if let Some(low) = &rows.low[byte] {
            let low = table(low);
            for (sum, at) in sums.iter_mut().zip(shared) {
                *sum = _mm256_shuffle_epi8(low, at);
            }
        }
        if let Some(high) = &rows.high[byte] {
            let high = table(high);
            for (sum, at) in sums.iter_mut().zip(upper) {
                *sum = _mm256_add_epi8(*sum, _mm256_shuffle_epi8(high, at));
            }
        }
    }
    add_terms::<BYTES, VECTORS, ABOVE>(&rows.shared, shared, &mut sums);
    add_terms::<BYTES, VECTORS, ABOVE>(&rows.own, own, &mut sums);
    sums
}

/// Adds what the terms have at the indices.
#[inline]
#[target_feature(enable = "avx2")]
fn add_terms<const BYTES: usize, const VECTORS: usize, const ABOVE: bool>(
    terms: &[Term],
    indices: [__m256i; VECTORS],
    sums: &mut [[__m256i; VECTORS]; BYTES],
) {
    // A shuffle gives zero where the top bit is set: of another row's index, once this is added to
    // it.
    let beyond = _mm256_set1_epi8(0x70);
    for term in terms {
        let row = _mm256_set1_epi32(i32::from_ne_bytes(term.row));
        let mut at = indices;
        for at in &mut at {
            *at = if ABOVE {
                _mm256_subs_epi8(*at, row)
            } else {
                _mm256_adds_epu8(_mm256_xor_si256(*at, row), beyond)
            };
        }
        for (sums, bytes) in sums.iter_mut().zip(&term.bytes) {
            let table = table(bytes);
            for (sum, at) in sums.iter_mut().zip(at) {
                *sum = _mm256_add_epi8(*sum, _mm256_shuffle_epi8(table, at));
            }
        }
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn table(row: &DigitRow) -> __m256i {
    // SAFETY: the row is of 16 bytes.
    _mm256_broadcastsi128_si256(unsafe { _mm_loadu_si128(row.as_ptr().cast()) })
}

/// Writes targets of two bytes each and what fills the others: zeros below them if `UPPER`, else
/// the second above them.
#[inline]
#[target_feature(enable = "avx2")]
fn spread<const WIDTH: usize, const UPPER: bool>(
    first: __m256i,
    second: __m256i,
    out: &mut [MaybeUninit<u8>],
) {
    assert_eq!(out.len(), CODES * WIDTH);
    let none = _mm256_setzero_si256();
    let word = [_mm256_unpacklo_epi8(first, second), _mm256_unpackhi_epi8(first, second)];
    let fill = if UPPER {
        [none; 2]
    } else {
        [_mm256_unpacklo_epi8(second, second), _mm256_unpackhi_epi8(second, second)]
    };
    let start: *mut __m256i = out.as_mut_ptr().cast();
    for half in 0..2 {
        let (word, fill) = (word[half], fill[half]);
        if WIDTH == 2 {
            // SAFETY: there are two vectors, as was asserted.
            unsafe { _mm256_storeu_si256(start.add(half), word) };
            continue;
        }
        let (one, other) = if UPPER { (fill, word) } else { (word, fill) };
        let double = [_mm256_unpacklo_epi16(one, other), _mm256_unpackhi_epi16(one, other)];
        let fill = [_mm256_unpacklo_epi16(fill, fill), _mm256_unpackhi_epi16(fill, fill)];
        for quarter in 0..2 {
            let at = 2 * half + quarter;
            if WIDTH == 4 {
                // SAFETY: there are four vectors, as was asserted.
                unsafe { _mm256_storeu_si256(start.add(at), double[quarter]) };
                continue;
            }
            let (double, fill) = (double[quarter], fill[quarter]);
            let (one, other) = if UPPER { (fill, double) } else { (double, fill) };
            // SAFETY: there are eight vectors, as was asserted.
            unsafe {
                _mm256_storeu_si256(start.add(2 * at), _mm256_unpacklo_epi32(one, other));
                _mm256_storeu_si256(start.add(2 * at + 1), _mm256_unpackhi_epi32(one, other));
            }
        }
    }
}
