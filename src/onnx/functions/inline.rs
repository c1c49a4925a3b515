//! Model-local functions, put in place of the nodes that call them.
//!
//! The names inside a function get the call's in front, which makes them unlike any other in the model. What a file can
//! make grow without bound (calls within calls, names within names) is counted before it is made.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::Bound;
use std::rc::Rc;

use prost::Message;
use tract_onnx::model::OnnxOpRegister;
use tract_onnx::pb::{AttributeProto, FunctionProto, GraphProto, NodeProto, ValueInfoProto};

use super::function::Function;
use crate::error::Error;
use crate::onnx::annotation::identity;
use crate::onnx::node::{is_default_domain, node_name, refusal, subgraphs};
use crate::onnx::order::given_values;
use crate::onnx::scope::step;

/// The most nodes that the calls of a model may expand to.
const NODES: usize = 1 << 18;
/// The most bytes that the calls of a model may expand to.
const BYTES: usize = 1 << 28;
/// How deep calls may be nested.
const CALLS: usize = 100;
/// How deep graphs may be nested, as in a file that has no functions: decoding goes no deeper.
const GRAPHS: usize = 32;

/// The call that a node has come from.
#[derive(Debug)]
pub(in crate::onnx) struct Call {
    /// What the names inside have in front.
    pub(in crate::onnx) prefix: String,
    /// `call.Function`, after those of the calls around it.
    pub(in crate::onnx) path: String,
    /// The opset of the default domain that the function imports.
    pub(in crate::onnx) opset: i64,
}

/// The calls that nodes have come from, by the nodes' names. Nodes of the graph itself are not among them.
pub(in crate::onnx) type Calls = HashMap<String, Rc<Call>>;

/// Replaces every call in a graph and its subgraphs. A function of the default domain says what an operator is where tract
/// does not have it (IR.md: the definition is a "default or fallback"); one of another domain stands before tract's operator of
/// the same name, but not before one that a user has added.
///
/// # Errors
///
/// When a call does not fit its function, when functions call themselves, or when they expand beyond all measure.
pub(in crate::onnx) fn inline(
    graph: &mut GraphProto,
    functions: &[FunctionProto],
    opset: i64,
    operators: &OnnxOpRegister,
) -> Result<Calls, Error> {
    if functions.is_empty() {
        return Ok(Calls::new());
    }
    let stock = tract_onnx::onnx().op_register;
    let mut known = Known::new();
    for function in functions {
        let name = function.name();
        let is_tracts = stock.0.contains_key(name);
        let is_operator = operators.0.contains_key(name);
        if is_operator && (!is_tracts || is_default_domain(function.domain())) {
            continue;
        }
        let named = known.entry(domain(function.domain())).or_default();
        named.entry(name).or_default().push(Function::new(function, opset));
    }
    let mut taken = BTreeSet::new();
    collect_names(graph, &mut taken);
    let mut inliner = Inliner {
        known: &known,
        taken,
        numbers: HashMap::new(),
        calls: Calls::new(),
        active: vec![],
        nodes: 0,
        bytes: 0,
    };
    inliner.graph(graph, 0)?;
    Ok(inliner.calls)
}

/// Functions by domain and name.
type Known<'a> = HashMap<&'a str, HashMap<&'a str, Vec<Function<'a>>>>;

/// A domain under one of its names.
fn domain(name: &str) -> &str {
    if is_default_domain(name) { "" } else { name }
}

/// What the names and attributes inside a function stand for in one call of it.
struct Frame<'a, 'c> {
    function: &'a Function<'a>,
    node: &'c NodeProto,
    call: Rc<Call>,
    /// Inputs and outputs: what the call gives for them.
    values: HashMap<&'a str, String>,
    attributes: HashMap<&'c str, &'c AttributeProto>,
}

