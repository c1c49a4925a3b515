//! Random values for inputs that are not given.

use anyhow::{Context, ensure};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tract_onnx::prelude::*;
use tract_onnx_cast::audit::Reach;
use tract_onnx_cast::{ElementType, Family};

use super::roles::Role;
use super::values::{self, Setting, normal};
use crate::cli::tensor::of_numbers;

/// The most that is made up for all inputs together.
const MAX_BYTES: usize = 1 << 30;

/// Makes tensors, the same ones for the same seed.
pub(crate) struct Generator {
    seed: u64,
    bytes: usize,
}

/// The smallest and the largest value that somebody wants.
pub(crate) type Ends = (f64, f64);

impl Generator {
    pub(crate) fn new(seed: u64) -> Generator {
        Generator { seed, bytes: 0 }
    }

    /// A tensor for the input at this position: of what its role says, or else floats that are
    /// normally distributed, of the scale of the set; integers, and the numbers in strings, are
    /// small. With a range, all values in it are as likely. Fails when all tensors together would
    /// be larger than a GiB, or the type does not hold the range.
    pub(crate) fn tensor(
        &mut self,
        position: usize,
        ty: ElementType,
        shape: &[usize],
        ends: Option<Ends>,
        (role, around): (&Role, &Setting),
    ) -> TractResult<Tensor> {
        let total = check_size(ty, shape)?.checked_add(self.bytes);
        self.bytes =
            total.filter(|total| *total <= MAX_BYTES).with_context(|| too_large(ty, shape))?;

        // Each input has a seed of its own: if one is given as a file, the others keep their
        // values.
        let mut rng = StdRng::seed_from_u64(self.seed ^ (position as u64).rotate_right(16));
        if let Some(ends) = ends {
            return within(&mut rng, ty, shape, ends);
        }
        if let Some(tensor) = values::of_role(role, ty, shape, &mut rng, around)? {
            return Ok(tensor);
        }
        // All that few bits hold; sums and products of more are to stay within their type.
        let small = if ty.bits() <= 4 { 15 } else { 10 };
        let most = (ty.code_mask() >> u32::from(ty.family() == Family::Signed)).min(small) as i64;
        let many = around.most().cast_signed();
        let range = match ty.family() {
            Family::Float(format) => {
                let sign = |x: f32| if format.is_signed() { x } else { x.abs() };
                let normal = || f64::from(normal(&mut rng));
                let numbers = std::iter::repeat_with(values::scaled(ty, around, normal));
                let numbers = numbers.take(shape.iter().product()).collect();
                let mut numbers = around.pinned(numbers, shape).into_iter();
                return filled(ty, shape, || sign(numbers.next().unwrap_or(0.0) as f32));
            }
            Family::Bool => 0..=1,
            // Wide integers are mostly indices or identifiers, which are not negative.
            Family::Signed | Family::Unsigned if ty.bits() >= 32 => 0..=many,
            Family::Unsigned => 0..=most,
            Family::Signed => -most - 1..=most,
            Family::Text => 0..=99,
        };
        filled(ty, shape, || rng.random_range(range.clone()))
    }
}

/// How many bytes a random tensor takes. Fails when it would be larger than a GiB.
pub(crate) fn check_size(ty: ElementType, shape: &[usize]) -> TractResult<usize> {
    // A STRING is a pointer, a length, a capacity and some digits.
    let bytes = if ty.family() == Family::Text { 32 } else { 8 };
    let bytes = shape.iter().try_fold(bytes, |bytes: usize, dim| bytes.checked_mul(*dim));
    bytes.filter(|bytes| *bytes <= MAX_BYTES).with_context(|| too_large(ty, shape))
}

fn too_large(ty: ElementType, shape: &[usize]) -> String {
    format!("a {ty} of shape {shape:?} is too large for random values; it must be given")
}

/// Values between two ends, which the type has to hold.
fn within(
    rng: &mut StdRng,
    ty: ElementType,
    shape: &[usize],
    (low, high): Ends,
) -> TractResult<Tensor> {
    let beyond = || format!("{ty} does not hold all of the range {low}:{high}");
    if ty.is_float() {
        if let Some(reach) = Reach::of(ty) {
            ensure!(![low, high].iter().any(|end| reach.is_beyond((*end).into())), "{}", beyond());
        }
        return filled(ty, shape, || low + (high - low) * rng.random::<f64>());
    }
    let (first, last) = (low.ceil(), high.floor());
    ensure!(first <= last, "there is no whole number in the range {low}:{high}");
    let (least, most) = match ty.family() {
        Family::Bool => (0.0, 1.0),
        // From here on a DOUBLE is no INT64.
        Family::Text => (-9.0e18, 9.0e18),
        _ => Reach::of(ty).map_or((0.0, 1.0), |reach| {
            let (least, most) = reach.limits();
            (least.rounded().max(-9.0e18), most.rounded().min(9.0e18))
        }),
    };
    ensure!(least <= first && last <= most, "{}", beyond());
    let (first, last) = (first as i64, last as i64);
    filled(ty, shape, || rng.random_range(first..=last))
}

fn filled<T: Datum + Copy>(
    ty: ElementType,
    shape: &[usize],
    number: impl FnMut() -> T,
) -> TractResult<Tensor> {
    let numbers: Vec<T> = std::iter::repeat_with(number).take(shape.iter().product()).collect();
    of_numbers(ty, shape, &numbers)
}
