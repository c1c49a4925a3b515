//! Sizes that a model declares as symbols and its weights leave one number of are that number:
//! tract would not load it.

use tract_onnx::pb::TensorProto;
use tract_onnx::prelude::*;
use tract_onnx_cast::interpreter::Interpreter;
use tract_onnx_cast::{ElementType, onnx, sizes_of_weights};

use crate::common::proto::{Sketch, int, ints, set_dim, symbol, tensor, tensor_attribute};

use ElementType::{Float, Uint8};

/// Weights of a shape, all of them 1.
fn ones(name: &str, dims: &[i64]) -> TensorProto {
    let count = usize::try_from(dims.iter().product::<i64>()).expect("a count");
    TensorProto { dims: dims.into(), ..tensor(name, Float, &vec![1.; count]) }
}

/// A model of an input whose sizes are these symbols, each of them without a name where it is
/// empty.
fn open(names: &[&str]) -> Sketch {
    let mut sketch =
        Sketch::new().input("x", Float, &vec![-1; names.len()]).output("y", Float, &[-1]);
    for (axis, name) in names.iter().enumerate().filter(|(_, name)| !name.is_empty()) {
        set_dim(&mut sketch.0.input[0], axis, symbol(name));
    }
    sketch.0.output[0].r#type = sketch.0.input[0].r#type.clone();
    sketch
}

#[track_caller]
fn declares(sketch: Sketch, shape: &str, sizes: &[(&str, usize)]) {
    let interpreter = Interpreter::of_proto(onnx(), sketch.clone().model(), None).expect("a model");
    let model = sketch.load().expect("a model");
    let heading = interpreter.heading().expect("inputs");
    for model in [&model, &heading] {
        let fact = model.input_fact(0).expect("an input");
        assert_eq!(format!("{:?}", fact.shape), shape);
        let named = sizes_of_weights(model);
        let named: Vec<(&str, usize)> = named.iter().map(|(name, size)| (&**name, *size)).collect();
        assert_eq!(named, sizes);
    }
    model.into_optimized().expect("a plan");
}

#[test]
fn each_operator_with_weights_tells_sizes() {
    let images = ["n", "c", "h", "w"];
    let conv = |group, dims: &[i64]| {
        let sketch = open(&images).initializer(ones("k", dims));
        sketch.node("Conv", &["x", "k"], &["y"], vec![int("group", group)])
    };
    declares(conv(1, &[8, 5, 3, 3]), "n,5,h,w", &[("c", 5)]);
    declares(conv(5, &[10, 1, 3, 3]), "n,5,h,w", &[("c", 5)]);
    let transposed = open(&images).initializer(ones("k", &[5, 8, 3, 3]));
    let transposed = transposed.node("ConvTranspose", &["x", "k"], &["y"], vec![]);
    declares(transposed, "n,5,h,w", &[("c", 5)]);
    for (operator, rest) in
        [("BatchNormalization", &["k"; 4][..]), ("InstanceNormalization", &["k"; 2])]
    {
        let sketch = open(&images).initializer(ones("k", &[5]));
        let sketch = sketch.node(operator, &[&["x"], rest].concat(), &["y"], vec![]);
        declares(sketch, "n,5,h,w", &[("c", 5)]);
    }
    let layer = open(&["n", "s", "c"]).initializer(ones("k", &[1, 5]));
    declares(layer.node("LayerNormalization", &["x", "k"], &["y"], vec![]), "n,s,5", &[("c", 5)]);
    let slope = open(&["n", "c", "s"]).initializer(ones("k", &[5, 1]));
    declares(slope.node("PRelu", &["x", "k"], &["y"], vec![]), "n,5,s", &[("c", 5)]);
    let gemm = |attributes, dims: &[i64]| {
        open(&["a", "b"]).initializer(ones("k", dims)).node("Gemm", &["x", "k"], &["y"], attributes)
    };
    declares(gemm(vec![], &[5, 8]), "a,5", &[("b", 5)]);
    declares(gemm(vec![int("transB", 1)], &[8, 5]), "a,5", &[("b", 5)]);
    declares(gemm(vec![int("transA", 1)], &[5, 8]), "5,b", &[("a", 5)]);
    let product = |inputs: &[&str], dims: &[i64]| {
        let sketch = open(&["n", "a", "b"]).initializer(ones("k", dims));
        sketch.node("MatMul", inputs, &["y"], vec![])
    };
    declares(product(&["x", "k"], &[5, 8]), "n,a,5", &[("b", 5)]);
    declares(product(&["x", "k"], &[1, 5, 8]), "n,a,5", &[("b", 5)]);
    declares(product(&["k", "x"], &[8, 5]), "n,5,b", &[("a", 5)]);
    let lstm = open(&["s", "n", "c"])
        .initializer(ones("k", &[1, 16, 5]))
        .initializer(ones("r", &[1, 16, 4]))
        .node("LSTM", &["x", "k", "r"], &["", "y"], vec![int("hidden_size", 4)]);
    declares(lstm, "s,n,5", &[("c", 5)]);
    let attributes = [("K", 16), ("N", 2), ("bits", 4), ("block_size", 16)];
    let packed = TensorProto { dims: vec![2, 1, 8], ..tensor("q", Uint8, &[1.; 16]) };
    let few_bits = open(&["n", "c"]).initializer(packed).initializer(ones("k", &[2])).node(
        "com.microsoft.MatMulNBits",
        &["x", "q", "k"],
        &["y"],
        attributes.map(|(name, value)| int(name, value)).to_vec(),
    );
    declares(few_bits, "n,16", &[("c", 16)]);
}

