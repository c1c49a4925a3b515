//! Panels of integers of few bits.

#![forbid(unsafe_code)]

use std::mem::MaybeUninit;
use std::sync::Arc;

use tract_onnx::prelude::{Tensor, TractResult};

use crate::cast::kernel::level::Level;
use crate::cast::kernel::places::places;
use crate::panels::floats::PanelRoom;
use crate::panels::rows::{QuantizedRows, RowSizes};

/// Panels of `r` rows each. Rows that the last one has too many are zeros.
pub(super) struct PanelCodes {
    room: PanelRoom,
    r: usize,
    sizes: RowSizes,
    /// Of each panel, as [`QuantizedRows::pack`] puts them.
    codes: Vec<u8>,
    /// Of each panel and block, `r`.
    scales: Vec<f32>,
    /// Likewise.
    zeros: Vec<u8>,
}

impl PanelCodes {
    pub(super) fn new(rows: &QuantizedRows, r: usize, room: &PanelRoom) -> PanelCodes {
        let (sizes, panels) = (rows.sizes, rows.sizes.n.div_ceil(r));
        let length = sizes.k * sizes.width(r);
        let mut codes = room.zeros(panels * length);
        let (mut scales, mut zeros) = (vec![], vec![]);
        for (panel, to) in codes.chunks_exact_mut(length.max(1)).enumerate() {
            rows.pack(panel, r, to);
            let (of_scales, of_zeros) = rows.parameters(panel, r);
            scales.extend(of_scales);
            zeros.extend(of_zeros);
        }
        PanelCodes { room: room.clone(), r, sizes, codes, scales, zeros }
    }

    /// Writes the FLOAT elements of a panel, of each of K `r`.
    pub(super) fn write(&self, panel: usize, level: Level, to: &mut [MaybeUninit<u8>]) {
        let PanelCodes { r, sizes, .. } = self;
        let (codes, blocks) = (sizes.k * sizes.width(*r), sizes.blocks() * r);
        let codes = &self.codes[panel * codes..(panel + 1) * codes];
        let of_blocks = panel * blocks..(panel + 1) * blocks;
        let parameters = (&self.scales[of_blocks.clone()], &self.zeros[of_blocks]);
        write(sizes, *r, (codes, parameters), level, to);
    }
}

impl Drop for PanelCodes {
    fn drop(&mut self) {
        self.room.keep_codes(std::mem::take(&mut self.codes));
    }
}

/// Codes as they are stored, of which panels are made when they are asked for, each time anew.
pub(super) struct RowCodes {
    r: usize,
    sizes: RowSizes,
    /// What [`RowSizes::read`] reads.
    tensors: [Arc<Tensor>; 3],
}

impl RowCodes {
    /// Fails where [`RowSizes::read`] does.
    pub(super) fn new(
        sizes: RowSizes,
        tensors: [Arc<Tensor>; 3],
        r: usize,
    ) -> TractResult<RowCodes> {
        let held = RowCodes { r, sizes, tensors };
        held.read(|_| Ok(()))?;
        Ok(held)
    }

    fn read<T>(&self, read: impl FnOnce(&QuantizedRows) -> TractResult<T>) -> TractResult<T> {
        let [codes, scales, zeros] = &self.tensors;
        self.sizes.read([codes, scales, zeros], read)
    }

    /// As [`PanelCodes::write`].
    pub(super) fn write(
        &self,
        panel: usize,
        level: Level,
        to: &mut [MaybeUninit<u8>],
    ) -> TractResult<()> {
        self.read(|rows| {
            let mut codes = vec![0; self.sizes.k * self.sizes.width(self.r)];
            rows.pack(panel, self.r, &mut codes);
            let (scales, zeros) = rows.parameters(panel, self.r);
            write(&self.sizes, self.r, (&codes, (&scales, &zeros)), level, to);
            Ok(())
        })
    }
}

