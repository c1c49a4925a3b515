//! What is inside two models, looked at a set at a time, as their runs show it.

use std::rc::Rc;

use tract_onnx::prelude::*;
use tract_onnx_cast::Family;
use tract_onnx_cast::untrusted::without_panic;

use super::{Inner, InnerTensors};
use crate::cli::found::weights::ComparedWeight;
use crate::cli::measure::tolerance::Tolerance;
use crate::cli::message::{at, is_out_of_memory, one_line};
use crate::cli::tensor::NamedTensor;
use crate::cli::verb::compare::local::{
    LOOKING, Local, LocalComparison, Subject, Traces, of_saved,
};
use crate::cli::verb::compare::open::{CompareRequest, LoadedModel, Sides};
use crate::cli::verb::compare::runner::Runner;

/// How many bytes of tensors are held until it is known whether somebody wants to know how far they
/// are apart.
const HELD: usize = 256 << 20;

/// What has been found inside so far.
pub(in crate::cli::verb::compare) struct Inside<'a> {
    subject: &'a Subject<'a>,
    models: Option<(&'a LoadedModel, &'a LoadedModel)>,
    is_all_wanted: bool,
    is_judged: bool,
    tolerance: Tolerance,
    /// Whether an output has differed.
    has_differed: bool,
    pending: Vec<Rc<Traces>>,
    held: usize,
    inner: Option<InnerTensors<'a>>,
    /// `None` as long as no output has differed.
    look: Option<LocalComparison<'a>>,
    /// Why it could not be looked inside.
    problem: Option<String>,
}

impl<'a> Inside<'a> {
    pub(in crate::cli::verb::compare) fn of(
        request: &CompareRequest,
        subject: &'a Subject<'a>,
    ) -> Inside<'a> {
        let Sides { reference, converted, .. } = subject.sides;
        Inside {
            subject,
            models: reference.model.as_ref().zip(converted.model.as_ref()),
            is_all_wanted: request.all_tensors,
            is_judged: request.has_verdict,
            tolerance: request.limits.inner(),
            has_differed: false,
            pending: vec![],
            held: 0,
            inner: None,
            look: None,
            problem: None,
        }
    }

    /// Whether both sides are models.
    pub(in crate::cli::verb::compare) fn is_of_models(&self) -> bool {
        self.models.is_some()
    }

    /// Whether what the models have made of a set is to be looked at: all tensors are asked for, or
    /// outputs differ, and that is to be explained.
    pub(in crate::cli::verb::compare) fn is_wanted(
        &mut self,
        outputs: &[(&NamedTensor, &NamedTensor)],
        may_fail: bool,
    ) -> bool {
        let is_same = |(a, b): &(&NamedTensor, &NamedTensor)| {
            let is_form = a.ty == b.ty && a.tensor.shape() == b.tensor.shape();
            is_form
                && match a.ty.family() {
                    Family::Text => a.tensor == b.tensor,
                    // Zeros of either sign are not the same.
                    _ => a.tensor.as_bytes() == b.tensor.as_bytes(),
                }
        };
        self.has_differed |= !outputs.iter().all(is_same);
        let is_explained = self.has_differed && (self.is_judged || may_fail);
        self.problem.is_none() && (self.is_all_wanted || is_explained)
    }

    /// Looks at what the models have made of the set at a place. Fails as [`Inside::looked`].
    pub(in crate::cli::verb::compare) fn add(
        &mut self,
        place: usize,
        (a, b): (&mut Runner, &mut Runner),
        outputs: &[(&NamedTensor, &NamedTensor)],
    ) -> TractResult<()> {
        let Sides { reference_sets, converted_sets, .. } = self.subject.sides;
        let look = || {
            let sides = (a.trace(place, reference_sets)?, b.trace(place, converted_sets)?);
            let sides = (Rc::new(sides.0), Rc::new(sides.1));
            let named = |(a, b): &(&NamedTensor, &NamedTensor)| (a.name.clone(), b.name.clone());
            let traces = Traces { sides, outputs: outputs.iter().map(named).collect() };
            self.look_into(place, Rc::new(traces))
        };
        let found = without_panic(look);
        self.problem = self.looked(found)?.err();
        Ok(())
    }

    fn look_into(&mut self, place: usize, traces: Rc<Traces>) -> TractResult<()> {
        let Some(models) = self.models else { return Ok(()) };
        self.held += traces.sides.0.bytes() + traces.sides.1.bytes();
        self.pending.push(traces.clone());
        if self.held > HELD {
            self.measure()?;
        }
        if self.has_differed && self.is_judged {
            let look = match self.look.take() {
                Some(look) => look,
                None => LocalComparison::of(self.subject, models)?,
            };
            self.look.insert(look).add(place, traces)?;
        }
        Ok(())
    }

    /// Compares what is held.
    fn measure(&mut self) -> TractResult<()> {
        let Some(models) = self.models else { return Ok(()) };
        let (weights, tolerance) = (&self.subject.weights, self.tolerance);
        let inner = self.inner.get_or_insert_with(|| InnerTensors::of(models, weights, tolerance));
        self.held = 0;
        self.pending.drain(..).try_for_each(|traces| inner.add(&traces))
    }

    /// How far the tensors are apart. Fails when it could not be looked inside.
    pub(in crate::cli::verb::compare) fn inner(mut self) -> TractResult<Inner> {
        if let Some(problem) = self.problem.take() {
            anyhow::bail!(problem);
        }
        self.measure()?;
        Ok(self.inner.map(InnerTensors::finish).unwrap_or_default())
    }

    /// What was found, or why nothing was. Fails where a verdict is wanted and memory did not
    /// suffice: with more of it another one may follow.
    fn looked<T>(&self, found: TractResult<T>) -> TractResult<Result<T, String>> {
        match found {
            Err(error) if self.is_judged && is_out_of_memory(&error) => {
                let converted = self.subject.sides.converted.path.display();
                at(format!("{converted}: {LOOKING}"), Err(error))
            }
            found => Ok(found.map_err(|error| one_line(&error))),
        }
    }

    /// Where errors arise, or why nobody can tell; `changed` are the weights that have changed.
    /// Fails as [`Inside::looked`].
    pub(in crate::cli::verb::compare) fn local(
        &mut self,
        changed: &[ComparedWeight],
        is_same: bool,
    ) -> TractResult<Result<Local, String>> {
        if is_same {
            return Ok(Ok(Local::default()));
        }
        if self.models.is_none() {
            return self.looked(without_panic(|| of_saved(self.subject)));
        }
        Ok(match (self.look.take(), &self.problem) {
            (_, Some(problem)) => Err(problem.clone()),
            (look, None) => Ok(look.map(|look| look.finish(changed)).unwrap_or_default()),
        })
    }
}
