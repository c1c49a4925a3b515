use super::super::testing::{after, lines};
use super::*;
use crate::passes::facts::types;

#[test]
fn a_cast_whose_target_is_known_needs_no_second_input() {
    let model = "
        in x FLOAT
        in y BFLOAT16
        a = Cast<to=10>(x)
        b = CastLike(x, y)
        c = CastLike(x, x)
        out b BFLOAT16";
    let expected = "
        a = Cast to FLOAT16(x)
        b = Cast to BFLOAT16(x)
        c = Cast to ?(x, x)
        out b";
    assert_eq!(after(model, &[types::infer, lower]).expect("a model"), lines(expected));
}

#[test]
fn a_quantizer_is_lowered() {
    let model = "
        in x FLOAT
        const s FLOAT 1
        q = QuantizeLinear(x, s)
        out q UINT8";
    let expected = "q = QuantizeLinear as a quantiser(x, s)\nout q";
    assert_eq!(after(model, &[types::infer, lower]).expect("a model"), expected);
}
