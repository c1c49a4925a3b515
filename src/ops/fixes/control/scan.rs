//! `Scan` whose numbers of inputs and outputs do not fit, that collects a constant or has one for a
//! state, and whose axes tract moves without end.
//!
//! tract subtracts the numbers unchecked, and counts from there without end (tract-onnx,
//! `ops/rec/scan.rs`).
//!
//! tract takes what makes an output out of the body and computes it for all elements at once. A
//! constant it takes for such too, though it is of one element: the model is refused, or never
//! loaded where there is but one (tract-core, `ops/scan/decluttered.rs`,
//! `declutter_pull_batcheable_output`). Here such an output is the constant repeated, beside the
//! `Scan`.
//!
//! What is known of a state before a turn must be known behind it, to tract, and the other way
//! round (tract-core, `ops/scan/decluttered.rs`, `output_facts`). Here a state is no constant, and
//! what has no elements, which always is one, no state.
//!
//! Of a body that runs once tract makes a part of the model around it, where a state may be known
//! to be 0, and a product by it stands for 0. Here it stays a product.
//!
//! What has a state inside of a body keeps it from one turn of the body to the next (tract-core,
//! `ops/scan/optimized.rs`, `eval`). Here it begins anew at each.
//!
//! Axes of one place tract takes for each other: where a body has one beside the axis that is
//! scanned, what is given may be scanned along one and what is made along the other, and each moved
//! to the front moves the other away, without end (tract-core, `ops/scan/decluttered.rs`,
//! `suggested_axis_changes`; `optim/change_axes.rs`). What stands around the `Scan` decides whether
//! they may move: constants, products, changes of axes. An input of which the body makes nothing it
//! takes away, also where it is the only one that tells how often the body runs, or a state. Here
//! no change of axes comes into a body or out of it, nothing is taken out of it, and its inputs
//! stay.

use std::collections::HashSet;

use onnx_cast_graph::counted;
use tract_onnx::model::ParsingContext;
use tract_onnx::pb::{GraphProto, NodeProto};
use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_core::ops::array::MultiBroadcastTo;
use tract_onnx::tract_core::ops::gru_seq::GruSeq;
use tract_onnx::tract_core::ops::konst::Const;
use tract_onnx::tract_core::ops::logic::IfThenElse;
use tract_onnx::tract_core::ops::scan::{InputMapping, Scan, iteration_count};
use tract_onnx::tract_hir::internal::*;
use tract_onnx::tract_hir::ops::scan::InferenceScan;

use crate::onnx::node::refusal;
use crate::ops::fixes::apart::{Apart, Keeps};
use crate::ops::fixes::arithmetic::binary::keep_products_inside;
use crate::ops::fixes::control::last_state::{self, Otherwise};
use crate::ops::host::at_opset::imported;
use crate::ops::host::element_wise::rules;
use crate::ops::host::hook::{Hook, HookSite, Wired, Wires};
use crate::ops::host::hooked::hooked;
use crate::ops::host::stock::{Built, stock};

/// Builds tract's operator, if the numbers fit.
pub(crate) fn build(context: &ParsingContext, node: &NodeProto) -> Built {
    let scanned: i64 = node.get_attr("num_scan_inputs")?;
    let body: &GraphProto = node.get_attr("body")?;
    let given: HashSet<&str> = body.initializer.iter().map(|tensor| tensor.name.as_str()).collect();
    let fed = body.input.iter().filter(|input| !given.contains(input.name.as_str())).count();
    let made = body.output.len();
    let states = usize::try_from(scanned).ok().and_then(|scanned| fed.checked_sub(scanned));
    if scanned < 1 || states.is_none_or(|states| states > made) {
        let problem = format!(
            "has {}, of a body with {} and {}, the model imports {}",
            counted(scanned, "scan input"),
            counted(fed, "input"),
            counted(made, "output"),
            imported(node, context.onnx_operator_set_version)
        );
        bail!(refusal(node, problem));
    }
    let build = stock(&node.op_type).context("tract has a Scan")?;
    let (mut op, closures) = build(context, node)?;
    if let Some(scan) = op.as_op_mut().downcast_mut::<InferenceScan>() {
        vary_states(scan)?;
    }
    Ok((hooked(context, node, op, Hook::After(settled)), closures))
}

