//! Operands of a product whose sizes along an axis are not known to agree, because one of them is
//! open.
//!
//! tract takes the first size that is not written as 1 for the product's (tract-core,
//! `ops/einsum/eval.rs`, `output_shape`): of a batch `B` by one of 2 it makes `B` products, also
//! where `B` is 1 and ONNX says 2. It multiplies as many terms as one of the operands has, whatever
//! the other one has, and takes what is multiplied by one number for broadcast, and back, without
//! an end. Here an operand is given the size that both have, and looked at when it is run.

use tract_onnx::tract_core::axes::Axis;
use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_core::ops::einsum::EinSum;

use super::of_sizes::OfSizes;
use super::operands::operands;
use crate::ops::fixes::arithmetic::product::IntegerEinSum;
use crate::ops::host::hook::HookSite;

/// A node that multiplies.
#[derive(Debug, Clone, Copy)]
pub(in crate::ops::fixes) struct Multiplies<'a> {
    /// For messages, as its operator and the version of the default domain.
    pub(in crate::ops::fixes) node: &'a str,
    pub(in crate::ops::fixes) operator: &'a str,
    pub(in crate::ops::fixes) opset: i64,
    /// Whether one term is multiplied by all of another operand, as only `Einsum` has it.
    pub(in crate::ops::fixes) stretches_terms: bool,
}

/// An axis of an operand that is given a size.
#[derive(Debug, Clone)]
struct WantedSize {
    operand: usize,
    axis: usize,
    size: TDim,
    may_stretch: bool,
}

/// Has the operands of all products of a node agree, from a node of the typed model on.
pub(crate) fn agree_on_sizes(
    site: &HookSite,
    model: &mut TypedModel,
    first: usize,
) -> TractResult<()> {
    let node = site.node();
    let multiplies = Multiplies {
        node: &node,
        operator: &site.proto.op_type,
        opset: site.imported,
        stretches_terms: false,
    };
    for id in first..model.nodes.len() {
        let node = model.node(id);
        if node.op_is::<EinSum>() || node.op_is::<IntegerEinSum>() {
            agree(model, id, multiplies)?;
        }
    }
    Ok(())
}

/// Has the operands of a product agree, which may be one of elements, and gives what is computed of
/// it the shapes of that.
pub(in crate::ops::fixes) fn agree(
    model: &mut TypedModel,
    id: usize,
    multiplies: Multiplies,
) -> TractResult<()> {
    let axes = {
        let (inputs, outputs) = model.node_facts(id)?;
        model.node(id).op.axes_mapping(&inputs, &outputs)?
    };
    let inputs = operands(model.node(id));
    let mut wanted = vec![];
    for axis in axes.iter_all_axes() {
        let is_summed = axis.outputs.iter().all(|places| places.is_empty());
        wanted.extend(sizes_to_give(
            model,
            &inputs,
            axis,
            !is_summed || multiplies.stretches_terms,
        )?);
    }
    for (operand, input) in inputs.iter().enumerate() {
        let of_operand = wanted.iter().filter(|size| size.operand == operand);
        let Some(op) = of_sizes(model, *input, of_operand, operand, multiplies)? else {
            continue;
        };
        // What another operand binds a symbol to is known once that is there.
        let mut all = tvec!(*input);
        for other in inputs.iter().filter(|other| *other != input) {
            all.extend(model.outlet_fact(*other)?.konst.is_none().then_some(*other));
        }
        let name = format!("{}.sizes-{operand}", model.node(id).name);
        let sized = model.wire_node(name, op, &all)?;
        model.add_edge(*sized.first().context("an output")?, InletId::new(id, operand))?;
    }
    if !wanted.is_empty() {
        (id..model.nodes.len()).try_for_each(|id| renew_facts(model, id))?;
    }
    Ok(())
}

/// The places of an axis that have another size than all of them together.
fn sizes_to_give(
    model: &TypedModel,
    inputs: &[OutletId],
    axis: &Axis,
    may_stretch: bool,
) -> TractResult<Vec<WantedSize>> {
    let mut all = vec![];
    for (operand, (input, places)) in inputs.iter().zip(&axis.inputs).enumerate() {
        for place in places {
            let size = model.outlet_fact(*input)?.shape.get(*place).cloned();
            let size = size.context("an axis of the operand")?;
            all.push(WantedSize { operand, axis: *place, size, may_stretch });
        }
    }
    // One element is multiplied by whatever there is, where it may be.
    let is_one = |given: &WantedSize| may_stretch && given.size == 1.to_dim();
    let size = if may_stretch {
        size_of_all(all.iter().map(|given| &given.size))?
    } else {
        let known = all.iter().find(|given| given.size.as_i64().is_some());
        let Some(first) = known.or(all.first()) else { return Ok(vec![]) };
        first.size.clone()
    };
    all.retain(|given| given.size != size && !is_one(given));
    Ok(all.into_iter().map(|given| WantedSize { size: size.clone(), ..given }).collect())
}

/// What sizes of an axis amount to together, each of them that or 1.
pub(in crate::ops::fixes) fn size_of_all<'a>(
    sizes: impl Iterator<Item = &'a TDim> + Clone,
) -> TractResult<TDim> {
    // A number that is not 1 is the size; what is open may be 1 or the same.
    match sizes.clone().find(|size| size.as_i64().is_some_and(|size| size != 1)) {
        Some(size) => Ok(size.clone()),
        None => sizes.cloned().try_fold(1.to_dim(), |all, size| {
            if all == size { Ok(all) } else { all.broadcast(size) }
        }),
    }
}

/// What gives an operand these sizes, if it is not known to have them.
fn of_sizes<'a>(
    model: &TypedModel,
    input: OutletId,
    wanted: impl Iterator<Item = &'a WantedSize>,
    operand: usize,
    multiplies: Multiplies,
) -> TractResult<Option<OfSizes>> {
    let of_operand = model.outlet_fact(input)?.shape.to_tvec();
    let (mut sizes, mut stretched) = (of_operand.clone(), tvec!());
    for wanted in wanted {
        *sizes.get_mut(wanted.axis).context("an axis of the operand")? = wanted.size.clone();
        stretched.extend(wanted.may_stretch.then_some(wanted.axis));
    }
    let Multiplies { node, operator, opset, .. } = multiplies;
    let (node, operator) = (node.into(), operator.into());
    let op = OfSizes { node, operator, opset, operand, sizes, stretched };
    Ok((op.sizes != of_operand).then_some(op))
}

/// Gives the outputs of a node the facts that its inputs make now.
fn renew_facts(model: &mut TypedModel, id: usize) -> TractResult<()> {
    let facts = {
        let (inputs, _) = model.node_facts(id)?;
        model.node(id).op.output_facts(&inputs)?
    };
    for (slot, fact) in facts.into_iter().enumerate() {
        model.set_outlet_fact(OutletId::new(id, slot), fact)?;
    }
    Ok(())
}
