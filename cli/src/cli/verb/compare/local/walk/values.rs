//! The twins that values begin with: a constant's or an input's, in the wider type, with no doubt
//! or with that of its type's rounding; and a reference's value in the type that the conversion has
//! in its place.

use std::collections::HashMap;

use tract_onnx_cast::interpreter::{NodeRun, ObservedTensor, SharedTensor};
use tract_onnx_cast::{ElementType, Family};

use super::super::doubt::{Doubt, Twin, UNIFORM};
use super::super::numbers::{
    cast, is_computed_in, largest, numbers, peak, rounding, smallest, tensor, wide,
};
use super::super::trace::Trace;
use crate::cli::measure::reach::{STANDS_FOR_INFINITY, is_cut_mask};

/// From this size on a constant of 8 bits or fewer is a quantised weight.
const WEIGHT: usize = 64;
/// How many roundings, at the largest value, bodies may make of what they capture.
pub(super) const INSIDE: f64 = 32.0;
/// A mask may be cut off to this magnitude.
const LEAST_OF_MASK: f64 = 1e3;

/// What a node that makes no floats was given, without doubt where that is all that the reference
/// had: no tie then falls the other way.
pub(super) fn undoubted(
    node: &NodeRun,
    twins: &[Option<Twin>],
    outputs: &[Option<ObservedTensor>],
) -> Vec<Option<Twin>> {
    let is_float = |made: &ObservedTensor| made.element_type.is_float();
    let is_same = |(input, twin): (&Option<ObservedTensor>, &Option<Twin>)| match (input, twin) {
        (Some(input), Some(twin)) => {
            let is_alike = twin.value.0 == input.element_type && twin.value.1 == input.tensor;
            is_alike
                && matches!(twin.doubt, Doubt::Relative(share) if share <= 4.0 * rounding(twin.value.0))
        }
        (input, _) => input.is_none(),
    };
    let is_given = node.inputs.iter().zip(twins).all(is_same);
    if !is_given || node.has_bodies() || outputs.iter().flatten().any(is_float) {
        return twins.to_vec();
    }
    let exact = |twin: &Twin| Twin::new(twin.value.clone(), Doubt::Relative(0.0));
    twins.iter().map(|twin| twin.as_ref().map(exact)).collect()
}

/// Whether a node takes an input in the type of the others, and is no operator that measures by it.
fn is_operand(node: &NodeRun, place: usize, input: &ObservedTensor) -> bool {
    is_computed_in(input.element_type) && (place == 0 || node.op_type != "Resize")
}

/// The twins with all operands in DOUBLE, where one is in DOUBLE that the conversion has in another
/// type, or the other way round.
pub(super) fn in_double(node: &NodeRun, twins: &[Option<Twin>]) -> Option<Vec<Option<Twin>>> {
    let both = || node.inputs.iter().zip(twins);
    let types =
        || both().filter_map(|(input, twin)| Some((input.as_ref()?, twin.as_ref()?.value.0)));
    let is_double = |ty| ty == ElementType::Double;
    let is_mixed = types().any(|(input, ty)| is_double(ty) != is_double(input.element_type));
    if !is_mixed || !types().any(|(_, ty)| is_double(ty)) {
        return None;
    }
    let widened = |(place, (input, twin)): (usize, (&Option<ObservedTensor>, &Option<Twin>))| {
        let (Some(input), Some(twin)) = (input, twin) else { return Some(twin.clone()) };
        if !is_operand(node, place, input) {
            return Some(Some(twin.clone()));
        }
        let value = cast(&twin.value, ElementType::Double)?;
        Some(Some(Twin { value, ..twin.clone() }))
    };
    both().enumerate().map(widened).collect()
}

/// The twins in FLOAT where the conversion has its inputs in FLOAT or less, with what rounding them
/// to it adds to their doubt.
pub(super) fn in_own_types(node: &NodeRun, twins: Vec<Option<Twin>>) -> Vec<Option<Twin>> {
    let narrowed = |(input, twin): (&Option<ObservedTensor>, Option<Twin>)| {
        let (input, twin) = (input.as_ref()?, twin?);
        let ty = wide(input.element_type);
        if twin.value.0 != ElementType::Double || ty != ElementType::Float {
            return Some(twin);
        }
        let values = numbers(&twin.value)?.into_iter().zip(twin.doubts());
        let doubts: Vec<f64> = values.map(|(x, doubt)| doubt + x.abs() * rounding(ty)).collect();
        let (value, doubt) = (cast(&twin.value, ty)?, Doubt::Each(doubts.into()));
        Some(Twin { value, doubt, ..twin })
    };
    node.inputs.iter().zip(twins).map(narrowed).collect()
}

/// Whether an operator makes codes by a scale and a zero point, or values of them.
pub(super) fn is_quantizer(op: &str) -> bool {
    matches!(op, "QuantizeLinear" | "DequantizeLinear")
}

/// By how much of themselves values are rounded that a model casts to a narrower type.
pub(super) fn narrowed(trace: &Trace) -> HashMap<&str, f64> {
    let mut narrowed: HashMap<&str, f64> = HashMap::new();
    for ran in trace.nodes.iter().filter(|ran| ran.op == "Cast") {
        let Some((input, output)) = ran.inputs.first().zip(ran.outputs.first()) else { continue };
        let ty = trace.first(output).map(|(ty, _)| *ty);
        let ty = ty.filter(|ty| ty.bits() <= 16 && ty.is_float());
        if let Some(ty) = ty {
            let unit = narrowed.entry(input).or_default();
            *unit = unit.max(rounding(ty));
        }
    }
    narrowed
}