impl Frame<'_, '_> {
    /// A value's name outside. `inner` are the values of the subgraphs around the place, which hide the function's.
    fn value(&self, name: &str, inner: &[HashSet<String>]) -> String {
        if name.is_empty() {
            return String::new();
        }
        let given = self.values.get(name).filter(|_| !inner.iter().any(|set| set.contains(name)));
        given.cloned().unwrap_or_else(|| format!("{}{name}", self.call.prefix))
    }
}

/// Nodes, and the types declared for what they make.
#[derive(Default)]
struct Expanded {
    nodes: Vec<NodeProto>,
    value_info: Vec<ValueInfoProto>,
}

struct Inliner<'a> {
    known: &'a Known<'a>,
    /// Every name in the model, of values and of nodes.
    taken: BTreeSet<String>,
    /// The first number of each call's name whose prefix may still be free.
    numbers: HashMap<String, usize>,
    calls: Calls,
    /// The functions that are being put in place, each within the one before.
    active: Vec<(&'a Function<'a>, Rc<Call>)>,
    nodes: usize,
    bytes: usize,
}

impl<'a> Inliner<'a> {
    fn graph(&mut self, graph: &mut GraphProto, depth: usize) -> Result<(), Error> {
        if depth > GRAPHS {
            let problem = format!("is nested more than {GRAPHS} deep");
            return Err(Error::graph(&graph.name, problem));
        }
        let mut expanded = Expanded::default();
        for node in std::mem::take(&mut graph.node) {
            self.node(node, depth, &mut expanded)?;
        }
        graph.node = expanded.nodes;
        graph.value_info.extend(expanded.value_info);
        Ok(())
    }

    fn node(
        &mut self,
        mut node: NodeProto,
        depth: usize,
        expanded: &mut Expanded,
    ) -> Result<(), Error> {
        for attribute in &mut node.attribute {
            for graph in attribute.g.iter_mut().chain(&mut attribute.graphs) {
                self.graph(graph, depth + 1)?;
            }
        }
        let known = self.known;
        let named = known.get(domain(&node.domain)).and_then(|named| named.get(&*node.op_type));
        match named.map(|functions| &functions[..]) {
            None | Some([]) => expanded.nodes.push(node),
            Some([function]) => self.call(&node, function, depth, expanded)?,
            Some(_) => {
                let problem = "is a function that the model has twice; overloads are told apart \
                               where this crate has read the file";
                return Err(refusal(&node, problem));
            }
        }
        Ok(())
    }

    fn call(
        &mut self,
        node: &NodeProto,
        function: &'a Function<'a>,
        depth: usize,
        expanded: &mut Expanded,
    ) -> Result<(), Error> {
        if self.active.iter().any(|(active, _)| std::ptr::eq(*active, function)) {
            return Err(refusal(node, "is a function that calls itself"));
        }
        if self.active.len() >= CALLS {
            return Err(refusal(node, format!("is in more than {CALLS} nested functions")));
        }
        function.check_call(node)?;
        let call = self.place(node, function);
        let given = node.input.iter().chain(&node.output);
        let longest = given.map(String::len).max().unwrap_or(0).max(call.prefix.len());
        // A name is kept in the node, among those taken, and beside its call.
        let names = function.names.saturating_mul(longest).saturating_mul(3);
        let bytes = function.bytes.saturating_add(names).saturating_add(call.path.len());
        self.count(node, function.nodes + 1, bytes)?;

        let frame = frame(node, function, call.clone())?;
        let mut body = Vec::with_capacity(function.parts.body.len());
        for inner in function.parts.body {
            let mut inner = inner.clone();
            self.rename_node(&mut inner, &frame, &mut vec![])?;
            body.push(inner);
        }
        body.extend(self.returned_as_they_are(&frame)?);
        self.active.push((function, call));
        for inner in body {
            self.node(inner, depth, expanded)?;
        }
        self.active.pop();
        for value in function.parts.value_info {
            let name = frame.value(&value.name, &[]);
            if !name.is_empty() {
                expanded.value_info.push(ValueInfoProto { name, ..value.clone() });
            }
        }
        Ok(())
    }

