use super::super::testing::{after, lines};
use super::*;

#[test]
fn a_quantised_sum_is_a_sum_between_quantizers() {
    let model = "
        in a UINT8
        in b UINT8
        const s FLOAT 1
        const z UINT8 1
        y = com.microsoft::QLinearAdd(a, s, z, b, s, z, s, z)
        out y UINT8";
    let expected = "
        y:0 = DequantizeLinear(a, s, z)
        y:1 = DequantizeLinear(b, s, z)
        y:2 = Add(y:0, y:1)
        y = QuantizeLinear(y:2, s, z)
        out y";
    assert_eq!(after(model, &[decompose]).expect("a model"), lines(expected));
}

#[test]
fn what_lacks_an_input_is_refused() {
    let model = "
        in a UINT8
        const s FLOAT 1
        const z UINT8 1
        y = com.microsoft::QLinearAdd(a, s, z)
        out y UINT8";
    let error = after(model, &[decompose]).expect_err("no second operand");
    assert_eq!(error.to_string(), "node `y` (QLinearAdd): has no input 3, which it needs");
}
