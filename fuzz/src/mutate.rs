//! A mutator of models: it changes messages, not bytes, so that most results still get past the
//! parser and the rewrite.

#![forbid(unsafe_code)]

#[path = "tables.rs"]
mod tables;

use prost::Message;
use tract_onnx::pb::attribute_proto::AttributeType;
use tract_onnx::pb::tensor_shape_proto::{Dimension, dimension};
use tract_onnx::pb::type_proto::Value as TypeValue;
use tract_onnx::pb::{
    AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, StringStringEntryProto,
    TensorProto, ValueInfoProto,
};
use tract_onnx_cast::ElementType;

/// One change in so many is libFuzzer's own, to bytes.
const BYTES: usize = 4;
/// Nodes are not wrapped in graphs of more bytes.
const WRAPPED: usize = 8000;

/// Operators whose last so many inputs are lists of sizes, axes or places.
const WITH_LISTS: &[(&str, usize)] = &[
    ("Slice", 4),
    ("Slice", 3),
    ("Slice", 2),
    ("Reshape", 1),
    ("Expand", 1),
    ("Tile", 1),
    ("Pad", 1),
    ("Gather", 1),
    ("GatherND", 1),
    ("GatherElements", 1),
    ("Squeeze", 1),
    ("Unsqueeze", 1),
    ("ReduceSum", 1),
    ("ReduceMax", 1),
    ("TopK", 1),
    ("Split", 1),
    ("CumSum", 1),
    ("OneHot", 2),
    ("ScatterND", 2),
    ("CenterCropPad", 1),
];
/// What such a list mostly holds.
const SMALL: &[i64] = &[0, 1, -1, 2, -2, 1, 3, -3, 4, 0];
const DOMAINS: &[&str] = &["", "ai.onnx", "com.microsoft", "tract-onnx-cast", "d", "ai.onnx.ml"];
const SIZES: &[i64] = &[
    0,
    1,
    2,
    3,
    7,
    16,
    -1,
    -2,
    65536,
    1 << 31,
    (1 << 31) - 1,
    1 << 32,
    1 << 40,
    i64::MAX,
    i64::MIN,
];
const SYMBOLS: &[&str] = &[
    "N",
    "batch",
    "N*M",
    "(N+1)/2",
    "-N",
    "N-N",
    "0",
    "N+",
    "((((",
    "4294967296",
    "a,b",
    "N*N*N*N",
    "-",
    "N/0",
    "N%0",
    "2N",
];
const WORDS: &[&str] = &["up", "down", "nearest", "FLOAT", "", "\u{fffd}", "ij,jk->ik"];
const LOCATIONS: &[&str] = &[
    "w",
    "./w",
    "sub/w",
    "link",
    "../evil",
    "/etc/passwd",
    "",
    "model.onnx",
    "m.onnx",
    "sub/../../evil",
];
const VERSIONS: &[i64] =
    &[1, 5, 6, 8, 9, 12, 13, 18, 19, 20, 21, 22, 23, 24, 25, 26, 0, -1, i64::MAX];

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ mixed >> 31
    }

    /// Less than `count`; 0 where there is nothing.
    fn below(&mut self, count: usize) -> usize {
        (self.next() % count.max(1) as u64) as usize
    }

    fn of<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.below(values.len())]
    }

    fn name(&mut self, names: &[String]) -> String {
        names.get(self.below(names.len())).cloned().unwrap_or_default()
    }

    fn among<'a, T>(&mut self, values: &'a mut [T]) -> Option<&'a mut T> {
        let index = self.below(values.len());
        values.get_mut(index)
    }

    fn element_type(&mut self) -> i64 {
        let odd = [-1, 1 << 31];
        if self.below(16) == 0 { self.of(&odd) } else { self.below(31) as i64 }
    }
}

/// libFuzzer's hook: the first `size` bytes are a model, and there is room for `max_size`.
pub fn mutate(
    data: &mut [u8],
    size: usize,
    max_size: usize,
    seed: u32,
    of_bytes: impl Fn(&mut [u8], usize, usize) -> usize,
) -> usize {
    let mut random = Random(seed.into());
    let decoded = ModelProto::decode(&data[..size]);
    let Some(mut proto) = decoded.ok().filter(|_| random.below(BYTES) > 0) else {
        return of_bytes(data, size, max_size);
    };
    for _ in 0..1 + random.below(4) {
        model(&mut proto, &mut random);
    }
    let bytes = proto.encode_to_vec();
    if bytes.len() > max_size {
        return of_bytes(data, size, max_size);
    }
    data[..bytes.len()].copy_from_slice(&bytes);
    bytes.len()
}

