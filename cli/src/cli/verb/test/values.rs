//! Cases whose models take or make sequences and optionals, which no plan does: they run node by
//! node.

use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use prost::Message;
use tract_onnx::pb::TensorProto;
use tract_onnx::prelude::TractResult;
use tract_onnx_cast::interpreter::{Interpreter, OnnxValue};
use tract_onnx_cast::{OnnxTensor, tensor_proto};

use super::expected::difference;
use crate::cli::input::cases::Case;
use crate::cli::input_file::read_regular;
use crate::cli::measure::tolerance::Tolerance;
use crate::cli::message::{ProblemKind, about, at, counted, single_line};
use crate::cli::work::engine::Engine;
use crate::cli::work::model::Loader;

/// The types that a model declares: tract's messages have those of tensors alone.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ModelHeader {
    #[prost(message, optional, tag = "7")]
    graph: Option<GraphHeader>,
}

#[derive(Clone, PartialEq, Message)]
struct GraphHeader {
    #[prost(message, repeated, tag = "11")]
    inputs: Vec<ValueHeader>,
    #[prost(message, repeated, tag = "12")]
    outputs: Vec<ValueHeader>,
}

/// An input or an output.
#[derive(Clone, PartialEq, Message)]
struct ValueHeader {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, optional, tag = "2")]
    ty: Option<Type>,
}

#[derive(Clone, PartialEq, Message)]
struct Type {
    #[prost(message, optional, tag = "4")]
    sequence: Option<Anything>,
    #[prost(message, optional, tag = "9")]
    optional: Option<Anything>,
}

#[derive(Clone, PartialEq, Message)]
struct Anything {}

#[derive(Clone, PartialEq, Message)]
struct SequenceProto {
    /// Which of the fields is meant.
    #[prost(int32, tag = "2")]
    held: i32,
    #[prost(message, repeated, tag = "3")]
    tensors: Vec<TensorProto>,
}

#[derive(Clone, PartialEq, Message)]
struct OptionalProto {
    /// Which of the fields is meant.
    #[prost(int32, tag = "2")]
    held: i32,
    #[prost(message, optional, tag = "3")]
    tensor: Option<TensorProto>,
    #[prost(message, optional, tag = "5")]
    sequence: Option<SequenceProto>,
}

/// The numbers that ONNX has for what such a message holds.
const NOTHING: i32 = 0;
const TENSOR: i32 = 1;
const SEQUENCE: i32 = 3;

impl ModelHeader {
    /// What a model's file declares, if that is more than tensors.
    pub(super) fn of(model: &Path) -> TractResult<Option<ModelHeader>> {
        let header = ModelHeader::decode(read_regular(model)?.as_slice())?;
        let ends = header.graph.iter().flat_map(|graph| graph.inputs.iter().chain(&graph.outputs));
        let has_others = ends.filter_map(|end| end.ty.as_ref()).any(|ty| !ty.is_tensor());
        Ok(has_others.then_some(header))
    }

    /// Why a case fails, if it does.
    /// Fails when the model does not run, or a file is not of the declared type.
    pub(super) fn failure(
        &self,
        (case, loader): (&Case, &Loader),
        tolerance: Option<Tolerance>,
    ) -> TractResult<Option<String>> {
        let graph = self.graph.as_ref().context("there is no graph")?;
        let loader = loader.by(Engine::Nodes, None);
        let proto = loader.read_light(&case.model)?;
        let model = Interpreter::of_proto(loader.onnx(), proto, case.model.parent())?;
        let inputs = read(&case.inputs()?, &model.input_names(), &graph.inputs)?;
        let expected = read(&case.outputs()?, &model.output_names(), &graph.outputs)?;
        ensure!(!expected.is_empty(), "there is no output_*.pb to compare with");
        let outputs = model.run_values(inputs)?;
        for ((got, want), name) in outputs.iter().zip(&expected).zip(model.output_names()) {
            if let Some(difference) = differs(got, want, tolerance)? {
                return Ok(Some(format!("output `{}`: {difference}", single_line(name))));
            }
        }
        Ok(None)
    }
}

