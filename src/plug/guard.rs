//! Panics as errors of this crate's, and what tract says of a node in the words of its model.

#![forbid(unsafe_code)]

use std::any::Any;
use std::panic::{self, AssertUnwindSafe};

use onnx_cast_graph::{default_opset, is_default_domain, subgraphs};
use tract_onnx::pb::{GraphProto, ModelProto, NodeProto};
use tract_onnx::prelude::{TractError, TractResult};

use crate::cast::kernel::level::Level;
use crate::error::{Cause, Error, OUT_OF_MEMORY};
use crate::onnx::node::{NodeView, node_name, out_of_memory, refusal};

/// Does work with a model that nobody has looked at, and makes an [`Error`] of a panic: a model
/// that this crate finds sound can still make tract panic. What tract says becomes one of kind
/// [`Tract`](crate::ErrorKind::Tract), unless it is about no node and has another type of its own.
///
/// What was being worked on is dropped with the panic, so nothing half-done is left; but caches of
/// tract's that several models share may be poisoned, so a program that serves others does this in
/// a process of its own. The standard library's panic hook still says what it says. A stack that
/// overflows and memory that is not to be had end the process all the same: give the work a thread
/// with a large stack, and load under [`Limits`](crate::Limits).
///
/// ```
/// use tract_onnx::prelude::*;
/// use tract_onnx_cast::untrusted::without_panic;
/// use tract_onnx_cast::{Error, ErrorKind, onnx};
///
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/models/node/cast_opset19_FLOAT_to_FLOAT8E4M3FN/model.onnx");
/// let load = || onnx().model_for_path(path)?.into_optimized()?.into_runnable();
/// let model = without_panic(load)?;
/// let broken = without_panic(|| -> TractResult<()> { panic!("index out of bounds") });
/// let kind = broken.unwrap_err().downcast_ref().map(Error::kind);
/// assert_eq!(kind, Some(ErrorKind::Panic));
/// # TractResult::Ok(())
/// ```
///
/// # Errors
///
/// That of the work, or the panic.
pub fn without_panic<T>(work: impl FnOnce() -> TractResult<T>) -> TractResult<T> {
    let done = panic::catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|payload| {
        let words = panic_words(&*payload).unwrap_or("panic");
        let message = words.split_whitespace().collect::<Vec<_>>().join(" ");
        let is_memory = message == OUT_OF_MEMORY;
        let cause = if is_memory { Cause::Memory { node: None } } else { Cause::Panic { message } };
        Err(Error::from(cause).into())
    });
    // Whatever follows is not to wait for what tract's kernels leave.
    Level::clear_upper_halves();
    done.map_err(Error::of_tract_at_node)
}

/// The same of a node's work: a panic, and memory that is not there, are errors about the node.
pub(crate) fn without_panic_at<T>(
    node: &(impl NodeView + ?Sized),
    work: impl FnOnce() -> TractResult<T>,
) -> TractResult<T> {
    without_panic(work).map_err(|error| match error.downcast_ref().map(Error::cause) {
        Some(Cause::Panic { message }) => refusal(node, message.as_str()).into(),
        Some(Cause::Memory { node: None }) => out_of_memory(node).into(),
        _ => error,
    })
}

/// What the standard library says when it aborts for want of memory, and tract's assertions where
/// there is none for a tensor (tract-data, `blob.rs`).
const NO_MEMORY: [&str; 4] =
    ["memory allocation of", "failed to allocate", "data.is_null()", OUT_OF_MEMORY];

/// Whether the last words of a process or a panic are that memory has run out.
pub fn is_of_memory(last_words: &str) -> bool {
    NO_MEMORY.iter().any(|mark| last_words.contains(mark))
}

/// What a panic says, if it says anything; where there was no memory, [`OUT_OF_MEMORY`].
pub fn panic_words(payload: &(dyn Any + Send)) -> Option<&str> {
    let words = payload.downcast_ref::<String>().map(String::as_str);
    let words = words.or(payload.downcast_ref::<&str>().copied());
    words.map(|words| if is_of_memory(words) { OUT_OF_MEMORY } else { words })
}

impl Error {
    /// What tract says of a node, by the operator that the model has there and the opset that it
    /// imports: tract has names of its own for operators (`Reduce` for `ReduceSum`), and for the
    /// parts that it makes of one. Any other error stays as it is.
    pub fn in_model(self, model: &ModelProto) -> Error {
        let Cause::Tract { node: Some(name), op: Some(_), problem } = self.cause() else {
            return self;
        };
        let Some(graph) = &model.graph else { return self };
        let mut found = None;
        find(graph, name, &mut found);
        let imported = default_opset(&model.opset_import).filter(|_| !problem.contains(IMPORTS));
        let (Some(node), Some(opset)) = (found, imported) else { return self };
        let (label, op) = (node_name(node), node.op_type.clone());
        let part = if label == *name { "" } else { " in a part of it" };
        let problem = format!("{problem}{part}, {IMPORTS} {opset}");
        Cause::Tract { node: Some(label), op: Some(op), problem }.into()
    }
}

/// What tract's loader says of a model.
pub(crate) fn in_words_of(error: TractError, model: &ModelProto) -> TractError {
    match Error::of_tract(error).downcast::<Error>() {
        Ok(own) => own.in_model(model).into(),
        Err(other) => other,
    }
}

/// What stands before the opset in messages.
const IMPORTS: &str = "the model imports";

/// The node of ONNX's whose name is this one, or the longest that it begins with: parts of a node
/// are named after it.
fn find<'a>(graph: &'a GraphProto, name: &str, found: &mut Option<&'a NodeProto>) {
    for node in &graph.node {
        let label = node_name(node);
        let rest = name.strip_prefix(&*label);
        let is_named = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '/']));
        let is_longer = found.is_none_or(|found| node_name(found).len() < label.len());
        if is_named && is_longer && !label.is_empty() && is_default_domain(&node.domain) {
            *found = Some(node);
        }
        let bodies = node.attribute.iter().flat_map(subgraphs);
        bodies.for_each(|body| find(body, name, found));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_memory_ends_is_told_as_that() {
        for (words, is_memory) in [
            ("memory allocation of 4096 bytes failed", true),
            ("failed to allocate Layout { size: 67108864, align: 64 (1 << 6) }", true),
            ("assertion failed: !data.is_null()", true),
            ("another", false),
        ] {
            let told = without_panic(|| -> TractResult<()> { panic!("{words}") }).unwrap_err();
            let is_told =
                matches!(told.downcast_ref().map(Error::cause), Some(Cause::Memory { node: None }));
            assert_eq!(is_told, is_memory, "{words}: {told}");
        }
    }
}
