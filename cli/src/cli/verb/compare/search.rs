//! Between the first two stages: a search for inputs on which the two models differ more than on those that were chosen. What it finds
//! is a set like the others.

use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use anyhow::Context;
use tract_onnx::prelude::*;
use tract_onnx_cast::audit::Audit;
use tract_onnx_cast::untrusted::without_panic;
use tract_onnx_cast::{Conversion, ElementType, Family, Rules};

use super::open::{CompareRequest, Loaded, SIDES, Sides};
use crate::cli::found::limits::Limits;
use crate::cli::found::look::{Look, LookFurther};
use crate::cli::found::samples::error_of;
use crate::cli::input::chosen::change::Choice;
use crate::cli::input::chosen::search::{Judge, Score, Searched, search};
use crate::cli::input::declared::Input;
use crate::cli::input::recipe::Recipe;
use crate::cli::input::sets::{Provenance, Set, Tensors, shapes_of, write_sets};
use crate::cli::measure::metrics::Metrics;
use crate::cli::measure::number::Num;
use crate::cli::measure::pairing::pair;
use crate::cli::process::progress;
use crate::cli::tensor::NamedTensor;
use crate::cli::work::adapt_inputs::carried;
use crate::cli::work::model::{Model, Ready};

/// Searches, adds what is found to the sets, and writes all sets where somebody wants them.
///
/// # Errors
///
/// When sets cannot be made or written.
pub(super) fn search_further(request: &CompareRequest, sides: &mut Sides) -> TractResult<()> {
    let is_given = !request.input.inputs.is_empty() || request.input.sets.is_some();
    let budget = request.search.budget(is_given);
    let recipe = sides.reference_sets.first().and_then(|set| match &set.provenance {
        Provenance::Random { recipe, .. } => Some(recipe.clone()),
        Provenance::Given => None,
    });
    if let (Some(budget), Some(recipe)) = (budget, recipe)
        && let (Some(a), Some(b)) = (&sides.reference.model, &sides.converted.model)
    {
        progress::tell("searching");
        let seeds = (sides.reference_sets.len(), request.input.seed);
        let budget = budget.after(recipe.tried_for());
        let mut pair = Both::of((a, b), &request.limits)?;
        let searched = search(&recipe, seeds, budget, &mut pair);
        if let Some(searched) = searched {
            sides.add(&recipe, searched)?;
        }
    }
    match &request.search.keep_inputs {
        Some(folder) => sides.keep(folder),
        None => Ok(()),
    }
}

impl Sides {
    /// Adds what was found, and tells it.
    fn add(&mut self, recipe: &Rc<Recipe>, searched: Searched) -> TractResult<()> {
        let told = |(choice, score): &(Choice, Score)| {
            let what = match score.error > searched.before.error {
                true => format!("a relative error of {}", Num(score.error)),
                false => format!("values at {:.0} % of what a type holds", 100.0 * score.reach),
            };
            format!("{what} ({})", recipe.in_words(choice))
        };
        let further = LookFurther {
            steps: searched.steps,
            is_cut: searched.is_cut,
            error_before: Num(searched.before.error),
            found: searched.found.iter().map(told).collect(),
        };
        for (choice, _) in searched.found {
            let set = Set::of_choice(recipe, choice)?;
            if let (Some(a), Some(b)) = (&self.reference.model, &self.converted.model) {
                let (from, to) = (&a.model.takes, &b.model.takes);
                self.converted_sets.push(carried(from, to, SIDES, &set, &mut self.notes)?);
            }
            self.reference_sets.push(set);
        }
        let chosen = self.reference_sets.first().and_then(|set| match &set.provenance {
            Provenance::Random { look, .. } => Some(Look::clone(look)),
            Provenance::Given => None,
        });
        let chosen = Rc::new(Look { search: Some(further), ..chosen.unwrap_or_default() });
        for set in self.reference_sets.iter_mut().chain(&mut self.converted_sets) {
            if let Provenance::Random { look, .. } = &mut set.provenance {
                *look = chosen.clone();
            }
        }
        Ok(())
    }

    /// Writes the sets, so that `-i` gives them again.
    fn keep(&self, folder: &Path) -> TractResult<()> {
        let loaded = self.reference.model.as_ref().or(self.converted.model.as_ref());
        let loaded = loaded.context("--keep-inputs: nothing is run")?;
        write_sets(folder, &loaded.model.takes, &self.reference_sets)
    }
}

/// Both models, which run on many sets.
struct Both<'a> {
    reference: Runs<'a>,
    converted: Runs<'a>,
    limits: &'a Limits,
    /// Whether an output was beyond a tolerance that is given.
    has_failed: bool,
}

