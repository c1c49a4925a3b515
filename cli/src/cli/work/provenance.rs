//! Where the inputs of sets came from, as reports tell it.

use crate::cli::input::declared::Declared;
use crate::cli::input::sets::{Origin, Set};
use crate::cli::judge::inputs::Inputs;

/// Of the sets that a model ran on.
pub(super) fn inputs_of(model: &Declared, sets: &[Set]) -> Inputs {
    let random = |set: &Set| match &set.origin {
        Origin::Given => None,
        Origin::Random { inputs, seed } => Some((inputs.clone(), *seed)),
    };
    Inputs::of(model.inputs.len(), sets.iter().map(random))
}
