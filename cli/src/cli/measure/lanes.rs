//! What many numbers come to: several side by side, none of which waits for another.

use std::iter::zip;
use std::ops::{Add, Mul, Sub};

/// So many elements are looked at together: what is known of them stays in the nearest cache.
pub(crate) const AT_ONCE: usize = 512;

/// Room for what is known of so many elements, which is not made anew for each time.
pub(crate) struct Room<const SIDES: usize>([[f64; AT_ONCE]; SIDES]);

impl<const SIDES: usize> Room<SIDES> {
    #[inline(always)]
    pub(crate) fn new() -> Room<SIDES> {
        Room([[0.0; AT_ONCE]; SIDES])
    }

    /// The room for so many elements of each side, in which something is written.
    #[inline(always)]
    pub(crate) fn of(&mut self, elements: usize) -> [&mut [f64]; SIDES] {
        self.0.each_mut().map(|side| side.get_mut(..elements).unwrap_or_default())
    }
}

/// How many sums there are side by side.
pub(crate) const SIDE_BY_SIDE: usize = 8;

/// Numbers of a type that are compared as they are, not as reals.
pub(crate) trait Lane:
    Copy
    + Default
    + PartialOrd
    + Into<f64>
    + From<f32>
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
{
    /// The distance of numbers as a share of them: what is computed is rounded by half of it.
    const ROUNDED: f64;
    const LARGEST: Self;
    /// The least number that is not subnormal.
    const LEAST_NORMAL: Self;

    fn size(self) -> Self;

    /// The nearest number to a real one.
    fn of(x: f64) -> Self;
}

macro_rules! lanes {
    ($($lane:ident)*) => {$(
        impl Lane for $lane {
            const ROUNDED: f64 = $lane::EPSILON as f64;
            const LARGEST: $lane = $lane::MAX;
            const LEAST_NORMAL: $lane = $lane::MIN_POSITIVE;

            #[inline(always)]
            fn size(self) -> $lane {
                self.abs()
            }

            #[inline(always)]
            fn of(x: f64) -> $lane {
                x as $lane
            }
        }
    )*};
}

lanes!(f32 f64);

/// What becomes of values by which several of them go on side by side, and none waits for another.
#[inline(always)]
fn folded<T: Lane>(values: &[T], fold: impl Fn(T, T) -> T) -> [T; SIDE_BY_SIDE] {
    let (chunks, rest) = values.as_chunks::<SIDE_BY_SIDE>();
    let mut sums = [T::default(); SIDE_BY_SIDE];
    for chunk in chunks {
        for (sum, x) in sums.iter_mut().zip(chunk) {
            *sum = fold(*sum, *x);
        }
    }
    for (sum, x) in sums.iter_mut().zip(rest) {
        *sum = fold(*sum, *x);
    }
    sums
}

/// The sum of squares.
#[inline(always)]
pub(crate) fn power(values: &[f64]) -> f64 {
    summed(&folded(values, |sum: f64, x| sum + x * x))
}

/// What sums side by side come to, in the order in which [`power`] takes them.
#[inline(always)]
pub(crate) fn summed(sums: &[f64; SIDE_BY_SIDE]) -> f64 {
    sums.iter().sum()
}

/// The largest finite magnitude.
#[inline(always)]
pub(crate) fn finite_peak<T: Lane>(values: &[T]) -> f64 {
    let larger = |most: T, x: T| {
        let size = x.size();
        if (size > most) & (size <= T::LARGEST) { size } else { most }
    };
    folded(values, larger).into_iter().map(Into::into).fold(0.0, f64::max)
}

/// The greatest of values that are not negative.
#[inline(always)]
pub(crate) fn greatest<T: Lane>(values: &[T]) -> T {
    let greater = |most: T, x: T| if x > most { x } else { most };
    folded(values, greater).into_iter().fold(T::default(), greater)
}

/// By how much the farthest of some values is off, given that as their type rounds it: as reals
/// have it where it may be larger than the largest one so far.
#[inline(always)]
pub(crate) fn as_real<T: Lane>(farthest: T, (want, got): (&[T], &[T]), largest: f64) -> f64 {
    let farthest = farthest.into();
    let is_real = T::ROUNDED == f64::EPSILON;
    if is_real || farthest * (1.0 + 2.0 * T::ROUNDED) < largest {
        return farthest;
    }
    let errors = zip(want, got).map(|(want, got)| (*got).into() - (*want).into());
    errors.map(f64::abs).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_take_each_element_once() {
        let values: Vec<f64> = (0..2 * SIDE_BY_SIDE + 3).map(|place| place as f64).collect();
        for count in 0..values.len() {
            let squares = values[..count].iter().map(|x| x * x);
            assert_eq!(power(&values[..count]), squares.sum::<f64>());
        }
    }

    #[test]
    fn no_infinity_and_no_nan_is_a_peak() {
        let odd = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
        for count in 0..2 * SIDE_BY_SIDE {
            let numbers = (0..count).map(|place| -(place as f64));
            let values: Vec<f64> = numbers.flat_map(|x| [x, odd[count % 3]]).collect();
            assert_eq!(finite_peak(&values), count.saturating_sub(1) as f64);
        }
    }
}
