//! Crates that only the tests and benches use. A dev-dependency without a version is left out of
//! what is published, and so is what it depends on: a fifth of a lock file that whoever downloads
//! the library would get.

#![forbid(unsafe_code)]

pub use {criterion, insta, peak_alloc, serde_json, sha2, tempfile, zip};
