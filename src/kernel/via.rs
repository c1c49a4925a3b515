//! Two kernels in a row, a tile at a time: through a type that holds every value of the source well enough.

use std::sync::Arc;

use super::{Kernel, Level};

/// Elements of a tile. They stay in the first-level cache, and are few enough that a single element does not pay for
/// clearing many.
const TILE: usize = 512;

/// `first` into FLOATs, `second` out of them.
pub(super) struct ViaFloat {
    first: Arc<dyn Kernel>,
    second: Arc<dyn Kernel>,
    source_bytes: usize,
    target_bytes: usize,
}

impl ViaFloat {
    pub(super) fn new(
        (first, source_bytes): (Arc<dyn Kernel>, usize),
        (second, target_bytes): (Arc<dyn Kernel>, usize),
    ) -> ViaFloat {
        ViaFloat { first, second, source_bytes, target_bytes }
    }
}

impl Kernel for ViaFloat {
    fn run(&self, level: Level, src: &[u8], dst: &mut [u8]) {
        let mut tile = [0f32; TILE];
        let tiles = src.chunks(TILE * self.source_bytes);
        for (src, dst) in tiles.zip(dst.chunks_mut(TILE * self.target_bytes)) {
            let floats = bytemuck::cast_slice_mut(&mut tile[..src.len() / self.source_bytes]);
            self.first.run(level, src, floats);
            self.second.run(level, floats, dst);
        }
    }
}
