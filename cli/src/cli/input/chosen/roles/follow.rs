//! The way from an input to the nodes that take it, through nodes that only move, cast or scale
//! values, bodies and functions.

use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};
use std::ops::Range;

use onnx_cast_graph::{Graph, Node, Use, ValueId, named_value};
use tract_onnx::pb::{FunctionProto, GraphProto, ModelProto};

use super::consumers::{Meeting, meet};
use super::followed::{Followed, Line, Way};
use super::{Evidence, Role};

/// How many uses of one input are looked at, how many numbers are kept of these, and how deep
/// functions are looked into.
const MOST_USES: usize = 20_000;
const MOST_LEVELS: usize = 32;
const DEPTH: usize = 8;

/// An output of the main graph that an input reaches, and how.
pub(super) struct Reached {
    pub(super) output: String,
    pub(super) way: Way,
}

/// The functions of a model, each a graph once it is called.
pub(super) struct FunctionGraphs<'a>(HashMap<(&'a str, &'a str), Function<'a>>);

struct Function<'a> {
    proto: &'a FunctionProto,
    graph: OnceCell<Option<Graph>>,
}

impl<'a> FunctionGraphs<'a> {
    pub(super) fn of(graph: &'a Graph) -> FunctionGraphs<'a> {
        let one = |proto: &'a FunctionProto| {
            let name = (proto.domain.as_deref().unwrap_or_default(), proto.name.as_deref()?);
            Some((name, Function { proto, graph: OnceCell::new() }))
        };
        // Of two with one name the first is called.
        FunctionGraphs(graph.functions.iter().rev().filter_map(one).collect())
    }

    fn called_by<'b>(&'b self, node: &'b Node) -> Option<&'b Graph> {
        let function = self.0.get(&(node.domain.as_str(), node.op_type.as_str()))?;
        let step = |node: &str, part: &str| format!("{node}.{part}");
        let read = || Some(Graph::import(as_model(function.proto), &step)?.0);
        function.graph.get_or_init(read).as_ref()
    }
}

/// What was found on the way from an input.
#[derive(Default)]
pub(super) struct InputEvidence {
    /// What speaks for what the input is.
    pub(super) evidence: Vec<Evidence>,
    /// Numbers at which what takes it does something else.
    pub(super) levels: Vec<f64>,
    pub(super) reached: Vec<Reached>,
}

/// What speaks for what an input is, and the outputs that it reaches.
pub(super) fn evidence(
    graph: &Graph,
    functions: &FunctionGraphs,
    followed: Followed,
) -> InputEvidence {
    let input = followed.input;
    let inputs = graph.body(graph.main()).inputs().iter();
    let Some(value) = inputs.copied().find(|value| *graph.value(*value).name == *input.name) else {
        return InputEvidence::default();
    };
    let mut walk = RoleWalk {
        followed,
        functions,
        evidence: vec![],
        levels: vec![],
        left: MOST_USES,
        is_counted_with: true,
    };
    let line = walk.followed.is_float().then_some(Line::NONE);
    let way =
        Way { shift: 0, is_scaled: false, is_joined: false, is_whole: false, divided: 1, line };
    let reached = walk.walk(graph, value, way, 0);
    let reached = reached.into_iter().filter_map(|(place, way)| {
        let output = graph.body(graph.main()).outputs().get(place)?;
        Some(Reached { output: output.declared.name.clone(), way })
    });
    let mut evidence = walk.evidence;
    if walk.is_counted_with && walk.followed.is_integer() && input.ty.bits() > 8 {
        let why = "nothing but casts and whole numbers' arithmetic takes it".into();
        evidence.push(Evidence { weight: 15, role: Role::WholeType, why });
    }
    InputEvidence { evidence, levels: walk.levels, reached: reached.collect() }
}

/// A walk from one input.
struct RoleWalk<'a> {
    followed: Followed<'a>,
    functions: &'a FunctionGraphs<'a>,
    evidence: Vec<Evidence>,
    levels: Vec<f64>,
    left: usize,
    /// Whether all nodes met so far only move, cast and count with whole numbers.
    is_counted_with: bool,
}

