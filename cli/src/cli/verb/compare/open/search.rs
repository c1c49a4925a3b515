//! Between the first two stages: a search for inputs on which the two models differ more than on
//! those that were chosen. What it finds is a set like the others.

use std::path::Path;
use std::rc::Rc;

use anyhow::Context;
use tract_onnx::prelude::*;

use super::{CompareRequest, SIDES, Sides};
use crate::cli::input::chosen::search::{Searched, search};
use crate::cli::input::recipe::Recipe;
use crate::cli::input::sets::{Set, tell_search, write_sets};
use crate::cli::measure::tolerance::Tolerance;
use crate::cli::progress;
use crate::cli::work::adapt_inputs::carried;
use crate::cli::work::both::Both;

/// Searches, adds what is found to the sets, and writes all sets where somebody wants them.
/// Fails when sets cannot be made or written.
pub(in crate::cli::verb::compare) fn search_further(
    request: &CompareRequest,
    sides: &mut Sides,
) -> TractResult<()> {
    let is_given = !request.input.inputs.is_empty() || request.input.sets.is_some();
    let budget = request.search.budget(is_given);
    let recipe = sides.reference_sets.first().and_then(Set::recipe).cloned();
    if let (Some(budget), Some(recipe)) = (budget, recipe)
        && let (Some(a), Some(b)) = (&sides.reference.model, &sides.converted.model)
    {
        progress::tell("searching");
        let seeds = (sides.reference_sets.len(), request.input.seed);
        let limits = &request.limits;
        let tolerance = |name: &str| limits.output(name);
        let converted = (b.probed.model()?, Some(b.probed.survey.audit()));
        let judged = (&tolerance as &dyn Fn(&str) -> Tolerance, limits.has_tolerance());
        let mut pair = Both::of(a.probed.model()?, converted, judged);
        let searched = search(&recipe, seeds, budget, &mut pair)?;
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
        let further = searched.look_further(recipe);
        for (choice, _) in searched.found {
            let set = Set::of_choice(recipe, choice)?;
            if let (Some(a), Some(b)) = (&self.reference.model, &self.converted.model) {
                let (from, to) = (&a.model.takes, &b.model.takes);
                self.converted_sets.push(carried(from, to, SIDES, &set, &mut self.notes)?);
            }
            self.reference_sets.push(set);
        }
        tell_search(&mut self.reference_sets, &further);
        tell_search(&mut self.converted_sets, &further);
        Ok(())
    }

    /// Writes the sets, so that `-i` gives them again.
    fn keep(&self, folder: &Path) -> TractResult<()> {
        let loaded = self.reference.model.as_ref().or(self.converted.model.as_ref());
        let loaded = loaded.context("--keep-inputs: nothing is run")?;
        write_sets(folder, &loaded.model.takes, &self.reference_sets)
    }
}
