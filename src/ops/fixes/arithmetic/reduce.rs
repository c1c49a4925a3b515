//! `ReduceSum`, `ReduceMean`, … of integers.
//!
//! tract sums integers in 32 bits (tract-core, `ops/nn/reduce.rs`, `q_sum_t`), and squares,
//! exponents and logarithms are of floats only there. Here every number is exact until it is put
//! into the result's type, where it wraps around. The root, the logarithm and the mean are cut
//! towards zero.

use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_core::ndarray::{ArrayD, IxDyn};
use tract_onnx::tract_core::num_traits::One;
use tract_onnx::tract_core::ops::change_axes::AxisOp;
use tract_onnx::tract_core::tract_data::itertools::Itertools;

use crate::error::Error;
use crate::onnx::node::from_front;
use crate::ops::host::element_wise::{along_axes, mapping_apart, typed_op};
use crate::ops::host::hook::{HookSite, Instead, Mapped, Wired, refused};
use crate::ops::host::integers::{WideIntegers, is_integer, read, write};
use crate::ops::host::label::Label;
use crate::ops::host::saved::{by_debug, save};

/// What is made of the elements along the reduced axes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReduceKind {
    ArgMax { last: bool },
    ArgMin { last: bool },
    L1,
    L2,
    LogSum,
    LogSumExp,
    Max,
    Mean,
    Min,
    Prod,
    Sum,
    SumSquare,
}

impl ReduceKind {
    const ALL: [ReduceKind; 14] = [
        ReduceKind::ArgMax { last: false },
        ReduceKind::ArgMax { last: true },
        ReduceKind::ArgMin { last: false },
        ReduceKind::ArgMin { last: true },
        ReduceKind::L1,
        ReduceKind::L2,
        ReduceKind::LogSum,
        ReduceKind::LogSumExp,
        ReduceKind::Max,
        ReduceKind::Mean,
        ReduceKind::Min,
        ReduceKind::Prod,
        ReduceKind::Sum,
        ReduceKind::SumSquare,
    ];

    fn of(site: &HookSite) -> TractResult<Option<ReduceKind>> {
        let last = site.int("select_last_index", 0)? != 0;
        Ok(Some(match site.proto.op_type.as_str() {
            "ArgMax" => ReduceKind::ArgMax { last },
            "ArgMin" => ReduceKind::ArgMin { last },
            "ReduceL1" => ReduceKind::L1,
            "ReduceL2" => ReduceKind::L2,
            "ReduceLogSum" => ReduceKind::LogSum,
            "ReduceLogSumExp" => ReduceKind::LogSumExp,
            "ReduceMax" => ReduceKind::Max,
            "ReduceMean" => ReduceKind::Mean,
            "ReduceMin" => ReduceKind::Min,
            "ReduceProd" => ReduceKind::Prod,
            "ReduceSum" => ReduceKind::Sum,
            "ReduceSumSquare" => ReduceKind::SumSquare,
            _ => return Ok(None),
        }))
    }

    fn is_place(self) -> bool {
        matches!(self, ReduceKind::ArgMax { .. } | ReduceKind::ArgMin { .. })
    }

    /// Whether tract computes it rightly for a type, along axes that have elements or may have
    /// none, of which it makes a place. Of INT8 and the like it clamps sums.
    fn is_right_in_stock(self, ty: DatumType, has_elements: bool) -> bool {
        let is_place = self.is_place() && has_elements;
        let extreme = matches!(self, ReduceKind::Max | ReduceKind::Min) || is_place;
        let tracts =
            !matches!(ty, DatumType::U32 | DatumType::U64 | DatumType::Bool | DatumType::TDim);
        extreme && tracts
    }

    /// The extreme of no elements: the type's other end, as the specification says.
    fn of_nothing(self, ty: DatumType) -> Option<i128> {
        let greatest = match ty {
            DatumType::Bool => 1,
            DatumType::U32 => u32::MAX.into(),
            DatumType::U64 => u64::MAX.into(),
            _ => return None,
        };
        match self {
            ReduceKind::Max => Some(0),
            ReduceKind::Min => Some(greatest),
            _ => None,
        }
    }

