use std::collections::HashMap;

use onnx_cast_graph::{int_attribute, named_value};
use tract_onnx::pb::{GraphProto, ModelProto, NodeProto, OperatorSetIdProto};
use tract_onnx::prelude::*;
use tract_onnx_cast::{ElementType, tensor_proto};

use super::calibration::Span;
use super::parameters::Finder;
use super::plan::{EntryKind, QuantizationPlan};
use super::scheme::Scheme;
use super::simulated::written;
use super::subject::FloatModel;

/// A model of nodes, each `output = Op(inputs)`, with weights of a shape, and values from -1 to 3.
fn subject(nodes: &[&str], weights: &[(&str, &[usize])]) -> FloatModel<'static> {
    let mut graph = GraphProto::default();
    let mut spans = HashMap::from([("x".to_owned(), Span::between(-1.0, 3.0))]);
    for line in nodes {
        let (output, rest) = line.split_once(" = ").expect("an output");
        let (op, inputs) = rest.split_once('(').expect("inputs");
        graph.node.push(NodeProto {
            name: output.to_uppercase(),
            op_type: op.into(),
            input: inputs.trim_end_matches(')').split(", ").map(String::from).collect(),
            output: vec![output.into()],
            ..NodeProto::default()
        });
        spans.insert(output.into(), Span::between(-1.0, 3.0));
    }
    for (name, shape) in weights {
        let values: Vec<f32> = (0..shape.iter().product()).map(|x: usize| x as f32 - 2.0).collect();
        let values = tensor1(&values).into_shape(shape).expect("a shape");
        let held = tensor_proto::write(name, ElementType::Float, &values).expect("a tensor");
        graph.initializer.push(held);
    }
    graph.input.push(named_value("x"));
    graph.output.push(named_value("y"));
    let opset_import = vec![OperatorSetIdProto { version: 17, ..Default::default() }];
    let proto = ModelProto { graph: Some(graph), opset_import, ..ModelProto::default() };
    FloatModel::new(proto, None, spans)
}

fn int8() -> Scheme {
    Scheme::of("INT8").expect("a scheme")
}

/// What is marked where nodes, by their places, are left out, in the order of names.
fn marked(subject: &FloatModel, kept: &[usize]) -> (Vec<String>, QuantizationPlan) {
    let plan = QuantizationPlan::of(subject, &int8(), &|place| kept.contains(&place));
    let mut names: Vec<String> = plan.entries.iter().map(|entry| entry.value.clone()).collect();
    names.sort();
    (names, plan)
}

#[test]
fn a_relu_behind_a_product_goes_unless_either_is_left_out() {
    let nodes = ["c = Conv(x, w, b)", "r = Relu(c)", "p = MaxPool(r)", "y = Neg(p)"];
    let subject = subject(&nodes, &[("w", &[2, 1, 1, 1]), ("b", &[2])]);
    let (names, plan) = marked(&subject, &[]);
    assert_eq!(names, ["b", "p", "r", "w", "x"]);
    assert_eq!(plan.renamed, [("c".to_owned(), "r".to_owned())]);
    assert!(plan.removed.contains(&1));
    let how = |name: &str| plan.entries.iter().find(|entry| entry.value == name).expect(name);
    assert_eq!(how("p").how, EntryKind::Like("r".into()));
    assert_eq!(how("w").how, EntryKind::Weight { axis: Some(0) });
    // The product asks for what it made, though another name has it now.
    assert_eq!(how("r").by, [1, 0]);
    // Without the product nothing is marked, and the others follow.
    assert_eq!(marked(&subject, &[0]).0, [""; 0]);
    let (names, plan) = marked(&subject, &[1]);
    assert_eq!((names.len(), plan.renamed.len()), (4, 0), "{names:?}");
    assert_eq!(names, ["b", "c", "w", "x"]);
}

#[test]
fn a_relu_stays_where_somebody_else_takes_what_it_does() {
    let subject = subject(&["c = Conv(x, w)", "r = Relu(c)", "y = Add(c, r)"], &[("w", &[2, 1])]);
    let (names, plan) = marked(&subject, &[]);
    assert_eq!(
        (names, plan.renamed.len()),
        (["c", "r", "w", "x", "y"].map(String::from).into(), 0)
    );
}

#[test]
fn scales_are_those_of_the_least_and_the_greatest_value() {
    let mut subject = subject(&["y = Gemm(x, w, b)"], &[("w", &[2, 2]), ("b", &[2])]);
    if let Some(graph) = &mut subject.proto.graph {
        graph.node[0].attribute = vec![int_attribute("transB", 1)];
    }
    for (to, zero) in [("INT8", -64.0), ("UINT8", 64.0)] {
        let scheme = Scheme::of(to).expect("a scheme");
        let plan = QuantizationPlan::of(&subject, &scheme, &|_| false);
        let finder = Finder::new(&subject, &scheme, &plan, &|_| false);
        let of = |name: &str| {
            let entry = plan.entries.iter().find(|entry| entry.value == name).expect(name);
            finder.of(entry).expect("parameters").expect("parameters")
        };
        let (scale, x) = (4.0 / 255.0f32, of("x"));
        assert_eq!((x.scales, x.zeros), (vec![scale], vec![zero]));
        // Rows -2, -1 and 0, 1.
        let rows = [2.0 / 127.0f32, 1.0 / 127.0];
        assert_eq!((of("w").scales, of("w").zeros), (rows.to_vec(), vec![0.0; 2]));
        assert_eq!(of("b").scales, rows.map(|row| scale * row));
        assert_eq!(of("b").ty, ElementType::Int32);
    }
}

#[test]
fn blocks_are_those_of_each_product() {
    let nodes = ["a = MatMul(x, w)", "b = MatMul(a, w)", "y = MatMul(b, x)"];
    let subject = subject(&nodes, &[("w", &[2, 2])]);
    let scheme = Scheme::of("INT4").expect("a scheme");
    let model = |kept: &[usize]| {
        let is_kept = |place: usize| kept.contains(&place);
        let plan = QuantizationPlan::of(&subject, &scheme, &is_kept);
        let finder = Finder::new(&subject, &scheme, &plan, &is_kept);
        written(&subject, &plan, &finder).expect("a model").graph.expect("a graph")
    };
    let taken = |graph: &GraphProto, at: usize| graph.node[at].input[1].clone();
    let graph = model(&[1]);
    assert_eq!((taken(&graph, 1).as_str(), graph.initializer.len()), ("w", 2));
    // Columns -2, 0 and -1, 1 in 15 steps: the first has 0 as its last code.
    let held = graph.initializer.iter().find(|held| held.name == taken(&graph, 0)).expect("codes");
    let (_, values) = tensor_proto::read(held, None).expect("values");
    let step = 2.0 / 15.0f32;
    let values = values.try_as_plain_ram().expect("plain").as_slice::<f32>().expect("floats");
    // -1 and 1 are between two of their codes.
    assert_eq!(values, [-15.0 * step, -7.0 * step, 0.0, 7.0 * step]);
    let graph = model(&[]);
    assert_ne!(taken(&graph, 0), taken(&graph, 1));
}
