//! Model-local functions, put in place of the nodes that call them. Before: a node `f(x)`; after:
//! the nodes of the function, on the values that the call gives.
//!
//! The names inside a function get the call's in front, which makes them unlike any other in the
//! model. What a file can make grow without bound (calls within calls, names within names) is
//! counted before it is made.

mod function;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use onnx_cast_graph::{At, Graph, Node, NodeId, NodeView, Splice, is_default_domain, one_domain};
use prost::Message;
use tract_onnx::pb::{AttributeProto, FunctionProto, GraphProto, NodeProto};
use tract_onnx::prelude::TractResult;

use super::context::PassContext;
use super::step;
use crate::error::Error;
use crate::onnx::node::refusal;
use crate::onnx::operators::registered::Registered;
use function::ModelFunction;

/// The most nodes that the calls of a model may expand to.
const NODES: usize = 1 << 18;
/// The most bytes that the calls of a model may expand to.
const BYTES: usize = 1 << 28;
/// How deep calls may be nested.
const CALLS: usize = 100;
/// How deep graphs may be nested, as in a file that has no functions: decoding goes no deeper.
const GRAPHS: usize = 32;

/// Replaces every call in all bodies. A function of the default domain says what an operator is
/// where tract does not have it (IR.md: the definition is a "default or fallback"); one of another
/// domain stands before tract's operator of the same name, but not before one that a user has
/// added. Fails when a call does not fit its function, when functions call themselves, or when they
/// expand beyond all measure.
pub(super) fn inline(graph: &mut Graph, context: &mut PassContext) -> TractResult<()> {
    let functions = std::mem::take(&mut graph.functions);
    if functions.is_empty() {
        return Ok(());
    }
    let known = known(&functions, graph.opset, context.options.registered);
    let mut inliner = Inliner {
        graph,
        known: &known,
        numbers: HashMap::new(),
        active: vec![],
        nodes: 0,
        bytes: 0,
    };
    for id in inliner.graph.all_nodes(inliner.graph.main()) {
        let inlined = inliner.node(id).map_err(Into::into);
        context.diagnostics.take(inlined, false)?;
    }
    Ok(())
}

/// Functions by domain and name.
type KnownFunctions<'a> = HashMap<&'a str, HashMap<&'a str, Vec<ModelFunction<'a>>>>;

fn known<'a>(
    functions: &'a [FunctionProto],
    opset: i64,
    registered: Registered,
) -> KnownFunctions<'a> {
    let stock = tract_onnx::onnx().op_register;
    let mut known = KnownFunctions::new();
    for function in functions {
        let name = function.name();
        let is_tracts = stock.0.contains_key(name);
        let is_operator = registered.has(name);
        if is_operator && (!is_tracts || is_default_domain(function.domain())) {
            continue;
        }
        let named = known.entry(one_domain(function.domain())).or_default();
        named.entry(name).or_default().push(ModelFunction::new(function, opset));
    }
    known
}

struct Inliner<'g, 'a> {
    graph: &'g mut Graph,
    known: &'a KnownFunctions<'a>,
    /// The first number of each call's name whose prefix may still be free.
    numbers: HashMap<String, usize>,
    /// The functions that are being put in place, each within the one before.
    active: Vec<&'a ModelFunction<'a>>,
    nodes: usize,
    bytes: usize,
}

