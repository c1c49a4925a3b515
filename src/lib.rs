//! tour
#![allow(missing_docs)]
mod conversion;
mod element_type;
mod error;
pub mod format;
mod kernel;
mod rules;
mod scalar;
mod spec;
pub mod tensor_proto;
mod text;

pub use conversion::Conversion;
pub use element_type::{ElementType, Family};
pub use error::Error;
pub use kernel::Level;
pub use rules::{RoundMode, Rules};
pub use scalar::convert as convert_scalar;
pub use spec::{CastSpec, Operator};
