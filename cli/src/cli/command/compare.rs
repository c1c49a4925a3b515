//! `onnx-cast compare`: a model against its conversions.

use std::path::{Path, PathBuf};

use super::ask_all::{ask_all, worst};
use crate::cli::args::compare::CompareArgs;
use crate::cli::judge::compared::Compared;
use crate::cli::judge::limits::Limits;
use crate::cli::judge::status::Status;
use crate::cli::report::destinations::{Report, check_places};
use crate::cli::report::terminal::Output;
use crate::cli::report::{json, junit, markdown, model_explorer, page, plain_text};
use crate::cli::work::compare::CompareRequest;

/// Compares the reference with every conversion.
///
/// # Errors
///
/// When a conversion cannot be compared.
pub(crate) fn compare(
    args: CompareArgs,
    max_memory: Option<u64>,
    output: &mut Output,
) -> anyhow::Result<Status> {
    let read =
        args.converted.iter().chain([&args.reference]).chain(&args.graph).map(PathBuf::as_path);
    check_places(&args.to, &args.input, read)?;
    let request = |converted: &PathBuf| {
        let file = args.to.tolerance.as_deref();
        let (mut limits, limits_file) = Limits::of(&model_file(converted), file)?;
        limits.judge_by(args.tolerance.of_every_output(), &args.per_output);
        Ok(CompareRequest {
            reference: args.reference.clone(),
            converted: converted.clone(),
            input: args.input.with_sets(args.sets),
            limits,
            limits_file,
            // Model Explorer colours every node.
            all_tensors: args.all_tensors || args.to.model_explorer.is_some(),
            graph: args.graph.clone(),
        })
    };
    let requests = args.converted.iter().map(request).collect::<anyhow::Result<Vec<_>>>()?;
    let pairs = ask_all(&requests, args.to.jobs(), max_memory, |request, problem| {
        let CompareRequest { reference, converted, .. } = request;
        let [reference, converted] = [reference, converted].map(|path| path.display().to_string());
        Compared::unusable(reference, converted, problem)
    })?;
    let report = Report {
        json: &|| Ok(json::of_comparisons(&pairs)?),
        page: &|| page::of_comparisons(&pairs, args.to.top),
        markdown: &|| Ok(markdown::of_comparisons(&pairs, args.to.top)),
        junit: &|| Ok(junit::of_comparisons(&pairs)),
        model_explorer: &|| model_explorer::of_comparisons(&pairs),
        text: &|output| plain_text::of_comparisons(&pairs, args.to.shown(), output),
    };
    report.write(&args.to, pairs.iter().map(|pair| pair.error.clone()), output)?;
    Ok(worst(pairs.iter().map(|pair| pair.status)))
}

/// The model that a path means.
fn model_file(path: &Path) -> PathBuf {
    if path.is_dir() { path.join("model.onnx") } else { path.into() }
}