/// Writes the FLOAT elements of a panel's codes, of each of K `r`.
fn write(
    sizes: &RowSizes,
    r: usize,
    (codes, (scales, zeros)): (&[u8], (&[f32], &[u8])),
    level: Level,
    to: &mut [MaybeUninit<u8>],
) {
    let by_block = places::<f32>(to).chunks_mut(sizes.block * r);
    let of_block = codes.chunks(sizes.block * sizes.width(r));
    let of_block = of_block.zip(scales.chunks(r).zip(zeros.chunks(r)));
    for (to, (codes, (scales, zeros))) in by_block.zip(of_block) {
        level.run_on(
            codes,
            to,
            #[inline(always)]
            |codes, to| {
                if sizes.is_paired() {
                    halves(codes, scales, zeros, to);
                } else {
                    bytes(codes, scales, zeros, to);
                }
            },
        );
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
    use anyhow::Context;
    use tract_onnx::prelude::*;
    use tract_onnx::tract_core::tract_linalg::pack::PackedFormat;

    use super::*;
    use crate::panels::{PanelElements, PanelOperand, Panels};

    /// The FLOAT elements of panels of `r` rows, written at a level, each panel behind the other.
    fn written(
        kept: PanelElements,
        r: usize,
        size: [usize; 2],
        level: Level,
    ) -> TractResult<Vec<f32>> {
        let format = PackedFormat::new(f32::datum_type(), r, 64);
        let Panels(operand) = Panels::new(format, size, kept);
        let operand = Arc::into_inner(operand).context("it is held once")?;
        let made = Panels(Arc::new(PanelOperand { level, ..operand })).widened()?;
        let elements = size[0] * r * size_of::<f32>();
        let panels = made.packed.as_bytes().chunks_exact(made.panel_bytes);
        let bytes = panels.flat_map(|panel| &panel[..elements]).copied().collect::<Vec<u8>>();
        Ok(bytes.as_chunks().0.iter().map(|x| f32::from_ne_bytes(*x)).collect())
    }

    #[test]
    fn panels_hold_the_elements_of_their_rows() -> TractResult<()> {
        // Some are packed into the memory of others.
        let room = PanelRoom::default();
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
            let sizes = RowSizes { n, k, block, bits };
            let tensors = [tensor1(&codes), tensor1(&scales), tensor1(&zeros)].map(Arc::new);
            let inputs = tensors.each_ref().map(|tensor| &**tensor);
            let floats = sizes.read(inputs, |rows| Ok(rows.floats()))?;
            for r in [2, 8, 12, 16, 24] {
                let element = |row: usize, column: usize| {
                    if row < n { floats[row * k + column] } else { 0.0 }
                };
                let firsts = (0..n).step_by(r);
                let places = firsts.flat_map(|first| {
                    (0..k).flat_map(move |column| (first..first + r).map(move |row| (row, column)))
                });
                let wanted: Vec<f32> = places.map(|(row, column)| element(row, column)).collect();
                for level in Level::available() {
                    let pack = |rows: &QuantizedRows| Ok(PanelCodes::new(rows, r, &room));
                    let packed = sizes.read(inputs, pack)?;
                    let as_stored = RowCodes::new(sizes, tensors.clone(), r)?;
                    for kept in [PanelElements::Codes(packed), PanelElements::Rows(as_stored)] {
                        let made = written(kept, r, [k, n], level)?;
                        assert_eq!(made, wanted, "{bits} bits by {r} at {level:?}");
                    }
                }
            }
        }
        Ok(())
    }

    #[test]
    fn codes_that_are_too_few_are_no_panels() {
        let sizes = RowSizes { n: 2, k: 32, block: 32, bits: 4 };
        for (codes, scales, zeros) in [(31, 2, 2), (32, 1, 2), (32, 2, 3)] {
            let (codes, zeros) = (tensor1(&vec![0u8; codes]), tensor1(&vec![0u8; zeros]));
            let tensors = [codes, tensor1(&vec![0f32; scales]), zeros].map(Arc::new);
            assert!(RowCodes::new(sizes, tensors, 8).is_err());
        }
    }
}
