//! How a piece of work fared.

use serde::{Deserialize, Serialize};

/// How a model or a comparison fared; the exit status is the worst of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Status {
    #[default]
    Passed,
    Failed,
    Unusable,
}
