//! `Scan` whose numbers of inputs and outputs do not fit, and `Scan` that collects a constant.
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
//! What has a state inside of a body keeps it from one turn of the body to the next (tract-core,
//! `ops/scan/optimized.rs`, `eval`). Here it begins anew at each.
//!
//! Of a product it takes out without a state, nothing is left in the body but the place of an axis,
//! which tract moves to and fro without end. Here such an output is kept apart from the product.

use std::collections::HashSet;

use onnx_cast_graph::counted;
use tract_onnx::model::ParsingContext;
use tract_onnx::pb::{GraphProto, NodeProto};
use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_core::ops::array::MultiBroadcastTo;
use tract_onnx::tract_core::ops::cnn::Conv;
use tract_onnx::tract_core::ops::einsum::EinSum;
use tract_onnx::tract_core::ops::gru_seq::GruSeq;
use tract_onnx::tract_core::ops::konst::Const;
use tract_onnx::tract_core::ops::logic::IfThenElse;
use tract_onnx::tract_core::ops::scan::{InputMapping, Scan, ScanInfo, iteration_count};

use crate::onnx::node::refusal;
use crate::ops::fixes::apart::{Apart, Keeps};
use crate::ops::host::at_opset::imported;
use crate::ops::host::hook::{Hook, HookSite, Wired, Wires};
use crate::ops::host::hooked::build_hooked;
use crate::ops::host::stock::Built;

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
    build_hooked(context, node, node, Hook::After(settled))
}

/// The outputs of the `Scan` that tract has made, as tract can simplify it.
fn settled(site: &HookSite, model: &mut TypedModel, outlets: Wires) -> Wired {
    let outlets = without_constants(site, model, outlets)?;
    if let Some(outlet) = outlets.first()
        && let Some(scan) = model.node_mut(outlet.node).op_as_mut::<Scan>()
    {
        keep_products(scan)?;
        begin_anew(&mut scan.body);
    }
    Ok(outlets)
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

/// Keeps the outputs that come of a product and of no state apart from it, and outputs in two
/// directions from each other: tract takes one of them for what the other is made of.
fn keep_products(scan: &mut Scan) -> TractResult<()> {
    let sources = scan.body.inputs.iter().zip(&scan.input_mapping);
    let states: Vec<OutletId> =
        sources.filter(|(_, mapping)| mapping.is_state()).map(|(source, _)| *source).collect();
    let scanned = scan.output_mapping.iter().filter_map(|mapping| mapping.scan);
    let is_forward = |(_, info): (usize, ScanInfo)| info.chunk > 0;
    let is_mixed = scanned.clone().any(is_forward) && !scanned.clone().all(is_forward);
    for place in 0..scan.body.outputs.len() {
        let output = *scan.body.outputs.get(place).context("an output of the body")?;
        let is_scanned =
            scan.output_mapping.get(place).is_some_and(|mapping| mapping.scan.is_some());
        let made_by = ancestors(&scan.body, output.node);
        let is_product = |id: &usize| {
            scan.body.node(*id).op_is::<EinSum>() || scan.body.node(*id).op_is::<Conv>()
        };
        let of_state = states.iter().any(|state| made_by.contains(&state.node));
        if !is_scanned || !is_mixed && (of_state || !made_by.iter().any(is_product)) {
            continue;
        }
        let rank = scan.body.outlet_fact(output)?.rank();
        let apart = Apart { keeps: Keeps::Axes, axes: (0..rank).collect() };
        let name = format!("{}.apart-{place}", scan.body.node(output.node).name);
        let apart = scan.body.wire_node(name, apart, &[output])?;
        if let (Some(output), Some(apart)) = (scan.body.outputs.get_mut(place), apart.first()) {
            *output = *apart;
        }
    }
    Ok(())
}

/// A node and all that it is made of.
fn ancestors(model: &TypedModel, node: usize) -> HashSet<usize> {
    let (mut seen, mut next) = (HashSet::new(), vec![node]);
    while let Some(id) = next.pop() {
        if seen.insert(id) {
            next.extend(model.node(id).inputs.iter().map(|input| input.node));
        }
    }
    seen
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
