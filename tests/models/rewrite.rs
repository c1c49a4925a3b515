//! What the rewrite of a model accepts, makes and refuses.

use std::path::Path;

use test_tools::tempfile;
use tract_onnx::pb::{ModelProto, NodeProto, TensorProto};
use tract_onnx::prelude::*;
use tract_onnx_cast::survey::Fate;
use tract_onnx_cast::{
    ElementType, Rules, bf16_slice, from_f32, input_element_types, model_proto, onnx,
    output_element_types, tensor_proto,
};

use crate::common::proto::{
    Sketch, external, float, graph_attribute, int, int64, ints, model, node, raw, refusal, tensor,
    tensor_attribute,
};

use ElementType::{BFloat16, Float, Float8E4M3FN, Float8E5M2, Float8E8M0, Int4, Int64, Uint8};

#[test]
fn exotic_types_are_known_at_both_ends() -> TractResult<()> {
    let model = Sketch::new()
        .input("x", Float, &[2])
        .input("w", Float8E4M3FN, &[2])
        .cast("x", BFloat16, "b")
        .cast("w", Int4, "i")
        .output("b", BFloat16, &[2])
        .output("i", Int4, &[2])
        .load()?;
    assert_eq!(input_element_types(&model)?, [Float, Float8E4M3FN]);
    assert_eq!(output_element_types(&model)?, [BFloat16, Int4]);
    let model = model.into_optimized()?;
    assert_eq!(input_element_types(&model)?, [Float, Float8E4M3FN]);
    assert_eq!(output_element_types(&model)?, [BFloat16, Int4]);
    let w = from_f32(&tensor1(&[3.5f32, -9.0]), Float8E4M3FN, Rules::default())?;
    let inputs = tvec!(tensor1(&[1.0f32, 2.5]).into_tvalue(), w.into_tvalue());
    let outputs = model.into_runnable()?.run(inputs)?;
    assert_eq!(bf16_slice(&outputs[0])?, [half::bf16::ONE, half::bf16::from_f32(2.5)]);
    assert_eq!(*outputs[1], tensor1(&[3i8, 7])); // −9 wraps
    Ok(())
}

#[test]
fn operators_that_compute_refuse_exotic_types_by_name() {
    let add = Sketch::new().input("x", Int4, &[2]).node("Add", &["x", "x"], &["y"], vec![]);
    assert_eq!(
        add.output("y", Int4, &[2]).refusal(),
        "node `Add_y` (Add): cannot compute with INT4: Cast it to a wider type first"
    );
    let by_attribute = Sketch::new()
        .node("RandomNormal", &[], &["y"], vec![int("dtype", 17), ints("shape", &[2])])
        .output("y", Float8E4M3FN, &[2]);
    assert_eq!(
        by_attribute.refusal(),
        "node `RandomNormal_y` (RandomNormal): cannot compute a result of FLOAT8E4M3FN"
    );
    let declared = Sketch::new()
        .input("x", Float, &[2])
        .node("Relu", &["x"], &["y"], vec![])
        .output("y", Float8E5M2, &[2]);
    let message = declared.refusal();
    assert!(message.contains("`Relu_y`") && message.contains("FLOAT8E5M2"), "{message}");
    let foreign =
        NodeProto { domain: "com.example".into(), ..node("Identity", &["x"], &["y"], vec![]) };
    let mut sketch = Sketch::new().input("x", Int4, &[2]).output("y", Int4, &[2]);
    sketch.0.node.push(foreign);
    assert!(sketch.refusal().contains("is of domain `com.example`"));
}

#[test]
fn types_of_the_same_carrier_do_not_mix() {
    let concat = |other| {
        Sketch::new()
            .input("a", Float8E4M3FN, &[2])
            .input("b", other, &[2])
            .node("Concat", &["a", "b"], &["y"], vec![int("axis", 0)])
            .output("y", Float8E4M3FN, &[4])
    };
    assert_eq!(
        concat(Float8E5M2).refusal(),
        "node `Concat_y` (Concat): mixes FLOAT8E4M3FN and FLOAT8E5M2"
    );
    assert_eq!(concat(Uint8).refusal(), "node `Concat_y` (Concat): mixes FLOAT8E4M3FN and UINT8");
    assert!(concat(Float8E4M3FN).load().is_ok());
    // A bit pattern is no index.
    let gather = Sketch::new()
        .input("a", Float, &[2])
        .input("i", Int4, &[2])
        .node("Gather", &["a", "i"], &["y"], vec![])
        .output("y", Float, &[2]);
    assert!(gather.refusal().contains("`Gather_y`"));
}

