//! Products of codes written out: `DequantizeLinear` of what they take, the operator on FLOAT, and
//! `QuantizeLinear` of the result. There are then values, and weights, to be held against another
//! model's: `QLinearConv`, `QLinearMatMul`, and ONNX Runtime's `QLinearAdd` and the like, and
//! `MatMulNBits`.

mod packed;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::path::Path;

use onnx_cast_graph::{NodeView, default_opset, int, int_attribute, needed};
use tract_onnx::pb::{AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto};
use tract_onnx_cast::ElementType;

/// A model with its products of codes written out.
pub(crate) struct Spelt<'a> {
    pub(crate) proto: Cow<'a, ModelProto>,
    /// The types of the codes of which constants of the main graph hold one in each byte.
    pub(crate) unpacked: Vec<(String, ElementType)>,
}

/// The model with its products of codes written out. Each part of a node has its name, so whoever
/// names one names the node that the model has, and a weight is called as the one that it is in
/// `reference`, by the node that makes the same value there. A node that says nothing of its sizes
/// stays as it is.
pub(crate) fn spelt<'a>(
    model: &'a ModelProto,
    reference: Option<&ModelProto>,
    folder: Option<&Path>,
) -> Spelt<'a> {
    let is_since = |opset| default_opset(&model.opset_import).is_some_and(|held| held >= opset);
    let Some(graph) = model.graph.as_ref().filter(|graph| has_any(graph, is_coded)) else {
        return Spelt { proto: Cow::Borrowed(model), unpacked: vec![] };
    };
    let taken = graph.node.iter().flat_map(|node| &node.output);
    let sparse = graph.sparse_initializer.iter().filter_map(|held| held.values.as_ref());
    let held = graph.initializer.iter().chain(sparse).map(|held| &held.name);
    let given = graph.input.iter().map(|input| &input.name);
    let mut writer = Writer {
        held: HashMap::new(),
        of_reference: weights_by_value(reference),
        names: taken.chain(held).chain(given).cloned().collect(),
        taken_once: taken_once(graph),
        has_axes: is_since(13),
        has_blocks: is_since(21),
        folder,
        constants: vec![],
        unpacked: vec![],
    };
    let mut spelt = model.clone();
    spelt.graph.iter_mut().for_each(|copy| writer.graph(graph, copy));
    Spelt { proto: Cow::Owned(spelt), unpacked: writer.unpacked }
}

/// Whether what is written out of a model's products of codes makes the same values: those by
/// weights of few bits, which compute in floating point.
pub(crate) fn makes_the_same(model: &ModelProto) -> bool {
    model.graph.as_ref().is_none_or(|graph| !has_any(graph, |op| op != PRODUCT && is_coded(op)))
}

/// Whether a graph has an operator, or a body in it.
fn has_any(graph: &GraphProto, is_it: fn(&str) -> bool) -> bool {
    graph.node.iter().any(|node| {
        let mut bodies = node.attribute.iter().filter_map(|held| held.g.as_ref());
        is_it(&node.op_type) || bodies.any(|body| has_any(body, is_it))
    })
}

fn is_coded(op: &str) -> bool {
    CODED.contains(&op)
}

/// The product by a weight of few bits.
const PRODUCT: &str = "MatMulNBits";

const CODED: [&str; 13] = [
    PRODUCT,
    "QGemm",
    "QLinearAdd",
    "QLinearAveragePool",
    "QLinearConcat",
    "QLinearConv",
    "QLinearGlobalAveragePool",
    "QLinearLeakyRelu",
    "QLinearMatMul",
    "QLinearMul",
    "QLinearSigmoid",
    "QLinearSoftmax",
    "QLinearWhere",
];

/// The weights of products by the values that are made of them.
fn weights_by_value(model: Option<&ModelProto>) -> HashMap<String, String> {
    let Some(graph) = model.and_then(|model| model.graph.as_ref()) else { return HashMap::new() };
    let held: HashSet<&String> = graph.initializer.iter().map(|held| &held.name).collect();
    let is_product = |node: &&NodeProto| matches!(&*node.op_type, "Conv" | "Gemm" | "MatMul");
    let weight = |node: &NodeProto| {
        let weight = node.input.get(1).filter(|name| held.contains(name))?;
        Some((node.output.first()?.clone(), weight.clone()))
    };
    graph.node.iter().filter(is_product).filter_map(weight).collect()
}

/// What one node of a graph takes, and no other, nor the outside, which does not give it either.
fn taken_once(graph: &GraphProto) -> HashSet<&str> {
    let mut takers: HashMap<&str, usize> = HashMap::new();
    let outside = graph.input.iter().chain(&graph.output).map(|value| value.name.as_str());
    graph.node.iter().flat_map(needed).chain(outside).for_each(|name| {
        *takers.entry(name).or_default() += 1;
    });
    takers.into_iter().filter(|(_, takers)| *takers == 1).map(|(name, _)| name).collect()
}

