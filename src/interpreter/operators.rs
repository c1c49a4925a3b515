//! The operators that run here rather than by tract: those of control flow, and those of what holds
//! several tensors.

use onnx_cast_graph::{Graph, NodeId, NodeView, Table};

use super::run::{NodeRunner, OperatorEntry};
use super::{control, kernels, scan, sequences};

/// What runs each node of a graph.
pub(super) fn runners(graph: &Graph) -> Table<NodeId, NodeRunner> {
    let mut runners = Table::default();
    for id in graph.all_nodes(graph.main()) {
        let node = graph.node(id);
        let runner = match OPERATORS.iter().find(|(name, ..)| node.is(name)) {
            Some(row) => NodeRunner::Here(row),
            None => kernels::kernel(node).map_or(NodeRunner::Tract, NodeRunner::Kernel),
        };
        runners.insert(id, runner);
    }
    runners
}

/// Any number of inputs.
const MANY: usize = usize::MAX;

/// The operators that run here.
pub(super) const OPERATORS: &[OperatorEntry] = &[
    ("ConcatFromSequence", sequences::concat, 1, &["axis", "new_axis"]),
    ("Constant", sequences::constant, 0, CONSTANTS),
    ("Identity", sequences::identity, 1, &[]),
    ("If", control::branch, 1, &["else_branch", "then_branch"]),
    ("Loop", control::repeat, MANY, &["body"]),
    ("Optional", sequences::optional, 1, &["type"]),
    ("OptionalGetElement", sequences::get_element, 1, &[]),
    ("OptionalHasElement", sequences::has_element, 1, &[]),
    (
        "Scan",
        scan::scan,
        MANY,
        &[
            "body",
            "num_scan_inputs",
            "directions",
            "scan_input_axes",
            "scan_input_directions",
            "scan_output_axes",
            "scan_output_directions",
        ],
    ),
    ("SequenceAt", sequences::at, 2, &[]),
    ("SequenceConstruct", sequences::construct, MANY, &[]),
    ("SequenceEmpty", sequences::empty, 0, &["dtype"]),
    ("SequenceErase", sequences::erase, 2, &[]),
    ("SequenceInsert", sequences::insert, 3, &[]),
    ("SequenceLength", sequences::length, 1, &[]),
    ("SequenceMap", sequences::map, MANY, &["body"]),
    ("SplitToSequence", sequences::split, 2, &["axis", "keepdims"]),
];

/// The forms of a `Constant`.
const CONSTANTS: &[&str] = &[
    "sparse_value",
    "value",
    "value_float",
    "value_floats",
    "value_int",
    "value_ints",
    "value_string",
    "value_strings",
];
