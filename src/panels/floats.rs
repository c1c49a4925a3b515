//! Panels of FLOAT that are written a part at a time, in the layout of tract's `PackedFormat`: of
//! each K the elements of as many rows as a panel has, K behind K.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context;
use tract_onnx::prelude::*;
use tract_onnx::tract_core::tract_linalg::pack::PackedFormat;

use crate::tensor::memory::Memory;

/// How many bytes an element has.
const WIDTH: usize = size_of::<f32>();

/// How many K of a panel are written at once: they stay in the nearest cache.
const AT_ONCE: usize = 64;

/// How many bytes are kept at most: those of a block of a large matrix, and of most others.
pub(super) const KEPT: usize = 40 << 20;

/// Memory of panels that nobody uses any more, for the next ones, which may be smaller.
#[derive(Clone, Default)]
pub(crate) struct PanelRoom {
    floats: Arc<Mutex<Option<Tensor>>>,
    codes: Arc<Mutex<Vec<u8>>>,
}

impl fmt::Debug for PanelRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PanelRoom")
    }
}

impl PanelRoom {
    /// Room for so many FLOATs or more. Fails when there is none.
    fn take(&self, elements: usize) -> TractResult<Tensor> {
        let kept = self.floats.lock().unwrap_or_else(PoisonError::into_inner).take();
        match kept.filter(|kept| kept.len() >= elements) {
            Some(kept) => Ok(kept),
            None => Memory::default().written(f32::datum_type(), &[elements]),
        }
    }

    /// Keeps what is larger than what is kept, if it is not too large to be held for nothing.
    fn keep(&self, held: Tensor) {
        if held.len() > KEPT / WIDTH {
            return;
        }
        let mut kept = self.floats.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.as_ref().is_none_or(|kept| kept.len() < held.len()) {
            *kept = Some(held);
        }
    }

    /// So many bytes of zeros, for codes.
    pub(super) fn zeros(&self, bytes: usize) -> Vec<u8> {
        let mut held =
            std::mem::take(&mut *self.codes.lock().unwrap_or_else(PoisonError::into_inner));
        held.clear();
        held.resize(bytes, 0);
        held
    }

    /// As `keep`, of codes.
    pub(super) fn keep_codes(&self, held: Vec<u8>) {
        let mut kept = self.codes.lock().unwrap_or_else(PoisonError::into_inner);
        if (kept.capacity() + 1..=KEPT).contains(&held.capacity()) {
            *kept = held;
        }
    }
}

/// The panels of an operand.
pub(crate) struct FloatPanels {
    room: PanelRoom,
    /// Holds the panels from `start` on, in bytes, where they are aligned.
    held: Tensor,
    start: usize,
    panel_bytes: usize,
    /// How many rows a panel has, and how many K and rows the operand.
    r: usize,
    k: usize,
    rows: usize,
}

impl FloatPanels {
    /// Room for the panels of so many K and rows, in memory that others had. Fails when there is no
    /// such room.
    pub(crate) fn new(
        format: &PackedFormat,
        [k, rows]: [usize; 2],
        room: &PanelRoom,
    ) -> TractResult<FloatPanels> {
        let panel = format.single_panel_len(k);
        let all = panel.checked_mul(rows.div_ceil(format.r)).context("panels without end")?;
        let held = room.take(all + format.alignment_bytes.div_ceil(WIDTH))?;
        let start = held.as_bytes().as_ptr().align_offset(format.alignment_bytes);
        let (room, panel_bytes) = (room.clone(), panel * WIDTH);
        Ok(FloatPanels { room, held, start, panel_bytes, r: format.r, k, rows })
    }

    /// K and the rows.
    pub(super) fn shape(&self) -> [usize; 2] {
        [self.k, self.rows]
    }

    /// The bytes of a panel.
    pub(super) fn panel(&self, place: usize) -> Option<&[u8]> {
        let start = self.start + place * self.panel_bytes;
        self.held.as_bytes().get(start..start + self.panel_bytes)
    }

    /// The panels from one on.
    fn panels_mut(&mut self, first: usize) -> impl Iterator<Item = &mut [u8]> {
        let start = self.start + first * self.panel_bytes;
        let held = self.held.as_bytes_mut().get_mut(start..).unwrap_or_default();
        let count = self.rows.div_ceil(self.r).saturating_sub(first);
        held.chunks_exact_mut(self.panel_bytes.max(1)).take(count)
    }

    /// Writes the elements of some K, from one on: of each those of all rows.
    pub(crate) fn write_by_k(&mut self, first: usize, elements: &[u8]) {
        // Copies of a known length take no call.
        match self.r * WIDTH {
            32 => self.spread(first, elements, 32),
            64 => self.spread(first, elements, 64),
            group => self.spread(first, elements, group),
        }
    }

    #[inline(always)]
    fn spread(&mut self, first: usize, elements: &[u8], group: usize) {
        let line = (self.rows * WIDTH).max(1);
        for (place, panel) in self.panels_mut(0).enumerate() {
            let start = place * group;
            let to = panel.get_mut(first * group..).unwrap_or_default();
            for (to, line) in to.chunks_exact_mut(group).zip(elements.chunks_exact(line)) {
                match line.get(start..start + group) {
                    Some(from) => to.copy_from_slice(from),
                    // The last panel may have fewer rows.
                    None => to.iter_mut().zip(&line[start..]).for_each(|(to, from)| *to = *from),
                }
            }
        }
    }

