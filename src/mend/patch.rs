//! What a mended graph changes in the file that it was read from, as edits of the file.

use std::collections::{HashMap, HashSet};

use onnx_cast_graph::{BodyId, Graph, NodeId, ValueId, subgraphs};
use prost::Message;
use tract_onnx::pb::{GraphProto, ModelProto, NodeProto, TypeProto, ValueInfoProto};

use super::edits::{Edits, FieldPlace, ONLY};
use crate::onnx::declared_shapes::element_type;
use crate::onnx::function_fields::FunctionParts;
use crate::typed::functions::Functions;

/// The numbers of the fields in which a graph or a function has its parts.
#[derive(Clone, Copy)]
struct Fields {
    node: u32,
    value_info: u32,
    output: u32,
}

const OF_GRAPH: Fields = Fields { node: 1, value_info: 13, output: 12 };
/// A function's outputs have no types, so they are never edited.
const OF_FUNCTION: Fields = Fields { node: 7, value_info: 12, output: 5 };

/// What has become of a model in its graph.
pub(super) fn patch(graph: &Graph, functions: &Functions, proto: &ModelProto) -> Edits {
    let mut patch = PatchBuilder { graph, edits: Edits::default() };
    if let Some(main) = &proto.graph {
        patch.body(graph.main(), main, &[(7, ONLY)], OF_GRAPH);
    }
    for (index, (function, body)) in proto.functions.iter().zip(&functions.bodies).enumerate() {
        let parts = FunctionParts::of(function);
        let message = parts.graph(function, parts.body.to_vec());
        patch.body(*body, &message, &[(25, index)], OF_FUNCTION);
    }
    patch.edits
}

struct PatchBuilder<'g> {
    graph: &'g Graph,
    edits: Edits,
}

impl PatchBuilder<'_> {
    fn body(&mut self, body: BodyId, message: &GraphProto, way: &[FieldPlace], fields: Fields) {
        let mut kept = HashMap::new();
        let mut added = vec![];
        for id in self.graph.nodes_of(body) {
            let Some(place) = self.graph.node(id).place.map(|place| place as usize) else {
                added.push(self.graph.proto(id).encode_to_vec());
                continue;
            };
            for node in added.drain(..) {
                self.edits.within(way).put_before((fields.node, place), node);
            }
            kept.insert(place, id);
        }
        for (place, node) in message.node.iter().enumerate() {
            match kept.get(&place) {
                Some(id) => self.node(*id, node, &[way, &[(fields.node, place)]].concat()),
                None => self.edits.within(way).remove((fields.node, place)),
            }
        }
        self.declarations(body, message, way, fields);
    }

    fn node(&mut self, id: NodeId, message: &NodeProto, way: &[FieldPlace]) {
        let node = self.graph.node(id);
        for (field, names, values) in
            [(1, &message.input, node.inputs()), (2, &message.output, node.outputs())]
        {
            for (place, (before, value)) in names.iter().zip(values).enumerate() {
                let name = value.map(|value| &*self.graph.value(value).name);
                if let Some(name) = name.filter(|name| name != before) {
                    self.edits.within(way).set_bytes((field, place), name.as_bytes());
                }
            }
        }
        let mut bodies = node.bodies().iter();
        let mut held = node.attributes.iter();
        for (place, attribute) in message.attribute.iter().enumerate() {
            let way = [way, &[(5, place)]].concat();
            let graphs = attribute.graphs.iter().enumerate();
            let graphs = graphs.map(|(index, graph)| ((11, index), graph));
            let graphs = attribute.g.iter().map(|graph| ((6, ONLY), graph)).chain(graphs);
            for ((place, message), held) in graphs.zip(bodies.by_ref()) {
                self.body(held.body, message, &[&way[..], &[place]].concat(), OF_GRAPH);
            }
            if subgraphs(attribute).next().is_some() {
                continue;
            }
            let Some(now) = held.next() else { continue };
            if now.s != attribute.s {
                self.edits.within(&way).set_bytes((4, 0), &now.s);
            }
            if now.i != attribute.i {
                self.edits.within(&way).set_number(3, now.i as u64);
            }
        }
    }

    fn declarations(
        &mut self,
        body: BodyId,
        message: &GraphProto,
        way: &[FieldPlace],
        fields: Fields,
    ) {
        let held = self.graph.body(body);
        for (place, (before, output)) in message.output.iter().zip(held.outputs()).enumerate() {
            self.declaration(before, output.declared.r#type.as_ref(), (fields.output, place), way);
        }
        let nodes = self.graph.nodes_of(body);
        let made = nodes.into_iter().flat_map(|id| self.graph.node(id).outputs()).flatten();
        let inputs: HashSet<&ValueId> = held.inputs().iter().collect();
        let constants = held.constants().iter().filter(|value| !inputs.contains(value));
        let named = |value: &ValueId| (&*self.graph.value(*value).name, *value);
        let values: HashMap<&str, ValueId> = made.chain(constants).map(named).collect();
        let was_made: HashSet<&String> =
            message.node.iter().flat_map(|node| &node.output).collect();
        for (place, before) in message.value_info.iter().enumerate() {
            let place = (fields.value_info, place);
            match values.get(&*before.name) {
                Some(value) => {
                    let now = self.graph.value(*value).declared.as_ref();
                    self.declaration(before, now, place, way);
                }
                None if was_made.contains(&before.name) => self.edits.within(way).remove(place),
                None => {}
            }
        }
    }

    fn declaration(
        &mut self,
        before: &ValueInfoProto,
        now: Option<&TypeProto>,
        place: FieldPlace,
        way: &[FieldPlace],
    ) {
        if let (Some(before), Some(now)) = (element_type(before.r#type.as_ref()), element_type(now))
            && before != now
        {
            // `type`, `tensor_type`, `elem_type`.
            let way = [way, &[place, (2, ONLY), (1, ONLY)]].concat();
            self.edits.within(&way).set_number(1, now as u64);
        }
    }
}
