//! Products with constant weights of few bits: what they are worth, and what is kept of them.

use tract_onnx::pb::{AttributeProto, TensorProto};
use tract_onnx::prelude::*;
use tract_onnx::tract_core::ops::konst::Const;
use tract_onnx::tract_core::tract_linalg::block_quant::BlockQuantStorage;
use tract_onnx_cast::interpreter::Interpreter;
use tract_onnx_cast::{
    CastOnnx, ElementType, Error, OnnxTensor, Rules, from_f32, onnx, tensor_proto,
};

use crate::common::proto::{Sketch, int, raw};

use ElementType::{Double, Float, Float16, Int4, Int32, Uint4, Uint8};

fn shaped(name: &str, ty: ElementType, dims: &[usize], values: &[f32]) -> TensorProto {
    let carrier = from_f32(&tensor1(values), ty, Rules::default()).expect("a conversion");
    let carrier = carrier.into_shape(dims).expect("as many values");
    tensor_proto::write(name, ty, &carrier).expect("a tensor")
}

fn ints(pairs: &[(&str, i64)]) -> Vec<AttributeProto> {
    pairs.iter().map(|(name, value)| int(name, *value)).collect()
}

/// Codes of so many bits, the first in the low bits of its byte.
fn pack(codes: &[u8], bits: usize) -> Vec<u8> {
    let per_byte = 8 / bits;
    let byte =
        |codes: &[u8]| codes.iter().rev().fold(0u32, |byte, code| byte << bits | u32::from(*code));
    codes.chunks(per_byte).map(|codes| byte(codes) as u8).collect()
}

fn row(k: usize) -> Vec<f32> {
    (0..k).map(|i| ((i * 29 + 7) % 23) as f32 / 8.0 - 1.25).collect()
}

const N: usize = 3;

/// A `MatMulNBits` of weights that differ everywhere.
struct Case {
    /// The rows of x.
    rows: usize,
    n: usize,
    k: usize,
    bits: usize,
    block: usize,
    has_zeros: bool,
    order: Option<Vec<i32>>,
    /// Of the scales, all multiples of it.
    step: f32,
}

impl Case {
    fn blocks(&self) -> usize {
        self.k.div_ceil(self.block)
    }

    fn codes(&self) -> Vec<u8> {
        let all = self.n * self.blocks() * self.block;
        (0..all).map(|i| ((i * 31 + i / 7) % (1 << self.bits)) as u8).collect()
    }

    fn scales(&self) -> Vec<f32> {
        (0..self.n * self.blocks()).map(|i| (i % 5 + 1) as f32 * self.step).collect()
    }

    fn zeros(&self) -> Vec<u8> {
        let middle = 1 << (self.bits - 1);
        let own = |i: usize| ((i * 5 + 1) % (1 << self.bits)) as u8;
        (0..self.n * self.blocks()).map(|i| if self.has_zeros { own(i) } else { middle }).collect()
    }

    fn sketch(&self) -> Sketch {
        let (k, bits, block) = (self.k, self.bits, self.block);
        let bytes = pack(&self.codes(), bits);
        let dims = [self.n as i64, self.blocks() as i64, (block * bits / 8) as i64];
        let zeros: Vec<u8> =
            self.zeros().chunks(self.blocks()).flat_map(|row| pack(row, bits)).collect();
        let mut sketch = Sketch::new()
            .input("x", Float, &[self.rows as i64, k as i64])
            .initializer(raw("w", Uint8 as i32, &dims, &bytes))
            .initializer(shaped("s", Float, &[self.n * self.blocks()], &self.scales()))
            .initializer(raw("z", Uint8 as i32, &[zeros.len() as i64], &zeros));
        let zeros = if self.has_zeros { "z" } else { "" };
        let mut inputs = vec!["x", "w", "s", zeros];
        if let Some(order) = &self.order {
            let order: Vec<f32> = order.iter().map(|block| *block as f32).collect();
            sketch = sketch.initializer(shaped("g", Int32, &[order.len()], &order));
            inputs.push("g");
        }
        let attributes = [
            ("K", k as i64),
            ("N", self.n as i64),
            ("bits", bits as i64),
            ("block_size", block as i64),
        ];
        sketch.node("com.microsoft.MatMulNBits", &inputs, &["y"], ints(&attributes)).output(
            "y",
            Float,
            &[self.rows as i64, self.n as i64],
        )
    }

