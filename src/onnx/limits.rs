//! What tract cannot take as it stands in a file, refused or put so that it can.

use std::collections::{HashMap, HashSet};

use tract_onnx::pb::tensor_shape_proto::dimension::Value as DimValue;
use tract_onnx::pb::type_proto::Value as TypeValue;
use tract_onnx::pb::{GraphProto, TypeProto, ValueInfoProto};

use super::node::node_name;

/// Makes unknown what would take tract long to understand, or more stack than there is: its parser of dimensions descends
/// into every parenthesis, and its simplifier tries every combination of nested terms.
pub(super) fn forget_intricate_dimensions(value: &mut ValueInfoProto) {
    const LENGTH: usize = 256;
    const OPERATORS: usize = 12;
    let Some(TypeProto { value: Some(TypeValue::TensorType(tensor)), .. }) = &mut value.r#type
    else {
        return;
    };
    for dim in tensor.shape.iter_mut().flat_map(|shape| &mut shape.dim) {
        if let Some(DimValue::DimParam(text)) = &dim.value {
            let operators = text.bytes().filter(|byte| b"+-*/%(,".contains(byte)).count();
            if text.len() > LENGTH || operators > OPERATORS {
                dim.value = None;
            }
        }
    }
}

/// Renames nodes that have another's name or that of a value they do not make: in ONNX these are names of different kinds,
/// in tract they are not.
pub(super) fn name_nodes_apart(graph: &mut GraphProto) {
    let inputs = graph.input.iter().map(|input| input.name.clone());
    let initializers = graph.initializer.iter().map(|tensor| tensor.name.clone());
    let mut taken: HashSet<String> = inputs.chain(initializers).collect();
    let made: HashMap<String, usize> = graph
        .node
        .iter()
        .enumerate()
        .flat_map(|(index, node)| node.output.iter().map(move |output| (output.clone(), index)))
        .collect();
    for (index, node) in graph.node.iter_mut().enumerate() {
        let name = node_name(node);
        let is_foreign = |name: &String| made.get(name).is_some_and(|maker| *maker != index);
        let mut unique = name.clone();
        while is_foreign(&unique) || !taken.insert(unique.clone()) {
            unique = format!("{unique}#{index}");
        }
        if unique != name {
            node.name = unique;
        }
    }
}