/// What is between leaves sizes alone, or moves them.
#[test]
fn sizes_are_told_through_what_keeps_them() {
    let convolved = |sketch: Sketch, input: &str| {
        let sketch = sketch.initializer(ones("k", &[8, 5, 3, 3]));
        sketch.node("Conv", &[input, "k"], &["y"], vec![])
    };
    let last = || open(&["n", "h", "w", "c"]);
    let moved = last()
        .initializer(tensor("deviation", Float, &[2.]))
        .node("Transpose", &["x"], &["t"], vec![ints("perm", &[0, 3, 1, 2])])
        .node("Div", &["t", "deviation"], &["d"], vec![])
        .node("Relu", &["d"], &["r"], vec![]);
    declares(convolved(moved, "r"), "n,h,w,5", &[("c", 5)]);
    // Weights that are computed of constants.
    let scaled = open(&["n", "c"])
        .initializer(tensor("scale", Float, &[0.5]))
        .initializer(ones("w", &[8, 1]))
        .initializer(ones("v", &[1, 5]))
        .node("Add", &["w", "v"], &["s"], vec![])
        .node("Mul", &["s", "scale"], &["f"], vec![])
        .node("Transpose", &["f"], &["t"], vec![])
        .node("MatMul", &["x", "t"], &["y"], vec![]);
    declares(scaled, "n,5", &[("c", 5)]);
    let node = open(&["n", "c"])
        .node("Constant", &[], &["w"], vec![tensor_attribute("value", ones("", &[5, 8]))])
        .node("Gemm", &["x", "w"], &["y"], vec![]);
    declares(node, "n,5", &[("c", 5)]);
    // By one number of each channel, one channel is as many as there are numbers.
    let stretched = open(&["n", "c", "h", "w"]).initializer(ones("mean", &[1, 5, 1, 1])).node(
        "Sub",
        &["x", "mean"],
        &["d"],
        vec![],
    );
    let model = convolved(stretched, "d").load().expect("a model");
    assert_eq!(format!("{:?}", model.input_fact(0).expect("an input").shape), "n,c,h,w");
}

#[test]
fn a_size_without_a_name_is_told_and_a_symbol_of_two_sizes_is_none() {
    let gemm = |names: &[&str]| {
        open(names).initializer(ones("k", &[5, 8])).node("Gemm", &["x", "k"], &["y"], vec![])
    };
    let nameless = gemm(&["n", ""]);
    let model = nameless.load().expect("a model");
    assert_eq!(format!("{:?}", model.input_fact(0).expect("an input").shape), "n,5");
    let shape =
        |model: &InferenceModel| format!("{:?}", model.input_fact(0).expect("an input").shape);
    // What tract takes for no name says nothing of another axis.
    for nameless in ["?", "unk__7"] {
        let model = gemm(&[nameless, nameless]).load().expect("a model");
        assert!(shape(&model).ends_with(",5") && shape(&model) != "5,5", "{}", shape(&model));
        assert_eq!(sizes_of_weights(&model), []);
    }
    // Who sets a symbol sets what it is part of.
    let mut part = gemm(&["n", "c"]).input("z", Float, &[6]);
    set_dim(&mut part.0.input[1], 0, symbol("2*c"));
    assert_eq!(shape(&part.load().expect("a model")), "n,c");
    assert_eq!(sizes_of_weights(&gemm(&["n", "c+1"]).load().expect("a model")), []);
    let two =
        gemm(&["n", "c"]).initializer(ones("l", &[6, 8])).node("Gemm", &["x", "l"], &["z"], vec![]);
    let refused = two.load().and_then(|model| model.into_typed()).expect_err("two sizes");
    assert!(format!("{refused:#}").contains("Gemm"), "{refused:#}");
}