fn model(proto: &mut ModelProto, random: &mut Random) {
    let ModelProto { graph: Some(main), functions, opset_import, .. } = proto else { return };
    match random.below(12) {
        0 => {
            if let Some(import) = random.among(opset_import) {
                import.version = random.of(VERSIONS);
            }
        }
        1 if functions.len() < 6 => {
            if let Some(node) = random.among(&mut main.node) {
                let name = random.of(&["f", "g", "h"]);
                let first = node.attribute.iter().take(1).map(|attribute| attribute.name.clone());
                functions.push(FunctionProto {
                    name: Some(name.into()),
                    domain: Some("d".into()),
                    input: node.input.clone(),
                    output: node.output.clone(),
                    node: vec![node.clone()],
                    opset_import: opset_import.clone(),
                    attribute: first.collect(),
                    ..FunctionProto::default()
                });
                (node.op_type, node.domain) = (name.into(), "d".into());
                node.attribute.clear();
            }
        }
        2 => {
            if let Some(function) = random.among(functions) {
                let made = function.node.iter().flat_map(|node| &node.output);
                let names: Vec<String> = function.input.iter().chain(made).cloned().collect();
                if let Some(one) = random.among(&mut function.node) {
                    node(one, random, &names);
                }
            }
        }
        _ => graph(main, random, &[]),
    }
}

fn graph(graph: &mut GraphProto, random: &mut Random, outer: &[String]) {
    let mut names = outer.to_vec();
    names.extend(graph.input.iter().map(|value| value.name.clone()));
    names.extend(graph.initializer.iter().map(|tensor| tensor.name.clone()));
    names.extend(graph.node.iter().flat_map(|node| node.output.iter().cloned()));
    names.push(String::new());
    match random.below(18) {
        17 => empty(graph, random),
        0..5 => {
            if let Some(one) = random.among(&mut graph.node) {
                node(one, random, &names);
            }
        }
        place @ 5..8 => {
            let values = [&mut graph.input, &mut graph.output, &mut graph.value_info]
                .into_iter()
                .nth(place - 5);
            let Some(values) = values else { return };
            match (random.below(8), random.among(values)) {
                (1.., Some(one)) => value(one, random, &names),
                _ => {
                    values.push(ValueInfoProto { name: random.name(&names), ..Default::default() })
                }
            }
        }
        8 => {
            if let Some(one) = random.among(&mut graph.initializer) {
                tensor(one, random);
            }
        }
        9 => {
            let to = attribute_of("to", random.element_type());
            let output = format!("c{}", random.below(1000));
            graph.node.push(NodeProto {
                op_type: "Cast".into(),
                input: vec![random.name(&names)],
                output: vec![output],
                attribute: vec![to],
                ..NodeProto::default()
            });
        }
        10 => {
            let input = (0..random.below(4)).map(|_| random.name(&names)).collect();
            graph.node.push(NodeProto {
                op_type: random.of(&tables::OPERATORS).into(),
                input,
                output: vec![format!("n{}", random.below(1000))],
                ..NodeProto::default()
            });
        }
        11 => wrap(graph, random, &names),
        14 => with_lists(graph, random, &names),
        15 => {
            if let Some(one) = random.among(&mut graph.initializer) {
                fill(one, random);
            }
        }
        16 => {
            let values = if random.below(2) == 0 { &mut graph.input } else { &mut graph.output };
            values.pop();
        }
        12 => {
            if let Some(output) = graph.output.first_mut() {
                output.name = random.name(&names);
            }
        }
        _ if graph.node.is_empty() => {}
        _ => {
            let index = random.below(graph.node.len());
            match random.below(2) {
                0 => drop(graph.node.remove(index)),
                _ => graph.node.push(graph.node[index].clone()),
            }
        }
    }
}

/// Makes a constant empty, huge, or of another rank.
fn empty(graph: &mut GraphProto, random: &mut Random) {
    let Some(tensor) = random.among(&mut graph.initializer) else { return };
    match random.below(3) {
        0 => tensor.dims.push(1),
        1 => tensor.int64_data.iter_mut().for_each(|number| *number = random.of(SIZES)),
        _ => {
            *tensor = TensorProto {
                name: std::mem::take(&mut tensor.name),
                data_type: tensor.data_type,
                dims: vec![0],
                ..TensorProto::default()
            };
        }
    }
}

