//! The files of the layer `cast`, compiled without tract: their tests build in seconds, for any
//! target and under any sanitizer, and a use of tract among them is an error.
//!
//! `run` is for programs that time kernels. Tests that are of all these files at once are here:
//!
//! - `exhaustive`: every FLOAT to every type of at most 16 bits
//! - `digest`: that every machine converts, spells, parses and quantises to the same bits
//! - `bounds`: that nothing beside a conversion's elements is read or written

#![expect(dead_code, unreachable_pub, reason = "the layers above use what is not used here")]

#[path = "../../../src/cast/mod.rs"]
pub mod cast;
pub mod run;

#[cfg(test)]
mod bounds;
#[cfg(test)]
mod digest;
#[cfg(test)]
mod exhaustive;
#[cfg(test)]
mod numbers;
