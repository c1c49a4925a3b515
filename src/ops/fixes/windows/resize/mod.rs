//! `Resize` of all versions and types.
//!
//! tract computes all types in FLOAT, in which an INT32 or a DOUBLE is another number, even where
//! elements are taken as they are, has −0.5 as the place of one element by `pytorch_half_pixel`,
//! and goes along axes in an order that makes the most of the largest (tract-onnx-opl, `resize.rs`;
//! tract-core, `ops/nn/resize.rs`).
//!
//! - `plan`: which elements of an axis one is made of; `axis`: making it; `node`: reading a node,
//!   and shapes

mod axis;
mod node;
mod plan;

use tract_onnx::tract_core::internal::*;

use crate::ops::fixes::recurrent::Real;
use crate::ops::host::element_wise::typed_op;
use crate::ops::host::hook::{refused, unplanned};
use crate::ops::host::integers::read;
use crate::ops::host::label::Label;
use crate::ops::host::saved::{by_debug, save};
pub(crate) use node::build;
use plan::{Coordinates, Mode, ResizeAxis, Rule};

/// `keep_aspect_ratio_policy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Aspect {
    Stretch,
    NotLarger,
    NotSmaller,
}

impl Aspect {
    const ALL: [(&'static str, Aspect); 3] = [
        ("stretch", Aspect::Stretch),
        ("not_larger", Aspect::NotLarger),
        ("not_smaller", Aspect::NotSmaller),
    ];
}

/// Resizes its first input along axes, by the second's scales or sizes, in the region of a third.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Resize {
    node: Label,
    rule: Rule,
    aspect: Aspect,
    extrapolation_value: f32,
    /// Those that scales, sizes and regions are given for.
    axes: TVec<usize>,
    /// Whether the second input has sizes, and not scales.
    has_sizes: bool,
}

impl Eq for Resize {}

/// The variant that has a name.
fn named<T: Copy>(all: &[(&str, T)], name: &str) -> Option<T> {
    all.iter().find(|(own, _)| *own == name).map(|(_, variant)| *variant)
}

/// FLOATs, one for each axis or two.
fn numbers(tensor: &Tensor) -> TractResult<Vec<f32>> {
    Ok(tensor.cast_to::<f32>()?.try_as_plain_ram()?.as_slice::<f32>()?.to_vec())
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "sizes of axes, computed in FLOAT as ONNX Runtime and tract do"
)]
impl Resize {
    fn error(&self, problem: impl Into<String>) -> TractError {
        refused(&self.node, "Resize", problem).into()
    }

    /// A size by a scale.
    fn scaled(size: usize, scale: f32) -> usize {
        (size as f32 * scale) as usize
    }

    /// The scale that all axes share, and a size by it.
    fn share(&self, sizes: &[(usize, usize)]) -> Option<f64> {
        let ratios = sizes.iter().map(|(before, size)| *size as f64 / *before as f64);
        match self.aspect {
            Aspect::Stretch => None,
            Aspect::NotLarger => ratios.reduce(f64::min),
            Aspect::NotSmaller => ratios.reduce(f64::max),
        }
    }

    fn shared(size: usize, scale: f32) -> usize {
        (size as f32 * scale + 0.5) as usize
    }

