//! Model-local functions: what a call means, and which are refused.

use std::time::{Duration, Instant};

use tract_onnx::pb::attribute_proto::AttributeType;
use tract_onnx::pb::{AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto};
use tract_onnx::prelude::*;
use tract_onnx_cast::{ElementType, model_proto, onnx};

use crate::common::proto::{
    self, cast, graph, imports, int, ints, node, raw, refer, refusal, tensor_attribute, unshaped,
    untyped,
};

use ElementType::{BFloat16, Float, Float8E4M3FN};

fn graph_attribute(name: &str, nodes: Vec<NodeProto>, output: &str) -> AttributeProto {
    let g = GraphProto { name: name.into(), ..graph(&[], &nodes, &[untyped(output)]) };
    proto::graph_attribute(name, g)
}

/// A function of the domain `local`.
fn function(name: &str, inputs: &[&str], outputs: &[&str], node: Vec<NodeProto>) -> FunctionProto {
    let names = |names: &[&str]| names.iter().map(|name| name.to_string()).collect();
    FunctionProto {
        name: Some(name.into()),
        domain: Some("local".into()),
        input: names(inputs),
        output: names(outputs),
        node,
        opset_import: imports(21),
        ..Default::default()
    }
}

fn with_attribute(mut function: FunctionProto, name: &str) -> FunctionProto {
    function.attribute.push(name.into());
    function
}

/// A model of FLOAT `x` to `y` at opset 21.
fn model(functions: Vec<FunctionProto>, nodes: Vec<NodeProto>) -> ModelProto {
    let graph = graph(&[unshaped("x", Float)], &nodes, &[untyped("y")]);
    ModelProto { functions, ..proto::model(21, graph) }
}

fn run(model: &ModelProto, x: Tensor) -> TractResult<Tensor> {
    let model = onnx().model_for_proto_model(model)?;
    let model = model.with_input_fact(0, InferenceFact::dt_shape(x.datum_type(), x.shape()))?;
    let outputs = model.into_optimized()?.into_runnable()?.run(tvec!(x.into_tvalue()))?;
    Ok(outputs[0].clone().into_tensor())
}

#[test]
fn casts_in_functions_are_listed_where_they_stand() -> TractResult<()> {
    let inner = function("Inner", &["v"], &["r"], vec![cast("v", BFloat16, "r")]);
    let branch = |name, to| graph_attribute(name, vec![cast("s", to, "b")], "b");
    let outer = function(
        "Outer",
        &["v"],
        &["r"],
        vec![
            node("local.Inner", &["v"], &["s"], vec![]),
            node("Cast", &["s"], &["flag"], vec![int("to", ElementType::Bool as i64)]),
            node("ReduceMax", &["s"], &["unused"], vec![]),
            node(
                "If",
                &["flag"],
                &["r"],
                vec![branch("then_branch", Float), branch("else_branch", Float)],
            ),
        ],
    );
    let mut model = model(vec![outer, inner], vec![node("local.Outer", &["x"], &["y"], vec![])]);
    model.functions[0].node.remove(2);
    let survey = model_proto::survey(&onnx(), model.clone(), None)?;
    let rows: Vec<_> = survey.rows().iter().map(|c| (&*c.graph, c.node.as_str())).collect();
    assert_eq!(
        rows,
        [
            ("g/Outer_y.Outer/Inner_s.Inner", "Outer_y/Inner_s/Cast_r"),
            ("g/Outer_y.Outer", "Outer_y/Cast_flag"),
            ("g/Outer_y.Outer/If_r.then_branch", "Outer_y/Cast_b"),
            ("g/Outer_y.Outer/If_r.else_branch", "Outer_y/Cast_b"),
        ]
    );
    Ok(())
}

/// `Squeeze` had its axes in an attribute before opset 13, and `Softmax` flattened what follows its
/// axis.
#[test]
fn a_function_goes_by_the_opset_that_it_imports() -> TractResult<()> {
    let mut old = function(
        "Old",
        &["v"],
        &["r"],
        vec![
            node("Squeeze", &["v"], &["flat"], vec![ints("axes", &[1])]),
            node("Softmax", &["flat"], &["r"], vec![int("axis", 1)]),
        ],
    );
    old.opset_import = imports(12);
    let call = || vec![node("local.Old", &["x"], &["y"], vec![])];
    let x = Tensor::zero::<f32>(&[1, 1, 2, 2])?;
    let y = run(&model(vec![old.clone()], call()), x.clone())?;
    assert_eq!(y, tensor3(&[[[0.25f32, 0.25], [0.25, 0.25]]]));
    // In a branch, too, whose own nodes are the function's.
    let condition = || {
        let value = tensor_attribute("value", raw("", ElementType::Bool as i32, &[], &[1]));
        node("Constant", &[], &["c"], vec![value])
    };
    let branch = |name| {
        let softmax = node("Softmax", &["flat"], &["b"], vec![int("axis", 1)]);
        graph_attribute(name, vec![softmax], "b")
    };
    let branches = vec![branch("then_branch"), branch("else_branch")];
    old.node[1] = node("If", &["c"], &["r"], branches);
    old.node.push(condition());
    assert_eq!(run(&model(vec![old.clone()], call()), x.clone())?, y);
    // A cast's version is the function's as well.
    old.node = vec![cast("v", Float8E4M3FN, "small"), cast("small", Float, "r")];
    let message = refusal(&model(vec![old.clone()], call()));
    assert!(
        message.contains("`Old_y/Cast_small`") && message.contains("needs opset 19"),
        "{message}"
    );
    old.opset_import = imports(19);
    let mut newer = model(vec![old], call());
    newer.opset_import = imports(12);
    assert_eq!(run(&newer, x.clone())?, x);
    Ok(())
}

