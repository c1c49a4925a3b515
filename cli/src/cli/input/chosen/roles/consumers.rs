//! What a node asks of what it takes at a place, and whether its results are the same values moved.

use onnx_cast_graph::{Graph, Node, NodeView, int};
use tract_onnx_cast::audit::Reach;
use tract_onnx_cast::{ElementType, Family};

use super::constants::{is_constant, largest, number, range, rank};
use super::followed::{Followed, Way};
use super::{Asked, Bound, Evidence, Role, settings};

/// A node that takes what is followed.
pub(super) struct Meeting<'a> {
    pub(super) graph: &'a Graph,
    pub(super) node: &'a Node,
    pub(super) place: usize,
    pub(super) way: Way,
}

/// Magnitudes from which on a divisor or a mean is that of colours.
const COLOUR: f64 = 100.0;
/// What whole numbers are below of which only some are told apart.
const SOME: u64 = 11;
/// Whole numbers go up to this many times what they are divided by.
const TURNS: u64 = 12;
/// How long a signal is at least.
const SIGNAL: usize = 2000;

/// Adds what the node asks for. The result is how its results follow from what it takes, if they
/// do.
pub(super) fn meet(
    meeting: &Meeting,
    followed: &Followed,
    evidence: &mut Vec<Evidence>,
) -> Option<Way> {
    let Meeting { node, way, .. } = *meeting;
    let found = meeting.asked(followed);
    evidence.extend(found.into_iter().map(|(weight, role, how)| {
        let op = &node.op_type;
        Evidence { weight, role, why: format!("{op} `{}` {how}", node.label()) }
    }));
    meeting.next(followed, way)
}

