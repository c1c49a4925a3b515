//! Table look-ups for sources of at most 8 bits: so few codes that the truth itself, tabulated, is
//! the kernel.
//!
//! A target of W bytes has W byte planes, each a table of 256 bytes. Vector instructions look up
//! whole registers of codes in a plane (`vpermi2b`) or in rows of 16 bytes (`vpshufb`) and then
//! interleave the planes; planes that are zero throughout, as the low ones of a FLOAT made of a
//! small float are, cost nothing, and planes that are alike, as those of a sign, cost one. Where
//! more of them differ than there are instructions for, one entry is loaded after the other.

#![expect(unsafe_code, reason = "the promise of a kernel")]

use std::mem::MaybeUninit;
use std::sync::Arc;

use bytemuck::Pod;

use super::level::Level;
use super::loops::Kernel;
use super::places::places;
#[cfg(target_arch = "x86_64")]
use super::rows::Rows;
#[cfg(target_arch = "x86_64")]
use super::x86;

/// The kernel of a table of targets, indexed by the source's carrier byte.
pub(super) struct Lookup<D> {
    table: Box<[D; 256]>,
    #[cfg(target_arch = "x86_64")]
    planes: x86::lookup::Planes,
    #[cfg(target_arch = "x86_64")]
    rows: Option<Rows>,
}

/// The kernel of a table of bytes, none of which is a truth value.
pub(crate) fn bytes(table: &[u8; 256]) -> Arc<dyn Kernel> {
    Arc::new(Lookup::new(Box::new(*table)))
}

impl<D: Pod> Lookup<D> {
    pub(super) fn new(table: Box<[D; 256]>) -> Lookup<D> {
        #[cfg(target_arch = "x86_64")]
        let targets: &[u8] = bytemuck::cast_slice(&table[..]);
        Lookup {
            #[cfg(target_arch = "x86_64")]
            planes: x86::lookup::Planes::new(targets, size_of::<D>()),
            #[cfg(target_arch = "x86_64")]
            rows: x86::rows::cheapest(targets, size_of::<D>()),
            table,
        }
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
        let done = self.whole_vectors(level, src, dst);
        self.one_by_one(&src[done..], &mut dst[done * size_of::<D>()..]);
    }
}

#[cfg(not(target_arch = "x86_64"))]
impl<D: Pod> Lookup<D> {
    /// Converts as many elements as fill vectors, and returns how many; as many are written.
    fn whole_vectors(&self, _: Level, _: &[u8], _: &mut [MaybeUninit<u8>]) -> usize {
        0
    }
}

#[cfg(target_arch = "x86_64")]
impl<D: Pod> Lookup<D> {
    /// Converts as many elements as fill vectors, and returns how many; as many are written.
    fn whole_vectors(&self, level: Level, src: &[u8], dst: &mut [MaybeUninit<u8>]) -> usize {
        const WIDEST: usize = 64;
        if src.len() < WIDEST {
            return 0;
        }
        if let Some(avx512) = level.avx512() {
            return x86::lookup::avx512(avx512, &self.planes, src, dst);
        }
        match (level.avx2(), &self.rows) {
            (Some(avx2), Some(rows)) => x86::rows::avx2(avx2, rows, size_of::<D>(), src, dst),
            _ => 0,
        }
    }
}