#[test]
fn a_graph_may_be_an_attribute_of_a_call() -> TractResult<()> {
    let body = refer("then_branch", "body", AttributeType::Graph);
    let other = graph_attribute("else_branch", vec![node("Neg", &["v"], &["n"], vec![])], "n");
    let chosen = with_attribute(
        function(
            "Chosen",
            &["v"],
            &["r"],
            vec![
                node("ReduceSum", &["v"], &["sum"], vec![int("keepdims", 0)]),
                node("Cast", &["sum"], &["flag"], vec![int("to", ElementType::Bool as i64)]),
                node("If", &["flag"], &["r"], vec![body, other]),
            ],
        ),
        "body",
    );
    let rounded =
        function("Rounded", &["v"], &["r"], vec![cast("v", BFloat16, "b"), cast("b", Float, "r")]);
    // The graph sees the caller's `v`, not the function's.
    let given = graph_attribute("body", vec![node("local.Rounded", &["v"], &["b"], vec![])], "b");
    let nodes = vec![
        node("Add", &["x", "x"], &["v"], vec![]),
        node("local.Chosen", &["x"], &["y"], vec![given]),
    ];
    let model = model(vec![chosen, rounded], nodes);
    assert_eq!(run(&model, tensor1(&[1.003_906_3f32]))?, tensor1(&[2.0f32]));
    assert_eq!(run(&model, tensor1(&[0.0f32]))?, tensor1(&[-0.0f32]));
    Ok(())
}

#[test]
fn calls_that_do_not_fit_are_refused() {
    let convert = || {
        let to = refer("to", "target", AttributeType::Int);
        let body = vec![node("Cast", &["v"], &["r"], vec![to])];
        with_attribute(function("Convert", &["v"], &["r"], body), "target")
    };
    let call = |inputs: &[&str], outputs: &[&str], attributes| {
        refusal(&model(vec![convert()], vec![node("local.Convert", inputs, outputs, attributes)]))
    };
    assert_eq!(
        call(&["x", "x"], &["y"], vec![]),
        "node `Convert_y` (Convert): has 2 inputs, function `Convert` has 1"
    );
    assert_eq!(
        call(&["x"], &["y", "z"], vec![]),
        "node `Convert_y` (Convert): has 2 outputs, function `Convert` has 1"
    );
    assert_eq!(
        call(&["x"], &["y"], vec![int("aim", 1)]),
        "node `Convert_y` (Convert): attribute `aim` is none of function `Convert`"
    );
    assert_eq!(
        call(&["x"], &["y"], vec![int("target", 1), int("target", 1)]),
        "node `Convert_y` (Convert): attribute `target` is given twice, the model imports 21"
    );
    // Neither given nor at a default: the Cast has no `to`.
    assert!(call(&["x"], &["y"], vec![]).contains("attribute `to` is missing"));
    assert!(call(&[], &["y"], vec![int("target", 1)]).contains("needs 1 named input"));
    let mut undeclared = convert();
    undeclared.attribute.clear();
    let message =
        refusal(&model(vec![undeclared], vec![node("local.Convert", &["x"], &["y"], vec![])]));
    assert_eq!(
        message,
        "node `Convert_y/Cast_r` (Cast): attribute `to` is `target` of function `Convert`, which has none of that name; a \
         default is known where this crate has read the file"
    );
    let twice =
        model(vec![convert(), convert()], vec![node("local.Convert", &["x"], &["y"], vec![])]);
    assert!(refusal(&twice).contains("a function that the model has twice"));
    let outside = model(
        vec![],
        vec![node("Cast", &["x"], &["y"], vec![refer("to", "target", AttributeType::Int)])],
    );
    assert!(refusal(&outside).contains("refers to an attribute of a function"));
    let outside = model(
        vec![],
        vec![node("Relu", &["x"], &["y"], vec![refer("to", "target", AttributeType::Int)])],
    );
    assert!(refusal(&outside).contains("refers to an attribute of a function"));
}

