//! `GridSample` of FLOATs, `linear` and `nearest`: the places and weights of a point are computed
//! once for all channels.
//!
//! tract computes them for each channel anew, in vectors that it allocates (tract-core,
//! `ops/nn/grid_sample.rs`). The arithmetic is the same here, and so are the bits. What else there
//! is, tract computes in FLOAT: here it is in `doubles`.

mod doubles;

use std::mem::discriminant;

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_core::ops::nn::grid_sample::{GridSample, InterpolationMode, PaddingMode};

use crate::ops::host::element_wise::typed_op;
use crate::ops::host::hook::{Hook, HookSite, Instead};
use crate::ops::host::hooked::build_hooked;
use crate::ops::host::label::Label;
use crate::ops::host::saved::{Row, Save, Saved};
use crate::ops::host::stock::Built;
use doubles::{Axis, Batch};

/// How many points are computed together.
const POINTS: usize = 512;

/// `GridSample` of floats, and of the nearest integers.
#[derive(Debug, Clone)]
pub(crate) struct GridSampler(GridSample);

impl PartialEq for GridSampler {
    fn eq(&self, other: &GridSampler) -> bool {
        let GridSampler(GridSample { mode, padding_mode, align_corners }) = self;
        discriminant(mode) == discriminant(&other.0.mode)
            && discriminant(padding_mode) == discriminant(&other.0.padding_mode)
            && *align_corners == other.0.align_corners
    }
}

impl Eq for GridSampler {}

/// Builds tract's operator, in whose place ours is wired.
pub(crate) fn build(context: &ParsingContext, node: &NodeProto) -> Built {
    build_hooked(context, node, node, Hook::Instead(wire))
}

fn wire(site: &HookSite, model: &mut TypedModel, inputs: &[OutletId]) -> Instead {
    let Some(data) = inputs.first() else { return Ok(None) };
    let ty = model.outlet_fact(*data)?.datum_type;
    let wires = site.wire_stock(model, inputs)?;
    let Some(made) = wires.first() else { return Ok(None) };
    let node = model.node_mut(made.node);
    if let Some(op) = node.op_as::<GridSample>().cloned() {
        let is_small = ty.size_of() < 8 && (ty.is_integer() || ty == DatumType::Bool);
        if !ty.is_float() && (op.mode != InterpolationMode::Nearest || !is_small) {
            bail!(site.error(format!("has data of {ty:?} and the mode {}", op.mode.as_str())));
        }
        node.op = Box::new(GridSampler(op));
    }
    Ok(Some(wires))
}

impl GridSampler {
    /// Where a coordinate from −1 to 1 is along an axis, and within its bounds where it is not
    /// padded with zeros.
    #[allow(clippy::cast_precision_loss, reason = "as tract computes")]
    fn place(&self, coordinate: f32, size: usize) -> (f32, (f32, f32)) {
        let size = size as f32;
        if self.0.align_corners {
            ((coordinate + 1.0) / 2.0 * (size - 1.0), (0.0, size - 1.0))
        } else {
            (((coordinate + 1.0) * size - 1.0) / 2.0, (-0.5, size - 0.5))
        }
    }

    /// An index along an axis, or nothing where there is a zero.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        reason = "it is within the axis"
    )]
    fn index(&self, index: i64, size: usize) -> Option<usize> {
        match self.0.padding_mode {
            PaddingMode::Zeros => usize::try_from(index).ok().filter(|index| *index < size),
            PaddingMode::Border => {
                Some(usize::try_from(index).unwrap_or(0).min(size.saturating_sub(1)))
            }
            PaddingMode::Reflection => {
                let (_, (low, high)) = self.place(0.0, size);
                Some((reflect(index as f32, low, high) as usize).min(size.saturating_sub(1)))
            }
        }
    }

    /// The places of a point's data, and their weights.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        reason = "as tract computes"
    )]
    fn corners(&self, axes: &[Axis], point: &[f32], corners: &mut Vec<(usize, f32)>) {
        let is_nearest = self.0.mode == InterpolationMode::Nearest;
        let mut places: TVec<f32> = tvec!();
        let mut is_outside = false;
        for ((size, _), coordinate) in axes.iter().zip(point.iter().rev()) {
            let (place, (low, high)) = self.place(*coordinate, *size);
            let place = if is_nearest { place.round_ties_even() } else { place };
            is_outside |= place < low || place > high;
            places.push(place);
        }
        for (place, (size, _)) in places.iter_mut().zip(axes).filter(|_| is_outside) {
            let (_, (low, high)) = self.place(0.0, *size);
            *place = match self.0.padding_mode {
                PaddingMode::Zeros => *place,
                PaddingMode::Border if *place < 0.0 => 0.0,
                PaddingMode::Border if *place > high + low => high + low,
                PaddingMode::Border => *place,
                PaddingMode::Reflection => reflect(*place, low, high),
            };
        }
        for corner in 0..if is_nearest { 1 } else { 1usize << axes.len().min(16) } {
            let (mut offset, mut weight) = (Some(0), 1.0);
            for (at, ((size, stride), place)) in axes.iter().zip(&places).enumerate() {
                let first = if is_nearest { *place as i64 } else { place.floor() as i64 };
                let index = if corner >> at & 1 == 0 {
                    weight *= if is_nearest { 1.0 } else { first.saturating_add(1) as f32 - place };
                    first
                } else {
                    weight *= place - first as f32;
                    first.saturating_add(1)
                };
                let index = self.index(index, *size);
                offset = offset.zip(index).map(|(offset, index)| offset + index * stride);
            }
            corners.push((offset.unwrap_or(usize::MAX), weight));
        }
    }

    fn of_batch(&self, axes: &[Axis], batch: Batch<f32>, points: usize) {
        let Batch { data, grid, made } = batch;
        let volume: usize = axes.iter().map(|(size, _)| size).product();
        let is_nearest = self.0.mode == InterpolationMode::Nearest;
        let each = if is_nearest { 1 } else { 1usize << axes.len().min(16) };
        for (block, some) in grid.chunks((POINTS * axes.len()).max(1)).enumerate() {
            let mut corners = vec![];
            for point in some.chunks(axes.len().max(1)) {
                self.corners(axes, point, &mut corners);
            }
            let channels = data.chunks(volume.max(1)).zip(made.chunks_mut(points.max(1)));
            for (data, made) in channels {
                let made = made.iter_mut().skip(block * POINTS);
                for (made, corners) in made.zip(corners.chunks(each)) {
                    let at = |offset: &usize| data.get(*offset).copied().unwrap_or(0.0);
                    *made = match corners {
                        [(offset, _)] => at(offset),
                        corners => corners
                            .iter()
                            .map(|(offset, weight)| weight * at(offset))
                            .fold(0.0, |sum, x| sum + x),
                    };
                }
            }
        }
    }
}

