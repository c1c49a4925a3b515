//! How far tensors are apart, whatever their element types: exact values (`exact`, `value`), the
//! metrics of a pair of tensors (`metrics`), of a pair of weights (`weight`), and the tolerances
//! that they are held against. `reals` reads many elements as numbers, `lanes` adds many up.

pub(crate) mod elements;
pub(crate) mod exact;
pub(crate) mod lanes;
pub(crate) mod metrics;
pub(crate) mod number;
pub(crate) mod pairing;
pub(crate) mod range;
pub(crate) mod reach;
pub(crate) mod reals;
pub(crate) mod scores;
pub(crate) mod tolerance;
pub(crate) mod value;
pub(crate) mod weight;
