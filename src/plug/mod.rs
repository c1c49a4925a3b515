//! What a user of tract holds.
//!
//! - `loader`: the loader, a drop-in for tract's; `loaded`: what it gives; `audited`: the audit of
//!   one run
//! - `model_proto`: models read and written as messages; `model_types`: the element types and sizes
//!   that a model remembers
//! - `transform`: transforms of typed models; `nnef`: our operators in tract's file format, with
//!   `nnef_operators`
//! - `guard`: panics and errors of tract's, as errors of this crate's

#![forbid(unsafe_code)]

pub(crate) mod audited;
pub(crate) mod guard;
pub(crate) mod loaded;
pub(crate) mod loader;
pub mod model_proto;
pub(crate) mod model_types;
pub(crate) mod nnef;
mod nnef_operators;
pub(crate) mod transform;
