//! Weights in few bits: the scales of least squared error, and the codes.

use tract_onnx::prelude::{Tensor, TractResult, tensor1};

use crate::cast::element_type::ElementType;
use crate::cast::rules::Rules;
use crate::cast::scalar;
use crate::tensor::conversion::Conversion;

/// What the largest element of a group is taken for, relative to the largest code, one after
/// another: where few elements are large, cutting them off makes the others more exact.
const SHARES: [f32; 10] = [1.0, 0.97, 0.94, 0.9, 0.86, 0.82, 0.77, 0.72, 0.66, 0.6];

/// How a weight is stored.
#[derive(Debug, Clone)]
pub(in crate::convert) struct WeightCodes {
    /// What it is stored as.
    pub(in crate::convert) ty: ElementType,
    /// What it was before.
    pub(in crate::convert) from: ElementType,
    /// The weight's shape.
    pub(in crate::convert) dims: Vec<usize>,
    /// The axis that has a scale for each place, or for each block.
    pub(in crate::convert) axis: usize,
    /// How many places along the axis share a scale.
    pub(in crate::convert) block: Option<usize>,
    /// In row-major order; none before [`WeightCodes::fit`].
    pub(in crate::convert) scales: Vec<f32>,
}

impl WeightCodes {
    /// The shape of the scales.
    pub(in crate::convert) fn scale_dims(&self) -> Vec<usize> {
        let length = self.dims.get(self.axis).copied().unwrap_or(1);
        match self.block {
            None => vec![length],
            Some(block) => {
                let mut dims = self.dims.clone();
                if let Some(size) = dims.get_mut(self.axis) {
                    *size = length.div_ceil(block.max(1));
                }
                dims
            }
        }
    }

    /// How many elements one step along the axis skips, and how many places the axis has.
    fn strides(&self) -> (usize, usize) {
        let inner = self.dims.iter().skip(self.axis + 1).product::<usize>().max(1);
        (inner, self.dims.get(self.axis).copied().unwrap_or(1).max(1))
    }

    /// The scale of an element.
    fn scale_of(&self, element: usize) -> usize {
        let (inner, length) = self.strides();
        let place = element / inner % length;
        match self.block {
            None => place,
            Some(block) => {
                let blocks = length.div_ceil(block.max(1));
                let outer = element / (inner * length);
                (outer * blocks + place / block.max(1)) * inner + element % inner
            }
        }
    }

    /// Finds the scales, each a number of `scale_type`. Returns the squared error of all elements
    /// together, relative to their squares. Fails when there are no such types.
    pub(in crate::convert) fn fit(
        &mut self,
        values: &[f32],
        scale_type: ElementType,
    ) -> TractResult<f64> {
        let count = self.scale_dims().iter().product();
        let mut groups: Vec<Vec<f32>> = vec![vec![]; count];
        for (element, value) in values.iter().enumerate() {
            if let Some(group) = groups.get_mut(self.scale_of(element)) {
                group.push(*value);
            }
        }
        let (mut lost, mut whole) = (0.0, 0.0);
        let rounding = CodeRounding::new(self.ty, scale_type);
        for group in &groups {
            let (scale, error) = rounding.scale(group)?;
            lost += error;
            whole += group.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>();
            self.scales.push(scale);
        }
        Ok(if whole > 0.0 { lost / whole } else { 0.0 })
    }

    /// The codes of the elements from one on, as carriers. Fails when there is no such conversion.
    pub(in crate::convert) fn encode(&self, first: usize, values: &[f32]) -> TractResult<Tensor> {
        let scale = |place| self.scales.get(self.scale_of(first + place)).copied().unwrap_or(1.0);
        let scaled: Vec<f32> =
            values.iter().enumerate().map(|(place, value)| value / scale(place)).collect();
        let limits = integer_limits(self.ty);
        let rounded: Vec<f32> = match limits {
            Some((least, most)) => {
                scaled.iter().map(|x| x.round_ties_even().clamp(least, most)).collect()
            }
            None => scaled,
        };
        Ok(Conversion::new(ElementType::Float, self.ty, Rules::default())
            .run(&tensor1(&rounded))?)
    }
}

/// The least and the greatest code of an integer type; the least of all is left out, as its like
/// is not there.
fn integer_limits(ty: ElementType) -> Option<(f32, f32)> {
    match ty {
        ElementType::Int8 => Some((-127.0, 127.0)),
        ElementType::Int4 => Some((-7.0, 7.0)),
        _ => None,
    }
}

/// The largest number of a type of codes.
fn largest(ty: ElementType) -> f32 {
    integer_limits(ty).map_or(448.0, |(_, most)| most)
}

/// How numbers become codes and come back.
struct CodeRounding {
    ty: ElementType,
    scale_type: ElementType,
    there: Conversion,
    back: Conversion,
}

impl CodeRounding {
    fn new(ty: ElementType, scale_type: ElementType) -> CodeRounding {
        let conversion = |from, to| Conversion::new(from, to, Rules::default());
        let there = conversion(ElementType::Float, ty);
        CodeRounding { ty, scale_type, there, back: conversion(ty, ElementType::Float) }
    }

