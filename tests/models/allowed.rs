//! What ONNX allows of a node, and tract refuses or takes for something else.

use tract_onnx::pb::attribute_proto::AttributeType;
use tract_onnx::pb::{AttributeProto, NodeProto, OperatorSetIdProto, SparseTensorProto};
use tract_onnx::prelude::*;
use tract_onnx_cast::interpreter::Interpreter;
use tract_onnx_cast::{ElementType, OnnxTensor, onnx};

use crate::common::proto::{
    Sketch, float, graph, graph_attribute, int, int64, ints, model, node, raw, string, tensor,
    tensor_attribute, untyped,
};

use ElementType::{Double, Float, Int64};

fn floats(name: &str, floats: &[f32]) -> AttributeProto {
    let r#type = AttributeType::Floats as i32;
    AttributeProto { name: name.into(), r#type, floats: floats.into(), ..Default::default() }
}

fn strings(name: &str, texts: &[&str]) -> AttributeProto {
    let strings = texts.iter().map(|text| text.as_bytes().to_vec()).collect();
    let r#type = AttributeType::Strings as i32;
    AttributeProto { name: name.into(), r#type, strings, ..Default::default() }
}

/// The outputs of a model in a plan, which are those that it has node by node.
fn run(opset: i64, sketch: Sketch, inputs: &[(ElementType, Tensor)]) -> Vec<Tensor> {
    let mut model = model(opset, sketch.0);
    let learned = OperatorSetIdProto { domain: "ai.onnx.ml".into(), version: 3 };
    model.opset_import.push(learned);
    let plan = onnx().model_for_proto_model(&model).unwrap().into_optimized().unwrap();
    let given = inputs.iter().map(|(_, tensor)| tensor.clone().into_tvalue()).collect();
    let made = plan.into_runnable().unwrap().run(given).unwrap();
    let made: Vec<Tensor> = made.into_iter().map(TValue::into_tensor).collect();
    let walked = Interpreter::of_proto(onnx(), model, None).unwrap();
    let given = inputs.iter().map(|(ty, tensor)| OnnxTensor::new(*ty, tensor.clone()).unwrap());
    let walked = walked.run(given.collect()).unwrap();
    let walked: Vec<Tensor> = walked.into_iter().map(OnnxTensor::into_tensor).collect();
    assert_eq!(made, walked);
    made
}

const BOXES: [f32; 12] = [0., 0., 1., 1., 0., 0., 1., 0.9, 2., 2., 3., 3.];

const SCORES: [f32; 3] = [0.9, 0.8, 0.7];

/// The boxes that are left of three, of which two cover one another, all but some inputs being
/// constants.
fn boxes_left(limit: Option<&[i64]>, data: &[&str]) -> Tensor {
    let mut sketch = Sketch::new();
    let mut inputs = vec![];
    let limit_of = |most: &[i64]| {
        let shape: &[usize] = if most.len() == 1 { &[] } else { &[1] };
        Tensor::from_shape(shape, &most[..1]).unwrap()
    };
    let boxes = Tensor::from_shape(&[1, 3, 4], &BOXES).unwrap();
    let scores = Tensor::from_shape(&[1, 1, 3], &SCORES).unwrap();
    let mut values = vec![("boxes", Float, boxes), ("scores", Float, scores)];
    values.extend(limit.map(|most| ("limit", Int64, limit_of(most))));
    values.push(("iou", Float, tensor1(&[0.5f32])));
    for (name, ty, value) in values {
        let dims: Vec<i64> = value.shape().iter().map(|size| *size as i64).collect();
        if data.contains(&name) {
            sketch = sketch.input(name, ty, &dims);
            inputs.push((ty, value));
        } else {
            let numbers = value.cast_to::<f32>().unwrap();
            let mut constant =
                tensor(name, ty, numbers.try_as_plain_ram().unwrap().as_slice().unwrap());
            constant.dims = dims;
            sketch = sketch.initializer(constant);
        }
    }
    let limit = if limit.is_some() { "limit" } else { "" };
    let sketch =
        sketch.node("NonMaxSuppression", &["boxes", "scores", limit, "iou"], &["y"], vec![]);
    let sketch = sketch.node("Identity", &["y"], &["z"], vec![]).output("z", Int64, &[-1, 3]);
    run(17, sketch, &inputs).remove(0)
}

#[test]
fn boxes_are_as_many_as_their_limit_whatever_is_known_of_it() {
    for data in [&["boxes", "scores", "limit"][..], &["boxes", "scores"], &["limit"], &[]] {
        let none = Tensor::zero::<i64>(&[0, 3]).unwrap();
        assert_eq!(boxes_left(None, data), none, "{data:?}");
        for shape in [&[0i64][..], &[0, 1]] {
            assert_eq!(boxes_left(Some(shape), data), none, "{data:?}");
        }
        assert_eq!(boxes_left(Some(&[1]), data), tensor2(&[[0i64, 0, 0]]), "{data:?}");
        assert_eq!(boxes_left(Some(&[3]), data), tensor2(&[[0i64, 0, 0], [0, 0, 2]]), "{data:?}");
    }
}

#[test]
fn a_name_may_be_that_of_a_part_of_another() {
    let x = (Float, tensor1(&[0.5f32, -1.0]));
    let unnamed = |op: &str, inputs: &[&str], output: &str| NodeProto {
        name: String::new(),
        ..node(op, inputs, &[output], vec![])
    };
    for (first, second) in [("x.0", "y"), ("y", "x.0")] {
        let mut sketch = Sketch::new().input("a", Float, &[2]);
        sketch.0.node.push(unnamed("Sum", &["a", "a", "a"], "x"));
        sketch.0.node.push(unnamed("Neg", &["a"], first));
        sketch.0.node.push(unnamed("Add", &["x", first], second));
        let sketch = sketch.output("x", Float, &[2]).output(second, Float, &[2]);
        let made = run(17, sketch, std::slice::from_ref(&x));
        assert_eq!(made, [tensor1(&[1.5f32, -3.0]), tensor1(&[1.0f32, -2.0])]);
    }
    let sketch =
        Sketch::new().input("x.0", Float, &[2]).initializer(tensor("x.1", Float, &[1., 2.]));
    let mut sketch = sketch;
    sketch.0.node.push(unnamed("Sum", &["x.0", "x.0", "x.1"], "x"));
    assert_eq!(run(17, sketch.output("x", Float, &[2]), &[x])[0], tensor1(&[2f32, 0.0]));
}

/// A tree of one node in each mode, over thresholds, of numbers beside them that are FLOATs only
/// when they are rounded.
#[test]
fn trees_compare_doubles_as_they_are() {
    let threshold = 0.1f32;
    let at = f64::from(threshold);
    let x = [at, at.next_up(), at.next_down(), 1.0, -1.0, f64::NAN, f64::INFINITY];
    type Holds = fn(f64, f64) -> bool;
    let holds: [(&str, Holds); 6] = [
        ("BRANCH_LEQ", |x, at| x <= at),
        ("BRANCH_LT", |x, at| x < at),
        ("BRANCH_GTE", |x, at| x >= at),
        ("BRANCH_GT", |x, at| x > at),
        ("BRANCH_EQ", |x, at| x == at),
        ("BRANCH_NEQ", |x, at| x != at),
    ];
    for (mode, holds) in holds {
        let attributes = vec![
            ints("nodes_treeids", &[0, 0, 0]),
            ints("nodes_nodeids", &[0, 1, 2]),
            ints("nodes_featureids", &[1, 0, 0]),
            strings("nodes_modes", &[mode, "LEAF", "LEAF"]),
            floats("nodes_values", &[threshold, 0., 0.]),
            ints("nodes_truenodeids", &[1, 0, 0]),
            ints("nodes_falsenodeids", &[2, 0, 0]),
            ints("class_treeids", &[0, 0]),
            ints("class_nodeids", &[1, 2]),
            ints("class_ids", &[0, 1]),
            floats("class_weights", &[1., 1.]),
            ints("classlabels_int64s", &[7, 8]),
        ];
        let mut classifier = node("TreeEnsembleClassifier", &["x"], &["y"], attributes);
        classifier.domain = "ai.onnx.ml".into();
        let mut sketch = Sketch::new().input("x", Double, &[7, 2]).output("y", Int64, &[7]);
        sketch.0.node.push(classifier);
        let rows: Vec<f64> = x.iter().flat_map(|x| [0.0, *x]).collect();
        let rows = Tensor::from_shape(&[7, 2], &rows).unwrap();
        let y = run(17, sketch, &[(Double, rows)]).remove(0);
        let is_true = |x: &f64| !x.is_nan() && holds(*x, at);
        let labels: Vec<i64> = x.iter().map(|x| if is_true(x) { 7 } else { 8 }).collect();
        assert_eq!(y, tensor1(&labels), "{mode}");
    }
}

#[test]
fn a_normalisation_has_statistics_of_another_type() {
    for (x, statistics) in [(Double, Float), (Float, Double)] {
        let mut sketch = Sketch::new().input("x", x, &[1, 2, 1]).output("y", x, &[1, 2, 1]);
        for (name, values) in
            [("scale", [2f32, 1.]), ("bias", [0., 1.]), ("mean", [1., 2.]), ("variance", [1., 4.])]
        {
            sketch = sketch.initializer(tensor(name, statistics, &values));
        }
        let names = ["x", "scale", "bias", "mean", "variance"];
        let sketch = sketch.node("BatchNormalization", &names, &["y"], vec![float("epsilon", 0.)]);
        let data = Tensor::from_shape(&[1, 2, 1], &[2f32, 4.]).unwrap();
        let data = data.cast_to_dt(x.datum_type()).unwrap().into_owned();
        let y = run(15, sketch, &[(x, data)]).remove(0).cast_to::<f32>().unwrap().into_owned();
        assert_eq!(y, Tensor::from_shape(&[1, 2, 1], &[2f32, 2.]).unwrap());
    }
}

#[test]
fn a_linear_classifier_may_make_labels_alone() {
    for outputs in [&["y"][..], &["y", ""], &["y", "unused"]] {
        let attributes = vec![
            floats("coefficients", &[1., -1.]),
            floats("intercepts", &[0., 0.]),
            ints("classlabels_ints", &[7, 8]),
        ];
        let mut classifier = node("LinearClassifier", &["x"], outputs, attributes);
        classifier.domain = "ai.onnx.ml".into();
        let mut sketch = Sketch::new().input("x", Float, &[2, 1]).output("y", Int64, &[2]);
        sketch.0.node.push(classifier);
        let x = Tensor::from_shape(&[2, 1], &[3f32, -3.]).unwrap();
        assert_eq!(run(17, sketch, &[(Float, x)])[0], tensor1(&[7i64, 8]));
    }
}

/// Texts around texts: the empty one, one that is given, the outermost ones, and fewer of them.
#[test]
fn texts_are_padded() {
    let texts =
        |texts: &[&str]| tensor1(&texts.iter().map(ToString::to_string).collect::<Vec<_>>());
    for (mode, pads, value, expected) in [
        ("constant", [1, 2], None, &["", "a", "b", "", ""][..]),
        ("constant", [1, 1], Some("z"), &["z", "a", "b", "z"]),
        ("edge", [2, 1], None, &["a", "a", "a", "b", "b"]),
        ("reflect", [1, 1], None, &["b", "a", "b", "a"]),
        ("constant", [-1, 1], None, &["b", ""]),
    ] {
        let mut sketch = Sketch::new().input("x", ElementType::String, &[2]);
        sketch = sketch.initializer(int64("pads", &pads));
        let mut inputs = vec!["x", "pads"];
        if let Some(text) = value {
            let mut value = raw("value", ElementType::String as i32, &[], &[]);
            value.string_data = vec![text.into()];
            sketch = sketch.initializer(value);
            inputs.push("value");
        }
        let sketch = sketch.node("Pad", &inputs, &["y"], vec![string("mode", mode)]);
        let sketch = sketch.output("y", ElementType::String, &[expected.len() as i64]);
        let y = run(21, sketch, &[(ElementType::String, texts(&["a", "b"]))]);
        assert_eq!(y, [texts(expected)], "{mode} {pads:?}");
    }
}

/// tract has no text to begin with.
#[test]
fn texts_are_tiled() {
    let texts = |shape: &[usize], texts: &[&str]| {
        let texts: Vec<String> = texts.iter().map(ToString::to_string).collect();
        tensor1(&texts).into_shape(shape).expect("a tensor")
    };
    let x = texts(&[2, 1], &["a", "b"]);
    let tiled = texts(&[2, 3], &["a", "a", "a", "b", "b", "b"]);
    for (repeats, expected) in [
        ([1, 3], tiled),
        ([2, 1], texts(&[4, 1], &["a", "b", "a", "b"])),
        ([1, 0], texts(&[2, 0], &[])),
    ] {
        let sketch = Sketch::new().input("x", ElementType::String, &[2, 1]);
        let sketch = sketch.initializer(int64("repeats", &repeats));
        let mut sketch = sketch.node("Tile", &["x", "repeats"], &["y"], vec![]);
        sketch.0.output.push(crate::common::proto::unshaped("y", ElementType::String));
        let y = run(13, sketch, &[(ElementType::String, x.clone())]);
        assert_eq!(y, [expected], "{repeats:?}");
    }
}

/// The inner one doubles what it begins with, at each turn of the outer one from the beginning, in
/// a branch too.
#[test]
fn a_scan_in_a_scan_begins_anew() {
    let scan = |inputs: &[&str], outputs: &[&str], body| {
        let attributes = vec![graph_attribute("body", body), int("num_scan_inputs", 1)];
        node("Scan", inputs, outputs, attributes)
    };
    let made = [untyped("y"), untyped("z")];
    let add = |a: &str, b: &str, sum: &str| node("Add", &[a, b], &[sum], vec![]);
    let doubled = graph(
        &[untyped("s"), untyped("t")],
        &[add("s", "s", "w"), add("w", "t", "u"), node("Identity", &["s"], &["v"], vec![])],
        &[untyped("u"), untyped("v")],
    );
    let inner = scan(&["from", "zeros"], &["y", "z"], doubled);
    let from = add("begin", "x", "from");
    let alone = graph(&[untyped("x")], &[from.clone(), inner.clone()], &made);
    let taken = graph(&[], &[inner], &made);
    let branches =
        vec![graph_attribute("then_branch", taken.clone()), graph_attribute("else_branch", taken)];
    let chosen = [
        from,
        node("Greater", &["x", "begin"], &["is"], vec![]),
        node("Squeeze", &["is"], &["chosen"], vec![]),
        node("If", &["chosen"], &["y", "z"], branches),
    ];
    let chosen = graph(&[untyped("x")], &chosen, &made);
    for body in [alone, chosen] {
        let mut sketch = Sketch::new()
            .input("rows", Float, &[2])
            .input("begin", Float, &[1])
            .input("zeros", Float, &[3])
            .output("last", Float, &[2, 1])
            .output("all", Float, &[2, 3, 1]);
        sketch.0.node.push(scan(&["rows"], &["last", "all"], body));
        let inputs = [&[0f32, 1.][..], &[3.], &[0., 0., 0.]];
        let inputs = inputs.map(|input| (Float, tensor1(input)));
        let last = Tensor::from_shape(&[2, 1], &[24f32, 32.]).unwrap();
        let all = Tensor::from_shape(&[2, 3, 1], &[3f32, 6., 12., 4., 8., 16.]).unwrap();
        assert_eq!(run(21, sketch, &inputs), [last, all]);
    }
}

#[test]
fn texts_and_numbers_are_encoded_by_their_place() {
    let one = |attribute: AttributeProto, ty: ElementType| {
        let mut encoder = node("OneHotEncoder", &["x"], &["y"], vec![attribute]);
        encoder.domain = "ai.onnx.ml".into();
        let mut sketch = Sketch::new().input("x", ty, &[3]).output("y", Float, &[3, 2]);
        sketch.0.node.push(encoder);
        sketch
    };
    let expected = Tensor::from_shape(&[3, 2], &[0f32, 1., 0., 0., 1., 0.]).unwrap();
    let texts = ["b", "", "a"].map(String::from);
    let by_text = one(strings("cats_strings", &["a", "b"]), ElementType::String);
    assert_eq!(
        run(21, by_text, &[(ElementType::String, tensor1(&texts))]),
        std::slice::from_ref(&expected)
    );
    // A number is cut off.
    let by_number = one(ints("cats_int64s", &[1, 2]), Float);
    assert_eq!(run(21, by_number, &[(Float, tensor1(&[2.5f32, -1., 1.]))]), [expected]);
}

/// Two trees, one of which asks for a member of a set, by each way to put them together. The
/// numbers are those of onnx's evaluator and of ONNX Runtime.
#[test]
fn an_ensemble_of_trees_is_as_specified() {
    let nan = f32::NAN;
    let x = [0.5, 2., 0.25, 3., 0.5, nan, nan, 2., 2., -1.];
    for (together, expected) in [
        (0, [4.5, 3., 4.5, 1., 1.]),
        (1, [9., 6., 9., 2., 2.]),
        (2, [1f32, -2., 1., -2., -2.]),
        (3, [8., 8., 8., 4., 4.]),
    ] {
        let floats = |name, values: &[f32]| tensor_attribute(name, tensor("", Float, values));
        let modes = raw("", ElementType::Uint8 as i32, &[3], &[0, 6, 3]);
        let mut trees = node(
            "TreeEnsemble",
            &["x"],
            &["y"],
            vec![
                int("aggregate_function", together),
                int("n_targets", 1),
                ints("leaf_targetids", &[0, 0, 0, 0]),
                ints("nodes_featureids", &[0, 1, 0]),
                ints("nodes_truenodeids", &[1, 0, 2]),
                ints("nodes_falsenodeids", &[1, 2, 3]),
                ints("nodes_trueleafs", &[0, 1, 1]),
                ints("nodes_falseleafs", &[1, 1, 1]),
                ints("nodes_missing_value_tracks_true", &[0, 1, 1]),
                ints("tree_roots", &[0, 2]),
                tensor_attribute("nodes_modes", modes),
                floats("nodes_splits", &[0.5, 0., 1.]),
                floats("leaf_weights", &[1., 4., -2., 8.]),
                floats("membership_values", &[2., -1., nan]),
            ],
        );
        trees.domain = "ai.onnx.ml".into();
        let mut sketch = Sketch::new().input("x", Float, &[5, 2]).output("y", Float, &[5, 1]);
        sketch.0.node.push(trees.clone());
        let mut whole = model(21, sketch.0);
        whole.opset_import.push(OperatorSetIdProto { domain: "ai.onnx.ml".into(), version: 5 });
        let run = |whole| {
            let x = Tensor::from_shape(&[5, 2], &x).unwrap();
            let given = OnnxTensor::new(Float, x).unwrap();
            Interpreter::of_proto(onnx(), whole, None)?.run(vec![given])
        };
        let made = run(whole.clone()).unwrap().remove(0).into_tensor();
        assert_eq!(made, Tensor::from_shape(&[5, 1], &expected).unwrap(), "{together}");
        // A row that goes round never ends.
        let held = &mut whole.graph.as_mut().unwrap().node[0].attribute;
        let leads = held.iter_mut().find(|held| held.name == "nodes_trueleafs").unwrap();
        leads.ints[2] = 0;
        let error = run(whole).unwrap_err().to_string();
        let problem = "has a tree at node 2 in which a row goes round, the model imports 21";
        assert!(error.ends_with(problem), "{error}");
    }
}

/// A tensor with few numbers other than 0, by their places or by their indices.
fn sparse(values: &[f32], indices: &[i64], rows: &[i64], dims: &[i64]) -> SparseTensorProto {
    let mut places = int64("places", indices);
    places.dims = rows.into();
    let values = tensor("sparse", Float, values);
    SparseTensorProto { values: Some(values), indices: Some(places), dims: dims.into() }
}

#[test]
fn sparse_tensors_are_dense_ones() {
    let x = Tensor::zero::<f32>(&[2, 3]).unwrap();
    let expected = [tensor2(&[[0f32, 5., 0.], [0., 0., -2.]])];
    for (indices, rows) in [(&[1i64, 5][..], &[2i64][..]), (&[0, 1, 1, 2], &[2, 2])] {
        let held = sparse(&[5., -2.], indices, rows, &[2, 3]);
        let sketch = Sketch::new().input("x", Float, &[2, 3]).output("y", Float, &[2, 3]);
        let mut initialized = sketch.clone().node("Add", &["x", "sparse"], &["y"], vec![]);
        initialized.0.sparse_initializer.push(held.clone());
        let value = AttributeProto {
            name: "sparse_value".into(),
            r#type: AttributeType::SparseTensor as i32,
            sparse_tensor: Some(held),
            ..Default::default()
        };
        let constant = sketch.node("Constant", &[], &["sparse"], vec![value]);
        let constant = constant.node("Add", &["x", "sparse"], &["y"], vec![]);
        for sketch in [initialized, constant] {
            assert_eq!(run(21, sketch, &[(Float, x.clone())]), expected);
        }
    }
}

#[test]
fn sparse_tensors_that_contradict_themselves_are_named() {
    for (indices, rows, dims, want) in [
        (&[1i64, 6][..], &[2i64][..], &[2i64, 3][..], "with an index 6 of an axis of 6"),
        (&[5, 1], &[2], &[2, 3], "whose indices do not ascend"),
        (&[1], &[1], &[2, 3], "of 2 values and indices of shape [1]"),
        (&[0, 1], &[2], &[1 << 40, 1 << 40], "which there cannot be"),
        (&[0, 1], &[2], &[1 << 40], "beyond the limit `made_bytes`"),
    ] {
        let mut sketch = Sketch::new().input("x", Float, &[2, 3]).output("y", Float, &[2, 3]);
        sketch.0.sparse_initializer.push(sparse(&[5., -2.], indices, rows, dims));
        let refusal = sketch.node("Add", &["x", "sparse"], &["y"], vec![]).refusal();
        let named = "has a sparse initializer `sparse`";
        assert!(refusal.contains(named) && refusal.contains(want), "{refusal}");
    }
}
