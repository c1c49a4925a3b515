//! tract's own operators, and ours in their place where tract's are wrong.
//!
//! An operator of ours is built by tract's builder and inferred by tract's rules. Only when the
//! types are known is it decided which of the two is put into the typed model, so that a model that
//! tract computes rightly keeps tract's operators, and what tract makes of them.

use tract_onnx::pb::NodeProto;
use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_hir::internal::*;

use crate::error::Error;
use crate::onnx::node::{node_name, place_in_tract};
use crate::ops::host::label::Label;

/// A node that cannot be run as it stands.
pub(crate) fn refused(node: &str, op: &str, problem: impl Into<String>) -> Error {
    Error::of_node(node, op, problem)
}

/// A node of which a plan would have to know what only a run tells. It is tract's plans that
/// cannot, not this project: running node by node does without.
pub(crate) fn unplanned(node: &str, op: &str, problem: &str) -> Error {
    refused(node, op, problem).of_sound_model()
}

/// Puts our operator into a typed model.
pub(crate) type Wire = fn(&HookSite, &mut TypedModel, &[OutletId]) -> Instead;

/// Changes what tract's operator has put into a typed model.
pub(crate) type After = fn(&HookSite, &mut TypedModel, Wires) -> Wired;

/// What of ours a node has beside tract's operator.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Hook {
    Instead(Wire),
    /// Looks at the inputs first, where tract would panic.
    Checked(InputCheck, Wire),
    After(After),
    /// Nothing but what every operator with a hook has: products and convolutions are kept apart
    /// from what tract's optimiser would get wrong about them.
    Products,
}

impl Hook {
    pub(super) fn wire(&self) -> Option<Wire> {
        match self {
            Hook::Instead(wire) | Hook::Checked(_, wire) => Some(*wire),
            Hook::After(_) | Hook::Products => None,
        }
    }
}

/// Fails where what is known of the inputs contradicts the node.
pub(crate) type InputCheck = fn(&HookSite, &[&InferenceFact]) -> TractResult<()>;

/// The outputs of an operator in a typed model.
pub(crate) type Wires = TVec<OutletId>;

/// Those of an operator that has been wired.
pub(crate) type Wired = TractResult<Wires>;

/// Those of our operator in the place of tract's, or `None` where tract's is right.
pub(crate) type Instead = TractResult<Option<Wires>>;

/// What an operator becomes, if it becomes something else.
pub(crate) type Patch = TractResult<Option<TypedModelPatch>>;

/// Which axes of an operator's inputs and outputs are the same.
pub(crate) type Mapped = TractResult<AxesMapping>;

/// A node whose operator has one of ours beside tract's.
#[derive(Debug, Clone)]
pub(crate) struct HookSite {
    /// The node's name in the typed model, which those of its parts begin with.
    pub(crate) name: String,
    /// The node in the file.
    pub(crate) proto: NodeProto,
    /// The version of the default domain that the node is of.
    pub(crate) opset: i64,
    /// That which the model imports, for messages.
    pub(crate) imported: i64,
    /// What tract has it built.
    pub(super) stock: Box<dyn InferenceOp>,
}

impl HookSite {
    /// The node's name, for messages.
    pub(crate) fn node(&self) -> Label {
        node_name(&self.proto).into()
    }

    /// An error that names the node and its operator.
    pub(crate) fn error(&self, problem: impl Into<String>) -> Error {
        let problem = format!("{}, the model imports {}", problem.into(), self.imported);
        refused(&self.node(), &self.proto.op_type, problem)
    }

    /// The same of what a plan would have to know.
    pub(crate) fn unplanned(&self, problem: &str) -> Error {
        let problem = format!("{problem}, the model imports {}", self.imported);
        unplanned(&self.node(), &self.proto.op_type, &problem)
    }

    /// An integer attribute.
    pub(crate) fn int(&self, name: &str, default: i64) -> TractResult<i64> {
        Ok(self.proto.get_attr_opt(name)?.unwrap_or(default))
    }

    /// The input at a place in the file, of inputs as tract has them: without those that are left
    /// out.
    pub(crate) fn given(&self, inputs: &[OutletId], place: usize) -> Option<OutletId> {
        inputs.get(place_in_tract(&self.proto.input, place)?).copied()
    }

    /// What tract's operator is wired into a model as.
    pub(crate) fn wire_stock(&self, model: &mut TypedModel, inputs: &[OutletId]) -> Wired {
        let expansion = self.stock.as_op().downcast_ref::<Box<dyn Expansion>>();
        let expansion =
            expansion.with_context(|| format!("{} is no expansion", self.proto.op_type))?;
        expansion.wire(&self.name, model, inputs)
    }

    /// The same node under another name.
    pub(crate) fn named(&self, name: String) -> HookSite {
        HookSite { name, ..self.clone() }
    }

    /// The name of a part.
    pub(crate) fn part(&self, part: &str) -> String {
        format!("{}.{part}", self.name)
    }
}

/// Where the inputs of a node are in the model that it is translated into.
pub(crate) fn mapped<'a>(
    inputs: impl Iterator<Item = &'a OutletId>,
    mapping: &HashMap<OutletId, OutletId>,
) -> Wired {
    let input = |outlet: &OutletId| {
        mapping.get(outlet).copied().context("an operator's inputs come before it")
    };
    inputs.map(input).collect()
}

/// Those of some values that are constants, while a model is built.
pub(crate) fn constants(
    model: &TypedModel,
    values: &[OutletId],
) -> TractResult<Vec<Option<Arc<Tensor>>>> {
    values.iter().map(|value| Ok(model.outlet_fact(*value)?.konst.clone())).collect()
}
