//! Operands that tract 0.23.9 reads without a look at their shape, so that it reads what is not
//! there.
//!
//! `to_scalar` and `cast_to_scalar` of tract-data (`src/tensor/plain_view.rs:117` and `:239`) do
//! not look at the length, so that a tensor without elements is read through a dangling pointer. No
//! such tensor may get there:
//!
//! - where one number is wanted ([`SCALARS`]) it is refused, by an operator in front of the operand
//!   if only a run can tell;
//! - of an operator whose result has the shape of all operands ([`BROADCASTING`]) the result has no
//!   elements either, and a constant takes the operator's place: tract looks for its numbers in
//!   patterns (`matches_single_input_const`). Where other sizes are open it is refused, whatever
//!   stands in front of it: `TypedModel::wire_node` (tract-core, `src/model/typed.rs:127`) makes a
//!   constant of each value that has no elements.
//!
//! Nor may a shape of fewer axes than a batch, its channels and what an operator slides over
//! ([`RANKS`]): `BaseDataShape` of tract-core (`src/ops/nn/data_formats.rs`) takes these out of the
//! shape without a look at its length.

mod table;

use std::collections::HashSet;

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_core::ops::array::MultiBroadcastTo;
use tract_onnx::tract_core::ops::source::TypedSource;
use tract_onnx::tract_hir::internal::*;

use crate::error::Error;
use crate::onnx::node::{node_name, place_in_tract};
use crate::ops::host::around::{Around, FactRefs, Inferred, Wrapped, around};
use crate::ops::host::at_opset::imported;
use crate::ops::host::element_wise::typed_op;
use crate::ops::host::hook::{Patch, Wired, mapped, refused};
use crate::ops::host::label::Label;
pub(crate) use table::BROADCASTING;
use table::{COMPOSED, NamedOperand, RANKS, SCALARS};

/// The operators with such operands.
pub(crate) fn guarded_operators() -> impl Iterator<Item = &'static str> {
    let scalars = SCALARS.iter().map(|(operator, _)| *operator);
    let ranks = RANKS.iter().map(|(operator, _)| *operator);
    BROADCASTING.iter().chain(COMPOSED).copied().chain(scalars).chain(ranks)
}

fn row<T>(table: &'static [(&str, &[T])], operator: &str) -> &'static [T] {
    table.iter().find(|(name, _)| *name == operator).map_or(&[], |(_, row)| row)
}

/// The operator of a node, with an eye on its operands where it has such.
pub(crate) fn guarded(
    context: &ParsingContext,
    node: &NodeProto,
    op: Box<dyn InferenceOp>,
) -> Box<dyn InferenceOp> {
    if !guarded_operators().any(|operator| operator == node.op_type) {
        return op;
    }
    let given = |place: usize| place_in_tract(&node.input, place);
    let scalars = row(SCALARS, &node.op_type).iter();
    let scalars = scalars.filter_map(|(place, name)| Some((given(*place)?, *name))).collect();
    Box::new(Wrapped(Guarded {
        op,
        node: node_name(node),
        operator: node.op_type.clone(),
        opset: imported(node, context.onnx_operator_set_version),
        scalars,
        ranks: row(RANKS, &node.op_type),
        broadcasts: BROADCASTING.contains(&&*node.op_type),
        composed: COMPOSED.contains(&&*node.op_type),
    }))
}

/// Whether a tensor has elements, as far as its shape tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ElementPresence {
    None,
    Some,
    Unknown,
}

fn elements<'a>(mut dims: impl Iterator<Item = &'a TDim> + Clone) -> ElementPresence {
    if dims.clone().any(|dim| *dim == TDim::Val(0)) {
        return ElementPresence::None;
    }
    if dims.all(|dim| dim.as_i64().is_some()) {
        ElementPresence::Some
    } else {
        ElementPresence::Unknown
    }
}

/// An operator whose operands are looked at before it reads them.
#[derive(Debug, Clone)]
struct Guarded {
    op: Box<dyn InferenceOp>,
    /// For messages, as the operator's name and the version of the default domain.
    node: String,
    operator: String,
    opset: i64,
    /// The operands that are one number each, by their places in tract.
    scalars: Vec<NamedOperand>,
    /// Places of operands, and the least rank of each.
    ranks: &'static [(usize, usize)],
    /// Whether the operands are stretched to one shape.
    broadcasts: bool,
    /// Whether tract makes sums and products of the operands otherwise.
    composed: bool,
}

impl Guarded {
    fn error(&self, operand: &str) -> Error {
        no_number(&self.node, &self.operator, operand, self.opset)
    }

