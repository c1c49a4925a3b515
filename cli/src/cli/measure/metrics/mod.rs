//! How far two tensors are apart, whatever their element types: `Metrics::element` says what one
//! element adds, `finite` does the same of many, `angle` and `noise` are of the whole.

mod angle;
mod finite;
mod noise;

use std::ops::Range as Places;
use std::sync::LazyLock;

use tract_onnx::prelude::*;
use tract_onnx_cast::audit::{self, Range, Reach};
use tract_onnx_cast::{ElementType, Family};

use self::angle::Angle;
use self::noise::{Noise, Ranking};
use crate::cli::found::compared::{ComparedTensor, Confidence, PairedBy};
use crate::cli::measure::exact::{Element, ExactValues, coarser};
use crate::cli::measure::lanes::AT_ONCE;
use crate::cli::measure::number::Num;
use crate::cli::measure::range::SourceRange;
use crate::cli::measure::reach;
use crate::cli::measure::reals::pieces;
use crate::cli::measure::tolerance::Tolerance;
use crate::cli::measure::value::{coordinates, shown};
use crate::cli::tensor::NamedTensor;

/// How many elements are widened at once: they stay in a near cache.
const PART: usize = 16 * AT_ONCE;

/// What has been found about one tensor, over all sets.
pub(crate) struct Metrics {
    tensor: ComparedTensor,
    /// What the converted side's type can hold; `None` for text.
    target: Option<Reach>,
    /// The coarser of the two types, whose last place is the unit.
    unit: Option<Reach>,
    ulp_sum: f64,
    ulp_count: u64,
    angle: Angle,
    noise: Noise,
    /// Of outputs alone.
    ranking: Option<Ranking>,
    range: Range,
    /// How many relative errors there are of each decade, from the smallest on.
    errors: [u64; DECADES],
    signs: u64,
    passing: Option<(f64, f64)>,
}

impl Metrics {
    /// What it is judged by.
    pub(crate) fn tolerance(&self) -> Tolerance {
        self.tensor.tolerance
    }

    pub(crate) fn new(
        reference: &NamedTensor,
        converted: &NamedTensor,
        tolerance: Tolerance,
    ) -> Metrics {
        let renamed = (reference.name != converted.name).then(|| converted.name.clone());
        let (paired_by, confidence) = if renamed.is_some() {
            (PairedBy::Position, Confidence::Likely)
        } else {
            (PairedBy::Name, Confidence::Certain)
        };
        let tensor = ComparedTensor {
            name: reference.name.clone(),
            converted_name: renamed,
            paired_by,
            confidence,
            reference_type: reference.ty.name().into(),
            converted_type: converted.ty.name().into(),
            shape: reference.tensor.shape().to_vec(),
            passed: true,
            identical: true,
            tolerance,
            target: reach::ReportedReach::of(converted.ty),
            ..ComparedTensor::default()
        };
        Metrics {
            tensor,
            target: Reach::of(converted.ty),
            unit: coarser(reference.ty, converted.ty),
            ulp_sum: 0.0,
            ulp_count: 0,
            angle: Angle::default(),
            noise: Noise::default(),
            ranking: Some(Ranking::default()),
            range: Range::default(),
            errors: [0; DECADES],
            signs: 0,
            passing: Some((0.0, 0.0)),
        }
    }

    /// As [`Metrics::new`], of a tensor whose largest elements nobody chooses by.
    pub(crate) fn of_inner(
        reference: &NamedTensor,
        converted: &NamedTensor,
        tolerance: Tolerance,
    ) -> Metrics {
        Metrics { ranking: None, ..Metrics::new(reference, converted, tolerance) }
    }

