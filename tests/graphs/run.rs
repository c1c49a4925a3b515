//! A model through tract as it is released, with the plug-in.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use tract_onnx::pb::ModelProto;
use tract_onnx::prelude::*;
use tract_onnx_cast::interpreter::Interpreter;
use tract_onnx_cast::{OnnxTensor, model_proto, onnx, output_element_types};

use crate::common::cases::Typed;
use crate::form::{Form, name};
use crate::graph::Graph;

#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    Right,
    /// An output is not what it should be.
    Wrong(String),
    /// The model was not run, for this reason.
    Refused(String),
    /// The same, by a panic.
    Panicked(String),
}

impl Outcome {
    pub fn is_wrong(&self) -> bool {
        matches!(self, Outcome::Wrong(_))
    }
}

thread_local! {
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// The threads that run models by this name keep a panic's message to themselves.
pub const WORKER: &str = "graphs";

pub fn keep_panics_quiet() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if std::thread::current().name() != Some(WORKER) {
                return usual(info);
            }
            let place = info.location().map(ToString::to_string).unwrap_or_default();
            let message = info.payload_as_str().unwrap_or("no message").to_string();
            PANIC.with_borrow_mut(|panic| *panic = Some(format!("{message} at {place}")));
        }));
    });
}

/// What runs now, on each thread, and since when.
static RUNNING: Mutex<Vec<(ThreadId, Instant, Graph, Form)>> = Mutex::new(vec![]);

fn running() -> MutexGuard<'static, Vec<(ThreadId, Instant, Graph, Form)>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A model that has run for too long.
pub fn overdue(patience: Duration) -> Option<(Graph, Form)> {
    let running = running();
    let late = running.iter().find(|(_, since, ..)| since.elapsed() > patience)?;
    Some((late.2.clone(), late.3.clone()))
}

/// What the last panic of this worker said.
pub fn last_panic() -> String {
    PANIC.with_borrow_mut(Option::take).unwrap_or_default()
}

/// Runs a graph in a form, with external data in the folder.
pub fn run(graph: &Graph, form: &Form, folder: &Path) -> Outcome {
    let thread = std::thread::current().id();
    running().push((thread, Instant::now(), graph.clone(), form.clone()));
    let result = catch_unwind(AssertUnwindSafe(|| checked(graph, form, folder)));
    running().retain(|(other, ..)| *other != thread);
    match result {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(error)) => Outcome::Refused(format!("{error:#}")),
        Err(_) => Outcome::Panicked(last_panic()),
    }
}

/// What runs a model.
type Engine = Box<dyn Fn(Vec<Typed>) -> TractResult<Vec<Typed>>>;

fn plan(proto: ModelProto, folder: &Path) -> TractResult<Engine> {
    let model = model_proto::load(&onnx(), proto, Some(folder))?.into_model().into_optimized()?;
    let types = output_element_types(&model)?;
    let plan = model.into_runnable()?;
    Ok(Box::new(move |inputs| {
        let inputs = inputs.into_iter().map(|input| input.tensor.into_tvalue());
        let typed = |(value, ty): (TValue, &_)| Typed { ty: *ty, tensor: value.into_tensor() };
        Ok(plan.run(inputs.collect())?.into_iter().zip(&types).map(typed).collect())
    }))
}

fn nodes(proto: ModelProto, folder: &Path) -> TractResult<Engine> {
    let model = Interpreter::of_proto(onnx(), proto, Some(folder))?;
    Ok(Box::new(move |inputs| {
        let inputs = inputs.into_iter().map(|Typed { ty, tensor }| OnnxTensor::new(ty, tensor));
        let outputs = model.run(inputs.collect::<Result<_, _>>()?)?;
        let typed =
            |made: OnnxTensor| Typed { ty: made.element_type(), tensor: made.into_tensor() };
        Ok(outputs.into_iter().map(typed).collect())
    }))
}

fn checked(graph: &Graph, form: &Form, folder: &Path) -> TractResult<Outcome> {
    let engine = if std::env::var_os("GRAPHS_NODES").is_some() { nodes } else { plan };
    let run = engine(form.model(graph, folder), folder)?;
    let wanted = form.outputs(graph);
    for world in form.worlds() {
        let input = |id: usize| {
            let value = &graph.values[id].worlds[world];
            Typed { ty: value.ty, tensor: value.tensor() }
        };
        let outputs = run(form.inputs().into_iter().map(input).collect())?;
        if outputs.len() != wanted.len() {
            return Ok(Outcome::Wrong(format!("{} outputs, not {}", outputs.len(), wanted.len())));
        }
        for (got, id) in outputs.into_iter().zip(&wanted) {
            if let Some(complaint) = graph.values[*id].worlds[world].complaint(&got) {
                let world = if world == 0 { "" } else { " with other sizes" };
                return Ok(Outcome::Wrong(format!("{}{world}: {complaint}", name(*id))));
            }
        }
    }
    Ok(Outcome::Right)
}
