//! `QuantizeLinear` and `DequantizeLinear` in models: what is run, folded and refused.

use tract_onnx::pb::{AttributeProto, ModelProto, TensorProto};
use tract_onnx::prelude::*;
use tract_onnx_cast::{
    ElementType, Error, Rules, from_f32, onnx, output_element_types, tensor_proto, to_f32,
};

use crate::common::proto::{Sketch, float, int, int64, ints, model, raw, tensor};

use ElementType::{
    BFloat16, Float, Float8E4M3FN, Float8E8M0, Float16, Int4, Int8, Int16, Int32, Uint8,
};

/// A tensor of a type, a shape and the values that these round to.
fn shaped(name: &str, ty: ElementType, dims: &[usize], values: &[f32]) -> TensorProto {
    let carrier = from_f32(&tensor1(values), ty, Rules::default()).expect("a conversion");
    let carrier = carrier.into_shape(dims).expect("as many values");
    tensor_proto::write(name, ty, &carrier).expect("a tensor")
}

fn scalar(name: &str, ty: ElementType, value: f32) -> TensorProto {
    shaped(name, ty, &[], &[value])
}

/// A node of x and constants: its operator, opset and attributes, the type of x and of y.
struct Site {
    op: &'static str,
    opset: i64,
    x: ElementType,
    y: ElementType,
    shape: Vec<i64>,
    constants: Vec<TensorProto>,
    attributes: Vec<AttributeProto>,
}

fn quantize(opset: i64, x: ElementType, y: ElementType, constants: Vec<TensorProto>) -> Site {
    Site { op: "QuantizeLinear", opset, x, y, shape: vec![2, 4], constants, attributes: vec![] }
}

fn dequantize(opset: i64, x: ElementType, y: ElementType, constants: Vec<TensorProto>) -> Site {
    Site { op: "DequantizeLinear", ..quantize(opset, x, y, constants) }
}

impl Site {
    fn with(mut self, attribute: AttributeProto) -> Site {
        self.attributes.push(attribute);
        self
    }

    fn model(self) -> ModelProto {
        let names: Vec<String> = self.constants.iter().map(|tensor| tensor.name.clone()).collect();
        let inputs: Vec<&str> =
            std::iter::once("x").chain(names.iter().map(String::as_str)).collect();
        let mut sketch = Sketch::new().input("x", self.x, &self.shape);
        for constant in self.constants {
            sketch = sketch.initializer(constant);
        }
        let sketch = sketch.node(self.op, &inputs, &["y"], self.attributes);
        model(self.opset, sketch.output("y", self.y, &self.shape).0)
    }

    /// The one line of the error that loading and typing end in.
    fn refusal(self) -> String {
        let loaded = onnx().model_for_proto_model(&self.model());
        let error = loaded.and_then(|model| model.into_typed()).expect_err("a refusal");
        let ours = error.chain().find_map(|cause| cause.downcast_ref::<Error>());
        ours.map_or_else(|| format!("not ours: {error:#}"), Error::to_string)
    }

    fn run(self, x: &[f32]) -> Vec<f32> {
        let (ty, y) = (self.x, self.y);
        let shape: Vec<usize> = self.shape.iter().map(|dim| *dim as usize).collect();
        let model = onnx().model_for_proto_model(&self.model()).expect("a model");
        let model = model.into_optimized().expect("an optimised model");
        assert_eq!(output_element_types(&model).expect("types"), [y]);
        let x = from_f32(&tensor1(x), ty, Rules::default()).expect("a conversion");
        let x = x.into_shape(&shape).expect("as many values").into_tvalue();
        let output = model.into_runnable().expect("a plan").run(tvec!(x)).expect("a run").remove(0);
        let floats = to_f32(&output, y).expect("numbers");
        floats.try_as_plain_ram().unwrap().as_slice::<f32>().unwrap().to_vec()
    }
}

const X: [f32; 8] = [0.0, 0.5, 1.5, -2.5, 1e10, -1e10, f32::INFINITY, f32::NAN];

