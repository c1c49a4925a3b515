//! Leaves chosen inputs out of the verdict that a quantised conversion was not calibrated for.

use std::collections::{BTreeSet, HashSet};

use tract_onnx::prelude::*;

use super::Sides;
use super::calibrated::{BELOW, Calibrated};
use crate::cli::message::{add_once, counted, listed, quoted};

/// Leaves those sets out that nobody gave and that lie beyond ranges in which others lie.
/// Fails when a set cannot be made.
pub(in crate::cli::verb::compare) fn leave_out(sides: &mut Sides) -> TractResult<()> {
    let is_made_up = sides.reference_sets.len() > 1
        && sides.reference_sets.iter().all(|set| set.recipe().is_some());
    let (Some(a), Some(b)) = (&sides.reference.model, &sides.converted.model) else {
        return Ok(());
    };
    let Some(calibrated) = Calibrated::of(a, b).filter(|_| is_made_up) else { return Ok(()) };
    let mut all: Vec<HashSet<String>> = vec![];
    for set in &sides.converted_sets {
        let Ok((_, off)) = calibrated.cut_off(&set.tensors()?) else { return Ok(()) };
        all.push(off);
    }
    let Some(least) = all.iter().min_by_key(|off| off.len()).cloned() else { return Ok(()) };
    let holds = |name: &String| {
        let is_off =
            |off: &HashSet<String>| off.contains(name) || off.contains(&format!("{name}{BELOW}"));
        all.iter().any(|off| !is_off(off))
    };
    let named = all.iter().flatten().map(|name| name.trim_end_matches(BELOW).to_owned());
    sides.holding = named.filter(holds).collect();
    let is_beyond: Vec<bool> = all.iter().map(|off| !off.is_subset(&least)).collect();
    let beyond: BTreeSet<&String> = all.iter().flat_map(|off| off.difference(&least)).collect();
    let keep = |place: &mut usize| {
        *place += 1;
        !is_beyond.get(*place - 1).copied().unwrap_or_default()
    };
    let count = is_beyond.iter().filter(|is_beyond| **is_beyond).count();
    let (mut x, mut y) = (0, 0);
    sides.reference_sets.retain(|_| keep(&mut x));
    sides.converted_sets.retain(|_| keep(&mut y));
    let note = (count > 0).then(|| {
        let named = beyond.iter().map(|name| quoted(name.trim_end_matches(BELOW)));
        let named = listed(named, 3);
        format!(
            "left out of the verdict: {} of chosen inputs, beyond what the ranges of {named} were calibrated for",
            counted(count, "set")
        )
    });
    add_once(&mut sides.notes, note);
    Ok(())
}
