//! A product in blocks of columns is the whole product, to the bit.

use tract_onnx::prelude::*;
use tract_onnx_cast::interpreter::Interpreter;
use tract_onnx_cast::{ElementType, OnnxTensor};

use crate::common::proto::Sketch;

/// Columns of so many elements are in blocks of 384.
const DEPTH: usize = 1 << 14;
/// The last block has one column.
const COLUMNS: usize = 2 * 384 + 1;

fn product(ty: ElementType) -> Sketch {
    let [depth, columns] = [DEPTH, COLUMNS].map(|size| size as i64);
    Sketch::new()
        .input("x", ty, &[2, 3, depth])
        .input("w", ty, &[depth, columns])
        .output("y", ty, &[2, 3, columns])
        .node("MatMul", &["x", "w"], &["y"], vec![])
}

#[test]
fn a_product_by_a_large_matrix_is_that_of_a_plan() {
    let numbers = |shape: &[usize]| {
        let value = |i: usize| ((i * 7919 % 1009) as f32 - 504.0) / 1024.0;
        let values: Vec<f32> = (0..shape.iter().product()).map(value).collect();
        Tensor::from_shape(shape, &values).expect("as many")
    };
    for ty in [ElementType::Float, ElementType::Float16] {
        let given = [numbers(&[2, 3, DEPTH]), numbers(&[DEPTH, COLUMNS])];
        let given = given.map(|x| x.cast_to_dt(ty.datum_type()).expect("floats").into_owned());
        let planned = product(ty).run(given.to_vec()).expect("a plan");
        let model = Interpreter::of_proto(tract_onnx_cast::onnx(), product(ty).model(), None);
        let inputs = given.map(|tensor| OnnxTensor::new(ty, tensor).expect("its carrier"));
        let walked = model.expect("a model").run(inputs.to_vec()).expect("node by node");
        let walked: Vec<Tensor> = walked.into_iter().map(OnnxTensor::into_tensor).collect();
        assert!(planned == walked, "{ty}");
    }
}
