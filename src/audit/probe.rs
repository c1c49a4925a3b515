//! An op behind each cast and `QuantizeLinear` that sees what went into it and what came out.
//!
//! It passes on what came out, so it stands in the way of the values, in subgraphs as well, and
//! results stay what they are. tract folds what it knows before a model runs; a probe keeps its
//! cast from being folded unseen:
//!
//! - in the inference model it claims to have a state, which makes the translation keep it though
//!   its value is known;
//! - in the typed model it tells what is known, so that shapes which come through casts are known
//!   too, until [`Audit::watch`](super::Audit::watch) finds it;
//! - then, if both sides are known, they are counted there and then, and the probe becomes
//!   transparent;
//! - if not, it does not tell any more, nor is it folded, and it counts when the model runs.

use std::borrow::Cow;
use std::sync::Arc;

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::prelude::*;
use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_core::ops::logic::IfThenElse;
use tract_onnx::tract_core::ops::scan::Scan;
use tract_onnx::tract_hir::internal::*;

use super::record::Records;
use super::watched::{WatchedOp, WatchedQuantizer};
use crate::onnx::lowered::probe_of;
use crate::ops::cast::inference;
use crate::ops::cast::op::OnnxCast;
use crate::ops::host::around::{Around, Wrapped, around};
use crate::ops::host::checked;
use crate::ops::host::claimed::Claimed;
use crate::ops::host::element_wise::typed_op;
use crate::ops::host::hook::{Patch, Wired, mapped};
use crate::ops::host::stock::Built;
use crate::ops::quantize;
use crate::ops::quantize::op::OnnxQuantizer;
use crate::tensor::symbolic::numbers;

/// Makes an `Onnx` build each cast that the rewrite has marked with a probe behind it.
pub(crate) fn register(onnx: &mut tract_onnx::Onnx) {
    onnx.op_register.insert("Cast", build);
    onnx.op_register.insert("CastLike", build);
    onnx.op_register.insert("QuantizeLinear", build);
}

fn build(context: &ParsingContext, node: &NodeProto) -> Built {
    checked::build(context, node, build_probed)
}

fn build_probed(context: &ParsingContext, node: &NodeProto) -> Built {
    let cast = match node.op_type.as_str() {
        "QuantizeLinear" => quantize::inference::build(context, node)?.0,
        _ => inference::of_node(context, node)?,
    };
    Ok(match probe_of(node) {
        Some(place) => (Box::new(Wrapped(InferenceProbe { place, cast })), vec![]),
        None => (cast, vec![]),
    })
}

/// A cast and its probe, not typed yet.
#[derive(Debug, Clone)]
struct InferenceProbe {
    /// The cast's place among the model's casts.
    place: usize,
    /// The cast.
    cast: Box<dyn InferenceOp>,
}

impl Around for InferenceProbe {
    around!(self, self.cast);

    fn state(&self, _: &EvalContext) -> TractResult<Option<Box<dyn OpState>>> {
        Ok(Some(Box::new(Claimed)))
    }

    fn to_typed(
        &self,
        source: &InferenceModel,
        node: &InferenceNode,
        target: &mut TypedModel,
        mapping: &HashMap<OutletId, OutletId>,
    ) -> Wired {
        let mut inputs = mapped(node.inputs.iter(), mapping)?;
        let watched = self.watched(source, node, target, &inputs)?;
        // The cast keeps its name where the cast is what errors are about.
        let name = format!("{}.cast", node.name);
        let known = node.outputs.first().and_then(|output| output.fact.value.concretize());
        let output = match known {
            // As tract does with a cast that has no state: operators such as BatchNormalization
            // need constants.
            Some(value) => target.add_const(name, value)?,
            None => {
                let cast = InferenceNode { name, ..node.clone() };
                let output = self.cast.to_typed(source, &cast, target, mapping)?;
                *output.first().context("a cast has an output")?
            }
        };
        inputs.truncate(watched.inputs());
        inputs.push(output);
        let op = Probe { place: self.place, watched, sight: Sight::Waiting };
        target.wire_node(&node.name, op, &inputs)
    }
}

impl InferenceProbe {
    /// What the cast does, which only its typed form knows: that is made once more, in a model of
    /// its own, where nothing is folded.
    fn watched(
        &self,
        source: &InferenceModel,
        node: &InferenceNode,
        target: &TypedModel,
        inputs: &[OutletId],
    ) -> TractResult<WatchedOp> {
        let mut alone = TypedModel::default();
        let mut mapped = HashMap::new();
        for (index, (outlet, input)) in node.inputs.iter().zip(inputs).enumerate() {
            let fact = target.outlet_fact(*input)?.without_value();
            mapped.insert(*outlet, alone.add_source(format!("input-{index}"), fact)?);
        }
        let unknown = |output: &Outlet<InferenceFact>| Outlet {
            fact: InferenceFact::default(),
            successors: output.successors.clone(),
        };
        let outputs = node.outputs.iter().map(unknown).collect();
        let node = InferenceNode { outputs, ..node.clone() };
        let cast = self.cast.to_typed(source, &node, &mut alone, &mapped)?;
        let cast = cast.first().context("a cast has an output")?;
        let op = alone.node(cast.node).op();
        if let Some(cast) = op.downcast_ref::<OnnxCast>() {
            return Ok(WatchedOp::Cast(cast.conversion().clone()));
        }
        let quantizer = op.downcast_ref::<OnnxQuantizer>().and_then(|op| {
            let (axis, block_size) = op.layout();
            WatchedQuantizer::new(op.quantization(), axis, block_size)
        });
        Ok(WatchedOp::Quantizer(Arc::new(quantizer.context("a cast is one of ours")?)))
    }
}

