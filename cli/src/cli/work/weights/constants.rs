//! The constants of a model: initializers, what `Constant` nodes hold, and what is computed of them
//! alone; and the codes in which some are stored.

use std::borrow::Cow;
use std::collections::HashSet;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use anyhow::Context;
use onnx_cast_graph::{NodeView, subgraphs};
use tract_onnx::pb::attribute_proto::AttributeType;
use tract_onnx::pb::{AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto};
use tract_onnx::prelude::*;
use tract_onnx_cast::interpreter::SharedTensor;
use tract_onnx_cast::{CastOnnx, ElementType, Family, tensor_proto};

use crate::cli::found::weights::ComparedWeight;
use crate::cli::measure::elements::Elements;
use crate::cli::measure::weight::alike::Alike;
use crate::cli::measure::weight::change::{WEIGHT, WeightChange};
use crate::cli::measure::weight::compensated::CodedWeight;
use crate::cli::measure::weight::ends::EndCodes;
use crate::cli::measure::weight::steps::CodeScales;
use crate::cli::message::at;
use crate::cli::tensor::NamedTensor;

/// A model as far as its constants go.
#[derive(Clone, Copy)]
pub(crate) struct Holder<'a> {
    pub(crate) proto: &'a ModelProto,
    pub(crate) folder: Option<&'a Path>,
    pub(crate) onnx: &'a CastOnnx,
    /// The types of the codes of which constants of the main graph hold one in each byte.
    pub(crate) unpacked: &'a [(String, ElementType)],
}

/// A weight that is more than rounded, before it is judged.
pub(crate) struct ChangedWeight {
    pub(crate) fact: ComparedWeight,
    pub(crate) change: WeightChange,
    /// What became of all values alike.
    pub(super) alike: Option<Alike>,
}

/// A constant of a model.
pub(super) struct Constant<'a> {
    pub(super) name: String,
    /// The path of its graph below the main one; empty for the main one.
    pub(super) path: String,
    pub(super) ty: ElementType,
    pub(super) shape: Vec<usize>,
    /// The narrow type from which it is computed.
    pub(super) stored: Option<ElementType>,
    /// The names of the constants from which it is computed, its own included.
    pub(super) roots: HashSet<String>,
    /// Its codes, where it is dequantised.
    pub(super) codes: Option<StoredCodes<'a>>,
    held: HeldIn<'a>,
}

/// Codes, their scale, and the attributes of the `DequantizeLinear` that takes them.
#[derive(Clone, Copy)]
pub(super) struct StoredCodes<'a> {
    pub(super) codes: &'a TensorProto,
    pub(super) scale: &'a TensorProto,
    pub(super) attributes: &'a [AttributeProto],
    /// Whether the weight is a matrix that is turned behind that.
    pub(super) is_turned: bool,
}

