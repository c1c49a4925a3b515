//! `Cast` and `CastLike` nodes (`node`), what can be said of them without running the model
//! (`finding`), and the private form in which tract's loader gets them.

pub(crate) mod finding;
pub(crate) mod node;

use onnx_cast_graph::{Graph, Table};
use tract_onnx::prelude::TractResult;

use super::context::PassContext;
use crate::onnx::lowered::OperatorForm;
use crate::passes::facts::meaning::Meaning;
use node::CastNode;

/// Puts what an audit counts in the order of computation, and has the nodes be followed by probes,
/// if that is asked for.
pub(super) fn number(graph: &mut Graph, context: &mut PassContext) -> TractResult<()> {
    let mut places = Table::default();
    for (place, id) in graph.all_nodes(graph.main()).into_iter().enumerate() {
        places.insert(id, place);
    }
    context.casts.sort_by_key(|(id, _)| places.get(*id).copied());
    if context.options.probes {
        for (row, (id, _)) in context.casts.iter().enumerate() {
            if let Some(lowered) = context.lowered.get_mut(*id) {
                lowered.probe = Some(row);
            }
        }
    }
    Ok(())
}

/// Lowers casts, quantisers and `BitCast`s to this crate's operators, and lists them. Before: nodes
/// as the file has them; after: the same nodes, whose builders are told what `types` has read of
/// them. A cast whose target is known needs no second input.
pub(super) fn lower(graph: &mut Graph, context: &mut PassContext) -> TractResult<()> {
    for id in graph.all_nodes(graph.main()) {
        match context.meanings.get(id).cloned() {
            Some(Meaning::Cast(cast, private)) => {
                context.casts.push((id, *cast));
                if private.to.is_some() {
                    graph.truncate_inputs(id, 1);
                }
                context.lower(id, OperatorForm::Cast(private));
            }
            Some(Meaning::Refused(cast)) => context.casts.push((id, *cast)),
            Some(Meaning::Quantizer(quantizer, spec)) => {
                if quantizer.quantizes() {
                    let cast = CastNode::quantizer(graph, id, &quantizer);
                    context.casts.push((id, cast));
                }
                context.quantizers.push(*quantizer);
                context.lower(id, OperatorForm::Quantizer(spec));
            }
            Some(Meaning::BitCast(spec)) => context.lower(id, OperatorForm::BitCast(spec)),
            Some(Meaning::Half(_)) | None => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
