//! Whether a quantiser and what takes its codes back belong together, and whether its range covers
//! the values.

use std::collections::HashMap;

use tract_onnx_cast::interpreter::{NodeRun, ObservedTensor, SharedTensor};

use super::doubt::Twin;
use super::numbers::numbers;
use super::trace::full_name;
use crate::cli::found::verdict::{Culprit, FaultKind};
use crate::cli::measure::number::Num;

/// What quantisers took, by the names of their codes, and which of them are wrong.
#[derive(Default)]
pub(super) struct Quantisers {
    taken: HashMap<String, Taken>,
    pub(super) culprits: Vec<Culprit>,
}

/// What a quantiser took.
struct Taken {
    node: String,
    values: Vec<f64>,
    codes: SharedTensor,
}

/// A step, and a little for the rounding of the scale and of the values.
const STEP: f64 = 1.02;
/// A quantiser may cut off so much of its values' size.
const CUT_OFF: f64 = 0.1;

impl Quantisers {
    /// Holds values that come back against those that were taken.
    pub(super) fn see(
        &mut self,
        node: &NodeRun,
        twins: &[Option<Twin>],
        made: &[Option<SharedTensor>],
        outputs: &[Option<ObservedTensor>],
    ) {
        let first = || Some((twins.first()?.as_ref()?, made.first()?.as_ref()?));
        let Some((twin, made)) = first() else { return };
        let name = |tensor: &Option<ObservedTensor>| tensor.as_ref().map(full_name);
        match node.op_type {
            "QuantizeLinear" => {
                let Some(output) = outputs.first().and_then(name) else { return };
                let Some(values) = numbers(&twin.value) else { return };
                let taken = Taken { node: node.name.into(), values, codes: made.clone() };
                self.taken.insert(output, taken);
            }
            "DequantizeLinear" => {
                let input = node.inputs.first().and_then(name);
                let taken = input.and_then(|input| self.taken.get(&input));
                let tensor = outputs.first().and_then(name).unwrap_or_default();
                let culprit = taken.and_then(|taken| wrong(node, twins, made, taken));
                if let Some(culprit) = culprit.map(|culprit| Culprit { tensor, ..culprit })
                    && self.culprits.iter().all(|other| other.node != culprit.node)
                {
                    self.culprits.push(culprit);
                }
            }
            _ => {}
        }
    }
}

/// What is wrong with values that come back, where one scale is that of all.
fn wrong(
    node: &NodeRun,
    twins: &[Option<Twin>],
    made: &SharedTensor,
    taken: &Taken,
) -> Option<Culprit> {
    let scale = numbers(&twins.get(1)?.as_ref()?.value)?;
    let ([scale], codes, got) = (scale.as_slice(), numbers(&taken.codes)?, numbers(made)?) else {
        return None;
    };
    if taken.codes.0.bits() > 8 || got.len() != taken.values.len() {
        return None;
    }
    let (low, high) = codes
        .iter()
        .fold((f64::MAX, f64::MIN), |(low, high), code| (low.min(*code), high.max(*code)));
    let (mut worst, mut cut_off, mut power) = ((0.0, 0.0, 0.0), 0.0, 0.0);
    for ((want, got), code) in taken.values.iter().zip(&got).zip(&codes) {
        let error = (want - got).abs();
        let is_end = *code == low || *code == high;
        power += want * want;
        cut_off += if is_end && error > scale * STEP { error * error } else { 0.0 };
        if !is_end && error > worst.0 {
            worst = (error, *want, *got);
        }
    }
    let culprit = |node: &str, op: &str, kind, error, bound, text| Culprit {
        node: node.into(),
        op: op.into(),
        tensor: String::new(),
        local_error: Num(error),
        bound: Num(bound),
        kind,
        text,
    };
    let (error, want, got) = worst;
    let step = scale.abs() * STEP;
    if error > step {
        let text = format!(
            "it makes {} of what quantiser `{}` was given as {}, more than a step of {} away: \
             the scales or zero points of the two are not one",
            Num(got),
            taken.node,
            Num(want),
            Num(*scale)
        );
        let kind = FaultKind::ZeroPoint;
        return Some(culprit(node.name, "DequantizeLinear", kind, error, step, text));
    }
    let share = (cut_off / power).sqrt();
    (share > CUT_OFF).then(|| {
        let text = format!("its range cuts off {:.0} % of its values' size", share * 100.0);
        let kind = FaultKind::Scale;
        culprit(&taken.node, "QuantizeLinear", kind, share, CUT_OFF, text)
    })
}
