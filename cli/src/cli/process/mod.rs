//! The two processes and what they say to each other.
//!
//! tract can panic, run out of stack or out of memory on a hostile file, so it runs in a second
//! process of the same program, the `worker`. The `supervisor` asks it a `request` by the
//! `protocol`, and turns whatever becomes of it into an outcome: a request for which tract has no
//! plan is asked a second time, to be run node by node (`engines`). `command` runs what the user
//! wants to be run on a model, `jobs` has several requests at work, and `signals` has an
//! interruption leave nothing half-written.

pub(crate) mod command;
mod engines;
pub(crate) mod jobs;
pub(crate) mod protocol;
pub(crate) mod request;
pub(crate) mod signals;
pub(crate) mod supervisor;
pub(crate) mod worker;
