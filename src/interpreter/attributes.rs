//! Attributes that nodes have in common.

use std::collections::HashMap;

use onnx_cast_graph::{Attributes, Graph};
use prost::Message;
use tract_onnx::pb::AttributeProto;

/// Lists of attributes of more bytes stay as they are: what is large is a node's own.
const SMALL: usize = 256;

/// Has nodes whose attributes are the same share them.
pub(super) fn share(graph: &mut Graph) {
    let mut known: HashMap<Vec<u8>, Attributes> = HashMap::new();
    for id in graph.all_nodes(graph.main()) {
        let node = graph.node_mut(id);
        let bytes: usize = node.attributes.iter().map(AttributeProto::encoded_len).sum();
        if bytes <= SMALL {
            let known = known.entry(encoded(&node.attributes));
            node.attributes = known.or_insert_with(|| node.attributes.clone()).clone();
        }
    }
}

/// Attributes in bytes that are no other ones': their messages do not tell −0 from 0.
fn encoded(attributes: &Attributes) -> Vec<u8> {
    let encoded = |attribute: &AttributeProto| {
        let message = attribute.encode_length_delimited_to_vec();
        attribute.f.to_bits().to_le_bytes().into_iter().chain(message)
    };
    attributes.iter().flat_map(encoded).collect()
}

#[cfg(test)]
mod tests {
    use onnx_cast_graph::float_attribute;

    use super::*;
    use crate::passes::import;
    use crate::passes::testing::read;

    #[test]
    fn what_is_the_same_is_shared_and_nothing_else() {
        let mut model = read(
            "in x FLOAT
             a = Softmax<axis=1>(x)
             b = Softmax<axis=1>(a)
             c = Softmax<axis=0>(b)
             d = LeakyRelu(c)
             e = LeakyRelu(d)
             out e FLOAT",
        );
        let nodes = &mut model.graph.as_mut().expect("a graph").node;
        for (node, alpha) in nodes.iter_mut().skip(3).zip([0.0, -0.0]) {
            node.attribute.push(float_attribute("alpha", alpha));
        }
        let (mut graph, _) = import(model).expect("a graph");
        let ids = graph.all_nodes(graph.main());
        let before: Vec<_> = ids.iter().map(|id| encoded(&graph.node(*id).attributes)).collect();
        share(&mut graph);
        let after: Vec<_> = ids.iter().map(|id| encoded(&graph.node(*id).attributes)).collect();
        assert_eq!(before, after);
        let list = |place: usize| graph.node(ids[place]).attributes.as_ptr();
        assert_eq!(list(0), list(1));
        assert!(list(1) != list(2) && list(3) != list(4));
    }
}