    fn expected(&self) -> Vec<f64> {
        let (codes, scales, zeros, x) = (self.codes(), self.scales(), self.zeros(), row(self.k));
        let product = |n: usize| (0..self.k).map(move |column| (n, column));
        let weight = |(n, column): (usize, usize)| {
            let own = n * self.blocks() * self.block + column;
            let block =
                self.order.as_ref().map_or(column / self.block, |order| order[column] as usize);
            let block = n * self.blocks() + block;
            let difference = f64::from(codes[own]) - f64::from(zeros[block]);
            difference * f64::from(scales[block]) * f64::from(x[column])
        };
        (0..self.n).map(|n| product(n).map(weight).sum()).collect()
    }
}

fn run(loader: &CastOnnx, sketch: Sketch, x: &[f32]) -> TractResult<Vec<f32>> {
    let plan = loader.model_for_proto_model(&sketch.model())?.into_optimized()?.into_runnable()?;
    let y = plan.run(tvec!(tensor1(x).into_shape(&[1, x.len()])?.into_tvalue()))?;
    Ok(y[0].try_as_plain_ram()?.as_slice::<f32>()?.to_vec())
}

fn assert_near(got: &[f32], want: &[f64], about: &str) {
    assert_eq!(got.len(), want.len(), "{about}");
    for (got, want) in got.iter().zip(want) {
        // Of sums of at most 256 products of a magnitude of up to 60.
        assert!((f64::from(*got) - want).abs() <= 2e-4, "{about}: {got}, want {want}");
    }
}

#[test]
fn weights_of_few_bits_are_what_their_codes_say() -> TractResult<()> {
    for (bits, block, k) in [
        (2, 16, 48usize),
        (2, 32, 64),
        (4, 16, 40),
        (4, 32, 96),
        (4, 64, 128),
        (8, 32, 70),
        (8, 16, 32),
    ] {
        for has_zeros in [false, true] {
            // 0.1 is no FLOAT16 number, 0.125 is.
            for step in [0.1, 0.125] {
                for order in [false, true] {
                    let blocks = k.div_ceil(block) as i32;
                    let order =
                        order.then(|| (0..k as i32).map(|i| (i * 3 + 1) % blocks).collect());
                    let case = Case { rows: 1, n: N, k, bits, block, has_zeros, order, step };
                    let got = run(&onnx(), case.sketch(), &row(k))?;
                    let about =
                        format!("{bits} bits, {block} of {k}, {has_zeros}, {:?}", case.order);
                    assert_near(&got, &case.expected(), &about);
                }
            }
        }
    }
    Ok(())
}

/// The same with codes, scales and zero points that come in while it runs, and these.
fn with_inputs(sketch: Sketch) -> TractResult<(Sketch, Vec<Tensor>)> {
    let (mut sketch, mut given) = (sketch, vec![]);
    for held in std::mem::take(&mut sketch.0.initializer) {
        let ty = ElementType::from_id(held.data_type).expect("a type");
        sketch = sketch.input(&held.name, ty, &held.dims);
        given.push(tensor_proto::read(&held, None)?.1);
    }
    Ok((sketch, given))
}

