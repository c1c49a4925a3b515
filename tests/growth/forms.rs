//! Weights stay in few bits whatever takes them, in the forms that real models have.

use tract_onnx::pb::ModelProto;
use tract_onnx::prelude::*;
use tract_onnx_cast::ElementType::{BFloat16, Float, Float16, Int4};
use tract_onnx_cast::{ElementType, Rules, from_f32, tensor_proto};

use crate::alone;
use crate::common::proto::{Sketch, int, int64, node, set_dim, symbol, unshaped};
use crate::weights::{
    BLOCK, BLOCKS, Dequantized, K, N, Spread, cast, check, codes, decoded, numbers, plain, run,
    warm,
};

/// What takes weights that tract would fold as soon as it reads them.
#[derive(Debug, Clone, Copy)]
enum Taker {
    Product,
    /// A product of so many rows that its weights are widened once.
    ManyRows,
    /// A product with a symbol of rows, for which tract has two kernels.
    SymbolicRows,
    /// A product whose weights have another shape before.
    Reshaped,
    /// Convolutions with windows of so many places each way.
    Convolution(i64),
}

impl Taker {
    const ALL: [Taker; 6] = [
        Taker::Product,
        Taker::ManyRows,
        Taker::SymbolicRows,
        Taker::Reshaped,
        Taker::Convolution(1),
        Taker::Convolution(3),
    ];
    /// What is multiplied and made, of which neither is a multiple of what the kernels take at
    /// once.
    const IN: usize = 301;
    const OUT: usize = 333;

    fn weights(self) -> Vec<i64> {
        let [k, n] = [Self::IN as i64, Self::OUT as i64];
        match self {
            Taker::Product | Taker::ManyRows | Taker::SymbolicRows => vec![k, n],
            Taker::Reshaped => vec![n, 1, k],
            Taker::Convolution(side) => vec![n, k, side, side],
        }
    }

    fn input(self) -> Vec<i64> {
        match self {
            Taker::Convolution(_) => vec![1, Self::IN as i64, 5, 5],
            Taker::ManyRows => vec![60, Self::IN as i64],
            _ => vec![7, Self::IN as i64],
        }
    }

    /// A model whose weights have a type, in which the product's are FLOAT, and numbers that this
    /// one of half precision has.
    fn model(self, half: ElementType, ty: ElementType) -> ModelProto {
        let dims = self.weights();
        let sizes: Vec<usize> = dims.iter().map(|size| *size as usize).collect();
        let values = numbers(sizes.iter().product());
        let halves = from_f32(&tensor1(&values), half, Rules::default()).expect("a conversion");
        let wide = tract_onnx_cast::to_f32(&halves, half).expect("numbers");
        let held = from_f32(&wide, ty, Rules::default()).expect("a conversion");
        let held = held.into_shape(&sizes).expect("as many values");
        let weights = tensor_proto::write("w", ty, &held).expect("a tensor");
        let sketch = Sketch::new().input("x", Float, &self.input()).initializer(weights);
        let sketch = match ty {
            Float => sketch.node("Identity", &["w"], &["f"], vec![]),
            _ => sketch.cast("w", Float, "f"),
        };
        let sketch = match self {
            Taker::Product | Taker::ManyRows | Taker::SymbolicRows => {
                sketch.node("MatMul", &["x", "f"], &["y"], vec![])
            }
            Taker::Reshaped => sketch
                .initializer(int64("s", &[Self::OUT as i64, Self::IN as i64]))
                .node("Reshape", &["f", "s"], &["r"], vec![])
                .node("Gemm", &["x", "r"], &["y"], vec![int("transB", 1)]),
            Taker::Convolution(_) => sketch.node("Conv", &["x", "f"], &["y"], vec![]),
        };
        let mut model = sketch.model();
        let graph = model.graph.as_mut().expect("a graph");
        graph.output = vec![unshaped("y", Float)];
        if let Taker::SymbolicRows = self {
            set_dim(&mut graph.input[0], 0, symbol("rows"));
        }
        model
    }
}

/// Where each weight is smaller than what tract folds at once, and whatever takes it.
#[test]
fn small_weights_stay_so() {
    let _alone = alone();
    warm();
    for half in [Float16, BFloat16] {
        for taker in Taker::ALL {
            let input: Vec<usize> = taker.input().iter().map(|size| *size as usize).collect();
            let input = tensor1(&numbers(input.iter().product())).into_shape(&input).expect("x");
            let (expected, _) = run(&input, &taker.model(half, Float)).expect("a model");
            let (found, [held, ..]) = run(&input, &taker.model(half, half)).expect("a model");
            assert!(found == expected, "{taker:?}, {half}: other bits");
            let of_file = held as f64 / (2 * taker.weights().iter().product::<i64>()) as f64;
            println!("{taker:?}, {half}: {of_file:.2} of the file's weights");
            assert!(of_file < 1.4, "{taker:?}, {half}: {of_file}");
        }
    }
}

/// A model of which parts of the product are taken apart, as the queries, keys and values of
/// attention are of one product.
fn in_parts(mut model: ModelProto) -> ModelProto {
    let graph = model.graph.as_mut().expect("a graph");
    graph.initializer.push(int64("parts", &[500, 400, N as i64 - 900]));
    let parts = ["q", "k", "v"];
    graph.node.push(node("Split", &["y", "parts"], &parts, vec![int("axis", 1)]));
    graph.output = parts.map(|name| unshaped(name, Float)).into();
    model
}

#[test]
fn weights_of_products_in_parts_stay_so() {
    let _alone = alone();
    warm();
    let weights =
        Dequantized { ty: Int4, spread: Spread::Columns, is_turned: true, has_zeros: false };
    let of_codes = N * BLOCKS * (BLOCK / 2 + 5);
    for (what, model, float, bytes) in [
        ("MatMulNBits", codes(5, 4, true), decoded(5, 4, true), of_codes),
        ("INT4", weights.model(5, false), weights.model(5, true), N * K / 2 + N * 5),
        ("FLOAT16", cast(5, Float16), plain(5, Float16), N * K * 2),
    ] {
        check(what, 5, [&in_parts(model), &in_parts(float)], bytes, 5.0);
    }
}