    /// The axes that change, given the inputs' values.
    fn changes(&self, inputs: &[TValue], symbols: &SymbolValues) -> TractResult<Vec<ResizeAxis>> {
        let (Some(data), Some(by)) = (inputs.first(), inputs.get(1)) else {
            bail!(self.error("has neither scales nor sizes"));
        };
        let is_double = data.datum_type() == DatumType::F64;
        let size = |at: &usize| data.shape().get(*at).copied().unwrap_or(0);
        let befores: Vec<usize> = self.axes.iter().map(size).collect();
        let (afters, scales): (Vec<usize>, Vec<f64>) = if self.has_sizes {
            let sizes = read(by, symbols)?;
            let sizes: Result<Vec<usize>, _> =
                sizes.iter().map(|size| (*size).try_into()).collect();
            let pairs: Vec<(usize, usize)> = befores.iter().copied().zip(sizes?).collect();
            let share = self.share(&pairs);
            let made = |(before, size): &(usize, usize)| match share {
                Some(scale) => (Resize::shared(*before, scale as f32), scale),
                None => (*size, *size as f64 / *before as f64),
            };
            let round = |scale: f64| if is_double { scale } else { f64::from(scale as f32) };
            let made = |pair: &(usize, usize)| {
                let (after, scale) = made(pair);
                (after, round(scale))
            };
            pairs.iter().map(made).unzip()
        } else {
            let pairs = befores.iter().zip(numbers(by)?);
            pairs.map(|(before, scale)| (Resize::scaled(*before, scale), f64::from(scale))).unzip()
        };
        let count = self.axes.len();
        ensure!(afters.len() == count, self.error(format!("takes {count} scales or sizes")));
        let regions = self.regions(inputs.get(2))?;
        let axes = self.axes.iter().zip(befores).zip(afters.into_iter().zip(scales)).zip(regions);
        let axes = axes.map(|(((at, before), (after, scale)), region)| ResizeAxis {
            at: *at,
            before,
            after,
            scale,
            region,
        });
        let is_whole = |axis: &ResizeAxis| {
            axis.scale == 1.0 && axis.before == axis.after && axis.region == (0.0, 1.0)
        };
        let mut axes: Vec<ResizeAxis> = axes.filter(|axis| !is_whole(axis)).collect();
        // What becomes less comes first, and then what is copied in the shortest rows.
        axes.sort_by_key(|axis| (axis.after >= axis.before, usize::MAX - axis.at));
        Ok(axes)
    }

    /// From where to where each axis goes, which only one way of coordinates looks at.
    fn regions(&self, region: Option<&TValue>) -> TractResult<Vec<(f64, f64)>> {
        let count = self.axes.len();
        let region = match region {
            Some(region) if self.rule.coordinates == Coordinates::TfCropAndResize => region,
            _ => return Ok(vec![(0.0, 1.0); count]),
        };
        let region = region.cast_to::<f64>()?;
        let view = region.try_as_plain_ram()?;
        let (starts, ends) = match view.as_slice::<f64>()?.split_at_checked(count) {
            Some((starts, ends)) if ends.len() == count => (starts, ends),
            _ => bail!(self.error(format!("takes a region of {} numbers", 2 * count))),
        };
        Ok(starts.iter().copied().zip(ends.iter().copied()).collect())
    }

    /// Weighted sums in a type, along each axis.
    fn weighted<T: Real>(&self, data: &Tensor, axes: &[ResizeAxis]) -> TractResult<Tensor> {
        let is_single = T::datum_type() == DatumType::F32 || !data.datum_type().is_float();
        let mut shape: TVec<usize> = data.shape().into();
        let numbers = data.cast_to::<T>()?;
        let mut numbers = numbers.try_as_plain_ram()?.as_slice::<T>()?.to_vec();
        let extrapolated = self.extrapolation_value.into();
        for axis in axes {
            let plan = self.rule.plan(axis, is_single)?;
            let inner = shape.get(axis.at + 1..).unwrap_or_default().iter().product();
            numbers = axis::weighted(&numbers, axis.before, inner, &plan, extrapolated)?;
            set(&mut shape, axis);
        }
        Tensor::from_shape(&shape, &numbers)
    }

    /// Elements as they are, along each axis.
    fn taken(&self, data: &Tensor, axes: &[ResizeAxis]) -> TractResult<Tensor> {
        let ty = data.datum_type();
        let other = tensor0(self.extrapolation_value).cast_to_dt(ty)?.into_owned();
        let other = other.try_as_plain_ram()?.as_bytes().to_vec();
        let mut shape: TVec<usize> = data.shape().into();
        let mut bytes = data.try_as_plain_ram()?.as_bytes().to_vec();
        for axis in axes {
            let plan = self.rule.plan(axis, ty != DatumType::F64)?;
            let inner = shape.get(axis.at + 1..).unwrap_or_default().iter().product();
            bytes = axis::taken(&bytes, axis.before, inner, &plan, &other)?;
            set(&mut shape, axis);
        }
        let mut made = Tensor::zero_dt(ty, &shape)?;
        made.try_as_plain_ram_mut()?.as_bytes_mut().copy_from_slice(&bytes);
        Ok(made)
    }