    /// Where a call stands, with a prefix that no name in the model has.
    fn place(&mut self, node: &NodeProto, function: &Function) -> Rc<Call> {
        let mut name = node_name(node);
        if name.is_empty() {
            name.clone_from(&node.op_type);
        }
        let around = self.active.last().map(|(_, call)| call);
        let local = around.and_then(|call| name.strip_prefix(&call.prefix)).unwrap_or(&name);
        let step = step(local, function.proto.name());
        let path = around.map_or(step.clone(), |call| format!("{}/{step}", call.path));
        let is_taken = |prefix: &str| {
            let next =
                self.taken.range::<str, _>((Bound::Included(prefix), Bound::Unbounded)).next();
            next.is_some_and(|name| name.starts_with(prefix))
        };
        let numbered = |number: usize| match number {
            0 => format!("{name}/"),
            number => format!("{name}~{number}/"),
        };
        // There are fewer names than numbers.
        let first = self.numbers.get(&name).copied().unwrap_or(0);
        let free = (first..).find(|number| !is_taken(&numbered(*number))).unwrap_or(first);
        let prefix = numbered(free);
        self.numbers.insert(name, free + 1);
        self.taken.insert(prefix.clone());
        Rc::new(Call { prefix, path, opset: function.opset })
    }

    fn count(&mut self, node: &NodeProto, nodes: usize, bytes: usize) -> Result<(), Error> {
        self.nodes = self.nodes.saturating_add(nodes);
        self.bytes = self.bytes.saturating_add(bytes);
        let limit = match (self.nodes > NODES, self.bytes > BYTES) {
            (true, _) => format!("{NODES} nodes"),
            (_, true) => format!("{BYTES} bytes"),
            _ => return Ok(()),
        };
        Err(refusal(node, format!("expands, with the functions before it, to more than {limit}")))
    }

    fn rename_node(
        &mut self,
        node: &mut NodeProto,
        frame: &Frame,
        inner: &mut Vec<HashSet<String>>,
    ) -> Result<(), Error> {
        let mut name = node_name(node);
        if name.is_empty() {
            name.clone_from(&node.op_type);
        }
        node.name = format!("{}{name}", frame.call.prefix);
        self.taken.insert(node.name.clone());
        self.calls.insert(node.name.clone(), frame.call.clone());
        for name in node.input.iter_mut().chain(&mut node.output) {
            self.rename(name, frame, inner);
        }
        // Inputs that the call does not give: operators may count.
        while node.input.last().is_some_and(String::is_empty) {
            node.input.pop();
        }
        for mut attribute in std::mem::take(&mut node.attribute) {
            if !attribute.ref_attr_name.is_empty() {
                node.attribute.extend(self.referred(node, &attribute, frame)?);
                continue;
            }
            for graph in attribute.g.iter_mut().chain(&mut attribute.graphs) {
                self.rename_graph(graph, frame, inner)?;
            }
            node.attribute.push(attribute);
        }
        Ok(())
    }

    fn rename_graph(
        &mut self,
        graph: &mut GraphProto,
        frame: &Frame,
        inner: &mut Vec<HashSet<String>>,
    ) -> Result<(), Error> {
        let made = graph.node.iter().flat_map(|node| &node.output).map(String::as_str);
        inner.push(given_values(graph).into_iter().chain(made).map(str::to_owned).collect());
        for value in graph.input.iter_mut().chain(&mut graph.output).chain(&mut graph.value_info) {
            self.rename(&mut value.name, frame, inner);
        }
        for tensor in &mut graph.initializer {
            self.rename(&mut tensor.name, frame, inner);
        }
        for node in &mut graph.node {
            self.rename_node(node, frame, inner)?;
        }
        inner.pop();
        Ok(())
    }

    fn rename(&mut self, name: &mut String, frame: &Frame, inner: &[HashSet<String>]) {
        *name = frame.value(name, inner);
        if !name.is_empty() && !self.taken.contains(name) {
            self.taken.insert(name.clone());
        }
    }

