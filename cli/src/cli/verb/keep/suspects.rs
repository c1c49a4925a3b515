//! Which nodes are likely not to stand a conversion: by what values they have, and by where the
//! error grows.

use std::collections::HashMap;

use tract_onnx::pb::NodeProto;
use tract_onnx::prelude::*;
use tract_onnx_cast::ElementType;

use crate::cli::measure::number::Num;
use crate::cli::tensor::{NamedTensor, cast, rounded};

/// FLOAT values, against a narrow type.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct NarrowedValues {
    largest: f32,
    count: u64,
    overflowed: u64,
    flushed: u64,
}

impl NarrowedValues {
    pub(super) fn add(&mut self, other: &NarrowedValues) {
        self.largest = self.largest.max(other.largest);
        self.count += other.count;
        self.overflowed += other.overflowed;
        self.flushed += other.flushed;
    }

    pub(super) fn overflows(&self) -> bool {
        self.overflowed > 0
    }

    /// That values overflow in a type, or that most become zero, in words.
    pub(super) fn overflow(&self, to: ElementType) -> Option<String> {
        let NarrowedValues { largest, count, overflowed, flushed } = *self;
        if overflowed > 0 {
            return Some(format!(
                "which reaches {}: {overflowed} of {count} overflow in {to}",
                Num(largest.into())
            ));
        }
        (flushed * 2 > count).then(|| format!("of which {flushed} of {count} become 0 in {to}"))
    }
}

/// What a narrow type does to values.
pub(super) fn values_of(tensor: &Tensor, to: ElementType) -> TractResult<NarrowedValues> {
    let back = rounded(ElementType::Float, tensor, to)?;
    let mut values = NarrowedValues::default();
    for (x, y) in floats(tensor)?.iter().zip(floats(&back)?) {
        values.count += 1;
        if x.is_finite() {
            values.largest = values.largest.max(x.abs());
            values.overflowed += u64::from(y.is_infinite());
            values.flushed += u64::from(*x != 0.0 && *y == 0.0);
        }
    }
    Ok(values)
}

/// By how much the relative error grows from a node's inputs to its outputs, by the node's place.
pub(super) fn jumps(
    nodes: &[NodeProto],
    wanted: &HashMap<String, Tensor>,
    got: &[NamedTensor],
) -> TractResult<HashMap<usize, f64>> {
    let mut errors: HashMap<&str, f64> = HashMap::new();
    for got in got {
        if let Some(want) = wanted.get(&got.name)
            && is_floats(got.ty)
        {
            let exact = cast(got.ty, &got.tensor, ElementType::Float)?;
            errors.insert(&got.name, error(want, &exact)?);
        }
    }
    let most = |values: &[String]| {
        values
            .iter()
            .filter_map(|value| errors.get(value.as_str()))
            .fold(0.0, |a: f64, b| a.max(*b))
    };
    let jump = |node: &NodeProto| most(&node.output) - most(&node.input);
    Ok(nodes.iter().enumerate().map(|(place, node)| (place, jump(node))).collect())
}

/// The error of a whole tensor, relative to it; a great one where one side has no number.
fn error(want: &Tensor, got: &Tensor) -> TractResult<f64> {
    const BROKEN: f64 = 1e6;
    if want.shape() != got.shape() {
        return Ok(BROKEN);
    }
    let (mut difference, mut norm) = (0.0, 0.0);
    for (want, got) in floats(want)?.iter().zip(floats(got)?) {
        let (want, got) = (f64::from(*want), f64::from(*got));
        if want != got && !(want.is_nan() && got.is_nan()) {
            if !want.is_finite() || !got.is_finite() {
                return Ok(BROKEN);
            }
            difference += (want - got) * (want - got);
        }
        if want.is_finite() {
            norm += want * want;
        }
    }
    Ok(if difference == 0.0 { 0.0 } else { (difference / norm).sqrt().min(BROKEN) })
}

/// How many values of tensors are not finite, over all sets, by the tensor's name.
pub(super) type Broken = HashMap<String, u64>;

/// Adds those of the outputs of one set.
pub(super) fn add_broken(broken: &mut Broken, outputs: &[NamedTensor]) -> TractResult<()> {
    for output in outputs {
        *broken.entry(output.name.clone()).or_default() += not_finite(output)?;
    }
    Ok(())
}

/// How many values of a tensor of floats are infinite or NaN.
pub(super) fn not_finite(tensor: &NamedTensor) -> TractResult<u64> {
    if !is_floats(tensor.ty) {
        return Ok(0);
    }
    let exact = cast(tensor.ty, &tensor.tensor, ElementType::Float)?;
    Ok(floats(&exact)?.iter().filter(|x| !x.is_finite()).count() as u64)
}

fn is_floats(ty: ElementType) -> bool {
    matches!(ty, ElementType::Float | ElementType::Float16 | ElementType::BFloat16)
}

fn floats(tensor: &Tensor) -> TractResult<&[f32]> {
    tensor.try_as_plain_ram()?.as_slice()
}
