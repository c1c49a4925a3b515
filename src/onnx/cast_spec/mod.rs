//! What a `Cast` or `CastLike` node asks for: its attributes at the model's opset, read or refused
//! (SEMANTICS §1–2).
//!
//! From here a cast goes by `passes/facts/types` (which types meet there), `passes/casts` (what the
//! builder is told) and `onnx/lowered` (told by one attribute) to `ops/cast/inference`, which
//! builds it.

use std::collections::HashSet;
use std::fmt;

use onnx_cast_graph::counted;
use tract_onnx::pb::attribute_proto::AttributeType;
use tract_onnx::pb::{AttributeProto, NodeProto};

use crate::cast::element_type::{self, ElementType};
use crate::cast::rules::{RoundMode, Rules};
use crate::error::{Cause, Error};
use crate::onnx::node::{NodeView, attribute_type, refusal};
use crate::onnx::operators::schema::{self, Schema};

/// The two operators that cast.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Operator {
    /// The target type is the attribute `to`.
    Cast,
    /// The target type is that of the second input.
    CastLike,
}

impl Operator {
    /// The operator that a node of the default domain names; `None` for any other node.
    pub(crate) fn of(node: &(impl NodeView + ?Sized)) -> Option<Operator> {
        [Operator::Cast, Operator::CastLike].into_iter().find(|operator| node.is(operator.name()))
    }

    /// ONNX's name.
    pub const fn name(self) -> &'static str {
        match self {
            Operator::Cast => "Cast",
            Operator::CastLike => "CastLike",
        }
    }

    /// The operator in each of its versions, oldest first.
    fn versions(self) -> &'static [Schema] {
        schema::versions(self.name())
    }

    /// The first version of the operator that casts to and from a type.
    fn first_version_of(self, ty: ElementType) -> Option<i64> {
        let allows =
            |schema: &&Schema| schema.output(0).is_some_and(|output| schema.allows(output.ty, ty));
        self.versions().iter().find(allows).map(|schema| schema.since)
    }

    /// The operator's version in an opset: the newest that is not newer than it. `None` before the
    /// first.
    pub fn version(self, opset: i64) -> Option<i64> {
        self.versions().iter().map(|schema| schema.since).rfind(|version| *version <= opset)
    }
}

impl fmt::Display for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The version in which `to` became an INT.
const TO_IS_INT_SINCE: i64 = 6;
const SATURATE_SINCE: i64 = 19;
const ROUND_MODE_SINCE: i64 = 24;

/// What a `Cast` or `CastLike` node asks for, valid for its version.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CastSpec {
    /// Which of the two operators.
    pub operator: Operator,
    /// The operator's version.
    pub version: i64,
    /// The opset of the default domain that the model imports.
    pub opset: i64,
    /// The target type; `None` for `CastLike`, whose second input has it.
    pub to: Option<ElementType>,
    /// The attribute `saturate`, where the node has it; any non-zero number means true.
    pub saturate: Option<i64>,
    /// The attribute `round_mode`, where the node has it.
    pub round_mode: Option<RoundMode>,
    node: String,
}

impl CastSpec {
    /// Reads a node of a model that imports `opset` of the default domain (1 when it imports none).
    ///
    /// # Errors
    ///
    /// When the node is neither operator, its number of inputs or outputs is wrong, `to` is missing
    /// or not allowed, or any attribute is one that this version of the operator does not have.
    pub fn parse(node: &NodeProto, opset: i64) -> Result<CastSpec, Error> {
        CastSpec::of(node, opset)
    }

    /// As [`CastSpec::parse`], of a node in a graph or in a message.
    pub(crate) fn of(node: &(impl NodeView + ?Sized), opset: i64) -> Result<CastSpec, Error> {
        let node_error = |problem: String| refusal(node, problem);
        let operator = Operator::of(node).ok_or_else(|| {
            let domain = node.domain();
            node_error(format!("domain `{domain}` is not ONNX's, so this is not ONNX's operator"))
        })?;
        let version = operator.version(opset).ok_or_else(|| {
            let first = operator.versions().first().map_or(1, |schema| schema.since);
            node_error(format!("{operator} needs opset {first}, the model imports {opset}"))
        })?;
        let inputs = if operator == Operator::Cast { 1 } else { 2 };
        let (given, made) = (node.input_places(), node.output_places());
        let has_all = given == inputs && (0..inputs).all(|place| node.gives(place));
        if !has_all || made != 1 || !node.makes(0) {
            return Err(node_error(format!(
                "needs {} and one output, has {given} and {made} (opset {opset})",
                counted(inputs, "named input")
            )));
        }
        let mut spec = CastSpec {
            operator,
            version,
            opset,
            to: None,
            saturate: None,
            round_mode: None,
            node: node.label().into(),
        };
        let mut names = HashSet::new();
        for attribute in node.attributes() {
            if !names.insert(attribute.name.as_str()) {
                return Err(spec.refuse(&attribute.name, "is given twice".into()));
            }
            spec.read(attribute)?;
        }
        if operator == Operator::Cast && spec.to.is_none() {
            return Err(spec.refuse("to", "is missing".into()));
        }
        Ok(spec)
    }

