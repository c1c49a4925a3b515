//! What can be typed about the inputs of a model.

use std::path::PathBuf;

use anyhow::ensure;
use clap::Args;
use serde::{Deserialize, Serialize};
use tract_onnx::prelude::TractResult;

/// What the user says about a model's inputs.
#[derive(Args, Clone, Default, Serialize, Deserialize)]
pub(crate) struct InputArgs {
    /// An input's values, or an archive of several.
    #[arg(short, long = "input", value_name = "NAME=FILE|FILE.npz")]
    pub(crate) inputs: Vec<String>,
    /// Where the random values start.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,
    /// Size of a symbolic dimension.
    #[arg(long = "set", value_name = "SYMBOL=N", value_parser = parse_size)]
    pub(crate) sizes: Vec<(String, usize)>,
}

impl InputArgs {
    /// The files that `-i` names.
    pub(crate) fn files(&self) -> impl Iterator<Item = PathBuf> {
        let file = |argument: &String| {
            argument.split_once('=').map_or(argument.as_str(), |(_, file)| file).into()
        };
        self.inputs.iter().map(file)
    }

    /// Refuses what only says how random inputs are made.
    ///
    /// # Errors
    ///
    /// When `--seed` or `--set` is given.
    pub(crate) fn check_nothing_is_random(&self, because: &str) -> TractResult<()> {
        ensure!(
            self.seed == 0 && self.sizes.is_empty(),
            "--seed and --set are for random inputs: {because}"
        );
        Ok(())
    }
}

/// Reads `SYMBOL=N`.
fn parse_size(text: &str) -> Result<(String, usize), String> {
    let (symbol, size) = text.rsplit_once('=').ok_or("it should be SYMBOL=N")?;
    let size = size.parse().map_err(|error| format!("{size:?} as a size: {error}"))?;
    Ok((symbol.into(), size))
}
