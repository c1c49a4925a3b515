//! Scales and zero points, found as ONNX Runtime finds them, and what they make of values.

use std::collections::HashMap;

use anyhow::Context;
use tract_onnx::prelude::*;
use tract_onnx_cast::quantize::{Dequantize, Quantization, Quantize, Quantizer};
use tract_onnx_cast::{Conversion, ElementType, Rules};

use super::calibration::Span;
use super::plan::{Entry, EntryKind, QuantizationPlan};
use super::scheme::Scheme;
use super::subject::FloatModel;
use crate::cli::message::counted;

/// How a tensor is quantised, in numbers.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ScaleParameters {
    pub(super) ty: ElementType,
    /// One, or those of an axis, or of its blocks, in row-major order.
    pub(super) scales: Vec<f32>,
    pub(super) zeros: Vec<f32>,
    axis: usize,
    block: usize,
}

impl ScaleParameters {
    /// Those of values that reach so far, by UINT8, as `DynamicQuantizeLinear` finds them.
    /// Fails when the values are no FLOATs.
    pub(super) fn dynamic(values: &Tensor) -> TractResult<ScaleParameters> {
        let ty = ElementType::Uint8;
        Ok(ScaleParameters::of_all(ty, found(ty, false, &span_of(values)?)?))
    }

    fn of_all(ty: ElementType, (scale, zero): (f32, f32)) -> ScaleParameters {
        ScaleParameters { ty, scales: vec![scale], zeros: vec![zero], axis: 0, block: 0 }
    }

    /// The zero points as codes. Fails when there is no such conversion.
    pub(super) fn zero_points(&self) -> TractResult<Tensor> {
        let codes = Conversion::new(ElementType::Float, self.ty, Rules::default());
        Ok(codes.run(&tensor1(&self.zeros))?)
    }

    /// What comes back of values. Fails when the parameters do not fit the values' shape.
    pub(super) fn applied(&self, values: &Tensor) -> TractResult<Tensor> {
        if self.ty == ElementType::Int32 {
            return self.in_32_bits(values);
        }
        let mut scales = tensor1(&self.scales);
        let mut zeros = self.zero_points()?;
        if self.block > 0 {
            let mut shape = values.shape().to_vec();
            let length = shape.get_mut(self.axis).context("no such axis")?;
            *length = length.div_ceil(self.block);
            (scales, zeros) = (scales.into_shape(&shape)?, zeros.into_shape(&shape)?);
        } else if self.scales.len() == 1 {
            (scales, zeros) = (scales.into_shape(&[])?, zeros.into_shape(&[])?);
        }
        there_and_back(self.ty, values, (&scales, Some(&zeros)), (self.axis as i64, self.block))
    }

    /// As a bias is quantised: by its last axis.
    fn in_32_bits(&self, values: &Tensor) -> TractResult<Tensor> {
        let mut made = values.clone();
        let scales = self.scales.iter().cycle();
        for (x, scale) in made.try_as_plain_ram_mut()?.as_slice_mut::<f32>()?.iter_mut().zip(scales)
        {
            let code = (f64::from(*x) / f64::from(*scale)).round_ties_even();
            let code = code.clamp(f64::from(i32::MIN), f64::from(i32::MAX));
            *x = code as f32 * scale;
        }
        Ok(made)
    }
}

/// Finds the parameters of a plan's tensors.
pub(super) struct Finder<'a> {
    subject: &'a FloatModel<'a>,
    scheme: &'a Scheme,
    plan: &'a QuantizationPlan,
    /// Spans that are not those of the values.
    adjusted: HashMap<&'a str, Span>,
    /// The biases that are added to products with a weight.
    biases: HashMap<&'a str, Vec<&'a Entry>>,
}

