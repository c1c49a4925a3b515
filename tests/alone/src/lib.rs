//! The files of the layer `cast`, compiled without tract: their tests build in seconds, for any target and under any
//! sanitizer, and a use of tract among them is an error.

#![expect(dead_code, unreachable_pub, reason = "the layers above use what is not used here")]

#[path = "../../../src/cast/mod.rs"]
pub mod cast;
