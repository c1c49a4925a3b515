//! What every drawing of a page needs of SVG.

use crate::cli::message::single_line;

/// The drawing with a name for those who do not see it.
pub(super) fn named(svg: &str, title: &str) -> String {
    let title = title.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;");
    svg.replacen("<svg ", &format!("<svg role=\"img\" aria-label=\"{title}\" "), 1)
}

/// The text as SVG holds it.
pub(super) fn escaped(text: &str) -> String {
    let text = single_line(text);
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