#[test]
fn a_type_without_zero_is_not_padded_with_zero() {
    let pad = |constant: &[&str]| {
        let inputs: Vec<&str> = ["x", "pads"].iter().chain(constant).copied().collect();
        Sketch::new()
            .input("x", Float8E8M0, &[2])
            .initializer(int64("pads", &[1, 1]))
            .initializer(TensorProto { dims: vec![], ..tensor("one", Float8E8M0, &[1.0]) })
            .node("Pad", &inputs, &["y"], vec![])
            .output("y", Float8E8M0, &[4])
    };
    assert!(pad(&[]).refusal().contains("fills with zero, which FLOAT8E8M0 does not have"));
    let old = Sketch::new()
        .input("x", BFloat16, &[2])
        .node("Pad", &["x"], &["y"], vec![ints("pads", &[1, 1]), float("value", 1.0)])
        .output("y", BFloat16, &[4]);
    assert!(refusal(&model(10, old.0)).contains("fills with a number of its own"));
    let padded = pad(&["one"]).run(vec![tensor1(&[130u8, 120])]).expect("a constant of one");
    assert_eq!(padded[0], tensor1(&[127u8, 130, 120, 127]));
}

#[test]
fn contradicting_declarations_are_reported() {
    let sketch = || Sketch::new().input("x", Float, &[2]).cast("x", Float, "y");
    let message = "node `Cast_y` (Cast): makes `y` FLOAT, but the model declares it FLOAT16; \
                   `onnx-cast fix MODEL.onnx -o FIXED.onnx` may correct it";
    assert_eq!(sketch().output("y", ElementType::Float16, &[2]).refusal(), message);
    let inner = || {
        let inner = sketch().value_info("y", ElementType::Float16);
        inner.node("Relu", &["y"], &["z"], vec![]).output("z", Float, &[2])
    };
    assert_eq!(inner().refusal(), message);
    // Who asks for it may overlook them.
    let lenient = onnx().with_ignore_value_info(true);
    assert!(lenient.model_for_proto_model(&inner().model()).is_ok());
}

#[test]
fn a_node_named_like_an_output_does_not_take_its_type() -> TractResult<()> {
    let mut sketch = Sketch::new()
        .input("x", Float, &[1])
        .cast("x", BFloat16, "z")
        .cast("x", ElementType::Uint16, "y")
        .output("z", BFloat16, &[1])
        .output("y", ElementType::Uint16, &[1]);
    sketch.0.node[1].name = "z".into();
    let model = sketch.load()?;
    let expected = [BFloat16, ElementType::Uint16];
    assert_eq!(output_element_types(&model)?, expected);
    assert_eq!(output_element_types(&model.into_optimized()?)?, expected);
    Ok(())
}

#[test]
fn a_cast_after_an_if_sees_the_branch_that_runs() -> TractResult<()> {
    let branch = |constant: f32| {
        let value = tensor_attribute("value", tensor("t", Float8E5M2, &[constant]));
        Sketch::new().node("Constant", &[], &["b"], vec![value]).output("b", Float8E5M2, &[1])
    };
    for (condition, expected) in [(true, 2.0f32), (false, -3.0)] {
        let branches = vec![
            graph_attribute("then_branch", branch(2.0).0),
            graph_attribute("else_branch", branch(-3.0).0),
        ];
        let outputs = Sketch::new()
            .input("c", ElementType::Bool, &[])
            .node("If", &["c"], &["chosen"], branches)
            .cast("chosen", Float, "y")
            .output("y", Float, &[1])
            .run(vec![tensor0(condition)])?;
        assert_eq!(outputs, [tensor1(&[expected])]);
    }
    Ok(())
}

#[test]
fn a_branch_may_return_a_value_from_around_it() -> TractResult<()> {
    let outer = Sketch::new().output("w", BFloat16, &[2]);
    let other = Sketch::new().cast("x", BFloat16, "b").output("b", BFloat16, &[2]);
    let branches =
        vec![graph_attribute("then_branch", outer.0), graph_attribute("else_branch", other.0)];
    let outputs = Sketch::new()
        .input("c", ElementType::Bool, &[])
        .input("x", Float, &[2])
        .initializer(tensor("w", BFloat16, &[1.5, 2.5]))
        .node("If", &["c"], &["chosen"], branches)
        .cast("chosen", Float, "y")
        .output("y", Float, &[2])
        .run(vec![tensor0(true), tensor1(&[0.0f32, 0.0])])?;
    assert_eq!(outputs, [tensor1(&[1.5f32, 2.5])]);
    Ok(())
}

