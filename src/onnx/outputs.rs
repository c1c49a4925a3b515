//! The outputs of a graph, so that tract finds them, in their types.

use std::collections::{HashMap, HashSet};

use tract_onnx::pb::{GraphProto, NodeProto};

use super::annotation::{self, DOMAIN};
use super::declared_types::{either_exotic, set_carrier};
use super::scope::{Place, Scope};
use crate::cast::element_type::ElementType;
use crate::error::Error;

/// Gives a graph's outputs their carriers, and nodes of their own where tract needs them.
///
/// # Errors
///
/// When an output that no node makes is declared of another type, and one of the two is exotic.
pub(super) fn prepare(
    graph: &mut GraphProto,
    place: &Place,
    declared: &HashMap<String, ElementType>,
    scope: &Scope,
) -> Result<(), Error> {
    let names = |values: fn(&NodeProto) -> &Vec<String>| -> HashSet<&str> {
        graph.node.iter().flat_map(values).map(String::as_str).collect()
    };
    let mut added = vec![];
    let (made, used) = (names(|node| &node.output), names(|node| &node.input));
    for index in 0..graph.output.len() {
        let Some(output) = graph.output.get_mut(index) else { continue };
        let name = output.name.clone();
        let declared = declared.get(&name).copied();
        let made_here = made.contains(&*name);
        let ty = match scope.get(&name).and_then(|fact| fact.ty) {
            Some(ty) if !made_here && declared.is_some_and(|d| d != ty && either_exotic(d, ty)) => {
                let declared = declared.map_or("", ElementType::name);
                let problem = format!("output `{name}` is declared {declared}, but is {ty}");
                return Err(Error::graph(&*place.path, problem));
            }
            ty => ty,
        };
        if let Some(ty) = ty.filter(|ty| ty.is_exotic()) {
            set_carrier(output, ty);
        }
        let is_int64 = declared.or(ty) == Some(ElementType::Int64);
        let unused = format!("{DOMAIN}:output{index}:{name}");
        let is_settled = name.starts_with(DOMAIN);
        let extra = if place.is_main && made_here && is_int64 && !is_settled {
            // tract computes shapes with symbolic integers; a model's INT64 output is made of numbers.
            Some(annotation::to_numbers(&name, unused))
        } else if !made_here || (!place.is_main && used.contains(&*name)) {
            // tract finds an output only among the values of the graph itself, forgets what it knows of an input
            // that is one, and what it does to the outputs of a Scan's body it does to all that use the value.
            Some(annotation::identity(&name, unused))
        } else {
            None
        };
        if let (Some(extra), Some(output)) = (extra, graph.output.get_mut(index)) {
            output.name = extra.output.first().cloned().unwrap_or_default();
            added.push(extra);
        }
    }
    graph.node.extend(added);
    Ok(())
}
