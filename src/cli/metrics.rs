//! How far two tensors are apart, whatever their element types.

use std::collections::BTreeMap;

use tract_onnx::prelude::*;
use tract_onnx_cast::audit::{self, Range};
use tract_onnx_cast::{Conversion, ElementType, Family, Rules};

use super::facts::{RangeFacts, TargetFacts, TensorFacts, ToleranceFacts};
use super::model::Output;
use super::num::Num;
use super::show;

/// The exact values of a tensor.
enum Values {
    Reals(Vec<f64>),
    /// Of a 64-bit type, whose values DOUBLE does not all have.
    Integers(Vec<i128>),
    Texts(Vec<String>),
}

impl Values {
    fn of(ty: ElementType, tensor: &Tensor) -> TractResult<Values> {
        let as_type = |wide| Conversion::new(ty, wide, Rules::default()).run(tensor);
        Ok(match (ty.family(), ty.bits()) {
            (Family::Text, _) => {
                Values::Texts(tensor.try_as_plain_ram()?.as_slice::<String>()?.to_vec())
            }
            (Family::Signed, 64) => Values::Integers(widened::<i64>(tensor)?),
            (Family::Unsigned, 64) => Values::Integers(widened::<u64>(tensor)?),
            _ => {
                let doubles = as_type(ElementType::Double)?;
                Values::Reals(doubles.try_as_plain_ram()?.as_slice::<f64>()?.to_vec())
            }
        })
    }

    fn element(&self, index: usize) -> Element<'_> {
        match self {
            Values::Reals(values) => Element::Real(values.get(index).copied().unwrap_or(f64::NAN)),
            Values::Integers(values) => Element::Integer(values.get(index).copied().unwrap_or(0)),
            Values::Texts(texts) => Element::Text(texts.get(index).map_or("", String::as_str)),
        }
    }
}

fn widened<T: Datum + Copy + Into<i128>>(tensor: &Tensor) -> TractResult<Vec<i128>> {
    Ok(tensor.try_as_plain_ram()?.as_slice::<T>()?.iter().map(|x| (*x).into()).collect())
}

#[derive(Clone, Copy)]
enum Element<'a> {
    Real(f64),
    Integer(i128),
    Text(&'a str),
}

impl Element<'_> {
    /// The value, an integer of many digits rounded; `None` for text.
    fn real(self) -> Option<f64> {
        match self {
            Element::Real(x) => Some(x),
            Element::Integer(x) => Some(x as f64),
            Element::Text(_) => None,
        }
    }

    fn is(self, other: Element) -> bool {
        match (self, other) {
            (Element::Text(a), Element::Text(b)) => a == b,
            (Element::Integer(a), Element::Integer(b)) => a == b,
            (Element::Integer(a), Element::Real(b)) | (Element::Real(b), Element::Integer(a)) => {
                a as f64 == b && (b as i128) == a
            }
            (Element::Real(a), Element::Real(b)) => a == b || (a.is_nan() && b.is_nan()),
            _ => false,
        }
    }

    /// Zeros of different sign are the same value, but not the same.
    fn has_other_sign(self, other: Element) -> bool {
        matches!((self, other), (Element::Real(a), Element::Real(b))
            if a == 0.0 && b == 0.0 && a.is_sign_negative() != b.is_sign_negative())
    }

    /// reference − converted.
    fn minus(self, other: Element) -> f64 {
        match (self, other) {
            (Element::Integer(a), Element::Integer(b)) => (a - b) as f64,
            (Element::Integer(a), Element::Real(b)) => integer_minus(a, b),
            (Element::Real(a), Element::Integer(b)) => -integer_minus(b, a),
            _ => self.real().unwrap_or(f64::NAN) - other.real().unwrap_or(f64::NAN),
        }
    }
}

