//! What tract computes of constants alone while it loads a model: taken from the model's
//! [`Allowance`] first, or not computed.
//!
//! [`Allowance`]: super::allowance::Allowance

use std::collections::{HashMap, HashSet};

use tract_onnx::pb::NodeProto;
use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_core::optim::CONST_FOLD_MEM_BUDGET;
use tract_onnx::tract_hir::internal::*;

use super::Checked;
use super::allowance::{Account, NodeOrigin, bytes, longest, tensor_bytes, typed_bytes, volume};
use crate::error::Error;
use crate::onnx::limits::within;
use crate::onnx::node::{NodeView, attribute, place_in_tract};
use crate::ops::host::around::Wrapped;
use crate::ops::host::element_wise::{same_facts, typed_op};
use crate::ops::host::hook::Wired;
use crate::ops::host::saved::save;
use crate::ops::weights;

/// Operators the sizes of whose results are told by no shape, but are in proportion to those of the
/// operands.
const SELECTING: &[&str] =
    &["Compress", "NonMaxSuppression", "NonZero", "StringSplit", "TfIdfVectorizer", "Unique"];

/// Operators the sizes of whose results numbers tell, or that may double what there is.
const MAKERS: &[&str] = &[
    "BlackmanWindow",
    "Concat",
    "ConstantOfShape",
    "ConvTranspose",
    "DFT",
    "Expand",
    "HammingWindow",
    "HannWindow",
    "MelWeightMatrix",
    "Multinomial",
    "OneHot",
    "Pad",
    "RandomNormal",
    "RandomUniform",
    "Range",
    "Resize",
    "Tile",
    "Upsample",
];

/// The operators with an operand that has an element for each dimension of the result, and the
/// operand's place.
const SHAPED: &[(&str, usize)] =
    &[("ConstantOfShape", 0), ("Expand", 1), ("Reshape", 1), ("Tile", 1), ("Unsqueeze", 1)];

/// The operators of which tract makes an output by its shape alone, which is that of the first
/// input, and the output's place.
const OF_SHAPE: &[(&str, usize)] = &[("Dropout", 1), ("EyeLike", 0)];

/// The operators of whose window tract notes each place, and the operand behind whose channels the
/// window's sizes are.
const WINDOWED: &[(&str, usize)] =
    &[("Conv", 1), ("ConvInteger", 1), ("ConvTranspose", 1), ("QLinearConv", 3)];

/// Checks what tract would go through while it builds or types a node, whatever the inputs are: as
/// many axes as are named, and all places of a window, those in the padding included.
pub(super) fn check_node(account: &Account, node: &NodeProto) -> Result<(), Error> {
    let place = || format!("node `{}` ({})", node.label(), node.op_type);
    let numbers = |name| attribute(node, name).map_or(&[][..], |numbers| &numbers.ints);
    let axes = numbers("axes").len() as u64;
    if let Some(allowance) = account.allowance() {
        within(place, "rank", axes, allowance.rank)?;
    }
    let (pads, kernel) = (numbers("pads"), numbers("kernel_shape"));
    if kernel.is_empty() && pads.is_empty() {
        return Ok(());
    }
    let (before, after) = pads.split_at(pads.len() / 2);
    let sides = before.iter().zip(after);
    let padded = sides.map(|(a, b)| a.unsigned_abs().saturating_add(b.unsigned_abs()));
    let padded = padded.map(|places| places.saturating_add(1)).fold(1, u64::saturating_mul);
    let window = kernel.iter().map(|size| size.unsigned_abs().max(1));
    let places = padded.max(window.fold(1, u64::saturating_mul));
    account.take(places.saturating_mul(size_of::<usize>() as u64), place)
}

/// The bytes of the longest text among a node's attributes.
pub(super) fn longest_text(node: &NodeProto) -> u64 {
    let texts = node.attribute.iter().flat_map(|attribute| {
        let tensors = attribute.t.iter().flat_map(|tensor| &tensor.string_data);
        attribute.strings.iter().chain([&attribute.s]).chain(tensors)
    });
    texts.map(|text| text.len() as u64).max().unwrap_or(0)
}

