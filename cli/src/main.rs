//! `onnx-cast`: compares, converts, runs, tests and inspects ONNX models through tract and this
//! crate's Cast. The code
//! is in `cli`.

#![forbid(unsafe_code)]
#![warn(clippy::too_many_lines)]

mod cli;
#[cfg(test)]
mod corpus;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
