use super::*;
use crate::passes::facts::types;
use crate::passes::testing::{after, lines};

#[test]
fn an_output_that_no_node_makes_gets_one() {
    let model = "
        in x FLOAT
        y = Relu(x)
        out x FLOAT
        out y FLOAT";
    let expected = "
        y = Relu(x)
        output0:x = Identity(x)
        out tract-onnx-cast:output0:x
        out y";
    assert_eq!(after(model, &[types::infer, prepare]).expect("a model"), lines(expected));
}

#[test]
fn integers_that_leave_the_model_are_numbers() {
    let model = "
        in x FLOAT
        s = Shape(x)
        out s INT64";
    let expected = "
        s = Shape(x)
        output0:s = Cast to INT64 numbers(s)
        out tract-onnx-cast:output0:s";
    assert_eq!(after(model, &[types::infer, prepare]).expect("a model"), lines(expected));
}