#[test]
fn integers_are_rounded_and_saturate() {
    let scale = || scalar("s", Float, 1.0);
    let site = quantize(13, Float, Uint8, vec![scale(), scalar("z", Uint8, 3.0)]);
    assert_eq!(site.run(&X), [3.0, 3.0, 5.0, 1.0, 255.0, 0.0, 255.0, 0.0]);
    let site = quantize(21, Float, Int4, vec![scale(), scalar("z", Int4, -1.0)]);
    assert_eq!(site.run(&X), [-1.0, -1.0, 1.0, -3.0, 7.0, -8.0, 7.0, -8.0]);
    // Without a zero point y is UINT8, or what `output_dtype` says.
    assert_eq!(quantize(10, Float, Uint8, vec![scale()]).run(&X)[..3], [0.0, 0.0, 2.0]);
    let site = quantize(21, Float, Int16, vec![scale()]).with(int("output_dtype", 5));
    assert_eq!(site.run(&X)[3..6], [-2.0, 32767.0, -32768.0]);
}

#[test]
fn a_scale_may_be_one_s_own_or_a_block_s() {
    let x = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0];
    let scale = |dims: &[usize], values: &[f32]| vec![shaped("s", Float, dims, values)];
    let rows = dequantize(21, Int8, Float, scale(&[2], &[1.0, 10.0])).with(int("axis", 0));
    assert_eq!(rows.run(&x), [1.0, 2.0, 3.0, 4.0, 50.0, 60.0, 70.0, 80.0]);
    let columns = dequantize(21, Int8, Float, scale(&[4], &[1.0, 2.0, 3.0, 4.0]));
    assert_eq!(columns.run(&x), [1.0, 4.0, 9.0, 16.0, 5.0, 12.0, 21.0, 32.0]);
    // The second block of each row is short.
    let blocks = scale(&[2, 2], &[1.0, 10.0, 100.0, 1000.0]);
    let blocks = dequantize(21, Int8, Float, blocks).with(int("axis", -1));
    assert_eq!(
        blocks.with(int("block_size", 3)).run(&x),
        [1.0, 2.0, 3.0, 40.0, 500.0, 600.0, 700.0, 8000.0]
    );
    // One element is for all of x, whatever the attributes say.
    let one = dequantize(21, Int8, Float, scale(&[1, 1, 1], &[2.0])).with(int("axis", 7));
    assert_eq!(one.with(int("block_size", 5)).run(&x)[7], 16.0);
}

/// 16-bit quotients of these by 0.02084, whose operands are rounded as well, are 31, 134 and 254
/// (onnx's evaluator and ONNX Runtime).
#[test]
fn a_narrow_precision_is_of_the_operands_too() {
    let x = [-0.656375f32, 2.80515, -5.305536, 0.0];
    let site = |of_x| {
        let constants = vec![scalar("scale", Float, 0.02084), scalar("zero", Int16, 0.0)];
        Site { shape: vec![4], ..quantize(23, of_x, Int16, constants) }
    };
    for of_x in [Float, Float16] {
        let half = site(of_x).with(int("precision", Float16 as i64));
        assert_eq!(half.run(&x), [-31., 134., -254., 0.], "{of_x}");
    }
    assert_eq!(site(Float).run(&x), [-31., 135., -255., 0.]);
}

#[test]
fn the_scale_and_the_zero_point_may_be_computed() -> TractResult<()> {
    let outputs = Sketch::new()
        .input("x", Float, &[2, 3])
        .input("s", Float, &[3])
        .input("z", Int8, &[3])
        .node("QuantizeLinear", &["x", "s", "z"], &["q"], vec![])
        .node("DequantizeLinear", &["q", "s", "z"], &["y"], vec![])
        .output("q", Int8, &[2, 3])
        .output("y", Float, &[2, 3])
        .run(vec![
            Tensor::from_shape(&[2, 3], &[1f32, 2.0, 3.0, 4.0, 500.0, 6.0])?,
            tensor1(&[0.5f32, 1.0, 4.0]),
            tensor1(&[0i8, -10, 3]),
        ])?;
    assert_eq!(outputs[0], Tensor::from_shape(&[2, 3], &[2i8, -8, 4, 8, 127, 5])?);
    assert_eq!(outputs[1], Tensor::from_shape(&[2, 3], &[1f32, 2.0, 4.0, 4.0, 137.0, 8.0])?);
    Ok(())
}

