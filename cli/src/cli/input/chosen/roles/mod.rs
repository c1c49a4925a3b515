//! What an input is taken for: what its values have to be for the nodes that take them.
//!
//! [`of`] imports the model's graph without its weights, `follow` goes from each input (`followed`)
//! to the nodes that take it, through what only moves or casts values, `consumers` says what each
//! of them asks for (`indices` of tables), and `names` what the inputs' names say. The weightiest
//! evidence decides. `levels` are the numbers at which the nodes do something else, `constants`
//! what the graph says of numbers and sizes; `caches`, `settings` and `words` are roles that take
//! more than a sentence.

mod caches;
mod constants;
mod consumers;
mod follow;
mod followed;
mod indices;
mod levels;
mod names;
mod settings;
mod words;

use tract_onnx::pb::{FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto};
use tract_onnx_cast::ElementType;

use crate::cli::input::declared::Declared;
use followed::Followed;

/// What the values of an input are.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Role {
    /// Nothing is known: numbers about 0, of several scales.
    Plain,
    /// Whole numbers from 0 to below a bound, less what is added to them before they are used; some
    /// from the end, where that is so.
    Index { below: Bound, shift: i64, has_negative: bool },
    /// 0 and 1 in runs.
    Mask,
    /// 0 and numbers far below it in runs, which are added to what a softmax is of.
    AddedMask,
    /// One truth value, which changes from set to set.
    Condition,
    /// Whole numbers that ascend from the length of what is cached.
    Position { below: Bound },
    /// How often something is done: seldom, and in one of the sets often.
    Times,
    /// Whole numbers from 1 to a bound.
    Length { most: Bound },
    /// Whole numbers on both sides of one that they are compared with.
    Threshold { limit: i64 },
    /// Numbers between two ends.
    Within { low: f64, high: f64 },
    /// All that a type of 8 bits or fewer holds.
    WholeType,
    /// What numbers of a type are in bits.
    Bits { of: ElementType },
    /// A shape that copies all dimensions but the last.
    ShapeTarget,
    /// What an output of the model held before.
    Cache { output: String },
    /// Strings, drawn from these.
    Words { words: Vec<String> },
}

/// The end of a range that may depend on sizes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Bound {
    Fixed(u64),
    /// The size of an axis of an input of the model, by their positions.
    Axis(usize, usize),
    /// The smallest length of all that are chosen.
    Shortest,
}

/// A role, and where it shows.
#[derive(Debug, Clone)]
pub(crate) struct InputRole {
    pub(crate) role: Role,
    /// Empty for [`Role::Plain`].
    pub(crate) why: String,
    /// Numbers at which what takes the input does something else, in the order in which they are
    /// tried.
    pub(crate) levels: Vec<f64>,
}

impl InputRole {
    pub(crate) fn plain() -> InputRole {
        InputRole { role: Role::Plain, why: String::new(), levels: vec![] }
    }

    /// The role in words.
    pub(crate) fn in_words(&self) -> String {
        match &self.role {
            Role::Plain => "plain numbers".into(),
            Role::Index { below: Bound::Fixed(below), .. } => format!("indices below {below}"),
            Role::Index { .. } => "indices".into(),
            Role::Mask => "a mask".into(),
            Role::AddedMask => "a mask that is added".into(),
            Role::Condition => "a condition".into(),
            Role::Position { .. } => "positions".into(),
            Role::Length { .. } => "lengths".into(),
            Role::Times => "how often to do it".into(),
            Role::Threshold { limit } => format!("whole numbers about {limit}"),
            Role::Within { low, high } => format!("numbers from {low} to {high}"),
            Role::WholeType => "the whole range of its type".into(),
            Role::Bits { of } => format!("the bits of {of}"),
            Role::ShapeTarget => "a shape".into(),
            Role::Words { words } => format!("{} words", words.len()),
            Role::Cache { output } => format!("what the output `{output}` held before"),
        }
    }
}

/// A reason to take an input for something. The largest weight decides.
struct Evidence {
    weight: u8,
    role: Role,
    why: String,
}

/// A weight, a role, and what the node that asks for it does with it.
type Asked = (u8, Role, String);

/// What each input of a model is taken for, in their order; with `is_calibrated` by what its
/// quantisers hold as well, where nothing else tells.
pub(crate) fn of(proto: &ModelProto, takes: &Declared, is_calibrated: bool) -> Vec<InputRole> {
    let plain = || takes.inputs.iter().map(|_| InputRole::plain()).collect();
    let step = |node: &str, part: &str| format!("{node}.{part}");
    let Some((graph, _)) = onnx_cast_graph::Graph::import(outline(proto), &step) else {
        return plain();
    };
    let functions = follow::FunctionGraphs::of(&graph);
    let mut taken: Vec<InputRole> = vec![];
    for input in &takes.inputs {
        let followed = Followed { input, takes, is_calibrated };
        let follow::InputEvidence { mut evidence, levels, reached } =
            follow::evidence(&graph, &functions, followed);
        evidence.extend(names::evidence(input));
        evidence.extend(caches::evidence(&graph, input, takes, &reached));
        taken.push(InputRole { levels: levels::in_order(&levels), ..weightiest(evidence) });
    }
    taken
}

