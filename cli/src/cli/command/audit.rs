//! `onnx-cast audit`: what the casts of models do to the numbers.

use std::path::PathBuf;

use anyhow::bail;

use super::ask_all::{ask_all, worst};
use crate::cli::args::audit::AuditArgs;
use crate::cli::input::cases::{self, Case};
use crate::cli::judge::audited::Audited;
use crate::cli::judge::limits::Limits;
use crate::cli::judge::status::Status;
use crate::cli::message::Problem;
use crate::cli::report::destinations::{Report, check_places};
use crate::cli::report::terminal::Output;
use crate::cli::report::{json, junit, markdown, model_explorer, page, phrases, plain_text};
use crate::cli::work::audit::AuditRequest;

/// Audits every model.
///
/// # Errors
///
/// When there is no model, or one that cannot be used.
pub(crate) fn audit(
    args: AuditArgs,
    max_memory: Option<u64>,
    output: &mut Output,
) -> anyhow::Result<Status> {
    let requests = requests(&args)?;
    let models = requests.iter().map(|request| &request.model);
    let read = models.chain(requests.iter().filter_map(|request| request.baseline.as_ref()));
    check_places(&args.to, &args.input, read.map(PathBuf::as_path))?;
    let models = ask_all(&requests, args.to.jobs(), max_memory, |request, problem| {
        Audited::unusable(request.model.display().to_string(), problem)
    })?;
    let report = Report {
        json: &|| Ok(json::of_audits(&models)?),
        page: &|| page::of_audits(&models, args.to.top),
        markdown: &|| Ok(markdown::of_audits(&models, args.to.top)),
        junit: &|| Ok(junit::of_audits(&models)),
        model_explorer: &|| model_explorer::of_audits(&models),
        text: &|output| plain_text::of_audits(&models, args.to.shown(), output),
    };
    let problem = |model: &Audited| {
        let Problem { kind, message } = model.error.clone()?;
        Some(Problem { kind, message: format!("{}: {message}", model.model) })
    };
    report.write(&args.to, models.iter().map(problem), output)?;
    let is_bare =
        |model: &Audited| model.casts.is_empty() && model.rounded == 0 && model.baseline.is_none();
    if models.iter().all(is_bare) {
        let names: Vec<&str> = models.iter().map(|model| model.model.as_str()).collect();
        bail!("{}: {}, so there is nothing to audit", names.join(", "), phrases::NOTHING_TO_AUDIT);
    }
    Ok(worst(models.iter().map(|model| model.status)))
}

/// A model for each path, or for each folder below a path with a model.onnx in it.
fn requests(args: &AuditArgs) -> anyhow::Result<Vec<AuditRequest>> {
    let mut models: Vec<(PathBuf, Vec<Case>)> = vec![];
    for path in &args.paths {
        if !path.is_dir() {
            models.push((path.clone(), vec![]));
            continue;
        }
        for case in cases::find(std::slice::from_ref(path))? {
            if models.last().is_none_or(|(model, _)| *model != case.model) {
                models.push((case.model.clone(), vec![]));
            }
            // A model without data runs on random values, and so does one whose data are not wanted on those that are.
            let has_none = case.inputs().is_ok_and(|files| files.is_empty());
            let is_wanted = args.input.inputs.is_empty() && !has_none;
            if let Some((_, sets)) = models.last_mut().filter(|_| is_wanted) {
                sets.push(case);
            }
        }
    }
    let baseline = args.baseline.as_ref().map(|path| match path.is_dir() {
        true => path.join("model.onnx"),
        false => path.clone(),
    });
    // What lies beside the original is as good for its conversion.
    if let Some(folder) = args.baseline.as_ref().filter(|path| path.is_dir())
        && args.input.inputs.is_empty()
    {
        for (model, own) in models.iter_mut().filter(|(_, own)| own.is_empty()) {
            let sets = cases::sets_in(folder, model)?.into_iter();
            own.extend(sets.filter(|set| set.inputs().is_ok_and(|files| !files.is_empty())));
        }
    }
    let input = args.input.with_sets(args.sets);
    if models.iter().all(|(_, cases)| !cases.is_empty()) {
        input.check_nothing_is_random("those beside the models are recorded")?;
    }
    let request = |(model, cases): (PathBuf, Vec<Case>)| {
        let (mut limits, limits_file) = Limits::of(&model, args.to.tolerance.as_deref())?;
        limits.allow(&args.allow);
        let (input, baseline) = (input.clone(), baseline.clone());
        Ok(AuditRequest { model, cases, input, limits, limits_file, baseline })
    };
    models.into_iter().map(request).collect()
}
