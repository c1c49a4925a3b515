//! The doubt in values that codes stand for, which are as many as a weight has elements: it is told
//! by the scales, and computed for some of the elements at a time.

use std::ops::Range;
use std::sync::Arc;

use tract_onnx::pb::AttributeProto;
use tract_onnx::prelude::Tensor;
use tract_onnx_cast::ElementType;
use tract_onnx_cast::interpreter::SharedTensor;
use tract_onnx_cast::kernel::Level;

use crate::cli::measure::lanes::Lane;
use crate::cli::measure::reach::relative;
use crate::cli::tensor::cast;

/// How far scales put the values off that they scale, and which of a weight's elements have which.
pub(crate) struct CodeScales {
    /// FLOAT: of a large weight they are many, and stay what was read.
    scales: Arc<Tensor>,
    /// How many steps codes are off.
    steps: f64,
    /// How many elements there are along the axis of the scales, and behind each.
    size: usize,
    behind: usize,
    /// How many elements along the axis have one scale, each place behind it its own; `None` of
    /// scales that are one for each place along the axis.
    block: Option<usize>,
}

/// That of the scales, a share of the value, and the least of all.
#[derive(Clone)]
pub(crate) struct CodeSteps {
    pub(crate) scales: Arc<CodeScales>,
    share: f64,
    least: f64,
}

impl CodeScales {
    /// Of codes of a shape that are off by so many steps, in what a node of these attributes makes
    /// of them by a scale, by ONNX's `DequantizeLinear`. `None` of a scale that fits no layout.
    pub(crate) fn of(
        attributes: &[AttributeProto],
        codes: &[usize],
        scale: &SharedTensor,
        steps: f64,
    ) -> Option<CodeScales> {
        let (ty, scale) = scale;
        let scales = match ty {
            ElementType::Float => scale.clone(),
            _ => Arc::new(cast(*ty, scale, ElementType::Float).ok()?),
        };
        scales.try_as_plain_ram().ok()?;
        if scales.len() == 1 {
            let behind = codes.iter().product();
            return Some(CodeScales { scales, steps, size: 1, behind, block: None });
        }
        let axis = axis(attributes, codes.len())?;
        let size = *codes.get(axis)?;
        let behind: usize = codes.iter().skip(axis + 1).product();
        let block = usize::try_from(int(attributes, "block_size").unwrap_or(0)).ok();
        let block = block.filter(|block| *block > 0);
        let mut wanted = codes.to_vec();
        match block {
            Some(block) => *wanted.get_mut(axis)? = size.div_ceil(block),
            None => wanted = vec![size],
        }
        let is_laid_out = scale.shape() == wanted && behind > 0 && size > 0;
        is_laid_out.then_some(CodeScales { scales, steps, size, behind, block })
    }

    fn scales(&self) -> &[f32] {
        let held = self.scales.as_plain_ram();
        held.and_then(|held| held.as_slice().ok()).unwrap_or_default()
    }

    /// How far a scale puts values off.
    #[inline(always)]
    pub(crate) fn step(&self, scale: f32) -> f64 {
        self.times(scale, 1.0)
    }

    /// The same, times a factor; 0 where that has not all its digits.
    #[inline(always)]
    pub(crate) fn times<T: Lane>(&self, scale: f32, factor: f64) -> T {
        let step = T::from(scale).size() * T::of(self.steps * factor);
        // What a scale that is no number makes of two codes is one value.
        if (step >= T::LEAST_NORMAL) & (step <= T::LARGEST) { step } else { T::default() }
    }

    /// Gives elements that have one scale to a function, or ones that have each its own: which of
    /// those at these places, counted from the first of them, and the scale, or each of them.
    pub(crate) fn each_run(
        &self,
        places: Range<usize>,
        mut take: impl FnMut(Range<usize>, &[f32]),
    ) {
        let (mut place, all) = (places.start, self.scales());
        while place < places.end {
            let (run, scale, is_one) = self.run(place);
            let run = run.clamp(1, places.end - place);
            let scales = all.get(scale..scale + if is_one { 1 } else { run });
            let start = place - places.start;
            take(start..start + run, scales.unwrap_or_default());
            place += run;
        }
    }

    /// How many scales there are.
    pub(crate) fn count(&self) -> usize {
        self.scales.len()
    }

