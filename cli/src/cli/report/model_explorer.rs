//! Node data for Google's Model Explorer: it colours a graph's nodes by a number for each.
//!
//! The format is that of the Python class `ModelNodeData` of the package `ai-edge-model-explorer`:
//! graphs by their ids, which the adapter for ONNX takes from the graphs' names, and in each the
//! nodes by their names, or by a tensor that they make.

use std::collections::BTreeMap;

use anyhow::bail;
use serde::Serialize;

use super::json;
use crate::cli::found::audited::{Audited, AuditedCast};
use crate::cli::found::compared::{Compared, Divergence};

#[derive(Serialize)]
struct GraphData {
    name: &'static str,
    results: BTreeMap<String, NodeData>,
    gradient: [ColourStop; 3],
}

#[derive(Serialize)]
struct NodeData {
    value: f64,
    #[serde(rename = "bgColor", skip_serializing_if = "Option::is_none")]
    colour: Option<&'static str>,
    #[serde(rename = "textColor", skip_serializing_if = "Option::is_none")]
    text_colour: Option<&'static str>,
}

#[derive(Serialize)]
struct ColourStop {
    stop: f64,
    #[serde(rename = "bgColor")]
    colour: &'static str,
}

const GRADIENT: [ColourStop; 3] = [
    ColourStop { stop: 0.0, colour: "#ffffff" },
    ColourStop { stop: 0.5, colour: "#ffd54f" },
    ColourStop { stop: 1.0, colour: "#e53935" },
];

/// The colour of a root cause.
const CAUSE: &str = "#b3261e";
/// What a node's value is where the error is no number: as errors are powers of ten, all of the
/// value is gone.
const NO_NUMBER: f64 = 3.0;
/// The smallest error that is told from none.
const SMALLEST: f64 = -17.0;

/// The error behind each node of the converted models, as a power of ten of the values themselves.
/// Fails when nothing was compared inside, or two models share the name of a graph.
pub(crate) fn of_comparisons(pairs: &[Compared]) -> anyhow::Result<String> {
    let graphs = pairs.iter().filter(|pair| !pair.profile.points.is_empty()).map(|pair| {
        let lost = |colour| NodeData {
            value: NO_NUMBER,
            colour: Some(colour),
            text_colour: Some("#ffffff"),
        };
        let data = |error: f64| match error {
            error if error.is_finite() => plain(error.log10().clamp(SMALLEST, NO_NUMBER)),
            _ => lost("#000000"),
        };
        let points = &pair.profile.points;
        let mut results: BTreeMap<String, NodeData> =
            points.iter().map(|point| (point.node.clone(), data(point.error.0))).collect();
        // The root cause need not make a value that both models have.
        let casts = pair.divergences.gravest_first().filter_map(Divergence::blamed);
        let broken = pair.judgement.culprits.iter().filter(|_| pair.judgement.is_broken());
        let causes = casts.map(|cast| &cast.node).chain(broken.map(|culprit| &culprit.node));
        for cause in causes {
            results.insert(cause.clone(), lost(CAUSE));
        }
        let name = "log10 of the relative error";
        (pair.profile.graph.clone(), GraphData { name, results, gradient: GRADIENT })
    });
    written(graphs)
}

/// The share of the values that each cast has spoiled, flushed or saturated.
/// Fails when there is no cast, or two models share the name of a graph.
pub(crate) fn of_audits(models: &[Audited]) -> anyhow::Result<String> {
    let graphs = models.iter().flat_map(|model| {
        let mut graphs: BTreeMap<String, BTreeMap<String, NodeData>> = BTreeMap::new();
        for cast in model.casts.iter().chain(&model.roundings) {
            let results = graphs.entry(cast.graph.clone()).or_default();
            results.insert(cast.node.clone(), plain(lost_share(cast)));
        }
        let name = "share of the values lost";
        let data = move |(graph, results)| (graph, GraphData { name, results, gradient: GRADIENT });
        graphs.into_iter().map(data)
    });
    written(graphs)
}

fn plain(value: f64) -> NodeData {
    NodeData { value, colour: None, text_colour: None }
}

fn lost_share(cast: &AuditedCast) -> f64 {
    (cast.damaged() + cast.lost()) as f64 / cast.elements.max(1) as f64
}

fn written(graphs: impl Iterator<Item = (String, GraphData)>) -> anyhow::Result<String> {
    let mut all = BTreeMap::new();
    for (name, data) in graphs {
        if all.insert(name.clone(), data).is_some() {
            bail!(
                "--model-explorer: two graphs are named {name:?}, so their nodes cannot be told apart"
            );
        }
    }
    if all.is_empty() {
        bail!("--model-explorer: there is nothing to tell of any node");
    }
    Ok(json::to_string(&all)?)
}
