//! The program `onnx-cast`: compares, converts, runs, tests and inspects ONNX models through tract
//! and this crate's Cast. The code is in `cli`.
//!
//! It is a library so that the program, which is built with several sets of flags, is linked anew
//! for each of them and not compiled. Nothing but [`main`] is public; `tract-onnx-cast` is the
//! library to build upon.

#![forbid(unsafe_code)]
#![warn(clippy::too_many_lines)]

mod cli;
#[cfg(test)]
mod corpus;

use std::process::ExitCode;

/// Runs the program on the arguments of the process, and says how it is to end.
pub fn main() -> ExitCode {
    cli::main()
}
