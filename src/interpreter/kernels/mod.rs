//! Operators that no plan has, computed as they are defined, one element after the other.
//!
//! - `numbers`: `CumProd`, `Det`, `Unique`
//! - `texts`: STRING, and `LabelEncoder`
//! - `terms`: `TfIdfVectorizer`
//! - `patches`: `Col2Im`, `DeformConv`, `RoiAlign`
//! - `linear`: `LinearAttention`
//! - `regions`: `MaxRoiPool`, `FeatureVectorizer`
//! - `trees`: `TreeEnsemble`; `vectors`: `SVMClassifier`, `SVMRegressor`; `transforms` of scores

mod linear;
mod numbers;
mod patches;
mod regions;
mod terms;
mod texts;
mod transforms;
mod trees;
mod vectors;

use onnx_cast_graph::{Node, attribute, one_domain};
use tract_onnx::pb::AttributeProto;
use tract_onnx::prelude::tract_ndarray::ArrayD;
use tract_onnx::prelude::*;

use super::value::TypedTensor;
use crate::cast::element_type::ElementType;
use crate::cast::rules::Rules;
use crate::error::shown;
use crate::onnx::node::{attribute_type, refusal};
use crate::onnx::operators::attributes::{Version, all, parsed, version};
use crate::tensor::conversion::Conversion;

/// What computes a node's outputs by place, given its inputs by place.
pub(super) type Kernel = fn(&KernelSite, &KernelInputs) -> KernelOutputs;

/// The inputs of a node by place; `None` for one that is not given.
pub(super) type KernelInputs = [Option<TypedTensor>];

/// The outputs of a node by place, or why they cannot be computed.
pub(super) type KernelOutputs = TractResult<Vec<TypedTensor>>;

/// The most elements that sizes among the attributes may ask for.
const MOST: usize = 1 << 31;

const MICROSOFT: &str = "com.microsoft";

/// By domain and operator.
const KERNELS: &[(&str, &str, Kernel)] = &[
    ("", "Col2Im", patches::col2im),
    ("", "CumProd", numbers::cumulative_product),
    ("", "DeformConv", patches::deformed),
    ("", "Det", numbers::determinant),
    ("", "LinearAttention", linear::attention),
    ("", "MaxRoiPool", regions::greatest),
    ("", "RoiAlign", patches::aligned),
    ("", "StringConcat", texts::concat),
    ("", "StringNormalizer", texts::normalize),
    ("", "StringSplit", texts::split),
    ("", "TfIdfVectorizer", terms::frequencies),
    ("", "Unique", numbers::unique),
    ("ai.onnx.ml", "FeatureVectorizer", regions::features),
    ("ai.onnx.ml", "LabelEncoder", texts::labels),
    ("ai.onnx.ml", "SVMClassifier", vectors::classifier),
    ("ai.onnx.ml", "SVMRegressor", vectors::regressor),
    ("ai.onnx.ml", "TreeEnsemble", trees::ensemble),
    (MICROSOFT, "LinearAttention", linear::attention),
];

/// What computes a node, if it is one of these.
pub(super) fn kernel(node: &Node) -> Option<Kernel> {
    let domain = one_domain(&node.domain);
    let is = |(own, name, _): &&(&str, &str, Kernel)| *own == domain && *name == node.op_type;
    KERNELS.iter().find(is).map(|(.., kernel)| *kernel)
}

/// The operators that are computed here, with their domains.
#[cfg(test)]
pub(super) fn operators() -> impl Iterator<Item = (&'static str, &'static str)> {
    KERNELS.iter().map(|(domain, operator, _)| (*domain, *operator))
}

/// The version of a node's operator: by the model's import in ONNX's own domain, else the newest
/// that has all of the node's attributes, as `LabelEncoder` has others in version 1.
fn of_attributes(node: &Node) -> Option<&'static Version> {
    let domain = one_domain(&node.domain);
    let newest = version(domain, &node.op_type, node.opset);
    if domain.is_empty() {
        return newest;
    }
    let has_all = |version: &&Version| {
        node.attributes.iter().all(|given| version.attribute(&given.name).is_some())
    };
    all(domain, &node.op_type).iter().rfind(has_all).or(newest)
}

/// A node, and its operator in the node's version.
pub(super) struct KernelSite<'a> {
    node: &'a Node,
    version: Option<&'static Version>,
}

