//! Memory of weights: a plan holds each once, in no more bits than the file where a product can
//! take them so, and loading it takes little more than the plan. The results are those of the same
//! weights in FLOAT, bit for bit.

use std::fs;

use test_tools::tempfile;
use tract_onnx::pb::{ModelProto, TensorProto};
use tract_onnx::prelude::*;
use tract_onnx_cast::ElementType::{BFloat16, Bool, Float, Float16, Int4, Int64, Uint4, Uint8};
use tract_onnx_cast::interpreter::Interpreter;
use tract_onnx_cast::{ElementType, OnnxTensor, Rules, from_f32, onnx, tensor_proto};

use crate::common::proto::{Sketch, bytes, graph_attribute, int, ints, raw};
use crate::{PEAK, alone};

/// Neither is a multiple of what the kernels take at once, nor K of a block.
pub const N: usize = 1501;
pub const K: usize = 1000;
pub const BLOCK: usize = 32;

pub fn numbers(count: usize) -> Vec<f32> {
    (0..count).map(|place| ((place * 31 + place / 7) % 2039) as f32 / 1024.0 - 1.0).collect()
}

fn shaped(name: &str, ty: ElementType, dims: [usize; 2], values: &[f32]) -> TensorProto {
    let carrier = from_f32(&tensor1(values), ty, Rules::default()).expect("a conversion");
    let carrier = carrier.into_shape(&dims).expect("as many values");
    tensor_proto::write(name, ty, &carrier).expect("a tensor")
}

/// A product with x of so many rows.
fn product(rows: usize, sketch: impl FnOnce(Sketch) -> Sketch) -> ModelProto {
    let x = Sketch::new().input("x", Float, &[rows as i64, K as i64]);
    sketch(x).output("y", Float, &[rows as i64, N as i64]).model()
}

/// With weights of a type, which are cast.
pub fn cast(rows: usize, ty: ElementType) -> ModelProto {
    product(rows, |sketch| {
        let sketch = sketch.initializer(shaped("w", ty, [K, N], &numbers(K * N)));
        sketch.cast("w", Float, "f").node("MatMul", &["x", "f"], &["y"], vec![])
    })
}

/// With weights that numbers of half precision have, in FLOAT.
pub fn plain(rows: usize, ty: ElementType) -> ModelProto {
    let rounded = from_f32(&tensor1(&numbers(K * N)), ty, Rules::default()).expect("a conversion");
    let wide = tract_onnx_cast::to_f32(&rounded, ty).expect("numbers");
    let view = wide.try_as_plain_ram().expect("numbers");
    let weights = shaped("w", Float, [K, N], view.as_slice().expect("numbers"));
    product(rows, |sketch| sketch.initializer(weights).node("MatMul", &["x", "w"], &["y"], vec![]))
}

pub const BLOCKS: usize = K.div_ceil(BLOCK);

fn code(place: usize, bits: usize) -> u8 {
    ((place * 29 + place / 11) % (1 << bits)) as u8
}

fn scale(place: usize) -> f32 {
    // No FLOAT16 number.
    (place % 13 + 1) as f32 * 0.1
}

/// With codes of so many bits.
pub fn codes(rows: usize, bits: usize, has_zeros: bool) -> ModelProto {
    let each = 8 / bits;
    let byte = |place: usize| {
        (0..each).fold(0, |byte, part| byte | code(place * each + part, bits) << (part * bits))
    };
    let codes: Vec<u8> = (0..N * BLOCKS * BLOCK / each).map(byte).collect();
    let zeros = BLOCKS.div_ceil(each);
    let dims = [N as i64, BLOCKS as i64, (BLOCK / each) as i64];
    let scales: Vec<f32> = (0..N * BLOCKS).map(scale).collect();
    let names = if has_zeros { vec!["x", "w", "s", "z"] } else { vec!["x", "w", "s"] };
    let attributes = [("K", K), ("N", N), ("bits", bits), ("block_size", BLOCK)];
    let attributes = attributes.map(|(name, value)| int(name, value as i64)).to_vec();
    product(rows, |sketch| {
        sketch
            .initializer(raw("w", Uint8 as i32, &dims, &codes))
            .initializer(shaped("s", Float, [N, BLOCKS], &scales))
            .initializer(raw("z", Uint8 as i32, &[N as i64, zeros as i64], &vec![1; N * zeros]))
            .node("com.microsoft.MatMulNBits", &names, &["y"], attributes)
    })
}

