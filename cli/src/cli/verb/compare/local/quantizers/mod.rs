//! Whether a quantiser and what takes its codes back belong together, and whether its range covers
//! the values, as far as the reference does not cut them off itself (`cuts`).

mod cuts;

use std::collections::{HashMap, HashSet};

use tract_onnx_cast::interpreter::{NodeRun, ObservedTensor, SharedTensor};
use tract_onnx_cast::{ElementType, Family};

use super::doubt::Twin;
use super::links::Links;
use super::numbers::{gap, largest, numbers};
use super::trace::{Ran, Trace, full_name};
use crate::cli::found::verdict::{Culprit, FaultKind};
use crate::cli::measure::number::Num;
use crate::cli::measure::weight::ends::{CUT_OFF, EndCodes};
use cuts::{Cut, Cuts, Lost};

/// What quantisers took, by the names of their codes, and which of them are wrong.
pub(super) struct Quantizers<'a> {
    cuts: Cuts<'a>,
    taken: HashMap<String, QuantizerInput>,
    /// Codes that are others in another shape, and whether they stand in their order.
    shaped: HashMap<String, (String, bool)>,
    wrong: Vec<Wrong>,
}

/// A quantiser that is wrong by itself.
pub(super) struct Wrong {
    pub(super) culprit: Culprit,
    /// What was quantised.
    pub(super) value: String,
    /// Whether its range cuts values off, and but few other than those of the sign that it lacks.
    pub(super) is_cut_off: bool,
    pub(super) is_cut_at_zero: bool,
    /// Whether the values are of inputs that nobody gave, for which it was not calibrated.
    pub(super) is_made_up: bool,
    /// Its codes, and what takes them back.
    codes: String,
    taker: String,
}

/// A Relu cuts off less of what is on both sides of 0.
const NEARLY_ALL: f64 = 0.95;

/// Says of quantisers which cut values off that these are of inputs that nobody gave; a range from
/// 0 lacks what makes values so, unless it is of those that are `holding` elsewhere, or lacks all.
pub(super) fn say_made_up(wrong: &mut [Wrong], holding: &HashSet<String>) {
    for wrong in wrong {
        let is_part = wrong.culprit.local_error.0 < NEARLY_ALL;
        let is_held = holding.contains(&wrong.culprit.node);
        wrong.is_made_up = wrong.is_cut_off && !(wrong.is_cut_at_zero && is_part && !is_held);
    }
}

/// What a quantiser took.
struct QuantizerInput {
    node: String,
    name: String,
    value: SharedTensor,
    values: Vec<f64>,
    /// The values of the least and the greatest code.
    ends: (f64, f64),
    codes: SharedTensor,
    /// Whether something takes the codes back by the scale and the zero point that they were made
    /// by.
    is_taken_back: bool,
}

impl QuantizerInput {
    fn disagreement(&self, taker: &str, (want, got): (f64, f64), scale: f64) -> String {
        format!(
            "`{taker}` makes {} of what quantiser `{}` was given as {}, more than a step of {} away: \
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
        // Calibrators take the values of several samples: those of one have their zero where theirs
        // have.
        let zero = |low: f64, high: f64| if high > low { -low / (high - low) } else { 0.0 };
        let moved = (zero(ends.0, ends.1) - zero(low, high)).abs();
        let low = if ends.0 == 0.0 { 0.0 } else { low };
        // A range that was calibrated covers the values, and has room for others.
        let off = |short: f64| if short > 0.0 { 2.0 * short } else { -short };
        let apart = off(ends.0 - low) + off(high - ends.1);
        apart / (ends.1 - ends.0) + 2.0 * moved
    }
}

/// What gives codes another shape, and what makes others of them by the same scale.
const IN_ORDER: [&str; 5] = ["Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"];
const MOVING: [&str; 4] = ["Gather", "MaxPool", "Slice", "Transpose"];

/// A step, and a little for the rounding of the scale and of the values.
const STEP: f64 = 1.02;

impl<'a> Quantizers<'a> {
    pub(super) fn new(reference: &'a Trace, links: &'a Links) -> Quantizers<'a> {
        let cuts = Cuts::new(reference, links);
        Quantizers { cuts, taken: HashMap::new(), shaped: HashMap::new(), wrong: vec![] }
    }