#[test]
fn weights_that_come_in_make_what_constant_ones_make() -> TractResult<()> {
    for (bits, block, k) in [(2, 16, 48usize), (4, 16, 40), (4, 32, 96), (4, 64, 130), (8, 32, 70)]
    {
        for (n, rows) in [(3, 1), (48, 1), (50, 5), (33, 70)] {
            for has_zeros in [false, true] {
                let case = Case { rows, n, k, bits, block, has_zeros, order: None, step: 0.1 };
                let (sketch, mut given) = with_inputs(case.sketch())?;
                let x: Vec<f32> = (0..rows).flat_map(|_| row(k)).collect();
                given.insert(0, tensor1(&x).into_shape(&[rows, k])?);
                let run = |sketch: Sketch, given: &[Tensor]| {
                    let model = onnx().model_for_proto_model(&sketch.model())?.into_optimized()?;
                    let given = given.iter().map(|x| x.clone().into_tvalue()).collect();
                    TractResult::Ok(model.into_runnable()?.run(given)?.remove(0).into_tensor())
                };
                let about = format!("{bits} bits, {block} of {k}, {n}, {rows}, {has_zeros}");
                let wanted = run(case.sketch(), &given[..1])?;
                assert_eq!(run(sketch, &given)?, wanted, "{about}");
                let graph = Interpreter::of_proto(onnx(), case.sketch().model(), None)?;
                let x = OnnxTensor::new(Float, given.swap_remove(0))?;
                assert_eq!(*graph.run(vec![x])?.remove(0).tensor(), wanted, "{about}");
            }
        }
    }
    Ok(())
}

/// What is declared of them is no memory yet.
#[test]
fn weights_that_come_in_may_be_declared_of_any_size() -> TractResult<()> {
    let size = i64::from(i32::MAX) - 1;
    let attributes = [("K", size), ("N", size), ("bits", 4), ("block_size", 2)];
    let sketch = Sketch::new()
        .input("x", Float, &[1, size])
        .input("w", Uint8, &[size * size / 2])
        .input("s", Float, &[size * size / 2])
        .node("com.microsoft.MatMulNBits", &["x", "w", "s"], &["y"], ints(&attributes))
        .output("y", Float, &[1, size]);
    onnx().model_for_proto_model(&sketch.model())?.into_typed()?;
    Ok(())
}

/// How many weights of a model are kept in blocks of few bits, and how many in FLOAT.
fn kept(loader: &CastOnnx, sketch: Sketch) -> TractResult<(usize, usize)> {
    let model = loader.model_for_proto_model(&sketch.model())?.into_typed()?.into_decluttered()?;
    let constants = model.nodes.iter().filter_map(|node| node.op_as::<Const>());
    let (small, plain): (Vec<_>, Vec<_>) =
        constants.partition(|op| op.val().storage_as::<BlockQuantStorage>().is_some());
    let elements = |ops: &[&Const]| ops.iter().map(|op| op.val().len()).sum();
    Ok((elements(&small), elements(&plain)))
}

#[test]
fn weights_stay_small_where_that_is_exact_or_asked_for() -> TractResult<()> {
    let case = |bits, block, step| {
        let k = 128;
        Case { rows: 1, n: N, k, bits, block, has_zeros: false, order: None, step }.sketch()
    };
    for (bits, block, step, exact, always) in [
        (4, 32, 0.125, true, true),
        (4, 64, 0.125, true, true),
        (4, 32, 0.1, false, true),
        // Infinite in FLOAT16, and zero.
        (4, 32, 1e5, false, false),
        (4, 32, 1e-9, false, false),
        (4, 16, 0.125, false, false),
        (2, 32, 0.125, true, true),
        (8, 32, 0.125, false, false),
    ] {
        for (loader, is_small) in [(onnx(), exact), (onnx().with_small_weights(true), always)] {
            let (small, _) = kept(&loader, case(bits, block, step))?;
            let about = format!("{bits} bits, {block} by {step}");
            assert_eq!(small, if is_small { 128 * N } else { 0 }, "{about}");
        }
    }
    Ok(())
}