struct Writer<'a> {
    held: HashMap<&'a str, &'a TensorProto>,
    of_reference: HashMap<String, String>,
    names: HashSet<String>,
    /// What one node alone takes, which goes where that node is written out.
    taken_once: HashSet<&'a str>,
    /// Whether `DequantizeLinear` has an axis.
    has_axes: bool,
    /// Whether it has blocks.
    has_blocks: bool,
    folder: Option<&'a Path>,
    constants: Vec<TensorProto>,
    /// The types of the codes of which constants of the graph hold one in each byte.
    unpacked: Vec<(String, ElementType)>,
}

/// The nodes that stand for one.
struct Parts<'a> {
    label: &'a str,
    output: &'a str,
    nodes: Vec<NodeProto>,
}

impl Parts<'_> {
    /// Adds a node that makes a value of its own name, or of the one given.
    fn add(
        &mut self,
        op: &str,
        input: Vec<String>,
        attribute: Vec<AttributeProto>,
        name: Option<String>,
    ) -> String {
        let place = self.nodes.len();
        let made = name.unwrap_or_else(|| format!("{}:{place}", self.output));
        self.nodes.push(NodeProto {
            name: self.label.into(),
            op_type: op.into(),
            input,
            output: vec![made.clone()],
            attribute,
            ..NodeProto::default()
        });
        made
    }

    /// Adds a cast from one type to another, if they are two.
    fn cast(
        &mut self,
        value: String,
        (from, to): (ElementType, ElementType),
        name: Option<String>,
    ) -> String {
        if from == to {
            return value;
        }
        self.add("Cast", vec![value], vec![int_attribute("to", to as i64)], name)
    }

    /// A name that a part has whatever stands before it, so that one of two models is known by it.
    fn named(&self, part: &str) -> Option<String> {
        Some(format!("{}:{part}", self.output))
    }

    /// The last node makes what the one makes that all stand for.
    fn done(mut self) -> Option<Vec<NodeProto>> {
        self.nodes.last_mut()?.output = vec![self.output.into()];
        Some(self.nodes)
    }
}

impl<'a> Writer<'a> {
    /// Writes out the products of a graph in its copy, and those of its bodies.
    fn graph(&mut self, graph: &'a GraphProto, copy: &mut GraphProto) {
        self.held.extend(graph.initializer.iter().map(|held| (held.name.as_str(), held)));
        let (mut nodes, mut replaced) = (vec![], HashSet::new());
        for (node, mut other) in graph.node.iter().zip(std::mem::take(&mut copy.node)) {
            let (constants, unpacked) = (self.constants.len(), self.unpacked.len());
            if let Some(parts) = self.written(node) {
                replaced.extend(&node.input);
                nodes.extend(parts);
                continue;
            }
            // Of a node that stays as it is nothing is held that it does not take.
            self.constants.truncate(constants);
            self.unpacked.truncate(unpacked);
            for (held, copied) in node.attribute.iter().zip(&mut other.attribute) {
                if let (Some(body), Some(copied)) = (&held.g, &mut copied.g) {
                    self.body(body, copied);
                }
            }
            nodes.push(other);
        }
        copy.node = nodes;
        let mut used: HashSet<&str> = copy.node.iter().flat_map(needed).collect();
        let made: HashSet<&str> =
            copy.node.iter().flat_map(|node| &node.output).map(String::as_str).collect();
        used.retain(|name| !made.contains(name));
        // Values that have the names of what goes are of other types.
        copy.value_info
            .retain(|info| !(replaced.contains(&info.name) && made.contains(&*info.name)));
        let is_output = |name: &str| copy.output.iter().any(|output| output.name == name);
        // What only a node took that was written out has others in its place.
        copy.initializer.retain(|held| {
            !replaced.contains(&held.name) || used.contains(&*held.name) || is_output(&held.name)
        });
        copy.initializer.append(&mut self.constants);
    }

    /// The same of a body, whose values may have the names of others outside, and which sees their
    /// constants.
    fn body(&mut self, body: &'a GraphProto, copy: &mut GraphProto) {
        let outside = (self.held.clone(), std::mem::take(&mut self.constants));
        let of_reference = std::mem::take(&mut self.of_reference);
        let unpacked = std::mem::take(&mut self.unpacked);
        self.graph(body, copy);
        ((self.held, self.constants), self.of_reference) = (outside, of_reference);
        self.unpacked = unpacked;
    }

