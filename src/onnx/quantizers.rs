//! `QuantizeLinear` and `DequantizeLinear` nodes: what one asks for, by its operator's version, and
//! the private form in which tract's loader gets it ([SEMANTICS §13](crate::semantics)).

use std::sync::Arc;

use tract_onnx::pb::AttributeProto;
use tract_onnx::pb::attribute_proto::AttributeType;

use super::node::{NodeView, attribute_type};
use super::operators::attributes;
use super::operators::schema::{self, ParameterType, Schema};
use crate::cast::element_type::{self, ElementType};
use crate::cast::quantize::operator::{Dequantize, Quantize, Quantizer, default_precision};
use crate::error::{Cause, Error};

pub(crate) const QUANTIZE: &str = "QuantizeLinear";
const DEQUANTIZE: &str = "DequantizeLinear";

/// The domains beside ONNX's own in which exporters write the two operators, for types that the
/// opset does not have yet.
const FOREIGN: &[&str] = &["com.microsoft", "trt"];

/// Whether a node is one of the two operators, as it stands in a file.
pub(crate) fn is_quantizer(node: &(impl NodeView + ?Sized)) -> bool {
    let is_known = node.is_onnx() || FOREIGN.contains(&node.domain());
    is_known && matches!(node.op_type(), QUANTIZE | DEQUANTIZE)
}

/// What a `QuantizeLinear` or `DequantizeLinear` node asks for, valid for its version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct QuantizerSpec {
    pub(crate) node: String,
    pub(crate) quantizes: bool,
    /// The opset of the default domain that the model imports.
    pub(crate) opset: i64,
    /// That by which the node is judged: another domain's operator has every type.
    pub(crate) judged_by: i64,
    pub(crate) has_zero_point: bool,
    pub(crate) axis: i64,
    /// 0 for none.
    pub(crate) block_size: usize,
    pub(crate) saturate: bool,
    pub(crate) precision: Option<ElementType>,
    pub(crate) output: Option<ElementType>,
    /// The types of x, the scale and the zero point, where they are exotic; native ones are what
    /// tract says.
    pub(crate) exotic: [Option<ElementType>; 3],
}

/// A `QuantizeLinear` or `DequantizeLinear` node of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct QuantizerNode {
    /// The node's name, or its output where it has none; in a model-local function, with the call's
    /// name in front. A part of an operator that is written out as several has that node's name in
    /// front.
    pub node: String,
    /// ONNX's name of the operator.
    pub operator: &'static str,
    /// The operator's version; the newest in a domain that is not ONNX's own.
    pub version: i64,
    /// The type of x, where it is known before tract analyses the model.
    pub x: Option<ElementType>,
    /// The type of the scale, where it is known before tract analyses the model.
    pub scale: Option<ElementType>,
    /// The type of y, where it is known before tract analyses the model.
    pub y: Option<ElementType>,
    /// Whether it has a zero point.
    pub has_zero_point: bool,
    /// The attribute `axis`, or its default.
    pub axis: i64,
    /// The attribute `block_size`; 0 for none.
    pub block_size: usize,
    /// The attribute `saturate`, or its default.
    pub saturate: bool,
    /// The attribute `precision`, if the node has it.
    pub precision: Option<ElementType>,
    /// The name of the graph that the node is in; for a subgraph, the path to it.
    pub graph: Arc<str>,
    /// Whether its inputs are made of constants alone, so that it is computed when the model is
    /// loaded.
    pub is_constant: bool,
}

impl QuantizerNode {
    /// Whether it is a `QuantizeLinear`.
    pub(crate) fn quantizes(&self) -> bool {
        self.operator == QUANTIZE
    }
}

impl QuantizerSpec {
    /// Reads a node as it stands in the file of a model that imports `opset` of the default domain.
    /// Fails when its number of inputs or outputs is wrong, or any attribute is one that this
    /// version of the operator does not have.
    pub(crate) fn parse(
        node: &(impl NodeView + ?Sized),
        opset: i64,
    ) -> Result<QuantizerSpec, Error> {
        let is_foreign = !node.is_onnx();
        let mut spec = QuantizerSpec {
            node: node.label().into(),
            quantizes: node.op_type() == QUANTIZE,
            opset,
            judged_by: if is_foreign { i64::MAX } else { opset },
            has_zero_point: node.gives(2),
            axis: 1,
            block_size: 0,
            saturate: true,
            precision: None,
            output: None,
            exotic: [None; 3],
        };
        if spec.schema().is_none() {
            let first = schema::versions(spec.name()).first().map_or(1, |schema| schema.since);
            return Err(spec.refuse(format!("needs opset {first}, the model imports {opset}")));
        }
        let (given, made) = (node.input_places(), node.output_places());
        if !node.gives(0) || !node.gives(1) || given > 3 || made != 1 {
            return Err(spec.refuse(format!(
                "needs 2 or 3 inputs and one output, has {given} and {made} (opset {opset})"
            )));
        }
        for attribute in node.attributes() {
            spec.read_attribute(attribute)?;
        }
        Ok(spec)
    }

