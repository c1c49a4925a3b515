//! Table look-ups for sources of at most 8 bits: so few codes that the truth itself, tabulated, is the kernel.
//!
//! A target of W bytes has W byte planes, each a table of 256 bytes. Vector instructions look up whole registers of
//! codes in a plane (`vpermi2b`, `vpshufb`) and then interleave the planes; planes that are zero throughout, as the low
//! ones of a FLOAT made of a small float are, cost nothing.

use bytemuck::Pod;

use super::{Kernel, Level};

/// The kernel of a table of targets, indexed by the source's carrier byte.
pub(super) struct Lookup<D> {
    table: Box<[D; 256]>,
    #[cfg(target_arch = "x86_64")]
    planes: Vec<x86::Plane>,
}

impl<D: Pod> Lookup<D> {
    pub(super) fn new(table: Box<[D; 256]>) -> Lookup<D> {
        #[cfg(target_arch = "x86_64")]
        let planes = x86::Plane::all(bytemuck::cast_slice(&table[..]), size_of::<D>());
        Lookup {
            table,
            #[cfg(target_arch = "x86_64")]
            planes,
        }
    }

    fn one_by_one(&self, src: &[u8], dst: &mut [u8]) {
        let dst: &mut [D] = bytemuck::cast_slice_mut(dst);
        for (d, s) in dst.iter_mut().zip(src) {
            *d = self.table[usize::from(*s)];
        }
    }
}

impl<D: Pod + Send + Sync> Kernel for Lookup<D> {
    fn run(&self, level: Level, src: &[u8], dst: &mut [u8]) {
        let done = self.whole_vectors(level, src, dst);
        self.one_by_one(&src[done..], &mut dst[done * size_of::<D>()..]);
    }
}

#[cfg(not(target_arch = "x86_64"))]
impl<D: Pod> Lookup<D> {
    /// Converts as many elements as fill vectors, and returns how many.
    fn whole_vectors(&self, _: Level, _: &[u8], _: &mut [u8]) -> usize {
        0
    }
}

#[cfg(target_arch = "x86_64")]
impl<D: Pod> Lookup<D> {
    /// Converts as many elements as fill vectors, and returns how many.
    fn whole_vectors(&self, level: Level, src: &[u8], dst: &mut [u8]) -> usize {
        const WIDEST: usize = 64;
        if src.len() < WIDEST {
            return 0;
        }
        if let Some(avx512) = level.avx512() {
            return x86::avx512(avx512, &self.planes, size_of::<D>(), src, dst);
        }
        match (level.avx2(), &self.planes[..]) {
            (Some(avx2), [plane]) if size_of::<D>() == 1 => x86::avx2(avx2, plane, src, dst),
            _ => 0,
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    #![expect(
        unsafe_code,
        reason = "vector loads and stores, and calls that need their instructions"
    )]

    use std::arch::x86_64::*;

    use crate::kernel::level::{Avx2, Avx512};

    /// One byte of every target.
    pub(super) struct Plane {
        /// Which byte of the target.
        byte: usize,
        table: [u8; 256],
    }

    impl Plane {
        /// The planes of a table of targets of `width` bytes that are not zero throughout; of a table of zeros, one.
        pub(super) fn all(targets: &[u8], width: usize) -> Vec<Plane> {
            let plane = |byte: usize| {
                let mut table = [0; 256];
                for (entry, target) in table.iter_mut().zip(targets.chunks_exact(width)) {
                    *entry = target[byte];
                }
                Plane { byte, table }
            };
            let mut planes: Vec<Plane> = (0..width).map(plane).collect();
            if planes.iter().any(|plane| plane.table != [0; 256]) {
                planes.retain(|plane| plane.table != [0; 256]);
            }
            planes
        }
    }

    /// Looks up whole vectors of 64 codes; returns how many codes.
    pub(super) fn avx512(
        _proof: Avx512,
        planes: &[Plane],
        width: usize,
        src: &[u8],
        dst: &mut [u8],
    ) -> usize {
        let done = src.len() / 64 * 64;
        assert!(dst.len() >= done * width);
        for pair in planes.chunks(2) {
            let first = std::ptr::eq(pair.as_ptr(), planes.as_ptr());
            // SAFETY: the proof says that the CPU has the instructions.
            unsafe { planes_avx512(pair, width, first, &src[..done], &mut dst[..done * width]) };
        }
        done
    }

