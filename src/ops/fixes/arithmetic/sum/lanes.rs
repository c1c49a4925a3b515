//! Sums of rows and of columns in DOUBLE, by vector instructions.

use crate::cast::kernel::level::Level;

/// The sums along the second of three axes.
pub(super) fn sum_of_axis<T: Copy>(
    terms: &[T],
    sizes: [usize; 3],
    wide: impl Fn(T) -> f64,
) -> Vec<f64> {
    Level::best().run(
        #[inline(always)]
        || sum_in_lanes(terms, sizes, wide),
    )
}

#[inline(always)]
fn sum_in_lanes<T: Copy>(
    terms: &[T],
    [outer, count, inner]: [usize; 3],
    wide: impl Fn(T) -> f64,
) -> Vec<f64> {
    if inner == 1 {
        return terms.chunks_exact(count).map(|row| sum_of_terms(row, &wide)).collect();
    }
    let mut sums = vec![0.0; outer * inner];
    for (terms, sums) in terms.chunks_exact(count * inner).zip(sums.chunks_exact_mut(inner)) {
        sum_columns(terms, sums, &wide);
    }
    sums
}

/// Writes the sums of as many columns as there are places for.
#[inline(always)]
pub(super) fn sum_columns<T: Copy>(terms: &[T], sums: &mut [f64], wide: impl Fn(T) -> f64) {
    sums.fill(0.0);
    for row in terms.chunks_exact(sums.len().max(1)) {
        for (sum, term) in sums.iter_mut().zip(row) {
            *sum += wide(*term);
        }
    }
}

/// The sum of a row by as many lanes as suit its length.
#[inline(always)]
pub(super) fn sum_of_terms<T: Copy>(row: &[T], wide: &impl Fn(T) -> f64) -> f64 {
    /// Of fewer terms, more lanes take longer to add up than they save.
    const LONG: usize = 128;
    if row.len() < LONG { sum_of_row::<T, 8>(row, wide) } else { sum_of_row::<T, 32>(row, wide) }
}

/// As many sums as make full use of vector instructions, and theirs.
#[inline(always)]
pub(crate) fn sum_of_row<T: Copy, const LANES: usize>(
    terms: &[T],
    wide: &impl Fn(T) -> f64,
) -> f64 {
    let mut lanes = [0.0; LANES];
    let (parts, rest) = terms.as_chunks::<LANES>();
    for part in parts {
        lanes.iter_mut().zip(part).for_each(|(lane, term)| *lane += wide(*term));
    }
    let rest: f64 = rest.iter().map(|term| wide(*term)).sum();
    lanes.iter().sum::<f64>() + rest
}
