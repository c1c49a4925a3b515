//! What a check takes of memory and of the processor's time.

use peak_alloc::PeakAlloc;
use rustix::time::{ClockId, clock_gettime};

use crate::checks::models;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// Four times what constants may make, as 1 GiB is of the default, and what a model of libFuzzer's
/// size takes as messages.
const BYTES: usize = 128 << 20;
const SECONDS: i64 = 10;

/// Loading a model takes no more memory and no more time than its limits promise.
pub fn load(data: &[u8]) {
    let seconds = || clock_gettime(ClockId::ThreadCPUTime).tv_sec;
    let (memory, start) = (MEMORY.current_usage(), seconds());
    MEMORY.reset_peak_usage();
    models::load(data);
    let taken = MEMORY.peak_usage() - memory;
    assert!(taken <= BYTES, "{taken} bytes");
    let taken = seconds() - start;
    assert!(taken <= SECONDS, "{taken} seconds");
}
