//! Bounds constant folding: refuses models of which tract would materialise more than the limit while it loads them.

use onnx_cast_graph::{BodyId, Graph, Node, NodeView, Table, ValueId, attribute, int};
use tract_onnx::pb::tensor_shape_proto::dimension::Value::DimValue;
use tract_onnx::pb::{TensorProto, TypeProto};
use tract_onnx::prelude::TractResult;

use super::context::Context;
use crate::cast::element_type::ElementType;
use crate::error::Error;
use crate::onnx::declared_shapes::shape;
use crate::onnx::limits::beyond;
use crate::tensor::proto;

/// A constant that may be a shape has no more elements.
const LONGEST: f64 = 64.0;
/// What has no more elements is no bomb, however often it is there.
const FEW: f64 = 65536.0;

/// How many elements are in a byte or a number at most.
const MOST_IN_ONE: f64 = 8.0;

/// What is known of a value.
#[derive(Clone, Default)]
struct Known {
    /// Its elements, row by row, of a short constant.
    numbers: Option<Vec<f64>>,
    /// Its dimensions, if all of them are known.
    dims: Option<Vec<f64>>,
    /// How many elements it surely has: a dimension of 0 that is not known makes it none.
    least: f64,
    /// Whether it is made of constants alone, so that tract makes it when it loads the model.
    is_constant: bool,
}

impl Known {
    fn of_dims(dims: Vec<f64>) -> Known {
        let least = dims.iter().product();
        let dims = Some(dims).filter(|dims| dims.len() as f64 <= LONGEST);
        Known { numbers: None, dims, least, is_constant: false }
    }

    fn of_numbers(numbers: Vec<f64>) -> Known {
        let dims = vec![numbers.len() as f64];
        let numbers = Some(numbers).filter(|numbers| numbers.len() as f64 <= LONGEST);
        Known { numbers, ..Known::of_dims(dims) }
    }

    fn at_least(least: f64) -> Known {
        Known { least, ..Known::default() }
    }

    fn first(&self) -> Option<f64> {
        self.numbers.as_ref()?.first().copied()
    }
}

/// What is known of values.
type Values = Table<ValueId, Known>;

/// How much may be made.
struct Budget {
    limit: f64,
    /// How many elements were made of constants so far.
    made: f64,
    /// How many the inputs of the model may have, several times over.
    given: f64,
    /// How many dimensions a tensor may have.
    rank: u64,
}

/// Refuses the first node, of any body, that makes more than the limit of little, or with which what is made of constants is more.
///
/// # Errors
///
/// When there is such a node.
pub(super) fn check(graph: &mut Graph, context: &mut Context) -> TractResult<()> {
    const TIMES: f64 = 16.0;
    let inputs = graph.body(graph.main()).inputs().iter();
    let given = inputs.map(|input| declared(graph.value(*input).declared.as_ref()).least);
    let given = given.sum::<f64>() * TIMES;
    let (limit, rank) = (context.limits.made_elements as f64, context.limits.rank);
    let mut budget = Budget { limit, rank, made: 0.0, given };
    Ok(check_body(graph, graph.main(), &mut Values::default(), &mut budget)?)
}

fn check_body(
    graph: &Graph,
    body: BodyId,
    values: &mut Values,
    budget: &mut Budget,
) -> Result<(), Error> {
    for input in graph.body(body).inputs() {
        values.insert(*input, declared(graph.value(*input).declared.as_ref()));
    }
    for value in graph.body(body).constants() {
        if let Some(tensor) = graph.constant(*value) {
            values.insert(*value, Known { is_constant: true, ..constant(tensor) });
        }
    }
    for id in graph.nodes_of(body) {
        let node = graph.node(id);
        for held in node.bodies() {
            check_body(graph, held.body, values, budget)?;
        }
        if !node.is_onnx() {
            continue;
        }
        budget.check_rank(node, values)?;
        budget.check_window(node)?;
        let Some(mut made) = made(&Inputs { node, values }) else { continue };
        let mut inputs = node.inputs().iter().flatten();
        made.is_constant =
            inputs.all(|value| values.get(*value).is_some_and(|known| known.is_constant));
        budget.check(node, &made)?;
        if let Some(output) = node.output(0) {
            values.insert(output, made);
        }
    }
    Ok(())
}