impl<'a> Both<'a> {
    fn of((a, b): (&'a Loaded, &'a Loaded), limits: &'a Limits) -> TractResult<Both<'a>> {
        let (reference, converted) = (Runs::of(a, false)?, Runs::of(b, true)?);
        Ok(Both { reference, converted, limits, has_failed: false })
    }

    /// The largest error of an output, and whether all are within their tolerances.
    fn error(
        &self,
        reference: &[NamedTensor],
        converted: &[NamedTensor],
    ) -> TractResult<(f64, bool)> {
        let (mut worst, mut passed) = (0f64, true);
        for (a, b) in pair(reference, converted)?.of(reference, converted) {
            let mut metrics = Metrics::new(a, b, self.limits.output(&a.name));
            metrics.add(a, b)?;
            let finished = metrics.finish();
            worst = worst.max(error_of(&finished));
            passed &= finished.passed;
        }
        Ok((worst, passed))
    }
}

impl Judge for Both<'_> {
    fn score(&mut self, tensors: Tensors) -> Option<Score> {
        let reference = self.reference.run(&tensors).ok()?;
        let (from, to) = (&self.reference.loaded.model.takes, &self.converted.loaded.model.takes);
        let shapes = shapes_of(&tensors);
        let set = Set::new(String::new(), Provenance::Given, shapes, move || Ok(tensors.clone()));
        let set = carried(from, to, SIDES, &set, &mut vec![]).ok()?;
        let apart = Score { error: f64::INFINITY, reach: 0.0 };
        let Ok(converted) = self.converted.run(&set.tensors().ok()?) else { return Some(apart) };
        let (error, passed) = self.error(&reference, &converted).unwrap_or((f64::INFINITY, false));
        self.has_failed |= self.limits.has_tolerance() && !passed;
        Some(Score { error, reach: self.converted.reach() })
    }

    fn moved(&mut self, tensors: Tensors, by: f64) -> f64 {
        let inputs = &self.reference.loaded.model.takes.inputs;
        let move_one = |(tensor, input): (&Arc<Tensor>, &Input)| nudged(tensor, input, by);
        let nudged = tensors.iter().zip(inputs).map(move_one).collect::<TractResult<Tensors>>();
        let moved = || {
            let before = self.reference.run(&tensors)?;
            let after = self.reference.run(&nudged?)?;
            TractResult::Ok(self.error(&before, &after)?.0)
        };
        moved().unwrap_or(f64::INFINITY)
    }

    fn has_failed(&self) -> bool {
        self.has_failed
    }
}

/// Floats that are off by a relative error, up and down in turn.
fn nudged(tensor: &Arc<Tensor>, input: &Input, by: f64) -> TractResult<Arc<Tensor>> {
    if !matches!(input.ty.family(), Family::Float(_)) {
        return Ok(tensor.clone());
    }
    let wide = Conversion::new(input.ty, ElementType::Double, Rules::default()).run(tensor)?;
    let values = wide.as_bytes().chunks_exact(8);
    let values = values.filter_map(|bytes| Some(f64::from_ne_bytes(bytes.try_into().ok()?)));
    // Multiplied by an odd number, places fall on either side without a pattern that sums would cancel.
    let is_up = |place: usize| place.wrapping_mul(0x9e37_79b9).count_ones().is_multiple_of(2);
    let nudge =
        |(place, value): (usize, f64)| value * if is_up(place) { 1.0 + by } else { 1.0 - by };
    let values: Vec<f64> = values.enumerate().map(nudge).collect();
    let values = Tensor::from_shape(tensor.shape(), &values)?;
    let narrow = Conversion::new(ElementType::Double, input.ty, Rules::default()).run(&values)?;
    Ok(Arc::new(narrow))
}

/// How many sizes a model is held ready for.
const READY: usize = 3;

/// A model that runs on many sets.
struct Runs<'a> {
    loaded: &'a Loaded,
    model: Model,
    /// What counts its casts, if anything does.
    audit: Option<Audit>,
    ready: Vec<Ready>,
}

impl<'a> Runs<'a> {
    fn of(loaded: &'a Loaded, is_watched: bool) -> TractResult<Runs<'a>> {
        let audit = is_watched.then(|| loaded.probed.survey.audit());
        Ok(Runs { loaded, model: loaded.probed.model()?, audit, ready: vec![] })
    }

    fn run(&mut self, tensors: &[Arc<Tensor>]) -> TractResult<Vec<NamedTensor>> {
        let run = || {
            let place = match self.ready.iter().position(|ready| ready.takes(tensors)) {
                Some(place) => place,
                None => {
                    let ready = self.model.clone().ready(tensors, self.audit.as_ref())?;
                    self.ready.truncate(READY - 1);
                    self.ready.insert(0, ready);
                    0
                }
            };
            let ready = self.ready.get(place).context("it is ready")?;
            Ok(ready.run(tensors.to_vec(), None)?.outputs)
        };
        without_panic(run)
    }

    /// The largest share that a cast's values have had so far of what its type holds.
    fn reach(&self) -> f64 {
        let rows = self.audit.as_ref().map(Audit::rows).unwrap_or_default();
        let shares = rows.iter().filter(|row| !row.is_constant).filter_map(|row| {
            let headroom = crate::cli::found::audited::AuditedCast::of(row).headroom?.0;
            (headroom > 0.0).then(|| 1.0 / headroom)
        });
        shares.fold(0.0, f64::max)
    }
}
