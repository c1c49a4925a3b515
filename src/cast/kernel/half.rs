//! FLOAT ↔ FLOAT16, with the conversion instructions where the level has them. They round as [SEMANTICS
//! §5.1](crate::semantics) asks; only a NaN is written anew, with the canonical payload.

#![expect(unsafe_code, reason = "the promise of a kernel")]

use std::mem::MaybeUninit;

use half::f16;

use super::level::Level;
use super::loops::{Kernel, map};
#[cfg(target_arch = "x86_64")]
use super::places::places;
use super::read::Source;
use super::round::Narrow;
#[cfg(target_arch = "x86_64")]
use super::x86;
use crate::cast::format;
use crate::cast::rules::Rules;

/// FLOAT to FLOAT16.
pub(super) struct ToHalf {
    rest: Narrow,
}

impl ToHalf {
    pub(super) fn new() -> ToHalf {
        ToHalf { rest: Narrow::new(&format::FLOAT16, Rules::default()) }
    }
}

/// FLOAT16 to FLOAT.
pub(super) struct FromHalf;

#[cfg(target_arch = "x86_64")]
pub(super) use super::x86::half::round_to_half;

/// Rounds as many elements as there are instructions for, and returns how many.
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn round_to_half(_: Level, _: &mut [f32]) -> usize {
    0
}

// SAFETY: what whole vectors do not write, one element at a time does.
unsafe impl Kernel for ToHalf {
    fn run(&self, level: Level, src: &[u8], dst: &mut [MaybeUninit<u8>]) {
        #[cfg(target_arch = "x86_64")]
        let done = x86::half::to_half(level, bytemuck::cast_slice(src), places(dst));
        #[cfg(not(target_arch = "x86_64"))]
        let done = 0;
        map(|x: f32| self.rest.code::<false, true>(x) as u16).run(
            level,
            &src[4 * done..],
            &mut dst[2 * done..],
        );
    }
}

// SAFETY: what whole vectors do not write, one element at a time does.
unsafe impl Kernel for FromHalf {
    fn run(&self, level: Level, src: &[u8], dst: &mut [MaybeUninit<u8>]) {
        #[cfg(target_arch = "x86_64")]
        let done = x86::half::from_half(level, bytemuck::cast_slice(src), places(dst));
        #[cfg(not(target_arch = "x86_64"))]
        let done = 0;
        map(<f16 as Source>::to_f32).run(level, &src[2 * done..], &mut dst[4 * done..]);
    }
}