#[test]
fn weights_are_folded_when_the_model_is_loaded() -> TractResult<()> {
    let sketch = Sketch::new()
        .input("x", Float, &[1, 4])
        .initializer(shaped("w", Int4, &[4, 2], &[1.0, -8.0, 2.0, 7.0, 3.0, 0.0, 4.0, 1.0]))
        .initializer(shaped("s", Float16, &[2, 2], &[0.5, 1.0, 2.0, 4.0]))
        .node("DequantizeLinear", &["w", "s"], &["d"], vec![int("axis", 0), int("block_size", 2)])
        .cast("d", Float, "f")
        .node("MatMul", &["x", "f"], &["y"], vec![])
        .output("y", Float, &[1, 2]);
    let model = sketch.load()?.into_optimized()?;
    let quantizers = model.nodes.iter().filter(|node| node.op.name().contains("Linear"));
    assert_eq!(quantizers.count(), 0);
    let x = tensor2(&[[1f32, 1.0, 1.0, 1.0]]).into_tvalue();
    assert_eq!(*model.into_runnable()?.run(tvec!(x))?[0], tensor2(&[[15.5f32, 3.0]]));
    Ok(())
}

/// Stock tract makes a table of 256 codes of what stands between the two, as if a Softmax looked at
/// one element.
#[test]
fn a_softmax_between_two_quantisers_sees_its_row() -> TractResult<()> {
    let outputs = Sketch::new()
        .input("x", Uint8, &[1, 4])
        .initializer(scalar("s", Float, 0.5))
        .initializer(scalar("z", Uint8, 0.0))
        .initializer(scalar("t", Float, 1.0 / 256.0))
        .node("DequantizeLinear", &["x", "s", "z"], &["d"], vec![])
        .node("Softmax", &["d"], &["m"], vec![])
        .node("QuantizeLinear", &["m", "t", "z"], &["y"], vec![])
        .output("y", Uint8, &[1, 4])
        .run(vec![tensor2(&[[4u8, 4, 4, 4]])])?;
    assert_eq!(outputs[0], tensor2(&[[64u8, 64, 64, 64]]));
    Ok(())
}

#[test]
fn operators_of_one_element_between_two_quantisers_are_a_table() -> TractResult<()> {
    for (ty, zero) in [(Uint8, 100.0), (Int8, -20.0), (Int4, 2.0), (Float8E4M3FN, 0.0)] {
        let sketch = |inner: &str| {
            let sketch = Sketch::new()
                .input("x", ty, &[2, 8])
                .initializer(scalar("s", Float, 0.05))
                .initializer(scalar("z", ty, zero))
                .initializer(scalar("t", Float, 0.01))
                .initializer(scalar("u", Int8, -5.0))
                .node("DequantizeLinear", &["x", "s", "z"], &["d"], vec![]);
            let sketch = match inner {
                // An output on the way keeps the nodes.
                "kept" => {
                    sketch.node("Sigmoid", &["d"], &["m"], vec![]).output("m", Float, &[2, 8])
                }
                inner => sketch.node(inner, &["d"], &["m"], vec![]),
            };
            let sketch = sketch.node("QuantizeLinear", &["m", "t", "u"], &["y"], vec![]);
            sketch.output("y", Int8, &[2, 8])
        };
        let names = |inner| -> TractResult<Vec<String>> {
            let model = sketch(inner).load()?.into_optimized()?;
            let nodes = model.nodes.iter().map(|node| node.op.name().into_owned());
            Ok(nodes.filter(|name| !matches!(&**name, "Source" | "Const")).collect())
        };
        assert_eq!(names("Sigmoid")?, ["OnnxCodeTable"]);
        assert_eq!(names("Identity")?, ["OnnxCodeTable"]);
        assert_eq!(names("kept")?.len(), 3);
        let values: Vec<f32> = (0..16).map(|i| i as f32 * 5.5 - 40.0).collect();
        let x = from_f32(&tensor1(&values), ty, Rules::default())?.into_shape(&[2, 8])?;
        let table = sketch("Sigmoid").run(vec![x.clone()])?;
        assert_eq!(table[0], sketch("kept").run(vec![x])?[1]);
    }
    Ok(())
}

