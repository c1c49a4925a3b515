//! What always holds of a graph, checked.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tract_onnx::pb::type_proto;

use crate::Graph;
use crate::arena::{BodyId, NodeId, Table, ValueId};
use crate::node::NodeView;
use crate::value::{Origin, Use};

impl Graph {
    /// Checks what the crate's documentation says always holds.
    ///
    /// # Errors
    ///
    /// The first thing that does not hold, in words: a fault of the last edit, not of the model.
    pub fn verify(&self) -> Result<(), String> {
        let mut check = GraphCheck { graph: self, seen: Table::default(), uses: HashMap::new() };
        check.body(self.main, &mut vec![])?;
        for (value, uses) in &check.uses {
            let (known, found) = (self.value(*value).uses.len(), uses.len());
            if known != found {
                let name = &self.value(*value).name;
                return Err(format!("`{name}` knows {known} uses, and there are {found}"));
            }
        }
        Ok(())
    }
}

struct GraphCheck<'a> {
    graph: &'a Graph,
    /// The values that can be seen so far.
    seen: Table<ValueId, ()>,
    uses: HashMap<ValueId, HashSet<Use>>,
}

impl<'a> GraphCheck<'a> {
    fn body(&mut self, body: BodyId, names: &mut Vec<HashSet<&'a Arc<str>>>) -> Result<(), String> {
        let graph = self.graph;
        names.push(HashSet::new());
        let given = graph.body(body);
        let mut made = given.inputs.clone();
        let inputs: HashSet<ValueId> = given.inputs.iter().copied().collect();
        made.extend(given.constants.iter().filter(|value| !inputs.contains(value)));
        for value in &made {
            if matches!(graph.value(*value).origin, Origin::Node(..)) {
                return Err(format!("`{}` is given and made by a node", graph.value(*value).name));
            }
            self.make(*value, body, names)?;
            self.check_constant(*value)?;
        }
        let nodes = graph.nodes_of(body);
        for id in &nodes {
            self.node(*id, body, names)?;
        }
        for (place, output) in given.outputs.iter().enumerate() {
            let about = || format!("output {place} of `{}`", given.path);
            self.used(output.value, Use::Output(body, place), about)?;
        }
        // What is made in a body is not seen outside.
        let outputs = nodes.into_iter().flat_map(|id| &graph.node(id).outputs).flatten();
        for value in outputs.chain(&made) {
            self.seen.remove(*value);
        }
        names.pop();
        Ok(())
    }

    fn node(
        &mut self,
        id: NodeId,
        body: BodyId,
        names: &mut Vec<HashSet<&'a Arc<str>>>,
    ) -> Result<(), String> {
        let node = self.graph.node(id);
        let about = || format!("node `{}` ({})", node.label(), node.op_type);
        if node.body != body {
            return Err(format!("{} stands in another body than it says", about()));
        }
        for (place, value) in node.inputs.iter().enumerate() {
            if let Some(value) = value {
                self.used(*value, Use::Node(id, place), about)?;
            }
        }
        for held in &node.bodies {
            if self.graph.body(held.body).owner != Some(id) {
                return Err(format!("{} holds a body of another node", about()));
            }
            self.body(held.body, names)?;
        }
        for (place, value) in node.outputs.iter().enumerate() {
            let Some(value) = value else { continue };
            let origin = &self.graph.value(*value).origin;
            if !matches!(origin, Origin::Node(maker, at) if (*maker, *at) == (id, place)) {
                return Err(format!("{}: output {place} has another origin", about()));
            }
            self.make(*value, body, names)?;
        }
        Ok(())
    }

    fn make(
        &mut self,
        value: ValueId,
        body: BodyId,
        names: &mut [HashSet<&'a Arc<str>>],
    ) -> Result<(), String> {
        let made = self.graph.value(value);
        if made.body != body {
            return Err(format!("`{}` is made in another body than it says", made.name));
        }
        self.seen.insert(value, ());
        let is_new = names.last_mut().is_none_or(|own| own.insert(&made.name));
        is_new
            .then_some(())
            .ok_or_else(|| format!("two values of one body are called `{}`", made.name))
    }

    fn used(
        &mut self,
        value: ValueId,
        used: Use,
        about: impl Fn() -> String,
    ) -> Result<(), String> {
        if !self.seen.contains(value) {
            let name = &self.graph.value(value).name;
            return Err(format!("{} uses `{name}`, which cannot be seen there", about()));
        }
        self.uses.entry(value).or_default().insert(used);
        Ok(())
    }

    /// An initializer is of the type that its input is declared.
    fn check_constant(&self, value: ValueId) -> Result<(), String> {
        let value = self.graph.value(value);
        let (Origin::Constant(tensor), Some(declared)) = (&value.origin, &value.declared) else {
            return Ok(());
        };
        match &declared.value {
            Some(type_proto::Value::TensorType(declared))
                if declared.elem_type != 0 && declared.elem_type != tensor.data_type =>
            {
                let (is, says) = (tensor.data_type, declared.elem_type);
                Err(format!("`{}` has the type {is}, and is declared {says}", value.name))
            }
            _ => Ok(()),
        }
    }
}
