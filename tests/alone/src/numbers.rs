//! What the tests of all conversions share.

use crate::cast::element_type::{ElementType, Family};
use crate::cast::rules::{RoundMode, Rules};

/// The types that hold numbers.
pub(crate) fn numeric() -> impl Iterator<Item = ElementType> {
    ElementType::ALL.iter().copied().filter(|ty| ty.family() != Family::Text)
}

/// The attributes that make a difference for a target.
pub(crate) fn rules_for(to: ElementType) -> Vec<Rules> {
    let modes = [RoundMode::Up, RoundMode::Down, RoundMode::Nearest];
    let modes = if to == ElementType::Float8E8M0 { &modes[..] } else { &modes[..1] };
    let is_float8 = to.is_float() && to.bits() == 8;
    let saturates = if is_float8 { &[true, false][..] } else { &[true] };
    let of_mode = |mode: &RoundMode| {
        let mode = *mode;
        saturates.iter().map(move |saturate| Rules::new(*saturate, mode))
    };
    modes.iter().flat_map(of_mode).collect()
}

/// Codes of a type that are the same on every machine: every one of its upper 16 bits, over and
/// over again, the bits below them in turn none, all, one and any. Of a type of fewer bits, every
/// one.
pub(crate) fn sample(ty: ElementType, count: usize) -> Vec<u64> {
    // A BOOL in memory is 0 or 1.
    let mask = if ty == ElementType::Bool { 1 } else { ty.code_mask() };
    let low = ty.bits().saturating_sub(16);
    let below = (1 << low) - 1;
    let code = |index: u64| {
        // Odd factors reach every code, none near the last one.
        let upper = index.wrapping_mul(0x9E35) & 0xFFFF;
        let rest = match index >> 1 & 3 {
            0 => 0,
            1 => u64::MAX,
            2 => 1,
            _ => index.wrapping_mul(0x9E37_79B9_7F4A_7C15),
        };
        (upper << low | rest & below) & mask
    };
    (0..count as u64).map(code).collect()
}
