//! tract's operators and ours in one, of which the types decide once they are known.

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_hir::internal::*;

use crate::error;
use crate::onnx::node::node_name;
use crate::ops::fixes::products::keep_apart;
use crate::ops::fixes::products::open::agree_on_sizes;
use crate::ops::host::around::{Around, FactRefs, Inferred, Wrapped, around};
use crate::ops::host::at_opset::imported;
use crate::ops::host::hook::{Hook, HookSite, Wired, mapped};
use crate::ops::host::stock::{Built, stock};

/// tract's operator and ours, of which the types decide.
#[derive(Debug, Clone)]
struct Hooked {
    site: HookSite,
    hook: Hook,
}

/// Builds tract's operator of a node, or of one that tract is given for it, and ours around it.
pub(crate) fn build_hooked(
    context: &ParsingContext,
    node: &NodeProto,
    for_stock: &NodeProto,
    hook: Hook,
) -> Built {
    let build = stock(&node.op_type).with_context(|| format!("tract has no {}", node.op_type))?;
    let (stock, closures) = build(context, for_stock)?;
    Ok((hooked(context, node, stock, hook), closures))
}

/// An operator that stands for a node in the place of tract's, with a hook.
pub(crate) fn hooked(
    context: &ParsingContext,
    node: &NodeProto,
    stock: Box<dyn InferenceOp>,
    hook: Hook,
) -> Box<dyn InferenceOp> {
    let opset = context.onnx_operator_set_version;
    let imported = imported(node, opset);
    let site = HookSite { name: node_name(node), proto: node.clone(), opset, imported, stock };
    Box::new(Wrapped(Hooked { site, hook }))
}

impl Around for Hooked {
    around!(self, self.site.stock);

    fn infer_facts(&mut self, inputs: FactRefs, outputs: FactRefs, observed: FactRefs) -> Inferred {
        if let Hook::Checked(check, _) = self.hook {
            check(&self.site, &inputs)?;
        }
        self.site.stock.infer_facts(inputs, outputs, observed)
    }

    fn eval_out_of_plan(&self, inputs: TVec<TValue>) -> TractResult<Option<TVec<TValue>>> {
        let Some(wire) = self.hook.wire() else {
            return self.site.stock.eval_out_of_plan(inputs);
        };
        let mut model = TypedModel::default();
        let mut wires = tvec!();
        for (index, input) in inputs.iter().enumerate() {
            let fact = TypedFact::try_from(input.clone().into_arc_tensor())?;
            wires.push(model.add_source(format!("constant-{index}"), fact)?);
        }
        let Some(outlets) = wire(&self.site, &mut model, &wires)? else {
            return self.site.stock.eval_out_of_plan(inputs);
        };
        // A constant with symbols has no value outside of the plan that binds them.
        if inputs.iter().any(|input| input.datum_type().is_tdim()) {
            let folded = |outlet: &OutletId| model.outlet_fact(*outlet).ok()?.konst.clone();
            return Ok(outlets.iter().map(|outlet| Some(folded(outlet)?.into_tvalue())).collect());
        }
        model.select_output_outlets(&outlets)?;
        Ok(Some(model.into_runnable()?.run(inputs)?))
    }

    fn eval(&self, _: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let values = self.eval_out_of_plan(inputs)?;
        values
            .with_context(|| format!("node `{}` has no value yet", error::shown(&self.site.node())))
    }

    fn to_typed(
        &self,
        source: &InferenceModel,
        node: &InferenceNode,
        target: &mut TypedModel,
        mapping: &HashMap<OutletId, OutletId>,
    ) -> Wired {
        let inputs = mapped(node.inputs.iter(), mapping)?;
        let site = HookSite { name: node.name.clone(), ..self.site.clone() };
        let first = target.nodes.len();
        let ours = match self.hook.wire() {
            Some(wire) => wire(&site, target, &inputs)?,
            None => None,
        };
        let outlets = match ours {
            Some(outlets) => outlets,
            None => site.stock.to_typed(source, node, target, mapping)?,
        };
        let outlets = match self.hook {
            Hook::After(after) => after(&site, target, outlets)?,
            _ => outlets,
        };
        agree_on_sizes(&site, target, first)?;
        keep_apart(target, first, outlets)
    }
}