#[test]
fn branches_of_different_types_are_refused() {
    let branch = |to| Sketch::new().cast("x", to, "b").output("b", to, &[2]);
    let branches = vec![
        graph_attribute("then_branch", branch(BFloat16).0),
        graph_attribute("else_branch", branch(ElementType::Uint16).0),
    ];
    let sketch = Sketch::new()
        .input("c", ElementType::Bool, &[])
        .input("x", Float, &[2])
        .node("If", &["c"], &["y"], branches)
        .output("y", BFloat16, &[2]);
    assert_eq!(
        sketch.refusal(),
        "node `If_y` (If): makes BFLOAT16 in one branch and UINT16 in the other"
    );
}

#[test]
fn casts_are_listed_with_what_becomes_of_them() -> TractResult<()> {
    let model = Sketch::new()
        .input("x", Float, &[2])
        .initializer(tensor("w", Float8E4M3FN, &[1.0, 2.0]))
        .cast("w", Float, "wide")
        .cast("x", Float, "same")
        .node("CastLike", &["x", "w"], &["small"], vec![int("saturate", 0)])
        .node("Add", &["wide", "same"], &["sum"], vec![])
        .output("sum", Float, &[2])
        .output("small", Float8E4M3FN, &[2])
        .model();
    let survey = model_proto::survey(&onnx(), model.clone(), None)?;
    let rows: Vec<_> =
        survey.rows().iter().map(|c| (c.node.as_str(), c.from, c.to, c.fate)).collect();
    assert_eq!(
        rows,
        [
            ("Cast_wide", Some(Float8E4M3FN), Some(Float), Fate::Folded),
            ("Cast_same", Some(Float), Some(Float), Fate::NoOp),
            ("CastLike_small", Some(Float), Some(Float8E4M3FN), Fate::Kernel),
        ]
    );
    let last = &survey.rows()[2];
    assert_eq!((last.version, last.saturate), (24, Some(0)));
    assert_eq!(&*last.graph, "g");
    Ok(())
}

#[test]
fn graphs_that_do_not_fit_together_are_refused() {
    let cyclic = Sketch::new()
        .node("Identity", &["b"], &["a"], vec![])
        .node("Identity", &["a"], &["b"], vec![])
        .output("a", Float, &[2]);
    assert!(cyclic.refusal().contains("depends on its own output"));
    let missing = Sketch::new().output("y", Float, &[2]);
    assert_eq!(missing.refusal(), "graph `g`: nothing makes the output `y`");
    let dangling = Sketch::new().cast("nowhere", Float, "y").output("y", Float, &[2]);
    assert_eq!(dangling.refusal(), "node `Cast_y` (Cast): nothing makes its input `nowhere`");
    let twice = Sketch::new().input("x", Float, &[2]).cast("x", Float, "y").cast("x", Int64, "y");
    assert_eq!(twice.refusal(), "graph `g`: value `y` is made twice");
    let empty = ModelProto::default();
    assert!(onnx().model_for_proto_model(&empty).is_err());
}

#[test]
fn nodes_may_stand_in_any_order() -> TractResult<()> {
    let outputs = Sketch::new()
        .input("x", Float, &[1])
        .cast("b", Float, "y")
        .cast("x", BFloat16, "b")
        .output("y", Float, &[1])
        .run(vec![tensor1(&[1.003_906_3f32])])?;
    assert_eq!(outputs, [tensor1(&[1.0f32])]);
    Ok(())
}

#[test]
fn the_private_domain_is_refused_in_files() {
    let mut sketch = Sketch::new().input("x", Float, &[1]).output("y", Float, &[1]);
    let domain = "tract-onnx-cast".into();
    sketch.0.node.push(NodeProto { domain, ..node("Cast", &["x"], &["y"], vec![]) });
    assert!(sketch.refusal().contains("is this crate's own"));
}

fn with_data(data: TensorProto) -> String {
    Sketch::new().initializer(data).cast("w", Float, "y").output("y", Float, &[3]).refusal()
}

#[test]
fn tensors_that_contradict_themselves_are_refused() {
    let w = |data_type: ElementType, dims: &[i64]| TensorProto {
        name: "w".into(),
        data_type: data_type as i32,
        dims: dims.into(),
        ..Default::default()
    };
    let short = TensorProto { raw_data: vec![0; 5], ..w(BFloat16, &[3]) };
    let message = with_data(short);
    assert_eq!(message, "tensor `w`: BFLOAT16 has 5 in raw_data, dimensions [3] ask for 6");
    assert!(with_data(w(Int4, &[-1])).contains("has dimension -1"));
    assert!(with_data(w(Int4, &[i64::MAX, i64::MAX])).contains("overflow"));
    assert!(with_data(w(Float, &[1 << 40])).contains("ask for 1099511627776"));
    let unknown = TensorProto { data_type: 99, ..w(Float, &[1]) };
    assert!(with_data(unknown).contains("data type 99"));
    let both = TensorProto { raw_data: vec![0; 4], float_data: vec![0.0], ..w(Float, &[1]) };
    assert!(with_data(both).contains("data in both raw_data and float_data"));
    let wide = TensorProto { int32_data: vec![300], ..w(Uint8, &[1]) };
    assert!(with_data(wide).contains("has 300 in int32_data"));
    let elsewhere = TensorProto { int64_data: vec![1], ..w(Float, &[1]) };
    assert!(with_data(elsewhere).contains("has its data in int64_data"));
}