impl<'a> Finder<'a> {
    /// Those of a plan that leaves some nodes out.
    pub(super) fn new(
        subject: &'a FloatModel,
        scheme: &'a Scheme,
        plan: &'a QuantizationPlan,
        is_kept: &impl Fn(usize) -> bool,
    ) -> Finder<'a> {
        let mut adjusted: HashMap<&str, Span> = HashMap::new();
        for (_, node) in subject.nodes().iter().enumerate().filter(|(at, _)| !is_kept(*at)) {
            let (Some(input), Some(output)) = (node.input.first(), node.output.first()) else {
                continue;
            };
            match node.op_type.as_str() {
                "Clip" | "Relu" if subject.is_used_once(input) => {
                    let behind = adjusted.get(&**output).or(subject.spans.get(output)).copied();
                    if let Some(span) = behind.filter(|_| subject.spans.contains_key(input)) {
                        adjusted.insert(input, span);
                    }
                }
                "Softmax" => {
                    adjusted.insert(output, Span::between(0.0, 1.0));
                }
                _ => {}
            }
        }
        let mut biases: HashMap<&str, Vec<&Entry>> = HashMap::new();
        for entry in &plan.entries {
            if let EntryKind::Bias { weight, .. } = &entry.how {
                biases.entry(weight).or_default().push(entry);
            }
        }
        Finder { subject, scheme, plan, adjusted, biases }
    }

    /// Those of a tensor that all get quantised, if it is marked.
    fn of_value(&self, value: &str) -> TractResult<Option<ScaleParameters>> {
        self.plan.entry(value).map_or(Ok(None), |entry| self.of(entry))
    }

    /// Those of a marked tensor; `None` where it cannot be quantised. Fails when a weight cannot be
    /// read.
    pub(super) fn of(&self, entry: &Entry) -> TractResult<Option<ScaleParameters>> {
        let activations = self.scheme.activations.unwrap_or(self.scheme.weights);
        match &entry.how {
            EntryKind::Like(other) => self.of_value(other),
            EntryKind::Bias { input, weight, beta } => self.of_bias(entry, (input, weight), *beta),
            EntryKind::Blocks => Ok(Some(self.of_blocks(&entry.value)?)),
            EntryKind::Weight { axis: Some(axis) } => Ok(Some(self.of_axis(&entry.value, *axis)?)),
            EntryKind::Activation | EntryKind::Weight { axis: None } => {
                let is_symmetric =
                    entry.how != EntryKind::Activation && self.scheme.weights == ElementType::Int8;
                let ty = if is_symmetric { self.scheme.weights } else { activations };
                let span = match self.subject.weight(&entry.value) {
                    Some(_) => span_of(&self.subject.values_of(&entry.value)?)?,
                    None => match self.adjusted.get(&*entry.value) {
                        Some(span) => *span,
                        None => *self.subject.spans.get(&entry.value).context("no such value")?,
                    },
                };
                Ok(Some(ScaleParameters::of_all(ty, found(ty, is_symmetric, &span)?)))
            }
        }
    }

    /// A scale for each place of an axis of a weight, as large as the biases ask for.
    fn of_axis(&self, name: &str, axis: usize) -> TractResult<ScaleParameters> {
        let values = self.subject.values_of(name)?;
        let plain = values.try_as_plain_ram()?;
        let length = values.shape().get(axis).copied().unwrap_or(1).max(1);
        let inner: usize = values.shape().iter().skip(axis + 1).product();
        let mut spans = vec![Span::default(); length];
        for (row, part) in plain.as_slice::<f32>()?.chunks(inner.max(1)).enumerate() {
            if let Some(span) = spans.get_mut(row % length) {
                span.add(part);
            }
        }
        let ty = self.scheme.weights;
        let found: Vec<(f32, f32)> =
            spans.iter().map(|span| found(ty, true, span)).collect::<TractResult<_>>()?;
        let (mut scales, zeros): (Vec<f32>, Vec<f32>) = found.into_iter().unzip();
        if !self.scheme.is_float() {
            self.widen_for_biases(name, &mut scales)?;
        }
        Ok(ScaleParameters { ty, scales, zeros, axis, block: 0 })
    }

    /// Scales by which the biases of products stay within 32 bits.
    fn widen_for_biases(&self, name: &str, scales: &mut [f32]) -> TractResult<()> {
        const RANGE: f64 = 4_294_967_294.0;
        const MARGIN: f64 = 1.0001;
        for entry in self.biases.get(name).into_iter().flatten() {
            let EntryKind::Bias { input, .. } = &entry.how else { continue };
            let Some(input) = self.of_value(input)? else { continue };
            let input = f64::from(input.scales.first().copied().unwrap_or(1.0));
            let bias = self.subject.values_of(&entry.value)?;
            for (scale, bias) in
                scales.iter_mut().zip(bias.try_as_plain_ram()?.as_slice::<f32>()?.iter())
            {
                let least = MARGIN * 2.0 * f64::from(bias.abs()) / RANGE;
                let candidate = input * f64::from(*scale);
                if candidate > 0.0 && candidate < least {
                    *scale = (f64::from(*scale) * (least / candidate)) as f32;
                }
            }
        }
        Ok(())
    }

    /// The product of the two scales; `None` where the tensors are not quantised, or a bias stays.
    fn of_bias(
        &self,
        entry: &Entry,
        (input, weight): (&str, &str),
        beta: f32,
    ) -> TractResult<Option<ScaleParameters>> {
        let (Some(input), Some(weight)) = (self.of_value(input)?, self.of_value(weight)?) else {
            return Ok(None);
        };
        if self.scheme.is_float() {
            return Ok(None);
        }
        let beta = if beta == 0.0 { 1.0 } else { beta };
        let input = input.scales.first().copied().unwrap_or(1.0);
        let scales: Vec<f32> = weight.scales.iter().map(|scale| input * scale * beta).collect();
        let size = self.subject.weight(&entry.value).map_or(0, |bias| bias.dims.iter().product());
        anyhow::ensure!(
            scales.len() == 1 || size == scales.len() as i64,
            "bias `{}` has {} for {}",
            entry.value,
            counted(size, "element"),
            counted(scales.len(), "channel")
        );
        let zeros = vec![0.0; scales.len()];
        Ok(Some(ScaleParameters { ty: ElementType::Int32, scales, zeros, axis: 0, block: 0 }))
    }

    /// A scale and a zero point for each block of a column.
    fn of_blocks(&self, name: &str) -> TractResult<ScaleParameters> {
        let block = self.scheme.block.context("there are no blocks")?.max(1);
        let values = self.subject.values_of(name)?;
        let rank = values.rank();
        let (axis, columns) = (rank.saturating_sub(2), values.shape().last().copied().unwrap_or(1));
        let rows = values.shape().get(axis).copied().unwrap_or(1);
        let mut spans = vec![Span::default(); rows.div_ceil(block) * columns];
        let plain = values.try_as_plain_ram()?;
        for (place, value) in plain.as_slice::<f32>()?.iter().enumerate() {
            let at = place / columns / block * columns + place % columns;
            if let Some(span) = spans.get_mut(at) {
                span.add(&[*value]);
            }
        }
        let found = spans.iter().map(|span| found(self.scheme.weights, false, span));
        let found: Vec<(f32, f32)> = found.collect::<TractResult<_>>()?;
        let (scales, zeros) = found.into_iter().unzip();
        Ok(ScaleParameters { ty: self.scheme.weights, scales, zeros, axis, block })
    }
}

