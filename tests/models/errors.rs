//! Errors that programs can tell apart, and the nodes that they are about.

use tract_onnx::prelude::*;
use tract_onnx_cast::audit::audit;
use tract_onnx_cast::{ElementType, Error, bf16_tensor};

use crate::common::cases::root;
use crate::common::proto::{Change, bytes, graph, int, model, node, string, untyped, value};
use ElementType::{Float, Float16};

fn error_of(model: &tract_onnx::pb::ModelProto) -> TractError {
    let loaded = tract_onnx_cast::onnx().model_for_read(&mut &*bytes(model));
    loaded.expect_err("the model is refused")
}

#[test]
fn an_error_knows_its_node() {
    let cast = node("Cast", &["x"], &["y"], vec![int("to", 10), int("saturate", 0)]).named("c1");
    let cast = graph(&[value("x", Float, &[2])], &[cast], &[value("y", Float16, &[2])]);
    let error = error_of(&model(13, cast));
    let own = error.downcast_ref::<Error>().expect("an error of this crate");
    assert!(matches!(own, Error::Attribute { .. }), "{own:?}");
    assert_eq!(own.node(), Some("c1"));
    assert_eq!(Error::Model { problem: "is empty".into() }.node(), None);
}

#[test]
fn what_tract_refuses_is_a_typed_error() {
    let odd = vec![string("mode", "nearest"), string("nearest_mode", "sideways")];
    let resize = node("Resize", &["x", "", "s"], &["y"], odd).named("r1");
    let mut resize = graph(&[value("x", Float, &[1, 1, 2, 2])], &[resize], &[untyped("y")]);
    let scales = tensor1(&[1f32, 1., 2., 2.]);
    resize.initializer =
        vec![tract_onnx_cast::tensor_proto::write("s", Float, &scales).expect("a tensor")];
    let error = error_of(&model(13, resize));
    let own = error.downcast_ref::<Error>().expect("an error of this crate");
    assert!(matches!(own, Error::Tract { .. }), "{own:?}");
    assert_eq!(own.node(), Some("r1"));
    assert!(own.to_string().contains("sideways"), "{own}");
}

#[test]
fn a_model_is_audited_in_one_call() {
    let path = root().join("models/whole/rms_norm_FLOAT16/model.onnx");
    let rows = audit(&path, [tensor0(3f32).broadcast_to_shape(&[2, 8]).expect("a shape")]);
    let rows = rows.expect("the model runs");
    let row = rows.iter().find(|row| row.cast.node == "Cast_sum_half").expect("the cast");
    assert_eq!(row.stats.outcomes().collect::<Vec<_>>(), [("overflowed", 2)]);
    assert!(audit(&path, [bf16_tensor(&[0], &[]).expect("no values")]).is_err());
}
