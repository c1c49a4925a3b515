//! Rows of integers of few bits.

#![forbid(unsafe_code)]

use std::ops::Range;

use anyhow::ensure;
use tract_onnx::prelude::{Tensor, TractResult};

use crate::cast::kernel::level::Level;
use crate::cast::squares::{SIDE, high_pairs, low_pairs, transpose, words};

/// N rows of K codes of so many bits, 2, 4 or 8, the first in the low bits of its byte; each block
/// of a row begins a byte, and has a scale and a zero point: an element is (code − zero point) ·
/// scale in FLOAT.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RowSizes {
    pub(crate) n: usize,
    pub(crate) k: usize,
    pub(crate) block: usize,
    pub(crate) bits: usize,
}

/// Rows of such codes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QuantizedRows<'a> {
    pub(super) sizes: RowSizes,
    /// N × blocks × bytes of a block.
    codes: &'a [u8],
    /// N × blocks.
    scales: &'a [f32],
    /// N × blocks.
    zeros: &'a [u8],
}

impl RowSizes {
    /// The blocks of a row.
    pub(super) fn blocks(&self) -> usize {
        self.k.div_ceil(self.block)
    }

    /// The bytes of a row.
    fn row_bytes(&self) -> usize {
        self.blocks() * self.block * self.bits / 8
    }

    /// Whether two codes of a panel have one byte.
    pub(super) fn is_paired(&self) -> bool {
        self.bits <= 4
    }

    /// How many bytes the codes of a panel of `r` rows have of each K.
    pub(super) fn width(&self, r: usize) -> usize {
        if self.is_paired() { r / 2 } else { r }
    }

    /// Has the codes, scales and zero points of some tensors read, the first and the last UINT8 and
    /// the second FLOAT. Fails where they are not as many as there are to be.
    pub(crate) fn read<T>(
        &self,
        [codes, scales, zeros]: [&Tensor; 3],
        read: impl FnOnce(&QuantizedRows) -> TractResult<T>,
    ) -> TractResult<T> {
        let [codes, zeros] = [codes, zeros].map(Tensor::try_as_plain_ram);
        let (codes, zeros, scales) = (codes?, zeros?, scales.try_as_plain_ram()?);
        let (codes, zeros) = (codes.as_slice::<u8>()?, zeros.as_slice::<u8>()?);
        let rows = QuantizedRows { sizes: *self, codes, scales: scales.as_slice::<f32>()?, zeros };
        let blocks = self.n.checked_mul(self.blocks());
        let bytes = blocks.and_then(|blocks| blocks.checked_mul(self.block / (8 / self.bits)));
        let is_sound = bytes == Some(codes.len())
            && blocks == Some(rows.scales.len())
            && blocks == Some(zeros.len());
        ensure!(is_sound, "{self:?} has other codes, scales or zero points");
        read(&rows)
    }
}