/// tract's change of a model's float precision takes the quantisers' floats with it.
#[test]
fn quantisers_follow_a_change_of_precision() -> TractResult<()> {
    let mut model = Sketch::new()
        .input("x", Float, &[3])
        .initializer(scalar("s", Float, 0.5))
        .initializer(scalar("z", Uint8, 100.0))
        .node("QuantizeLinear", &["x", "s", "z"], &["q"], vec![])
        .node("DequantizeLinear", &["q", "s", "z"], &["y"], vec![])
        .output("y", Float, &[3])
        .load()?
        .into_typed()?;
    let transform = tract_onnx::tract_core::transform::get_transform("f32_to_f16")?;
    transform.expect("tract's transform").transform(&mut model)?;
    let x = tensor1(&[1.25f32, -3.0, 1e4]).cast_to::<f16>()?.into_owned().into_tvalue();
    let want = tensor1(&[1f32, -3.0, 77.5]);
    for model in [model.clone(), model.into_optimized()?] {
        let y = model.into_runnable()?.run(tvec!(x.clone()))?.remove(0);
        assert_eq!(y.datum_type(), DatumType::F16);
        assert_eq!(*y.cast_to::<f32>()?, want);
    }
    Ok(())
}

#[test]
fn there_may_be_nothing_to_quantise() {
    let none = |dims: &[usize]| shaped("s", Float16, dims, &[]);
    let mut site = quantize(23, Float, Uint8, vec![none(&[0])]);
    site.shape = vec![2, 0];
    assert!(site.run(&[]).is_empty());
    let blocks = dequantize(23, Int8, Float16, vec![none(&[2, 0])]).with(int("block_size", 3));
    assert!(Site { shape: vec![2, 0], ..blocks }.run(&[]).is_empty());
}

#[test]
fn axes_may_change_around_a_quantiser() -> TractResult<()> {
    let run = |attributes: Vec<AttributeProto>, scale: TensorProto| {
        Sketch::new()
            .input("x", Float, &[2, 3, 4])
            .initializer(scale)
            .initializer(int64("shape", &[4, 6]))
            .node("Transpose", &["x"], &["t"], vec![ints("perm", &[2, 0, 1])])
            .node("QuantizeLinear", &["t", "s"], &["q"], attributes.clone())
            .node("Transpose", &["q"], &["u"], vec![ints("perm", &[1, 2, 0])])
            .node("DequantizeLinear", &["u", "s"], &["d"], attributes)
            .node("Reshape", &["q", "shape"], &["r"], vec![])
            .output("d", Float, &[2, 3, 4])
            .output("r", Uint8, &[4, 6])
            .run(vec![Tensor::from_shape(&[2, 3, 4], &[12f32; 24])?])
    };
    let outputs = run(vec![int("axis", 2)], shaped("s", Float, &[1], &[4.0]))?;
    assert_eq!(outputs[0], Tensor::from_shape(&[2, 3, 4], &[12f32; 24])?);
    assert_eq!(outputs[1], Tensor::from_shape(&[4, 6], &[3u8; 24])?);
    Ok(())
}

