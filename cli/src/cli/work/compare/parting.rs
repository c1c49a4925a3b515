//! Where two models part, and how their casts differ.

use std::collections::HashMap;

use tract_onnx_cast::{CastKind, CastNode};

use super::main_graph::MainGraph;
use super::sides::Loaded;
use crate::cli::judge::audited::AuditedCast;
use crate::cli::judge::compared::{CastChanges, CastName, ComparedTensor, Parting, Retargeted};

/// Describes where the models part: the tensor, the node that makes it, and the worst of the casts before it that the
/// reference does not have and that spoiled values.
pub(super) fn parting(
    converted: &Loaded,
    tensor: Option<&ComparedTensor>,
    changes: &CastChanges,
    casts: &[AuditedCast],
) -> Option<Parting> {
    let tensor = tensor?.clone();
    let name = tensor.converted_name.as_ref().unwrap_or(&tensor.name);
    let graph = MainGraph::of(&converted.probed.proto);
    let (node, op) = graph.maker(name)?;
    let cast = casts.iter().find(|cast| cast.output == *name).cloned();
    let before = graph.before(name);
    let is_new = |cast: &AuditedCast| {
        let retargeted = changes.retargeted.iter().map(|both| &both.converted);
        let mut new = changes.added.iter().chain(retargeted);
        new.any(|new| (&new.node, &new.graph) == (&cast.node, &cast.graph))
    };
    let culprit = casts.iter().find(|cast| {
        cast.damaged() + cast.lost() > 0
            && cast.output != *name
            && before.contains(&cast.output)
            && is_new(cast)
    });
    Some(Parting { node, op, cast, culprit: culprit.cloned(), tensor })
}

/// How the casts of two models differ. A cast is known by the value that it makes.
pub(super) fn changes(reference: &[CastNode], converted: &[CastNode]) -> CastChanges {
    let is_own = |cast: &&CastNode| cast.kind == CastKind::Cast;
    // Converters rename the main graph, so only the path below it counts.
    let key = |cast: &CastNode| {
        let path = cast.graph.split_once('/').map_or("", |(_, path)| path);
        (path.to_owned(), cast.output.clone())
    };
    let of = |casts: &[CastNode]| -> HashMap<_, CastNode> {
        casts.iter().filter(is_own).map(|cast| (key(cast), cast.clone())).collect()
    };
    let (before, after) = (of(reference), of(converted));
    let mut changes = CastChanges::default();
    for cast in converted.iter().filter(is_own) {
        match before.get(&key(cast)) {
            None => changes.added.push(CastName::of(cast)),
            Some(was) if (was.from, was.to) != (cast.from, cast.to) => {
                let (reference, converted) = (CastName::of(was), CastName::of(cast));
                changes.retargeted.push(Retargeted { reference, converted });
            }
            Some(_) => {}
        }
    }
    let gone = reference.iter().filter(is_own).filter(|cast| !after.contains_key(&key(cast)));
    changes.removed = gone.map(CastName::of).collect();
    changes
}