impl<'a> Inliner<'_, 'a> {
    fn node(&mut self, id: NodeId) -> Result<(), Error> {
        let (known, node) = (self.known, self.graph.node(id));
        let named = known.get(one_domain(&node.domain)).and_then(|named| named.get(&*node.op_type));
        match named.map(|functions| &functions[..]) {
            None | Some([]) => Ok(()),
            Some([function]) => self.call(id, function),
            Some(_) => {
                let problem = "is a function that the model has twice; overloads are told apart \
                               where this crate has read the file";
                Err(refusal(node, problem))
            }
        }
    }

    fn call(&mut self, id: NodeId, function: &'a ModelFunction<'a>) -> Result<(), Error> {
        let node = self.graph.node(id).clone();
        if self.active.iter().any(|active| std::ptr::eq(*active, function)) {
            return Err(refusal(&node, "is a function that calls itself"));
        }
        if self.active.len() >= CALLS {
            return Err(refusal(&node, format!("is in more than {CALLS} nested functions")));
        }
        function.check_call(&node)?;
        self.check_nesting(&node)?;
        let (prefix, path) = self.place(&node, function);
        let values = node.inputs().iter().chain(node.outputs()).flatten();
        let longest = values.map(|value| self.graph.value(*value).name.len()).max().unwrap_or(0);
        // A name is kept in the node, among those taken, and beside its call.
        let names = function.names.saturating_mul(longest.max(prefix.len())).saturating_mul(3);
        let bytes = function.bytes.saturating_add(names).saturating_add(path.len());
        self.count(&node, function.nodes + 1, bytes)?;

        let body = self.body(&node, function, &prefix)?;
        let splice = Splice { prefix, path, opset: function.opset, step: &step };
        let (added, problems) = self.graph.splice(id, body, splice);
        if let Some(problem) = problems.into_iter().next() {
            return Err(match problem.at {
                At::Graph(_) => refusal(&node, problem.text),
                At::Node(node, op) => Error::of_node(node, op, problem.text),
            });
        }
        self.active.push(function);
        for id in added {
            let bodies = self.graph.node(id).bodies().iter();
            let inner: Vec<NodeId> =
                bodies.flat_map(|held| self.graph.all_nodes(held.body)).collect();
            inner.into_iter().try_for_each(|id| self.node(id))?;
            self.node(id)?;
        }
        self.active.pop();
        Ok(())
    }

    fn check_nesting(&self, node: &Node) -> Result<(), Error> {
        let (mut depth, mut body) = (0, node.body());
        while let Some(owner) = self.graph.body(body).owner() {
            (depth, body) = (depth + 1, self.graph.node(owner).body());
        }
        if depth > GRAPHS {
            Err(refusal(node, format!("is nested more than {GRAPHS} deep")))
        } else {
            Ok(())
        }
    }

    /// A prefix that no name in the model has, and the path to what stands at a call.
    fn place(&mut self, node: &Node, function: &ModelFunction) -> (String, Arc<str>) {
        let label = node.label();
        let (name, local) = match label {
            "" => (node.op_type.as_str(), node.op_type.as_str()),
            name => (name, node.local_name()),
        };
        let path = format!("{}/{}", node.path, step(local, function.proto.name()));
        let numbered = |number: usize| match number {
            0 => format!("{name}/"),
            number => format!("{name}~{number}/"),
        };
        // There are fewer names than numbers.
        let first = self.numbers.get(name).copied().unwrap_or(0);
        let is_free = |number: &usize| self.graph.is_free_prefix(&numbered(*number));
        let free = (first..).find(is_free).unwrap_or(first);
        let prefix = numbered(free);
        self.numbers.insert(name.into(), free + 1);
        self.graph.new_name(&prefix);
        (prefix, path.into())
    }

    fn count(&mut self, node: &Node, nodes: usize, bytes: usize) -> Result<(), Error> {
        self.nodes = self.nodes.saturating_add(nodes);
        self.bytes = self.bytes.saturating_add(bytes);
        let limit = match (self.nodes > NODES, self.bytes > BYTES) {
            (true, _) => format!("{NODES} nodes"),
            (_, true) => format!("{BYTES} bytes"),
            _ => return Ok(()),
        };
        Err(refusal(node, format!("expands, with the functions before it, to more than {limit}")))
    }

    /// The function's body as a graph, with the attributes that a call gives.
    fn body(
        &mut self,
        call: &Node,
        function: &ModelFunction,
        prefix: &str,
    ) -> Result<GraphProto, Error> {
        let proto = function.proto;
        let mut inputs = HashSet::new();
        if let Some(twice) = proto.input.iter().find(|input| !inputs.insert(input.as_str())) {
            return Err(refusal(call, format!("function has the input `{twice}` twice")));
        }
        let body = function.parts.body;
        let made: HashSet<&str> =
            body.iter().flat_map(|node| &node.output).map(String::as_str).collect();
        if let Some(input) = proto.input.iter().find(|input| made.contains(input.as_str())) {
            let problem = format!("function `{}` makes its own input `{input}`", proto.name());
            return Err(refusal(call, problem));
        }
        for (place, formal) in proto.output.iter().enumerate() {
            let input = proto.input.iter().position(|input| input == formal);
            if input.is_some_and(|input| call.makes(place) && !call.gives(input)) {
                let problem = format!("returns its input `{formal}`, which is not given");
                return Err(refusal(call, problem));
            }
        }
        let defaults = function.parts.defaults.iter();
        // What the call gives comes last and so replaces a default.
        let given = defaults.chain(&call.attributes).map(|value| (value.name.as_str(), value));
        let frame = Frame { call, function, prefix, attributes: given.collect() };
        let mut node = body.to_vec();
        for inner in &mut node {
            self.refer(inner, &frame)?;
        }
        Ok(function.parts.graph(proto, node))
    }

    /// Gives the attributes of a node, and of those in its graphs, the values that they refer to.
    fn refer(&mut self, node: &mut NodeProto, frame: &Frame) -> Result<(), Error> {
        for mut attribute in std::mem::take(&mut node.attribute) {
            if !attribute.ref_attr_name.is_empty() {
                node.attribute.extend(self.referred(node, &attribute, frame)?);
                continue;
            }
            for graph in attribute.g.iter_mut().chain(&mut attribute.graphs) {
                for inner in &mut graph.node {
                    self.refer(inner, frame)?;
                }
            }
            node.attribute.push(attribute);
        }
        Ok(())
    }

    /// The value of an attribute that stands for one of the function's; `None` where the call gives
    /// none and there is no default: the node then does without.
    fn referred(
        &mut self,
        node: &NodeProto,
        attribute: &AttributeProto,
        frame: &Frame,
    ) -> Result<Option<AttributeProto>, Error> {
        let referred = attribute.ref_attr_name.as_str();
        if let Some(value) = frame.attributes.get(referred) {
            self.count(frame.call, 0, value.encoded_len())?;
            let name = attribute.name.clone();
            return Ok(Some(AttributeProto { name, ..(*value).clone() }));
        }
        // A graph stays where it is, and becomes the node's when that is in its place.
        if frame.call.bodies().iter().any(|held| held.attribute == referred) {
            return Ok(Some(attribute.clone()));
        }
        if frame.function.has_attribute(referred) {
            return Ok(None);
        }
        let (name, function) = (&attribute.name, frame.function.proto.name());
        Err(Error::of_node(
            format!("{}{}", frame.prefix, node.label()),
            &node.op_type,
            format!(
                "attribute `{name}` is `{referred}` of function `{function}`, which has none of that name; a default \
                 is known where this crate has read the file"
            ),
        ))
    }
}

/// What the attributes inside a function stand for in one call of it.
struct Frame<'a> {
    call: &'a Node,
    function: &'a ModelFunction<'a>,
    prefix: &'a str,
    attributes: HashMap<&'a str, &'a AttributeProto>,
}
