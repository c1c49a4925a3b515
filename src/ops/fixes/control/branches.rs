//! `If`, whose two branches may have different values.
//!
//! tract 0.23 takes what is known of the then-branch's outputs, constants included, for what is
//! known of the `If` (`IfThenElse::output_facts`). A `Cast` after an `If` whose then-branch returns
//! a constant would then be folded to that constant, whichever branch runs. Here the then-branch
//! keeps to itself what the else-branch does not share, and each `If` keeps the name of its node.

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_core::ops::logic::IfThenElse;
use tract_onnx::tract_hir::internal::*;

use crate::onnx::node::node_name;
use crate::ops::fixes::arithmetic::binary::keep_products_inside;
use crate::ops::host::around::{Around, FactRefs, Inferred, Wrapped, around};
use crate::ops::host::element_wise::typed_op;
use crate::ops::host::hook::{Patch, Wired, unplanned};
use crate::ops::host::stock::{Built, stock};

/// Builds tract's own `If`, and ours around it.
pub(crate) fn build(context: &ParsingContext, node: &NodeProto) -> Built {
    let build = stock("If").context("tract has no If")?;
    let (op, closures) = build(context, node)?;
    Ok((Box::new(Wrapped(If { node: node_name(node), op })), closures))
}

/// tract's `If`, corrected when it is typed.
#[derive(Debug, Clone)]
struct If {
    /// For messages.
    node: String,
    op: Box<dyn InferenceOp>,
}

impl If {
    /// What is wrong if the branches by themselves return different shapes.
    fn shapes_of_branches(&self) -> Option<TractError> {
        let op = self.op.as_op().downcast_ref::<tract_onnx::ops::logic::If>()?;
        let shapes = |body: &InferenceModel| {
            let mut body = body.clone();
            for outlet in body.outputs.clone() {
                body.set_outlet_fact(outlet, InferenceFact::default()).ok()?;
            }
            body.analyse(false).ok()?;
            let shape = |outlet: &OutletId| Some(body.outlet_fact(*outlet).ok()?.shape.clone());
            body.outputs.iter().map(shape).collect::<Option<Vec<ShapeFactoid>>>()
        };
        let (then, other) = (shapes(&op.then_body)?, shapes(&op.else_body)?);
        let (place, (then, other)) =
            then.iter().zip(&other).enumerate().find(|(_, (a, b))| a.unify(b).is_err())?;
        let problem = format!(
            "output {place} has the shape [{then:?}] in one branch and [{other:?}] in the other; tract needs one shape"
        );
        Some(unplanned(&self.node, "If", &problem).into())
    }
}

impl Around for If {
    around!(self, self.op);

    fn infer_facts(&mut self, inputs: FactRefs, outputs: FactRefs, observed: FactRefs) -> Inferred {
        let condition = inputs.first().and_then(|condition| condition.value.concretize());
        let facts = self.op.infer_facts(inputs, outputs, observed);
        // The branch that does not run is not in the way.
        facts.map_err(|error| match condition {
            None => self.shapes_of_branches().unwrap_or(error),
            Some(_) => error,
        })
    }

    fn to_typed(
        &self,
        source: &InferenceModel,
        node: &InferenceNode,
        target: &mut TypedModel,
        mapping: &HashMap<OutletId, OutletId>,
    ) -> Wired {
        // tract calls every If of a typed model `If`, and refuses the second.
        let name = self.op.name();
        let namesake = target.nodes.iter().position(|other| other.name == name);
        if let Some(namesake) = namesake {
            let free = target.unique_name(format!("{name}.namesake")).into_owned();
            target.node_mut(namesake).name = free;
        }
        let outlets = self.op.to_typed(source, node, target, mapping)?;
        if let Some(outlet) = outlets.first() {
            target.node_mut(outlet.node).name.clone_from(&node.name);
            separate_branches(target, outlet.node)?;
            keep_products_inside(target, outlet.node)?;
        }
        if let Some(namesake) = namesake {
            target.node_mut(namesake).name = name.into();
        }
        Ok(outlets)
    }
}

/// Hides the values of the then-branch's outputs that the else-branch's do not have.
fn separate_branches(model: &mut TypedModel, node: usize) -> TractResult<()> {
    let inputs = model.node_input_facts(node)?.into_iter().cloned().collect::<Vec<_>>();
    let node = model.node_mut(node);
    let Some(op) = node.op_as_mut::<IfThenElse>() else { return Ok(()) };
    for index in 0..op.then_body.outputs.len() {
        let (then, other) = (op.then_body.output_fact(index)?, op.else_body.output_fact(index)?);
        let values = |fact: &TypedFact| {
            (fact.konst.clone(), fact.uniform.clone(), fact.uniform_tdim.clone())
        };
        if values(then) != values(other) {
            let outlet = op.then_body.outputs[index];
            let name = op.then_body.unique_name(format!("output-{index}.hidden"));
            op.then_body.outputs[index] = op.then_body.wire_node(name, Hidden, &[outlet])?[0];
        }
    }
    let facts = op.output_facts(&inputs.iter().collect::<TVec<_>>())?;
    for (output, fact) in node.outputs.iter_mut().zip(facts) {
        output.fact = fact;
    }
    Ok(())
}

/// The identity, but of its output no value is known before it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Hidden;

typed_op!(Hidden, "Hidden");

impl EvalOp for Hidden {
    not_out_of_plan!();

    fn eval(&self, _: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        Ok(inputs)
    }
}

impl TypedOp for Hidden {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        Ok(inputs.iter().map(|input| input.datum_type.fact(input.shape.clone())).collect())
    }

    /// Once the condition is known the branch stands in the model itself, where there is nothing
    /// left to hide.
    fn declutter(&self, model: &TypedModel, node: &TypedNode) -> Patch {
        if model.outputs.contains(&node.id.into()) {
            return Ok(None);
        }
        TypedModelPatch::shunt_one_op(model, node)
    }

    as_op!();
}
