//! ONNX Runtime's operators that are quantisers around another operator.

use tract_onnx::pb::attribute_proto::AttributeType;
use tract_onnx::pb::{AttributeProto, TensorProto};
use tract_onnx::prelude::*;
use tract_onnx_cast::{ElementType, Rules, from_f32, tensor_proto};

use crate::common::proto::{Sketch, float, int, ints, string, unshaped};

use ElementType::{Bool, Float, Int4, Int8, Int32, Int64, Uint8};

fn shaped(name: &str, ty: ElementType, dims: &[usize], values: &[f32]) -> TensorProto {
    let carrier = from_f32(&tensor1(values), ty, Rules::default()).expect("a conversion");
    let carrier = carrier.into_shape(dims).expect("as many values");
    tensor_proto::write(name, ty, &carrier).expect("a tensor")
}

/// x of UINT8 and the scales and zero points of two inputs and the output.
fn sketch(shape: &[i64]) -> Sketch {
    Sketch::new()
        .input("a", Uint8, shape)
        .initializer(shaped("as", Float, &[], &[0.5]))
        .initializer(shaped("az", Uint8, &[], &[128.0]))
        .initializer(shaped("bs", Float, &[], &[0.25]))
        .initializer(shaped("bz", Uint8, &[], &[100.0]))
        .initializer(shaped("ys", Float, &[], &[0.125]))
        .initializer(shaped("yz", Uint8, &[], &[7.0]))
}

fn codes(shape: &[i64]) -> Tensor {
    let dims: Vec<usize> = shape.iter().map(|dim| *dim as usize).collect();
    let codes: Vec<u8> = (0..dims.iter().product()).map(|i| (i * 37 % 251) as u8).collect();
    Tensor::from_shape(&dims, &codes).expect("as many codes")
}

/// The same by an operator of ONNX Runtime's and by the operator that it is around, its inputs
/// dequantised.
struct Pair {
    op: &'static str,
    inputs: Vec<&'static str>,
    attributes: Vec<AttributeProto>,
    inner: &'static str,
    inner_inputs: Vec<&'static str>,
    inner_attributes: Vec<AttributeProto>,
}

impl Pair {
    fn check(self, shape: &[i64], made: &[i64]) {
        let with_b = || sketch(shape).initializer(shaped("b", Uint8, &[], &[90.0]));
        let own = with_b().node(self.op, &self.inputs, &["y"], self.attributes);
        let written = with_b()
            .node("DequantizeLinear", &["a", "as", "az"], &["da"], vec![])
            .node("DequantizeLinear", &["b", "bs", "bz"], &["db"], vec![])
            .node(self.inner, &self.inner_inputs, &["r"], self.inner_attributes)
            .node("QuantizeLinear", &["r", "ys", "yz"], &["y"], vec![]);
        let run = |sketch: Sketch| {
            sketch.output("y", Uint8, made).run(vec![codes(shape)]).expect("a run").remove(0)
        };
        assert_eq!(run(own), run(written), "{}", self.op);
    }
}

