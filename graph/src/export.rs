//! A graph made a model's messages again. Weights are moved, not copied, where nobody else holds
//! them.

use std::sync::Arc;

use tract_onnx::pb::attribute_proto::AttributeType;
use tract_onnx::pb::{
    AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto,
};

use crate::Graph;
use crate::arena::{BodyId, NodeId, ValueId};
use crate::value::{Origin, Value};

impl Graph {
    /// The model's messages. `finish` has the last word on each node's message, given the node's
    /// handle.
    pub fn export(mut self, mut finish: impl FnMut(NodeId, &mut NodeProto)) -> ModelProto {
        let main = self.main;
        let graph = Some(self.export_body(main, &mut finish));
        ModelProto { graph, functions: self.functions, ..self.model }
    }

    pub(crate) fn export_body(
        &mut self,
        body: BodyId,
        finish: &mut impl FnMut(NodeId, &mut NodeProto),
    ) -> GraphProto {
        let input = self.body(body).inputs.clone();
        let input = input.into_iter().map(|value| self.declaration(value)).collect();
        let ids = self.nodes_of(body);
        let mut value_info = vec![];
        let mut node = Vec::with_capacity(ids.len());
        for id in ids {
            for value in self.node(id).outputs.clone().into_iter().flatten() {
                if self.value(value).declared.is_some() {
                    value_info.push(self.declaration(value));
                }
            }
            let mut proto = self.export_node(id, finish);
            finish(id, &mut proto);
            node.push(proto);
        }
        let held = self.bodies.get_mut(body);
        let (rest, name) = (std::mem::take(&mut held.rest), std::mem::take(&mut held.name));
        let (outputs, constants) =
            (std::mem::take(&mut held.outputs), std::mem::take(&mut held.constants));
        let returned = outputs.into_iter().map(|output| {
            let name = self.value(output.value).name.to_string();
            ValueInfoProto { name, ..output.declared }
        });
        let output = returned.collect();
        let initializer = constants.into_iter().filter_map(|value| self.tensor(value)).collect();
        GraphProto { node, name, initializer, input, output, value_info, ..rest }
    }

    fn export_node(
        &mut self,
        id: NodeId,
        finish: &mut impl FnMut(NodeId, &mut NodeProto),
    ) -> NodeProto {
        let attributes = std::mem::take(&mut self.nodes.get_mut(id).attributes);
        let mut proto = self.proto(id);
        proto.attribute = attributes.into();
        for held in self.node(id).bodies.clone() {
            let graph = self.export_body(held.body, finish);
            let name = held.attribute;
            let listed = proto.attribute.iter_mut().rfind(|attribute| attribute.name == name);
            if let Some(attribute) = listed.filter(|_| held.is_listed) {
                attribute.graphs.push(graph);
                continue;
            }
            let (g, graphs, r#type) = if held.is_listed {
                (None, vec![graph], AttributeType::Graphs)
            } else {
                (Some(graph), vec![], AttributeType::Graph)
            };
            let r#type = r#type as i32;
            proto.attribute.push(AttributeProto { name, r#type, g, graphs, ..Default::default() });
        }
        proto
    }

    fn declaration(&mut self, value: ValueId) -> ValueInfoProto {
        let Value { name, declared, doc_string, .. } = self.values.get_mut(value);
        let (r#type, doc_string) = (declared.take(), std::mem::take(doc_string).into_string());
        ValueInfoProto { name: name.to_string(), r#type, doc_string }
    }

    fn tensor(&mut self, value: ValueId) -> Option<TensorProto> {
        let value = self.values.get_mut(value);
        let origin = std::mem::replace(&mut value.origin, Origin::Missing);
        let Origin::Constant(tensor) = origin else { return None };
        let tensor = Arc::try_unwrap(tensor).unwrap_or_else(|shared| (*shared).clone());
        Some(TensorProto { name: value.name.to_string(), ..tensor })
    }
}
