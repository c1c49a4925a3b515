//! A drawing of the part of a graph where it breaks, as SVG: nodes from top to bottom, the errors
//! on the edges.
//!
//! Colours are the page's: its style sheet knows the classes.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::svg::{escaped, named};
use crate::cli::found::profile::Neighbour;
use crate::cli::measure::number::Num;
use crate::cli::message::{single_line, without_middle};

const NODE: (usize, usize) = (200, 40);
const GAP: (usize, usize) = (24, 46);
/// Characters of a node's name that fit.
const CHARS: usize = 28;

/// The drawing, in which the node to blame stands out. `None` if there is nothing to draw.
pub(crate) fn drawing(nodes: &[Neighbour], culprit: Option<&str>) -> Option<String> {
    let GraphLayout { width, height, corners } = laid_out(nodes)?;
    let mut svg = format!(
        "<svg width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" class=\"graph\" xmlns=\"http://www.w3.org/2000/svg\">\n"
    );
    let mut labels = String::new();
    for (place, node) in nodes.iter().enumerate() {
        for from in &node.from {
            let (Some(a), Some(b)) = (corners.get(from), corners.get(&place)) else { continue };
            let (x1, y1, x2, y2) = (a.0 + NODE.0 / 2, a.1 + NODE.1, b.0 + NODE.0 / 2, b.1);
            let error = nodes.get(*from).and_then(|node| node.error);
            let class = class_of(error);
            // Writing to a String cannot fail.
            let _ = writeln!(svg, "<path class=\"edge {class}\" d=\"M{x1} {y1} L{x2} {y2}\"/>");
            let (x, y) = (x1.midpoint(x2) + 6, y1.midpoint(y2) + 4);
            if let Some(error) = error {
                let text = error_in_words(error);
                let _ =
                    writeln!(labels, "<text class=\"{class}\" x=\"{x}\" y=\"{y}\">{text}</text>");
            }
        }
    }
    svg += &labels;
    for (place, node) in nodes.iter().enumerate() {
        let Some((x, y)) = corners.get(&place) else { continue };
        let class = match () {
            () if Some(node.node.as_str()) == culprit => "node culprit",
            () if node.is_centre => "node centre",
            () => "node",
        };
        let (width, height, middle) = (NODE.0, NODE.1, x + NODE.0 / 2);
        let (op, name) =
            (escaped(&node.op), escaped(&without_middle(&single_line(&node.node), CHARS)));
        let title = escaped(&format!("{} {}", single_line(&node.op), single_line(&node.node)));
        let _ = writeln!(
            svg,
            "<g><title>{title}</title><rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" rx=\"6\"/>\
             <text class=\"op\" x=\"{middle}\" y=\"{}\">{op}</text><text class=\"title\" x=\"{middle}\" y=\"{}\">{name}</text></g>",
            y + 16,
            y + 32
        );
    }
    svg += "</svg>";
    Some(named(
        &svg,
        "The nodes before and behind the one where the graphs part, with relative errors on the edges",
    ))
}

/// Where the nodes are drawn.
struct GraphLayout {
    width: usize,
    height: usize,
    /// The upper left corner of each.
    corners: BTreeMap<usize, (usize, usize)>,
}

/// Lays the nodes out in rows by their depths; `None` of no nodes.
fn laid_out(nodes: &[Neighbour]) -> Option<GraphLayout> {
    let mut layers: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (place, node) in nodes.iter().enumerate() {
        layers.entry(node.depth).or_default().push(place);
    }
    let widest = layers.values().map(Vec::len).max()?;
    let width = widest * (NODE.0 + GAP.0);
    let height = layers.len() * (NODE.1 + GAP.1);
    let mut corners = BTreeMap::new();
    for (row, places) in layers.values().enumerate() {
        let indent = (width - places.len() * (NODE.0 + GAP.0)) / 2 + GAP.0 / 2;
        for (column, place) in places.iter().enumerate() {
            let corner = (indent + column * (NODE.0 + GAP.0), GAP.1 / 2 + row * (NODE.1 + GAP.1));
            corners.insert(*place, corner);
        }
    }
    Some(GraphLayout { width, height, corners })
}

/// Whether what passes is no number, far off, or fine.
fn class_of(error: Option<Num>) -> &'static str {
    match error {
        Some(Num(error)) if !error.is_finite() => "lost",
        Some(Num(error)) if error > 0.1 => "far",
        Some(_) => "near",
        None => "unknown",
    }
}

fn error_in_words(error: Num) -> String {
    match error.0 {
        error if !error.is_finite() => "NaN, inf".into(),
        0.0 => "exact".into(),
        error => format!("{error:.0e}"),
    }
}
