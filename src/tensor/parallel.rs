//! Large casts on several threads: those of the executor that the program gave tract, and none otherwise.

#![forbid(unsafe_code)]

use std::ops::Range;

use tract_onnx::tract_core::internal::multithread::par_chunks_mut;

/// Elements from which a conversion is worth dividing: fewer are converted before other threads have woken up.
const DIVIDED_FROM: usize = 128 << 10;

/// Parts begin at multiples of so many elements: at a cache line, and at a tile.
const GRAIN: usize = 128;

/// Has `convert` write all of `places`, which has `width` places for each of its `elements`; possibly in parts, on
/// several threads. `convert` learns which elements a part is for.
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
mod tests {
    use std::thread::current;

    use tract_linalg::multithread::{Executor, multithread_tract_scope};

    use super::*;

    #[test]
    fn the_executor_does_the_work_each_part_once() {
        let elements = DIVIDED_FROM + GRAIN + 3;
        let mut places = vec![0u32; 2 * elements];
        let executor = Executor::multithread_with_name(2, "of the executor");
        multithread_tract_scope(executor, || {
            in_parts(&mut places, 2, elements, |range, part| {
                assert_eq!(part.len(), 2 * range.len());
                let is_rest = range.start == elements / GRAIN * GRAIN;
                let name = current().name().unwrap_or_default().to_string();
                assert!(is_rest || name.starts_with("of the executor"), "{name}");
                for (place, number) in part.iter_mut().zip(2 * range.start as u32..) {
                    *place += number;
                }
            });
        });
        assert!(places.into_iter().eq(0..2 * elements as u32));
    }
}