    /// Cuts what a quantiser is given as the reference cuts it, where its codes are then the same:
    /// they stand for that, and nothing of it is cut off by their range.
    pub(super) fn cut(
        &self,
        node: &NodeRun,
        twins: &mut [Option<Twin>],
        made: &[Option<SharedTensor>],
    ) {
        if let (Some(cut), Some(twin)) = (self.cut_twin(node, twins, made), twins.first_mut()) {
            *twin = Some(cut);
        }
    }

    fn cut_twin(
        &self,
        node: &NodeRun,
        twins: &[Option<Twin>],
        made: &[Option<SharedTensor>],
    ) -> Option<Twin> {
        let input = node.inputs.first()?.as_ref().filter(|_| node.op_type == "QuantizeLinear")?;
        let (twin, made) = (twins.first()?.as_ref()?, made.first()?.as_ref()?);
        let value = (&*full_name(input), &twin.value);
        let cuts = self.cuts.of(value, (None, ends(twins, made)))?;
        let cut = cuts.first().filter(|first| cuts.iter().all(|cut| cut == *first))?;
        let value = cut.of_all(&twin.value)?;
        if value.1 == twin.value.1 {
            return None;
        }
        let mut given: Vec<Option<SharedTensor>> =
            twins.iter().map(|twin| Some(twin.as_ref()?.value.clone())).collect();
        *given.first_mut()? = Some(value.clone());
        let codes = node.run_on(&given).ok()?.into_iter().next()??;
        let is_same = codes.0 == made.0 && codes.1.as_bytes() == made.1.as_bytes();
        is_same.then(|| Twin { value, ..twin.clone() })
    }

    /// Those that are wrong. Where other nodes take the codes back as they were made, the one that
    /// does not is to blame.
    pub(super) fn wrong(self) -> Vec<Wrong> {
        let Quantizers { taken, mut wrong, .. } = self;
        for wrong in wrong.iter_mut().filter(|wrong| !wrong.is_cut_off) {
            if taken.get(&wrong.codes).is_some_and(|taken| taken.is_taken_back) {
                (wrong.culprit.node, wrong.culprit.op) =
                    (wrong.taker.clone(), "DequantizeLinear".into());
            }
        }
        wrong
    }

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
        self.cuts.see(node, (node.inputs.first().and_then(name), outputs.first().and_then(name)));
        match node.op_type {
            "QuantizeLinear" => {
                let Some(output) = outputs.first().and_then(name) else { return };
                let Some(values) = numbers(&twin.value) else { return };
                let name = node.inputs.first().and_then(name).unwrap_or_default();
                let taken = QuantizerInput {
                    node: node.name.into(),
                    name,
                    value: twin.value.clone(),
                    values,
                    ends: ends(twins, made),
                    codes: made.clone(),
                    is_taken_back: false,
                };
                self.taken.insert(output, taken);
            }
            "DequantizeLinear" => {
                let input = node.inputs.first().and_then(name);
                let input = input.unwrap_or_default();
                let (input, in_order) = self.shaped.get(&input).cloned().unwrap_or((input, true));
                let Some(taken) = self.taken.get_mut(&input) else { return };
                let tensor = outputs.first().and_then(name).unwrap_or_default();
                let found = if in_order {
                    let cuts = |is_much: bool| {
                        let (value, back) = ((&*taken.name, &taken.value), Some(&*tensor));
                        let by_values = || self.cuts.by_values(&taken.value).filter(|_| is_much);
                        match self.cuts.of(value, (back, taken.ends)) {
                            Some(cuts) => cuts,
                            None => by_values().into_iter().collect(),
                        }
                    };
                    wrong((node, twins), made, taken, cuts)
                } else {
                    wrong_range(node, twins, taken)
                };
                let Some(mut wrong) = found else {
                    taken.is_taken_back = true;
                    return;
                };
                if self.wrong.iter().all(|other| other.culprit.node != wrong.culprit.node) {
                    (wrong.culprit.tensor, wrong.codes) = (tensor, input);
                    self.wrong.push(wrong);
                }
            }
            op if IN_ORDER.contains(&op) || MOVING.contains(&op) => {
                let names = node.inputs.first().and_then(name).zip(outputs.first().and_then(name));
                let Some((input, output)) = names else { return };
                let (first, in_order) = self.shaped.get(&input).cloned().unwrap_or((input, true));
                if self.taken.contains_key(&first) {
                    self.shaped.insert(output, (first, in_order && IN_ORDER.contains(&op)));
                }
            }
            _ => {}
        }
    }
}