impl Budget {
    /// A shape that is a constant has as many elements as what has the shape has dimensions.
    fn check_rank(&self, node: &Node, values: &Values) -> Result<(), Error> {
        let place = match &*node.op_type {
            "ConstantOfShape" => 0,
            "Expand" | "Reshape" | "Tile" | "Unsqueeze" => 1,
            _ => return Ok(()),
        };
        let shape = node.input(place).and_then(|value| values.get(value));
        let rank = shape.filter(|shape| shape.is_constant).map_or(0.0, |shape| shape.least) as u64;
        let axes = attribute(node, "axes").map_or(0, |axes| axes.ints.len() as u64);
        let rank = rank.max(axes);
        if rank > self.rank {
            let place = format!("node `{}` ({})", node.label(), node.op_type);
            return Err(beyond(place, "rank", rank, self.rank));
        }
        Ok(())
    }

    /// tract goes through all places of a window, those in the padding included, while it loads a model.
    fn check_window(&mut self, node: &Node) -> Result<(), Error> {
        let numbers = |name| attribute(node, name).map_or(&[][..], |numbers| &numbers.ints);
        let (pads, kernel) = (numbers("pads"), numbers("kernel_shape"));
        let (before, after) = pads.split_at(pads.len() / 2);
        let padded = before.iter().zip(after);
        let padded = padded.map(|(a, b)| 1.0 + (*a as f64).abs() + (*b as f64).abs());
        let kernel = kernel.iter().map(|size| (*size as f64).abs().max(1.0));
        let places = padded.product::<f64>().max(kernel.product());
        if places > FEW {
            self.made += places;
        }
        self.check_made(node, self.made)
    }

    fn check_made(&self, node: &Node, found: f64) -> Result<(), Error> {
        if found > self.limit {
            let place = format!("node `{}` ({})", node.label(), node.op_type);
            return Err(beyond(place, "made_elements", found as u64, self.limit as u64));
        }
        Ok(())
    }

    /// What is computed of inputs may be large; what a node makes of next to nothing may not.
    fn check(&mut self, node: &Node, made: &Known) -> Result<(), Error> {
        /// A text takes as much memory as so many numbers.
        const TEXT: f64 = 16.0;
        let is_text = matches!(&*node.op_type, "Cast" | "CastLike")
            && int(node, "to") == Some(ElementType::String as i64);
        let elements = made.least * if is_text { TEXT } else { 1.0 };
        if made.is_constant && elements > FEW && node.op_type != "Constant" {
            self.made += elements;
        }
        let is_maker = MAKERS.contains(&&*node.op_type);
        let found = if is_maker { self.made.max(elements - self.given) } else { self.made };
        self.check_made(node, found)
    }
}

/// The operators whose results have sizes that numbers tell, or that may double what there is.
const MAKERS: [&str; 14] = [
    "BlackmanWindow",
    "Concat",
    "ConstantOfShape",
    "ConvTranspose",
    "Expand",
    "HammingWindow",
    "HannWindow",
    "OneHot",
    "Pad",
    "RandomNormal",
    "RandomUniform",
    "Range",
    "Resize",
    "Tile",
];

/// Operators of several inputs whose dimensions are broadcast.
const BROADCASTING: [&str; 22] = [
    "Add",
    "And",
    "BitShift",
    "BitwiseAnd",
    "BitwiseOr",
    "BitwiseXor",
    "Div",
    "Equal",
    "Greater",
    "GreaterOrEqual",
    "Less",
    "LessOrEqual",
    "Max",
    "Mean",
    "Min",
    "Mod",
    "Mul",
    "Or",
    "Pow",
    "Sub",
    "Sum",
    "Where",
];

/// A node, and what is known of its inputs.
struct Inputs<'a> {
    node: &'a Node,
    values: &'a Values,
}

impl<'a> Inputs<'a> {
    fn at(&self, place: usize) -> Option<&'a Known> {
        self.node.input(place).and_then(|value| self.values.get(value))
    }

    fn numbers(&self, place: usize) -> Option<&'a [f64]> {
        self.at(place).and_then(|known| known.numbers.as_deref())
    }

    fn dims(&self, place: usize) -> Option<&'a [f64]> {
        self.at(place).and_then(|known| known.dims.as_deref())
    }

    /// How many elements the first input surely has.
    fn least(&self) -> f64 {
        self.at(0).map_or(1.0, |known| known.least)
    }

    fn list(&self, name: &str) -> Option<Vec<f64>> {
        let list = &attribute(self.node, name)?.ints;
        let list = Some(list).filter(|list| list.len() as f64 <= LONGEST)?;
        Some(list.iter().map(|number| *number as f64).collect())
    }

    fn axes(&self) -> Option<Vec<f64>> {
        self.numbers(1).map(<[f64]>::to_vec).or_else(|| self.list("axes"))
    }
}

