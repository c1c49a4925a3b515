//! The exact values of a tensor's elements.

#![forbid(unsafe_code)]

use anyhow::bail;
use tract_onnx::prelude::{Tensor, TractResult};

use crate::cast::element_type::{ElementType, Family};
use crate::cast::rules::Rules;
use crate::cast::value::Number;
use crate::error::{Error, Result};
use crate::tensor::conversion::Conversion;

/// The exact values of a numeric tensor's elements, in row-major order.
#[derive(Debug, Clone, PartialEq)]
pub struct Numbers(Exact);

#[derive(Debug, Clone, PartialEq)]
enum Exact {
    Reals(Vec<f64>),
    Signed(Vec<i64>),
    Unsigned(Vec<u64>),
}

impl Numbers {
    /// Of a carrier tensor of the type.
    ///
    /// # Errors
    ///
    /// When the type is STRING, or the tensor is not of its carrier.
    pub fn of(ty: ElementType, tensor: &Tensor) -> Result<Numbers> {
        Numbers::widened(ty, tensor).map_err(Error::of_argument)
    }

    fn widened(ty: ElementType, tensor: &Tensor) -> TractResult<Numbers> {
        let widened = |wide| Conversion::new(ty, wide, Rules::default()).run(tensor);
        Ok(Numbers(match (ty.family(), ty.bits()) {
            (Family::Text, _) => bail!("texts have no exact values"),
            (Family::Signed, 64) => {
                let words = widened(ElementType::Int64)?;
                Exact::Signed(words.try_as_plain_ram()?.as_slice()?.to_vec())
            }
            (Family::Unsigned, 64) => {
                let words = widened(ElementType::Uint64)?;
                Exact::Unsigned(words.try_as_plain_ram()?.as_slice()?.to_vec())
            }
            (Family::Float(_), 32) => {
                let floats = tensor.try_as_plain_ram()?.as_slice::<f32>()?;
                Exact::Reals(floats.iter().map(|x| f64::from(*x)).collect())
            }
            _ => {
                let doubles = widened(ElementType::Double)?;
                Exact::Reals(doubles.try_as_plain_ram()?.as_slice()?.to_vec())
            }
        }))
    }

    /// All of them, where they are no integers of 64 bits.
    pub fn reals(&self) -> Option<&[f64]> {
        match &self.0 {
            Exact::Reals(reals) => Some(reals),
            _ => None,
        }
    }

    /// The value of one element; `None` where there is none.
    pub fn get(&self, index: usize) -> Option<Number> {
        match &self.0 {
            Exact::Reals(reals) => reals.get(index).map(|x| Number::Real(*x)),
            Exact::Signed(words) => words.get(index).map(|n| Number::Integer((*n).into())),
            Exact::Unsigned(words) => words.get(index).map(|n| Number::Integer((*n).into())),
        }
    }
}
