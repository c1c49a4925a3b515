//! The types of a node's outputs, from its operator's schema.

use tract_onnx::pb::attribute_proto::AttributeType;

use super::behaviour::{Behaviour, ElementUse, Otherwise};
use super::foreign;
use super::schema::{self, ParameterType, Schema};
use crate::cast::element_type::ElementType;
use crate::error::Error;
use crate::onnx::node::{NodeView, attribute, int, refusal};

/// The types of the outputs of a node at an opset, from those of its inputs; `None` where only
/// tract's analysis, a tensor or a subgraph can tell, and for all outputs of an operator that ONNX
/// does not have.
pub(crate) fn output_types(
    node: &(impl NodeView + ?Sized),
    opset: i64,
    inputs: &[Option<ElementType>],
) -> Vec<Option<ElementType>> {
    let schema = schema::schema(node.op_type(), opset).filter(|_| node.is_onnx());
    let ty = |index| schema.and_then(|schema| output_type(node, schema, index, inputs));
    (0..node.output_places()).map(ty).collect()
}

/// Checks that an operator's version has the types of the inputs that a node computes with.
///
/// What a node only moves may have any type, and half precision is that of any version
/// ([SEMANTICS §12 and §16](crate::semantics)): both are checked elsewhere.
/// Fails when it has one of them not, or inputs of two types where it takes one.
pub(crate) fn check_inputs(
    node: &(impl NodeView + ?Sized),
    opset: i64,
    inputs: &[Option<ElementType>],
) -> Result<(), Error> {
    let schema = schema::schema(node.op_type(), opset).filter(|_| node.is_onnx());
    let Some(schema) = schema else { return Ok(()) };
    let elements = Behaviour::of(node).elements(node);
    let is_moved = |place: usize| match elements {
        ElementUse::Moved(moved) => moved.contains(place),
        ElementUse::Measured => true,
        ElementUse::MovedOrReduced(_) | ElementUse::Computed => false,
    };
    let is_plain = |ty: &ElementType| !ty.is_exotic() && *ty != ElementType::Float16;
    let mut bound: Vec<(&str, ElementType)> = vec![];
    for (place, ty) in inputs.iter().enumerate() {
        let (Some(ty), Some(parameter)) = (ty.filter(is_plain), schema.input(place)) else {
            continue;
        };
        if let ParameterType::Variable(variable) = parameter.ty {
            if !schema.is_tensor(variable) {
                continue;
            }
            let other = bound.iter().find(|(own, _)| *own == variable);
            if schema.binds(place, variable) && other.is_some_and(|(_, other)| *other != ty) {
                let other = other.map_or("", |(_, other)| other.name());
                let problem = format!("mixes {other} and {ty}, where it takes one type");
                return Err(refusal(node, format!("{problem}, the model imports {opset}")));
            }
            bound.push((variable, ty));
        }
        if is_moved(place) || schema.allows(parameter.ty, ty) {
            continue;
        }
        let allows =
            |schema: &&Schema| schema.input(place).is_some_and(|input| schema.allows(input.ty, ty));
        let since = schema::versions(node.op_type()).iter().find(allows);
        let problem = match since.map(|schema| schema.since).filter(|since| *since > opset) {
            Some(since) => format!("input {place} of type {ty} needs opset {since}"),
            None => {
                format!("input {place} of type {ty} is no type of it in version {}", schema.since)
            }
        };
        return Err(refusal(node, format!("{problem}, the model imports {opset}")));
    }
    Ok(())
}