    /// The power of how far the scales put the values off, of each column of a matrix of so many,
    /// each row times a factor.
    pub(crate) fn column_powers(&self, factors: &[f64], columns: usize) -> Vec<f64> {
        let mut powers = vec![0.0; columns];
        if columns == 0 || self.behind == 0 {
            return powers;
        }
        let scales_of = |row: usize| {
            let (_, first, is_one) = self.run(row * columns);
            (first, is_one)
        };
        let mut row = 0;
        while row < factors.len() {
            // The rows of a block have the same scales.
            let is_same = |other: &usize| scales_of(*other) == scales_of(row);
            let end = row + (row..factors.len()).take_while(is_same).count();
            let factor: f64 = factors.get(row..end).unwrap_or_default().iter().sum();
            let (mut left, mut place) = (&mut *powers, row * columns);
            while !left.is_empty() {
                let (run, first, is_one) = self.run(place);
                let run = run.clamp(1, left.len());
                let (some, others) = left.split_at_mut(run);
                let last = if is_one { first } else { first + run - 1 };
                let scales = self.scales().get(first..=last).unwrap_or_default().iter().cycle();
                let steps = scales.map(|scale| self.step(*scale));
                some.iter_mut().zip(steps).for_each(|(power, x)| *power += factor * x * x);
                (left, place) = (others, place + run);
            }
            row = end;
        }
        powers
    }

    /// Gives each place to a function, with that of its scale and how far it puts the value off.
    pub(crate) fn each_scale(&self, places: Range<usize>, mut take: impl FnMut(usize, usize, f64)) {
        let (mut start, scales) = (places.start, self.scales());
        while start < places.end {
            let (run, first, is_one) = self.run(start);
            let end = places.end.min(start + run.max(1));
            for place in start..end {
                let scale = if is_one { first } else { first + place - start };
                take(place, scale, self.step(scales.get(scale).copied().unwrap_or_default()));
            }
            start = end;
        }
    }

    /// For how many elements from a place on the scales follow one another, from which one on, or
    /// are that one.
    fn run(&self, place: usize) -> (usize, usize, bool) {
        let (behind, along) = (place % self.behind, place / self.behind);
        let (along, before) = (along % self.size, along / self.size);
        match self.block {
            None if self.behind == 1 => (self.size - along, along, false),
            None => (self.behind - behind, along, true),
            Some(block) => {
                let row = before * self.size.div_ceil(block) + along / block;
                let left = (block - along % block).min(self.size - along);
                let is_one = self.behind == 1;
                let run = if is_one { left } else { self.behind - behind };
                (run, row * self.behind + behind, is_one)
            }
        }
    }
}

impl CodeSteps {
    /// As [`CodeScales::of`]; `share` is of what the node makes.
    pub(crate) fn of(
        attributes: &[AttributeProto],
        codes: &[usize],
        (scale, share): (&SharedTensor, f64),
        steps: f64,
    ) -> Option<CodeSteps> {
        let scales = CodeScales::of(attributes, codes, scale, steps)?;
        Some(CodeSteps { scales: Arc::new(scales), share, least: 0.0 })
    }

    /// As far as before, and by a share of the value and the least of all besides.
    pub(crate) fn and(self, share: f64, least: f64) -> CodeSteps {
        CodeSteps { share: self.share + share, least: self.least + least, ..self }
    }

    /// How far each of some elements, which are these numbers, may be off: put in the place of
    /// other doubts.
    pub(crate) fn doubts_in(&self, places: Range<usize>, values: &[f64], doubts: &mut Vec<f64>) {
        doubts.resize(values.len(), 0.0);
        self.scales.each_run(places, |run, scales| {
            if let (Some(values), Some(doubts)) = (values.get(run.clone()), doubts.get_mut(run)) {
                Level::best().run(
                    #[inline(always)]
                    || self.put(scales, values, doubts),
                );
            }
        });
    }

    /// Puts how far elements may be off that have one scale, or each its own.
    #[inline(always)]
    fn put(&self, scales: &[f32], values: &[f64], doubts: &mut [f64]) {
        // The compiler does not know that these stay the same while doubts are written.
        let (share, least) = (self.share, self.least);
        let of_scales = &*self.scales;
        let doubt = |scale: f32, x: f64| of_scales.step(scale) + (least + relative(x, share));
        let places = doubts.iter_mut().zip(values);
        match scales {
            [scale] => places.for_each(|(place, x)| *place = doubt(*scale, *x)),
            _ => places.zip(scales).for_each(|((place, x), scale)| *place = doubt(*scale, *x)),
        }
    }
}

/// The axis of the scales of a quantiser of values of so many axes; `None` of one that there cannot
/// be.
pub(crate) fn axis(attributes: &[AttributeProto], rank: usize) -> Option<usize> {
    let axis = int(attributes, "axis").unwrap_or(1);
    usize::try_from(if axis < 0 { axis + i64::try_from(rank).ok()? } else { axis }).ok()
}