/// Has the states that a body makes be no constants.
fn vary_states(scan: &mut InferenceScan) -> TractResult<()> {
    let InferenceScan { body, input_mapping, output_mapping, .. } = scan;
    let mut scanned = body.inputs.iter().zip(input_mapping).filter(|(_, given)| given.is_scan());
    let Some(scanned) = scanned.next().map(|(input, _)| *input) else { return Ok(()) };
    let states = body.outputs.clone().into_iter().zip(output_mapping).enumerate();
    for (place, (state, _)) in states.filter(|(_, (_, made))| made.state) {
        let name = body.unique_name(format!("{}.state", body.node(state.node).name)).to_string();
        let state = body.wire_node(name, expand(Varying), &[state, scanned])?;
        if let (Some(output), [state]) = (body.outputs.get_mut(place), &*state) {
            *output = *state;
        }
    }
    Ok(())
}

/// The first of its inputs, which is no constant if the second is none.
#[derive(Debug, Clone)]
struct Varying;

impl Expansion for Varying {
    fn name(&self) -> StaticName {
        "Varying".into()
    }

    fn runs_out_of_plan(&self) -> bool {
        false
    }

    rules!(self, [2, 1], |solver, inputs, outputs| {
        solver.equals(&inputs[0].datum_type, &outputs[0].datum_type)?;
        solver.equals(&inputs[0].shape, &outputs[0].shape)
    });

    fn wire(&self, prefix: &str, model: &mut TypedModel, inputs: &[OutletId]) -> Wired {
        let [state, _] = inputs else { bail!("has {} inputs, not 2", inputs.len()) };
        let fact = model.outlet_fact(*state)?;
        if fact.konst.is_none() {
            return Ok(tvec!(*state));
        }
        let apart = Apart { keeps: Keeps::Axes, axes: (0..fact.rank()).collect() };
        model.wire_node(prefix, apart, inputs)
    }
}

/// The outputs of the `Scan` that tract has made, as tract can simplify it.
fn settled(site: &HookSite, model: &mut TypedModel, outlets: Wires) -> Wired {
    let outlets = without_constants(site, model, outlets)?;
    let nodes: Vec<usize> = outlets.iter().map(|outlet| outlet.node).collect();
    if let Some(node) = nodes.into_iter().find(|node| model.node(*node).op_is::<Scan>())
        && let Some(scan) = model.node_mut(node).op_as_mut::<Scan>()
    {
        without_elements(scan)?;
        keep_apart(scan)?;
        begin_anew(&mut scan.body);
        keep_products_inside(model, node)?;
        return last_state::wire(model, node, Otherwise::Start, outlets);
    }
    Ok(outlets)
}

/// What is known to have no elements is a constant for tract, and no state then.
fn without_elements(scan: &mut Scan) -> TractResult<()> {
    let Scan { body, input_mapping, output_mapping, .. } = scan;
    let given = body.inputs.iter().zip(input_mapping).filter(|(_, given)| given.is_state());
    let made = output_mapping.iter_mut().filter(|made| made.state);
    for ((input, given), made) in given.zip(made) {
        if body.outlet_fact(*input)?.shape.volume() == 0.to_dim() {
            *given = InputMapping::Full;
            made.state = false;
        }
    }
    Ok(())
}

