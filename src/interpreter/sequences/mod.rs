//! Operators on sequences and optionals, and those that only hand a value on.

pub(super) mod list;

use onnx_cast_graph::{NodeId, NodeView, attribute, int};
use tract_onnx::prelude::*;

use super::control::stack_of;
use super::run::{ModelRun, NodeInputs, NodeOutputs};
use super::value::{RuntimeValue, TypedTensor};
use crate::onnx::node::from_front;
use list::List;

/// `Constant`: a tensor is read as it is; what else there may be is a node as others.
pub(super) fn constant(run: &mut ModelRun, id: NodeId, inputs: NodeInputs) -> NodeOutputs {
    let value = attribute(run.model.graph.node(id), "value").and_then(|value| value.t.as_ref());
    match value {
        Some(tensor) if run.model.graph.node(id).attributes.len() == 1 => {
            Ok(vec![RuntimeValue::Tensor(run.model.builder.constant(tensor, &run.memory)?)])
        }
        _ => run.tensors(id, inputs),
    }
}

/// `Identity`, of whatever it is given.
pub(super) fn identity(run: &mut ModelRun, id: NodeId, inputs: NodeInputs) -> NodeOutputs {
    match inputs.into_iter().next().flatten() {
        Some(value) => Ok(vec![value]),
        None => run.refuse(id, "has no input"),
    }
}

/// `Optional`: its input, or an empty one.
pub(super) fn optional(_: &mut ModelRun, _: NodeId, inputs: NodeInputs) -> NodeOutputs {
    let inner = inputs.into_iter().next().flatten();
    Ok(vec![RuntimeValue::Optional(inner.map(Box::new))])
}

/// `OptionalGetElement`: what an optional holds; since opset 18 a tensor or a sequence stands for
/// one that holds it.
pub(super) fn get_element(run: &mut ModelRun, id: NodeId, inputs: NodeInputs) -> NodeOutputs {
    match inputs.into_iter().next().flatten() {
        Some(RuntimeValue::Optional(Some(inner))) => Ok(vec![*inner]),
        Some(value @ (RuntimeValue::Tensor(_) | RuntimeValue::Sequence(_))) => Ok(vec![value]),
        _ => run.refuse(id, "is given an optional that holds nothing"),
    }
}

/// `OptionalHasElement`.
pub(super) fn has_element(_: &mut ModelRun, _: NodeId, inputs: NodeInputs) -> NodeOutputs {
    let given = inputs.into_iter().next().flatten();
    let has = !matches!(given, None | Some(RuntimeValue::Optional(None)));
    Ok(vec![RuntimeValue::Tensor(TypedTensor::native(tensor0(has))?)])
}

/// `SequenceConstruct`: its inputs in their order.
pub(super) fn construct(run: &mut ModelRun, id: NodeId, inputs: NodeInputs) -> NodeOutputs {
    let places = 0..inputs.len();
    let tensors = places.map(|place| run.tensor(id, &inputs, place));
    Ok(vec![RuntimeValue::Sequence(tensors.collect::<TractResult<_>>()?)])
}

/// `SequenceEmpty`.
pub(super) fn empty(_: &mut ModelRun, _: NodeId, _: NodeInputs) -> NodeOutputs {
    Ok(vec![RuntimeValue::Sequence(List::default())])
}

/// `SequenceAt`: the tensor at a position, of which a negative one counts from the end.
pub(super) fn at(run: &mut ModelRun, id: NodeId, inputs: NodeInputs) -> NodeOutputs {
    let sequence = sequence(run, id, &inputs)?;
    let index = position(run, id, &inputs, 1, sequence.len())?.unwrap_or(sequence.len());
    match sequence.get(index) {
        Some(tensor) => Ok(vec![RuntimeValue::Tensor(tensor.clone())]),
        None => run.refuse(id, "is given an empty sequence"),
    }
}

