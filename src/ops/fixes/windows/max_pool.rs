//! `MaxPool`, with and without `Indices`.
//!
//! tract begins with the least finite number, so that it takes no element of a window of nothing
//! greater (tract-core, `ops/cnn/maxpool.rs`). Here a window begins with its first element, which
//! what is greater takes the place of, as in ONNX's own evaluator.

use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_core::ops::cnn::{MaxPool, PaddingSpec, PoolSpec};
use tract_onnx::tract_core::ops::nn::DataFormat;

use super::with_room;
use crate::ops::host::hook::{HookSite, Instead, Patch};
use crate::ops::host::label::Label;
use crate::ops::host::saved::{Row, Save, Saved};

/// Wires it, by tract's reading of the node.
pub(crate) fn max_pool(site: &HookSite, model: &mut TypedModel, inputs: &[OutletId]) -> Instead {
    let [input] = inputs else { return Ok(None) };
    let mut draft = TypedModel { symbols: model.symbols.clone(), ..TypedModel::default() };
    let fact = model.outlet_fact(*input)?;
    let source = draft.add_source("input", fact.datum_type.fact(fact.shape.clone()))?;
    site.wire_stock(&mut draft, &[source])?;
    let stock = draft.nodes.iter().find_map(|node| node.op_as::<MaxPool>());
    let MaxPool { pool_spec, with_index_outputs } = stock.context("a pool of tract's")?.clone();
    let has_indices = with_index_outputs.is_some();
    let column_major = site.int("storage_order", 0)? == 1;
    let op = Greatest { spec: pool_spec, has_indices, column_major };
    let input = with_room(site, model, *input)?;
    model.wire_node(&site.name, op, &[input]).map(Some)
}

/// The greatest element of each window, and its place in the whole input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Greatest {
    spec: PoolSpec,
    has_indices: bool,
    /// Whether places count the first axis fastest.
    column_major: bool,
}

/// A type of elements.
trait PoolElement: Datum + Copy + PartialOrd {
    /// What nothing is less than.
    const LEAST: Self;
}

macro_rules! elements {
    ($($ty:ty: $least:expr),*) => {
        $(impl PoolElement for $ty {
            const LEAST: $ty = $least;
        })*
    };
}

elements!(
    f16: f16::NEG_INFINITY, f32: f32::NEG_INFINITY, f64: f64::NEG_INFINITY,
    i8: i8::MIN, i16: i16::MIN, i32: i32::MIN, i64: i64::MIN,
    u8: 0, u16: 0, u32: 0, u64: 0
);

/// An axis that a window slides along.
#[derive(Debug, Clone, Copy)]
struct Slide {
    input: usize,
    output: usize,
    kernel: usize,
    stride: usize,
    dilation: usize,
    padding: usize,
}

impl Slide {
    /// Where an element of a window is, if it is in the input.
    fn place(&self, window: usize, tap: usize) -> Option<usize> {
        let place = (window * self.stride + tap * self.dilation).checked_sub(self.padding)?;
        (place < self.input).then_some(place)
    }

    /// The windows of which an element is in the input, and where that of the first of them is.
    fn span(&self, tap: usize) -> Option<(usize, usize, usize)> {
        let ahead = tap * self.dilation;
        let first = self.padding.saturating_sub(ahead).div_ceil(self.stride);
        let last = (self.input + self.padding).checked_sub(ahead + 1)? / self.stride;
        let end = self.output.min(last + 1);
        (first < end).then(|| (first, end, first * self.stride + ahead - self.padding))
    }
}

impl Greatest {
    fn slides(&self, shape: &[usize]) -> TractResult<Vec<Slide>> {
        let sizes = shape.get(2..).context("a batch, channels and places")?;
        let padded = self.spec.computed_padding(sizes);
        let slides = padded.iter().zip(sizes).zip(&self.spec.kernel_shape).enumerate();
        let slide = slides.map(|(axis, ((padded, input), kernel))| Slide {
            input: *input,
            output: padded.convoluted,
            kernel: *kernel,
            stride: self.spec.stride(axis),
            dilation: self.spec.dilation(axis),
            padding: padded.pad_before,
        });
        Ok(slide.collect())
    }

    fn pool<T: PoolElement>(&self, input: &Tensor) -> TractResult<TVec<TValue>> {
        let slides = self.slides(input.shape())?;
        let mut shape: TVec<usize> = input.shape().into();
        for (size, slide) in shape.iter_mut().skip(2).zip(&slides) {
            *size = slide.output;
        }
        let mut values = Tensor::zero_dt(T::datum_type(), &shape)?;
        let mut places = Tensor::zero::<i64>(if self.has_indices { &shape } else { &[0] })?;
        let from: usize = slides.iter().map(|slide| slide.input).product();
        let to: usize = slides.iter().map(|slide| slide.output).product();
        if to > 0 {
            let (input, mut values) = (input.try_as_plain_ram()?, values.try_as_plain_ram_mut()?);
            let (elements, values) = (input.as_slice::<T>()?, values.as_slice_mut::<T>()?);
            values.fill(T::LEAST);
            let mut places = places.try_as_plain_ram_mut()?;
            let places = places.as_slice_mut::<i64>()?;
            if from > 0 {
                pool_planes(&slides, PoolPlanes { elements, from, to }, values, places);
                for (index, places) in places.chunks_exact_mut(to).enumerate() {
                    self.count_places(&slides, i64::try_from(index * from)?, places)?;
                }
            }
        }
        let mut outputs = tvec!(values.into_tvalue());
        if self.has_indices {
            outputs.push(places.into_tvalue());
        }
        Ok(outputs)
    }

