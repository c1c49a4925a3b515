//! Where two models part of themselves: the values that the converted model makes wrongly of what
//! is right.

use std::collections::HashSet;

use onnx_cast_graph::ValueId;
use tract_onnx::prelude::*;

use super::finding::{TensorFinding, noise};
use super::matched::{Matched, ModelPair};
use crate::cli::found::limits::ToleranceLimits;
use crate::cli::found::verdict::Culprit;
use crate::cli::measure::metrics::compared;
use crate::cli::measure::tolerance::Tolerance;
use crate::cli::message::counted;
use crate::cli::progress;
use crate::cli::tensor::NamedTensor;
use crate::cli::verb::reduce::values::{by_name, reshaped};

/// A value that the converted model makes wrongly of what is right.
pub(super) struct RootCause {
    /// Where the part ends: there the finding shows.
    pub(super) end: Matched,
    /// The values of the reference that are not given, though they are paired.
    pub(super) inside: HashSet<ValueId>,
    /// The node of the converted model that is blamed.
    pub(super) blamed: Option<String>,
    /// What a comparison without a tolerance blames, where that judges.
    pub(super) culprit: Option<Culprit>,
    /// Whether the part may have another one in its place.
    pub(super) is_another: bool,
}

impl RootCause {
    /// A part that ends there.
    pub(super) fn at(end: &Matched) -> RootCause {
        let (end, inside) = (end.clone(), HashSet::new());
        RootCause { end, inside, blamed: None, culprit: None, is_another: false }
    }
}

/// A value that the converted model makes wrongly of what is right, what is wrong beyond the
/// tolerance, and what it makes.
struct Suspect {
    matched: Matched,
    found: Option<TensorFinding>,
    made: NamedTensor,
}

/// How many values are suspected at most, and how many causes are told.
const SUSPECTS: usize = 8;
/// How many suspects are looked at in any case.
const TRIED: usize = 2;
pub(super) const CAUSES: usize = 5;

/// A cause takes the outputs' error below this part of what it was.
const EXPLAINS: f64 = 0.3;

/// The search for causes.
pub(super) struct CauseSearch<'a> {
    pub(super) pair: &'a ModelPair,
    pub(super) limits: &'a ToleranceLimits,
    /// How often models or parts were run.
    pub(super) runs: usize,
    /// How often they may be.
    pub(super) most: usize,
}