#[test]
fn functions_see_nothing_of_their_callers() {
    let reaches_out =
        function("Out", &["v"], &["r"], vec![node("Add", &["v", "x"], &["r"], vec![])]);
    let message =
        refusal(&model(vec![reaches_out], vec![node("local.Out", &["x"], &["y"], vec![])]));
    assert_eq!(message, "node `Out_y/Add_r` (Add): nothing makes its input `Out_y/x`");
    let unmade = function("Unmade", &["v"], &["r"], vec![]);
    let message = refusal(&model(vec![unmade], vec![node("local.Unmade", &["x"], &["y"], vec![])]));
    assert_eq!(message, "node `Unmade_y` (Unmade): nothing makes the output `r`");
    let remade = function("Remade", &["v"], &["r"], vec![cast("r", Float, "v")]);
    let message = refusal(&model(vec![remade], vec![node("local.Remade", &["x"], &["y"], vec![])]));
    assert_eq!(message, "node `Remade_y` (Remade): function `Remade` makes its own input `v`");
}

#[test]
fn functions_without_end_are_refused_at_once() {
    let started = Instant::now();
    let call = |name: &str, input: &str, output: &str| {
        node(&format!("local.{name}"), &[input], &[output], vec![])
    };
    let of_calls = |name: &str, called: &str, count: usize| {
        let values: Vec<String> = (0..=count).map(|index| format!("v{index}")).collect();
        let calls = values.windows(2).map(|pair| call(called, &pair[0], &pair[1]));
        function(name, &["v0"], &[values[count].as_str()], calls.collect())
    };
    let start = || vec![call("F0", "x", "y")];

    let itself = vec![of_calls("F0", "F1", 1), of_calls("F1", "F0", 1)];
    let message = refusal(&model(itself, start()));
    assert_eq!(message, "node `F0_y/F1_v1/F0_v1` (F0): is a function that calls itself");

    let chain = |length: usize, width: usize| -> Vec<FunctionProto> {
        let of = |index: usize| of_calls(&format!("F{index}"), &format!("F{}", index + 1), width);
        let last = function(&format!("F{length}"), &["v"], &["r"], vec![cast("v", Float, "r")]);
        (0..length).map(of).chain([last]).collect()
    };
    assert!(onnx().model_for_proto_model(&model(chain(90, 1), start())).is_ok());
    let message = refusal(&model(chain(5000, 1), start()));
    assert!(message.contains("is in more than 100 nested functions"), "{message}");
    // A million nodes, and as many calls of a function that has none.
    let message = refusal(&model(chain(6, 10), start()));
    assert!(message.contains("to more than 262144 nodes"), "{message}");
    let mut hollow = chain(6, 10);
    hollow[6].node.clear();
    hollow[6].output = vec!["v".into()];
    assert!(refusal(&model(hollow, start())).contains("to more than 262144 nodes"));
    assert!(refusal(&model(chain(90, 10), start())).contains("to more than 268435456 bytes"));
    // Few nodes, long names: one of a node's, one of the call's.
    let mut long = chain(2, 100);
    long[2].node[0].name = "n".repeat(100_000);
    assert!(refusal(&model(long, start())).contains("to more than 268435456 bytes"));
    let mut named = start();
    named[0].name = "n".repeat(10_000_000);
    assert!(refusal(&model(chain(1, 10), named)).contains("to more than 268435456 bytes"));
    assert!(started.elapsed() < Duration::from_secs(60));
}

/// Each function opens a branch that calls the next.
#[test]
fn graphs_nested_by_functions_are_bounded() {
    let of = |index: usize| {
        let called = format!("local.F{}", index + 1);
        let branch = |name| graph_attribute(name, vec![node(&called, &["v"], &["b"], vec![])], "b");
        function(
            &format!("F{index}"),
            &["v"],
            &["r"],
            vec![
                node("Cast", &["v"], &["c"], vec![int("to", ElementType::Bool as i64)]),
                node("If", &["c"], &["r"], vec![branch("then_branch")]),
            ],
        )
    };
    let last = function("F60", &["v"], &["r"], vec![cast("v", Float, "r")]);
    let functions = (0..60).map(of).chain([last]).collect();
    let message = refusal(&model(functions, vec![node("local.F0", &["x"], &["y"], vec![])]));
    assert!(message.contains("is nested more than 32 deep"), "{message}");
}

/// An operator that a user has added is the implementation of a function's name.
#[test]
fn a_users_operator_stands_before_a_function() -> TractResult<()> {
    let mut plain = tract_onnx::onnx();
    let negation = plain.op_register.0.get("Neg").copied().expect("tract has Neg");
    plain.op_register.insert("Fast", negation);
    let fast = function("Fast", &["v"], &["r"], vec![cast("v", Float, "r")]);
    let model = model(vec![fast], vec![node("local.Fast", &["x"], &["y"], vec![])]);
    assert_eq!(run(&model, tensor1(&[1.0f32]))?, tensor1(&[1.0f32]));
    let loaded = tract_onnx_cast::CastOnnx::from(plain).model_for_proto_model(&model)?;
    let loaded = loaded.with_input_fact(0, f32::fact([1]).into())?;
    let plan = loaded.into_optimized()?.into_runnable()?;
    assert_eq!(*plan.run(tvec!(tensor1(&[1.0f32]).into_tvalue()))?[0], tensor1(&[-1.0f32]));
    Ok(())
}
