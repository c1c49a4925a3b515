//! Reports as a page.

use super::facts::{Audited, Compared};

pub(super) fn of_audits(_models: &[Audited]) -> anyhow::Result<String> {
    Ok(String::new())
}

pub(super) fn of_comparisons(_pairs: &[Compared]) -> anyhow::Result<String> {
    Ok(String::new())
}
