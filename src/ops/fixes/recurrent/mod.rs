//! `RNN`, `GRU` and `LSTM`.
//!
//! tract reads neither `activations` nor `clip`, nor `input_forget`, takes `reverse` for `forward`,
//! and has no lengths of sequences (tract-onnx, `ops/rec/common.rs`, `lstm.rs`, `gru.rs`,
//! `rnn.rs`). Here a layer is one operator, which computes what the standard says. Only where tract
//! is right and the time is a symbol, it keeps tract's `Scan`, which can stream.
//!
//! - `layer`: what the attributes say
//! - `activation`: the functions; `product`: products with weights
//! - `cell`: one direction, step by step; `layout`: where its elements stand
//! - `op`: the operator; `scanned`: tract's

mod activation;
mod cell;
mod layer;
mod layout;
mod op;
mod product;
mod scanned;

use tract_onnx::model::optional_inputs;
use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_hir::internal::*;

use self::layer::{Cell, Direction, Layer, direction};
pub(crate) use self::op::Recurrent;
use self::op::{Emitted, RecurrentInput};
pub(super) use self::product::{PackedRows, Real};
pub(crate) use self::scanned::Activate;
use crate::ops::host::hook::{HookSite, Instead};

/// What ONNX calls the inputs, in their order.
const INPUTS: [&str; 8] = ["X", "W", "R", "B", "sequence_lens", "initial_h", "initial_c", "P"];

/// The sizes of an input, as far as they are known; `None` for an input of unknown rank.
type KnownShape = Option<TVec<Option<TDim>>>;

/// Fails where what is known of the inputs contradicts the node or each other.
pub(crate) fn check(site: &HookSite, inputs: &[&InferenceFact]) -> TractResult<()> {
    let known = |fact: &&InferenceFact| -> KnownShape {
        let shape = &fact.shape;
        (!shape.is_open()).then(|| shape.dims().map(|dim| dim.concretize()).collect())
    };
    let known: Vec<KnownShape> = inputs.iter().map(known).collect();
    layer(site, &known)?;
    Ok(())
}

/// Wires a layer.
pub(crate) fn recurrent(site: &HookSite, model: &mut TypedModel, inputs: &[OutletId]) -> Instead {
    let facts: Vec<&TypedFact> =
        inputs.iter().map(|input| model.outlet_fact(*input)).collect::<TractResult<_>>()?;
    let known: Vec<KnownShape> = facts
        .iter()
        .map(|fact| Some(fact.shape.iter().map(|dim| Some(dim.clone())).collect()))
        .collect();
    let Some(layer) = layer(site, &known)? else {
        return Err(site.error("has neither a `hidden_size` nor an R of known size"))?;
    };
    let Some(x) = facts.first() else { return Ok(None) };
    // Half precision is computed in FLOAT, which the rewrite of the model sees to.
    if !matches!(x.datum_type, DatumType::F32 | DatumType::F64) {
        return Ok(None);
    }
    let given: TVec<RecurrentInput> = places(site)
        .into_iter()
        .filter_map(|(place, _)| RecurrentInput::ALL.get(place.checked_sub(3)?).copied())
        .collect();
    if streams(&layer, x, &given) {
        return scanned::wire(site, model, inputs).map(Some);
    }
    let outputs = &site.proto.output;
    let emitted: Emitted =
        std::array::from_fn(|place| outputs.get(place).is_some_and(|output| !output.is_empty()));
    let op = Recurrent { node: site.node(), layer, given, emitted, weights: None };
    model.wire_node(&site.name, op, inputs).map(Some)
}

/// Which of ONNX's inputs are given, and as which of tract's.
fn places(site: &HookSite) -> Vec<(usize, usize)> {
    let places = optional_inputs(&site.proto).take(INPUTS.len()).enumerate();
    places.filter_map(|(place, input)| Some((place, input?))).collect()
}

