//! How far this CPU goes. A [`Level`] above the baseline can only be had by detection, so that
//! holding one proves that its instructions exist.

use std::mem::MaybeUninit;
use std::sync::OnceLock;

/// A set of CPU instructions that the kernels are compiled for.
///
/// Every level computes the same bits; only the speed differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Level(Instructions);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Instructions {
    Baseline,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

/// Proof of AVX2, F16C, FMA and BMI2.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
pub(super) struct Avx2(());

/// Proof of all that [`Avx2`] proves, and AVX-512 F, BW, CD, DQ, VL and VBMI.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
pub(super) struct Avx512(());

impl Level {
    /// What the target guarantees: SSE2 on x86-64, NEON on arm64.
    pub const BASELINE: Level = Level(Instructions::Baseline);

    /// The highest level this CPU has. Detected once.
    pub fn best() -> Level {
        static BEST: OnceLock<Level> = OnceLock::new();
        *BEST.get_or_init(|| Level::available().pop().unwrap_or(Level::BASELINE))
    }

    /// Every level this CPU has, lowest first.
    pub fn available() -> Vec<Level> {
        #[allow(unused_mut, reason = "only x86-64 has levels above the baseline")]
        let mut levels = vec![Level::BASELINE];
        #[cfg(target_arch = "x86_64")]
        {
            if avx2::is_detected() {
                levels.push(Level(Instructions::Avx2));
            }
            if avx2::is_detected() && avx512::is_detected() {
                levels.push(Level(Instructions::Avx512));
            }
        }
        levels
    }

    /// Clears the upper halves of the vector registers, as x86-64's calling convention has them
    /// wherever a function is called. tract's kernels leave them as they are (docs/upstream.md),
    /// and while they are in use each change between instructions of SSE and of AVX waits: a
    /// function of the C library that has some of AVX takes forty times as long.
    #[cfg_attr(
        target_arch = "x86_64",
        expect(unsafe_code, reason = "an instruction that detection has found")
    )]
    pub(crate) fn clear_upper_halves() {
        #[cfg(target_arch = "x86_64")]
        if Level::best().avx2().is_some() {
            // SAFETY: a CPU that has AVX2 has AVX.
            unsafe { clear_upper_halves() }
        }
    }

    /// Whether the CPU has an instruction that rounds a product and a sum once.
    pub(crate) fn fuses(self) -> bool {
        const ALWAYS: bool = cfg!(any(target_arch = "aarch64", target_feature = "fma"));
        ALWAYS || self > Level::BASELINE
    }

    /// The proof that the CPU has the instructions of the AVX2 level.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn avx2(self) -> Option<Avx2> {
        (self.0 >= Instructions::Avx2).then_some(Avx2(()))
    }

    /// The proof that the CPU has the instructions of the AVX-512 level.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn avx512(self) -> Option<Avx512> {
        (self.0 >= Instructions::Avx512).then_some(Avx512(()))
    }

    /// Does something with code compiled for this level, and returns its answer. Only what is
    /// inlined into `work` is compiled so: functions on the way are `#[inline(always)]`. No two
    /// operations become one that rounds once.
    #[cfg_attr(
        target_arch = "x86_64",
        expect(
            unsafe_code,
            reason = "calling a function compiled for instructions that detection has found"
        )
    )]
    #[inline(always)]
    pub fn run<R>(self, work: impl FnOnce() -> R) -> R {
        match self.0 {
            Instructions::Baseline => work(),
            // SAFETY: only `available` makes this level, after detecting every feature that the
            // shim enables.
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2 => unsafe { avx2::run(work) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx512 => unsafe { avx512::run(work) },
        }
    }

    /// As [`Level::run`], of a loop with an answer: what it reads and writes are arguments, by
    /// which the compiler knows that they do not overlap.
    #[cfg_attr(
        target_arch = "x86_64",
        expect(
            unsafe_code,
            reason = "calling a function compiled for instructions that detection has found"
        )
    )]
    #[inline(always)]
    pub(crate) fn run_on<S, D, R>(
        self,
        src: &[S],
        dst: &mut [D],
        work: impl FnOnce(&[S], &mut [D]) -> R,
    ) -> R {
        match self.0 {
            Instructions::Baseline => work(src, dst),
            // SAFETY: only `available` makes this level, after detecting every feature that the
            // shim enables.
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2 => unsafe { avx2::run_on(src, dst, work) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx512 => unsafe { avx512::run_on(src, dst, work) },
        }
    }

    /// As [`Level::run`], of a loop: what it reads and writes are arguments, by which the compiler
    /// knows that they do not overlap.
    #[cfg_attr(
        target_arch = "x86_64",
        expect(
            unsafe_code,
            reason = "calling a function compiled for instructions that detection has found"
        )
    )]
    #[inline(always)]
    pub(in crate::cast) fn run_loop<B>(
        self,
        body: &B,
        src: &[u8],
        dst: &mut [MaybeUninit<u8>],
        run: impl Fn(&B, &[u8], &mut [MaybeUninit<u8>]),
    ) {
        match self.0 {
            Instructions::Baseline => run(body, src, dst),
            // SAFETY: only `available` makes this level, after detecting every feature that the
            // shim enables.
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2 => unsafe { avx2::run_loop(body, src, dst, run) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx512 => unsafe { avx512::run_loop(body, src, dst, run) },
        }
    }
}

