//! Inputs of one model as another takes them.

use std::collections::HashMap;
use std::sync::Arc;

use anyhow::{Context, bail, ensure};
use tract_onnx::prelude::*;
use tract_onnx_cast::{Conversion, Family, Rules};

use crate::cli::input::declared::Declared;
use crate::cli::input::sets::Set;
use crate::cli::input::sizes::check_shapes;
use crate::cli::message::add_once;
use crate::cli::tensor::Tensors;

/// A set of one model's inputs as another takes it: inputs are matched by name, and values cast
/// where the element type has changed. `called` is what the two are called in messages.
/// Fails when the other takes something else.
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
        .enumerate()
        .map(|(place, input)| (input.name.as_str(), (place, input)))
        .collect();
    let (a, b) = (from.inputs.len(), to.inputs.len());
    ensure!(a == b, differ());
    let (mut ways, mut shapes) = (vec![], vec![]);
    for input in &to.inputs {
        let (place, source) = by_name.get(input.name.as_str()).copied().ok_or_else(differ)?;
        let is_text = |family: Family| family == Family::Text;
        let conversion = if source.ty == input.ty {
            None
        } else if is_text(source.ty.family()) || is_text(input.ty.family()) {
            bail!("`{}` is {} in {this} and {} in {other}", input.name, source.ty, input.ty);
        } else {
            let note = format!(
                "input `{}` is {} in {this} and {} in {other}: its values are cast",
                input.name, source.ty, input.ty
            );
            add_once(notes, Some(note));
            Some(Conversion::new(source.ty, input.ty, Rules::default()))
        };
        ways.push((place, conversion));
        shapes.extend(set.shapes.get(place).cloned());
    }
    check_shapes(to, &shapes)?;
    let (name, provenance, set) = (set.name.clone(), set.provenance.clone(), set.clone());
    let make = move || {
        let tensors = set.tensors()?;
        let carry = |(place, conversion): &(usize, Option<Conversion>)| {
            let tensor = tensors.get(*place).context("a tensor for each input")?;
            match conversion {
                Some(conversion) => Ok(Arc::new(conversion.run(tensor)?)),
                None => Ok(tensor.clone()),
            }
        };
        ways.iter().map(carry).collect()
    };
    Ok(Set::new(name, provenance, shapes, make))
}

/// As [`carried`], for a model that may have names of its own: where these differ, and the element
/// types do not, it takes the tensors as they are. Fails as [`carried`], or when the set cannot be
/// read.
pub(crate) fn taken_alike(
    from: &Declared,
    to: &Declared,
    called: [&str; 2],
    set: &Set,
) -> TractResult<Tensors> {
    let types = |takes: &Declared| takes.inputs.iter().map(|input| input.ty).collect::<Vec<_>>();
    match carried(from, to, called, set, &mut vec![]) {
        Err(_) if types(from) == types(to) => set.tensors(),
        carried => carried?.tensors(),
    }
}

fn names(model: &Declared) -> String {
    model.inputs.iter().map(|input| format!("`{}`", input.name)).collect::<Vec<_>>().join(", ")
}