    /// Fails where an operand has not the axes that the operator needs, of those ranks that are
    /// known.
    fn check_ranks(&self, rank: impl Fn(usize) -> Option<usize>) -> TractResult<()> {
        for (place, least) in self.ranks {
            if let Some(rank) = rank(*place).filter(|rank| rank < least) {
                let problem = format!(
                    "has an input {place} of rank {rank}, where it takes {least} and more, the model imports {}",
                    self.opset
                );
                bail!(refused(&self.node, &self.operator, problem));
            }
        }
        Ok(())
    }

    fn makes_arithmetic(&self) -> bool {
        self.broadcasts || self.composed
    }

    /// The constants without elements that this node makes, if it does.
    fn nothing(
        &self,
        node: &InferenceNode,
        target: &mut TypedModel,
        inputs: &[OutletId],
    ) -> TractResult<Option<TVec<OutletId>>> {
        let mut shapes: TVec<TVec<TDim>> = tvec!();
        for input in inputs {
            shapes.push(target.outlet_fact(*input)?.shape.to_tvec());
        }
        if !shapes.iter().any(|shape| elements(shape.iter()) == ElementPresence::None) {
            return Ok(None);
        }
        let mut facts = vec![];
        for output in &node.outputs {
            let (ty, shape) = (&output.fact.datum_type, &output.fact.shape);
            let (Some(ty), Some(shape)) = (ty.concretize(), shape.concretize()) else {
                return Ok(None);
            };
            if elements(shape.iter()) != ElementPresence::None {
                return Ok(None);
            }
            facts.push((ty, shape));
        }
        let mut outlets = tvec!();
        for (index, (ty, shape)) in facts.into_iter().enumerate() {
            let sizes = shape.iter().map(|dim| dim.to_usize().unwrap_or(1)).collect::<TVec<_>>();
            let name =
                if index == 0 { node.name.clone() } else { format!("{}.{index}", node.name) };
            let is_known = shape.iter().all(|dim| dim.as_i64().is_some());
            let nothing = Tensor::zero_dt(ty, &sizes)?;
            if is_known {
                outlets.push(target.add_const(name, nothing)?);
            } else {
                let one = target.add_const(format!("{name}.nothing"), nothing)?;
                outlets.extend(target.wire_node(
                    name,
                    MultiBroadcastTo::new(shape.into()),
                    &[one],
                )?);
            }
        }
        Ok(Some(outlets))
    }

    /// Fails where operands have several sizes along an axis, none of which is one: tract makes a
    /// size of that which has no value, and leaves the node out where an operand changes nothing.
    fn check_fit(&self, target: &TypedModel, inputs: &[OutletId]) -> TractResult<()> {
        let shapes = inputs.iter().map(|input| Ok(&*target.outlet_fact(*input)?.shape));
        let shapes: TVec<&[TDim]> = shapes.collect::<TractResult<_>>()?;
        let rank = shapes.iter().map(|shape| shape.len()).max().unwrap_or(0);
        for axis in 1..=rank {
            let sizes = shapes.iter().filter_map(|shape| shape.get(shape.len().checked_sub(axis)?));
            let mut sizes = sizes.filter_map(|size| size.as_i64()).filter(|size| *size != 1);
            let first = sizes.next();
            if sizes.any(|size| Some(size) != first) {
                let problem = format!(
                    "has inputs of shapes that do not fit, {shapes:?}, the model imports {}",
                    self.opset
                );
                bail!(refused(&self.node, &self.operator, problem));
            }
        }
        Ok(())
    }

    /// Fails where an operand has no elements and the result may have some, as far as is known: no
    /// operator in front of such an operand hides it, since tract takes whatever has no elements
    /// for a constant.
    fn check_open(&self, target: &TypedModel, inputs: &[OutletId]) -> TractResult<()> {
        for (place, input) in inputs.iter().enumerate() {
            if elements(target.outlet_fact(*input)?.shape.iter()) == ElementPresence::None {
                let problem = format!(
                    "has an operand {place} without elements, and another whose sizes are only known when the model runs, the model imports {}",
                    self.opset
                );
                bail!(refused(&self.node, &self.operator, problem));
            }
        }
        Ok(())
    }

