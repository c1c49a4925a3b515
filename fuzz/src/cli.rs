//! The command line's own files, with those parts open that the targets call.

mod args;
mod command;
pub(crate) mod input;
pub(crate) mod judge;
pub(crate) mod message;
mod output_file;
pub(crate) mod process;
mod report;
mod tensor;
pub(crate) mod work;
