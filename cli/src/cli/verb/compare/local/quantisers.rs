//! Whether a quantiser and what takes its codes back belong together, and whether its range covers
//! the values.

use std::collections::HashMap;

use tract_onnx_cast::Family;
use tract_onnx_cast::interpreter::{NodeRun, ObservedTensor, SharedTensor};

use super::doubt::Twin;
use super::numbers::numbers;
use super::trace::full_name;
use crate::cli::found::verdict::{Culprit, FaultKind};
use crate::cli::measure::number::Num;
use crate::cli::work::spelt::label;

/// What quantisers took, by the names of their codes, and which of them are wrong.
#[derive(Default)]
pub(super) struct Quantisers {
    taken: HashMap<String, Taken>,
    pub(super) wrong: Vec<Wrong>,
}

/// A quantiser that is wrong by itself.
pub(super) struct Wrong {
    pub(super) culprit: Culprit,
    /// What was quantised.
    pub(super) value: String,
    /// Whether its range cuts values off, and but few other than those of the sign that it lacks.
    pub(super) is_cut_off: bool,
    pub(super) is_cut_at_zero: bool,
}

/// What a quantiser took.
struct Taken {
    node: String,
    name: String,
    values: Vec<f64>,
    /// The values of the least and the greatest code.
    ends: (f64, f64),
    codes: SharedTensor,
}

impl Taken {
    fn disagreement(&self, want: f64, got: f64, scale: f64) -> String {
        format!(
            "it makes {} of what quantiser `{}` was given as {}, more than a step of {} away: \
             the scales or zero points of the two are not one",
            Num(got),
            self.node,
            Num(want),
            Num(scale)
        )
    }

    /// How far the ends of a range are from the values'.
    fn misfit(&self, ends: (f64, f64)) -> f64 {
        let values = self.values.iter().filter(|x| x.is_finite());
        let (low, high) =
            values.fold((0.0, 0.0), |(low, high): (f64, f64), x| (low.min(*x), high.max(*x)));
        let low = if ends.0 == 0.0 { 0.0 } else { low };
        (ends.0 - low).abs() + (ends.1 - high).abs()
    }
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
                let name = node.inputs.first().and_then(name).unwrap_or_default();
                let ends = ends(twins, made);
                let node = label(node.name, node.op_type).into();
                let taken = Taken { node, name, values, ends, codes: made.clone() };
                self.taken.insert(output, taken);
            }
            "DequantizeLinear" => {
                let input = node.inputs.first().and_then(name);
                let taken = input.and_then(|input| self.taken.get(&input));
                let tensor = outputs.first().and_then(name).unwrap_or_default();
                let wrong = taken.and_then(|taken| wrong(node, twins, made, taken));
                if let Some(mut wrong) = wrong
                    && self.wrong.iter().all(|other| other.culprit.node != wrong.culprit.node)
                {
                    wrong.culprit.tensor = tensor;
                    self.wrong.push(wrong);
                }
            }
            _ => {}
        }
    }
}

/// The values of the least and the greatest code.
fn ends(twins: &[Option<Twin>], codes: &SharedTensor) -> (f64, f64) {
    let number = |place: usize| {
        let twin = twins.get(place).and_then(Option::as_ref);
        twin.and_then(|twin| numbers(&twin.value)?.first().copied())
    };
    let (scale, zero) = (number(1).unwrap_or(1.0), number(2).unwrap_or(0.0));
    let size = 2f64.powi(codes.0.bits() as i32);
    let low = if codes.0.family() == Family::Signed { -size / 2.0 } else { 0.0 };
    ((low - zero) * scale, (low + size - 1.0 - zero) * scale)
}

/// What is wrong with values that come back, where one scale is that of all.
fn wrong(
    node: &NodeRun,
    twins: &[Option<Twin>],
    made: &SharedTensor,
    taken: &Taken,
) -> Option<Wrong> {
    let scale = numbers(&twins.get(1)?.as_ref()?.value)?;
    let ([scale], codes, got) = (scale.as_slice(), numbers(&taken.codes)?, numbers(made)?) else {
        return None;
    };
    if taken.codes.0.bits() > 8 || got.len() != taken.values.len() {
        return None;
    }
    let (low, high) = codes.iter().fold((f64::MAX, f64::MIN), |(x, y), c| (x.min(*c), y.max(*c)));
    let (mut worst, mut cut_off, mut at_zero, mut power) = ((0.0, 0.0, 0.0), 0.0, 0.0, 0.0);
    for ((want, got), code) in taken.values.iter().zip(&got).zip(&codes) {
        let error = (want - got).abs();
        let is_end = *code == low || *code == high;
        power += want * want;
        if is_end && error > scale * STEP {
            *(if *got == 0.0 { &mut at_zero } else { &mut cut_off }) += error * error;
        }
        if !is_end && error > worst.0 {
            worst = (error, *want, *got);
        }
    }
    let wrong = |(node, op): (&str, &str), kind, error, bound, text| Wrong {
        culprit: Culprit {
            node: node.into(),
            op: op.into(),
            tensor: String::new(),
            local_error: Num(error),
            bound: Num(bound),
            kind,
            text,
        },
        value: taken.name.clone(),
        is_cut_at_zero: kind == FaultKind::Scale && (cut_off / power).sqrt() <= CUT_OFF,
        is_cut_off: kind == FaultKind::Scale,
    };
    let (error, want, got) = worst;
    let step = scale.abs() * STEP;
    if error > step {
        let text = taken.disagreement(want, got, *scale);
        let is_taker = taken.misfit(taken.ends) <= taken.misfit(ends(twins, &taken.codes));
        let at = match is_taker {
            true => (label(node.name, node.op_type), "DequantizeLinear"),
            false => (&*taken.node, "QuantizeLinear"),
        };
        return Some(wrong(at, FaultKind::ZeroPoint, error, step, text));
    }
    let share = ((cut_off + at_zero) / power).sqrt();
    (share > CUT_OFF).then(|| {
        let text = format!("its range cuts off {:.0} % of its values' size", share * 100.0);
        wrong((&*taken.node, "QuantizeLinear"), FaultKind::Scale, share, CUT_OFF, text)
    })
}
