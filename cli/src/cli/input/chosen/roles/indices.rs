//! Which nodes take a value for indices or positions, and below which numbers.

use onnx_cast_graph::int;

use super::constants::{is_constant, number, sizes};
use super::consumers::{Meeting, index};
use super::followed::Followed;
use super::{Asked, Bound, Role};

impl Meeting<'_> {
    /// Indices and positions.
    pub(super) fn of_index(&self, followed: &Followed) -> Option<Asked> {
        let Meeting { graph, node, place, way } = *self;
        let is_whole = followed.is_integer() || way.is_whole;
        let whole = is_whole && !way.is_scaled;
        match (node.op_type.as_str(), place) {
            (
                "Gather"
                | "GatherElements"
                | "GatherBlockQuantized"
                | "ScatterElements"
                | "Scatter",
                1,
            ) if whole => {
                let below = followed.bound(graph, node.input(0), int(node, "axis").unwrap_or(0));
                let below = below.unwrap_or(Bound::Fixed(2));
                Some((90, self.index(followed, below), "takes it for indices".into()))
            }
            ("GatherND" | "ScatterND", 1) if whole => {
                let (weight, below) = self.within_all(followed);
                Some((weight, self.index(followed, below), "takes it for indices".into()))
            }
            ("SoftmaxCrossEntropyLoss" | "NegativeLogLikelihoodLoss", 1) => {
                let below = followed.bound(graph, node.input(0), 1).unwrap_or(Bound::Fixed(2));
                Some((90, index(below, 0), "takes it for labels".into()))
            }
            ("RoiAlign", 2) => {
                let below = followed.bound(graph, node.input(0), 0).unwrap_or(Bound::Fixed(1));
                Some((90, index(below, 0), "takes it for places in the batch".into()))
            }
            ("OneHot", 0) if whole => {
                let depth = number(graph, node.input(1)).map_or(2, |depth| depth as u64);
                Some((90, index(Bound::Fixed(depth), way.shift), "takes it for indices".into()))
            }
            ("EmbedLayerNormalization", 0 | 1) => {
                let below = followed.bound(graph, node.input(2 + 2 * place), 0);
                let below = below.unwrap_or(Bound::Fixed(2));
                Some((90, index(below, 0), "takes it for rows of a table".into()))
            }
            ("RotaryEmbedding", place) if place == 1 || place == 3 => {
                let table = node.input(if place == 1 { 2 } else { 1 });
                let below = followed.bound(graph, table, 0).filter(|_| followed.is_integer())?;
                Some((92, Role::Position { below }, "takes it for positions".into()))
            }
            // A number for each sample is a time.
            ("Sin" | "Cos", 0) if followed.is_integer() && followed.input.rank() == Some(1) => {
                let role = Role::Within { low: 0.0, high: 999.0 };
                Some((75, role, "turns it into angles".into()))
            }
            ("Sin" | "Cos", 0) if followed.is_integer() => {
                let below = Bound::Fixed(1 << 20);
                Some((75, Role::Position { below }, "turns it into angles".into()))
            }
            _ => None,
        }
    }

    /// Below which number indices of several axes are, of which nothing is known weigh less than
    /// those of one.
    fn within_all(&self, followed: &Followed) -> (u8, Bound) {
        let sizes = |place: usize| {
            let value = self.node.input(place)?;
            sizes(self.graph, value, followed.takes)
        };
        let indexed = match sizes(1).unwrap_or_default().last() {
            Some(Some(Bound::Fixed(depth))) => usize::try_from(*depth).ok(),
            Some(Some(Bound::Axis(place, axis))) => {
                followed.takes.inputs.get(*place).and_then(|input| input.size(*axis))
            }
            _ => None,
        };
        let indexed = indexed.unwrap_or(usize::MAX);
        let axes: Vec<Bound> =
            sizes(0).unwrap_or_default().into_iter().take(indexed).flatten().collect();
        let fixed = axes.iter().filter_map(|size| match size {
            Bound::Fixed(size) => Some(*size),
            _ => None,
        });
        match (fixed.min(), axes.first()) {
            (Some(least), _) => (90, Bound::Fixed(least)),
            (None, Some(open)) => (90, *open),
            (None, None) => (60, Bound::Fixed(1)),
        }
    }

    /// Indices of what is not a table of tokens may count from the end.
    fn index(&self, followed: &Followed, below: Bound) -> Role {
        let name = followed.input.name.to_ascii_lowercase();
        let is_place = ["indices", "index", "idx", "rows"].iter().any(|word| name.contains(word));
        let is_table = is_constant(self.graph, self.node.input(0)) && !is_place;
        let has_negative = !is_table && self.way.shift == 0;
        Role::Index { below, shift: self.way.shift, has_negative }
    }
}