    /// Compares another pair of tensors. Fails when a tensor is not of its type's carrier.
    pub(crate) fn add(
        &mut self,
        reference: &NamedTensor,
        converted: &NamedTensor,
    ) -> TractResult<()> {
        let (a, b) = (reference.tensor.shape(), converted.tensor.shape());
        if a != b {
            let problem = format!("the reference's shape is {a:?}, the converted one's {b:?}");
            self.refuse(problem);
            return Ok(());
        }
        let is_text = |ty: ElementType| ty.family() == Family::Text;
        if is_text(reference.ty) != is_text(converted.ty) {
            self.refuse(format!("{} cannot be compared with {}", reference.ty, converted.ty));
            return Ok(());
        }
        // What is late is read once.
        for side in [reference, converted].into_iter().filter(|side| !is_text(side.ty)) {
            side.tensor.try_as_plain_ram()?;
        }
        for part in pieces(0..reference.tensor.len(), PART) {
            let exact = |side: &NamedTensor| ExactValues::of(side.ty, &side.tensor, part.clone());
            let (x, y) = (exact(reference)?, exact(converted)?);
            for places in pieces(part, AT_ONCE) {
                if !self.finite(x.reals(places.clone()), y.reals(places.clone())) {
                    self.each(places, (&x, &y), (reference, converted))?;
                }
            }
        }
        if let Some(ranking) = &mut self.ranking
            && matches!(reference.ty.family(), Family::Float(_))
        {
            ranking.add(reference, converted)?;
        }
        self.tensor.elements += reference.tensor.len() as u64;
        self.range.merge(&audit::range(reference.ty, &reference.tensor)?);
        Ok(())
    }

    /// Compares elements one after the other.
    fn each(
        &mut self,
        places: Places<usize>,
        (x, y): (&ExactValues, &ExactValues),
        (reference, converted): (&NamedTensor, &NamedTensor),
    ) -> TractResult<()> {
        for index in places {
            let was_whole = self.tensor.apart() == 0;
            let is_within = self.element(x.element(index), y.element(index));
            // An infinity or a NaN tells more than what has only drifted before it.
            let is_gravest = was_whole && self.tensor.apart() > 0;
            if !is_within && (is_gravest || self.tensor.first_mismatch.is_none()) {
                let place = coordinates(index, reference.tensor.shape());
                let shown = |side: &NamedTensor| shown(side.ty, &side.tensor, index);
                let (reference, converted) = (shown(reference)?, shown(converted)?);
                self.tensor.first_mismatch = Some(format!(
                    "at {place:?}: {reference} in the reference, {converted} converted"
                ));
            }
        }
        Ok(())
    }

    /// Whether it may be beyond its tolerance, as far as that is known: an angle and a ratio are
    /// only at the end.
    fn may_fail(&self) -> bool {
        let ComparedTensor { tolerance, problem, mismatches, .. } = &self.tensor;
        let is_of_whole = tolerance.cosine.is_some() || tolerance.sqnr.is_some();
        *mismatches > 0 || problem.is_some() || is_of_whole
    }

    /// Notes that the tensors cannot be compared.
    pub(crate) fn refuse(&mut self, problem: String) {
        self.tensor.problem.get_or_insert(problem);
    }

    /// Compares one element; whether it is within the tolerance.
    fn element(&mut self, x: Element, y: Element) -> bool {
        let tensor = &mut self.tensor;
        let is_same = x.is(y);
        tensor.differing += u64::from(!is_same);
        self.signs += u64::from(x.has_other_sign(y));
        let (Some(source), Some(result)) = (x.number(), y.number()) else {
            tensor.mismatches += u64::from(!is_same);
            return is_same;
        };
        let (a, b) = (source.rounded(), result.rounded());
        tensor.both_nan += u64::from(a.is_nan() && b.is_nan());
        let is_beyond = self.target.is_some_and(|target| target.is_beyond(source));
        tensor.beyond_target += u64::from(is_beyond);
        if is_same && !(a.is_finite() && b.is_finite()) {
            return true;
        }
        if !(a.is_finite() && b.is_finite()) {
            let is_nan = a.is_nan() != b.is_nan();
            tensor.nan_differences += u64::from(is_nan);
            tensor.infinity_differences += u64::from(!is_nan);
            tensor.mismatches += 1;
            self.passing = None;
            return false;
        }
        self.angle.add(a, b);
        let error = source.distance(result);
        self.noise.add(a, error);
        let relative = if error == 0.0 { 0.0 } else { error / a.abs() };
        let ulp = match self.unit {
            Some(unit) if error > 0.0 => error / unit.ulp(source),
            _ => 0.0,
        };
        self.ulp_sum += ulp;
        self.ulp_count += 1;
        tensor.max_abs.0 = tensor.max_abs.0.max(error);
        tensor.max_rel.0 = tensor.max_rel.0.max(if relative.is_finite() { relative } else { 0.0 });
        tensor.max_ulp.0 = tensor.max_ulp.0.max(ulp);
        if let Some((absolute, rel)) = &mut self.passing {
            *absolute = absolute.max(error);
            if error > *rel * a.abs() {
                *rel = smallest_rtol(error, a.abs());
            }
        }
        if error > 0.0
            && let Some(count) = self.errors.get_mut(decade(&POWERS, relative))
        {
            *count += 1;
        }
        let tolerance = tensor.tolerance;
        let is_near = tolerance.allows(error, a) || tolerance.allows_ulp(ulp);
        let is_within = is_same || is_near || !tolerance.judges_elements();
        tensor.mismatches += u64::from(!is_within);
        is_within
    }

