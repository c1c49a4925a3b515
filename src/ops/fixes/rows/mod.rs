//! `LogSoftmax`, `Hardmax`, `ReduceLogSumExp`, `ArgMax` and `ArgMin` of floats, and `Softmax` of
//! FLOAT but for long rows.
//!
//! tract takes the logarithm of a sum that has overflowed or vanished (tract-core,
//! `ops/nn/softmax/mod.rs`; tract-onnx, `ops/math`), passes NaN by when it looks for an extreme
//! (`ops/nn/reduce.rs`), and goes through columns and short rows of `Softmax` one by one.

pub(crate) mod batch;
mod columns;
pub(crate) mod cumulated;
mod last;

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_core::ndarray::{ArrayD, IxDyn};

use super::functions::exp_of_difference;
use crate::cast::kernel::level::Level;
use crate::onnx::node::from_front;
use crate::ops::fixes::arithmetic::reduce::{kept_first, reduced, wire_of};
use crate::ops::fixes::arithmetic::sum::lanes::sum_of_row;
use crate::ops::fixes::shapes::is_empty;
use crate::ops::host::element_wise::{along_axes, mapping_apart, typed_op};
use crate::ops::host::hook::{Hook, HookSite, Instead, Mapped};
use crate::ops::host::hooked::build_hooked;
use crate::ops::host::saved::{by_debug, save};
use crate::ops::host::stock::Built;

/// What is made of the elements along the axes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Makes {
    /// Of each its difference from the logarithm of the sum of the exponentials.
    LogSoftmax,
    LogSumExp,
    /// Of each its exponential's share of their sum.
    Softmax,
    /// One for the largest, the first of several, and zero for the others.
    Hardmax,
    /// The place of the largest, the first of NaN where there is one; of several the first or the
    /// last.
    ArgMax {
        last: bool,
    },
    ArgMin {
        last: bool,
    },
}

impl Makes {
    const ALL: [Makes; 8] = [
        Makes::LogSoftmax,
        Makes::LogSumExp,
        Makes::Softmax,
        Makes::Hardmax,
        Makes::ArgMax { last: false },
        Makes::ArgMax { last: true },
        Makes::ArgMin { last: false },
        Makes::ArgMin { last: true },
    ];

    /// Whether there is an element for each, and not for each row.
    fn is_softmax(self) -> bool {
        matches!(self, Makes::LogSoftmax | Makes::Softmax | Makes::Hardmax)
    }

    fn is_place(self) -> bool {
        matches!(self, Makes::ArgMax { .. } | Makes::ArgMin { .. })
    }
}

/// Something made of the elements along some axes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rows {
    pub(crate) makes: Makes,
    pub(crate) axes: TVec<usize>,
}

/// Wires the reductions of floats.
pub(crate) fn reduction(site: &HookSite, model: &mut TypedModel, inputs: &[OutletId]) -> Instead {
    let last = site.int("select_last_index", 0)? != 0;
    let makes = match site.proto.op_type.as_str() {
        "ArgMax" => Makes::ArgMax { last },
        "ArgMin" => Makes::ArgMin { last },
        "ReduceLogSumExp" => Makes::LogSumExp,
        _ => return Ok(None),
    };
    wire_of(site, model, inputs, |ty| ty.is_float(), |axes| Rows { makes, axes })
}

/// The softmax of each row of `len` FLOATs in its place; of a row of which all are minus infinity
/// it is no number.
pub(super) fn softmax_of_rows(rows: &mut [f32], len: usize) {
    last::softmax(Level::best(), rows, len);
}

/// Builds tract's `Softmax`, in whose place ours is wired where it is faster.
pub(crate) fn build_softmax(context: &ParsingContext, node: &NodeProto) -> Built {
    build_hooked(context, node, node, Hook::Instead(softmax))
}