impl CauseSearch<'_> {
    /// The causes, gravest first, and how far the outputs are off once they are right; none where
    /// the error comes from no single place.
    ///
    /// Each value of the converted model is made once of the reference's values. Where that goes
    /// wrong, the value is suspected; it is a cause if the outputs are better once it is right, or,
    /// as what is right behind a value hides it, if it alone has the reference's outputs fail.
    /// Fails when the parts cannot be run.
    pub(super) fn causes(&mut self, whole: f64) -> TractResult<(Vec<RootCause>, f64)> {
        let suspects = self.suspects()?;
        let (mut causes, mut right, mut left): (Vec<RootCause>, Vec<Matched>, f64) =
            (vec![], vec![], whole);
        for (place, suspect) in suspects.iter().take(SUSPECTS).enumerate() {
            if self.runs >= self.most && place >= TRIED {
                break;
            }
            let given: Vec<Matched> = right.iter().chain([&suspect.matched]).cloned().collect();
            let Ok(error) = self.outputs_given(&given) else { continue };
            let is_better = error < left * EXPLAINS || left.is_infinite() && error.is_finite();
            if !is_better {
                continue;
            }
            // What is within the tolerance everywhere behind it is noise.
            let Some(cause) = self.cause(&suspect.matched, suspect.found.as_ref())? else {
                continue;
            };
            causes.push(cause);
            (right, left) = (given, error);
            if left == 0.0 || causes.len() >= CAUSES {
                break;
            }
        }
        for suspect in suspects.iter().take(SUSPECTS).filter(|_| left == 0.0) {
            let is_known = right.iter().any(|m| m.converted == suspect.matched.converted);
            if self.runs >= self.most || causes.len() >= CAUSES {
                break;
            }
            if !is_known && self.is_hidden(suspect, &suspects) && self.shows_alone(suspect)? {
                causes.extend(self.cause(&suspect.matched, suspect.found.as_ref())?);
            }
        }
        Ok((causes, left))
    }

    /// The values that the converted model makes wrongly, each of what is right, the gravest first,
    /// and what is wrong beyond the tolerance.
    fn suspects(&mut self) -> TractResult<Vec<Suspect>> {
        let pair = self.pair;
        let made: Vec<Matched> =
            pair.matched.iter().filter(|matched| pair.is_made(matched)).cloned().collect();
        progress::tell(format_args!("making {} of what is right", counted(made.len(), "value")));
        self.runs += 2;
        let [right, found] = pair.run(&pair.matched, &made, [true, true])?;
        let mut suspects: Vec<(f64, Suspect)> = vec![];
        for ((matched, x), y) in made.into_iter().zip(&right).zip(&found) {
            let made = reshaped(y, x.tensor.shape());
            let tensor = compared(x, &made, self.tolerance(x, &made))?;
            let error = tensor.largest_error();
            if error > noise(x.ty, y.ty) {
                suspects
                    .push((error, Suspect { matched, found: TensorFinding::of(&tensor), made }));
            }
        }
        // Stable: of equally grave ones the first goes first.
        suspects.sort_by(|a, b| b.0.total_cmp(&a.0));
        Ok(suspects.into_iter().map(|(_, suspect)| suspect).collect())
    }

    /// Whether a suspect may be a cause that others hide: it is beyond the tolerance, and something
    /// that takes it is made rightly of what is right, so that it is the value that it is paired
    /// with.
    fn is_hidden(&self, suspect: &Suspect, suspects: &[Suspect]) -> bool {
        let converted = &self.pair.converted;
        let value = suspect.matched.converted;
        let behind = converted.behind(value);
        let mut given: HashSet<ValueId> = self.pair.matched.iter().map(|m| m.converted).collect();
        let is_suspected = |id: ValueId| suspects.iter().any(|other| other.matched.converted == id);
        let mut takes = |id: ValueId| {
            given.remove(&id);
            let is_taken = converted.needed(id, &given).contains(&value);
            given.insert(id);
            is_taken
        };
        let mut others = self.pair.matched.iter().map(|m| m.converted);
        suspect.found.is_some()
            && others.any(|id| behind.contains(&id) && !is_suspected(id) && takes(id))
    }

    /// Whether the reference's outputs fail with what a suspect is.
    fn shows_alone(&mut self, suspect: &Suspect) -> TractResult<bool> {
        self.runs += 1;
        let outputs = self.outputs();
        // What cannot take it shows nothing.
        let Ok(made) = self.pair.run_with(&suspect.matched, &suspect.made, &outputs) else {
            return Ok(false);
        };
        for (matched, y) in outputs.iter().zip(&made) {
            let x = self.pair.value(matched)?;
            if !compared(x, y, self.limits.output(&x.name))?.passed {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// What an inner tensor may be off by.
    fn tolerance(&self, x: &NamedTensor, y: &NamedTensor) -> Tolerance {
        let given = self.limits.inner();
        if given != Tolerance::default() || x.ty == y.ty {
            return given;
        }
        Tolerance { rtol: Some(noise(x.ty, y.ty)), atol: Some(0.0), ..given }
    }

    /// How far the outputs of the converted model are off where some values are right; 0 if they
    /// pass.
    pub(super) fn outputs_given(&mut self, right: &[Matched]) -> TractResult<f64> {
        let pair = self.pair;
        self.runs += 1;
        let inputs = pair.matched.iter().filter(|matched| !pair.is_made(matched));
        let given: Vec<Matched> = inputs.chain(right).cloned().collect();
        let names: Vec<&str> = right.iter().map(|m| pair.reference.name(m.reference)).collect();
        let wanted = self.outputs();
        let [_, made] = pair.run(&given, &wanted, [false, true])?;
        let mut worst = 0f64;
        for (matched, y) in wanted.iter().zip(&made) {
            let x = pair.value(matched)?;
            if names.contains(&&*x.name) {
                continue;
            }
            let tensor = compared(x, &reshaped(y, x.tensor.shape()), self.limits.output(&x.name))?;
            worst = worst.max(tensor.excess());
        }
        Ok(worst)
    }

    /// The outputs of the models that are paired and made.
    pub(super) fn outputs(&self) -> Vec<Matched> {
        let outputs: HashSet<ValueId> = self.pair.reference.outputs().into_iter().collect();
        let matched = self.pair.matched.iter();
        let is_output = |m: &&Matched| outputs.contains(&m.reference) && self.pair.is_made(m);
        matched.filter(is_output).cloned().collect()
    }

    /// What a part has to hold so that it shows the cause; nothing where none would show it. Where
    /// a value is off by less than the tolerance, and what is made of it by more, the part goes on
    /// to there.
    fn cause(
        &mut self,
        matched: &Matched,
        found: Option<&TensorFinding>,
    ) -> TractResult<Option<RootCause>> {
        let converted = &self.pair.converted;
        let blamed = converted.graph.maker(matched.converted).map(|id| {
            let node = converted.graph.node(id);
            node.shared_label().to_string()
        });
        let alone = RootCause { blamed, ..RootCause::at(matched) };
        if found.is_some() {
            return Ok(Some(alone));
        }
        let behind = converted.behind(matched.converted);
        let (inner, given): (Vec<Matched>, Vec<Matched>) = self
            .pair
            .matched
            .iter()
            .cloned()
            .partition(|m| m.converted == matched.converted || behind.contains(&m.converted));
        self.runs += 2;
        let [right, found] = self.pair.run(&given, &inner, [true, true])?;
        for ((m, x), y) in inner.iter().zip(&right).zip(&found) {
            let y = reshaped(y, x.tensor.shape());
            if !compared(x, &y, self.limits.output(&x.name))?.passed {
                let inside = inner.iter().map(|m| m.reference).collect();
                return Ok(Some(RootCause { end: m.clone(), inside, ..alone }));
            }
        }
        Ok(None)
    }

    /// How far each output of the whole is off.
    pub(super) fn worst_output(
        &self,
        made: Vec<NamedTensor>,
    ) -> TractResult<Option<(f64, Matched)>> {
        let made = by_name(made);
        let mut worst: Option<(f64, Matched)> = None;
        for matched in self.outputs() {
            let x = self.pair.value(&matched)?;
            let name = self.pair.converted.name(matched.converted);
            let Some(y) = made.get(name) else { continue };
            let tensor = compared(x, &reshaped(y, x.tensor.shape()), self.limits.output(&x.name))?;
            let error = tensor.excess();
            if worst.as_ref().is_none_or(|(most, _)| error > *most) {
                worst = Some((error, matched));
            }
        }
        Ok(worst)
    }
}