/// Puts a node into the branches or the body of another.
fn wrap(graph: &mut GraphProto, random: &mut Random, names: &[String]) {
    if graph.encoded_len() > WRAPPED {
        return;
    }
    let (op_type, condition) = (random.of(&["If", "Loop", "Scan"]), random.name(names));
    let Some(node) = random.among(&mut graph.node) else { return };
    let output = |name: &String| ValueInfoProto { name: name.clone(), ..Default::default() };
    let mut inner = GraphProto {
        name: "b".into(),
        node: vec![node.clone()],
        output: node.output.iter().map(output).collect(),
        ..GraphProto::default()
    };
    // Half of them as ONNX has it: what the node is fed comes in, and what it makes goes out.
    let mut input = vec![condition];
    if random.below(2) == 0 && op_type != "If" {
        let taken: Vec<String> =
            node.input.iter().filter(|name| !name.is_empty()).cloned().collect();
        inner.input = taken.iter().map(output).collect();
        if op_type == "Loop" {
            let [turn, goes_on] = ["turn", "goes_on"].map(|name| output(&name.into()));
            inner.input.splice(..0, [turn, goes_on.clone()]);
            inner.output.insert(0, goes_on);
            input.push(String::new());
            input.extend(taken);
        } else {
            input = taken;
        }
    }
    let count = attribute_of("num_scan_inputs", random.below(2) as i64 + input.len() as i64 - 1);
    let branch = |name: &str| AttributeProto {
        name: name.into(),
        r#type: AttributeType::Graph as i32,
        g: Some(inner.clone()),
        ..AttributeProto::default()
    };
    *node = NodeProto {
        op_type: op_type.into(),
        input,
        output: node.output.clone(),
        attribute: match op_type {
            "If" => ["then_branch", "else_branch"].map(branch).into(),
            "Scan" => vec![branch("body"), count],
            _ => vec![branch("body")],
        },
        ..NodeProto::default()
    };
}

/// Adds an operator with lists of one length, as constants.
fn with_lists(graph: &mut GraphProto, random: &mut Random, names: &[String]) {
    let (op_type, count) = random.of(WITH_LISTS);
    let number = random.below(1000);
    let length = random.below(4);
    let mut input = vec![random.name(names)];
    for index in 0..count {
        let name = format!("l{number}_{index}");
        let rare = random.below(16) == 0;
        let list = (0..length).map(|_| random.of(if rare { SIZES } else { SMALL })).collect();
        graph.initializer.push(TensorProto {
            name: name.clone(),
            data_type: 7,
            dims: vec![length as i64],
            int64_data: list,
            ..TensorProto::default()
        });
        input.push(name);
    }
    let output = vec![format!("n{number}")];
    graph.node.push(NodeProto { op_type: op_type.into(), input, output, ..NodeProto::default() });
}

/// Gives a tensor a small shape and as many bytes as that asks for.
fn fill(tensor: &mut TensorProto, random: &mut Random) {
    let dims: Vec<i64> = (0..random.below(4)).map(|_| random.below(4) as i64).collect();
    let ty = random.element_type() as i32;
    let bits = ElementType::from_id(ty).map_or(8, ElementType::bits) as usize;
    let bytes = (dims.iter().product::<i64>() as usize * bits).div_ceil(8);
    let name = std::mem::take(&mut tensor.name);
    let raw_data = (0..bytes).map(|_| random.next() as u8).collect();
    *tensor = TensorProto { name, dims, data_type: ty, raw_data, ..TensorProto::default() };
}

fn node(node: &mut NodeProto, random: &mut Random, names: &[String]) {
    match random.below(10) {
        0 => node.op_type = random.of(&tables::OPERATORS).into(),
        1 => node.domain = random.of(DOMAINS).into(),
        2 => {
            if let Some(input) = random.among(&mut node.input) {
                *input = random.name(names);
            }
        }
        3 => node.input.push(random.name(names)),
        4 => drop(node.input.pop()),
        5 => node.output.push(format!("o{}", random.below(30))),
        6 => drop(node.output.pop()),
        7 => node.name = random.name(names),
        8 => {
            if let Some((name, ty)) = tables::attribute(&node.op_type, random.below(64)) {
                node.attribute.retain(|attribute| attribute.name != name);
                node.attribute.push(typed(name, ty, random));
            }
        }
        _ => {
            if let Some(one) = random.among(&mut node.attribute) {
                attribute(one, random, names);
            }
        }
    }
}

