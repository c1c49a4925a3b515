//! What a `Scan` leaves of a state, also where its body never runs.
//!
//! tract takes the state of the last turn, and where there is none a 0 of FLOAT (tract-core,
//! `ops/scan/optimized.rs`, `eval`). Here it is what the `Scan` was given, and for a layer, of
//! which tract makes a `Scan`, as many zeros.

use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_core::ops::scan::{Scan, iteration_count};

use crate::ops::host::element_wise::typed_op;
use crate::ops::host::hook::{Patch, Wired, Wires};
use crate::ops::host::saved::{members, save};

/// Puts one behind each state that a `Scan` leaves, for all that take it, in the place of the state
/// among these outlets too.
pub(in crate::ops::fixes) fn wire(
    model: &mut TypedModel,
    node: usize,
    otherwise: Otherwise,
    mut outlets: Wires,
) -> Wired {
    let inputs = model.node(node).inputs.clone();
    let Some(Scan { input_mapping, output_mapping, .. }) = model.node(node).op_as::<Scan>() else {
        return Ok(outlets);
    };
    let given = inputs.into_iter().zip(input_mapping);
    let scanned = given.clone().find_map(|(input, mapping)| Some((input, mapping.as_scan()?.axis)));
    let Some((scanned, axis)) = scanned else { return Ok(outlets) };
    let turns = iteration_count(input_mapping, &model.node_input_facts(node)?);
    if turns.is_some_and(|turns| turns.prove_strict_positive()) {
        return Ok(outlets);
    }
    let starts = given.filter(|(_, mapping)| mapping.is_state()).map(|(start, _)| start);
    let slots = output_mapping.iter().filter(|mapping| mapping.state);
    let states: Vec<(OutletId, Option<usize>)> =
        starts.zip(slots.map(|mapping| mapping.last_value_slot)).collect();
    for (start, slot) in states {
        let Some(slot) = slot else { continue };
        let last = OutletId::new(node, slot);
        let users = model.outlet_successors(last).to_vec();
        let name = model.unique_name(format!("{}.state-{slot}", model.node(node).name)).to_string();
        let left = model.wire_node(name, LastState { axis, otherwise }, &[last, start, scanned])?;
        let left = left.first().copied().context("an operator of one output")?;
        for user in users {
            model.add_edge(left, user)?;
        }
        for outlet in outlets.iter_mut().filter(|outlet| **outlet == last) {
            *outlet = left;
        }
    }
    Ok(outlets)
}

members! {
    /// What a state is without turns.
    pub(crate) enum Otherwise {
        Start,
        Zeros,
    }
}

/// The first of its inputs, the last state, or what it is otherwise where the third has no elements
/// along the axis. The second is the first state.
#[derive(Debug, Clone, Eq)]
pub(crate) struct LastState {
    axis: usize,
    otherwise: Otherwise,
}

/// It is like no other: tract puts either of two that are alike and have several inputs in the
/// place of the other, and has neither (tract-core, `optim/push_split_down.rs`).
impl PartialEq for LastState {
    fn eq(&self, _: &LastState) -> bool {
        false
    }
}

typed_op!(LastState, "LastState", |op| format!(
    "along axis {}, {:?} otherwise",
    op.axis, op.otherwise
));

impl EvalOp for LastState {
    op_out_of_plan!();

    fn eval(&self, _: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let (last, start, scanned) = args_3!(inputs);
        let turns = scanned.shape().get(self.axis).context("an axis of what is scanned")?;
        Ok(tvec!(match self.otherwise {
            _ if *turns > 0 => last,
            Otherwise::Start => start,
            Otherwise::Zeros => Tensor::zero_dt(start.datum_type(), start.shape())?.into_tvalue(),
        }))
    }
}

impl TypedOp for LastState {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        Ok(inputs.iter().take(1).map(|fact| fact.without_value()).collect())
    }

    /// It goes as soon as it is known whether there are turns.
    fn declutter(&self, model: &TypedModel, node: &TypedNode) -> Patch {
        let [last, start, scanned] = &*node.inputs else { return Ok(None) };
        let Some(turns) = model.outlet_fact(*scanned)?.shape.get(self.axis) else {
            return Ok(None);
        };
        let left = match self.otherwise {
            _ if turns.prove_strict_positive() => last,
            Otherwise::Start if *turns == 0.to_dim() => start,
            _ => return Ok(None),
        };
        let is_output = |outlet: &OutletId| model.outputs.contains(outlet);
        if is_output(&node.id.into()) && is_output(left) {
            return Ok(None);
        }
        let shunt = |_: &mut TypedModelPatch, values: &[OutletId]| Ok(values.into());
        TypedModelPatch::rewire(model, &[*left], &[node.id.into()], &shunt).map(Some)
    }

    as_op!();
}

save!(LastState, "tract_onnx_cast_last_state", { axis, otherwise });
