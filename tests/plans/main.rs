//! What plans share while they run: buffers and threads.

#[path = "../common/mod.rs"]
mod common;

mod memory;
#[cfg(feature = "multithread")]
mod threads;
