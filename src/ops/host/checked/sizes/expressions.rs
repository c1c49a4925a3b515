//! Values that are known as expressions, made constants of a typed model.
//!
//! tract compares a constant that it adds with all that there are (`tract-hir/src/infer/model.rs`,
//! `into_typed`; `tract-core/src/model/typed.rs`, `add_const`), and two expressions by simplifying
//! their difference, so that computed shapes took time by the square. Here one is looked up by how
//! it is written.

use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_core::ops::konst::Const;
use tract_onnx::tract_hir::internal::*;

use super::names::Names;
use super::{Checked, dims, is_symbol};

/// Whether comparing a value with others takes tract long.
fn is_intricate(value: &Tensor) -> bool {
    dims(value).iter().any(|dim| dim.as_i64().is_none() && !is_symbol(dim))
}

/// What all outputs are known to be, if there is an expression among that.
fn intricate<'a>(outputs: impl Iterator<Item = &'a InferenceFact>) -> Option<TVec<Arc<Tensor>>> {
    let values = outputs.map(|fact| fact.value.concretize()).collect::<Option<TVec<_>>>()?;
    values.iter().any(|value| is_intricate(value)).then_some(values)
}

/// Whether all outputs are known, and there is an expression among them.
pub(in crate::ops::host::checked) fn are_intricate(outputs: &[InferenceFact]) -> bool {
    intricate(outputs.iter()).is_some()
}

impl Checked {
    /// The constants that the outputs of a node are, if there is an expression among them.
    pub(in crate::ops::host::checked) fn constants(
        &self,
        node: &InferenceNode,
        target: &mut TypedModel,
    ) -> TractResult<Option<TVec<OutletId>>> {
        let names = self.account.names();
        let has_state = self.op.state(&EvalContext::out_of_plan())?.is_some();
        let (Some(names), false) = (names, has_state) else { return Ok(None) };
        let Some(values) = intricate(node.outputs.iter().map(|output| &output.fact)) else {
            return Ok(None);
        };
        let add =
            |(index, value)| constant(&names, target, format!("{}.{index}", node.name), value);
        values.into_iter().enumerate().map(add).collect::<TractResult<_>>().map(Some)
    }
}

/// The constant of a value, a new one if there is none that is written alike.
pub(super) fn constant(
    names: &Names,
    target: &mut TypedModel,
    name: String,
    value: Arc<Tensor>,
) -> TractResult<OutletId> {
    if !is_intricate(&value) {
        return target.add_const(name, value);
    }
    let written = format!("{:?} {:?}", value.shape(), dims(&value));
    let value = names.constant(written, value);
    let is_it = |node: &TypedNode| {
        node.op_as::<Const>().is_some_and(|constant| Arc::ptr_eq(constant.val(), &value))
    };
    if let Some(node) = target.nodes.iter().find(|node| is_it(node)) {
        return Ok(node.id.into());
    }
    let fact = TypedFact::try_from(Arc::clone(&value))?;
    let name = target.unique_name(name).into_owned();
    target.add_node(name, Const::new(value)?, tvec!(fact)).map(OutletId::from)
}