/// Has what has a state in a body begin anew whenever the body does.
fn begin_anew(body: &mut TypedModel) {
    for node in &mut body.nodes {
        if let Some(scan) = node.op_as_mut::<Scan>() {
            scan.reset_every_turn = true;
        } else if let Some(layer) = node.op_as_mut::<GruSeq>() {
            layer.reset_every_turn = true;
        } else if let Some(branches) = node.op_as_mut::<IfThenElse>() {
            begin_anew(&mut branches.then_body);
            begin_anew(&mut branches.else_body);
        }
    }
}

/// Keeps what a body is given and what it makes in each turn apart from what is inside: no axis
/// changes places over it, nothing is taken out of the body, and nothing that is given goes.
fn keep_apart(scan: &mut Scan) -> TractResult<()> {
    let Scan { body, input_mapping, output_mapping, .. } = scan;
    let (mut first, mut states) = (None, vec![]);
    for (input, mapping) in body.inputs.clone().into_iter().zip(input_mapping) {
        if matches!(mapping, InputMapping::Full) {
            continue;
        }
        let users = body.outlet_successors(input).to_vec();
        let apart = wire_apart(body, "given", &[input])?;
        for user in users {
            body.add_edge(apart, user)?;
        }
        if mapping.is_state() {
            states.push(apart);
        } else {
            first = first.or(Some(apart));
        }
    }
    let (mut outputs, mut states) = (vec![], states.into_iter());
    for (output, mapping) in body.outputs.clone().into_iter().zip(output_mapping) {
        let state = mapping.state.then(|| states.next()).flatten();
        let values: Vec<OutletId> = [Some(output), first, state].into_iter().flatten().collect();
        outputs.push(wire_apart(body, "made", &values)?);
    }
    body.select_output_outlets(&outputs)?;
    // A body of one turn tract puts in the place of the `Scan`, in the order of its nodes.
    body.compact()
}

/// The first of these values, over which no change of axes comes, beside the others.
fn wire_apart(body: &mut TypedModel, part: &str, values: &[OutletId]) -> TractResult<OutletId> {
    let value = values.first().context("a value to keep apart")?;
    let rank = body.outlet_fact(*value)?.rank();
    let apart = Apart { keeps: Keeps::Axes, axes: (0..rank).collect() };
    let name = body.unique_name(format!("{}.{part}", body.node(value.node).name)).to_string();
    let apart = body.wire_node(name, apart, values)?;
    apart.first().copied().context("an operator of one output")
}

/// Takes the outputs that are constants out of the `Scan` that tract has made.
fn without_constants(site: &HookSite, model: &mut TypedModel, mut outlets: Wires) -> Wired {
    let Some(node) = outlets.first().map(|outlet| outlet.node) else { return Ok(outlets) };
    let facts: Vec<TypedFact> = model.node_input_facts(node)?.into_iter().cloned().collect();
    let Some(scan) = model.node(node).op_as::<Scan>() else { return Ok(outlets) };
    // A body that does not simplify has its error when tract simplifies it.
    let Ok(body) = simplified(scan, &facts) else { return Ok(outlets) };
    let mut scan = scan.clone();
    let facts: Vec<&TypedFact> = facts.iter().collect();
    let Some(count) = iteration_count(&scan.input_mapping, &facts) else { return Ok(outlets) };
    let mut constants = vec![];
    for (mapping, output) in scan.output_mapping.iter_mut().zip(&body.outputs) {
        if let (Some(constant), Some((slot, info))) =
            (&body.outlet_fact(*output)?.konst, mapping.scan)
            && constant.shape().get(info.axis) == Some(&1)
        {
            mapping.scan = None;
            constants.push((slot, info.axis, constant.clone()));
        }
    }
    if constants.is_empty() {
        return Ok(outlets);
    }
    // The slots that remain stand together.
    let gone = |slot: usize| constants.iter().any(|(other, ..)| *other == slot);
    let place = |slot: usize| (0..slot).filter(|slot| !gone(*slot)).count();
    for mapping in &mut scan.output_mapping {
        mapping.scan = mapping.scan.map(|(slot, info)| (place(slot), info));
        mapping.last_value_slot = mapping.last_value_slot.map(place);
    }
    let mut slot = 0;
    let typed = model.node_mut(node);
    typed.op = Box::new(scan);
    typed.outputs.retain(|_| {
        slot += 1;
        !gone(slot - 1)
    });
    for (slot, outlet) in outlets.iter_mut().enumerate() {
        *outlet = match constants.iter().find(|(other, ..)| *other == slot) {
            None => OutletId::new(node, place(slot)),
            Some((_, axis, constant)) => {
                let mut shape: TVec<TDim> =
                    constant.shape().iter().map(|len| len.to_dim()).collect();
                if let Some(len) = shape.get_mut(*axis) {
                    *len = count.clone();
                }
                let name = site.part(&format!("output-{slot}"));
                let one = model.add_const(format!("{name}.element"), constant.clone())?;
                let all = model.wire_node(name, MultiBroadcastTo::new(shape.into()), &[one])?;
                *all.first().context("an operator of one output")?
            }
        };
    }
    Ok(outlets)
}