#[test]
fn external_data_stays_inside_the_folder() {
    let external = |location: &str| external(raw("w", BFloat16 as i32, &[1], &[]), location, None);
    assert!(with_data(external("w.bin")).contains("no folder"));
    let folder = tempfile::tempdir().expect("a folder");
    let inside = folder.path().join("model");
    std::fs::create_dir(&inside).expect("a folder");
    std::fs::write(folder.path().join("w.bin"), [0x80, 0x3F]).expect("a file");
    std::fs::write(inside.join("w.bin"), [0x80, 0x3F]).expect("a file");
    let read =
        |location: &str, folder: &Path| tensor_proto::read(&external(location), Some(folder));
    let (ty, tensor) = read("w.bin", &inside).expect("data inside");
    assert_eq!((ty, tensor), (BFloat16, tensor1(&[0x3F80u16])));
    std::fs::write(inside.join("long.bin"), [0x80, 0x3F, 1, 2, 3]).expect("a file");
    assert_eq!(read("long.bin", &inside).expect("more than enough").1, tensor1(&[0x3F80u16]));
    for location in ["../w.bin", "/etc/hostname", "", "missing.bin"] {
        assert!(read(location, &inside).is_err(), "{location}");
    }
}

#[test]
fn a_string_that_is_no_number_is_named() {
    let parse = Sketch::new().input("x", ElementType::String, &[2]).cast("x", Int64, "y").output(
        "y",
        Int64,
        &[2],
    );
    let texts: Vec<String> = vec!["12".into(), "1_000".into()];
    let error = parse.run(vec![tensor1(&texts)]).expect_err("no number");
    let message = format!("{error:#}");
    assert!(message.contains("`Cast_y`"), "{message}");
    assert!(
        message.contains("element 1, \"1_000\", is no number that INT64 can hold"),
        "{message}"
    );
}

#[test]
fn an_input_may_be_an_output() -> TractResult<()> {
    let sketch = Sketch::new()
        .input("x", BFloat16, &[2])
        .initializer(tensor("w", Float, &[1.0, 2.0]))
        .cast("x", Float, "y")
        .output("y", Float, &[2])
        .output("x", BFloat16, &[2])
        .output("w", Float, &[2]);
    let model = sketch.load()?;
    assert_eq!(output_element_types(&model.clone().into_typed()?)?, [Float, BFloat16, Float]);
    let inputs = tvec!(tensor1(&[0x3F80u16, 0x4000]).into_tvalue());
    let outputs = model.into_optimized()?.into_runnable()?.run(inputs)?;
    assert_eq!(*outputs[1], tensor1(&[0x3F80u16, 0x4000]));
    assert_eq!(*outputs[2], tensor1(&[1.0f32, 2.0]));
    Ok(())
}

#[test]
fn nodes_may_have_names_of_values_and_of_each_other() -> TractResult<()> {
    let mut sketch = Sketch::new()
        .input("x", Float, &[1])
        .cast("x", BFloat16, "b")
        .cast("b", Float, "y")
        .output("y", Float, &[1]);
    for node in &mut sketch.0.node {
        node.name = "x".into();
    }
    assert_eq!(sketch.run(vec![tensor1(&[1.5f32])])?, [tensor1(&[1.5f32])]);
    Ok(())
}

/// With the ops registered and no rewrite, tract's own element types work, and their rules hold.
#[test]
fn the_ops_alone_serve_native_types() -> TractResult<()> {
    let mut plain = tract_onnx::onnx();
    tract_onnx_cast::interop::register(&mut plain);
    let strings = |opset| {
        let mut model = Sketch::new()
            .input("x", ElementType::String, &[1])
            .cast("x", Float, "y")
            .output("y", Float, &[1])
            .model();
        model.opset_import[0].version = opset;
        plain.model_for_proto_model(&model)?.into_typed()
    };
    let plan = strings(9)?.into_optimized()?.into_runnable()?;
    let texts: Vec<String> = vec!["1e3".into()];
    assert_eq!(*plan.run(tvec!(tensor1(&texts).into_tvalue()))?[0], tensor1(&[1000.0f32]));
    let message = format!("{:#}", strings(8).expect_err("STRING came with opset 9"));
    assert!(
        message.contains(
            "node `Cast_y` (Cast): input of type STRING needs opset 9, the model imports 8"
        ),
        "{message}"
    );
    Ok(())
}
