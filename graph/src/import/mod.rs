//! A model's messages made a graph: every name is resolved once, and the nodes of each body are
//! sorted topologically.

mod root;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tract_onnx::pb::{GraphProto, ModelProto, NodeProto, ValueInfoProto};

use crate::Graph;
use crate::arena::{Arena, BodyId, NodeId, ValueId};
use crate::body::Body;
use crate::names::{At, Misnamed, NamePool};
use crate::new_node::Place;
use crate::node::{Attributes, HeldBody, Node, NodeView, default_opset};
use crate::order::sorted;
use crate::trace::Changes;
use crate::value::Origin;

/// How a step of a path is written, given a node and an attribute or a function.
pub type Step<'a> = &'a dyn Fn(&str, &str) -> String;

impl Graph {
    /// Makes a graph of a model that holds one, and says what is wrong with its names. Without
    /// problems it is what the file means; with some, a value that nothing makes has no origin, and
    /// the first of several that make one is its maker.
    ///
    /// `step` writes a step of a path. Returns `None` for a model without a graph.
    pub fn import(mut model: ModelProto, step: Step) -> Option<(Graph, Vec<Misnamed>)> {
        let proto = model.graph.take()?;
        let functions = std::mem::take(&mut model.functions);
        // Files older than IR version 3 import none.
        let opset = default_opset(&model.opset_import).unwrap_or(1);
        let mut bodies = Arena::default();
        let path = step(&proto.name, "").trim_end_matches('.').into();
        let main = bodies.add(Body::empty(&proto.name, path, None));
        let mut graph = Graph {
            nodes: Arena::default(),
            values: Arena::default(),
            bodies,
            main,
            names: NamePool::default(),
            model,
            functions,
            opset,
            changes: Changes::default(),
        };
        let mut reader = Reader::new(&mut graph, step, Region::whole(opset));
        reader.body(main, proto);
        let problems = reader.problems;
        Some((graph, problems))
    }
}

impl Body {
    pub(crate) fn empty(name: &str, path: Arc<str>, owner: Option<NodeId>) -> Body {
        Body {
            name: name.into(),
            path,
            owner,
            inputs: vec![],
            constants: vec![],
            outputs: vec![],
            first: None,
            last: None,
            rest: GraphProto::default(),
        }
    }
}

/// What is read into a graph: a whole model, or the body of a function in the place of a call.
pub(crate) struct Region {
    /// What the names inside have in front.
    pub(crate) prefix: String,
    /// The version of the default domain by which nodes are understood.
    pub(crate) opset: i64,
    /// The node in whose place it is read, and the path to what is read there.
    pub(crate) call: Option<(NodeId, Arc<str>)>,
    /// The values that stand for outputs of the function, by their names in it.
    pub(crate) results: HashMap<String, ValueId>,
}

impl Region {
    pub(crate) fn whole(opset: i64) -> Region {
        Region { prefix: String::new(), opset, call: None, results: HashMap::new() }
    }
}

pub(crate) struct Reader<'a> {
    pub(crate) graph: &'a mut Graph,
    /// The values that can be seen by name, a map for each body, the innermost last; `None` for a
    /// name that stands for an input which a call does not give.
    pub(crate) scopes: Vec<HashMap<Arc<str>, Option<ValueId>>>,
    pub(crate) problems: Vec<Misnamed>,
    step: Step<'a>,
    region: Region,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(graph: &'a mut Graph, step: Step<'a>, region: Region) -> Reader<'a> {
        Reader { graph, scopes: vec![], problems: vec![], step, region }
    }
}

