//! Operators on half precision: computed in FLOAT, each result rounded once.

use half::{bf16, f16};
use tract_onnx::pb::{ModelProto, NodeProto, TensorProto};
use tract_onnx::prelude::*;
use tract_onnx_cast::{
    CastOnnx, ElementType, HalfArithmetic, Rules, from_f32, model_proto, onnx, to_f32,
};

use crate::common::proto::{
    Change, Sketch, float, graph, graph_attribute, int, node, string, tensor, value,
};

use ElementType::{BFloat16, Bool, Float, Float8E4M3FN, Float16, Int32, Int64};

const HALVES: [ElementType; 2] = [Float16, BFloat16];

fn widened() -> CastOnnx {
    onnx().with_half_arithmetic(HalfArithmetic::Widened)
}

fn halves(ty: ElementType, values: &[f32]) -> Tensor {
    from_f32(&tensor1(values), ty, Rules::default()).expect("numbers")
}

fn rounded(ty: ElementType, x: f32) -> f32 {
    match ty {
        Float16 => f16::from_f32(x).to_f32(),
        _ => bf16::from_f32(x).to_f32(),
    }
}

/// The first output as FLOATs.
fn run(onnx: &CastOnnx, model: &ModelProto, ty: ElementType, inputs: Vec<Tensor>) -> Vec<f32> {
    let plan = onnx.model_for_proto_model(model).and_then(|model| model.into_optimized());
    let plan = plan.and_then(|model| model.into_runnable()).expect("a plan");
    let outputs = plan.run(inputs.into_iter().map(IntoTValue::into_tvalue).collect());
    let output = outputs.expect("outputs").swap_remove(0).into_tensor();
    let floats = to_f32(&output, ty).expect("half precision");
    floats.try_as_plain_ram().and_then(|view| Ok(view.as_slice::<f32>()?.to_vec())).expect("floats")
}

fn operators(model: &ModelProto) -> Vec<String> {
    let model = widened().model_for_proto_model(model).and_then(|model| model.into_optimized());
    let model = model.expect("an optimised model");
    model.nodes.iter().map(|node| node.op.name().into_owned()).collect()
}

#[test]
fn arithmetic_is_rounded_once_for_each_operator() {
    // The last two have a quotient that is a tie of FLOAT16, where a product by the reciprocal is
    // not.
    let values = [1.0f32, 3.0, 0.1, -7.5, 65504.0, 6e-8, 300.0, -0.0, 4.881_620_4e-5, 14.0];
    for ty in HALVES {
        for (op, exact) in [
            ("Add", (|a, b| a + b) as fn(f32, f32) -> f32),
            ("Sub", |a, b| a - b),
            ("Mul", |a, b| a * b),
            ("Div", |a, b| a / b),
            ("Max", f32::max),
        ] {
            let model = Sketch::new()
                .input("a", ty, &[100])
                .input("b", ty, &[100])
                .node(op, &["a", "b"], &["h"], vec![])
                .node(op, &["h", "b"], &["y"], vec![])
                .output("y", ty, &[100])
                .model();
            let pairs = values.iter().flat_map(|a| values.map(|b| [*a, b].map(|x| rounded(ty, x))));
            let pairs: Vec<[f32; 2]> = pairs.collect();
            let side = |i: usize| halves(ty, &pairs.iter().map(|pair| pair[i]).collect::<Vec<_>>());
            let got = run(&widened(), &model, ty, vec![side(0), side(1)]);
            for (got, [a, b]) in got.iter().zip(&pairs) {
                let want = rounded(ty, exact(rounded(ty, exact(*a, *b)), *b));
                let is_same = got.to_bits() == want.to_bits() || (got.is_nan() && want.is_nan());
                assert!(is_same, "{op} of {ty} {a} {b}: {got}, not {want}");
            }
        }
    }
}

/// (1 + 2⁻¹²) − 1 is 0 in half precision, and 2⁻¹² where the sum is not rounded.
#[test]
fn rounding_between_operators_stays_unless_it_is_to_go() {
    let small = 1.0f32 / 4096.0;
    for ty in HALVES {
        let model = Sketch::new()
            .input("x", ty, &[1])
            .initializer(tensor("small", ty, &[small]))
            .node("Add", &["x", "small"], &["sum"], vec![])
            .node("Sub", &["sum", "x"], &["y"], vec![])
            .output("y", ty, &[1])
            .model();
        let one = || vec![halves(ty, &[1.0])];
        assert_eq!(run(&widened(), &model, ty, one()), [0.0]);
        let excess = widened().with_excess_precision(true);
        assert_eq!(run(&excess, &model, ty, one()), [small]);
    }
}

