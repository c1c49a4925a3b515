//! Products of rows with weights that are used many times: `out += rows · weightsᵀ`.
//!
//! The weights are laid out once, in panels of [`LANES`] of their rows, so that each element of a
//! row meets a whole panel's worth of neighbours.

use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_core::num_traits::Float;

use crate::cast::kernel::level::Level;

/// How many rows of the weights stand together in a panel.
const LANES: usize = 32;

/// FLOAT or DOUBLE.
pub(in crate::ops::fixes) trait Real:
    Datum + Float + Default + From<f32> + Into<f64>
{
    fn of_f64(number: f64) -> Self;
    /// x · y + z, rounded once where the CPU has an instruction for that.
    fn multiply_add<const FUSED: bool>(self, y: Self, z: Self) -> Self;
    /// e^x, in vectors where there is a way.
    fn power(self) -> Self;
    /// tanh x, in vectors where there is a way.
    fn tangent(self) -> Self;

    #[inline(always)]
    fn sigmoid(self) -> Self {
        Self::one() / (Self::one() + (-self).power())
    }

    /// log(1 + e^x).
    fn softplus(self) -> Self {
        let tail = (-self.abs()).exp().ln_1p();
        if self > Self::zero() { self + tail } else { tail }
    }
}

/// Rows of weights, in panels.
#[derive(Debug, Clone)]
pub(in crate::ops::fixes) struct PackedRows<T> {
    /// How many elements a row has.
    length: usize,
    /// How many rows there are.
    rows: usize,
    /// [panels][length] of [`LANES`] rows; rows that there are not are zeros.
    panels: Vec<[T; LANES]>,
}

impl<T: Real> PackedRows<T> {
    /// Lays out weights of `length` elements a row.
    pub(in crate::ops::fixes) fn new(weights: &[T], length: usize) -> PackedRows<T> {
        let rows = weights.len().checked_div(length).unwrap_or(0);
        let mut panels = vec![[T::default(); LANES]; rows.div_ceil(LANES) * length];
        for (panel, rows) in
            panels.chunks_mut(length.max(1)).zip(weights.chunks(length.max(1) * LANES))
        {
            for (lane, row) in rows.chunks(length.max(1)).enumerate() {
                for (place, weight) in panel.iter_mut().zip(row) {
                    if let Some(place) = place.get_mut(lane) {
                        *place = *weight;
                    }
                }
            }
        }
        PackedRows { length, rows, panels }
    }

    /// Lays out columns of weights instead, of which a row has `columns`.
    pub(in crate::ops::fixes) fn of_columns(weights: &[T], columns: usize) -> PackedRows<T> {
        let length = weights.len().checked_div(columns).unwrap_or(0);
        let mut panels = vec![[T::default(); LANES]; columns.div_ceil(LANES) * length];
        for (index, panel) in panels.chunks_mut(length.max(1)).enumerate() {
            for (place, row) in panel.iter_mut().zip(weights.chunks(columns.max(1))) {
                let row = row.iter().skip(index * LANES);
                place.iter_mut().zip(row).for_each(|(place, weight)| *place = *weight);
            }
        }
        PackedRows { length, rows: columns, panels }
    }

    /// Adds the products of all rows with the weights to the rows of `out`, which begin `stride`
    /// apart.
    pub(in crate::ops::fixes) fn add_products(
        &self,
        level: Level,
        rows: &[T],
        out: &mut [T],
        stride: usize,
    ) {
        if self.length == 0 || self.rows == 0 || stride == 0 {
            return;
        }
        let is_fused = level > Level::BASELINE || cfg!(target_arch = "aarch64");
        if is_fused {
            level.run(
                #[inline(always)]
                || self.add_all::<true>(rows, out, stride),
            );
        } else {
            level.run(
                #[inline(always)]
                || self.add_all::<false>(rows, out, stride),
            );
        }
    }

    #[inline(always)]
    fn add_all<const FUSED: bool>(&self, rows: &[T], out: &mut [T], stride: usize) {
        let blocks = rows.chunks_exact(4 * self.length);
        let (rest, done) = (blocks.remainder(), blocks.len() * 4);
        for (rows, out) in blocks.zip(out.chunks_mut(4 * stride)) {
            self.add_block::<FUSED>(rows, out, stride);
        }
        let out = out.chunks_mut(stride).skip(done);
        for (row, out) in rest.chunks_exact(self.length).zip(out) {
            self.add_row::<FUSED>(row, out);
        }
    }

