//! Sizes that are expressions of symbols: where tract would take long to simplify one, a symbol
//! stands for it from there on.
//!
//! tract's simplifier takes time and memory that grow exponentially with an expression
//! ([`effort`]), so that five strided slices of a symbolic axis, each joined with what it was taken
//! of, took seconds. So an output of a node whose size is such an expression has a symbol for it
//! ([`names`]), when facts are inferred and when the node is typed; and where an operator would put
//! many expressions together, its inputs have.
//!
//! When the model runs, tract binds a symbol once it sees the shape of a tensor that has it. A
//! symbol in the value of a `Shape` may be wanted before, or where no such tensor is: what takes it
//! is bound to what the symbol stands for ([`ops`]). Values that are expressions become constants
//! ([`expressions`]).

mod effort;
pub(super) mod expressions;
pub(crate) mod names;
pub(crate) mod ops;

use std::collections::HashMap;

use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_hir::internal::*;

use super::Checked;
use crate::onnx::node::NodeView;
use crate::ops::host::around::{FactRefs, Inferred};
use crate::ops::host::hook::Wired;
use effort::Together;
use names::Names;
use ops::{BoundSymbols, Named};

/// What the expressions that an operator looks at may take together, in the steps of [`effort`].
const TOGETHER: u64 = 1 << 15;

/// The sizes among a tensor's elements.
fn dims(tensor: &Tensor) -> &[TDim] {
    if !tensor.datum_type().is_tdim() {
        return &[];
    }
    tensor.try_as_plain_ram().map_or(&[], |view| view.as_slice().unwrap_or(&[]))
}

/// The tensor with others in the place of its sizes.
fn with_dims(tensor: &Tensor, change: impl Fn(&TDim) -> TDim) -> TractResult<Tensor> {
    let mut tensor = tensor.clone();
    for dim in tensor.try_as_plain_ram_mut()?.as_slice_mut::<TDim>()? {
        *dim = change(dim);
    }
    Ok(tensor)
}

/// A fact with others in the place of its sizes, those of its value included.
fn with_sizes(
    fact: &InferenceFact,
    change: &impl Fn(&TDim) -> DimFact,
) -> TractResult<InferenceFact> {
    let changed = |dim: &DimFact| dim.concretize().map_or(DimFact::default(), |dim| change(&dim));
    let sizes: TVec<DimFact> = fact.shape.dims().map(changed).collect();
    let is_open = fact.shape.is_open();
    let shape = if is_open { ShapeFactoid::open(sizes) } else { ShapeFactoid::closed(sizes) };
    let mut fact = InferenceFact { shape, ..fact.clone() };
    if let Some(value) = fact.value.concretize()
        && dims(&value).iter().any(|dim| dim.as_i64().is_none())
    {
        let changed = dims(&value).iter().map(|dim| change(dim).concretize());
        fact.value = match changed.collect::<Option<Vec<TDim>>>() {
            Some(changed) => {
                let mut tensor = value.into_tensor();
                tensor.try_as_plain_ram_mut()?.as_slice_mut::<TDim>()?.clone_from_slice(&changed);
                tensor.into_arc_tensor().into()
            }
            None => ValueFact::default(),
        };
    }
    Ok(fact)
}

fn is_symbol(dim: &TDim) -> bool {
    matches!(dim, TDim::Sym(_))
}

/// A size, unless it is an expression.
fn simple(dim: &TDim) -> DimFact {
    let is_simple = is_symbol(dim) || dim.as_i64().is_some();
    if is_simple { dim.clone().into() } else { DimFact::default() }
}

/// The expressions in a fact.
fn sizes(fact: &InferenceFact) -> Vec<TDim> {
    let shape = fact.shape.dims().filter_map(DimFact::concretize);
    let value = fact.value.concretize();
    let value = value.as_deref().map_or(&[][..], dims).iter().cloned();
    shape.chain(value).filter(|dim| dim.as_i64().is_none()).collect()
}

impl Names {
    /// The fact without what has names in it: a rule that tells a size anew tells what the name
    /// stands for.
    fn forget(&self, fact: &InferenceFact) -> TractResult<InferenceFact> {
        if self.is_empty() {
            return Ok(fact.clone());
        }
        let unnamed = |dim: &TDim| {
            if self.within([dim].into_iter()).is_empty() {
                dim.clone().into()
            } else {
                DimFact::default()
            }
        };
        with_sizes(fact, &unnamed)
    }

