//! What the user is shown of what was found: an exporter each for the terminal (`plain_text`),
//! `json`, `markdown`, `junit`, `model_explorer` and a `page` with `charts`. `phrases`, `remarks`
//! and the `verdict` are what they have in common, and `destinations` has each written to its
//! place. At a terminal there are `table`s and a `progress_bar`, and `terminal` is what writes
//! there.

pub(crate) mod destinations;
pub(crate) mod json;
pub(crate) mod junit;
pub(crate) mod markdown;
pub(crate) mod model_explorer;
pub(crate) mod page;
pub(crate) mod phrases;
pub(crate) mod plain_text;
pub(crate) mod progress_bar;
mod remarks;
pub(crate) mod table;
pub(crate) mod terminal;
mod verdict;

#[cfg(all(test, target_os = "linux"))]
mod tests;