    /// The value for the elements, or `None` where there is none for no elements.
    #[allow(clippy::cast_possible_truncation, reason = "as the specification's reference does")]
    #[allow(clippy::cast_precision_loss, reason = "as the specification's reference does")]
    fn reduce(self, elements: impl ExactSizeIterator<Item = i128> + Clone) -> Option<i128> {
        let count = elements.len() as i128;
        let sum = |terms: &mut dyn Iterator<Item = i128>| terms.fold(0, i128::wrapping_add);
        let place = |best: fn(i128, i128) -> bool, last: bool| {
            let mut found: Option<(i128, i128)> = None;
            for (place, element) in (0..).zip(elements.clone()) {
                if found
                    .is_none_or(|(_, so_far)| best(element, so_far) || last && element == so_far)
                {
                    found = Some((place, element));
                }
            }
            found.map(|(place, _)| place)
        };
        Some(match self {
            ReduceKind::ArgMax { last } => return place(|a, b| a > b, last),
            ReduceKind::ArgMin { last } => return place(|a, b| a < b, last),
            ReduceKind::Max => return elements.max(),
            ReduceKind::Min => return elements.min(),
            ReduceKind::Mean if count == 0 => return None,
            ReduceKind::Mean => sum(&mut elements.clone()) / count,
            ReduceKind::Sum => sum(&mut elements.clone()),
            ReduceKind::Prod => elements.fold(1, i128::wrapping_mul),
            ReduceKind::L1 => sum(&mut elements.map(i128::abs)),
            ReduceKind::SumSquare => sum(&mut elements.map(|x| x.wrapping_mul(x))),
            // The square of a UINT64 may be no signed number of 128 bits.
            ReduceKind::L2 => {
                let squares = elements.map(|x| x.unsigned_abs().saturating_mul(x.unsigned_abs()));
                squares.fold(0, u128::saturating_add).isqrt() as i128
            }
            ReduceKind::LogSum => (sum(&mut elements.clone()) as f64).ln() as i128,
            ReduceKind::LogSumExp => {
                let max = elements.clone().max()? as f64;
                (elements.map(|x| (x as f64 - max).exp()).sum::<f64>().ln() + max) as i128
            }
        })
    }
}

/// Wires the reduction of integers, of BOOL, or of dimensions.
pub(crate) fn reduce(site: &HookSite, model: &mut TypedModel, inputs: &[OutletId]) -> Instead {
    let (Some(reducer), Some(data)) = (ReduceKind::of(site)?, inputs.first()) else {
        return Ok(None);
    };
    let shape = model.outlet_fact(*data)?.shape.to_tvec();
    let has_elements = shape.iter().all(|dim| dim.as_i64().is_some_and(|size| size > 0));
    let is_ours = |ty: DatumType| {
        let is_whole = is_integer(ty) || matches!(ty, DatumType::Bool | DatumType::TDim);
        is_whole && !reducer.is_right_in_stock(ty, has_elements)
    };
    wire_of(site, model, inputs, is_ours, |axes| IntegerReduce { node: site.node(), axes, reducer })
}

/// Wires the reduction of data whose type is ours, along axes that are known.
pub(crate) fn wire_of<O: TypedOp>(
    site: &HookSite,
    model: &mut TypedModel,
    inputs: &[OutletId],
    is_ours: impl Fn(DatumType) -> bool,
    op: impl FnOnce(TVec<usize>) -> O,
) -> Instead {
    let Some(data) = inputs.first() else { return Ok(None) };
    let fact = model.outlet_fact(*data)?;
    let (is_ours, rank) = (is_ours(fact.datum_type), fact.rank());
    let (true, Some(axes)) = (is_ours, axes(site, model, inputs, rank)?) else { return Ok(None) };
    wire_reduction(site, model, *data, Box::new(op(axes.clone())), &axes).map(Some)
}

/// Wires a reduction, and drops the axes that it reduces unless they stay.
pub(crate) fn wire_reduction(
    site: &HookSite,
    model: &mut TypedModel,
    data: OutletId,
    op: Box<dyn TypedOp>,
    axes: &[usize],
) -> Wired {
    let mut wires = model.wire_node(&site.name, op, &[data])?;
    if site.int("keepdims", 1)? != 1 {
        for axis in axes.iter().rev() {
            wires = model.wire_node(
                site.part(&format!("dispose-{axis}")),
                AxisOp::Rm(*axis),
                &wires,
            )?;
        }
    }
    Ok(wires)
}

/// The axes to reduce, in order, or `None` if they are not known before the model runs.
pub(crate) fn axes(
    site: &HookSite,
    model: &TypedModel,
    inputs: &[OutletId],
    rank: usize,
) -> TractResult<Option<TVec<usize>>> {
    let named = match inputs.get(1) {
        None => named_axes(site, None)?,
        Some(axes) => match &model.outlet_fact(*axes)?.konst {
            Some(axes) => named_axes(site, Some(axes))?,
            None => return Ok(None),
        },
    };
    places(site, &named, rank).map(Some)
}

/// The axes as a node names them, by an attribute or by an input.
fn named_axes(site: &HookSite, input: Option<&Tensor>) -> TractResult<Vec<i64>> {
    if site.proto.op_type.starts_with("Arg") {
        return Ok(vec![site.int("axis", 0)?]);
    }
    let Some(axes) = input else {
        return Ok(site.proto.get_attr_opt_vec("axes")?.unwrap_or_default());
    };
    Ok(axes.cast_to::<i64>()?.try_as_plain_ram()?.as_slice::<i64>()?.into())
}

/// The axes that are named, counted from the first.
fn places(site: &HookSite, named: &[i64], rank: usize) -> TractResult<TVec<usize>> {
    if named.is_empty() {
        let all = site.int("noop_with_empty_axes", 0)? == 0;
        return Ok(if all { (0..rank).collect() } else { tvec!() });
    }
    let axis = |axis: &i64| {
        let place = from_front(*axis, rank);
        place.ok_or_else(|| site.error(format!("has no axis {axis}, its input's rank is {rank}")))
    };
    let axes: Vec<usize> = named.iter().map(axis).collect::<Result<_, Error>>()?;
    Ok(axes.into_iter().sorted().dedup().collect())
}

