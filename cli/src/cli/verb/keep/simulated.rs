//! A model as it will be when it is converted to half precision, save some nodes: in FLOAT, with
//! every tensor rounded that will be of half precision.
//!
//! To FLOAT16 it is done as onnxconverter-common does it, so that its own faults are seen: weights
//! are clipped before they are rounded, some operators are never converted, inputs and outputs are,
//! and a value stays FLOAT between two nodes that are kept only if it has no other user. A weight
//! that the model declares the type of, as torch's exporter does, is converted even for a node that
//! is kept, which gets it by a cast. To BFLOAT16, as ModelOpt's AutoCast does that is to keep the
//! types of inputs and outputs: weights are rounded, and values stay FLOAT between nodes that are
//! kept.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};

use onnx_cast_graph::{free_names, int_attribute, message_node, subgraphs};
use tract_onnx::pb::{
    FunctionProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorProto,
};
use tract_onnx::prelude::*;
use tract_onnx_cast::{ElementType, tensor_proto};

use super::trial::Trial;
use crate::cli::message::counted;
use crate::cli::tensor;

/// Operators that onnxconverter-common 1.16 does not convert unless it is told to.
const NEVER_CONVERTED: &[&str] = &[
    "ArrayFeatureExtractor",
    "Binarizer",
    "CastMap",
    "CategoryMapper",
    "CumSum",
    "DictVectorizer",
    "FeatureVectorizer",
    "Imputer",
    "LabelEncoder",
    "LinearClassifier",
    "LinearRegressor",
    "Max",
    "Min",
    "NonMaxSuppression",
    "Normalizer",
    "OneHotEncoder",
    "RandomUniformLike",
    "Range",
    "Resize",
    "RoiAlign",
    "SVMClassifier",
    "SVMRegressor",
    "Scaler",
    "TopK",
    "TreeEnsembleClassifier",
    "TreeEnsembleRegressor",
    "Upsample",
    "ZipMap",
];

/// What onnxconverter-common makes of weights, by default: none is larger, none but zeros is
/// smaller.
const LARGEST: f32 = 1e4;
const SMALLEST: f32 = 1e-7;

/// A weight after a conversion.
struct Weight {
    /// As the converter writes it.
    converted: TensorProto,
    /// As a cast makes it when the model runs.
    rounded: TensorProto,
    /// The largest magnitude, before and after.
    largest: (f32, f32),
}

/// A model in FLOAT that is to be converted.
pub(super) struct Original {
    proto: ModelProto,
    to: ElementType,
    /// The element types of the main graph's values.
    types: HashMap<String, ElementType>,
    /// Initializers that a conversion changes.
    weights: HashMap<String, Weight>,
    /// Tensors among attributes, by node and attribute.
    constants: HashMap<(usize, usize), Weight>,
    /// The inputs of nodes that use a value, by node and input.
    users: HashMap<String, Vec<(usize, usize)>>,
    outputs: HashSet<String>,
    /// Values that subgraphs use.
    inner: HashSet<String>,
    /// Weights that are converted whoever uses them.
    always_converted: HashSet<String>,
    /// Whether inputs and outputs stay FLOAT.
    keeps_ends: bool,
}

impl Original {
    /// A model of which is known what types its values have; inputs and initializers are looked up
    /// here.
    pub(super) fn new(
        proto: ModelProto,
        folder: Option<&Path>,
        to: ElementType,
        mut types: HashMap<String, ElementType>,
    ) -> TractResult<Original> {
        let graph = proto.graph.clone().unwrap_or_default();
        let mut weights = HashMap::new();
        for tensor in &graph.initializer {
            types
                .extend(ElementType::from_id(tensor.data_type).map(|ty| (tensor.name.clone(), ty)));
            if let Some(weight) = weight(tensor, folder, to)? {
                weights.insert(tensor.name.clone(), weight);
            }
        }
        let mut users: HashMap<String, Vec<_>> = HashMap::new();
        let mut inner = HashSet::new();
        let mut constants = HashMap::new();
        for (index, node) in graph.node.iter().enumerate() {
            for (place, name) in node.input.iter().enumerate() {
                users.entry(name.clone()).or_default().push((index, place));
            }
            for (place, attribute) in node.attribute.iter().enumerate() {
                let used = subgraphs(attribute).flat_map(free_names);
                inner.extend(used.map(String::from));
                if let Some(tensor) = &attribute.t
                    && let Some(weight) = weight(tensor, folder, to)?
                {
                    constants.insert((index, place), weight);
                }
            }
        }
        let outputs = graph.output.iter().map(|output| output.name.clone()).collect();
        let keeps_ends = to == ElementType::BFloat16;
        let declared = graph.value_info.iter().chain(&graph.input);
        let declared = declared.map(|value| value.name.clone()).filter(|_| !keeps_ends);
        let always_converted = declared.filter(|name| weights.contains_key(name)).collect();
        Ok(Original {
            proto,
            to,
            types,
            weights,
            constants,
            users,
            outputs,
            inner,
            always_converted,
            keeps_ends,
        })
    }

