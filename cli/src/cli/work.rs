//! The work, a file for each kind, in a worker's process: requests, how they are answered with tract, and of what type the
//! answers are. Nothing here knows what the user is shown.

pub(crate) mod audit;
pub(crate) mod baseline;
pub(crate) mod carry;
pub(crate) mod check;
pub(crate) mod compare;
pub(crate) mod copy;
pub(crate) mod deadline;
pub(crate) mod fix;
pub(crate) mod inspect;
pub(crate) mod keep;
pub(crate) mod model;
pub(crate) mod notes;
mod numpy;
pub(crate) mod operators;
pub(crate) mod plan;
pub(crate) mod probed;
mod provenance;
pub(crate) mod record;
pub(crate) mod request;
pub(crate) mod run;
pub(crate) mod watched;
pub(crate) mod weights;