/// A shape of which some axes are reduced to one place.
pub(crate) fn reduced<D: Clone + One>(shape: &[D], axes: &[usize]) -> TVec<D> {
    let size =
        |(axis, size): (usize, &D)| if axes.contains(&axis) { D::one() } else { size.clone() };
    shape.iter().enumerate().map(size).collect()
}

/// The axes that are kept and then those that are reduced, so that what becomes one element stands
/// together.
pub(crate) fn kept_first(rank: usize, axes: &[usize]) -> TVec<usize> {
    (0..rank).filter(|axis| !axes.contains(axis)).chain(axes.iter().copied()).collect()
}

/// Reduces integers, BOOL, or dimensions along some axes, of which one place stays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct IntegerReduce {
    /// For messages.
    node: Label,
    /// In order.
    axes: TVec<usize>,
    reducer: ReduceKind,
}

impl IntegerReduce {
    fn output_type(&self, input: DatumType) -> DatumType {
        if self.reducer.is_place() { DatumType::I64 } else { input }
    }

    fn reduce(&self, input: &WideIntegers, ty: DatumType) -> TractResult<WideIntegers> {
        let shape: TVec<usize> = input.shape().into();
        let output = reduced(&shape, &self.axes);
        let together = input.view().permuted_axes(&*kept_first(shape.len(), &self.axes));
        let together = together.as_standard_layout();
        let elements = together.as_slice().context("elements that stand together")?;
        let length: usize = self.axes.iter().filter_map(|axis| shape.get(*axis)).product();
        let count = output.iter().product();
        let none = || {
            let op = match self.reducer {
                ReduceKind::ArgMax { .. } => "ArgMax".into(),
                ReduceKind::ArgMin { .. } => "ArgMin".into(),
                other => format!("Reduce{other:?}"),
            };
            refused(&self.node, &op, "reduces no elements, of which there is none")
        };
        let value = |place: usize| {
            let elements = elements.get(place * length..(place + 1) * length).unwrap_or_default();
            let reduced = self.reducer.reduce(elements.iter().copied());
            reduced.or_else(|| self.reducer.of_nothing(ty)).ok_or_else(none)
        };
        let values = (0..count).map(value).collect::<Result<Vec<i128>, Error>>()?;
        Ok(ArrayD::from_shape_vec(IxDyn(&output), values)?)
    }

    /// The sum or the product of dimensions that are symbols.
    fn reduce_symbols(&self, input: &Tensor) -> TractResult<Option<Tensor>> {
        let all = (0..input.rank()).all(|axis| self.axes.contains(&axis));
        if !input.datum_type().is_tdim() || !all {
            return Ok(None);
        }
        let dims = input.try_as_plain_ram()?.as_slice::<TDim>()?.iter();
        let result: TDim = match self.reducer {
            ReduceKind::Sum => dims.sum(),
            ReduceKind::Prod => dims.product(),
            _ => return Ok(None),
        };
        Ok(Some(tensor0(result).broadcast_into_rank(input.rank())?))
    }
}

typed_op!(IntegerReduce, |op| format!("Reduce<{:?}>", op.reducer), |op| format!(
    "integers, axes: {:?}",
    op.axes
));

impl EvalOp for IntegerReduce {
    fn eval_out_of_plan(&self, inputs: TVec<TValue>) -> TractResult<Option<TVec<TValue>>> {
        let (Some(input), false) = (inputs.first(), inputs.is_empty()) else { return Ok(None) };
        match read(input, &SymbolValues::default()) {
            Ok(_) => Ok(Some(self.eval(&EvalContext::out_of_plan(), inputs)?)),
            Err(_) => Ok(self.reduce_symbols(input)?.map(|result| tvec!(result.into_tvalue()))),
        }
    }

    fn eval(&self, context: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let input = args_1!(inputs);
        let ty = self.output_type(input.datum_type());
        let reduced = self.reduce(&read(&input, context.symbols)?, ty)?;
        Ok(tvec!(write(&reduced, ty)?.into_tvalue()))
    }
}

impl TypedOp for IntegerReduce {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let [input] = inputs else { bail!("has {} inputs, not 1", inputs.len()) };
        let shape = reduced(&input.shape.to_tvec(), &self.axes);
        Ok(tvec!(self.output_type(input.datum_type).fact(&*shape)))
    }

    fn axes_mapping(&self, inputs: &[&TypedFact], _outputs: &[&TypedFact]) -> Mapped {
        mapping_apart(inputs, &self.axes)
    }

    // In their order: where the last occurrence lies depends on that of the elements, which an axis
    // moved changes.
    along_axes!(self, self.axes, |axes| IntegerReduce { axes, ..self.clone() });

    as_op!();
}

by_debug!(ReduceKind, ReduceKind::ALL.into_iter());
save!(IntegerReduce, "tract_onnx_cast_reduce", node { axes, reducer });