    /// The model, converted save the nodes at these places.
    fn simulated(&self, kept: &BTreeSet<usize>) -> ModelProto {
        let mut proto = self.proto.clone();
        let Some(graph) = &mut proto.graph else { return proto };
        let is_kept: Vec<bool> = graph
            .node
            .iter()
            .enumerate()
            .map(|(index, node)| kept.contains(&index) || self.is_never_converted(node))
            .collect();
        let is_kept = |index: usize| is_kept.get(index).copied().unwrap_or(false);
        self.convert_weights(graph, &is_kept);
        let mut added = vec![];
        // An initializer that is an input as well is a weight, unless somebody gives another.
        let held: HashSet<String> =
            graph.initializer.iter().map(|held| held.name.clone()).collect();
        for place in 0..graph.input.len() {
            let input = graph.input.get(place).map(|input| input.name.clone());
            let Some(value) = input.filter(|name| !held.contains(name)) else { continue };
            let in_float = self.in_float(&value, self.keeps_ends, &is_kept);
            let given = format!("{value}:given");
            if self.needs_rounding(&value, &in_float) {
                added.push(rounding(&given, &value));
                rename_inputs(graph, &in_float, &given);
                if let Some(input) = graph.input.get_mut(place) {
                    input.name = given;
                }
            }
        }
        for index in 0..graph.node.len() {
            let Some(node) = graph.node.get(index) else { continue };
            // onnxconverter-common never joins the casts behind a Constant.
            let is_exact = is_kept(index) && (self.keeps_ends || node.op_type != "Constant");
            for (place, value) in node.output.clone().iter().enumerate() {
                let in_float = self.in_float(value, is_exact, &is_kept);
                if !self.needs_rounding(value, &in_float) {
                    continue;
                }
                if self.keeps_ends && is_exact && self.outputs.contains(value) {
                    let rounded = format!("{value}:rounded");
                    added.push(rounding(value, &rounded));
                    let all = self.users.get(value).into_iter().flatten().copied();
                    let others: Vec<_> = all.filter(|user| !in_float.contains(user)).collect();
                    rename_inputs(graph, &others, &rounded);
                    continue;
                }
                let exact = format!("{value}:exact");
                added.push(rounding(&exact, value));
                rename_inputs(graph, &in_float, &exact);
                let output = graph.node.get_mut(index).and_then(|node| node.output.get_mut(place));
                if let Some(output) = output {
                    *output = exact;
                }
            }
        }
        graph.node.append(&mut added);
        graph.value_info.clear();
        proto.functions.push(rounding_function(self.to));
        proto
    }

    /// The users that get a value as FLOAT, given whether it is made so.
    fn in_float(
        &self,
        value: &str,
        is_exact: bool,
        is_kept: &impl Fn(usize) -> bool,
    ) -> Vec<(usize, usize)> {
        let users = self.users.get(value).map_or(&[][..], |users| users);
        let is_only =
            users.len() == 1 && !self.outputs.contains(value) && !self.inner.contains(value);
        if !is_exact || !(self.keeps_ends || is_only) {
            return vec![];
        }
        users.iter().filter(|(node, _)| is_kept(*node)).copied().collect()
    }

    /// Whether somebody gets a value of half precision.
    fn needs_rounding(&self, value: &str, in_float: &[(usize, usize)]) -> bool {
        let users = self.users.get(value).map_or(0, Vec::len);
        let is_end = self.outputs.contains(value) || self.inner.contains(value) || users == 0;
        self.is_float(value) && (in_float.len() < users || is_end)
    }

    /// Puts weights in their places: one that no node that is kept uses is as the converter writes
    /// it; of another the nodes that are converted get what a cast makes of it.
    fn convert_weights(&self, graph: &mut GraphProto, is_kept: &impl Fn(usize) -> bool) {
        let mut more = vec![];
        for tensor in &mut graph.initializer {
            let Some(weight) = self.weights.get(&tensor.name) else { continue };
            let users = self.users.get(&tensor.name).map_or(&[][..], |users| users);
            let is_declared = self.always_converted.contains(&tensor.name);
            if is_declared || !users.iter().any(|(node, _)| is_kept(*node)) {
                *tensor = weight.converted.clone();
                continue;
            }
            let name = format!("{}:rounded", tensor.name);
            for (node, place) in users.iter().filter(|(node, _)| !is_kept(*node)) {
                let input = graph.node.get_mut(*node).and_then(|node| node.input.get_mut(*place));
                if let Some(input) = input {
                    input.clone_from(&name);
                }
            }
            more.push(TensorProto { name, ..weight.rounded.clone() });
        }
        graph.initializer.append(&mut more);
        for ((node, place), weight) in
            self.constants.iter().filter(|((node, _), _)| !is_kept(*node))
        {
            let attribute = graph.node.get_mut(*node).and_then(|n| n.attribute.get_mut(*place));
            if let Some(attribute) = attribute {
                attribute.t = Some(weight.converted.clone());
            }
        }
    }
}

