//! Weights of a file beside the model. tract's loader reads each twice, as bytes and as a tensor;
//! here they are read once, and those that are tied not before it is decided how the product packs
//! them, a part at a time: they are never there but packed.

use std::path::Path;
use std::sync::Arc;

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::{ModelProto, NodeProto};
use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_core::ops::konst::Const;
use tract_onnx::tract_hir::internal::*;

use super::TIED_NAME;
use crate::onnx::lowered::{FILED, Lowered, OperatorForm};
use crate::onnx::node::attribute;
use crate::ops::host::element_wise::{rules, typed_op};
use crate::ops::host::hook::{Patch, Wired};
use crate::ops::host::stock::Built;
use crate::tensor::late::is_late;
use crate::tensor::memory::Memory;
use crate::tensor::proto;
use crate::tensor::proto::external::Resolver;

/// Makes an `Onnx` build the nodes that the rewrite has put in the place of such weights.
pub(crate) fn register(onnx: &mut tract_onnx::Onnx) {
    onnx.op_register.insert(FILED, build);
}

/// The property of a loader's models that holds the weights of a node.
fn property(node: &NodeProto) -> String {
    format!("{}{}", PROPERTIES, node.name)
}

/// What the names of these properties begin with.
pub(crate) const PROPERTIES: &str = "onnx_cast.filed.";

/// The weights of a model's nodes, as properties of what tract makes of it. Fails when they cannot
/// be read.
pub(crate) fn properties(
    model: &ModelProto,
    folder: Option<&Path>,
    resolver: &Resolver,
) -> TractResult<Vec<(String, Arc<Tensor>)>> {
    let mut read = vec![];
    for node in model.graph.iter().flat_map(|graph| &graph.node) {
        if node.op_type != FILED {
            continue;
        }
        let form = Lowered::read(node)?.map(|lowered| lowered.form);
        let held = attribute(node, "value").and_then(|value| value.t.as_ref());
        let held = held.context("weights of a file")?;
        let (_, tensor) = match form {
            Some(OperatorForm::Filed { stays: true }) => {
                proto::late_with(held, folder, (resolver, &Memory::default()))?
            }
            _ => proto::read_with(held, folder, resolver)?,
        };
        // tract would copy what is none of its own memory.
        let tensor = if is_late(&tensor) { tensor } else { tensor.into_plain_ram()? };
        read.push((property(node), tensor.into_arc_tensor()));
    }
    Ok(read)
}

fn build(context: &ParsingContext, node: &NodeProto) -> Built {
    let held = context.template.properties.get(&property(node));
    let weights = held.with_context(|| format!("node `{}` has no weights", node.name))?.clone();
    let op = if is_late(&weights) {
        expand(Filed(weights))
    } else {
        Box::new(tract_onnx::tract_hir::ops::konst::Const::new(weights)?)
    };
    Ok((op, vec![]))
}

/// Weights that are in their file, of which tract is not told that they are constant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Filed(pub(crate) Arc<Tensor>);

typed_op!(Filed, "Filed", |op| format!("{:?}", op.0));

impl Expansion for Filed {
    fn name(&self) -> StaticName {
        "Filed".into()
    }

    rules!(self, [0, 1], |s, _inputs, outputs| {
        s.equals(&outputs[0].datum_type, self.0.datum_type())?;
        s.equals(&outputs[0].shape, ShapeFactoid::from(self.0.shape()))
    });

    fn wire(&self, prefix: &str, model: &mut TypedModel, inputs: &[OutletId]) -> Wired {
        model.wire_node(prefix, self.clone(), inputs)
    }
}

impl EvalOp for Filed {
    // What comes of it would be kept.
    not_out_of_plan!();

    fn eval(&self, _: &EvalContext, _: TVec<TValue>) -> TractResult<TVec<TValue>> {
        Ok(tvec!(self.0.clone().into_tvalue()))
    }
}

impl Filed {
    /// All of the weights, as memory of tract's.
    pub(crate) fn read(&self) -> TractResult<Arc<Tensor>> {
        let rows = self.0.shape().first().copied().unwrap_or_default();
        Ok(self.0.slice(0, 0, rows)?.into_plain_ram()?.into_arc_tensor())
    }

    /// A constant in its place, unless all that takes it is tied.
    fn settle(&self, model: &TypedModel, node: &TypedNode) -> Patch {
        let mut places = node.outputs.iter().flat_map(|output| &output.successors);
        let is_output = model.outputs.iter().any(|output| output.node == node.id);
        if !is_output && places.all(|inlet| model.node(inlet.node).op.name() == TIED_NAME) {
            return Ok(None);
        }
        let mut patch = TypedModelPatch::default();
        let constant = patch.wire_node(&node.name, Const::new(self.read()?)?, &[])?;
        patch.shunt_outside(model, node.id.into(), constant[0])?;
        Ok(Some(patch))
    }
}

impl TypedOp for Filed {
    fn output_facts(&self, _: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        Ok(tvec!(self.0.datum_type().fact(self.0.shape())))
    }

    fn declutter(&self, model: &TypedModel, node: &TypedNode) -> Patch {
        self.settle(model, node)
    }

    fn codegen(&self, model: &TypedModel, node: &TypedNode) -> Patch {
        self.settle(model, node)
    }

    as_op!();
}
