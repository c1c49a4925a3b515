//! Which attributes, inputs and types of operators are honoured, and the check that a node has no
//! others: tract's builders look at an operator's name alone, and at the attributes that they know.

mod table;

use std::borrow::Cow;

use onnx_cast_graph::{Node, NodeView, attribute, attribute_type, one_domain};
use tract_onnx::pb::AttributeProto;
use tract_onnx::pb::attribute_proto::AttributeType;

use super::alone::ALONE;
use super::attributes::{self, Attribute, Version, is_value};
use super::registered::Registered;
use super::schema;
use crate::cast::element_type::ElementType;
use crate::error::{Cause, Error};
use crate::onnx::cast_spec::Operator;
use crate::onnx::lowered::DOMAIN;
use crate::onnx::node::{node_name, refusal};
use crate::onnx::{bit_casts, quantizers};
use table::{Honoured, HonouredRow, row};

/// ONNX Runtime's optimiser writes these whatever the model imports.
const OF_ANY_OPSET: &[&str] = &["LayerNormalization", "SimplifiedLayerNormalization"];

/// What the file says of a value, so far as it does.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DeclaredValue {
    pub(crate) ty: Option<ElementType>,
    /// How many dimensions it has.
    pub(crate) rank: Option<usize>,
}

/// Checks that all that a node asks for is computed, and returns the attributes that it does not
/// give and whose defaults tract has otherwise. `given` tells of its inputs by place. A node whose
/// operator the program's user has registered may ask for anything. Fails when nothing here
/// computes the node's operator or domain, when the operator's version does not have an attribute,
/// an input or an output of the node's, lacks one, or has it with another type, and when it is not
/// computed by an attribute's value or by an input's type.
pub(crate) fn check(
    node: &Node,
    given: impl Fn(usize) -> Option<DeclaredValue>,
    registered: Registered,
) -> Result<Vec<AttributeProto>, Error> {
    if is_checked_elsewhere(node) || registered.is_of_user(&node.op_type) {
        return Ok(vec![]);
    }
    let domain = one_domain(&node.domain);
    let found = row(domain, &node.op_type);
    let known = attributes::version(domain, &node.op_type, node.opset);
    let (Some(row), Some(version)) = (found, known) else {
        return Err(refusal(node, nobody_computes(domain, node)).of_sound_model());
    };
    let site = HonouredSite { node, given: &given, row, version };
    site.check_version(domain)?;
    site.check_attributes()?;
    if domain.is_empty() {
        site.check_places()?;
    }
    site.check_refused()?;
    Ok(site.defaults_to_write())
}

/// Whether the node is of this crate's own, or an operator whose attributes are read where it is
/// made private.
fn is_checked_elsewhere(node: &Node) -> bool {
    node.domain == DOMAIN
        || Operator::of(node).is_some()
        || quantizers::is_quantizer(node)
        || bit_casts::is_bit_cast(node)
}

fn nobody_computes(domain: &str, node: &Node) -> String {
    let opset = node.opset;
    match domain {
        _ if ALONE.contains(&(domain, &*node.op_type)) => {
            format!("is computed node by node and in no plan, the model imports {opset}")
        }
        "" => format!("is an operator that nothing here computes, the model imports {opset}"),
        "ai.onnx.ml" | "com.microsoft" => {
            format!("is an operator of domain `{domain}` that nothing here computes")
        }
        _ => format!("is of domain `{domain}`, of which nothing here computes an operator"),
    }
}

/// A node, and what is known of its operator.
struct HonouredSite<'a> {
    node: &'a Node,
    given: &'a dyn Fn(usize) -> Option<DeclaredValue>,
    row: &'static HonouredRow,
    version: &'static Version,
}