/// The same in FLOAT.
pub fn decoded(rows: usize, bits: usize, has_zeros: bool) -> ModelProto {
    let mut weights = vec![0.0; K * N];
    for n in 0..N {
        for k in 0..K {
            let block = n * BLOCKS + k / BLOCK;
            // A zero point is 1 where it is the first of its byte, and 0 else.
            let is_first = (k / BLOCK).is_multiple_of(8 / bits);
            let middle = (1 << (bits - 1)) as f32;
            let zero = if has_zeros { f32::from(u8::from(is_first)) } else { middle };
            let code = code(n * BLOCKS * BLOCK + k, bits);
            weights[k * N + n] = (f32::from(code) - zero) * scale(block);
        }
    }
    let weights = shaped("w", Float, [K, N], &weights);
    product(rows, |sketch| sketch.initializer(weights).node("MatMul", &["x", "w"], &["y"], vec![]))
}

/// How scales are spread over weights of K rows, or of N where they are turned.
#[derive(Debug, Clone, Copy)]
pub enum Spread {
    Blocks,
    Columns,
    Tensor,
}

/// Weights that a DequantizeLinear makes, K × N, or N × K before a Transpose.
#[derive(Debug, Clone, Copy)]
pub struct Dequantized {
    pub ty: ElementType,
    pub spread: Spread,
    pub is_turned: bool,
    pub has_zeros: bool,
}

impl Dequantized {
    fn scale_dims(self) -> Vec<usize> {
        match (self.spread, self.is_turned) {
            (Spread::Blocks, false) => vec![BLOCKS, N],
            (Spread::Blocks, true) => vec![N, BLOCKS],
            (Spread::Columns, _) => vec![N],
            (Spread::Tensor, _) => vec![],
        }
    }

    fn scales(self) -> usize {
        self.scale_dims().iter().product()
    }

    fn scale_at(self, k: usize, n: usize) -> usize {
        match (self.spread, self.is_turned) {
            (Spread::Blocks, false) => k / BLOCK * N + n,
            (Spread::Blocks, true) => n * BLOCKS + k / BLOCK,
            (Spread::Columns, _) => n,
            (Spread::Tensor, _) => 0,
        }
    }

    fn least(self) -> i32 {
        if self.ty == Int4 { -8 } else { 0 }
    }

    fn zero(self, place: usize) -> f32 {
        if self.has_zeros { (self.least() + (place % 3) as i32) as f32 } else { 0.0 }
    }

    /// The codes as they lie, or the weights that they stand for, K × N.
    fn weights(self, is_float: bool) -> TensorProto {
        let is_turned = self.is_turned && !is_float;
        let mut weights = vec![0.0; K * N];
        for (k, n) in (0..K).flat_map(|k| (0..N).map(move |n| (k, n))) {
            let code = (self.least() + ((k * 29 + n * 7 + n / 11) % 16) as i32) as f32;
            let at = self.scale_at(k, n);
            let place = if is_turned { n * K + k } else { k * N + n };
            weights[place] = if is_float { (code - self.zero(at)) * scale(at) } else { code };
        }
        let size = if is_turned { [N, K] } else { [K, N] };
        if is_float {
            shaped("f", Float, size, &weights)
        } else {
            shaped("w", self.ty, size, &weights)
        }
    }

