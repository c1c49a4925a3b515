//! How much larger values may grow before a type does not hold them.

use super::audited::AuditedCast;
use super::finding::{Code, FindingRow};
use crate::cli::measure::number::Num;

/// Other inputs easily make values this many times as large.
const SMALL: f64 = 2.0;
/// How many casts are named.
const NAMED: usize = 3;

/// A warning of casts that hold their values only just, the closest first. Constants stay as they
/// are, and a type that saturates has its scale from somebody who knew the values.
pub(crate) fn warning<'a>(casts: impl Iterator<Item = &'a AuditedCast>) -> Option<FindingRow> {
    let is_half = |cast: &AuditedCast| {
        cast.to.as_deref().is_some_and(|to| ["FLOAT16", "BFLOAT16"].contains(&to))
            && cast.to != cast.from
    };
    let mut close: Vec<(f64, &AuditedCast)> = casts
        .filter(|cast| !cast.constant && is_half(cast) && cast.damaged() == 0)
        .filter_map(|cast| Some((cast.headroom?.0, cast)))
        .filter(|(headroom, _)| *headroom < SMALL)
        .collect();
    close.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    let named = close.iter().take(NAMED).filter_map(|(headroom, cast)| {
        let largest = Num(cast.source.max?.0.abs().max(cast.source.min?.0.abs()));
        let (node, to, max) = (&cast.node, cast.to.as_deref()?, cast.target.as_ref()?.max);
        let headroom = format!("{headroom:.2}");
        Some(format!("`{node}` sees {largest}, {to} ends at {max}, {headroom} times that"))
    });
    let mut text = named.collect::<Vec<_>>().join("; ");
    if close.len() > NAMED {
        text += &format!("; and {} more", close.len() - NAMED);
    }
    let sentence = format!("little headroom, other inputs may overflow: {text}");
    (!close.is_empty()).then(|| FindingRow::new(Code::LittleHeadroom, sentence))
}
