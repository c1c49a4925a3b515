//! Exchanging casts for tract's own and back, as transforms of tract's registry, and a runtime that
//! runs every cast it can with our kernels.
//!
//! A model that is loaded and optimised needs none of these: [`OnnxCast`] stays in place, and steps
//! aside where a matrix product takes a cast in. They are for what else looks for tract's own cast
//! by its type: float-precision translation, tract-transformers, the GPU back-ends.

use std::cell::OnceCell;

use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_core::ops::cast::Cast;
use tract_onnx::tract_core::ops::logic::IfThenElse;
use tract_onnx::tract_core::ops::scan::Scan;
use tract_onnx::tract_core::transform::ModelTransform;

use crate::ops::cast::op::OnnxCast;
use crate::tensor::conversion::Conversion;

/// Puts tract's own `Cast` in the place of each [`OnnxCast`] whose bits are the same, those in the
/// bodies of `Scan` and `If` included; see
/// [`Conversion::equals_core_cast`](crate::Conversion::equals_core_cast). In the registry it is
/// `onnx_cast_to_core`.
///
/// Apply it to a decluttered model, before transforms that look for tract's own cast.
#[derive(Debug, Clone, Copy, Default)]
pub struct ToCore;

/// Puts an [`OnnxCast`] in the place of each `Cast` of tract's own whose bits are the same: ours
/// are faster. In the registry it is `onnx_cast_to_kernels`.
///
/// Apply it last, before or after the model is optimised; only before, it reaches the bodies of
/// `Scan`.
#[derive(Debug, Clone, Copy, Default)]
pub struct ToKernels;

impl ModelTransform for ToCore {
    fn name(&self) -> StaticName {
        "onnx_cast_to_core".into()
    }

    fn transform(&self, model: &mut TypedModel) -> TractResult<()> {
        exchange(model, &|_, op, input| {
            let cast = op.downcast_ref::<OnnxCast>()?.equal_core_cast(input)?;
            Some(Box::new(cast))
        })
    }
}

impl ModelTransform for ToKernels {
    fn name(&self) -> StaticName {
        "onnx_cast_to_kernels".into()
    }

    fn transform(&self, model: &mut TypedModel) -> TractResult<()> {
        let first = OnceCell::new();
        exchange(model, &|node, op, input| {
            let conversion = Conversion::of_core_cast(input, op.downcast_ref::<Cast>()?.to)?;
            // All of a model share what is kept of large outputs.
            let first = first.get_or_init(|| conversion.clone());
            Some(Box::new(OnnxCast::of_conversion(node, conversion.beside(first))))
        })
    }
}

/// What to put in an op's place, given its node's name and its input's type.
type Exchange<'a> = &'a dyn Fn(&str, &dyn TypedOp, DatumType) -> Option<Box<dyn TypedOp>>;

fn exchange(model: &mut TypedModel, with: Exchange) -> TractResult<()> {
    for id in 0..model.nodes.len() {
        let input = model.nodes[id].inputs.first().copied();
        let input = input.map(|outlet| model.outlet_fact(outlet).map(|fact| fact.datum_type));
        let node = model.node_mut(id);
        if let Some(scan) = node.op_as_mut::<Scan>() {
            exchange(&mut scan.body, with)?;
        } else if let Some(branches) = node.op_as_mut::<IfThenElse>() {
            exchange(&mut branches.then_body, with)?;
            exchange(&mut branches.else_body, with)?;
        } else if let Some(input) = input
            && let Some(op) = with(&node.name, node.op.as_ref(), input?)
        {
            node.op = op;
        }
    }
    Ok(())
}

register_simple_model_transform!("onnx_cast_to_core", ToCore);
register_simple_model_transform!("onnx_cast_to_kernels", ToKernels);

/// tract's CPU runtime with [`ToKernels`] before it optimises; `onnx-cast` among tract's runtimes.
#[derive(Debug, Clone, Copy, Default)]
pub struct CastRuntime;

impl Runtime for CastRuntime {
    fn name(&self) -> StaticName {
        "onnx-cast".into()
    }

    fn check(&self) -> TractResult<()> {
        Ok(())
    }

    fn prepare_with_options(
        &self,
        model: TypedModel,
        options: &RunOptions,
    ) -> TractResult<Box<dyn Runnable>> {
        let model = ToKernels.transform_into(model.into_decluttered()?)?.into_optimized()?;
        Ok(Box::new(TypedSimplePlan::new_with_options(model, options)?))
    }
}

register_runtime!(CastRuntime = CastRuntime);
