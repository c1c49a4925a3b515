//! What this crate must know of operators beyond their schemas: one row for each, those left out
//! that merely compute.

use crate::cast::element_type::ElementType;
use crate::onnx::node::{NodeView, attribute, word};

/// What an operator does.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Behaviour {
    /// ONNX's name for it.
    operator: &'static str,
    /// What it does with the elements of its inputs.
    elements: ElementUse,
    /// Whether its output has all elements of its first input, each once, and nothing else.
    pub(crate) only_rearranges: bool,
    /// What it puts in places that no element comes to.
    fills: Fills,
    /// The attribute that gives a type to outputs whose type the schema leaves open.
    pub(crate) type_attribute: Option<TypeAttribute>,
    /// Whether its value is a tensor or numbers among its attributes, perhaps repeated.
    pub(crate) makes_attributes: bool,
    /// Whether its outputs are not determined by its inputs and what its subgraphs use: chance, or
    /// a body run many times.
    pub(crate) is_undetermined: bool,
    /// What it does with the sizes of tensors.
    pub(crate) sizes: Sizes,
    /// The inputs that decide on its output's shape, of which tract makes use as symbols before the
    /// model runs.
    pub(crate) shapes: InputPlaces,
    /// Those of them that are dimensions as they stand, of which tract keeps 32 bits.
    pub(crate) dimensions: InputPlaces,
    /// Whether tract brings the inputs that decide on the shape to one type.
    pub(crate) combines_shapes: bool,
}

/// Some of an operator's inputs, by place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InputPlaces {
    All,
    Only(&'static [usize]),
}

impl InputPlaces {
    /// Whether the input at a place is among them.
    pub(crate) fn contains(self, index: usize) -> bool {
        match self {
            InputPlaces::All => true,
            InputPlaces::Only(places) => places.contains(&index),
        }
    }
}

/// What an operator does with elements of a type that tract only carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ElementUse {
    /// It moves the elements of these inputs to its outputs and looks at none of them. The other
    /// inputs say where to.
    Moved(InputPlaces),
    /// The same, unless its attribute `reduction` says how to compute with them.
    MovedOrReduced(InputPlaces),
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
    /// In the mode `constant` its third input; before opset 11 the attribute `value`; without
    /// either zero.
    Constant,
}

/// What an operator does with sizes of tensors, which tract holds as symbols: what it computes with
/// them symbolically and exactly. (tract-data's `TDim`: a sum, a product, a quotient without
/// remainder; division rounds towards zero, but what it makes of a negative dividend depends on how
/// the expression is simplified.)
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sizes {
    /// It makes some.
    Measures,
    /// It moves those of these inputs, and makes no more of them.
    Keeps(InputPlaces),
    /// It moves those of these inputs, of which it may make many.
    Moves(InputPlaces),
    /// The sum of all inputs.
    Adds,
    Subtracts,
    Multiplies,
    Divides,
    Remainders,
    Negates,
    /// The least of all inputs.
    Least,
    /// The greatest of all inputs.
    Most,
    Clips,
    /// It compares two inputs. (tract takes what it cannot prove equal for unequal, so only what is
    /// sure beforehand is exact.)
    Compares,
    /// It makes a truth of truths.
    Decides,
    /// It makes another type of them, unless it casts to INT64.
    Casts,
    /// It wants 64-bit numbers.
    AsNumbers,
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
    pub(crate) fn of(node: &(impl NodeView + ?Sized)) -> &'static Behaviour {
        let found = BEHAVIOURS.binary_search_by(|row| row.operator.cmp(node.op_type()));
        let row = found.ok().and_then(|place| BEHAVIOURS.get(place));
        row.filter(|_| node.is_onnx()).unwrap_or(&COMPUTES)
    }

    /// What it does with elements, [`ElementUse::MovedOrReduced`] decided by the node's attribute.
    pub(crate) fn elements(&self, node: &(impl NodeView + ?Sized)) -> ElementUse {
        match self.elements {
            ElementUse::MovedOrReduced(inputs) => match word(node, "reduction") {
                None | Some(b"none") => ElementUse::Moved(inputs),
                Some(_) => ElementUse::Computed,
            },
            elements => elements,
        }
    }

    /// Whether a node fills places with a zero of its own, which for a type without zero would be
    /// another number.
    pub(crate) fn fills_with_zero(&self, node: &(impl NodeView + ?Sized)) -> bool {
        match self.fills {
            Fills::Nothing => false,
            Fills::Zero => true,
            Fills::Constant => {
                let is_constant = attribute(node, "mode").is_none_or(|mode| mode.s == b"constant");
                is_constant && !node.gives(2)
            }
        }
    }

    /// Whether a node fills places with a FLOAT from an attribute.
    pub(crate) fn fills_with_attribute(&self, node: &(impl NodeView + ?Sized)) -> bool {
        self.fills == Fills::Constant
            && attribute(node, "value").is_some_and(|value| value.f != 0.0)
    }
}