/// A scale by so many times another may be a choice of its own.
const BY_CHOICE: f64 = 16.0;

/// The biases of quantised products whose codes have another scale than the codes of the two
/// factors have together. Kernels on codes add a bias to the products, and know no scale of its
/// own.
pub(super) fn biases(trace: &Trace) -> Vec<Culprit> {
    let scales = |value: &String| {
        let ran = trace.maker(value).filter(|ran| ran.op == "DequantizeLinear")?;
        Some((ran, numbers(trace.constant(ran.inputs.get(1)?)?)?))
    };
    let of_product = |product: &Ran| {
        let [x, weight, bias, ..] = product.inputs.as_slice() else { return None };
        let (ran, of_bias) = scales(bias).filter(|_| matches!(&*product.op, "Conv" | "Gemm"))?;
        let (of_x, of_weight) = (*scales(x)?.1.first()?, scales(weight)?.1);
        let codes = trace.form(ran.inputs.first()?)?.0;
        let ratio = |(place, scale): (usize, &f64)| {
            Some(scale / (of_x * of_weight.get(place).or(of_weight.last())?))
        };
        let ratios = of_bias.iter().enumerate().map(ratio).collect::<Option<Vec<f64>>>()?;
        let by = |ratio: &f64| ratio.ln().abs();
        let ratio = ratios.into_iter().max_by(|x, y| by(x).total_cmp(&by(y)))?;
        let is_other = by(&ratio) > STEP.ln() && by(&ratio) < BY_CHOICE.ln();
        let is_wrong = is_other && codes == ElementType::Int32;
        is_wrong.then(|| Culprit {
            node: ran.name.clone(),
            op: ran.op.clone(),
            tensor: bias.clone(),
            local_error: Num(ratio),
            bound: Num(STEP),
            kind: FaultKind::Scale,
            text: format!(
                "its scale is {} times that of the products in {} `{}`, to which its codes are added",
                Num(ratio),
                product.op,
                product.name
            ),
        })
    };
    trace.nodes.iter().filter_map(of_product).collect()
}

/// A weight's codes, and those of them that stand for what lies beyond.
pub(super) struct WeightCodes {
    pub(super) codes: SharedTensor,
    pub(super) ends: EndCodes,
}

