//! Open sizes that weights settle. Before: an input of [N, C, H, W] that a convolution by weights
//! of [8, 3, 3, 3] takes; after: one of [N, 3, H, W], and 3 wherever `C` is declared. tract refuses
//! what is declared open and can be one number only ("Impossible to unify Sym(C) with Val(3)"), and
//! whoever chooses sizes would have to guess it.

use std::collections::{BTreeMap, HashMap};

use onnx_cast_graph::{
    Graph, Node, NodeId, NodeView, ValueId, attribute, int, tensor_type, tensor_type_mut,
};
use tract_onnx::pb::tensor_shape_proto::Dimension;
use tract_onnx::pb::tensor_shape_proto::dimension::Value as DimValue;
use tract_onnx::pb::type_proto;
use tract_onnx::prelude::TractResult;
use tract_onnx::tract_core::broadcast::multi_broadcast;

use super::context::PassContext;
use crate::onnx::node::from_front;

/// What leaves the sizes of its first input alone, whatever else it has.
const SAME_SIZES: &[&str] = &[
    "Abs",
    "BatchNormalization",
    "Cast",
    "CastLike",
    "Clip",
    "DequantizeLinear",
    "Dropout",
    "DynamicQuantizeLinear",
    "Elu",
    "Erf",
    "Exp",
    "Gelu",
    "HardSigmoid",
    "Identity",
    "InstanceNormalization",
    "LayerNormalization",
    "LeakyRelu",
    "Log",
    "LogSoftmax",
    "LpNormalization",
    "Neg",
    "QuantizeLinear",
    "Relu",
    "Sigmoid",
    "Softmax",
    "Sqrt",
    "Tanh",
];

/// What leaves them alone where its other input is one number.
const BY_A_NUMBER: &[&str] = &["Add", "Div", "Mul", "Pow", "Sub"];

/// An input of the main graph that is open along an axis, and the only size that it can have there.
struct Settled {
    input: ValueId,
    axis: usize,
    size: i64,
}

/// Declares the sizes that inputs can have only one of.
pub(super) fn declare(graph: &mut Graph, context: &mut PassContext) -> TractResult<()> {
    context.sizes = declare_sizes(graph);
    Ok(())
}

/// The same, of a graph that runs node by node, and which symbols are numbers then.
pub(crate) fn declare_sizes(graph: &mut Graph) -> Vec<(String, i64)> {
    let mut symbols: HashMap<String, Option<i64>> = HashMap::new();
    for id in graph.nodes_of(graph.main()) {
        for Settled { input, axis, size } in of_node(graph, id) {
            let declared = tensor_type_mut(graph.value_mut(input).declared.as_mut());
            let Some(dim) = dims_mut(declared).nth(axis) else { continue };
            match &dim.value {
                // An expression has to be solved first, which nobody does.
                Some(DimValue::DimParam(text)) if !is_symbol(text) && !is_nameless(text) => {}
                Some(DimValue::DimParam(symbol)) if !is_nameless(symbol) => {
                    let known = symbols.entry(symbol.clone()).or_insert(Some(size));
                    // One symbol for two sizes stays: who takes the other one says what does not
                    // fit.
                    *known = known.filter(|known| *known == size);
                }
                // Some write −1 for a size that is open.
                Some(DimValue::DimValue(0..)) => {}
                _ => dim.value = Some(DimValue::DimValue(size)),
            }
        }
    }
    let mut sizes: BTreeMap<String, i64> =
        symbols.into_iter().filter_map(|(symbol, size)| Some((symbol, size?))).collect();
    // Who sets a symbol sets the expressions that it is part of.
    for dims in graph
        .body(graph.main())
        .inputs()
        .iter()
        .filter_map(|input| tensor_type(graph.value(*input).declared.as_ref())?.shape.as_ref())
    {
        let is_apart = |symbol: &String| !dims.dim.iter().any(|dim| is_part_of(symbol, dim));
        sizes.retain(|symbol, _| is_apart(symbol));
    }
    if !sizes.is_empty() {
        replace(graph, &sizes);
    }
    sizes.into_iter().collect()
}