/// A product with what a `DequantizeLinear` makes of a constant.
fn dequantized(op: &str, ty: ElementType, axis: i64, step: f32, lead: i64) -> Sketch {
    let (k, n) = (64, N);
    let offset = if ty == Uint4 { 8.0 } else { 0.0 };
    let code = |n: usize, k: usize| ((n * 7 + k * 5) % 16) as f32 - 8.0 + offset;
    let scale = |n: usize, block: usize| (n + 2 * block + 1) as f32 * step;
    let (dims, scale_dims): ([usize; 2], [usize; 2]) =
        if axis == 0 { ([k, n], [2, n]) } else { ([n, k], [n, 2]) };
    let spread = |dims: [usize; 2], of: &dyn Fn(usize, usize) -> f32| -> Vec<f32> {
        let places = (0..dims[0]).flat_map(|a| (0..dims[1]).map(move |b| (a, b)));
        places.map(|(a, b)| if axis == 0 { of(b, a) } else { of(a, b) }).collect()
    };
    let zeros = vec![offset; 2 * n];
    let x_dims: &[i64] = if lead > 1 { &[lead, 1, 64] } else { &[1, 64] };
    let y_dims: &[i64] = if lead > 1 { &[lead, 1, 3] } else { &[1, 3] };
    let attributes = ints(&[("axis", axis), ("block_size", 32)]);
    let sketch = Sketch::new()
        .input("x", Float, x_dims)
        .initializer(shaped("q", ty, &dims, &spread(dims, &code)))
        .initializer(shaped("s", Float, &scale_dims, &spread(scale_dims, &scale)))
        .initializer(shaped("z", ty, &scale_dims, &zeros))
        .node("DequantizeLinear", &["q", "s", "z"], &["w"], attributes);
    let with = if axis == 1 { ints(&[("transB", 1)]) } else { vec![] };
    sketch.node(op, &["x", "w"], &["y"], with).output("y", Float, y_dims)
}

#[test]
fn dequantised_weights_of_a_product_stay_small_and_make_the_same() -> TractResult<()> {
    let x: Vec<f32> = row(64);
    let want: Vec<f64> = (0..N)
        .map(|n| {
            let weight = |k: usize| ((n * 7 + k * 5) % 16) as f64 - 8.0;
            let scale = |k: usize| (n + 2 * (k / 32) + 1) as f64 * 0.125;
            (0..64).map(|k| weight(k) * scale(k) * f64::from(x[k])).sum()
        })
        .collect();
    for ty in [Int4, Uint4] {
        for (op, axis) in [("MatMul", 0), ("Gemm", 0), ("Gemm", 1)] {
            let made = || dequantized(op, ty, axis, 0.125, 1);
            assert_eq!(kept(&onnx(), made())?.0, 64 * N, "{op} of {ty} along {axis}");
            assert_near(&run(&onnx(), made(), &x)?, &want, op);
        }
    }
    // More than one row, of an axis that the weights do not have: FLOAT is faster.
    let rows = || dequantized("MatMul", Int4, 0, 0.125, 5);
    assert_eq!(kept(&onnx(), rows())?, (0, 64 * N));
    assert_eq!(kept(&onnx().with_small_weights(true), rows())?.0, 64 * N);
    // Scales that FLOAT16 does not have.
    let rounded = || dequantized("MatMul", Int4, 0, 0.1, 1);
    assert_eq!(kept(&onnx(), rounded())?.0, 0);
    assert_eq!(kept(&onnx().with_small_weights(true), rounded())?.0, 64 * N);
    Ok(())
}

#[test]
fn codes_of_normal_floats_are_looked_up() -> TractResult<()> {
    let run = |quant_type: i64, codes: &[u8]| {
        let attributes = [("K", 16), ("N", 2), ("block_size", 16), ("quant_type", quant_type)];
        let sketch = Sketch::new()
            .input("x", Float, &[1, 16])
            .initializer(raw("w", Uint8 as i32, &[16], codes))
            .initializer(shaped("m", Float, &[2], &[1.0, 3.0]))
            .node("com.microsoft.MatMulBnb4", &["x", "w", "m"], &["y"], ints(&attributes))
            .output("y", Float, &[1, 2]);
        let x: Vec<f32> = (0..16).map(|i| if i == 3 { 1.0 } else { 0.0 }).collect();
        run(&onnx(), sketch, &x)
    };
    // The first of two codes is in the high bits: the fourth of each row is 5.
    let codes: Vec<u8> = [0x01u8, 0x25, 0, 0, 0, 0, 0, 0].repeat(2);
    assert_eq!(run(1, &codes)?, [-0.184_773_43, -0.184_773_43f32 * 3.0]);
    assert_eq!(run(0, &codes)?, [0.5, 1.5]);
    Ok(())
}

