//! What a node passes on: a tensor, a sequence of tensors, or an optional.

use std::sync::Arc;

use tract_onnx::prelude::{DatumType, Tensor, TractResult};

use crate::cast::element_type::ElementType;
use crate::error::{Error, Result};
use crate::tensor::typed::OnnxTensor;

/// A tensor that several values may share.
#[derive(Debug, Clone)]
pub(super) struct Typed {
    pub(super) ty: ElementType,
    pub(super) tensor: Arc<Tensor>,
}

/// A value of a running model.
#[derive(Debug, Clone)]
pub(super) enum Value {
    Tensor(Typed),
    Sequence(Vec<Typed>),
    Optional(Option<Box<Value>>),
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

impl From<OnnxTensor> for Typed {
    fn from(tensor: OnnxTensor) -> Typed {
        let ty = tensor.element_type();
        Typed { ty, tensor: tensor.into_tensor().into() }
    }
}

impl From<OnnxValue> for Value {
    fn from(value: OnnxValue) -> Value {
        match value {
            OnnxValue::Tensor(tensor) => Value::Tensor(tensor.into()),
            OnnxValue::Sequence(tensors) => {
                Value::Sequence(tensors.into_iter().map(Typed::from).collect())
            }
            OnnxValue::Optional(held) => {
                Value::Optional(held.map(|held| Box::new(Value::from(*held))))
            }
        }
    }
}

impl Typed {
    /// A tensor in its type's carrier: tract computes sizes as symbolic dimensions, which are INT64 in ONNX.
    pub(super) fn new(ty: ElementType, tensor: Tensor) -> TractResult<Typed> {
        let is_size = tensor.datum_type() == DatumType::TDim && ty == ElementType::Int64;
        let tensor = if is_size { tensor.cast_to_dt(DatumType::I64)?.into_owned() } else { tensor };
        let (held, carrier) = (tensor.datum_type(), ty.datum_type());
        anyhow::ensure!(held == carrier, "tract computed {held:?}, not {carrier:?}");
        Ok(Typed { ty, tensor: tensor.into() })
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
    pub(super) fn native(tensor: Tensor) -> TractResult<Typed> {
        match ElementType::native(tensor.datum_type()) {
            Some(ty) => Typed::new(ty, tensor),
            None => anyhow::bail!("{:?} is no ONNX element type", tensor.datum_type()),
        }
    }
}

impl Value {
    /// As whoever runs the model gets it.
    pub(super) fn into_onnx(self) -> Result<OnnxValue> {
        Ok(match self {
            Value::Tensor(tensor) => OnnxValue::Tensor(tensor.into_onnx()?),
            Value::Sequence(tensors) => {
                let tensors = tensors.into_iter().map(Typed::into_onnx);
                OnnxValue::Sequence(tensors.collect::<Result<_>>()?)
            }
            Value::Optional(held) => {
                let held = held.map(|held| held.into_onnx().map(Box::new));
                OnnxValue::Optional(held.transpose()?)
            }
        })
    }

    /// What it is called in messages.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Value::Tensor(_) => "a tensor",
            Value::Sequence(_) => "a sequence",
            Value::Optional(_) => "an optional",
        }
    }
}
