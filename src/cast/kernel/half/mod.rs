//! FLOAT ↔ FLOAT16, with the conversion instructions where the level has them. They round as
//! [SEMANTICS §5.1](crate::semantics) asks; only a NaN is written anew, with the canonical payload.

#![expect(unsafe_code, reason = "the promise of a kernel")]

#[cfg(all(target_arch = "aarch64", target_endian = "little"))]
pub(super) mod arm64;
#[cfg(not(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little"))))]
mod none;

use std::mem::MaybeUninit;

use half::f16;

use super::level::Level;
use super::loops::{Kernel, map};
use super::places::places;
use super::read::SourceElement;
use super::round::Narrow;
#[cfg(target_arch = "x86_64")]
use super::x86::half as machine;
use crate::cast::format;
use crate::cast::rules::Rules;
#[cfg(all(target_arch = "aarch64", target_endian = "little"))]
use arm64 as machine;
#[cfg(not(any(
    target_arch = "x86_64",
    all(target_arch = "aarch64", target_endian = "little")
)))]
use none as machine;

pub(super) use machine::round_to_half;

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

// SAFETY: what whole vectors do not write, one element at a time does.
unsafe impl Kernel for ToHalf {
    fn run(&self, level: Level, src: &[u8], dst: &mut [MaybeUninit<u8>]) {
        let done = machine::to_half(level, bytemuck::cast_slice(src), places(dst));
        if 4 * done == src.len() {
            return;
        }
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
        let done = machine::from_half(level, bytemuck::cast_slice(src), places(dst));
        if 2 * done == src.len() {
            return;
        }
        map(<f16 as SourceElement>::to_f32).run(level, &src[2 * done..], &mut dst[4 * done..]);
    }
}