    /// Four rows by half a panel: as many sums as there are registers for. Each row has sums of its
    /// own, which the compiler keeps in registers; of an array of them it does not.
    #[inline(always)]
    fn add_block<const FUSED: bool>(&self, rows: &[T], out: &mut [T], stride: usize) {
        const HALF: usize = LANES / 2;
        let (one, rest) = rows.split_at(self.length);
        let (two, rest) = rest.split_at(self.length);
        let (three, four) = rest.split_at(self.length);
        for (index, panel) in self.panels.chunks_exact(self.length).enumerate() {
            for half in 0..2 {
                let mut a = [T::default(); HALF];
                let (mut b, mut c, mut d) = (a, a, a);
                for ((((weights, w), x), y), z) in
                    panel.iter().zip(one).zip(two).zip(three).zip(four)
                {
                    let (halves, _) = weights.as_chunks::<HALF>();
                    let Some(weights) = halves.get(half) else { continue };
                    add_product::<T, FUSED, HALF>(&mut a, *w, weights);
                    add_product::<T, FUSED, HALF>(&mut b, *x, weights);
                    add_product::<T, FUSED, HALF>(&mut c, *y, weights);
                    add_product::<T, FUSED, HALF>(&mut d, *z, weights);
                }
                for (sums, out) in [a, b, c, d].iter().zip(out.chunks_mut(stride)) {
                    self.add_to(sums, index * LANES + half * HALF, out);
                }
            }
        }
    }

    /// One row by a panel: with two sums, since one would wait for itself.
    #[inline(always)]
    fn add_row<const FUSED: bool>(&self, row: &[T], out: &mut [T]) {
        for (index, panel) in self.panels.chunks_exact(self.length).enumerate() {
            let mut even = [T::default(); LANES];
            let mut odd = even;
            let (pairs, last) = panel.as_chunks::<2>();
            let (elements, last_element) = row.as_chunks::<2>();
            for ([a, b], [x, y]) in pairs.iter().zip(elements) {
                add_product::<T, FUSED, LANES>(&mut even, *x, a);
                add_product::<T, FUSED, LANES>(&mut odd, *y, b);
            }
            for (weights, x) in last.iter().zip(last_element) {
                add_product::<T, FUSED, LANES>(&mut even, *x, weights);
            }
            for sums in [even, odd] {
                self.add_to(&sums, index * LANES, out);
            }
        }
    }

    /// Adds sums to the columns from the first on that there are.
    #[inline(always)]
    fn add_to(&self, sums: &[T], first: usize, out: &mut [T]) {
        let end = self.rows.min(first + sums.len());
        let out = out.get_mut(first..end).unwrap_or_default();
        for (out, sum) in out.iter_mut().zip(sums) {
            *out = *out + *sum;
        }
    }
}

#[inline(always)]
fn add_product<T: Real, const FUSED: bool, const WIDTH: usize>(
    sums: &mut [T; WIDTH],
    x: T,
    weights: &[T; WIDTH],
) {
    for (sum, weight) in sums.iter_mut().zip(weights) {
        *sum = x.multiply_add::<FUSED>(*weight, *sum);
    }
}

impl Real for f64 {
    fn of_f64(number: f64) -> f64 {
        number
    }

    #[inline(always)]
    fn multiply_add<const FUSED: bool>(self, y: f64, z: f64) -> f64 {
        if FUSED { self.mul_add(y, z) } else { self * y + z }
    }

    fn power(self) -> f64 {
        self.exp()
    }

    fn tangent(self) -> f64 {
        self.tanh()
    }
}

impl Real for f32 {
    fn of_f64(number: f64) -> f32 {
        number as f32
    }

    #[inline(always)]
    fn multiply_add<const FUSED: bool>(self, y: f32, z: f32) -> f32 {
        if FUSED { self.mul_add(y, z) } else { self * y + z }
    }

    #[inline(always)]
    fn power(self) -> f32 {
        exp(self)
    }

    #[inline(always)]
    fn tangent(self) -> f32 {
        // Near 0 the quotient would lose what distinguishes it from 1: Cephes' polynomial there.
        let square = self * self;
        let near = [2.063_908_8e-2, -5.373_971_6e-2, 1.333_144_2e-1, -3.333_328e-1];
        let near = near.iter().fold(-5.704_988_7e-3, |sum, next| sum * square + next);
        let near = near * square * self + self;
        let magnitude = self.abs();
        let far = 1.0 - 2.0 / (exp(2.0 * magnitude) + 1.0);
        if magnitude < 0.625 { near } else { far.copysign(self) }
    }
}

/// e^x to two units in the last place, in instructions that every vector unit has; infinite above
/// 88.37, and 0 below −87.34, where it would be subnormal. NaN stays.
#[inline(always)]
fn exp(x: f32) -> f32 {
    const LEAST: f32 = -87.336_54;
    const GREATEST: f32 = 88.376_26;
    // Adding it rounds to an integer, which then stands in the lowest bits.
    const ROUNDER: f32 = 12_582_912.0;
    let within = if x < LEAST { LEAST } else { x };
    let shifted = within * std::f32::consts::LOG2_E + ROUNDER;
    let whole = shifted - ROUNDER;
    // The logarithm of 2 in two parts, the first of few bits, so that its product is exact.
    let rest = within - whole * 0.693_359_4 + whole * 2.121_944_4e-4;
    let polynomial = [1.398_2e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5];
    let polynomial = polynomial.iter().fold(1.987_569_1e-4, |sum, next| sum * rest + next);
    let part = polynomial * rest * rest + rest + 1.0;
    let power = f32::from_bits((shifted.to_bits() << 23).wrapping_add(127 << 23));
    let finite = if x < LEAST { 0.0 } else { part * power };
    if x > GREATEST { f32::INFINITY } else { finite }
}
