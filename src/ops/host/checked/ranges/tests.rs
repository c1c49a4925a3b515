use onnx_cast_graph::{
    graph_attribute, int_attribute, ints_attribute, message_node, named_value, sized_type,
};
use tract_onnx::pb::{GraphProto, ModelProto, OperatorSetIdProto, TensorProto, ValueInfoProto};
use tract_onnx::prelude::*;

use super::*;
use crate::ops::host::register::register;

const SHAPE: [usize; 3] = [2, 3, 4];
const OPSET: i64 = 21;
const FLOAT: i32 = 1;
const INT64: i32 = 7;

/// What a rule does not allow of inputs of [`SHAPE`], and what it does.
fn numbers(must: Must) -> (Vec<Vec<i64>>, Vec<i64>) {
    match must {
        Must::Axis => (vec![vec![3], vec![-4], vec![i64::MAX], vec![i64::MIN]], vec![-3]),
        Must::Axes => (vec![vec![3], vec![-4], vec![1, 1], vec![1, -2]], vec![2, 0]),
        Must::Boundary => (vec![vec![4], vec![-4]], vec![3]),
        Must::NewAxes => (vec![vec![4], vec![-5]], vec![3]),
        Must::Permutation => {
            (vec![vec![0, 1], vec![0, 1, 1], vec![0, 1, 3], vec![0, 1, -1]], vec![2, 0, 1])
        }
        Must::Batch => (vec![vec![3], vec![-1]], vec![2]),
        Must::AxisButLast => (vec![vec![2], vec![-1], vec![-4]], vec![-3]),
        Must::Scanned { axes: true, .. } => (vec![vec![100], vec![-100], vec![0, 0]], vec![0]),
        Must::Scanned { axes: false, .. } => (vec![vec![2], vec![-1], vec![0, 0]], vec![1]),
        Must::Length => (vec![vec![5], vec![-1]], vec![4]),
        Must::Positive => (vec![vec![0, 1, 1], vec![-1, 1, 1]], vec![1, 1, 1]),
        Must::Pads => (vec![vec![0; 5], vec![-3, 0, 0, 0, 0, 0]], vec![0; 6]),
        Must::Within(least, most) => {
            let beyond = [least.checked_sub(1), most.checked_add(1)];
            (beyond.into_iter().flatten().map(|number| vec![number]).collect(), vec![least])
        }
        Must::Spatial { times, least } => {
            let all = |number| vec![number; times];
            (vec![all(least - 1), all(MOST + 1), vec![least; times + 1]], all(least))
        }
    }
}

