//! The two sides of a comparison, and what they run on.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use anyhow::{bail, ensure};
use tract_onnx::prelude::*;
use tract_onnx_cast::{Conversion, Family, Rules};

use crate::cli::args::input::InputArgs;
use crate::cli::input::cases::Case;
use crate::cli::input::declared::Declared;
use crate::cli::input::saved::{self, Content, Saved};
use crate::cli::input::sets::{self, Set};
use crate::cli::input::sizes::check_shapes;
use crate::cli::judge::audited::AuditedCast;
use crate::cli::judge::inputs::Inputs;
use crate::cli::message::{at, one_line};
use crate::cli::tensor::NamedTensor;
use crate::cli::work::model::Model;
use crate::cli::work::notes::add_once;
use crate::cli::work::probed::{Probed, casts_of, roundings_of};
use crate::cli::work::provenance::inputs_of;

/// Outputs, a list for each set.
pub(super) type BySet = Vec<Vec<NamedTensor>>;

/// One of the two sides.
pub(super) struct Side {
    pub(super) path: PathBuf,
    pub(super) model: Option<Loaded>,
    cases: Vec<Case>,
    saved: Vec<Saved>,
}

pub(super) struct Loaded {
    pub(super) probed: Probed,
    pub(super) path: PathBuf,
    pub(super) model: Model,
}

impl Side {
    fn open(path: &Path) -> TractResult<Side> {
        let mut side = Side { path: path.into(), model: None, cases: vec![], saved: vec![] };
        match saved::read(path)? {
            Content::Saved(saved) => side.saved = saved,
            Content::Model(file, cases) => {
                let load = || {
                    let model = Model::open(&file)?;
                    Ok(Loaded { probed: Probed::open(&file)?, path: file.clone(), model })
                };
                side.model = Some(at(path.display(), load())?);
                side.cases = cases;
            }
        }
        Ok(side)
    }

    /// The outputs of every set.
    fn outputs(&mut self, sets: &[Set], notes: &mut Vec<String>) -> TractResult<BySet> {
        let Some(loaded) = &self.model else {
            return Ok(self.saved.drain(..).map(|saved| saved.outputs).collect());
        };
        let run = |set: &Set| {
            let ran = at(self.path.display(), loaded.model.clone().run(set.tensors.clone()))?;
            add_once(notes, ran.note.map(|note| format!("{}: {note}", self.path.display())));
            Ok(ran.outputs)
        };
        sets.iter().map(run).collect()
    }
}

impl Loaded {
    /// What the casts do. If that cannot be found out, a note says why, and the comparison goes on.
    pub(super) fn audit(&self, sets: &[Set], notes: &mut Vec<String>) -> Vec<AuditedCast> {
        if self.probed.casts.is_empty() {
            return vec![];
        }
        let rows = self.probed.model().and_then(|model| self.probed.rows(model, sets));
        match rows {
            // A note on how the model was run is there from its outputs.
            Ok((rows, _)) => [casts_of(&rows), roundings_of(&rows)].concat(),
            Err(error) => {
                notes.push(format!("the casts could not be audited: {}", one_line(&error)));
                vec![]
            }
        }
    }
}

/// Both sides of a comparison, and the sets of inputs that they run on.
pub(super) struct Sides {
    pub(super) reference: Side,
    pub(super) converted: Side,
    pub(super) reference_sets: Vec<Set>,
    pub(super) converted_sets: Vec<Set>,
    pub(super) notes: Vec<String>,
}

impl Sides {
    pub(super) fn open(
        reference: &Path,
        converted: &Path,
        input: &InputArgs,
    ) -> TractResult<Sides> {
        let (reference, converted) = (Side::open(reference)?, Side::open(converted)?);
        let mut sides = Sides {
            reference,
            converted,
            reference_sets: vec![],
            converted_sets: vec![],
            notes: vec![],
        };
        sides.gather(input)?;
        Ok(sides)
    }

