//! What has been found, on which `inputs` and by which `limits`: plain data, of which every report
//! is made.
//!
//! - `finding`: the table of codes, with severity, label and help; the sentence is made where it is
//!   found
//! - `audited`, `compared`: all that an audit and a comparison find; `head`: what reports say of
//!   both
//! - `verdict`: broken or rounded; `status`: how the work fared
//! - `weights`, `scores`, `profile`, `headroom`, `samples`: parts of these
//! - `coverage`, `look`: what no run has reached, and how wide it has looked

pub(crate) mod audited;
pub(crate) mod compared;
pub(crate) mod coverage;
pub(crate) mod finding;
pub(crate) mod head;
pub(crate) mod headroom;
pub(crate) mod inputs;
pub(crate) mod limits;
pub(crate) mod look;
pub(crate) mod profile;
pub(crate) mod samples;
pub(crate) mod scores;
pub(crate) mod status;
pub(crate) mod verdict;
pub(crate) mod weights;