impl Trial for Original {
    fn nodes(&self) -> &[NodeProto] {
        self.proto.graph.as_ref().map_or(&[], |graph| &graph.node)
    }

    fn is_float(&self, value: &str) -> bool {
        self.types.get(value) == Some(&ElementType::Float)
    }

    fn is_never_converted(&self, node: &NodeProto) -> bool {
        self.to == ElementType::Float16 && NEVER_CONVERTED.contains(&node.op_type.as_str())
    }

    fn spoiled_weight(&self, value: &str) -> Option<(f32, f32)> {
        let (before, after) = self.weights.get(value)?.largest;
        ((before - after).abs() > 1e-2 * before.abs()).then_some((before, after))
    }

    /// A note on weights that no list keeps in FLOAT, if there are any.
    fn note(&self) -> Option<String> {
        let count = self.always_converted.len();
        (count > 0).then(|| {
            format!(
                "the model declares the types of {} (value_info, or as inputs), so the converter rounds and clips them \
                 even for nodes of the list; without these declarations it would not",
                counted(count, "weight")
            )
        })
    }

    fn way_out(&self) -> &'static str {
        " as onnxconverter-common converts; `onnx-cast convert` goes by other rules"
    }

    fn converted(&self, kept: &BTreeSet<usize>) -> TractResult<(ModelProto, Option<PathBuf>)> {
        Ok((self.simulated(kept), None))
    }
}

/// The function that rounds a value, and its domain. A function has an opset of its own, so that it
/// can cast to types that the model's opset does not have.
const ROUND: &str = "Round";
pub(super) const DOMAIN: &str = "onnx-cast.keep";
/// The first opset that casts to both types.
const ROUND_SINCE: i64 = 13;

/// A node that rounds a value to half precision, as FLOAT.
fn rounding(from: &str, to: &str) -> NodeProto {
    NodeProto { domain: DOMAIN.into(), ..message_node(ROUND, &[from], to) }
}

fn rounding_function(to: ElementType) -> FunctionProto {
    let cast = |from: &str, to: ElementType, output: &str| {
        let attribute = vec![int_attribute("to", to as i64)];
        NodeProto { attribute, ..message_node("Cast", &[from], output) }
    };
    let nodes = vec![cast("x", to, "half"), cast("half", ElementType::Float, "y")];
    function(ROUND, &["x"], nodes, ROUND_SINCE)
}

/// A function of ours that makes `y`.
pub(super) fn function(
    name: &str,
    input: &[&str],
    node: Vec<NodeProto>,
    version: i64,
) -> FunctionProto {
    FunctionProto {
        name: Some(name.into()),
        domain: Some(DOMAIN.into()),
        input: input.iter().map(|name| (*name).to_owned()).collect(),
        output: vec!["y".into()],
        node,
        opset_import: vec![OperatorSetIdProto { version, ..Default::default() }],
        ..Default::default()
    }
}

/// Has some inputs of nodes take another value.
fn rename_inputs(graph: &mut GraphProto, places: &[(usize, usize)], name: &str) {
    for (node, place) in places {
        let input = graph.node.get_mut(*node).and_then(|node| node.input.get_mut(*place));
        if let Some(input) = input {
            *input = name.into();
        }
    }
}

/// What a conversion makes of a tensor; nothing where that is the tensor itself.
fn weight(
    tensor: &TensorProto,
    folder: Option<&Path>,
    to: ElementType,
) -> TractResult<Option<Weight>> {
    if tensor.data_type != ElementType::Float as i32 {
        return Ok(None);
    }
    let (_, values) = tensor_proto::read(tensor, folder)?;
    let rounded = tensor::rounded(ElementType::Float, &values, to)?;
    let converted = match to {
        ElementType::Float16 => {
            let mut clipped = values.clone();
            for x in clipped.try_as_plain_ram_mut()?.as_slice_mut::<f32>()? {
                if x.is_finite() && *x != 0.0 {
                    *x = x.abs().clamp(SMALLEST, LARGEST).copysign(*x);
                }
            }
            tensor::rounded(ElementType::Float, &clipped, to)?
        }
        _ => rounded.clone(),
    };
    if rounded == values && converted == values {
        return Ok(None);
    }
    let largest = (largest(&values)?, largest(&converted)?);
    let write = |values: &Tensor| tensor_proto::write(&tensor.name, ElementType::Float, values);
    Ok(Some(Weight { converted: write(&converted)?, rounded: write(&rounded)?, largest }))
}

fn largest(values: &Tensor) -> TractResult<f32> {
    let plain = values.try_as_plain_ram()?;
    Ok(plain.as_slice::<f32>()?.iter().fold(0.0, |most, x| x.abs().max(most)))
}
