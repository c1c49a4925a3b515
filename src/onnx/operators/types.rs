//! The types of a node's outputs, from its operator's schema.

use tract_onnx::pb::NodeProto;
use tract_onnx::pb::attribute_proto::AttributeType;

use super::behaviour::{Behaviour, Otherwise};
use super::schema::{self, ParameterType, Schema};
use crate::cast::element_type::ElementType;
use crate::onnx::node::{attribute, int, is_default_domain};

/// The types of the outputs of a node at an opset, from those of its inputs; `None` where only tract's analysis, a tensor
/// or a subgraph can tell, and for all outputs of an operator that ONNX does not have.
pub(crate) fn output_types(
    node: &NodeProto,
    opset: i64,
    inputs: &[Option<ElementType>],
) -> Vec<Option<ElementType>> {
    let schema = schema::schema(&node.op_type, opset).filter(|_| is_default_domain(&node.domain));
    let ty = |index| schema.and_then(|schema| output_type(node, schema, index, inputs));
    (0..node.output.len()).map(ty).collect()
}

fn output_type(
    node: &NodeProto,
    schema: &Schema,
    index: usize,
    inputs: &[Option<ElementType>],
) -> Option<ElementType> {
    let output = schema.output(index).filter(|output| !output.has_any_types())?;
    if let Some(only) = schema.only_type(output.ty) {
        return Some(only);
    }
    let ParameterType::Variable(variable) = output.ty else { return None };
    let is_given = |index: usize| node.input.get(index).is_some_and(|name| !name.is_empty());
    let mut places = 0..node.input.len();
    if places.any(|place| is_given(place) && schema.binds(place, variable)) {
        return schema.bound(variable, inputs);
    }
    let attribute = Behaviour::of(node).type_attribute?;
    let given = int(node, attribute.name).filter(|id| *id != 0);
    if let Some(id) = given {
        return i32::try_from(id).ok().and_then(ElementType::from_id);
    }
    schema.default_type(attribute.name).or(match attribute.otherwise {
        Otherwise::Unknown => None,
        Otherwise::Input(source) => inputs.get(source).copied().flatten(),
        Otherwise::Always(ty) => Some(ty),
    })
}

/// The type of a `Constant` or `ConstantOfShape` that holds no tensor.
pub(crate) fn constant_type(node: &NodeProto) -> Option<ElementType> {
    let has = |name: &str| {
        attribute(node, name)
            .is_some_and(|attribute| attribute.r#type != AttributeType::Undefined as i32)
    };
    match node.op_type.as_str() {
        "ConstantOfShape" => Some(ElementType::Float),
        _ if has("value_float") || has("value_floats") => Some(ElementType::Float),
        _ if has("value_int") || has("value_ints") => Some(ElementType::Int64),
        _ if has("value_string") || has("value_strings") => Some(ElementType::String),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tract_onnx::pb::AttributeProto;
    use tract_onnx::pb::attribute_proto::AttributeType;

    use ElementType::{Bool, Double, Float, Int32, Int64, Uint8};

    fn types(op: &str, outputs: usize, inputs: &[Option<ElementType>]) -> Vec<Option<ElementType>> {
        output_types(&node(op, inputs.len(), outputs), 21, inputs)
    }

    fn node(op: &str, inputs: usize, outputs: usize) -> NodeProto {
        let names = |count: usize| (0..count).map(|index| format!("v{index}")).collect();
        NodeProto {
            op_type: op.into(),
            input: names(inputs),
            output: names(outputs),
            ..NodeProto::default()
        }
    }

    #[test]
    fn a_schema_gives_the_types_of_outputs() {
        assert_eq!(types("Where", 1, &[Some(Bool), Some(Double), None]), [Some(Double)]);
        assert_eq!(types("Where", 1, &[Some(Bool), None, Some(Double)]), [Some(Double)]);
        assert_eq!(types("TopK", 2, &[Some(Float), Some(Int64)]), [Some(Float), Some(Int64)]);
        assert_eq!(types("MatMulInteger", 1, &[Some(Uint8), Some(Uint8)]), [Some(Int32)]);
        assert_eq!(types("If", 1, &[Some(Bool)]), [None]);
    }

    #[test]
    fn an_attribute_gives_the_type_that_a_schema_leaves_open() {
        let dtype = |name: &str, ty: ElementType| AttributeProto {
            name: name.into(),
            r#type: AttributeType::Int as i32,
            i: ty as i64,
            ..AttributeProto::default()
        };
        let with = |op: &str, attribute, inputs: &[Option<ElementType>], outputs| {
            let mut node = node(op, inputs.len(), outputs);
            node.attribute.push(attribute);
            output_types(&node, 23, inputs)
        };
        assert_eq!(types("EyeLike", 1, &[Some(Int32)]), [Some(Int32)]);
        assert_eq!(with("EyeLike", dtype("dtype", Double), &[Some(Int32)], 1), [Some(Double)]);
        assert_eq!(types("RandomNormal", 1, &[]), [Some(Float)]);
        assert_eq!(types("QuantizeLinear", 1, &[Some(Float), Some(Float)]), [Some(Uint8)]);
        let normalized =
            with("LayerNormalization", dtype("stash_type", Float), &[Some(Double); 3], 3);
        assert_eq!(normalized, [Some(Double), Some(Float), Some(Float)]);
    }

    #[test]
    fn what_onnx_does_not_have_makes_unknown_types() {
        assert_eq!(types("Frobnicate", 2, &[Some(Float)]), [None, None]);
        let foreign = NodeProto { domain: "com.example".into(), ..node("Relu", 1, 1) };
        assert_eq!(output_types(&foreign, 21, &[Some(Float)]), [None]);
        // One output more than the operator has.
        assert_eq!(types("Relu", 2, &[Some(Float)]), [Some(Float), None]);
    }
}