#[test]
fn an_order_of_columns_may_go_on_to_the_end_of_a_block() -> TractResult<()> {
    let order: Vec<i32> = (0..64).map(|i| if i < 33 { i % 2 } else { -1 }).collect();
    let case = |order| Case {
        rows: 1,
        n: N,
        k: 33,
        bits: 4,
        block: 32,
        has_zeros: true,
        order,
        step: 0.1,
    };
    let whole = case(Some(order.clone()));
    assert_near(&run(&onnx(), whole.sketch(), &row(33))?, &whole.expected(), "64 columns");
    let about = "has a `g_idx` that is not a block for each column";
    for length in [32, 34, 63] {
        assert!(refused(case(Some(order[..length].to_vec())).sketch()).contains(about), "{length}");
    }
    Ok(())
}

fn refused(sketch: Sketch) -> String {
    let model = onnx().model_for_proto_model(&sketch.model());
    let error = model.and_then(InferenceModel::into_typed).expect_err("should be refused");
    let ours = error.chain().find_map(|cause| cause.downcast_ref::<Error>());
    ours.map_or_else(|| format!("not ours: {error:#}"), Error::to_string)
}

#[test]
fn what_does_not_fit_is_refused() {
    let case = || {
        Case { rows: 1, n: N, k: 64, bits: 4, block: 32, has_zeros: true, order: None, step: 0.1 }
            .sketch()
    };
    let with = |name: &str, tensor: TensorProto| {
        let mut sketch = case();
        for initializer in &mut sketch.0.initializer {
            if initializer.name == name {
                *initializer = tensor.clone();
            }
        }
        refused(sketch)
    };
    let about = "node `MatMulNBits_y` (MatMulNBits): has";
    let sizes = "which do not fit N 3, K 64 and `block_size` 32 (opset 24)";
    let bytes = |len: usize| raw("w", Uint8 as i32, &[len as i64], &vec![0; len]);
    assert_eq!(with("w", bytes(95)), format!("{about} weights of shape [95], {sizes}"));
    let short = shaped("s", Float, &[5], &[1.0; 5]);
    assert_eq!(with("s", short), format!("{about} scales of shape [5], {sizes}"));
    let zeros = raw("z", Uint8 as i32, &[2], &[0; 2]);
    assert_eq!(with("z", zeros), format!("{about} zero points of shape [2], {sizes}"));
    let wide = case().0.initializer.into_iter().fold(Sketch::new(), Sketch::initializer);
    let sizes = [("K", 64), ("N", N as i64), ("block_size", 32)];
    let wide = wide.input("x", Double, &[1, 64]);
    let wide = wide.node("com.microsoft.MatMulNBits", &["x", "w", "s", "z"], &["y"], ints(&sizes));
    assert_eq!(
        refused(wide.output("y", Double, &[1, N as i64])),
        "node `MatMulNBits_y` (MatMulNBits): takes no x of DOUBLE (opset 24)"
    );
    let order = vec![2; 64];
    let case = Case {
        rows: 1,
        n: N,
        k: 64,
        bits: 4,
        block: 32,
        has_zeros: true,
        order: Some(order),
        step: 0.1,
    };
    assert_eq!(
        refused(case.sketch()),
        format!("{about} a `g_idx` that is not a block for each column (opset 24)")
    );
    let bnb4 = |attributes: &[(&str, i64)]| {
        let sketch = Sketch::new()
            .input("x", Float16, &[1, 16])
            .initializer(raw("w", Uint8 as i32, &[8], &[0; 8]))
            .initializer(shaped("m", Float16, &[1], &[1.0]))
            .node("com.microsoft.MatMulBnb4", &["x", "w", "m"], &["y"], ints(attributes));
        refused(sketch.output("y", Float16, &[1, 1]))
    };
    let sizes = [("K", 16), ("N", 1), ("block_size", 16)];
    assert_eq!(
        bnb4(&[&sizes[..], &[("quant_type", 2)]].concat()),
        "node `MatMulBnb4_y` (MatMulBnb4): attribute `quant_type` is 2, not 0 (FP4) or 1 (NF4) (opset 24)"
    );
    assert_eq!(
        bnb4(&sizes[1..]),
        "node `MatMulBnb4_y`: attribute `K` is missing, the model imports 24"
    );
}