/// Wires `LogSoftmax`, `Hardmax` and `Softmax`, which are of all axes from one on before opset 13.
pub(crate) fn softmax(site: &HookSite, model: &mut TypedModel, inputs: &[OutletId]) -> Instead {
    let [input] = inputs else { return Ok(None) };
    let fact = model.outlet_fact(*input)?;
    if !fact.datum_type.is_float() {
        return Ok(None);
    }
    let (rank, is_empty) = (fact.rank(), is_empty(fact));
    let named = site.int("axis", if site.opset < 13 { 1 } else { -1 })?;
    // Then there may be none.
    let behind = Some(rank).filter(|rank| named == *rank as i64 && site.opset < 13);
    let Some(axis) = from_front(named, rank).or(behind) else {
        bail!(site.error(format!("has no axis {named}, its input's rank is {rank}")));
    };
    let axes = if site.opset < 13 { (axis..rank).collect() } else { tvec!(axis) };
    let is_open = fact.shape.iter().any(|dim| dim.as_i64().is_none());
    let is_last = axis + axes.len() == rank;
    let row: TDim = axes.iter().filter_map(|axis| fact.shape.get(*axis)).product();
    let is_short = row.to_usize().is_ok_and(|len| len < last::LONG);
    let makes = match site.proto.op_type.as_str() {
        "LogSoftmax" => Makes::LogSoftmax,
        "Hardmax" => Makes::Hardmax,
        _ if is_empty => return Ok(Some(tvec!(*input))),
        // tract's is right, but for what turns out to have no elements, and has kernels for long
        // rows that stand one after the other.
        _ if fact.datum_type != DatumType::F32 && !is_open => return Ok(None),
        _ if fact.datum_type == DatumType::F32 && is_last && !is_short => return Ok(None),
        _ => Makes::Softmax,
    };
    model.wire_node(&site.name, Rows { makes, axes }, inputs).map(Some)
}

/// The largest of a row, or NaN.
fn largest(row: &[f64]) -> f64 {
    let take = |so_far: f64, x: &f64| if *x > so_far || x.is_nan() { *x } else { so_far };
    row.iter().fold(f64::NEG_INFINITY, take)
}

/// The largest of what is a number in a row.
#[inline(always)]
fn largest_in_lanes(row: &[f32]) -> f32 {
    let larger = |so_far: f32, x: f32| if x > so_far { x } else { so_far };
    let mut lanes = [f32::NEG_INFINITY; 16];
    let (parts, rest) = row.as_chunks::<16>();
    for part in parts {
        for (lane, x) in lanes.iter_mut().zip(part) {
            *lane = larger(*lane, *x);
        }
    }
    lanes.into_iter().chain(rest.iter().copied()).fold(f32::NEG_INFINITY, larger)
}

/// The logarithm of the sum of e^(x − largest).
fn log_of_sum(row: &[f64], largest: f64, is_double: bool) -> f64 {
    if is_double {
        return row.iter().map(|x| (x - largest).exp()).sum::<f64>().ln();
    }
    #[allow(clippy::cast_possible_truncation, reason = "they are FLOATs")]
    let row: Vec<f32> = row.iter().map(|x| *x as f32).collect();
    #[allow(clippy::cast_possible_truncation, reason = "it is a FLOAT")]
    sum_of_powers(&row, largest as f32).ln()
}

/// The sum of e^(x − largest), to a FLOAT's precision of what it is more than a term of 1.
fn sum_of_powers(row: &[f32], largest: f32) -> f64 {
    let level = Level::best();
    if level.fuses() {
        level.run(
            #[inline(always)]
            || sum_of_row::<f32, 16>(row, &|x| exp_of_difference::<true>(x, largest).into()),
        )
    } else {
        sum_of_row::<f32, 16>(row, &|x| exp_of_difference::<false>(x, largest).into())
    }
}

impl Rows {
    /// The place of the first NaN, or of the best.
    fn place(row: &[f64], is_better: fn(f64, f64) -> bool, last: bool) -> usize {
        if let Some(place) = row.iter().position(|x| x.is_nan()) {
            return place;
        }
        let mut best = 0;
        for (place, x) in row.iter().enumerate() {
            let so_far = row.get(best).copied().unwrap_or(*x);
            if is_better(*x, so_far) || last && *x == so_far {
                best = place;
            }
        }
        best
    }

