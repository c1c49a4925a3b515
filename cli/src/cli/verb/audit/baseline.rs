//! The model of which an audited one is a conversion.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use anyhow::ensure;
use tract_onnx::pb::ModelProto;
use tract_onnx::prelude::*;
use tract_onnx_cast::audit::{self, Outcome};

use crate::cli::found::audited::AuditedCast;
use crate::cli::found::finding::{Code, FindingRow};
use crate::cli::input::declared::Declared;
use crate::cli::input::sets::Set;
use crate::cli::measure::metrics::OutputMetrics;
use crate::cli::measure::pairing::pair;
use crate::cli::measure::tolerance::Tolerance;
use crate::cli::message::at;
use crate::cli::tensor::NamedTensor;
use crate::cli::work::adapt_inputs::carried;
use crate::cli::work::model::Loader;
use crate::cli::work::probed::Probed;
use crate::cli::work::watched::Watched;
use crate::cli::work::weights::Weights;

/// What two models that mean the same make of the same inputs points in the same direction.
const LEAST_COSINE: f64 = 0.99;
/// What the two are called in messages.
const CALLED: [&str; 2] = ["the model", "the baseline"];

/// A baseline that runs on the inputs of its conversion, a set at a time.
pub(super) struct Baseline<'a> {
    probed: &'a Probed,
    name: String,
    watched: Watched<'a>,
    metrics: OutputMetrics,
    pub(super) notes: Vec<String>,
}

/// What a baseline does, of which its conversion is not to be blamed.
pub(super) struct Excuses {
    casts: Vec<AuditedCast>,
    /// How many infinities and NaN the values have that were asked for.
    not_finite: HashMap<String, (u64, u64)>,
}

/// A baseline's file. Fails when it is not sound.
pub(super) fn open(loader: &Loader, path: &Path) -> TractResult<Probed> {
    at(format!("the baseline {}", path.display()), Probed::open(loader, path))
}

impl<'a> Baseline<'a> {
    /// A baseline that has not run yet. Fails when it cannot be loaded.
    pub(super) fn of(path: &Path, probed: &'a Probed) -> TractResult<Baseline<'a>> {
        let name = format!("the baseline {}", path.display());
        let watched = at(&name, Watched::of(probed, &[]))?;
        Ok(Baseline { probed, name, watched, metrics: OutputMetrics::default(), notes: vec![] })
    }

    /// Runs it on a set that its conversion, which takes these inputs, has run on and has made
    /// these outputs of. Fails when it takes other inputs, makes other outputs, or cannot be run.
    pub(super) fn run(
        &mut self,
        takes: &Declared,
        set: &Set,
        outputs: &[NamedTensor],
    ) -> TractResult<()> {
        let set = self.carried(takes, set)?;
        let run = at(&self.name, self.watched.run(&set, false, None))?;
        let pairs = at("the baseline has other outputs", pair(&run.outputs, outputs))?;
        let tolerance = Tolerance { cosine: Some(LEAST_COSINE), ..Tolerance::default() };
        self.metrics.add(&pairs.of(&run.outputs, outputs), |_| tolerance)
    }

    /// Whether the outputs were other ones.
    pub(super) fn outputs_differ(&mut self) -> bool {
        std::mem::take(&mut self.metrics).finish().iter().any(|output| !output.passed)
    }

    /// What it does as well as the conversion. `values` are not finite in that: the baseline runs
    /// once more, if there are any, to see whether they are so in it too. Fails when it cannot be
    /// run.
    pub(super) fn excuses(
        &mut self,
        takes: &Declared,
        sets: &[Set],
        values: &[String],
    ) -> TractResult<Excuses> {
        let casts = self.watched.rows().iter().map(AuditedCast::of).collect();
        let mut not_finite: HashMap<String, (u64, u64)> = HashMap::new();
        if !values.is_empty() {
            self.watched = at(&self.name, Watched::of(self.probed, values))?;
            for set in sets {
                let set = self.carried(takes, set)?;
                let run = at(&self.name, self.watched.run(&set, false, None))?;
                for value in run.exposed.iter().chain(&run.outputs) {
                    let range = audit::range(value.ty, &value.tensor)?;
                    let counts = not_finite.entry(value.name.clone()).or_default();
                    *counts = (counts.0 + range.infinities, counts.1 + range.nans);
                }
            }
        }
        Ok(Excuses { casts, not_finite })
    }

    fn carried(&mut self, takes: &Declared, set: &Set) -> TractResult<Set> {
        let mine = &self.watched.model.takes;
        let carried = carried(takes, mine, CALLED, set, &mut self.notes);
        at("the baseline has other inputs", carried)
    }

    /// What the conversion did to the constants.
    /// Fails when a constant cannot be read, or the two models have nothing in common.
    pub(super) fn weights(&self, conversion: &Probed) -> TractResult<Weights> {
        let weights = Weights::of(&self.probed.holder(), &conversion.holder(), false)?;
        let (a, b) = (inner_values(&self.probed.proto), inner_values(&conversion.proto));
        let is_bare = a.is_empty() || b.is_empty();
        let shares = weights.pairs() > 0 || a.iter().any(|name| b.contains(name)) || is_bare;
        ensure!(shares, "the baseline shares no weight and no value's name with the model");
        Ok(weights)
    }
}

impl Excuses {
    /// The cast without what the baseline does as well, of which a sentence each is added to the
    /// second argument.
    pub(super) fn excuse(&self, cast: &AuditedCast, excused: &mut Vec<FindingRow>) -> AuditedCast {
        let mut left = cast.clone();
        let below = |cast: &AuditedCast| {
            cast.graph.split_once('/').map_or(String::new(), |(_, path)| path.into())
        };
        let is_it = |other: &&AuditedCast| {
            (other.output == cast.output || other.node == cast.node) && below(other) == below(cast)
        };
        let counterpart = self.casts.iter().find(is_it);
        let mut take = |what: &str, count: &mut u64, theirs: u64| {
            if *count > 0 && theirs >= *count {
                let node = &cast.node;
                let sentence = format!("{what} {count}, and {theirs} in the original");
                excused.push(FindingRow::at(node, &cast.graph, Code::Excused, sentence));
                *count = 0;
            }
        };
        let cuts_off = |outcome| outcome == Outcome::Saturated && cast.has_wrong_scale();
        for outcome in Outcome::ALL.iter().filter(|o| o.is_damage() || cuts_off(**o)) {
            let theirs = counterpart.map_or(0, |theirs| theirs.count(*outcome));
            if let Some(count) = left.outcomes.get_mut(&(*outcome).into()) {
                take(outcome.name(), count, theirs);
            }
        }
        let (infinite, nans) = self.not_finite.get(&cast.output).copied().unwrap_or_default();
        take("made_infinite", &mut left.made_infinite, infinite);
        take("made_nan", &mut left.made_nan, nans);
        left
    }
}

/// The values that the main graph's nodes make, outputs excepted.
fn inner_values(model: &ModelProto) -> HashSet<&str> {
    let Some(graph) = &model.graph else { return HashSet::new() };
    let outputs: HashSet<&str> = graph.output.iter().map(|output| output.name.as_str()).collect();
    let made = graph.node.iter().flat_map(|node| &node.output).map(String::as_str);
    made.filter(|name| !name.is_empty() && !outputs.contains(name)).collect()
}

/// The values that rounding rows tell are not finite, of which a baseline is asked whether they are
/// so there.
pub(super) fn suspicious(roundings: &[AuditedCast]) -> Vec<String> {
    let made = roundings.iter().filter(|row| row.made_infinite + row.made_nan > 0);
    made.map(|row| row.output.clone()).collect()
}