    /// Keeps what has names: tract does not write an expression in the same way each time.
    fn keep(&self, fact: &mut InferenceFact, given: &InferenceFact) {
        for (axis, dim) in given.shape.dims().enumerate() {
            let dim = dim.concretize().filter(|dim| !self.within([dim].into_iter()).is_empty());
            let told = fact.shape.dim(axis).and_then(|told| told.concretize());
            if let (Some(dim), Some(told)) = (dim, told)
                && told.as_i64().is_none()
            {
                fact.shape.set_dim(axis, dim);
            }
        }
        if self.are_in_value(given) {
            fact.value = given.value.clone();
        }
    }

    fn are_in_value(&self, fact: &InferenceFact) -> bool {
        let value = fact.value.concretize();
        value.is_some_and(|value| !self.within(dims(&value).iter()).is_empty())
    }
}

impl Checked {
    /// Infers facts, of inputs whose sizes are bounded together, and bounds those of the outputs.
    pub(super) fn infer_bounded(
        &mut self,
        inputs: FactRefs,
        outputs: FactRefs,
        observed: FactRefs,
    ) -> Inferred {
        let Some(names) = self.account.names() else {
            return self.op.infer_facts(inputs, outputs, observed);
        };
        let is_told = inputs.iter().all(|fact| fact.shape.is_concrete());
        let known = outputs.iter().map(|fact| {
            let known = names.forget(fact)?;
            if is_told { with_sizes(&known, &simple) } else { Ok(known) }
        });
        let known = known.collect::<TractResult<TVec<InferenceFact>>>()?;
        let known: TVec<&InferenceFact> = known.iter().collect();
        let mut together = Together::default();
        inputs.iter().flat_map(|fact| sizes(fact)).for_each(|dim| together.add(&dim));
        let mut facts = if together.total() > TOGETHER {
            let short = |dim: &TDim| names.name(dim).into();
            let short = inputs.iter().map(|fact| with_sizes(fact, &short));
            let short = short.collect::<TractResult<TVec<InferenceFact>>>()?;
            let mut facts = self.op.infer_facts(short.iter().collect(), known, observed)?;
            for (fact, given) in facts.0.iter_mut().zip(&inputs) {
                *fact = names.forget(fact)?.unify(given)?;
            }
            facts
        } else {
            self.op.infer_facts(inputs, known, observed)?
        };
        self.is_named = false;
        for (fact, given) in facts.1.iter_mut().zip(&outputs) {
            if !sizes(fact).is_empty() {
                *fact = with_sizes(fact, &|dim| names.short(dim).into())?;
            }
            names.keep(fact, given);
            self.is_named |= names.are_in_value(given);
        }
        Ok(facts)
    }

    /// Computes the node of constants, sizes that are known by symbols among them.
    pub(super) fn compute(&self, inputs: TVec<TValue>) -> TractResult<Option<TVec<TValue>>> {
        let Some(names) = self.account.names() else { return self.op.eval_out_of_plan(inputs) };
        let mut together = Together::default();
        inputs.iter().flat_map(|input| dims(input)).for_each(|dim| together.add(dim));
        let inputs = if together.total() > TOGETHER {
            inputs.iter().map(|input| value(input, |dim| names.name(dim))).collect()
        } else {
            Ok(inputs)
        };
        let outputs = self.op.eval_out_of_plan(inputs?)?;
        let short = |output: &TValue| value(output, |dim| names.short(dim));
        outputs.map(|outputs| outputs.iter().map(short).collect()).transpose()
    }

    /// Where the inputs of a node are in the typed model, if not where they were: with their sizes
    /// bounded together, and their symbols bound.
    pub(super) fn bounded(
        &self,
        node: &InferenceNode,
        target: &mut TypedModel,
        mapping: &HashMap<OutletId, OutletId>,
    ) -> TractResult<Option<HashMap<OutletId, OutletId>>> {
        let Some(names) = self.account.names() else { return Ok(None) };
        let mut together = Together::default();
        let mut symbols: TVec<Symbol> = tvec!();
        let mut inputs: Vec<(OutletId, OutletId)> = vec![];
        for input in &node.inputs {
            let Some(outlet) = mapping.get(input) else { continue };
            let fact = target.outlet_fact(*outlet)?;
            let values = fact.konst.as_deref().map_or(&[][..], dims);
            fact.shape.iter().chain(values).for_each(|dim| together.add(dim));
            symbols.extend(names.within(values.iter()));
            inputs.push((*input, *outlet));
        }
        inputs.sort();
        inputs.dedup();
        symbols.sort();
        symbols.dedup();
        let is_too_much = together.total() > TOGETHER;
        if is_too_much {
            for (index, (_, outlet)) in inputs.iter_mut().enumerate() {
                let name = format!("{}.named.{index}", node.name);
                *outlet = shorten(&names, target, *outlet, name, true)?;
            }
        }
        if !symbols.is_empty() {
            let node_label = self.node.label().to_owned().into();
            let bound = BoundSymbols { names, symbols, node: node_label };
            bind(&bound, &node.name, target, &mut inputs)?;
        } else if !is_too_much {
            return Ok(None);
        }
        let mut mapping = mapping.clone();
        mapping.extend(inputs);
        Ok(Some(mapping))
    }