    fn written(&mut self, node: &NodeProto) -> Option<Vec<NodeProto>> {
        let output = node.output.first()?;
        let parts = Parts { label: node.label(), output, nodes: vec![] };
        match node.op_type.as_str() {
            "QLinearConv" => self.linear(node, "Conv", parts),
            "QLinearMatMul" => self.linear(node, "MatMul", parts),
            "QGemm" => self.linear(node, "Gemm", parts),
            "MatMulNBits" => self.product(node, parts),
            "QLinearAdd" | "QLinearMul" => self.around(node, &[0, 3], 6, parts),
            "QLinearWhere" => self.around(node, &[1, 4], 7, parts),
            "QLinearConcat" => {
                let inputs: Vec<usize> = (2..node.input.len()).step_by(3).collect();
                self.around(node, &inputs, 0, parts)
            }
            op if CODED.contains(&op) => self.around(node, &[0], 3, parts),
            _ => None,
        }
    }

    /// Whether an input is a constant of one element.
    fn is_one(&self, node: &NodeProto, place: usize) -> bool {
        let held = node.input.get(place).and_then(|name| self.held.get(name.as_str()));
        held.is_some_and(|held| held.dims.iter().all(|dim| *dim == 1))
    }

    /// An operator on FLOAT between quantisers: its inputs stand at some places, each with a scale
    /// and a zero point behind it, and those of the result at another.
    fn around(
        &self,
        node: &NodeProto,
        inputs: &[usize],
        result: usize,
        mut parts: Parts,
    ) -> Option<Vec<NodeProto>> {
        let input = |place: usize| node.input.get(place).cloned().unwrap_or_default();
        if !self.is_one(node, result) || !inputs.iter().all(|place| self.is_one(node, place + 1)) {
            return None;
        }
        let held = |name: &str| node.attribute.iter().find(|held| held.name == name);
        // Softmax takes one axis from opset 13 on, and all axes from its own on before.
        let is_of_opset = held("opset").is_none_or(|held| (held.i >= 13) == self.has_axes);
        if held("channels_last").is_some_and(|held| held.i != 0) || !is_of_opset {
            return None;
        }
        let mut values: Vec<String> = inputs
            .iter()
            .map(|place| {
                let coded = vec![input(*place), input(place + 1), input(place + 2)];
                parts.add("DequantizeLinear", coded, vec![], None)
            })
            .collect();
        let is_own = |held: &&AttributeProto| matches!(&*held.name, "channels_last" | "opset");
        let held = node.attribute.iter().filter(|held| !is_own(held));
        let op = node.op_type.strip_prefix("QLinear")?;
        if op == "Where" {
            values.insert(0, input(0));
        }
        let made = parts.add(op, values, held.cloned().collect(), None);
        let coded = vec![made, input(result), input(result + 1)];
        parts.add("QuantizeLinear", coded, vec![], None);
        parts.done()
    }

    /// The name of the weight of which the node's reference makes a value, unless something else
    /// has it than the node's codes, which are written anew.
    fn weight(&mut self, value: &str, codes: Option<&String>) -> Option<String> {
        let value = value.strip_suffix("_quantized").unwrap_or(value);
        let name = self.of_reference.get(value)?.clone();
        let is_own = codes == Some(&name) && self.taken_once.contains(&*name);
        (self.names.insert(name.clone()) || is_own).then_some(name)
    }

    /// A product with a weight that has one scale for each channel, or one alone, and a bias by the
    /// scales of both.
    fn linear(&mut self, node: &NodeProto, op: &str, mut parts: Parts) -> Option<Vec<NodeProto>> {
        let input = |place: usize| node.input.get(place).cloned().unwrap_or_default();
        let (axis, bias, result) = match op {
            "Gemm" => (if int(node, "transB") == Some(1) { 0 } else { 1 }, input(6), 7),
            "Conv" => (0, input(8), 6),
            _ => (-1, String::new(), 6),
        };
        // A Gemm may make numbers.
        let makes_codes = op != "Gemm" || !input(result).is_empty();
        let is_of_one_scale = self.is_one(node, 4);
        let is_known = self.is_one(node, 1) && (!makes_codes || self.is_one(node, result));
        if !is_known || !is_of_one_scale && !self.has_axes {
            return None;
        }
        let along = |axis: i64| {
            if is_of_one_scale { vec![] } else { vec![int_attribute("axis", axis)] }
        };
        let value = parts.output;
        let coded = "DequantizeLinear";
        let x = parts.add(coded, vec![input(0), input(1), input(2)], vec![], None);
        let name = self.weight(value, None);
        let weight = parts.add(coded, vec![input(3), input(4), input(5)], along(axis), name);
        let mut taken = vec![x, weight];
        if !bias.is_empty() {
            let scale = parts.add("Mul", vec![input(1), input(4)], vec![], None);
            taken.push(parts.add(coded, vec![bias, scale], along(0), None));
        }
        let made = parts.add(op, taken, node.attribute.clone(), None);
        if makes_codes {
            let coded = vec![made, input(result), input(result + 1)];
            parts.add("QuantizeLinear", coded, vec![], None);
        }
        parts.done()
    }
}