#[test]
fn a_scale_for_each_index_follows_its_axis() -> TractResult<()> {
    let sketch = |turns: bool| {
        let sketch = Sketch::new()
            .input("x", Float, &[2, 3, 4])
            .initializer(shaped("s", Float, &[3], &[0.5, 1.0, 4.0]))
            .initializer(shaped("z", Uint8, &[3], &[1.0, 20.0, 30.0]))
            .initializer(int64("start", &[1]))
            .initializer(int64("end", &[3]));
        let sketch = if !turns {
            sketch.node("QuantizeLinear", &["x", "s", "z"], &["q"], vec![])
        } else {
            sketch
                .node("Transpose", &["x"], &["t"], vec![ints("perm", &[2, 0, 1])])
                .node("QuantizeLinear", &["t", "s", "z"], &["u"], vec![int("axis", -1)])
                .node("Transpose", &["u"], &["q"], vec![ints("perm", &[1, 2, 0])])
        };
        sketch
            .node("DequantizeLinear", &["q", "s", "z"], &["d"], vec![])
            .node("Slice", &["d", "start", "end", "start"], &["c"], vec![])
            .node("Slice", &["d", "start", "end", "end_axis"], &["e"], vec![])
            .initializer(int64("end_axis", &[2]))
            .output("d", Float, &[2, 3, 4])
            .output("c", Float, &[2, 2, 4])
            .output("e", Float, &[2, 3, 2])
    };
    let x: Vec<f32> = (0..24).map(|i| i as f32 * 1.7 - 9.0).collect();
    let run = |turns| sketch(turns).run(vec![Tensor::from_shape(&[2, 3, 4], &x)?]);
    let (straight, turned) = (run(false)?, run(true)?);
    assert_eq!(straight, turned);
    let scale = |index: usize| [0.5f32, 1.0, 4.0][index / 4 % 3];
    let zero = |index: usize| [1f32, 20.0, 30.0][index / 4 % 3];
    let want = |(index, x): (usize, &f32)| {
        let code = (x / scale(index)).round_ties_even() + zero(index);
        (code.clamp(0.0, 255.0) - zero(index)) * scale(index)
    };
    let want: Vec<f32> = x.iter().enumerate().map(want).collect();
    let want = Tensor::from_shape(&[2, 3, 4], &want)?;
    assert_eq!(turned[0], want);
    assert_eq!(turned[1], want.slice(1, 1, 3)?);
    assert_eq!(turned[2], want.slice(2, 1, 3)?);
    let model = sketch(true).load()?.into_optimized()?;
    let moves = model.nodes.iter().filter(|node| node.op.name().contains("Axis"));
    assert_eq!(moves.count(), 0);
    Ok(())
}

#[test]
fn exotic_models_keep_their_types() -> TractResult<()> {
    let model = Sketch::new()
        .input("x", BFloat16, &[3])
        .initializer(scalar("s", BFloat16, 2.0))
        .initializer(scalar("z", Float8E4M3FN, 0.0))
        .node("QuantizeLinear", &["x", "s", "z"], &["q"], vec![])
        .node("DequantizeLinear", &["q", "s"], &["y"], vec![])
        .output("q", Float8E4M3FN, &[3])
        .output("y", BFloat16, &[3])
        .load()?
        .into_optimized()?;
    assert_eq!(output_element_types(&model)?, [Float8E4M3FN, BFloat16]);
    let x = from_f32(&tensor1(&[1f32, -3.0, 1e4]), BFloat16, Rules::default())?.into_tvalue();
    let outputs = model.into_runnable()?.run(tvec!(x))?;
    assert_eq!(to_f32(&outputs[1], BFloat16)?, tensor1(&[1f32, -3.0, 896.0]));
    Ok(())
}