#[test]
fn an_operator_between_quantisers_is_what_it_says() {
    let unary = |op, inner, attributes: Vec<AttributeProto>| Pair {
        op,
        inputs: vec!["a", "as", "az", "ys", "yz"],
        attributes: attributes.clone(),
        inner,
        inner_inputs: vec!["da"],
        inner_attributes: attributes,
    };
    let binary = |op, inner| Pair {
        inputs: vec!["a", "as", "az", "b", "bs", "bz", "ys", "yz"],
        inner_inputs: vec!["da", "db"],
        ..unary(op, inner, vec![])
    };
    binary("com.microsoft.QLinearAdd", "Add").check(&[2, 3], &[2, 3]);
    binary("com.microsoft.QLinearMul", "Mul").check(&[2, 3], &[2, 3]);
    unary("com.microsoft.QLinearSigmoid", "Sigmoid", vec![]).check(&[2, 3], &[2, 3]);
    let alpha = vec![float("alpha", 0.3)];
    unary("com.microsoft.QLinearLeakyRelu", "LeakyRelu", alpha).check(&[2, 3], &[2, 3]);
    let softmax = unary("com.microsoft.QLinearSoftmax", "Softmax", vec![int("axis", 1)]);
    let attributes = vec![int("axis", 1), int("opset", 13)];
    Pair { attributes, ..softmax }.check(&[2, 3, 4], &[2, 3, 4]);
    let global = "com.microsoft.QLinearGlobalAveragePool";
    unary(global, "GlobalAveragePool", vec![]).check(&[1, 2, 3, 3], &[1, 2, 1, 1]);
    let kernel = vec![ints("kernel_shape", &[2, 2]), ints("strides", &[1, 1])];
    let pool = unary("com.microsoft.QLinearAveragePool", "AveragePool", kernel);
    pool.check(&[1, 2, 3, 3], &[1, 2, 2, 2]);
    Pair {
        inputs: vec!["ys", "yz", "a", "as", "az", "a", "as", "az"],
        inner_inputs: vec!["da", "da"],
        ..unary("com.microsoft.QLinearConcat", "Concat", vec![int("axis", 0)])
    }
    .check(&[2, 3], &[4, 3]);
}

#[test]
fn a_softmax_of_an_old_opset_is_one_of_a_matrix() -> TractResult<()> {
    let softmax = |opset| {
        let attributes = vec![int("axis", 1), int("opset", opset)];
        sketch(&[1, 2, 2])
            .node("com.microsoft.QLinearSoftmax", &["a", "as", "az", "ys", ""], &["y"], attributes)
            .output("y", Uint8, &[1, 2, 2])
            .run(vec![Tensor::from_shape(&[1, 2, 2], &[9u8; 4])?])
    };
    assert_eq!(softmax(13)?[0], Tensor::from_shape(&[1, 2, 2], &[4u8; 4])?);
    assert_eq!(softmax(11)?[0], Tensor::from_shape(&[1, 2, 2], &[2u8; 4])?);
    Ok(())
}

#[test]
fn a_choice_keeps_its_condition() -> TractResult<()> {
    let inputs = ["c", "a", "as", "az", "a", "bs", "bz", "ys", "yz"];
    let outputs = Sketch(sketch(&[2]).0)
        .input("c", Bool, &[2])
        .node("com.microsoft.QLinearWhere", &inputs, &["y"], vec![])
        .output("y", Uint8, &[2])
        .run(vec![tensor1(&[130u8, 104]), tensor1(&[true, false])])?;
    assert_eq!(outputs[0], tensor1(&[15u8, 15]));
    Ok(())
}

#[test]
fn a_product_of_integers_has_a_bias_in_its_own_unit() -> TractResult<()> {
    let gemm = |output: &[&str], ty| {
        let inputs = [&["a", "as", "az", "b", "ws", "wz", "c"][..], output].concat();
        let attributes = vec![float("alpha", 2.0), int("transB", 1)];
        sketch(&[1, 2])
            .initializer(shaped("b", Int8, &[3, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]))
            .initializer(shaped("ws", Float, &[3], &[1.0, 0.5, 0.25]))
            .initializer(shaped("wz", Int8, &[3], &[0.0, 0.0, 1.0]))
            .initializer(shaped("c", Int32, &[3], &[10.0, -4.0, 1.0]))
            .node("com.microsoft.QGemm", &inputs, &["y"], attributes)
            .output("y", ty, &[1, 3])
            .run(vec![tensor2(&[[130u8, 126]])])
    };
    // 2 · (1, −1) · weights + bias · 2 · 0.5 · their scales.
    assert_eq!(gemm(&[], Float)?[0], tensor2(&[[8f32, -3.0, -0.25]]));
    assert_eq!(gemm(&["ys", "yz"], Uint8)?[0], tensor2(&[[71u8, 0, 5]]));
    Ok(())
}

