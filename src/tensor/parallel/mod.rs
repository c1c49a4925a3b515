//! Large casts on several threads: those of the executor that the program gave tract, and none
//! otherwise.

#![forbid(unsafe_code)]

use std::ops::Range;

use tract_onnx::tract_core::internal::multithread::par_chunks_mut;

/// Elements from which a conversion is worth dividing: fewer are converted before other threads
/// have woken up.
const DIVIDED_FROM: usize = 128 << 10;

/// Parts begin at multiples of so many elements: at a cache line, and at a tile.
const GRAIN: usize = 128;

/// Has `convert` write all of `places`, which has `width` places for each of its `elements`;
/// possibly in parts, on several threads. `convert` learns which elements a part is for.
#[inline]
pub(crate) fn in_parts<T: Send>(
    places: &mut [T],
    width: usize,
    elements: usize,
    convert: impl Fn(Range<usize>, &mut [T]) + Send + Sync,
) {
    if elements < DIVIDED_FROM {
        return convert(0..elements, places);
    }
    let whole_grains = elements / GRAIN * GRAIN;
    let (grains, rest) = places.split_at_mut(whole_grains * width);
    let divided = par_chunks_mut(grains, GRAIN * width, elements, |grain, part| {
        let first = grain * GRAIN;
        convert(first..first + part.len() / width, part);
        Ok(())
    });
    debug_assert!(divided.is_ok(), "no part fails");
    convert(whole_grains..elements, rest);
}

#[cfg(all(test, feature = "multithread"))]
mod tests;
