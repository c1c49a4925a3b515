//! Running the two sides of a comparison, a set at a time.

use std::sync::Arc;

use anyhow::Context;
use tract_onnx::prelude::*;
use tract_onnx_cast::Error;
use tract_onnx_cast::audit::AuditRow;
use tract_onnx_cast::interpreter::Interpreter;

use crate::cli::found::look::OperatorNumbers;
use crate::cli::found::verdict::{Culprit, FaultKind};
use crate::cli::input::sets::Set;
use crate::cli::measure::number::Num;
use crate::cli::message::add_once;
use crate::cli::message::{at, is_out_of_memory, one_line};
use crate::cli::tensor::NamedTensor;
use crate::cli::verb::compare::local::Trace;
use crate::cli::verb::compare::open::{LoadedModel, SAVED, Side, Sides, with_way_out};
use crate::cli::verb::compare::operators::{Observed, Operators};
use crate::cli::work::watched::Watched;
use crate::cli::work::weights::exercise::Exercise;

/// Makes the outputs of one side.
pub(super) struct Runner<'a> {
    side: &'a Side,
    /// The model with its casts counted: its results are the same, and so it need not run twice.
    watched: Option<Watched<'a>>,
    /// The inner tensors that the other side has saved.
    further: Vec<String>,
    /// What the last run has shown of every tensor, if it went node by node.
    trace: Option<Trace>,
    /// The model node by node, where a plan makes the outputs.
    interpreter: Option<Interpreter>,
    /// What operators are given, where that is wanted.
    operators: Option<Operators>,
}

impl<'a> Runner<'a> {
    /// Of one side, of which the other one has saved these inner tensors. Fails when there is not
    /// enough memory.
    pub(super) fn of(
        side: &'a Side,
        further: Vec<String>,
        notes: &mut Vec<String>,
    ) -> TractResult<Runner<'a>> {
        let watched = side.model.as_ref().map(|loaded| Watched::of(&loaded.probed, &further));
        let watched = watched.map(|watched| noted(watched, notes)).transpose()?.flatten();
        Ok(Runner { side, watched, further, trace: None, interpreter: None, operators: None })
    }

    /// The same, looking at the numbers that operators are given where inputs were chosen.
    pub(super) fn looking(self, sets: &[Set]) -> Runner<'a> {
        let is_chosen = |set: &Set| set.recipe().is_some();
        Runner { operators: sets.iter().any(is_chosen).then(Operators::default), ..self }
    }

    /// The numbers that operators were given.
    pub(super) fn seen(&mut self) -> Vec<OperatorNumbers> {
        self.operators.take().map(Operators::seen).unwrap_or_default()
    }

    /// The outputs of a set, and the inner tensors that the other side has saved. If the casts
    /// cannot be counted, a note says why, and the model runs without that.
    /// Fails when tract cannot run the model.
    pub(super) fn outputs(
        &mut self,
        place: usize,
        sets: &[Set],
        notes: &mut Vec<String>,
    ) -> TractResult<Vec<NamedTensor>> {
        let Some(loaded) = &self.side.model else {
            let saved = self.side.saved.get(place).context("as many sets on both sides")?;
            return saved.outputs();
        };
        let set = sets.get(place).context("as many sets on both sides")?;
        let path = self.side.path.display();
        let names = loaded.model.takes.inputs.iter().map(|input| &*input.name).collect();
        let mut trace = Trace::empty(names);
        if let Some(watched) = &mut self.watched {
            let mut observed = Observed::of(&mut trace, self.operators.as_mut());
            match at(&path, noted(watched.run(set, false, Some(&mut observed)), notes))? {
                Some(run) => {
                    self.trace = watched.interprets().then_some(trace);
                    if place + 1 == sets.len() {
                        watched.rest();
                    }
                    for note in &watched.notes {
                        add_once(notes, Some(format!("{path}: {note}")));
                    }
                    let mut outputs = run.outputs;
                    let is_wanted = |tensor: &NamedTensor| self.further.contains(&tensor.name);
                    outputs.extend(run.exposed.into_iter().filter(is_wanted));
                    return Ok(outputs);
                }
                None => self.watched = None,
            }
        }
        let ran = at(path, with_way_out(loaded.model.clone().run(set.tensors()?), SAVED))?;
        add_once(notes, ran.note.map(|note| format!("{}: {note}", self.side.path.display())));
        Ok(ran.outputs)
    }

    /// Every tensor of the run on the set at a place. Fails when the model does not run node by
    /// node.
    pub(super) fn trace(&mut self, place: usize, sets: &[Set]) -> TractResult<Trace> {
        if let Some(trace) = self.trace.take() {
            return Ok(trace);
        }
        let loaded = self.side.model.as_ref().context("a model")?;
        let tensors = sets.get(place).context("as many sets on both sides")?.tensors()?;
        let model = match self.interpreter.take() {
            Some(model) => model,
            None => loaded.interpreter()?,
        };
        Ok(Trace::of(self.interpreter.insert(model), loaded.inputs(&tensors)?)?)
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

/// The node of the conversion that refuses a set that the reference takes, as an index beyond an
/// axis that is shorter there, or a size: it runs on nothing but zeros in the place of these
/// values, or on another set.
pub(super) fn refused(sides: &Sides) -> Option<Culprit> {
    let (a, b) = (sides.reference.model.as_ref()?, sides.converted.model.as_ref()?);
    let run = |loaded: &LoadedModel, tensors| loaded.model.clone().run(tensors);
    let zero = |tensor: &Arc<Tensor>| {
        Some(Arc::new(Tensor::zero_dt(tensor.datum_type(), tensor.shape()).ok()?))
    };
    let sets = sides.reference_sets.iter().zip(&sides.converted_sets);
    let takes = |set: &Set| set.tensors().is_ok_and(|tensors| run(b, tensors).is_ok());
    let refusal = |(set_a, set_b): (&Set, &Set)| {
        let (of_a, of_b) = (set_a.tensors().ok()?, set_b.tensors().ok()?);
        let zeros: Vec<_> = of_b.iter().map(zero).collect::<Option<_>>()?;
        let error = run(b, of_b).err().filter(|error| !is_out_of_memory(error))?;
        let is_for_this = || run(b, zeros).is_ok() || sides.converted_sets.iter().any(takes);
        (run(a, of_a).is_ok() && is_for_this()).then_some(error)
    };
    let error = sets.filter_map(refusal).next()?;
    let told = error.chain().find_map(|link| link.downcast_ref::<Error>())?;
    Some(Culprit {
        node: told.node()?.to_owned(),
        op: told.operator().unwrap_or_default().to_owned(),
        tensor: String::new(),
        local_error: Num(f64::INFINITY),
        bound: Num(0.0),
        kind: FaultKind::Input,
        text: format!("it refuses what the reference takes: {}", one_line(&error)),
    })
}

/// What there is, or a note why not. Fails when there is not enough memory: less would be known
/// than with more of it.
fn noted<T>(result: TractResult<T>, notes: &mut Vec<String>) -> TractResult<Option<T>> {
    match result {
        Ok(there) => Ok(Some(there)),
        Err(error) if is_out_of_memory(&error) => Err(error),
        Err(error) => {
            let reason = one_line(&error);
            add_once(notes, Some(format!("the casts could not be audited: {reason}")));
            Ok(None)
        }
    }
}