fn output_type(
    node: &(impl NodeView + ?Sized),
    schema: &Schema,
    index: usize,
    inputs: &[Option<ElementType>],
) -> Option<ElementType> {
    let output = schema.output(index).filter(|output| !output.has_any_types())?;
    let only = schema.only_type(output.ty);
    let ParameterType::Variable(variable) = output.ty else { return only };
    let mut places = 0..node.input_places();
    if places.any(|place| node.gives(place) && schema.binds(place, variable)) {
        // A type that a later version allows is computed in this one too.
        return schema.bound(variable, inputs).or(only);
    }
    if only.is_some() {
        return only;
    }
    let attribute = Behaviour::of(node).type_attribute?;
    let given = int(node, attribute.name).filter(|id| *id != 0);
    if let Some(id) = given {
        return i32::try_from(id).ok().and_then(ElementType::from_id);
    }
    schema.default_type(attribute.name).or(match attribute.otherwise {
        Otherwise::Unknown => None,
        Otherwise::Input(source) => inputs.get(source).copied().flatten(),
        Otherwise::Always(ty) => Some(ty),
    })
}

/// The type of a `Constant` or `ConstantOfShape` that holds no tensor.
pub(crate) fn constant_type(node: &(impl NodeView + ?Sized)) -> Option<ElementType> {
    let has = |name: &str| {
        attribute(node, name)
            .is_some_and(|attribute| attribute.r#type != AttributeType::Undefined as i32)
    };
    match node.op_type() {
        "ConstantOfShape" => Some(ElementType::Float),
        _ if has("value_float") || has("value_floats") => Some(ElementType::Float),
        _ if has("value_int") || has("value_ints") => Some(ElementType::Int64),
        _ if has("value_string") || has("value_strings") => Some(ElementType::String),
        _ => None,
    }
}

/// The type of the tensor or the numbers that a `Constant` or `ConstantOfShape` holds.
pub(crate) fn held_type(node: &(impl NodeView + ?Sized)) -> Option<ElementType> {
    let mut tensors = node.attributes().iter().filter_map(|attribute| attribute.t.as_ref());
    match tensors.next() {
        Some(tensor) => ElementType::from_id(tensor.data_type),
        None => constant_type(node),
    }
}

/// Whether what a node takes and makes depends on an attribute of the function that it stands in,
/// so that only a call tells. Of operators of other domains nobody knows what their attributes
/// decide.
pub(crate) fn depends_on_call(node: &(impl NodeView + ?Sized)) -> bool {
    let behaviour = Behaviour::of(node);
    let typed_by = behaviour.type_attribute.map(|attribute| attribute.name);
    let mut referred = node.attributes().iter().filter(|held| !held.ref_attr_name.is_empty());
    referred.any(|held| {
        let is_graph =
            [AttributeType::Graph as i32, AttributeType::Graphs as i32].contains(&held.r#type);
        let decides =
            matches!(&*held.name, "to" | "num_scan_inputs") || Some(&*held.name) == typed_by;
        let is_tensor =
            behaviour.makes_attributes && matches!(&*held.name, "value" | "sparse_value");
        !node.is_onnx() || is_graph || decides || is_tensor
    })
}

/// As [`output_types`], and of the operators of other domains whose types are known.
pub(crate) fn of_any_domain(
    node: &(impl NodeView + ?Sized),
    opset: i64,
    inputs: &[Option<ElementType>],
) -> Vec<Option<ElementType>> {
    match node.domain() {
        _ if node.is_onnx() => output_types(node, opset, inputs),
        "ai.onnx.ml" => learned(node.op_type()),
        _ => foreign::output_types(node, inputs),
    }
}

/// The types that operators of `ai.onnx.ml` make whatever they are given, as its schemas have them.
fn learned(operator: &str) -> Vec<Option<ElementType>> {
    let float = Some(ElementType::Float);
    match operator {
        "LinearClassifier" | "SVMClassifier" | "TreeEnsembleClassifier" => vec![None, float],
        "FeatureVectorizer"
        | "LinearRegressor"
        | "Normalizer"
        | "OneHotEncoder"
        | "SVMRegressor"
        | "Scaler"
        | "TreeEnsembleRegressor" => vec![float],
        _ => vec![],
    }
}

#[cfg(test)]
mod tests;
