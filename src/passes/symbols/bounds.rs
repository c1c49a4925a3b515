//! Between which numbers a value's elements lie.

use tract_onnx::pb::AttributeProto;
use tract_onnx::pb::TensorProto;
use tract_onnx::pb::attribute_proto::AttributeType;
use tract_onnx::prelude::{DatumType, Tensor};

use crate::cast::element_type::{ElementType, Family};
use crate::cast::rules::Rules;
use crate::onnx::node::{NodeView, int};
use crate::onnx::operators::behaviour::{Behaviour, InputPlaces, Sizes};
use crate::tensor::conversion::Conversion;

/// The most elements of a constant that are looked at.
const LOOKED_THROUGH: i64 = 1 << 16;

/// A range that holds all elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::passes) struct Bounds {
    pub(in crate::passes) least: i128,
    pub(in crate::passes) most: i128,
    /// Whether there are elements at both ends.
    pub(in crate::passes) is_reached: bool,
    /// Whether it is made of dimensions, which are so small that nothing wraps around.
    of_dimensions: bool,
}

impl Bounds {
    /// A dimension of a tensor.
    pub(in crate::passes) const DIMENSION: Bounds =
        Bounds { least: 0, most: i64::MAX as i128, is_reached: false, of_dimensions: true };

    /// A truth.
    const TRUTH: Bounds = Bounds { least: 0, most: 1, is_reached: false, of_dimensions: false };

    pub(in crate::passes) fn fits_32_bits(&self) -> bool {
        self.least >= i128::from(i32::MIN) && self.most <= i128::from(i32::MAX)
    }

    /// Whether an element is known to be beyond 32 bits.
    pub(in crate::passes) fn surely_exceeds_32_bits(&self) -> bool {
        self.is_reached && !self.fits_32_bits()
    }

    fn is_one_number(&self) -> bool {
        self.least == self.most
    }

    /// Whether no element is in both.
    pub(in crate::passes) fn is_apart_from(&self, other: &Bounds) -> bool {
        self.most < other.least || other.most < self.least
    }

    /// The hull of some numbers.
    fn of(ends: &[i128]) -> Option<Bounds> {
        let (least, most) = (*ends.iter().min()?, *ends.iter().max()?);
        Some(Bounds { least, most, is_reached: true, of_dimensions: false })
    }

    fn ends(&self) -> [i128; 2] {
        [self.least, self.most]
    }

    /// The hull of both.
    pub(in crate::passes) fn join(self, other: Bounds) -> Bounds {
        Bounds {
            least: self.least.min(other.least),
            most: self.most.max(other.most),
            is_reached: self.is_reached && other.is_reached,
            of_dimensions: self.of_dimensions || other.of_dimensions,
        }
    }

    /// The range of a binary operation that is monotonous in each of its operands. None of
    /// constants that exceed 64 bits, where they wrap around.
    fn combine(self, other: Bounds, f: impl Fn(i128, i128) -> i128) -> Option<Bounds> {
        let ends: Vec<i128> =
            self.ends().iter().flat_map(|a| other.ends().map(|b| f(*a, b))).collect();
        let Bounds { least, most, .. } = Bounds::of(&ends)?;
        let (first, last) = (i128::from(i64::MIN), i128::from(i64::MAX));
        let of_dimensions = self.of_dimensions || other.of_dimensions;
        let fits = of_dimensions || (least >= first && most <= last);
        let is_reached =
            self.is_reached && other.is_reached && (self.is_one_number() || other.is_one_number());
        let (least, most) = (least.clamp(first, last), most.clamp(first, last));
        fits.then_some(Bounds { least, most, is_reached, of_dimensions })
    }
}

/// The bounds of a constant that was read; `None` where there are none: a NaN, a text.
pub(in crate::passes) fn of_tensor(ty: ElementType, tensor: &Tensor) -> Option<Bounds> {
    let view = tensor.try_as_plain_ram().ok()?;
    if tensor.datum_type() == DatumType::I64 {
        let numbers = view.as_slice::<i64>().ok()?;
        return Bounds::of(&numbers.iter().map(|number| i128::from(*number)).collect::<Vec<_>>());
    }
    if ty.family() == Family::Text {
        return None;
    }
    let numbers = Conversion::new(ty, ElementType::Double, Rules::default()).run(tensor).ok()?;
    of_floats(numbers.try_as_plain_ram().ok()?.as_slice::<f64>().ok()?)
}

/// Whether a constant is one whose elements are worth a look.
pub(in crate::passes) fn is_looked_through(tensor: &TensorProto) -> bool {
    let elements = tensor.dims.iter().try_fold(1i64, |product, dim| product.checked_mul(*dim));
    let is_numeric =
        ElementType::from_id(tensor.data_type).is_some_and(|ty| ty.family() != Family::Text);
    is_numeric && elements.is_some_and(|elements| (0..=LOOKED_THROUGH).contains(&elements))
}

