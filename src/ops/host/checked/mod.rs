//! tract's operators, whose nodes are compared with what the operators take before tract's rules
//! run.
//!
//! The comparison is made when a node is built, when facts are inferred, and once more when it is
//! typed, each time with what is `known` by then:
//!
//! - `ranges`: what single operands may be; `fitting`: sizes that have to fit; `stretched`:
//!   operands that are broadcast
//! - `names`, `signs`: names and constants of which tract would make one
//! - `sizes`: sizes that no memory holds; `work`: what takes long; `constants`: what is computed of
//!   constants alone, within an `allowance`

pub(crate) mod allowance;
pub(crate) mod constants;
mod fitting;
mod known;
mod names;
mod ranges;
mod signs;
pub(crate) mod sizes;
mod stretched;
mod work;

use std::collections::HashMap;
use std::sync::Arc;

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::{AttributeProto, NodeProto};
use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_hir::internal::*;

use crate::error::Error;
use crate::onnx::node::{NodeView, place_in_tract, refusal};
use crate::ops::host::around::{Around, FactRefs, Inferred, Wrapped, around};
use crate::ops::host::at_opset::imported;
use crate::ops::host::claimed::Claimed;
use crate::ops::host::hook::{Wired, mapped};
use crate::ops::host::stock::{Build, Built};
use allowance::Account;
use known::KnownOperands;
use sizes::expressions;

/// Builds a node by `build`, to be compared with what its operator takes.
/// Fails when it is not what the operator takes whatever the inputs are, or when `build` fails.
pub(crate) fn build(context: &ParsingContext, node: &NodeProto, build: Build) -> Built {
    let opset = context.onnx_operator_set_version;
    ranges::check(node, opset, &())?;
    let account = Account::open();
    constants::check_node(&account, node)?;
    let (op, closures) = build(context, node)?;
    let text = constants::longest_text(node);
    // Bodies are compared on their own, but what a `Scan` makes is told by its body.
    let counts = |given: &&AttributeProto| given.g.is_none() || node.op_type == "Scan";
    let attribute = node.attribute.iter().filter(counts).filter(|given| given.t.is_none());
    let node = NodeProto {
        name: node.name.clone(),
        op_type: node.op_type.clone(),
        input: node.input.clone(),
        output: node.output.clone(),
        attribute: attribute.cloned().collect(),
        ..NodeProto::default()
    };
    let node = Arc::new(node);
    let checked = Checked {
        op,
        node,
        opset,
        account,
        text,
        folds: false,
        is_named: false,
        is_intricate: false,
    };
    Ok((Box::new(Wrapped(checked)), closures))
}

/// An operator of tract's, and the node that it is built of.
#[derive(Debug, Clone)]
struct Checked {
    op: Box<dyn InferenceOp>,
    /// Without what it holds of tensors.
    node: Arc<NodeProto>,
    /// The version of the default domain that the node is of.
    opset: i64,
    /// What of the model's allowance it takes.
    account: Account,
    /// The bytes of the longest text that it has as an attribute.
    text: u64,
    /// Whether tract may compute it while it infers facts, if all inputs are known.
    folds: bool,
    /// Whether the value of an output is known by symbols that this crate has given it.
    is_named: bool,
    /// Whether all outputs are known, and there is an expression among them.
    is_intricate: bool,
}

/// The facts of a node's inputs and outputs, of one form or the other, by tract's places.
struct OperandFacts<'a, I, O> {
    node: &'a NodeProto,
    inputs: &'a [I],
    outputs: &'a [O],
}

fn rank(fact: &InferenceFact) -> Option<usize> {
    fact.shape.rank().concretize()?.try_into().ok()
}

impl KnownOperands for OperandFacts<'_, &InferenceFact, &InferenceFact> {
    fn shape(&self, place: usize) -> Option<TVec<Option<i64>>> {
        let fact = self.inputs.get(place_in_tract(&self.node.input, place)?)?;
        rank(fact)?;
        Some(fact.shape.dims().map(|dim| dim.concretize()?.as_i64()).collect())
    }

    fn output_rank(&self, place: usize) -> Option<usize> {
        rank(self.outputs.get(place_in_tract(&self.node.output, place)?)?)
    }

    fn constant(&self, place: usize) -> Option<Arc<Tensor>> {
        self.inputs.get(place_in_tract(&self.node.input, place)?)?.value.concretize()
    }
}

