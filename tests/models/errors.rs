//! Errors that programs can tell apart, and the nodes that they are about.

use test_tools::tempfile;
use tract_onnx::prelude::*;
use tract_onnx_cast::audit::audit;
use tract_onnx_cast::{ElementType, Error, bf16_tensor, without_panic};

use crate::common::cases::root;
use crate::common::proto::{
    Change, bytes, graph, int, model, node, shaped, string, symbol, untyped, value,
};
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

/// A product whose operands do not fit, which tract sees when it types the model; the model may leave their shapes open.
fn misfit(is_open: bool) -> Vec<u8> {
    let side = |name: &str, size: i64| match is_open {
        true => shaped(name, Float, vec![symbol(name), symbol(&format!("{name}s"))]),
        false => value(name, Float, &[size, 3]),
    };
    let product = node("MatMul", &["a", "b"], &["y"], vec![]).named("m1");
    let inputs = [side("a", 2), side("b", 4)];
    bytes(&model(13, graph(&inputs, &[product], &[untyped("y")])))
}

#[test]
fn what_tract_refuses_later_is_a_typed_error_too() {
    let named = |error: TractError| {
        let own = error.downcast_ref::<Error>().unwrap_or_else(|| panic!("{error:#}"));
        assert!(matches!(own, Error::Tract { .. }), "{own:?}");
        own.node().map(String::from)
    };
    let load = |is_open| tract_onnx_cast::onnx().model_for_read(&mut &*misfit(is_open));
    let typed = without_panic(|| load(false)?.into_optimized()).expect_err("no product");
    assert_eq!(named(typed).as_deref(), Some("m1"));
    let run = without_panic(|| {
        let reshape = node("Reshape", &["x", "i"], &["y"], vec![]).named("r1");
        let inputs = [value("x", Float, &[4]), value("i", ElementType::Int64, &[1])];
        let reshape = bytes(&model(13, graph(&inputs, &[reshape], &[untyped("y")])));
        let reshape = tract_onnx_cast::onnx().model_for_read(&mut &*reshape)?;
        let x = Tensor::zero::<f32>(&[4])?.into_tvalue();
        reshape.into_typed()?.into_runnable()?.run(tvec!(x, tensor1(&[9i64]).into_tvalue()))
    });
    assert_eq!(named(run.expect_err("no such shape")).as_deref(), Some("r1"));
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), misfit(true)).expect("is written");
    let zeros = |rows| Tensor::zero::<f32>(&[rows, 3]).expect("zeros");
    let audited = audit(file.path(), [zeros(2), zeros(4)]).expect_err("no product");
    assert_eq!(named(audited).as_deref(), Some("m1"));
    // What is not tract's stays what it is.
    let missing = without_panic(|| tract_onnx_cast::onnx().model_for_path("no such file"));
    assert!(missing.expect_err("no file").chain().any(|link| link.is::<std::io::Error>()));
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
