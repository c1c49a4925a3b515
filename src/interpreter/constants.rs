//! What a model computes of its constants alone.

use onnx_cast_graph::{NodeId, Table, ValueId};
use tract_onnx::prelude::TractResult;

use super::Interpreter;
use super::observer::SharedTensor;
use super::run::ModelRun;
use super::value::{RuntimeValue, TypedTensor};
use crate::error::{Error, Result};
use crate::plug::guard::without_panic;

impl Interpreter {
    /// A constant that a node of the main graph takes, or a value that such nodes make of constants
    /// alone, by its name. `None` if there is no such value, it is made of inputs or in bodies as
    /// well, or is no tensor.
    ///
    /// # Errors
    ///
    /// When a node cannot be built or run, or a constant cannot be read.
    pub fn constant(&self, name: &str) -> Result<Option<SharedTensor>> {
        without_panic(|| self.of_constants(name)).map_err(Error::of)
    }

    fn of_constants(&self, name: &str) -> TractResult<Option<SharedTensor>> {
        let Some((value, nodes)) = self.makers_of(name) else { return Ok(None) };
        let mut run = ModelRun::new(self);
        for node in nodes.into_iter().rev() {
            run.node(node)?;
        }
        Ok(match run.value(value)? {
            RuntimeValue::Tensor(TypedTensor { ty, tensor }) => Some((ty, tensor)),
            _ => None,
        })
    }

    /// A value, and the nodes behind which it is there, the last one first.
    fn makers_of(&self, name: &str) -> Option<(ValueId, Vec<NodeId>)> {
        let graph = &self.graph;
        let mut wanted: Table<ValueId, ()> = Table::default();
        let (mut found, mut nodes) = (None, vec![]);
        for id in graph.nodes_of(graph.main()).into_iter().rev() {
            let node = graph.node(id);
            let is_named = |value: &ValueId| &*graph.value(*value).name == name;
            let mut made = node.outputs().iter().flatten().copied();
            if found.is_none() {
                let mut taken = node.inputs().iter().flatten().copied();
                if let Some(constant) =
                    taken.find(|value| is_named(value) && graph.constant(*value).is_some())
                {
                    return Some((constant, vec![]));
                }
                found = made.clone().find(is_named);
                found.map(|value| wanted.insert(value, ()));
            }
            if !made.any(|value| wanted.contains(value)) {
                continue;
            }
            for value in graph.needs(id).into_iter().filter(|id| graph.constant(*id).is_none()) {
                graph.maker(value)?;
                wanted.insert(value, ());
            }
            if !node.bodies().is_empty() {
                return None;
            }
            nodes.push(id);
        }
        Some((found?, nodes))
    }
}
