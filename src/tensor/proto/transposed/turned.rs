//! Rows that become columns.

#![forbid(unsafe_code)]

use std::ops::Range;

use crate::cast::kernel::level::Level;
use crate::cast::squares::{SIDE, high_pairs, low_pairs, transpose, words};

/// Bytes of some rows of a matrix, one behind the other.
pub(super) struct Rows<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) stride: usize,
    pub(super) within: Range<usize>,
    /// Which row is the first of them, and how many the matrix has.
    pub(super) first: usize,
    pub(super) rows: usize,
}

impl Rows<'_> {
    /// Puts these bytes of all rows into the columns that they are of, which have elements of
    /// `WIDTH` bytes.
    pub(super) fn turned<const WIDTH: usize>(&self, turned: &mut [u8]) -> Option<()> {
        for (place, row) in (self.first..).zip(self.bytes.chunks_exact(self.stride)) {
            let elements = row.get(self.within.clone())?.as_chunks::<WIDTH>().0;
            let made = turned.as_chunks_mut::<WIDTH>().0.iter_mut();
            let made = made.skip(place).step_by(self.rows);
            elements.iter().zip(made).for_each(|(x, made)| *made = *x);
        }
        Some(())
    }

    /// The same of codes of 4 bits, two to a byte, before and after, from an even row on.
    pub(super) fn turned_pairs(&self, turned: &mut [u8]) -> Option<()> {
        let Rows { bytes, stride, first, rows, .. } = *self;
        let within = || self.within.clone();
        // Of an odd number of rows every other column begins in the middle of a byte, which the
        // last code of the column before it begins.
        let (is_odd, middle) = (rows % 2 == 1, rows / 2);
        Level::best().run(
            #[inline(always)]
            || self.turn_columns((turned, rows, first / 2), low_pairs),
        )?;
        let rest = bytes.get(if is_odd { stride } else { 0 }..)?;
        let rest = Rows { bytes: rest, within: within(), ..*self };
        Level::best().run(
            #[inline(always)]
            || rest.turn_columns((turned, rows, middle + rows % 2 + first / 2), high_pairs),
        )?;
        let held = bytes.len() / stride.max(1);
        if is_odd && first == 0 {
            let middles = turned.get_mut(middle..)?.iter_mut().step_by(rows);
            let row = bytes.get(within())?.iter().zip(middles);
            row.for_each(|(code, made)| *made = code & 0xf0);
        }
        if is_odd && first + held == rows {
            let middles = turned.get_mut(middle..)?.iter_mut().step_by(rows);
            let row = bytes.get((held - 1) * stride..)?.get(within())?.iter().zip(middles);
            row.for_each(|(code, made)| *made = *made & 0xf0 | code & 15);
        }
        Some(())
    }

    /// Puts what becomes of each pair of rows into columns, those of as many squares at once: of
    /// the first byte of each row into the first column, which begins at a place, and the next ones
    /// so many bytes behind.
    #[inline(always)]
    fn turn_columns(
        &self,
        (turned, behind, first): (&mut [u8], usize, usize),
        pair: impl Fn(u64, u64) -> u64,
    ) -> Option<()> {
        let Rows { bytes, stride, within, .. } = self;
        let double = (2 * stride).max(1);
        // As many columns as are written at once are lines that the cache holds.
        for left in within.clone().step_by(SIDE * SIDE) {
            for (group, pairs) in bytes.chunks(SIDE * double).enumerate() {
                let count = pairs.len() / double;
                let mut squares = [[0; SIDE]; SIDE];
                for (paired, rows) in squares.iter_mut().zip(pairs.chunks_exact(double)) {
                    let (one, other) = rows.split_at_checked(*stride)?;
                    let [one, other] = [one, other].map(|row| row.get(left..within.end));
                    let (one, other) = (words(one?), words(other?));
                    for (place, (one, other)) in paired.iter_mut().zip(one.into_iter().zip(other)) {
                        *place = pair(one, other);
                    }
                }
                transpose(&mut squares);
                let at = (left - within.start) * behind + first + group * SIDE;
                let made = turned.get_mut(at..)?.chunks_mut(behind.max(1));
                let mut made = made.take(within.end - left);
                for at in 0..SIDE {
                    for (row, made) in squares.iter().zip(&mut made) {
                        let column = row[at].to_le_bytes();
                        match count {
                            SIDE => *made.first_chunk_mut()? = column,
                            _ => made.get_mut(..count)?.copy_from_slice(column.get(..count)?),
                        }
                    }
                }
            }
        }
        Some(())
    }
}