    /// Rows of elements, one after the other, each of which becomes a row or one element.
    fn of(&self, values: &mut Vec<f64>, len: usize, is_double: bool) {
        if self.makes == Makes::Hardmax {
            for row in values.chunks_mut(len.max(1)) {
                let place = Rows::place(row, |a, b| a > b, false);
                for (at, x) in row.iter_mut().enumerate() {
                    *x = if at == place { 1.0 } else { 0.0 };
                }
            }
            return;
        }
        if self.makes.is_softmax() {
            for row in values.chunks_mut(len.max(1)) {
                let largest = largest(row);
                let sum = log_of_sum(row, largest, is_double);
                for x in row {
                    *x = (*x - largest) - sum;
                    *x = if self.makes == Makes::Softmax { x.exp() } else { *x };
                }
            }
            return;
        }
        #[allow(clippy::cast_precision_loss, reason = "no tensor has 2^53 elements")]
        let of_row = |row: &[f64]| match self.makes {
            Makes::ArgMax { last } => Rows::place(row, |a, b| a > b, last) as f64,
            Makes::ArgMin { last } => Rows::place(row, |a, b| a < b, last) as f64,
            _ => {
                let largest = largest(row);
                if largest.is_finite() {
                    largest + log_of_sum(row, largest, is_double)
                } else {
                    largest
                }
            }
        };
        *values = values.chunks(len.max(1)).map(of_row).collect();
    }
}

impl Rows {
    /// One element for each row of `len` FLOATs.
    #[allow(clippy::cast_possible_truncation, reason = "they are places, or rounded to FLOAT")]
    fn of_each_row(&self, input: &Tensor, len: usize) -> TractResult<Tensor> {
        let plain = input.try_as_plain_ram()?;
        let mut values: Vec<f64> = plain.as_slice::<f32>()?.iter().map(|x| (*x).into()).collect();
        self.of(&mut values, len, false);
        let shape = reduced(input.shape(), &self.axes);
        if self.makes.is_place() {
            let places: Vec<i64> = values.into_iter().map(|place| place as i64).collect();
            Tensor::from_shape(&shape, &places)
        } else {
            let numbers: Vec<f32> = values.into_iter().map(|number| number as f32).collect();
            Tensor::from_shape(&shape, &numbers)
        }
    }

    /// The same of FLOATs that stand one after the other along the axes, row by row.
    #[allow(clippy::cast_possible_truncation, reason = "it is rounded to FLOAT")]
    fn of_floats_in_rows(&self, input: &Tensor) -> TractResult<Option<Tensor>> {
        let first = input.rank() - self.axes.len().min(input.rank());
        let is_last = self.axes.iter().copied().eq(first..input.rank());
        let is_logarithm = self.makes == Makes::LogSoftmax;
        let is_either = is_logarithm || self.makes == Makes::Softmax;
        if input.datum_type() != DatumType::F32 || !is_last {
            return Ok(None);
        }
        let len: usize = input.shape().iter().skip(first).product();
        if len > 0 && !self.makes.is_softmax() {
            return self.of_each_row(input, len).map(Some);
        }
        if !is_either {
            return Ok(None);
        }
        let mut made = input.clone();
        let mut plain = made.try_as_plain_ram_mut()?;
        if !is_logarithm {
            softmax_of_rows(plain.as_slice_mut::<f32>()?, len);
            return Ok(Some(made));
        }
        let level = Level::best();
        for row in plain.as_slice_mut::<f32>()?.chunks_mut(len.max(1)) {
            // NaN is in the sum.
            let largest = level.run(
                #[inline(always)]
                || largest_in_lanes(row),
            );
            let (sum, largest) = (sum_of_powers(row, largest).ln(), f64::from(largest));
            level.run(
                #[inline(always)]
                || {
                    for x in row.iter_mut() {
                        *x = ((f64::from(*x) - largest) - sum) as f32;
                    }
                },
            );
        }
        Ok(Some(made))
    }
}

