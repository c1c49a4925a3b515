//! tract's own `Cast`: where it gives the bits that ours gives.

#![forbid(unsafe_code)]

use crate::cast::element_type::{ElementType, Family};

/// As [`Conversion::equals_core_cast`](crate::Conversion::equals_core_cast).
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