    /// The FLOAT weights as they are made of codes.
    fn dequantize(self, sketch: Sketch) -> Sketch {
        let axis = match (self.spread, self.is_turned) {
            (Spread::Columns, false) | (Spread::Blocks, true) => 1,
            _ => 0,
        };
        let mut attributes = vec![int("axis", axis)];
        if matches!(self.spread, Spread::Blocks) {
            attributes.push(int("block_size", BLOCK as i64));
        }
        let parameter = |name: &str, ty, value: &dyn Fn(usize) -> f32| {
            let values: Vec<f32> = (0..self.scales()).map(value).collect();
            let carrier = from_f32(&tensor1(&values), ty, Rules::default()).expect("a conversion");
            let carrier = carrier.into_shape(&self.scale_dims()).expect("as many values");
            tensor_proto::write(name, ty, &carrier).expect("a tensor")
        };
        let names = if self.has_zeros { vec!["w", "s", "z"] } else { vec!["w", "s"] };
        sketch
            .initializer(self.weights(false))
            .initializer(parameter("s", Float, &scale))
            .initializer(parameter("z", self.ty, &|place| self.zero(place)))
            .node("DequantizeLinear", &names, &["f"], attributes)
    }

    pub fn model(self, rows: usize, is_float: bool) -> ModelProto {
        product(rows, |sketch| {
            let sketch = if is_float {
                sketch.initializer(self.weights(true))
            } else {
                self.dequantize(sketch)
            };
            if self.is_turned && !is_float {
                let sketch = sketch.node("Transpose", &["f"], &["t"], vec![ints("perm", &[1, 0])]);
                return sketch.node("MatMul", &["x", "t"], &["y"], vec![]);
            }
            sketch.node("MatMul", &["x", "f"], &["y"], vec![])
        })
    }
}

/// What comes of a model's file: its output, and the bytes that its plan holds, the most that it
/// took on the way, and the most while it runs.
pub fn run(input: &Tensor, model: &ModelProto) -> TractResult<(Vec<u32>, [usize; 3])> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("model.onnx");
    fs::write(&file, bytes(model))?;
    let before = PEAK.current_usage();
    PEAK.reset_peak_usage();
    let plan = onnx().model_for_path(&file)?.into_optimized()?.into_runnable()?;
    let held = PEAK.current_usage().saturating_sub(before);
    let most = PEAK.peak_usage().saturating_sub(before);
    PEAK.reset_peak_usage();
    let outputs = plan.run(tvec!(input.clone().into_tvalue()))?;
    let running = PEAK.peak_usage().saturating_sub(before);
    let mut bits = vec![];
    for output in &outputs {
        let output = output.try_as_plain_ram()?;
        bits.extend(output.as_slice::<f32>()?.iter().map(|y| y.to_bits()));
    }
    Ok((bits, [held, most, running]))
}

fn x(rows: usize) -> Tensor {
    tensor1(&numbers(rows * K)).into_shape(&[rows, K]).expect("as many values")
}

/// What is there once, whatever model is loaded first.
pub fn warm() {
    run(&x(1), &plain(1, Float16)).expect("a model");
}

/// A model, the same in FLOAT, how many bytes of its file are of the weights, and how many times as
/// many loading may take.
pub fn check(
    what: &str,
    rows: usize,
    [model, float]: [&ModelProto; 2],
    weights: usize,
    most_of_weights: f64,
) {
    let (expected, [of_float, most_of_float, _]) = run(&x(rows), float).expect(what);
    let (found, [held, most, _]) = run(&x(rows), model).expect(what);
    assert!(found == expected, "{what} of {rows} rows: other bits");
    let of = |bytes: usize, weights: usize| bytes as f64 / weights as f64;
    let own = [of(held, weights), of(most, weights)];
    let floats = [of(of_float, N * K * 4), of(most_of_float, N * K * 4)];
    println!("{what}, {rows} rows: {own:.2?} of the file's weights, FLOAT {floats:.2?}");
    assert!(floats[0] < 1.1 && floats[1] < 2.1, "FLOAT: {floats:?}");
    // Rows that are more than the weights have are the product's first operand.
    if rows < N {
        let is_little = own[0] < 1.15 && own[1] < most_of_weights;
        assert!(is_little, "{what} of {rows} rows: {own:?}");
    }
}

