//! By what a model runs: a plan that tract makes of all of it, or node by node.

use std::io;
use std::path::Path;
use std::sync::Arc;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use tract_onnx::pb::ModelProto;
use tract_onnx::prelude::*;
use tract_onnx_cast::audit::Audit;
use tract_onnx_cast::interpreter::{Interpreter, NodeRun, ObservedTensor, Observer};
use tract_onnx_cast::{CastOnnx, Error, ErrorKind, OnnxTensor, Result};

use crate::cli::message::{InOneLine, kind_of, one_line, shortened_line};
use crate::cli::progress::{Progress, Unit};
use crate::cli::tensor::NamedTensor;
use crate::cli::work::deadline::NotWorthIt;

/// What runs a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub(crate) enum Engine {
    /// A plan that tract optimises as a whole: what runs in production.
    Plan,
    /// Each node on its own, in topological order.
    Nodes,
}

/// A model that runs node by node.
#[derive(Clone)]
pub(crate) struct Interpreted {
    interpreter: Arc<Interpreter>,
    /// How many nodes its main graph has.
    nodes: usize,
}

/// Sees how far a run is, and nothing else.
pub(crate) struct Bystander;

impl Observer for Bystander {
    fn node(&mut self, _: &NodeRun, _: &mut [Option<ObservedTensor>]) -> Result<()> {
        Ok(())
    }
}

/// An observer, and how many nodes it has seen, which is told.
pub(crate) struct ProgressObserver<'a> {
    observer: &'a mut dyn Observer,
    progress: Progress,
}

impl<'a> ProgressObserver<'a> {
    /// Of a run of so many nodes.
    pub(crate) fn of(
        observer: &'a mut dyn Observer,
        what: &str,
        nodes: usize,
    ) -> ProgressObserver<'a> {
        ProgressObserver { observer, progress: Progress::of(what, nodes as u64, Unit::Nodes) }
    }
}

impl Observer for ProgressObserver<'_> {
    fn next(&mut self) -> Option<&mut (dyn Observer + '_)> {
        Some(self.observer)
    }

    fn node(&mut self, node: &NodeRun, outputs: &mut [Option<ObservedTensor>]) -> Result<()> {
        self.progress.add(1);
        self.observer.node(node, outputs)
    }
}

impl Interpreted {
    /// A model whose external data is in the folder.
    pub(crate) fn of(
        onnx: CastOnnx,
        proto: ModelProto,
        folder: Option<&Path>,
    ) -> TractResult<Interpreted> {
        let nodes = proto.graph.as_ref().map_or(0, |graph| graph.node.len());
        let interpreter = Arc::new(Interpreter::of_proto(onnx, proto, folder)?);
        Ok(Interpreted { interpreter, nodes })
    }

    /// What runs it, with nodes built by a plug-in that is set up otherwise; the graph is shared.
    pub(crate) fn interpreter_by(&self, onnx: CastOnnx) -> Interpreter {
        self.interpreter.built_by(onnx)
    }

    /// The same model, as [`Interpreted::interpreter_by`] runs it.
    pub(crate) fn built_by(&self, onnx: CastOnnx) -> Interpreted {
        Interpreted { interpreter: Arc::new(self.interpreter_by(onnx)), nodes: self.nodes }
    }

    /// How many nodes its main graph has.
    pub(crate) fn nodes(&self) -> usize {
        self.nodes
    }

    /// What its outputs are called, in their order.
    pub(crate) fn output_names(&self) -> Vec<String> {
        self.interpreter.output_names().into_iter().map(String::from).collect()
    }

    /// A model of its inputs alone.
    pub(crate) fn heading(&self) -> TractResult<InferenceModel> {
        Ok(self.interpreter.heading()?)
    }

    /// Has its casts counted when it runs.
    pub(crate) fn watch(&self, audit: &Audit) {
        self.interpreter.watch(audit);
    }

    /// Runs it on tensors of the inputs' types, in their order, shown to an observer if there is
    /// one.
    pub(crate) fn run(
        &self,
        inputs: Vec<OnnxTensor>,
        observer: Option<&mut dyn Observer>,
    ) -> TractResult<Vec<NamedTensor>> {
        let names = self.interpreter.output_names();
        let outputs = match observer {
            Some(observer) => self.interpreter.run_observed(inputs, observer)?,
            None => self.interpreter.run(inputs)?,
        };
        let named = names.into_iter().zip(outputs);
        Ok(named.map(|(name, output)| NamedTensor::of(name, output)).collect())
    }
}

/// That a model is not run by a plan, though nobody has asked for another engine.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct NoPlan {
    /// What to say of it.
    pub(crate) note: String,
    /// Whether there may be a plan, which is not worth it.
    pub(crate) is_possible: bool,
}

impl NoPlan {
    /// As there can be none, for this reason.
    pub(crate) fn because(reason: &str) -> NoPlan {
        let reason = shortened_line(reason);
        let note =
            format!("tract can make no plan of this model, it was run node by node: {reason}");
        NoPlan { note, is_possible: false }
    }
}

/// Why there is no plan of a model, if it is tract that cannot make one, so that the model may run
/// node by node. What this project refuses is refused without a plan as well, and a branch that
/// does not run would hide it; so is a model of more nodes than the user allows, whose limit is
/// then not ours.
pub(crate) fn no_plan(error: &TractError, engine: Engine, is_limit_ours: bool) -> Option<NoPlan> {
    if let Some(whole) = error.downcast_ref::<InOneLine>() {
        return no_plan(&whole.error, engine, is_limit_ours);
    }
    if let Some(not_worth_it) = error.chain().find_map(|link| link.downcast_ref::<NotWorthIt>()) {
        let note = format!("it was run node by node: {not_worth_it}");
        return Some(NoPlan { note, is_possible: true });
    }
    let is_of_plan = match error.chain().find_map(|link| link.downcast_ref::<Error>()) {
        Some(own) => {
            // Node by node these are wrong themselves.
            let is_alone =
                engine == Engine::Plan && own.operator().is_some_and(Interpreter::runs_alone);
            let is_many = is_limit_ours && own.limit() == Some("loaded_nodes");
            // What there is no room for as a whole there may be node by node.
            let is_large = engine == Engine::Plan && own.kind() == ErrorKind::Memory;
            own.kind() == ErrorKind::Tract || is_alone || is_many || is_large
        }
        // What tract says of a node while it types a model is no error of this project's; what the
        // call or a file is wrong about does not depend on an engine.
        None => kind_of(error).is_none() && !error.chain().any(|link| link.is::<io::Error>()),
    };
    is_of_plan.then(|| NoPlan::because(&one_line(error)))
}
