//! What there is to look into, and what is told of it besides.

use std::collections::{HashMap, HashSet};

use tract_onnx::prelude::TractResult;
use tract_onnx_cast::OnnxTensor;
use tract_onnx_cast::interpreter::Interpreter;

use super::band::{self, Band, PerturbedRuns};
use super::links::Counterparts;
use super::rounds::Walked;
use super::trace::Traces;
use crate::cli::measure::weight::nearest::NearestCodes;
use crate::cli::verb::compare::open::{CompareRequest, Sides};
use crate::cli::work::weights as compared;

/// What there is to look into.
#[derive(Clone)]
pub(in super::super) struct Subject<'a> {
    pub(in super::super) sides: &'a Sides,
    /// Whether the names of what is made inside tell anything.
    pub(in super::super) has_names: bool,
    /// What the reference's constants are called in the conversion.
    pub(in super::super) weights: HashMap<String, String>,
    /// Those of them that the conversion has as a Cast makes them, in their order of axes.
    pub(in super::super) casts: HashSet<String>,
    /// Those of them that the conversion has as they are, in their type.
    pub(in super::super) same: HashSet<String>,
    /// What values of the conversion are off whose codes are the nearest ones to the values of a
    /// constant of the reference, which is named.
    pub(in super::super) nearest: HashMap<String, (String, NearestCodes)>,
    /// The reference's constants that are more than rounded in the conversion.
    pub(in super::super) changed: HashSet<String>,
    /// Constants of the reference that those of their names do not stand for.
    pub(in super::super) strangers: HashSet<String>,
    /// Those of which a few values are.
    pub(in super::super) changed_in_few: HashSet<String>,
    /// Those that the conversion has in codes whose scales or zero points put them off.
    pub(in super::super) rescaled: HashSet<String>,
    /// How often the conversion runs with its roundings perturbed; `None` where that depends on its
    /// size.
    pub(in super::super) band_runs: Option<u64>,
    /// Whether somebody is shown the band, whatever it tells.
    pub(in super::super) shows_band: bool,
}

impl<'a> Subject<'a> {
    pub(in super::super) fn of(
        request: &CompareRequest,
        sides: &'a Sides,
        weights: Option<&compared::Weights>,
    ) -> Subject<'a> {
        let changed = || weights.iter().flat_map(|weights| &weights.changed);
        let in_few = changed().filter(|weight| weight.change.is_few());
        let rescaled = changed().filter(|weight| weight.fact.is_rescaled);
        Subject {
            sides,
            has_names: true,
            weights: weights.map(|weights| weights.names.clone()).unwrap_or_default(),
            casts: weights.map(|weights| weights.casts.clone()).unwrap_or_default(),
            same: weights.map(|weights| weights.same.clone()).unwrap_or_default(),
            nearest: weights.and_then(|weights| weights.nearest.clone()).unwrap_or_default(),
            changed: changed().map(|weight| weight.fact.name.clone()).collect(),
            strangers: HashSet::new(),
            changed_in_few: in_few.map(|weight| weight.fact.name.clone()).collect(),
            rescaled: rescaled.map(|weight| weight.fact.name.clone()).collect(),
            band_runs: request.band_runs,
            shows_band: request.shows_band,
        }
    }

    /// Takes over what stands for the reference's constants, and what their names tell.
    pub(super) fn correct(&mut self, found: Counterparts) {
        let Counterparts { weights, strangers, has_names } = found;
        (self.weights, self.has_names) = (weights, has_names);
        for names in [&mut self.casts, &mut self.changed, &mut self.changed_in_few] {
            names.retain(|name| !strangers.contains(name));
        }
        self.strangers = strangers;
    }

    /// What the walks find, and the band of the conversion on these inputs, if it is shown or may
    /// tell something. Fails as the walks do.
    pub(super) fn with_band(
        &self,
        (model, inputs): (&Interpreter, Vec<OnnxTensor>),
        traces: &Traces,
        at_once: usize,
        walked: impl FnOnce() -> TractResult<Walked>,
    ) -> TractResult<(Walked, Band, Vec<u64>)> {
        let Traces { sides: (_, exact), outputs } = traces;
        let exact = &**exact;
        let made = || outputs.iter().filter_map(|(_, output)| exact.first(output));
        let usual = || band::usual_count(exact.weights(), made());
        let runs = |count| PerturbedRuns { exact, model, inputs, count };
        match (self.band_runs, self.shows_band) {
            (Some(count), _) => runs(count).beside(at_once, walked),
            (None, true) => runs(usual()).beside(at_once, walked),
            (None, false) => {
                let walked = walked()?;
                // Where a node is wrong by itself, how far roundings put outputs tells nothing.
                let is_wrong = walked.sites.deviating().any(|site| site.is_sure);
                let is_told = !is_wrong && band::may_be_beyond(traces, model);
                let count = if is_told { usual() } else { 0 };
                runs(count).beside(at_once, || Ok(walked))
            }
        }
    }
}