#[cfg(test)]
mod tests {
    use onnx_cast_graph::{int_attribute, named_value};
    use tract_onnx::pb::OperatorSetIdProto;

    use super::*;

    fn shaped(name: &str, ty: ElementType, dims: &[i64]) -> TensorProto {
        let (name, data_type, dims) = (name.into(), ty as i32, dims.into());
        TensorProto { name, data_type, dims, ..TensorProto::default() }
    }

    /// A product by a weight `w` of 16 rows and 2 columns, in codes of so many bits with the scales
    /// `s`.
    fn product(bits: i64, initializer: Vec<TensorProto>, opset: i64) -> ModelProto {
        let sizes = [("K", 16), ("N", 2), ("bits", bits), ("block_size", 16)];
        let node = NodeProto {
            op_type: PRODUCT.into(),
            domain: "com.microsoft".into(),
            name: "p".into(),
            input: ["x", "w", "s"].map(String::from).into(),
            output: vec!["y".into()],
            attribute: sizes.map(|(name, size)| int_attribute(name, size)).into(),
            ..NodeProto::default()
        };
        let (node, input) = (vec![node], vec![named_value("x")]);
        let graph = GraphProto { node, initializer, input, ..GraphProto::default() };
        let opset_import = vec![OperatorSetIdProto { version: opset, ..Default::default() }];
        ModelProto { graph: Some(graph), opset_import, ..ModelProto::default() }
    }

    /// Codes of 4 bits before opset 21, in which nothing has their type.
    #[test]
    fn parts_are_called_as_their_node_and_codes_are_known_by_what_wrote_them() {
        let held = |name: &str, ty: ElementType, dims: &[i64], bytes: usize| TensorProto {
            raw_data: vec![0; bytes],
            ..shaped(name, ty, dims)
        };
        let constants = vec![
            held("w", ElementType::Uint8, &[2, 1, 8], 16),
            held("s", ElementType::Float, &[2], 8),
            held("y:codes4", ElementType::Uint8, &[1], 1),
        ];
        let model = product(4, constants, 13);
        let Spelt { proto, unpacked } = spelt(&model, None, None);
        let graph = proto.graph.as_ref().expect("a graph");
        assert!(graph.node.len() > 2 && graph.node.iter().all(|node| node.name == "p"));
        assert_eq!(unpacked, [("y:codes".into(), ElementType::Uint4)]);
        assert!(graph.initializer.iter().any(|held| held.name == "y:codes"), "{graph:?}");
    }

    /// Its codes can be read, and its scales have no data.
    #[test]
    fn a_node_that_stays_adds_nothing() {
        let codes =
            TensorProto { raw_data: vec![0; 8], ..shaped("w", ElementType::Uint8, &[2, 1, 4]) };
        let model = product(2, vec![codes, shaped("s", ElementType::Float, &[2])], 21);
        let Spelt { proto, unpacked } = spelt(&model, None, None);
        assert_eq!((&*proto, &*unpacked), (&model, &[][..]));
    }

    #[test]
    fn a_choice_among_codes_is_one_among_what_they_stand_for() {
        let one = |name: &str| TensorProto { name: name.into(), ..TensorProto::default() };
        let names = ["c", "x", "x_s", "x_z", "y", "y_s", "y_z", "s", "z"];
        let node = NodeProto {
            op_type: "QLinearWhere".into(),
            name: "where".into(),
            input: names.map(String::from).into(),
            output: vec!["o".into()],
            ..NodeProto::default()
        };
        let graph = GraphProto {
            node: vec![node],
            initializer: ["x_s", "y_s", "s"].map(one).into(),
            input: ["c", "x", "y"].map(named_value).into(),
            ..GraphProto::default()
        };
        let model = ModelProto { graph: Some(graph), ..ModelProto::default() };
        let written = spelt(&model, None, None).proto;
        let nodes = &written.graph.as_ref().expect("a graph").node;
        let told: Vec<String> =
            nodes.iter().map(|node| format!("{} {}", node.op_type, node.input.join(" "))).collect();
        let wanted = [
            "DequantizeLinear x x_s x_z",
            "DequantizeLinear y y_s y_z",
            "Where c o:0 o:1",
            "QuantizeLinear o:2 s z",
        ];
        assert_eq!(told, wanted);
    }
}
