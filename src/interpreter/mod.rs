//! A model run node by node, on concrete values.
//!
//! A plan of tract's types, folds and optimises a whole model before it runs, each node against all
//! others, and holds every weight in the form that its kernels take. That is right for a model that
//! runs often. To check a conversion, shapes are known, each node runs a few times at most, and
//! every tensor is wanted: so [`Interpreter`] walks the [`Graph`] in topological order (`run`).
//! Each node is a model of its own, of the types and shapes that are there: it goes through the
//! same passes and is built by the same operators as in a plan (`node`), so both ways give the same
//! values. Nodes that are alike in all but their values share what was built, and those of the same
//! `attributes` these. A `value` is dropped behind its last use (`schedule`), a weight is read
//! where it is needed, and what a model makes of weights alone may be asked for (`constants`).
//!
//! What decides which nodes run (`If`, `Loop`, `Scan`) and what holds several tensors (sequences,
//! optionals) is run here (`operators`, `control`, `scan`, `sequences`, each body by `inner`), and
//! so are operators that tract does not have (`kernels`): bodies are graphs, and nothing has a
//! symbol for a size, so what tract refuses of sizes that data decides does not arise. Whoever
//! watches a run is shown each node (`observer`), and an audit what its casts do (`counted`).

#![forbid(unsafe_code)]

mod attributes;
mod constants;
mod control;
mod counted;
mod inner;
pub(crate) mod kernels;
mod node;
mod observer;
mod operators;
mod run;
mod scan;
mod schedule;
mod sequences;
mod value;

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use onnx_cast_graph::{BodyId, Graph, NodeId, Origin, Table, ValueId, counted, named_value};
use tract_onnx::pb::{ModelProto, ValueInfoProto};
use tract_onnx::prelude::{InferenceModel, TractResult};

use crate::audit::Audit;
use crate::error::{Cause, Error, Result};
use crate::onnx::beside;
use crate::onnx::operators::alone::ALONE;
use crate::passes::weight_sizes::declare_sizes;
use crate::plug::guard::without_panic;
use crate::plug::loader::CastOnnx;
use crate::plug::model_types::record_sizes;
use crate::tensor::typed::OnnxTensor;
use node::Builder;
pub use observer::{BodyInput, BodyOutput, NodeRun, ObservedTensor, Observer, SharedTensor};
use operators::runners;
use run::{ModelRun, NodeInputs, NodeOutputs, NodeRunner};
use schedule::Schedules;
pub use value::OnnxValue;
use value::RuntimeValue;

/// Runs a model node by node, in topological order. It loads in a time that is linear in the nodes,
/// runs operators of control flow and sequences that tract does not have, and holds few values at a
/// time; a plan that tract has optimised runs faster, and often.
///
/// ```
/// use tract_onnx::prelude::*;
/// use tract_onnx_cast::interpreter::Interpreter;
/// use tract_onnx_cast::{ElementType, OnnxTensor, onnx};
///
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/models/node/cast_opset19_FLOAT_to_FLOAT8E4M3FN/model.onnx");
/// let model = Interpreter::open(onnx(), path)?;
/// # let x = OnnxTensor::new(ElementType::Float, Tensor::zero::<f32>(&[2]).unwrap()).unwrap();
/// let outputs = model.run(vec![x])?;
/// assert_eq!(outputs[0].element_type(), ElementType::Float8E4M3FN);
/// # tract_onnx_cast::Result::Ok(())
/// ```
pub struct Interpreter {
    graph: Arc<Graph>,
    /// The symbols that weights make numbers.
    sizes: Arc<[(String, i64)]>,
    builder: Builder,
    schedules: Arc<Schedules>,
    runners: Arc<Table<NodeId, NodeRunner>>,
    /// The values of the main graph, where somebody has asked for one by its name.
    named: Arc<OnceLock<HashMap<Arc<str>, ValueId>>>,
}

impl Interpreter {
    /// Reads a model's file but its weights, and puts functions in the place of their calls. Nodes
    /// are built, and weights read, when they run.
    ///
    /// # Errors
    ///
    /// When the file cannot be read, is beyond the [`Limits`](crate::Limits), or is not sound, or
    /// one beside it lacks data.
    pub fn open(onnx: CastOnnx, path: impl AsRef<Path>) -> Result<Interpreter> {
        let proto = onnx.light_proto(path.as_ref()).map_err(Error::of)?;
        Interpreter::of_proto(onnx, proto, path.as_ref().parent())
    }

    /// As [`Interpreter::open`], of a model that was read already, whose external data is in
    /// `folder`.
    ///
    /// # Errors
    ///
    /// As [`Interpreter::open`].
    pub fn of_proto(
        onnx: CastOnnx,
        proto: ModelProto,
        folder: Option<&Path>,
    ) -> Result<Interpreter> {
        let missing = folder.and_then(|folder| beside::missing(&proto, folder).next());
        let mut graph = onnx.inlined(proto, folder).map_err(Error::of)?;
        missing.map_or(Ok(()), Err)?;
        attributes::share(&mut graph);
        let sizes = declare_sizes(&mut graph).into();
        let schedules = Arc::new(Schedules::of(&graph));
        let builder = Builder::new(onnx, graph.model().clone(), folder.map(Path::to_path_buf));
        let runners = Arc::new(runners(&graph));
        let (graph, named) = (Arc::new(graph), Arc::default());
        Ok(Interpreter { graph, sizes, builder, schedules, runners, named })
    }

