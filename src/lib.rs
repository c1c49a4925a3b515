//! ONNX `Cast` for [tract](https://docs.rs/tract-onnx): every operator version, 26 element types,
//! exact to the bit.
//!
//! [`onnx()`] stands wherever [`tract_onnx::onnx`] does. Models may then hold BFLOAT16, the float8,
//! float6 and float4 types, FLOAT8E8M0 and the 4- and 2-bit integers; `Cast` and `CastLike` honour
//! `saturate` and `round_mode`, INT64 has 64 bits, and `QuantizeLinear` and `DequantizeLinear` have
//! every type, layout and scale that ONNX gives them.
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
//! # Architecture
//!
//! Layers, of which each uses only those below it (`tests/models/circles.rs` holds it).
//!
//! - `cli`, the program `onnx-cast`, is built on this crate's public items and on the graph.
//! - `interpreter` runs a model node by node, each built as the layers below build a model
//!   ([`Interpreter`](interpreter::Interpreter)).
//! - `plug` is what a user of tract holds: the loader [`CastOnnx`] and what it gives ([`Loaded`]),
//!   what a model remembers of its element types, transforms, a runtime, and our operators in
//!   tract's own file format.
//! - [`audit`] counts what a model's casts do to the numbers: a probe stands behind each cast,
//!   quantiser and rounding of half precision, and wraps its builder.
//! - [`mod@convert`] writes a model in another type for any runtime; [`mod@mend`] mends a file for
//!   one.
//! - `ops` are operators in tract: the op [`OnnxCast`] with its inference rules and what
//!   decluttering makes of it, the quantisers, and tract's own operators corrected.
//! - `typed` tells `convert` and `mend` each value's type in a file.
//! - `panels` are weights of products in fewer bits than they compute in, widened where tract's
//!   kernels read them.
//! - `passes` make of a model's graph one that tract can load: a list, in which each pass has its
//!   reason.
//! - `onnx` is what ONNX says: operators and schemas, what casts and quantisers ask for, limits;
//!   and the codec by which passes tell builders what they have found out.
//! - `tensor` has tract's tensors that hold ONNX elements: which type carries which, [`Conversion`]
//!   of whole tensors, where their outputs live, and `TensorProto`, read and written.
//! - `error` is what all of them say ([`Error`]).
//! - `cast` is what a cast is, without tract: the list of types ([`ElementType`]), the formats
//!   ([`mod@format`]), the definition of every conversion, and the kernels that equal it. Its files
//!   are also a build unit of their own (`tests/alone`): one crate keeps what only the layers above
//!   need from being public, and a second build of these files keeps tract out of them.
//!
//! Beside them stands the graph, a crate of its own (`onnx-cast-graph`): nodes, values and bodies
//! in arenas, imported once and exported once. It is no part of this crate's public items.
//!
//! The way of a model: [`CastOnnx::load`] reads a file, and the graph crate resolves its names;
//! `passes::load` runs the list of passes over the graph; the graph is exported, each node with
//! what its builder is to know (`onnx::lowered`); tract's loader builds each node by the operators
//! that `ops::host::register` has put in place; `ops::host::open_shapes` settles shapes that only
//! declarations tell; the model remembers the types of its inputs and outputs
//! (`plug::model_types`).
//!
//! The way of an element: [`OnnxCast`] hands its input to a [`Conversion`], whose kernel was chosen
//! when it was made (`cast::kernel::select`); `tensor::parallel` divides a large tensor among the
//! threads of tract's current executor and gives each part to the kernel, which runs at the level
//! of this CPU. tract has executors of several threads only with the feature `multithread`.
//!
//! The behaviour is that of [`semantics`], whose sections the documentation cites as SEMANTICS.
//!
//! [`OnnxCast`]: interop::OnnxCast

#![warn(clippy::too_many_lines)]

pub mod audit;
mod cast;
pub mod convert;
mod error;
pub mod interpreter;
pub mod mend;
mod onnx;
mod ops;
mod panels;
mod passes;
mod plug;
mod tensor;
mod typed;

pub use cast::element_type::{ElementType, Family};
pub use cast::format;
pub use cast::rules::{RoundMode, Rules};
pub use error::{Error, ErrorKind, Result};
/// The type of [`bf16_slice`]'s elements, of the release of `half` that this crate uses: another
/// release's is another type.
pub use half::bf16;
pub use onnx::limits::Limits;
pub use passes::half_in_float::HalfArithmetic;
pub use plug::loaded::Loaded;
pub use plug::loader::{CastOnnx, onnx};
pub use plug::model_proto;
pub use plug::model_types::{input_element_types, output_element_types, sizes_of_weights};
pub use tensor::carrier::{bf16_slice, bf16_tensor, from_f32, to_f32};
pub use tensor::conversion::Conversion;
pub use tensor::proto as tensor_proto;
pub use tensor::typed::OnnxTensor;

/// What is known of a model without running it: [`Loaded`] tells of one that was loaded,
/// [`CastOnnx::survey`] of any file.
pub mod survey {
    pub use crate::onnx::cast_spec::Operator;
    pub use crate::onnx::quantizers::QuantizerNode;
    pub use crate::passes::casts::node::{CastKind, CastNode, Fate};
    pub use crate::passes::diagnostics::{Problem, Survey};
    pub use crate::passes::half_in_float::WidenedNode;
}

/// Quantising whole tensors, with or without a model.
pub mod quantize {
    pub use crate::cast::quantize::operator::{Dequantize, Quantize, Quantizer};
    pub use crate::tensor::quantization::Quantization;
}

/// The definition that every kernel equals, element by element, and the instructions that kernels
/// run with.
pub mod kernel {
    pub use crate::cast::kernel::level::Level;
    pub use crate::cast::scalar::convert as convert_scalar;
}

/// For programs that work on tract's graphs themselves: our op and how it is registered, exchanged
/// for tract's own, run and written as NNEF.
pub mod interop {
    pub use crate::ops::cast::op::OnnxCast;
    pub use crate::ops::host::register::register;
    pub use crate::plug::nnef::{WithOnnxCast, onnx_cast_registry};
    pub use crate::plug::transform::{CastRuntime, ToCore, ToKernels};
}

/// What a cast does, and where each rule comes from.
#[doc = include_str!("../docs/semantics.md")]
pub mod semantics {}

/// What a program can count on with models that nobody has looked at, and what it has to see to
/// itself.
#[doc = include_str!("../docs/untrusted.md")]
pub mod untrusted {
    pub use crate::error::OUT_OF_MEMORY;
    pub use crate::plug::guard::{is_of_memory, panic_words, without_panic};
}

/// Compiles the examples of the pages.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../README.md")]
    struct Readme;

    #[doc = include_str!("../docs/rust.md")]
    struct Rust;

    #[doc = include_str!("../docs/tract.md")]
    struct Tract;

    #[doc = include_str!("../docs/converting.md")]
    struct Converting;
}
