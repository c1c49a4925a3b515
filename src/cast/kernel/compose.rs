//! Two kernels in a row, a tile at a time: through a type that holds every value of the source well
//! enough.

#![expect(unsafe_code, reason = "the promise of a kernel")]

use std::mem::MaybeUninit;
use std::sync::Arc;

use super::level::Level;
use super::loops::Kernel;

/// Elements of a tile, which stays in the first-level cache.
const TILE: usize = 512;

/// Their number where there are no more: a single element should not pay for clearing many.
const SMALL_TILE: usize = 16;

/// `first` into FLOATs, `second` out of them.
pub(super) struct ViaFloat {
    first: Arc<dyn Kernel>,
    /// Binary logarithm of the bytes of an element that `first` reads: for a single element, a
    /// division is long.
    source_log2: u32,
    second: Arc<dyn Kernel>,
}

impl ViaFloat {
    /// `source_bytes` is how wide the elements are that `first` reads.
    pub(super) fn new(
        first: Arc<dyn Kernel>,
        source_bytes: usize,
        second: Arc<dyn Kernel>,
    ) -> ViaFloat {
        ViaFloat { first, source_log2: source_bytes.ilog2(), second }
    }
}

// SAFETY: the second kernel writes every tile of the target, and the tiles are all of it.
unsafe impl Kernel for ViaFloat {
    fn run(&self, level: Level, src: &[u8], dst: &mut [MaybeUninit<u8>]) {
        if src.len() >> self.source_log2 <= SMALL_TILE {
            self.run_tile(level, src, dst, &mut [0f32; SMALL_TILE]);
        } else {
            self.run_tiles(level, src, dst);
        }
    }
}

impl ViaFloat {
    #[inline(always)]
    fn run_tile(&self, level: Level, src: &[u8], dst: &mut [MaybeUninit<u8>], tile: &mut [f32]) {
        let floats = bytemuck::cast_slice_mut(&mut tile[..src.len() >> self.source_log2]);
        self.first.overwrite(level, src, floats);
        self.second.run(level, floats, dst);
    }

    /// Apart from its caller, so that few elements do not pay for the tile.
    #[inline(never)]
    fn run_tiles(&self, level: Level, src: &[u8], dst: &mut [MaybeUninit<u8>]) {
        let target_bytes = dst.len() / (src.len() >> self.source_log2);
        let tiles = src.chunks(TILE << self.source_log2);
        let mut tile = [0f32; TILE];
        for (src, dst) in tiles.zip(dst.chunks_mut(TILE * target_bytes)) {
            self.run_tile(level, src, dst, &mut tile);
        }
    }
}