#[test]
fn weights_of_half_precision_stay_so() {
    let _alone = alone();
    warm();
    for ty in [Float16, BFloat16] {
        for rows in [1, 5, 64, N + 3] {
            check(ty.name(), rows, [&cast(rows, ty), &plain(rows, ty)], N * K * 2, 3.4);
        }
    }
}

#[test]
fn weights_of_few_bits_stay_so() {
    let _alone = alone();
    warm();
    for (bits, has_zeros) in [(4, false), (4, true), (8, true)] {
        for rows in [1, 5, 64, N + 3] {
            let model = codes(rows, bits, has_zeros);
            // With the scales, and a byte for each zero point.
            let weights = N * BLOCKS * (BLOCK * bits / 8 + 5);
            let what = format!("{bits} bits");
            check(&what, rows, [&model, &decoded(rows, bits, has_zeros)], weights, 3.4);
        }
    }
}

#[test]
fn dequantized_weights_stay_in_few_bits() {
    let _alone = alone();
    warm();
    let kinds = [
        (Int4, Spread::Blocks, false, false),
        (Int4, Spread::Blocks, true, true),
        (Uint4, Spread::Blocks, false, true),
        (Int4, Spread::Columns, false, false),
        (Uint4, Spread::Tensor, true, true),
    ];
    for (ty, spread, is_turned, has_zeros) in kinds {
        let weights = Dequantized { ty, spread, is_turned, has_zeros };
        for rows in [1, 5, 64, N + 3] {
            // With the scales, and a byte for each zero point.
            let bytes = N * K / 2 + weights.scales() * 5;
            let what = format!("{weights:?}");
            let models = [&weights.model(rows, false), &weights.model(rows, true)];
            // A tensor of tract's has a byte for each code, while the model is loaded.
            check(&what, rows, models, bytes, 5.0);
        }
    }
}

/// The columns of K rows that are the vocabulary of a language model.
const MANY: usize = 17_000;

/// A product by more weights than there is room for beside what is packed of them, K × `MANY` or
/// the other way round.
fn head(is_turned: bool) -> ModelProto {
    let dims = if is_turned { [MANY, K] } else { [K, MANY] };
    let sketch = Sketch::new().input("x", Float, &[3, K as i64]).initializer(shaped(
        "w",
        Float,
        dims,
        &numbers(K * MANY),
    ));
    let sketch = if is_turned {
        sketch.node("Gemm", &["x", "w"], &["y"], vec![int("transB", 1)])
    } else {
        sketch.node("MatMul", &["x", "w"], &["y"], vec![])
    };
    sketch.output("y", Float, &[3, MANY as i64]).model()
}

#[test]
fn very_large_weights_are_packed_as_they_are_read() {
    let _alone = alone();
    warm();
    for is_turned in [false, true] {
        let model = head(is_turned);
        let plan = onnx().model_for_proto_model(&model).and_then(|model| model.into_optimized());
        let plan = plan.and_then(|model| model.into_runnable()).expect("weights in memory");
        let outputs = plan.run(tvec!(x(3).into_tvalue())).expect("a product");
        drop(plan);
        let (found, taken) = run(&x(3), &model).expect("weights in a file");
        let expected = outputs[0].try_as_plain_ram().expect("numbers");
        let expected = expected.as_slice::<f32>().expect("FLOAT").iter().map(|y| y.to_bits());
        assert!(expected.eq(found), "turned {is_turned}: other bits");
        let [held, most, _] = taken.map(|bytes| bytes as f64 / (MANY * K * 4) as f64);
        println!("a product alone, turned {is_turned}: {held:.2} held, {most:.2} at most");
        assert!(held < 1.1 && most < 1.15, "turned {is_turned}: {held} {most}");
    }
}

