//! What a graph says of numbers and sizes without being run.

use onnx_cast_graph::{Graph, Node, NodeView, Origin, ValueId, attribute, int, tensor_type};
use tract_onnx::pb::TensorProto;
use tract_onnx::pb::tensor_shape_proto::dimension::Value as Dimension;
use tract_onnx_cast::audit::Numbers;
use tract_onnx_cast::{ElementType, Family, tensor_proto};

use super::Bound;
use crate::cli::input::declared::Declared;

/// How many nodes are gone back over.
const STEPS: usize = 8;

/// The tensor of a constant, also of one that a node makes or moves.
fn tensor(graph: &Graph, mut value: ValueId) -> Option<TensorProto> {
    for _ in 0..STEPS {
        if let Some(tensor) = graph.constant(value) {
            return Some(TensorProto::clone(tensor));
        }
        let node = graph.node(graph.maker(value)?);
        match node.op_type() {
            "Constant" => return attribute(node, "value")?.t.clone(),
            "Identity" | "Cast" | "CastLike" | "Unsqueeze" | "Reshape" | "Expand"
            | "DequantizeLinear" => {
                value = node.input(0)?;
            }
            _ => return None,
        }
    }
    None
}

/// The numbers of a small constant.
pub(super) fn numbers(graph: &Graph, value: ValueId) -> Option<Vec<f64>> {
    if let Some(node) = graph.maker(value).map(|node| graph.node(node))
        && node.is("Constant")
    {
        for (name, is_int) in [("value_int", true), ("value_float", false)] {
            if let Some(attribute) = attribute(node, name) {
                let number = if is_int { attribute.i as f64 } else { f64::from(attribute.f) };
                return Some(vec![number]);
            }
        }
    }
    let (ty, tensor) = tensor_proto::read(&tensor(graph, value)?, None).ok()?;
    let numbers = Numbers::of(ty, &tensor).ok()?;
    (0..tensor.len()).map(|place| Some(numbers.get(place)?.rounded())).collect()
}

/// The number of a constant whose elements are all the same.
pub(super) fn number(graph: &Graph, value: Option<ValueId>) -> Option<f64> {
    let numbers = numbers(graph, value?)?;
    let first = *numbers.first()?;
    numbers.iter().all(|number| *number == first).then_some(first)
}

/// The largest magnitude in a small constant.
pub(super) fn largest(graph: &Graph, value: Option<ValueId>) -> Option<f64> {
    numbers(graph, value?)?.into_iter().map(f64::abs).reduce(f64::max)
}

/// The least and the greatest number that a `QuantizeLinear` of one constant scale holds. A scale
/// of 1 rounds to whole numbers and was calibrated with none.
pub(super) fn range(graph: &Graph, quantizer: &Node) -> Option<(f64, f64)> {
    let scale = number(graph, quantizer.input(1)).filter(|scale| *scale != 1.0)?;
    let (ty, zero) = match quantizer.input(2) {
        Some(zero) => (tensor(graph, zero)?.data_type, number(graph, Some(zero))?),
        None => (int(quantizer, "output_dtype").map_or(Some(0), |id| id.try_into().ok())?, 0.0),
    };
    let ty = ElementType::from_id(ty).unwrap_or(ElementType::Uint8);
    let size = 2f64.powi(i32::try_from(ty.bits()).ok().filter(|bits| *bits <= 16)?);
    let low = match ty.family() {
        Family::Signed => -size / 2.0,
        Family::Unsigned => 0.0,
        _ => return None,
    };
    Some(((low - zero) * scale, (low + size - 1.0 - zero) * scale))
}

/// Whether a value is made of constants alone, as far as a few steps back tell.
pub(super) fn is_constant(graph: &Graph, value: Option<ValueId>) -> bool {
    fn holds(graph: &Graph, value: ValueId, steps: usize) -> bool {
        match graph.value(value).origin() {
            Origin::Constant(_) => true,
            Origin::Node(node, _) if steps > 0 => {
                let node = graph.node(*node);
                let mut inputs = node.inputs().iter().flatten();
                node.bodies().is_empty() && inputs.all(|input| holds(graph, *input, steps - 1))
            }
            _ => false,
        }
    }
    value.is_some_and(|value| holds(graph, value, STEPS))
}

/// The sizes of a value's axes, as far as they are known.
pub(super) fn sizes(graph: &Graph, value: ValueId, takes: &Declared) -> Option<Vec<Option<Bound>>> {
    // The last axis of a product, if it is one.
    let (mut at, mut last): (_, Option<Option<Bound>>) = (value, None);
    for _ in 0..STEPS {
        if let Some(tensor) = graph.constant(at) {
            let fixed = |dim: &i64| u64::try_from(*dim).ok().map(Bound::Fixed);
            return Some(tensor.dims.iter().map(fixed).collect());
        }
        if matches!(graph.value(at).origin(), Origin::Input)
            && let Some(place) = takes.inputs.iter().position(|i| *i.name == *graph.value(at).name)
        {
            let rank = takes.inputs.get(place)?.rank()?;
            let axis = |axis| match last {
                Some(last) if axis + 1 == rank => last,
                _ => Some(Bound::Axis(place, axis)),
            };
            return Some((0..rank).map(axis).collect());
        }
        let node = graph.node(graph.maker(at)?);
        match node.op_type() {
            "Constant" => {
                let dims = attribute(node, "value")?.t.as_ref()?.dims.clone();
                let fixed = |dim: &i64| u64::try_from(*dim).ok().map(Bound::Fixed);
                return Some(dims.iter().map(fixed).collect());
            }
            "Identity" | "Cast" | "CastLike" | "DequantizeLinear" | "Relu" | "Tanh" | "Sigmoid"
            | "Gelu" | "LeakyRelu" | "Elu" | "LayerNormalization" | "Dropout" => {
                at = node.input(0)?;
            }
            // The rows of a product with a weight are those of its first factor.
            "MatMul" | "Gemm" if is_constant(graph, node.input(1)) => {
                let is_turned = int(node, "transB").is_some_and(|turned| turned != 0);
                let columns = || Some(*sizes(graph, node.input(1)?, takes)?.last()?).flatten();
                last = last.or_else(|| Some(columns().filter(|_| !is_turned)));
                at = node.input(0)?;
            }
            "Add" if is_constant(graph, node.input(1)) => at = node.input(0)?,
            "Mul" | "Add" if graph.constant(node.input(0)?).is_some() => at = node.input(0)?,
            _ => break,
        }
    }
    declared(graph, value)
}

/// The sizes that the file declares of a value.
fn declared(graph: &Graph, value: ValueId) -> Option<Vec<Option<Bound>>> {
    let tensor = tensor_type(graph.value(value).declared.as_ref())?;
    let size = |dim: &tract_onnx::pb::tensor_shape_proto::Dimension| match dim.value.as_ref()? {
        Dimension::DimValue(size) => u64::try_from(*size).ok().map(Bound::Fixed),
        Dimension::DimParam(_) => None,
    };
    Some(tensor.shape.as_ref()?.dim.iter().map(size).collect())
}

/// The rank that is known of a value.
pub(super) fn rank(graph: &Graph, value: Option<ValueId>, takes: &Declared) -> Option<usize> {
    sizes(graph, value?, takes).map(|sizes| sizes.len())
}