/// What a probe does about what it sees.
#[derive(Debug, Clone)]
enum Sight {
    /// Nobody has asked yet.
    Waiting,
    /// It counts.
    Counting(Arc<Records>),
    /// Everything has been counted.
    Done,
}

/// Passes on its last input, what a cast made of those before.
#[derive(Debug, Clone)]
struct Probe {
    place: usize,
    watched: WatchedOp,
    sight: Sight,
}

impl PartialEq for Probe {
    fn eq(&self, other: &Probe) -> bool {
        self.place == other.place
    }
}

impl Eq for Probe {}

impl Probe {
    /// Counts there and then what is known of the inputs, the output among them, and tells what is
    /// left to do.
    fn count_known(&self, facts: &[&TypedFact], records: &Arc<Records>) -> Sight {
        let value = |fact: &&TypedFact| fact.konst.clone().map(IntoTValue::into_tvalue);
        let counted = facts.split_last().and_then(|(output, inputs)| {
            let inputs: TVec<TValue> = inputs.iter().map(value).collect::<Option<_>>()?;
            let output = match value(output) {
                Some(output) => output,
                None => self.watched.run(&inputs).ok()?.into_tvalue(),
            };
            // What depends on a symbol has no value before the model runs.
            self.count(records, &SymbolValues::default(), &inputs, &output).ok()
        });
        match counted {
            Some(()) => Sight::Done,
            None => Sight::Counting(records.clone()),
        }
    }

    fn count(
        &self,
        records: &Records,
        symbols: &SymbolValues,
        inputs: &[TValue],
        y: &TValue,
    ) -> TractResult<()> {
        let inputs = inputs.iter().map(|value| determined(value, symbols));
        let inputs = inputs.collect::<TractResult<TVec<TValue>>>()?;
        let y = determined(y, symbols)?;
        records.add(self.place, &self.watched, &inputs, &y)
    }
}

/// A value without symbols.
fn determined(value: &TValue, symbols: &SymbolValues) -> TractResult<TValue> {
    Ok(match numbers(value, symbols)? {
        Cow::Borrowed(_) => value.clone(),
        Cow::Owned(tensor) => tensor.into_tvalue(),
    })
}

typed_op!(Probe, "Probe");

impl EvalOp for Probe {
    fn eval_out_of_plan(&self, mut inputs: TVec<TValue>) -> TractResult<Option<TVec<TValue>>> {
        match self.sight {
            Sight::Done => Ok(inputs.pop().map(|output| tvec!(output))),
            Sight::Waiting | Sight::Counting(_) => Ok(None),
        }
    }

    fn eval(&self, context: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let mut inputs = inputs;
        let y = inputs.pop().context("a probe has inputs")?;
        if let Sight::Counting(records) = &self.sight {
            if inputs.iter().chain([&y]).any(|value| value.datum_type() == DatumType::TDim) {
                self.count(records, context.symbols, &inputs, &y)?;
            } else {
                records.add_later(self.place, &self.watched, inputs, y.clone())?;
            }
        }
        Ok(tvec!(y))
    }
}

impl TypedOp for Probe {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let output = *inputs.last().context("a probe has inputs")?;
        Ok(tvec!(match self.sight {
            Sight::Waiting | Sight::Done => output.clone(),
            Sight::Counting(_) => output.datum_type.fact(output.shape.clone()),
        }))
    }

    fn declutter(&self, model: &TypedModel, node: &TypedNode) -> Patch {
        match (&self.sight, node.inputs.last()) {
            (Sight::Done, Some(output)) => {
                TypedModelPatch::rewire(model, &[*output], &[node.id.into()], &|_, taps| {
                    Ok(taps.into())
                })
                .map(Some)
            }
            _ => Ok(None),
        }
    }

    as_op!();
}

/// Has the probes of a model and of its subgraphs count.
pub(super) fn watch(model: &mut TypedModel, records: &Arc<Records>) -> TractResult<()> {
    for id in 0..model.nodes.len() {
        let Some((inputs, op)) = model.nodes.get(id).map(|node| (node.inputs.clone(), &node.op))
        else {
            continue;
        };
        let sight = match op.downcast_ref::<Probe>() {
            Some(probe) => {
                let facts = inputs.iter().map(|outlet| model.outlet_fact(*outlet));
                let facts = facts.collect::<TractResult<TVec<&TypedFact>>>()?;
                Some(probe.count_known(&facts, records))
            }
            None => None,
        };
        let Some(node) = model.nodes.get_mut(id) else { continue };
        if let Some(sight) = sight {
            if matches!(sight, Sight::Counting(_))
                && let Some(output) = node.outputs.first_mut()
            {
                output.fact.konst = None;
                output.fact.uniform = None;
                output.fact.uniform_tdim = None;
            }
            if let Some(probe) = node.op_as_mut::<Probe>() {
                probe.sight = sight;
            }
        } else if let Some(scan) = node.op_as_mut::<Scan>() {
            watch(&mut scan.body, records)?;
        } else if let Some(branches) = node.op_as_mut::<IfThenElse>() {
            watch(&mut branches.then_body, records)?;
            watch(&mut branches.else_body, records)?;
        }
    }
    Ok(())
}
