//! Casts of casts: which conversions keep every value, and which two in a row are one.
//!
//! The answers are derived from families and format constants. A test compares them with what all
//! the values of the types of up to 16 bits really become (`tests/numerics/algebra.rs`).

#![forbid(unsafe_code)]

use crate::cast::element_type::{ElementType, Family};
use crate::cast::format::{FloatFormat, Specials};
use crate::cast::rules::Rules;
use crate::cast::scalar;
use crate::cast::value::{ExactValue, Finite};

/// One cast, as far as it decides what two in a row are.
#[derive(Clone, Copy)]
pub(crate) struct TypePair {
    pub(crate) from: ElementType,
    pub(crate) to: ElementType,
    pub(crate) rules: Rules,
}

impl TypePair {
    /// Whether every value of the source is one of the target's, and becomes it: infinities, NaN
    /// with its sign and the sign of zero included. Which of a type's NaN codes holds a NaN is no
    /// part of the value ([SEMANTICS §5.5](crate::semantics)).
    pub(crate) fn is_lossless(self) -> bool {
        let TypePair { from, to, .. } = self;
        let keeps = |codes: &[u64]| codes.iter().all(|code| self.keeps_value(*code));
        match (from.family(), to.family()) {
            _ if from == to => !scalar::changes_values(to, self.rules),
            (Family::Text, _) | (_, Family::Text | Family::Bool) => false,
            (Family::Bool, _) => keeps(&[0, 1]),
            (Family::Signed, Family::Signed) | (Family::Unsigned, Family::Unsigned) => {
                to.bits() >= from.bits()
            }
            (Family::Unsigned, Family::Signed) => to.bits() > from.bits(),
            (Family::Signed | Family::Unsigned, Family::Float(format)) => {
                significant_bits(from) <= format.mantissa_bits + 1 && keeps(&extremes(from))
            }
            (Family::Float(source), Family::Float(target)) => {
                source.mantissa_bits <= target.mantissa_bits
                    && source.min_ulp_exponent() >= target.min_ulp_exponent()
                    && keeps(&landmarks(source))
            }
            (Family::Signed, Family::Unsigned)
            | (Family::Float(_), Family::Signed | Family::Unsigned) => false,
        }
    }

    /// Whether this cast and then one to `to` give what one cast to `to` under the latter's rules
    /// gives, whatever the value. Texts in the middle are not looked into.
    pub(crate) fn joins(self, to: ElementType) -> bool {
        let (from, via) = (self.from, self.to);
        let is_integer = |ty: ElementType| {
            matches!(ty.family(), Family::Bool | Family::Signed | Family::Unsigned)
        };
        match to.family() {
            Family::Text => self.is_lossless() && spelled_alike(from, via),
            Family::Bool => self.keeps_zero_apart(),
            Family::Float(_) => self.is_lossless(),
            Family::Signed | Family::Unsigned => match (is_integer(from), is_integer(via)) {
                // Low bits of low bits (SEMANTICS §7.1).
                (true, true) => {
                    self.is_lossless() || (via != ElementType::Bool && to.bits() <= via.bits())
                }
                // The value is now judged as a float's, which has limits (§7.3).
                (true, false) => self.is_lossless() && WrappedWord::of(to).holds(from),
                (false, false) => self.is_lossless(),
                (false, true) if from == ElementType::String || via == ElementType::Bool => false,
                (false, true) => {
                    let is_part = to.bits() <= via.bits()
                        && WrappedWord::of(to) != WrappedWord::Upper
                        && (WrappedWord::of(via) == WrappedWord::of(to)
                            || (WrappedWord::of(via) > WrappedWord::of(to)
                                && self.ends_in_zeros(to)));
                    is_part || self.only_truncates()
                }
            },
        }
    }

    fn keeps_value(self, code: u64) -> bool {
        let value = scalar::decode(self.from, code).map(ExactValue::lowest_terms);
        self.made_of(code).map(ExactValue::lowest_terms) == value
    }

    fn made_of(self, code: u64) -> Option<ExactValue> {
        let code = scalar::convert(self.from, self.to, self.rules, code)?;
        scalar::decode(self.to, code)
    }

