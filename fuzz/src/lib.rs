//! What the fuzz targets share.

pub mod checks;
#[allow(dead_code, unused_imports, reason = "the targets use a part of the command line")]
mod cli;
pub mod engine;
pub mod measured;
pub mod mutate;
pub mod readers;
pub mod record;