    /// Finds the inputs: those that are given, else those that lie beside the reference or beside saved outputs, else
    /// random ones.
    fn gather(&mut self, args: &InputArgs) -> TractResult<()> {
        let (a, b) = (&self.reference, &self.converted);
        let Some(first) = a.model.as_ref().or(b.model.as_ref()) else {
            let because = "both sides are saved outputs";
            ensure!(args.inputs.is_empty(), "-i: nothing is run, {because}");
            return args.check_nothing_is_random(because);
        };
        let saved =
            |side: &Side| side.saved.iter().filter_map(|saved| saved.case.clone()).collect();
        let known: [Vec<Case>; 4] = [a.cases.clone(), saved(a), saved(b), b.cases.clone()];
        let known = known.into_iter().find(|cases| !cases.is_empty() && args.inputs.is_empty());
        let sets: Vec<Set> = match known {
            Some(cases) => {
                args.check_nothing_is_random("those beside the model or the outputs are recorded")?;
                at(first.path.display(), sets::of_cases(&first.model.takes, &cases))?
            }
            None => {
                let is_random = args.inputs.is_empty() && !first.model.takes.inputs.is_empty();
                if is_random && (a.model.is_none() || b.model.is_none()) {
                    self.notes.push(format!(
                        "the inputs are random, of seed {}: the saved outputs must be those of the same ones",
                        args.seed
                    ));
                }
                // Saved outputs are those of one set, unless somebody says otherwise.
                let is_saved = a.model.is_none() || b.model.is_none();
                let args = &InputArgs { sets: args.sets.or(is_saved.then_some(1)), ..args.clone() };
                at(first.path.display(), sets::gather(&first.model.takes, &first.path, args))?
            }
        };
        for note in sets.iter().flat_map(|set| &set.notes) {
            add_once(&mut self.notes, Some(note.clone()));
        }
        for side in [a, b] {
            let (saved, sets) = (side.saved.len(), sets.len());
            ensure!(
                side.model.is_some() || saved == sets,
                "{}: holds {saved} set(s) of outputs, but there are {sets} of inputs",
                side.path.display()
            );
        }
        let other = self.converted.model.as_ref().filter(|_| self.reference.model.is_some());
        self.converted_sets = match other {
            Some(second) => {
                let carry = |set: &Set| {
                    carried(&first.model.takes, &second.model.takes, set, &mut self.notes)
                };
                at("the inputs differ", sets.iter().map(carry).collect::<TractResult<_>>())?
            }
            None => copies(&sets),
        };
        self.reference_sets = sets;
        Ok(())
    }

    /// Where the inputs came from.
    pub(super) fn inputs(&self) -> Inputs {
        let model = self.reference.model.as_ref().or(self.converted.model.as_ref());
        model.map_or_else(Inputs::saved, |loaded| {
            inputs_of(&loaded.model.takes, &self.reference_sets)
        })
    }

    /// The outputs of both sides, of as many sets.
    pub(super) fn outputs(&mut self) -> TractResult<(BySet, BySet)> {
        let reference = self.reference.outputs(&self.reference_sets, &mut self.notes)?;
        let converted = self.converted.outputs(&self.converted_sets, &mut self.notes)?;
        let (a, b) = (reference.len(), converted.len());
        ensure!(a == b, "the reference has {a} set(s) of outputs, the converted side {b}");
        Ok((reference, converted))
    }
}

fn copies(sets: &[Set]) -> Vec<Set> {
    let copy = |set: &Set| Set {
        name: set.name.clone(),
        tensors: set.tensors.clone(),
        notes: vec![],
        origin: set.origin.clone(),
    };
    sets.iter().map(copy).collect()
}

/// A set of the reference's inputs as the converted model takes it: inputs are matched by name, and values cast where the
/// element type has changed.
fn carried(from: &Declared, to: &Declared, set: &Set, notes: &mut Vec<String>) -> TractResult<Set> {
    let names = |model: &Declared| {
        model.inputs.iter().map(|input| format!("`{}`", input.name)).collect::<Vec<_>>().join(", ")
    };
    let by_name: HashMap<&str, _> = from
        .inputs
        .iter()
        .zip(&set.tensors)
        .map(|(input, tensor)| (input.name.as_str(), (input, tensor)))
        .collect();
    let mut tensors = vec![];
    for input in &to.inputs {
        let Some((source, tensor)) = by_name.get(input.name.as_str()) else {
            bail!("the reference takes {}, the converted model {}", names(from), names(to));
        };
        let is_text = |family: Family| family == Family::Text;
        tensors.push(if source.ty == input.ty {
            (*tensor).clone()
        } else if is_text(source.ty.family()) || is_text(input.ty.family()) {
            bail!("`{}` is {} in the reference and {} converted", input.name, source.ty, input.ty);
        } else {
            let note = format!(
                "input `{}` is {} in the reference and {} converted: its values are cast",
                input.name, source.ty, input.ty
            );
            if !notes.contains(&note) {
                notes.push(note);
            }
            Conversion::new(source.ty, input.ty, Rules::default()).run(tensor)?
        });
    }
    let (a, b) = (from.inputs.len(), to.inputs.len());
    ensure!(a == b, "the reference takes {}, the converted model {}", names(from), names(to));
    check_shapes(to, &tensors)?;
    Ok(Set { name: set.name.clone(), tensors, notes: vec![], origin: set.origin.clone() })
}
