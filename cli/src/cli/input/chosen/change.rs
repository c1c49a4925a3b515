//! Changes of chosen values, within what an input was taken for.

use tract_onnx::prelude::*;
use tract_onnx_cast::audit::Reach;
use tract_onnx_cast::{ElementType, Family};

use super::random::Ends;
use super::roles::Role;
use super::size_plan::Lengths;
use super::values::{LARGEST, Setting, is_narrow};
use crate::cli::tensor::{elements, of_numbers};

/// How a set is made that nobody gives.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Choice {
    /// By which scales, patterns of masks and conditions go.
    pub(crate) index: usize,
    pub(crate) seed: u64,
    pub(crate) lengths: Lengths,
    pub(crate) changes: Vec<InputChange>,
}

/// How many plain numbers in a row become the same one.
const RUN: usize = 4;

/// A change of an input's values.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct InputChange {
    /// The input's position.
    pub(crate) input: usize,
    pub(crate) kind: ValueChange,
}

/// What becomes of the values. Places and numbers are shares of what there is, so that they mean
/// something in other sizes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum ValueChange {
    /// All are so many times as large.
    Scaled(f64),
    /// From a place on, for a share of the elements, at least one, they are one number.
    Set { start: f64, share: f64, to: TargetNumber },
}

/// A number that values become.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum TargetNumber {
    /// One between the two ends of what is allowed.
    Between(f64),
    /// One of those at which what takes the input does something else.
    Level(usize),
}

/// Whether values of a role may change, and may be scaled.
pub(crate) fn is_changeable(role: &Role, ty: ElementType) -> bool {
    let is_fixed = matches!(
        role,
        Role::Position { .. } | Role::ShapeTarget | Role::Cache { .. } | Role::AddedMask
    );
    !is_fixed && ty.family() != Family::Text
}

pub(crate) fn is_scalable(role: &Role, ty: ElementType, ends: Option<Ends>) -> bool {
    let is_float = ty.is_float();
    *role == Role::Plain && is_float && ends.is_none() && !is_narrow(ty)
}

/// The tensor with its values changed. Fails when it is not of its type's carrier.
pub(crate) fn changed<'a>(
    tensor: Tensor,
    ty: ElementType,
    ends: Option<Ends>,
    (role, around): (&Role, &Setting),
    changes: impl Iterator<Item = &'a ValueChange>,
) -> TractResult<Tensor> {
    let mut changes = changes.peekable();
    if changes.peek().is_none() || !is_changeable(role, ty) {
        return Ok(tensor);
    }
    let shape = tensor.shape().to_vec();
    let mut values: Vec<f64> = elements(ty, &tensor)?;
    let (low, high) = allowed(role, ty, ends, around);
    let row = shape.iter().rev().copied().find(|size| *size > 1).unwrap_or(1);
    let is_whole = !ty.is_float() || *role == Role::Mask;
    for change in changes {
        match *change {
            ValueChange::Scaled(by) => {
                values.iter_mut().for_each(|value| *value = (*value * by).clamp(low, high));
            }
            ValueChange::Set { start, share, to } => {
                let count = values.len();
                let start = ((start * count as f64) as usize).min(count.saturating_sub(1));
                let levels = around.levels.iter().filter(|level| (low..=high).contains(*level));
                let levels: Vec<f64> = levels.copied().collect();
                let (value, most) = match to {
                    TargetNumber::Level(nth) if !levels.is_empty() => {
                        (levels.get(nth % levels.len()).copied().unwrap_or(0.0), usize::MAX)
                    }
                    // A long run of the largest numbers is nothing that somebody would give.
                    TargetNumber::Between(level) if *role == Role::Plain => {
                        (low + level * (high - low), RUN)
                    }
                    TargetNumber::Between(level) => (low + level * (high - low), usize::MAX),
                    TargetNumber::Level(_) => continue,
                };
                let length = ((share * count as f64) as usize).clamp(1, most);
                let value = if is_whole { value.round() } else { value };
                for (place, held) in values.iter_mut().enumerate().skip(start).take(length) {
                    // What every place of a mask may look at stays.
                    if *role != Role::Mask || place % row != 0 {
                        *held = value;
                    }
                }
            }
        }
    }
    of_numbers(ty, &shape, &values)
}

/// The smallest and the largest value that an input may have.
fn allowed(role: &Role, ty: ElementType, ends: Option<Ends>, around: &Setting) -> (f64, f64) {
    if let Some(ends) = ends {
        return ends;
    }
    let signed = (ty.code_mask() >> u32::from(ty.family() == Family::Signed)) as f64;
    let is_signed = ty.family() == Family::Signed;
    let whole_type = (if is_signed { -signed - 1.0 } else { 0.0 }, signed);
    match role {
        Role::Index { below, shift, .. } => {
            let (below, shift) = ((around.bound)(*below).max(1) as f64, *shift as f64);
            (-shift, below - 1.0 - shift)
        }
        Role::Mask | Role::Condition => (0.0, 1.0),
        Role::Times => (1.0, 4.0),
        Role::Length { most } => (1.0, (around.bound)(*most).max(1) as f64),
        Role::Threshold { limit } => ((limit - 3).min(0) as f64, (limit + 3) as f64),
        Role::Within { low, high } => (*low, *high),
        Role::WholeType if ty.is_float() => {
            let most = Reach::of(ty).map_or(1.0, |reach| reach.limits().1.rounded());
            (-most, most)
        }
        Role::WholeType => whole_type,
        _ => match ty.family() {
            Family::Float(format) => {
                let most = if is_narrow(ty) || around.is_tame { 4.0 } else { LARGEST };
                (if format.is_signed() { -most } else { 0.0 }, most)
            }
            Family::Bool => (0.0, 1.0),
            Family::Signed if ty.bits() < 32 => (whole_type.0.max(-11.0), signed.min(10.0)),
            _ => (0.0, signed.min(around.most() as f64)),
        },
    }
}