#[test]
fn weights_of_8_bits_have_blocks() -> TractResult<()> {
    let run = |inputs: &[&str]| {
        let attributes = ["K", "N", "bits", "block_size"].into_iter().zip([20, 2, 8, 16]);
        let attributes = attributes.map(|(name, value)| int(name, value)).collect();
        let codes: Vec<f32> = (0..64).map(|i| 120.0 + (i % 16) as f32).collect();
        Sketch::new()
            .input("x", Float, &[1, 20])
            .initializer(shaped("w", Uint8, &[2, 2, 16], &codes))
            .initializer(shaped("s", Float, &[4], &[1.0, 10.0, 100.0, 1000.0]))
            .initializer(shaped("z", Uint8, &[4], &[120.0, 121.0, 122.0, 123.0]))
            .initializer(shaped("bias", Float, &[2], &[0.5, -0.5]))
            .node("com.microsoft.MatMulNBits", inputs, &["y"], attributes)
            .output("y", Float, &[1, 2])
            .run(vec![Tensor::from_shape(&[1, 20], &[1f32; 20])?])
    };
    // Of the second block, four columns; the codes of a block are 0 … 15 above 120.
    assert_eq!(
        run(&["x", "w", "s"])?[0],
        tensor2(&[[-8.0 + 10.0 * -26.0, 100.0 * -8.0 + 1000.0 * -26.0f32]])
    );
    assert_eq!(
        run(&["x", "w", "s", "z", "", "bias"])?[0],
        tensor2(&[[120.0 + 10.0 * 2.0 + 0.5, 100.0 * 88.0 + 1000.0 * -6.0 - 0.5f32]])
    );
    Ok(())
}

/// A table of 2 rows of 32 codes, in blocks of 16 along the last axis, of which places of this axis
/// are taken.
fn taken_along_blocks(quantize_axis: i64, zero_point: bool) -> Vec<Tensor> {
    let codes: Vec<f32> = (0..64).map(|i| (i % 13) as f32 - 6.0).collect();
    let attributes = [("gather_axis", 1), ("quantize_axis", quantize_axis), ("block_size", 16)];
    let sketch = Sketch::new()
        .input("i", Int64, &[3])
        .initializer(shaped("w", Int4, &[2, 32], &codes))
        .initializer(shaped("s", Float, &[2, 2], &[1.0, 100.0, 2.0, 200.0]))
        .initializer(shaped("z", Int4, &[2, 2], &[1.0, 2.0, 3.0, 4.0]));
    let inputs = ["w", "i", "s", if zero_point { "z" } else { "" }];
    let attributes = attributes.map(|(name, value)| int(name, value)).to_vec();
    sketch
        .node("com.microsoft.GatherBlockQuantized", &inputs, &["y"], attributes)
        .output("y", Float, &[2, 3])
        .run(vec![tensor1(&[1i64, 20, -1])])
        .expect("a run")
}

#[test]
fn what_is_taken_along_blocks_has_the_scales_of_its_blocks() {
    for axis in [1, -1] {
        let codes = |row: usize, at: usize| ((32 * row + at) % 13) as f32 - 6.0;
        let want = |zero: [[f32; 2]; 2]| {
            let scales = [[1f32, 100.0], [2.0, 200.0]];
            let of = |row: usize, at: usize| {
                (codes(row, at) - zero[row][at / 16]) * scales[row][at / 16]
            };
            tensor2(&[[1, 20, 31].map(|at| of(0, at)), [1, 20, 31].map(|at| of(1, at))])
        };
        assert_eq!(taken_along_blocks(axis, false)[0], want([[0.0; 2]; 2]));
        assert_eq!(taken_along_blocks(axis, true)[0], want([[1.0, 2.0], [3.0, 4.0]]));
    }
}

