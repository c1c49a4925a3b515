//! ONNX `Cast` for [tract](https://docs.rs/tract-onnx): every operator version, 26 element types, exact to the bit.
//!
//! [`onnx()`] stands wherever [`tract_onnx::onnx`] does. Models may then hold BFLOAT16, the float8, float6 and float4
//! types, FLOAT8E8M0 and the 4- and 2-bit integers; `Cast` and `CastLike` honour `saturate` and `round_mode`, and INT64
//! has 64 bits.
//!
//! ```
//! use tract_onnx::prelude::*;
//! use tract_onnx_cast::{ElementType, output_element_types, to_f32};
//!
//! # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/models/node/cast_opset19_FLOAT_to_FLOAT8E4M3FN/model.onnx");
//! let model = tract_onnx_cast::onnx().model_for_path(path)?.into_optimized()?;
//! let types = output_element_types(&model)?;
//! assert_eq!(types, [ElementType::Float8E4M3FN]);
//!
//! # let shape = model.input_fact(0)?.shape.as_concrete().unwrap().to_vec();
//! let input = Tensor::zero::<f32>(&shape)?;
//! let output = model.into_runnable()?.run(tvec!(input.into_tvalue()))?.remove(0);
//! // tract has no float8: its bit patterns travel as bytes, and this crate says what they mean.
//! assert_eq!(output.datum_type(), DatumType::U8);
//! assert!(to_f32(&output, types[0])?.is_all_zero()?);
//! # TractResult::Ok(())
//! ```
//!
//! The way of a model through the crate:
//!
//! 1. `rewrite` makes of a `ModelProto` one that tract can load: model-local functions are put in place of their calls,
//!    exotic types become carriers, element types are followed through the graph, each `Cast` learns what its input is.
//!    `function_fields` reads what tract's messages drop of functions, `at_opset` builds nodes by a function's opset, and
//!    `open_shapes` is for shapes that only declarations tell, `branch` and `expand` correct two of tract's operators.
//! 2. `spec` reads a node's attributes by its operator's version.
//! 3. `op` is the node in tract: inference rules, and the typed op [`OnnxCast`].
//! 4. [`Conversion`] holds the kernel for a pair of types and runs it over tensors; `text` is its part for strings.
//! 5. `kernel` has the loops, `scalar` the truth that they equal.
//!
//! Large casts are divided among the threads of tract's current executor. tract has executors of several threads only with
//! the feature `multithread`, which is on by default.
//!
//! [`ElementType`] is the one list of types, [`mod@format`] what the floating-point formats are.
//!
//! [`audit`] counts what a model's casts do to the numbers.
//!
//! The behaviour is that of the page `docs/semantics.md`, whose sections the documentation cites as SEMANTICS.

pub mod audit;
mod cast;
mod error;
mod onnx;
mod ops;
mod plug;
mod tensor;

pub use cast::element_type::{ElementType, Family};
pub use cast::format;
pub use cast::kernel::Level;
pub use cast::rules::{RoundMode, Rules};
pub use cast::scalar::convert as convert_scalar;
pub use error::Error;
pub use onnx::casts::{CastNode, Fate};
pub use onnx::spec::{CastSpec, Operator};
pub use ops::cast::OnnxCast;
pub use ops::register::register;
pub use plug::loader::{CastOnnx, onnx};
pub use plug::model_types::{input_element_types, output_element_types};
pub use plug::nnef::{WithOnnxCast, onnx_cast_registry};
pub use plug::transform::{CastRuntime, ToCore, ToKernels};
pub use tensor::carrier::{bf16_slice, bf16_tensor, from_f32, to_f32};
pub use tensor::conversion::Conversion;
pub use tensor::pool::set_output_pool;
pub use tensor::proto as tensor_proto;

/// Compiles the README's example.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