const NONE: InputPlaces = InputPlaces::Only(&[]);
const FIRST: InputPlaces = InputPlaces::Only(&[0]);
const FIRST_AND_THIRD: InputPlaces = InputPlaces::Only(&[0, 2]);
const SECOND: InputPlaces = InputPlaces::Only(&[1]);
const SECOND_AND_THIRD: InputPlaces = InputPlaces::Only(&[1, 2]);

/// An operator that computes.
const COMPUTES: Behaviour = Behaviour {
    operator: "",
    elements: ElementUse::Computed,
    only_rearranges: false,
    fills: Fills::Nothing,
    type_attribute: None,
    makes_attributes: false,
    is_undetermined: false,
    sizes: Sizes::AsNumbers,
    shapes: NONE,
    dimensions: NONE,
    combines_shapes: false,
};

const fn computes(operator: &'static str, sizes: Sizes) -> Behaviour {
    Behaviour { operator, sizes, ..COMPUTES }
}

/// An operator whose output's shape depends on some inputs.
const fn shaped_by(operator: &'static str, shapes: InputPlaces) -> Behaviour {
    Behaviour { shapes, ..computes(operator, Sizes::AsNumbers) }
}

/// An operator that moves the elements of its first input.
const fn moves(operator: &'static str) -> Behaviour {
    let elements = ElementUse::Moved(FIRST);
    Behaviour { elements, ..computes(operator, Sizes::Moves(FIRST)) }
}

/// The same, with no more elements in the output than there are places for them in the other
/// inputs.
const fn keeps(operator: &'static str) -> Behaviour {
    Behaviour { sizes: Sizes::Keeps(FIRST), ..moves(operator) }
}

/// An operator that gives the elements of its first input another shape or order.
const fn rearranges(operator: &'static str) -> Behaviour {
    Behaviour { only_rearranges: true, ..keeps(operator) }
}

const fn measures(operator: &'static str) -> Behaviour {
    Behaviour { elements: ElementUse::Measured, ..computes(operator, Sizes::Measures) }
}

/// An operator that writes elements of its third input into its first, or reduces both by an
/// attribute.
const fn scatters(operator: &'static str) -> Behaviour {
    let elements = ElementUse::MovedOrReduced(FIRST_AND_THIRD);
    Behaviour { elements, ..computes(operator, Sizes::Moves(FIRST_AND_THIRD)) }
}

/// An operator of which an attribute gives the output's type.
const fn typed_by(operator: &'static str, name: &'static str, otherwise: Otherwise) -> Behaviour {
    let type_attribute = Some(TypeAttribute { name, otherwise });
    Behaviour { type_attribute, ..computes(operator, Sizes::AsNumbers) }
}

const fn undetermined(row: Behaviour) -> Behaviour {
    Behaviour { is_undetermined: true, ..row }
}

const fn with_shapes(shapes: InputPlaces, row: Behaviour) -> Behaviour {
    Behaviour { shapes, ..row }
}

/// An operator whose second input is its output's dimensions, or what these are multiplied by.
const fn with_dimensions(dimensions: InputPlaces, row: Behaviour) -> Behaviour {
    Behaviour { shapes: dimensions, dimensions, ..row }
}