#[test]
fn four_codes_of_2_bits_share_a_byte() -> TractResult<()> {
    let run = |zeros: &str| {
        let names = ["bits", "gather_axis", "quantize_axis", "block_size"];
        let attributes = names.into_iter().zip([2, 0, 1, 16]).map(|(name, value)| int(name, value));
        let bytes: Vec<f32> = (0..16).map(|i| (i * 37 % 256) as f32).collect();
        let outputs = Sketch::new()
            .input("i", Int64, &[1])
            .initializer(shaped("w", Uint8, &[2, 8], &bytes))
            .initializer(shaped("s", Float, &[2, 2], &[1.0, 2.0, 3.0, 4.0]))
            .initializer(shaped("z", Uint8, &[2, 1], &[0.0, 7.0]))
            .node(
                "com.microsoft.GatherBlockQuantized",
                &["w", "i", "s", zeros],
                &["y"],
                attributes.collect(),
            )
            .output("y", Float, &[1, 32])
            .run(vec![tensor1(&[1i64])])?;
        let y = outputs[0].try_as_plain_ram()?.as_slice::<f32>()?.to_vec();
        TractResult::Ok(y)
    };
    // Zero points of the row are in the byte 7: 3 and 1.
    for (name, zeros) in [("", [2.0, 2.0]), ("z", [3.0, 1.0])] {
        let y = run(name)?;
        for (at, y) in y.into_iter().enumerate() {
            let byte = (8 + at / 4) * 37 % 256;
            let code = (byte >> (at % 4 * 2) & 3) as f32;
            let (scale, zero) = ([3.0, 4.0][at / 16], zeros[at / 16]);
            assert_eq!(y, (code - zero) * scale, "{at}");
        }
    }
    Ok(())
}

#[test]
fn rows_of_small_integers_are_dequantised_when_taken() -> TractResult<()> {
    let attributes = ["gather_axis", "quantize_axis", "block_size"].into_iter().zip([0, 1, 16]);
    let codes: Vec<f32> = (0..96).map(|i| (i % 13) as f32 - 6.0).collect();
    let outputs = Sketch::new()
        .input("i", Int64, &[2, 1])
        .initializer(shaped("w", Int4, &[3, 32], &codes))
        .initializer(shaped("s", Float, &[3, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]))
        .initializer(shaped("z", Int4, &[3, 2], &[0.0, 1.0, 2.0, 3.0, -4.0, -5.0]))
        .node(
            "com.microsoft.GatherBlockQuantized",
            &["w", "i", "s", "z"],
            &["y"],
            attributes.map(|(name, value)| int(name, value)).collect(),
        )
        .output("y", Float, &[2, 1, 32])
        .run(vec![tensor2(&[[2i64], [0]])])?;
    let want = |row: usize, column: usize, scale: f32, zero: f32| {
        (codes[32 * row + column] - zero) * scale
    };
    let view = outputs[0].try_as_plain_ram()?;
    let y = view.as_slice::<f32>()?;
    for column in 0..32 {
        let (last, first) =
            if column < 16 { ((5.0, -4.0), (1.0, 0.0)) } else { ((6.0, -5.0), (2.0, 1.0)) };
        assert_eq!(y[column], want(2, column, last.0, last.1));
        assert_eq!(y[32 + column], want(0, column, first.0, first.1));
    }
    Ok(())
}

#[test]
fn what_has_no_equal_is_refused() {
    let last = vec![int("channels_last", 2)];
    let inputs = ["a", "as", "az", "ys", "yz"];
    let pool = sketch(&[1, 3, 3, 2])
        .node("com.microsoft.QLinearGlobalAveragePool", &inputs, &["y"], last)
        .output("y", Uint8, &[1, 1, 1, 2]);
    assert_eq!(
        pool.refusal(),
        "node `QLinearGlobalAveragePool_y`: attribute `channels_last` is 2, and computed is only 0 or 1, the model imports 24"
    );
    let lacks = sketch(&[2])
        .node("com.microsoft.QLinearAdd", &["a", "as", "az", "a"], &["y"], vec![])
        .output("y", Uint8, &[2]);
    assert_eq!(lacks.refusal(), "node `QLinearAdd_y` (QLinearAdd): has no input 4, which it needs");
    // A cache has keys and values in one tensor.
    let attention = |values: i64, made: &[&str]| {
        let wide = (16 + values) as usize;
        let sizes = vec![int("num_heads", 2), ints("qkv_hidden_sizes", &[8, 8, values])];
        let mut sketch = Sketch::new()
            .input("x", Float, &[1, 3, 8])
            .initializer(shaped("w", Float, &[8, wide], &vec![0.5; 8 * wide]))
            .node("com.microsoft.Attention", &["x", "w"], made, sizes);
        sketch.0.output = made.iter().map(|name| unshaped(name, Float)).collect();
        sketch
    };
    for (values, made) in [(8, &["y", "present"][..]), (12, &["y"])] {
        assert!(attention(values, made).load().is_ok(), "{values}");
    }
    assert_eq!(
        attention(12, &["y", "present"]).refusal(),
        "node `Attention_y` (Attention): has keys and values of two sizes in `qkv_hidden_sizes`, \
         and `present` holds both, the model imports 24"
    );
}

