//! What tract cannot take as it stands in a file, refused or put so that it can.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use tract_onnx::pb::attribute_proto::AttributeType;
use tract_onnx::pb::tensor_shape_proto::dimension::Value as DimValue;
use tract_onnx::pb::type_proto::Value as TypeValue;
use tract_onnx::pb::{
    AttributeProto, GraphProto, NodeProto, TensorProto, TypeProto, ValueInfoProto,
};

use super::annotation::{DOMAIN, identity, private_cast};
use super::node::{attribute, is_default_domain, name_of};
use super::operators::schema::schema;
use super::order;
use super::scope::Scope;
use crate::cast::element_type::ElementType;

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

/// Makes readable the empty tensors of UINT32 and UINT64, which tract takes for signed ones: they are cast from INT64.
pub(super) fn cast_empty_unsigned(graph: &mut GraphProto) {
    let mut casts = vec![];
    for tensor in &mut graph.initializer {
        if let Some(ty) = empty_unsigned(tensor) {
            let name = std::mem::take(&mut tensor.name);
            tensor.name = format!("{DOMAIN}:{name}");
            tensor.data_type = ElementType::Int64 as i32;
            graph.input.retain(|input| input.name != name);
            casts.push(private_cast(&tensor.name, ty, name));
        }
    }
    for node in &mut graph.node {
        if node.op_type == "Constant"
            && is_default_domain(&node.domain)
            && let [attribute] = &mut node.attribute[..]
            && let Some(tensor) = &mut attribute.t
            && let Some(ty) = empty_unsigned(tensor)
            && let [output] = &node.output[..]
        {
            let name = format!("{DOMAIN}:{output}");
            let data_type = ElementType::Int64 as i32;
            let tensor = TensorProto { name, data_type, ..std::mem::take(tensor) };
            *node = private_cast(&tensor.name, ty, output.clone());
            graph.initializer.push(tensor);
        }
        let inner = node
            .attribute
            .iter_mut()
            .flat_map(|attribute| attribute.g.iter_mut().chain(&mut attribute.graphs));
        inner.for_each(cast_empty_unsigned);
    }
    graph.node.extend(casts);
}

fn empty_unsigned(tensor: &TensorProto) -> Option<ElementType> {
    let is_sound = tensor.dims.iter().all(|dim| *dim >= 0) && tensor.external_data.is_empty();
    let is_empty = is_sound && tensor.dims.contains(&0) && tensor.uint64_data.is_empty();
    let ty = ElementType::from_id(tensor.data_type).filter(|_| is_empty)?;
    matches!(ty, ElementType::Uint32 | ElementType::Uint64).then_some(ty)
}

/// Names the outputs that a node does not use but its operator always has: tract would count the others from there.
pub(super) fn name_unused_outputs(node: &mut NodeProto, opset: i64) {
    let schema = schema(&node.op_type, opset).filter(|_| is_default_domain(&node.domain));
    let first = node.output.iter().find(|output| !output.is_empty()).cloned();
    let (Some(schema), Some(first)) = (schema, first) else { return };
    for (place, output) in node.output.iter_mut().enumerate() {
        let is_there = schema.output(place).is_some_and(|output| !output.is_optional());
        if output.is_empty() && is_there {
            *output = format!("{DOMAIN}:unused{place}:{first}");
        }
    }
}

/// Renames nodes that have another's name or that of a value they do not make: in ONNX these are names of different kinds,
/// in tract they are not.
pub(super) fn name_nodes_apart(graph: &mut GraphProto) {
    let inputs = graph.input.iter().map(|input| input.name.as_str());
    let initializers = graph.initializer.iter().map(|tensor| tensor.name.as_str());
    let made: HashMap<&str, usize> = graph
        .node
        .iter()
        .enumerate()
        .flat_map(|(index, node)| node.output.iter().map(move |output| (output.as_str(), index)))
        .collect();
    // tract gives a body an input for each value that it takes from around it.
    let used = graph.node.iter().flat_map(order::used_names);
    let outer = used.filter(|name| !made.contains_key(name));
    let mut taken: HashSet<Cow<str>> =
        inputs.chain(initializers).chain(outer).map(Cow::from).collect();
    let mut renamed = vec![];
    for (index, node) in graph.node.iter().enumerate() {
        let name = name_of(node);
        let is_foreign = |name: &str| made.get(name).is_some_and(|maker| *maker != index);
        // What stands before a `#` tract tries with all numbers, whenever it puts something in the node's place.
        let mut unique = match name.contains('#') {
            true => name.replace('#', "~").into(),
            false => Cow::from(name),
        };
        while is_foreign(&unique) || !taken.insert(unique.clone()) {
            unique = format!("{unique}~{index}").into();
        }
        if unique != name {
            renamed.push((index, unique.into_owned()));
        }
    }
    for (index, name) in renamed {
        if let Some(node) = graph.node.get_mut(index) {
            node.name = name;
        }
    }
}

/// The opset by whose rules tract builds a `Squeeze` without axes.
pub(super) const SQUEEZE_OF_ALL: i64 = 13;

/// Gives an `Attention` a mask of numbers where it has one of truths, which tract does not take: minus infinity hides. `ty` is
/// the type that the node computes in.
pub(super) fn give_mask_of_numbers(
    node: &mut NodeProto,
    inputs: &[Option<ElementType>],
    ty: ElementType,
    scope: &mut Scope,
) {
    const MASK: usize = 3;
    let is_attention = node.op_type == "Attention" && is_default_domain(&node.domain);
    if !is_attention || inputs.get(MASK).copied().flatten() != Some(ElementType::Bool) {
        return;
    }
    let Some(mask) = node.input.get_mut(MASK) else { return };
    let name = |part: &str| format!("{DOMAIN}:{part}:{mask}");
    let constant = |part: &str, value: f32| NodeProto {
        op_type: "Constant".into(),
        attribute: vec![AttributeProto {
            name: "value_float".into(),
            r#type: AttributeType::Float as i32,
            f: value,
            ..AttributeProto::default()
        }],
        ..identity("", name(part))
    };
    let constants = [constant("seen", 0.0), constant("hidden", f32::NEG_INFINITY)];
    let [seen, hidden] = constants.map(|node| NodeProto { input: vec![], ..node });
    let numbers = NodeProto {
        op_type: "Where".into(),
        input: vec![mask.clone(), name("seen"), name("hidden")],
        ..identity("", name("floats"))
    };
    let typed = private_cast(&name("floats"), ty, name("numbers"));
    *mask = name("numbers");
    if scope.made_masks.insert(mask.clone()) {
        scope.added.extend([seen, hidden, numbers, typed]);
    }
}

/// Whether a node is a `Squeeze` without axes that tract would not build by its own opset.
pub(super) fn is_squeeze_of_all(node: &NodeProto, opset: i64) -> bool {
    let is_squeeze = node.op_type == "Squeeze" && is_default_domain(&node.domain);
    is_squeeze && opset < SQUEEZE_OF_ALL && attribute(node, "axes").is_none()
}

/// Writes down the value that a `ConstantOfShape` has without the attribute, a FLOAT zero; tract's is a DOUBLE.
pub(super) fn give_default_value(node: &mut NodeProto) {
    if attribute(node, "value").is_none() {
        let (data_type, raw_data) = (ElementType::Float as i32, vec![0; 4]);
        let t = TensorProto { data_type, dims: vec![1], raw_data, ..TensorProto::default() };
        let (name, r#type) = ("value".into(), AttributeType::Tensor as i32);
        node.attribute.push(AttributeProto { name, r#type, t: Some(t), ..Default::default() });
    }
}