    /// The same model, which is shared, with its nodes built by a plug-in that is set up otherwise.
    /// Limits and types that are overlooked have judged the model when it was read.
    pub fn built_by(&self, onnx: CastOnnx) -> Interpreter {
        let Interpreter { graph, sizes, builder, schedules, runners, named } = self;
        Interpreter {
            graph: graph.clone(),
            sizes: sizes.clone(),
            builder: Builder::new(onnx, graph.model().clone(), builder.folder.clone()),
            schedules: schedules.clone(),
            runners: runners.clone(),
            named: named.clone(),
        }
    }

    /// Has an audit of this model ([`Survey::audit`](crate::survey::Survey::audit)) count what its
    /// casts do when it runs, as the probes of a plan do.
    pub fn watch(&self, audit: &Audit) {
        self.builder.watch(audit);
    }

    /// Whether an operator of ONNX's runs here that no plan has.
    pub fn runs_alone(op_type: &str) -> bool {
        ALONE.iter().any(|(_, name)| *name == op_type)
    }

    /// The names of the inputs that have no default, in their order.
    pub fn input_names(&self) -> Vec<&str> {
        self.open_inputs(self.graph.main()).map(|id| &*self.graph.value(id).name).collect()
    }

    /// tract's model of the inputs that have no default, and of nothing that computes: what is
    /// declared of them can be read of it where tract cannot load the whole.
    ///
    /// # Errors
    ///
    /// When tract cannot read what is declared.
    pub fn heading(&self) -> Result<InferenceModel> {
        let input = self.open_inputs(self.graph.main()).map(|id| {
            let value = self.graph.value(id);
            ValueInfoProto { r#type: value.declared.clone(), ..named_value(&*value.name) }
        });
        let mut heading = self.builder.heading(input.collect()).map_err(Error::of)?;
        record_sizes(&mut heading, &self.sizes);
        Ok(heading)
    }

    /// The names of the outputs, in their order.
    pub fn output_names(&self) -> Vec<&str> {
        let outputs = self.graph.body(self.graph.main()).outputs().iter();
        outputs.map(|output| &*output.declared.name).collect()
    }

    /// The outputs for inputs that have no default, both in their order.
    ///
    /// # Errors
    ///
    /// When an input is missing, a node cannot be built for its inputs, or cannot be run on them;
    /// an error names the node. An output that is a sequence or an optional is an error as well.
    pub fn run(&self, inputs: Vec<OnnxTensor>) -> Result<Vec<OnnxTensor>> {
        without_panic(|| self.outputs(inputs, ModelRun::new(self))).map_err(Error::of)
    }

    /// As [`Interpreter::run`], shown to an observer, which may change what nodes make.
    ///
    /// # Errors
    ///
    /// As [`Interpreter::run`], and those of the observer.
    pub fn run_observed(
        &self,
        inputs: Vec<OnnxTensor>,
        observer: &mut dyn Observer,
    ) -> Result<Vec<OnnxTensor>> {
        without_panic(|| self.outputs(inputs, ModelRun::observed_by(self, observer)))
            .map_err(Error::of)
    }

    /// As [`Interpreter::run`], where inputs or outputs may be sequences or optionals.
    ///
    /// # Errors
    ///
    /// As [`Interpreter::run`], but for such outputs.
    pub fn run_values(&self, inputs: Vec<OnnxValue>) -> Result<Vec<OnnxValue>> {
        without_panic(|| self.values(inputs, ModelRun::new(self))).map_err(Error::of)
    }

    fn outputs(&self, inputs: Vec<OnnxTensor>, run: ModelRun) -> TractResult<Vec<OnnxTensor>> {
        let inputs = inputs.into_iter().map(OnnxValue::Tensor).collect();
        let tensor = |(value, name): (OnnxValue, &str)| match value {
            OnnxValue::Tensor(tensor) => Ok(tensor),
            _ => {
                let problem = format!("has the output `{name}`, which is no tensor");
                Err(Error::from(Cause::Model { problem }).into())
            }
        };
        self.values(inputs, run)?.into_iter().zip(self.output_names()).map(tensor).collect()
    }

    fn values(&self, inputs: Vec<OnnxValue>, mut run: ModelRun) -> TractResult<Vec<OnnxValue>> {
        let main = self.graph.main();
        let wanted = self.input_names();
        if inputs.len() != wanted.len() {
            let problem = format!(
                "takes {} ({wanted:?}), given {}",
                counted(wanted.len(), "input"),
                inputs.len()
            );
            Err(Error::from(Cause::Model { problem }))?;
        }
        let inputs = inputs.into_iter().map(RuntimeValue::from).collect();
        let outputs = run.body(main, inputs)?;
        Ok(outputs.into_iter().map(RuntimeValue::into_onnx).collect::<Result<_>>()?)
    }

    /// What a node makes of other inputs than those of a run, by place.
    fn made(&self, node: NodeId, inputs: NodeInputs) -> NodeOutputs {
        ModelRun::new(self).made(node, inputs)
    }

    /// The inputs of a body that somebody has to give.
    fn open_inputs(&self, body: BodyId) -> impl Iterator<Item = ValueId> {
        let inputs = self.graph.body(body).inputs().iter().copied();
        inputs.filter(|id| matches!(self.graph.value(*id).origin(), Origin::Input))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What stands in the tables of this folder, but for what plans have too, is what the rest of
    /// the crate takes to run here alone.
    #[test]
    fn what_runs_alone_is_in_the_tables() {
        let here = operators::OPERATORS.iter().map(|(name, ..)| ("", *name));
        let is_in_plans = |name: &str| matches!(name, "Constant" | "Identity" | "If" | "Scan");
        let here = here.chain(kernels::operators()).filter(|(_, name)| !is_in_plans(name));
        let mut here: Vec<(&str, &str)> = here.collect();
        here.sort_unstable();
        assert_eq!(here, ALONE);
    }
}