#[test]
fn what_a_version_does_not_have_is_refused() {
    let scale = |ty| scalar("s", ty, 1.0);
    let cases = [
        (
            quantize(9, Float, Uint8, vec![scale(Float)]),
            "node `QuantizeLinear_y` (QuantizeLinear): needs opset 10, the model imports 9",
        ),
        (
            quantize(18, Float16, Uint8, vec![scale(Float)]),
            "node `QuantizeLinear_y` (QuantizeLinear): x of type FLOAT16 needs opset 19, the model imports 18",
        ),
        (
            quantize(21, Float, Uint8, vec![scale(Float16)]),
            "node `QuantizeLinear_y` (QuantizeLinear): scale of type FLOAT16 beside x of type FLOAT needs opset 23, \
             the model imports 21",
        ),
        (
            dequantize(23, Int8, Float, vec![scale(Float8E8M0)]).with(int("output_dtype", 1)),
            "node `DequantizeLinear_y` (DequantizeLinear): scale of type FLOAT8E8M0 needs opset 24, the model \
             imports 23",
        ),
        (
            dequantize(20, Int4, Float, vec![scale(Float)]),
            "node `DequantizeLinear_y` (DequantizeLinear): x of type INT4 needs opset 21, the model imports 20",
        ),
        (
            dequantize(24, Int8, Float, vec![scale(Float8E8M0)]),
            "node `DequantizeLinear_y`: attribute `output_dtype` is missing, and the scale is FLOAT8E8M0, which y \
             cannot be (DequantizeLinear), the model imports 24",
        ),
        (
            dequantize(25, Float8E8M0, Float, vec![scale(Float)]),
            "node `DequantizeLinear_y` (DequantizeLinear): x of type FLOAT8E8M0 is no type of it in any opset, the \
             model imports 25",
        ),
        (
            quantize(10, Float, Uint8, vec![scale(Float)]).with(int("axis", 1)),
            "node `QuantizeLinear_y`: attribute `axis` needs opset 13 (QuantizeLinear), the model imports 10",
        ),
        (
            quantize(18, Float, Uint8, vec![scale(Float)]).with(int("saturate", 1)),
            "node `QuantizeLinear_y`: attribute `saturate` needs opset 19 (QuantizeLinear), the model imports 18",
        ),
        (
            dequantize(23, Int8, Float, vec![scale(Float)]).with(int("saturate", 1)),
            "node `DequantizeLinear_y`: attribute `saturate` is unknown in every opset (DequantizeLinear), the model \
             imports 23",
        ),
        (
            dequantize(21, Int8, Float, vec![scale(Float)]).with(int("output_dtype", 1)),
            "node `DequantizeLinear_y`: attribute `output_dtype` needs opset 23 (DequantizeLinear), the model imports \
             21",
        ),
        (
            quantize(23, Float, Uint8, vec![scale(Float)]).with(int("precision", 11)),
            "node `QuantizeLinear_y`: attribute `precision` is 11 (DOUBLE), which is no precision of this operator \
             (QuantizeLinear), the model imports 23",
        ),
        (
            quantize(23, Float, Uint8, vec![scale(Float)]).with(int("output_dtype", 25)),
            "node `QuantizeLinear_y`: attribute `output_dtype` asks for UINT2, which needs opset 25 (QuantizeLinear), \
             the model imports 23",
        ),
        (
            quantize(21, Float, Uint8, vec![scale(Float), scalar("z", Uint8, 0.0)])
                .with(int("output_dtype", 3)),
            "node `QuantizeLinear_y`: attribute `output_dtype` is INT8, and the zero point is UINT8 (QuantizeLinear), \
             the model imports 21",
        ),
        (
            dequantize(21, Int8, Float, vec![scale(Float), scalar("z", Uint8, 0.0)]),
            "node `DequantizeLinear_y` (DequantizeLinear): zero point of type UINT8 beside x of type INT8, the model \
             imports 21",
        ),
        (
            quantize(21, Float, Uint8, vec![scale(Float)]).with(int("block_size", -1)),
            "node `QuantizeLinear_y`: attribute `block_size` is -1, below 0 (QuantizeLinear), the model imports 21",
        ),
        (
            quantize(21, Float, Uint8, vec![scale(Float)]).with(float("axis", 1.0)),
            "node `QuantizeLinear_y`: attribute `axis` must be an INT, is FLOAT (QuantizeLinear), the model imports 21",
        ),
    ];
    for (site, expected) in cases {
        assert_eq!(site.refusal(), expected);
    }
}

