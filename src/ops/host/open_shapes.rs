//! Shapes that a model leaves open: an input's, and that of an `Expand` to dimensions that are
//! data.
//!
//! tract types a model once these are known. What a file declares of other values can help there,
//! and stock tract's loader has flags to use it or not; but such declarations are often stale, and
//! then they stand in the way. Here they are used last: operators of no consequence wait at the end
//! of the model until tract's analysis has come to rest, and only if such a shape is still open
//! then, they offer one declaration after the other, those that contradict what is known left out.
//! An input's dimension that nothing determines becomes a symbol.

use std::collections::{HashMap, HashSet};

use tract_onnx::dim_expr::parse_onnx_dim;
use tract_onnx::pb::tensor_shape_proto::dimension::Value as DimValue;
use tract_onnx::pb::{TensorShapeProto, ValueInfoProto};
use tract_onnx::tract_hir::internal::*;

use crate::onnx::declared_shapes::shape;
use crate::ops::fixes::places::expand;
use crate::ops::host::checked::sizes::names::new_symbol;

/// Lets a model settle its open shapes by what it declares of the values with these outlets.
///
/// A stale declaration can contradict what only follows from it. So the analysis is tried, and if
/// it fails, some of the declarations are left out: the outputs', those of inner values, all.
pub(crate) fn settle(
    model: &mut InferenceModel,
    declared: &[ValueInfoProto],
    outlets: &HashMap<String, OutletId>,
) -> TractResult<()> {
    let inputs = model.inputs.clone();
    let expands = model.nodes.iter().filter(|node| expand::is_expand(node));
    let expands: Vec<OutletId> = expands.map(|node| node.id.into()).collect();
    let all = [inputs.clone(), expands].concat();
    let has_open_input = has_open(model, &inputs)?;
    if !has_open_input {
        if declared.is_empty() || all.len() == inputs.len() {
            return Ok(());
        }
        let mut trial = model.clone();
        if trial.analyse(false).is_ok() && !has_open(&trial, &all)? {
            return Ok(());
        }
    }
    let outputs: HashSet<OutletId> = model.outputs.iter().copied().collect();
    let mut offers = vec![];
    for value in declared {
        if let (Some(outlet), Some(shape)) =
            (outlets.get(&value.name), shape(value.r#type.as_ref()))
        {
            offers.push((*outlet, factoid(shape, &model.symbols)));
        }
    }
    let choices: [fn(bool) -> bool; 3] = [|_| true, |is_output| !is_output, |is_output| is_output];
    // An `Expand` that stays open is no reason to leave an input open.
    let less = (has_open_input && all.len() > inputs.len()).then_some(&inputs);
    for needed in [Some(&all), less].into_iter().flatten() {
        for chosen in choices {
            let offers = offers.iter().filter(|(outlet, _)| chosen(outputs.contains(outlet)));
            let offers: Vec<_> = offers.cloned().collect();
            if offers.is_empty() {
                continue;
            }
            let mut trial = model.clone();
            add(&mut trial, needed, &offers)?;
            if trial.analyse(false).is_ok() && !has_open(&trial, needed)? {
                return add(model, needed, &offers);
            }
        }
    }
    if has_open_input { add(model, &inputs, &[]) } else { Ok(()) }
}

fn has_open(model: &InferenceModel, outlets: &[OutletId]) -> TractResult<bool> {
    for outlet in outlets {
        if is_open(&model.outlet_fact(*outlet)?.shape) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Adds the two [`OpenShapes`] nodes that settle the shapes that are needed, those of the model's
/// inputs first.
fn add(
    model: &mut InferenceModel,
    needed: &[OutletId],
    offers: &[(OutletId, ShapeFactoid)],
) -> TractResult<()> {
    let (outlets, shapes): (Vec<OutletId>, Vec<ShapeFactoid>) = offers.iter().cloned().unzip();
    let watched = [needed, &outlets].concat();
    let parts = parts(model);
    let part = |outlet: &OutletId| parts.get(outlet.node).copied().unwrap_or_default();
    let op = OpenShapes {
        inputs: model.inputs.len(),
        needed: needed.len(),
        offers: shapes,
        symbols: model.symbols.clone(),
        parts: watched.iter().map(part).collect(),
        turns: 0,
        unnamed: 0,
    };
    // tract does not analyse a node again for facts that this node has changed itself, but its
    // copy, and so in turn.
    for _ in 0..2 {
        let name = model.unique_name("open-shapes").into_owned();
        let id = model.add_node(name, op.clone(), tvec!())?;
        for (slot, outlet) in watched.iter().enumerate() {
            model.add_edge(*outlet, InletId::new(id, slot))?;
        }
    }
    Ok(())
}

/// For each node, which part of the model it is in: nothing that is known of one part tells
/// anything of another.
fn parts(model: &InferenceModel) -> Vec<usize> {
    fn root(parts: &mut [usize], mut node: usize) -> usize {
        while let Some(next) = parts.get(node).copied().filter(|next| *next != node) {
            let after = parts.get(next).copied().unwrap_or(next);
            if let Some(place) = parts.get_mut(node) {
                *place = after;
            }
            node = next;
        }
        node
    }
    let inputs: HashSet<usize> = model.inputs.iter().map(|outlet| outlet.node).collect();
    // All is known of a constant, so it joins nothing.
    let is_constant = |node: &InferenceNode| node.inputs.is_empty() && !inputs.contains(&node.id);
    let mut parts: Vec<usize> = (0..model.nodes.len()).collect();
    for node in &model.nodes {
        for input in &node.inputs {
            if model.nodes.get(input.node).is_some_and(|maker| !is_constant(maker)) {
                let (a, b) = (root(&mut parts, input.node), root(&mut parts, node.id));
                if let Some(place) = parts.get_mut(a) {
                    *place = b;
                }
            }
        }
    }
    (0..parts.len()).map(|node| root(&mut parts, node)).collect()
}

fn factoid(shape: &TensorShapeProto, symbols: &SymbolScope) -> ShapeFactoid {
    let dim = |value: &Option<DimValue>| match value {
        // Exporters have written 0 for a size that they did not know.
        Some(DimValue::DimValue(size)) if *size > 0 => DimFact::from(size.to_dim()),
        Some(DimValue::DimParam(name)) if name != "?" && !name.starts_with("unk__") => {
            parse_onnx_dim(symbols, name).map_or_else(|_| DimFact::default(), DimFact::from)
        }
        _ => DimFact::default(),
    };
    ShapeFactoid::closed(shape.dim.iter().map(|d| dim(&d.value)).collect())
}

fn is_open(shape: &ShapeFactoid) -> bool {
    shape.is_open() || shape.dims().any(|dim| !dim.is_concrete())
}

/// An operator without outputs. tract analyses nodes in the order in which they were added, so this
/// one and its copy come last; since no output of the model needs them, they are dropped before the
/// model is typed.
#[derive(Debug, Clone)]
struct OpenShapes {
    /// How many of the operator's inputs are the model's.
    inputs: usize,
    /// How many, these included, have a shape that is needed. The others are values with a declared
    /// one.
    needed: usize,
    offers: Vec<ShapeFactoid>,
    symbols: SymbolScope,
    /// For each of the operator's inputs, which part of the model it is in.
    parts: Vec<usize>,
    /// How often something was added.
    turns: u32,
    /// The first number that may not be that of a symbol.
    unnamed: usize,
}

impl PartialEq for OpenShapes {
    fn eq(&self, _: &OpenShapes) -> bool {
        false
    }
}

impl Eq for OpenShapes {}

impl Op for OpenShapes {
    fn name(&self) -> StaticName {
        "OpenShapes".into()
    }

    not_a_typed_op!();
}

impl EvalOp for OpenShapes {
    not_out_of_plan!();

    fn eval(&self, _: &EvalContext, _: TVec<TValue>) -> TractResult<TVec<TValue>> {
        Ok(tvec!())
    }
}

impl InferenceOp for OpenShapes {
    fn infer_facts(
        &mut self,
        inputs: TVec<&InferenceFact>,
        _outputs: TVec<&InferenceFact>,
        _observed: TVec<&InferenceFact>,
    ) -> TractResult<(TVec<InferenceFact>, TVec<InferenceFact>, TVec<InferenceFact>)> {
        let mut facts: TVec<InferenceFact> = inputs.into_iter().cloned().collect();
        self.refine(&mut facts);
        Ok((facts, tvec!(), tvec!()))
    }

    fn nboutputs(&self) -> TractResult<usize> {
        Ok(0)
    }

    as_op!();
}

/// How much is added to what is known of a part in a turn, in an operator of so many inputs: one
/// thing, until the turns have looked at too much; then twice as much each time, so that a model of
/// very many open inputs is done in time.
fn additions(turns: u32, length: usize) -> usize {
    const LOOKS: usize = 1 << 21;
    let alone = (LOOKS / length.max(1)).try_into().unwrap_or(u32::MAX);
    1usize.checked_shl(turns.saturating_sub(alone)).unwrap_or(usize::MAX)
}

impl OpenShapes {
    /// Adds one thing to what is known of each part of the model where a shape is open. tract draws
    /// its conclusions before the copy's turn.
    fn refine(&mut self, facts: &mut [InferenceFact]) {
        let length = facts.len();
        let Some((needed, watched)) = facts.split_at_mut_checked(self.needed) else { return };
        let (needed_parts, watched_parts) =
            self.parts.split_at_checked(self.needed).unwrap_or_default();
        let mut room: HashMap<usize, usize> = HashMap::new();
        for (fact, part) in needed.iter().zip(needed_parts) {
            if is_open(&fact.shape) {
                room.insert(*part, additions(self.turns, length));
            }
        }
        if room.is_empty() {
            return;
        }
        self.turns += 1;
        let mut takes = |part: &usize| match room.get_mut(part) {
            Some(room @ 1..) => {
                *room -= 1;
                true
            }
            _ => false,
        };
        let mut offered: HashSet<usize> = HashSet::new();
        for ((fact, offer), part) in watched.iter_mut().zip(&self.offers).zip(watched_parts) {
            // Nothing is run on what has no elements, so nothing would find out that a declaration
            // is wrong.
            let is_empty = |shape: &ShapeFactoid| {
                shape.dims().any(|dim| dim.concretize() == Some(TDim::Val(0)))
            };
            if let Ok(shape) = fact.shape.unify(offer)
                && shape != fact.shape
                && !is_empty(&shape)
                && takes(part)
            {
                fact.shape = shape;
                offered.insert(*part);
            }
        }
        for (fact, part) in needed.iter_mut().zip(needed_parts).take(self.inputs) {
            if fact.shape.is_open() || offered.contains(part) {
                continue;
            }
            let open: Vec<usize> = (0..fact.shape.rank().concretize().unwrap_or(0) as usize)
                .filter(|axis| fact.shape.dim(*axis).is_some_and(|dim| !dim.is_concrete()))
                .collect();
            for axis in open {
                if !takes(part) {
                    break;
                }
                fact.shape
                    .set_dim(axis, new_symbol(&self.symbols, "open", &mut self.unnamed).to_dim());
            }
        }
    }
}
