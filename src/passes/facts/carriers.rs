//! Which operators may move, but not compute on, element types that are stored as U8 or U16.

use crate::cast::element_type::ElementType;
use crate::error::Error;
use crate::onnx::node::{NodeView, refusal};
use crate::onnx::operators::behaviour::{Behaviour, ElementUse};
use crate::onnx::operators::types::output_types;

/// The types of a node's outputs if exotic elements go into it; an error unless it only moves them.
pub(in crate::passes) fn move_through(
    node: &(impl NodeView + ?Sized),
    opset: i64,
    inputs: &[Option<ElementType>],
) -> Result<Option<Vec<Option<ElementType>>>, Error> {
    let Some(exotic) = inputs.iter().flatten().copied().find(|ty| ty.is_exotic()) else {
        return Ok(None);
    };
    let refuse = |problem: String| Err(refusal(node, problem));
    let computes =
        || refuse(format!("cannot compute with {exotic}: Cast it to a wider type first"));
    let behaviour = Behaviour::of(node);
    let moved = match behaviour.elements(node) {
        ElementUse::Moved(moved) => moved,
        ElementUse::Measured => return Ok(Some(output_types(node, opset, inputs))),
        ElementUse::MovedOrReduced(_) | ElementUse::Computed => return computes(),
    };
    for (index, ty) in inputs.iter().enumerate() {
        let is_given = node.gives(index);
        let is_moved = moved.contains(index);
        match ty {
            _ if !is_given => {}
            Some(ty) if !is_moved && ty.is_exotic() => return computes(),
            ty if is_moved && *ty != Some(exotic) => {
                let other = ty.map_or("another type", ElementType::name);
                return refuse(format!("mixes {exotic} and {other}"));
            }
            _ => {}
        }
    }
    if behaviour.fills_with_attribute(node) {
        return refuse(format!("fills with a number of its own, which is not {exotic}"));
    }
    if exotic == ElementType::Float8E8M0 && behaviour.fills_with_zero(node) {
        return refuse(format!("fills with zero, which {exotic} does not have"));
    }
    Ok(Some(vec![Some(exotic); node.output_places()]))
}
