//! What the passes tell the builders of [`ops`](crate::ops) about a node: the one codec.
//!
//! tract's loader gives a builder a `NodeProto` and nothing else, so what was found out about a
//! node travels in one attribute of it, whose name no operator of ONNX can have. [`Lowered::write`]
//! encodes it when the graph is exported and [`Lowered::read`] decodes it in the builder. Nodes
//! whose operator becomes one of this crate's are of a domain of their own, which tract passes over
//! and no model may use.

use tract_onnx::pb::attribute_proto::AttributeType;
use tract_onnx::pb::{AttributeProto, NodeProto};

use super::bit_casts::BitCastSpec;
use super::cast_spec::CastSpec;
use super::node::{NodeView, attribute, refusal};
use super::quantizers::{QUANTIZE, QuantizerSpec};
use crate::cast::element_type::ElementType;
use crate::cast::rules::{RoundMode, Rules};
use crate::error::Error;

/// The domain of nodes whose operator is this crate's.
pub(crate) const DOMAIN: &str = "tract-onnx-cast";

/// The operator that stands for one which is built by another opset than the model's.
pub(crate) const AT_OPSET: &str = "tract-onnx-cast:AtOpset";

/// The operator of a `Shape` or `Size` that is measured when the model runs.
pub(crate) const MEASURED: &str = "tract-onnx-cast:Measured";

/// The operator behind weights that a product shares with a `Gather`.
pub(crate) const TIED: &str = "tract-onnx-cast:Tied";

/// The operator that stands for weights in a file beside the model.
pub(crate) const FILED: &str = "tract-onnx-cast:Filed";

/// The attribute that holds it all.
const ATTRIBUTE: &str = "tract-onnx-cast:Lowered";

/// Ways to round, each written as its place.
const MODES: [RoundMode; 3] = [RoundMode::Up, RoundMode::Down, RoundMode::Nearest];

/// What was found out about a node.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Lowered {
    pub(crate) form: OperatorForm,
    /// The row of the audit that counts what the node does.
    pub(crate) probe: Option<usize>,
    /// The opset that the node is built by, where it is not the model's.
    pub(crate) opset: Option<i64>,
}

/// What becomes of a node's operator.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) enum OperatorForm {
    /// It stays.
    #[default]
    Own,
    /// A `Cast`, or a `CastLike` whose target only tract's analysis knows.
    Cast(PrivateCast),
    Quantizer(QuantizerSpec),
    BitCast(BitCastSpec),
    /// A `Shape` or, if it counts, a `Size`, measured when the model runs.
    Measured {
        counts: bool,
    },
    /// A `Div` whose quotients are rounded once: tract multiplies by the reciprocal.
    ExactDivision,
    /// Weights that a product shares with a `Gather`.
    Tied,
    /// Weights of a file beside the model, which stay there until it is decided how a product packs
    /// them.
    Filed {
        stays: bool,
    },
}

/// What a cast does, as far as it is known before tract analyses the model.
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
    /// A cast of this crate's own, of a type of any opset.
    pub(crate) fn own(from: Option<ElementType>, to: ElementType) -> PrivateCast {
        let from = from.filter(|ty| ty.is_exotic());
        let (to, rules) = (Some(to), Rules::default());
        PrivateCast { from, to, rules, opset: i64::MAX, resolves_symbols: false }
    }

    /// A cast that makes INT64 numbers of a value that may be symbolic.
    pub(crate) fn to_numbers() -> PrivateCast {
        PrivateCast { resolves_symbols: true, ..PrivateCast::own(None, ElementType::Int64) }
    }
}

impl OperatorForm {
    /// The type that a node makes whose operator is this crate's.
    pub(crate) fn made_type(&self) -> Option<ElementType> {
        match self {
            OperatorForm::Cast(cast) => cast.to,
            OperatorForm::Measured { .. } => Some(ElementType::Int64),
            _ => None,
        }
    }
}