/// Sorted by name.
const BEHAVIOURS: &[Behaviour] = &[
    computes("Add", Sizes::Adds),
    computes("And", Sizes::Decides),
    undetermined(typed_by("Bernoulli", "dtype", Otherwise::Input(0))),
    typed_by("BlackmanWindow", "output_datatype", Otherwise::Unknown),
    computes("Cast", Sizes::Casts),
    computes("Clip", Sizes::Clips),
    moves("Compress"),
    Behaviour {
        elements: ElementUse::Moved(InputPlaces::All),
        ..computes("Concat", Sizes::Keeps(InputPlaces::All))
    },
    Behaviour { makes_attributes: true, ..computes("Constant", Sizes::AsNumbers) },
    with_dimensions(
        FIRST,
        Behaviour { makes_attributes: true, ..computes("ConstantOfShape", Sizes::AsNumbers) },
    ),
    moves("DepthToSpace"),
    typed_by("DequantizeLinear", "output_dtype", Otherwise::Input(1)),
    computes("Div", Sizes::Divides),
    computes("Equal", Sizes::Compares),
    with_dimensions(SECOND, moves("Expand")),
    typed_by("EyeLike", "dtype", Otherwise::Input(0)),
    rearranges("Flatten"),
    keeps("Gather"),
    moves("GatherElements"),
    moves("GatherND"),
    computes("Greater", Sizes::Compares),
    computes("GreaterOrEqual", Sizes::Compares),
    typed_by("HammingWindow", "output_datatype", Otherwise::Unknown),
    typed_by("HannWindow", "output_datatype", Otherwise::Unknown),
    rearranges("Identity"),
    // Which branch runs decides on the shape.
    shaped_by("If", FIRST),
    typed_by("LayerNormalization", "stash_type", Otherwise::Unknown),
    computes("Less", Sizes::Compares),
    computes("LessOrEqual", Sizes::Compares),
    undetermined(computes("Loop", Sizes::AsNumbers)),
    computes("Max", Sizes::Most),
    typed_by("MelWeightMatrix", "output_datatype", Otherwise::Unknown),
    computes("Min", Sizes::Least),
    computes("Mod", Sizes::Remainders),
    computes("Mul", Sizes::Multiplies),
    undetermined(typed_by("Multinomial", "dtype", Otherwise::Unknown)),
    computes("Neg", Sizes::Negates),
    computes("Not", Sizes::Decides),
    computes("Or", Sizes::Decides),
    Behaviour {
        elements: ElementUse::Moved(FIRST_AND_THIRD),
        fills: Fills::Constant,
        ..shaped_by("Pad", InputPlaces::Only(&[1, 3]))
    },
    typed_by("QuantizeLinear", "output_dtype", Otherwise::Always(ElementType::Uint8)),
    undetermined(typed_by("RandomNormal", "dtype", Otherwise::Unknown)),
    undetermined(typed_by("RandomNormalLike", "dtype", Otherwise::Input(0))),
    undetermined(typed_by("RandomUniform", "dtype", Otherwise::Unknown)),
    undetermined(typed_by("RandomUniformLike", "dtype", Otherwise::Input(0))),
    Behaviour { combines_shapes: true, ..shaped_by("Range", InputPlaces::All) },
    with_dimensions(SECOND, rearranges("Reshape")),
    shaped_by("Resize", InputPlaces::Only(&[3])),
    moves("ReverseSequence"),
    undetermined(computes("Scan", Sizes::AsNumbers)),
    scatters("Scatter"),
    scatters("ScatterElements"),
    scatters("ScatterND"),
    measures("Shape"),
    measures("Size"),
    with_shapes(InputPlaces::Only(&[1, 2, 3, 4]), keeps("Slice")),
    moves("SpaceToDepth"),
    with_shapes(SECOND, keeps("Split")),
    rearranges("Squeeze"),
    computes("Sub", Sizes::Subtracts),
    computes("Sum", Sizes::Adds),
    with_dimensions(SECOND, moves("Tile")),
    rearranges("Transpose"),
    Behaviour { fills: Fills::Zero, sizes: Sizes::AsNumbers, ..moves("Trilu") },
    rearranges("Unsqueeze"),
    Behaviour {
        elements: ElementUse::Moved(SECOND_AND_THIRD),
        ..computes("Where", Sizes::Moves(SECOND_AND_THIRD))
    },
    computes("Xor", Sizes::Decides),
];

#[cfg(test)]
mod tests;