    /// The rules for the conversion, absent attributes at their defaults.
    pub fn rules(&self) -> Rules {
        rules(self.saturate, self.round_mode)
    }

    /// Checks that this version of the operator accepts a type, as `role` (`input`, `to`, …).
    ///
    /// # Errors
    ///
    /// When the type is newer than the version.
    pub fn check_type(&self, ty: ElementType, role: &str) -> Result<(), Error> {
        let (operator, opset) = (self.operator, self.opset);
        let needs = match operator.first_version_of(ty) {
            Some(version) if version <= self.version => return Ok(()),
            Some(version) => format!("needs opset {version}, the model imports {opset}"),
            None => format!("is no type of {operator} in any opset, the model imports {opset}"),
        };
        Err(Error::of_node(&self.node, operator.name(), format!("{role} of type {ty} {needs}")))
    }

    fn refuse(&self, attribute: &str, problem: String) -> Error {
        Cause::Attribute {
            node: self.node.clone(),
            attribute: attribute.into(),
            problem: format!("{problem} ({})", self.operator),
            opset: self.opset,
        }
        .into()
    }

    fn read(&mut self, attribute: &AttributeProto) -> Result<(), Error> {
        let name = attribute.name.as_str();
        if !attribute.ref_attr_name.is_empty() {
            return Err(self.refuse(name, "refers to an attribute of a function".into()));
        }
        match (name, self.operator) {
            ("to", Operator::Cast) => self.to = Some(self.read_to(attribute)?),
            ("saturate", _) => self.saturate = Some(self.read_saturate(attribute)?),
            ("round_mode", _) => self.round_mode = Some(self.read_round_mode(attribute)?),
            _ => return Err(self.refuse(name, "is unknown in every opset".into())),
        }
        Ok(())
    }

    fn read_to(&self, attribute: &AttributeProto) -> Result<ElementType, Error> {
        let refuse = |problem: String| Err(self.refuse("to", problem));
        let ty = if self.version < TO_IS_INT_SINCE {
            let word = self.string(attribute)?;
            match ElementType::from_name(word).filter(|ty| ty.since() == 1) {
                Some(ty) => ty,
                None => return refuse(format!("is {word:?}, which names no type of opset 1")),
            }
        } else {
            let id = self.int(attribute)?;
            let id32 = i32::try_from(id).unwrap_or(-1);
            match ElementType::from_id(id32) {
                Some(ty) => ty,
                None => {
                    let what = element_type::name_of_id(id32);
                    return refuse(format!("is {id} ({what}), which is no type of this operator"));
                }
            }
        };
        if ty.since() > self.version {
            return refuse(format!("asks for {ty}, which needs opset {}", ty.since()));
        }
        Ok(ty)
    }

    fn read_saturate(&self, attribute: &AttributeProto) -> Result<i64, Error> {
        self.since(attribute, SATURATE_SINCE)?;
        self.int(attribute)
    }

    fn read_round_mode(&self, attribute: &AttributeProto) -> Result<RoundMode, Error> {
        self.since(attribute, ROUND_MODE_SINCE)?;
        let word = self.string(attribute)?;
        word.parse().map_err(|_| {
            self.refuse(
                "round_mode",
                format!("is {word:?}, not \"up\", \"down\" or \"nearest\" (since opset {ROUND_MODE_SINCE})"),
            )
        })
    }

    fn since(&self, attribute: &AttributeProto, first: i64) -> Result<(), Error> {
        if self.version >= first {
            return Ok(());
        }
        Err(Cause::Attribute {
            node: self.node.clone(),
            attribute: attribute.name.clone(),
            problem: format!("needs opset {first}"),
            opset: self.opset,
        }
        .into())
    }

    fn int(&self, attribute: &AttributeProto) -> Result<i64, Error> {
        match attribute_type(attribute) {
            AttributeType::Int => Ok(attribute.i),
            other => Err(self.wrong_type(attribute, "an INT", other)),
        }
    }

    fn string<'a>(&self, attribute: &'a AttributeProto) -> Result<&'a str, Error> {
        match attribute_type(attribute) {
            AttributeType::String => std::str::from_utf8(&attribute.s)
                .map_err(|_| self.refuse(&attribute.name, "is not UTF-8".into())),
            other => Err(self.wrong_type(attribute, "a STRING", other)),
        }
    }

    fn wrong_type(&self, attribute: &AttributeProto, wanted: &str, got: AttributeType) -> Error {
        let got = got.as_str_name();
        let version = self.version;
        self.refuse(
            &attribute.name,
            format!("must be {wanted} from version {version} on, is {got}"),
        )
    }
}

/// The rules that a node's attributes ask for, absent ones at their defaults.
pub(crate) fn rules(saturate: Option<i64>, round_mode: Option<RoundMode>) -> Rules {
    let default = Rules::default();
    Rules {
        saturate: saturate.map_or(default.saturate, |number| number != 0),
        round_mode: round_mode.unwrap_or(default.round_mode),
    }
}

#[cfg(test)]
mod tests;