fn row(values: &[f32]) -> Tensor {
    tensor1(values).into_shape(&[1, values.len()]).expect("a row")
}

#[test]
fn gelus_end_in_0_and_x() {
    let run = |op: &str| {
        let sketch = Sketch::new()
            .input("x", Float, &[1, 3])
            .node(op, &["x"], &["y"], vec![])
            .output("y", Float, &[1, 3]);
        sketch.run(vec![row(&[-100.0, 0.0, 100.0])]).expect("a run").remove(0)
    };
    for op in ["com.microsoft.FastGelu", "com.microsoft.QuickGelu", "com.microsoft.Gelu"] {
        assert_eq!(run(op), row(&[0.0, 0.0, 100.0]), "{op}");
    }
}

/// A position that all begin at is one along the sequence, wherever that is.
#[test]
fn a_rotation_begins_at_a_position() {
    let cache = |name: &str, values: &[f32]| shaped(name, Float, &[3, 1], values);
    let run = |shape: &[i64]| {
        let dims: Vec<usize> = shape.iter().map(|dim| *dim as usize).collect();
        let x = Tensor::from_shape(&dims, &[1f32, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0]);
        let sketch = Sketch::new()
            .input("x", Float, shape)
            .initializer(shaped("first", Int64, &[1], &[1.0]))
            .initializer(cache("cos", &[1.0, 2.0, 3.0]))
            .initializer(cache("sin", &[4.0, 5.0, 6.0]))
            .node("com.microsoft.RotaryEmbedding", &["x", "first", "cos", "sin"], &["y"], vec![])
            .output("y", Float, shape);
        let outputs = sketch.run(vec![x.expect("as many values")]);
        outputs.expect("a run").remove(0).into_shape(&[8]).expect("8 numbers")
    };
    // Two heads of two places.
    assert_eq!(run(&[1, 2, 2, 2]), tensor1(&[2f32, 5.0, 3.0, 6.0, 2.0, 5.0, 3.0, 6.0]));
    // Two places of two heads, whose size is that of the caches.
    assert_eq!(run(&[1, 2, 4]), tensor1(&[2f32, 5.0, 2.0, 5.0, 3.0, 6.0, 3.0, 6.0]));
}

#[test]
fn what_may_be_left_out_has_its_default() {
    let range = Sketch::new()
        .initializer(shaped("first", Float, &[], &[1.0]))
        .initializer(shaped("last", Float, &[], &[4.0]))
        .node("com.microsoft.Range", &["first", "last"], &["y"], vec![])
        .output("y", Float, &[3]);
    assert_eq!(range.run(vec![]).expect("a run")[0], tensor1(&[1f32, 2.0, 3.0]));
}

#[test]
fn a_pad_takes_lists_of_one_axis_more() {
    let pad = Sketch::new()
        .input("x", Float, &[1, 2])
        .initializer(shaped("pads", Int64, &[1, 4], &[0.0, 1.0, 0.0, 1.0]))
        .initializer(shaped("value", Float, &[1], &[3.0]))
        .node("com.microsoft.Pad", &["x", "pads", "value"], &["y"], vec![])
        .output("y", Float, &[1, 4]);
    assert_eq!(pad.run(vec![row(&[1.0, 2.0])]).expect("a run")[0], row(&[3.0, 1.0, 2.0, 3.0]));
}