/// What tract takes for a size without a name.
fn is_nameless(text: &str) -> bool {
    matches!(text, "" | "?") || text.starts_with("unk__")
}

fn is_symbol(text: &str) -> bool {
    !text.starts_with(|c: char| c.is_ascii_digit()) && !text.contains(is_between_symbols)
}

fn is_between_symbols(c: char) -> bool {
    !c.is_alphanumeric() && c != '_'
}

/// Whether a symbol is part of an expression.
fn is_part_of(symbol: &str, dim: &Dimension) -> bool {
    let Some(DimValue::DimParam(text)) = &dim.value else { return false };
    text != symbol && text.split(is_between_symbols).any(|part| part == symbol)
}

/// Declares numbers in the place of symbols.
fn replace(graph: &mut Graph, sizes: &BTreeMap<String, i64>) {
    let number = |dim: &mut Dimension| {
        let Some(DimValue::DimParam(symbol)) = &dim.value else { return };
        if let Some(size) = sizes.get(symbol) {
            dim.value = Some(DimValue::DimValue(*size));
        }
    };
    for body in graph.all_bodies(graph.main()) {
        let made =
            graph.nodes_of(body).into_iter().flat_map(|id| graph.node(id).outputs().to_vec());
        let made: Vec<ValueId> = made.flatten().collect();
        for value in graph.body(body).inputs().to_vec().into_iter().chain(made) {
            dims_mut(tensor_type_mut(graph.value_mut(value).declared.as_mut())).for_each(number);
        }
        for place in 0..graph.body(body).outputs().len() {
            let declared = graph.declared_output_mut(body, place);
            let declared = declared.and_then(|output| tensor_type_mut(output.r#type.as_mut()));
            dims_mut(declared).for_each(number);
        }
    }
}

fn dims_mut(declared: Option<&mut type_proto::Tensor>) -> impl Iterator<Item = &mut Dimension> {
    declared
        .and_then(|declared| declared.shape.as_mut())
        .into_iter()
        .flat_map(|shape| &mut shape.dim)
}

/// The sizes that a node's weights tell of inputs.
fn of_node(graph: &Graph, id: NodeId) -> Vec<Settled> {
    let sizes = sizes_by_weights(graph, id).unwrap_or_default().into_iter();
    let settled = sizes.filter(|(.., size)| *size > 0).filter_map(|(place, axis, size)| {
        let (input, axis) = source(graph, graph.node(id).input(place)?, axis)?;
        let declared = tensor_type(graph.value(input).declared.as_ref())?.shape.as_ref()?;
        Some(Settled { input, axis: from_front(axis, declared.dim.len())?, size })
    });
    settled.collect()
}

/// What a node's weights tell: the place of an input, one of its axes, from the end if it is
/// negative, and its size.
fn sizes_by_weights(graph: &Graph, id: NodeId) -> Option<Vec<(usize, i64, i64)>> {
    let node = graph.node(id);
    let weights = |place| weights(graph, node.input(place)?);
    let is_transposed = |name| int(node, name).unwrap_or(0) != 0;
    let sizes = match &*node.op_type {
        "MatMulNBits" if &*node.domain == "com.microsoft" => vec![(0, -1, int(node, "K")?)],
        "FusedConv" if &*node.domain == "com.microsoft" => of_convolution(node, weights(1)?)?,
        _ if !node.is_onnx() => return None,
        "Conv" | "ConvInteger" | "QLinearConv" => {
            let place = if &*node.op_type == "QLinearConv" { 3 } else { 1 };
            of_convolution(node, weights(place)?)?
        }
        "ConvTranspose" | "BatchNormalization" | "InstanceNormalization" => {
            vec![(0, 1, *weights(1)?.first()?)]
        }
        "PRelu" if node.opset < 7 => return None,
        // These may be broadcast to the data, and it not to them.
        "LayerNormalization" | "RMSNormalization" | "PRelu" => {
            let from_end = (1..).map(|axis: i64| -axis).zip(weights(1)?.into_iter().rev());
            from_end.filter(|(_, size)| *size != 1).map(|(axis, size)| (0, axis, size)).collect()
        }
        "RNN" | "GRU" | "LSTM" => vec![(0, 2, *weights(1)?.get(2)?)],
        "Gemm" => {
            let [at, of] = [("transA", 1), ("transB", 0)]
                .map(|(name, axis)| if is_transposed(name) { 1 - axis } else { axis });
            vec![(0, at, *weights(1)?.get(usize::try_from(of).ok()?)?)]
        }
        "MatMul" | "MatMulInteger" | "QLinearMatMul" => {
            let right = if &*node.op_type == "QLinearMatMul" { 3 } else { 1 };
            let of_right = weights(right).and_then(|dims| match dims[..] {
                [terms] | [.., terms, _] => Some((0, -1, terms)),
                [] => None,
            });
            let of_left = weights(0).and_then(|dims| Some((right, -2, *dims.last()?)));
            of_right.or(of_left).into_iter().collect()
        }
        _ => return None,
    };
    Some(sizes)
}

fn of_convolution(node: &Node, weights: Vec<i64>) -> Option<Vec<(usize, i64, i64)>> {
    let channels = weights.get(1)?.checked_mul(int(node, "group").unwrap_or(1))?;
    Some(vec![(0, 1, channels)])
}

/// The sizes of a constant, or of what is made of constants element by element.
fn weights(graph: &Graph, value: ValueId) -> Option<Vec<i64>> {
    const DEPTH: usize = 8;
    sizes_of_constants(graph, value, DEPTH)
}

fn sizes_of_constants(graph: &Graph, value: ValueId, depth: usize) -> Option<Vec<i64>> {
    let Some(id) = graph.maker(value) else {
        return Some(graph.constant(value)?.dims.clone());
    };
    let node = graph.node(id);
    let operand = |place| sizes_of_constants(graph, node.input(place)?, depth.checked_sub(1)?);
    if !node.is_onnx() {
        return None;
    }
    match &*node.op_type {
        "Constant" => match attribute(node, "value").and_then(|given| given.t.as_ref()) {
            Some(tensor) => Some(tensor.dims.clone()),
            None => ["value_float", "value_int"]
                .iter()
                .any(|name| attribute(node, name).is_some())
                .then(Vec::new),
        },
        "Cast" | "CastLike" | "DequantizeLinear" | "Identity" => operand(0),
        "Transpose" => {
            let (sizes, perm) = (operand(0)?, attribute(node, "perm"));
            let place = |place: usize| match perm {
                Some(perm) => usize::try_from(*perm.ints.get(place)?).ok(),
                None => (sizes.len() - 1).checked_sub(place),
            };
            (0..sizes.len()).map(|axis| sizes.get(place(axis)?).copied()).collect()
        }
        operator if BY_A_NUMBER.contains(&operator) => {
            let sizes = |place| -> Option<Vec<usize>> {
                operand(place)?.into_iter().map(|size| size.try_into().ok()).collect()
            };
            let sizes = multi_broadcast(&[sizes(0)?, sizes(1)?]).ok()?;
            sizes.into_iter().map(|size| size.try_into().ok()).collect()
        }
        _ => None,
    }
}

/// The input of the main graph that an axis of a value is of, with its axis there.
fn source(graph: &Graph, mut value: ValueId, mut axis: i64) -> Option<(ValueId, i64)> {
    while let Some(id) = graph.maker(value) {
        let node = graph.node(id);
        let operator = &&*node.op_type;
        let is_by_number = BY_A_NUMBER.contains(operator)
            && node
                .input(1)
                .and_then(|by| weights(graph, by))
                .is_some_and(|dims| matches!(dims[..], [] | [1]));
        if !node.is_onnx() || node.output(0) != Some(value) {
            return None;
        }
        if *operator == "Transpose" {
            axis = match attribute(node, "perm") {
                Some(perm) => *perm.ints.get(from_front(axis, perm.ints.len())?)?,
                None => -1 - axis,
            };
        } else if !SAME_SIZES.contains(operator) && !is_by_number {
            return None;
        }
        value = node.input(0)?;
    }
    graph.body(graph.main()).inputs().contains(&value).then_some((value, axis))
}