    /// ONNX's name of the operator.
    pub(crate) fn name(&self) -> &'static str {
        if self.quantizes { QUANTIZE } else { DEQUANTIZE }
    }

    fn schema(&self) -> Option<&'static Schema> {
        let versions = schema::versions(self.name());
        versions.iter().rfind(|schema| schema.since <= self.judged_by)
    }

    /// An error that names the node and the model's opset.
    pub(crate) fn error(&self, problem: impl std::fmt::Display) -> Error {
        self.refuse(format!("{problem}, the model imports {}", self.opset))
    }

    fn refuse(&self, problem: String) -> Error {
        Error::of_node(&self.node, self.name(), problem)
    }

    fn refuse_attribute(&self, attribute: &str, problem: String) -> Error {
        Cause::Attribute {
            node: self.node.clone(),
            attribute: attribute.into(),
            problem: format!("{problem} ({})", self.name()),
            opset: self.opset,
        }
        .into()
    }

    fn unknown(&self, attribute: &str) -> Error {
        self.refuse_attribute(attribute, "is unknown in every opset".into())
    }

    fn read_attribute(&mut self, attribute: &AttributeProto) -> Result<(), Error> {
        let name = attribute.name.as_str();
        let mut versions = attributes::all("", self.name()).iter();
        let Some(first) = versions.find(|version| version.attribute(name).is_some()) else {
            return Err(self.unknown(name));
        };
        if self.judged_by < first.since {
            return Err(self.refuse_attribute(name, format!("needs opset {}", first.since)));
        }
        if !attribute.ref_attr_name.is_empty() {
            let problem = "refers to an attribute of a function".into();
            return Err(self.refuse_attribute(name, problem));
        }
        let got = attribute_type(attribute);
        // A file older than IR version 2 has no types, and a 0 there is no field that is set.
        if !matches!(got, AttributeType::Int | AttributeType::Undefined) {
            let problem = format!("must be an INT, is {}", got.as_str_name());
            return Err(self.refuse_attribute(name, problem));
        }
        let number = attribute.i;
        match name {
            "axis" => self.axis = number,
            "saturate" => self.saturate = number != 0,
            "block_size" => {
                self.block_size = usize::try_from(number)
                    .map_err(|_| self.refuse_attribute(name, format!("is {number}, below 0")))?;
            }
            "precision" => self.precision = self.element_type(name, number)?,
            "output_dtype" => self.output = self.element_type(name, number)?,
            _ => return Err(self.unknown(name)),
        }
        Ok(())
    }

    /// The type that an attribute names; 0 is the default.
    fn element_type(&self, attribute: &str, id: i64) -> Result<Option<ElementType>, Error> {
        let id32 = i32::try_from(id).unwrap_or(-1);
        let refuse = |ty: String| {
            let problem = format!("is {id} ({ty}), which is no {attribute} of this operator");
            Err(self.refuse_attribute(attribute, problem))
        };
        match ElementType::from_id(id32) {
            _ if id == 0 => Ok(None),
            None => refuse(element_type::name_of_id(id32)),
            Some(ty) if attribute == "precision" => match ty {
                ElementType::Float | ElementType::Float16 | ElementType::BFloat16 => Ok(Some(ty)),
                _ => refuse(ty.name().into()),
            },
            Some(ty) => {
                let allows = |schema: &Schema| {
                    schema.output(0).is_some_and(|output| schema.allows(output.ty, ty))
                };
                match self.first_version(allows) {
                    Some(since) if since <= self.judged_by => Ok(Some(ty)),
                    Some(since) => {
                        let problem = format!("asks for {ty}, which needs opset {since}");
                        Err(self.refuse_attribute(attribute, problem))
                    }
                    None => refuse(ty.name().into()),
                }
            }
        }
    }

    /// The first version of the operator that has something.
    fn first_version(&self, has: impl Fn(&Schema) -> bool) -> Option<i64> {
        let versions = schema::versions(self.name());
        versions.iter().find(|schema| has(schema)).map(|schema| schema.since)
    }

    /// The node as it is told of: one of the graph at the path `graph`, with inputs of these types.
    /// Fails when the operator's version does not have these types.
    pub(crate) fn check(
        &mut self,
        types: [Option<ElementType>; 3],
        graph: Arc<str>,
        is_constant: bool,
    ) -> Result<QuantizerNode, Error> {
        let [x, scale, zero_point] = types;
        let zero_point = zero_point.filter(|_| self.has_zero_point);
        self.exotic = [x, scale, zero_point].map(|ty| ty.filter(|ty| ty.is_exotic()));
        let y = self.y(scale, zero_point)?;
        if let (Some(x), Some(scale)) = (x, scale)
            && zero_point.is_some() == self.has_zero_point
        {
            self.quantizer(x, scale, zero_point)?;
        }
        let version = self.schema().map_or(self.opset, |schema| schema.since);
        let operator = self.name();
        // The type of y is what `output_dtype` says.
        let QuantizerSpec {
            node,
            quantizes: _,
            opset: _,
            judged_by: _,
            has_zero_point,
            axis,
            block_size,
            saturate,
            precision,
            output: _,
            exotic: _,
        } = self.clone();
        Ok(QuantizerNode {
            node,
            operator,
            version,
            x,
            scale,
            y,
            has_zero_point,
            axis,
            block_size,
            saturate,
            precision,
            graph,
            is_constant,
        })
    }

    /// The type of y, from those of the scale and the zero point, where they are known.
    fn y(
        &self,
        scale: Option<ElementType>,
        zero_point: Option<ElementType>,
    ) -> Result<Option<ElementType>, Error> {
        if !self.quantizes {
            if self.output.is_none() && scale == Some(ElementType::Float8E8M0) {
                let problem = "is missing, and the scale is FLOAT8E8M0, which y cannot be";
                return Err(self.refuse_attribute("output_dtype", problem.into()));
            }
            return Ok(self.output.or(scale));
        }
        if let (Some(output), Some(zero_point)) = (self.output, zero_point)
            && output != zero_point
        {
            let problem = format!("is {output}, and the zero point is {zero_point}");
            return Err(self.refuse_attribute("output_dtype", problem));
        }
        let otherwise = if self.has_zero_point { zero_point } else { Some(ElementType::Uint8) };
        Ok(self.output.or(otherwise))
    }

    /// The type of y as tract is to infer it, from the native types of the scale and the zero
    /// point, where they are known.
    pub(crate) fn inferred_y(
        &self,
        scale: Option<ElementType>,
        zero_point: Option<ElementType>,
    ) -> Result<Option<ElementType>, Error> {
        self.y(self.exotic[1].or(scale), self.exotic[2].or(zero_point))
    }

    /// The operator and its types, from those of its inputs.
    /// Fails when the operator's version does not have them, or not together.
    pub(crate) fn quantizer(
        &self,
        x: ElementType,
        scale: ElementType,
        zero_point: Option<ElementType>,
    ) -> Result<Quantizer, Error> {
        let roles = [("x", Some(x)), ("scale", Some(scale)), ("zero point", zero_point)];
        for (index, (role, ty)) in roles.into_iter().enumerate() {
            let Some(ty) = ty else { continue };
            let allows = |schema: &Schema| {
                schema.input(index).is_some_and(|input| schema.allows(input.ty, ty))
            };
            self.check_since(&format!("{role} of type {ty}"), self.first_version(allows))?;
        }
        if self.quantizes && x != scale {
            // Where both have one type variable, they are to have one type.
            let allows = |schema: &Schema| {
                let [x, own] = [0, 1].map(|index| schema.input(index).map(|input| input.ty));
                let is_one = matches!(x, Some(ParameterType::Variable(_))) && x == own;
                !is_one && own.is_some_and(|own| schema.allows(own, scale))
            };
            // The oldest versions have but one type of scale, for either type of x.
            let is_allowed = self.schema().is_some_and(allows);
            if !is_allowed {
                let since = schema::versions(self.name()).iter().rev();
                let since = since.take_while(|schema| allows(schema)).last();
                let about = format!("scale of type {scale} beside x of type {x}");
                self.check_since(&about, since.map(|schema| schema.since))?;
            }
        }
        let Some(y) = self.y(Some(scale), zero_point)? else {
            return Err(self.error("has an output of unknown type"));
        };
        let quantizer = if self.quantizes {
            let precision = self.precision.unwrap_or(default_precision(scale));
            Quantizer::Quantize(Quantize { x, scale, y, precision, saturate: self.saturate })
        } else {
            if let Some(zero_point) = zero_point.filter(|zero_point| *zero_point != x) {
                let problem = format!("zero point of type {zero_point} beside x of type {x}");
                return Err(self.error(problem));
            }
            Quantizer::Dequantize(Dequantize { x, scale, y })
        };
        if quantizer.is_defined() {
            Ok(quantizer)
        } else {
            Err(self.error(format!("has no version that makes {y} of {x}")))
        }
    }

    fn check_since(&self, what: &str, since: Option<i64>) -> Result<(), Error> {
        match since {
            Some(since) if since <= self.judged_by => Ok(()),
            Some(since) => Err(self.error(format!("{what} needs opset {since}"))),
            None => Err(self.error(format!("{what} is no type of it in any opset"))),
        }
    }
}
