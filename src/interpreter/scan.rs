//! `Scan`: a body that runs once for each place along an axis.

use onnx_cast_graph::{Node, NodeId, attribute, int};
use tract_onnx::prelude::*;

use super::control::{declared_of, stack, stack_of};
use super::inner::{InputSource, OutputTarget, Time};
use super::run::{ModelRun, NodeInputs, NodeOutputs};
use super::value::{RuntimeValue, TypedTensor};
use crate::onnx::node::from_front;

/// How a scanned input or output runs: its axis, and whether backwards.
struct ScanLane {
    axis: i64,
    is_reversed: bool,
}

/// What is wrong with a node of version 8, which has a batch axis and `directions`, or with another
/// that has that.
fn of_version_8(node: &Node) -> Option<String> {
    let opset = node.opset;
    if opset < 9 {
        return Some(format!("has a batch axis in opset {opset}, which is not computed"));
    }
    let has_it = attribute(node, "directions").is_some();
    has_it.then(|| format!("has the attribute `directions`, which opset {opset} does not have"))
}

/// The states of the body come first, then what is scanned; states are handed on, other outputs
/// stacked.
pub(super) fn scan(run: &mut ModelRun, id: NodeId, inputs: NodeInputs) -> NodeOutputs {
    let node = run.model.graph.node(id);
    if let Some(problem) = of_version_8(node) {
        return run.refuse(id, problem);
    }
    let body = run.body_at(id, "body")?;
    let scanned = usize::try_from(int(node, "num_scan_inputs").unwrap_or(0)).unwrap_or(0);
    let Some(states) = inputs.len().checked_sub(scanned) else {
        return run.refuse(id, "attribute `num_scan_inputs` is more than there are inputs");
    };
    let ins = lanes(run, id, "scan_input", scanned)?;
    let outputs = run.model.graph.body(body).outputs().len();
    let outs = lanes(run, id, "scan_output", outputs.saturating_sub(states))?;
    let mut carried = vec![];
    for place in 0..states {
        carried.push(RuntimeValue::Tensor(run.tensor(id, &inputs, place)?));
    }
    let (given, count) = scanned_inputs(run, id, &inputs, states, &ins)?;
    let mut stacks: Vec<Vec<TypedTensor>> = vec![vec![]; outs.len()];
    let target = |output: usize| match outs.get(output.wrapping_sub(states)) {
        Some(ScanLane { axis, is_reversed }) => {
            OutputTarget::Stacked { output, axis: *axis, is_reversed: *is_reversed }
        }
        None => OutputTarget::Last(output),
    };
    let targets: Vec<OutputTarget> = (0..outputs).map(target).collect();
    for step in 0..count {
        let mut sources: Vec<InputSource> =
            (0..states).map(|at| InputSource::Carried(at, at)).collect();
        for (place, (typed, axis, is_reversed)) in given.iter().enumerate() {
            let at = if *is_reversed { count - 1 - step } else { step };
            let mut part = typed.tensor.slice(*axis, at, at + 1)?;
            part.remove_axis(*axis)?;
            carried.push(RuntimeValue::Tensor(TypedTensor::new(typed.ty, part)?));
            sources.push(InputSource::Part { input: states + place, axis: *axis, at });
        }
        let (is_first, sources, targets) = (step == 0, &*sources, &*targets);
        let time = Time { node: id, body, is_first, sources, targets };
        let mut made = run.inner(&time, std::mem::take(&mut carried))?.into_iter();
        carried = made.by_ref().take(states).collect();
        stack(run, id, &mut stacks, made)?;
    }
    for (place, (mut stack, lane)) in stacks.into_iter().zip(&outs).enumerate() {
        if lane.is_reversed {
            stack.reverse();
        }
        let declared = declared_of(run, body, states + place);
        let rank =
            stack.first().map_or(declared.as_ref().map_or(0, |(_, dims)| dims.len()), |first| {
                first.tensor.rank()
            });
        let Some(axis) = from_front(lane.axis, rank + 1) else {
            return run
                .refuse(id, format!("attribute `scan_output_axes`: {} is no axis", lane.axis));
        };
        carried.push(RuntimeValue::Tensor(stack_of(stack, axis, declared)?));
    }
    Ok(carried)
}

/// An input that is scanned, its axis, and whether backwards.
type Scanned = (TypedTensor, usize, bool);

/// The inputs that are scanned, and how long they are.
fn scanned_inputs(
    run: &mut ModelRun,
    id: NodeId,
    inputs: &NodeInputs,
    states: usize,
    lanes: &[ScanLane],
) -> TractResult<(Vec<Scanned>, usize)> {
    let mut given = vec![];
    for (place, lane) in lanes.iter().enumerate() {
        let typed = run.tensor(id, inputs, states + place)?;
        let Some(axis) = from_front(lane.axis, typed.tensor.rank()) else {
            return run
                .refuse(id, format!("attribute `scan_input_axes`: {} is no axis", lane.axis));
        };
        given.push((typed, axis, lane.is_reversed));
    }
    let size = |(typed, axis, _): &Scanned| typed.tensor.shape().get(*axis).copied();
    let count = given.first().and_then(size).unwrap_or(0);
    if given.iter().any(|lane| size(lane) != Some(count)) {
        return run.refuse(id, "scans inputs of different lengths");
    }
    Ok((given, count))
}

/// The attributes `…_axes` and `…_directions`; by default the first axis, forwards.
fn lanes(run: &ModelRun, id: NodeId, what: &str, count: usize) -> TractResult<Vec<ScanLane>> {
    let node = run.model.graph.node(id);
    let read = |name: &str| attribute(node, &format!("{what}_{name}")).map(|held| &held.ints);
    let (axes, directions) = (read("axes"), read("directions"));
    for (name, given) in [("axes", axes), ("directions", directions)] {
        if given.is_some_and(|given| given.len() != count) {
            return run.refuse(id, format!("attribute `{what}_{name}` is not of {count} numbers"));
        }
    }
    let at = |given: Option<&Vec<i64>>, place: usize| {
        given.and_then(|given| given.get(place)).copied().unwrap_or(0)
    };
    let lane = |place| ScanLane { axis: at(axes, place), is_reversed: at(directions, place) == 1 };
    Ok((0..count).map(lane).collect())
}
