//! `BitCast` nodes: what one asks for, and the private form in which tract's loader gets it ([SEMANTICS
//! §14](crate::semantics)).

use tract_onnx::pb::NodeProto;

use super::annotation::{self, DOMAIN};
use super::node::{attribute, int, is_default_domain, node_name, refusal};
use super::operators::schema::{self, Schema};
use crate::cast::element_type::{self, ElementType, Family};
use crate::error::Error;

pub(crate) const BIT_CAST: &str = "BitCast";

/// What a `BitCast` node asks for, valid for its version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BitCastSpec {
    node: String,
    opset: i64,
    /// The input's type where it is exotic; a native one is what tract says.
    pub(crate) exotic: Option<ElementType>,
    pub(crate) to: ElementType,
}

/// Whether a node is a `BitCast`, as it stands in a file.
pub(super) fn is_bit_cast(node: &NodeProto) -> bool {
    node.op_type == BIT_CAST && is_default_domain(&node.domain)
}

/// Gives a node its private form, and returns the type of its output. `input` is its input's type, where known.
///
/// # Errors
///
/// When the node asks for something that its operator's version does not have.
pub(super) fn make_private(
    node: &mut NodeProto,
    opset: i64,
    input: Option<ElementType>,
) -> Result<ElementType, Error> {
    let mut spec = BitCastSpec::parse(node, opset)?;
    if let Some(from) = input {
        spec.check(from)?;
        spec.exotic = input.filter(|ty| ty.is_exotic());
    }
    node.domain = DOMAIN.into();
    node.attribute = vec![
        annotation::int("to", spec.to as i64),
        annotation::int("from", spec.exotic.map_or(0, |ty| ty as i64)),
        annotation::int("opset", opset),
    ];
    Ok(spec.to)
}

impl BitCastSpec {
    fn parse(node: &NodeProto, opset: i64) -> Result<BitCastSpec, Error> {
        let refuse = |problem: String| Err(refusal(node, problem));
        let since = schema::versions(BIT_CAST).first().map_or(1, |schema| schema.since);
        if opset < since {
            return refuse(format!("needs opset {since}, the model imports {opset}"));
        }
        let is_named = |names: &[String]| matches!(names, [name] if !name.is_empty());
        if !is_named(&node.input) || !is_named(&node.output) {
            let (given, made) = (node.input.len(), node.output.len());
            return refuse(format!(
                "needs one named input and one output, has {given} and {made} (opset {opset})"
            ));
        }
        let attribute_error = |name: &str, problem: String| Error::Attribute {
            node: node_name(node),
            attribute: name.into(),
            problem: format!("{problem} ({BIT_CAST})"),
            opset,
        };
        if let Some(other) = node.attribute.iter().find(|attribute| attribute.name != "to") {
            return Err(attribute_error(&other.name, "is unknown in every opset".into()));
        }
        if node.attribute.len() > 1 {
            return Err(attribute_error("to", "is given twice".into()));
        }
        let Some(id) = int(node, "to") else {
            let problem = match attribute(node, "to") {
                Some(_) => "must be an INT",
                None => "is missing",
            };
            return Err(attribute_error("to", problem.into()));
        };
        let id32 = i32::try_from(id).unwrap_or(-1);
        let to = ElementType::from_id(id32).filter(|ty| {
            let allows = |schema: &Schema| {
                schema.output(0).is_some_and(|output| schema.allows(output.ty, *ty))
            };
            schema::schema(BIT_CAST, opset).is_some_and(allows)
        });
        let Some(to) = to else {
            let name = element_type::name_of_id(id32);
            let problem = format!("is {id} ({name}), which is no type of this operator");
            return Err(attribute_error("to", problem));
        };
        Ok(BitCastSpec { node: node_name(node), opset, exotic: None, to })
    }

    /// An error that names the node and the model's opset.
    pub(crate) fn error(&self, problem: impl std::fmt::Display) -> Error {
        let opset = self.opset;
        Error::of_node(&self.node, BIT_CAST, format!("{problem}, the model imports {opset}"))
    }

    /// Checks the input's type.
    ///
    /// # Errors
    ///
    /// When the operator does not have it, or it is not as wide as the target.
    pub(crate) fn check(&self, from: ElementType) -> Result<(), Error> {
        let allows =
            |schema: &Schema| schema.input(0).is_some_and(|input| schema.allows(input.ty, from));
        let to = self.to;
        let known = schema::schema(BIT_CAST, self.opset);
        if from.family() == Family::Text || !known.is_some_and(allows) {
            return Err(self.error(format!("input of type {from} is no type of it")));
        }
        if from.bits() != to.bits() {
            let (wide, other) = (from.bits(), to.bits());
            return Err(
                self.error(format!("input of type {from} has {wide} bits, and {to} has {other}"))
            );
        }
        Ok(())
    }

    /// Reads a node back, or one as it stands in a file, where only the operators were registered.
    ///
    /// # Errors
    ///
    /// When the node asks for something that its operator's version does not have, or uses the private domain without
    /// having been written here.
    pub(crate) fn read(node: &NodeProto, opset: i64) -> Result<BitCastSpec, Error> {
        if node.domain != DOMAIN {
            return BitCastSpec::parse(node, opset);
        }
        let refuse = || refusal(node, format!("domain `{DOMAIN}` is this crate's own"));
        let number = |name: &str| int(node, name).ok_or_else(refuse);
        let ty = |id: i64| i32::try_from(id).ok().and_then(ElementType::from_id);
        Ok(BitCastSpec {
            node: node_name(node),
            opset: number("opset")?,
            exotic: ty(number("from")?),
            to: ty(number("to")?).ok_or_else(refuse)?,
        })
    }
}