impl KernelSite<'_> {
    /// A node, whose attributes are those that its operator has.
    /// Fails when it has another one, or one of another type, or lacks one.
    pub(super) fn of(node: &Node) -> TractResult<KernelSite<'_>> {
        let version = of_attributes(node);
        let site = KernelSite { node, version };
        for given in &node.attributes {
            let known = site.version.and_then(|version| version.attribute(&given.name));
            if known.is_none_or(|known| known.ty != attribute_type(given)) {
                let name = shown(&given.name);
                return site.refuse(format!("has no such attribute `{name}`"));
            }
        }
        let all = site.version.map_or(&[][..], |version| &version.attributes);
        let is_missing = |name: &str| attribute(node, name).is_none();
        match all.iter().find(|known| known.is_required && is_missing(known.name)) {
            Some(known) => site.refuse(format!("lacks attribute `{}`", known.name)),
            None => Ok(site),
        }
    }

    fn refuse<T>(&self, problem: impl Into<String>) -> TractResult<T> {
        let (problem, opset) = (problem.into(), self.node.opset);
        Err(refusal(self.node, format!("{problem}, the model imports {opset}")).into())
    }

    /// An attribute, or its default.
    fn attribute(&self, name: &str) -> Option<AttributeProto> {
        let own = attribute(self.node, name).cloned();
        own.or_else(|| parsed(self.version?.attribute(name)?))
    }

    fn int(&self, name: &str) -> i64 {
        self.attribute(name).map_or(0, |attribute| attribute.i)
    }

    fn ints(&self, name: &str) -> Option<Vec<i64>> {
        self.attribute(name).map(|attribute| attribute.ints)
    }

    /// Sizes, of which there are as many as axes; without the attribute all the same.
    fn sizes(&self, name: &str, count: usize, default: i64) -> TractResult<Vec<i64>> {
        let sizes = self.ints(name).unwrap_or_else(|| vec![default; count]);
        let is_sound = |size: &i64| (0..=MOST as i64).contains(size);
        if sizes.len() != count || !sizes.iter().all(is_sound) {
            return self.refuse(format!("has attribute `{name}` {sizes:?} of {count} numbers"));
        }
        Ok(sizes)
    }

    fn word(&self, name: &str) -> String {
        let word = self.attribute(name).map(|attribute| attribute.s);
        String::from_utf8_lossy(&word.unwrap_or_default()).into_owned()
    }

    fn input<'i>(&self, inputs: &'i KernelInputs, place: usize) -> TractResult<&'i TypedTensor> {
        match inputs.get(place) {
            Some(Some(typed)) => Ok(typed),
            _ => self.refuse(format!("lacks input {place}, which it needs")),
        }
    }

    /// An input as DOUBLE.
    fn doubles(&self, inputs: &KernelInputs, place: usize) -> TractResult<ArrayD<f64>> {
        let typed = self.input(inputs, place)?;
        if typed.ty == ElementType::BFloat16 {
            let wide = Conversion::new(typed.ty, ElementType::Double, Rules::default());
            return Ok(wide.run(&typed.tensor)?.to_plain_array_view::<f64>()?.to_owned());
        }
        if typed.ty.is_exotic() || typed.ty == ElementType::String {
            return self
                .refuse(format!("has an input {place} of {}, which is not computed", typed.ty));
        }
        let wide = typed.tensor.cast_to::<f64>()?;
        Ok(wide.to_plain_array_view::<f64>()?.to_owned())
    }

    /// The same, of as many axes as `rank`.
    fn of_rank(
        &self,
        inputs: &KernelInputs,
        place: usize,
        rank: usize,
    ) -> TractResult<ArrayD<f64>> {
        let array = self.doubles(inputs, place)?;
        if array.ndim() == rank {
            Ok(array)
        } else {
            self.refuse(format!("has an input {place} of rank {}, not {rank}", array.ndim()))
        }
    }

    fn numbers(&self, inputs: &KernelInputs, place: usize) -> TractResult<Vec<i64>> {
        let tensor = self.input(inputs, place)?.tensor.cast_to::<i64>()?;
        Ok(tensor.try_as_plain_ram()?.as_slice::<i64>()?.to_vec())
    }

    /// A shape, if it has no more elements than there may be.
    fn shape(&self, sizes: &[i64]) -> TractResult<Vec<usize>> {
        let shape: Option<Vec<usize>> =
            sizes.iter().map(|size| usize::try_from(*size).ok()).collect();
        let count =
            |shape: &Vec<usize>| shape.iter().try_fold(1usize, |all, n| all.checked_mul(*n));
        match shape.filter(|shape| count(shape).is_some_and(|count| count <= MOST)) {
            Some(shape) => Ok(shape),
            None => self.refuse(format!("would make an output of the shape {sizes:?}")),
        }
    }

    /// An output of the type of another tensor.
    fn made(&self, array: ArrayD<f64>, like: &TypedTensor) -> TractResult<TypedTensor> {
        if like.ty == ElementType::BFloat16 {
            let narrow = Conversion::new(ElementType::Double, like.ty, Rules::default());
            return TypedTensor::new(like.ty, narrow.run_owned(array.into_tensor())?);
        }
        let tensor = array.into_tensor().cast_to_dt(like.ty.datum_type())?.into_owned();
        TypedTensor::new(like.ty, tensor)
    }
}
