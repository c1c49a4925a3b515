//! What has been found, on which `inputs` and by which `limits`: plain data, of which every report
//! is made.

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
