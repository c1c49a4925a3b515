//! The work of `onnx-cast audit`, one model: what its casts do to the numbers.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tract_onnx::prelude::*;

use super::baseline::{self, Baseline, suspicious};
use super::notes::add_once;
use super::probed::{Probed, casts_of, is_rounding};
use super::provenance::inputs_of;
use super::request::{Kind, Request};
use super::watched::{Watched, unexercised};
use crate::cli::args::input::InputArgs;
use crate::cli::input::cases::Case;
use crate::cli::input::sets;
use crate::cli::judge::audited::{Audited, AuditedCast};
use crate::cli::judge::headroom;
use crate::cli::judge::limits::Limits;
use crate::cli::judge::status::Status;
use crate::cli::judge::weights::ComparedWeights;
use crate::cli::message::{ErrorKind, Problem};

/// A model to audit.
#[derive(Serialize, Deserialize)]
pub(crate) struct AuditRequest {
    pub(crate) model: PathBuf,
    /// The model's own sets of inputs, where they are to be used.
    pub(crate) cases: Vec<Case>,
    pub(crate) input: InputArgs,
    pub(crate) limits: Limits,
    pub(crate) limits_file: Option<PathBuf>,
    /// The model of which this one is a conversion.
    pub(crate) baseline: Option<PathBuf>,
}

impl Request for AuditRequest {
    const KIND: Kind = Kind::Audit;

    type Answer = Audited;

    fn answer(&self) -> TractResult<Audited> {
        let probed = Probed::open(&self.model)?;
        let mut watched = Watched::of(&probed, &[])?;
        let takes = watched.model.takes.clone();
        let sets = match &self.cases[..] {
            [] => sets::gather(&takes, &self.model, &self.input)?,
            cases => sets::of_cases(&takes, cases)?,
        };
        let inputs = inputs_of(&takes, &sets);
        let original = self.baseline.as_deref().map(baseline::open).transpose()?;
        let mut baseline = match self.baseline.as_deref().zip(original.as_ref()) {
            Some((path, original)) => Some(Baseline::of(path, original)?),
            None => None,
        };
        for (place, set) in sets.iter().enumerate() {
            let run = watched.run(set, sets.len() > 1)?;
            if place + 1 == sets.len() {
                watched.rest();
            }
            if let Some(baseline) = &mut baseline {
                baseline.run(&takes, set, &run.outputs)?;
            }
        }
        let (rows, mut run_notes) = (watched.rows(), std::mem::take(&mut watched.notes));
        let findings = probed.findings(&rows);
        let (casts, roundings) = (casts_of(&rows), probed.roundings(&rows, &sets));
        let rounded = rows.iter().filter(|row| is_rounding(&row.cast)).count();
        let names: Vec<&str> = rows.iter().map(|row| row.cast.node.as_str()).collect();
        if let Some(name) = self.limits.unknown_casts(&names).next() {
            let message = format!(
                "there are limits for the cast `{name}`, but the model has none of that name"
            );
            return Err(Problem { kind: ErrorKind::Call, message }.into());
        }
        let (mut excused, mut weights) = (vec![], ComparedWeights::default());
        let mut exceeded = vec![];
        let all = casts.iter().chain(&roundings);
        if let Some(baseline) = &mut baseline {
            let excuses = baseline.excuses(&takes, &sets, &suspicious(&roundings))?;
            run_notes.append(&mut baseline.notes);
            let mut compared = baseline.weights(&probed)?;
            run_notes.append(&mut compared.notes);
            weights = compared.judged(Some(&watched.exercise), baseline.outputs_differ());
            let wrong = weights.changed.iter().filter(|weight| weight.is_error);
            exceeded
                .extend(wrong.map(|weight| format!("weight `{}`: {}", weight.name, weight.text)));
            let left = all.map(|cast| excuses.excuse(cast, &mut excused));
            exceeded.extend(left.flat_map(|cast| self.limits.exceeded(&cast)).collect::<Vec<_>>());
        } else {
            exceeded.extend(all.flat_map(|cast| self.limits.exceeded(cast)));
        }
        let invalid = findings.iter().filter(|finding| finding.is_error);
        exceeded.extend(invalid.map(|finding| format!("`{}`: {}", finding.node, finding.text)));
        let seen =
            casts.iter().map(|cast| cast.elements.saturating_sub(cast.source.nans)).sum::<u64>();
        if !casts.is_empty() && seen == 0 {
            exceeded.push("no value other than NaN has reached a cast, which shows nothing".into());
        }
        let status = if exceeded.is_empty() { Status::Passed } else { Status::Failed };
        let all: Vec<AuditedCast> = rows.iter().map(AuditedCast::of).collect();
        // What happens to constants happens on any inputs.
        let depends = all.iter().any(|cast| !cast.constant);
        let random = inputs.warning(status).filter(|_| depends);
        let warnings = random.into_iter().chain(headroom::warning(all.iter())).collect();
        let mut notes = vec![];
        sets.iter().flat_map(|set| &set.notes).for_each(|n| add_once(&mut notes, Some(n.clone())));
        let received = received(&casts).filter(|_| exceeded.is_empty());
        Ok(Audited {
            model: self.model.display().to_string(),
            status,
            problem: None,
            error: None,
            sets: sets.len(),
            inputs,
            tolerance_file: self.limits_file.as_ref().map(|path| path.display().to_string()),
            notes: notes.into_iter().chain(run_notes).chain(received).collect(),
            warnings,
            casts,
            rounded,
            roundings,
            findings,
            exceeded,
            baseline: self.baseline.as_ref().map(|path| path.display().to_string()),
            excused,
            weights,
            unexercised: unexercised(Some(&watched.exercise), &rows),
        })
    }

    fn model(&self) -> &Path {
        &self.model
    }

    fn places(&self) -> Vec<PathBuf> {
        let cases = self.cases.iter().map(|case| case.set.clone());
        let folder = self.baseline.iter().filter_map(|path| path.parent()).map(PathBuf::from);
        self.input.files().chain(cases).chain(folder).collect()
    }
}

/// A note on casts that were given NaN or infinities. That is within every cast's limits, but it means that something is
/// wrong before them.
fn received(casts: &[AuditedCast]) -> Option<String> {
    let is_given = |cast: &&AuditedCast| cast.source.nans + cast.source.infinities > 0;
    let mut given = casts.iter().filter(is_given).map(|cast| &cast.node);
    let (first, more) = (given.next()?, given.count());
    let others = if more == 0 { String::new() } else { format!(" and {more} other(s)") };
    Some(format!(
        "NaN or infinities reach `{first}`{others}: no cast is blamed for what it is given, `compare` finds where it arises"
    ))
}
