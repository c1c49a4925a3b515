//! What ONNX says, and its messages: operators and their schemas, what casts and quantisers ask for
//! by their versions, how large a model may be. No graph is edited here; that is the business of
//! [`passes`](crate::passes).
//!
//! - `operators`: what ONNX and tract do in which operator
//! - `cast_spec`, `quantizers`, `bit_casts`: what these nodes ask for, by their operators' versions
//! - `lowered`: what the passes tell the builders of [`ops`](crate::ops), in one codec
//! - `node`: what messages call a node
//! - `declared_shapes`: shapes as declared; `consistency`: what of a file contradicts itself
//! - `function_fields`: the fields of functions that tract's messages lack
//! - `limits`: how large a model may be; `wire`: the same of a file, before it is decoded;
//!   `fields`: messages in their wire form
//! - `sparse`: sparse tensors, made dense
//! - `light`: a file decoded without its weights, which stay there; `beside`: whether the data of
//!   other files is there

#![forbid(unsafe_code)]

pub(crate) mod beside;
pub(crate) mod bit_casts;
pub(crate) mod cast_spec;
pub(crate) mod consistency;
pub(crate) mod declared_shapes;
pub(crate) mod fields;
pub(crate) mod function_fields;
pub(crate) mod light;
pub(crate) mod limits;
pub(crate) mod lowered;
pub(crate) mod node;
pub(crate) mod operators;
pub(crate) mod quantizers;
pub(crate) mod sparse;
pub(crate) mod wire;