/// The type of the input tells which of the defaults counts, and each has a value where it is left
/// out.
#[test]
fn a_category_mapper_has_both_defaults() {
    let run = |defaults: &[AttributeProto], from: ElementType, to: ElementType, x: Tensor| {
        let names = ["one", "two"].map(|name| name.as_bytes().to_vec()).into();
        let ty = AttributeType::Strings as i32;
        let names = AttributeProto { strings: names, r#type: ty, ..int("cats_strings", 0) };
        let attributes = [&[ints("cats_int64s", &[1, 2]), names], defaults].concat();
        let sketch = Sketch::new()
            .input("x", from, &[2])
            .node("ai.onnx.ml.CategoryMapper", &["x"], &["y"], attributes)
            .output("y", to, &[2]);
        sketch.run(vec![x]).expect("a run").remove(0)
    };
    let names = |names: [&str; 2]| tensor1(&names.map(String::from));
    let (number, name) = (int("default_int64", 7), string("default_string", "none"));
    for (defaults, number, name) in [
        (vec![], -1i64, "_Unused"),
        (vec![number.clone()], 7, "_Unused"),
        (vec![name.clone()], -1, "none"),
        (vec![number, name], 7, "none"),
    ] {
        let numbers = run(&defaults, ElementType::String, Int64, names(["two", "three"]));
        assert_eq!(numbers, tensor1(&[2i64, number]));
        let texts = run(&defaults, Int64, ElementType::String, tensor1(&[1i64, 3]));
        assert_eq!(texts, names(["one", name]));
    }
}

#[test]
fn a_bias_and_a_skip_are_added_to_what_they_are_given() {
    let numbers = |from: i32, dims: &[usize]| {
        let count: usize = dims.iter().product();
        let values: Vec<f32> = (from..).take(count).map(|i| i as f32).collect();
        tensor1(&values).into_shape(dims).expect("as many values")
    };
    let (x, bias, skip) = (numbers(1, &[2, 2, 3]), numbers(-7, &[3]), numbers(100, &[2, 2, 3]));
    let made = Sketch::new()
        .input("x", Float, &[2, 2, 3])
        .input("bias", Float, &[3])
        .input("skip", Float, &[2, 2, 3])
        .node("com.microsoft.BiasAdd", &["x", "bias", "skip"], &["y"], vec![])
        .output("y", Float, &[2, 2, 3])
        .run(vec![x, bias, skip]);
    // (1 + i) + (i mod 3 − 7) + (100 + i)
    let sums: Vec<f32> = (0..12u8).map(|i| f32::from(2 * i + i % 3) + 94.0).collect();
    let sums = tensor1(&sums).into_shape(&[2, 2, 3]).expect("as many values");
    assert_eq!(made.expect("a run"), [sums]);
}

/// Its type is told though it has no composition.
#[test]
fn what_a_bias_gelu_makes_may_be_multiplied_and_scaled() -> TractResult<()> {
    let sketch = Sketch::new()
        .input("x", Float, &[1, 2])
        .initializer(shaped("b", Float, &[2], &[0.5, -0.5]))
        .initializer(shaped("w", Float, &[2, 2], &[1.0, 0.0, 0.0, 1.0]))
        .node("com.microsoft.BiasGelu", &["x", "b"], &["s"], vec![])
        .node("com.microsoft.FusedMatMul", &["s", "w"], &["y"], vec![float("alpha", 0.5)])
        .output("y", Float, &[1, 2]);
    let x = tensor1(&[0.5f32, -0.5]).into_shape(&[1, 2])?;
    let wanted = tensor1(&[0.420_672_4_f32, -0.079_327_63]).into_shape(&[1, 2])?;
    sketch.run(vec![x])?[0]
        .close_enough(&wanted, tract_onnx::tract_core::internal::Approximation::Close)
}
