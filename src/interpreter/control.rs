//! `If` and `Loop`.

use std::sync::Arc;

use onnx_cast_graph::{BodyId, NodeId, NodeView, counted, tensor_type};
use tract_onnx::pb::tensor_shape_proto::dimension::Value::DimValue;
use tract_onnx::prelude::{Tensor, TractResult, tensor0};

use super::inner::{InputSource, OutputTarget, Time};
use super::run::{ModelRun, NodeInputs, NodeOutputs};
use super::value::{RuntimeValue, TypedTensor};
use crate::cast::element_type::ElementType;
use crate::error::{Cause, Error};

/// What a body declares of an output.
pub(super) type DeclaredOutput = Option<(ElementType, Vec<usize>)>;

/// How often a loop may go round: one that its data never ends would go on for ever.
const ITERATIONS: i64 = 1 << 20;

/// `If`: runs one of two bodies.
pub(super) fn branch(run: &mut ModelRun, id: NodeId, inputs: NodeInputs) -> NodeOutputs {
    let Some(condition) = run.number(id, &inputs, 0)? else {
        return run.refuse(id, "has no condition");
    };
    let branch = if condition != 0 { "then_branch" } else { "else_branch" };
    let body = run.body_at(id, branch)?;
    let targets: Vec<OutputTarget> =
        (0..run.model.graph.body(body).outputs().len()).map(OutputTarget::Last).collect();
    run.inner(&Time { node: id, body, is_first: true, sources: &[], targets: &targets }, vec![])
}

/// `Loop`: runs its body until it says so, or as often as it is told. What the body takes is the
/// number of the iteration, the condition, and what the iteration before has left; what it makes
/// behind these is stacked along a new first axis.
pub(super) fn repeat(run: &mut ModelRun, id: NodeId, inputs: NodeInputs) -> NodeOutputs {
    let body = run.body_at(id, "body")?;
    let most = run.number(id, &inputs, 0)?;
    let mut goes_on = run.number(id, &inputs, 1)? != Some(0);
    let Some(mut carried) = inputs.into_iter().skip(2).collect::<Option<Vec<RuntimeValue>>>()
    else {
        return run.refuse(id, "leaves out a value that it carries");
    };
    let count = carried.len();
    let outputs = run.model.graph.body(body).outputs().len();
    let Some(stacked) = outputs.checked_sub(1 + count) else {
        return run.refuse(
            id,
            format!("carries {}, and its body makes {outputs}", counted(count, "value")),
        );
    };
    let mut stacks: Vec<Vec<TypedTensor>> = vec![vec![]; stacked];
    let carrying = (0..count).map(|place| InputSource::Carried(2 + place, 1 + place));
    let sources: Vec<InputSource> = [InputSource::Counted; 2].into_iter().chain(carrying).collect();
    let target = |output| {
        if output < count {
            OutputTarget::Last(output)
        } else {
            OutputTarget::Stacked { output, axis: 0, is_reversed: false }
        }
    };
    let targets: Vec<OutputTarget> =
        [OutputTarget::Nowhere].into_iter().chain((0..count + stacked).map(target)).collect();
    let mut iteration = 0;
    while goes_on && most.is_none_or(|most| iteration < most) {
        if iteration >= ITERATIONS {
            let node = run.model.graph.node(id);
            let (node, op) = (node.label().into(), node.op_type.clone());
            let problem = format!("goes round more than {ITERATIONS} times");
            return Err(Error::from(Cause::Node { node, op, problem, is_endless: true }).into());
        }
        let mut given = vec![scalar(tensor0(iteration))?, scalar(tensor0(true))?];
        given.append(&mut carried);
        let (is_first, sources, targets) = (iteration == 0, &*sources, &*targets);
        let time = Time { node: id, body, is_first, sources, targets };
        let mut made = run.inner(&time, given)?.into_iter();
        let Some(RuntimeValue::Tensor(condition)) = made.next() else {
            return run.refuse(id, "has a body whose condition is no tensor");
        };
        goes_on = run.number(id, &vec![Some(RuntimeValue::Tensor(condition))], 0)? != Some(0);
        carried = made.by_ref().take(count).collect();
        stack(run, id, &mut stacks, made)?;
        iteration += 1;
    }
    for (place, stack) in stacks.into_iter().enumerate() {
        let declared = declared_of(run, body, 1 + count + place);
        carried.push(RuntimeValue::Tensor(stack_of(stack, 0, declared)?));
    }
    Ok(carried)
}

fn scalar(tensor: Tensor) -> TractResult<RuntimeValue> {
    Ok(RuntimeValue::Tensor(TypedTensor::native(tensor)?))
}

/// What a body declares of an output: its type, and its sizes, 0 for one that it leaves open.
pub(super) fn declared_of(run: &ModelRun, body: BodyId, place: usize) -> DeclaredOutput {
    let output = run.model.graph.body(body).outputs().get(place)?;
    let tensor = tensor_type(output.declared.r#type.as_ref())?;
    let dims = tensor.shape.iter().flat_map(|shape| &shape.dim);
    let size = |value: &_| match value {
        Some(DimValue(size)) => usize::try_from(*size).unwrap_or(0),
        _ => 0,
    };
    let sizes = dims.map(|dim| size(&dim.value)).collect();
    Some((ElementType::from_id(tensor.elem_type)?, sizes))
}

/// Puts each of the values that a body has made onto its stack.
pub(super) fn stack(
    run: &ModelRun,
    id: NodeId,
    stacks: &mut [Vec<TypedTensor>],
    made: impl Iterator<Item = RuntimeValue>,
) -> TractResult<()> {
    for (stack, value) in stacks.iter_mut().zip(made) {
        match value {
            RuntimeValue::Tensor(tensor) => stack.push(tensor),
            other => return run.refuse(id, format!("would stack {}", other.kind())),
        }
    }
    Ok(())
}

/// Tensors of one shape along a new axis; of none, what the body declares of one.
pub(super) fn stack_of(
    tensors: Vec<TypedTensor>,
    axis: usize,
    declared: DeclaredOutput,
) -> TractResult<TypedTensor> {
    let Some(ty) = tensors.first().map(|first| first.ty) else {
        let (ty, mut shape) = declared.unwrap_or((ElementType::Float, vec![]));
        shape.insert(axis.min(shape.len()), 0);
        return TypedTensor::new(ty, Tensor::zero_dt(ty.datum_type(), &shape)?);
    };
    let mut parts = vec![];
    for typed in tensors {
        let mut part = Arc::unwrap_or_clone(typed.tensor);
        part.insert_axis(axis)?;
        parts.push(part);
    }
    TypedTensor::new(ty, Tensor::stack_tensors(axis, &parts)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_make_no_loop_endless() {
        let words = format!("goes round more than {ITERATIONS} times");
        assert!(!Error::of_node("k", "Loop", words).is_endless());
    }
}