/// The bounds of numbers that stand in an attribute.
pub(in crate::passes) fn of_attribute(attribute: &AttributeProto) -> Option<Bounds> {
    let hull =
        |numbers: &[i64]| Bounds::of(&numbers.iter().map(|i| i128::from(*i)).collect::<Vec<_>>());
    match AttributeType::try_from(attribute.r#type) {
        Ok(AttributeType::Int) => hull(&[attribute.i]),
        Ok(AttributeType::Ints) => hull(&attribute.ints),
        Ok(AttributeType::Float) => of_floats(&[attribute.f.into()]),
        Ok(AttributeType::Floats) => {
            of_floats(&attribute.floats.iter().map(|f| f64::from(*f)).collect::<Vec<f64>>())
        }
        _ => None,
    }
}

fn of_floats(numbers: &[f64]) -> Option<Bounds> {
    let is_bounded = |x: &f64| x.abs() < 9e18;
    if !numbers.iter().all(is_bounded) {
        return None;
    }
    let integral = numbers.iter().all(|x| x.fract() == 0.0);
    let least = numbers.iter().copied().reduce(f64::min)?.floor();
    let most = numbers.iter().copied().reduce(f64::max)?.ceil();
    Some(Bounds { is_reached: integral, ..Bounds::of(&[least as i128, most as i128])? })
}

/// The bounds of what an operator makes of inputs with these bounds, in its own order; a `None`
/// among them is an input that is not given or has no bounds.
pub(in crate::passes) fn of_output(
    node: &(impl NodeView + ?Sized),
    behaviour: &Behaviour,
    inputs: &[Option<Bounds>],
) -> Option<Bounds> {
    let given = |index: usize| inputs.get(index).copied().flatten();
    let is_given = |index: usize| node.gives(index);
    let fold = |f: &dyn Fn(i128, i128) -> i128| {
        let mut all = (0..node.input_places()).filter(|index| is_given(*index)).map(given);
        let first = all.next()??;
        all.try_fold(first, |a, b| a.combine(b?, f))
    };
    match behaviour.sizes {
        Sizes::Keeps(moved) | Sizes::Moves(moved) => {
            let keeps_all = behaviour.only_rearranges || moved == InputPlaces::All;
            let mut hull: Option<Bounds> = None;
            let places = (0..node.input_places()).filter(|index| moved.contains(*index));
            for index in places.filter(|index| is_given(*index)) {
                let bounds = given(index)?;
                let is_reached = bounds.is_reached && (keeps_all || bounds.is_one_number());
                let bounds = Bounds { is_reached, ..bounds };
                hull = Some(hull.map_or(bounds, |hull| hull.join(bounds)));
            }
            hull
        }
        Sizes::Adds => fold(&|a, b| a.saturating_add(b)),
        Sizes::Subtracts => fold(&|a, b| a.saturating_sub(b)),
        Sizes::Multiplies => fold(&|a, b| a.saturating_mul(b)),
        Sizes::Divides => {
            let (a, b) = (given(0)?, given(1)?);
            (b.least >= 1).then(|| a.combine(b, |a, b| a / b.max(1))).flatten()
        }
        Sizes::Remainders => {
            let b = given(1)?;
            let positive = given(0).is_some_and(|a| a.least >= 0) && b.least >= 1;
            let most = b.most - 1;
            positive.then_some(Bounds { least: 0, most, is_reached: false, ..b })
        }
        Sizes::Negates => {
            let bounds = given(0)?;
            bounds.combine(Bounds::of(&[0])?, |a, _| -a)
        }
        Sizes::Least => fold(&i128::min),
        Sizes::Most => fold(&i128::max),
        Sizes::Clips => {
            let mut clipped = given(0)?;
            if is_given(1) {
                clipped = clipped.combine(given(1)?, i128::max)?;
            }
            if is_given(2) {
                clipped = clipped.combine(given(2)?, i128::min)?;
            }
            Some(clipped)
        }
        Sizes::Compares | Sizes::Decides => Some(Bounds::TRUTH),
        Sizes::Casts => cast(node, given(0)?),
        Sizes::Measures => Some(Bounds::DIMENSION),
        Sizes::AsNumbers => None,
    }
}

/// The bounds after a cast to a type that holds them.
fn cast(node: &(impl NodeView + ?Sized), bounds: Bounds) -> Option<Bounds> {
    let to = int(node, "to")?;
    let to = i32::try_from(to).ok().and_then(ElementType::from_id)?;
    let bits = to.bits();
    let (least, most) = match to.family() {
        Family::Signed => (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1),
        Family::Unsigned => (0, (1i128 << bits) - 1),
        // All these integers are themselves in the wide formats; others round them.
        Family::Float(_) if bits >= 32 => (-(1 << 24), 1 << 24),
        _ => return None,
    };
    (bounds.least >= least && bounds.most <= most).then_some(bounds)
}
