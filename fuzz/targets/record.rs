#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use onnx_cast_fuzz::mutate::mutate;

fuzz_target!(|data: &[u8]| onnx_cast_fuzz::record::copies(data));

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    mutate(data, size, max_size, seed, fuzzer_mutate)
});