    /// Writes one or two planes of every target: the first time over whatever is there, then into the zeros that were
    /// left for them.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi")]
    fn planes_avx512(pair: &[Plane], width: usize, first: bool, src: &[u8], dst: &mut [u8]) {
        let low = load_plane(&pair[0]);
        let high = load_plane(&pair[pair.len() - 1]);
        let two = pair.len() == 2;
        if width == 1 {
            for (codes, out) in src.chunks_exact(64).zip(dst.chunks_exact_mut(64)) {
                // SAFETY: the chunks are of 64 bytes.
                unsafe {
                    let codes = _mm512_loadu_si512(codes.as_ptr().cast());
                    _mm512_storeu_si512(out.as_mut_ptr().cast(), look_up(&low, codes));
                }
            }
            return;
        }
        // For the j-th vector of outputs: output byte t is byte t mod width of element j · 64 / width + t / width.
        let mut places = [0u8; 64];
        let mut mask = 0u64;
        for (t, place) in places.iter_mut().enumerate() {
            let element = (t / width) as u8;
            let byte = t % width;
            if byte == pair[0].byte {
                *place = element;
                mask |= 1 << t;
            } else if two && byte == pair[1].byte {
                // From the second register of the permutation.
                *place = 64 | element;
                mask |= 1 << t;
            }
        }
        // SAFETY: the array has 64 bytes.
        let places = unsafe { _mm512_loadu_si512(places.as_ptr().cast()) };
        let step = _mm512_set1_epi8((64 / width) as i8);
        for (codes, out) in src.chunks_exact(64).zip(dst.chunks_exact_mut(64 * width)) {
            // SAFETY: the chunk is of 64 bytes.
            let codes = unsafe { _mm512_loadu_si512(codes.as_ptr().cast()) };
            let a = look_up(&low, codes);
            let b = if two { look_up(&high, codes) } else { a };
            let mut places = places;
            for vector in out.chunks_exact_mut(64) {
                let bytes = _mm512_maskz_permutex2var_epi8(mask, a, places, b);
                // SAFETY: the chunk is of 64 bytes.
                unsafe {
                    let bytes = if first {
                        bytes
                    } else {
                        _mm512_or_si512(bytes, _mm512_loadu_si512(vector.as_ptr().cast()))
                    };
                    _mm512_storeu_si512(vector.as_mut_ptr().cast(), bytes);
                }
                places = _mm512_add_epi8(places, step);
            }
        }
    }

    #[target_feature(enable = "avx512f")]
    fn load_plane(plane: &Plane) -> [__m512i; 4] {
        // SAFETY: the table has 256 bytes.
        unsafe {
            let start = plane.table.as_ptr();
            [0, 64, 128, 192].map(|at| _mm512_loadu_si512(start.add(at).cast()))
        }
    }

    /// Each of 64 codes in a table of 256 bytes: its low 7 bits in either half, its top bit saying which.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    fn look_up(table: &[__m512i; 4], codes: __m512i) -> __m512i {
        let low = _mm512_permutex2var_epi8(table[0], codes, table[1]);
        let high = _mm512_permutex2var_epi8(table[2], codes, table[3]);
        _mm512_mask_blend_epi8(_mm512_movepi8_mask(codes), low, high)
    }

    /// Looks up whole vectors of 32 codes in one plane; returns how many codes.
    pub(super) fn avx2(_proof: Avx2, plane: &Plane, src: &[u8], dst: &mut [u8]) -> usize {
        let done = src.len() / 32 * 32;
        // SAFETY: the proof says that the CPU has the instructions.
        unsafe { plane_avx2(plane, &src[..done], &mut dst[..done]) };
        done
    }

    #[target_feature(enable = "avx2")]
    fn plane_avx2(plane: &Plane, src: &[u8], dst: &mut [u8]) {
        let mut rows = [_mm256_setzero_si256(); 16];
        for (row, entries) in rows.iter_mut().zip(plane.table.chunks_exact(16)) {
            // SAFETY: the chunk is of 16 bytes.
            *row = _mm256_broadcastsi128_si256(unsafe { _mm_loadu_si128(entries.as_ptr().cast()) });
        }
        let row_length = _mm256_set1_epi8(16);
        // Adding 0x70 with saturation sets the top bit of every index beyond 15, for which the shuffle gives zero.
        let reject = _mm256_set1_epi8(0x70);
        for (codes, out) in src.chunks_exact(32).zip(dst.chunks_exact_mut(32)) {
            // SAFETY: the chunk is of 32 bytes.
            let mut codes = unsafe { _mm256_loadu_si256(codes.as_ptr().cast()) };
            let mut found = _mm256_setzero_si256();
            for row in &rows {
                let in_row = _mm256_adds_epu8(codes, reject);
                found = _mm256_or_si256(found, _mm256_shuffle_epi8(*row, in_row));
                codes = _mm256_sub_epi8(codes, row_length);
            }
            // SAFETY: the chunk is of 32 bytes.
            unsafe { _mm256_storeu_si256(out.as_mut_ptr().cast(), found) };
        }
    }
}
