//! What libFuzzer asks of a target.

use std::ffi::c_int;
use std::{panic, process, slice};

unsafe extern "C" {
    fn LLVMFuzzerMutate(data: *mut u8, size: usize, max_size: usize) -> usize;
}

/// The program of a target, whose check panics where something does not hold; with a mutator of its
/// own where there is one, which gets a buffer, how much of it is the input, how much it may be, a
/// seed, and a function that does the same to bytes.
#[macro_export]
macro_rules! target {
    ($check:path $(, $mutate:path)?) => {
        #[unsafe(no_mangle)]
        extern "C" fn LLVMFuzzerInitialize(_: *mut i32, _: *mut *mut *mut u8) -> i32 {
            $crate::engine::initialize()
        }

        #[unsafe(no_mangle)]
        extern "C" fn LLVMFuzzerTestOneInput(data: *const u8, size: usize) -> i32 {
            // SAFETY: libFuzzer's promise.
            unsafe { $crate::engine::test(data, size, $check) }
        }

        $(
            #[unsafe(no_mangle)]
            extern "C" fn LLVMFuzzerCustomMutator(
                data: *mut u8,
                size: usize,
                max_size: usize,
                seed: u32,
            ) -> usize {
                // SAFETY: libFuzzer's promise.
                let buffer = unsafe { std::slice::from_raw_parts_mut(data, max_size) };
                $mutate(buffer, size, max_size, seed, $crate::engine::mutate)
            }
        )?
    };
}

/// Ends the process at a panic, so that libFuzzer keeps the input; unless the check has a hook of
/// its own.
pub fn initialize() -> c_int {
    let print = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        print(info);
        process::abort();
    }));
    0
}

/// Runs a check on an input.
///
/// # Safety
///
/// So many bytes must be readable there.
pub unsafe fn test(data: *const u8, size: usize, check: fn(&[u8])) -> c_int {
    // An empty one may be nowhere.
    // SAFETY: the caller's promise.
    let input = if size == 0 { &[] } else { unsafe { slice::from_raw_parts(data, size) } };
    check(input);
    0
}

/// libFuzzer's own mutation: of the first `size` bytes, into at most `max_size`.
pub fn mutate(buffer: &mut [u8], size: usize, max_size: usize) -> usize {
    assert!(size <= max_size && max_size <= buffer.len());
    // SAFETY: the buffer has room for so many.
    unsafe { LLVMFuzzerMutate(buffer.as_mut_ptr(), size, max_size) }
}
