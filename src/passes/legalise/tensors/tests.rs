use super::*;
use crate::passes::facts::types;
use crate::passes::testing::after;

/// Exporters list initializers in `value_info` too.
#[test]
fn a_constant_is_declared_as_what_carries_it() {
    let model = "
        in x BFLOAT16
        const w BFLOAT16 2
        info w BFLOAT16
        y = Concat<axis=0>(x, w)
        out y BFLOAT16";
    assert_eq!(after(model, &[types::infer, carry]).expect("a model"), "y = Concat(x, w)\nout y");
}
