//! `onnx-cast`: runs, tests and inspects ONNX models through tract and this crate's Cast. The code
//! is in `cli`.

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
