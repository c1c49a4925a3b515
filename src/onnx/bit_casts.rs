//! `BitCast` nodes: what one asks for, and the private form in which tract's loader gets it
//! ([SEMANTICS §14](crate::semantics)).

use onnx_cast_graph::{Node, counted};

use super::node::{NodeView, attribute, int, refusal};
use super::operators::schema::{self, Schema};
use crate::cast::element_type::{self, ElementType, Family};
use crate::error::{Cause, Error};

pub(crate) const BIT_CAST: &str = "BitCast";

/// What a `BitCast` node asks for, valid for its version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BitCastSpec {
    pub(crate) node: String,
    pub(crate) opset: i64,
    /// The input's type where it is exotic; a native one is what tract says.
    pub(crate) exotic: Option<ElementType>,
    pub(crate) to: ElementType,
}

/// Whether a node is a `BitCast`, as it stands in a file.
pub(crate) fn is_bit_cast(node: &(impl NodeView + ?Sized)) -> bool {
    node.is(BIT_CAST)
}

impl BitCastSpec {
    /// What a node of a graph asks for, given its input's type, where that is known.
    /// Fails when the node asks for something that its operator's version does not have.
    pub(crate) fn of(node: &Node, input: Option<ElementType>) -> Result<BitCastSpec, Error> {
        let mut spec = BitCastSpec::parse(node, node.opset)?;
        if let Some(from) = input {
            spec.check(from)?;
            spec.exotic = input.filter(|ty| ty.is_exotic());
        }
        Ok(spec)
    }

    pub(crate) fn parse(node: &(impl NodeView + ?Sized), opset: i64) -> Result<BitCastSpec, Error> {
        let refuse = |problem: String| Err(refusal(node, problem));
        let since = schema::versions(BIT_CAST).first().map_or(1, |schema| schema.since);
        if opset < since {
            return refuse(format!("needs opset {since}, the model imports {opset}"));
        }
        let (given, made) = (node.input_places(), node.output_places());
        if given != 1 || made != 1 || !node.gives(0) || !node.makes(0) {
            return refuse(format!(
                "needs one named input and one output, has {given} and {made} (opset {opset})"
            ));
        }
        let attribute_error = |name: &str, problem: String| {
            let (node, attribute) = (node.label().into(), name.into());
            let problem = format!("{problem} ({BIT_CAST})");
            Error::from(Cause::Attribute { node, attribute, problem, opset })
        };
        if let Some(other) = node.attributes().iter().find(|attribute| attribute.name != "to") {
            return Err(attribute_error(&other.name, "is unknown in every opset".into()));
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
        Ok(BitCastSpec { node: node.label().into(), opset, exotic: None, to })
    }

    /// An error that names the node and the model's opset.
    pub(crate) fn error(&self, problem: impl std::fmt::Display) -> Error {
        let opset = self.opset;
        Error::of_node(&self.node, BIT_CAST, format!("{problem}, the model imports {opset}"))
    }

    /// Checks the input's type. Fails when the operator does not have it, or it is not as wide as
    /// the target.
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
            return Err(self.error(format!(
                "input of type {from} has {}, and {to} has {other}",
                counted(wide, "bit")
            )));
        }
        Ok(())
    }
}