#[test]
fn scales_and_zero_points_that_do_not_fit_are_refused() {
    let scale = |dims: &[usize]| shaped("s", Float, dims, &vec![1.0; dims.iter().product()]);
    let refusal = |site: Site| {
        let refusal = site.refusal();
        assert!(refusal.contains("_y` (") && refusal.contains("opset 21"), "{refusal}");
        refusal
    };
    let at = |axis: i64, block: i64, dims: &[usize]| {
        let site = dequantize(21, Int8, Float, vec![scale(dims)]);
        refusal(site.with(int("axis", axis)).with(int("block_size", block)))
    };
    assert!(at(1, 0, &[3]).contains("a scale of shape [3] fits neither x of shape [2, 4]"));
    assert!(at(2, 0, &[4]).contains("attribute `axis` is 2, and x has rank 2"));
    assert!(at(-3, 0, &[2]).contains("attribute `axis` is -3, and x has rank 2"));
    assert!(at(1, 0, &[2, 2]).contains("[2, 2]"));
    assert!(at(1, 3, &[2, 4]).contains("`block_size` 3 along axis 1"));
    assert!(at(1, i64::MAX, &[2, 2]).contains("does not fit `block_size`"));
    let zeros = |ty, values: &[f32]| tensor("z", ty, values);
    let float8 = quantize(21, Float, Float8E4M3FN, vec![scale(&[]), zeros(Float8E4M3FN, &[1.0])]);
    assert!(refusal(float8).contains("can only be 0"));
    let int32 = dequantize(21, Int32, Float, vec![scale(&[]), zeros(Int32, &[1.0])]);
    assert!(refusal(int32).contains("can only be 0"));
    let zero = raw("z", Float8E4M3FN as i32, &[], &[0x80]);
    let negative_zero = quantize(21, Float, Float8E4M3FN, vec![scale(&[]), zero]);
    assert_eq!(negative_zero.run(&X)[2], 1.5);
}

#[test]
fn a_scale_of_a_product_may_be_a_number_beside_a_zero_point_that_is_a_list() -> TractResult<()> {
    let values = [("as", 0.5), ("az", 2.0), ("bs", 0.25), ("bz", -1.0), ("ys", 0.5), ("yz", 10.0)];
    let types = [Float, Uint8, Float, Int8, Float, Uint8];
    // (3 - 2, 6 - 2) · (1 + 1, 3 + 1) · 0.5 · 0.25 / 0.5 is 4.5, which becomes 4.
    for lists in 0..1 << values.len() {
        let constants = values.iter().zip(types).enumerate().map(|(place, ((name, value), ty))| {
            let dims: &[usize] = if lists >> place & 1 == 1 { &[1] } else { &[] };
            shaped(name, ty, dims, &[*value])
        });
        let mut sketch = Sketch::new().input("a", Uint8, &[1, 2]);
        for constant in constants {
            sketch = sketch.initializer(constant);
        }
        let inputs = ["a", "as", "az", "b", "bs", "bz", "ys", "yz"];
        let made = sketch
            .initializer(shaped("b", Int8, &[2, 1], &[1.0, 3.0]))
            .node("QLinearMatMul", &inputs, &["y"], vec![])
            .output("y", Uint8, &[1, 1])
            .run(vec![tensor2(&[[3u8, 6]])])?;
        assert_eq!(made, [tensor2(&[[14u8]])], "{lists:06b}");
    }
    Ok(())
}

#[test]
fn a_constant_scale_of_a_product_takes_the_form_of_a_zero_point_that_is_data() -> TractResult<()> {
    for [scale, zero] in [[0, 0], [0, 1], [1, 0], [1, 1]] {
        let dims = |list: i64| if list == 1 { &[1][..] } else { &[][..] };
        let shape: Vec<i64> = dims(zero).iter().map(|size: &usize| *size as i64).collect();
        let inputs = ["a", "s", "z", "b", "bs", "bz", "s", "z"];
        let made = Sketch::new()
            .input("a", Int8, &[1, 2])
            .input("bz", Int8, &shape)
            .initializer(shaped("s", Float, &[], &[1.0]))
            .initializer(shaped("z", Int8, &[1], &[0.0]))
            .initializer(shaped("bs", Float, dims(scale), &[1.0]))
            .initializer(shaped("b", Int8, &[2, 1], &[1.0, 3.0]))
            .node("QLinearMatMul", &inputs, &["y"], vec![])
            .output("y", Int8, &[1, 1])
            .run(vec![tensor2(&[[3i8, 6]]), Tensor::from_shape(dims(zero), &[-1i8])?])?;
        assert_eq!(made, [tensor2(&[[30i8]])], "{scale} {zero}");
    }
    Ok(())
}
