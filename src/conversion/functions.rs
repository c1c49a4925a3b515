//! Functions as bodies of the graph: read before the passes, and put back behind them.

use onnx_cast_graph::{Graph, NodeView, default_opset, is_default_domain};
use tract_onnx::pb::{NodeProto, ValueInfoProto};

use super::context::Context;
use crate::error::Result;
use crate::onnx::function_fields::Parts;
use crate::onnx::lowered::DOMAIN;
use crate::passes::{error_of, step};

/// Makes a body of each function.
///
/// # Errors
///
/// When the names in one do not fit together.
pub(super) fn import(graph: &mut Graph, context: &mut Context) -> Result<()> {
    let mut functions = std::mem::take(&mut graph.functions);
    for function in &mut functions {
        let proto = Parts::of(function).graph(function);
        let opset = default_opset(&function.opset_import).unwrap_or(graph.opset);
        let path = step(function.name(), "").into();
        let (body, problems) = graph.import_root(proto, opset, path, &step);
        if let Some(problem) = problems.into_iter().next() {
            return Err(error_of(problem));
        }
        let domain = if is_default_domain(function.domain()) { "" } else { function.domain() };
        context.functions.insert((domain.to_owned(), function.name().to_owned()), body);
        context.roots.push(body);
        function.node.clear();
    }
    graph.functions = functions;
    Ok(())
}

/// Puts the bodies back into the functions. Returns what is declared of the values of each.
pub(super) fn export(graph: &mut Graph, context: &Context) -> Vec<Vec<ValueInfoProto>> {
    let mut functions = std::mem::take(&mut graph.functions);
    let bodies = context.roots.get(1..).unwrap_or_default();
    let mut values = vec![];
    for (function, body) in functions.iter_mut().zip(bodies) {
        let proto = graph.export_root(*body, |_, _| {});
        let declared = proto.input.into_iter().filter(|input| input.r#type.is_some());
        values.push(declared.chain(proto.value_info).collect());
        function.node = proto.node.into_iter().filter(is_of_file).collect();
    }
    graph.functions = functions;
    values
}

/// Whether a node is none of those in which this crate keeps fields of functions.
fn is_of_file(node: &NodeProto) -> bool {
    node.domain() != DOMAIN
}