#[test]
fn what_is_computed_stays_float_while_it_is_moved() {
    for ty in HALVES {
        let model = Sketch::new()
            .input("x", ty, &[4])
            .node("Exp", &["x"], &["e"], vec![])
            .node("Concat", &["e", "x"], &["c"], vec![int("axis", 0)])
            .node("Gather", &["c", "places"], &["g"], vec![])
            .node("Sqrt", &["g"], &["y"], vec![])
            .initializer(crate::common::proto::int64("places", &[7, 0, 3]))
            .output("y", ty, &[3])
            .model();
        let made = operators(&model);
        let casts = made.iter().filter(|name| *name == "OnnxCast").count();
        let rounds = made.iter().filter(|name| **name == format!("RoundTo{ty}")).count();
        // In and out, and once on the way.
        assert_eq!((casts, rounds), (2, 1), "{made:?}");
        let x = [0.5f32, 1.0, 2.0, 0.25];
        let want = [x[3], x[0].exp(), x[3].exp()].map(|x| rounded(ty, rounded(ty, x).sqrt()));
        assert_eq!(run(&widened(), &model, ty, vec![halves(ty, &x)]), want);
    }
}

#[test]
fn operators_that_tract_lacks_in_float16_run_with_any_arithmetic() {
    let model = Sketch::new()
        .input("a", Float16, &[1, 2])
        .initializer(TensorProto { dims: vec![2, 1], ..tensor("b", Float16, &[3.0, 0.5]) })
        .initializer(tensor("c", Float16, &[0.25]))
        .node("Gemm", &["a", "b", "c"], &["y"], vec![float("alpha", 0.5), float("beta", 2.0)])
        .output("y", Float16, &[1, 1])
        .model();
    for arithmetic in [HalfArithmetic::Fastest, HalfArithmetic::Native, HalfArithmetic::Widened] {
        let onnx = onnx().with_half_arithmetic(arithmetic);
        let x = halves(Float16, &[2.0, 4.0]).into_shape(&[1, 2]).expect("a row");
        assert_eq!(run(&onnx, &model, Float16, vec![x]), [4.5], "{arithmetic:?}");
    }
}

#[test]
fn an_attribute_that_names_the_type_and_a_subgraph_are_followed() {
    for ty in HALVES {
        let branch = |name: &str, op: &str| {
            let output = [value("r", ty, &[2, 2])];
            graph_attribute(name, graph(&[], &[node(op, &["e", "x"], &["r"], vec![])], &output))
        };
        let choose = node("If", &["yes"], &["y"], vec![])
            .with(branch("then_branch", "Add"))
            .with(branch("else_branch", "Mul"));
        let mut sketch = Sketch::new()
            .input("x", ty, &[2, 2])
            .input("yes", Bool, &[])
            .node("EyeLike", &["x"], &["e"], vec![int("dtype", ty as i64)])
            .output("y", ty, &[2, 2]);
        sketch.0.node.push(choose);
        let model = sketch.model();
        let x = || halves(ty, &[1.0, 2.0, 3.0, 4.0]).into_shape(&[2, 2]).expect("a square");
        let of = |yes: bool| run(&widened(), &model, ty, vec![x(), tensor0(yes)]);
        assert_eq!((of(true), of(false)), (vec![2., 2., 3., 5.], vec![1., 0., 0., 4.]));
    }
}

/// Exporters leave weights FLOAT beside data of half precision.
#[test]
fn constants_of_another_float_type_are_taken_as_they_are() {
    for (data, constant, declared) in
        [(BFloat16, Float, BFloat16), (Float, Float16, Float16), (Float, Float16, Float)]
    {
        let third = 1.0f32 / 3.0;
        let model = Sketch::new()
            .input("x", data, &[1])
            .initializer(tensor("w", constant, &[third]))
            .node("Mul", &["x", "w"], &["y"], vec![])
            .value_info("y", declared)
            .output("y", declared, &[1])
            .model();
        let want = 3.0 * if constant == Float { third } else { rounded(constant, third) };
        let want = if declared == Float { want } else { rounded(declared, want) };
        let x = if data == Float { tensor1(&[3.0f32]) } else { halves(data, &[3.0]) };
        assert_eq!(run(&widened(), &model, declared, vec![x]), [want], "{data} {constant}");
    }
}