/// `SequenceErase`: the sequence without the tensor at a position, by default the last.
pub(super) fn erase(run: &mut ModelRun, id: NodeId, inputs: NodeInputs) -> NodeOutputs {
    let mut sequence = sequence(run, id, &inputs)?;
    if sequence.is_empty() {
        return run.refuse(id, "is given an empty sequence");
    }
    let index = position(run, id, &inputs, 1, sequence.len())?.unwrap_or(sequence.len() - 1);
    sequence.remove(index);
    Ok(vec![RuntimeValue::Sequence(sequence)])
}

/// `SequenceInsert`: the sequence with a tensor before a position, by default behind the last.
pub(super) fn insert(run: &mut ModelRun, id: NodeId, inputs: NodeInputs) -> NodeOutputs {
    let mut sequence = sequence(run, id, &inputs)?;
    let tensor = run.tensor(id, &inputs, 1)?;
    if let Some(other) = sequence.get(0).filter(|other| other.ty != tensor.ty) {
        let problem = format!("inserts {} into a sequence of {}", tensor.ty, other.ty);
        return run.refuse(id, problem);
    }
    let index = position(run, id, &inputs, 2, sequence.len() + 1)?.unwrap_or(sequence.len());
    sequence.insert(index, tensor);
    Ok(vec![RuntimeValue::Sequence(sequence)])
}

/// `SequenceLength`.
pub(super) fn length(run: &mut ModelRun, id: NodeId, inputs: NodeInputs) -> NodeOutputs {
    let length = i64::try_from(sequence(run, id, &inputs)?.len())?;
    Ok(vec![RuntimeValue::Tensor(TypedTensor::native(tensor0(length))?)])
}

/// `SequenceMap`: its body on each tensor in turn; inputs that are tensors are the same each time.
pub(super) fn map(run: &mut ModelRun, id: NodeId, inputs: NodeInputs) -> NodeOutputs {
    let body = run.body_at(id, "body")?;
    let count = sequence(run, id, &inputs)?.len();
    let outputs = run.model.graph.body(body).outputs().len();
    let mut mapped: Vec<Vec<TypedTensor>> = vec![vec![]; outputs];
    for index in 0..count {
        let mut given = vec![];
        for input in inputs.iter().flatten() {
            given.push(match input {
                RuntimeValue::Sequence(tensors) => match tensors.get(index) {
                    Some(tensor) => RuntimeValue::Tensor(tensor.clone()),
                    None => return run.refuse(id, "is given sequences of different lengths"),
                },
                other => other.clone(),
            });
        }
        for (sequence, value) in mapped.iter_mut().zip(run.body(body, given)?) {
            match value {
                RuntimeValue::Tensor(tensor) => sequence.push(tensor),
                other => return run.refuse(id, format!("has a body that makes {}", other.kind())),
            }
        }
    }
    let mapped = mapped.into_iter().map(|made| made.into_iter().collect());
    Ok(mapped.map(RuntimeValue::Sequence).collect())
}

/// `ConcatFromSequence`: all tensors along an axis, or along a new one.
pub(super) fn concat(run: &mut ModelRun, id: NodeId, inputs: NodeInputs) -> NodeOutputs {
    let sequence = sequence(run, id, &inputs)?;
    let Some(first) = sequence.get(0) else {
        return run.refuse(id, "is given an empty sequence");
    };
    let node = run.model.graph.node(id);
    let is_new = int(node, "new_axis").unwrap_or(0) == 1;
    let rank = first.tensor.rank() + usize::from(is_new);
    let Some(axis) = from_front(int(node, "axis").unwrap_or(0), rank) else {
        return run.refuse(id, format!("attribute `axis` is outside of the rank {rank}"));
    };
    let made = if is_new {
        stack_of(sequence.iter().cloned().collect(), axis, None)?
    } else {
        let parts: Vec<&Tensor> = sequence.iter().map(|typed| &*typed.tensor).collect();
        TypedTensor::new(first.ty, Tensor::stack_tensors(axis, &parts)?)?
    };
    Ok(vec![RuntimeValue::Tensor(made)])
}