/// A loop that goes round three times, by a weight of its body's.
fn looped() -> ModelProto {
    let body = Sketch::new()
        .input("i", Int64, &[])
        .input("c", Bool, &[])
        .input("v", Float, &[1, K as i64])
        .initializer(shaped("w", Float, [K, N], &numbers(K * N)))
        .node("MatMul", &["v", "w"], &["u"], vec![])
        .node("Identity", &["c"], &["again"], vec![])
        .node("Identity", &["v"], &["kept"], vec![])
        .output("again", Bool, &[])
        .output("kept", Float, &[1, K as i64])
        .output("u", Float, &[1, N as i64]);
    Sketch::new()
        .input("x", Float, &[1, K as i64])
        .initializer(raw("n", Int64 as i32, &[], &3i64.to_le_bytes()))
        .node("Loop", &["n", "", "x"], &["z", "y"], vec![graph_attribute("body", body.0)])
        .output("y", Float, &[3, 1, N as i64])
        .model()
}

/// Of a weight in a body's message there were six: what is read and decoded of the message, twice
/// as nested messages grow.
#[test]
fn a_weight_of_a_body_stays_in_the_file() -> tract_onnx_cast::Result<()> {
    let _alone = alone();
    warm();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("model.onnx");
    fs::write(&file, bytes(&looped())).expect("a file");
    let of = |bytes: usize| bytes as f64 / (N * K * 4) as f64;
    let before = PEAK.current_usage();
    PEAK.reset_peak_usage();
    let model = Interpreter::open(onnx(), &file)?;
    let opened = of(PEAK.peak_usage().saturating_sub(before));
    model.run(vec![OnnxTensor::new(Float, x(1))?])?;
    let running = of(PEAK.peak_usage().saturating_sub(before));
    println!("a weight of a body: {opened:.2} to open, {running:.2} to run");
    // It is read, and packed.
    assert!(opened < 0.1 && running < 2.2, "{opened} {running}");
    Ok(())
}

/// Rows of weights that are gathered and multiplied by the same weights, as a `Gemm` or a `MatMul`;
/// or, apart, by others of the same numbers.
fn embedding(count: usize, is_gemm: bool, is_apart: bool) -> ModelProto {
    let weights = numbers(K * N);
    let of = |row: usize| (0..N).map(move |column| column * K + row);
    let turned: Vec<f32> = (0..K).flat_map(of).map(|place| weights[place]).collect();
    let sketch = Sketch::new()
        .input("i", Int64, &[count as i64])
        .initializer(shaped("w", Float, [N, K], &weights))
        .node("Gather", &["w", "i"], &["x"], vec![]);
    let sketch = match (is_gemm, is_apart) {
        (_, true) => sketch.initializer(shaped("other", Float, [K, N], &turned)).node(
            "MatMul",
            &["x", "other"],
            &["y"],
            vec![],
        ),
        (true, _) => sketch.node("Gemm", &["x", "w"], &["y"], vec![int("transB", 1)]),
        (false, _) => sketch.node("Transpose", &["w"], &["t"], vec![]).node(
            "MatMul",
            &["x", "t"],
            &["y"],
            vec![],
        ),
    };
    sketch.output("y", Float, &[count as i64, N as i64]).model()
}

#[test]
fn weights_that_are_gathered_too_are_there_once() {
    let _alone = alone();
    warm();
    for count in [1, 7] {
        let indices: Vec<i64> = (0..count as i64).map(|place| place * 211 - 3).collect();
        let indices = tensor1(&indices);
        let (expected, _) = run(&indices, &embedding(count, false, true)).expect("two weights");
        for is_gemm in [true, false] {
            let (found, taken) =
                run(&indices, &embedding(count, is_gemm, false)).expect("one weight");
            assert!(found == expected, "{count} rows, {is_gemm}: other bits");
            let [held, most, running] = taken.map(|bytes| bytes as f64 / (N * K * 4) as f64);
            println!("tied, {count} rows: {held:.2} held, {most:.2} at most, {running:.2} to run");
            // They are packed as they are read: one MiB, and that packed, is a third of them.
            assert!(held < 1.1 && most < 1.5 && running < 1.2, "{held} {most} {running}");
        }
    }
}
