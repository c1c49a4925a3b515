//! The private form of a `Cast` node: what the rewrite has found out, in attributes that the op's builder reads. It is
//! marked by a domain of its own, which tract passes over and no model may use.

use tract_onnx::pb::attribute_proto::AttributeType;
use tract_onnx::pb::{AttributeProto, NodeProto};

use crate::cast::element_type::ElementType;
use crate::cast::rules::Rules;
use crate::error::Error;
use crate::onnx::node::{attribute, refusal};

/// The domain of rewritten nodes.
pub(crate) const DOMAIN: &str = "tract-onnx-cast";

/// The operator of a node that is to be built by another opset than the model's, and its attribute: a name that ONNX's
/// operators cannot have.
pub(crate) const AT_OPSET: &str = "tract-onnx-cast:AtOpset";

/// The operator of a `Shape` or `Size` that is measured when the model runs.
pub(crate) const MEASURED: &str = "tract-onnx-cast:Measured";

/// The attribute of a `Div` whose quotients are to be rounded once: a name that ONNX's operators cannot have.
const DIVIDES: &str = "tract-onnx-cast:Divides";

const PROBE: &str = "probe";

/// The attribute of a [`PrivateCast`], and the number that stands for no type in it.
const CAST: &str = "cast";
const UNDEFINED: i64 = 0;

/// What a rewritten node says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PrivateCast {
    /// The input's element type where it is exotic; a native one is what tract says it is.
    pub(crate) from: Option<ElementType>,
    /// The target type; `None` for that of the second input.
    pub(crate) to: Option<ElementType>,
    pub(crate) rules: Rules,
    /// The opset that the model imports, by which the input's type is judged.
    pub(crate) opset: i64,
    /// Whether the result is made of numbers even if the input is symbolic.
    pub(crate) resolves_symbols: bool,
}

impl PrivateCast {
    /// Turns a node of either operator into its private form. One whose target type is known needs no second input.
    pub(crate) fn write(&self, node: &mut NodeProto) {
        node.domain = DOMAIN.into();
        if self.to.is_some() {
            node.op_type = "Cast".into();
            node.input.truncate(1);
        }
        let id = |ty: Option<ElementType>| ty.map_or(UNDEFINED, |ty| ty as i64);
        // One attribute, since each takes most of a kilobyte.
        let ints = vec![
            id(self.from),
            id(self.to),
            i64::from(self.rules.saturate),
            self.opset,
            i64::from(self.resolves_symbols),
        ];
        node.attribute = vec![AttributeProto {
            name: CAST.into(),
            r#type: AttributeType::Ints as i32,
            ints,
            s: self.rules.round_mode.name().into(),
            ..AttributeProto::default()
        }];
    }

    /// Reads a node back.
    ///
    /// # Errors
    ///
    /// When a node uses the private domain without having come from [`PrivateCast::write`].
    pub(crate) fn read(node: &NodeProto) -> Result<PrivateCast, Error> {
        let refuse = || refusal(node, format!("domain `{DOMAIN}` is this crate's own"));
        let cast = attribute(node, CAST).ok_or_else(refuse)?;
        let [from, to, saturate, opset, resolves_symbols] = cast.ints[..] else {
            return Err(refuse());
        };
        let ty = |id: i64| match id {
            UNDEFINED => Ok(None),
            id => {
                let known = i32::try_from(id).ok().and_then(ElementType::from_id);
                known.map(Some).ok_or_else(refuse)
            }
        };
        let round_mode = std::str::from_utf8(&cast.s).ok().and_then(|word| word.parse().ok());
        let to = ty(to)?;
        if node.input.len() != if to.is_some() { 1 } else { 2 } {
            return Err(refuse());
        }
        Ok(PrivateCast {
            from: ty(from)?,
            to,
            rules: Rules { saturate: saturate != 0, round_mode: round_mode.ok_or_else(refuse)? },
            opset,
            resolves_symbols: resolves_symbols != 0,
        })
    }
}