impl RoleWalk<'_> {
    /// Walks from a value of a graph. The results are the places of the graph's outputs that it
    /// reaches.
    fn walk(&mut self, graph: &Graph, value: ValueId, way: Way, depth: usize) -> Vec<(usize, Way)> {
        let (mut to_do, mut seen, mut reached) = (vec![(value, way)], HashSet::new(), vec![]);
        while let Some((value, way)) = to_do.pop() {
            if !seen.insert((value, way)) {
                continue;
            }
            for used in graph.value(value).uses() {
                self.left = self.left.saturating_sub(1);
                if self.left == 0 {
                    return reached;
                }
                match used {
                    Use::Output(body, place) if body == graph.main() => reached.push((place, way)),
                    Use::Output(body, place) => {
                        let owner = graph.body(body).owner().map(|owner| graph.node(owner));
                        to_do.extend(owner.and_then(|owner| Some((made_by(owner, place)?, way))));
                    }
                    Use::Node(node, place) => {
                        let node = graph.node(node);
                        let meeting = Meeting { graph, node, place, way };
                        self.called(&meeting, depth, &mut to_do);
                        self.add_levels(&meeting);
                        let next = meet(&meeting, &self.followed, &mut self.evidence);
                        self.is_counted_with &= next.is_some() && meeting.counts();
                        let outputs = || carried(node, place).filter_map(|at| node.output(at));
                        to_do.extend(
                            next.into_iter().flat_map(|way| outputs().map(move |at| (at, way))),
                        );
                    }
                }
            }
        }
        reached
    }

    fn add_levels(&mut self, meeting: &Meeting) {
        for level in meeting.levels() {
            if self.levels.len() < MOST_LEVELS && !self.levels.contains(&level) {
                self.levels.push(level);
            }
        }
    }

    /// Goes on in the bodies of a Loop or a Scan, and in a function.
    fn called(&mut self, meeting: &Meeting, depth: usize, to_do: &mut Vec<(ValueId, Way)>) {
        let Meeting { graph, node, place, way } = *meeting;
        if matches!(node.op_type.as_str(), "Loop" | "Scan") {
            let bodies = node.bodies().iter();
            let inner = bodies.filter_map(|held| graph.body(held.body).inputs().get(place));
            to_do.extend(inner.map(|value| (*value, way)));
        }
        let Some(inner) = self.functions.called_by(node).filter(|_| depth < DEPTH) else {
            return;
        };
        let Some(value) = inner.body(inner.main()).inputs().get(place).copied() else { return };
        let reached = self.walk(inner, value, way, depth + 1);
        to_do.extend(
            reached.into_iter().filter_map(|(place, way)| Some((node.output(place)?, way))),
        );
    }
}

/// The places of a node's outputs that hold what it takes at a place: of several caches each has
/// its own.
fn carried(node: &Node, place: usize) -> Range<usize> {
    match (node.op_type.as_str(), place) {
        // The others are the scale and the zero point, or which values were dropped.
        ("DynamicQuantizeLinear" | "Dropout", _) => 0..1,
        ("GroupQueryAttention", 3) | ("Attention", 4) | ("MultiHeadAttention", 6) => 1..2,
        ("GroupQueryAttention", 4) | ("Attention", 5) | ("MultiHeadAttention", 7) => 2..3,
        ("LSTM", 5) => 0..2,
        ("LSTM", 6) => 2..3,
        _ => 0..node.outputs().len(),
    }
}

/// What a node makes of the output of its body at a place.
fn made_by(owner: &Node, place: usize) -> Option<ValueId> {
    // The first result of a Loop's body is whether to go on.
    let before = usize::from(owner.op_type == "Loop");
    owner.output(place.checked_sub(before)?)
}

/// A function as a model whose graph it is.
fn as_model(function: &FunctionProto) -> ModelProto {
    let graph = GraphProto {
        name: function.name.clone().unwrap_or_default(),
        node: function.node.clone(),
        input: function.input.iter().map(named_value).collect(),
        output: function.output.iter().map(named_value).collect(),
        ..GraphProto::default()
    };
    ModelProto {
        opset_import: function.opset_import.clone(),
        graph: Some(graph),
        ..ModelProto::default()
    }
}
