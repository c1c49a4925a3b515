//! A tensor as ONNX means it: a type, a shape and the code of each element.

use tract_onnx::pb::TensorProto;
use tract_onnx::prelude::Tensor;
use tract_onnx_cast::kernel::convert_scalar;
use tract_onnx_cast::{ElementType, Family, Rules, tensor_proto};

use crate::common::cases::Typed;
use crate::common::elements::{codes_of_tensor, tensor_of_codes};

#[derive(Debug, Clone, PartialEq)]
pub struct Val {
    pub ty: ElementType,
    pub shape: Vec<usize>,
    /// The elements' bit patterns, in row-major order.
    pub codes: Vec<u64>,
}

/// How many elements a shape has.
pub fn volume(shape: &[usize]) -> usize {
    shape.iter().product()
}

impl Val {
    pub fn new(ty: ElementType, shape: Vec<usize>, codes: Vec<u64>) -> Val {
        debug_assert_eq!(volume(&shape), codes.len());
        Val { ty, shape, codes }
    }

    /// Integers, of which the low bits count.
    pub fn of_ints(
        ty: ElementType,
        shape: Vec<usize>,
        ints: impl IntoIterator<Item = i128>,
    ) -> Val {
        Val::new(ty, shape, ints.into_iter().map(|i| i as u64 & ty.code_mask()).collect())
    }

    pub fn int64(ints: &[i64]) -> Val {
        let ints_of = ints.iter().map(|i| i128::from(*i));
        Val::of_ints(ElementType::Int64, vec![ints.len()], ints_of)
    }

    pub fn is_int(&self) -> bool {
        matches!(self.ty.family(), Family::Signed | Family::Unsigned)
    }

    pub fn is_float(&self) -> bool {
        matches!(self.ty, ElementType::Float | ElementType::Double)
    }

    /// The elements of an integer or BOOL tensor.
    pub fn ints(&self) -> Vec<i128> {
        let unused = 64 - self.ty.bits();
        let is_signed = self.ty.family() == Family::Signed;
        let int = |code: &u64| {
            if is_signed {
                i128::from((code << unused) as i64 >> unused)
            } else {
                i128::from(*code)
            }
        };
        self.codes.iter().map(int).collect()
    }

    /// The elements of a FLOAT or DOUBLE tensor, exactly.
    pub fn floats(&self) -> Vec<f64> {
        let is_double = self.ty == ElementType::Double;
        let float = |code: &u64| {
            if is_double { f64::from_bits(*code) } else { f64::from(f32::from_bits(*code as u32)) }
        };
        self.codes.iter().map(float).collect()
    }

    /// INT64 elements as places or sizes, where each is one.
    pub fn i64s(&self) -> Option<Vec<i64>> {
        (self.ty == ElementType::Int64)
            .then(|| self.codes.iter().map(|code| *code as i64).collect())
    }

    /// The one element of an INT64 tensor.
    pub fn i64(&self) -> Option<i64> {
        match self.i64s()?[..] {
            [one] => Some(one),
            _ => None,
        }
    }

    pub fn has_nan(&self) -> bool {
        match self.ty.family() {
            Family::Float(format) => self.codes.iter().any(|code| format.is_nan(*code)),
            _ => false,
        }
    }

    /// The same elements in another shape.
    pub fn reshaped(&self, shape: Vec<usize>) -> Option<Val> {
        (volume(&shape) == self.codes.len()).then(|| Val { shape, ..self.clone() })
    }

    /// The elements at these places, in this shape.
    pub fn picked(
        &self,
        shape: Vec<usize>,
        places: impl IntoIterator<Item = usize>,
    ) -> Option<Val> {
        let codes: Option<Vec<u64>> =
            places.into_iter().map(|place| self.codes.get(place).copied()).collect();
        let codes = codes?;
        (volume(&shape) == codes.len()).then_some(Val { ty: self.ty, shape, codes })
    }

