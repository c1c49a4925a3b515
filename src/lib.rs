//! tour
#![allow(missing_docs)]
mod branch;
mod conversion;
mod element_type;
mod error;
pub mod format;
mod framework;
mod kernel;
mod op;
mod rewrite;
mod rules;
mod scalar;
mod spec;
pub mod tensor_proto;
mod text;
mod view;

pub use conversion::Conversion;
pub use element_type::{ElementType, Family};
pub use error::Error;
pub use framework::{CastOnnx, input_element_types, onnx, output_element_types, register};
pub use kernel::Level;
pub use op::OnnxCast;
pub use rewrite::{CastNode, Fate};
pub use rules::{RoundMode, Rules};
pub use scalar::convert as convert_scalar;
pub use spec::{CastSpec, Operator};
pub use view::{bf16_slice, bf16_tensor, from_f32, to_f32};