fn value(name: &str, ty: i32, shape: &[usize]) -> ValueInfoProto {
    ValueInfoProto { r#type: Some(sized_type(ty, shape)), ..named_value(name) }
}

/// The body of a Scan that changes nothing.
fn scanned() -> AttributeProto {
    let (body_in, body_out) = (value("i", FLOAT, &SHAPE[1..]), value("o", FLOAT, &SHAPE[1..]));
    let body = GraphProto {
        node: vec![message_node("Identity", &["i"], "o")],
        input: vec![body_in],
        output: vec![body_out],
        ..GraphProto::default()
    };
    graph_attribute("body", body)
}

/// A node with these numbers, which is given nothing else that it may have.
fn of(operator: &str, given: NumberSource, must: Must, numbers: &[i64]) -> ModelProto {
    let mut node = NodeProto { op_type: operator.into(), name: "n".into(), ..NodeProto::default() };
    let mut graph = GraphProto::default();
    if operator.ends_with("Pool") && named(given) != "attribute `kernel_shape`" {
        node.attribute.push(ints_attribute("kernel_shape", vec![1]));
    }
    let mut inputs = if operator == "Pad" { 2 } else { 4 };
    match (given, numbers) {
        (NumberSource::Attribute(name), [number]) if !is_list(name) => {
            node.attribute.push(int_attribute(name, *number));
        }
        (NumberSource::Attribute(name), _) => {
            node.attribute.push(ints_attribute(name, numbers.to_vec()))
        }
        (NumberSource::Input(place, _), _) => {
            inputs = inputs.max(place + 1);
            let dims = vec![numbers.len() as i64];
            let mut tensor = TensorProto { name: format!("a{place}"), dims, ..Default::default() };
            if matches!(must, Must::Positive) {
                tensor.data_type = FLOAT;
                tensor.float_data = numbers.iter().map(|number| *number as f32).collect();
            } else {
                tensor.data_type = INT64;
                tensor.int64_data = numbers.to_vec();
            }
            graph.initializer.push(tensor);
        }
    }
    if operator == "Scan" {
        inputs = 1;
        node.attribute.extend([int_attribute("num_scan_inputs", 1), scanned()]);
    }
    for place in 0..inputs {
        let name = format!("a{place}");
        node.input.push(name.clone());
        if !graph.initializer.iter().any(|tensor| tensor.name == name) {
            graph.input.push(value(&name, FLOAT, &SHAPE));
        }
    }
    node.output.push("y".into());
    if operator == "TopK" {
        node.output.push("z".into());
    }
    graph.output.push(named_value("y"));
    graph.node.push(node);
    let import = OperatorSetIdProto { domain: String::new(), version: OPSET };
    ModelProto {
        graph: Some(graph),
        opset_import: vec![import],
        ir_version: 10,
        ..Default::default()
    }
}

fn is_list(name: &str) -> bool {
    [
        "axes",
        "dilations",
        "kernel_shape",
        "output_padding",
        "output_shape",
        "pads",
        "perm",
        "split",
        "strides",
    ]
    .contains(&name)
        || name.starts_with("scan_")
}

/// What tract's own loader says that has our operators, with none of the passes before it.
fn loaded(model: &ModelProto) -> TractResult<TypedModel> {
    let mut onnx = tract_onnx::onnx();
    register(&mut onnx);
    onnx.model_for_proto_model(model)?.into_typed()
}

/// Every number of every row: what is beyond it is refused before tract's rules see it, and what is
/// within is not on its account.
#[test]
fn what_is_beyond_a_row_is_refused() {
    let said = |operator: &str, given: NumberSource, message: &str| {
        let of = format!("node `n` ({operator}): has {}", named(given));
        message.contains(&of) && message.contains(&format!("the model imports {OPSET}"))
    };
    let mut wrong = vec![];
    for (operator, rules) in RANGES {
        for (given, must) in *rules {
            let (beyond, within) = numbers(*must);
            for (numbers, is_refused) in
                beyond.into_iter().map(|numbers| (numbers, true)).chain([(within, false)])
            {
                let model = of(operator, *given, *must, &numbers);
                // Of what is within, tract may still say anything.
                let message = match std::panic::catch_unwind(|| loaded(&model)) {
                    Ok(Err(error)) => format!("{:#}", Error::of_tract(error)),
                    Ok(Ok(_)) => "it was loaded".into(),
                    Err(_) => "it was a panic".into(),
                };
                if said(operator, *given, &message) != is_refused {
                    wrong.push(format!("{operator} {given:?} {numbers:?}: {message}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A default is a number as well.
#[test]
fn what_is_not_given_must_fit_too() {
    struct Scalar;
    impl KnownOperands for Scalar {
        fn shape(&self, _: usize) -> Option<TVec<Option<i64>>> {
            Some(tvec!())
        }
    }
    for operator in ["LogSoftmax", "Gather", "TopK", "Split"] {
        let node = NodeProto { op_type: operator.into(), ..NodeProto::default() };
        let error = check(&node, OPSET, &Scalar).expect_err(operator);
        assert!(error.to_string().contains("has attribute `axis`"), "{error}");
        check(&node, OPSET, &()).expect("nothing is known");
    }
}

#[test]
fn an_equation_is_of_letters_that_inputs_have() {
    for (equation, refused) in [
        ("ijk,ijl->kl", None),
        ("i j k, ...k -> ...i", None),
        ("ijk,ijk", None),
        ("...,...->...", None),
        ("1jk,ijl->kl", Some("`1` names no axis")),
        ("ijk,ijl->km", Some("no operand with the axis m")),
        ("ijk,ijl->kk", Some("makes the axis k twice")),
        ("ijk->i", Some("has 1 term for 2 inputs")),
        ("ij,ijl->l", Some("`ij` stands for an input of rank 3")),
        ("ijklm...,ijl->l", Some("`ijklm...` stands for an input of rank 3")),
        ("ijk,ij....->k", Some("`.` names no axis")),
    ] {
        let mut model = of("Einsum", NumberSource::Attribute("equation"), Must::Axes, &[]);
        let graph = model.graph.as_mut().expect("a graph");
        graph.node[0].input.truncate(2);
        let (name, r#type) = ("equation".into(), AttributeType::String as i32);
        let s = equation.into();
        graph.node[0].attribute = vec![AttributeProto { name, s, r#type, ..Default::default() }];
        let outcome = loaded(&model).map_err(|error| format!("{:#}", Error::of_tract(error)));
        match (refused, outcome) {
            (Some(refused), Err(message)) => assert!(message.contains(refused), "{message}"),
            (Some(_), Ok(_)) => panic!("{equation} was loaded"),
            (None, Err(message)) => assert!(!message.contains("equation"), "{message}"),
            (None, Ok(_)) => {}
        }
    }
}

fn named(given: NumberSource) -> String {
    match given {
        NumberSource::Attribute(name) => format!("attribute `{name}`"),
        NumberSource::Input(_, name) => format!("input {name}"),
    }
}
