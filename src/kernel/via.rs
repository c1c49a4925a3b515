//! Two kernels in a row, a tile at a time: through a type that holds every value of the source well enough.

use std::sync::Arc;

use super::{Kernel, Level};

/// Elements of a tile, which stays in the first-level cache.
const TILE: usize = 512;

/// Their number where there are no more: a single element should not pay for clearing many.
const SMALL_TILE: usize = 16;

/// `first` into FLOATs, `second` out of them.
pub(super) struct ViaFloat {
    first: Arc<dyn Kernel>,
    source_bytes: usize,
    second: Arc<dyn Kernel>,
}

impl ViaFloat {
    /// `source_bytes` is how wide the elements are that `first` reads.
    pub(super) fn new(
        first: Arc<dyn Kernel>,
        source_bytes: usize,
        second: Arc<dyn Kernel>,
    ) -> ViaFloat {
        ViaFloat { first, source_bytes, second }
    }
}

impl Kernel for ViaFloat {
    fn run(&self, level: Level, src: &[u8], dst: &mut [u8]) {
        match src.len() / self.source_bytes {
            0 => (),
            elements @ 1..=SMALL_TILE => {
                self.run_tiles(level, src, dst, elements, &mut [0f32; SMALL_TILE])
            }
            elements => self.run_tiles(level, src, dst, elements, &mut [0f32; TILE]),
        }
    }
}

impl ViaFloat {
    fn run_tiles(
        &self,
        level: Level,
        src: &[u8],
        dst: &mut [u8],
        elements: usize,
        tile: &mut [f32],
    ) {
        let target_bytes = dst.len() / elements;
        let tiles = src.chunks(tile.len() * self.source_bytes);
        for (src, dst) in tiles.zip(dst.chunks_mut(tile.len() * target_bytes)) {
            let floats = bytemuck::cast_slice_mut(&mut tile[..src.len() / self.source_bytes]);
            self.first.run(level, src, floats);
            self.second.run(level, floats, dst);
        }
    }
}
