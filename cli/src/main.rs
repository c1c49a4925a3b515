//! The program `onnx-cast`, which is the library of its name.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    onnx_cast::main()
}
