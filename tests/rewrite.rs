//! What the rewrite of a model accepts, makes and refuses.

mod common;

use std::path::Path;

use tract_onnx::pb::attribute_proto::AttributeType;
use tract_onnx::pb::tensor_proto::DataLocation;
use tract_onnx::pb::type_proto::{self, Value};
use tract_onnx::pb::{
    AttributeProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, StringStringEntryProto,
    TensorProto, TensorShapeProto, TypeProto, ValueInfoProto, tensor_shape_proto,
};
use tract_onnx::prelude::*;
use tract_onnx_cast::{
    ElementType, Error, Fate, Rules, bf16_slice, from_f32, input_element_types, onnx,
    output_element_types, tensor_proto,
};

use ElementType::{BFloat16, Float, Float8E4M3FN, Float8E5M2, Float8E8M0, Int4, Int64, Uint8};

/// A model in the making.
#[derive(Default)]
struct Sketch(GraphProto);

impl Sketch {
    fn new() -> Sketch {
        Sketch(GraphProto { name: "g".into(), ..Default::default() })
    }

    fn input(mut self, name: &str, ty: ElementType, shape: &[i64]) -> Sketch {
        self.0.input.push(value(name, ty, shape));
        self
    }

    fn output(mut self, name: &str, ty: ElementType, shape: &[i64]) -> Sketch {
        self.0.output.push(value(name, ty, shape));
        self
    }

    fn value_info(mut self, name: &str, ty: ElementType) -> Sketch {
        self.0.value_info.push(value(name, ty, &[]));
        self
    }

    fn initializer(mut self, tensor: TensorProto) -> Sketch {
        self.0.initializer.push(tensor);
        self
    }

    fn node(
        mut self,
        op: &str,
        inputs: &[&str],
        outputs: &[&str],
        with: Vec<AttributeProto>,
    ) -> Sketch {
        self.0.node.push(node(op, inputs, outputs, with));
        self
    }

    fn cast(self, from: &str, to: ElementType, output: &str) -> Sketch {
        self.node("Cast", &[from], &[output], vec![int("to", to as i64)])
    }

    fn model(self) -> ModelProto {
        ModelProto {
            ir_version: 10,
            opset_import: vec![OperatorSetIdProto { version: 24, ..Default::default() }],
            graph: Some(self.0),
            ..Default::default()
        }
    }

    fn load(self) -> TractResult<InferenceModel> {
        onnx().model_for_proto_model(&self.model())
    }

    fn run(self, inputs: Vec<Tensor>) -> TractResult<Vec<Tensor>> {
        let plan = self.load()?.into_optimized()?.into_runnable()?;
        let inputs = inputs.into_iter().map(Tensor::into_tvalue).collect();
        Ok(plan.run(inputs)?.into_iter().map(TValue::into_tensor).collect())
    }

    /// The one line of the error that loading ends in.
    fn refusal(self) -> String {
        let error = self.load().expect_err("the model should be refused");
        let ours = error.chain().find_map(|cause| cause.downcast_ref::<Error>());
        ours.map_or_else(|| format!("not ours: {error:#}"), Error::to_string)
    }
}

