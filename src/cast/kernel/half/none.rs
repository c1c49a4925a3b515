//! For CPUs without conversion instructions, or without any that Rust has: no element is converted
//! here.

use std::mem::MaybeUninit;

use super::Level;

pub(super) fn to_half(_: Level, _: &[f32], _: &mut [MaybeUninit<u16>]) -> usize {
    0
}

pub(super) fn from_half(_: Level, _: &[u16], _: &mut [MaybeUninit<f32>]) -> usize {
    0
}

pub(in crate::cast::kernel) fn round_to_half(_: Level, _: &mut [f32]) -> usize {
    0
}
