//! Products of codes written out: `DequantizeLinear` of what they take, the operator on FLOAT, and
//! `QuantizeLinear` of the result. There are then values, and weights, to be held against another
//! model's: `QLinearConv`, `QLinearMatMul`, and ONNX Runtime's `QLinearAdd` and the like, and
//! `MatMulNBits`.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::path::Path;

use tract_onnx::pb::attribute_proto::AttributeType;
use tract_onnx::pb::tensor_proto::DataType;
use tract_onnx::pb::{AttributeProto, ModelProto, NodeProto, TensorProto};
use tract_onnx_cast::{ElementType, tensor_proto};

/// The model with its products of codes written out. The parts of a node have its name, with their
/// operator and place behind it, and a weight is called as the one that it is in `reference`, by the
/// node that makes the same value there. A node that says nothing of its sizes stays as it is.
pub(crate) fn spelt<'a>(
    model: &'a ModelProto,
    reference: Option<&ModelProto>,
    folder: Option<&Path>,
) -> Cow<'a, ModelProto> {
    let is_coded = |node: &NodeProto| CODED.contains(&node.op_type.as_str());
    let is_default = |domain: &str| matches!(domain, "" | "ai.onnx");
    let has_axes = |model: &ModelProto| {
        model.opset_import.iter().any(|held| is_default(&held.domain) && held.version >= 13)
    };
    let Some(graph) = model.graph.as_ref().filter(|graph| graph.node.iter().any(is_coded)) else {
        return Cow::Borrowed(model);
    };
    let taken = graph.node.iter().flat_map(|node| &node.output);
    let held = graph.initializer.iter().map(|held| &held.name);
    let mut writer = Writer {
        held: graph.initializer.iter().map(|held| (held.name.as_str(), held)).collect(),
        of_reference: weights_by_value(reference),
        names: taken.chain(held).cloned().collect(),
        has_axes: has_axes(model),
        folder,
        constants: vec![],
    };
    let nodes = graph.node.iter();
    let nodes = nodes.flat_map(|node| writer.written(node).unwrap_or_else(|| vec![node.clone()]));
    let nodes = nodes.collect();
    let constants = std::mem::take(&mut writer.constants);
    let mut spelt = model.clone();
    if let Some(graph) = &mut spelt.graph {
        graph.node = nodes;
        graph.initializer.extend(constants);
    }
    Cow::Owned(spelt)
}

const CODED: [&str; 12] = [
    "MatMulNBits",
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
];

/// The type of the codes of which a constant holds one in each byte.
pub(crate) fn unpacked_type(constant: &str) -> Option<ElementType> {
    match constant.rsplit_once(":codes")?.1 {
        "2" => Some(ElementType::Uint2),
        "4" => Some(ElementType::Uint4),
        _ => None,
    }
}

/// The name of the node that a part stands for.
pub(crate) fn label<'a>(name: &'a str, op: &str) -> &'a str {
    let whole = name.rsplit_once('.').filter(|(_, place)| place.parse::<u32>().is_ok());
    whole.and_then(|(whole, _)| whole.strip_suffix(op)?.strip_suffix('.')).unwrap_or(name)
}

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

struct Writer<'a> {
    held: HashMap<&'a str, &'a TensorProto>,
    of_reference: HashMap<String, String>,
    names: HashSet<String>,
    /// Whether `DequantizeLinear` has an axis.
    has_axes: bool,
    folder: Option<&'a Path>,
    constants: Vec<TensorProto>,
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
            name: format!("{}.{op}.{place}", self.label),
            op_type: op.into(),
            input,
            output: vec![made.clone()],
            attribute,
            ..NodeProto::default()
        });
        made
    }

    /// The last node takes the name of the one that all stand for.
    fn done(mut self) -> Option<Vec<NodeProto>> {
        let last = self.nodes.last_mut()?;
        (last.name, last.output) = (self.label.into(), vec![self.output.into()]);
        Some(self.nodes)
    }
}

