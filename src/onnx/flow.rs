//! What values are made of, so far as it decides between tract's symbolic dimensions and 64-bit numbers.
//!
//! tract brings an INT64 tensor that meets symbolic dimensions to their type, through 32 bits. So each value is followed by
//! two questions: may tract hold it as symbolic dimensions, and may it be a number of more than 32 bits? Where both kinds
//! meet, the dimensions are made numbers; among themselves they stay symbolic.

use tract_onnx::pb::attribute_proto::AttributeType;
use tract_onnx::pb::{NodeProto, TensorProto};

use super::fact::{Fact, Origin, has_values_beyond_32_bits};
use super::operators::behaviour::{Behaviour, Elements, Makes};
use super::spec::Operator;
use crate::cast::element_type::ElementType;
use crate::cast::rules::Rules;
use crate::tensor::conversion::Conversion;
use crate::tensor::proto;

/// What a node's attributes say of the values that it makes of them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Attributes {
    exceed_32_bits: bool,
}

impl Attributes {
    pub(super) fn of(node: &NodeProto) -> Attributes {
        Attributes { exceed_32_bits: attributes_exceed_32_bits(node) }
    }
}

/// Whether a tensor, in ONNX's own type, has a number beyond 32 bits. A large one is not looked through.
pub(super) fn exceeds_32_bits(tensor: &TensorProto) -> bool {
    const LOOKED_THROUGH: i64 = 1 << 16;
    let ty = ElementType::from_id(tensor.data_type);
    let elements = tensor.dims.iter().try_fold(1i64, |product, dim| product.checked_mul(*dim));
    if !has_values_beyond_32_bits(ty) {
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
fn attributes_exceed_32_bits(node: &NodeProto) -> bool {
    node.attribute.iter().any(|attribute| match AttributeType::try_from(attribute.r#type) {
        Ok(AttributeType::Int) => i32::try_from(attribute.i).is_err(),
        Ok(AttributeType::Ints) => attribute.ints.iter().any(|i| i32::try_from(*i).is_err()),
        Ok(AttributeType::Float) => !fits_32_bits(attribute.f.into()),
        Ok(AttributeType::Floats) => attribute.floats.iter().any(|f| !fits_32_bits((*f).into())),
        Ok(AttributeType::Tensor) => attribute.t.as_ref().is_some_and(exceeds_32_bits),
        Ok(AttributeType::String | AttributeType::Strings) => true,
        _ => false,
    })
}

/// What a node makes of its inputs, as an output of type `ty`. `inputs` stand where the node has them.
pub(super) fn output(
    operator: Option<Operator>,
    behaviour: &Behaviour,
    elements: Elements,
    attributes: Attributes,
    inputs: &[Option<Fact>],
    origin: Origin,
    ty: Option<ElementType>,
) -> Fact {
    let fact = |may_be_symbolic, may_exceed_32_bits| Fact {
        ty,
        origin,
        may_be_symbolic,
        may_exceed_32_bits: may_exceed_32_bits && has_values_beyond_32_bits(ty),
    };
    let is_moved = |index| match elements {
        Elements::Moved(moved) => moved.contains(index),
        _ => true,
    };
    let values = || inputs.iter().enumerate().filter(|(index, _)| is_moved(*index));
    let symbolic = values().any(|(_, value)| value.is_some_and(|value| value.may_be_symbolic));
    let wide = values().any(|(_, value)| value.is_some_and(|value| value.may_exceed_32_bits));
    let is_int64 = ty.is_none_or(|ty| ty == ElementType::Int64);
    if operator.is_some() {
        let input = inputs.first().copied().flatten();
        let stays = input.is_some_and(|input| input.may_be_symbolic && input.may_be_int64());
        return fact(stays && is_int64, input.is_none_or(|input| input.may_exceed_32_bits));
    }
    match (behaviour.makes, elements) {
        (Makes::Sizes, _) => Fact { origin: Origin::Shapes, ..fact(true, false) },
        (Makes::Attributes, _) => fact(false, attributes.exceed_32_bits),
        (Makes::Places, _) => fact(false, false),
        (Makes::Values, Elements::Moved(_)) => fact(symbolic && is_int64, wide),
        // Of data anything may become.
        (Makes::Values, _) => {
            fact(symbolic && is_int64, wide || (origin == Origin::Data && !symbolic))
        }
    }
}

/// The inputs of a node that are to be made numbers before it computes with them.
pub(super) fn to_be_numbers(node: &NodeProto, inputs: &[Option<Fact>]) -> Vec<usize> {
    let symbolic = |(index, fact): (usize, &Option<Fact>)| {
        fact.filter(|fact| fact.may_be_symbolic && fact.may_be_int64()).map(|_| index)
    };
    let behaviour = Behaviour::of(node);
    if behaviour.wants_numbers {
        return inputs.iter().enumerate().filter_map(symbolic).collect();
    }
    let together =
        || inputs.iter().enumerate().filter(|(index, _)| behaviour.combines.contains(*index));
    let meets_wide = together().any(|(_, fact)| {
        fact.is_some_and(|fact| {
            fact.may_exceed_32_bits && !fact.may_be_symbolic && fact.may_be_int64()
        })
    });
    if meets_wide { together().filter_map(symbolic).collect() } else { vec![] }
}
