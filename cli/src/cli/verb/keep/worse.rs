//! Before the search for nodes: one for inputs on which the conversion that keeps none is worst.

use std::collections::BTreeSet;
use std::path::Path;

use tract_onnx::pb::ModelProto;
use tract_onnx::prelude::TractResult;

use super::reference::{CountedRuns, Reference};
use super::simulated::Original;
use super::trial::Trial;
use crate::cli::input::args::Budget;
use crate::cli::input::chosen::search::search;
use crate::cli::input::chosen::values::is_finite;
use crate::cli::input::sets::{Set, tell_search};
use crate::cli::measure::tolerance::Tolerance;
use crate::cli::progress;
use crate::cli::work::both::Both;

/// Adds the sets that a search finds, of which all tell from now on; none where inputs are given.
/// `runs` have the first of them. Fails when the model, or its conversion, cannot be loaded or run.
pub(super) fn searched(
    proto: &ModelProto,
    runs: &mut CountedRuns,
    sets: &mut Vec<Set>,
    (budget, seed): (Budget, u64),
) -> TractResult<()> {
    let Some(recipe) = sets.first().and_then(Set::recipe).cloned() else { return Ok(()) };
    progress::tell("searching");
    let types = Reference::of(proto, runs)?.types;
    let original = Original::new(proto.clone(), runs.folder, runs.to, types)?;
    let (converted, folder) = original.converted(&BTreeSet::new())?;
    let load = |proto: ModelProto, folder: Option<&Path>| {
        runs.loader.load(&runs.onnx, proto, folder.or(runs.folder))
    };
    let converted = (load(converted, folder.as_deref())?, None);
    let model = load(proto.clone(), None)?;
    let any = |_: &str| Tolerance::default();
    let mut both = Both::of(model.clone(), converted, (&any as &dyn Fn(&str) -> Tolerance, false));
    let seeds = (sets.len(), seed);
    let Some(found) = search(&recipe, seeds, budget, &mut both)? else { return Ok(()) };
    let further = found.look_further(&recipe);
    for (choice, _) in found.found {
        let set = Set::of_choice(&recipe, choice)?;
        // What is spoiled in FLOAT says nothing of a conversion.
        let outputs = model.clone().run(set.tensors()?)?.outputs;
        sets.extend(outputs.iter().all(is_finite).then_some(set));
    }
    tell_search(sets, &further);
    Ok(())
}