fn attribute(name: &str, i: i64) -> AttributeProto {
    let of = AttributeType::Int.into();
    AttributeProto { name: name.into(), i, r#type: of, ..AttributeProto::default() }
}

impl Writer<'_> {
    fn written(&mut self, node: &NodeProto) -> Option<Vec<NodeProto>> {
        let output = node.output.first()?;
        let label = if node.name.is_empty() { output } else { &node.name };
        let parts = Parts { label, output, nodes: vec![] };
        match node.op_type.as_str() {
            "QLinearConv" => self.linear(node, "Conv", parts),
            "QLinearMatMul" => self.linear(node, "MatMul", parts),
            "QGemm" => self.gemm(node, parts),
            "MatMulNBits" => self.packed(node, parts),
            "QLinearAdd" | "QLinearMul" => self.around(node, &[0, 3], 6, parts),
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

    /// An operator on FLOAT between quantisers: its inputs stand at some places, each with a scale and
    /// a zero point behind it, and those of the result at another.
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
        let values: Vec<String> = inputs
            .iter()
            .map(|place| {
                let coded = vec![input(*place), input(place + 1), input(place + 2)];
                parts.add("DequantizeLinear", coded, vec![], None)
            })
            .collect();
        let is_own = |held: &&AttributeProto| matches!(&*held.name, "channels_last" | "opset");
        let held = node.attribute.iter().filter(|held| !is_own(held));
        let op = node.op_type.strip_prefix("QLinear")?;
        let made = parts.add(op, values, held.cloned().collect(), None);
        let coded = vec![made, input(result), input(result + 1)];
        parts.add("QuantizeLinear", coded, vec![], None);
        parts.done()
    }

    /// A product of matrices with a bias, of one scale each.
    fn gemm(&mut self, node: &NodeProto, mut parts: Parts) -> Option<Vec<NodeProto>> {
        let input = |place: usize| node.input.get(place).cloned().unwrap_or_default();
        if ![1, 4, 7].iter().all(|place| self.is_one(node, *place)) {
            return None;
        }
        let value = parts.output;
        let coded = "DequantizeLinear";
        let x = parts.add(coded, vec![input(0), input(1), input(2)], vec![], None);
        let name = self.weight(value);
        let weight = parts.add(coded, vec![input(3), input(4), input(5)], vec![], name);
        let mut taken = vec![x, weight];
        if !input(6).is_empty() {
            let scale = parts.add("Mul", vec![input(1), input(4)], vec![], None);
            taken.push(parts.add(coded, vec![input(6), scale], vec![], None));
        }
        let made = parts.add("Gemm", taken, node.attribute.clone(), None);
        parts.add("QuantizeLinear", vec![made, input(7), input(8)], vec![], None);
        parts.done()
    }

    /// The name of the weight of which the node's reference makes a value.
    fn weight(&mut self, value: &str) -> Option<String> {
        let value = value.strip_suffix("_quantized").unwrap_or(value);
        let name = self.of_reference.get(value)?.clone();
        self.names.insert(name.clone()).then_some(name)
    }

    fn linear(&mut self, node: &NodeProto, op: &str, mut parts: Parts) -> Option<Vec<NodeProto>> {
        let input = |place: usize| node.input.get(place).cloned().unwrap_or_default();
        let is_of_one_scale = self.is_one(node, 4);
        if !self.is_one(node, 1) || !self.is_one(node, 6) || !is_of_one_scale && !self.has_axes {
            return None;
        }
        let along = |axis: i64| {
            if is_of_one_scale { vec![] } else { vec![attribute("axis", axis)] }
        };
        let value = parts.output;
        let coded = "DequantizeLinear";
        let x = parts.add(coded, vec![input(0), input(1), input(2)], vec![], None);
        let axis = if op == "Conv" { 0 } else { -1 };
        let name = self.weight(value);
        let weight = parts.add(coded, vec![input(3), input(4), input(5)], along(axis), name);
        let mut taken = vec![x, weight];
        if op == "Conv" && !input(8).is_empty() {
            let scale = parts.add("Mul", vec![input(1), input(4)], vec![], None);
            taken.push(parts.add(coded, vec![input(8), scale], along(0), None));
        }
        let result = parts.add(op, taken, node.attribute.clone(), None);
        parts.add("QuantizeLinear", vec![result, input(6), input(7)], vec![], None);
        parts.done()
    }

    /// A matrix in blocks of codes of a few bits, row by row of its transpose.
    fn packed(&mut self, node: &NodeProto, mut parts: Parts) -> Option<Vec<NodeProto>> {
        let input = |place: usize| node.input.get(place).filter(|name| !name.is_empty());
        let int = |name: &str| {
            let held = node.attribute.iter().find(|held| held.name == name)?;
            usize::try_from(held.i).ok().filter(|x| *x > 0)
        };
        let (depth, rows, size) = (int("K")?, int("N")?, int("block_size")?);
        let bits =
            if node.attribute.iter().any(|held| held.name == "bits") { int("bits")? } else { 4 };
        if !matches!(bits, 2 | 4 | 8) || !self.has_axes || input(4).is_some() {
            return None;
        }
        let blocks = depth.div_ceil(size);
        let codes = self.unpacked(input(1)?, bits, rows.checked_mul(blocks)?, size)?;
        let count = rows.checked_mul(blocks)?;
        let scales = self.scales(input(2)?, count, parts.output)?;
        let stored = i64::try_from(count).ok()?;
        let zeros = match input(3) {
            Some(zeros) => self.unpacked(zeros, bits, rows, blocks)?,
            None => vec![1 << (bits - 1); count],
        };
        let (depth, size, rows) =
            (i64::try_from(depth).ok()?, i64::try_from(size).ok()?, i64::try_from(rows).ok()?);
        let padded = i64::try_from(blocks).ok()? * size;
        let output = parts.output.to_owned();
        let mut hold = |name: &str, data_type: DataType, dims: Vec<i64>, raw_data: Vec<u8>| {
            let name = format!("{output}:{name}");
            let data_type = data_type.into();
            let held =
                TensorProto { name: name.clone(), dims, data_type, raw_data, ..Default::default() };
            self.constants.push(held);
            name
        };
        let whole = |values: &[i64]| values.iter().flat_map(|x| x.to_le_bytes()).collect();
        let codes = hold(&format!("codes{bits}"), DataType::Uint8, vec![stored, size], codes);
        let zeros = hold("zeros", DataType::Uint8, vec![stored], zeros);
        let shape = hold("shape", DataType::Int64, vec![2], whole(&[rows, padded]));
        let ends = [("start", 0), ("end", depth), ("axis", 1)];
        let ends = ends.map(|(name, x)| hold(name, DataType::Int64, vec![1], whole(&[x])));
        let axis = vec![attribute("axis", 0)];
        let taken = vec![codes, scales.name.clone(), zeros];
        self.constants.push(scales);
        let mut weight = parts.add("DequantizeLinear", taken, axis, None);
        weight = parts.add("Reshape", vec![weight, shape], vec![], None);
        weight = parts.add("Slice", [weight].into_iter().chain(ends).collect(), vec![], None);
        let turned = AttributeProto { ints: vec![1, 0], ..attribute("perm", 0) };
        let turned = AttributeProto { r#type: AttributeType::Ints.into(), ..turned };
        let name = self.weight(&output);
        weight = parts.add("Transpose", vec![weight], vec![turned], name);
        let product = parts.add("MatMul", vec![input(0)?.clone(), weight], vec![], None);
        if let Some(bias) = input(5) {
            parts.add("Add", vec![product, bias.clone()], vec![], None);
        }
        parts.done()
    }

    /// A constant of so many FLOAT scales, in one dimension.
    fn scales(&self, name: &str, count: usize, value: &str) -> Option<TensorProto> {
        let scales = self.held.get(name)?;
        let stored = scales.dims.iter().try_fold(1i64, |count, dim| count.checked_mul(*dim))?;
        let is_float = scales.data_type == i32::from(DataType::Float);
        (is_float && usize::try_from(stored).ok()? == count).then(|| TensorProto {
            dims: vec![stored],
            name: format!("{value}:scales"),
            ..TensorProto::clone(scales)
        })
    }

    /// Codes of a constant, a byte each, of rows that are padded to whole bytes.
    fn unpacked(&self, name: &str, bits: usize, rows: usize, count: usize) -> Option<Vec<u8>> {
        let (_, tensor) = tensor_proto::read(self.held.get(name)?, self.folder).ok()?;
        let bytes = tensor.as_bytes();
        let stride = count.checked_mul(bits)?.div_ceil(8);
        if stride.checked_mul(rows)? != bytes.len() || stride == 0 {
            return None;
        }
        let mask = u8::try_from((1u32 << bits) - 1).ok()?;
        let code = |row: &[u8], place: usize| {
            let byte = row.get(place * bits / 8)?;
            Some((byte >> (place * bits % 8)) & mask)
        };
        let rows = bytes.chunks_exact(stride);
        rows.flat_map(|row| (0..count).map(move |place| code(row, place))).collect()
    }
}
