//! What this crate must know of operators beyond their schemas: one row for each, those left out that merely compute.

use tract_onnx::pb::NodeProto;

use crate::cast::element_type::ElementType;
use crate::onnx::node::{attribute, is_default_domain, word};

/// What an operator does.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Behaviour {
    /// ONNX's name for it.
    operator: &'static str,
    /// What it does with the elements of its inputs.
    elements: Elements,
    /// Whether its output has all elements of its first input, each once, and nothing else.
    pub(crate) only_rearranges: bool,
    /// What it puts in places that no element comes to.
    fills: Fills,
    /// The attribute that gives a type to outputs whose type the schema leaves open.
    pub(crate) type_attribute: Option<TypeAttribute>,
    /// What it makes.
    pub(crate) makes: Makes,
    /// Whether its outputs are not determined by its inputs and what its subgraphs use: chance, or a body run many times.
    pub(crate) is_undetermined: bool,
    /// The inputs that tract brings to one element type.
    pub(crate) combines: Inputs,
    /// Whether tract computes with its INT64 inputs as numbers only, never with symbolic dimensions.
    pub(crate) wants_numbers: bool,
    /// The inputs that are sizes of its output, of which tract keeps 32 bits.
    pub(crate) sizes: Inputs,
}

/// Some of an operator's inputs, by place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Inputs {
    All,
    Only(&'static [usize]),
}

impl Inputs {
    /// Whether the input at a place is among them.
    pub(crate) fn contains(self, index: usize) -> bool {
        match self {
            Inputs::All => true,
            Inputs::Only(places) => places.contains(&index),
        }
    }
}

/// What an operator does with elements of a type that tract only carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Elements {
    /// It moves the elements of these inputs to its outputs and looks at none of them. The other inputs say where to.
    Moved(Inputs),
    /// The same, unless its attribute `reduction` says how to compute with them.
    MovedOrReduced(Inputs),
    /// It looks at their shape alone.
    Measured,
    /// It computes with them.
    Computed,
}

/// What an operator puts in places that no element comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fills {
    Nothing,
    Zero,
    /// In the mode `constant` its third input; before opset 11 the attribute `value`; without either zero.
    Constant,
}

/// What an operator makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Makes {
    /// Values that depend on its inputs' elements.
    Values,
    /// The tensor among its attributes, or numbers that are attributes; it may be repeated.
    Attributes,
    /// Places in a tensor that is in memory, or how many.
    Places,
    /// Sizes of a tensor.
    Sizes,
}

/// An attribute that names an element type.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TypeAttribute {
    pub(crate) name: &'static str,
    /// What the type is where neither the node nor the schema gives one.
    pub(crate) otherwise: Otherwise,
}

/// A type where an attribute gives none.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Otherwise {
    Unknown,
    /// That of an input.
    Input(usize),
    Always(ElementType),
}

impl Behaviour {
    /// What a node's operator does; an operator of another domain computes, as far as is known.
    pub(crate) fn of(node: &NodeProto) -> &'static Behaviour {
        let found = BEHAVIOURS.binary_search_by(|row| row.operator.cmp(&node.op_type));
        let row = found.ok().and_then(|place| BEHAVIOURS.get(place));
        row.filter(|_| is_default_domain(&node.domain)).unwrap_or(&COMPUTES)
    }

    /// What it does with elements, [`Elements::MovedOrReduced`] decided by the node's attribute.
    pub(crate) fn elements(&self, node: &NodeProto) -> Elements {
        match self.elements {
            Elements::MovedOrReduced(inputs) => match word(node, "reduction") {
                None | Some(b"none") => Elements::Moved(inputs),
                Some(_) => Elements::Computed,
            },
            elements => elements,
        }
    }

    /// Whether a node fills places with a zero of its own, which for a type without zero would be another number.
    pub(crate) fn fills_with_zero(&self, node: &NodeProto) -> bool {
        match self.fills {
            Fills::Nothing => false,
            Fills::Zero => true,
            Fills::Constant => {
                let is_constant = attribute(node, "mode").is_none_or(|mode| mode.s == b"constant");
                is_constant && node.input.get(2).is_none_or(String::is_empty)
            }
        }
    }

    /// Whether a node fills places with a FLOAT from an attribute.
    pub(crate) fn fills_with_attribute(&self, node: &NodeProto) -> bool {
        self.fills == Fills::Constant
            && attribute(node, "value").is_some_and(|value| value.f != 0.0)
    }
}

const NONE: Inputs = Inputs::Only(&[]);
const FIRST: Inputs = Inputs::Only(&[0]);
const FIRST_AND_THIRD: Inputs = Inputs::Only(&[0, 2]);
const SECOND: Inputs = Inputs::Only(&[1]);
const SECOND_AND_THIRD: Inputs = Inputs::Only(&[1, 2]);

/// An operator that computes.
const COMPUTES: Behaviour = Behaviour {
    operator: "",
    elements: Elements::Computed,
    only_rearranges: false,
    fills: Fills::Nothing,
    type_attribute: None,
    makes: Makes::Values,
    is_undetermined: false,
    combines: NONE,
    wants_numbers: false,
    sizes: NONE,
};

const fn computes(operator: &'static str) -> Behaviour {
    Behaviour { operator, ..COMPUTES }
}

/// An operator that brings all its inputs to one type and computes.
const fn combines(operator: &'static str) -> Behaviour {
    Behaviour { combines: Inputs::All, ..computes(operator) }
}

/// An operator that moves the elements of its first input.
const fn moves(operator: &'static str) -> Behaviour {
    Behaviour { elements: Elements::Moved(FIRST), ..computes(operator) }
}

/// An operator that gives the elements of its first input another shape or order.
const fn rearranges(operator: &'static str) -> Behaviour {
    Behaviour { only_rearranges: true, ..moves(operator) }
}