    /// Numbers as integers of a type. ONNX Runtime cuts off what `linear` makes; what it has not is
    /// rounded as in onnx's evaluator. What is not quite a whole number only for the coordinates'
    /// rounding is that, as a sum of FLOATs is.
    fn whole(&self, numbers: &Tensor, ty: DatumType) -> TractResult<Tensor> {
        let is_cut = self.rule.mode == Mode::Linear && !self.rule.antialias;
        let view = numbers.try_as_plain_ram()?;
        let numbers = view.as_slice::<f64>()?.iter();
        let cut = |x: f64| {
            const AT_MOST: f64 = 1e-3;
            let whole = x.round();
            let is_whole =
                (x - whole).abs() <= (whole.abs() * f64::from(f32::EPSILON / 2.0)).min(AT_MOST);
            if is_whole { whole } else { x.trunc() }
        };
        let numbers = numbers.map(|x| if is_cut { cut(*x) } else { x.round_ties_even() });
        macro_rules! cast {
            ($($name:ident $ty:ty),*) => {
                match ty {
                    $(DatumType::$name => tensor1(&numbers.map(|x| x as $ty).collect::<Vec<_>>()),)*
                    _ => bail!(self.error(format!("is of {ty:?}"))),
                }
            };
        }
        Ok(cast!(I8 i8, I16 i16, I32 i32, I64 i64, U8 u8, U16 u16, U32 u32, U64 u64))
    }
}

/// The size of an axis from here on.
fn set(shape: &mut [usize], axis: &ResizeAxis) {
    if let Some(size) = shape.get_mut(axis.at) {
        *size = axis.after;
    }
}

typed_op!(Resize, "Resize");

impl EvalOp for Resize {
    op_out_of_plan!();

    fn eval(&self, context: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let axes = self.changes(&inputs, context.symbols)?;
        let Some(data) = inputs.into_iter().next() else { bail!(self.error("has no input")) };
        let ty = data.datum_type();
        let mut shape: TVec<usize> = data.shape().into();
        axes.iter().for_each(|axis| set(&mut shape, axis));
        if axes.is_empty() {
            return Ok(tvec!(data));
        }
        if shape.contains(&0) {
            return Ok(tvec!(Tensor::zero_dt(ty, &shape)?.into_tvalue()));
        }
        if axes.iter().any(|axis| axis.before == 0) {
            bail!(self.error("makes elements of an axis that has none"));
        }
        let made = match ty {
            _ if self.rule.mode.is_nearest() => self.taken(&data, &axes)?,
            DatumType::F32 => self.weighted::<f32>(&data, &axes)?,
            DatumType::F16 => self.weighted::<f32>(&data, &axes)?.cast_to_dt(ty)?.into_owned(),
            DatumType::F64 => self.weighted::<f64>(&data, &axes)?,
            _ => {
                let made = self.weighted::<f64>(&data, &axes)?;
                self.whole(&made, ty)?.into_shape(made.shape())?
            }
        };
        Ok(tvec!(made.into_tvalue()))
    }
}

impl TypedOp for Resize {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let [data, by, ..] = inputs else { bail!(self.error("has neither scales nor sizes")) };
        let Some(by) = &by.konst else {
            let problem = "has scales or sizes that are only known when the model runs";
            bail!(unplanned(&self.node, "Resize", problem));
        };
        Ok(tvec!(data.datum_type.fact(self.made_shape(&data.shape, by)?)))
    }

    as_op!();
}

by_debug!(Aspect, Aspect::ALL.into_iter().map(|(_, aspect)| aspect));
save!(
    Resize,
    "tract_onnx_cast_resize",
    node { rule, aspect, extrapolation_value, has_sizes, axes }
);