    /// The scale of least squared error of a group, and that error.
    fn scale(&self, group: &[f32]) -> TractResult<(f32, f64)> {
        let most = group.iter().fold(0.0f32, |most, value| most.max(value.abs()));
        if most == 0.0 {
            return Ok((1.0, 0.0));
        }
        let mut best = (0.0, f64::INFINITY);
        let mut consider = |scale: f32| -> TractResult<()> {
            let scale = self.as_stored(scale);
            if scale.is_finite() && scale > 0.0 {
                let (error, better) = self.error(group, scale)?;
                if error < best.1 {
                    best = (scale, error);
                }
                let better = self.as_stored(better);
                if better.is_finite() && better > 0.0 {
                    let (error, _) = self.error(group, better)?;
                    if error < best.1 {
                        best = (better, error);
                    }
                }
            }
            Ok(())
        };
        for share in SHARES {
            consider(most * share / largest(self.ty))?;
        }
        if best.0 == 0.0 {
            // No scale of the type is as small.
            let whole = group.iter().map(|value| f64::from(*value).powi(2)).sum();
            return Ok((1.0, whole));
        }
        Ok(best)
    }

    /// A scale as its type has it.
    fn as_stored(&self, scale: f32) -> f32 {
        let (float, rules) = (ElementType::Float, Rules::default());
        let stored = scalar::convert(float, self.scale_type, rules, scale.to_bits().into());
        let back = stored.and_then(|code| scalar::convert(self.scale_type, float, rules, code));
        let bits = back.and_then(|bits| u32::try_from(bits).ok());
        bits.map_or(scale, f32::from_bits)
    }

    /// The squared error with a scale, and the scale that is best for the same codes.
    fn error(&self, group: &[f32], scale: f32) -> TractResult<(f64, f32)> {
        let mut sums = Sums::default();
        if let Some((least, most)) = integer_limits(self.ty) {
            for value in group {
                sums.add(*value, (value / scale).round_ties_even().clamp(least, most), scale);
            }
        } else {
            let scaled: Vec<f32> = group.iter().map(|value| value / scale).collect();
            let back = self.back.run(&self.there.run(&tensor1(&scaled))?)?;
            for (value, code) in group.iter().zip(back.try_as_plain_ram()?.as_slice::<f32>()?) {
                sums.add(*value, *code, scale);
            }
        }
        let better = if sums.squares > 0.0 { (sums.products / sums.squares) as f32 } else { scale };
        Ok((sums.error, better))
    }
}

/// What the elements of a group and their codes add up to.
#[derive(Default)]
struct Sums {
    /// Of squared errors.
    error: f64,
    /// Of elements by codes.
    products: f64,
    /// Of squared codes.
    squares: f64,
}

impl Sums {
    fn add(&mut self, value: f32, code: f32, scale: f32) {
        let (value, code) = (f64::from(value), f64::from(code));
        self.error += (value - code * f64::from(scale)).powi(2);
        self.products += value * code;
        self.squares += code * code;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn codes(ty: ElementType, dims: &[usize], axis: usize, block: Option<usize>) -> WeightCodes {
        let (dims, from) = (dims.to_vec(), ElementType::Float);
        WeightCodes { ty, from, dims, axis, block, scales: vec![] }
    }

    #[test]
    fn what_codes_hold_exactly_is_exact() {
        let values: Vec<f32> = (-7..=7).map(|code| code as f32 * 0.25).collect();
        let mut codes = codes(ElementType::Int4, &[15, 1], 1, None);
        let lost = codes.fit(&values, ElementType::Float).expect("scales");
        assert_eq!((lost, codes.scales.as_slice()), (0.0, &[0.25][..]));
        let encoded = codes.encode(0, &values).expect("codes");
        let encoded =
            encoded.try_as_plain_ram().and_then(|t| t.as_slice::<i8>().map(<[i8]>::to_vec));
        assert_eq!(encoded.expect("codes"), (-7..=7).collect::<Vec<i8>>());
    }

    #[test]
    fn a_scale_is_of_its_place_or_block() {
        // Rows of 4; blocks of 3 along the columns' axis have 2 scales a row.
        let values: Vec<f32> = (0..8).map(|i| if i % 4 == 3 { 70.0 } else { 7.0 }).collect();
        let mut blocked = codes(ElementType::Int4, &[2, 4], 1, Some(3));
        blocked.fit(&values, ElementType::Float).expect("scales");
        assert_eq!(
            (blocked.scale_dims(), blocked.scales),
            (vec![2, 2], vec![1.0, 10.0, 1.0, 10.0])
        );
        let mut blocked = codes(ElementType::Int4, &[2, 4], 0, Some(2));
        blocked.fit(&values, ElementType::Float).expect("scales");
        assert_eq!((blocked.scale_dims(), blocked.scales), (vec![1, 4], vec![1.0, 1.0, 1.0, 10.0]));
        let mut columns = codes(ElementType::Int4, &[2, 4], 1, None);
        columns.fit(&values, ElementType::Float).expect("scales");
        assert_eq!((columns.scale_dims(), columns.scales), (vec![4], vec![1.0, 1.0, 1.0, 10.0]));
    }

    #[test]
    fn the_error_is_no_larger_than_that_of_the_largest_element() {
        // One large element among many small ones, whose error outweighs its own.
        let mut values: Vec<f32> =
            (0..400).map(|i| ((i * 37 % 101) as f32 - 50.0) / 50.0).collect();
        values[0] = 2.0;
        for ty in [ElementType::Int4, ElementType::Int8, ElementType::Float8E4M3FN] {
            let rounding = CodeRounding::new(ty, ElementType::Float16);
            let plain = rounding.as_stored(2.0 / largest(ty));
            let plain = rounding.error(&values, plain).expect("an error").0;
            let (scale, best) = rounding.scale(&values).expect("a scale");
            assert!(best <= plain, "{ty}: {best} {plain}");
            assert_eq!(scale, rounding.as_stored(scale));
        }
    }
}