/// Whether both values stand for one infinity, in the range that their types have, or where masks
/// are cut off.
#[inline(always)]
pub(super) fn is_mask(got: f64, want: f64, cuts_masks: bool) -> bool {
    let is_infinite =
        (want.abs() >= STANDS_FOR_INFINITY) & (got * want > 0.0) & (got.abs() >= LEAST_OF_MASK);
    is_infinite | cuts_masks & is_cut_mask(got, want)
}

/// A value in the type in which nothing more is rounded, with the doubt that its own type leaves.
/// Converters cut digits of constants off, and keep small ones from vanishing. Codes are integers
/// that a node dequantises, and weights of few bits.
pub(super) fn widened(value: &SharedTensor, is_constant: bool, is_code: bool) -> Option<Twin> {
    let ty = value.0;
    let is_code = is_code || ty.bits() <= 8 && value.1.len() >= WEIGHT;
    let doubt = match ty.family() {
        Family::Float(_) if is_constant && ty.bits() <= 8 => {
            Doubt::Rounded { share: rounding(ty), least: smallest(ty) }
        }
        Family::Float(_) if is_constant && ty.bits() <= 16 => {
            Doubt::Rounded { share: 2.0 * rounding(ty), least: 2.0 * smallest(ty) }
        }
        Family::Float(_) if is_constant => Doubt::Relative(4.0 * rounding(ty)),
        Family::Float(_) if wide(ty) != ty => Doubt::Relative(rounding(ty)),
        Family::Signed | Family::Unsigned if is_constant && is_code => Doubt::Same(0.5),
        _ => Doubt::Relative(0.0),
    };
    let is_half_a_step = is_constant && ty.bits() <= 8 || matches!(doubt, Doubt::Same(_));
    let share = if is_half_a_step { UNIFORM } else { 1.0 };
    Some(Twin { value: cast(value, wide(ty))?, doubt, share })
}

/// The reference's tensor in the conversion's type. Finite values that the type cannot hold stay
/// as the conversion has them, or end where it ends: what is behind is to be judged by itself.
pub(super) fn held_in(want: &SharedTensor, made: &SharedTensor) -> Option<SharedTensor> {
    let cast = cast(want, made.0)?;
    let end = largest(made.0);
    if want.0 == made.0 || peak(want) <= end {
        return Some(cast);
    }
    let (wanted, got) = (numbers(want)?, numbers(made)?);
    let held = |(want, got): (f64, f64)| match want {
        want if !want.is_finite() || want.abs() <= end => want,
        want if got.is_finite() && got * want > 0.0 => got,
        want => end.copysign(want),
    };
    let values: Vec<f64> = wanted.into_iter().zip(got).map(held).collect();
    tensor(made.0, made.1.shape(), &values)
}

/// How many roundings are allowed to what has been in a sequence or an optional, whose twin is not
/// known.
const IN_SEQUENCE: f64 = 4.0;

/// Whether a node takes tensors out of a sequence or an optional.
pub(super) fn is_of_sequence(node: &NodeRun) -> bool {
    let takes = ["ConcatFromSequence", "OptionalGetElement", "SequenceAt"];
    takes.contains(&node.op_type) && node.inputs.first().is_some_and(Option::is_none)
}

/// The doubt of what has been in one: it may have been rounded to the coarsest type of the
/// conversion, and cast back before it was put in.
pub(super) fn of_sequence(value: &SharedTensor, coarsest: ElementType) -> Doubt {
    let (unit, least) = (IN_SEQUENCE * rounding(coarsest), 2.0 * smallest(coarsest));
    let values = numbers(value).unwrap_or_default();
    let end = largest(coarsest);
    let doubt = |x: &f64| match x.abs() {
        // What is at the end of the type may have been beyond it.
        size if size >= end => f64::INFINITY,
        size if size.is_finite() => size * unit + least,
        _ => 0.0,
    };
    Doubt::Each(values.iter().map(doubt).collect::<Vec<f64>>().into())
}

/// The type that rounds most of one and of those that a node makes.
pub(super) fn coarser(ty: ElementType, outputs: &[Option<ObservedTensor>]) -> ElementType {
    let made = outputs.iter().flatten().map(|output| output.element_type);
    let most = made.filter(|ty| is_computed_in(*ty)).chain([ty]);
    most.max_by(|x, y| rounding(*x).total_cmp(&rounding(*y))).unwrap_or(ty)
}

/// The doubt of what a node makes of which no more is known.
pub(super) fn rough(
    node: &NodeRun,
    output: &ObservedTensor,
    twin: &Twin,
    coarsest: ElementType,
) -> Doubt {
    let unit = rounding(output.element_type);
    if node.has_bodies() {
        Doubt::Same(INSIDE * unit * peak(&twin.value))
    } else if is_of_sequence(node) {
        of_sequence(&twin.value, coarsest)
    } else {
        Doubt::Relative(unit)
    }
}
