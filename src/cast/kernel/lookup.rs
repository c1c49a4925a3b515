//! Table look-ups for sources of at most 8 bits: so few codes that the truth itself, tabulated, is
//! the kernel.
//!
//! A target of W bytes has W byte planes, each a table of 256 bytes. Vector instructions look up
//! whole registers of codes in a plane (`vpermi2b`) or in rows of 16 bytes (`vpshufb`, `tbl`) and
//! then interleave the planes; planes that are zero throughout, as the low ones of a FLOAT made of
//! a small float are, cost nothing, and planes that are alike, as those of a sign, cost one. Where
//! more of them differ than there are instructions for, one entry is loaded after the other.

#![expect(unsafe_code, reason = "the promise of a kernel")]

use std::mem::MaybeUninit;
use std::sync::Arc;

use bytemuck::Pod;

use super::level::Level;
use super::loops::Kernel;
use super::places::places;
#[cfg(any(
    all(target_arch = "aarch64", target_endian = "little"),
    all(target_arch = "wasm32", target_feature = "simd128")
))]
use super::rows::sixteen::RowTables as VectorTables;
#[cfg(target_arch = "x86_64")]
use super::x86::lookup::PlaneTables as VectorTables;
use crate::cast::element_type::ElementType;
use crate::cast::rules::Rules;
use crate::cast::scalar;
#[cfg(not(any(
    target_arch = "x86_64",
    all(target_arch = "aarch64", target_endian = "little"),
    all(target_arch = "wasm32", target_feature = "simd128")
)))]
use none::NoTables as VectorTables;

/// The kernel of a table of targets, indexed by the source's carrier byte.
pub(super) struct Lookup<D> {
    table: Box<[D; 256]>,
    vectors: VectorTables,
}

/// A kernel that looks up what `scalar::convert` says of each of the source's codes.
pub(super) fn tabulate(from: ElementType, to: ElementType, rules: Rules) -> Arc<dyn Kernel> {
    fn table<D: Pod + Send + Sync>(
        from: ElementType,
        to: ElementType,
        rules: Rules,
    ) -> Arc<dyn Kernel> {
        let mut entries = Box::new([D::zeroed(); 256]);
        for (byte, entry) in (0..).zip(entries.iter_mut()) {
            // The bits of a carrier byte above the code, a sign or stray, are not part of it.
            let code = scalar::convert(from, to, rules, byte).expect("both types are numeric");
            scalar::write_carrier(to, code, bytemuck::bytes_of_mut(entry));
        }
        Arc::new(Lookup::new(entries))
    }
    match to.carrier_bytes() {
        Some(1) => table::<u8>(from, to, rules),
        Some(2) => table::<u16>(from, to, rules),
        Some(4) => table::<u32>(from, to, rules),
        _ => table::<u64>(from, to, rules),
    }
}

/// The kernel of a table of bytes, none of which is a truth value.
pub(crate) fn bytes(table: &[u8; 256]) -> Arc<dyn Kernel> {
    Arc::new(Lookup::new(Box::new(*table)))
}

impl<D: Pod> Lookup<D> {
    pub(super) fn new(table: Box<[D; 256]>) -> Lookup<D> {
        let targets: &[u8] = bytemuck::cast_slice(&table[..]);
        Lookup { vectors: VectorTables::new(targets, size_of::<D>()), table }
    }

    fn one_by_one(&self, src: &[u8], dst: &mut [MaybeUninit<u8>]) {
        for (place, code) in places(dst).iter_mut().zip(src) {
            place.write(self.table[usize::from(*code)]);
        }
    }
}

// SAFETY: what whole vectors do not write, one element at a time does. A table for BOOL has 0 and
// 1.
unsafe impl<D: Pod + Send + Sync> Kernel for Lookup<D> {
    fn run(&self, level: Level, src: &[u8], dst: &mut [MaybeUninit<u8>]) {
        const WIDEST: usize = 64;
        let done = if src.len() < WIDEST { 0 } else { self.vectors.run(level, src, dst) };
        self.one_by_one(&src[done..], &mut dst[done * size_of::<D>()..]);
    }
}

#[cfg(not(any(
    target_arch = "x86_64",
    all(target_arch = "aarch64", target_endian = "little"),
    all(target_arch = "wasm32", target_feature = "simd128")
)))]
mod none {
    //! For CPUs without vector instructions that look up.

    use super::{Level, MaybeUninit};

    pub(super) struct NoTables;

    impl NoTables {
        pub(super) fn new(_: &[u8], _: usize) -> NoTables {
            NoTables
        }

        /// Looks up no code.
        pub(super) fn run(&self, _: Level, _: &[u8], _: &mut [MaybeUninit<u8>]) -> usize {
            0
        }
    }
}
