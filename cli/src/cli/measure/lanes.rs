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

    /// The bits of a number that is not negative. They order as such numbers do, and those of a NaN
    /// come behind all others.
    type Bits: Copy + Default + Ord;

    fn size(self) -> Self;

    /// The bits of its size.
    fn size_bits(self) -> Self::Bits;

    /// The number of such bits.
    fn of_bits(bits: Self::Bits) -> Self;

    /// The nearest number to a real one.
    fn of(x: f64) -> Self;
}

macro_rules! lanes {
    ($($lane:ident $bits:ident)*) => {$(
        impl Lane for $lane {
            type Bits = $bits;

            const ROUNDED: f64 = $lane::EPSILON as f64;
            const LARGEST: $lane = $lane::MAX;
            const LEAST_NORMAL: $lane = $lane::MIN_POSITIVE;

            #[inline(always)]
            fn size(self) -> $lane {
                self.abs()
            }

            #[inline(always)]
            fn size_bits(self) -> $bits {
                self.abs().to_bits()
            }

            #[inline(always)]
            fn of_bits(bits: $bits) -> $lane {
                $lane::from_bits(bits)
            }

            #[inline(always)]
            fn of(x: f64) -> $lane {
                x as $lane
            }
        }
    )*};
}

lanes!(f32 u32 f64 u64);

/// What numbers come to that stand in the place of others.
pub(crate) struct Replaced<T> {
    /// How many are the same as before, and how many are 0 and were not.
    pub(crate) exact: u64,
    pub(crate) flushed: u64,
    /// The largest difference, as the type rounds it, and the largest magnitude before; NaN where
    /// one of them is.
    pub(crate) farthest: T,
    pub(crate) largest: T,
}

impl<T: Lane> Replaced<T> {
    /// Of fewer than 2³² numbers.
    #[inline(always)]
    pub(crate) fn of((before, after): (&[T], &[T])) -> Replaced<T> {
        let (mut exact, mut flushed) = (0u32, 0u32);
        let [mut farthest, mut largest] = [T::Bits::default(); 2];
        for (x, y) in zip(before, after) {
            exact += u32::from(x == y);
            flushed += u32::from((*y == T::default()) & (x != y));
            farthest = farthest.max((*x - *y).size_bits());
            largest = largest.max(x.size_bits());
        }
        let [exact, flushed] = [exact, flushed].map(u64::from);
        let [farthest, largest] = [farthest, largest].map(T::of_bits);
        Replaced { exact, flushed, farthest, largest }
    }
}

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

    /// Of every count, with a NaN, an infinity or a zero of either sign at each place.
    #[test]
    fn numbers_in_the_place_of_others_are_counted() {
        let odds = [0.0, -0.0, 2.0, f32::NAN, f32::INFINITY];
        for count in 1..3 * SIDE_BY_SIDE + 3 {
            let before: Vec<f32> = (0..count).map(|at| at as f32 - 5.0).collect();
            for (place, odd) in (0..count).flat_map(|at| odds.map(|odd| (at, odd))) {
                let mut after = before.clone();
                after[place] = odd;
                replaced(&before, &after);
                replaced(&after, &before);
                replaced(&after, &after);
                let [before, after] = [&before, &after]
                    .map(|all| all.iter().map(|x| f64::from(*x)).collect::<Vec<f64>>());
                replaced(&before, &after);
            }
        }
    }

    fn replaced<T: Lane>(before: &[T], after: &[T]) {
        let Replaced { exact, flushed, farthest, largest } = Replaced::of((before, after));
        let pairs: Vec<(f64, f64)> =
            zip(before, after).map(|(x, y)| ((*x).into(), (*y).into())).collect();
        assert_eq!(exact, pairs.iter().filter(|(x, y)| x == y).count() as u64);
        let is_flushed = |(x, y): &&(f64, f64)| *y == 0.0 && *x != 0.0;
        assert_eq!(flushed, pairs.iter().filter(is_flushed).count() as u64);
        let most = |all: &mut dyn Iterator<Item = f64>| {
            all.fold(0.0, |most: f64, x| if x.is_nan() || x > most { x } else { most })
        };
        let is = |found: T, wanted: f64| {
            let found: f64 = found.into();
            found == wanted || found.is_nan() && wanted.is_nan()
        };
        assert!(is(farthest, most(&mut pairs.iter().map(|(x, y)| (x - y).abs()))), "{pairs:?}");
        assert!(is(largest, most(&mut pairs.iter().map(|(x, _)| x.abs()))), "{pairs:?}");
    }
}