/// Whether a model makes shares of scores, of which a mask must leave some.
pub(crate) fn has_shares(proto: &ModelProto) -> bool {
    let makes_shares =
        |node: &NodeProto| node.op_type.contains("Softmax") || node.op_type.contains("Attention");
    let functions = proto.functions.iter().flat_map(|function| &function.node);
    let mut nodes: Vec<&NodeProto> = functions.collect();
    nodes.extend(proto.graph.iter().flat_map(|graph| &graph.node));
    while let Some(node) = nodes.pop() {
        if makes_shares(node) {
            return true;
        }
        let bodies = node.attribute.iter().flat_map(|held| held.g.iter().chain(&held.graphs));
        nodes.extend(bodies.flat_map(|graph| &graph.node));
    }
    false
}

/// The weight of evidence of a table.
const TABLE: u8 = 90;

fn weightiest(evidence: Vec<Evidence>) -> InputRole {
    let bounds = evidence.iter().filter_map(|evidence| match evidence.role {
        Role::Index { below, .. } => Some((evidence.weight, below)),
        _ => None,
    });
    let table = bounds.clone().max_by_key(|(weight, _)| *weight).map(|(_, below)| below);
    // Of several tables the smallest is the one that bounds.
    let fixed = bounds.filter_map(|(weight, below)| match below {
        Bound::Fixed(size) if weight >= TABLE => Some(size),
        _ => None,
    });
    let smallest = fixed.min();
    let best = evidence.into_iter().rev().max_by_key(|evidence| evidence.weight);
    let Some(Evidence { mut role, why, .. }) = best else { return InputRole::plain() };
    // A name tells positions from other indices, the nodes how many there are.
    if let (Role::Position { below }, Some(rows)) = (&mut role, table) {
        *below = rows;
    }
    if let (Role::Index { below: Bound::Fixed(below), .. }, Some(rows)) = (&mut role, smallest) {
        *below = rows.min(*below);
    }
    InputRole { role, why, levels: vec![] }
}

/// Tensors of at most so many bytes are kept: what an operator takes for scalars and axes.
const KEPT_BYTES: usize = 1 << 13;

/// The model without the values of its weights.
fn outline(proto: &ModelProto) -> ModelProto {
    ModelProto {
        ir_version: proto.ir_version,
        opset_import: proto.opset_import.clone(),
        graph: proto.graph.as_ref().map(outline_of_graph),
        functions: proto.functions.iter().map(outline_of_function).collect(),
        ..ModelProto::default()
    }
}

fn outline_of_graph(graph: &GraphProto) -> GraphProto {
    GraphProto {
        name: graph.name.clone(),
        node: graph.node.iter().map(outline_of_node).collect(),
        initializer: graph.initializer.iter().map(outline_of_tensor).collect(),
        input: graph.input.clone(),
        output: graph.output.clone(),
        value_info: graph.value_info.clone(),
        ..GraphProto::default()
    }
}

fn outline_of_function(function: &FunctionProto) -> FunctionProto {
    FunctionProto {
        node: function.node.iter().map(outline_of_node).collect(),
        name: function.name.clone(),
        domain: function.domain.clone(),
        input: function.input.clone(),
        output: function.output.clone(),
        opset_import: function.opset_import.clone(),
        ..FunctionProto::default()
    }
}

fn outline_of_node(node: &NodeProto) -> NodeProto {
    let mut outlined = NodeProto {
        input: node.input.clone(),
        output: node.output.clone(),
        name: node.name.clone(),
        op_type: node.op_type.clone(),
        domain: node.domain.clone(),
        ..NodeProto::default()
    };
    for attribute in &node.attribute {
        let is_held = attribute.t.is_some() || attribute.g.is_some();
        if !is_held && attribute.graphs.is_empty() {
            outlined.attribute.push(attribute.clone());
            continue;
        }
        let mut held = tract_onnx::pb::AttributeProto {
            name: attribute.name.clone(),
            r#type: attribute.r#type,
            ..Default::default()
        };
        held.t = attribute.t.as_ref().map(outline_of_tensor);
        held.g = attribute.g.as_ref().map(outline_of_graph);
        held.graphs = attribute.graphs.iter().map(outline_of_graph).collect();
        outlined.attribute.push(held);
    }
    outlined
}

fn outline_of_tensor(tensor: &TensorProto) -> TensorProto {
    let elements = tensor
        .dims
        .iter()
        .try_fold(8usize, |bytes, dim| bytes.checked_mul(usize::try_from(*dim).ok()?));
    if elements.is_some_and(|bytes| bytes <= KEPT_BYTES) && tensor.external_data.is_empty() {
        return tensor.clone();
    }
    TensorProto {
        dims: tensor.dims.clone(),
        data_type: tensor.data_type,
        name: tensor.name.clone(),
        ..TensorProto::default()
    }
}
