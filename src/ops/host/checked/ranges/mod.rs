//! Numbers that operators take: axes within a rank, windows, steps and blocks of one and more.
//!
//! tract subtracts, divides and counts by these without a look at them, so that it panics, never
//! ends, or computes something. One table ([`RANGES`](table::RANGES)) has what the specification
//! allows, and [`check`] compares it with what is known of a node.

mod table;

use std::sync::Arc;

use tract_onnx::pb::attribute_proto::AttributeType;
use tract_onnx::pb::{AttributeProto, NodeProto};
use tract_onnx::prelude::*;

use super::known::KnownOperands;
use super::{fitting, stretched};
use crate::error::Error;
use crate::onnx::node::{from_front, refusal};
use crate::onnx::operators::attributes;
use crate::ops::host::at_opset::imported;
use table::{MOST, Must, NumberSource, RANGES};

/// Checks the numbers of a node that is of an opset.
/// Fails when one is not what the operator takes, as far as is known.
pub(crate) fn check(node: &NodeProto, opset: i64, known: &dyn KnownOperands) -> Result<(), Error> {
    let error = |problem: String| {
        let problem = format!("{problem}, the model imports {}", imported(node, opset));
        refusal(node, problem)
    };
    stretched::check(&node.op_type, known).map_err(error)?;
    let row = RANGES.iter().find(|(operator, _)| *operator == node.op_type);
    for (given, must) in row.map_or(&[][..], |(_, row)| row) {
        let name = match given {
            NumberSource::Attribute(name) => format!("attribute `{name}`"),
            NumberSource::Input(_, name) => format!("input {name}"),
        };
        let error = |problem: String| error(format!("has {name} {problem}"));
        if let (Must::Positive, NumberSource::Input(place, _)) = (must, given) {
            check_scales(known.constant(*place)).map_err(error)?;
        } else if let Some(numbers) = numbers(node, opset, *given, known) {
            must.check(&numbers, node, known).map_err(error)?;
        }
    }
    fitting::check(node, opset, known).map_err(error)
}

/// What a node gives, or what the operator takes without.
fn numbers(
    node: &NodeProto,
    opset: i64,
    given: NumberSource,
    known: &dyn KnownOperands,
) -> Option<Vec<i64>> {
    match given {
        NumberSource::Attribute(name) => match attribute(node, name) {
            Some(given) if given.ints.is_empty() && given.r#type == INT => Some(vec![given.i]),
            Some(given) => Some(given.ints.clone()),
            None => {
                let version = attributes::version("", &node.op_type, opset)?;
                let default = version.attribute(name)?.default?.parse().ok()?;
                Some(vec![default])
            }
        },
        NumberSource::Input(place, _) => {
            node.input.get(place).filter(|input| !input.is_empty())?;
            let constant = known.constant(place)?;
            let numbers = constant.cast_to::<i64>().ok()?;
            Some(numbers.try_as_plain_ram().ok()?.as_slice::<i64>().ok()?.to_vec())
        }
    }
}

fn attribute<'a>(node: &'a NodeProto, name: &str) -> Option<&'a AttributeProto> {
    node.attribute.iter().find(|given| given.name == name)
}

fn check_scales(scales: Option<Arc<Tensor>>) -> Result<(), String> {
    let Some(scales) = scales.and_then(|scales| Some(scales.cast_to::<f64>().ok()?.into_owned()))
    else {
        return Ok(());
    };
    let Ok(view) = scales.try_as_plain_ram() else { return Ok(()) };
    let mut numbers = view.as_slice::<f64>().unwrap_or_default().iter();
    match numbers.find(|scale| !(**scale > 0.0 && scale.is_finite())) {
        Some(scale) => Err(format!("{scale}, where it takes positive numbers")),
        None => Ok(()),
    }
}

const INT: i32 = AttributeType::Int as i32;

/// What each of several numbers may be, and how many there are.
struct NumberBounds {
    each: Vec<(i64, i64)>,
    /// Among how many places no two may be the same.
    distinct: Option<i64>,
    of: String,
}

impl NumberBounds {
    fn all(numbers: &[i64], least: i64, most: i64, of: String) -> NumberBounds {
        NumberBounds { each: vec![(least, most); numbers.len()], distinct: None, of }
    }

    fn of_rank(numbers: &[i64], rank: i64) -> NumberBounds {
        NumberBounds::all(numbers, -rank, rank - 1, format!(" of rank {rank}"))
    }
}

impl Must {
    fn check(
        self,
        numbers: &[i64],
        node: &NodeProto,
        known: &dyn KnownOperands,
    ) -> Result<(), String> {
        let Some(bounds) = self.bounds(numbers, node, known) else { return Ok(()) };
        let NumberBounds { each, distinct, of } = bounds;
        if each.len() != numbers.len() {
            return Err(format!("of {} numbers, where it takes {}{of}", numbers.len(), each.len()));
        }
        for (number, (least, most)) in numbers.iter().zip(each) {
            let is_last = matches!(self, Must::AxisButLast) && *number == -1;
            if !(least..=most).contains(number) || is_last {
                let range = match most {
                    i64::MAX => format!("{least} and more"),
                    _ if is_last => "no last axis".to_owned(),
                    _ if least > most => "none".to_owned(),
                    _ => format!("{least} to {most}"),
                };
                return Err(format!("{number}, where it takes {range}{of}"));
            }
        }
        if let Some(places) = distinct {
            let mut seen: Vec<i64> =
                numbers.iter().map(|number| number.rem_euclid(places)).collect();
            seen.sort_unstable();
            if let Some((twice, _)) = seen.iter().zip(seen.iter().skip(1)).find(|(a, b)| a == b) {
                return Err(format!("with {twice} twice"));
            }
        }
        Ok(())
    }

