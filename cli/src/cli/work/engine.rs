//! By what a model runs: a plan that tract makes of all of it, or node by node.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};
use tract_onnx::pb::{GraphProto, ModelProto};
use tract_onnx::prelude::*;
use tract_onnx_cast::interpreter::Interpreter;
use tract_onnx_cast::{CastOnnx, Error, ErrorKind, OnnxTensor};

use crate::cli::message::{one_line, shortened_line};
use crate::cli::tensor::NamedTensor;

/// What runs a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub(crate) enum Engine {
    /// A plan that tract optimises as a whole: what runs in production.
    Plan,
    /// Each node on its own, in topological order.
    Nodes,
}

/// The choice of an engine.
#[derive(Args, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct EngineArgs {
    /// What runs the model [default: plan, and nodes where tract can make no plan of it].
    #[arg(long, value_enum, value_name = "ENGINE")]
    pub(crate) engine: Option<Engine>,
}

/// A model that runs node by node.
#[derive(Clone)]
pub(crate) struct Walked(Arc<Interpreter>);

impl Walked {
    /// A model whose external data is in the folder.
    pub(crate) fn of(
        onnx: CastOnnx,
        proto: ModelProto,
        folder: Option<&Path>,
    ) -> TractResult<Walked> {
        Ok(Walked(Arc::new(Interpreter::of_proto(onnx, proto, folder)?)))
    }

    /// Runs it on tensors of the inputs' types, in their order.
    pub(crate) fn run(&self, inputs: Vec<OnnxTensor>) -> TractResult<Vec<NamedTensor>> {
        let names = self.0.output_names();
        let named = |(output, name): (OnnxTensor, &str)| NamedTensor {
            name: name.into(),
            ty: output.element_type(),
            tensor: output.into_tensor(),
        };
        Ok(self.0.run(inputs)?.into_iter().zip(names).map(named).collect())
    }
}

/// A model with the inputs of another one, and nothing that computes: what is declared of them can be read of one that tract
/// cannot load.
pub(crate) fn heading(proto: &ModelProto) -> ModelProto {
    let graph = proto.graph.as_ref();
    let has_default = |name: &str| {
        graph.is_some_and(|graph| graph.initializer.iter().any(|held| held.name == name))
    };
    let inputs = graph.iter().flat_map(|graph| &graph.input);
    let input = inputs.filter(|input| !has_default(&input.name)).cloned().collect();
    let name = graph.map_or(String::new(), |graph| graph.name.clone());
    ModelProto {
        ir_version: proto.ir_version,
        opset_import: proto.opset_import.clone(),
        graph: Some(GraphProto { name, input, ..GraphProto::default() }),
        ..ModelProto::default()
    }
}

/// The error of a plan, until it is known whether the model runs without one.
#[derive(Clone)]
pub(crate) struct Failed(Arc<Mutex<Option<TractError>>>);

impl Failed {
    /// Lets a model run without a plan where tract is what cannot make one; what this project refuses is refused without a plan
    /// as well, and a branch that does not run would hide it.
    pub(crate) fn of(error: TractError) -> TractResult<Failed> {
        let own = error.chain().find_map(|link| link.downcast_ref::<Error>());
        let is_missing = |own: &Error| own.operator().is_some_and(Interpreter::runs_alone);
        // What tract says of a node while it types the model is no error of this project's.
        let is_tracts = own.is_none_or(|own| own.kind() == ErrorKind::Tract || is_missing(own));
        if !is_tracts {
            return Err(error);
        }
        Ok(Failed(Arc::new(Mutex::new(Some(error)))))
    }

    /// What to say where the model has run all the same.
    pub(crate) fn note(&self) -> String {
        let held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let reason = held.as_ref().map_or(String::new(), |error| shortened_line(&one_line(error)));
        format!("tract can make no plan of this model, it was run node by node: {reason}")
    }

    /// The plan's error, which says more of the model than that of a second attempt.
    pub(crate) fn or(self, second: TractError) -> TractError {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take().unwrap_or(second)
    }
}