impl<'a> StoredCodes<'a> {
    /// The weight that they stand for; `None` where the scale fits no layout, or the codes have
    /// more than 8 bits. Fails when they cannot be read.
    pub(super) fn read(&self, folder: Option<&'a Path>) -> TractResult<Option<CodedWeight<'a>>> {
        let codes = Elements::of_proto(self.codes, folder)?;
        let both = self.half_steps(folder)?.zip(EndCodes::of(codes.ty));
        Ok(both.map(|(steps, ends)| CodedWeight { codes, ends, steps: Arc::new(steps) }))
    }

    /// Half of their steps; `None` where the scale fits no layout. Fails when that cannot be read.
    pub(super) fn half_steps(&self, folder: Option<&Path>) -> TractResult<Option<CodeScales>> {
        let shape = self.codes.dims.iter().map(|dim| usize::try_from(*dim).ok());
        let Some(shape) = shape.collect::<Option<Vec<usize>>>() else { return Ok(None) };
        let (ty, scale) = tensor_proto::read(self.scale, folder)?;
        Ok(CodeScales::of(self.attributes, &shape, &(ty, Arc::new(scale)), 0.5))
    }
}

/// What computes the value of a name again.
pub(super) type Again<'a> = Rc<dyn Fn(&str) -> TractResult<Option<SharedTensor>> + 'a>;

/// Where the values are.
enum HeldIn<'a> {
    InFile(&'a TensorProto),
    InMemory(Tensor),
    /// The nodes of a model make them of constants.
    Computed(Again<'a>),
}

impl<'a> Constant<'a> {
    fn in_file(name: &str, path: &str, proto: &'a TensorProto) -> Option<Constant<'a>> {
        let dims = proto.dims.iter().map(|dim| usize::try_from(*dim).ok());
        Some(Constant {
            name: name.into(),
            path: path.into(),
            ty: ElementType::from_id(proto.data_type)?,
            shape: dims.collect::<Option<_>>()?,
            stored: None,
            roots: HashSet::from([name.to_owned()]),
            codes: None,
            held: HeldIn::InFile(proto),
        })
    }

    pub(super) fn in_memory(value: NamedTensor, path: &str) -> Constant<'a> {
        Constant {
            roots: HashSet::from([value.name.clone()]),
            name: value.name,
            path: path.into(),
            ty: value.ty,
            shape: value.tensor.shape().to_vec(),
            stored: None,
            codes: None,
            held: HeldIn::InMemory(value.tensor),
        }
    }

    /// How many elements it has.
    pub(super) fn elements(&self) -> usize {
        self.shape.iter().fold(1, |count, dim| count.saturating_mul(*dim))
    }

    /// How many bytes its elements have.
    pub(super) fn bytes(&self) -> u64 {
        (self.elements() as u64).saturating_mul(self.ty.bits().into()).div_ceil(8)
    }

    /// Whether it is a weight, by its type and size.
    pub(super) fn is_weight(&self) -> bool {
        self.is_float() && self.elements() >= WEIGHT
    }

    fn is_float(&self) -> bool {
        matches!(self.ty.family(), Family::Float(_))
    }

    /// Whether its values can be compared with those of another, by type and size. Integers in the
    /// place of floating-point numbers are codes.
    pub(super) fn may_be(&self, other: &Constant) -> bool {
        let is_text = |constant: &Constant| constant.ty.family() == Family::Text;
        self.elements() == other.elements()
            && self.is_float() == other.is_float()
            && is_text(self) == is_text(other)
    }

    /// Whether it is a matrix that the other one may be, turned.
    pub(super) fn is_turned(&self, other: &Constant) -> bool {
        let is_matrix = self.shape.len() == 2;
        is_matrix && self.shape != other.shape && self.shape.iter().rev().eq(&other.shape)
    }

    /// The same without its values, which are computed again when they are wanted.
    pub(super) fn forgotten(self, again: &Again<'a>) -> Constant<'a> {
        Constant { held: HeldIn::Computed(again.clone()), ..self }
    }

    /// The values. Fails when the file that holds them cannot be read, or is not what the model
    /// says.
    pub(super) fn values<'e>(&'e self, folder: Option<&'e Path>) -> TractResult<Elements<'e>> {
        let elements = match &self.held {
            HeldIn::InMemory(tensor) => return Ok(Elements::of(self.ty, Cow::Borrowed(tensor))),
            HeldIn::InFile(proto) => Elements::of_proto(proto, folder),
            HeldIn::Computed(again) => {
                let value = again(&self.name)?.context("it is computed of constants")?;
                Ok(Elements::of(value.0, Cow::Owned(Arc::unwrap_or_clone(value.1))))
            }
        };
        at(format!("weight `{}`", self.name), elements)
    }

    fn read(&self, folder: Option<&Path>) -> TractResult<NamedTensor> {
        self.values(folder)?.named(&self.name)
    }
}

/// The value of a constant of the main graph, if there is one of that name that can be read.
pub(crate) fn value_of(holder: &Holder, name: &str) -> Option<NamedTensor> {
    let all = of(holder.proto);
    let constant = all.iter().find(|constant| constant.path.is_empty() && constant.name == name)?;
    constant.read(holder.folder).ok()
}

/// The values of an initializer of the main graph, if there is one of that name that can be read. A
/// large matrix stays in its file until all of it is asked for.
pub(crate) fn initializer(holder: &Holder, name: &str) -> Option<SharedTensor> {
    let held = holder.proto.graph.as_ref()?.initializer.iter().find(|held| held.name == name)?;
    let (ty, tensor) = tensor_proto::read_late(held, holder.folder).ok()?;
    Some((ty, Arc::new(tensor)))
}

/// The elements of an initializer of the main graph that is no text, if there is one of that name
/// that can be read.
pub(crate) fn elements_of<'a>(holder: &Holder<'a>, name: &str) -> Option<Elements<'a>> {
    let held = holder.proto.graph.as_ref()?.initializer.iter().find(|held| held.name == name)?;
    let elements = Elements::of_proto(held, holder.folder).ok()?;
    (elements.ty.family() != Family::Text).then_some(elements)
}

/// The constants that a model holds, those in subgraphs and functions included.
pub(super) fn of(model: &ModelProto) -> Vec<Constant<'_>> {
    let mut found = vec![];
    if let Some(graph) = &model.graph {
        of_graph(graph, "", &mut found);
    }
    for function in &model.functions {
        of_nodes(&function.node, function.name.as_deref().unwrap_or_default(), &mut found);
    }
    found
}

fn of_graph<'a>(graph: &'a GraphProto, path: &str, found: &mut Vec<Constant<'a>>) {
    found.extend(graph.initializer.iter().filter_map(|t| Constant::in_file(&t.name, path, t)));
    of_nodes(&graph.node, path, found);
}

fn of_nodes<'a>(nodes: &'a [NodeProto], path: &str, found: &mut Vec<Constant<'a>>) {
    for node in nodes {
        let output = node.output.first().map_or("", String::as_str);
        if node.op_type == "Constant" {
            found.extend(node.attribute.iter().find_map(|held| of_attribute(output, path, held)));
        }
        for attribute in &node.attribute {
            for inner in subgraphs(attribute) {
                let separator = if path.is_empty() { "" } else { "/" };
                let path = format!("{path}{separator}{}.{}", node.label(), attribute.name);
                of_graph(inner, &path, found);
            }
        }
    }
}

/// What a `Constant` node holds.
fn of_attribute<'a>(name: &str, path: &str, attribute: &'a AttributeProto) -> Option<Constant<'a>> {
    let in_memory =
        |ty, tensor| Some(Constant::in_memory(NamedTensor { name: name.into(), ty, tensor }, path));
    match AttributeType::try_from(attribute.r#type).ok()? {
        AttributeType::Tensor => Constant::in_file(name, path, attribute.t.as_ref()?),
        AttributeType::Float => in_memory(ElementType::Float, tensor0(attribute.f)),
        AttributeType::Floats => in_memory(ElementType::Float, tensor1(&attribute.floats)),
        AttributeType::Int => in_memory(ElementType::Int64, tensor0(attribute.i)),
        AttributeType::Ints => in_memory(ElementType::Int64, tensor1(&attribute.ints)),
        _ => None,
    }
}

/// The elements of a tensor of rank 2 in the other order.
pub(super) fn transposed<'a>(elements: Elements) -> TractResult<Elements<'a>> {
    let NamedTensor { ty, tensor, .. } = elements.named("")?;
    let turned = tensor.permute_axes(&[1, 0]).context("has two axes")?;
    Ok(Elements::of(ty, Cow::Owned(turned)))
}
