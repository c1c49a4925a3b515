//! Functions as bodies of the graph: read before passes, and put back behind them.

use std::collections::HashMap;

use onnx_cast_graph::{BodyId, Graph, Misnamed, Node, NodeView, default_opset, one_domain};
use tract_onnx::pb::{NodeProto, ValueInfoProto};

use crate::onnx::function_fields::FunctionParts;
use crate::onnx::lowered::DOMAIN;
use crate::onnx::operators::schema;
use crate::passes::step;

/// The bodies of a model's functions.
#[derive(Debug, Default)]
pub(crate) struct Functions {
    /// In the order of the file.
    pub(crate) bodies: Vec<BodyId>,
    by_name: HashMap<(String, String), BodyId>,
}

impl Functions {
    /// Makes a body of each function. Returns what is wrong with the names in them, too.
    pub(crate) fn import(graph: &mut Graph) -> (Functions, Vec<Misnamed>) {
        let mut imported = Functions::default();
        let mut problems = vec![];
        let mut functions = std::mem::take(&mut graph.functions);
        for function in &mut functions {
            let parts = FunctionParts::of(function);
            let proto = parts.graph(function, parts.body.to_vec());
            let opset = default_opset(&function.opset_import).unwrap_or(graph.opset);
            let path = step(function.name(), "").into();
            let (body, misnamed) = graph.import_root(proto, opset, path, &step);
            problems.extend(misnamed);
            let name = (one_domain(function.domain()).to_owned(), function.name().to_owned());
            imported.by_name.insert(name, body);
            imported.bodies.push(body);
            function.node.clear();
        }
        graph.functions = functions;
        (imported, problems)
    }

    /// Puts the bodies back into the functions. Returns what is declared of the values of each.
    pub(crate) fn export(&self, graph: &mut Graph) -> Vec<Vec<ValueInfoProto>> {
        let mut functions = std::mem::take(&mut graph.functions);
        let mut values = vec![];
        for (function, body) in functions.iter_mut().zip(&self.bodies) {
            let proto = graph.export_root(*body, |_, _| {});
            let declared = proto.input.into_iter().filter(|input| input.r#type.is_some());
            values.push(declared.chain(proto.value_info).collect());
            function.node = proto.node.into_iter().filter(is_of_file).collect();
        }
        graph.functions = functions;
        values
    }

    /// The body of the function that a node calls.
    pub(crate) fn called(&self, node: &Node) -> Option<BodyId> {
        if node.is_onnx() && !schema::versions(&node.op_type).is_empty() {
            return None;
        }
        self.by_name.get(&(one_domain(node.domain()).to_owned(), node.op_type.clone())).copied()
    }

    /// The main graph's body, then those of functions.
    pub(crate) fn roots(&self, graph: &Graph) -> Vec<BodyId> {
        std::iter::once(graph.main()).chain(self.bodies.iter().copied()).collect()
    }
}

/// Whether a node is none of those in which this crate keeps fields of functions.
fn is_of_file(node: &NodeProto) -> bool {
    node.domain() != DOMAIN
}
