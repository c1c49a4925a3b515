//! `Expand` to a shape that is data: an input of the model, or computed from one.
//!
//! tract 0.23 broadcasts to what the model declares of the result's shape then, whatever the data
//! says, and loads no model that declares nothing. Here a declaration types the model, and running
//! it fails where the data asks for something else; a size that is not declared is a symbol, which
//! the plan binds to what the data asks for.

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_core::broadcast::multi_broadcast;
use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_hir::internal::*;
use tract_onnx::tract_hir::ops::array::MultiBroadcastTo;

use crate::error;
use crate::onnx::node::node_name;
use crate::ops::host::checked::allowance::is_kept;
use crate::ops::host::element_wise::{rules, typed_op, with_symbols};
use crate::ops::host::hook::Wired;
use crate::ops::host::label::Label;
use crate::ops::host::stock::Built;
use crate::tensor::symbolic::numbers;

/// The operator.
pub(crate) const EXPAND: &str = "Expand";

/// Builds it of a node.
pub(crate) fn build(_: &ParsingContext, node: &NodeProto) -> Built {
    Ok((expand(Expand { node: node_name(node) }), vec![]))
}

/// Whether an inference model's node is an `Expand`, whose shape a declaration may have to settle.
pub(crate) fn is_expand(node: &InferenceNode) -> bool {
    node.op.as_op().name() == EXPAND
}

/// tract's `Expand`, but for the shape that is data.
#[derive(Debug, Clone)]
struct Expand {
    /// For messages.
    node: String,
}

impl Expansion for Expand {
    fn name(&self) -> StaticName {
        EXPAND.into()
    }

    rules!(self, [2, 1], |solver, inputs, outputs| {
        solver.given_2(&inputs[0].rank, &inputs[1].shape[0], move |solver, rank, length| {
            match length.to_i64() {
                Ok(length) => solver.equals(&outputs[0].rank, rank.max(length)),
                Err(_) => Ok(()),
            }
        })?;
        MultiBroadcastTo.rules(solver, inputs, outputs)
    });

    fn wire(&self, prefix: &str, model: &mut TypedModel, inputs: &[OutletId]) -> Wired {
        MultiBroadcastTo.wire(prefix, model, inputs)
    }

    fn wire_with_inference_model_and_node(
        &self,
        prefix: &str,
        source: &InferenceModel,
        node: &InferenceNode,
        model: &mut TypedModel,
        inputs: &[OutletId],
    ) -> Wired {
        let [input, target] = inputs else { bail!("has {} inputs, not 2", inputs.len()) };
        let inferred = match node.inputs.get(1) {
            Some(target) => source.outlet_fact(*target)?.value.concretize(),
            None => None,
        };
        let target = model.outlet_fact(*target)?;
        let (true, None, [length]) = (target.konst.is_none(), inferred, &*target.shape.to_tvec())
        else {
            return MultiBroadcastTo
                .wire_with_inference_model_and_node(prefix, source, node, model, inputs);
        };
        let rank = model.outlet_fact(*input)?.rank().max(length.to_usize()?);
        let declared = &source.outlet_fact(node.id.into())?.shape;
        let declared = |axis: usize| declared.dims().nth(axis).and_then(|dim| dim.concretize());
        // Nothing is run on what has no elements, so nothing would find out that a declaration is
        // wrong.
        let is_empty = (0..rank).any(|axis| declared(axis).is_some_and(|dim| dim == 0.to_dim()));
        let of_input = model.outlet_fact(*input)?.shape.to_tvec();
        let first = rank - of_input.len();
        let given = |axis: usize| axis.checked_sub(first).and_then(|axis| of_input.get(axis));
        let dims: TVec<TDim> = (0..rank)
            .map(|axis| {
                let is_given = given(axis).is_some_and(|dim| declared(axis).as_ref() == Some(dim));
                let declared = declared(axis).filter(|_| !is_empty || is_given);
                declared.unwrap_or_else(|| model.symbols.new_with_prefix("expand").to_dim())
            })
            .collect();
        let op = ExpandAsDeclared { node: self.node.clone().into(), shape: dims.into() };
        model.wire_node(prefix, op, inputs)
    }
}

/// Broadcasts its first input to the dimensions that are its second, which must amount to the
/// declared shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ExpandAsDeclared {
    /// For messages.
    pub(crate) node: Label,
    pub(crate) shape: ShapeFact,
}

typed_op!(ExpandAsDeclared, "ExpandAsDeclared", mints_runtime_symbols);

impl ExpandAsDeclared {
    /// The shape that the data asks for.
    fn asked(
        &self,
        input: &Tensor,
        target: &Tensor,
        symbols: &SymbolValues,
    ) -> TractResult<TVec<usize>> {
        let target = numbers(target, symbols)?;
        let target = target.cast_to::<i64>()?;
        let dims = target.try_as_plain_ram()?.as_slice::<i64>()?.iter().map(|dim| {
            let is_size = (0..=i64::from(i32::MAX)).contains(dim);
            ensure!(is_size, "{dim} is no dimension of 32 bits, which tract has for it");
            Ok(*dim as usize)
        });
        let dims = dims
            .collect::<TractResult<TVec<usize>>>()
            .with_context(|| format!("node `{}` (Expand)", error::shown(&self.node)))?;
        multi_broadcast(&[&dims[..], input.shape()])
            .with_context(|| format!("node `{}` (Expand)", error::shown(&self.node)))
    }
}

impl EvalOp for ExpandAsDeclared {
    fn eval_out_of_plan(&self, inputs: TVec<TValue>) -> TractResult<Option<TVec<TValue>>> {
        let context = EvalContext::out_of_plan();
        let [input, target] = &*inputs else { return Ok(None) };
        let asked = self.asked(input, target, context.symbols)?;
        if !is_kept(&asked, input.datum_type()) {
            return Ok(None);
        }
        self.eval(&context, inputs).map(Some)
    }

    fn eval(&self, context: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let (input, target) = args_2!(inputs);
        let asked = self.asked(&input, &target, context.symbols)?;
        let declared: TVec<TDim> = self.shape.iter().map(|dim| dim.eval(context.symbols)).collect();
        // A symbol that is not bound yet will be, to what was asked for.
        let agrees = |(declared, asked): (&TDim, &usize)| {
            declared.as_i64().is_none_or(|size| usize::try_from(size) == Ok(*asked))
        };
        ensure!(
            asked.len() == declared.len() && declared.iter().zip(&asked).all(agrees),
            "node `{}` (Expand): its data asks for the shape {asked:?}, but the model declares [{}]",
            self.node,
            declared.iter().map(TDim::to_string).collect::<Vec<_>>().join(", ")
        );
        Ok(tvec!(input.broadcast_to_shape(&asked)?.into_tvalue()))
    }
}

impl TypedOp for ExpandAsDeclared {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let [input, _] = inputs else { bail!("has {} inputs, not 2", inputs.len()) };
        Ok(tvec!(input.datum_type.fact(self.shape.clone())))
    }

    with_symbols!(|self, values| {
        let dims = self.shape.iter().map(|dim| dim.substitute_all(values));
        let shape = dims.collect::<TractResult<TVec<TDim>>>()?.into();
        ExpandAsDeclared { shape, ..self.clone() }
    });

    as_op!();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_expansion_in_two_nodes_is_one_operator() {
        let op = |node: &str| ExpandAsDeclared { node: node.into(), shape: [2].into() };
        assert_eq!(op("a"), op("b"));
        assert_ne!(op("a"), ExpandAsDeclared { shape: [3].into(), ..op("a") });
    }
}