/// From one list of features, their detection and a shim that compiles what they run with them.
#[cfg(target_arch = "x86_64")]
macro_rules! level {
    ($name:ident: $($feature:tt)*) => {
        mod $name {
            use std::mem::MaybeUninit;

                        pub(super) fn is_detected() -> bool {
                true $(&& is_x86_feature_detected!($feature))*
            }

            $(#[target_feature(enable = $feature)])*
            pub(super) fn run<R>(work: impl FnOnce() -> R) -> R {
                work()
            }

            $(#[target_feature(enable = $feature)])*
            pub(super) fn run_on<S, D, R>(
                src: &[S],
                dst: &mut [D],
                work: impl FnOnce(&[S], &mut [D]) -> R,
            ) -> R {
                work(src, dst)
            }

            $(#[target_feature(enable = $feature)])*
            pub(super) fn run_loop<B>(
                body: &B,
                src: &[u8],
                dst: &mut [MaybeUninit<u8>],
                run: impl Fn(&B, &[u8], &mut [MaybeUninit<u8>]),
            ) {
                run(body, src, dst)
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx")]
fn clear_upper_halves() {
    std::arch::x86_64::_mm256_zeroupper();
}

#[cfg(target_arch = "x86_64")]
level!(avx2: "avx2" "f16c" "fma" "bmi2");
#[cfg(target_arch = "x86_64")]
level!(avx512: "avx2" "f16c" "fma" "bmi2" "avx512f" "avx512bw" "avx512cd" "avx512dq" "avx512vl" "avx512vbmi");

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use std::arch::asm;

    use super::*;

    /// Sets all bits of a register, and tells some of its upper half after a call.
    #[target_feature(enable = "avx2")]
    #[expect(unsafe_code, reason = "instructions alone see the upper half of a register")]
    fn upper_half_after(call: extern "sysv64" fn()) -> u64 {
        let upper: u64;
        // SAFETY: the instructions are of AVX2, the stack may be used, and what a call changes is
        // declared.
        unsafe {
            asm!(
                "vpcmpeqd ymm9, ymm9, ymm9",
                "call {call}",
                "vextracti128 xmm9, ymm9, 1",
                "vmovq rax, xmm9",
                call = in(reg) call,
                out("rax") upper,
                clobber_abi("sysv64"),
            );
        }
        upper
    }

    #[test]
    #[expect(
        unsafe_code,
        reason = "calling a function compiled for instructions that detection has found"
    )]
    fn upper_halves_of_registers_are_cleared() {
        extern "sysv64" fn nothing() {}
        extern "sysv64" fn clear() {
            Level::clear_upper_halves();
        }
        if Level::best().avx2().is_some() {
            // SAFETY: the CPU has AVX2.
            let after = |call| unsafe { upper_half_after(call) };
            assert_eq!((after(nothing), after(clear)), (u64::MAX, 0));
        }
    }
}
