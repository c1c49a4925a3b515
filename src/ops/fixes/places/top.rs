//! `TopK` of floats that may be NaN.
//!
//! tract takes NaN for less than whatever it is compared with, from either side (tract-core,
//! `ops/array/topk.rs`), so that the order of the others is wrong too; and of more elements than
//! there are it makes zeros. NaN is above all numbers, as in onnx's evaluator and ONNX Runtime, and
//! elements that are equal stay in their order.

use std::cmp::Ordering;

use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_core::ndarray::Axis;
use tract_onnx::tract_core::ops::array::Topk;

use crate::ops::host::element_wise::with_symbols;
use crate::ops::host::hook::{HookSite, Wires, refused};
use crate::ops::host::label::Label;
use crate::ops::host::saved::{fields, save};

/// Wires [`Top`].
pub(crate) fn top(
    site: &HookSite,
    model: &mut TypedModel,
    inputs: &[OutletId],
) -> TractResult<Option<Wires>> {
    let rank = i64::try_from(model.outlet_fact(*inputs.first().context("data")?)?.rank())?;
    let named = site.int("axis", -1)?;
    let axis = usize::try_from(if named < 0 { named + rank } else { named });
    let Some(axis) = axis.ok().filter(|axis| (*axis as i64) < rank) else {
        bail!(site.error(format!("has no axis {named}, its input's rank is {rank}")));
    };
    let fallback_k = model.symbols.new_with_prefix("k").into();
    let op = Topk { axis, largest: site.int("largest", 1)? == 1, fallback_k };
    model.wire_node(&site.name, Top { node: site.node(), op }, inputs).map(Some)
}

/// The greatest or the least elements along an axis in their order, and their places.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Top {
    /// For messages.
    node: Label,
    op: Topk,
}

impl Top {
    fn select<T: Datum + PartialOrd + Copy>(
        &self,
        data: &Tensor,
        count: usize,
    ) -> TractResult<TVec<TValue>> {
        let mut shape: TVec<usize> = data.shape().into();
        *shape.get_mut(self.op.axis).context("an axis of the data")? = count;
        let mut values = Tensor::zero_dt(data.datum_type(), &shape)?;
        let mut places = Tensor::zero::<i64>(&shape)?;
        let axis = Axis(self.op.axis);
        let mut values_plain = values.try_as_plain_ram_mut()?;
        let mut values_view = values_plain.to_array_view_mut::<T>()?;
        let mut places_plain = places.try_as_plain_ram_mut()?;
        let mut places_view = places_plain.to_array_view_mut::<i64>()?;
        let made = values_view.lanes_mut(axis).into_iter().zip(places_view.lanes_mut(axis));
        for (lane, (mut values, mut places)) in
            data.to_plain_array_view::<T>()?.lanes(axis).into_iter().zip(made)
        {
            let mut order: Vec<(i64, T)> = (0..).zip(lane.iter().copied()).collect();
            let compare = |a: &(i64, T), b: &(i64, T)| {
                let by_value = compare(&a.1, &b.1);
                let by_value = if self.op.largest { by_value.reverse() } else { by_value };
                by_value.then(a.0.cmp(&b.0))
            };
            if (1..order.len()).contains(&count) {
                order.select_nth_unstable_by(count - 1, compare);
            }
            order.truncate(count);
            order.sort_unstable_by(compare);
            for ((place, value), (made, at)) in
                order.into_iter().zip(values.iter_mut().zip(places.iter_mut()))
            {
                (*made, *at) = (value, place);
            }
        }
        Ok(tvec!(values.into_tvalue(), places.into_tvalue()))
    }
}

/// The order of numbers, NaN above all.
fn compare<T: PartialOrd>(a: &T, b: &T) -> Ordering {
    #[allow(clippy::eq_op, reason = "NaN is no equal of itself")]
    let is_nan = |element: &T| element != element;
    a.partial_cmp(b).unwrap_or_else(|| is_nan(a).cmp(&is_nan(b)))
}

impl Op for Top {
    fn name(&self) -> StaticName {
        "Topk".into()
    }

    fn mints_runtime_symbols(&self) -> bool {
        true
    }

    op_as_typed_op!();
}

impl EvalOp for Top {
    op_out_of_plan!();

    fn eval(&self, _: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let (data, count) = args_2!(inputs);
        ensure!(count.len() == 1, "has {} numbers of elements", count.len());
        let count = count.cast_to::<i64>()?.try_as_plain_ram()?.as_slice::<i64>()?.first().copied();
        let size = data.shape().get(self.op.axis).copied().unwrap_or(0);
        let count = count.and_then(|count| usize::try_from(count).ok());
        let Some(count) = count.filter(|count| *count <= size) else {
            let problem = format!("takes a number of elements that is not from 0 to {size}");
            bail!(refused(&self.node, "TopK", problem));
        };
        dispatch_numbers!(Self::select(data.datum_type())(self, &data, count))
    }
}

impl TypedOp for Top {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        self.op.output_facts(inputs)
    }

    with_symbols!(|self, values| {
        let fallback_k = self.op.fallback_k.substitute_all(values)?;
        Top { node: self.node.clone(), op: Topk { fallback_k, ..self.op.clone() } }
    });

    as_op!();
}

fields!(Topk { axis, largest, fallback_k });
save!(Top, "tract_onnx_cast_top" => ["values", "places"], node { op });
