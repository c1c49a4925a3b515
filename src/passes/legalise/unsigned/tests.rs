use super::*;
use crate::passes::testing::{after, lines};

#[test]
fn a_constant_without_elements_is_cast() {
    let model = "
        const c UINT32 0
        y = Neg(c)
        out y UINT32";
    let expected = "
        c = Cast to UINT32(c)
        y = Neg(c)
        out y";
    assert_eq!(after(model, &[cast_empty]).expect("a model"), lines(expected));
}

#[test]
fn others_stay() {
    let model = "
        const c UINT32 1
        const d INT64 0
        y = Concat<axis=0>(c, d)
        out y UINT32";
    assert_eq!(after(model, &[cast_empty]).expect("a model"), "y = Concat(c, d)\nout y");
}
