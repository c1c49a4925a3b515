//! Two kernels in a row, a tile at a time: through a type that holds every value of the source well enough.

use std::sync::Arc;

use super::{Kernel, Level};

/// Elements of a tile. They stay in the first-level cache, and are few enough that a single element does not pay for
/// clearing many.
const TILE: usize = 512;

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
        let elements = src.len() / self.source_bytes;
        if elements == 0 {
            return;
        }
        let target_bytes = dst.len() / elements;
        let mut tile = [0f32; TILE];
        let tiles = src.chunks(TILE * self.source_bytes);
        for (src, dst) in tiles.zip(dst.chunks_mut(TILE * target_bytes)) {
            let floats = bytemuck::cast_slice_mut(&mut tile[..src.len() / self.source_bytes]);
            self.first.run(level, src, floats);
            self.second.run(level, floats, dst);
        }
    }
}
