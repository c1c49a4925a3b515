//! (from, to, rules) → kernel: the portable one, by the families of both types, which on x86-64
//! `x86/select` wraps in code of its own. `Conversion::new` asks once; which of its instructions
//! run is looked up at each call (`x86/blocks`, `level`).

use std::sync::Arc;

use half::bf16;

use super::compose::ViaFloat;
use super::half::{FromHalf, ToHalf};
use super::lookup::tabulate;
use super::loops::{CopyBody, Kernel, map};
use super::read::{BoolByte, SourceElement};
use super::round::{Narrow, Scale, upper_half};
use super::round_to_odd::ToOdd;
use crate::cast::element_type::{ElementType, Family};
use crate::cast::format::{FloatFormat, Specials};
use crate::cast::rules::Rules;
use crate::cast::scalar;

/// The kernel for a pair of numeric types.
pub(crate) fn select(from: ElementType, to: ElementType, rules: Rules) -> Arc<dyn Kernel> {
    if from == to && !scalar::changes_values(to, rules) {
        return Arc::new(CopyBody);
    }
    // So few codes that the truth itself, tabulated, is the kernel; the exception is the native
    // bytes that other native types are computed from faster than looked up.
    if from.bits() <= 8 && (from.is_exotic() || to.is_exotic()) {
        return tabulate(from, to, rules);
    }
    let kernel = in_loops(from, to, rules);
    #[cfg(target_arch = "x86_64")]
    let kernel = super::x86::select::with_blocks((from, to, rules), kernel);
    kernel
}

fn in_loops(from: ElementType, to: ElementType, rules: Rules) -> Arc<dyn Kernel> {
    match from {
        ElementType::Bool => from_source::<BoolByte>(from, to, rules),
        ElementType::Uint8 => from_source::<u8>(from, to, rules),
        ElementType::Int8 => from_source::<i8>(from, to, rules),
        ElementType::Uint16 => from_source::<u16>(from, to, rules),
        ElementType::Int16 => from_source::<i16>(from, to, rules),
        ElementType::Uint32 => from_source::<u32>(from, to, rules),
        ElementType::Int32 => from_source::<i32>(from, to, rules),
        ElementType::Uint64 => from_source::<u64>(from, to, rules),
        ElementType::Int64 => from_source::<i64>(from, to, rules),
        ElementType::Float16 => from_half(to, rules),
        ElementType::BFloat16 => from_source::<bf16>(from, to, rules),
        ElementType::Float => from_source::<f32>(from, to, rules),
        ElementType::Double => from_source::<f64>(from, to, rules),
        ElementType::String => unreachable!("`select` is for numeric types"),
        // Of at most 8 bits, and exotic.
        _ => tabulate(from, to, rules),
    }
}

/// FLOAT holds every FLOAT16, and the CPU widens it fast.
fn from_half(to: ElementType, rules: Rules) -> Arc<dyn Kernel> {
    match to {
        ElementType::Float => Arc::new(FromHalf),
        // All but the sign bit.
        ElementType::Bool => Arc::new(map(|half: u16| u8::from(half << 1 != 0))),
        _ => {
            let narrow = select(ElementType::Float, to, rules);
            Arc::new(ViaFloat::new(Arc::new(FromHalf), size_of::<u16>(), narrow))
        }
    }
}