/// What is known of a node's first output; `None` where nothing is.
fn made(inputs: &Inputs) -> Option<Known> {
    let node = inputs.node;
    Some(match &*node.op_type {
        "Constant" => constant_of(node),
        "Identity" | "Cast" | "CastLike" | "Abs" | "Neg" | "Not" | "Relu" | "Exp" | "Sqrt"
        | "Floor" | "Ceil" | "EyeLike" | "Trilu" => {
            let keeps = matches!(&*node.op_type, "Identity" | "Cast" | "CastLike");
            let known = inputs.at(0)?;
            Known { numbers: known.numbers.clone().filter(|_| keeps), ..known.clone() }
        }
        "Shape" if node.attributes.is_empty() => Known::of_numbers(inputs.dims(0)?.to_vec()),
        "Size" => {
            let size = inputs.dims(0)?.iter().product();
            Known { dims: Some(vec![]), ..Known::of_numbers(vec![size]) }
        }
        "ConstantOfShape" => Known::of_dims(inputs.numbers(0)?.to_vec()),
        "RandomNormal" | "RandomUniform" => Known::of_dims(inputs.list("shape")?),
        "HannWindow" | "HammingWindow" | "BlackmanWindow" => {
            Known::of_dims(vec![inputs.at(0)?.first()?])
        }
        "Expand" => expanded(inputs),
        "Tile" => tiled(inputs),
        "Range" => match [0, 1, 2].map(|place| inputs.numbers(place)) {
            [Some([start]), Some([limit]), Some([delta])] if *delta != 0.0 => {
                Known::of_dims(vec![((limit - start) / delta).ceil().max(0.0)])
            }
            _ => return None,
        },
        "Pad" => padded(inputs),
        "Resize" => resized(inputs)?,
        "ConvTranspose" => transposed(inputs),
        "OneHot" => Known::at_least(inputs.least() * inputs.at(1)?.first()?),
        "Gather" => gathered(inputs)?,
        "MatMul" => match (inputs.dims(0)?, inputs.dims(1)?) {
            ([outer_a @ .., rows, _], [outer_b @ .., _, columns]) => {
                let mut dims = broadcast([outer_a, outer_b].into_iter());
                dims.extend([*rows, *columns]);
                Known::of_dims(dims)
            }
            _ => return None,
        },
        "Concat" => concatenated(inputs)?,
        "Unsqueeze" => unsqueezed(inputs)?,
        "Reshape" => {
            let sizes = inputs.numbers(1).filter(|sizes| sizes.iter().all(|size| *size > 0.0));
            Known { dims: sizes.map(<[f64]>::to_vec), ..inputs.at(0)?.clone() }
        }
        "Squeeze" | "Flatten" => Known { dims: None, ..inputs.at(0)?.clone() },
        "Transpose" => Known { dims: None, numbers: None, ..inputs.at(0)?.clone() },
        op if BROADCASTING.contains(&op) => {
            let all = (0..node.inputs().len()).map(|place| inputs.dims(place));
            let all: Option<Vec<&[f64]>> = all.collect();
            let known = Known::of_dims(broadcast(all?.into_iter()));
            Known { numbers: computed(op, inputs.numbers(0), inputs.numbers(1)), ..known }
        }
        _ => return None,
    })
}

/// A dimension of 1, or -1, keeps that of the input.
fn expanded(inputs: &Inputs) -> Known {
    let least = inputs.least();
    match (inputs.dims(0), inputs.numbers(1)) {
        (Some(from), Some(to)) => Known::of_dims(broadcast([from, to].into_iter())),
        (_, Some(to)) => {
            Known::at_least(to.iter().map(|size| size.max(0.0)).product::<f64>().max(least))
        }
        _ => Known::at_least(least),
    }
}

fn tiled(inputs: &Inputs) -> Known {
    let least = inputs.least();
    match (inputs.dims(0), inputs.numbers(1)) {
        (Some(from), Some(times)) => Known::of_dims(along(from, times, |n, times| n * times)),
        (_, Some(times)) => Known::at_least(times.iter().product::<f64>() * least),
        _ => Known::at_least(least),
    }
}