fn is_text(fact: &InferenceFact) -> bool {
    fact.datum_type.concretize() == Some(String::datum_type())
}

fn is_of_nothing(fact: &InferenceFact) -> bool {
    fact.shape.dims().any(|dim| dim.concretize() == Some(0.to_dim()))
}

impl Checked {
    /// The bytes of the outputs, of which a text may be as long as all texts of the node together;
    /// `None` where they are not known.
    fn bytes<'a>(
        &self,
        constants: &[Arc<Tensor>],
        mut outputs: impl Iterator<Item = &'a InferenceFact> + Clone,
    ) -> Option<u64> {
        /// A number takes as many letters at most.
        const SPELLED: u64 = 32;
        /// A transform works with so many times what it makes.
        const TRANSFORMED: u64 = 8;
        if self.node.op_type == "Range"
            && let Some(length) = range(constants)
        {
            return Some(length.saturating_mul(size_of::<f64>() as u64));
        }
        let text = if outputs.clone().any(is_text) {
            constants.iter().map(|constant| longest(constant)).sum::<u64>() + self.text + SPELLED
        } else {
            0
        };
        let times = if self.node.op_type == "DFT" { TRANSFORMED } else { 1 };
        let made =
            |sum: u64, output| Some(sum.saturating_add(bytes(output, text)?.saturating_mul(times)));
        outputs.try_fold(0, made)
    }

    /// Fails where a node is to make a tensor of too many axes.
    pub(super) fn check_rank(&self, inputs: &[&InferenceFact]) -> TractResult<()> {
        let shaped = SHAPED.iter().find(|(operator, _)| *operator == self.node.op_type);
        let input =
            shaped.and_then(|(_, place)| inputs.get(place_in_tract(&self.node.input, *place)?));
        let length = input.and_then(|shape| shape.shape.dims().next()?.concretize()?.as_i64());
        let rank = length.and_then(|length| u64::try_from(length).ok()).unwrap_or(0);
        if let Some(allowance) = self.account.allowance() {
            within(|| self.place(), "rank", rank, allowance.rank)?;
        }
        Ok(())
    }

    /// Takes what tract makes by its shape, as far as that is told.
    pub(super) fn take_of_shape(
        &self,
        inputs: &[&InferenceFact],
        outputs: &[&InferenceFact],
    ) -> TractResult<()> {
        let windowed = WINDOWED.iter().find(|(operator, _)| *operator == self.node.op_type);
        let window =
            windowed.and_then(|(_, place)| inputs.get(place_in_tract(&self.node.input, *place)?));
        if let Some(window) = window {
            let sizes = window.shape.dims().skip(2).filter_map(DimFact::concretize);
            let sizes = sizes.filter_map(|size| u64::try_from(size.as_i64()?).ok()).collect();
            let places = volume(sizes).saturating_mul(size_of::<usize>() as u64);
            self.account.take(places, || self.place())?;
        }
        let made = OF_SHAPE.iter().find(|(operator, _)| *operator == self.node.op_type);
        let Some(output) = made.and_then(|(_, place)| outputs.get(*place)) else { return Ok(()) };
        for told in inputs.iter().take(1).chain([output]) {
            let made = InferenceFact { shape: told.shape.clone(), ..(*output).clone() };
            self.account.take(bytes(&made, 0).unwrap_or(0), || self.place())?;
        }
        Ok(())
    }

    /// Takes what tract is about to compute of known inputs, and tells whether it may: what it
    /// would not keep, it need not compute.
    pub(super) fn admit(
        &mut self,
        inputs: &[InferenceFact],
        outputs: &[InferenceFact],
    ) -> TractResult<()> {
        let values: Option<TVec<_>> = inputs.iter().map(|fact| fact.value.concretize()).collect();
        let made = self.bytes(values.as_deref().unwrap_or_default(), outputs.iter());
        self.folds = false;
        match (values.filter(|values| !values.is_empty()), made) {
            (Some(values), Some(made)) => {
                self.account.take(made, || self.place())?;
                // tract does not count the texts.
                let most = values.iter().map(|value| tensor_bytes(value)).sum::<u64>();
                let kept = outputs.iter().map(|output| bytes(output, 0)).sum::<Option<u64>>();
                self.folds = kept.unwrap_or(made) <= most.max(CONST_FOLD_MEM_BUDGET)
                    && !(self.widens() && made >= (weights::FROM * size_of::<f32>()) as u64)
                    && self.has_time(inputs.iter(), outputs.iter());
            }
            (Some(values), None) => {
                // tract has a symbol for the number of boxes where it could be told too.
                let is_told = self.selects() && self.node.op_type != "NonMaxSuppression";
                self.folds = is_told || values.iter().any(|value| is_symbolic(value))
            }
            // What is made of nothing is a constant, and no input of the size stands for it.
            (None, Some(made))
                if MAKERS.contains(&&*self.node.op_type) || inputs.iter().any(is_of_nothing) =>
            {
                self.account.check_made(made, || self.place())?;
            }
            (None, _) => {}
        }
        Ok(())
    }

    /// Whether its operator decides itself what it folds, by what takes it: weights may stay as
    /// they are.
    fn widens(&self) -> bool {
        ["Cast", "DequantizeLinear"].contains(&&*self.node.op_type)
    }

    fn selects(&self) -> bool {
        SELECTING.contains(&&*self.node.op_type)
    }

    /// Computes the node of constants.
    pub(super) fn fold(&self, inputs: TVec<TValue>) -> TractResult<Option<TVec<TValue>>> {
        let outputs = self.compute(inputs)?;
        let made = outputs.iter().flatten().map(|output| tensor_bytes(output)).sum();
        self.account.take(made, || self.place())?;
        Ok(outputs)
    }

    /// Wires the node into a typed model, after taking what tract will compute there of constants.
    /// What it will know only then is held back where it decides on a size.
    pub(super) fn wire(
        &self,
        source: &InferenceModel,
        node: &InferenceNode,
        target: &mut TypedModel,
        mapping: &HashMap<OutletId, OutletId>,
    ) -> Wired {
        let origins = node.inputs.iter().map(|input| origin(source, *input));
        let origin = origins.max().unwrap_or_default();
        let known = |input: &OutletId| source.outlet_fact(*input).ok()?.value.concretize();
        let constants: TVec<Arc<Tensor>> = node.inputs.iter().filter_map(known).collect();
        let outputs = node.outputs.iter().map(|output| &output.fact);
        // The lengths of texts that are not known yet are not either.
        let is_known = constants.len() == node.inputs.len() || !outputs.clone().any(is_text);
        let made = self.bytes(&constants, outputs).filter(|_| is_known);
        let mut held = None;
        let mut origin_of_outputs = origin;
        if origin == NodeOrigin::Constants {
            let inputs = node.inputs.iter().filter_map(|input| source.outlet_fact(*input).ok());
            let has_time = self.has_time(inputs, node.outputs.iter().map(|output| &output.fact));
            if let Some(made) = made {
                self.account.take(made, || self.place())?;
            }
            if made.is_none() || !has_time {
                held = Some(self.held_back(source, node, target, mapping, !has_time)?);
                origin_of_outputs = NodeOrigin::Inputs;
            }
        }
        self.account.set_origin(origin_of_outputs);
        let bounded = self.bounded(node, target, held.as_ref().unwrap_or(mapping))?;
        let mapping = bounded.as_ref().or(held.as_ref()).unwrap_or(mapping);
        let first = target.nodes.len();
        let outlets = self.op.to_typed(source, &self.unnamed(node)?, target, mapping)?;
        self.take_parts(target, first)?;
        self.named(node, target, outlets)
    }

    /// Where the inputs are, those that decide on the size of the outputs being held back, or the
    /// first.
    fn held_back(
        &self,
        source: &InferenceModel,
        node: &InferenceNode,
        target: &mut TypedModel,
        mapping: &HashMap<OutletId, OutletId>,
        first: bool,
    ) -> TractResult<HashMap<OutletId, OutletId>> {
        let is_known = |input: &OutletId| {
            source.outlet_fact(*input).is_ok_and(|fact| fact.value.is_concrete())
        };
        let late = |input: &&OutletId| !is_known(input);
        let mut decide: HashSet<OutletId> = node.inputs.iter().filter(late).copied().collect();
        if decide.is_empty() {
            if !self.selects() && !first {
                bail!(self.refused("makes a constant of a size that cannot be told before"));
            }
            decide.extend(node.inputs.first());
        }
        let mut mapping = mapping.clone();
        for (index, input) in decide.into_iter().enumerate() {
            let outlet = mapping.get(&input).copied().context("inputs come before")?;
            let name = format!("{}.held.{index}", node.name);
            mapping.extend(
                target.wire_node(name, Held, &[outlet])?.first().map(|held| (input, *held)),
            );
        }
        Ok(mapping)
    }

    /// Takes what the parts of a node, from the first on, are of constants.
    fn take_parts(&self, target: &TypedModel, first: usize) -> TractResult<()> {
        let mut parts = HashSet::new();
        let mut made = 0u64;
        for part in target.nodes.iter().skip(first) {
            let is_constant = |input: &OutletId| {
                let fact = target.outlet_fact(*input);
                parts.contains(&input.node) || fact.is_ok_and(|fact| fact.konst.is_some())
            };
            if part.inputs.is_empty() || !part.inputs.iter().all(is_constant) {
                continue;
            }
            parts.insert(part.id);
            let outputs = part.outputs.iter().filter_map(|output| typed_bytes(&output.fact));
            made = outputs.fold(made, u64::saturating_add);
        }
        Ok(self.account.take(made, || self.place())?)
    }
}