impl HonouredSite<'_> {
    fn refuse(&self, problem: impl Into<String>) -> Error {
        refusal(self.node, format!("{}, the model imports {}", problem.into(), self.node.opset))
    }

    fn refuse_attribute(&self, name: &str, problem: String) -> Error {
        let (attribute, opset) = (name.into(), self.node.opset);
        Cause::Attribute { node: node_name(self.node), attribute, problem, opset }.into()
    }

    fn check_version(&self, domain: &str) -> Result<(), Error> {
        let (since, oldest) = (self.version.since, self.row.since);
        if domain.is_empty()
            && since > self.node.opset
            && !OF_ANY_OPSET.contains(&&*self.node.op_type)
        {
            return Err(self.refuse(format!("needs opset {since}")));
        }
        if domain.is_empty() && since < oldest {
            let problem = format!("is of version {since}, and computed from version {oldest} on");
            return Err(self.refuse(problem).of_sound_model());
        }
        Ok(())
    }

    fn check_attributes(&self) -> Result<(), Error> {
        for given in &self.node.attributes {
            // What refers to a function's attribute is refused with that reason.
            if given.ref_attr_name.is_empty() {
                self.check_attribute(given)?;
            }
        }
        let is_known = |name: &str| {
            self.version.attribute(name).is_some_and(|known| known.ty == AttributeType::Graph)
        };
        if let Some(held) = self.node.bodies().iter().find(|held| !is_known(&held.attribute)) {
            return Err(self.unknown(&held.attribute));
        }
        let is_missing = |wanted: &&Attribute| {
            wanted.is_required
                && !matches!(self.row.attribute(wanted.name), Some(Honoured::WithoutEffect))
                && attribute(self.node, wanted.name).is_none()
                && self.node.bodies().iter().all(|held| held.attribute != wanted.name)
        };
        match self.version.attributes.iter().find(is_missing) {
            Some(wanted) => Err(self.refuse_attribute(wanted.name, "is missing".into())),
            None => Ok(()),
        }
    }

    fn unknown(&self, name: &str) -> Error {
        let (operator, since) = (&self.node.op_type, self.version.since);
        self.refuse_attribute(name, format!("is none of {operator}'s in version {since}"))
    }

    fn check_attribute(&self, given: &AttributeProto) -> Result<(), Error> {
        let refuse = |problem: String| Err(self.refuse_attribute(&given.name, problem));
        let operator = &self.node.op_type;
        let Some(known) = self.version.attribute(&given.name) else {
            return Err(self.unknown(&given.name));
        };
        let ty = attribute_type(given);
        if ty != known.ty {
            let (ty, wanted) = (ty.as_str_name(), known.ty.as_str_name());
            return refuse(format!("is of type {ty}, and {operator}'s is of type {wanted}"));
        }
        let is_default = known.default.is_some_and(|default| is_value(given, default));
        let honoured = self.row.attribute(&given.name);
        let is_honoured = match honoured {
            Some(Honoured::All | Honoured::WithoutEffect | Honoured::WithDefault) => true,
            Some(Honoured::Only(values)) => values.iter().any(|value| is_value(given, value)),
            Some(Honoured::NumberOfOutputs) => {
                usize::try_from(given.i).is_ok_and(|count| count == self.node.outputs().len())
            }
            Some(Honoured::Aligned) => self.aligns_last(given.i),
            None => false,
        };
        if is_default || is_honoured {
            return Ok(());
        }
        let value = value_of(given);
        let refused = refuse(match (honoured, known.default) {
            (Some(Honoured::Only(values)), _) => {
                format!("is {value}, and computed is only {}", values.join(" or "))
            }
            (Some(Honoured::NumberOfOutputs), _) => {
                format!("is {value}, and the number of outputs {}", self.node.outputs().len())
            }
            (Some(Honoured::Aligned), _) => {
                format!("is {value}, and shapes are aligned by their last dimensions")
            }
            (_, Some(default)) => format!("is {value}, and computed is only {default}"),
            (_, None) => format!("is {value}, and computed is only without it"),
        });
        refused.map_err(Error::of_sound_model)
    }

    /// Whether the second input's dimensions are the first one's from `axis` on to the last.
    fn aligns_last(&self, axis: i64) -> bool {
        let rank = |place: usize| (self.given)(place)?.rank;
        let (Some(first), Some(second)) = (rank(0), rank(1)) else { return false };
        usize::try_from(axis).is_ok_and(|axis| axis.checked_add(second) == Some(first))
    }

    /// Checks that the version has the inputs and outputs that the node has, and the node those
    /// that it needs.
    fn check_places(&self) -> Result<(), Error> {
        let node = self.node;
        let Some(schema) = schema::schema(&node.op_type, node.opset) else { return Ok(()) };
        let (operator, since) = (&node.op_type, self.version.since);
        let mut places = (0..node.input_places()).filter(|place| node.gives(*place));
        if let Some(place) = places.find(|place| schema.input(*place).is_none()) {
            let problem = format!("has an input {place}, and {operator} none in version {since}");
            return Err(self.refuse(problem));
        }
        let mut places = (0..node.output_places()).filter(|place| node.makes(*place));
        if let Some(place) = places.find(|place| schema.output(*place).is_none()) {
            let problem = format!("has an output {place}, and {operator} none in version {since}");
            return Err(self.refuse(problem));
        }
        match schema.needed_inputs().find(|place| !node.gives(*place)) {
            Some(place) => Err(self.refuse(format!("lacks input {place}, which it needs"))),
            None => Ok(()),
        }
    }

    /// Checks inputs, outputs and types that the table has as refused.
    fn check_refused(&self) -> Result<(), Error> {
        let refuse = |what: String| {
            Err(self.refuse(format!("has an {what}, which is not computed")).of_sound_model())
        };
        for (place, refused) in &self.row.inputs {
            let ty = (self.given)(*place).and_then(|given| given.ty);
            match ty.filter(|ty| refused.contains(ty)) {
                Some(ty) => return refuse(format!("input {place} of type {ty}")),
                None if refused.is_empty() && self.node.gives(*place) => {
                    return refuse(format!("input {place}"));
                }
                None => {}
            }
        }
        match self.row.outputs.iter().find(|place| self.node.makes(**place)) {
            Some(place) => refuse(format!("output {place}")),
            None => Ok(()),
        }
    }

    /// The defaults that are not tract's, of attributes that the node does not give.
    fn defaults_to_write(&self) -> Vec<AttributeProto> {
        let is_written = |known: &&Attribute| {
            matches!(self.row.attribute(known.name), Some(Honoured::WithDefault))
                && attribute(self.node, known.name).is_none()
        };
        self.version.attributes.iter().filter(is_written).filter_map(attributes::parsed).collect()
    }
}

/// An attribute's value, for a message.
fn value_of(attribute: &AttributeProto) -> Cow<'static, str> {
    match attribute_type(attribute) {
        AttributeType::Int => attribute.i.to_string().into(),
        AttributeType::Float => attribute.f.to_string().into(),
        AttributeType::String => format!("{:?}", String::from_utf8_lossy(&attribute.s)).into(),
        AttributeType::Ints if attribute.ints.len() <= 8 => format!("{:?}", attribute.ints).into(),
        ty => format!("a value of type {}", ty.as_str_name()).into(),
    }
}

#[cfg(test)]
mod tests;