const fn wants_numbers(operator: &'static str) -> Behaviour {
    Behaviour { wants_numbers: true, ..computes(operator) }
}

/// An operator that makes places in a tensor.
const fn locates(operator: &'static str) -> Behaviour {
    Behaviour { makes: Makes::Places, ..computes(operator) }
}

const fn measures(operator: &'static str) -> Behaviour {
    Behaviour { elements: Elements::Measured, makes: Makes::Sizes, ..computes(operator) }
}

/// An operator that writes elements of its third input into its first, or reduces both by an attribute.
const fn scatters(operator: &'static str) -> Behaviour {
    let elements = Elements::MovedOrReduced(FIRST_AND_THIRD);
    Behaviour { elements, combines: FIRST_AND_THIRD, ..computes(operator) }
}

/// An operator of which an attribute gives the output's type.
const fn typed_by(operator: &'static str, name: &'static str, otherwise: Otherwise) -> Behaviour {
    Behaviour { type_attribute: Some(TypeAttribute { name, otherwise }), ..computes(operator) }
}

const fn undetermined(row: Behaviour) -> Behaviour {
    Behaviour { is_undetermined: true, ..row }
}

/// Sorted by name.
const BEHAVIOURS: &[Behaviour] = &[
    combines("Add"),
    locates("ArgMax"),
    locates("ArgMin"),
    undetermined(typed_by("Bernoulli", "dtype", Otherwise::Input(0))),
    combines("BitShift"),
    combines("BitwiseAnd"),
    combines("BitwiseOr"),
    combines("BitwiseXor"),
    typed_by("BlackmanWindow", "output_datatype", Otherwise::Unknown),
    combines("Clip"),
    moves("Compress"),
    Behaviour { elements: Elements::Moved(Inputs::All), ..combines("Concat") },
    Behaviour { makes: Makes::Attributes, ..computes("Constant") },
    Behaviour { makes: Makes::Attributes, sizes: FIRST, ..computes("ConstantOfShape") },
    moves("DepthToSpace"),
    typed_by("DequantizeLinear", "output_dtype", Otherwise::Input(1)),
    combines("Div"),
    wants_numbers("Einsum"),
    combines("Equal"),
    Behaviour { sizes: SECOND, ..moves("Expand") },
    typed_by("EyeLike", "dtype", Otherwise::Input(0)),
    rearranges("Flatten"),
    moves("Gather"),
    moves("GatherElements"),
    moves("GatherND"),
    wants_numbers("Gemm"),
    combines("Greater"),
    combines("GreaterOrEqual"),
    typed_by("HammingWindow", "output_datatype", Otherwise::Unknown),
    typed_by("HannWindow", "output_datatype", Otherwise::Unknown),
    rearranges("Identity"),
    typed_by("LayerNormalization", "stash_type", Otherwise::Unknown),
    combines("Less"),
    combines("LessOrEqual"),
    undetermined(wants_numbers("Loop")),
    wants_numbers("MatMul"),
    combines("Max"),
    combines("Mean"),
    typed_by("MelWeightMatrix", "output_datatype", Otherwise::Unknown),
    combines("Min"),
    combines("Mod"),
    combines("Mul"),
    undetermined(typed_by("Multinomial", "dtype", Otherwise::Unknown)),
    locates("NonMaxSuppression"),
    locates("NonZero"),
    Behaviour {
        elements: Elements::Moved(FIRST_AND_THIRD),
        fills: Fills::Constant,
        combines: FIRST_AND_THIRD,
        ..computes("Pad")
    },
    combines("Pow"),
    typed_by("QuantizeLinear", "output_dtype", Otherwise::Always(ElementType::Uint8)),
    undetermined(typed_by("RandomNormal", "dtype", Otherwise::Unknown)),
    undetermined(typed_by("RandomNormalLike", "dtype", Otherwise::Input(0))),
    undetermined(typed_by("RandomUniform", "dtype", Otherwise::Unknown)),
    undetermined(typed_by("RandomUniformLike", "dtype", Otherwise::Input(0))),
    combines("Range"),
    Behaviour { sizes: SECOND, ..rearranges("Reshape") },
    moves("ReverseSequence"),
    undetermined(wants_numbers("Scan")),
    scatters("Scatter"),
    scatters("ScatterElements"),
    scatters("ScatterND"),
    locates("SequenceLength"),
    measures("Shape"),
    measures("Size"),
    moves("Slice"),
    moves("SpaceToDepth"),
    moves("Split"),
    rearranges("Squeeze"),
    combines("Sub"),
    combines("Sum"),
    Behaviour { sizes: SECOND, ..moves("Tile") },
    rearranges("Transpose"),
    Behaviour { fills: Fills::Zero, ..moves("Trilu") },
    rearranges("Unsqueeze"),
    Behaviour {
        elements: Elements::Moved(SECOND_AND_THIRD),
        combines: SECOND_AND_THIRD,
        ..computes("Where")
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::onnx::operators::schema::versions;

    #[test]
    fn rows_are_sorted_and_name_operators_of_onnx() {
        assert!(BEHAVIOURS.is_sorted_by(|a, b| a.operator < b.operator));
        for row in BEHAVIOURS {
            assert!(!versions(row.operator).is_empty(), "{}", row.operator);
        }
    }

    #[test]
    fn an_operator_of_another_domain_is_not_onnx_s() {
        let node = |domain: &str| NodeProto {
            op_type: "Identity".into(),
            domain: domain.into(),
            ..NodeProto::default()
        };
        assert!(Behaviour::of(&node("ai.onnx")).only_rearranges);
        assert!(!Behaviour::of(&node("com.example")).only_rearranges);
    }
}