    /// Whether zeros become zeros, and nothing else does. Rounding keeps the order, so the least of
    /// a sign decides.
    fn keeps_zero_apart(self) -> bool {
        let is_zero = |value: Option<ExactValue>| value.is_some_and(ExactValue::is_zero);
        let stays =
            |code: &u64| is_zero(scalar::decode(self.from, *code)) == is_zero(self.made_of(*code));
        match (self.from.family(), self.to.family()) {
            _ if self.is_lossless() => true,
            (Family::Signed | Family::Unsigned, Family::Signed | Family::Unsigned) => {
                self.to.bits() >= self.from.bits()
            }
            (Family::Bool, Family::Float(_)) => [0, 1].iter().all(stays),
            (Family::Signed | Family::Unsigned, Family::Float(_)) => {
                [0, 1, self.from.code_mask()].iter().all(stays)
            }
            (Family::Float(source), Family::Float(_)) => landmarks(source).iter().all(stays),
            _ => false,
        }
    }

    /// Whether a float beyond the word of a narrow integer type has nothing but zeros in the bits
    /// that the type keeps, as its significand is too short to reach them. Zero is also what the
    /// type makes of a float out of range, if it has other bits than its word.
    fn ends_in_zeros(self, to: ElementType) -> bool {
        let Family::Float(source) = self.from.family() else { return false };
        let word = if WrappedWord::of(to) == WrappedWord::Bits32 { 32 } else { 64 };
        let is_whole_word = to.family() == Family::Signed && to.bits() == word;
        !is_whole_word && to.bits() + source.mantissa_bits < word
    }

    /// Whether a float's integer part always fits the target.
    fn only_truncates(self) -> bool {
        let Family::Float(source) = self.from.family() else { return false };
        let integer_part = |value: ExactValue| match value {
            ExactValue::Finite(Finite { negative, significand, exponent }) => {
                let shift = exponent.unsigned_abs();
                let magnitude = match exponent {
                    ..0 => significand.checked_shr(shift).unwrap_or(0),
                    _ => u64::try_from(u128::from(significand).checked_shl(shift)?).ok()?,
                };
                Some((negative && magnitude != 0, magnitude))
            }
            ExactValue::NaN { .. } | ExactValue::Infinity { .. } => None,
        };
        landmarks(source).iter().all(|code| {
            let value = scalar::decode(self.from, *code).and_then(integer_part);
            value.is_some() && value == self.made_of(*code).and_then(integer_part)
        })
    }
}

/// How a float out of an integer type's range is treated ([SEMANTICS §7.3](crate::semantics)): it
/// becomes a signed word, of which the low bits are kept.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum WrappedWord {
    Bits32,
    Bits64,
    /// UINT64, which adds what is beyond a signed word.
    Upper,
}

impl WrappedWord {
    fn of(ty: ElementType) -> WrappedWord {
        match (ty.family(), ty.bits()) {
            (_, ..=16) | (Family::Signed, 32) => WrappedWord::Bits32,
            (Family::Unsigned, 64) => WrappedWord::Upper,
            _ => WrappedWord::Bits64,
        }
    }

    /// Whether every integer of a type is in the word.
    fn holds(self, ty: ElementType) -> bool {
        let bits = significant_bits(ty);
        match self {
            WrappedWord::Bits32 => bits <= 31,
            WrappedWord::Bits64 => bits <= 63,
            WrappedWord::Upper => true,
        }
    }
}

/// Bits that the magnitudes of an integer type take up; of the least signed number, which is a
/// power of two, one less.
fn significant_bits(ty: ElementType) -> u32 {
    match ty.family() {
        Family::Signed => ty.bits() - 1,
        _ => ty.bits(),
    }
}

/// The codes of an integer type's least and greatest number.
fn extremes(ty: ElementType) -> [u64; 2] {
    match ty.family() {
        Family::Signed => [1 << (ty.bits() - 1), ty.code_mask() >> 1],
        _ => [0, ty.code_mask()],
    }
}

/// The codes of a float format at which conversions change their behaviour: zeros, the least and
/// the greatest numbers, infinities, NaN.
fn landmarks(format: &FloatFormat) -> Vec<u64> {
    let sign = format.sign_bit();
    let positive = [0, 1, format.max_finite()].into_iter().chain(format.infinity());
    let numbers = positive.flat_map(|code| [code, code | sign]);
    let nans = [false, true].map(|negative| format.nan(negative));
    match format.specials {
        Specials::None => numbers.collect(),
        _ => numbers.chain(nans).collect(),
    }
}

/// Whether a number of both types has the same text ([SEMANTICS §9](crate::semantics)).
fn spelled_alike(a: ElementType, b: ElementType) -> bool {
    let kind = |ty: ElementType| match ty.family() {
        Family::Bool => 0,
        Family::Signed | Family::Unsigned => 1,
        Family::Float(_) if ty != ElementType::Double => 2,
        Family::Float(_) => 3,
        Family::Text => 4,
    };
    kind(a) == kind(b)
}
