//! The ways to write a graph as a model. All of them mean the same.

use std::path::Path;

use prost::Message;
use tract_onnx::pb::tensor_shape_proto::Dimension;
use tract_onnx::pb::{
    AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto,
    TensorProto, ValueInfoProto,
};

use crate::common::proto::{
    self, dim, external, float, graph_attribute, imports, int, ints, string, symbol,
    tensor_attribute, value_of,
};
use crate::graph::{Attribute, Body, Graph, Node, Value};
use crate::random::Random;

/// Where a value that no node makes comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    Input,
    Initializer,
    Constant,
    External,
}

/// What is said of the values inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueInfo {
    None,
    Right,
    /// Every size is another one than it is.
    Stale,
}

#[derive(Debug, Clone)]
pub struct Form {
    /// Whether the sizes of inputs are symbols where they can be.
    pub is_symbolic: bool,
    /// Of each leaf, by its number.
    pub sources: Vec<(usize, Source)>,
    pub value_info: ValueInfo,
    /// A run of nodes that are a function.
    pub outlined: Option<(usize, usize)>,
    /// Inner values and inputs that are outputs besides.
    pub also: Vec<usize>,
}

pub const FORMS: u64 = 4;

impl Form {
    /// The first form has concrete sizes, the second symbols, the others a bit of everything.
    pub fn new(graph: &Graph, number: u64, seed: u64) -> Form {
        let mut random = Random::new(seed.wrapping_mul(FORMS) ^ number << 56 ^ 0x5EED);
        let is_plain = number < 2;
        let is_symbolic = number == 1 || !is_plain && random.one_in(2);
        let source = |id: usize| {
            let leaf = graph.values[id].leaf.as_ref().expect("a leaf");
            let needs_input = is_symbolic && leaf.symbols.iter().any(Option::is_some);
            let source = match (leaf.is_constant, is_plain) {
                (true, true) => Source::Initializer,
                (false, true) => Source::Input,
                (true, false) => {
                    random.of(&[Source::Initializer, Source::Constant, Source::External])
                }
                (false, false) => random.of(&[
                    Source::Input,
                    Source::Input,
                    Source::Initializer,
                    Source::Constant,
                    Source::External,
                ]),
            };
            (id, if needs_input { Source::Input } else { source })
        };
        let sources: Vec<(usize, Source)> = graph.leaves().into_iter().map(source).collect();
        let mut form = Form {
            is_symbolic,
            sources,
            value_info: ValueInfo::None,
            outlined: None,
            also: vec![],
        };
        if is_plain {
            return form;
        }
        form.value_info = random.of(&[ValueInfo::None, ValueInfo::Right, ValueInfo::Stale]);
        let count = graph.nodes.len();
        if random.one_in(2) && count > 0 {
            let start = random.below(count);
            form.outlined = Some((start, start + 1 + random.below(count - start)));
        }
        if random.one_in(2) {
            let inputs = form.sources.iter().filter(|(_, source)| *source == Source::Input);
            let candidates: Vec<usize> =
                graph.made().into_iter().chain(inputs.map(|(id, _)| *id)).collect();
            for _ in 0..1 + random.below(3) {
                let id = random.maybe(&candidates).filter(|id| !graph.outputs.contains(id));
                form.also.extend(id.filter(|id| !form.also.contains(id)));
            }
        }
        form
    }

    /// Which worlds a model of the form is run in.
    pub fn worlds(&self) -> std::ops::Range<usize> {
        0..if self.is_symbolic { 2 } else { 1 }
    }

    pub fn outputs(&self, graph: &Graph) -> Vec<usize> {
        graph.outputs.iter().chain(&self.also).copied().collect()
    }

    pub fn inputs(&self) -> Vec<usize> {
        self.of(Source::Input)
    }

    fn of(&self, wanted: Source) -> Vec<usize> {
        self.sources.iter().filter(|(_, source)| *source == wanted).map(|(id, _)| *id).collect()
    }

