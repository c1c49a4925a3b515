//! The operator that looks at the sizes of a product's operand when it is run.

use tract_onnx::tract_core::internal::*;

use crate::ops::host::element_wise::{typed_op, with_symbols};
use crate::ops::host::hook::{Patch, refused};
use crate::ops::host::label::Label;
use crate::ops::host::saved::save;

/// Passes the first of its inputs on, an operand of a product, and fails where it has other sizes
/// than these. Of the other operands it looks at nothing: they bind symbols.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OfSizes {
    /// For messages, as the operator, the version of the default domain and the operand's place.
    pub(super) node: Label,
    pub(super) operator: Label,
    pub(super) opset: i64,
    pub(super) operand: usize,
    pub(super) sizes: TVec<TDim>,
    /// The axes along which one element is broadcast.
    pub(super) stretched: TVec<usize>,
}

impl OfSizes {
    fn refuse(&self, problem: &str) -> TractError {
        let OfSizes { opset, operand, .. } = self;
        let problem = format!("its operand {operand} {problem}, the model imports {opset}");
        refused(&self.node, &self.operator, problem).into()
    }
}

typed_op!(OfSizes, "OfSizes", |op| format!("{:?}", op.sizes));

impl EvalOp for OfSizes {
    op_out_of_plan!();

    fn eval(&self, context: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let operand = inputs.into_iter().next().context("an operand")?;
        let mut wanted: TVec<usize> = tvec!();
        for (axis, (size, has)) in self.sizes.iter().zip(operand.shape()).enumerate() {
            let size =
                size.eval_to_i64(context.symbols).and_then(|size| Ok(usize::try_from(size)?));
            let size = size.map_err(|_| {
                self.refuse(&format!("has {has} elements along axis {axis}, and the others differ"))
            })?;
            if size != *has && (*has != 1 || !self.stretched.contains(&axis)) {
                bail!(self.refuse(&format!(
                    "has {has} elements along axis {axis}, and the other has {size}"
                )));
            }
            wanted.push(size);
        }
        if operand.shape() == &*wanted {
            return Ok(tvec!(operand));
        }
        Ok(tvec!(operand.broadcast_to_shape(&wanted)?.into_tvalue()))
    }
}

impl TypedOp for OfSizes {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let operand = inputs.first().context("an operand")?;
        Ok(tvec!(operand.datum_type.fact(self.sizes.clone())))
    }

    /// It goes where the operand is known to have the sizes.
    fn declutter(&self, model: &TypedModel, node: &TypedNode) -> Patch {
        let input = *node.inputs.first().context("an operand")?;
        if model.outlet_fact(input)?.shape.to_tvec() != self.sizes {
            return Ok(None);
        }
        TypedModelPatch::rewire(model, &[input], &[node.id.into()], &|_, wires| Ok(wires.into()))
            .map(Some)
    }

    with_symbols!(|self, values| {
        let sizes = self.sizes.iter().map(|size| size.substitute_all(values));
        OfSizes { sizes: sizes.collect::<TractResult<_>>()?, ..self.clone() }
    });

    as_op!();
}

save!(OfSizes, "tract_onnx_cast_of_sizes", node { operator, opset, operand, sizes, stretched });
