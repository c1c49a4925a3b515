use super::super::testing::{after, lines};
use super::wide::widen;
use crate::passes::facts::types;

#[test]
fn an_operator_computes_in_float_and_its_result_is_rounded_once() {
    let model = "
        in x FLOAT16
        y = Relu(x)
        z = Div(y, x)
        out z FLOAT16";
    let expected = "
        wide:x = Cast to FLOAT(x)
        exact:y = Relu(wide:x)
        y = Cast to FLOAT16(exact:y)
        wide:y = Cast to FLOAT(y)
        exact:z = Div as a division(wide:y, wide:x)
        z = Cast to FLOAT16(exact:z)
        out z";
    assert_eq!(after(model, &[types::infer, widen]).expect("a model"), lines(expected));
}

#[test]
fn what_is_only_moved_stays_float() {
    let model = "
        in x BFLOAT16
        y = Neg(x)
        z = Transpose(y)
        out z BFLOAT16";
    let expected = "
        wide:x = Cast to FLOAT(x)
        exact:y = Neg(wide:x)
        y = Cast to BFLOAT16(exact:y)
        wide:y = Cast to FLOAT(y)
        wide:z = Transpose(wide:y)
        z = Cast to BFLOAT16(wide:z)
        out z";
    assert_eq!(after(model, &[types::infer, widen]).expect("a model"), lines(expected));
    // Nothing has been computed, so nothing is widened.
    let model = "
        in x BFLOAT16
        z = Transpose(x)
        out z BFLOAT16";
    let expected = "z = Transpose(x)\nout z";
    assert_eq!(after(model, &[types::infer, widen]).expect("a model"), expected);
}

#[test]
fn two_halves_do_not_mix() {
    let model = "
        in x BFLOAT16
        in y FLOAT16
        z = Add(x, y)
        out z FLOAT16";
    let error = after(model, &[types::infer]).expect_err("two types");
    assert_eq!(
        error.to_string(),
        "node `z` (Add): mixes BFLOAT16 and FLOAT16 (opset 17); `onnx-cast fix MODEL.onnx -o FIXED.onnx` may correct it"
    );
}
