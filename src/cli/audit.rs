//! `onnx-cast audit`: what the casts of models do to the numbers. This is the worker's part, one model.

use std::path::{Path, PathBuf};

use anyhow::bail;
use serde::{Deserialize, Serialize};
use tract_onnx::pb::ModelProto;
use tract_onnx::prelude::*;
use tract_onnx_cast::audit::{Audit, AuditRow, Finding, FindingKind, Outcome, findings};
use tract_onnx_cast::{CastNode, CastOnnx};

use super::cases::Case;
use super::facts::{Audited, CastFacts, FindingFacts, Status};
use super::inputs::InputArgs;
use super::message;
use super::model::{Model, check_file};
use super::sets::{self, Set};
use super::tolerance::Tolerances;

/// A model to audit.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct AuditOrder {
    pub(super) model: PathBuf,
    /// The model's own sets of inputs, where they are to be used.
    pub(super) cases: Vec<Case>,
    pub(super) input: InputArgs,
    pub(super) tolerances: Tolerances,
    pub(super) tolerance_file: Option<PathBuf>,
}

/// Audits the model.
///
/// # Errors
///
/// When the model or an input cannot be used.
pub(super) fn audit(order: &AuditOrder) -> TractResult<Audited> {
    let subject = Subject::open(&order.model)?;
    let model = subject.model()?;
    let sets = match &order.cases[..] {
        [] => sets::gather(&model, &order.model, &order.input)?,
        cases => {
            cases.iter().map(|case| sets::of_case(&model, case)).collect::<TractResult<_>>()?
        }
    };
    let rows = subject.rows(model, &sets)?;
    let findings = subject.findings(&rows);
    let casts = sorted(&rows);
    let names: Vec<&str> = casts.iter().map(|cast| cast.node.as_str()).collect();
    if let Some(name) = order.tolerances.unknown_casts(&names).next() {
        bail!("there are limits for the cast `{name}`, but the model has none of that name");
    }
    let mut exceeded: Vec<String> =
        casts.iter().flat_map(|cast| order.tolerances.exceeded(cast)).collect();
    let invalid = findings.iter().filter(|finding| finding.is_error);
    exceeded.extend(invalid.map(|finding| format!("`{}`: {}", finding.node, finding.text)));
    let seen = casts.iter().map(|cast| cast.elements.saturating_sub(cast.source.nans)).sum::<u64>();
    if !casts.is_empty() && seen == 0 {
        exceeded.push("no value other than NaN has reached a cast, which shows nothing".into());
    }
    let notes = sets.iter().flat_map(|set| set.notes.iter().cloned());
    let received = received(&casts).filter(|_| exceeded.is_empty());
    Ok(Audited {
        model: order.model.display().to_string(),
        status: if exceeded.is_empty() { Status::Passed } else { Status::Failed },
        problem: None,
        sets: sets.len(),
        tolerance_file: order.tolerance_file.as_ref().map(|path| path.display().to_string()),
        notes: notes.chain(received).collect(),
        casts,
        findings,
        exceeded,
    })
}

/// That casts were given NaN or infinities, where somebody might think that all is well.
fn received(casts: &[CastFacts]) -> Option<String> {
    let is_given = |cast: &&CastFacts| cast.source.nans + cast.source.infinities > 0;
    let mut given = casts.iter().filter(is_given).map(|cast| &cast.node);
    let (first, more) = (given.next()?, given.count());
    let others = if more == 0 { String::new() } else { format!(" and {more} other(s)") };
    Some(format!(
        "NaN or infinities reach `{first}`{others}: no cast is blamed for what it is given, `compare` finds where it arises"
    ))
}

/// Worst first; what is as bad in the order of computation.
pub(super) fn sorted(rows: &[AuditRow]) -> Vec<CastFacts> {
    let mut rows: Vec<&AuditRow> = rows.iter().collect();
    rows.sort_by_cached_key(|row| CastFacts::rank(&row.stats));
    rows.into_iter().map(CastFacts::of).collect()
}

/// A model whose casts are looked at.
pub(super) struct Subject {
    pub(super) folder: Option<PathBuf>,
    pub(super) proto: ModelProto,
    /// Overlooks contradictions, if the model has one.
    pub(super) onnx: CastOnnx,
    /// What is wrong with the model, if it is only what it declares.
    problem: Option<anyhow::Error>,
    pub(super) casts: Vec<CastNode>,
    found: Vec<Finding>,
}

impl Subject {
    /// Reads the model's file, and looks at its casts.
    ///
    /// # Errors
    ///
    /// When the model is not sound. One that declares other types than its casts make is only invalid.
    pub(super) fn open(path: &Path) -> TractResult<Subject> {
        check_file(path)?;
        let folder = path.parent().map(PathBuf::from);
        let strict = tract_onnx_cast::onnx();
        let proto = strict.proto_model_for_path(path)?;
        let lenient = strict.clone().with_ignore_value_info(true).with_ignore_output_types(true);
        let (onnx, casts, problem) = match strict.casts(&proto, folder.as_deref()) {
            Ok(casts) => (strict, casts, None),
            Err(problem) => match lenient.casts(&proto, folder.as_deref()) {
                Ok(casts) => (lenient, casts, Some(problem)),
                Err(_) => return Err(problem),
            },
        };
        let found = findings(&proto, &casts);
        let onnx = onnx.with_probes(true);
        Ok(Subject { folder, proto, onnx, problem, casts, found })
    }

    /// The model, with a probe behind each cast.
    pub(super) fn model(&self) -> TractResult<Model> {
        let model = self.onnx.model_for_proto_in(self.proto.clone(), self.folder.as_deref());
        self.explained(model.and_then(Model::of))
    }

    /// What the casts do, over all sets.
    pub(super) fn rows(&self, model: Model, sets: &[Set]) -> TractResult<Vec<AuditRow>> {
        let audit = Audit::new(self.casts.clone());
        for set in sets {
            let run = model.clone().run_after(set.tensors.clone(), |typed| audit.watch(typed));
            self.explained(message::at_if(sets.len() > 1, &set.name, run))?;
            audit.end_set();
        }
        Ok(audit.rows())
    }

    /// A model that is invalid and does not run either is refused for what is invalid.
    fn explained<T>(&self, result: TractResult<T>) -> TractResult<T> {
        match (&self.problem, result) {
            (Some(problem), Err(_)) => Err(anyhow::anyhow!("{}", message::one_line(problem))),
            (_, result) => result,
        }
    }

    /// What can be said without running the model. What might become of values is left out of constants, of which it is
    /// known what became of them.
    fn findings(&self, rows: &[AuditRow]) -> Vec<FindingFacts> {
        let fact = |finding: &Finding| {
            let cast = self.casts.get(finding.place)?;
            let feared = match finding.kind {
                FindingKind::Int64ToInt32 => Some(Outcome::Wrapped),
                FindingKind::FloatToInteger => Some(Outcome::Undefined),
                _ => None,
            };
            let row = rows.get(finding.place).filter(|row| row.is_constant && row.runs > 0);
            let is_groundless =
                row.zip(feared).is_some_and(|(row, outcome)| row.stats.count(outcome) == 0);
            (!is_groundless).then(|| FindingFacts {
                kind: finding.kind.name().into(),
                node: cast.node.clone(),
                graph: cast.graph.clone(),
                text: finding.text.clone(),
                is_error: finding.kind == FindingKind::Contradicted,
            })
        };
        self.found.iter().filter_map(fact).collect()
    }
}