impl KnownOperands for OperandFacts<'_, &TypedFact, &InferenceFact> {
    fn shape(&self, place: usize) -> Option<TVec<Option<i64>>> {
        let fact = self.inputs.get(place_in_tract(&self.node.input, place)?)?;
        Some(fact.shape.iter().map(TDim::as_i64).collect())
    }

    fn output_rank(&self, place: usize) -> Option<usize> {
        rank(self.outputs.get(place_in_tract(&self.node.output, place)?)?)
    }

    fn constant(&self, place: usize) -> Option<Arc<Tensor>> {
        self.inputs.get(place_in_tract(&self.node.input, place)?)?.konst.clone()
    }
}

impl Checked {
    fn check<I, O>(&self, inputs: &[I], outputs: &[O]) -> TractResult<()>
    where
        for<'a> OperandFacts<'a, I, O>: KnownOperands,
    {
        let facts = OperandFacts { node: &self.node, inputs, outputs };
        Ok(ranges::check(&self.node, self.opset, &facts)?)
    }

    fn place(&self) -> String {
        format!("node `{}` ({})", self.node.label(), self.node.op_type)
    }

    fn refused(&self, problem: &str) -> Error {
        let imported = imported(&self.node, self.opset);
        let problem = format!("{problem}, the model imports {imported}");
        refusal(&*self.node, problem)
    }

    fn check_sizes(&self, output: &InferenceFact) -> TractResult<()> {
        let dims = output.shape.dims().filter_map(|dim| dim.concretize());
        if let Some(size) = dims.filter_map(|dim| dim.as_i64()).find(|size| *size < 0) {
            bail!(self.refused(&format!("makes a dimension of {size} elements")));
        }
        Ok(())
    }
}

impl Around for Checked {
    around!(self, self.op);

    fn state(&self, context: &EvalContext) -> TractResult<Option<Box<dyn OpState>>> {
        let state = self.op.state(context)?;
        Ok(state.or_else(|| self.is_intricate.then(|| Box::new(Claimed) as Box<dyn OpState>)))
    }

    fn infer_facts(&mut self, inputs: FactRefs, outputs: FactRefs, observed: FactRefs) -> Inferred {
        self.check_rank(&inputs)?;
        self.check(&inputs, &outputs)?;
        self.take_of_shape(&inputs, &outputs)?;
        let facts = self.infer_bounded(inputs, outputs, observed)?;
        facts.1.iter().try_for_each(|output| self.check_sizes(output))?;
        self.admit(&facts.0, &facts.1)?;
        self.is_intricate = expressions::are_intricate(&facts.1);
        Ok(facts)
    }

    fn eval_out_of_plan(&self, inputs: TVec<TValue>) -> TractResult<Option<TVec<TValue>>> {
        if self.folds && !self.is_named { self.fold(inputs) } else { Ok(None) }
    }

    fn to_typed(
        &self,
        source: &InferenceModel,
        node: &InferenceNode,
        target: &mut TypedModel,
        mapping: &HashMap<OutletId, OutletId>,
    ) -> Wired {
        names::apart(source, node, target, |node, target| self.typed(source, node, target, mapping))
    }
}

impl Checked {
    fn typed(
        &self,
        source: &InferenceModel,
        node: &InferenceNode,
        target: &mut TypedModel,
        mapping: &HashMap<OutletId, OutletId>,
    ) -> Wired {
        if let Some(outlets) = self.constants(node, target)? {
            return Ok(outlets);
        }
        let mapping = &*signs::kept(source, node, target, mapping)?;
        let inputs = mapped(node.inputs.iter(), mapping)?;
        {
            let facts = inputs.iter().map(|input| target.outlet_fact(*input));
            let facts = facts.collect::<TractResult<TVec<_>>>()?;
            let outputs: TVec<&InferenceFact> = node.outputs.iter().map(|out| &out.fact).collect();
            self.check(&facts, &outputs)?;
            outputs.iter().try_for_each(|output| self.check_sizes(output))?;
        }
        self.wire(source, node, target, mapping)
    }
}