    /// Makes places in a plane, which count the last axis fastest, those in the whole input.
    fn count_places(&self, slides: &[Slide], first: i64, places: &mut [i64]) -> TractResult<()> {
        for place in places {
            if self.column_major {
                let (mut rest, mut step) = (*place, 1);
                let mut counted = slides.iter().map(|slide| slide.input as i64).product::<i64>();
                let mut sum = 0;
                for slide in slides {
                    counted /= slide.input as i64;
                    sum += rest / counted * step;
                    rest %= counted;
                    step *= slide.input as i64;
                }
                *place = sum;
            }
            *place += first;
        }
        Ok(())
    }
}

/// Channels, of so many elements each, of which so many are made.
struct PoolPlanes<'a, T> {
    elements: &'a [T],
    from: usize,
    to: usize,
}

/// Pools each channel of each element of the batch: a row of all of them, then the next, since
/// their windows are in the same places. `places` is empty where nobody asks.
fn pool_planes<T: PoolElement>(
    slides: &[Slide],
    planes: PoolPlanes<T>,
    values: &mut [T],
    places: &mut [i64],
) {
    let Some((last, outer)) = slides.split_last() else { return };
    let PoolPlanes { elements, from, to } = planes;
    let spans: TVec<(usize, usize, usize)> =
        (0..last.kernel).filter_map(|tap| last.span(tap)).collect();
    for (row, at) in (0..to).step_by(last.output).enumerate() {
        let starts: TVec<usize> = lines(outer, row).map(|line| line * last.input).collect();
        let of_planes = elements.chunks_exact(from).zip(values.chunks_exact_mut(to)).enumerate();
        for (plane, (elements, values)) in of_planes {
            let values = values.get_mut(at..at + last.output).unwrap_or_default();
            let places = places.get_mut(plane * to + at..plane * to + at + last.output);
            row_of_windows(last, &spans, &starts, elements, values, places);
        }
    }
}

/// Pools the windows of a row: where the lines of the input begin that they have, and for each tap
/// along a line that is in some window, the first and the end of these, and where the first one's
/// element is.
fn row_of_windows<T: PoolElement>(
    last: &Slide,
    spans: &[(usize, usize, usize)],
    starts: &[usize],
    elements: &[T],
    values: &mut [T],
    mut places: Option<&mut [i64]>,
) {
    // The windows from here on have begun.
    let mut begun = last.output;
    for start in starts {
        let Some(elements) = elements.get(*start..*start + last.input) else { continue };
        for (first, end, at) in spans {
            let elements = elements.get(*at..).unwrap_or_default();
            let new = begun.clamp(*first, *end) - first;
            let span = values.get_mut(*first..*end).unwrap_or_default();
            match places.as_deref_mut() {
                None => fold(span, elements, last.stride, new),
                Some(places) => {
                    let places = places.get_mut(*first..*end).unwrap_or_default();
                    fold_places(span, places, elements, last.stride, (new, start + at));
                }
            }
            begun = begun.min(*first);
        }
    }
}

/// The lines of the input that the windows of a row of the output have, in order.
fn lines(outer: &[Slide], row: usize) -> impl Iterator<Item = usize> {
    let taps: usize = outer.iter().map(|slide| slide.kernel).product();
    (0..taps).filter_map(move |tap| {
        let (mut tap, mut row, mut line, mut step) = (tap, row, 0, 1);
        for slide in outer.iter().rev() {
            line += slide.place(row % slide.output, tap % slide.kernel)? * step;
            (tap, row, step) = (tap / slide.kernel, row / slide.output, step * slide.input);
        }
        Some(line)
    })
}

/// Takes the elements a stride apart where they are greater, or where they are the first of their
/// windows.
fn fold<T: PoolElement>(values: &mut [T], elements: &[T], stride: usize, new: usize) {
    fn greater<'a, T: PoolElement>(values: &mut [T], elements: impl Iterator<Item = &'a T>) {
        for (value, element) in values.iter_mut().zip(elements) {
            *value = if *value < *element { *element } else { *value };
        }
    }
    let (first, begun) = values.split_at_mut(new);
    for (value, element) in first.iter_mut().zip(elements.iter().step_by(stride)) {
        *value = *element;
    }
    let elements = elements.get(new * stride..).unwrap_or_default();
    match stride {
        1 => greater(begun, elements.iter()),
        _ => greater(begun, elements.iter().step_by(stride)),
    }
}