/// `SplitToSequence`: pieces of a length, the last one shorter, or of lengths; without either each
/// place of the axis, which then goes unless `keepdims` says otherwise.
pub(super) fn split(run: &mut ModelRun, id: NodeId, inputs: NodeInputs) -> NodeOutputs {
    let data = run.tensor(id, &inputs, 0)?;
    let node = run.model.graph.node(id);
    let Some(axis) = from_front(int(node, "axis").unwrap_or(0), data.tensor.rank()) else {
        let rank = data.tensor.rank();
        return run.refuse(id, format!("attribute `axis` is outside of the rank {rank}"));
    };
    let is_squeezed = int(node, "keepdims") == Some(0) && !node.gives(1);
    let size = data.tensor.shape().get(axis).copied().unwrap_or(0);
    let lengths = if node.gives(1) {
        let split = run.tensor(id, &inputs, 1)?.tensor.cast_to::<i64>()?.into_owned();
        let given = split.try_as_plain_ram()?.as_slice::<i64>()?;
        match lengths(size, split.rank(), given) {
            Some(lengths) => lengths,
            None => return run.refuse(id, format!("`split` {given:?} does not divide {size}")),
        }
    } else {
        vec![1; size]
    };
    let (mut at, mut pieces) = (0, vec![]);
    for length in lengths {
        let mut piece = if length == 0 {
            let mut shape = data.tensor.shape().to_vec();
            shape.iter_mut().skip(axis).take(1).for_each(|size| *size = 0);
            Tensor::zero_dt(data.tensor.datum_type(), &shape)?
        } else {
            data.tensor.slice(axis, at, at + length)?
        };
        if is_squeezed {
            piece.remove_axis(axis)?;
        }
        pieces.push(TypedTensor::new(data.ty, piece)?);
        at += length;
    }
    Ok(vec![RuntimeValue::Sequence(pieces.into_iter().collect())])
}

/// The lengths of pieces of an axis: one for all, the last one shorter, or each.
fn lengths(size: usize, rank: usize, split: &[i64]) -> Option<Vec<usize>> {
    let mut lengths = vec![];
    for length in split {
        lengths.push(usize::try_from(*length).ok()?);
    }
    match (rank, lengths.as_slice()) {
        (0, [length]) if *length > 0 => {
            let pieces = 0..size.div_ceil(*length);
            Some(pieces.map(|piece| (*length).min(size - piece * length)).collect())
        }
        (1, _) => {
            let sum = lengths.iter().try_fold(0usize, |sum, length| sum.checked_add(*length));
            (sum == Some(size)).then_some(lengths)
        }
        _ => None,
    }
}

fn sequence(run: &ModelRun, id: NodeId, inputs: &NodeInputs) -> TractResult<List<TypedTensor>> {
    match inputs.first() {
        Some(Some(RuntimeValue::Sequence(sequence))) => Ok(sequence.clone()),
        Some(Some(RuntimeValue::Optional(Some(inner)))) => match &**inner {
            RuntimeValue::Sequence(sequence) => Ok(sequence.clone()),
            other => run.refuse(id, format!("is given {}, not a sequence", other.kind())),
        },
        Some(Some(other)) => run.refuse(id, format!("is given {}, not a sequence", other.kind())),
        _ => run.refuse(id, "is given no sequence"),
    }
}

/// A position below `bound`, where an input gives one.
fn position(
    run: &ModelRun,
    id: NodeId,
    inputs: &NodeInputs,
    place: usize,
    bound: usize,
) -> TractResult<Option<usize>> {
    let length = sequence(run, id, inputs)?.len();
    let Some(given) = run.number(id, inputs, place)? else { return Ok(None) };
    let from_start = if given < 0 { given.saturating_add(i64::try_from(length)?) } else { given };
    match usize::try_from(from_start).ok().filter(|position| *position < bound) {
        Some(position) => Ok(Some(position)),
        None => run.refuse(id, format!("position {given} is outside of a sequence of {length}")),
    }
}