    /// Writes the elements of some rows, from one on that begins a panel: of each those of all K.
    pub(crate) fn write_by_rows(&mut self, first: usize, elements: &[u8]) {
        let (r, k) = (self.r, self.k.max(1));
        let rows = elements.as_chunks::<WIDTH>().0.chunks(r * k);
        for (panel, rows) in self.panels_mut(first / r).zip(rows) {
            let panel = panel.as_chunks_mut::<WIDTH>().0;
            for (place, panel) in panel.chunks_mut(AT_ONCE * r).enumerate() {
                for (row, elements) in rows.chunks_exact(k).enumerate() {
                    let elements = elements.get(place * AT_ONCE..).unwrap_or_default();
                    let places = panel.chunks_exact_mut(r).filter_map(|of_k| of_k.get_mut(row));
                    places.zip(elements).for_each(|(to, from)| *to = *from);
                }
            }
        }
    }
}

impl Drop for FloatPanels {
    fn drop(&mut self) {
        self.room.keep(std::mem::take(&mut self.held));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const K: usize = 2 * AT_ONCE + 5;

    #[test]
    fn panels_are_those_that_tract_packs() -> TractResult<()> {
        // Some begin in the memory of larger ones.
        let room = PanelRoom::default();
        for (r, rows) in [(8, 8), (8, 21), (16, 48), (16, 3), (12, 25)] {
            let format = PackedFormat::new(f32::datum_type(), r, 64);
            for is_by_k in [true, false] {
                let shape = if is_by_k { [K, rows] } else { [rows, K] };
                let values: Vec<f32> = (0..K * rows).map(|x| x as f32).collect();
                let matrix = Tensor::from_shape(&shape, &values)?;
                let mut wanted = format.new_packed_buffer(K, rows)?;
                let [k_axis, rows_axis] = if is_by_k { [0, 1] } else { [1, 0] };
                format.repack_tensor_view(&mut wanted, &matrix.view(), k_axis, rows_axis)?;
                let mut panels = FloatPanels::new(&format, [K, rows], &room)?;
                // A part of the lines and what is left of them.
                let (lines, part) = (shape[0], if is_by_k { 7 } else { r });
                for first in (0..lines).step_by(part) {
                    let last = lines.min(first + part);
                    let bytes = matrix.as_bytes();
                    let bytes = &bytes[first * shape[1] * WIDTH..last * shape[1] * WIDTH];
                    if is_by_k {
                        panels.write_by_k(first, bytes);
                    } else {
                        panels.write_by_rows(first, bytes);
                    }
                }
                for place in 0..rows.div_ceil(r) {
                    let own = panels.panel(place).context("a panel")?;
                    let start = place * wanted.panel_bytes;
                    assert_eq!(own.as_ptr().align_offset(format.alignment_bytes), 0);
                    let wanted = &wanted.packed.as_bytes()[start..];
                    // What tract never stores may be anything.
                    let held = (rows - place * r).min(r) * WIDTH;
                    for (own, wanted) in own.chunks(r * WIDTH).zip(wanted.chunks(r * WIDTH)).take(K)
                    {
                        assert!(own[..held] == wanted[..held], "{r}, {rows}, {is_by_k}: {place}");
                    }
                }
            }
        }
        Ok(())
    }

    #[test]
    fn the_largest_room_is_kept() -> TractResult<()> {
        let (room, format) = (PanelRoom::default(), PackedFormat::new(f32::datum_type(), 8, 64));
        let kept = || {
            let kept = room.floats.lock().unwrap_or_else(PoisonError::into_inner);
            kept.as_ref().map(|kept| kept.as_bytes().as_ptr())
        };
        let panels = |rows: usize| FloatPanels::new(&format, [K, rows], &room);
        let (large, small) = (panels(80)?, panels(8)?);
        let address = large.held.as_bytes().as_ptr();
        drop(large);
        drop(small);
        assert_eq!(kept(), Some(address));
        let again = panels(24)?;
        assert_eq!((again.held.as_bytes().as_ptr(), kept()), (address, None));
        let larger = panels(800)?;
        drop((larger, again));
        assert_ne!(kept(), Some(address));
        Ok(())
    }

    #[test]
    fn no_more_than_40_mib_are_kept() -> TractResult<()> {
        const MOST: usize = 40 << 20;
        let (room, memory) = (PanelRoom::default(), Memory::default());
        for (bytes, expected) in [(MOST + WIDTH, None), (MOST, Some(MOST))] {
            room.keep(memory.written(f32::datum_type(), &[bytes / WIDTH])?);
            let kept = room.floats.lock().unwrap_or_else(PoisonError::into_inner);
            assert_eq!(kept.as_ref().map(|kept| kept.as_bytes().len()), expected, "{bytes} bytes");
        }
        Ok(())
    }
}