fn value(name: &str, ty: ElementType, shape: &[i64]) -> ValueInfoProto {
    let dim = |dim: &i64| tensor_shape_proto::Dimension {
        value: Some(tensor_shape_proto::dimension::Value::DimValue(*dim)),
        ..Default::default()
    };
    let shape = TensorShapeProto { dim: shape.iter().map(dim).collect() };
    let tensor = type_proto::Tensor { elem_type: ty as i32, shape: Some(shape) };
    let r#type = TypeProto { value: Some(Value::TensorType(tensor)), ..Default::default() };
    ValueInfoProto { name: name.into(), r#type: Some(r#type), ..Default::default() }
}

fn node(op: &str, inputs: &[&str], outputs: &[&str], attribute: Vec<AttributeProto>) -> NodeProto {
    NodeProto {
        name: format!("{op}_{}", outputs.first().unwrap_or(&"")),
        op_type: op.into(),
        input: inputs.iter().map(|name| name.to_string()).collect(),
        output: outputs.iter().map(|name| name.to_string()).collect(),
        attribute,
        ..Default::default()
    }
}

fn int(name: &str, i: i64) -> AttributeProto {
    let r#type = AttributeType::Int as i32;
    AttributeProto { name: name.into(), r#type, i, ..Default::default() }
}

fn ints(name: &str, ints: &[i64]) -> AttributeProto {
    let r#type = AttributeType::Ints as i32;
    AttributeProto { name: name.into(), r#type, ints: ints.into(), ..Default::default() }
}

fn tensor_attribute(name: &str, t: TensorProto) -> AttributeProto {
    let r#type = AttributeType::Tensor as i32;
    AttributeProto { name: name.into(), r#type, t: Some(t), ..Default::default() }
}

fn graph_attribute(name: &str, sketch: Sketch) -> AttributeProto {
    let r#type = AttributeType::Graph as i32;
    AttributeProto { name: name.into(), r#type, g: Some(sketch.0), ..Default::default() }
}

/// A tensor of any type with these values.
fn tensor(name: &str, ty: ElementType, values: &[f32]) -> TensorProto {
    let carrier = from_f32(&tensor1(values), ty, Rules::default()).expect("a conversion");
    tensor_proto::write(name, ty, &carrier).expect("a tensor")
}

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
    let add = Sketch::new().input("x", BFloat16, &[2]).node("Add", &["x", "x"], &["y"], vec![]);
    assert_eq!(
        add.output("y", BFloat16, &[2]).refusal(),
        "node `Add_y` (Add): cannot compute with BFLOAT16: Cast it to a wider type first"
    );
    let by_attribute = Sketch::new()
        .node("RandomNormal", &[], &["y"], vec![int("dtype", 16), ints("shape", &[2])])
        .output("y", BFloat16, &[2]);
    assert_eq!(
        by_attribute.refusal(),
        "node `RandomNormal_y` (RandomNormal): cannot compute a result of BFLOAT16"
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
    assert!(sketch.refusal().contains("cannot compute with INT4"));
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
            .initializer(TensorProto {
                name: "pads".into(),
                data_type: Int64 as i32,
                dims: vec![2],
                int64_data: vec![1, 1],
                ..Default::default()
            })
            .initializer(TensorProto { dims: vec![], ..tensor("one", Float8E8M0, &[1.0]) })
            .node("Pad", &inputs, &["y"], vec![])
            .output("y", Float8E8M0, &[4])
    };
    assert!(pad(&[]).refusal().contains("fills with zero, which FLOAT8E8M0 does not have"));
    let float = AttributeProto {
        name: "value".into(),
        r#type: AttributeType::Float as i32,
        f: 1.0,
        ..Default::default()
    };
    let old = Sketch::new()
        .input("x", BFloat16, &[2])
        .node("Pad", &["x"], &["y"], vec![ints("pads", &[1, 1]), float])
        .output("y", BFloat16, &[4]);
    assert!(old.refusal().contains("fills with a number of its own"));
    let padded = pad(&["one"]).run(vec![tensor1(&[130u8, 120])]).expect("a constant of one");
    assert_eq!(padded[0], tensor1(&[127u8, 130, 120, 127]));
}

#[test]
fn contradicting_declarations_are_reported() {
    let sketch = || Sketch::new().input("x", Float, &[2]).cast("x", Float, "y");
    let message = "node `Cast_y` (Cast): makes `y` FLOAT, but the model declares it FLOAT16";
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
fn unsigned_initializers_come_from_their_own_field() -> TractResult<()> {
    for (ty, expected) in [
        (ElementType::Uint32, tensor1(&[7u32, u32::MAX]).cast_to::<i64>()?.into_owned()),
        (ElementType::Uint64, tensor1(&[7i64, i64::from(u32::MAX)])),
    ] {
        let weights = TensorProto {
            name: "w".into(),
            data_type: ty as i32,
            dims: vec![2],
            uint64_data: vec![7, u64::from(u32::MAX)],
            ..Default::default()
        };
        let sketch =
            Sketch::new().initializer(weights).cast("w", Int64, "y").output("y", Int64, &[2]);
        assert_eq!(sketch.run(vec![])?, [expected]);
    }
    Ok(())
}

#[test]
fn int64_is_exact_at_outputs_and_inside() -> TractResult<()> {
    let cast = |from| Sketch::new().input("x", from, &[2]).cast("x", Int64, "y");
    let whole = |from, x: Tensor| cast(from).output("y", Int64, &[2]).run(vec![x]);
    assert_eq!(whole(Int64, tensor1(&[i64::MAX, i64::MIN]))?, [tensor1(&[i64::MAX, i64::MIN])]);
    assert_eq!(
        whole(Float, tensor1(&[1e10f32, -1e10]))?,
        [tensor1(&[10_000_000_000i64, -10_000_000_000])]
    );
    assert_eq!(
        whole(ElementType::Uint32, tensor1(&[u32::MAX, 1 << 31]))?,
        [tensor1(&[4294967295i64, 2147483648])]
    );
    assert_eq!(
        whole(ElementType::Uint64, tensor1(&[1u64 << 40, u64::MAX]))?,
        [tensor1(&[1i64 << 40, -1])]
    );
    let doubled = cast(Float).node("Add", &["y", "y"], &["z"], vec![]).output("z", Int64, &[2]);
    assert_eq!(doubled.run(vec![tensor1(&[1e10f32, 3.0])])?, [tensor1(&[20_000_000_000i64, 6])]);
    Ok(())
}

/// tract would turn the data into symbolic dimensions, by way of 32 bits.
#[test]
fn int64_data_beside_a_shape_is_exact() -> TractResult<()> {
    let sketch = Sketch::new()
        .input("x", Float, &[10])
        .input("e", ElementType::Double, &[1])
        .cast("e", Int64, "v")
        .node("Shape", &["x"], &["s"], vec![])
        .node("Add", &["v", "s"], &["sum"], vec![])
        .node("Concat", &["s", "v"], &["both"], vec![int("axis", 0)])
        .node("Less", &["v", "s"], &["less"], vec![])
        .output("sum", Int64, &[1])
        .output("both", Int64, &[2])
        .output("less", ElementType::Bool, &[1]);
    let outputs = sketch.run(vec![Tensor::zero::<f32>(&[10])?, tensor1(&[1e10f64])])?;
    let expected =
        [tensor1(&[10_000_000_010i64]), tensor1(&[10, 10_000_000_000i64]), tensor1(&[false])];
    assert_eq!(outputs, expected);
    Ok(())
}

fn int64(name: &str, values: &[i64]) -> TensorProto {
    TensorProto {
        name: name.into(),
        data_type: Int64 as i32,
        dims: vec![values.len() as i64],
        int64_data: values.into(),
        ..Default::default()
    }
}

/// A shape of [2, 3] and what it meets on the way to the output `y`.
fn beside_shape(extend: impl FnOnce(Sketch) -> Sketch) -> TractResult<Tensor> {
    let sketch = Sketch::new().input("x", Float, &[2, 3]).input("d", Int64, &[2]).node(
        "Shape",
        &["x"],
        &["s"],
        vec![],
    );
    let inputs = vec![Tensor::zero::<f32>(&[2, 3])?, tensor1(&[1i64 << 40, 0])];
    Ok(extend(sketch).output("y", Int64, &[2]).run(inputs)?.remove(0))
}

#[test]
fn wide_numbers_beside_shapes_are_exact_wherever_they_come_from() -> TractResult<()> {
    let max = |s: Sketch| s.initializer(int64("max", &[i64::MAX]));
    let clipped = beside_shape(|s| max(s).node("Min", &["s", "max"], &["y"], vec![]))?;
    assert_eq!(clipped, tensor1(&[2i64, 3]));
    let scaled = beside_shape(|s| {
        s.initializer(int64("k", &[10_000_000_000])).node("Mul", &["s", "k"], &["y"], vec![])
    })?;
    assert_eq!(scaled, tensor1(&[20_000_000_000i64, 30_000_000_000]));
    let folded = beside_shape(|s| {
        s.initializer(tensor("k", Float, &[1e10])).cast("k", Int64, "wide").node(
            "Add",
            &["s", "wide"],
            &["y"],
            vec![],
        )
    })?;
    assert_eq!(folded, tensor1(&[10_000_000_002i64, 10_000_000_003]));
    let derived = beside_shape(|s| {
        s.initializer(tensor("k", ElementType::Double, &[1e10]))
            .cast("s", ElementType::Double, "float")
            .node("Mul", &["float", "k"], &["big"], vec![])
            .cast("big", Int64, "wide")
            .node("Add", &["s", "wide"], &["y"], vec![])
    })?;
    assert_eq!(derived, tensor1(&[20_000_000_002i64, 30_000_000_003]));
    let moved = beside_shape(|s| {
        s.initializer(int64("i", &[1, 0]))
            .node("Mul", &["d", "i"], &["index"], vec![])
            .initializer(int64("zero", &[0, 0]))
            .node("Mul", &["index", "zero"], &["first"], vec![])
            .node("Gather", &["s", "first"], &["picked"], vec![])
            .node("Add", &["picked", "d"], &["y"], vec![])
    })?;
    assert_eq!(moved, tensor1(&[(1i64 << 40) + 2, 2]));
    Ok(())
}

#[test]
fn a_branch_may_return_a_shape_and_the_other_data() -> TractResult<()> {
    let then = Sketch::new().node("Identity", &["s"], &["b"], vec![]).output("b", Int64, &[2]);
    let other = Sketch::new().node("Identity", &["d"], &["b"], vec![]).output("b", Int64, &[2]);
    let branches =
        vec![graph_attribute("then_branch", then), graph_attribute("else_branch", other)];
    let outputs = Sketch::new()
        .input("c", ElementType::Bool, &[])
        .input("x", Float, &[2, 3])
        .input("d", Int64, &[2])
        .node("Shape", &["x"], &["s"], vec![])
        .node("If", &["c"], &["chosen"], branches)
        .node("Add", &["chosen", "d"], &["y"], vec![])
        .output("y", Int64, &[2])
        .run(vec![tensor0(true), Tensor::zero::<f32>(&[2, 3])?, tensor1(&[1i64 << 40, 0])])?;
    assert_eq!(outputs, [tensor1(&[(1i64 << 40) + 2, 3])]);
    Ok(())
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
fn a_shape_leaves_the_model_as_numbers() -> TractResult<()> {
    let mut sketch = Sketch::new()
        .input("x", Float, &[1, 3])
        .node("Shape", &["x"], &["s"], vec![])
        .cast("s", Int64, "y")
        .output("y", Int64, &[2])
        .output("s", Int64, &[2]);
    if let Some(Value::TensorType(tensor)) = &mut sketch.0.input[0].r#type.as_mut().unwrap().value {
        let batch = tensor_shape_proto::dimension::Value::DimParam("batch".into());
        tensor.shape.as_mut().unwrap().dim[0].value = Some(batch);
    }
    let outputs = sketch.run(vec![Tensor::zero::<f32>(&[5, 3])?])?;
    assert_eq!(outputs, [tensor1(&[5i64, 3]), tensor1(&[5i64, 3])]);
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
            graph_attribute("then_branch", branch(2.0)),
            graph_attribute("else_branch", branch(-3.0)),
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
        vec![graph_attribute("then_branch", outer), graph_attribute("else_branch", other)];
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
        graph_attribute("then_branch", branch(BFloat16)),
        graph_attribute("else_branch", branch(ElementType::Uint16)),
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
    let casts = onnx().casts(&model, None)?;
    let rows: Vec<_> = casts.iter().map(|c| (c.node.as_str(), c.from, c.to, c.fate)).collect();
    assert_eq!(
        rows,
        [
            ("Cast_wide", Some(Float8E4M3FN), Some(Float), Fate::Folded),
            ("Cast_same", Some(Float), Some(Float), Fate::NoOp),
            ("CastLike_small", Some(Float), Some(Float8E4M3FN), Fate::Kernel),
        ]
    );
    assert_eq!((casts[2].version, casts[2].saturate), (24, Some(0)));
    assert_eq!(casts[2].graph, "g");
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
    let external = |location: &str| TensorProto {
        name: "w".into(),
        data_type: BFloat16 as i32,
        dims: vec![1],
        data_location: Some(DataLocation::External as i32),
        external_data: vec![StringStringEntryProto {
            key: "location".into(),
            value: location.into(),
        }],
        ..Default::default()
    };
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

#[test]
fn dimensions_beyond_tract_are_refused() {
    let shape = |dims: Vec<i64>| TensorProto {
        name: "s".into(),
        data_type: Int64 as i32,
        dims: vec![dims.len() as i64],
        int64_data: dims,
        ..Default::default()
    };
    let sketch = Sketch::new()
        .initializer(shape(vec![1 << 40]))
        .node("ConstantOfShape", &["s"], &["y"], vec![])
        .output("y", Float, &[1]);
    assert!(sketch.refusal().contains("a dimension beyond the 32 bits"));
}

#[test]
fn intricate_dimensions_are_left_unknown() -> TractResult<()> {
    let nested = (0..12).fold("N".to_string(), |inner, _| format!("max({inner}+1,M)"));
    let deep = format!("{}N{}", "(".repeat(1_000_000), ")".repeat(1_000_000));
    for text in [nested, deep] {
        let mut sketch = Sketch::new().input("x", Float, &[1]).cast("x", BFloat16, "y").output(
            "y",
            BFloat16,
            &[1],
        );
        for value in [&mut sketch.0.input[0], &mut sketch.0.output[0]] {
            let Some(Value::TensorType(tensor)) = &mut value.r#type.as_mut().unwrap().value else {
                continue;
            };
            let dim = tensor_shape_proto::dimension::Value::DimParam(text.clone());
            tensor.shape.as_mut().unwrap().dim[0].value = Some(dim);
        }
        sketch.load()?;
    }
    Ok(())
}

/// With the ops registered and no rewrite, tract's own element types work, and their rules hold.
#[test]
fn the_ops_alone_serve_native_types() -> TractResult<()> {
    let mut plain = tract_onnx::onnx();
    tract_onnx_cast::register(&mut plain);
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

/// A model of `x`, whose batch has no name, to its shape and a cast.
fn nameless_batch() -> ModelProto {
    let mut sketch = Sketch::new()
        .input("x", Float, &[-1, 3])
        .cast("x", BFloat16, "y")
        .node("Shape", &["y"], &["s"], vec![])
        .output("y", BFloat16, &[7, 7, 7])
        .output("s", Int64, &[9]);
    sketch.0.value_info.push(value("s", Int64, &[4, 4]));
    sketch.model()
}

#[test]
fn a_nameless_dimension_is_a_symbol_until_it_is_given() -> TractResult<()> {
    let model = onnx().model_for_proto_model(&nameless_batch())?;
    let run = |model: InferenceModel, batch: usize| -> TractResult<Tensor> {
        let plan = model.into_optimized()?.into_runnable()?;
        let outputs = plan.run(tvec!(Tensor::zero::<f32>(&[batch, 3])?.into_tvalue()))?;
        Ok(outputs[1].clone().into_tensor())
    };
    assert_eq!(run(model.clone(), 2)?, tensor1(&[2i64, 3]));
    assert_eq!(run(model.clone(), 5)?, tensor1(&[5i64, 3]));
    let given = model.clone().with_input_fact(0, f32::fact([4, 3]).into())?;
    assert_eq!(run(given, 4)?, tensor1(&[4i64, 3]));
    // An analysis of its own, before the facts are given, and another one after.
    let mut analysed = model;
    analysed.analyse(false)?;
    assert_eq!(run(analysed, 3)?, tensor1(&[3i64, 3]));
    Ok(())
}

/// Two inputs that are added are of one shape, which the output's declaration tells.
#[test]
fn declared_shapes_settle_inputs_that_are_open() -> TractResult<()> {
    let symbol = |value: &mut ValueInfoProto, name: &str| {
        if let Some(Value::TensorType(tensor)) = &mut value.r#type.as_mut().unwrap().value {
            let name = tensor_shape_proto::dimension::Value::DimParam(name.into());
            tensor.shape.as_mut().unwrap().dim[0].value = Some(name);
        }
    };
    let mut sketch = Sketch::new()
        .input("x", Float, &[-1, 3])
        .cast("x", ElementType::Double, "d")
        .cast("d", BFloat16, "y")
        .output("y", BFloat16, &[0, 3])
        .output("d", ElementType::Double, &[8]);
    symbol(&mut sketch.0.output[0], "batch");
    let model = sketch.load()?.into_typed()?;
    assert_eq!(format!("{:?}", model.input_fact(0)?.shape), "batch,3");
    Ok(())
}

#[test]
fn an_expansion_is_what_its_data_asks_for() {
    let sketch = || {
        Sketch::new()
            .input("x", Float, &[1, 3, 1])
            .input("dims", Int64, &[2])
            .output("y", Float, &[1, 3, 2])
            .node("Expand", &["x", "dims"], &["y"], vec![])
    };
    let x = Tensor::from_shape(&[1, 3, 1], &[1.0f32, 2.0, 3.0]).expect("a tensor");
    let outputs = sketch().run(vec![x.clone(), tensor1(&[3i64, 2])]).expect("as declared");
    assert_eq!(outputs[0].shape(), [1, 3, 2]);
    let other = sketch().run(vec![x.clone(), tensor1(&[3i64, 4])]).expect_err("not as declared");
    let message = format!("{other:#}");
    let expected = "node `Expand_y` (Expand): its data asks for the shape [1, 3, 4], but the model declares [1, 3, 2]";
    assert!(message.contains(expected), "{message}");
    let negative = sketch().run(vec![x, tensor1(&[3i64, -2])]).expect_err("no shape");
    assert!(format!("{negative:#}").contains("node `Expand_y` (Expand)"), "{negative:#}");
}
