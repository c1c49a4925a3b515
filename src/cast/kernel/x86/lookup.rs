//! Whole registers of codes looked up: by `vpermi2b` here, without AVX-512 as sums of rows.

#![expect(unsafe_code, reason = "vector loads and stores, and calls that need their instructions")]

use std::arch::x86_64::*;
use std::mem::MaybeUninit;

use super::rows;
use crate::cast::kernel::level::{Avx512, Level};
use crate::cast::kernel::rows::RowSums;

/// A table of targets as the instructions of each level want it.
pub(in crate::cast::kernel) struct PlaneTables {
    planes: Planes,
    rows: Option<RowSums>,
}

impl PlaneTables {
    /// Of 256 targets of so many bytes each.
    pub(in crate::cast::kernel) fn new(targets: &[u8], width: usize) -> PlaneTables {
        PlaneTables { planes: Planes::new(targets, width), rows: rows::cheapest(targets, width) }
    }

    /// Converts as many elements as fill vectors, and returns how many; as many are written.
    pub(in crate::cast::kernel) fn run(
        &self,
        level: Level,
        src: &[u8],
        dst: &mut [MaybeUninit<u8>],
    ) -> usize {
        if let Some(proof) = level.avx512() {
            return avx512(proof, &self.planes, src, dst);
        }
        match (level.avx2(), &self.rows) {
            (Some(proof), Some(rows)) => rows::avx2(proof, rows, self.planes.width, src, dst),
            _ => 0,
        }
    }
}

/// The planes of a table that differ and are not zero throughout; of a table of zeros, one.
struct Planes {
    /// Bytes of a target.
    width: usize,
    planes: Vec<Plane>,
    /// How each two of the planes are interleaved.
    pairs: Vec<PlanePair>,
}

/// For each byte of the first 64 that are written: whether it comes from one of two planes, and
/// where from, an element of the first or, with 64 added, of the second.
struct PlanePair {
    mask: u64,
    places: [u8; 64],
}

/// A byte of every target, or several that are the same.
struct Plane {
    /// Which bytes of the target, the lowest in the lowest bit.
    bytes: u8,
    table: [u8; 256],
}

impl Planes {
    fn new(targets: &[u8], width: usize) -> Planes {
        let mut planes: Vec<Plane> = vec![];
        for byte in 0..width {
            let mut table = [0; 256];
            for (entry, target) in table.iter_mut().zip(targets.chunks_exact(width)) {
                *entry = target[byte];
            }
            match planes.iter_mut().find(|plane| plane.table == table) {
                Some(plane) => plane.bytes |= 1 << byte,
                None => planes.push(Plane { bytes: 1 << byte, table }),
            }
        }
        if planes.len() > 1 {
            planes.retain(|plane| plane.table != [0; 256]);
        }
        let pairs = planes.chunks(2).map(|pair| PlanePair::new(pair, width)).collect();
        Planes { width, planes, pairs }
    }
}

impl PlanePair {
    fn new(pair: &[Plane], width: usize) -> PlanePair {
        let (mut mask, mut places) = (0, [0; 64]);
        for (at, place) in places.iter_mut().enumerate() {
            let has_byte = |plane: &Plane| plane.bytes >> (at % width) & 1 == 1;
            if let Some(index) = pair.iter().position(has_byte) {
                mask |= 1 << at;
                *place = (at / width + 64 * index) as u8;
            }
        }
        PlanePair { mask, places }
    }
}

/// Looks up whole vectors of 64 codes; returns how many codes.
fn avx512(_proof: Avx512, planes: &Planes, src: &[u8], dst: &mut [MaybeUninit<u8>]) -> usize {
    let done = src.len() / 64 * 64;
    let (src, dst) = (&src[..done], &mut dst[..done * planes.width]);
    // SAFETY: the proof says that the CPU has the instructions.
    unsafe {
        match (planes.width, planes.planes.len()) {
            (1, _) => bytes_avx512(&planes.planes[0], src, dst),
            (_, 1) => planes_avx512::<1>(planes, src, dst),
            (_, 2) => planes_avx512::<2>(planes, src, dst),
            (2 | 4, _) => planes_avx512::<4>(planes, src, dst),
            _ => return 0,
        }
    }
    done
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi")]
fn bytes_avx512(plane: &Plane, src: &[u8], dst: &mut [MaybeUninit<u8>]) {
    let table = load_plane(plane);
    for (codes, out) in src.chunks_exact(64).zip(dst.chunks_exact_mut(64)) {
        // SAFETY: the chunks are of 64 bytes.
        unsafe {
            let codes = _mm512_loadu_si512(codes.as_ptr().cast());
            _mm512_storeu_si512(out.as_mut_ptr().cast(), look_up(&table, codes));
        }
    }
}

/// Writes up to `N` planes of every target, two at a time, and zeros elsewhere.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi")]
fn planes_avx512<const N: usize>(planes: &Planes, src: &[u8], dst: &mut [MaybeUninit<u8>]) {
    let &Planes { width, ref planes, ref pairs } = planes;
    // Of three planes, the last is there twice.
    let load = |at: usize| load_plane(&planes[at.min(planes.len() - 1)]);
    let table = load(0);
    let second_table = if N > 1 { load(1) } else { table };
    let (third_table, fourth_table) = if N > 2 { (load(2), load(3)) } else { (table, table) };
    let (first, last) = (&pairs[0], &pairs[pairs.len() - 1]);
    // SAFETY: the arrays have 64 bytes.
    let starts = unsafe {
        let load = |pair: &PlanePair| _mm512_loadu_si512(pair.places.as_ptr().cast());
        (load(first), load(last))
    };
    let step = _mm512_set1_epi8((64 / width) as i8);
    for (codes, out) in src.chunks_exact(64).zip(dst.chunks_exact_mut(64 * width)) {
        // SAFETY: the chunk is of 64 bytes.
        let codes = unsafe { _mm512_loadu_si512(codes.as_ptr().cast()) };
        let a = look_up(&table, codes);
        let b = if N > 1 { look_up(&second_table, codes) } else { a };
        let (c, d) = if N > 2 {
            (look_up(&third_table, codes), look_up(&fourth_table, codes))
        } else {
            (a, b)
        };
        let mut places = starts;
        for vector in out.chunks_exact_mut(64) {
            let mut bytes = _mm512_maskz_permutex2var_epi8(first.mask, a, places.0, b);
            if N > 2 {
                let more = _mm512_maskz_permutex2var_epi8(last.mask, c, places.1, d);
                bytes = _mm512_or_si512(bytes, more);
                places.1 = _mm512_add_epi8(places.1, step);
            }
            // SAFETY: the chunk is of 64 bytes.
            unsafe { _mm512_storeu_si512(vector.as_mut_ptr().cast(), bytes) };
            places.0 = _mm512_add_epi8(places.0, step);
        }
    }
}

#[target_feature(enable = "avx512f")]
fn load_plane(plane: &Plane) -> [__m512i; 4] {
    // SAFETY: the table has 256 bytes.
    unsafe {
        let start = plane.table.as_ptr();
        [0, 64, 128, 192].map(|at| _mm512_loadu_si512(start.add(at).cast()))
    }
}

/// Each of 64 codes in a table of 256 bytes: its low 7 bits in either half, its top bit saying
/// which.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn look_up(table: &[__m512i; 4], codes: __m512i) -> __m512i {
    let low = _mm512_permutex2var_epi8(table[0], codes, table[1]);
    let high = _mm512_permutex2var_epi8(table[2], codes, table[3]);
    _mm512_mask_blend_epi8(_mm512_movepi8_mask(codes), low, high)
}