/// Has a rewritten node be followed by a probe, given its place among the casts.
pub(super) fn mark_probe(node: &mut NodeProto, place: usize) {
    node.attribute.push(int(PROBE, place as i64));
}

/// The place of a rewritten node among the casts, if it is to be followed by a probe.
pub(crate) fn probe_of(node: &NodeProto) -> Option<usize> {
    let is_ours = node.domain == DOMAIN;
    let probe = attribute(node, PROBE).filter(|_| is_ours)?;
    usize::try_from(probe.i).ok()
}

/// Has a `Div` be a division; tract multiplies by the reciprocal.
pub(super) fn divide_exactly(node: &mut NodeProto) {
    node.attribute.push(int(DIVIDES, 1));
}

/// Whether a `Div` is to be a division.
pub(crate) fn divides_exactly(node: &NodeProto) -> bool {
    attribute(node, DIVIDES).is_some()
}

/// Has a `Shape` or `Size` be measured when the model runs.
pub(super) fn measure_at_run(node: &mut NodeProto) {
    node.attribute.push(int("counts", i64::from(node.op_type == "Size")));
    node.op_type = MEASURED.into();
    node.domain = DOMAIN.into();
}

/// The type that a node of this crate makes: a cast's target, and INT64 where sizes are measured.
pub(super) fn private_type(node: &NodeProto) -> Result<Option<ElementType>, Error> {
    match node.op_type == MEASURED {
        true => Ok(Some(ElementType::Int64)),
        false => Ok(PrivateCast::read(node)?.to),
    }
}

/// A node that casts a value of a native type to another.
pub(super) fn private_cast(value: &str, to: ElementType, output: String) -> NodeProto {
    let mut node = identity(value, output);
    let rules = Rules::default();
    let to = Some(to);
    PrivateCast { from: None, to, rules, opset: i64::MAX, resolves_symbols: false }
        .write(&mut node);
    node
}

/// A node that casts a value between half precision and FLOAT, for an operator that computes in FLOAT.
pub(super) fn widening_cast(
    value: &str,
    from: ElementType,
    to: ElementType,
    output: String,
) -> NodeProto {
    let mut node = identity(value, output);
    PrivateCast {
        from: Some(from).filter(|ty| ty.is_exotic()),
        to: Some(to),
        rules: Rules::default(),
        opset: i64::MAX,
        resolves_symbols: false,
    }
    .write(&mut node);
    node
}

/// A node that makes an INT64 value of numbers from one that may be symbolic.
pub(super) fn to_numbers(value: &str, output: String) -> NodeProto {
    let mut node = identity(value, output);
    PrivateCast {
        from: None,
        to: Some(ElementType::Int64),
        rules: Rules::default(),
        opset: i64::MAX,
        resolves_symbols: true,
    }
    .write(&mut node);
    node
}

/// A node that gives a value of an enclosing graph a name in this one.
pub(super) fn identity(value: &str, output: String) -> NodeProto {
    NodeProto {
        name: output.clone(),
        op_type: "Identity".into(),
        input: vec![value.into()],
        output: vec![output],
        ..NodeProto::default()
    }
}

/// Wraps a node, to be built by `opset`.
pub(super) fn wrap_at_opset(node: &mut NodeProto, opset: i64) {
    let op_type = std::mem::replace(&mut node.op_type, AT_OPSET.into());
    node.attribute.push(AttributeProto {
        name: AT_OPSET.into(),
        r#type: AttributeType::Int as i32,
        i: opset,
        s: op_type.into_bytes(),
        ..AttributeProto::default()
    });
}

pub(super) fn int(name: &str, i: i64) -> AttributeProto {
    let r#type = AttributeType::Int as i32;
    AttributeProto { name: name.into(), r#type, i, ..AttributeProto::default() }
}