/// The body as tract will have it when it has put the constants into it that it takes from outside.
fn simplified(scan: &Scan, facts: &[TypedFact]) -> TractResult<TypedModel> {
    let mut body = scan.body.clone();
    let slots = scan.input_mapping.iter().zip(facts).zip(&scan.body.inputs);
    for ((mapping, fact), input) in slots {
        if let (InputMapping::Full, Some(constant)) = (mapping, &fact.konst) {
            let node = body.node_mut(input.node);
            node.op = Box::new(Const::new(constant.clone())?);
            let fact = TypedFact::try_from(constant.clone())?;
            if let Some(output) = node.outputs.first_mut() {
                output.fact = fact;
            }
            body.inputs.retain(|other| other != input);
        }
    }
    body.into_decluttered()
}

#[cfg(test)]
mod tests {
    use tract_onnx::tract_core::ops::math::add;
    use tract_onnx::tract_core::ops::scan::{OutputMapping, ScanInfo};

    use super::*;

    /// A `Scan` of so many states, to each of which a row of an input of its own is added: what it
    /// makes is the next state and a row of an output.
    fn of_states(count: usize) -> TractResult<Scan> {
        let (mut body, mut given, mut made) = (TypedModel::default(), vec![], vec![]);
        let mut outputs = vec![];
        let row = ScanInfo::new(0, 1);
        for place in 0..count {
            let state = body.add_source(format!("state {place}"), f32::fact([1, 3]))?;
            let scanned = body.add_source(format!("scanned {place}"), f32::fact([1, 3]))?;
            let sum = body.wire_node(format!("sum {place}"), add(), &[state, scanned])?;
            outputs.extend([sum[0], sum[0]]);
            given.extend([InputMapping::State, InputMapping::Scan(row)]);
            let kept = OutputMapping { state: true, ..OutputMapping::default() };
            let collected = OutputMapping { scan: Some((place, row)), ..OutputMapping::default() };
            made.extend([kept, collected]);
        }
        body.select_output_outlets(&outputs)?;
        Scan::new(body, given, made, 0)
    }

    /// A body of many values has few edges more: what each made value is told of stays the same.
    #[test]
    fn edges_that_keep_values_apart_are_as_many_as_the_values() -> TractResult<()> {
        let added = |count: usize| {
            let mut scan = of_states(count)?;
            let edges = |scan: &Scan| {
                let nodes = scan.body.nodes().iter();
                nodes.map(|node| node.inputs.len()).sum::<usize>()
            };
            let before = edges(&scan);
            keep_apart(&mut scan)?;
            TractResult::Ok(edges(&scan) - before)
        };
        let of_one = added(1)?;
        // One for each value given, and of those made three for a state and two for a row.
        assert_eq!(of_one, 7);
        for count in [10, 100] {
            assert_eq!(added(count)?, count * of_one, "{count} states");
        }
        Ok(())
    }
}
