//! A model with a probe behind each cast.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use onnx_cast_graph::named_value;
use tract_onnx::pb::{ModelProto, ValueInfoProto};
use tract_onnx::prelude::*;
use tract_onnx_cast::audit::{self, AuditRow, FindingKind, Outcome};
use tract_onnx_cast::survey::{CastKind, CastNode, Survey};
use tract_onnx_cast::{CastOnnx, Error, ErrorKind, HalfArithmetic, model_proto};

use crate::cli::found::audited::AuditedCast;
use crate::cli::found::finding::FindingRow;
use crate::cli::input::sets::Set;
use crate::cli::progress;
use crate::cli::work::model::{Loader, Model};
use crate::cli::work::operators;
use crate::cli::work::weights::constants::Holder;

/// A model whose casts are looked at.
pub(crate) struct Probed {
    pub(crate) loader: Loader,
    pub(crate) folder: Option<PathBuf>,
    pub(crate) proto: ModelProto,
    /// The model, where it is loaded besides and runs node by node.
    loaded: Option<Model>,
    /// The loader; one that overlooks contradictions if the model has one.
    pub(crate) onnx: CastOnnx,
    /// What is wrong with the declarations of a model that can be loaded all the same.
    problem: Option<Error>,
    pub(crate) survey: Survey,
}

impl Probed {
    /// Reads the model's file, and looks at its casts.
    /// Fails when the model is not sound. One that declares other types than its casts make is only
    /// invalid.
    pub(crate) fn open(loader: &Loader, path: &Path) -> TractResult<Probed> {
        progress::tell("loading");
        Probed::of(loader, path, loader.read_light(path)?)
    }

    /// As [`Probed::open`], of a file that [`Loader::read_light`] has read.
    pub(crate) fn of(loader: &Loader, path: &Path, proto: ModelProto) -> TractResult<Probed> {
        let folder = path.parent().map(PathBuf::from);
        // Everywhere the same, so that what half precision does to results is seen on any CPU.
        let strict = loader.onnx().with_half_arithmetic(HalfArithmetic::Widened).with_probes(true);
        let lenient = strict.clone().with_ignore_value_info(true).with_ignore_output_types(true);
        let survey = model_proto::survey(&lenient, proto.clone(), folder.as_deref())?;
        // What no plan has may run node by node, and is refused there if it does not.
        let is_run = |error: &Error| loader.interprets() && error.kind() == ErrorKind::Tract;
        if let Some(problem) = survey.problems().iter().find(|problem| !is_run(problem.error())) {
            return Err(problem.error().clone().into());
        }
        let problem = survey.overlooked().first().cloned();
        let onnx = if problem.is_some() { lenient } else { strict };
        let loader = loader.clone();
        Ok(Probed { loader, folder, proto, loaded: None, onnx, problem, survey })
    }

    /// The same of a model that is loaded besides: what runs of it node by node has its graph.
    pub(crate) fn beside(self, model: &Model) -> Probed {
        Probed { loaded: model.interpreted().map(|_| model.clone()), ..self }
    }

    /// Refuses a model that declares other types than its casts make.
    pub(crate) fn check_declared(&self) -> TractResult<()> {
        self.problem.as_ref().map_or(Ok(()), |problem| Err(problem.clone().into()))
    }

    /// The model, with a probe behind each cast.
    pub(crate) fn model(&self) -> TractResult<Model> {
        let loaded = self.loaded.as_ref();
        if let Some(model) = loaded.and_then(|model| model.built_by(self.onnx.clone())) {
            return Ok(model);
        }
        let folder = self.folder.as_deref();
        self.explained(self.loader.load(&self.onnx, self.proto.clone(), folder))
    }

    /// The model with a probe behind each cast, and with further values as outputs.
    pub(crate) fn exposing(&self, values: &[String]) -> TractResult<Model> {
        let mut proto = self.proto.clone();
        if let Some(graph) = &mut proto.graph {
            let outputs: HashSet<String> = graph.output.iter().map(|o| o.name.clone()).collect();
            let declared: HashMap<String, ValueInfoProto> =
                graph.value_info.iter().map(|info| (info.name.clone(), info.clone())).collect();
            for value in values.iter().filter(|value| !outputs.contains(*value)) {
                let declared = declared.get(value).cloned();
                graph.output.push(declared.unwrap_or_else(|| named_value(value)));
            }
        }
        let onnx = self.onnx.clone().with_ignore_output_shapes(true);
        self.loader.load(&onnx, proto, self.folder.as_deref())
    }

    /// What operators on half precision did to their results, the worst first, where it was more
    /// than to round them. The model ran on these sets.
    pub(crate) fn roundings(&self, rows: &[AuditRow], sets: &[Set]) -> Vec<AuditedCast> {
        let mut roundings = worst_first(rows.iter().filter(|row| is_rounding(&row.cast)));
        operators::blame(&self.holder(), rows, sets, &mut roundings);
        roundings.retain(|row| row.damaged() + row.lost() + row.became_subnormal > 0);
        // Stable, so that what is equally bad stays as it is.
        roundings.sort_by_key(|row| std::cmp::Reverse(row.damaged()));
        roundings
    }

    /// What is there of the model's weights.
    pub(crate) fn holder(&self) -> Holder<'_> {
        let folder = self.folder.as_deref();
        Holder { proto: &self.proto, folder, onnx: &self.onnx, unpacked: &[] }
    }

    /// The result; but if the declarations are wrong as well, the error is about them, as they may
    /// be the reason for it.
    pub(super) fn explained<T>(&self, result: TractResult<T>) -> TractResult<T> {
        match (&self.problem, result) {
            (Some(problem), Err(_)) => Err(problem.clone().into()),
            (_, result) => result,
        }
    }

    /// What can be said without running the model. A warning of what might happen to values is left
    /// out for a constant input that has been counted and to whose values it did not happen.
    pub(crate) fn findings(&self, rows: &[AuditRow]) -> Vec<FindingRow> {
        let fact = |finding: &audit::Finding| {
            let cast = self.survey.rows().get(finding.place)?;
            let feared = match finding.kind {
                FindingKind::Int64ToInt32 => Some(Outcome::Wrapped),
                FindingKind::FloatToInteger => Some(Outcome::Undefined),
                _ => None,
            };
            let row = rows.get(finding.place).filter(|row| row.is_constant && row.runs > 0);
            let is_groundless =
                row.zip(feared).is_some_and(|(row, outcome)| row.stats.count(outcome) == 0);
            let (node, graph) = (&cast.node, cast.graph.to_string());
            let code = finding.kind.into();
            (!is_groundless).then(|| FindingRow::at(node, &graph, code, finding.text.clone()))
        };
        self.survey.findings().iter().filter_map(fact).collect()
    }
}

/// Whether the model has no cast here: an operator on half precision rounds its result.
pub(crate) fn is_rounding(cast: &CastNode) -> bool {
    matches!(cast.kind, CastKind::Rounding(_))
}

/// What the model's own casts and quantisers did, the worst first.
pub(crate) fn casts_of(rows: &[AuditRow]) -> Vec<AuditedCast> {
    worst_first(rows.iter().filter(|row| !is_rounding(&row.cast)))
}

/// What casts did, the worst first. Equally bad ones are in the order of computation.
fn worst_first<'a>(rows: impl Iterator<Item = &'a AuditRow>) -> Vec<AuditedCast> {
    let mut rows: Vec<&AuditRow> = rows.collect();
    rows.sort_by_cached_key(|row| AuditedCast::rank(&row.stats));
    rows.into_iter().map(AuditedCast::of).collect()
}
