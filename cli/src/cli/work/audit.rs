//! The work of `onnx-cast audit`, one model: what its casts do to the numbers.

use std::path::{Path, PathBuf};

use anyhow::bail;
use serde::{Deserialize, Serialize};
use tract_onnx::prelude::*;

use super::notes::add_once;
use super::probed::{Probed, casts_of, is_rounding, roundings_of};
use super::provenance::inputs_of;
use super::request::{Kind, Request};
use crate::cli::args::input::InputArgs;
use crate::cli::input::cases::Case;
use crate::cli::input::sets;
use crate::cli::judge::audited::{Audited, AuditedCast};
use crate::cli::judge::headroom;
use crate::cli::judge::limits::Limits;
use crate::cli::judge::status::Status;

/// A model to audit.
#[derive(Serialize, Deserialize)]
pub(crate) struct AuditRequest {
    pub(crate) model: PathBuf,
    /// The model's own sets of inputs, where they are to be used.
    pub(crate) cases: Vec<Case>,
    pub(crate) input: InputArgs,
    pub(crate) limits: Limits,
    pub(crate) limits_file: Option<PathBuf>,
}

impl Request for AuditRequest {
    const KIND: Kind = Kind::Audit;

    type Answer = Audited;

    fn answer(&self) -> TractResult<Audited> {
        let probed = Probed::open(&self.model)?;
        let model = probed.model()?;
        let sets = match &self.cases[..] {
            [] => sets::gather(&model.takes, &self.model, &self.input)?,
            cases => sets::of_cases(&model.takes, cases)?,
        };
        let inputs = inputs_of(&model.takes, &sets);
        let (rows, run_notes) = probed.rows(model, &sets)?;
        let findings = probed.findings(&rows);
        let (casts, roundings) = (casts_of(&rows), roundings_of(&rows));
        let rounded = rows.iter().filter(|row| is_rounding(&row.cast)).count();
        let names: Vec<&str> = rows.iter().map(|row| row.cast.node.as_str()).collect();
        if let Some(name) = self.limits.unknown_casts(&names).next() {
            bail!("there are limits for the cast `{name}`, but the model has none of that name");
        }
        let mut exceeded: Vec<String> =
            casts.iter().chain(&roundings).flat_map(|cast| self.limits.exceeded(cast)).collect();
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
        })
    }

    fn model(&self) -> &Path {
        &self.model
    }

    fn places(&self) -> Vec<PathBuf> {
        self.input.files().chain(self.cases.iter().map(|case| case.set.clone())).collect()
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
