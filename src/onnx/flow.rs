//! What values are made of, so far as it decides between tract's symbolic dimensions and 64-bit numbers.
//!
//! tract brings an INT64 tensor that meets symbolic dimensions to their type, through 32 bits. So each value is followed by
//! two questions: may tract hold it as symbolic dimensions, and may it be a number of more than 32 bits? Where both kinds
//! meet, the dimensions are made numbers; among themselves they stay symbolic.

use tract_onnx::pb::attribute_proto::AttributeType;
use tract_onnx::pb::{NodeProto, TensorProto};

use super::operators::{self, Carriers};
use crate::cast::element_type::{ElementType, Family};
use crate::cast::rules::Rules;
use crate::tensor::conversion::Conversion;
use crate::tensor::proto;

/// What is known of a value.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fact {
    /// `None` where only tract's analysis can tell; never an exotic type then.
    pub(super) ty: Option<ElementType>,
    pub(super) origin: Origin,
    /// Whether tract may hold it as symbolic dimensions.
    pub(super) symbolic: bool,
    /// Whether it may be a number beyond 32 bits, or become one when it is cast to INT64.
    pub(super) wide: bool,
}

/// What a value is computed from; the last that applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Origin {
    /// Nothing but constants.
    Constants,
    /// The shapes of values.
    Shapes,
    /// What a graph is fed.
    Data,
}

impl Fact {
    /// A value that a graph is fed.
    pub(super) fn data(ty: Option<ElementType>) -> Fact {
        Fact { ty, origin: Origin::Data, symbolic: false, wide: may_be_wide(ty) }
    }

    /// A constant.
    pub(super) fn constant(ty: ElementType, wide: bool) -> Fact {
        Fact { ty: Some(ty), origin: Origin::Constants, symbolic: false, wide }
    }

    /// Dimensions that were made numbers.
    pub(super) fn numbers() -> Fact {
        let ty = Some(ElementType::Int64);
        Fact { ty, origin: Origin::Data, symbolic: false, wide: false }
    }

    /// Whether it is INT64, as far as is known.
    pub(super) fn may_be_int64(&self) -> bool {
        self.ty.is_none_or(|ty| ty == ElementType::Int64)
    }
}

/// Whether a type has numbers beyond 32 bits.
fn may_be_wide(ty: Option<ElementType>) -> bool {
    let Some(ty) = ty else { return true };
    match ty.family() {
        Family::Bool => false,
        Family::Signed => ty.bits() > 32,
        Family::Unsigned => ty.bits() > 16,
        Family::Float(format) => format.bias > 31,
        Family::Text => true,
    }
}

/// Whether a tensor, in ONNX's own type, has a number beyond 32 bits. A large one is not looked through.
pub(super) fn is_wide(tensor: &TensorProto) -> bool {
    const LOOKED_THROUGH: i64 = 1 << 16;
    let ty = ElementType::from_id(tensor.data_type);
    let elements = tensor.dims.iter().try_fold(1i64, |product, dim| product.checked_mul(*dim));
    if !may_be_wide(ty) {
        return false;
    }
    if elements.is_none_or(|elements| elements > LOOKED_THROUGH) {
        return true;
    }
    let Ok((ty, value)) = proto::read(tensor, None) else { return true };
    let Ok(numbers) = Conversion::new(ty, ElementType::Double, Rules::default()).run(&value) else {
        return true;
    };
    let numbers = numbers.try_as_plain_ram().and_then(|view| view.as_slice::<f64>());
    numbers.map_or(true, |numbers| numbers.iter().any(|x| !fits_32_bits(*x)))
}

fn fits_32_bits(x: f64) -> bool {
    (f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&x)
}

/// Whether a constant that a node holds in its attributes has a number beyond 32 bits.
pub(super) fn attributes_are_wide(node: &NodeProto) -> bool {
    node.attribute.iter().any(|attribute| match AttributeType::try_from(attribute.r#type) {
        Ok(AttributeType::Int) => i32::try_from(attribute.i).is_err(),
        Ok(AttributeType::Ints) => attribute.ints.iter().any(|i| i32::try_from(*i).is_err()),
        Ok(AttributeType::Float) => !fits_32_bits(attribute.f.into()),
        Ok(AttributeType::Floats) => attribute.floats.iter().any(|f| !fits_32_bits((*f).into())),
        Ok(AttributeType::Tensor) => attribute.t.as_ref().is_some_and(is_wide),
        Ok(AttributeType::String | AttributeType::Strings) => true,
        _ => false,
    })
}

/// What a node makes of its inputs, as an output of type `ty`. `inputs` stand where the node has them.
pub(super) fn output(
    node: &NodeProto,
    inputs: &[Option<Fact>],
    origin: Origin,
    attributes_are_wide: bool,
    ty: Option<ElementType>,
) -> Fact {
    let fact = |symbolic, wide| Fact { ty, origin, symbolic, wide: wide && may_be_wide(ty) };
    let values: Vec<Fact> = match operators::carriers(node) {
        Carriers::Moves(moves) => {
            let moved = inputs.iter().enumerate().filter(|(index, _)| moves(*index));
            moved.filter_map(|(_, input)| *input).collect()
        }
        _ => inputs.iter().filter_map(|input| *input).collect(),
    };
    let symbolic = values.iter().any(|value| value.symbolic);
    let wide = values.iter().any(|value| value.wide);
    let is_int64 = ty.is_none_or(|ty| ty == ElementType::Int64);
    match (node.op_type.as_str(), operators::carriers(node)) {
        ("Shape" | "Size", _) => Fact { origin: Origin::Shapes, ..fact(true, false) },
        ("Constant" | "ConstantOfShape", _) => fact(false, attributes_are_wide),
        // Indices into tensors that are in memory.
        ("ArgMax" | "ArgMin" | "NonMaxSuppression" | "NonZero" | "SequenceLength", _) => {
            fact(false, false)
        }
        ("Cast" | "CastLike", _) => {
            let input = inputs.first().copied().flatten();
            let stays = input.is_some_and(|input| input.symbolic && input.may_be_int64());
            fact(stays && is_int64, input.is_none_or(|input| input.wide))
        }
        (_, Carriers::Moves(_)) => fact(symbolic && is_int64, wide),
        // Of data anything may become.
        _ => fact(symbolic && is_int64, wide || (origin == Origin::Data && !symbolic)),
    }
}

/// The inputs of a node that are to be made numbers before it computes with them.
pub(super) fn to_be_numbers(node: &NodeProto, inputs: &[Option<Fact>]) -> Vec<usize> {
    let symbolic = |(index, fact): (usize, &Option<Fact>)| {
        fact.filter(|fact| fact.symbolic && fact.may_be_int64()).map(|_| index)
    };
    if operators::wants_numbers(node) {
        return inputs.iter().enumerate().filter_map(symbolic).collect();
    }
    let combined = operators::combined_inputs(node);
    let together = || inputs.iter().enumerate().filter(|(index, _)| combined(*index));
    let meets_wide = together().any(|(_, fact)| {
        fact.is_some_and(|fact| fact.wide && !fact.symbolic && fact.may_be_int64())
    });
    if meets_wide { together().filter_map(symbolic).collect() } else { vec![] }
}
