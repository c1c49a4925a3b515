//! Edits: the one door through which a graph is changed. Each keeps what [`Graph::verify`] checks,
//! as long as a node is put behind what it uses.

use std::collections::BTreeSet;
use std::sync::Arc;

use tract_onnx::pb::{NodeProto, TensorProto, ValueInfoProto};

use crate::Graph;
use crate::arena::{BodyId, NodeId, ValueId};
use crate::body::Output;
use crate::new_node::{Made, NewNode, Place};
use crate::node::Node;
use crate::trace::Changes;
use crate::value::{Origin, Use, Value};

impl Graph {
    /// A name that nobody in the model has: the one that is wanted, or one with a number behind it.
    pub fn new_name(&mut self, wanted: &str) -> Arc<str> {
        self.names.new_name(wanted)
    }

    /// Whether no name in the model begins so.
    pub fn is_free_prefix(&self, prefix: &str) -> bool {
        self.names.is_free_prefix(prefix)
    }

    /// What was changed since this was called last.
    pub fn take_changes(&mut self) -> Changes {
        let keeps_lines = self.changes.keeps_lines;
        std::mem::replace(&mut self.changes, Changes { keeps_lines, ..Changes::default() })
    }

    /// Has changes be told line by line.
    pub fn trace_lines(&mut self) {
        self.changes.keeps_lines = true;
    }

    /// Adds a node, and returns it.
    pub fn add(&mut self, place: Place, new: NewNode) -> NodeId {
        let (body, neighbour) = match place {
            Place::Before(other) | Place::After(other) => (self.node(other).body, Some(other)),
            Place::First(body) => (body, self.body(body).first),
            Place::Last(body) => (body, self.body(body).last),
        };
        let owner = self.body(body).owner;
        let (opset, path) = match (place, neighbour, owner) {
            (Place::Before(other) | Place::After(other), ..) => {
                (self.node(other).opset, self.node(other).path.clone())
            }
            (_, _, Some(owner)) => (self.node(owner).opset, self.body(body).path.clone()),
            (.., None) => (self.opset, self.body(body).path.clone()),
        };
        let id = self.nodes.add(Node {
            name: "".into(),
            op_type: new.op_type,
            domain: new.domain,
            attributes: new.attributes,
            doc_string: Box::default(),
            opset,
            path,
            prefix: 0,
            place: None,
            label: "".into(),
            body,
            inputs: vec![],
            outputs: vec![],
            bodies: vec![],
            previous: None,
            next: None,
        });
        self.link(id, place);
        for input in new.inputs {
            self.push_input(id, input);
        }
        for output in new.outputs {
            self.push_output(id, output);
        }
        let first = self.node(id).outputs.iter().flatten().next().copied();
        let name = match (new.name.is_empty(), first) {
            (true, Some(first)) => self.value(first).name.clone(),
            _ => self.new_name(&new.name),
        };
        let node = self.node_mut(id);
        (node.label, node.name) = (name.clone(), name);
        self.changes.added += 1;
        if self.changes.keeps_lines {
            let line = format!("+ {}", self.described(id));
            self.changes.lines.push(line);
        }
        id
    }

    /// Adds a node with one output, and returns what it makes.
    pub fn add_value(&mut self, place: Place, new: NewNode) -> ValueId {
        let id = self.add(place, new);
        match self.node(id).output(0) {
            Some(value) => value,
            None => self.first_output(id),
        }
    }

    /// The first output of a node that was added without one.
    fn first_output(&mut self, node: NodeId) -> ValueId {
        let (body, name) = (self.node(node).body, self.names.new_name(""));
        let value = self.new_value(name, body, Origin::Node(node, 0));
        self.nodes.get_mut(node).outputs = vec![Some(value)];
        value
    }

    /// Adds a constant to a body, under a name like the tensor's.
    pub fn add_constant(&mut self, body: BodyId, tensor: TensorProto) -> ValueId {
        let name = self.names.new_name(&tensor.name);
        let value = self.new_value(name, body, Origin::Constant(Arc::new(tensor)));
        self.bodies.get_mut(body).constants.push(value);
        value
    }

    /// Adds an input to a body.
    pub fn add_input(&mut self, body: BodyId, declared: ValueInfoProto) -> ValueId {
        let name = self.names.new_name(&declared.name);
        let value = self.new_value(name, body, Origin::Input);
        self.value_mut(value).declared = declared.r#type;
        self.bodies.get_mut(body).inputs.push(value);
        value
    }

    /// Adds an output to a body, which returns a value.
    pub fn add_output(&mut self, body: BodyId, value: ValueId, declared: ValueInfoProto) {
        let place = self.body(body).outputs.len();
        self.bodies.get_mut(body).outputs.push(Output { value, declared });
        self.values.get_mut(value).uses.insert(Use::Output(body, place));
    }