/// The difference of an integer of more digits than DOUBLE has from a number, rounded once where that matters.
fn integer_minus(a: i128, b: f64) -> f64 {
    const MUCH: f64 = (1i128 << 100) as f64;
    if b.abs() < MUCH { (a - b as i128) as f64 - b.fract() } else { a as f64 - b }
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

/// What the angle between two vectors is made of. Squares of very large and very small numbers are kept from
/// overflowing, and from vanishing, by scales that are powers of two.
#[derive(Default)]
struct Angle {
    dot: f64,
    /// The squares of the lengths.
    squares: (f64, f64),
    /// The power of two above the largest magnitude, as far as there is one; 0 as long as all are zero.
    scales: (f64, f64),
}

impl Angle {
    fn add(&mut self, a: f64, b: f64) {
        let (of_a, of_b) = (grown(self.scales.0, a), grown(self.scales.1, b));
        self.dot *= of_a.1 * of_b.1;
        self.squares.0 *= of_a.1 * of_a.1;
        self.squares.1 *= of_b.1 * of_b.1;
        self.scales = (of_a.0, of_b.0);
        let (a, b) = (scaled(a, of_a.0), scaled(b, of_b.0));
        self.dot += a * b;
        self.squares = (self.squares.0 + a * a, self.squares.1 + b * b);
    }

    /// Of vectors of no length none is the direction; two of them are as good as the same.
    fn cosine(&self) -> Option<f64> {
        let norm = (self.squares.0 * self.squares.1).sqrt();
        match self.squares {
            (0.0, 0.0) => Some(1.0),
            _ if norm > 0.0 => Some((self.dot / norm).clamp(-1.0, 1.0)),
            _ => None,
        }
    }
}

/// The scale that a number asks for, and by what sums of the old scale are to be multiplied.
fn grown(scale: f64, x: f64) -> (f64, f64) {
    let magnitude = x.abs();
    if magnitude <= scale {
        return (scale, 1.0);
    }
    // The exponent field alone; subnormal numbers share the smallest normal one.
    let power = f64::from_bits(magnitude.to_bits() & f64::INFINITY.to_bits());
    let double = power.max(f64::MIN_POSITIVE) * 2.0;
    let new = if double.is_finite() { double } else { power };
    (new, if scale == 0.0 { 0.0 } else { scale / new })
}

fn scaled(x: f64, scale: f64) -> f64 {
    if scale == 0.0 { 0.0 } else { x / scale }
}

/// What has been found about one tensor, over all sets.
pub(super) struct Metrics {
    pub(super) facts: TensorFacts,
    converted: ElementType,
    /// The coarser of the two types, whose last place is the unit.
    unit: Option<Unit>,
    ulp_sum: f64,
    ulp_count: u64,
    angle: Angle,
    range: Range,
    errors: BTreeMap<i32, u64>,
    signs: u64,
    passing: Option<(f64, f64)>,
}

impl Metrics {
    pub(super) fn new(
        reference: &Output,
        converted: &Output,
        tolerance: ToleranceFacts,
    ) -> Metrics {
        let renamed = (reference.name != converted.name).then(|| converted.name.clone());
        let coarser = Unit::coarser(reference.ty, converted.ty);
        let facts = TensorFacts {
            name: reference.name.clone(),
            converted_name: renamed,
            reference_type: reference.ty.name().into(),
            converted_type: converted.ty.name().into(),
            shape: reference.tensor.shape().to_vec(),
            problem: None,
            elements: 0,
            passed: true,
            identical: true,
            mismatches: 0,
            differing: 0,
            nan_differences: 0,
            infinity_differences: 0,
            both_nan: 0,
            max_abs: Num(0.0),
            max_rel: Num(0.0),
            max_ulp: Num(0.0),
            mean_ulp: Num(0.0),
            cosine: None,
            passing_atol: None,
            passing_rtol: None,
            tolerance,
            first_mismatch: None,
            source: RangeFacts::default(),
            target: TargetFacts::of(converted.ty),
            beyond_target: 0,
            errors_log10: vec![],
        };
        Metrics {
            facts,
            converted: converted.ty,
            unit: coarser,
            ulp_sum: 0.0,
            ulp_count: 0,
            angle: Angle::default(),
            range: Range::default(),
            errors: BTreeMap::new(),
            signs: 0,
            passing: Some((0.0, 0.0)),
        }
    }

    /// Compares another pair of tensors.
    ///
    /// # Errors
    ///
    /// When a tensor is not of its type's carrier.
    pub(super) fn add(&mut self, reference: &Output, converted: &Output) -> TractResult<()> {
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
        let (x, y) = (
            Values::of(reference.ty, &reference.tensor)?,
            Values::of(converted.ty, &converted.tensor)?,
        );
        for index in 0..reference.tensor.len() {
            let is_within = self.element(x.element(index), y.element(index));
            if !is_within && self.facts.first_mismatch.is_none() {
                let shown = |output: &Output| -> TractResult<String> {
                    let value = show::values(output.ty, &output.tensor, index..index + 1)?;
                    Ok(value.first().map(ToString::to_string).unwrap_or_default())
                };
                let place = super::compare::coordinates(index, a);
                let (reference, converted) = (shown(reference)?, shown(converted)?);
                self.facts.first_mismatch = Some(format!(
                    "at {place:?}: {reference} in the reference, {converted} converted"
                ));
            }
        }
        self.facts.elements += reference.tensor.len() as u64;
        self.range.merge(&audit::range(reference.ty, &reference.tensor)?);
        Ok(())
    }

    /// Notes that the tensors cannot be compared.
    pub(super) fn refuse(&mut self, problem: String) {
        self.facts.problem.get_or_insert(problem);
    }

    /// Compares one element; whether it is within the tolerance.
    fn element(&mut self, x: Element, y: Element) -> bool {
        let facts = &mut self.facts;
        let is_same = x.is(y);
        facts.differing += u64::from(!is_same);
        self.signs += u64::from(x.has_other_sign(y));
        let (Some(a), Some(b)) = (x.real(), y.real()) else {
            facts.mismatches += u64::from(!is_same);
            return is_same;
        };
        facts.both_nan += u64::from(a.is_nan() && b.is_nan());
        if let Some(limits) = &facts.target
            && a.is_finite()
            && self.unit.is_some()
            && beyond(self.converted, limits, a)
        {
            facts.beyond_target += 1;
        }
        if is_same && !(a.is_finite() && b.is_finite()) {
            return true;
        }
        if !(a.is_finite() && b.is_finite()) {
            let is_nan = a.is_nan() != b.is_nan();
            facts.nan_differences += u64::from(is_nan);
            facts.infinity_differences += u64::from(!is_nan);
            facts.mismatches += 1;
            self.passing = None;
            return false;
        }
        self.angle.add(a, b);
        let error = x.minus(y).abs();
        let relative = if error == 0.0 { 0.0 } else { error / a.abs() };
        let ulp = self.unit.map_or(0.0, |unit| if error == 0.0 { 0.0 } else { error / unit.at(a) });
        self.ulp_sum += ulp;
        self.ulp_count += 1;
        facts.max_abs.0 = facts.max_abs.0.max(error);
        facts.max_rel.0 = facts.max_rel.0.max(if relative.is_finite() { relative } else { 0.0 });
        facts.max_ulp.0 = facts.max_ulp.0.max(ulp);
        if let Some((absolute, rel)) = &mut self.passing {
            *absolute = absolute.max(error);
            if error > *rel * a.abs() {
                *rel = smallest_rtol(error, a.abs());
            }
        }
        if error > 0.0 {
            let decade = relative.log10().floor().clamp(-40.0, 40.0) as i32;
            *self.errors.entry(decade).or_default() += 1;
        }
        let ToleranceFacts { rtol, atol, ulp: ulps, cosine } = facts.tolerance;
        let number = |given: Option<Num>| given.map_or(0.0, |Num(number)| number);
        let judges_elements =
            rtol.is_some() || atol.is_some() || ulps.is_some() || cosine.is_none();
        let is_near = error <= number(atol) + number(rtol) * a.abs();
        let is_few = ulps.is_some_and(|Num(most)| ulp <= most);
        let is_within = is_same || is_near || is_few || !judges_elements;
        facts.mismatches += u64::from(!is_within);
        is_within
    }

    /// Everything that was found.
    pub(super) fn finish(mut self) -> TensorFacts {
        let facts = &mut self.facts;
        facts.mean_ulp = Num(self.ulp_sum / (self.ulp_count.max(1)) as f64);
        let cosine = Some(&self.angle).filter(|_| self.ulp_count > 0).and_then(Angle::cosine);
        facts.cosine = cosine.map(Num);
        let passing = self.passing.filter(|_| facts.problem.is_none() && self.unit.is_some());
        facts.passing_atol = passing.map(|(absolute, _)| Num(absolute));
        facts.passing_rtol = passing.map(|(_, rel)| Num(rel)).filter(|rel| rel.0.is_finite());
        facts.source = RangeFacts::of(&self.range);
        facts.errors_log10 = self.errors.into_iter().collect();
        let has_cosine = match (facts.tolerance.cosine, facts.cosine) {
            (Some(least), Some(found)) => found >= least,
            // Where nothing is finite on both sides, the elements themselves have been judged.
            (Some(_), None) => self.ulp_count == 0,
            (None, _) => true,
        };
        facts.identical = facts.problem.is_none() && facts.differing == 0 && self.signs == 0;
        facts.passed = facts.problem.is_none() && facts.mismatches == 0 && has_cosine;
        self.facts
    }
}

fn beyond(ty: ElementType, limits: &TargetFacts, x: f64) -> bool {
    let (Num(min), Num(max)) = (limits.min, limits.max);
    let is_outside = x < min || x > max;
    // What rounds to the largest value is held.
    is_outside
        && match ty.family() {
            Family::Float(format) => {
                let m = format.mantissa_bits as i32;
                let exponent = max.log2().floor() as i32;
                x.abs() - max >= 2f64.powi(exponent - m - 1) || x < min && !format.is_signed()
            }
            _ => true,
        }
}

/// The unit in the last place of a type.
#[derive(Clone, Copy)]
enum Unit {
    One,
    Float { mantissa_bits: i32, min: i32 },
}

impl Unit {
    /// The unit of the coarser of two types: integers are finer than floating-point numbers; `None` for text.
    fn coarser(a: ElementType, b: ElementType) -> Option<Unit> {
        let unit = |ty: ElementType| match ty.family() {
            Family::Text => None,
            Family::Bool | Family::Signed | Family::Unsigned => Some(Unit::One),
            Family::Float(format) => Some(Unit::Float {
                mantissa_bits: format.mantissa_bits as i32,
                min: format.min_ulp_exponent(),
            }),
        };
        Some(match (unit(a)?, unit(b)?) {
            (
                a @ Unit::Float { mantissa_bits: x, .. },
                b @ Unit::Float { mantissa_bits: y, .. },
            ) => {
                if x <= y {
                    a
                } else {
                    b
                }
            }
            (float @ Unit::Float { .. }, Unit::One) | (Unit::One, float @ Unit::Float { .. }) => {
                float
            }
            (Unit::One, Unit::One) => Unit::One,
        })
    }

    fn at(self, x: f64) -> f64 {
        match self {
            Unit::One => 1.0,
            Unit::Float { mantissa_bits, min } => {
                let field = (x.to_bits() >> 52 & 0x7FF) as i32;
                let exponent = (field - 1023 - mantissa_bits).max(min).max(-1074);
                // By halves, for `powi` gives up below DOUBLE's normal values.
                2f64.powi(exponent / 2) * 2f64.powi(exponent - exponent / 2)
            }
        }
    }
}
