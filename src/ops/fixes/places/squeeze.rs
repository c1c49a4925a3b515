//! `Squeeze` of axes in any order, and without axes of sizes that are only known when the model
//! runs.
//!
//! tract takes axes away from the last that is named to the first (tract-hir,
//! `ops/array/squeeze.rs`). Without axes, the operator takes away every axis of size 1, and tract
//! those that it knows to be so. A size that turns out to be 1 would stay, so that is looked at
//! when the model runs.

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_hir::internal::*;
use tract_onnx::tract_hir::ops::array::Squeeze as Stock;

use crate::onnx::node::{from_front, node_name};
use crate::ops::host::at_opset::imported;
use crate::ops::host::element_wise::{natural_axes, rules, typed_op};
use crate::ops::host::hook::{Hook, HookSite, Instead, Patch, Wired, refused, unplanned};
use crate::ops::host::hooked::hooked;
use crate::ops::host::label::Label;
use crate::ops::host::saved::save;
use crate::ops::host::stock::{Built, stock};

/// Builds it of a node.
pub(crate) fn build(context: &ParsingContext, node: &NodeProto) -> Built {
    let build = stock("Squeeze").context("tract has no Squeeze")?;
    let named = node.attribute.iter().find(|attribute| attribute.name == "axes");
    let (op, closures) = if named.is_none() && node.input.iter().skip(1).all(String::is_empty) {
        build(context, node)?
    } else {
        let (opset, named) = (
            imported(node, context.onnx_operator_set_version),
            named.map(|axes| axes.ints.clone()),
        );
        (
            expand(Squeeze { node: node_name(node).into(), opset, named }) as Box<dyn InferenceOp>,
            vec![],
        )
    };
    Ok((hooked(context, node, op, Hook::Instead(squeeze)), closures))
}

/// Takes away axes that are named.
#[derive(Debug, Clone)]
struct Squeeze {
    /// For messages, as the version of the default domain.
    node: Label,
    opset: i64,
    /// The axes of the attribute; those of the second input where there is none.
    named: Option<Vec<i64>>,
}

impl Squeeze {
    /// Axes from the front, in order.
    fn places(&self, axes: &[i64], rank: usize) -> TractResult<Vec<isize>> {
        let mut places = vec![];
        for axis in axes {
            let Some(place) = from_front(*axis, rank) else {
                let problem = format!("has the axis {axis} of {rank}, opset {}", self.opset);
                bail!(refused(&self.node, "Squeeze", problem));
            };
            places.push(isize::try_from(place)?);
        }
        places.sort_unstable();
        if places.windows(2).any(|pair| pair.first() == pair.last()) {
            let problem = format!("has the axes {axes:?}, of which one is there twice");
            bail!(refused(&self.node, "Squeeze", problem));
        }
        Ok(places)
    }

    fn of(&self, axes: Option<&Tensor>, rank: usize) -> TractResult<Stock> {
        let axes = match (&self.named, axes) {
            (Some(axes), _) => self.places(axes, rank)?,
            (None, Some(axes)) => {
                let axes = axes.cast_to::<i64>()?;
                // As ONNX Runtime has it, an empty list is no list.
                if axes.len() == 0 {
                    return Ok(Stock::new(None));
                }
                self.places(axes.try_as_plain_ram()?.as_slice::<i64>()?, rank)?
            }
            (None, None) => {
                bail!(unplanned(&self.node, "Squeeze", "has axes that are no constant"))
            }
        };
        Ok(Stock::new(Some(axes)))
    }
}

impl Expansion for Squeeze {
    fn name(&self) -> StaticName {
        "Squeeze".into()
    }

    rules!(self, |solver, inputs, outputs| {
        check_output_arity(outputs, 1)?;
        solver.equals(&outputs[0].datum_type, &inputs[0].datum_type)?;
        if self.named.is_some() {
            return solver.given(&inputs[0].shape, move |solver, shape| {
                let made = self.of(None, shape.len())?.output_shape(&shape)?;
                solver.equals(&outputs[0].shape, made)
            });
        }
        solver.given_2(&inputs[0].shape, &inputs[1].value, move |solver, shape, axes| {
            let made = self.of(Some(&axes), shape.len())?.output_shape(&shape)?;
            solver.equals(&outputs[0].shape, made)
        })
    });

    fn wire(&self, prefix: &str, model: &mut TypedModel, inputs: &[OutletId]) -> Wired {
        let (data, axes) = inputs.split_first().context("has an input")?;
        let axes = match axes.first() {
            Some(axes) => model.outlet_fact(*axes)?.konst.clone(),
            None => None,
        };
        let rank = model.outlet_fact(*data)?.rank();
        self.of(axes.as_deref(), rank)?.wire(prefix, model, &[*data])
    }
}

/// Wires a look at the sizes before tract's operator.
fn squeeze(site: &HookSite, model: &mut TypedModel, inputs: &[OutletId]) -> Instead {
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
        bail!(site.unplanned(problem));
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

typed_op!(OtherThanOne, "OtherThanOne");

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
    fn declutter(&self, model: &TypedModel, node: &TypedNode) -> Patch {
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

save!(OtherThanOne, "tract_onnx_cast_other_than_one", node { axes });
