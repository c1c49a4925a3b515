//! What a model computes of its constants alone.

use std::collections::HashMap;
use std::sync::Arc;

use onnx_cast_graph::{Graph, NodeId, Table, ValueId};
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
        for node in nodes {
            run.node(node)?;
        }
        Ok(match run.value(value)? {
            RuntimeValue::Tensor(TypedTensor { ty, tensor }) => Some((ty, tensor)),
            _ => None,
        })
    }

    /// A value, and the nodes behind which it is there, in the order of computation.
    fn makers_of(&self, name: &str) -> Option<(ValueId, Vec<NodeId>)> {
        let graph = &self.graph;
        let value = *self.named.get_or_init(|| values_by_name(graph)).get(name)?;
        let mut seen: Table<NodeId, ()> = Table::default();
        let (mut nodes, mut open) = (vec![], vec![]);
        if graph.constant(value).is_none() {
            open.push((graph.maker(value)?, false));
        }
        while let Some((node, is_ready)) = open.pop() {
            if is_ready {
                nodes.push(node);
                continue;
            }
            if seen.insert(node, ()).is_some() {
                continue;
            }
            if !graph.node(node).bodies().is_empty() {
                return None;
            }
            open.push((node, true));
            for value in graph.needs(node).into_iter().filter(|id| graph.constant(*id).is_none()) {
                open.push((graph.maker(value)?, false));
            }
        }
        Some((value, nodes))
    }
}

/// The values that the nodes of the main graph take or make.
fn values_by_name(graph: &Graph) -> HashMap<Arc<str>, ValueId> {
    let nodes = graph.nodes_of(graph.main()).into_iter().map(|id| graph.node(id));
    let values = nodes.flat_map(|node| node.inputs().iter().chain(node.outputs()).flatten());
    values.map(|id| (graph.value(*id).name.clone(), *id)).collect()
}
