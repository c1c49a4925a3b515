//! Joining pipelines that have something of their own, or the plug-in already.

use crate::common::cases::root;
use crate::common::doubled::Doubled;
use crate::common::proto::Sketch;
use tract_onnx::prelude::*;
use tract_onnx::tract_hir::internal::*;
use tract_onnx_cast::interop::{OnnxCast, WithOnnxCast, register};
use tract_onnx_cast::{CastOnnx, ElementType};

fn path(case: &str) -> std::path::PathBuf {
    root().join("models").join(case).join("model.onnx")
}

fn casts(model: &TypedModel) -> usize {
    model.nodes().iter().filter(|node| node.op_is::<OnnxCast>()).count()
}

#[test]
fn registering_twice_is_registering_once() {
    let mut onnx = tract_onnx::onnx();
    register(&mut onnx);
    register(&mut onnx);
    let once = tract_onnx_cast::onnx().model_for_path(path("whole/if_casts_then")).unwrap();
    let twice = CastOnnx::from(onnx).model_for_path(path("whole/if_casts_then")).unwrap();
    let (once, twice) = (once.into_typed().unwrap(), twice.into_typed().unwrap());
    assert_eq!((once.nodes.len(), casts(&once)), (twice.nodes.len(), casts(&twice)));

    let nnef = tract_nnef::nnef().with_onnx_cast().with_onnx_cast();
    let model = tract_onnx_cast::onnx().model_for_path(path("node/cast_opset13_FLOAT_to_BFLOAT16"));
    let model = model.unwrap().into_typed().unwrap().into_decluttered().unwrap();
    let written = nnef.write_to_tar(&model, vec![]).unwrap();
    assert_eq!(casts(&nnef.model_for_read(&mut &*written).unwrap()), 1);
}

#[test]
fn operators_of_others_stay_theirs() {
    let mut onnx = tract_onnx::onnx();
    onnx.op_register.insert("Softmax", |_, _| Ok((expand(Doubled), vec![])));
    let model = CastOnnx::from(onnx).model_for_path(path("whole/softmax_in_float")).unwrap();
    let plan = model.into_optimized().unwrap().into_runnable().unwrap();
    let filled = |value: f32| Tensor::from_shape(&[1, 16], &[f16::from_f32(value); 16]).unwrap();
    let output = plan.run(tvec!(filled(1.5).into_tvalue())).unwrap();
    assert_eq!(*output[0], filled(3.0));
}

/// Options are looked at when a model is loaded: none of them registers anything.
#[test]
fn options_leave_the_operators_of_others() {
    let mut onnx = tract_onnx::onnx();
    onnx.op_register.insert("Add", |_, _| Ok((expand(Doubled), vec![])));
    onnx.op_register.insert("MatMulBnb4", |_, _| Ok((expand(Doubled), vec![])));
    let plugged = CastOnnx::from(onnx).with_probes(true).with_small_weights(true);
    let plugged = plugged.with_small_weights(false).with_probes(false);
    for (operator, inputs) in [("Add", &["x", "x"][..]), ("com.microsoft.MatMulBnb4", &["x"])] {
        let sketch = Sketch::new().input("x", ElementType::Float, &[1]);
        let sketch = sketch.node(operator, inputs, &["y"], vec![]);
        let model = sketch.output("y", ElementType::Float, &[1]).model();
        let plan = plugged.model_for_proto_model(&model).unwrap().into_runnable().unwrap();
        let outputs = plan.run(tvec!(tensor1(&[3f32]).into_tvalue())).unwrap();
        assert_eq!(*outputs[0], tensor1(&[6f32]), "{operator}");
    }
}

/// A `Cast` of somebody else's is replaced: that is what plugging in means.
#[test]
fn a_cast_of_others_gives_way() {
    let mut onnx = tract_onnx::onnx();
    onnx.op_register.insert("Cast", |_, _| Ok((expand(Doubled), vec![])));
    let model = CastOnnx::from(onnx).model_for_path(path("node/cast_opset13_FLOAT_to_BFLOAT16"));
    assert_eq!(casts(&model.unwrap().into_typed().unwrap()), 1);
}
