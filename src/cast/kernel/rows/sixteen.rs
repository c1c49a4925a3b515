//! Sums of rows by the look-ups of arm64 (`tbl`) and wasm32 (`i8x16.swizzle`): 16 codes at a time,
//! with zero for an index that is not one of a row's 16.

#![forbid(unsafe_code)]

use std::mem::MaybeUninit;

use super::vector::{Vector, add, and, every, interleave, load, look_up, store, upper_digit, xor};
use super::{BytePlaces, DigitRow, ROW, RowSums, Term, TermReach};
use crate::cast::kernel::level::Level;

/// Vectors of codes that are looked up together, so that rows are loaded once for all of them.
const VECTORS: usize = 4;

/// Codes in them.
const BLOCK: usize = VECTORS * ROW;

/// From so many instructions on for a vector, loading one entry after the other is as fast.
const DEAR: usize = 48;

/// A table of targets.
pub(in crate::cast::kernel) struct RowTables {
    rows: Option<RowSums>,
    /// Bytes of a target.
    width: usize,
}

impl RowTables {
    /// Of 256 targets of so many bytes each.
    pub(in crate::cast::kernel) fn new(targets: &[u8], width: usize) -> RowTables {
        let rows = RowSums::new(targets, width, TermReach::Row);
        RowTables { rows: rows.filter(|rows| rows.cost(width) < DEAR), width }
    }

    /// Converts as many elements as fill blocks, and returns how many; as many are written.
    pub(in crate::cast::kernel) fn run(
        &self,
        _: Level,
        src: &[u8],
        dst: &mut [MaybeUninit<u8>],
    ) -> usize {
        let Some(rows) = &self.rows else { return 0 };
        match (self.width, rows.form) {
            (1, _) => blocks::<1, 1, true>(rows, src, dst),
            (2, _) => blocks::<2, 2, true>(rows, src, dst),
            (4, BytePlaces::Upper) => blocks::<2, 4, true>(rows, src, dst),
            (4, BytePlaces::Extended) => blocks::<2, 4, false>(rows, src, dst),
            (_, BytePlaces::Upper) => blocks::<2, 8, true>(rows, src, dst),
            (_, BytePlaces::Extended) => blocks::<2, 8, false>(rows, src, dst),
        }
        src.len() / BLOCK * BLOCK
    }
}

/// Targets of `WIDTH` bytes, of which so many differ.
#[inline(never)]
fn blocks<const BYTES: usize, const WIDTH: usize, const UPPER: bool>(
    rows: &RowSums,
    src: &[u8],
    dst: &mut [MaybeUninit<u8>],
) {
    for (codes, out) in src.as_chunks::<BLOCK>().0.iter().zip(dst.chunks_exact_mut(BLOCK * WIDTH)) {
        let codes = codes.as_chunks::<ROW>().0;
        let sums = sum::<BYTES>(rows, std::array::from_fn(|at| load(&codes[at])));
        for (at, out) in out.chunks_exact_mut(ROW * WIDTH).enumerate() {
            spread::<WIDTH, UPPER>(sums[0][at], sums[BYTES - 1][at], out);
        }
    }
}

/// Each of the codes' bytes.
#[inline(always)]
fn sum<const BYTES: usize>(rows: &RowSums, codes: [Vector; VECTORS]) -> [[Vector; VECTORS]; BYTES] {
    let lower = codes.map(|code| and(code, every(0x0F)));
    let upper = codes.map(upper_digit);
    let mut sums = [[every(0); VECTORS]; BYTES];
    for (byte, sums) in sums.iter_mut().enumerate() {
        for (row, digits) in [(&rows.low[byte], &lower), (&rows.high[byte], &upper)] {
            if let Some(row) = row {
                add_row(sums, row, digits);
            }
        }
    }
    let shared = codes.map(|code| and(code, every(rows.mask)));
    add_terms(&mut sums, &rows.shared, &shared);
    add_terms(&mut sums, &rows.own, &codes);
    sums
}

/// Adds what the terms have, each where the code is of its row.
#[inline(always)]
fn add_terms<const BYTES: usize>(
    sums: &mut [[Vector; VECTORS]; BYTES],
    terms: &[Term],
    codes: &[Vector; VECTORS],
) {
    for term in terms {
        let first = every(term.row[0]);
        let index = codes.map(|code| xor(code, first));
        for (sums, bytes) in sums.iter_mut().zip(&term.bytes) {
            add_row(sums, bytes, &index);
        }
    }
}

#[inline(always)]
fn add_row(sums: &mut [Vector; VECTORS], row: &DigitRow, index: &[Vector; VECTORS]) {
    let row = load(row);
    for (sum, index) in sums.iter_mut().zip(index) {
        *sum = add(*sum, look_up(row, *index));
    }
}

/// Writes 16 targets of two bytes each and what fills the others: zeros below them if `UPPER`, else
/// the second above them.
#[inline(always)]
fn spread<const WIDTH: usize, const UPPER: bool>(
    first: Vector,
    second: Vector,
    out: &mut [MaybeUninit<u8>],
) {
    if WIDTH == 1 {
        return store(first, out);
    }
    let fill = if UPPER { every(0) } else { second };
    let words = interleave::<1>(first, second);
    let fills = interleave::<1>(fill, fill);
    for ((word, fill), out) in words.into_iter().zip(fills).zip(out.chunks_exact_mut(8 * WIDTH)) {
        if WIDTH == 2 {
            store(word, out);
            continue;
        }
        let beside = |one, other| if UPPER { (other, one) } else { (one, other) };
        let (low, high) = beside(word, fill);
        let doubles = interleave::<2>(low, high).into_iter().zip(interleave::<2>(fill, fill));
        for ((double, fill), out) in doubles.zip(out.chunks_exact_mut(4 * WIDTH)) {
            if WIDTH == 4 {
                store(double, out);
                continue;
            }
            let (low, high) = beside(double, fill);
            for (quarter, out) in
                interleave::<4>(low, high).into_iter().zip(out.chunks_exact_mut(16))
            {
                store(quarter, out);
            }
        }
    }
}
