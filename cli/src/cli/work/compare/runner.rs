//! Running the two sides of a comparison, a set at a time.

use anyhow::Context;
use tract_onnx::prelude::*;
use tract_onnx_cast::audit::AuditRow;

use super::sides::Side;
use crate::cli::input::sets::Set;
use crate::cli::message::{at, one_line};
use crate::cli::tensor::NamedTensor;
use crate::cli::work::notes::add_once;
use crate::cli::work::watched::Watched;
use crate::cli::work::weights::exercise::Exercise;

/// Makes the outputs of one side.
pub(super) struct Runner<'a> {
    side: &'a Side,
    /// The model with its casts counted: its results are the same, and so it need not run twice.
    watched: Option<Watched<'a>>,
}

impl<'a> Runner<'a> {
    pub(super) fn of(side: &'a Side, notes: &mut Vec<String>) -> Runner<'a> {
        let watched = side.model.as_ref().map(|loaded| Watched::of(&loaded.probed, &[]));
        Runner { side, watched: watched.and_then(|watched| noted(watched, notes)) }
    }

    /// The outputs of a set. If the casts cannot be counted, a note says why, and the model runs without that.
    ///
    /// # Errors
    ///
    /// When tract cannot run the model.
    pub(super) fn outputs(
        &mut self,
        place: usize,
        sets: &[Set],
        notes: &mut Vec<String>,
    ) -> TractResult<Vec<NamedTensor>> {
        let Some(loaded) = &self.side.model else {
            let saved = self.side.saved.get(place).context("as many sets on both sides")?;
            let copy = |output: &NamedTensor| NamedTensor {
                name: output.name.clone(),
                ty: output.ty,
                tensor: output.tensor.clone(),
            };
            return Ok(saved.outputs.iter().map(copy).collect());
        };
        let set = sets.get(place).context("as many sets on both sides")?;
        let path = self.side.path.display();
        if let Some(watched) = &mut self.watched {
            match noted(watched.run(set, false), notes) {
                Some(run) => {
                    for note in &watched.notes {
                        add_once(notes, Some(format!("{path}: {note}")));
                    }
                    return Ok(run.outputs);
                }
                None => self.watched = None,
            }
        }
        let ran = at(path, loaded.model.clone().run(set.tensors.clone()))?;
        add_once(notes, ran.note.map(|note| format!("{}: {note}", self.side.path.display())));
        Ok(ran.outputs)
    }

    /// What the casts did.
    pub(super) fn rows(&self) -> Vec<AuditRow> {
        self.watched.as_ref().map(Watched::rows).unwrap_or_default()
    }

    /// What the runs have read of the model's constants.
    pub(super) fn exercise(&self) -> Option<&Exercise> {
        self.watched.as_ref().map(|watched| &watched.exercise)
    }
}

/// What there is, or a note why not.
fn noted<T>(result: TractResult<T>, notes: &mut Vec<String>) -> Option<T> {
    result
        .map_err(|error| {
            let reason = one_line(&error);
            add_once(notes, Some(format!("the casts could not be audited: {reason}")));
        })
        .ok()
}
