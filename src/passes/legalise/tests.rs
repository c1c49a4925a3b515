use super::*;
use crate::passes::testing::{after, lines};

#[test]
fn an_output_that_the_operator_always_has_is_named() {
    let model = "
        in x FLOAT
        const k INT64 1
        _, i = TopK(x, k)
        out i INT64";
    let expected = "
        unused0:i, i = TopK(x, k)
        out i";
    assert_eq!(after(model, &[legalise]).expect("a model"), lines(expected));
}

#[test]
fn nodes_have_names_of_their_own() {
    let model = "
        in x FLOAT
        y = Relu(x)
        z = Neg(y)
        out z FLOAT";
    assert_eq!(
        after(model, &[legalise, name_nodes_apart]).expect("a model"),
        "y = Relu(x)\nz = Neg(y)\nout z"
    );
}
