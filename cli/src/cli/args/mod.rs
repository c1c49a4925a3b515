//! What several verbs take: inputs, tolerances, places of reports, and limits of tract's resources.

pub(crate) mod input;
pub(crate) mod report;
pub(crate) mod resources;
pub(crate) mod tolerance;
