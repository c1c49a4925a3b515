use onnx_cast_graph::int_attribute;
use tract_onnx::pb::NodeProto;

use super::*;

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
    let dtype = |name: &str, ty: ElementType| int_attribute(name, ty as i64);
    let with = |op: &str, attribute, inputs: &[Option<ElementType>], outputs| {
        let mut node = node(op, inputs.len(), outputs);
        node.attribute.push(attribute);
        output_types(&node, 23, inputs)
    };
    assert_eq!(types("EyeLike", 1, &[Some(Int32)]), [Some(Int32)]);
    assert_eq!(with("EyeLike", dtype("dtype", Double), &[Some(Int32)], 1), [Some(Double)]);
    assert_eq!(types("RandomNormal", 1, &[]), [Some(Float)]);
    assert_eq!(types("QuantizeLinear", 1, &[Some(Float), Some(Float)]), [Some(Uint8)]);
    let normalized = with("LayerNormalization", dtype("stash_type", Float), &[Some(Double); 3], 3);
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
