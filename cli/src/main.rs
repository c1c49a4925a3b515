//! The program `onnx-cast`, which is the library of its name.

#![forbid(unsafe_code)]

use std::process::ExitCode;

/// A tensor is asked for and freed at every node. The allocator of glibc puts what is freed
/// together each time, a quarter of what a comparison of many small nodes takes, and has no room
/// for packed weights in what plain ones leave, unless it maps each of them anew.
#[cfg(target_os = "linux")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    onnx_cast::main()
}
