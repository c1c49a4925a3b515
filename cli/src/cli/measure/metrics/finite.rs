//! Finite elements of floating-point types, many at once. [`Metrics::element`] is what each of them
//! comes to; the same is found here, to the bit, by loops that compilers turn into vector
//! instructions. Sums are taken in the order of the elements.

use tract_onnx_cast::audit::{FloatReach, Number, Reach};
use tract_onnx_cast::kernel::Level;

use super::{Metrics, POWERS, decade, smallest_rtol};
use crate::cli::measure::lanes::{Room, greatest};
use crate::cli::measure::tolerance::Tolerance;

/// How far elements are off, and the magnitudes of the reference's.
struct Errors<'a> {
    sizes: &'a mut [f64],
    absolute: &'a mut [f64],
    relative: &'a mut [f64],
    ulps: &'a mut [f64],
}

/// What is counted of many elements.
#[derive(Default)]
struct Counts {
    differing: u64,
    other_signs: u64,
    mismatches: u64,
}

impl Metrics {
    /// Compares elements, no more than are looked at at once. Does nothing and answers no if one is
    /// not finite, or beyond the target, or is the first that is not within the tolerance.
    pub(super) fn finite(&mut self, x: Option<&[f64]>, y: Option<&[f64]>) -> bool {
        let (Some(x), Some(y)) = (x, y) else { return false };
        let (Some(target @ Reach::Float(float)), Some(Reach::Float(unit))) =
            (self.target, self.unit)
        else {
            return false;
        };
        let mut room = Room::<4>::new();
        let [sizes, absolute, relative, ulps] = room.of(x.len());
        let mut errors = Errors { sizes, absolute, relative, ulps };
        Level::best().run(
            #[inline(always)]
            || {
                let Some(largest) = errors.of_finite(x, y) else { return false };
                if float.is_scale || target.is_beyond(Number::Real(largest.0)) {
                    return false;
                }
                errors.divide(&unit);
                let counts = errors.counts((x, y), &self.tensor.tolerance);
                if counts.mismatches > 0 && self.tensor.first_mismatch.is_none() {
                    return false;
                }
                self.tensor.differing += counts.differing;
                self.tensor.mismatches += counts.mismatches;
                self.signs += counts.other_signs;
                self.angle.add_many(x, y, largest);
                self.include(x, &errors);
                true
            },
        )
    }

    /// Adds up how far elements are off.
    #[inline(always)]
    fn include(&mut self, x: &[f64], errors: &Errors) {
        let Errors { sizes, absolute, relative, ulps } = errors;
        self.noise.add_many(x, absolute);
        self.ulp_sum = ulps.iter().fold(self.ulp_sum, |sum, ulp| sum + ulp);
        self.ulp_count += x.len() as u64;
        let tensor = &mut self.tensor;
        let largest = greatest(absolute);
        tensor.max_abs.0 = tensor.max_abs.0.max(largest);
        tensor.max_ulp.0 = tensor.max_ulp.0.max(greatest(ulps));
        let finite = |relative: &f64| if relative.is_finite() { *relative } else { 0.0 };
        tensor.max_rel.0 = relative.iter().map(finite).fold(tensor.max_rel.0, f64::max);
        if let Some((most, rel)) = &mut self.passing {
            *most = most.max(largest);
            let grows = |(error, size): (&f64, &f64)| error > &(*rel * size);
            if absolute.iter().zip(&**sizes).fold(false, |any, pair| any | grows(pair)) {
                for (error, size) in absolute.iter().zip(&**sizes) {
                    if *error > *rel * size {
                        *rel = smallest_rtol(*error, *size);
                    }
                }
            }
        }
        let powers = POWERS.as_slice();
        for (relative, _) in relative.iter().zip(&**absolute).filter(|(_, error)| **error > 0.0) {
            if let Some(count) = self.errors.get_mut(decade(powers, *relative)) {
                *count += 1;
            }
        }
    }
}