    /// Puts another value, or none, into a node's input. Places before it that it did not have are
    /// not given.
    pub fn set_input(&mut self, node: NodeId, place: usize, value: Option<ValueId>) {
        while self.node(node).inputs.len() <= place {
            self.nodes.get_mut(node).inputs.push(None);
        }
        let before = std::mem::replace(&mut self.nodes.get_mut(node).inputs[place], value);
        if before == value {
            return;
        }
        if let Some(before) = before {
            self.forget_use(before, Use::Node(node, place));
        }
        if let Some(value) = value {
            self.values.get_mut(value).uses.insert(Use::Node(node, place));
        }
        self.changes.rewired += 1;
        if self.changes.keeps_lines {
            let name = value.map_or("nothing".into(), |value| self.value(value).name.clone());
            let line = format!("~ {}: input {place} is `{name}`", self.described(node));
            self.changes.lines.push(line);
        }
    }

    /// Adds an input to a node.
    pub fn push_input(&mut self, node: NodeId, value: Option<ValueId>) {
        let place = self.node(node).inputs.len();
        self.nodes.get_mut(node).inputs.push(value);
        if let Some(value) = value {
            self.values.get_mut(value).uses.insert(Use::Node(node, place));
        }
    }

    /// Leaves a node its first inputs.
    pub fn truncate_inputs(&mut self, node: NodeId, length: usize) {
        while self.node(node).inputs.len() > length {
            let place = self.node(node).inputs.len() - 1;
            self.set_input(node, place, None);
            self.nodes.get_mut(node).inputs.pop();
        }
    }

    /// Gives a node one more output, and returns it.
    pub fn push_output(&mut self, node: NodeId, output: Made) -> Option<ValueId> {
        let place = self.node(node).outputs.len();
        self.nodes.get_mut(node).outputs.push(None);
        self.make_output(node, place, output)
    }

    /// Has a node make an output that nobody has wanted so far, and returns it.
    pub fn want_output(&mut self, node: NodeId, place: usize, name: &str) -> Option<ValueId> {
        let outputs = &mut self.nodes.get_mut(node).outputs;
        outputs.resize(outputs.len().max(place + 1), None);
        match self.node(node).output(place) {
            None => self.make_output(node, place, Made::New(name.into())),
            Some(_) => None,
        }
    }

    /// Leaves out a node's last outputs that nobody wants.
    pub fn drop_unwanted_outputs(&mut self, node: NodeId) {
        let outputs = &mut self.nodes.get_mut(node).outputs;
        while outputs.last().is_some_and(Option::is_none) {
            outputs.pop();
        }
    }

    /// Leaves out a node's last outputs, but for the first, that nobody uses.
    pub fn drop_unused_outputs(&mut self, node: NodeId) {
        while let [_, .., last] = *self.node(node).outputs {
            if last.is_some_and(|value| !self.value(value).uses.is_empty()) {
                return;
            }
            if let Some(value) = last {
                self.values.get_mut(value).origin = Origin::Missing;
            }
            self.nodes.get_mut(node).outputs.pop();
        }
    }

    fn make_output(&mut self, node: NodeId, place: usize, output: Made) -> Option<ValueId> {
        let (body, origin) = (self.node(node).body, Origin::Node(node, place));
        let value = match output {
            Made::New(name) => {
                let name = self.names.new_name(&name);
                Some(self.new_value(name, body, origin))
            }
            Made::Value(value) => {
                self.values.get_mut(value).origin = origin;
                Some(value)
            }
            Made::Unwanted => None,
        };
        self.nodes.get_mut(node).outputs[place] = value;
        value
    }

    /// Takes a value from the node that makes it, which makes a new one of a name like `name` in
    /// its place. The value keeps its users and must be made by a node that is added. Returns the
    /// new value; `None` where no node makes the value.
    pub fn take_output(&mut self, value: ValueId, name: &str) -> Option<ValueId> {
        let Origin::Node(node, place) = self.value(value).origin else { return None };
        self.values.get_mut(value).origin = Origin::Missing;
        self.make_output(node, place, Made::New(name.into()))
    }

    /// Has a node make a value that nothing makes in the place of another, which nothing makes from
    /// then on.
    pub fn put_output(&mut self, node: NodeId, place: usize, value: ValueId) {
        let Some(output) = self.nodes.get_mut(node).outputs.get_mut(place) else { return };
        if let Some(before) = output.replace(value) {
            self.values.get_mut(before).origin = Origin::Missing;
        }
        self.values.get_mut(value).origin = Origin::Node(node, place);
    }

    /// Has everything that uses a value use another one; the outputs of bodies too.
    pub fn replace_all_uses(&mut self, value: ValueId, other: ValueId) {
        self.replace_uses(value, other, |_| true);
    }

    /// The same of the uses that are chosen.
    pub fn replace_uses(&mut self, value: ValueId, other: ValueId, chosen: impl Fn(Use) -> bool) {
        if value == other {
            return;
        }
        let uses = std::mem::take(&mut self.values.get_mut(value).uses);
        let (chosen, left): (BTreeSet<Use>, _) = uses.into_iter().partition(|used| chosen(*used));
        self.values.get_mut(value).uses = left;
        self.changes.rewired += chosen.len();
        for used in &chosen {
            match *used {
                Use::Node(node, place) => self.nodes.get_mut(node).inputs[place] = Some(other),
                Use::Output(body, place) => {
                    self.bodies.get_mut(body).outputs[place].value = other;
                }
            }
        }
        self.values.get_mut(other).uses.extend(chosen);
    }