    /// The model; external data is written to the folder.
    pub fn model(&self, graph: &Graph, folder: &Path) -> ModelProto {
        let tensor = |id: usize| graph.values[id].worlds[0].proto(&name(id));
        let mut initializers: Vec<TensorProto> =
            self.of(Source::Initializer).into_iter().map(tensor).collect();
        let mut data = vec![];
        for id in self.of(Source::External) {
            let tensor = tensor(id);
            if tensor.raw_data.is_empty() {
                // Nothing to store, or a type whose data is in another field.
                initializers.push(tensor);
                continue;
            }
            let start = data.len();
            data.extend(&tensor.raw_data);
            data.resize(data.len().next_multiple_of(64), 0);
            initializers.push(external(tensor, "data.bin", Some(start)));
        }
        if !data.is_empty() {
            std::fs::write(folder.join("data.bin"), data).expect("a file");
        }
        let constant = |id: usize| {
            let mut tensor = tensor(id);
            tensor.name.clear();
            proto::node("Constant", &[], &[&name(id)], vec![tensor_attribute("value", tensor)])
        };
        let mut nodes: Vec<NodeProto> =
            self.of(Source::Constant).into_iter().map(constant).collect();
        let mut functions = vec![];
        let (start, end) = self.outlined.unwrap_or((0, 0));
        for (at, node) in graph.nodes.iter().enumerate() {
            if !(start..end).contains(&at) {
                nodes.push(self.node(graph, node));
            } else if at == start {
                let (call, function) = self.function(graph, start, end);
                nodes.push(call);
                functions.push(function);
            }
        }
        let outputs = self.outputs(graph);
        let described = |id: &usize| self.declared(&graph.values[*id], *id);
        let value_info = |id: usize| {
            let mut value = graph.values[id].clone();
            if self.value_info == ValueInfo::Stale {
                value
                    .worlds
                    .iter_mut()
                    .for_each(|val| val.shape.iter_mut().for_each(|size| *size += 1));
            }
            self.declared(&value, id)
        };
        let inner = graph.made().into_iter().filter(|id| !outputs.contains(id));
        let proto = GraphProto {
            name: "g".into(),
            input: self.inputs().iter().map(described).collect(),
            output: outputs.iter().map(described).collect(),
            initializer: initializers,
            node: nodes,
            value_info: match self.value_info {
                ValueInfo::None => vec![],
                _ => inner.map(value_info).collect(),
            },
            ..Default::default()
        };
        let mut model = proto::model(graph.opset, proto);
        let mut domains: Vec<&str> =
            graph.nodes.iter().filter_map(|node| Some(node.op.rsplit_once('.')?.0)).collect();
        domains.dedup();
        let import = |domain: &str| OperatorSetIdProto { domain: domain.into(), version: 1 };
        model.opset_import.extend(domains.into_iter().map(import));
        if !functions.is_empty() {
            model.opset_import.push(import("local"));
        }
        ModelProto { functions, ..model }
    }

    /// A value's type and sizes: symbols where it has them, nothing where a size is not known.
    fn declared(&self, value: &Value, id: usize) -> ValueInfoProto {
        let sizes = value.worlds[0].shape.iter().enumerate();
        let size = |(axis, size): (usize, &usize)| {
            if !self.is_symbolic {
                return dim(*size as i64);
            }
            let own = value.leaf.as_ref().and_then(|leaf| leaf.symbols[axis]);
            match own {
                Some(own) => symbol(["N", "M"][own]),
                None if value.worlds[1].shape.get(axis) == Some(size) => dim(*size as i64),
                None => Dimension::default(),
            }
        };
        value_of(&name(id), value.ty() as i32, Some(sizes.map(size).collect()))
    }

    fn node(&self, graph: &Graph, node: &Node) -> NodeProto {
        let names = |ids: &[Option<usize>]| -> Vec<String> {
            ids.iter().map(|id| id.map(name).unwrap_or_default()).collect()
        };
        let (domain, op_type) = node.op.rsplit_once('.').unwrap_or(("", node.op));
        NodeProto {
            name: format!("{op_type}_{}", node.outputs.first().copied().unwrap_or_default()),
            op_type: op_type.into(),
            domain: domain.into(),
            input: names(&node.inputs),
            output: node.outputs.iter().copied().map(name).collect(),
            attribute: node
                .attributes
                .iter()
                .map(|(name, value)| self.attribute(graph, name, value))
                .collect(),
            ..Default::default()
        }
    }

    fn attribute(&self, graph: &Graph, name: &str, attribute: &Attribute) -> AttributeProto {
        match attribute {
            Attribute::Int(i) => int(name, *i),
            Attribute::Ints(list) => ints(name, list),
            Attribute::Float(x) => float(name, *x),
            Attribute::Text(text) => string(name, text),
            Attribute::Tensor(val) => tensor_attribute(name, val.proto("")),
            Attribute::Graph(body) => graph_attribute(name, self.body(graph, name, body)),
        }
    }

    fn body(&self, graph: &Graph, title: &str, body: &Body) -> GraphProto {
        let described = |id: &usize| {
            // An inner value has the name of the outer one where it is that one.
            self.declared(&Value { leaf: None, ..graph.values[*id].clone() }, *id)
        };
        GraphProto {
            name: title.into(),
            input: body.inputs.iter().map(described).collect(),
            output: body.outputs.iter().map(described).collect(),
            node: body.nodes.iter().map(|node| self.node(graph, node)).collect(),
            ..Default::default()
        }
    }