/// Whether tract's `Scan` is right and the time is a symbol, so that it can be run piece by piece.
fn streams(layer: &Layer, x: &TypedFact, given: &[RecurrentInput]) -> bool {
    let (time, batch) = if layer.batch_first { (1, 0) } else { (0, 1) };
    let is_number = |axis: usize| x.shape.get(axis).is_some_and(|dim| dim.as_i64().is_some());
    let is_given = |which| given.contains(&which);
    let starts = match layer.cell {
        Cell::Rnn | Cell::Gru => is_number(batch) || is_given(RecurrentInput::InitialH),
        // tract takes zeros of a constant shape for one zero, whose shape is then another.
        Cell::Lstm => is_given(RecurrentInput::InitialH) && is_given(RecurrentInput::InitialC),
    };
    layer.is_plain()
        && !layer.linear_before_reset
        && layer.direction != Direction::Reverse
        && !(layer.batch_first && layer.direction == Direction::Bidirectional)
        && x.datum_type == DatumType::F32
        && !is_number(time)
        && starts
        && !is_given(RecurrentInput::Lengths)
        && !is_given(RecurrentInput::Peepholes)
}

/// The layer that a node is, `None` where the size of its state is not known yet.
/// Fails where an attribute or a shape contradicts the standard.
fn layer(site: &HookSite, known: &[KnownShape]) -> TractResult<Option<Layer>> {
    let Some(cell) = Cell::of(&site.proto.op_type) else { return Ok(None) };
    let places = places(site);
    if let Some(absent) = (0..3).find(|place| !places.iter().any(|(given, _)| given == place)) {
        Err(site.error(format!("has no {}", INPUTS[absent])))?;
    }
    let shape = |place: usize| {
        let (_, input) = places.iter().find(|(given, _)| *given == place)?;
        known.get(*input)?.as_deref()
    };
    let of_r = shape(2).and_then(|shape| shape.get(2)?.as_ref()?.to_usize().ok());
    let named: Option<i64> = site.proto.get_attr_opt("hidden_size")?;
    let hidden = match named {
        None => of_r,
        Some(named) => match usize::try_from(named).ok().filter(|size| *size > 0) {
            Some(size) => Some(size),
            None => return Err(site.error(format!("has attribute `hidden_size` {named}")))?,
        },
    };
    let Some(hidden) = hidden.filter(|hidden| *hidden > 0) else {
        direction(site)?;
        return Ok(None);
    };
    let layer = Layer::of(site, cell, hidden)?;
    for (place, name) in INPUTS.iter().enumerate() {
        if let Some(found) = shape(place) {
            check_shape(site, name, found, &expected(&layer, place, shape(0)))?;
        }
    }
    Ok(Some(layer))
}

/// Fails where an input has another shape than the layer's.
fn check_shape(
    site: &HookSite,
    name: &str,
    found: &[Option<TDim>],
    expected: &[Option<TDim>],
) -> TractResult<()> {
    let number = |dim: &Option<TDim>| dim.as_ref().and_then(TDim::as_i64);
    let differs = |(found, expected): (&Option<TDim>, &Option<TDim>)| {
        number(found).zip(number(expected)).is_some_and(|(found, expected)| found != expected)
    };
    if found.len() != expected.len() || found.iter().zip(expected).any(differs) {
        let spell = |dims: &[Option<TDim>]| {
            let dim = |dim: &Option<TDim>| dim.as_ref().map_or("?".into(), TDim::to_string);
            dims.iter().map(dim).collect::<Vec<_>>().join(", ")
        };
        let problem = format!("has {name} of shape [{}], not [{}]", spell(found), spell(expected));
        Err(site.error(problem))?;
    }
    Ok(())
}

/// The shape that an input of a layer has, by that of x.
fn expected(layer: &Layer, place: usize, x: Option<&[Option<TDim>]>) -> Vec<Option<TDim>> {
    let of_x = |axis: usize| x.and_then(|x| x.get(axis)?.clone());
    let size = |size: usize| Some(size.to_dim());
    let batch = of_x(if layer.batch_first { 0 } else { 1 });
    let (count, hidden) = (layer.direction.count(), layer.hidden);
    let gates = layer.cell.gates() * hidden;
    match place {
        0 => vec![None; 3],
        1 => vec![size(count), size(gates), of_x(2)],
        2 => vec![size(count), size(gates), size(hidden)],
        3 => vec![size(count), size(2 * gates)],
        4 => vec![batch],
        7 => vec![size(count), size(3 * hidden)],
        _ if layer.batch_first => vec![batch, size(count), size(hidden)],
        _ => vec![size(count), batch, size(hidden)],
    }
}