    /// The value of an attribute that stands for one of the function's; `None` where the call gives none and there is no
    /// default: the node then does without.
    fn referred(
        &mut self,
        node: &NodeProto,
        attribute: &AttributeProto,
        frame: &Frame,
    ) -> Result<Option<AttributeProto>, Error> {
        let referred = attribute.ref_attr_name.as_str();
        if let Some(value) = frame.attributes.get(referred) {
            self.count(frame.node, 0, value.encoded_len())?;
            let name = attribute.name.clone();
            return Ok(Some(AttributeProto { name, ..(*value).clone() }));
        }
        if frame.function.has_attribute(referred) {
            return Ok(None);
        }
        let (name, function) = (&attribute.name, frame.function.proto.name());
        Err(refusal(
            node,
            format!(
                "attribute `{name}` is `{referred}` of function `{function}`, which has none of that name; a default \
                 is known where this crate has read the file"
            ),
        ))
    }

    /// What makes the outputs that are no node's of their own: inputs, and outputs that are given twice.
    fn returned_as_they_are(&mut self, frame: &Frame) -> Result<Vec<NodeProto>, Error> {
        let function = frame.function.proto;
        let body = frame.function.parts.body;
        let made: HashSet<&str> =
            body.iter().flat_map(|node| &node.output).map(String::as_str).collect();
        if let Some(input) = function.input.iter().find(|input| made.contains(input.as_str())) {
            let problem = format!("function `{}` makes its own input `{input}`", function.name());
            return Err(refusal(frame.node, problem));
        }
        let mut added = vec![];
        for (formal, actual) in function.output.iter().zip(&frame.node.output) {
            let source = frame.value(formal, &[]);
            if actual.is_empty() || source == *actual {
                continue;
            }
            if source.is_empty() {
                let problem = format!("returns its input `{formal}`, which is not given");
                return Err(refusal(frame.node, problem));
            }
            let mut node = identity(&source, actual.clone());
            node.name = format!("{}{actual}", frame.call.prefix);
            self.taken.insert(node.name.clone());
            self.calls.insert(node.name.clone(), frame.call.clone());
            added.push(node);
        }
        Ok(added)
    }
}

fn frame<'a, 'c>(
    node: &'c NodeProto,
    function: &'a Function<'a>,
    call: Rc<Call>,
) -> Result<Frame<'a, 'c>, Error>
where
    'a: 'c,
{
    let mut values = HashMap::new();
    for (index, formal) in function.proto.input.iter().enumerate() {
        let actual = node.input.get(index).cloned().unwrap_or_default();
        if !formal.is_empty() && values.insert(formal.as_str(), actual).is_some() {
            let problem = format!("function has the input `{formal}` twice");
            return Err(refusal(node, problem));
        }
    }
    for (formal, actual) in function.proto.output.iter().zip(&node.output) {
        if !actual.is_empty() && !formal.is_empty() {
            values.entry(formal.as_str()).or_insert_with(|| actual.clone());
        }
    }
    let defaults = function.parts.defaults.iter();
    // What the call gives comes last and so replaces a default.
    let attributes = defaults.chain(&node.attribute).map(|value| (value.name.as_str(), value));
    Ok(Frame { function, node, call, values, attributes: attributes.collect() })
}

/// Every name of a value or a node in a graph and its subgraphs.
fn collect_names(graph: &GraphProto, names: &mut BTreeSet<String>) {
    let values = graph.input.iter().chain(&graph.output).map(|value| &value.name);
    names.extend(values.chain(graph.initializer.iter().map(|tensor| &tensor.name)).cloned());
    for node in &graph.node {
        names.extend(node.input.iter().chain(&node.output).chain([&node.name]).cloned());
        for graph in node.attribute.iter().flat_map(subgraphs) {
            collect_names(graph, names);
        }
    }
}
