//! Inputs of one model as another takes them.

use std::collections::HashMap;

use anyhow::{bail, ensure};
use tract_onnx::prelude::*;
use tract_onnx_cast::{Conversion, Family, Rules};

use super::notes::add_once;
use crate::cli::input::declared::Declared;
use crate::cli::input::sets::Set;
use crate::cli::input::sizes::check_shapes;

/// A set of one model's inputs as another takes it: inputs are matched by name, and values cast where the
/// element type has changed. `called` is what the two are called in messages.
///
/// # Errors
///
/// When the other takes something else.
pub(crate) fn carried(
    from: &Declared,
    to: &Declared,
    called: [&str; 2],
    set: &Set,
    notes: &mut Vec<String>,
) -> TractResult<Set> {
    let [this, other] = called;
    let differ = || anyhow::anyhow!("{this} takes {}, {other} {}", names(from), names(to));
    let by_name: HashMap<&str, _> = from
        .inputs
        .iter()
        .zip(&set.tensors)
        .map(|(input, tensor)| (input.name.as_str(), (input, tensor)))
        .collect();
    let (a, b) = (from.inputs.len(), to.inputs.len());
    ensure!(a == b, differ());
    let mut tensors = vec![];
    for input in &to.inputs {
        let (source, tensor) = by_name.get(input.name.as_str()).copied().ok_or_else(differ)?;
        let is_text = |family: Family| family == Family::Text;
        tensors.push(if source.ty == input.ty {
            tensor.clone()
        } else if is_text(source.ty.family()) || is_text(input.ty.family()) {
            bail!("`{}` is {} in {this} and {} in {other}", input.name, source.ty, input.ty);
        } else {
            let note = format!(
                "input `{}` is {} in {this} and {} in {other}: its values are cast",
                input.name, source.ty, input.ty
            );
            add_once(notes, Some(note));
            Conversion::new(source.ty, input.ty, Rules::default()).run(tensor)?
        });
    }
    check_shapes(to, &tensors)?;
    Ok(Set { name: set.name.clone(), tensors, notes: vec![], origin: set.origin.clone() })
}

fn names(model: &Declared) -> String {
    model.inputs.iter().map(|input| format!("`{}`", input.name)).collect::<Vec<_>>().join(", ")
}