impl<'a> QuantizedRows<'a> {
    /// The bytes of a row, which are none where there is none.
    fn row(&self, place: usize) -> &'a [u8] {
        let bytes = self.sizes.row_bytes();
        self.codes.get(place * bytes..(place + 1) * bytes).unwrap_or_default()
    }

    /// Hands the first codes of some bytes to as many places.
    fn spread<T>(&self, bytes: &[u8], to: impl Iterator<Item = T>, put: impl Fn(T, u8)) {
        match self.sizes.bits {
            2 => spread::<4, T>(bytes, to, put),
            4 => spread::<2, T>(bytes, to, put),
            _ => spread::<1, T>(bytes, to, put),
        }
    }

    /// K and the rows.
    pub(super) fn shape(&self) -> [usize; 2] {
        [self.sizes.k, self.sizes.n]
    }

    /// The elements in FLOAT, row by row.
    pub(crate) fn floats(&self) -> Vec<f32> {
        let RowSizes { n, k, block, bits } = self.sizes;
        let mut elements = vec![0.0; n * k];
        let blocks = elements.chunks_mut(k.max(1)).flat_map(|row| row.chunks_mut(block));
        let bytes = self.codes.chunks_exact(block * bits / 8);
        for (place, (block, bytes)) in blocks.zip(bytes).enumerate() {
            let (zero, scale) = (f32::from(self.zeros[place]), self.scales[place]);
            self.spread(bytes, block.iter_mut(), |to: &mut f32, code| {
                *to = (f32::from(code) - zero) * scale;
            });
        }
        elements
    }

    /// Puts the codes of a panel of `r` rows into places that hold zeros: of each K `r` bytes if
    /// they have more than four bits; else two a byte, those of the first half of the rows in the
    /// low bits.
    pub(super) fn pack(&self, panel: usize, r: usize, to: &mut [u8]) {
        let of_panel = (panel * r..(panel + 1) * r).map(|place| self.row(place));
        if self.sizes.bits == 4 && r.is_multiple_of(SIDE) {
            let of_panel: Vec<&[u8]> = of_panel.collect();
            Level::best().run(
                #[inline(always)]
                || squares(&of_panel, to),
            );
            return;
        }
        let width = self.sizes.width(r);
        for (place, row) in of_panel.enumerate() {
            let (column, shift) = (place % width, place / width * 4);
            let to = to.get_mut(column..).unwrap_or_default().iter_mut().step_by(width);
            self.spread(row, to, |to, code| *to |= code << shift);
        }
    }

    /// The scales and the zero points of a panel of `r` rows: of each block `r`, zeros of rows that
    /// there are not.
    pub(super) fn parameters(&self, panel: usize, r: usize) -> (Vec<f32>, Vec<u8>) {
        let rows = panel * r..((panel + 1) * r).min(self.sizes.n);
        let blocks = self.sizes.blocks();
        (by_block(self.scales, rows.clone(), blocks, r), by_block(self.zeros, rows, blocks, r))
    }
}

/// Hands codes, so many a byte, to as many places.
fn spread<const EACH: usize, T>(
    bytes: &[u8],
    mut to: impl Iterator<Item = T>,
    put: impl Fn(T, u8),
) {
    let bits = 8 / EACH;
    for byte in bytes {
        for index in 0..EACH {
            let Some(to) = to.next() else { return };
            put(to, byte >> (index * bits) & (u8::MAX >> (8 - bits)));
        }
    }
}

/// What some rows have for each block, of each block that of `r` rows.
fn by_block<T: Copy + Default>(all: &[T], rows: Range<usize>, blocks: usize, r: usize) -> Vec<T> {
    let mut made = vec![T::default(); blocks * r];
    let of_rows = all.get(rows.start * blocks..rows.end * blocks).unwrap_or_default();
    for (place, row) in of_rows.chunks_exact(blocks.max(1)).enumerate() {
        let places = made.iter_mut().skip(place).step_by(r);
        places.zip(row).for_each(|(made, x)| *made = *x);
    }
    made
}

/// Puts codes of 4 bits of the rows of a panel, of which there are a multiple of [`SIDE`], into
/// pairs: of each K those of the first half of the rows in the low bits. Zeros stand for what rows
/// do not have.
#[inline(always)]
fn squares(rows: &[&[u8]], to: &mut [u8]) {
    let (r, half) = (rows.len(), rows.len() / 2);
    // A byte of each row makes as many bytes as there are rows.
    for (part, to) in to.chunks_mut(SIDE * SIDE * r).enumerate() {
        for first in (0..r).step_by(SIDE) {
            let mut squares = [[0; SIDE]; SIDE];
            for (column, square) in (first..).zip(&mut squares) {
                let row = |place: usize| rows[place].get(part * SIDE * SIDE..).unwrap_or_default();
                let [low, high] = [column % half, half + column % half].map(|at| words(row(at)));
                let pair = if column < half { low_pairs } else { high_pairs };
                for (word, (low, high)) in square.iter_mut().zip(low.into_iter().zip(high)) {
                    *word = pair(low, high);
                }
            }
            transpose(&mut squares);
            for (place, to) in to.chunks_mut(r).enumerate() {
                let bytes = squares[place % SIDE][place / SIDE].to_le_bytes();
                let to = to.get_mut(first..).unwrap_or_default();
                match to.first_chunk_mut() {
                    Some(to) => *to = bytes,
                    None => to.iter_mut().zip(bytes).for_each(|(to, byte)| *to = byte),
                }
            }
        }
    }
}
