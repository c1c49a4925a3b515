//! Memory for elements on their way to or from strings.

/// Elements that are widened at a time.
const TILE: usize = 128;

/// Their number where there are no more.
const SMALL_TILE: usize = 8;

/// A tile of words on the way of so many elements.
#[inline(always)]
pub(super) fn with_scratch<R>(elements: usize, act: impl FnOnce(&mut [u64]) -> R) -> R {
    // Clearing a whole tile takes longer than converting a few elements.
    if elements <= SMALL_TILE { act(&mut [0; SMALL_TILE]) } else { act(&mut [0; TILE]) }
}
