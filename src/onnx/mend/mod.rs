//! Mending a model's file: declared types and casts that contradict the graph, and casts that change no value. Everything else
//! stays as it is, byte for byte.
//!
//! - `wire`: edits of a message in its wire form
//! - `change`: what was changed and what was left
//! - `types`: element types of values; `wants`: those that their users want
//! - `body`: a graph or a function; `walk`: through all of them; `settle`: which side of a contradiction is mended
//! - `redundant`: the casts that change no value

mod body;
pub(crate) mod change;
mod redundant;
mod settle;
mod types;
mod walk;
mod wants;
mod wire;

use prost::Message;
use tract_onnx::pb::ModelProto;
use tract_onnx::prelude::TractResult;

use super::{consistency, function_fields as fields};
use crate::error::{Cause, Error, Result};
use change::{Change, Work};
use walk::{Aim, walk};

/// How often a model is walked through at most: what one walk mends may show the next what else is wrong.
const WALKS: usize = 32;

/// A model's file after [`mend`].
#[derive(Debug)]
#[non_exhaustive]
pub struct Mended {
    /// The file. It is the one that was given, byte for byte, where nothing was changed.
    pub bytes: Vec<u8>,
    /// What was changed, in the order of computation.
    pub changes: Vec<Change>,
    /// What is wrong with the model's types and cannot be mended.
    pub left: Vec<String>,
}

/// Mends an ONNX file: a `Cast` whose target type its declaration and its users contradict, types that are declared other than
/// they are made, inputs of a type that their node cannot have beside the others, casts that are missing there, and casts and
/// chains of casts that change no value. Subgraphs and functions are mended too. What else the file holds, fields that this
/// crate does not know included, stays as it is.
///
/// ```
/// let path = concat!(env!("CARGO_MANIFEST_DIR"), "/models/node/cast_opset19_FLOAT_to_FLOAT8E4M3FN/model.onnx");
/// let file = std::fs::read(path)?;
/// let mended = tract_onnx_cast::mend::mend(&file)?;
/// assert!(mended.changes.is_empty() && mended.left.is_empty());
/// assert_eq!(mended.bytes, file);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// When the bytes are no ONNX model, or one whose imports contradict each other.
pub fn mend(file: &[u8]) -> Result<Mended> {
    mended(file).map_err(Error::of)
}

fn mended(file: &[u8]) -> TractResult<Mended> {
    let mut mended = Mended { bytes: file.into(), changes: vec![], left: vec![] };
    // Only of types that fit can be told which casts change nothing.
    for aim in [Aim::Types, Aim::Redundancy] {
        for _ in 0..WALKS {
            let mut proto = ModelProto::decode(&*mended.bytes)?;
            if proto.graph.is_none() {
                Err(Error::from(Cause::Model { problem: "holds no graph".into() }))?;
            }
            consistency::check(&proto)?;
            fields::restore(&mut proto, &mended.bytes)?;
            let Work { edits, changes, left } = walk(&proto, aim);
            mended.left = left;
            if edits.is_empty() {
                break;
            }
            mended.bytes = edits.apply(&mended.bytes)?;
            mended.changes.extend(changes);
        }
    }
    Ok(mended)
}