/// What each batch of the data and the grid is made.
fn batches_of<T: Datum + Copy>(
    data: &Tensor,
    grid: &Tensor,
    shape: &[usize],
    of_batch: impl Fn(Batch<T>),
) -> TractResult<Tensor> {
    let mut made = Tensor::zero_dt(T::datum_type(), shape)?;
    let batches = shape.first().copied().unwrap_or(0).max(1);
    let part = |tensor: &Tensor| (tensor.len() / batches).max(1);
    let each = part(&made);
    let mut plain = made.try_as_plain_ram_mut()?;
    let (data_plain, grid_plain) = (data.try_as_plain_ram()?, grid.try_as_plain_ram()?);
    let data = data_plain.as_slice::<T>()?.chunks(part(data));
    let grid = grid_plain.as_slice::<T>()?.chunks(part(grid));
    for ((data, grid), made) in data.zip(grid).zip(plain.as_slice_mut::<T>()?.chunks_mut(each)) {
        of_batch(Batch { data, grid, made });
    }
    Ok(made)
}

/// tract's reflection at both ends.
fn reflect(x: f32, low: f32, high: f32) -> f32 {
    let range = high - low;
    if range == 0.0 || x.is_infinite() {
        return low;
    }
    let (beyond, is_below) = if x < low {
        (low - x, true)
    } else if x > high {
        (x - high, false)
    } else {
        return x;
    };
    let times = (beyond / range).floor();
    // A place that is so far off has no digits left of where it is between the ends.
    let rest = (beyond - times * range).clamp(0.0, range);
    if (times % 2.0 == 0.0) == is_below { low + rest } else { high - rest }
}

typed_op!(GridSampler, "GridSample");

impl EvalOp for GridSampler {
    op_out_of_plan!();

    fn eval(&self, _: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let (data, grid) = args_2!(inputs);
        let ([batches, channels, sizes @ ..], [_, places @ .., _]) = (data.shape(), grid.shape())
        else {
            bail!("has data of rank {} and a grid of rank {}", data.rank(), grid.rank());
        };
        let rank = sizes.len();
        ensure!(grid.shape().last() == Some(&rank), "a point of the grid has {rank} coordinates");
        let axes: Vec<Axis> = (0..rank)
            .map(|at| {
                let (size, rest) = (sizes.get(at), sizes.get(at + 1..));
                (size.copied().unwrap_or(0), rest.unwrap_or_default().iter().product())
            })
            .collect();
        let points: usize = places.iter().product();
        let shape: TVec<usize> =
            [*batches, *channels].into_iter().chain(places.iter().copied()).collect();
        let floats = [data.datum_type(), grid.datum_type()] == [DatumType::F32; 2];
        let of_doubles = |batch: Batch<f64>| doubles::of_batch(&self.0, &axes, batch, points);
        let of_floats = |batch: Batch<f32>| self.of_batch(&axes, batch, points);
        let made = if floats && self.0.mode != InterpolationMode::Bicubic {
            batches_of(&data, &grid, &shape, of_floats)?
        } else {
            let made =
                batches_of(&*data.cast_to::<f64>()?, &*grid.cast_to::<f64>()?, &shape, of_doubles)?;
            made.cast_to_dt(data.datum_type())?.into_owned()
        };
        Ok(tvec!(made.into_tvalue()))
    }
}

impl TypedOp for GridSampler {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        self.0.output_facts(inputs)
    }

    as_op!();
}

impl Save for GridSampler {
    const NAME: &'static str = "tract_onnx_cast_grid_sample";

    fn save(&self) -> Saved {
        let GridSample { mode, padding_mode, align_corners } = &self.0;
        let modes = [mode.as_str(), padding_mode.as_str()].map(String::from);
        Saved::default().with(&modes).with(align_corners)
    }

    fn restore(_: Label, row: &mut Row) -> TractResult<GridSampler> {
        let (mode, padding_mode): (String, String) = row.take()?;
        let mode = InterpolationMode::parse(&mode)?;
        let padding_mode = PaddingMode::parse(&padding_mode)?;
        Ok(GridSampler(GridSample { mode, padding_mode, align_corners: row.take()? }))
    }
}