    /// Everything that was found.
    pub(crate) fn finish(mut self) -> ComparedTensor {
        let tensor = &mut self.tensor;
        tensor.mean_ulp = Num(self.ulp_sum / (self.ulp_count.max(1)) as f64);
        let cosine = Some(&self.angle).filter(|_| self.ulp_count > 0).and_then(Angle::cosine);
        tensor.cosine = cosine.map(Num);
        let is_whole = tensor.nan_differences + tensor.infinity_differences == 0;
        tensor.sqnr = self.noise.sqnr().filter(|_| is_whole).map(Num);
        let ranking = self.ranking.as_ref();
        tensor.top1 = ranking.and_then(Ranking::top1);
        tensor.top5 = ranking.and_then(Ranking::top5);
        let passing = self.passing.filter(|_| tensor.problem.is_none() && self.unit.is_some());
        tensor.passing_atol = passing.map(|(absolute, _)| Num(absolute));
        tensor.passing_rtol = passing.map(|(_, rel)| Num(rel)).filter(|rel| rel.0.is_finite());
        tensor.source = SourceRange::of(&self.range);
        let counts = (-LAST_DECADE..).zip(self.errors);
        tensor.errors_log10 = counts.filter(|(_, count)| *count > 0).collect();
        let has_cosine = match (tensor.tolerance.cosine, tensor.cosine) {
            (Some(least), Some(Num(found))) => found >= least,
            // Without finite elements there is no angle, and every element has been judged by
            // itself.
            (Some(_), None) => self.ulp_count == 0,
            (None, _) => true,
        };
        let has_sqnr = match (tensor.tolerance.sqnr, tensor.sqnr) {
            (Some(least), Some(Num(found))) => found >= least,
            (Some(_), None) => self.ulp_count == 0 && is_whole,
            (None, _) => true,
        };
        tensor.identical = tensor.problem.is_none() && tensor.differing == 0 && self.signs == 0;
        tensor.passed =
            tensor.problem.is_none() && tensor.mismatches == 0 && has_cosine && has_sqnr;
        self.tensor.why = (!self.tensor.passed).then(|| self.tensor.difference());
        self.tensor
    }
}

/// How far two tensors are apart. Fails when a tensor is not of its type's carrier.
pub(crate) fn compared(
    reference: &NamedTensor,
    converted: &NamedTensor,
    tolerance: Tolerance,
) -> TractResult<ComparedTensor> {
    let mut metrics = Metrics::new(reference, converted, tolerance);
    metrics.add(reference, converted)?;
    Ok(metrics.finish())
}

/// What has been found about outputs that belong together, over all sets.
#[derive(Default)]
pub(crate) struct OutputMetrics(Vec<Metrics>);

impl OutputMetrics {
    /// Compares the outputs of another set, each by the tolerance of its name.
    /// Fails when a tensor is not of its type's carrier.
    pub(crate) fn add(
        &mut self,
        outputs: &[(&NamedTensor, &NamedTensor)],
        tolerance: impl Fn(&str) -> Tolerance,
    ) -> TractResult<()> {
        let new = outputs.iter().skip(self.0.len());
        self.0.extend(new.map(|(a, b)| Metrics::new(a, b, tolerance(&a.name))));
        self.0.iter_mut().zip(outputs).try_for_each(|(metrics, (a, b))| metrics.add(a, b))
    }

    /// Whether an output may be beyond its tolerance, as far as that is known.
    pub(crate) fn may_fail(&self) -> bool {
        self.0.iter().any(Metrics::may_fail)
    }

    /// Everything that was found.
    pub(crate) fn finish(self) -> Vec<ComparedTensor> {
        self.0.into_iter().map(Metrics::finish).collect()
    }
}

