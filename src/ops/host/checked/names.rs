//! Names of what a node becomes in a typed model, where no two nodes may have the same: tract names
//! the parts of a node after it (`x.0`, `x.axis`), and in a file a node may be called that.

use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_hir::internal::*;

use crate::ops::host::hook::Wired;

/// Wires a node, under another name if parts of it would have a name that is taken, and leaves the
/// names of other nodes to them.
pub(super) fn apart(
    source: &InferenceModel,
    node: &InferenceNode,
    target: &mut TypedModel,
    wire: impl Fn(&InferenceNode, &mut TypedModel) -> Wired,
) -> Wired {
    let first = target.nodes.len();
    let outlets = match wire(node, target) {
        Err(error) if format!("{error:#}").contains("Duplicate node name") => {
            let name = free_name(source, target, &node.name);
            wire(&InferenceNode { name, ..node.clone() }, target)?
        }
        wired => wired?,
    };
    for id in first..target.nodes.len() {
        let name = &target.node(id).name;
        let is_of_other = |other: &InferenceNode| other.id != node.id && other.name == *name;
        if source.nodes.iter().any(is_of_other) {
            let free = free_name(source, target, name);
            target.node_mut(id).name = free;
        }
    }
    Ok(outlets)
}

/// A name like another one, that no node has, nor a part of one.
fn free_name(source: &InferenceModel, target: &TypedModel, name: &str) -> String {
    let names = || {
        let own = target.nodes.iter().map(|node| &node.name);
        source.nodes.iter().map(|node| &node.name).chain(own)
    };
    let numbered = (0..).map(|number: usize| format!("{name}~{number}"));
    let is_free = |free: &String| !names().any(|taken| taken.starts_with(free));
    numbered.into_iter().find(is_free).unwrap_or_default()
}
