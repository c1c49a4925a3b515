//! The loops: a kernel converts a slice of elements, each in its machine type, to a slice of
//! elements. Which one is chosen once, when a conversion is made; nothing inside a loop looks at
//! types or attributes. What a call looks at is how far the CPU goes (`level`), which forced levels
//! of tests lower.
//!
//! - `places`: memory that is still to be written
//! - `level`: how far this CPU goes, and the shims that compile every loop once per level
//! - `loops`: what a kernel is, and the loop that most of them are
//! - `read`: what 12 machine types, and BFLOAT16, offer to the loops
//! - `round`: rounding to the small floats, whose constants come from the format record
//! - `half`: FLOAT ↔ FLOAT16 by the CPU's own instructions
//! - `round_to_odd`: 64-bit words on their way to small floats
//! - `lookup`: tables for sources of at most 8 bits
//! - `rows`: such tables as sums of rows of 16 bytes
//! - `compose`: two kernels in a row
//! - `rounding`: to half precision and back
//! - `select`: (from, to, rules) → kernel, by families of types
//! - `stream`: outputs too large for the caches
//! - `x86`: what AVX2 and AVX-512 add to these

mod compose;
mod half;
pub(crate) mod level;
pub(crate) mod lookup;
pub(crate) mod loops;
pub(crate) mod places;
mod read;
pub(crate) mod round;
mod round_to_odd;
pub(crate) mod rounding;
#[cfg(any(
    target_arch = "x86_64",
    all(target_arch = "aarch64", target_endian = "little"),
    all(target_arch = "wasm32", target_feature = "simd128")
))]
mod rows;
pub(crate) mod select;
pub(crate) mod stream;
#[cfg(target_arch = "x86_64")]
mod x86;

#[cfg(test)]
pub(super) mod tests;
