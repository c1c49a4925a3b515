//! `Cast` and `CastLike` nodes as tract's loader builds them: the inference op, which becomes an
//! [`OnnxCast`] once types are known.

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_hir::internal::*;

use super::op::OnnxCast;
use crate::cast::element_type::ElementType;
use crate::error::Error;
use crate::onnx::lowered::{PrivateCast, cast_of};
use crate::onnx::node::node_name;
use crate::ops::host::element_wise::rules;
use crate::ops::host::hook::Wired;
use crate::ops::host::stock::Built;

/// Builds the inference op of a `Cast` or `CastLike` node: of one that the rewrite has prepared,
/// or, where only the ops were registered, of one as it stands in the file.
pub(crate) fn build(context: &ParsingContext, node: &NodeProto) -> Built {
    Ok((of_node(context, node)?, vec![]))
}

/// The inference op that [`build`] makes.
pub(crate) fn of_node(
    context: &ParsingContext,
    node: &NodeProto,
) -> TractResult<Box<dyn InferenceOp>> {
    // tract says 0 for a model that imports no default domain, which is opset 1.
    let private = cast_of(node, context.onnx_operator_set_version.max(1))?;
    let op = InferenceCast { node: node_name(node), op_type: node.op_type.clone(), private };
    Ok(expand(op))
}

/// A `Cast` whose input's tract type is still to be inferred.
#[derive(Debug, Clone)]
struct InferenceCast {
    node: String,
    op_type: String,
    private: PrivateCast,
}

impl InferenceCast {
    fn refuse(&self, problem: String) -> Error {
        Error::of_node(&self.node, &self.op_type, problem)
    }

    /// tract's type of the output. INT64 made of a symbolic dimension stays one: nothing is
    /// computed, and nothing lost.
    fn output_type(&self, input: DatumType, to: ElementType) -> DatumType {
        let stays_symbolic =
            input == DatumType::TDim && to == ElementType::Int64 && !self.private.resolves_symbols;
        if stays_symbolic { DatumType::TDim } else { to.datum_type() }
    }

    /// The element type that a tract type stands for where nothing else is known.
    fn native(&self, datum_type: DatumType) -> Result<ElementType, Error> {
        ElementType::native(datum_type)
            .ok_or_else(|| self.refuse(format!("tract's {datum_type:?} is no ONNX element type")))
    }

    /// The element type of an input, which must be one that the model's opset has.
    fn source(&self, datum_type: DatumType) -> Result<ElementType, Error> {
        let from = match self.private.from {
            Some(from) if from.datum_type() != datum_type => {
                return Err(self.refuse(format!("its input of {from} came as {datum_type:?}")));
            }
            Some(from) => from,
            None => self.native(datum_type)?,
        };
        if from.since() > self.private.opset {
            let (since, opset) = (from.since(), self.private.opset);
            let problem =
                format!("input of type {from} needs opset {since}, the model imports {opset}");
            return Err(self.refuse(problem));
        }
        Ok(from)
    }
}

impl Expansion for InferenceCast {
    fn name(&self) -> StaticName {
        "OnnxCast".into()
    }

    rules!(self, [if self.private.to.is_some() { 1 } else { 2 }, 1], |s, inputs, outputs| {
        s.equals(&outputs[0].rank, &inputs[0].rank)?;
        s.equals(&outputs[0].shape, &inputs[0].shape)?;
        match self.private.to {
            Some(to) if to != ElementType::Int64 || self.private.resolves_symbols => {
                s.equals(&outputs[0].datum_type, to.datum_type())
            }
            Some(to) => s.given(&inputs[0].datum_type, move |s, from| {
                s.equals(&outputs[0].datum_type, self.output_type(from, to))
            }),
            None => {
                s.given_2(&inputs[0].datum_type, &inputs[1].datum_type, move |s, from, like| {
                    let to = self.native(like)?;
                    s.equals(&outputs[0].datum_type, self.output_type(from, to))
                })
            }
        }
    });

    fn wire(&self, prefix: &str, model: &mut TypedModel, inputs: &[OutletId]) -> Wired {
        let datum_type = |index: usize| -> TractResult<DatumType> {
            let outlet = inputs.get(index).context("an input is missing")?;
            Ok(model.outlet_fact(*outlet)?.datum_type)
        };
        let from = self.source(datum_type(0)?)?;
        let to = match self.private.to {
            Some(to) => to,
            None => self.native(datum_type(1)?)?,
        };
        let op = OnnxCast::new(&self.node, from, to, self.private.rules)
            .resolving_symbols(self.private.resolves_symbols)
            .beside_casts_of(model);
        model.wire_node(prefix, op, &inputs[..1])
    }
}
