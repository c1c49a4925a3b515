//! What the operators of ONNX do with element types: which outputs have which type, and which operators only move data,
//! so that they work on carriers as they are. Facts from the operator schemas (onnx/defs), newest opset.

use tract_onnx::pb::NodeProto;
use tract_onnx::pb::attribute_proto::AttributeType;

use super::flow::Origin;
use crate::cast::element_type::ElementType;

/// Where an output's element type comes from.
#[derive(Clone, Copy)]
enum Source {
    /// The type of an input.
    Input(usize),
    /// Always the same type.
    Always(ElementType),
    /// The type whose id is an attribute, or else the given one.
    Attribute(&'static str, ElementType),
    /// The type whose id is an attribute, or else that of an input.
    AttributeOrInput(&'static str, usize),
    /// Not known from the node alone.
    Unknown,
}

use ElementType::{Bool, Float, Int32, Int64, Uint8};
use Source::{Always, Attribute, AttributeOrInput, Input, Unknown};

/// The types of an operator's outputs, the last one standing for all that follow. An operator of the default domain that
/// is not named here has outputs of its first input's type.
fn sources(op_type: &str) -> &'static [Source] {
    match op_type {
        "And" | "Equal" | "Greater" | "GreaterOrEqual" | "IsInf" | "IsNaN" | "Less"
        | "LessOrEqual" | "Not" | "OptionalHasElement" | "Or" | "RegexFullMatch" | "Xor" => {
            &[Always(Bool)]
        }
        "ArgMax" | "ArgMin" | "NonMaxSuppression" | "NonZero" | "SequenceLength" | "Shape"
        | "Size" => &[Always(Int64)],
        "ConvInteger" | "MatMulInteger" => &[Always(Int32)],
        "ImageDecoder" => &[Always(Uint8)],
        "TfIdfVectorizer" => &[Always(Float)],
        "StringSplit" => &[Always(ElementType::String), Always(Int64)],
        "DynamicQuantizeLinear" => &[Always(Uint8), Always(Float), Always(Uint8)],
        "Dropout" => &[Input(0), Always(Bool)],
        "MaxPool" | "TopK" | "Unique" => &[Input(0), Always(Int64)],
        "LayerNormalization" => &[Input(0), Unknown],
        "BatchNormalization" => &[Input(0), Input(3)],
        "Attention" => &[Input(0), Input(0), Input(2), Input(0)],
        "LinearAttention" => &[Input(0), Input(3)],
        "Where" | "RMSNormalization" => &[Input(1)],
        "OneHot" => &[Input(2)],
        "QLinearConv" | "QLinearMatMul" => &[Input(7)],
        "Bernoulli" | "EyeLike" | "RandomNormalLike" | "RandomUniformLike" => {
            &[AttributeOrInput("dtype", 0)]
        }
        "DequantizeLinear" => &[AttributeOrInput("output_dtype", 1)],
        "QuantizeLinear" => &[AttributeOrInput("output_dtype", 2)],
        "RandomNormal" | "RandomUniform" => &[Attribute("dtype", Float)],
        "Multinomial" => &[Attribute("dtype", Int32)],
        "BlackmanWindow" | "HammingWindow" | "HannWindow" | "MelWeightMatrix" => {
            &[Attribute("output_datatype", Float)]
        }
        "BitCast" | "ConcatFromSequence" | "If" | "Loop" | "Optional" | "OptionalGetElement"
        | "Scan" | "SequenceAt" | "SequenceConstruct" | "SequenceEmpty" | "SequenceErase"
        | "SequenceInsert" | "SequenceMap" | "SplitToSequence" => &[Unknown],
        _ => &[Input(0)],
    }
}

/// The types of the outputs of a node of the default domain whose outputs do not come from a subgraph or a tensor.
pub(super) fn output_types(
    node: &NodeProto,
    inputs: &[Option<ElementType>],
) -> Vec<Option<ElementType>> {
    let input = |index: usize| inputs.get(index).copied().flatten();
    let attribute = |name| attribute_int(node, name);
    let named = |id: i64| i32::try_from(id).ok().and_then(ElementType::from_id);
    let sources = sources(&node.op_type);
    let resolve = |index: usize| match *sources.get(index).or(sources.last())? {
        Input(source) => input(source),
        Always(ty) => Some(ty),
        Attribute(name, default) => attribute(name).map_or(Some(default), named),
        AttributeOrInput(name, source) => attribute(name).map_or(input(source), named),
        Unknown => None,
    };
    (0..node.output.len()).map(resolve).collect()
}

/// The INT attribute of this name.
fn attribute_int(node: &NodeProto, name: &str) -> Option<i64> {
    let attribute = node.attribute.iter().find(|attribute| attribute.name == name)?;
    (attribute.r#type == AttributeType::Int as i32 && attribute.i != 0).then_some(attribute.i)
}

/// How an operator treats elements of a carrier.
pub(super) enum Carriers {
    /// It moves the elements of these inputs to its outputs and looks at none of them. The other inputs say where to.
    Moves(fn(usize) -> bool),
    /// It looks at the shape alone.
    Measures,
    /// It would compute with bit patterns. Widening such operators is for later.
    Computes,
}

/// What a node of the default domain does to elements that tract cannot tell from plain integers.
pub(super) fn carriers(node: &NodeProto) -> Carriers {
    let first: fn(usize) -> bool = |index| index == 0;
    let text = |name: &str| {
        let attribute = node.attribute.iter().find(|attribute| attribute.name == name);
        attribute.map(|attribute| attribute.s.as_slice()).filter(|word| !word.is_empty())
    };
    match node.op_type.as_str() {
        "Compress" | "DepthToSpace" | "Expand" | "Flatten" | "Gather" | "GatherElements"
        | "GatherND" | "Identity" | "Reshape" | "ReverseSequence" | "Slice" | "SpaceToDepth"
        | "Split" | "Squeeze" | "Tile" | "Transpose" | "Trilu" | "Unsqueeze" => {
            Carriers::Moves(first)
        }
        "Concat" => Carriers::Moves(|_| true),
        "Where" => Carriers::Moves(|index| index == 1 || index == 2),
        // Reflecting, repeating the edge and wrapping around move elements; a constant is the third input.
        "Pad" => Carriers::Moves(|index| index == 0 || index == 2),
        "Scatter" | "ScatterElements" | "ScatterND"
            if text("reduction").is_none_or(|word| word == b"none") =>
        {
            Carriers::Moves(|index| index == 0 || index == 2)
        }
        "Shape" | "Size" => Carriers::Measures,
        _ => Carriers::Computes,
    }
}

/// Whether the operator fills places with a zero of its own, which for a type without zero would be another number.
pub(super) fn fills_with_zero(node: &NodeProto) -> bool {
    match node.op_type.as_str() {
        "Trilu" => true,
        "Pad" => {
            let mode = node.attribute.iter().find(|attribute| attribute.name == "mode");
            let is_constant = mode.is_none_or(|mode| mode.s == b"constant");
            is_constant && node.input.get(2).is_none_or(String::is_empty)
        }
        _ => false,
    }
}

/// Whether the operator fills places with a number from an attribute, as Pad did before opset 11.
pub(super) fn fills_with_number(node: &NodeProto) -> bool {
    let value = node.attribute.iter().find(|attribute| attribute.name == "value");
    node.op_type == "Pad" && value.is_some_and(|value| value.f != 0.0)
}

/// What a node's outputs are computed from beside its inputs.
pub(super) fn origin(node: &NodeProto) -> Origin {
    match node.op_type.as_str() {
        // Chance, and whatever a body does.
        "Bernoulli" | "Loop" | "Multinomial" | "RandomNormal" | "RandomNormalLike"
        | "RandomUniform" | "RandomUniformLike" | "Scan" => Origin::Data,
        _ => Origin::Constants,
    }
}

/// Whether tract computes with an operator's INT64 inputs as numbers only.
pub(super) fn wants_numbers(node: &NodeProto) -> bool {
    matches!(node.op_type.as_str(), "Einsum" | "Gemm" | "Loop" | "MatMul" | "Scan")
}

/// The inputs that an operator brings to one element type.
pub(super) fn combined_inputs(node: &NodeProto) -> fn(usize) -> bool {
    match node.op_type.as_str() {
        "Add" | "BitShift" | "BitwiseAnd" | "BitwiseOr" | "BitwiseXor" | "Clip" | "Concat"
        | "Div" | "Equal" | "Greater" | "GreaterOrEqual" | "Less" | "LessOrEqual" | "Max"
        | "Mean" | "Min" | "Mod" | "Mul" | "Pow" | "Range" | "Sub" | "Sum" => |_| true,
        "Where" => |index| index == 1 || index == 2,
        "Pad" | "Scatter" | "ScatterElements" | "ScatterND" => |index| index == 0 || index == 2,
        _ => |_| false,
    }
}
