//! How far tensors are apart (`metrics`, `expected`), what is still all right (`tolerance`, `limits`, `headroom`), what of a
//! list is needed (`minimal`), and what has been found on which `inputs`, as plain data (`audited`, `compared`).

pub(crate) mod angle;
pub(crate) mod audited;
pub(crate) mod compared;
pub(crate) mod coverage;
pub(crate) mod exact;
pub(crate) mod expected;
pub(crate) mod headroom;
pub(crate) mod inputs;
pub(crate) mod limits;
pub(crate) mod metrics;
pub(crate) mod minimal;
mod noise;
pub(crate) mod number;
pub(crate) mod pairing;
pub(crate) mod profile;
pub(crate) mod range;
pub(crate) mod reach;
pub(crate) mod status;
pub(crate) mod tolerance;
pub(crate) mod value;
pub(crate) mod weights;