impl Reader<'_> {
    pub(crate) fn body(&mut self, body: BodyId, mut proto: GraphProto) {
        let nodes = std::mem::take(&mut proto.node);
        let order = self.check(&proto, &nodes);
        let made: usize = nodes.iter().map(|node| node.output.len()).sum();
        self.graph.nodes.reserve(nodes.len());
        self.graph.values.reserve(proto.input.len() + proto.initializer.len() + made);
        self.scopes.push(HashMap::new());
        self.given(body, &mut proto);
        let declared = declarations(&mut proto);
        for (name, info) in &declared {
            // What is declared of an input a second time is declared of the input.
            let own = self.scopes.last().and_then(|scope| scope.get(&**name)).copied();
            if let Some(value) = own.flatten() {
                let value = self.graph.value_mut(value);
                value.declared = value.declared.take().or_else(|| info.r#type.clone());
            }
        }
        self.nodes(body, nodes, order, &declared);
        for output in std::mem::take(&mut proto.output) {
            if let Some(value) = self.find(body, &output.name) {
                self.graph.add_output(body, value, output);
            }
        }
        self.scopes.pop();
        self.graph.bodies.get_mut(body).rest = proto;
    }

    /// Reads nodes in an order.
    pub(crate) fn nodes(
        &mut self,
        body: BodyId,
        nodes: Vec<NodeProto>,
        order: Vec<usize>,
        declared: &HashMap<String, ValueInfoProto>,
    ) {
        let mut nodes: Vec<Option<NodeProto>> = nodes.into_iter().map(Some).collect();
        for index in order {
            if let Some(node) = nodes.get_mut(index).and_then(Option::take) {
                let id = self.node(body, node, declared);
                self.graph.nodes.get_mut(id).place = u32::try_from(index).ok();
            }
        }
    }

    /// The inputs and constants of a body.
    fn given(&mut self, body: BodyId, proto: &mut GraphProto) {
        for input in std::mem::take(&mut proto.input) {
            let value = self.new_value(body, &input.name, Origin::Input);
            let made = self.graph.value_mut(value);
            (made.declared, made.doc_string) = (input.r#type, input.doc_string.into());
            self.graph.bodies.get_mut(body).inputs.push(value);
        }
        for tensor in std::mem::take(&mut proto.initializer) {
            let name = tensor.name.clone();
            let origin = Origin::Constant(Arc::new(tensor));
            let known = self.scopes.last().and_then(|scope| scope.get(&*name)).copied().flatten();
            let default_of = known.filter(|value| !self.graph.value(*value).is_constant());
            let value = match default_of {
                Some(input) => {
                    self.graph.values.get_mut(input).origin = origin;
                    input
                }
                None => self.new_value(body, &name, origin),
            };
            self.graph.bodies.get_mut(body).constants.push(value);
        }
    }

    fn new_value(&mut self, body: BodyId, name: &str, origin: Origin) -> ValueId {
        let own = self.prefixed(name);
        let value = self.graph.new_value(own, body, origin);
        if let Some(scope) = self.scopes.last_mut() {
            scope.entry(name.into()).or_insert(Some(value));
        }
        value
    }

    /// A name of what is read, as it is in the graph.
    fn prefixed(&mut self, name: &str) -> Arc<str> {
        match self.region.prefix.as_str() {
            "" => self.graph.names.keep(name),
            prefix => self.graph.names.keep(&format!("{prefix}{name}")),
        }
    }

    /// The value of a name as a body sees it; of one that nothing makes, a value without an origin;
    /// `None` for an input that a call does not give.
    pub(crate) fn find(&mut self, body: BodyId, name: &str) -> Option<ValueId> {
        match self.scopes.iter().rev().find_map(|scope| scope.get(name)) {
            Some(value) => *value,
            None => Some(self.new_value(body, name, Origin::Missing)),
        }
    }

    fn node(
        &mut self,
        body: BodyId,
        proto: NodeProto,
        declared: &HashMap<String, ValueInfoProto>,
    ) -> NodeId {
        let prefix = self.region.prefix.len();
        let label = match (proto.label(), prefix) {
            ("", 1..) => self.prefixed(&proto.op_type),
            (label, _) => self.prefixed(label),
        };
        let is_named = prefix > 0 || !proto.name.is_empty();
        let name = if is_named { label.clone() } else { "".into() };
        let inputs = self.inputs(body, &proto.input);
        let path = match (&self.region.call, self.scopes.len()) {
            (Some((_, path)), 1) => path.clone(),
            _ => self.graph.body(body).path.clone(),
        };
        let id = self.graph.nodes.add(Node {
            name,
            op_type: proto.op_type,
            domain: proto.domain,
            attributes: Attributes::default(),
            doc_string: proto.doc_string.into(),
            opset: self.region.opset,
            path,
            prefix,
            place: None,
            label,
            body,
            inputs: vec![],
            outputs: vec![],
            bodies: vec![],
            previous: None,
            next: None,
        });
        let place = match &self.region.call {
            Some((call, _)) if self.scopes.len() == 1 => Place::Before(*call),
            _ => Place::Last(body),
        };
        self.graph.link(id, place);
        for input in inputs {
            self.graph.push_input(id, input);
        }
        self.attributes(id, proto.attribute);
        for (place, name) in proto.output.iter().enumerate() {
            let value = (!name.is_empty()).then(|| self.output(id, place, name));
            self.graph.nodes.get_mut(id).outputs.push(value);
            if let (Some(value), Some(info)) = (value, declared.get(name)) {
                let value = self.graph.value_mut(value);
                value.declared.clone_from(&info.r#type);
                value.doc_string = info.doc_string.as_str().into();
            }
        }
        id
    }

    /// The values of these names, without those at the end that a call does not give: operators may
    /// count.
    fn inputs(&mut self, body: BodyId, names: &[String]) -> Vec<Option<ValueId>> {
        let find = |name: &String| if name.is_empty() { None } else { self.find(body, name) };
        let mut inputs: Vec<Option<ValueId>> = names.iter().map(find).collect();
        while !self.region.prefix.is_empty() && inputs.last().is_some_and(Option::is_none) {
            inputs.pop();
        }
        inputs
    }

    fn output(&mut self, node: NodeId, place: usize, name: &str) -> ValueId {
        let (body, origin) = (self.graph.node(node).body, Origin::Node(node, place));
        let result = self.region.results.get(name).copied().filter(|_| self.scopes.len() == 1);
        let is_missing =
            |value: &ValueId| matches!(self.graph.value(*value).origin, Origin::Missing);
        match result.filter(is_missing) {
            Some(value) => {
                self.graph.values.get_mut(value).origin = origin;
                if let Some(scope) = self.scopes.last_mut() {
                    scope.insert(name.into(), Some(value));
                }
                value
            }
            None => self.new_value(body, name, origin),
        }
    }

    fn attributes(&mut self, id: NodeId, attributes: Vec<tract_onnx::pb::AttributeProto>) {
        for mut attribute in attributes {
            let listed =
                std::mem::take(&mut attribute.graphs).into_iter().map(|graph| (graph, true));
            let graphs: Vec<_> =
                attribute.g.take().into_iter().map(|graph| (graph, false)).chain(listed).collect();
            if graphs.is_empty() {
                self.graph.nodes.get_mut(id).attributes.push(attribute);
                continue;
            }
            for (proto, is_listed) in graphs {
                let node = self.graph.node(id);
                let step = (self.step)(node.local_name(), &attribute.name);
                let path = format!("{}/{step}", node.path);
                let inner = self.graph.bodies.add(Body::empty(&proto.name, path.into(), Some(id)));
                let held = HeldBody { attribute: attribute.name.clone(), body: inner, is_listed };
                self.graph.nodes.get_mut(id).bodies.push(held);
                self.body(inner, proto);
            }
        }
    }

    /// The nodes' places in the order of [`sorted`], which also tells what is wrong with names.
    pub(crate) fn check(&mut self, proto: &GraphProto, nodes: &[NodeProto]) -> Vec<usize> {
        let is_outer = |name: &str| self.scopes.iter().any(|scope| scope.contains_key(name));
        let (order, problems) = sorted(proto, nodes, &self.region.prefix, &is_outer);
        self.problems.extend(problems);
        let Region { prefix, opset, .. } = &self.region;
        for node in nodes {
            let Some(name) = given_twice(node) else { continue };
            let at = At::Node(format!("{prefix}{}", node.label()), node.op_type.clone());
            let text = format!("attribute `{name}` is given twice, the model imports {opset}");
            self.problems.push(Misnamed { at, text });
        }
        order
    }
}

/// The name of an attribute that a node has twice: some readers would take the first, others the
/// last.
fn given_twice(node: &NodeProto) -> Option<&str> {
    let mut names = HashSet::new();
    node.attribute.iter().map(|given| &*given.name).find(|name| !names.insert(*name))
}

/// What a message declares of its values, taken out of it. A name that is declared twice is what is
/// declared last.
pub(crate) fn declarations(proto: &mut GraphProto) -> HashMap<String, ValueInfoProto> {
    let declared = std::mem::take(&mut proto.value_info).into_iter();
    declared.map(|value| (value.name.clone(), value)).collect()
}
