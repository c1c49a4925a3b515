//! Files whose declared types or casts contradict the graph, made right for any runtime, and casts
//! that change no value.
//!
//! A pass over the graph: before, `h = Cast<to=FLOAT>(x)`, declared FLOAT16 and added to a FLOAT16;
//! after, `h = Cast<to=FLOAT16>(x)`. Of a file that is mended everything else stays as it is, byte
//! for byte: what the pass has changed in the graph is written as edits of the file.
//!
//! - `walk`: the pass; `settle`: which side of a contradiction is mended; `wants`: the types that
//!   users want
//! - `redundant`: the casts that change no value
//! - `patch`: what a mended graph changes in its file; `edits`: of a message in its wire form
//! - `change`: what was changed

#![forbid(unsafe_code)]

mod change;
mod edits;
mod patch;
mod redundant;
mod settle;
mod walk;
mod wants;

use onnx_cast_graph::Graph;
use prost::Message;
use tract_onnx::pb::ModelProto;
use tract_onnx::prelude::TractResult;

use crate::error::{Cause, Error, Result};
use crate::onnx::{consistency, function_fields};
use crate::passes::{error_of, import};
use crate::typed::functions::Functions;
use crate::typed::inference::infer;
pub use change::{Change, ChangeKind};
use walk::MendingWalk;

/// How often a model is walked through at most: what one walk mends may show the next what else is
/// wrong.
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

/// Mends an ONNX file: a `Cast` whose target type its declaration and its users contradict, types
/// that are declared other than they are made, inputs of a type that their node cannot have beside
/// the others, casts that are missing there, and casts and chains of casts that change no value.
/// Subgraphs and functions are mended too. What else the file holds, fields that this crate does
/// not know included, stays as it is.
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
    let mut proto = ModelProto::decode(file)?;
    let Some(graph) = &mut proto.graph else {
        return Err(Error::from(Cause::Model { problem: "holds no graph".into() }).into());
    };
    // Types are told without the data of weights, which stays in the file.
    graph.initializer.iter_mut().for_each(|tensor| tensor.raw_data = Default::default());
    consistency::check(&proto)?;
    function_fields::restore(&mut proto, file)?;
    let (mut graph, mut misnamed) = import(proto.clone())?;
    let (functions, of_functions) = Functions::import(&mut graph);
    misnamed.extend(of_functions);
    let MendedGraph { changes, left, early } = mend_graph(&mut graph, &functions);
    let bytes = if changes.is_empty() {
        file.into()
    } else {
        patch::patch(&graph, &functions, &proto).apply(file)?
    };
    // No value stands for a sparse initializer, so that its users are taken for misnamed.
    let all = functions.roots(&graph).into_iter().flat_map(|root| graph.all_bodies(root));
    let is_sparse = all.into_iter().any(|body| graph.body(body).sparse_initializers() > 0);
    let misnamed = misnamed.into_iter().filter(|_| !is_sparse);
    let misnamed = misnamed.map(|problem| error_of(problem).to_string());
    let left = misnamed.chain(left).chain(early).collect();
    Ok(Mended { bytes, changes, left })
}

/// A graph after [`mend_graph`].
pub(crate) struct MendedGraph {
    /// What was changed, in the order of computation.
    pub(crate) changes: Vec<Change>,
    /// What contradicts itself and cannot be mended.
    pub(crate) left: Vec<String>,
    /// Nodes that take what a later version of their operator takes.
    early: Vec<String>,
}

/// Mends a graph with its functions.
pub(crate) fn mend_graph(graph: &mut Graph, functions: &Functions) -> MendedGraph {
    let (mut changes, mut left, mut early) = (vec![], vec![], vec![]);
    // Only of types that fit can be told which casts change nothing.
    for removes in [false, true] {
        for _ in 0..WALKS {
            let mut walk = MendingWalk::new(graph, functions, removes);
            infer(graph, functions, &mut walk);
            (left, early) = (walk.left, walk.early);
            if walk.changes.is_empty() {
                break;
            }
            changes.extend(walk.changes);
        }
    }
    MendedGraph { changes, left, early }
}
