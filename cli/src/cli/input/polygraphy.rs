//! Tensors as Polygraphy saves them (`--save-outputs FILE.json`): NumPy arrays in JSON, in base64.

use std::io::Cursor;
use std::path::Path;

use anyhow::{Context, bail, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use tract_onnx::prelude::TractResult;

use super::npy;
use crate::cli::input_file::read_regular;
use crate::cli::message::at;
use crate::cli::tensor::NamedTensor;

/// Whether a file's name says that it may be such a one.
pub(super) fn is_it(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json"))
}

/// The tensors of each iteration: of `RunResults` with one runner, or of a list of inputs.
/// Fails when the file is something else, or an array in it cannot be read.
pub(super) fn read(path: &Path) -> TractResult<Vec<Vec<NamedTensor>>> {
    let source = path.display().to_string();
    let read = || -> TractResult<Vec<Vec<NamedTensor>>> {
        let json: Value = serde_json::from_slice(&read_regular(path)?)?;
        let iterations = match json.get("lst") {
            Some(runners) => {
                let runners = runners.as_array().context("`lst` is no list")?;
                let [runner] = &runners[..] else {
                    bail!("holds the results of {} runners, not of one", runners.len());
                };
                runner.get(1).context("a runner has no results")?
            }
            None => &json,
        };
        let iterations = iterations.as_array().context("is no result that Polygraphy saves")?;
        ensure!(!iterations.is_empty(), "holds no iteration");
        iterations.iter().map(|iteration| tensors(iteration, &source)).collect()
    };
    at(&source, read())
}

fn tensors(iteration: &Value, source: &str) -> TractResult<Vec<NamedTensor>> {
    let named = iteration.get("outputs").unwrap_or(iteration);
    let named = named.as_object().context("an iteration holds no tensors by name")?;
    let tensor = |(name, held): (&String, &Value)| {
        // Arrays are wrapped in what loads them later.
        let array = held.get("values").unwrap_or(held).get("array").and_then(Value::as_str);
        let array = array.with_context(|| format!("`{name}` is no array"))?;
        let bytes = STANDARD.decode(array).with_context(|| format!("array `{name}`"))?;
        let array = at(format!("array `{name}`"), npy::read(Cursor::new(bytes), source))?;
        array.into_output(|| name.clone())
    };
    let is_tensor = |(name, _): &(&String, &Value)| *name != "polygraphy_class";
    named.iter().filter(is_tensor).map(tensor).collect()
}