fn attribute_of(name: &str, i: i64) -> AttributeProto {
    let r#type = AttributeType::Int as i32;
    AttributeProto { name: name.into(), r#type, i, ..AttributeProto::default() }
}

/// An attribute of its own type, mostly of a small value.
fn typed(name: &str, ty: &str, random: &mut Random) -> AttributeProto {
    let sizes = if random.below(4) == 0 { SIZES } else { SMALL };
    let mut attribute = attribute_of(name, random.of(sizes));
    let kind = match ty {
        "FLOAT" => AttributeType::Float,
        "INTS" => AttributeType::Ints,
        "STRING" => AttributeType::String,
        "TENSOR" => AttributeType::Tensor,
        _ => return attribute,
    };
    attribute.r#type = kind as i32;
    match kind {
        AttributeType::Float => attribute.f = f32::from_bits(random.next() as u32),
        AttributeType::Ints => {
            attribute.ints = (0..random.below(5)).map(|_| random.of(sizes)).collect()
        }
        AttributeType::String => attribute.s = random.of(WORDS).as_bytes().to_vec(),
        _ => fill(attribute.t.get_or_insert_default(), random),
    }
    attribute
}

fn attribute(attribute: &mut AttributeProto, random: &mut Random, names: &[String]) {
    match random.below(9) {
        0 => attribute.i = random.element_type(),
        1 => attribute.i = random.of(SIZES),
        2 => {
            let operator = random.of(&tables::OPERATORS);
            if let Some((name, _)) = tables::attribute(operator, random.below(64)) {
                attribute.name = name.into();
            }
        }
        3 => attribute.r#type = random.below(16) as i32,
        4 => attribute.ints = (0..random.below(6)).map(|_| random.of(SIZES)).collect(),
        5 => attribute.s = random.of(WORDS).as_bytes().to_vec(),
        6 => attribute.ref_attr_name = random.of(&["to", ""]).into(),
        7 => {
            tensor(attribute.t.get_or_insert_default(), random);
            attribute.r#type = AttributeType::Tensor as i32;
        }
        _ => {
            if let Some(inner) = &mut attribute.g {
                graph(inner, random, names);
            }
        }
    }
}

fn tensor(tensor: &mut TensorProto, random: &mut Random) {
    let count = random.below(40);
    match random.below(8) {
        0 => tensor.dims.push(random.of(SIZES)),
        1 => drop(tensor.dims.pop()),
        2 => {
            if let Some(dim) = random.among(&mut tensor.dims) {
                *dim = random.of(SIZES);
            }
        }
        3 => tensor.data_type = random.element_type() as i32,
        4 => tensor.raw_data = (0..count).map(|_| random.next() as u8).collect(),
        5 => {
            tensor.raw_data.clear();
            tensor.int64_data.clear();
        }
        6 => {
            let entry = |key: &str, value: &str| StringStringEntryProto {
                key: key.into(),
                value: value.into(),
            };
            tensor.data_location = Some(random.below(2) as i32);
            let key = random.of(&["location", "location", "offset", "length"]);
            tensor.external_data.push(entry(key, random.of(LOCATIONS)));
        }
        _ => match random.below(5) {
            0 => {
                tensor.float_data =
                    (0..count).map(|_| f32::from_bits(random.next() as u32)).collect()
            }
            1 => tensor.int32_data = (0..count).map(|_| random.next() as i32).collect(),
            2 => tensor.int64_data = (0..count).map(|_| random.of(SIZES)).collect(),
            3 => tensor.string_data = vec![b"1e5".to_vec(); count],
            _ => tensor.uint64_data = (0..count).map(|_| random.next()).collect(),
        },
    }
}

fn value(value: &mut ValueInfoProto, random: &mut Random, names: &[String]) {
    match random.below(10) {
        0 => value.name = random.name(names),
        1 => value.r#type = None,
        choice => {
            let ty = value.r#type.get_or_insert_default();
            let ty = ty.value.get_or_insert_with(|| TypeValue::TensorType(Default::default()));
            let TypeValue::TensorType(tensor) = ty;
            match choice {
                2..4 => tensor.elem_type = random.element_type() as i32,
                4 => tensor.shape = None,
                _ => {
                    let dims = &mut tensor.shape.get_or_insert_default().dim;
                    let size = match random.below(3) {
                        0 => None,
                        1 => Some(dimension::Value::DimValue(random.of(SIZES))),
                        _ => Some(dimension::Value::DimParam(random.of(SYMBOLS).into())),
                    };
                    let dim = Dimension { value: size, ..Dimension::default() };
                    match random.below(3) {
                        0 => dims.push(dim),
                        1 => drop(dims.pop()),
                        _ => random.among(dims).into_iter().for_each(|place| *place = dim.clone()),
                    }
                }
            }
        }
    }
}
