//! Models in the making: ONNX's messages, a call each.

use prost::Message;
use tract_onnx::pb::attribute_proto::AttributeType;
use tract_onnx::pb::tensor_proto::DataLocation;
use tract_onnx::pb::tensor_shape_proto::{Dimension, dimension};
use tract_onnx::pb::type_proto::{self, Value};
use tract_onnx::pb::{
    AttributeProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, StringStringEntryProto,
    TensorProto, TensorShapeProto, TypeProto, ValueInfoProto,
};
use tract_onnx::prelude::*;
use tract_onnx_cast::{ElementType, Error, Rules, from_f32, onnx, tensor_proto};

pub fn dim(size: i64) -> Dimension {
    Dimension { value: Some(dimension::Value::DimValue(size)), ..Default::default() }
}

pub fn symbol(name: &str) -> Dimension {
    Dimension { value: Some(dimension::Value::DimParam(name.into())), ..Default::default() }
}

/// A value of any number as its type, sound or not; without dimensions its rank is unknown.
pub fn value_of(name: &str, elem_type: i32, dims: Option<Vec<Dimension>>) -> ValueInfoProto {
    let shape = dims.map(|dim| TensorShapeProto { dim });
    let tensor = type_proto::Tensor { elem_type, shape };
    let r#type = TypeProto { value: Some(Value::TensorType(tensor)), ..Default::default() };
    ValueInfoProto { name: name.into(), r#type: Some(r#type), ..Default::default() }
}

pub fn value(name: &str, ty: ElementType, shape: &[i64]) -> ValueInfoProto {
    value_of(name, ty as i32, Some(shape.iter().copied().map(dim).collect()))
}

pub fn shaped(name: &str, ty: ElementType, dims: Vec<Dimension>) -> ValueInfoProto {
    value_of(name, ty as i32, Some(dims))
}

/// A value of a type and nothing else.
pub fn unshaped(name: &str, ty: ElementType) -> ValueInfoProto {
    value_of(name, ty as i32, None)
}

/// Declares another size of an axis.
pub fn set_dim(value: &mut ValueInfoProto, axis: usize, size: Dimension) {
    let Some(Value::TensorType(tensor)) = value.r#type.as_mut().and_then(|ty| ty.value.as_mut())
    else {
        panic!("`{}` is no tensor", value.name);
    };
    tensor.shape.as_mut().expect("a shape").dim[axis] = size;
}

/// A value without even a type.
pub fn untyped(name: &str) -> ValueInfoProto {
    ValueInfoProto { name: name.into(), ..Default::default() }
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| name.to_string()).collect()
}

/// A node named after its operator and first output. `domain.Operator` is of another domain than
/// ONNX's.
pub fn node(
    op: &str,
    inputs: &[&str],
    outputs: &[&str],
    attribute: Vec<AttributeProto>,
) -> NodeProto {
    let (domain, op_type) = op.rsplit_once('.').unwrap_or(("", op));
    NodeProto {
        name: format!("{op_type}_{}", outputs.first().unwrap_or(&"")),
        op_type: op_type.into(),
        domain: domain.into(),
        input: names(inputs),
        output: names(outputs),
        attribute,
        ..Default::default()
    }
}

pub fn cast(input: &str, to: ElementType, output: &str) -> NodeProto {
    node("Cast", &[input], &[output], vec![int("to", to as i64)])
}

/// Changes to a node.
pub trait Change {
    fn named(self, name: &str) -> Self;
    fn with(self, attribute: AttributeProto) -> Self;
}

impl Change for NodeProto {
    fn named(mut self, name: &str) -> NodeProto {
        self.name = name.into();
        self
    }

    fn with(mut self, attribute: AttributeProto) -> NodeProto {
        self.attribute.push(attribute);
        self
    }
}