    pub fn cast(&self, to: ElementType) -> Option<Val> {
        let cast = |code: &u64| convert_scalar(self.ty, to, Rules::default(), *code);
        let codes = self.codes.iter().map(cast).collect::<Option<_>>()?;
        Some(Val { ty: to, shape: self.shape.clone(), codes })
    }

    pub fn tensor(&self) -> Tensor {
        tensor_of_codes(self.ty, &self.codes).into_shape(&self.shape).expect("a shape that fits")
    }

    pub fn proto(&self, name: &str) -> TensorProto {
        tensor_proto::write(name, self.ty, &self.tensor()).expect("a tensor")
    }

    /// What is wrong with an output, which should be this.
    pub fn complaint(&self, got: &Typed) -> Option<String> {
        if got.ty != self.ty {
            return Some(format!("is {}, not {}", got.ty, self.ty));
        }
        if got.tensor.shape() != self.shape {
            return Some(format!("has the shape {:?}, not {:?}", got.tensor.shape(), self.shape));
        }
        if got.tensor.datum_type() != self.ty.datum_type() {
            return Some(format!("is held in {:?}", got.tensor.datum_type()));
        }
        let codes = codes_of_tensor(self.ty, &got.tensor);
        let is_nan = |code: u64| match self.ty.family() {
            Family::Float(format) => format.is_nan(code),
            _ => false,
        };
        let same = |(got, want): (&u64, &u64)| got == want || is_nan(*got) && is_nan(*want);
        let at = codes.iter().zip(&self.codes).position(|pair| !same(pair))?;
        let shown = |code| Val::new(self.ty, vec![], vec![code]).shown();
        Some(format!("element {at} is {}, not {}", shown(codes[at]), shown(self.codes[at])))
    }

    /// The elements as one reads them.
    pub fn shown(&self) -> String {
        let texts: Vec<String> = match self.ty.family() {
            Family::Float(_) => {
                let wide = self.cast(ElementType::Double).expect("numeric");
                wide.floats().iter().map(|x| format!("{x:?}")).collect()
            }
            _ => self.ints().iter().map(i128::to_string).collect(),
        };
        texts.join(", ")
    }
}

/// Every index of a shape, in row-major order.
pub fn indices(shape: &[usize]) -> impl Iterator<Item = Vec<usize>> {
    let shape = shape.to_vec();
    (0..volume(&shape)).map(move |mut place| {
        let mut index = vec![0; shape.len()];
        for (axis, size) in shape.iter().enumerate().rev() {
            index[axis] = place % size;
            place /= size;
        }
        index
    })
}

/// The place of an index in row-major order.
pub fn place(shape: &[usize], index: &[usize]) -> usize {
    shape.iter().zip(index).fold(0, |place, (size, at)| place * size + at)
}

/// The shape that these are broadcast to.
pub fn broadcast(shapes: &[&[usize]]) -> Option<Vec<usize>> {
    let rank = shapes.iter().map(|shape| shape.len()).max()?;
    let size = |axis: usize| {
        let sizes = shapes.iter().filter_map(|shape| {
            let at = (axis + shape.len()).checked_sub(rank)?;
            Some(shape[at])
        });
        sizes.filter(|size| *size != 1).try_fold(1, |one, size| match one {
            1 => Some(size),
            other => (other == size).then_some(size),
        })
    };
    (0..rank).map(size).collect()
}

/// For each element of the broadcast shape, the place of what it comes from.
pub fn sources(from: &[usize], to: &[usize]) -> Vec<usize> {
    let skipped = to.len() - from.len();
    let source = |index: Vec<usize>| {
        let own: Vec<usize> = index[skipped..]
            .iter()
            .zip(from)
            .map(|(at, size)| if *size == 1 { 0 } else { *at })
            .collect();
        place(from, &own)
    };
    indices(to).map(source).collect()
}

/// A negative axis counts from behind.
pub fn axis_of(axis: i64, rank: usize) -> Option<usize> {
    let rank = rank as i64;
    let axis = if axis < 0 { axis + rank } else { axis };
    (0..rank).contains(&axis).then_some(axis as usize)
}