fn padded(inputs: &Inputs) -> Known {
    let pads = inputs.numbers(1).map(<[f64]>::to_vec);
    let pads = pads.or_else(|| inputs.list("pads")).or_else(|| inputs.list("paddings"));
    let pads = pads.unwrap_or_default();
    let (before, after) = pads.split_at(pads.len() / 2);
    let added: Vec<f64> = before.iter().zip(after).map(|(a, b)| a + b).collect();
    match inputs.dims(0).filter(|dims| dims.len() == added.len()) {
        Some(from) => Known::of_dims(along(from, &added, |n, added| (n + added).max(0.0))),
        None => {
            let sizes = added.iter().map(|added| added.max(1.0));
            Known::at_least(sizes.product::<f64>().max(inputs.least()))
        }
    }
}

/// Sizes come after scales.
fn resized(inputs: &Inputs) -> Option<Known> {
    let is_given = |place: &usize| inputs.numbers(*place).is_some_and(|all| !all.is_empty());
    let place = (1..inputs.node.inputs().len()).rev().find(is_given)?;
    Some(match (inputs.numbers(place)?, inputs.dims(0)) {
        (scales, Some(from)) if place < 3 => {
            Known::of_dims(along(from, scales, |n, scale| (n * scale).floor()))
        }
        (scales, None) if place < 3 => {
            Known::at_least(scales.iter().product::<f64>().floor() * inputs.least())
        }
        (sizes, _) => Known::at_least(sizes.iter().product()),
    })
}

/// The spatial sizes of a `ConvTranspose`.
fn transposed(inputs: &Inputs) -> Known {
    let lists = ["strides", "output_padding", "output_shape"].map(|name| inputs.list(name));
    let [strides, pads, output] = lists;
    let made = |sizes: Vec<f64>| sizes.iter().map(|size| size.max(1.0)).product::<f64>();
    let spatial = inputs.dims(0).and_then(|dims| dims.get(2..)).unwrap_or_default();
    let strides = strides.unwrap_or_default();
    let of_strides = strides.iter().enumerate().map(|(axis, stride)| {
        let size = spatial.get(axis).copied().unwrap_or(1.0);
        let added = pads.as_ref().and_then(|pads| pads.get(axis)).copied().unwrap_or(0.0);
        (size - 1.0) * stride + added + 1.0
    });
    Known::at_least(made(of_strides.collect()).max(output.map_or(1.0, made)))
}

fn gathered(inputs: &Inputs) -> Option<Known> {
    let axis = int(inputs.node, "axis").unwrap_or(0);
    let axis = if axis < 0 { axis + inputs.dims(0)?.len() as i64 } else { axis };
    let along = inputs.dims(0)?.get(usize::try_from(axis).ok()?)?.max(1.0);
    let known = Known::at_least(inputs.least() / along * inputs.at(1)?.least);
    let taken = |index: &f64| inputs.numbers(0)?.get(*index as usize).copied();
    let numbers = inputs.numbers(1).and_then(|list| list.iter().map(taken).collect());
    Some(Known { numbers, ..known })
}

fn concatenated(inputs: &Inputs) -> Option<Known> {
    let parts = (0..inputs.node.inputs().len()).map(|place| inputs.at(place));
    let parts: Vec<&Known> = parts.collect::<Option<_>>()?;
    let numbers = parts.iter().map(|part| part.numbers.clone());
    let is_flat = parts.iter().all(|part| part.dims.as_ref().is_some_and(|d| d.len() == 1));
    Some(match numbers.collect::<Option<Vec<_>>>().filter(|_| is_flat) {
        Some(numbers) => Known::of_numbers(numbers.concat()),
        None => Known::at_least(parts.iter().map(|part| part.least).sum()),
    })
}

fn unsqueezed(inputs: &Inputs) -> Option<Known> {
    let (mut axes, from) = (inputs.axes()?, inputs.dims(0)?);
    let rank = (axes.len() + from.len()) as f64;
    axes.iter_mut().filter(|axis| **axis < 0.0).for_each(|axis| *axis += rank);
    let mut rest = from.iter();
    let dim = |axis: usize| {
        if axes.contains(&(axis as f64)) { Some(1.0) } else { rest.next().copied() }
    };
    let dims: Option<Vec<f64>> = (0..axes.len() + from.len()).map(dim).collect();
    Some(Known { dims, ..inputs.at(0)?.clone() })
}