fn from_source<S: SourceElement>(
    from: ElementType,
    to: ElementType,
    rules: Rules,
) -> Arc<dyn Kernel> {
    if let (Family::Float(format), ..32, true) = (to.family(), to.bits(), S::IS_FLOAT) {
        return narrow_float(format, to, rules);
    }
    match (to.family(), to.bits()) {
        (Family::Bool, _) => Arc::new(map(|x: S| u8::from(x.is_true()))),
        (Family::Signed | Family::Unsigned, 8) => Arc::new(map(|x: S| x.to_low_bits() as u8)),
        (Family::Signed | Family::Unsigned, 16) => Arc::new(map(|x: S| x.to_low_bits() as u16)),
        (Family::Signed, 32) => Arc::new(map(S::to_i32)),
        (Family::Unsigned, 32) => Arc::new(map(S::to_u32)),
        (Family::Signed, 64) => Arc::new(map(S::to_i64)),
        (Family::Unsigned, 64) => Arc::new(map(S::to_u64)),
        (Family::Signed, bits) => {
            let unused = 32 - bits;
            Arc::new(map(move |x: S| (x.to_low_bits() << unused >> unused) as i8))
        }
        (Family::Unsigned, bits) => {
            let mask = (1 << bits) - 1;
            Arc::new(map(move |x: S| (x.to_low_bits() & mask) as u8))
        }
        (Family::Float(_), 64) => Arc::new(map(S::to_f64)),
        (Family::Float(_), 32) => Arc::new(map(S::to_f32)),
        // Rounded to odd on the way, which rounding to so few bits does not notice. In one go where
        // neither step has vector code of its own.
        (Family::Float(_), _) if to == ElementType::BFloat16 && from.bits() <= 32 => {
            Arc::new(map(|x: S| upper_half(x.to_odd())))
        }
        (Family::Float(_), _) => {
            let narrow = select(ElementType::Float, to, rules);
            Arc::new(ViaFloat::new(to_odd::<S>(from), size_of::<S>(), narrow))
        }
        (Family::Text, _) => unreachable!("`select` is for numeric types"),
    }
}

/// From `S`, which is `from`, to FLOAT rounded to odd.
fn to_odd<S: SourceElement>(from: ElementType) -> Arc<dyn Kernel> {
    let kernel: Arc<dyn Kernel> = match from {
        ElementType::Double => Arc::new(ToOdd::<f64>::new()),
        ElementType::Int64 => Arc::new(ToOdd::<i64>::new()),
        ElementType::Uint64 => Arc::new(ToOdd::<u64>::new()),
        _ => Arc::new(map(S::to_odd)),
    };
    #[cfg(target_arch = "x86_64")]
    let kernel = super::x86::select::to_odd(from, kernel);
    kernel
}

/// From FLOAT to a format of at most 16 bits.
fn narrow_float(format: &FloatFormat, to: ElementType, rules: Rules) -> Arc<dyn Kernel> {
    match to {
        ElementType::Float16 => Arc::new(ToHalf::new()),
        ElementType::BFloat16 => Arc::new(map(|x: f32| upper_half(x))),
        _ if format.specials == Specials::ScaleOnly => {
            let scale = Scale::new(format, rules);
            if scale.saturates() {
                Arc::new(map(move |x: f32| scale.code::<true>(x) as u8))
            } else {
                Arc::new(map(move |x: f32| scale.code::<false>(x) as u8))
            }
        }
        _ => {
            let n = Narrow::new(format, rules);
            const { assert!(other_floats_are_bytes(), "`Narrow` makes bytes here") };
            match (n.saturates(), n.signs_zero()) {
                (true, true) => Arc::new(map(move |x| n.code::<true, true>(x) as u8)),
                (true, false) => Arc::new(map(move |x| n.code::<true, false>(x) as u8)),
                (false, true) => Arc::new(map(move |x| n.code::<false, true>(x) as u8)),
                (false, false) => Arc::new(map(move |x| n.code::<false, false>(x) as u8)),
            }
        }
    }
}

/// Whether every floating-point type narrower than FLOAT, but the two with kernels of their own,
/// fits a byte.
const fn other_floats_are_bytes() -> bool {
    let mut index = 0;
    while index < ElementType::ALL.len() {
        let ty = ElementType::ALL[index];
        if ty.is_float() && !ty.is_half() && ty.bits() > 8 && ty.bits() < 32 {
            return false;
        }
        index += 1;
    }
    true
}
