//! tract's own lowering, a `Scan`, with functions through which NaN passes and last states that are
//! zeros where there are no steps, as in `op`.

use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_core::ops::element_wise::ElementWiseOp;
use tract_onnx::tract_core::ops::math::Tanh;
use tract_onnx::tract_core::ops::nn::Sigmoid;
use tract_onnx::tract_core::ops::scan::Scan;

use super::activation::{Activation, ActivationFunction};
use crate::cast::kernel::level::Level;
use crate::ops::fixes::control::last_state::{self, Otherwise};
use crate::ops::host::element_wise::{element_wise, typed_op};
use crate::ops::host::hook::{HookSite, Wired};
use crate::ops::host::saved::save;

/// Wires what tract does, and puts our functions in the place of those in the bodies.
pub(super) fn wire(site: &HookSite, model: &mut TypedModel, inputs: &[OutletId]) -> Wired {
    let first = model.nodes.len();
    let mut outlets = site.wire_stock(model, inputs)?;
    let end = model.nodes.len();
    for node in model.nodes.iter_mut().skip(first) {
        let Some(scan) = node.op_as_mut::<Scan>() else { continue };
        for node in &mut scan.body.nodes {
            let function = node.op_as::<ElementWiseOp>().and_then(|op| {
                let is_sigmoid = op.0.is::<Sigmoid>().then_some(ActivationFunction::Sigmoid);
                is_sigmoid.or(op.0.is::<Tanh>().then_some(ActivationFunction::Tanh))
            });
            if let Some(function) = function {
                node.op = Box::new(Activate(Activation { function, alpha: 0.0, beta: 0.0 }));
            }
        }
    }
    for node in first..end {
        outlets = last_state::wire(model, node, Otherwise::Zeros, outlets)?;
    }
    Ok(outlets)
}

/// A function of each FLOAT.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Activate(Activation);

impl Eq for Activate {}

typed_op!(Activate, |op| op.0.function.name());

impl EvalOp for Activate {
    op_out_of_plan!();

    fn eval(&self, _: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let mut elements = args_1!(inputs).into_tensor();
        self.0.apply(Level::best(), None, elements.try_as_plain_ram_mut()?.as_slice_mut::<f32>()?);
        Ok(tvec!(elements.into_tvalue()))
    }
}

impl TypedOp for Activate {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let [input] = inputs else { bail!("has {} inputs, not 1", inputs.len()) };
        ensure!(input.datum_type == DatumType::F32, "is of FLOAT, not {:?}", input.datum_type);
        Ok(tvec!(input.without_value()))
    }

    element_wise!();

    as_op!();
}

save!(Activate, "tract_onnx_cast_activation", { 0 });
