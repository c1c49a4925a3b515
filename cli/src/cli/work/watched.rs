//! A model that runs while its casts are counted, and while what its runs read of its constants is
//! noted.

use std::collections::HashSet;

use tract_onnx::prelude::*;
use tract_onnx_cast::audit::{Audit, AuditRow};
use tract_onnx_cast::interpreter::Observer;

use crate::cli::found::coverage::{Unexercised, UnexercisedKind};
use crate::cli::input::sets::Set;
use crate::cli::message;
use crate::cli::message::add_once;
use crate::cli::progress;
use crate::cli::tensor::{NamedTensor, Tensors};
use crate::cli::work::engine::ProgressObserver;
use crate::cli::work::model::{Model, Ready, RunResult};
use crate::cli::work::probed::{Probed, is_rounding};
use crate::cli::work::weights::constants::value_of;
use crate::cli::work::weights::exercise::Exercise;

/// A model that is watched over as many runs as there are.
pub(crate) struct Watched<'a> {
    probed: &'a Probed,
    /// What runs; the values that are looked at are further outputs of it.
    pub(crate) model: Model,
    ready: Option<Ready>,
    audit: Audit,
    pub(crate) exercise: Exercise,
    /// The names of the model's own outputs, of which the further ones come after.
    outputs: usize,
    exposed: Vec<String>,
    pub(crate) notes: Vec<String>,
}

impl<'a> Watched<'a> {
    /// Watches a model, and these values of it besides. Fails when the model cannot be loaded.
    pub(crate) fn of(probed: &'a Probed, values: &[String]) -> TractResult<Watched<'a>> {
        let mut exercise = Exercise::of(&probed.proto);
        let graph = probed.proto.graph.as_ref();
        let names = |list: fn(&tract_onnx::pb::GraphProto) -> Vec<String>| {
            graph.map(list).unwrap_or_default().into_iter().collect::<HashSet<String>>()
        };
        let outputs = graph.map_or(0, |graph| graph.output.len());
        let outputs_by_name = names(|graph| graph.output.iter().map(|o| o.name.clone()).collect());
        let inputs = names(|graph| graph.input.iter().map(|i| i.name.clone()).collect());
        let made = names(|graph| graph.node.iter().flat_map(|n| n.output.clone()).collect());
        let mut exposed: Vec<String> = vec![];
        for name in exercise.watched().into_iter().chain(values.iter().cloned()) {
            if made.contains(&name) && !outputs_by_name.contains(&name) && !exposed.contains(&name)
            {
                exposed.push(name);
            } else if !inputs.contains(&name)
                && let Some(value) = value_of(&probed.holder(), &name)
            {
                exercise.see(&value);
            }
        }
        let exposing = (!exposed.is_empty()).then(|| probed.exposing(&exposed));
        let model = match exposing {
            Some(Ok(model)) => model,
            _ => {
                exposed.clear();
                probed.model()?
            }
        };
        let audit = probed.survey.audit();
        Ok(Watched { probed, model, ready: None, audit, exercise, outputs, exposed, notes: vec![] })
    }

    /// Runs the model on a set, shown to an observer if it runs node by node. The results are its
    /// own outputs, and the further values that were asked for. Fails when tract cannot run the
    /// model.
    pub(crate) fn run(
        &mut self,
        set: &Set,
        is_told: bool,
        observer: Option<&mut dyn Observer>,
    ) -> TractResult<RunOutputs> {
        let what = format!("running on {}", set.name);
        progress::tell(&what);
        let tensors = set.tensors()?;
        let nodes = self.probed.proto.graph.as_ref().map_or(0, |graph| graph.node.len());
        let mut told = observer.map(|observer| ProgressObserver::of(observer, &what, nodes));
        let ran = self.attempt(&tensors, told.as_mut().map(|told| told as &mut dyn Observer));
        let ran = match ran {
            // The further outputs may be what a plan fails at.
            Err(_) if !self.exposed.is_empty() && !self.interprets() => {
                self.exposed.clear();
                (self.model, self.ready) = (self.probed.model()?, None);
                self.audit = self.probed.survey.audit();
                self.attempt(&tensors, None)
            }
            ran => ran,
        };
        let ran = if is_told { message::at(&set.name, ran) } else { ran };
        let ran = self.probed.explained(ran)?;
        add_once(&mut self.notes, ran.note);
        self.audit.end_set();
        let mut outputs = ran.outputs;
        let further = outputs.split_off(self.outputs.min(outputs.len()));
        let named =
            |(name, value): (&String, NamedTensor)| NamedTensor { name: name.clone(), ..value };
        let exposed: Vec<NamedTensor> = self.exposed.iter().zip(further).map(named).collect();
        let watched = self.exercise.watched();
        for (input, tensor) in self.model.takes.inputs.iter().zip(&tensors) {
            if watched.contains(&input.name) {
                let (name, ty, tensor) = (input.name.clone(), input.ty, Tensor::clone(tensor));
                self.exercise.see(&NamedTensor { name, ty, tensor });
            }
        }
        for output in outputs.iter().chain(&exposed) {
            self.exercise.see(output);
        }
        Ok(RunOutputs { outputs, exposed })
    }

    /// How often casts have run whose inputs are no constants.
    fn counted(&self) -> u64 {
        let rows = self.audit.rows();
        rows.iter().filter(|row| !row.is_constant).map(|row| row.runs).sum()
    }

    /// Lets go of what makes the next run faster. There may be none.
    pub(crate) fn rest(&mut self) {
        self.ready = None;
    }

    /// Whether the model runs node by node.
    pub(crate) fn interprets(&self) -> bool {
        self.probed.loader.interprets()
    }

    fn attempt(
        &mut self,
        tensors: &Tensors,
        observer: Option<&mut dyn Observer>,
    ) -> TractResult<RunResult> {
        if let Some(ready) = self.ready.as_ref().filter(|ready| ready.takes(tensors)) {
            return ready.run(tensors.clone(), observer);
        }
        let before = self.counted();
        let ready = self.model.clone().ready(tensors, Some(&self.audit))?;
        // Casts of what tract makes of shapes run while the model is made ready, and are to be
        // counted on every set.
        let is_reusable = self.counted() == before;
        let ran = ready.run(tensors.clone(), observer)?;
        self.ready = Some(ready).filter(|_| is_reusable);
        Ok(ran)
    }

    /// What the casts did.
    pub(crate) fn rows(&self) -> Vec<AuditRow> {
        self.audit.rows()
    }
}

/// What came of a run.
pub(crate) struct RunOutputs {
    pub(crate) outputs: Vec<NamedTensor>,
    /// The further values.
    pub(crate) exposed: Vec<NamedTensor>,
}

/// What no run of a model has reached: parts of its constants, and casts that no value has passed.
pub(crate) fn unexercised(exercise: Option<&Exercise>, rows: &[AuditRow]) -> Vec<Unexercised> {
    let idle = rows.iter().filter(|row| !is_rounding(&row.cast) && row.stats.elements() == 0);
    let casts = idle.map(|row| Unexercised {
        kind: UnexercisedKind::Cast,
        name: row.cast.node.clone(),
        seen: 0,
        total: None,
        text: format!("no value has passed the cast `{}`", row.cast.node),
    });
    exercise.into_iter().flat_map(Exercise::unexercised).chain(casts).collect()
}
