use super::super::testing::{after, lines};
use super::*;

#[test]
fn a_dimension_is_a_symbol_where_it_makes_a_shape_and_a_number_elsewhere() {
    let model = "
        in x FLOAT
        s = Shape(x)
        y = Reshape(x, s)
        t = Mul(s, s)
        out y FLOAT
        out t INT64";
    let expected = "
        s = Shape(x)
        s = Cast to INT64 numbers(s)
        y = Reshape(x, s)
        t = Mul(s, s)
        out y
        out t";
    assert_eq!(after(model, &[separate]).expect("a model"), lines(expected));
}

#[test]
fn a_node_that_is_needed_as_both_is_there_twice() {
    let model = "
        in x FLOAT
        const two INT64 1
        s = Shape(x)
        t = Add(s, two)
        y = Expand(x, t)
        out y FLOAT
        out t INT64";
    let written = after(model, &[separate]).expect("a model");
    assert_eq!(written.matches("= Add(").count(), 2, "{written}");
    assert!(written.contains("y = Expand(x, t)"), "{written}");
}