fn attribute(name: &str, ty: AttributeType) -> AttributeProto {
    AttributeProto { name: name.into(), r#type: ty as i32, ..Default::default() }
}

pub fn int(name: &str, i: i64) -> AttributeProto {
    AttributeProto { i, ..attribute(name, AttributeType::Int) }
}

pub fn ints(name: &str, ints: &[i64]) -> AttributeProto {
    AttributeProto { ints: ints.into(), ..attribute(name, AttributeType::Ints) }
}

pub fn float(name: &str, f: f32) -> AttributeProto {
    AttributeProto { f, ..attribute(name, AttributeType::Float) }
}

pub fn string(name: &str, s: &str) -> AttributeProto {
    AttributeProto { s: s.into(), ..attribute(name, AttributeType::String) }
}

pub fn tensor_attribute(name: &str, t: TensorProto) -> AttributeProto {
    AttributeProto { t: Some(t), ..attribute(name, AttributeType::Tensor) }
}

pub fn graph_attribute(name: &str, g: GraphProto) -> AttributeProto {
    AttributeProto { g: Some(g), ..attribute(name, AttributeType::Graph) }
}

/// An attribute that stands for one of its function's.
pub fn refer(name: &str, to: &str, ty: AttributeType) -> AttributeProto {
    AttributeProto { ref_attr_name: to.into(), ..attribute(name, ty) }
}

pub fn graph(
    inputs: &[ValueInfoProto],
    nodes: &[NodeProto],
    outputs: &[ValueInfoProto],
) -> GraphProto {
    GraphProto {
        name: "g".into(),
        input: inputs.to_vec(),
        node: nodes.to_vec(),
        output: outputs.to_vec(),
        ..Default::default()
    }
}

pub fn imports(opset: i64) -> Vec<OperatorSetIdProto> {
    vec![OperatorSetIdProto { version: opset, ..Default::default() }]
}

pub fn model(opset: i64, graph: GraphProto) -> ModelProto {
    ModelProto {
        ir_version: 10,
        opset_import: imports(opset),
        graph: Some(graph),
        ..Default::default()
    }
}

/// A tensor of any type with the values that these round to.
pub fn tensor(name: &str, ty: ElementType, values: &[f32]) -> TensorProto {
    let carrier = from_f32(&tensor1(values), ty, Rules::default()).expect("a conversion");
    tensor_proto::write(name, ty, &carrier).expect("a tensor")
}

pub fn int64(name: &str, values: &[i64]) -> TensorProto {
    TensorProto {
        name: name.into(),
        data_type: ElementType::Int64 as i32,
        dims: vec![values.len() as i64],
        int64_data: values.into(),
        ..Default::default()
    }
}

/// A tensor of any number as its type with these bytes.
pub fn raw(name: &str, data_type: i32, dims: &[i64], raw_data: &[u8]) -> TensorProto {
    TensorProto {
        name: name.into(),
        data_type,
        dims: dims.into(),
        raw_data: raw_data.into(),
        ..Default::default()
    }
}

/// The tensor with its data in a file, from an offset where one is given.
pub fn external(tensor: TensorProto, location: &str, offset: Option<usize>) -> TensorProto {
    let entry =
        |key: &str, value: &str| StringStringEntryProto { key: key.into(), value: value.into() };
    let mut external_data = vec![entry("location", location)];
    if let Some(offset) = offset {
        external_data.push(entry("offset", &offset.to_string()));
        external_data.push(entry("length", &tensor.raw_data.len().to_string()));
    }
    let data_location = Some(DataLocation::External as i32);
    TensorProto { raw_data: vec![], data_location, external_data, ..tensor }
}

/// A message as a file has it.
pub fn bytes(message: &impl Message) -> Vec<u8> {
    message.encode_to_vec()
}

/// What loading a model is refused with: our error's one line.
pub fn refusal(model: &ModelProto) -> String {
    let error = onnx().model_for_proto_model(model).expect_err("the model should be refused");
    let ours = error.chain().find_map(|cause| cause.downcast_ref::<Error>());
    ours.map_or_else(|| format!("not ours: {error:#}"), Error::to_string)
}

/// A model of opset 24 in the making.
#[derive(Clone, Default)]
pub struct Sketch(pub GraphProto);

impl Sketch {
    pub fn new() -> Sketch {
        Sketch(graph(&[], &[], &[]))
    }

    pub fn input(mut self, name: &str, ty: ElementType, shape: &[i64]) -> Sketch {
        self.0.input.push(value(name, ty, shape));
        self
    }

    pub fn output(mut self, name: &str, ty: ElementType, shape: &[i64]) -> Sketch {
        self.0.output.push(value(name, ty, shape));
        self
    }

    pub fn value_info(mut self, name: &str, ty: ElementType) -> Sketch {
        self.0.value_info.push(value(name, ty, &[]));
        self
    }

    pub fn initializer(mut self, tensor: TensorProto) -> Sketch {
        self.0.initializer.push(tensor);
        self
    }

    pub fn node(
        mut self,
        op: &str,
        inputs: &[&str],
        outputs: &[&str],
        with: Vec<AttributeProto>,
    ) -> Sketch {
        self.0.node.push(node(op, inputs, outputs, with));
        self
    }

    pub fn cast(mut self, from: &str, to: ElementType, output: &str) -> Sketch {
        self.0.node.push(cast(from, to, output));
        self
    }

    pub fn model(self) -> ModelProto {
        model(24, self.0)
    }

    pub fn load(self) -> TractResult<InferenceModel> {
        onnx().model_for_proto_model(&self.model())
    }

    pub fn run(self, inputs: Vec<Tensor>) -> TractResult<Vec<Tensor>> {
        let plan = self.load()?.into_optimized()?.into_runnable()?;
        let inputs = inputs.into_iter().map(Tensor::into_tvalue).collect();
        Ok(plan.run(inputs)?.into_iter().map(TValue::into_tensor).collect())
    }

    /// The one line of the error that loading ends in.
    pub fn refusal(self) -> String {
        refusal(&self.model())
    }
}
