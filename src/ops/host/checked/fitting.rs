//! Sizes of operands that have to fit one another, which tract does not compare: it would compute
//! something else.

use tract_onnx::pb::NodeProto;
use tract_onnx::prelude::*;

use super::known::KnownOperands;
use crate::onnx::node::from_front;

/// The first opset whose `Split` may have a smaller last part.
const UNEVEN: i64 = 18;

/// The first opset whose `Attention` may have a mask that is shorter than its keys.
const SHORT_MASKS: i64 = 24;

/// The first opset whose `Flatten` may have an axis that is counted from the end.
const FROM_THE_END: i64 = 11;

type Shape = TVec<Option<i64>>;

/// Tells what does not fit, as far as shapes and constants are known.
pub(super) fn check(node: &NodeProto, opset: i64, known: &dyn KnownOperands) -> Result<(), String> {
    let problem = match node.op_type.as_str() {
        "Attention" => attention(node, opset, known),
        "Flatten" => flatten(node, opset),
        "RotaryEmbedding" => rotary(node, known),
        "ScatterND" => scatter(known),
        "Split" => split(node, opset, known),
        _ => None,
    };
    problem.map_or(Ok(()), Err)
}

fn int(node: &NodeProto, name: &str) -> Option<i64> {
    node.attribute.iter().find(|given| given.name == name).map(|given| given.i)
}

/// An axis from the front, where it may not be counted from the end.
fn flatten(node: &NodeProto, opset: i64) -> Option<String> {
    let axis = int(node, "axis").filter(|axis| *axis < 0 && opset < FROM_THE_END)?;
    Some(format!("has attribute `axis` {axis}, where it takes 0 and more"))
}

/// As many values as keys, and a mask for all of them where it may not be shorter.
fn attention(node: &NodeProto, opset: i64, known: &dyn KnownOperands) -> Option<String> {
    let length = |place| {
        let shape = known.shape(place)?;
        let axis = shape.len().checked_sub(2)?;
        // Of three axes heads are in the last one.
        *shape.get(if shape.len() == 3 { 1 } else { axis })?
    };
    let (keys, values) = (length(1)?, length(2)?);
    if keys != values {
        return Some(format!("has {keys} keys and {values} values"));
    }
    let past = if gives(node, 4) { length(4)? } else { 0 };
    let (masked, keys) = (known.shape(3)?.last().copied()??, keys.checked_add(past)?);
    let is_short = opset < SHORT_MASKS && masked != keys;
    is_short.then(|| format!("has a mask for {masked} of {keys} keys"))
}

fn gives(node: &NodeProto, place: usize) -> bool {
    node.input.get(place).is_some_and(|input| !input.is_empty())
}

/// Whether sizes may be those that are wanted.
fn fits(shape: &[Option<i64>], wanted: &[Option<i64>]) -> bool {
    let is_same = |(a, b): (&Option<i64>, &Option<i64>)| a.zip(*b).is_none_or(|(a, b)| a == b);
    shape.len() == wanted.len() && shape.iter().zip(wanted).all(is_same)
}

/// A cosine and a sine for each two elements that are turned, of each place of each sequence or, by
/// positions, in a table.
fn rotary(node: &NodeProto, known: &dyn KnownOperands) -> Option<String> {
    let input = known.shape(0)?;
    let last = |shape: &Shape| shape.last().copied().flatten();
    let turned = match int(node, "rotary_embedding_dim").filter(|turned| *turned > 0) {
        Some(turned) => turned,
        None if input.len() == 4 => last(&input)?,
        None => last(&input)?.checked_div(int(node, "num_heads")?)?,
    };
    let half = Some(turned / 2).filter(|half| half * 2 == turned);
    let batch = input.first().copied().flatten();
    let length = *input.get(input.len().checked_sub(2)?)?;
    let wanted: Shape = if gives(node, 3) {
        [None, half].into_iter().collect()
    } else {
        [batch, length, half].into_iter().collect()
    };
    if let Some(positions) = known.shape(3).filter(|_| gives(node, 3)) {
        let wanted = [batch, length];
        if !fits(&positions, &wanted) {
            let (has, wanted) = (text(&positions), text(&wanted));
            return Some(format!("has positions of shape {has}, not {wanted}"));
        }
    }
    let caches = [(1, "cosines"), (2, "sines")].into_iter();
    let mut odd = caches.filter_map(|(place, name)| {
        let held = known.shape(place)?;
        let (held, wanted) = (!fits(&held, &wanted)).then(|| (text(&held), text(&wanted)))?;
        Some(format!(
            "has {name} of shape {held}, not {wanted}, for {turned} elements that are turned"
        ))
    });
    odd.next()
}

/// An update for each index, of the shape of what it stands for.
fn scatter(known: &dyn KnownOperands) -> Option<String> {
    let (data, indices, updates) = (known.shape(0)?, known.shape(1)?, known.shape(2)?);
    let (depth, outer) = indices.split_last()?;
    let rest = data.get(usize::try_from((*depth)?).ok()?..)?;
    let wanted: Shape = [outer, rest].concat().into();
    (!fits(&updates, &wanted))
        .then(|| format!("has updates of shape {}, not {}", text(&updates), text(&wanted)))
}

/// Parts that are the axis together, of one size where nothing gives any.
fn split(node: &NodeProto, opset: i64, known: &dyn KnownOperands) -> Option<String> {
    let shape = known.shape(0)?;
    let axis = from_front(int(node, "axis").unwrap_or(0), shape.len())?;
    let size = (*shape.get(axis)?)?;
    let given = node.attribute.iter().find(|given| given.name == "split");
    let sizes = match (given, node.input.get(1).filter(|input| !input.is_empty())) {
        (Some(given), _) => given.ints.clone(),
        (None, Some(_)) => {
            let constant = known.constant(1)?.cast_to::<i64>().ok()?.into_owned();
            constant.try_as_plain_ram().ok()?.as_slice::<i64>().ok()?.to_vec()
        }
        (None, None) => {
            let parts = i64::try_from(node.output.len()).ok().filter(|parts| *parts > 0)?;
            let is_uneven = opset < UNEVEN && size % parts != 0;
            return is_uneven.then(|| format!("has an axis of {size} for {parts} equal parts"));
        }
    };
    if node.output.len() > sizes.len() {
        return Some(format!("has parts of {sizes:?} for {} outputs", node.output.len()));
    }
    let sum = sizes.iter().try_fold(0i64, |sum, size| sum.checked_add(*size));
    (sum != Some(size)).then(|| format!("has parts of {sizes:?} of an axis of {size}"))
}

/// A shape for messages, with a `?` where a size is not known.
pub(super) fn text(shape: &[Option<i64>]) -> String {
    let size = |size: &Option<i64>| size.map_or_else(|| "?".into(), |size| size.to_string());
    format!("[{}]", shape.iter().map(size).collect::<Vec<String>>().join(", "))
}