/// The same, with their places, of which that of the first element is given.
fn fold_places<T: PoolElement>(
    values: &mut [T],
    places: &mut [i64],
    elements: &[T],
    stride: usize,
    (new, at): (usize, usize),
) {
    let values = values.iter_mut().zip(places);
    let elements = elements.iter().step_by(stride).enumerate();
    for ((value, place), (index, element)) in values.zip(elements) {
        if index < new || *value < *element {
            *value = *element;
            *place = (at + index * stride) as i64;
        }
    }
}

impl Op for Greatest {
    fn name(&self) -> StaticName {
        "MaxPool".into()
    }

    fn info(&self) -> TractResult<Vec<String>> {
        Ok(self.spec.info())
    }

    op_as_typed_op!();
}

impl EvalOp for Greatest {
    op_out_of_plan!();

    fn eval(&self, _: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let input = args_1!(inputs);
        match input.datum_type() {
            DatumType::F16 => self.pool::<f16>(&input),
            DatumType::F32 => self.pool::<f32>(&input),
            DatumType::F64 => self.pool::<f64>(&input),
            DatumType::I8 => self.pool::<i8>(&input),
            DatumType::I16 => self.pool::<i16>(&input),
            DatumType::I32 => self.pool::<i32>(&input),
            DatumType::I64 => self.pool::<i64>(&input),
            DatumType::U8 => self.pool::<u8>(&input),
            DatumType::U16 => self.pool::<u16>(&input),
            DatumType::U32 => self.pool::<u32>(&input),
            DatumType::U64 => self.pool::<u64>(&input),
            ty => bail!("MaxPool of {ty:?}"),
        }
    }
}

impl TypedOp for Greatest {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let mut facts = self.spec.output_facts(inputs)?;
        if let (true, Some(values)) = (self.has_indices, facts.first()) {
            facts.push(DatumType::I64.fact(values.shape.clone()));
        }
        Ok(facts)
    }

    /// Places that nobody asks for are not made.
    fn declutter(&self, model: &TypedModel, node: &TypedNode) -> Patch {
        let is_used = node.outputs.get(1).is_some_and(|places| !places.successors.is_empty());
        if !self.has_indices || is_used || model.outputs.contains(&OutletId::new(node.id, 1)) {
            return Ok(None);
        }
        let mut patch = TypedModelPatch::default();
        let input = node.inputs.first().context("has an input")?;
        let input = patch.tap_model(model, *input)?;
        let op = Greatest { has_indices: false, ..self.clone() };
        for wire in patch.wire_node(&node.name, op, &[input])? {
            patch.shunt_outside(model, node.id.into(), wire)?;
        }
        Ok(Some(patch))
    }

    as_op!();
}

impl Save for Greatest {
    const NAME: &'static str = "tract_onnx_cast_max_pool";

    const OUTPUTS: &'static [&'static str] = &["output", "places"];

    fn save(&self) -> Saved {
        let none = || tvec!(0; self.spec.rank());
        let (kind, before, after) = match &self.spec.padding {
            PaddingSpec::Valid => ("valid", none(), none()),
            PaddingSpec::SameUpper => ("same_upper", none(), none()),
            PaddingSpec::SameLower => ("same_lower", none(), none()),
            PaddingSpec::Explicit(before, after) => ("explicit", before.clone(), after.clone()),
            PaddingSpec::ExplicitOnnxPool(before, after, is_ceiled) => {
                (if *is_ceiled { "ceiled" } else { "floored" }, before.clone(), after.clone())
            }
        };
        let PoolSpec { kernel_shape, input_channels, .. } = &self.spec;
        let (strides, dilations) = (self.spec.strides().to_vec(), self.spec.dilations().to_vec());
        let saved = Saved::default().with(&self.column_major).with(&self.has_indices);
        let saved = saved.with(input_channels).with(kernel_shape).with(&strides).with(&dilations);
        saved.with(&kind.to_owned()).with(&before).with(&after)
    }

    fn restore(_: Label, row: &mut Row) -> TractResult<Greatest> {
        let (column_major, has_indices) = row.take()?;
        let channels = row.take()?;
        let [kernel, strides, dilations]: [TVec<usize>; 3] = row.take()?;
        let kind: String = row.take()?;
        let [before, after]: [TVec<usize>; 2] = row.take()?;
        let are_all = [&strides, &dilations, &before, &after].map(|all| all.len() == kernel.len());
        ensure!(are_all == [true; 4], "has not a number for each axis");
        ensure!(strides.iter().all(|stride| *stride > 0), "has strides of {strides:?}");
        let padding = match kind.as_str() {
            "valid" => PaddingSpec::Valid,
            "same_upper" => PaddingSpec::SameUpper,
            "same_lower" => PaddingSpec::SameLower,
            "explicit" => PaddingSpec::Explicit(before, after),
            kind => PaddingSpec::ExplicitOnnxPool(before, after, kind == "ceiled"),
        };
        let (dilations, strides) = (Some(dilations), Some(strides));
        let format = DataFormat::NCHW;
        let spec = PoolSpec::new(format, kernel, padding, dilations, strides, channels, channels);
        Ok(Greatest { spec, column_major, has_indices })
    }
}
