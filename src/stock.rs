//! tract's own `Cast`: where it gives the bits that ours gives, and either in the other's place.

use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_core::ops::cast::Cast;

use crate::conversion::Conversion;
use crate::element_type::{ElementType, Family};
use crate::op::OnnxCast;
use crate::rules::Rules;

/// As [`Conversion::equals_core_cast`].
pub(crate) fn is_equal(from: ElementType, to: ElementType) -> bool {
    let is_integer =
        |ty: ElementType| matches!(ty.family(), Family::Bool | Family::Signed | Family::Unsigned);
    if from.is_exotic() || to.is_exotic() {
        return false;
    }
    match (from.family(), to.family()) {
        (Family::Text, _) | (_, Family::Text) => false,
        (_, Family::Bool) => true,
        (Family::Float(_), Family::Signed | Family::Unsigned) => false,
        // An integer that rounding to FLOAT changes is beyond FLOAT16 anyway; a DOUBLE is not.
        (Family::Float(_), Family::Float(_)) => {
            (from, to) != (ElementType::Double, ElementType::Float16)
        }
        (_, Family::Float(_)) => true,
        (_, Family::Signed | Family::Unsigned) => is_integer(from),
    }
}

/// Our conversion of what tract's own cast does between two of its types, where they are equal.
pub(crate) fn equal_conversion(from: DatumType, to: DatumType) -> Option<Conversion> {
    if from == DatumType::TDim || to == DatumType::TDim {
        return None;
    }
    let (from, to) = (ElementType::native(from)?, ElementType::native(to)?);
    is_equal(from, to).then(|| Conversion::new(from, to, Rules::default()))
}

/// tract's own cast for one of ours, on an input of a type that may be symbolic, where they are equal.
pub(crate) fn equal_cast(op: &OnnxCast, input: DatumType) -> Option<Cast> {
    let (from, to) = (op.conversion().from(), op.conversion().to());
    let is_its_input = input == from.datum_type() || input == DatumType::TDim;
    let becomes = op.output_type(input);
    (is_its_input && is_equal(from, to) && becomes != DatumType::TDim).then(|| Cast::new(becomes))
}