/// What comes back of FLOATs that are quantised to a type, by scales and zero points along an axis,
/// in blocks of it where these have a size.
/// Fails when there are no such quantisers, or the scales do not fit the values' shape.
pub(super) fn there_and_back(
    ty: ElementType,
    values: &Tensor,
    (scale, zero): (&Tensor, Option<&Tensor>),
    (axis, block): (i64, usize),
) -> TractResult<Tensor> {
    let float = ElementType::Float;
    let there = Quantize { x: float, scale: float, y: ty, precision: float, saturate: true };
    let back = Dequantize { x: ty, scale: float, y: float };
    let run = |quantizer, x: &Tensor| -> TractResult<Tensor> {
        let kernel = Quantization::new(quantizer).context("no such quantiser")?;
        Ok(kernel.run(x, scale, zero, axis, block)?)
    };
    run(Quantizer::Dequantize(back), &run(Quantizer::Quantize(there), values)?)
}

fn span_of(values: &Tensor) -> TractResult<Span> {
    let mut span = Span::default();
    span.add(values.try_as_plain_ram()?.as_slice()?);
    Ok(span)
}

/// The scale and the zero point for values, by their range; those of a float8 by their deviation.
fn found(ty: ElementType, is_symmetric: bool, span: &Span) -> TractResult<(f32, f32)> {
    let (least_code, largest_code) = match ty {
        ElementType::Int8 if is_symmetric => (-127.0, 127.0),
        ElementType::Int8 => (-128.0, 127.0),
        ElementType::Uint4 => (0.0, 15.0),
        ElementType::Uint8 => (0.0, 255.0),
        _ => return Ok(((span.deviation() / deviation_of(ty)?) as f32, 0.0)),
    };
    let (mut least, mut most) = (f64::from(span.least.min(0.0)), f64::from(span.most.max(0.0)));
    if is_symmetric {
        most = most.max(-least);
        least = -most;
    }
    let scale = (most - least) / (largest_code - least_code);
    if scale < f64::from(f32::MIN_POSITIVE) {
        return Ok((1.0, 0.0));
    }
    let zero = if is_symmetric {
        f64::midpoint(least_code, largest_code).round_ties_even()
    } else {
        (least_code - least / scale).round_ties_even()
    };
    Ok((scale as f32, zero as f32))
}

/// The standard deviation of all numbers that a type has.
fn deviation_of(ty: ElementType) -> TractResult<f64> {
    let codes: Vec<u8> = (0..=u8::MAX).collect();
    let numbers =
        Conversion::new(ty, ElementType::Float, Rules::default()).run(&tensor1(&codes))?;
    let mut span = Span::default();
    let plain = numbers.try_as_plain_ram()?;
    let finite = plain.as_slice::<f32>()?.iter().copied().filter(|x| x.is_finite());
    span.add(&finite.collect::<Vec<_>>());
    Ok(span.deviation())
}
