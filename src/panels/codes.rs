//! Rows of integers of few bits, and the panels of them.

#![forbid(unsafe_code)]

use std::mem::MaybeUninit;

use crate::cast::kernel::level::Level;
use crate::cast::kernel::places::places;
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

    /// The bytes of a block.
    fn bytes_of(&self, place: usize) -> &[u8] {
        let bytes = self.block * self.bits / 8;
        &self.codes[place * bytes..(place + 1) * bytes]
    }

    /// Hands the first codes of a block to as many places.
    fn spread<T>(&self, place: usize, to: impl Iterator<Item = T>, put: impl Fn(T, u8)) {
        let bytes = self.bytes_of(place);
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
        for (place, block) in blocks.enumerate() {
            let (zero, scale) = (f32::from(self.zeros[place]), self.scales[place]);
            self.spread(place, block.iter_mut(), |to: &mut f32, code| {
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

/// How many rows most kernels have of a panel.
const ROWS: usize = 16;

/// As [`pairs`], of all rows of a panel of [`ROWS`], eight bytes of each at once; how many bytes of
/// each are in their places then.
#[inline(always)]
fn squares(rows: &[&[u8]; ROWS], to: &mut [u8]) -> usize {
    const SIDE: usize = ROWS / 2;
    let mut done = 0;
    for to in to.as_chunks_mut::<{ SIDE * ROWS }>().0 {
        let mut square = [[0; SIDE]; ROWS];
        for (held, row) in square.iter_mut().zip(rows) {
            let Some(bytes) = row[done..].first_chunk() else { return done };
            *held = *bytes;
        }
        let mut paired = [[0; SIDE]; ROWS];
        for column in 0..SIDE {
            for at in 0..SIDE {
                let (low, high) = (square[column][at], square[SIDE + column][at]);
                paired[column][at] = low & 15 | high << 4;
                paired[SIDE + column][at] = low >> 4 | high & 0xf0;
            }
        }
        for at in 0..SIDE {
            for column in 0..ROWS {
                to[at * ROWS + column] = paired[column][at];
            }
        }
        done += SIDE;
    }
    done
}

/// Puts the codes of 4 bits of two rows together, those of the first in the low bits, into a column
/// of rows of so many bytes, as far as there is room.
fn pairs((low, high): (&[u8], &[u8]), to: &mut [u8], (column, width): (usize, usize)) {
    let mut twice = to.chunks_exact_mut(2 * width);
    let mut both = low.iter().zip(high);
    for (to, (low, high)) in twice.by_ref().zip(&mut both) {
        let (first, second) = to.split_at_mut(width);
        (first[column], second[column]) = (low & 15 | high << 4, low >> 4 | high & 0xf0);
    }
    if let (Some(to), Some((low, high))) = (twice.into_remainder().get_mut(column), both.next()) {
        *to = low & 15 | high << 4;
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
        for panel in 0..panels {
            let to = &mut codes[panel * rows.k * width..(panel + 1) * rows.k * width];
            for (block, to) in to.chunks_mut((rows.block * width).max(1)).enumerate() {
                let place = |row| (row < rows.n).then_some(row * blocks + block);
                let bytes = |row| place(panel * r + row).map(|place| rows.bytes_of(place));
                let is_square = rows.bits == 4 && r == ROWS && (panel + 1) * r <= rows.n;
                let square = if is_square {
                    let all = std::array::from_fn(|row| bytes(row).unwrap_or_default());
                    Level::best().run(
                        #[inline(always)]
                        || squares(&all, to),
                    )
                } else {
                    0
                };
                let to = &mut to[2 * square * width..];
                for column in 0..width {
                    let high = column + width;
                    match (bytes(column), bytes(high)) {
                        (Some(low), Some(high)) if rows.bits == 4 => {
                            pairs((&low[square..], &high[square..]), to, (column, width));
                        }
                        _ => {
                            let low = place(panel * r + column);
                            let high = place(panel * r + high).filter(|_| !is_byte);
                            for (place, shift) in low.into_iter().zip([0]).chain(high.zip(Some(4)))
                            {
                                let to = to[column..].iter_mut().step_by(width);
                                rows.spread(place, to, |to, code| *to |= code << shift);
                            }
                        }
                    }
                }
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
                        halves_of_bytes(codes, scales, zeros, to);
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

#[inline(always)]
fn bytes(codes: &[u8], scales: &[f32], zeros: &[u8], to: &mut [MaybeUninit<f32>]) {
    let r = scales.len();
    for (codes, to) in codes.chunks_exact(r).zip(to.chunks_exact_mut(r)) {
        for (((code, scale), zero), to) in codes.iter().zip(scales).zip(zeros).zip(to) {
            to.write((f32::from(*code) - f32::from(*zero)) * scale);
        }
    }
}

#[inline(always)]
fn halves_of_bytes(codes: &[u8], scales: &[f32], zeros: &[u8], to: &mut [MaybeUninit<f32>]) {
    let (r, half) = (scales.len(), scales.len() / 2);
    let ((low_scales, high_scales), (low_zeros, high_zeros)) =
        (scales.split_at(half), zeros.split_at(half));
    for (codes, to) in codes.chunks_exact(half).zip(to.chunks_exact_mut(r)) {
        let (low, high) = to.split_at_mut(half);
        for (((byte, scale), zero), to) in codes.iter().zip(low_scales).zip(low_zeros).zip(low) {
            to.write((f32::from(byte & 15) - f32::from(*zero)) * scale);
        }
        for (((byte, scale), zero), to) in codes.iter().zip(high_scales).zip(high_zeros).zip(high) {
            to.write((f32::from(byte >> 4) - f32::from(*zero)) * scale);
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
            for r in [2, 8, 16] {
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