impl Lowered {
    /// Writes into a node's message what its builder is to know.
    pub(crate) fn write(&self, node: &mut NodeProto) {
        let mut ints = IntEncoder::default();
        match &self.form {
            OperatorForm::Own | OperatorForm::ExactDivision => {}
            OperatorForm::Cast(cast) => {
                if cast.to.is_some() {
                    node.op_type = "Cast".into();
                    node.input.truncate(1);
                }
                own(node);
            }
            OperatorForm::Quantizer(spec) => {
                node.op_type = spec.name().into();
                node.input.truncate(if spec.has_zero_point { 3 } else { 2 });
                own(node);
            }
            OperatorForm::BitCast(_) => own(node),
            OperatorForm::Measured { .. } => private(node, MEASURED),
            OperatorForm::Tied => private(node, TIED),
            OperatorForm::Filed { .. } => private(node, FILED),
        }
        self.encode(&mut ints);
        let mut s = vec![];
        if self.opset.is_some() {
            s = std::mem::replace(&mut node.op_type, AT_OPSET.into()).into_bytes();
        }
        let (name, r#type, ints) = (ATTRIBUTE.into(), AttributeType::Ints as i32, ints.0);
        node.attribute.push(AttributeProto { name, r#type, ints, s, ..AttributeProto::default() });
    }

    /// What is written in a node; `None` of one in which nothing is.
    /// Fails when the node uses this crate's domain without having come from [`Lowered::write`].
    pub(crate) fn read(node: &(impl NodeView + ?Sized)) -> Result<Option<Lowered>, Error> {
        let refuse = || refusal(node, format!("domain `{DOMAIN}` is this crate's own"));
        match attribute(node, ATTRIBUTE) {
            Some(attribute) => {
                decode(&mut attribute.ints.iter().copied(), node).map(Some).ok_or_else(refuse)
            }
            None if node.domain() == DOMAIN => Err(refuse()),
            None => Ok(None),
        }
    }

    /// Takes out of a node's message that it is built by another opset, and puts its own operator
    /// back. Returns the opset.
    pub(crate) fn unwrap_opset(node: &mut NodeProto) -> Result<i64, Error> {
        let opset = Lowered::read(node)?.and_then(|lowered| lowered.opset);
        let own =
            attribute(node, ATTRIBUTE).map(|own| String::from_utf8_lossy(&own.s).into_owned());
        match (opset, own) {
            (Some(opset), Some(own)) => {
                node.op_type = own;
                Ok(opset)
            }
            _ => Err(refusal(node, "is this crate's own operator")),
        }
    }

    fn encode(&self, out: &mut IntEncoder) {
        out.optional(self.probe.map(|probe| probe as i64));
        out.optional(self.opset);
        match &self.form {
            OperatorForm::Own => out.number(0),
            OperatorForm::Cast(cast) => {
                out.number(1);
                out.ty(cast.from);
                out.ty(cast.to);
                out.number(i64::from(cast.rules.saturate));
                let mode = MODES.iter().position(|mode| *mode == cast.rules.round_mode);
                out.number(mode.unwrap_or(0) as i64);
                out.number(cast.opset);
                out.number(i64::from(cast.resolves_symbols));
            }
            OperatorForm::Quantizer(spec) => {
                // The node has its name and its operator.
                let QuantizerSpec {
                    node: _,
                    quantizes: _,
                    opset,
                    judged_by,
                    has_zero_point,
                    axis,
                    block_size,
                    saturate,
                    precision,
                    output,
                    exotic,
                } = spec;
                out.number(2);
                out.number(*opset);
                out.number(*judged_by);
                out.number(i64::from(*has_zero_point));
                out.number(*axis);
                out.number(*block_size as i64);
                out.number(i64::from(*saturate));
                out.ty(*precision);
                out.ty(*output);
                exotic.iter().for_each(|ty| out.ty(*ty));
            }
            OperatorForm::BitCast(spec) => {
                out.number(3);
                out.number(spec.opset);
                out.ty(spec.exotic);
                out.ty(Some(spec.to));
            }
            OperatorForm::Measured { counts } => {
                out.number(4);
                out.number(i64::from(*counts));
            }
            OperatorForm::ExactDivision => out.number(5),
            OperatorForm::Tied => out.number(6),
            OperatorForm::Filed { stays } => {
                out.number(7);
                out.number(i64::from(*stays));
            }
        }
    }
}

/// Makes the node one of an operator that this crate alone has.
fn private(node: &mut NodeProto, operator: &str) {
    node.op_type = operator.into();
    node.domain = DOMAIN.into();
}

/// A node that has only what its builder is told.
fn own(node: &mut NodeProto) {
    node.domain = DOMAIN.into();
    node.attribute.clear();
}

/// Numbers in a row.
#[derive(Default)]
struct IntEncoder(Vec<i64>);

impl IntEncoder {
    fn number(&mut self, number: i64) {
        self.0.push(number);
    }

    /// A type by its ONNX number; 0 for none.
    fn ty(&mut self, ty: Option<ElementType>) {
        self.0.push(ty.map_or(0, |ty| ty as i64));
    }

    fn optional(&mut self, number: Option<i64>) {
        self.0.extend([i64::from(number.is_some()), number.unwrap_or(0)]);
    }
}

fn decode(
    numbers: &mut impl Iterator<Item = i64>,
    node: &(impl NodeView + ?Sized),
) -> Option<Lowered> {
    fn ty(number: i64) -> Option<Option<ElementType>> {
        match i32::try_from(number).ok()? {
            0 => Some(None),
            id => ElementType::from_id(id).map(Some),
        }
    }
    let mut next = || numbers.next();
    let mut optional = || {
        let is_there = next()? != 0;
        next().map(|number| is_there.then_some(number))
    };
    let probe = optional()?.and_then(|probe| usize::try_from(probe).ok());
    let opset = optional()?;
    let form = match next()? {
        0 => OperatorForm::Own,
        1 => {
            let (from, to, saturate) = (ty(next()?)?, ty(next()?)?, next()? != 0);
            let round_mode = *MODES.get(usize::try_from(next()?).ok()?)?;
            let (opset, resolves_symbols) = (next()?, next()? != 0);
            if node.input_places() != if to.is_some() { 1 } else { 2 } {
                return None;
            }
            let rules = Rules { saturate, round_mode };
            OperatorForm::Cast(PrivateCast { from, to, rules, opset, resolves_symbols })
        }
        2 => OperatorForm::Quantizer(QuantizerSpec {
            node: node.label().into(),
            quantizes: node.op_type() == QUANTIZE,
            opset: next()?,
            judged_by: next()?,
            has_zero_point: next()? != 0,
            axis: next()?,
            block_size: usize::try_from(next()?).ok()?,
            saturate: next()? != 0,
            precision: ty(next()?)?,
            output: ty(next()?)?,
            exotic: [ty(next()?)?, ty(next()?)?, ty(next()?)?],
        }),
        3 => {
            let (opset, exotic, to) = (next()?, ty(next()?)?, ty(next()?)??);
            OperatorForm::BitCast(BitCastSpec { node: node.label().into(), opset, exotic, to })
        }
        4 => OperatorForm::Measured { counts: next()? != 0 },
        5 => OperatorForm::ExactDivision,
        6 => OperatorForm::Tied,
        7 => OperatorForm::Filed { stays: next()? != 0 },
        _ => return None,
    };
    Some(Lowered { form, probe, opset })
}

/// What a cast's builder is told: by the passes, or by the node as it stands in a file where only
/// the operators were registered, of a model that imports `opset`. Fails when the node asks for
/// something that its operator's version does not have.
pub(crate) fn cast_of(node: &NodeProto, opset: i64) -> Result<PrivateCast, Error> {
    match Lowered::read(node)?.map(|lowered| lowered.form) {
        Some(OperatorForm::Cast(cast)) => Ok(cast),
        _ => {
            let spec = CastSpec::parse(node, opset)?;
            let (to, rules, opset) = (spec.to, spec.rules(), spec.opset);
            Ok(PrivateCast { from: None, to, rules, opset, resolves_symbols: false })
        }
    }
}

/// The same of a quantiser. Fails as [`cast_of`] does.
pub(crate) fn quantizer_of(node: &NodeProto, opset: i64) -> Result<QuantizerSpec, Error> {
    match Lowered::read(node)?.map(|lowered| lowered.form) {
        Some(OperatorForm::Quantizer(spec)) => Ok(spec),
        _ => QuantizerSpec::parse(node, opset),
    }
}

/// The same of a `BitCast`. Fails as [`cast_of`] does.
pub(crate) fn bit_cast_of(node: &NodeProto, opset: i64) -> Result<BitCastSpec, Error> {
    match Lowered::read(node)?.map(|lowered| lowered.form) {
        Some(OperatorForm::BitCast(spec)) => Ok(spec),
        _ => BitCastSpec::parse(node, opset),
    }
}

/// Whether a `Div` is to be a division.
pub(crate) fn divides_exactly(node: &NodeProto) -> bool {
    Lowered::read(node)
        .is_ok_and(|lowered| lowered.is_some_and(|l| l.form == OperatorForm::ExactDivision))
}

/// The row of the audit that counts what a node does.
pub(crate) fn probe_of(node: &NodeProto) -> Option<usize> {
    Lowered::read(node).ok().flatten()?.probe
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEQUANTIZE: &str = "DequantizeLinear";

    fn node(op_type: &str, inputs: usize) -> NodeProto {
        let input = (0..inputs).map(|place| format!("x{place}")).collect();
        let (name, op_type) = ("n".into(), op_type.into());
        NodeProto { name, op_type, input, output: vec!["y".into()], ..NodeProto::default() }
    }

    fn quantizer(op: &str, has_zero_point: bool) -> OperatorForm {
        OperatorForm::Quantizer(QuantizerSpec {
            node: "n".into(),
            quantizes: op == QUANTIZE,
            opset: 25,
            judged_by: 23,
            has_zero_point,
            axis: -2,
            block_size: 32,
            saturate: !has_zero_point,
            precision: Some(ElementType::BFloat16),
            output: Some(ElementType::Float8E5M2),
            exotic: [None, Some(ElementType::Int4), Some(ElementType::BFloat16)],
        })
    }

    /// Every form, with values of which no two that follow each other are alike.
    fn forms() -> Vec<(NodeProto, OperatorForm)> {
        let cast = PrivateCast {
            from: Some(ElementType::Float4E2M1),
            to: Some(ElementType::Float8E8M0),
            rules: Rules { saturate: false, round_mode: RoundMode::Nearest },
            opset: 24,
            resolves_symbols: true,
        };
        let of_second = PrivateCast { to: None, rules: Rules::default(), ..cast };
        let bit_cast =
            BitCastSpec { node: "n".into(), opset: 26, exotic: None, to: ElementType::Uint4 };
        vec![
            (node("Add", 2), OperatorForm::Own),
            (node("Cast", 1), OperatorForm::Cast(cast)),
            (node("CastLike", 2), OperatorForm::Cast(of_second)),
            (node(QUANTIZE, 3), quantizer(QUANTIZE, true)),
            (node(DEQUANTIZE, 2), quantizer(DEQUANTIZE, false)),
            (node("BitCast", 1), OperatorForm::BitCast(bit_cast)),
            (node("Shape", 1), OperatorForm::Measured { counts: false }),
            (node("Size", 1), OperatorForm::Measured { counts: true }),
            (node("Div", 2), OperatorForm::ExactDivision),
            (node("Identity", 1), OperatorForm::Tied),
            (node("Constant", 0), OperatorForm::Filed { stays: false }),
            (node("Constant", 0), OperatorForm::Filed { stays: true }),
        ]
    }

    #[test]
    fn builders_are_told_what_was_written() {
        for (node, form) in forms() {
            for (probe, opset) in [(None, None), (Some(3), None), (Some(0), Some(13))] {
                let (lowered, mut written) =
                    (Lowered { form: form.clone(), probe, opset }, node.clone());
                lowered.write(&mut written);
                let mut built = written.clone();
                if opset.is_some() {
                    assert_eq!(written.op_type, AT_OPSET);
                    assert_eq!(Lowered::unwrap_opset(&mut built).ok(), opset);
                }
                assert_eq!(Lowered::read(&built).ok(), Some(Some(lowered)));
            }
        }
    }

    #[test]
    fn a_file_cannot_tell_builders_anything() {
        let mut foreign = node("Cast", 1);
        foreign.domain = DOMAIN.into();
        assert!(Lowered::read(&foreign).is_err());
        Lowered { form: forms()[1].1.clone(), ..Lowered::default() }.write(&mut foreign);
        foreign.attribute[0].ints.pop();
        assert!(Lowered::read(&foreign).is_err(), "a number is missing");
        assert_eq!(Lowered::read(&node("Cast", 1)).ok(), Some(None));
    }
}
