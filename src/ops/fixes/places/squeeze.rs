//! `Squeeze` without axes, of sizes that are only known when the model runs.
//!
//! The operator takes away every axis of size 1, and tract those that it knows to be so. A size that turns out to be 1 would stay,
//! so that is looked at when the model runs.

use tract_onnx::tract_core::internal::*;

use crate::ops::host::element_wise::natural_axes;
use crate::ops::host::hook::{Site, Wires, refused};
use crate::ops::host::label::Label;
use crate::ops::host::saved::{Save, Saved};

/// Wires a look at the sizes before tract's operator.
pub(crate) fn squeeze(
    site: &Site,
    model: &mut TypedModel,
    inputs: &[OutletId],
) -> TractResult<Option<Wires>> {
    let [input] = inputs else { return Ok(None) };
    let has_axes = site.proto.attribute.iter().any(|attribute| attribute.name == "axes");
    let shape = &model.outlet_fact(*input)?.shape;
    let symbolic = |(_, dim): &(usize, &TDim)| dim.as_i64().is_none();
    let axes: TVec<usize> =
        shape.iter().enumerate().filter(symbolic).map(|(axis, _)| axis).collect();
    if has_axes || axes.is_empty() {
        return Ok(None);
    }
    // tract does not run what has no elements, so nobody would look.
    if shape.iter().any(|dim| dim.as_i64() == Some(0)) {
        let problem = "has no axes, and an input without elements that has sizes which are only known when the model runs: name \
                       the axes";
        bail!(refused(&site.node(), "Squeeze", problem));
    }
    let op = OtherThanOne { node: site.node(), axes };
    let looked_at = model.wire_node(site.part("sizes"), op, inputs)?;
    site.wire_stock(model, &looked_at).map(Some)
}

/// The identity, which fails where one of these axes has the size 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OtherThanOne {
    /// For messages.
    node: Label,
    axes: TVec<usize>,
}

impl Op for OtherThanOne {
    fn name(&self) -> StaticName {
        "OtherThanOne".into()
    }

    op_as_typed_op!();
}

impl EvalOp for OtherThanOne {
    op_out_of_plan!();

    fn eval(&self, _: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let input = inputs.first().context("has an input")?;
        if let Some(axis) = self.axes.iter().find(|axis| input.shape().get(**axis) == Some(&1)) {
            let problem = format!(
                "has no axes and the size 1 in axis {axis}, which is taken away only where the model says so: give the \
                 input's shape before it is typed"
            );
            bail!(refused(&self.node, "Squeeze", problem));
        }
        Ok(inputs)
    }
}

impl TypedOp for OtherThanOne {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        Ok(inputs.iter().map(|fact| (*fact).clone()).collect())
    }

    /// Sizes that have become known are looked at once.
    fn declutter(
        &self,
        model: &TypedModel,
        node: &TypedNode,
    ) -> TractResult<Option<TypedModelPatch>> {
        let [input] = &*node.inputs else { return Ok(None) };
        let shape = &model.outlet_fact(*input)?.shape;
        let is_fine = |axis: &usize| {
            shape.get(*axis).and_then(|dim| dim.as_i64()).is_some_and(|size| size != 1)
        };
        if self.axes.iter().all(is_fine) {
            return TypedModelPatch::shunt_one_op(model, node);
        }
        Ok(None)
    }

    natural_axes!();

    as_op!();
}

impl Save for OtherThanOne {
    const NAME: &'static str = "tract_onnx_cast_other_than_one";

    fn save(&self) -> Saved {
        Saved::default().axes(&self.axes)
    }

    fn restore(node: Label, saved: &Saved) -> TractResult<OtherThanOne> {
        Ok(OtherThanOne { node, axes: saved.axes.clone() })
    }
}