#[test]
fn what_onnx_does_not_define_is_refused_by_name() {
    let binary = |op: &str, a: ElementType, b: ElementType, made: ElementType| {
        let sketch = Sketch::new().input("a", a, &[2]).input("b", b, &[2]);
        sketch.node(op, &["a", "b"], &["y"], vec![]).output("y", made, &[2])
    };
    for ty in HALVES {
        // tract would speak of two types that it cannot unify.
        let message = binary("Add", ty, Float, ty).refusal();
        let mixed = format!("node `Add_y` (Add): mixes {ty} and FLOAT (opset 24)");
        assert_eq!(message, mixed + "; `onnx-cast fix MODEL.onnx -o FIXED.onnx` may correct it");
        let message = binary("BitwiseAnd", ty, ty, ty).refusal();
        assert_eq!(
            message,
            format!(
                "node `BitwiseAnd_y` (BitwiseAnd): is not defined on {ty} in any opset (opset 24)"
            )
        );
    }
    for ty in HALVES {
        let eye = Sketch::new()
            .input("x", Float, &[2, 2])
            .node("EyeLike", &["x"], &["y"], vec![int("dtype", ty as i64)])
            .output("y", Float, &[2, 2]);
        let message = eye.refusal();
        let words = ["`EyeLike_y`", "`dtype`", ty.name(), "FLOAT", "opset"];
        assert!(words.iter().all(|word| message.contains(word)), "{message}");
    }
    let mut concat = binary("Concat", Float16, BFloat16, Float16);
    concat.0.node[0].attribute.push(int("axis", 0));
    assert!(concat.refusal().contains("mixes"));
    let message = binary("Mul", Float8E4M3FN, Float8E4M3FN, Float8E4M3FN).refusal();
    assert!(message.contains("cannot compute with FLOAT8E4M3FN"), "{message}");
    let foreign: NodeProto =
        NodeProto { domain: "com.example".into(), ..node("Swirl", &["x"], &["y"], vec![]) };
    let mut sketch = Sketch::new().input("x", BFloat16, &[2]).output("y", BFloat16, &[2]);
    sketch.0.node.push(foreign);
    assert!(sketch.refusal().contains("is of domain `com.example`"));
}

#[test]
fn a_survey_names_what_computes_in_float() {
    let model = Sketch::new()
        .input("x", BFloat16, &[2])
        .node("Relu", &["x"], &["r"], vec![])
        .node("Reshape", &["r", "s"], &["v"], vec![])
        .node("ReduceSum", &["v"], &["y"], vec![int("keepdims", 0)])
        .initializer(crate::common::proto::int64("s", &[1, 2]))
        .output("y", BFloat16, &[])
        .model();
    let survey = model_proto::survey(&onnx(), model, None).expect("a graph");
    assert!(survey.problems().is_empty() && survey.casts().next().is_none());
    let names: Vec<_> = survey.widened().iter().map(|node| node.operator.as_str()).collect();
    assert_eq!(names, ["Relu", "ReduceSum"]);
    // Without half precision nothing is, whatever the arithmetic.
    let plain = Sketch::new()
        .input("x", Float, &[2])
        .node("Relu", &["x"], &["y"], vec![])
        .cast("y", Int32, "z")
        .output("z", Int32, &[2])
        .model();
    assert!(model_proto::survey(&widened(), plain, None).expect("a graph").widened().is_empty());
}

#[test]
fn an_attention_takes_a_mask_of_truths() {
    let (b, s, e) = (1i64, 2i64, 4i64);
    for ty in [Float, Float16, BFloat16] {
        let inputs = ["q", "k", "v"];
        let mut sketch = Sketch::new();
        for name in inputs {
            sketch = sketch.input(name, ty, &[b, 1, s, e]);
        }
        let model = sketch
            .input("mask", Bool, &[s, s])
            .node("Attention", &["q", "k", "v", "mask"], &["y"], vec![])
            .output("y", ty, &[b, 1, s, e])
            .model();
        let data = |x: [f32; 8]| {
            let floats = tensor1(&x).into_shape(&[1, 1, 2, 4]).expect("a tensor");
            from_f32(&floats, ty, Rules::default()).expect("numbers")
        };
        let ones = data([1.0; 8]);
        let values = data([1., 2., 3., 4., 5., 6., 7., 8.]);
        let mask = tensor2(&[[true, false], [true, true]]);
        let got = run(&widened(), &model, ty, vec![ones.clone(), ones, values, mask]);
        assert_eq!(got, [1., 2., 3., 4., 3., 4., 5., 6.], "{ty}");
    }
}

