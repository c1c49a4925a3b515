//! Element types and sizes as a model declares them, types against what its nodes make.

use onnx_cast_graph::{BodyId, Graph, NodeView, Use, ValueId, counted, tensor_type};
use tract_onnx::pb::TypeProto;
use tract_onnx::pb::tensor_shape_proto::{Dimension, dimension::Value as DimValue};
use tract_onnx::pb::type_proto::{self, Value as TypeValue};

use crate::cast::element_type::{ElementType, name_of_id};
use crate::error::Error;
use crate::onnx::declared_shapes::{element_type, shape};
use crate::passes::facts::fact::Fact;

/// Whether tract would confuse one of the two with another type.
pub(in crate::passes) fn either_exotic(a: ElementType, b: ElementType) -> bool {
    a.is_exotic() || b.is_exotic()
}

/// The type of a value, after comparing what the graph makes with what the model declares; what is
/// wrong with its node if they contradict each other. A contradiction that neither a Cast nor an
/// exotic type is part of is left to tract, whose analysis has the last word on native types.
pub(in crate::passes) fn agree(
    value: &str,
    made: Option<ElementType>,
    declared: Option<ElementType>,
    by_cast: bool,
) -> Result<Option<ElementType>, String> {
    match (made, declared) {
        (Some(made), Some(declared))
            if made != declared && (by_cast || either_exotic(made, declared)) =>
        {
            Err(format!(
                "makes `{value}` {made}, but the model declares it {declared}; `onnx-cast fix MODEL.onnx -o FIXED.onnx` \
                 may correct it"
            ))
        }
        (None, Some(declared)) if declared.is_exotic() => {
            Err(format!("cannot compute a result of {declared}, as `{value}` is declared"))
        }
        (made, declared) => Ok(made.or(declared)),
    }
}

/// What the branches of a node have in common.
pub(crate) fn same_types(
    node: &str,
    op: &str,
    branches: &[Vec<Option<Fact>>],
) -> Result<Vec<Option<Fact>>, Error> {
    let refuse = |problem: String| Error::of_node(node, op, problem);
    let mut branches = branches.iter();
    let mut common = branches.next().cloned().unwrap_or_default();
    for other in branches {
        if other.len() != common.len() {
            let (a, b) = (common.len(), other.len());
            return Err(refuse(format!(
                "has {} in one branch and {b} in the other",
                counted(a, "output")
            )));
        }
        for (mine, theirs) in common.iter_mut().zip(other) {
            let types = (mine.and_then(|fact| fact.ty), theirs.and_then(|fact| fact.ty));
            match types {
                (Some(a), Some(b)) if a != b && either_exotic(a, b) => {
                    return Err(refuse(format!("makes {a} in one branch and {b} in the other")));
                }
                (Some(a), None) | (None, Some(a)) if a.is_exotic() => {
                    let problem =
                        format!("makes {a} in one branch and an unknown type in the other");
                    return Err(refuse(problem));
                }
                _ => {}
            }
            *mine = mine.zip(*theirs).map(|(a, b)| Fact {
                ty: a.ty.filter(|ty| Some(*ty) == b.ty),
                origin: a.origin.max(b.origin),
            });
        }
    }
    Ok(common)
}

/// The element type that a declaration gives; `None` where it gives none, or one that no Cast
/// accepts.
pub(crate) fn declared_type(
    declared: Option<&TypeProto>,
    what: &str,
    graph: &str,
) -> Result<Option<ElementType>, Error> {
    let Some(tensor) = tensor_type(declared) else { return Ok(None) };
    let id = tensor.elem_type;
    match ElementType::from_id(id) {
        Some(ty) => Ok(Some(ty)),
        // Undefined, and the complex types: tract will say what it thinks of those.
        None if matches!(id, 0 | 14 | 15) => Ok(None),
        None => {
            let name = name_of_id(id);
            Err(Error::graph(graph, format!("{what} has {name}, which is unknown")))
        }
    }
}

/// What the model declares of a value as an output, and of which body: a body may return what is
/// made outside of it.
pub(crate) fn output_declarations(
    graph: &Graph,
    value: ValueId,
) -> impl Iterator<Item = (BodyId, Option<&TypeProto>)> {
    graph.value(value).uses().filter_map(|used| match used {
        Use::Output(body, place) => {
            let output = graph.body(body).outputs().get(place)?;
            Some((body, output.declared.r#type.as_ref()))
        }
        Use::Node(..) => None,
    })
}

/// The type that the model declares of a value in the body that makes it, an output's declaration
/// before others.
pub(in crate::passes) fn declared_where_made(graph: &Graph, value: ValueId) -> Option<ElementType> {
    let made = graph.value(value);
    let output = output_declarations(graph, value).find(|(body, _)| *body == made.body());
    let of_output = output.and_then(|(_, declared)| element_type(declared));
    of_output.or_else(|| element_type(made.declared.as_ref()))
}

/// Refuses an input or output that is declared as something else than a tensor: tract has tensors
/// alone, and its messages hold no other type.
pub(in crate::passes) fn is_tensor(
    declared: Option<&TypeProto>,
    what: &str,
    name: &str,
    graph: &str,
) -> Result<(), Error> {
    if matches!(declared, Some(TypeProto { value: None, .. })) {
        return Err(Error::graph(graph, format!("{what} `{name}` is not declared as a tensor")));
    }
    Ok(())
}

/// Declares a value as its type's carrier.
pub(in crate::passes) fn set_carrier(declared: &mut Option<TypeProto>, ty: ElementType) {
    let carrier = ElementType::native(ty.datum_type()).unwrap_or(ty);
    let tensor = declared
        .get_or_insert_default()
        .value
        .get_or_insert_with(|| TypeValue::TensorType(type_proto::Tensor::default()));
    let TypeValue::TensorType(tensor) = tensor;
    tensor.elem_type = carrier as i32;
}

/// The sizes that the file tells of a value; `None` for one that is a symbol.
pub(in crate::passes) fn dims(graph: &Graph, mut value: ValueId) -> Option<Vec<Option<i64>>> {
    let maker = |value| graph.maker(value).map(|id| graph.node(id));
    while let Some(same) = maker(value).filter(|node| node.is("Cast") || node.is("Identity")) {
        value = same.input(0)?;
    }
    let reshape = maker(value).filter(|node| node.is("Reshape"));
    if let Some(sizes) = reshape.and_then(|node| graph.constant(node.input(1)?)) {
        let raw = sizes.raw_data.chunks_exact(8).filter_map(|bytes| bytes.try_into().ok());
        let known = sizes.int64_data.iter().copied().chain(raw.map(i64::from_le_bytes));
        let known: Vec<_> = known.map(|size| Some(size).filter(|size| *size > 0)).collect();
        return Some(known).filter(|known| sizes.dims == [known.len() as i64]);
    }
    if let Some(tensor) = graph.constant(value) {
        return Some(tensor.dims.iter().copied().map(Some).collect());
    }
    let declared = shape(graph.value(value).declared.as_ref())?;
    let size = |dimension: &Dimension| match dimension.value {
        Some(DimValue::DimValue(size)) => Some(size),
        _ => None,
    };
    Some(declared.dim.iter().map(size).collect())
}
