//! Panics as errors.

#![forbid(unsafe_code)]

use std::panic::{self, AssertUnwindSafe};

use tract_onnx::prelude::TractResult;

use crate::error::{Cause, Error};

/// Does work with a model that nobody has looked at, and makes an [`Error`] of a panic: a model that this crate finds sound
/// can still make tract panic. What tract says becomes one of kind
/// [`Tract`](crate::ErrorKind::Tract), unless it is about no node and has another type of its own.
///
/// What was being worked on is dropped with the panic, so nothing half-done is left; but caches of tract's that several models
/// share may be poisoned, so a program that serves others does this in a process of its own. The standard library's panic hook still
/// says what it says. A stack that overflows and memory that is not to be had end the process all the same: give the work a thread
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
        let words = payload.downcast_ref::<String>().map(String::as_str);
        let words = words.or(payload.downcast_ref::<&str>().copied()).unwrap_or("panic");
        let message = words.split_whitespace().collect::<Vec<_>>().join(" ");
        Err(Error::from(Cause::Panic { message }).into())
    });
    done.map_err(Error::of_tract_at_node)
}