fn int(attributes: &[AttributeProto], name: &str) -> Option<i64> {
    attributes.iter().find(|held| held.name == name).map(|held| held.i)
}

#[cfg(test)]
mod tests {
    use anyhow::Context;
    use onnx_cast_graph::int_attribute;
    use tract_onnx::prelude::*;
    use tract_onnx_cast::ElementType;

    use super::*;

    fn scales(shape: &[usize]) -> TractResult<SharedTensor> {
        let count = shape.iter().product::<usize>();
        let values: Vec<f32> = (0..count).map(|place| place as f32 + 1.0).collect();
        Ok((ElementType::Float, Arc::new(Tensor::from_shape(shape, &values)?)))
    }

    /// The place of an element's scale, by ONNX's words.
    fn scale_of(
        place: usize,
        codes: &[usize],
        axis: usize,
        scales: &[usize],
        block: usize,
    ) -> usize {
        let (mut left, mut at) = (place, vec![0; codes.len()]);
        for (at, size) in at.iter_mut().zip(codes).rev() {
            (*at, left) = (left % size, left / size);
        }
        match scales {
            [] => 0,
            [_] if block == 0 => at[axis],
            _ => {
                at[axis] /= block;
                at.iter().zip(scales).fold(0, |place, (at, size)| place * size + at)
            }
        }
    }

    #[test]
    fn each_element_has_the_steps_of_its_scale() -> TractResult<()> {
        let layouts: [(&[usize], usize, &[usize], usize); 8] = [
            (&[6, 5], 0, &[], 0),
            (&[6, 5], 0, &[6], 0),
            (&[6, 5], 1, &[5], 0),
            (&[2, 3, 4], 1, &[3], 0),
            (&[6, 5], 0, &[3, 5], 2),
            (&[7, 5], 0, &[3, 5], 3),
            (&[4, 7], 1, &[4, 3], 3),
            (&[2, 5, 3], 1, &[2, 2, 3], 3),
        ];
        for (codes, axis, shape, block) in layouts {
            let scale = scales(shape)?;
            let attributes =
                [int_attribute("axis", axis as i64), int_attribute("block_size", block as i64)];
            let steps =
                CodeSteps::of(&attributes, codes, (&scale, 0.25), 0.5).context("a layout")?;
            let steps = steps.and(0.0, 8.0);
            let count: usize = codes.iter().product();
            let values: Vec<f64> = (0..count).map(|place| place as f64).collect();
            let wanted = |place: usize| {
                let scale = scale_of(place, codes, axis, shape, block) as f64 + 1.0;
                0.5 * scale + 8.0 + 0.25 * values[place]
            };
            for places in [0..count, 1..count, 2..count - 1, 3..4] {
                let mut got = vec![9.0; 3];
                steps.doubts_in(places.clone(), &values[places.clone()], &mut got);
                let wanted: Vec<f64> = places.clone().map(wanted).collect();
                assert_eq!(got, wanted, "{codes:?} by {shape:?} along {axis}, {places:?}");
            }
            let (rows, columns) = (codes[0], count / codes[0]);
            let factors: Vec<f64> = (0..rows).map(|row| (row + 1) as f64).collect();
            let mut wanted = vec![0.0; columns];
            for place in 0..count {
                let scale = 0.5 * (scale_of(place, codes, axis, shape, block) as f64 + 1.0);
                wanted[place % columns] += factors[place / columns] * scale * scale;
            }
            assert_eq!(
                steps.scales.column_powers(&factors, columns),
                wanted,
                "{codes:?} by {shape:?}"
            );
        }
        Ok(())
    }

    #[test]
    fn codes_that_are_none_move_nothing() -> TractResult<()> {
        for shape in [&[0][..], &[4, 0], &[0, 4]] {
            let steps = CodeScales::of(&[], shape, &scales(&[])?, 0.5).context("a layout")?;
            let columns = shape.last().copied().unwrap_or_default();
            assert_eq!(steps.column_powers(&[1.0; 4], columns), vec![0.0; columns], "{shape:?}");
        }
        Ok(())
    }

    #[test]
    fn scales_of_another_layout_have_no_steps() -> TractResult<()> {
        for (shape, axis, block) in [(&[4][..], 0, 0), (&[2, 5], 0, 2), (&[6, 5], 0, 0)] {
            let scale = scales(shape)?;
            let attributes = [int_attribute("axis", axis), int_attribute("block_size", block)];
            assert!(CodeScales::of(&attributes, &[6, 5], &scale, 0.5).is_none(), "{shape:?}");
        }
        Ok(())
    }
}