impl WeightCodes {
    /// Those that a node takes which makes `got` where `want` was quantised; `None` if it takes no
    /// such codes.
    pub(super) fn of(
        node: &NodeRun,
        want: &SharedTensor,
        got: &SharedTensor,
    ) -> Option<WeightCodes> {
        let codes = node.inputs.first()?.as_ref().filter(|codes| codes.is_constant)?;
        let ends = EndCodes::of(codes.element_type)?;
        let length = codes.tensor.len();
        let is_each = length == want.1.len() && length == got.1.len();
        let codes = (codes.element_type, codes.tensor.clone());
        (node.op_type == "DequantizeLinear" && is_each).then_some(WeightCodes { codes, ends })
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
    let (low, high) = match codes.0.family() {
        Family::Float(_) => (-largest(codes.0), largest(codes.0)),
        Family::Signed => (-size / 2.0, size / 2.0 - 1.0),
        _ => (0.0, size - 1.0),
    };
    ((low - zero) * scale, (high - zero) * scale)
}

/// What a range cuts off of the values, which the reference cuts first.
fn cut_off_in_words(taken: &QuantizerInput, (from, to): (f64, f64), lost: &Lost) -> String {
    let of_values = |(x, y): (f64, f64), value: &f64| {
        let value = lost.cut.of(*value);
        (x.min(value), y.max(value))
    };
    let (least, greatest) = taken.values.iter().fold((f64::MAX, f64::MIN), of_values);
    format!(
        "its range, {} … {}, cuts off {:.0} % of the size of its values, {} … {}",
        Num(from),
        Num(to),
        lost.share() * 100.0,
        Num(least),
        Num(greatest)
    )
}

/// What is wrong where codes that have been moved are taken back by another range than they were
/// made by.
fn wrong_range(node: &NodeRun, twins: &[Option<Twin>], taken: &QuantizerInput) -> Option<Wrong> {
    let scale = twins.get(1)?.as_ref()?;
    let (was, is) = (taken.ends, ends(twins, &taken.codes));
    let apart = (was.0 - is.0).abs().max((was.1 - is.1).abs());
    if scale.value.1.len() != 1
        || taken.codes.0.bits() > 8
        || apart <= (STEP - 1.0) * (was.1 - was.0)
    {
        return None;
    }
    let taker = node.name;
    let text = format!(
        "`{taker}` takes codes back to {} … {} of which quantiser `{}` has made them for {} … {}: \
         the scales or zero points of the two are not one",
        Num(is.0),
        Num(is.1),
        taken.node,
        Num(was.0),
        Num(was.1)
    );
    let is_taker = taken.misfit(was) <= taken.misfit(is);
    let at = if is_taker { (taker, "DequantizeLinear") } else { (&*taken.node, "QuantizeLinear") };
    Some(Wrong {
        culprit: Culprit {
            node: at.0.into(),
            op: at.1.into(),
            tensor: String::new(),
            local_error: Num(apart),
            bound: Num(0.0),
            kind: FaultKind::ZeroPoint,
            text,
        },
        value: taken.name.clone(),
        codes: String::new(),
        taker: taker.into(),
        is_cut_at_zero: false,
        is_cut_off: false,
        is_made_up: false,
    })
}

/// What is wrong with values that come back, where one scale is that of all. `cuts` says what the
/// reference cuts them to, whether or not much is lost else.
fn wrong(
    (node, twins): (&NodeRun, &[Option<Twin>]),
    made: &SharedTensor,
    taken: &QuantizerInput,
    cuts: impl FnOnce(bool) -> Vec<Cut>,
) -> Option<Wrong> {
    let scale = numbers(&twins.get(1)?.as_ref()?.value)?;
    let ([scale], codes, got) = (scale.as_slice(), numbers(&taken.codes)?, numbers(made)?) else {
        return None;
    };
    if taken.codes.0.bits() > 8 || got.len() != taken.values.len() {
        return None;
    }
    let (low, high) = codes.iter().fold((f64::MAX, f64::MIN), |(x, y), c| (x.min(*c), y.max(*c)));
    let step = |code: f64| scale.abs() * STEP * gap(taken.codes.0, code);
    let each = || taken.values.iter().zip(&got).zip(&codes);
    let mut worst = (0.0, 0.0, 0.0, 1.0);
    for ((want, got), code) in each().filter(|(_, code)| **code != low && **code != high) {
        let (error, step) = ((want - got).abs(), step(*code));
        if error / step > worst.0 / worst.3 {
            worst = (error, *want, *got, step);
        }
    }
    let lost = |cut: Cut| Lost::of(cut, each(), [low, high], step);
    let wrong = |(at, op): (&str, &str), kind, (error, bound), is_cut_at_zero, text| Wrong {
        culprit: Culprit {
            node: at.into(),
            op: op.into(),
            tensor: String::new(),
            local_error: Num(error),
            bound: Num(bound),
            kind,
            text,
        },
        value: taken.name.clone(),
        codes: String::new(),
        taker: node.name.into(),
        is_cut_at_zero,
        is_cut_off: kind == FaultKind::Scale,
        is_made_up: false,
    };
    let (error, want, got, step) = worst;
    if error > step {
        let taker = node.name;
        let text = taken.disagreement(taker, (want, got), step / STEP);
        let is_taker = taken.misfit(taken.ends) <= taken.misfit(ends(twins, &taken.codes));
        let at =
            if is_taker { (taker, "DequantizeLinear") } else { (&*taken.node, "QuantizeLinear") };
        return Some(wrong(at, FaultKind::ZeroPoint, (error, step), false, text));
    }
    let whole = lost(Cut::NONE);
    if whole.at_zero + whole.cut_off == 0.0 {
        return None;
    }
    let all = cuts(whole.share() > CUT_OFF).into_iter().map(lost);
    let lost = all.max_by(|x, y| x.share().total_cmp(&y.share())).unwrap_or(whole);
    (lost.share() > CUT_OFF).then(|| {
        let text = cut_off_in_words(taken, ends(twins, &taken.codes), &lost);
        let is_at_zero = (lost.cut_off / lost.power).sqrt() <= CUT_OFF;
        let (at, share) = ((&*taken.node, "QuantizeLinear"), (lost.share(), CUT_OFF));
        wrong(at, FaultKind::Scale, share, is_at_zero, text)
    })
}
