//! `ModelProto` → a `ModelProto` that tract can load. No operator of tract's is built here.
//!
//! - `rewrite`: the whole; `walk`: through the graphs, with `fact`: what is known of a value, and `scope`: which values are seen
//! - `casts`: the nodes that are casts; `spec`: what one asks for, by its operator's version
//! - `quantizers`: the nodes that are casts with a scale; `bit_casts` those that keep the bits
//! - `contrib`: operators of ONNX Runtime's, written out as others
//! - `consistency`: what of a file contradicts itself
//! - `carriers`: elements that tract only carries; `subgraphs`: nodes that have some; `outputs`: what leaves a graph
//! - `operators`: what ONNX and tract do in which operator
//! - `annotation`: what the rewrite writes onto nodes for the builders of [`ops`](crate::ops)
//! - `functions`: model-local functions, put in place of their calls
//! - `node`: what everybody asks of a node
//! - `order`: do the names in a graph fit together, and in which order are its nodes walked
//! - `declared_types`: types as declared against types as made; `declared_shapes` the same for shapes
//! - `widen`: operators on half precision, which compute in FLOAT
//! - `tolerance`: what is done with what is wrong with a model
//! - `symbols`: what INT64 values are needed as, symbolic dimensions or 64-bit numbers
//! - `limits`: what tract cannot take as it stands
//! - `mend`: a file whose types contradict each other, or whose casts change nothing, made right in its wire form
//! - `size`: how large a model may be; `wire`: the same of a file, before it is decoded; `made`: of what constants ask for

#![forbid(unsafe_code)]

pub(crate) mod annotation;
pub(crate) mod bit_casts;
mod carriers;
pub(crate) mod casts;
mod consistency;
mod contrib;
pub(crate) mod declared_shapes;
mod declared_types;
mod fact;
pub(crate) mod functions;
mod limits;
mod made;
pub(crate) mod mend;
pub(crate) mod node;
pub(crate) mod operators;
mod order;
mod outputs;
pub(crate) mod quantizers;
pub(crate) mod rewrite;
pub(crate) mod scope;
pub(crate) mod size;
pub(crate) mod spec;
mod subgraphs;
mod symbols;
pub(crate) mod tolerance;
pub(crate) mod walk;
pub(crate) mod widen;
pub(crate) mod wire;