/// The decades of relative errors that are told apart, on either side of 1.
const LAST_DECADE: i32 = 40;
const DECADES: usize = 2 * LAST_DECADE as usize + 1;

/// The powers of ten from the last decade on.
static POWERS: LazyLock<Vec<f64>> =
    LazyLock::new(|| (-LAST_DECADE..=LAST_DECADE + 1).map(|decade| 10f64.powi(decade)).collect());

/// The place of the decade of a relative error.
#[inline(always)]
fn decade(powers: &[f64], relative: f64) -> usize {
    let exponent = ((relative.to_bits() >> 52) & 0x7ff) as i32 - 1023;
    // The decade of the power of two below; the number may be in the next.
    let low = (f64::from(exponent) * std::f64::consts::LOG10_2).floor() as i32;
    let next = (low + 1).clamp(-LAST_DECADE, LAST_DECADE + 1) + LAST_DECADE;
    let is_next = powers.get(next as usize).is_some_and(|power| relative >= *power);
    let decade = low + i32::from(is_next);
    (decade.clamp(-LAST_DECADE, LAST_DECADE) + LAST_DECADE) as usize
}

/// The smallest r for which the error is at most r·size, as [`Metrics::element`] computes that.
fn smallest_rtol(error: f64, size: f64) -> f64 {
    let mut rtol = if error == 0.0 { 0.0 } else { error / size };
    while rtol.is_finite() && error > rtol * size {
        rtol = rtol.next_up();
    }
    while rtol > 0.0 && error <= rtol.next_down() * size {
        rtol = rtol.next_down();
    }
    rtol
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compared(
        (from, x): (ElementType, Tensor),
        (to, y): (ElementType, Tensor),
        tolerance: Tolerance,
    ) -> ComparedTensor {
        let named = |ty, tensor| NamedTensor { name: "y".into(), ty, tensor };
        super::compared(&named(from, x), &named(to, y), tolerance).expect("carriers")
    }

    #[test]
    fn beyond_is_what_the_cast_cannot_hold() {
        use ElementType::*;
        let two = |power| 2f64.powi(power);
        let cases: [(ElementType, &[f64], u64); 8] = [
            (Float8E4M3FN, &[464.0, -464.0, 448.0], 0),
            (Float8E4M3FN, &[464.000_1, -1e9], 2),
            (Float8E8M0, &[two(127), 1.0], 0),
            (Float8E8M0, &[1.1 * two(127), 0.0, -1.0], 3),
            (Int64, &[two(63), -two(63)], 1),
            (Uint64, &[two(64), two(63), -0.5], 1),
            (Int8, &[127.9, -128.9, 128.0], 1),
            (Uint8, &[-0.5, 255.5, -1.0, 256.0], 2),
        ];
        for (to, values, beyond) in cases {
            let zeros = Tensor::zero_dt(to.datum_type(), &[values.len()]).expect("a tensor");
            let found = compared((Double, tensor1(values)), (to, zeros), Tolerance::default());
            assert_eq!(found.beyond_target, beyond, "{values:?} in {to}");
        }
    }

    #[test]
    fn decades_are_those_of_the_logarithm() {
        let mut relative = 1.234e-45;
        while relative < 1e45 {
            let expected = f64::log10(relative).floor().clamp(-40.0, 40.0) as i32 + LAST_DECADE;
            assert_eq!(decade(&POWERS, relative) as i32, expected, "{relative}");
            relative *= 1.7;
        }
        let exact =
            [(1e-40, 0), (1e-3, 37), (0.1, 39), (1.0, 40), (1000.0, 43), (f64::INFINITY, 80)];
        for (relative, expected) in exact {
            assert_eq!(decade(&POWERS, relative), expected, "{relative}");
        }
    }

    #[test]
    fn the_last_place_of_a_wide_integer_is_its_own() {
        let reference = (ElementType::Int64, tensor1(&[(1i64 << 62) - 1]));
        let converted = (ElementType::Float, tensor1(&[(2f64.powi(62) + 2f64.powi(39)) as f32]));
        let found = compared(reference, converted, Tolerance::default());
        assert!(found.max_ulp.0 > 2.0 && found.max_ulp.0 < 2.001, "{:?}", found.max_ulp);
    }
}