/// The elements of a sum and the like, where those of both operands are known and as many, or one.
fn computed(op: &str, a: Option<&[f64]>, b: Option<&[f64]>) -> Option<Vec<f64>> {
    let (a, b) = (a?, b?);
    let compute = |a: f64, b: f64| match op {
        "Add" => Some(a + b),
        "Sub" => Some(a - b),
        "Mul" => Some(a * b),
        "Div" if b != 0.0 => Some((a / b).trunc()),
        "Max" => Some(a.max(b)),
        "Min" => Some(a.min(b)),
        "Pow" => Some(a.powf(b)),
        _ => None,
    };
    let length = a.len().max(b.len());
    if [a.len(), b.len()].iter().any(|other| ![1, length].contains(other)) {
        return None;
    }
    let pairs = a.iter().cycle().zip(b.iter().cycle()).take(length);
    pairs.map(|(a, b)| compute(*a, *b)).collect()
}

/// The dimensions that several shapes have together.
fn broadcast<'a>(shapes: impl Iterator<Item = &'a [f64]> + Clone) -> Vec<f64> {
    let rank = shapes.clone().map(<[f64]>::len).max().unwrap_or(0);
    let dim = |from_end: usize| {
        let sizes = shapes.clone().filter_map(|shape| {
            shape.len().checked_sub(from_end + 1).and_then(|axis| shape.get(axis)).copied()
        });
        let sizes: Vec<f64> = sizes.collect();
        match sizes.contains(&0.0) {
            true => 0.0,
            false => sizes.into_iter().fold(1.0, f64::max),
        }
    };
    (0..rank).rev().map(dim).collect()
}

/// The dimensions, each with its number.
fn along(dims: &[f64], numbers: &[f64], make: impl Fn(f64, f64) -> f64) -> Vec<f64> {
    dims.iter().zip(numbers).map(|(dim, number)| make(*dim, *number)).collect()
}

/// What a graph declares of an input.
fn declared(value: Option<&TypeProto>) -> Known {
    let Some(shape) = shape(value) else { return Known::at_least(1.0) };
    let size = |value: &Option<_>| match value {
        Some(DimValue(size)) => Some(size.max(&0)).map(|size| *size as f64),
        _ => None,
    };
    let dims = shape.dim.iter().map(|dim| size(&dim.value));
    let least = dims.clone().map(|dim| dim.unwrap_or(1.0)).product();
    dims.collect::<Option<_>>().map_or_else(|| Known::at_least(least), Known::of_dims)
}

fn constant(tensor: &TensorProto) -> Known {
    let known = Known::of_dims(tensor.dims.iter().map(|dim| *dim as f64).collect());
    // What is wrong with a tensor that holds less than it declares is said where it is read.
    let held = tensor.raw_data.len() + tensor.int32_data.len() + tensor.float_data.len();
    let held = held + tensor.int64_data.len() + tensor.double_data.len() + tensor.string_data.len();
    let most = (held + tensor.uint64_data.len()) as f64 * MOST_IN_ONE;
    let is_inside = tensor.external_data.is_empty();
    if tensor.dims.iter().any(|dim| *dim < 0) || is_inside && known.least > most {
        return Known::default();
    }
    let is_short = (0.0..=LONGEST).contains(&known.least);
    let numbers = || {
        let (ty, tensor) = proto::read(tensor, None).ok()?;
        let view = tensor.try_as_plain_ram().ok()?;
        Some(match ty {
            ElementType::Int64 => view.as_slice::<i64>().ok()?.iter().map(|n| *n as f64).collect(),
            ElementType::Int32 => {
                view.as_slice::<i32>().ok()?.iter().map(|n| (*n).into()).collect()
            }
            ElementType::Float => {
                view.as_slice::<f32>().ok()?.iter().map(|n| (*n).into()).collect()
            }
            ElementType::Double => view.as_slice::<f64>().ok()?.to_vec(),
            _ => return None,
        })
    };
    Known { numbers: is_short.then(numbers).flatten(), ..known }
}

fn constant_of(node: &Node) -> Known {
    let Some(attribute) = node.attributes.first() else { return Known::default() };
    let numbers = match (&*attribute.name, &attribute.t) {
        ("value", Some(tensor)) => return constant(tensor),
        ("value_ints", _) => attribute.ints.iter().map(|number| *number as f64).collect(),
        ("value_int", _) => vec![attribute.i as f64],
        ("value_float", _) => vec![attribute.f.into()],
        ("value_floats", _) => attribute.floats.iter().map(|number| (*number).into()).collect(),
        _ => return Known::at_least(1.0),
    };
    let known = Known::of_numbers(numbers);
    let is_scalar = matches!(&*attribute.name, "value_int" | "value_float");
    Known { dims: if is_scalar { Some(vec![]) } else { known.dims.clone() }, ..known }
}

#[cfg(test)]
mod tests;
