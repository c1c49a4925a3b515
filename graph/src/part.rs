//! A part of a model as a model of its own: the nodes between values that are given and values that
//! are wanted.

use std::sync::Arc;

use tract_onnx::pb::{TensorProto, TypeProto, ValueInfoProto};

use crate::Graph;
use crate::arena::{BodyId, Table, ValueId};
use crate::value::{Origin, Use};

/// What stands in the place of a value's maker.
#[derive(Debug, Clone)]
pub enum Given {
    /// An input of the part, of this type.
    Input(TypeProto),
    /// A constant.
    Constant(Arc<TensorProto>),
}

impl Graph {
    /// The part of the main graph that makes some values from others. What is given is not
    /// computed: everything but the wanted outputs takes it from an input or a constant, which has
    /// its name unless the part makes it as well. Nodes, inputs and constants that nothing needs
    /// are left out. All values are those of the main graph. Returns the part, and which of its
    /// values is given in the place of each.
    pub fn part(
        &self,
        given: Vec<(ValueId, Given)>,
        wanted: Vec<(ValueId, ValueInfoProto)>,
    ) -> (Graph, Vec<ValueId>) {
        let mut part = self.clone();
        let main = part.main;
        for place in 0..part.body(main).outputs.len() {
            let value = part.body(main).outputs[place].value;
            part.values.get_mut(value).uses.remove(&Use::Output(main, place));
        }
        part.bodies.get_mut(main).outputs.clear();
        let given: Vec<(ValueId, ValueId)> =
            given.into_iter().map(|(value, given)| (value, part.give(value, given))).collect();
        for (value, declared) in wanted {
            part.add_output(main, value, declared);
        }
        part.sweep();
        for (value, new) in &given {
            if !matches!(part.value(*value).origin, Origin::Node(..)) {
                let name = part.value(*value).name.clone();
                part.value_mut(*new).name = name;
            }
        }
        (part, given.into_iter().map(|(_, new)| new).collect())
    }

    /// Gives a value. Returns what its users have in its place.
    fn give(&mut self, value: ValueId, given: Given) -> ValueId {
        let main = self.main;
        if let Origin::Node(..) = self.value(value).origin {
            let name = self.value(value).name.clone();
            let new = match given {
                Given::Input(ty) => {
                    let r#type = Some(ty);
                    let name = name.to_string();
                    self.add_input(main, ValueInfoProto { name, r#type, ..Default::default() })
                }
                Given::Constant(tensor) => {
                    let tensor = TensorProto { name: name.to_string(), ..(*tensor).clone() };
                    self.add_constant(main, tensor)
                }
            };
            self.replace_all_uses(value, new);
            return new;
        }
        let body = self.bodies.get_mut(main);
        let is_input = body.inputs.contains(&value);
        body.constants.retain(|constant| *constant != value);
        let held = self.values.get_mut(value);
        match given {
            Given::Input(ty) => {
                (held.origin, held.declared) = (Origin::Input, Some(ty));
                if !is_input {
                    body.inputs.push(value);
                }
            }
            Given::Constant(tensor) => {
                (held.origin, held.declared) = (Origin::Constant(tensor), None);
                body.inputs.retain(|input| *input != value);
                body.constants.push(value);
            }
        }
        value
    }

    /// Removes what the main graph's outputs do not need.
    fn sweep(&mut self) {
        let main = self.main;
        for node in self.nodes_of(main).into_iter().rev() {
            self.remove(node);
        }
        let body = self.body(main);
        for value in [&body.inputs[..], &body.constants].concat() {
            self.remove_given(value);
        }
    }

    /// Leaves out what computes nothing: documentation, metadata, annotations.
    pub fn strip(&mut self) {
        let model = &mut self.model;
        (model.producer_name, model.producer_version) = Default::default();
        (model.domain, model.doc_string, model.model_version) = Default::default();
        model.metadata_props.clear();
        model.training_info.clear();
        for body in self.all_bodies(self.main) {
            let rest = &mut self.bodies.get_mut(body).rest;
            rest.doc_string.clear();
            rest.quantization_annotation.clear();
            for id in self.nodes_of(body) {
                self.node_mut(id).doc_string = Box::default();
            }
        }
    }

    /// Makes the body of a node the main graph. What it uses from around it becomes inputs of these
    /// types behind its own, or constants where it is constant there.
    ///
    /// The types are asked for by the values around the body.
    pub fn open(
        &mut self,
        body: BodyId,
        ty: impl Fn(ValueId) -> Option<TypeProto>,
    ) -> Vec<ValueId> {
        let captured = self.captures(body);
        let inside: Table<BodyId, ()> = {
            let mut inside = Table::default();
            for inner in self.all_bodies(body) {
                inside.insert(inner, ());
            }
            inside
        };
        for value in &captured {
            let uses = std::mem::take(&mut self.values.get_mut(*value).uses);
            let is_inside = |used: &Use| match used {
                Use::Node(node, _) => inside.contains(self.nodes.get(*node).body),
                Use::Output(of, _) => inside.contains(*of),
            };
            let uses = uses.into_iter().filter(is_inside).collect();
            let is_constant = self.value(*value).is_constant();
            let held = self.values.get_mut(*value);
            (held.uses, held.body) = (uses, body);
            let main = self.bodies.get_mut(body);
            if is_constant {
                main.constants.push(*value);
            } else {
                (held.origin, held.declared) = (Origin::Input, ty(*value));
                main.inputs.push(*value);
            }
        }
        self.bodies.get_mut(body).owner = None;
        self.main = body;
        captured.into_iter().filter(|value| !self.value(*value).is_constant()).collect()
    }
}
