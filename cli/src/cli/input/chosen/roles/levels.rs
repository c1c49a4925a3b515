//! Numbers at which what takes an input does something else: those that it is compared with, the
//! ends of a Clip, and where functions have a kink. Greater and GreaterOrEqual differ nowhere but
//! there.

use onnx_cast_graph::{Node, attribute};

use super::constants::numbers;
use super::consumers::Meeting;

/// How many numbers are kept of a list that values are held against.
const MOST: usize = 16;
/// To either side of a number a value is off by this share of it, or of 1: less than most changes
/// of it, and more than half precision rounds.
const BESIDE: f64 = 1.0 / 64.0;

impl Meeting<'_> {
    /// The input's numbers at which the node makes something else of it.
    pub(super) fn levels(&self) -> Vec<f64> {
        let Some(line) = self.way.line else { return vec![] };
        let mut kinks = self.kinks();
        kinks.truncate(MOST);
        kinks.into_iter().map(|kink| line.reaches(kink)).filter(|x| x.is_finite()).collect()
    }

    fn kinks(&self) -> Vec<f64> {
        let Meeting { graph, node, place, .. } = *self;
        let held = |place| node.input(place).and_then(|value| numbers(graph, value));
        let held = |place| held(place).unwrap_or_default();
        let of = |name, usual| attribute(node, name).map_or(usual, |held| f64::from(held.f));
        match (node.op_type.as_str(), place) {
            (
                "Equal" | "Less" | "LessOrEqual" | "Greater" | "GreaterOrEqual" | "Max" | "Min",
                _,
            ) => (0..node.inputs().len()).filter(|other| *other != place).flat_map(held).collect(),
            ("Clip", 0) => {
                let ends = ["min", "max"].into_iter().filter_map(|name| attribute(node, name));
                ends.map(|end| f64::from(end.f)).chain(held(1)).chain(held(2)).collect()
            }
            ("ThresholdedRelu", 0) => vec![of("alpha", 1.0)],
            ("Shrink", 0) => vec![of("lambd", 0.5), -of("lambd", 0.5)],
            ("HardSigmoid", 0) => {
                let (alpha, beta) = (of("alpha", 0.2), of("beta", 0.5));
                vec![-beta / alpha, (1.0 - beta) / alpha]
            }
            ("HardSwish", 0) => vec![-3.0, 3.0],
            ("Binarizer", 0) => vec![of("threshold", 0.0)],
            // Where an image ends.
            ("GridSample", 1) => vec![-1.0, 1.0],
            (op, 0) if op.starts_with("TreeEnsemble") => splits(node),
            (
                "Abs" | "Cast" | "Celu" | "Elu" | "LeakyRelu" | "PRelu" | "Relu" | "Selu" | "Sign",
                0,
            ) => vec![0.0],
            _ => vec![],
        }
    }
}

/// The numbers by which trees split.
fn splits(node: &Node) -> Vec<f64> {
    let held = attribute(node, "nodes_values").map(|held| held.floats.clone()).unwrap_or_default();
    held.into_iter().map(f64::from).collect()
}

/// The numbers in the order in which they are tried: 0, each once, then those beside them, on both
/// sides.
pub(super) fn in_order(found: &[f64]) -> Vec<f64> {
    let beside = |level: &f64| {
        let by = BESIDE * level.abs().max(1.0);
        [level + by, level - by]
    };
    let sides = found.iter().filter(|level| **level != 0.0).flat_map(beside);
    let mut levels: Vec<f64> = vec![];
    for level in std::iter::once(0.0).chain(found.iter().copied()).chain(sides) {
        if !levels.contains(&level) {
            levels.push(level);
        }
    }
    levels
}
