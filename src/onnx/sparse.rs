//! Sparse tensors of a file, made dense: no engine here has others.

use anyhow::bail;
use onnx_cast_graph::{counted, value_attribute};
use tract_onnx::pb::{GraphProto, ModelProto, NodeProto, SparseTensorProto, TensorProto};
use tract_onnx::prelude::*;

use super::limits::Limits;
use super::node::refusal;
use crate::cast::element_type::ElementType;
use crate::error::{Error, shown};
use crate::tensor::proto;

/// Puts dense tensors in the place of sparse initializers and constants, in all graphs and
/// functions. Fails when one contradicts itself, lies in a file beside the model, or is larger than
/// may be made.
pub(crate) fn densify(model: &mut ModelProto, limits: &Limits) -> Result<(), Error> {
    for function in &mut model.functions {
        function.node.iter_mut().try_for_each(|node| in_node(node, limits))?;
    }
    model.graph.as_mut().map_or(Ok(()), |graph| in_graph(graph, limits))
}

fn in_graph(graph: &mut GraphProto, limits: &Limits) -> Result<(), Error> {
    for sparse in std::mem::take(&mut graph.sparse_initializer) {
        let name = sparse.values.as_ref().map_or("", |values| &values.name);
        let made = dense(&sparse, limits).map_err(|problem| {
            let name = shown(name);
            Error::graph(&graph.name, format!("has a sparse initializer `{name}` {problem:#}"))
        })?;
        graph.initializer.push(made);
    }
    graph.node.iter_mut().try_for_each(|node| in_node(node, limits))
}

fn in_node(node: &mut NodeProto, limits: &Limits) -> Result<(), Error> {
    let is_constant = node.op_type == "Constant";
    let place = node.attribute.iter().position(|attribute| attribute.name == "sparse_value");
    let attribute = place.filter(|_| is_constant).and_then(|place| node.attribute.get(place));
    if let (Some(sparse), Some(place)) = (attribute.and_then(|it| it.sparse_tensor.as_ref()), place)
    {
        let refuse = |problem| refusal(node, format!("has a `sparse_value` {problem:#}"));
        let made = value_attribute(dense(sparse, limits).map_err(refuse)?);
        node.attribute.splice(place..=place, [made]);
    }
    for attribute in &mut node.attribute {
        let mut graphs = attribute.g.iter_mut().chain(&mut attribute.graphs);
        graphs.try_for_each(|graph| in_graph(graph, limits))?;
    }
    Ok(())
}

fn dense(sparse: &SparseTensorProto, limits: &Limits) -> TractResult<TensorProto> {
    let (Some(values), Some(indices)) = (&sparse.values, &sparse.indices) else {
        bail!("without values or without indices");
    };
    let dims = &sparse.dims;
    let shape: Option<Vec<usize>> = dims.iter().map(|dim| usize::try_from(*dim).ok()).collect();
    let count =
        |shape: &Vec<usize>| shape.iter().try_fold(1usize, |all, dim| all.checked_mul(*dim));
    let sizes = shape.and_then(|shape| Some((count(&shape)?, shape)));
    let Some((count, shape)) = sizes else { bail!("of shape {dims:?}, which there cannot be") };
    let (ty, given) = proto::read(values, None)?;
    let bytes = (count as u64).saturating_mul(given.datum_type().size_of() as u64);
    if bytes > limits.made_bytes {
        bail!("of {bytes} bytes, beyond the limit `made_bytes` of {}", limits.made_bytes);
    }
    if given.rank() != 1 || ty == ElementType::Float8E8M0 {
        bail!("of {ty} values of shape {:?}, which is no list beside zeros", given.shape());
    }
    let places = places(indices, &shape, count, given.len())?;
    let mut made = Tensor::zero_dt(given.datum_type(), &[count])?;
    for (from, to) in places.into_iter().enumerate() {
        made.assign_slice(to..to + 1, &given, from..from + 1, 0)?;
    }
    made.set_shape(&shape)?;
    Ok(proto::write(&values.name, ty, &made)?)
}

/// Where values are among all elements.
fn places(
    indices: &TensorProto,
    shape: &[usize],
    count: usize,
    values: usize,
) -> TractResult<Vec<usize>> {
    let (ty, indices) = proto::read(indices, None)?;
    let dims = match indices.shape() {
        _ if ty != ElementType::Int64 => bail!("whose indices are {ty}, not INT64"),
        [rows] if *rows == values => &[count][..],
        [rows, rank] if *rows == values && *rank == shape.len() => shape,
        other => bail!("of {} and indices of shape {other:?}", counted(values, "value")),
    };
    let plain = indices.try_as_plain_ram()?;
    let mut places: Vec<usize> = vec![];
    for row in plain.as_slice::<i64>()?.chunks(dims.len().max(1)) {
        let mut place = 0;
        for (index, dim) in row.iter().zip(dims) {
            match usize::try_from(*index) {
                Ok(index) if index < *dim => place = place * dim + index,
                _ => bail!("with an index {index} of an axis of {dim}"),
            }
        }
        if places.last().is_some_and(|last| *last >= place) {
            bail!("whose indices do not ascend");
        }
        places.push(place);
    }
    if places.len() != values {
        bail!("of {}, whose indices are {}", counted(values, "value"), places.len());
    }
    Ok(places)
}