    /// What an operand is in the typed model, seen through an [`OperandGuard`] where it may have no
    /// elements.
    fn guard(
        &self,
        node: &str,
        target: &mut TypedModel,
        place: usize,
        input: OutletId,
    ) -> TractResult<OutletId> {
        let elements = elements(target.outlet_fact(input)?.shape.iter());
        let scalar = self.scalars.iter().find(|(scalar, _)| *scalar == place);
        let guards = match (scalar, elements) {
            (_, ElementPresence::Some) => false,
            (Some((_, operand)), ElementPresence::None) => bail!(self.error(operand)),
            (Some(_), ElementPresence::Unknown) => true,
            (None, ElementPresence::None) => self.makes_arithmetic(),
            (None, ElementPresence::Unknown) => {
                self.makes_arithmetic() && !is_of_data(target, input)
            }
        };
        if !guards {
            return Ok(input);
        }
        let guard = OperandGuard {
            node: self.node.clone().into(),
            operator: self.operator.clone().into(),
            operand: scalar.map(|(_, operand)| *operand),
            opset: self.opset,
        };
        let name = target.unique_name(format!("{node}.operand-{place}")).into_owned();
        let outlets = target.wire_node(name, guard, &[input])?;
        outlets.first().copied().context("a guard has an output")
    }
}

fn no_number(node: &str, operator: &str, operand: &str, opset: i64) -> Error {
    let problem = format!(
        "has an input {operand} without elements, where it takes a number, the model imports {opset}"
    );
    refused(node, operator, problem)
}

/// Whether a value is made of what the model is given, so that it is no constant. Shapes are not
/// counted: of those tract has made constants already.
fn is_of_data(model: &TypedModel, outlet: OutletId) -> bool {
    let mut seen = HashSet::new();
    let mut ahead = vec![outlet.node];
    while let Some(id) = ahead.pop() {
        let Some(node) = model.nodes.get(id).filter(|_| seen.insert(id)) else { continue };
        if node.op_is::<TypedSource>() {
            return true;
        }
        ahead.extend(node.inputs.iter().map(|input| input.node));
    }
    false
}

impl Around for Guarded {
    around!(self, self.op);

    fn infer_facts(&mut self, inputs: FactRefs, outputs: FactRefs, observed: FactRefs) -> Inferred {
        self.check_ranks(|place| inputs.get(place)?.shape.rank().concretize()?.try_into().ok())?;
        for (place, operand) in &self.scalars {
            let Some(fact) = inputs.get(*place) else { continue };
            let is_nothing = |dim: &GenericFactoid<TDim>| dim.concretize() == Some(TDim::Val(0));
            if fact.shape.dims().any(is_nothing)
                || fact.value.concretize().is_some_and(|value| value.len() == 0)
            {
                bail!(self.error(operand));
            }
        }
        self.op.infer_facts(inputs, outputs, observed)
    }

    fn to_typed(
        &self,
        source: &InferenceModel,
        node: &InferenceNode,
        target: &mut TypedModel,
        mapping: &HashMap<OutletId, OutletId>,
    ) -> Wired {
        let inputs = mapped(node.inputs.iter(), mapping)?;
        self.check_ranks(|place| Some(target.outlet_fact(*inputs.get(place)?).ok()?.rank()))?;
        if self.broadcasts {
            self.check_fit(target, &inputs)?;
        }
        if self.makes_arithmetic()
            && let Some(nothing) = self.nothing(node, target, &inputs)?
        {
            return Ok(nothing);
        }
        if self.makes_arithmetic() && self.operator != "Gemm" {
            self.check_open(target, &inputs)?;
        }
        let mut guarded = HashMap::new();
        for (place, (outlet, input)) in node.inputs.iter().zip(&inputs).enumerate() {
            let input = self.guard(&node.name, target, place, *input)?;
            let seen = guarded.entry(*outlet).or_insert(input);
            if seen == mapping.get(outlet).unwrap_or(seen) {
                *seen = input;
            }
        }
        self.op.to_typed(source, node, target, &guarded)
    }
}

/// The identity, but its output is no constant, and where it is one number, a run fails that has
/// none.
#[derive(Debug, Clone, PartialEq, Eq)]
struct OperandGuard {
    node: Label,
    operator: Label,
    operand: Option<&'static str>,
    opset: i64,
}

typed_op!(OperandGuard, "Guard");

impl EvalOp for OperandGuard {
    not_out_of_plan!();

    fn eval(&self, _: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        if let Some(operand) = self.operand
            && inputs.iter().any(|input| input.len() == 0)
        {
            bail!(no_number(&self.node, &self.operator, operand, self.opset));
        }
        Ok(inputs)
    }
}

impl TypedOp for OperandGuard {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        Ok(inputs.iter().map(|input| input.datum_type.fact(input.shape.clone())).collect())
    }

    /// Once it is known that there are elements, there is nothing left to guard.
    fn declutter(&self, model: &TypedModel, node: &TypedNode) -> Patch {
        let facts = model.node_input_facts(node.id)?;
        let has_elements =
            facts.iter().all(|fact| elements(fact.shape.iter()) == ElementPresence::Some);
        if !has_elements || model.outputs.contains(&node.id.into()) {
            return Ok(None);
        }
        TypedModelPatch::shunt_one_op(model, node)
    }

    as_op!();
}
