//! The command line, through the real program: what scripts rely on, and what it makes of files
//! that are not sound.

#[path = "../../../tests/common/mod.rs"]
mod common;

mod absent;
mod attacks;
mod audit_counts;
mod blocks;
mod bodies;
mod codes;
mod convert;
mod culprits;
mod cuts;
mod documented;
mod dumps;
mod early;
mod engines;
mod error_kinds;
#[cfg(unix)]
mod faults;
mod fix;
mod formats;
#[cfg(unix)]
mod growth;
mod half;
#[cfg(unix)]
mod hostile;
mod inputs;
mod inspect;
mod keep;
mod keep_quantized;
mod kinks;
mod located;
mod looked;
#[cfg(target_os = "linux")]
mod memory;
mod moved;
mod mutations;
mod named;
#[cfg(unix)]
mod pictures;
mod program;
#[cfg(target_os = "linux")]
mod progress;
mod quantized;
mod reading;
#[cfg(unix)]
mod reduce;
mod reexports;
mod refactored;
mod references;
mod refusals;
mod reports;
mod run;
mod samples;
mod scales;
mod scores;
mod search;
#[cfg(unix)]
mod strange_files;
mod test;
mod unusual;
mod verdict;
mod weights;