    /// Has a body return another value as its output at a place.
    pub fn set_output(&mut self, body: BodyId, place: usize, value: ValueId) {
        let Some(output) = self.bodies.get_mut(body).outputs.get_mut(place) else { return };
        let before = std::mem::replace(&mut output.value, value);
        self.forget_use(before, Use::Output(body, place));
        self.values.get_mut(value).uses.insert(Use::Output(body, place));
        self.changes.rewired += 1;
    }

    /// What is declared of an output, to be changed.
    pub fn declared_output_mut(
        &mut self,
        body: BodyId,
        place: usize,
    ) -> Option<&mut ValueInfoProto> {
        self.bodies.get_mut(body).outputs.get_mut(place).map(|output| &mut output.declared)
    }

    /// Removes a node whose outputs nobody uses, with its bodies. One whose outputs are used stays:
    /// `false`.
    pub fn remove(&mut self, node: NodeId) -> bool {
        let outputs = self.node(node).outputs.iter().flatten();
        if outputs.clone().any(|value| !self.value(*value).uses.is_empty()) {
            return false;
        }
        if self.changes.keeps_lines {
            let line = format!("- {}", self.described(node));
            self.changes.lines.push(line);
        }
        for held in std::mem::take(&mut self.nodes.get_mut(node).bodies) {
            self.empty_body(held.body);
        }
        self.truncate_inputs(node, 0);
        for value in std::mem::take(&mut self.nodes.get_mut(node).outputs).into_iter().flatten() {
            self.values.get_mut(value).origin = Origin::Missing;
        }
        self.unlink(node);
        self.changes.removed += 1;
        true
    }

    /// Removes an input or a constant of a body that nobody uses; `false` for any other value.
    pub fn remove_given(&mut self, value: ValueId) -> bool {
        let given = self.value(value);
        if !given.uses.is_empty() || matches!(given.origin, Origin::Node(..)) {
            return false;
        }
        let body = self.bodies.get_mut(given.body);
        body.inputs.retain(|input| *input != value);
        body.constants.retain(|constant| *constant != value);
        self.values.get_mut(value).origin = Origin::Missing;
        true
    }

    fn empty_body(&mut self, body: BodyId) {
        let outputs = std::mem::take(&mut self.bodies.get_mut(body).outputs);
        for (place, output) in outputs.into_iter().enumerate() {
            self.forget_use(output.value, Use::Output(body, place));
        }
        for node in self.nodes_of(body).into_iter().rev() {
            self.remove(node);
        }
    }

    /// Changes a constant, in place where nobody else holds it.
    pub fn constant_mut(&mut self, value: ValueId) -> Option<&mut TensorProto> {
        match &mut self.values.get_mut(value).origin {
            Origin::Constant(tensor) => Some(Arc::make_mut(tensor)),
            _ => None,
        }
    }

    /// Has a value that is a constant be made by a node that is added, and returns its tensor.
    pub fn take_constant(&mut self, value: ValueId) -> Option<Arc<TensorProto>> {
        if !self.value(value).is_constant() {
            return None;
        }
        let body = self.value(value).body;
        let body = self.bodies.get_mut(body);
        body.inputs.retain(|input| *input != value);
        body.constants.retain(|constant| *constant != value);
        match std::mem::replace(&mut self.values.get_mut(value).origin, Origin::Missing) {
            Origin::Constant(tensor) => Some(tensor),
            _ => None,
        }
    }

    pub(crate) fn new_value(&mut self, name: Arc<str>, body: BodyId, origin: Origin) -> ValueId {
        let (uses, declared, doc_string) = (BTreeSet::new(), None, Box::default());
        self.values.add(Value { name, body, origin, uses, declared, doc_string })
    }

    fn forget_use(&mut self, value: ValueId, used: Use) {
        self.values.get_mut(value).uses.remove(&used);
    }

    fn described(&self, id: NodeId) -> String {
        let node = self.node(id);
        format!("{} `{}` in {}", node.op_type, node.label, node.path)
    }

    /// A node as messages of the file have it, for those that read only that.
    pub fn proto(&self, id: NodeId) -> NodeProto {
        let node = self.node(id);
        let name = |value: &Option<ValueId>| {
            value.map_or(String::new(), |value| self.value(value).name.to_string())
        };
        NodeProto {
            input: node.inputs.iter().map(name).collect(),
            output: node.outputs.iter().map(name).collect(),
            name: node.name.to_string(),
            op_type: node.op_type.clone(),
            domain: node.domain.clone(),
            attribute: node.attributes.to_vec(),
            doc_string: node.doc_string.to_string(),
        }
    }
}