/// The type of what an operator of ONNX Runtime's makes is known to those behind it.
#[test]
fn a_gelu_of_onnx_runtimes_goes_into_what_computes_in_float() {
    let model = Sketch::new()
        .input("x", Float16, &[1, 2])
        .node("com.microsoft.Gelu", &["x"], &["a"], vec![])
        .node("LpNormalization", &["a"], &["y"], vec![int("axis", 1)])
        .output("y", Float16, &[1, 2]);
    let x = halves(Float16, &[-4.664, -3.904]).into_shape(&[1, 2]).expect("a row");
    let mut model = model.model();
    model.opset_import.push(imports_microsoft());
    let got = run(&widened(), &model, Float16, vec![x]);
    // −7.212e-6 and −1.8454e-4, as FLOAT16 has them, by the root of their squares.
    assert_eq!(got, [-0.039_062_5, -0.999_023_44]);
}

fn imports_microsoft() -> tract_onnx::pb::OperatorSetIdProto {
    tract_onnx::pb::OperatorSetIdProto { version: 1, domain: "com.microsoft".into() }
}

#[test]
fn celu_multiplies_by_alpha() {
    let model = Sketch::new()
        .input("x", Float, &[2])
        .node("Celu", &["x"], &["y"], vec![float("alpha", 2.0)])
        .output("y", Float, &[2])
        .model();
    let got = run(&onnx(), &model, Float, vec![tensor1(&[-2.0f32, 3.0])]);
    assert!((got[0] - 2.0 * ((-1.0f32).exp() - 1.0)).abs() < 1e-6 && got[1] == 3.0, "{got:?}");
}

#[test]
fn a_recurrent_network_and_a_normalization_run_in_half_precision() {
    for ty in HALVES {
        let model = Sketch::new()
            .input("x", ty, &[3, 1, 2])
            .initializer(TensorProto { dims: vec![1, 3, 2], ..tensor("w", ty, &[0.5; 6]) })
            .initializer(TensorProto { dims: vec![1, 3, 1], ..tensor("r", ty, &[0.25; 3]) })
            .initializer(tensor("scale", ty, &[1.0]))
            .node("GRU", &["x", "w", "r"], &["", "h"], vec![int("hidden_size", 1)])
            .node("LayerNormalization", &["h", "scale"], &["n"], vec![int("axis", 0)])
            .node("LeakyRelu", &["n"], &["y"], vec![float("alpha", 0.5)])
            .output("y", ty, &[1, 1, 1])
            .model();
        let x = halves(ty, &[1., 2., 3., 4., 5., 6.]).into_shape(&[3, 1, 2]).expect("a sequence");
        let got = run(&widened(), &model, ty, vec![x]);
        assert_eq!(got, [0.0], "{ty}");
    }
}

#[test]
fn inputs_may_be_left_out() {
    for ty in HALVES {
        let model = Sketch::new()
            .input("x", ty, &[3])
            .initializer(TensorProto { dims: vec![], ..tensor("most", ty, &[1.0]) })
            .node("Clip", &["x", "", "most"], &["y"], vec![])
            .output("y", ty, &[3])
            .model();
        let x = halves(ty, &[-2.0, 0.5, 3.0]);
        assert_eq!(run(&widened(), &model, ty, vec![x]), [-2.0, 0.5, 1.0]);
    }
}

#[test]
fn padding_and_words_among_attributes_do_not_confuse() {
    let model = Sketch::new()
        .input("x", BFloat16, &[2])
        .node("Exp", &["x"], &["e"], vec![])
        .node("Pad", &["e", "pads", "one"], &["y"], vec![string("mode", "constant")])
        .initializer(crate::common::proto::int64("pads", &[1, 0]))
        .initializer(TensorProto { dims: vec![], ..tensor("one", BFloat16, &[0.1]) })
        .output("y", BFloat16, &[3])
        .model();
    let got = run(&widened(), &model, BFloat16, vec![halves(BFloat16, &[0.0, 1.0])]);
    assert_eq!(got, [rounded(BFloat16, 0.1), 1.0, rounded(BFloat16, 1f32.exp())]);
    let shape = Sketch::new()
        .input("x", BFloat16, &[2])
        .node("Exp", &["x"], &["e"], vec![])
        .node("Shape", &["e"], &["y"], vec![])
        .output("y", Int64, &[1]);
    let sizes = shape.run(vec![halves(BFloat16, &[0.0, 1.0])]).expect("a size");
    assert_eq!(sizes[0], tensor1(&[2i64]));
}