    fn bounds(
        self,
        numbers: &[i64],
        node: &NodeProto,
        known: &dyn KnownOperands,
    ) -> Option<NumberBounds> {
        let rank = |place: usize| known.shape(place).map(|shape| shape.len() as i64);
        Some(match self {
            Must::Axis => NumberBounds::of_rank(numbers, rank(0)?),
            Must::Axes => {
                let rank = rank(0)?;
                NumberBounds { distinct: Some(rank.max(1)), ..NumberBounds::of_rank(numbers, rank) }
            }
            Must::AxisButLast => {
                let rank = rank(0)?;
                NumberBounds::all(numbers, -rank, rank - 2, format!(" of rank {rank}"))
            }
            Must::Boundary => {
                let rank = rank(0)?;
                NumberBounds::all(numbers, -rank, rank, format!(" of rank {rank}"))
            }
            Must::NewAxes => {
                let rank = rank(0)? + numbers.len() as i64;
                NumberBounds { distinct: Some(rank.max(1)), ..NumberBounds::of_rank(numbers, rank) }
            }
            Must::Permutation | Must::Batch if rank(0).is_none() => {
                NumberBounds::all(numbers, 0, i64::MAX, String::new())
            }
            Must::Permutation => {
                let rank = rank(0)?;
                let each = vec![(0, rank - 1); rank as usize];
                NumberBounds { each, distinct: Some(rank.max(1)), of: format!(" of rank {rank}") }
            }
            Must::Batch => {
                let rank = rank(0)?.min(rank(1)?);
                NumberBounds::all(numbers, 0, rank - 1, format!(" of rank {rank}"))
            }
            // What a list of none has is the default.
            Must::Scanned { .. } if numbers.is_empty() => return None,
            Must::Scanned { outputs, axes } => scanned(node, outputs, axes, known)?,
            Must::Within(least, most) => NumberBounds::all(numbers, least, most, String::new()),
            Must::Length => {
                let axis = attribute(node, "axis").map_or(-1, |axis| axis.i);
                let shape = known.shape(0)?;
                let most = shape.get(from_front(axis, shape.len())?).copied()??;
                NumberBounds::all(numbers, 0, most, String::new())
            }
            Must::Positive => return None,
            Must::Pads => padded(numbers, node, known)?,
            Must::Spatial { times, least } => {
                let most = MOST;
                match known.shape(0).map(|shape| shape.len()) {
                    None => NumberBounds::all(numbers, least, most, String::new()),
                    // Without a number, it has that of the window's operand, or one of each.
                    Some(_) if numbers.is_empty() => return None,
                    Some(rank) => {
                        let each = vec![(least, most); rank.saturating_sub(2) * times];
                        NumberBounds { each, distinct: None, of: format!(" of rank {rank}") }
                    }
                }
            }
        })
    }
}

/// The bounds of paddings. What is cut off must be there.
fn padded(numbers: &[i64], node: &NodeProto, known: &dyn KnownOperands) -> Option<NumberBounds> {
    let has_axes = node.input.get(3).is_some_and(|axes| !axes.is_empty());
    let shape = known.shape(0).filter(|_| !has_axes);
    let sides = match &shape {
        Some(shape) => shape.iter().chain(shape).copied().collect(),
        None => vec![None; numbers.len()],
    };
    let each = sides.iter().map(|dim: &Option<i64>| (-dim.unwrap_or(MOST), MOST));
    let of = shape.map_or_else(String::new, |shape| format!(" of rank {}", shape.len()));
    Some(NumberBounds { each: each.collect(), distinct: None, of })
}

/// The bounds of the axes, or directions, along which a `Scan` goes through its last inputs, or
/// makes its last outputs.
fn scanned(
    node: &NodeProto,
    outputs: bool,
    axes: bool,
    known: &dyn KnownOperands,
) -> Option<NumberBounds> {
    let inputs = usize::try_from(attribute(node, "num_scan_inputs")?.i).ok()?;
    let states = node.input.len().checked_sub(inputs)?;
    let (first, end) = if outputs {
        (states, attribute(node, "body")?.g.as_ref()?.output.len().max(states))
    } else {
        (states, node.input.len())
    };
    let rank = |place: usize| {
        let inner = || known.shape(place).map(|shape| shape.len());
        let rank = if outputs { known.output_rank(place) } else { inner() };
        rank.map(|rank| rank as i64)
    };
    let each = (first..end).map(|place| match rank(place) {
        _ if !axes => (0, 1),
        Some(rank) => (-rank, rank - 1),
        // No tensor has more axes than this, whatever its rank is.
        None => (-MOST_RANK, MOST_RANK - 1),
    });
    Some(NumberBounds { each: each.collect(), distinct: None, of: String::new() })
}

/// How many axes a tensor may have where its rank is not known yet: tract makes a list of as many.
const MOST_RANK: i64 = 64;

#[cfg(test)]
mod tests;