    /// The node without what was inferred of sizes that are expressions, or have names: tract
    /// compares it with what is typed.
    pub(super) fn unnamed(&self, node: &InferenceNode) -> TractResult<InferenceNode> {
        let mut node = node.clone();
        if let Some(names) = self.account.names() {
            for output in &mut node.outputs {
                output.fact = with_sizes(&names.forget(&output.fact)?, &simple)?;
            }
        }
        Ok(node)
    }

    /// The outputs of a node in the typed model, with symbols for sizes that take too much.
    pub(super) fn named(
        &self,
        node: &InferenceNode,
        target: &mut TypedModel,
        outlets: TVec<OutletId>,
    ) -> Wired {
        let Some(names) = self.account.names() else { return Ok(outlets) };
        let name = |(index, outlet): (usize, OutletId)| {
            let name = format!("{}.size.{index}", node.name);
            shorten(&names, target, outlet, name, false)
        };
        outlets.into_iter().enumerate().map(name).collect()
    }
}

/// Binds symbols in front of the first input that is no list of sizes, or of all lists of sizes
/// where there are no others.
fn bind(
    bound: &BoundSymbols,
    node: &str,
    target: &mut TypedModel,
    inputs: &mut [(OutletId, OutletId)],
) -> TractResult<()> {
    let konst = |outlet: OutletId| target.outlet_fact(outlet).ok()?.konst.as_deref();
    let is_list = |outlet| konst(outlet).is_some_and(|konst| !dims(konst).is_empty());
    let is_data = |(_, outlet): &(OutletId, OutletId)| konst(*outlet).is_none();
    let data = inputs.iter().position(is_data);
    let other = data.or_else(|| inputs.iter().position(|(_, outlet)| !is_list(*outlet)));
    let chosen = other.map_or(0..inputs.len(), |place| place..place + 1);
    for (_, outlet) in inputs.get_mut(chosen).into_iter().flatten() {
        let name = format!("{node}.bound.{}", target.nodes.len());
        let outlets = target.wire_node(name, bound.clone(), &[*outlet])?;
        *outlet = outlets.first().copied().context("has an output")?;
    }
    Ok(())
}

/// The tensor with others in the place of its sizes.
fn value(value: &TValue, change: impl Fn(&TDim) -> TDim) -> TractResult<TValue> {
    if dims(value).iter().all(|dim| dim.as_i64().is_some()) {
        return Ok(value.clone());
    }
    Ok(with_dims(value, change)?.into_tvalue())
}

/// The outlet with symbols for the sizes that take too much, or for all.
fn shorten(
    names: &Names,
    target: &mut TypedModel,
    outlet: OutletId,
    name: String,
    all: bool,
) -> TractResult<OutletId> {
    let short = |dim: &TDim| if all { names.name(dim) } else { names.short(dim) };
    let is_short = |dim: &TDim| {
        if all { matches!(dim, TDim::Val(_) | TDim::Sym(_)) } else { names::is_short(dim) }
    };
    let fact = target.outlet_fact(outlet)?;
    if let Some(konst) = &fact.konst {
        if dims(konst).iter().all(is_short) {
            return Ok(outlet);
        }
        let konst = with_dims(konst, short)?.into_arc_tensor();
        return expressions::constant(names, target, name, konst);
    }
    if fact.shape.iter().chain(&fact.uniform_tdim).all(is_short) {
        return Ok(outlet);
    }
    let outlets = target.wire_node(name, Named { names: names.clone(), all }, &[outlet])?;
    outlets.first().copied().context("has an output")
}
