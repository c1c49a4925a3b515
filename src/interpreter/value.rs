//! What a node passes on: a tensor, a sequence of tensors, or an optional.

use std::sync::Arc;

use tract_onnx::prelude::{DatumType, Tensor, TractResult};

use super::sequences::list::List;
use crate::cast::element_type::ElementType;
use crate::error::{Error, Result};
use crate::tensor::typed::OnnxTensor;

/// A tensor that several values may share.
#[derive(Debug, Clone)]
pub(super) struct TypedTensor {
    pub(super) ty: ElementType,
    pub(super) tensor: Arc<Tensor>,
}

/// A value of a running model.
#[derive(Debug, Clone)]
pub(super) enum RuntimeValue {
    Tensor(TypedTensor),
    Sequence(List<TypedTensor>),
    Optional(Option<Box<RuntimeValue>>),
}

/// What a model takes or makes ([`Interpreter::run_values`](super::Interpreter::run_values)).
#[derive(Debug, Clone, PartialEq)]
pub enum OnnxValue {
    /// A tensor.
    Tensor(OnnxTensor),
    /// A sequence of tensors.
    Sequence(Vec<OnnxTensor>),
    /// A tensor or a sequence, or nothing.
    Optional(Option<Box<OnnxValue>>),
}

impl From<OnnxTensor> for TypedTensor {
    fn from(tensor: OnnxTensor) -> TypedTensor {
        let ty = tensor.element_type();
        TypedTensor { ty, tensor: tensor.into_tensor().into() }
    }
}

impl From<OnnxValue> for RuntimeValue {
    fn from(value: OnnxValue) -> RuntimeValue {
        match value {
            OnnxValue::Tensor(tensor) => RuntimeValue::Tensor(tensor.into()),
            OnnxValue::Sequence(tensors) => {
                RuntimeValue::Sequence(tensors.into_iter().map(TypedTensor::from).collect())
            }
            OnnxValue::Optional(held) => {
                RuntimeValue::Optional(held.map(|held| Box::new(RuntimeValue::from(*held))))
            }
        }
    }
}

impl TypedTensor {
    /// A tensor in its type's carrier: tract computes sizes as symbolic dimensions, which are INT64
    /// in ONNX.
    pub(super) fn new(ty: ElementType, tensor: Tensor) -> TractResult<TypedTensor> {
        let is_size = tensor.datum_type() == DatumType::TDim && ty == ElementType::Int64;
        let tensor = if is_size { tensor.cast_to_dt(DatumType::I64)?.into_owned() } else { tensor };
        let (held, carrier) = (tensor.datum_type(), ty.datum_type());
        anyhow::ensure!(held == carrier, "tract computed {held:?}, not {carrier:?}");
        Ok(TypedTensor { ty, tensor: tensor.into() })
    }

    /// What stands at the place of an output that nobody takes.
    pub(super) fn unwanted() -> TractResult<TypedTensor> {
        TypedTensor::native(Tensor::zero::<f32>(&[0])?)
    }

    fn into_onnx(self) -> Result<OnnxTensor> {
        // Whoever has run a model need not know that its constants stay in their file.
        let tensor = Arc::unwrap_or_clone(self.tensor);
        let tensor = match tensor.as_plain_ram() {
            Some(_) => tensor,
            None => tensor.into_plain_ram().map_err(Error::of)?,
        };
        OnnxTensor::new(self.ty, tensor)
    }

    /// A tensor of one type that tract has as well.
    pub(super) fn native(tensor: Tensor) -> TractResult<TypedTensor> {
        match ElementType::native(tensor.datum_type()) {
            Some(ty) => TypedTensor::new(ty, tensor),
            None => anyhow::bail!("{:?} is no ONNX element type", tensor.datum_type()),
        }
    }
}

impl RuntimeValue {
    /// As whoever runs the model gets it.
    pub(super) fn into_onnx(self) -> Result<OnnxValue> {
        Ok(match self {
            RuntimeValue::Tensor(tensor) => OnnxValue::Tensor(tensor.into_onnx()?),
            RuntimeValue::Sequence(tensors) => {
                let tensors = tensors.into_iter().map(TypedTensor::into_onnx);
                OnnxValue::Sequence(tensors.collect::<Result<_>>()?)
            }
            RuntimeValue::Optional(held) => {
                let held = held.map(|held| held.into_onnx().map(Box::new));
                OnnxValue::Optional(held.transpose()?)
            }
        })
    }

    /// What it is called in messages.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            RuntimeValue::Tensor(_) => "a tensor",
            RuntimeValue::Sequence(_) => "a sequence",
            RuntimeValue::Optional(_) => "an optional",
        }
    }
}