    fn function(&self, graph: &Graph, start: usize, end: usize) -> (NodeProto, FunctionProto) {
        let inside = &graph.nodes[start..end];
        let made: Vec<usize> = inside.iter().flat_map(|node| node.outputs.clone()).collect();
        let mut inputs: Vec<usize> =
            inside.iter().flat_map(Node::uses).filter(|id| !made.contains(id)).collect();
        inputs.sort_unstable();
        inputs.dedup();
        let mut needed: Vec<usize> = graph.nodes[end..].iter().flat_map(Node::uses).collect();
        needed.extend(self.outputs(graph));
        let outputs: Vec<usize> = made.into_iter().filter(|id| needed.contains(id)).collect();
        let names = |ids: &[usize]| ids.iter().copied().map(name).collect::<Vec<String>>();
        let function = FunctionProto {
            name: Some("F".into()),
            domain: Some("local".into()),
            input: names(&inputs),
            output: names(&outputs),
            node: inside.iter().map(|node| self.node(graph, node)).collect(),
            opset_import: imports(graph.opset),
            ..Default::default()
        };
        let call = NodeProto {
            name: "call".into(),
            op_type: "F".into(),
            domain: "local".into(),
            input: names(&inputs),
            output: names(&outputs),
            ..Default::default()
        };
        (call, function)
    }

    /// Writes the model as a test case of ONNX's layout, a set of data for each world.
    pub fn write(&self, graph: &Graph, folder: &Path) {
        std::fs::create_dir_all(folder).expect("a folder");
        let model = self.model(graph, folder);
        std::fs::write(folder.join("model.onnx"), model.encode_to_vec()).expect("a file");
        for world in self.worlds() {
            let data = folder.join(format!("test_data_set_{world}"));
            std::fs::create_dir_all(&data).expect("a folder");
            for (kind, ids) in [("input", self.inputs()), ("output", self.outputs(graph))] {
                for (at, id) in ids.into_iter().enumerate() {
                    let tensor = graph.values[id].worlds[world].proto(&name(id));
                    std::fs::write(data.join(format!("{kind}_{at}.pb")), tensor.encode_to_vec())
                        .expect("a file");
                }
            }
        }
    }
}

pub fn name(id: usize) -> String {
    format!("v{id}")
}

/// A graph in a form as a text of few lines.
pub fn listing(graph: &Graph, form: &Form) -> String {
    let described = |id: &usize| {
        let value = &graph.values[*id];
        let sizes: Vec<String> = (0..value.shape().len())
            .map(|axis| {
                let symbol = value.leaf.as_ref().and_then(|leaf| leaf.symbols[axis]);
                let size = value.shape()[axis];
                match symbol.filter(|_| form.is_symbolic) {
                    Some(symbol) => format!("{}={size}", ["N", "M"][symbol]),
                    None => size.to_string(),
                }
            })
            .collect();
        format!("{} {}[{}]", name(*id), value.ty(), sizes.join(", "))
    };
    let mut text = format!(
        "opset {}, {}\n",
        graph.opset,
        if form.is_symbolic { "symbolic" } else { "concrete" }
    );
    for (id, source) in &form.sources {
        let values = graph.values[*id].worlds[0].shown();
        text.push_str(&format!("  {:?} {} = {{{values}}}\n", source, described(id)));
    }
    for (at, node) in graph.nodes.iter().enumerate() {
        let is_outlined = form.outlined.is_some_and(|(start, end)| (start..end).contains(&at));
        let mark = if is_outlined { "F " } else { "  " };
        text.push_str(&node_listing(node, mark));
    }
    for id in form.outputs(graph) {
        text.push_str(&format!(
            "  output {} = {{{}}}\n",
            described(&id),
            graph.values[id].worlds[0].shown()
        ));
    }
    if form.value_info != ValueInfo::None {
        text.push_str(&format!("  value_info: {:?}\n", form.value_info));
    }
    text
}

fn node_listing(node: &Node, mark: &str) -> String {
    let names = |ids: Vec<Option<usize>>| -> String {
        ids.into_iter().map(|id| id.map_or("-".into(), name)).collect::<Vec<_>>().join(", ")
    };
    let outputs = names(node.outputs.iter().copied().map(Some).collect());
    let mut attributes = vec![];
    for (title, attribute) in &node.attributes {
        match attribute {
            Attribute::Int(i) => attributes.push(format!("{title}={i}")),
            Attribute::Ints(list) => attributes.push(format!("{title}={list:?}")),
            Attribute::Float(x) => attributes.push(format!("{title}={x:?}")),
            Attribute::Text(text) => attributes.push(format!("{title}={text}")),
            Attribute::Tensor(val) => {
                attributes.push(format!("{title}={}{{{}}}", val.ty, val.shown()))
            }
            Attribute::Graph(_) => {}
        }
    }
    let attributes =
        if attributes.is_empty() { String::new() } else { format!("<{}>", attributes.join(", ")) };
    let mut text =
        format!("{mark}{outputs} = {}{attributes}({})\n", node.op, names(node.inputs.clone()));
    for (title, attribute) in &node.attributes {
        if let Attribute::Graph(body) = attribute {
            let inputs = names(body.inputs.iter().copied().map(Some).collect());
            text.push_str(&format!("{mark}  {title}({inputs}):\n"));
            for inner in &body.nodes {
                text.push_str(&node_listing(inner, &format!("{mark}    ")));
            }
            let outputs = names(body.outputs.iter().copied().map(Some).collect());
            text.push_str(&format!("{mark}    return {outputs}\n"));
        }
    }
    text
}