/// What a value of a model that is being typed is made of.
fn origin(source: &InferenceModel, outlet: OutletId) -> NodeOrigin {
    let value = source.outlet_fact(outlet).ok().and_then(|fact| fact.value.concretize());
    let op = source.nodes.get(outlet.node).map(|node| node.op.as_op());
    match (value, op.and_then(|op| op.downcast_ref::<Wrapped<Checked>>())) {
        (Some(value), _) if is_symbolic(&value) => NodeOrigin::Symbols,
        (Some(_), _) => NodeOrigin::Constants,
        (None, Some(Wrapped(checked))) => checked.account.origin(),
        (None, None) => NodeOrigin::Inputs,
    }
}

/// Whether a value has sizes that are symbols.
fn is_symbolic(value: &Tensor) -> bool {
    let view = value.try_as_plain_ram();
    let dims = view.map_or(&[][..], |view| view.as_slice::<TDim>().unwrap_or_default());
    dims.iter().any(|dim| dim.as_i64().is_none())
}

/// How many numbers a `Range` of constants has.
fn range(values: &[Arc<Tensor>]) -> Option<u64> {
    let number = |value: &Arc<Tensor>| {
        let value = value.cast_to::<f64>().ok()?;
        value.try_as_plain_ram().ok()?.as_slice::<f64>().ok()?.first().copied()
    };
    let [start, limit, delta] = values else { return None };
    let (start, limit, delta) = (number(start)?, number(limit)?, number(delta)?);
    // The operator refuses that itself.
    if delta == 0.0 {
        return Some(0);
    }
    let length = ((limit - start) / delta).ceil();
    // One more, as it is rounded here.
    length.is_finite().then_some((length.max(0.0) as u64).saturating_add(1))
}

/// The identity, behind which tract computes nothing before the model is run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Held;

typed_op!(Held, "Held");

impl EvalOp for Held {
    not_out_of_plan!();

    fn eval(&self, _: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        Ok(inputs)
    }
}

impl TypedOp for Held {
    same_facts!();

    as_op!();
}

save!(Held, "tract_onnx_cast_held", {});
