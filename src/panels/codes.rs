//! Rows of integers of few bits, and the panels of them.

#![forbid(unsafe_code)]

use std::mem::MaybeUninit;

use crate::cast::kernel::level::Level;
use crate::cast::kernel::places::places;
use crate::cast::squares::{SIDE, high_pairs, low_pairs, transpose, words};
use crate::panels::floats::PanelRoom;

/// N rows of K codes of so many bits, 2, 4 or 8, the first in the low bits of its byte; each block
/// of a row begins a byte, and has a scale and a zero point: an element is (code − zero point) ·
/// scale in FLOAT.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QuantizedRows<'a> {
    pub(crate) n: usize,
    pub(crate) k: usize,
    pub(crate) block: usize,
    pub(crate) bits: usize,
    /// N × blocks × bytes of a block.
    pub(crate) codes: &'a [u8],
    /// N × blocks.
    pub(crate) scales: &'a [f32],
    /// N × blocks.
    pub(crate) zeros: &'a [u8],
}

impl QuantizedRows<'_> {
    /// The blocks of a row.
    pub(crate) fn blocks(&self) -> usize {
        self.k.div_ceil(self.block)
    }

    /// The bytes of a row, which are none where there is none.
    fn row(&self, place: usize) -> &[u8] {
        let bytes = self.blocks() * self.block * self.bits / 8;
        self.codes.get(place * bytes..(place + 1) * bytes).unwrap_or_default()
    }

    /// Hands the first codes of some bytes to as many places.
    fn spread<T>(&self, bytes: &[u8], to: impl Iterator<Item = T>, put: impl Fn(T, u8)) {
        match self.bits {
            2 => spread::<4, T>(bytes, to, put),
            4 => spread::<2, T>(bytes, to, put),
            _ => spread::<1, T>(bytes, to, put),
        }
    }

    /// The elements in FLOAT, row by row.
    pub(crate) fn floats(&self) -> Vec<f32> {
        let mut elements = vec![0.0; self.n * self.k];
        let blocks = elements.chunks_mut(self.k.max(1)).flat_map(|row| row.chunks_mut(self.block));
        let bytes = self.codes.chunks_exact(self.block * self.bits / 8);
        for (place, (block, bytes)) in blocks.zip(bytes).enumerate() {
            let (zero, scale) = (f32::from(self.zeros[place]), self.scales[place]);
            self.spread(bytes, block.iter_mut(), |to: &mut f32, code| {
                *to = (f32::from(code) - zero) * scale;
            });
        }
        elements
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

/// Rows of a number for each block, in panels of `r` rows: of each block those of all rows of the
/// panel.
fn in_panels<T: Copy + Default>(rows: &[T], blocks: usize, (panels, r): (usize, usize)) -> Vec<T> {
    let mut made = vec![T::default(); panels * blocks * r];
    let by_panel = rows.chunks((r * blocks).max(1)).zip(made.chunks_mut((r * blocks).max(1)));
    for (rows, made) in by_panel {
        for (place, row) in rows.chunks_exact(blocks).enumerate() {
            let places = made.iter_mut().skip(place).step_by(r);
            places.zip(row).for_each(|(made, x)| *made = *x);
        }
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

/// Panels of `r` rows each. Rows that the last one has too many are zeros.
pub(super) struct PanelCodes {
    room: PanelRoom,
    r: usize,
    k: usize,
    block: usize,
    /// Of each panel and each of K, `r` codes: a byte each if they have more than four bits; else
    /// two a byte, those of the first half of the rows in the low bits.
    codes: Vec<u8>,
    is_byte: bool,
    /// Of each panel and block, `r`.
    scales: Vec<f32>,
    /// Likewise.
    zeros: Vec<u8>,
}

impl PanelCodes {
    pub(super) fn new(rows: &QuantizedRows, r: usize, room: &PanelRoom) -> PanelCodes {
        let (panels, blocks) = (rows.n.div_ceil(r), rows.blocks());
        let is_byte = rows.bits > 4;
        let width = if is_byte { r } else { r / 2 };
        let mut codes = room.zeros(panels * rows.k * width);
        let scales = in_panels(rows.scales, blocks, (panels, r));
        let zeros = in_panels(rows.zeros, blocks, (panels, r));
        let of_panels = codes.chunks_exact_mut((rows.k * width).max(1));
        for (panel, to) in of_panels.enumerate() {
            let of_panel = (panel * r..(panel + 1) * r).map(|place| rows.row(place));
            if rows.bits == 4 && r.is_multiple_of(SIDE) {
                let of_panel: Vec<&[u8]> = of_panel.collect();
                Level::best().run(
                    #[inline(always)]
                    || squares(&of_panel, to),
                );
                continue;
            }
            for (place, row) in of_panel.enumerate() {
                let (column, shift) = (place % width, place / width * 4);
                let to = to[column..].iter_mut().step_by(width);
                rows.spread(row, to, |to, code| *to |= code << shift);
            }
        }
        let (room, k, block) = (room.clone(), rows.k, rows.block);
        PanelCodes { room, r, k, block, codes, is_byte, scales, zeros }
    }

    /// Writes the FLOAT elements of a panel, of each of K `r`.
    pub(super) fn write(&self, panel: usize, level: Level, to: &mut [MaybeUninit<u8>]) {
        let r = self.r;
        let each = if self.is_byte { r } else { r / 2 };
        let blocks = self.k.div_ceil(self.block);
        let codes = &self.codes[panel * self.k * each..(panel + 1) * self.k * each];
        let parameters = panel * blocks * r..(panel + 1) * blocks * r;
        let (scales, zeros) = (&self.scales[parameters.clone()], &self.zeros[parameters]);
        let by_block = places::<f32>(to).chunks_mut(self.block * r);
        let of_block = codes.chunks(self.block * each).zip(scales.chunks(r).zip(zeros.chunks(r)));
        for (to, (codes, (scales, zeros))) in by_block.zip(of_block) {
            level.run_on(
                codes,
                to,
                #[inline(always)]
                |codes, to| {
                    if self.is_byte {
                        bytes(codes, scales, zeros, to);
                    } else {
                        halves(codes, scales, zeros, to);
                    }
                },
            );
        }
    }
}

impl Drop for PanelCodes {
    fn drop(&mut self) {
        self.room.keep_codes(std::mem::take(&mut self.codes));
    }
}

/// As `bytes`, of so many rows.
#[inline(always)]
fn bytes_of<const R: usize>(
    codes: &[u8],
    scales: &[f32],
    zeros: &[u8],
    to: &mut [MaybeUninit<f32>],
) {
    let (Some(scales), Some(zeros)) = (scales.first_chunk::<R>(), zeros.first_chunk::<R>()) else {
        return;
    };
    let (scales, zeros) = (*scales, zeros.map(f32::from));
    for (codes, to) in codes.as_chunks::<R>().0.iter().zip(to.as_chunks_mut::<R>().0) {
        for at in 0..R {
            to[at].write((f32::from(codes[at]) - zeros[at]) * scales[at]);
        }
    }
}

#[inline(always)]
fn bytes(codes: &[u8], scales: &[f32], zeros: &[u8], to: &mut [MaybeUninit<f32>]) {
    let r = scales.len();
    match r {
        8 => return bytes_of::<8>(codes, scales, zeros, to),
        16 => return bytes_of::<16>(codes, scales, zeros, to),
        _ => (),
    }
    for (codes, to) in codes.chunks_exact(r).zip(to.chunks_exact_mut(r)) {
        for (((code, scale), zero), to) in codes.iter().zip(scales).zip(zeros).zip(to) {
            to.write((f32::from(*code) - f32::from(*zero)) * scale);
        }
    }
}

/// As `halves`, of so many rows in each half.
#[inline(always)]
fn halves_of<const HALF: usize>(
    codes: &[u8],
    scales: &[f32],
    zeros: &[u8],
    to: &mut [MaybeUninit<f32>],
) {
    let (scales, zeros) = (scales.as_chunks::<HALF>().0, zeros.as_chunks::<HALF>().0);
    let (&[low_scales, high_scales], [low_zeros, high_zeros]) = (scales, zeros) else { return };
    let (low_zeros, high_zeros) = (low_zeros.map(f32::from), high_zeros.map(f32::from));
    for (codes, to) in codes.as_chunks::<HALF>().0.iter().zip(to.chunks_exact_mut(2 * HALF)) {
        let (low, high) = to.split_at_mut(HALF);
        for at in 0..HALF {
            low[at].write((f32::from(codes[at] & 15) - low_zeros[at]) * low_scales[at]);
        }
        for at in 0..HALF {
            high[at].write((f32::from(codes[at] >> 4) - high_zeros[at]) * high_scales[at]);
        }
    }
}

#[inline(always)]
fn halves(codes: &[u8], scales: &[f32], zeros: &[u8], to: &mut [MaybeUninit<f32>]) {
    let (r, half) = (scales.len(), scales.len() / 2);
    match half {
        4 => return halves_of::<4>(codes, scales, zeros, to),
        8 => return halves_of::<8>(codes, scales, zeros, to),
        _ => (),
    }
    for (codes, to) in codes.chunks_exact(half).zip(to.chunks_exact_mut(r)) {
        for (row, to) in to.iter_mut().enumerate() {
            let code = codes[row % half] >> (row / half * 4) & 15;
            to.write((f32::from(code) - f32::from(zeros[row])) * scales[row]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panels_hold_the_codes_of_their_rows() {
        for (bits, n, k, block) in [
            (4, 5, 40, 16),
            (4, 32, 64, 32),
            (4, 16, 43, 16),
            (4, 33, 75, 32),
            (4, 16, 9, 4),
            (2, 17, 20, 16),
            (8, 3, 9, 4),
        ] {
            let count = n * usize::div_ceil(k, block);
            let codes: Vec<u8> = (0..count * block * bits / 8).map(|at| (at * 37) as u8).collect();
            let scales: Vec<f32> = (0..count).map(|at| at as f32 + 1.0).collect();
            let zeros: Vec<u8> = (0..count).map(|at| (at % 4) as u8).collect();
            let (codes, scales, zeros) = (&*codes, &*scales, &*zeros);
            let rows = QuantizedRows { n, k, block, bits, codes, scales, zeros };
            let wanted = rows.floats();
            for r in [2, 8, 12, 16, 24] {
                let panels = PanelCodes::new(&rows, r, &PanelRoom::default());
                for panel in 0..n.div_ceil(r) {
                    let placed = |row: usize, column: usize| {
                        let each = if panels.is_byte { r } else { r / 2 };
                        let byte = panels.codes[(panel * k + column) * each + row % each];
                        let code =
                            if panels.is_byte { byte } else { byte >> (row / each * 4) & 15 };
                        let at = (panel * k.div_ceil(block) + column / block) * r + row;
                        (f32::from(code) - f32::from(panels.zeros[at])) * panels.scales[at]
                    };
                    for row in (0..r).filter(|row| panel * r + row < n) {
                        let of_row = (0..k).map(|column| placed(row, column));
                        let wanted = &wanted[(panel * r + row) * k..][..k];
                        assert_eq!(of_row.collect::<Vec<f32>>(), wanted, "{bits} bits by {r}");
                    }
                }
            }
        }
    }
}