impl Rows {
    /// The same of FLOATs along an axis.
    fn of_floats_in_columns(&self, input: TValue, axis: usize) -> TractResult<TVec<TValue>> {
        let mut made = input.into_tensor();
        let len = made.shape().get(axis).copied().context("an axis of the input")?;
        let inner: usize = made.shape().iter().skip(axis + 1).product();
        let is_logarithm = self.makes == Makes::LogSoftmax;
        let mut plain = made.try_as_plain_ram_mut()?;
        for block in plain.as_slice_mut::<f32>()?.chunks_mut((len * inner).max(1)) {
            columns::softmax(Level::best(), block, inner.max(1), is_logarithm);
        }
        Ok(tvec!(made.into_tvalue()))
    }
}

typed_op!(
    Rows,
    |op| match op.makes {
        Makes::ArgMax { .. } => "ArgMax".to_owned(),
        Makes::ArgMin { .. } => "ArgMin".to_owned(),
        other => format!("{other:?}"),
    },
    |op| format!("{:?} along {:?}", op.makes, op.axes)
);

impl EvalOp for Rows {
    op_out_of_plan!();

    fn eval(&self, _: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let input = args_1!(inputs);
        let ty = input.datum_type();
        if let Some(made) = self.of_floats_in_rows(&input)? {
            return Ok(tvec!(made.into_tvalue()));
        }
        if self.makes.is_softmax() && input.len() == 0 {
            return Ok(tvec!(input));
        }
        if ty == DatumType::F32
            && self.makes != Makes::Hardmax
            && let (true, [axis]) = (self.makes.is_softmax(), &*self.axes)
        {
            return self.of_floats_in_columns(input, *axis);
        }
        let order = kept_first(input.rank(), &self.axes);
        let doubles = input.cast_to::<f64>()?;
        let moved = doubles.to_plain_array_view::<f64>()?.permuted_axes(IxDyn(&order));
        let shape = moved.shape().to_vec();
        let len =
            self.axes.iter().map(|axis| input.shape().get(*axis).copied().unwrap_or(1)).product();
        let mut values: Vec<f64> = moved.iter().copied().collect();
        if len == 0 {
            bail!("{:?} along an axis without elements", self.makes);
        }
        self.of(&mut values, len, ty == DatumType::F64);
        let made = if self.makes.is_softmax() {
            let made = ArrayD::from_shape_vec(IxDyn(&shape), values)?;
            let mut back: TVec<usize> = order.clone();
            for (place, axis) in order.iter().enumerate() {
                if let Some(at) = back.get_mut(*axis) {
                    *at = place;
                }
            }
            made.permuted_axes(IxDyn(&back)).as_standard_layout().into_owned()
        } else {
            ArrayD::from_shape_vec(IxDyn(&reduced(input.shape(), &self.axes)), values)?
        };
        let ty = if self.makes.is_place() { DatumType::I64 } else { ty };
        Ok(tvec!(made.into_tensor().cast_to_dt(ty)?.into_owned().into_tvalue()))
    }
}

impl TypedOp for Rows {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let [input] = inputs else { bail!("has {} inputs, not 1", inputs.len()) };
        let mut fact = input.without_value();
        if self.makes.is_place() {
            fact = DatumType::I64.fact(fact.shape);
        }
        for axis in &self.axes {
            ensure!(*axis < fact.rank(), "has no axis {axis}");
            if !self.makes.is_softmax() {
                fact.shape.set(*axis, 1.to_dim());
            }
        }
        Ok(tvec!(fact))
    }

    fn axes_mapping(&self, inputs: &[&TypedFact], _outputs: &[&TypedFact]) -> Mapped {
        mapping_apart(inputs, &self.axes)
    }

    along_axes!(self, self.axes, |axes| Rows { axes, ..self.clone() });

    as_op!();
}

by_debug!(Makes, Makes::ALL.into_iter());
save!(Rows, "tract_onnx_cast_rows", { makes, axes });