impl Type {
    fn is_tensor(&self) -> bool {
        self.sequence.is_none() && self.optional.is_none()
    }
}

/// The values of files, by the types that are declared of these names.
fn read(
    files: &[PathBuf],
    names: &[&str],
    declared: &[ValueHeader],
) -> TractResult<Vec<OnnxValue>> {
    let (held, wanted) = (files.len(), names.len());
    ensure!(
        held == wanted,
        "the case has {} for {wanted} of the model: {names:?}",
        counted(held, "file")
    );
    let value = |(file, name): (&PathBuf, &&str)| {
        let end = declared.iter().find(|end| end.name == **name);
        let ty = end.and_then(|end| end.ty.clone()).unwrap_or_default();
        about(ProblemKind::Input, at(file.display().to_string(), value(file, &ty)))
    };
    files.iter().zip(names).map(value).collect()
}

fn value(file: &Path, ty: &Type) -> TractResult<OnnxValue> {
    let bytes = read_regular(file)?;
    if ty.is_tensor() {
        return Ok(OnnxValue::Tensor(tensor(&TensorProto::decode(&*bytes)?)?));
    }
    if ty.sequence.is_some() {
        return sequence(&SequenceProto::decode(&*bytes)?);
    }
    let OptionalProto { held, tensor: one, sequence: many } = OptionalProto::decode(&*bytes)?;
    let held = match (held, one, many) {
        (NOTHING, None, None) => None,
        (TENSOR, Some(one), None) => Some(Box::new(OnnxValue::Tensor(tensor(&one)?))),
        (SEQUENCE, None, Some(many)) => Some(Box::new(sequence(&many)?)),
        (other, ..) => anyhow::bail!("holds what no tensor and no sequence is (type {other})"),
    };
    Ok(OnnxValue::Optional(held))
}

fn sequence(proto: &SequenceProto) -> TractResult<OnnxValue> {
    let is_of_tensors = matches!(proto.held, NOTHING | TENSOR);
    ensure!(is_of_tensors, "is a sequence of what is no tensor (type {})", proto.held);
    Ok(OnnxValue::Sequence(proto.tensors.iter().map(tensor).collect::<TractResult<_>>()?))
}

fn tensor(proto: &TensorProto) -> TractResult<OnnxTensor> {
    let (ty, tensor) = tensor_proto::read(proto, None)?;
    Ok(OnnxTensor::new(ty, tensor)?)
}

/// What distinguishes a value from the expected one; since opset 18 what an optional holds may
/// stand for it.
fn differs(
    got: &OnnxValue,
    want: &OnnxValue,
    tolerance: Option<Tolerance>,
) -> TractResult<Option<String>> {
    use OnnxValue::{Optional, Sequence, Tensor};
    match (got, want) {
        (Optional(Some(got)), want) => differs(got, want, tolerance),
        (got, Optional(Some(want))) => differs(got, want, tolerance),
        (Optional(None), Optional(None)) => Ok(None),
        (Tensor(got), Tensor(want)) => {
            let (ty, other) = (got.element_type(), want.element_type());
            if ty != other {
                return Ok(Some(format!("is {ty}, expected {other}")));
            }
            difference(ty, got.tensor(), want.tensor(), tolerance)
        }
        (Sequence(got), Sequence(want)) => {
            if got.len() != want.len() {
                return Ok(Some(format!(
                    "{}, expected {}",
                    counted(got.len(), "tensor"),
                    want.len()
                )));
            }
            for (place, (got, want)) in got.iter().zip(want).enumerate() {
                let (got, want) = (Tensor(got.clone()), Tensor(want.clone()));
                if let Some(difference) = differs(&got, &want, tolerance)? {
                    return Ok(Some(format!("tensor {place}: {difference}")));
                }
            }
            Ok(None)
        }
        (got, want) => Ok(Some(format!("is {}, expected {}", kind(got), kind(want)))),
    }
}

fn kind(value: &OnnxValue) -> &'static str {
    match value {
        OnnxValue::Tensor(_) => "a tensor",
        OnnxValue::Sequence(_) => "a sequence",
        OnnxValue::Optional(_) => "nothing",
    }
}
