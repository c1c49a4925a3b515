//! What the user is shown: `plain_text` at a terminal, `json`, `markdown`, `junit`, `model_explorer` and a `page` with `charts`. `phrases` are what they
//! have in common, and `destinations` has each written to its place.

mod advice;
pub(crate) mod charts;
pub(crate) mod coverage;
pub(crate) mod destinations;
mod drawing;
pub(crate) mod json;
pub(crate) mod junit;
pub(crate) mod markdown;
pub(crate) mod model_explorer;
pub(crate) mod page;
pub(crate) mod phrases;
pub(crate) mod plain_text;
pub(crate) mod progress_bar;
pub(crate) mod table;
pub(crate) mod terminal;

#[cfg(all(test, target_os = "linux"))]
mod tests;