impl Errors<'_> {
    /// Takes the differences and the magnitudes; the largest magnitude of either side. `None` if
    /// an element is not finite.
    #[inline(always)]
    fn of_finite(&mut self, x: &[f64], y: &[f64]) -> Option<(f64, f64)> {
        let mut is_finite = true;
        let places = self.sizes.iter_mut().zip(self.absolute.iter_mut());
        // The room of the relative errors has the other side's magnitudes until there are any.
        let places = places.zip(self.relative.iter_mut());
        for (((size, error), other), (x, y)) in places.zip(x.iter().zip(y)) {
            (*size, *other) = (x.abs(), y.abs());
            *error = (x - y).abs();
            is_finite &= (*size < f64::INFINITY) & (*other < f64::INFINITY);
        }
        is_finite.then(|| (greatest(self.sizes), greatest(self.relative)))
    }

    /// Takes the errors as shares of the magnitudes and in units in the last place of a type.
    #[inline(always)]
    fn divide(&mut self, unit: &FloatReach) {
        let FloatReach { min_normal, max, mantissa_bits, .. } = *unit;
        let last_place = 0.5f64.powi(mantissa_bits as i32);
        let from = self.sizes.iter().zip(self.absolute.iter());
        let to = self.relative.iter_mut().zip(self.ulps.iter_mut());
        for ((size, error), (relative, ulp)) in from.zip(to) {
            *relative = if *error == 0.0 { 0.0 } else { error / size };
            // Below the normal values, and beyond the last binade, it is that of the nearest one.
            let binade = size.clamp(min_normal, max).to_bits() & f64::INFINITY.to_bits();
            *ulp = error / (f64::from_bits(binade) * last_place);
        }
    }

    /// Counts what differs, and what is not within a tolerance.
    #[inline(always)]
    fn counts(&self, (x, y): (&[f64], &[f64]), tolerance: &Tolerance) -> Counts {
        let mut counts = Counts::default();
        let judges = tolerance.judges_elements();
        let errors = self.absolute.iter().zip(self.ulps.iter());
        for ((x, y), (error, ulp)) in x.iter().zip(y).zip(errors) {
            let is_same = x == y;
            let is_zero = is_same & (*x == 0.0);
            let is_other_zero = is_zero & (x.is_sign_negative() != y.is_sign_negative());
            let is_near = tolerance.allows(*error, *x) | tolerance.allows_ulp(*ulp);
            counts.differing += u64::from(!is_same);
            counts.other_signs += u64::from(is_other_zero);
            counts.mismatches += u64::from(!(is_same | is_near) & judges);
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use tract_onnx_cast::ElementType::{self, BFloat16, Double, Float, Float8E4M3FN, Float16};

    use super::*;
    use crate::cli::measure::exact::ExactValues;
    use crate::cli::measure::metrics::PART;
    use crate::cli::tensor::{NamedTensor, of_numbers};

    /// Numbers of all magnitudes of a type, zeros of both signs among them, the same for a seed.
    fn drawn(seed: u64, count: usize, reach: i32) -> Vec<f64> {
        let mut state = seed;
        let mut word = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            state >> 33
        };
        let mut number = || match word() % 16 {
            0 => 0.0,
            1 => -0.0,
            _ => {
                (word() as f64 / 1e9 - 1.0)
                    * 2f64.powi((word() % (2 * reach as u64)) as i32 - reach)
            }
        };
        (0..count).map(|_| number()).collect()
    }

    fn named(ty: ElementType, numbers: &[f64]) -> NamedTensor {
        let tensor = of_numbers(ty, &[numbers.len()], numbers).expect("a tensor");
        NamedTensor { name: "y".into(), ty, tensor }
    }

    /// What all elements come to one after the other, and many at once; and whether all were looked
    /// at so.
    fn both(x: &NamedTensor, y: &NamedTensor, tolerance: Tolerance) -> (String, String, bool) {
        let exact = |side: &NamedTensor| {
            ExactValues::of(side.ty, &side.tensor, 0..side.tensor.len()).expect("numbers")
        };
        let (a, b) = (exact(x), exact(y));
        let [mut single, mut many, mut alone] =
            [(); 3].map(|()| Metrics::of_inner(x, y, tolerance));
        let length = x.tensor.len();
        let mut is_fast = true;
        for start in (0..length).step_by(500) {
            let places = start..length.min(start + 500);
            is_fast &= alone.finite(a.reals(places.clone()), b.reals(places.clone()));
            single.each(places, (&a, &b), (x, y)).expect("carriers");
        }
        many.add(x, y).expect("carriers");
        (single.tensor.elements, single.range) = (many.tensor.elements, many.range.clone());
        let report = |metrics: Metrics| {
            let signs = metrics.signs;
            let found = metrics.finish();
            // What is written of a number may not tell it from its neighbour.
            let exact = [found.mean_ulp, found.max_rel, found.max_abs, found.max_ulp];
            let exact = exact.map(|number| number.0.to_bits());
            format!("{signs} {exact:?} {}", serde_json::to_string(&found).expect("a report"))
        };
        (report(single), report(many), is_fast)
    }

    #[test]
    fn many_elements_come_to_what_each_comes_to() {
        let tolerances = [
            Tolerance::default(),
            Tolerance { rtol: Some(1e-2), atol: Some(1e-3), ..Tolerance::default() },
            Tolerance { ulp: Some(2.0), ..Tolerance::default() },
            Tolerance { sqnr: Some(20.0), ..Tolerance::default() },
        ];
        let pairs = [
            (Float, Float16, 12),
            (Float, Float, 140),
            (Double, Double, 1000),
            (Float, BFloat16, 120),
            (Float16, Float, 12),
            (Float, Float8E4M3FN, 6),
        ];
        let mut fast = 0;
        for (seed, (from, to, reach)) in pairs.into_iter().enumerate() {
            for count in [1, 511, 512, 1900, 2 * PART + 77] {
                let x = drawn(seed as u64 + 1, count, reach);
                let noise = drawn(seed as u64 + 7, count, 3);
                // Some zeros have the other sign.
                let off = |(x, n): (&f64, &f64)| if *x == 0.0 { n * 0.0 } else { x + x * n * 1e-3 };
                let y: Vec<f64> = x.iter().zip(&noise).map(off).collect();
                for tolerance in tolerances {
                    let (x, y) = (named(from, &x), named(to, &y));
                    let (single, many, is_fast) = both(&x, &y, tolerance);
                    assert_eq!(single, many, "{count} of {from} in {to}, {tolerance:?}");
                    fast += usize::from(is_fast);
                }
            }
        }
        assert!(fast >= 24, "{fast} of 120 were looked at many at once");
    }

    #[test]
    fn what_one_element_tells_alone_is_not_looked_at_with_others() {
        let ordinary = drawn(3, 512, 4);
        for odd in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e6] {
            let mut x = ordinary.clone();
            x[300] = odd;
            let sides = (named(Float, &x), named(Float16, &ordinary));
            for (x, y) in [(&sides.0, &sides.1), (&named(Float, &ordinary), &named(Float16, &x))] {
                let (single, many, is_fast) = both(x, y, Tolerance::default());
                assert_eq!((single, is_fast), (many, false), "{odd}");
            }
        }
    }
}