impl Meeting<'_> {
    fn other(&self) -> Option<onnx_cast_graph::ValueId> {
        self.node.input(1 - self.place.min(1))
    }

    fn asked(&self, followed: &Followed) -> Option<Asked> {
        if followed.input.ty.family() == Family::Text {
            let words = self.words()?;
            return Some((50, Role::Words { words }, "takes it for words".into()));
        }
        let index = self.of_index(followed).or_else(|| self.of_truth(followed));
        let index = index.or_else(|| self.of_shape(followed));
        let values =
            index.or_else(|| self.of_values(followed)).or_else(|| self.calibrated(followed));
        values.or_else(|| self.of_turns(followed))
    }

    /// What a quantiser holds, which is what it was calibrated with.
    fn calibrated(&self, followed: &Followed) -> Option<Asked> {
        let Meeting { graph, node, place, way } = *self;
        let takes = followed.is_calibrated && followed.is_float() && !way.is_scaled && place == 0;
        let (low, high) = range(graph, node).filter(|_| takes && node.is("QuantizeLinear"))?;
        Some((79, Role::Within { low, high }, "holds as much".into()))
    }

    /// Whole numbers, of which a division tells hours, days, buckets.
    fn of_turns(&self, followed: &Followed) -> Option<Asked> {
        let Meeting { graph, node, way, .. } = *self;
        let divided = self.divisor(followed).filter(|_| matches!(node.op_type(), "Div" | "Mod"))?;
        let all = way.divided.checked_mul(divided)?.checked_mul(TURNS)?;
        let most = largest_of(followed.input.ty).min(all as f64);
        let weight = if node.is("Mod") { 46 } else { 45 };
        let what = number(graph, node.input(1))?;
        // A float may be either side of 0, which whole numbers, as times and hashes, seldom are;
        // what is left of a division is of the divisor's sign whatever they are.
        let low = match followed.input.ty.family() {
            Family::Float(_) => -most / 2.0,
            Family::Signed if node.is("Mod") && int(node, "fmod") != Some(1) => -(divided as f64),
            _ => 0.0,
        };
        let role = Role::Within { low, high: most };
        (most > 1.0).then(|| (weight, role, format!("divides it by {what}")))
    }

    /// What whole numbers are divided by.
    fn divisor(&self, followed: &Followed) -> Option<u64> {
        let is_whole = followed.is_integer() || self.way.is_whole;
        let by = number(self.graph, self.node.input(1)).filter(|_| self.place == 0 && is_whole)?;
        ((2.0..1e12).contains(&by) && by.fract() == 0.0).then_some(by as u64)
    }

    /// Whether the node only moves, casts and counts with whole numbers.
    pub(super) fn counts(&self) -> bool {
        matches!(
            self.node.op_type(),
            "Cast" | "CastLike" | "Identity" | "BitCast" | "BitShift" | "Add" | "Sub" | "Mul"
        ) || self.node.op_type().starts_with("Bitwise")
    }

    /// Conditions and masks.
    fn of_truth(&self, followed: &Followed) -> Option<Asked> {
        let Meeting { graph, node, place, way } = *self;
        let mask = |weight, how: &str| Some((weight, Role::Mask, how.into()));
        match (node.op_type.as_str(), place) {
            ("If", 0) => Some((85, Role::Condition, "decides by it".into())),
            ("Loop", 1) => {
                Some((85, Role::Within { low: 1.0, high: 1.0 }, "begins if it holds".into()))
            }
            ("Where", 0) => mask(80, "chooses by it"),
            ("Not" | "And" | "Or" | "Xor", _) => mask(70, "takes it for truth values"),
            ("Cast", 0) if casts_to_bool(node) => mask(70, "makes truth values of it"),
            ("EmbedLayerNormalization", 7)
            | ("MultiHeadAttention", 4)
            | ("SkipLayerNormalization", 5)
            | ("Compress", 1) => mask(80, "takes it for a mask"),
            ("Attention", 3) if followed.is_float() && node.is_onnx() => {
                Some((92, Role::AddedMask, "adds it to the scores".into()))
            }
            ("Attention", 3) => mask(80, "takes it for a mask"),
            ("Add", _) if followed.is_float() && !way.is_scaled && followed.is_called("mask") => {
                (!is_constant(graph, self.other())).then_some(())?;
                Some((92, Role::AddedMask, "adds it".into()))
            }
            ("CumSum", 0) if followed.is_integer() && !way.is_scaled => mask(60, "counts it"),
            ("Mul", _) if !followed.is_float() && !way.is_scaled => {
                (!is_constant(graph, self.other())).then_some(())?;
                mask(65, "multiplies by it")
            }
            ("Sub", 1) if !way.is_scaled && number(graph, node.input(0)) == Some(1.0) => {
                mask(65, "takes it from 1")
            }
            ("Equal" | "Less" | "Greater" | "LessOrEqual" | "GreaterOrEqual", _) => {
                self.compared(followed)
            }
            _ => None,
        }
    }

    fn compared(&self, followed: &Followed) -> Option<Asked> {
        if followed.is_float() || self.way.is_scaled {
            return None;
        }
        let other = self.other()?;
        if let Some(limit) = number(self.graph, Some(other)) {
            let how = format!("compares it with {limit}");
            // Such as tokens, of which one is padding.
            if (0.0..=1.0).contains(&limit) && self.node.is("Equal") && followed.input.ty.bits() > 8
            {
                return Some((50, index(Bound::Fixed(SOME), 0), how));
            }
            if (0.0..=1.0).contains(&limit) {
                return Some((50, Role::Mask, how));
            }
            // Beyond this a DOUBLE is no whole number, and a type may hold no more.
            let limit = Some(limit as i64).filter(|limit| limit.abs() < 1 << 30)?;
            return Some((30, Role::Threshold { limit }, how));
        }
        let is_range = |value| {
            let node = self.graph.maker(value).map(|node| self.graph.node(node));
            node.is_some_and(|node| node.is("Range"))
        };
        if let Some(most) = largest(self.graph, Some(other)) {
            let role = index(Bound::Fixed(most as u64 + 1), 0);
            return Some((55, role, format!("compares it with numbers up to {most}")));
        }
        let mut at = other;
        for _ in 0..4 {
            if is_range(at) {
                let role = Role::Length { most: Bound::Shortest };
                return Some((60, role, "compares a range with it".into()));
            }
            at = self.graph.node(self.graph.maker(at)?).input(0)?;
        }
        None
    }

    /// Shapes, axes and counts.
    fn of_shape(&self, followed: &Followed) -> Option<Asked> {
        let Meeting { node, place, .. } = *self;
        let within =
            |low: f64, high: f64, how: &str| Some((85, Role::Within { low, high }, how.to_owned()));
        if followed.is_float() && !self.way.is_whole {
            return settings::of(self.node, self.place);
        }
        match (node.op_type.as_str(), place) {
            ("Reshape", 1) => Some((85, Role::ShapeTarget, "takes it for a shape".into())),
            ("Expand", 1) => within(1.0, 1.0, "takes it for a shape"),
            ("ConstantOfShape", 0) => within(2.0, 4.0, "takes it for a shape"),
            ("Tile", 1) => within(1.0, 2.0, "repeats by it"),
            ("Pad", 1) => within(0.0, 1.0, "pads by it"),
            ("TopK", 1) => within(1.0, 1.0, "takes so many"),
            ("Range", 0) | ("Slice", 1) => within(0.0, 0.0, "begins there"),
            ("Slice", 2) => {
                let most = Bound::Shortest;
                Some((60, Role::Length { most }, "ends there".into()))
            }
            ("Range", 1) => within(3.0, 6.0, "ends there"),
            ("Range", 2) | ("Slice", 4) => within(1.0, 1.0, "takes it for a step"),
            ("Slice", 3) | ("Unsqueeze" | "Squeeze" | "CumSum", 1) => {
                within(0.0, 0.0, "takes it for an axis")
            }
            (op, 1) if op.starts_with("Reduce") => within(0.0, 0.0, "takes it for an axis"),
            ("Resize", 3) => within(2.0, 8.0, "takes it for sizes"),
            ("Loop", 0) => Some((85, Role::Times, "runs so often".into())),
            ("OneHot", 1) => within(4.0, 4.0, "takes it for a depth"),
            ("LSTM" | "GRU" | "RNN", 4) | ("ReverseSequence", 1) => {
                let axis = int(node, "time_axis").unwrap_or(0);
                let most = followed.bound(self.graph, node.input(0), axis);
                let most = most.unwrap_or(Bound::Shortest);
                Some((85, Role::Length { most }, "takes it for lengths".into()))
            }
            ("Attention", 6) => {
                let most = followed.bound(self.graph, node.input(1), -2);
                let most = most.unwrap_or(Bound::Shortest);
                Some((85, Role::Length { most }, "takes it for lengths".into()))
            }
            ("GroupQueryAttention", 5) => {
                let most = Bound::Shortest;
                Some((85, Role::Length { most }, "takes it for lengths".into()))
            }
            // Weaker than what the numbers are compared with.
            ("Div" | "Mod", 1) => {
                Some((20, Role::Within { low: 1.0, high: 10.0 }, "divides by it".into()))
            }
            _ => None,
        }
    }

    /// Images, sound, probabilities, and where functions are defined.
    fn of_values(&self, followed: &Followed) -> Option<Asked> {
        let Meeting { graph, node, place, way } = *self;
        let within = |weight: u8, low: f64, high: f64, how: &str| {
            Some((weight, Role::Within { low, high }, how.to_owned()))
        };
        let is_small = followed.input.ty.bits() <= 8;
        let rank_here = followed.input.rank();
        let is_picture = rank_here.is_some_and(|rank| rank >= 3);
        match (node.op_type.as_str(), place) {
            ("Div", 0) if largest(graph, node.input(1)).is_some_and(is_colour) => {
                within(78, 0.0, 255.0, "divides it by the range of colours")
            }
            ("Mul", _)
                if largest(graph, self.other()).is_some_and(|x| x > 0.0 && is_colour(1.0 / x)) =>
            {
                within(78, 0.0, 255.0, "divides it by the range of colours")
            }
            ("Sub" | "Add", 0 | 1)
                if is_picture
                    && followed.is_float()
                    && !way.is_scaled
                    && largest(graph, self.other()).is_some_and(is_colour) =>
            {
                within(77, 0.0, 255.0, "takes the mean of colours from it")
            }
            (
                "DequantizeLinear" | "ConvInteger" | "MatMulInteger" | "QLinearConv"
                | "QLinearMatMul",
                0,
            ) if is_small => Some((60, Role::WholeType, "takes it for quantised values".into())),
            ("BitCast", 0) if followed.is_integer() => {
                let of = target(node);
                let role =
                    match of.filter(|of| matches!(of, ElementType::Float | ElementType::Double)) {
                        Some(of) => Role::Bits { of },
                        None => Role::WholeType,
                    };
                Some((60, role, "takes its bits".into()))
            }
            ("STFT" | "DFT", 0) if followed.is_float() => {
                within(60, -1.0, 1.0, "takes it for sound")
            }
            ("Conv" | "ConvInteger" | "QLinearConv", 0) => self.convolved(followed),
            ("Log", 0) if !way.is_scaled && followed.is_float() => {
                within(55, 0.001, 1.0, "is not defined elsewhere")
            }
            ("Sqrt", 0) if !way.is_scaled && followed.is_float() => {
                within(52, 0.0, 100.0, "is not defined below 0")
            }
            ("Pow", 0) if !way.is_scaled && followed.is_float() => {
                let exponent = number(graph, node.input(1))?;
                (exponent.fract() != 0.0).then_some(())?;
                within(52, 0.0, 100.0, "is not defined below 0")
            }
            ("Asin" | "Acos" | "Atanh", 0) if !way.is_scaled => {
                within(55, -0.99, 0.99, "is not defined elsewhere")
            }
            ("Acosh", 0) if !way.is_scaled => within(55, 1.0, 10.0, "is not defined below 1"),
            _ => None,
        }
    }

    /// An image or a signal.
    fn convolved(&self, followed: &Followed) -> Option<Asked> {
        let rank_here = followed.input.rank()?;
        let kernel = if self.node.op_type == "QLinearConv" { 3 } else { 1 };
        let kernel = rank(self.graph, self.node.input(kernel), followed.takes);
        let channels = |axis: usize| matches!(followed.input.size(axis), Some(1 | 3 | 4));
        let is_image = rank_here == 4 && kernel.is_none_or(|rank| rank == 4);
        if is_image && (channels(1) || channels(3)) {
            if followed.is_integer() {
                return Some((60, Role::WholeType, "takes it for an image".into()));
            }
            let role = Role::Within { low: -2.5, high: 2.5 };
            return followed.is_float().then(|| (58, role, "takes it for an image".into()));
        }
        let is_long =
            (0..rank_here).any(|axis| followed.input.size(axis).is_some_and(|n| n >= SIGNAL));
        (rank_here <= 3 && is_long && followed.is_float())
            .then(|| (57, Role::Within { low: -1.0, high: 1.0 }, "takes it for a signal".into()))
    }

    /// How the node's results follow from what it takes.
    fn next(&self, followed: &Followed, way: Way) -> Option<Way> {
        let Meeting { graph, node, place, .. } = *self;
        let scaled = Way { is_scaled: true, line: None, ..way };
        match (node.op_type.as_str(), place) {
            ("Cast", 0) if casts_to_whole(node) => Some(Way { is_whole: true, line: None, ..way }),
            ("Floor" | "Ceil" | "Round" | "BitCast" | "BitShift", 0) => Some(scaled),
            ("Div", 0) if self.divisor(followed).is_some() => {
                let by = self.divisor(followed).unwrap_or(1);
                Some(Way { divided: way.divided.saturating_mul(by), ..scaled })
            }
            (op, _) if op.starts_with("Bitwise") => Some(scaled),
            (
                "Identity" | "Cast" | "CastLike" | "Reshape" | "Unsqueeze" | "Squeeze" | "Flatten"
                | "Expand" | "Transpose" | "Slice" | "Tile" | "Pad" | "Gather" | "GatherElements"
                | "GatherND" | "ScatterND" | "ScatterElements" | "Split" | "Dropout" | "Clip"
                | "Trilu",
                0,
            )
            | ("Where", 1 | 2)
            | ("ScatterND" | "ScatterElements", 2)
            | ("Min" | "Max", _) => Some(way),
            // What some of the values are taken to as they are.
            ("ReduceMax" | "ReduceMin" | "MaxPool" | "GlobalMaxPool" | "Relu" | "Abs", 0) => {
                Some(Way { is_scaled: true, ..way })
            }
            ("QuantizeLinear" | "DequantizeLinear" | "DynamicQuantizeLinear", 0)
            | ("Not" | "And" | "Or" | "Xor", _) => Some(scaled),
            ("Concat", _) => Some(Way { is_joined: true, ..way }),
            ("GroupQueryAttention", 3 | 4)
            | ("Attention", 4 | 5)
            | ("MultiHeadAttention", 6 | 7)
            | ("LSTM", 5 | 6)
            | ("GRU" | "RNN", 5) => Some(Way { is_joined: true, ..way }),
            ("Add" | "Sub", _) if followed.is_integer() => {
                let shift = number(graph, self.other());
                match (node.op_type.as_str(), place, shift) {
                    ("Add", _, Some(by)) => Some(Way { shift: way.shift + by as i64, ..way }),
                    ("Sub", 0, Some(by)) => Some(Way { shift: way.shift - by as i64, ..way }),
                    // The other summand may be an index as well.
                    ("Add", _, None) => Some(way),
                    _ => None,
                }
            }
            ("Neg", 0) => {
                let line = way.line.and_then(|line| line.behind("Mul", 0, -1.0));
                Some(Way { line, ..scaled })
            }
            (op @ ("Add" | "Sub" | "Mul" | "Div" | "MatMul"), _)
                if is_constant(graph, self.other()) =>
            {
                let other = || number(graph, self.other());
                let line = way.line.and_then(|line| line.behind(op, place, other()?));
                Some(Way { line, ..scaled })
            }
            // Angles are positions times frequencies, which are made of constants further away.
            ("Mul" | "MatMul" | "Einsum", _) if followed.is_integer() => Some(scaled),
            _ => None,
        }
    }
}

pub(super) fn index(below: Bound, shift: i64) -> Role {
    Role::Index { below, shift, has_negative: false }
}

fn is_colour(magnitude: f64) -> bool {
    (COLOUR..300.0).contains(&magnitude)
}

fn casts_to_bool(node: &Node) -> bool {
    target(node) == Some(ElementType::Bool)
}

fn casts_to_whole(node: &Node) -> bool {
    let family = target(node).map(ElementType::family);
    matches!(family, Some(Family::Signed | Family::Unsigned))
}

fn target(node: &Node) -> Option<ElementType> {
    int(node, "to").and_then(|id| ElementType::from_id(i32::try_from(id).ok()?))
}

/// The largest number of a type.
fn largest_of(ty: ElementType) -> f64 {
    Reach::of(ty).map_or(f64::MAX, |reach| reach.limits().1.rounded())
}
