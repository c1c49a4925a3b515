//! Nodes of many inputs, node by node: they run in parts, and make what the whole would.

use tract_onnx::pb::{AttributeProto, ModelProto};
use tract_onnx::prelude::*;
use tract_onnx_cast::ElementType::{BFloat16, Float, Float16};
use tract_onnx_cast::interpreter::Interpreter;
use tract_onnx_cast::{ElementType, OnnxTensor, Rules, from_f32, onnx};

use crate::common::proto::{graph, int, model, node, tensor, untyped};

/// More than tract may be given to load.
const MANY: usize = 10_000;

/// Numbers of which a sum has other bits in another order.
fn number(place: usize) -> f32 {
    (place * 7919 % 1009) as f32 * 1e-3 - 0.4 + (place % 97) as f32 * 1e4
}

/// A node of as many constants of two elements, and these.
fn of(op: &str, attributes: Vec<AttributeProto>, ty: ElementType, count: usize) -> ModelProto {
    let names: Vec<String> = (0..count).map(|place| format!("w{place}")).collect();
    let taken: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut graph = graph(&[], &[node(op, &taken, &["y"], attributes)], &[untyped("y")]);
    let held = names.iter().enumerate();
    let held = held.map(|(place, name)| tensor(name, ty, &[number(place), -number(place)]));
    graph.initializer = held.collect();
    model(21, graph)
}

fn run(model: ModelProto) -> OnnxTensor {
    let interpreter = Interpreter::of_proto(onnx(), model, None).expect("a sound model");
    interpreter.run(vec![]).expect("a sound model").remove(0)
}

fn floats(op: &str, attributes: Vec<AttributeProto>, count: usize) -> Vec<f32> {
    let made = run(of(op, attributes, Float, count)).into_tensor();
    made.try_as_plain_ram().expect("bytes").as_slice::<f32>().expect("FLOAT").to_vec()
}

#[test]
fn a_sum_adds_in_the_order_of_its_inputs() {
    for count in [64, 65, 127, 128, 1_000, MANY] {
        let sum = (0..count).map(number).reduce(|sum, x| sum + x).expect("numbers");
        assert_eq!(floats("Sum", vec![], count), [sum, -sum], "{count}");
        let mean = sum / count as f32;
        assert_eq!(floats("Mean", vec![], count), [mean, -mean], "{count}");
    }
}

#[test]
fn half_precision_is_added_in_float_and_rounded_once() {
    for ty in [BFloat16, Float16] {
        // Each 0.0625 more would be lost beside 4096.
        let first = tensor("w0", ty, &[4096.0, -4096.0]);
        let mut model = of("Sum", vec![], ty, 1_000);
        let held = &mut model.graph.as_mut().expect("a graph").initializer;
        for tensor_proto in held.iter_mut() {
            let name = tensor_proto.name.clone();
            *tensor_proto = tensor(&name, ty, &[0.0625, -0.0625]);
        }
        held[0] = first;
        let sum = 4096f32 + 999.0 * 0.0625;
        let expected = from_f32(&tensor1(&[sum, -sum]), ty, Rules::default()).expect("a cast");
        assert_eq!(run(model).into_tensor(), expected, "{ty}");
    }
}

#[test]
fn the_largest_and_the_least_are_found() {
    let numbers = || (0..MANY).map(number);
    let (most, least) = (numbers().fold(f32::MIN, f32::max), numbers().fold(f32::MAX, f32::min));
    assert_eq!(floats("Max", vec![], MANY), [most, -least]);
    assert_eq!(floats("Min", vec![], MANY), [least, -most]);
}

#[test]
fn many_are_put_side_by_side() {
    let expected: Vec<f32> = (0..MANY).map(number).flat_map(|x| [x, -x]).collect();
    assert_eq!(floats("Concat", vec![int("axis", 0)], MANY), expected);
}

/// What parts are alike in, types and shapes, is built once: a value that two of them take at other
/// places is no other.
#[test]
fn inputs_that_are_one_value_stay_apart_from_others() {
    let taken: Vec<String> = (0..200).map(|place| format!("w{}", place % 3)).collect();
    let taken: Vec<&str> = taken.iter().map(String::as_str).collect();
    let mut model = of("Concat", vec![int("axis", 0)], Float, 3);
    let graph = model.graph.as_mut().expect("a graph");
    graph.node = vec![node("Concat", &taken, &["y"], vec![int("axis", 0)])];
    let expected: Vec<f32> =
        (0..200).map(|place| number(place % 3)).flat_map(|x| [x, -x]).collect();
    assert_eq!(run(model).into_tensor(), tensor1(&expected));
}

/// An error of a part is one of the node.
#[test]
fn an_input_of_another_type_is_an_error_about_the_node() {
    for (op, attributes) in [("Sum", vec![]), ("Max", vec![]), ("Concat", vec![int("axis", 0)])] {
        let mut model = of(op, attributes, Float, 1_000);
        let graph = model.graph.as_mut().expect("a graph");
        graph.initializer[777] = tensor("w777", ElementType::Int32, &[1.0, 2.0]);
        let interpreter = Interpreter::of_proto(onnx(), model, None).expect("no type is looked at");
        let error = interpreter.run(vec![]).expect_err("types are mixed").to_string();
        assert!(error.contains(&format!("`{op}_y` ({op}): ")), "{error}");
    }
}
