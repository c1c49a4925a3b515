//! Elements of any integer type as numbers wide enough for all, and back.

use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_core::ndarray::{ArrayD, ArrayViewD, IxDyn, Zip};

use crate::error::Error;

/// Elements as 128-bit integers: exact, and wide enough for the product of two.
pub(crate) type WideIntegers = ArrayD<i128>;

/// Whether an integer operator of ours computes on a type: tract's integers, without quantization.
pub(crate) fn is_integer(ty: DatumType) -> bool {
    ty.is_integer() && !ty.is_quantized()
}

/// The elements of a tensor of integers, of BOOL, or of dimensions, whose symbols have the values
/// in `context`. Fails on other types, and with tract's `TooEarly` where a symbol has no value yet.
pub(crate) fn read(tensor: &Tensor, symbols: &SymbolValues) -> TractResult<WideIntegers> {
    let view = tensor.try_as_plain_ram()?;
    macro_rules! elements {
        ($($name:ident $ty:ty),*) => {
            match tensor.datum_type() {
                $(DatumType::$name => view.as_slice::<$ty>()?.iter().map(|x| i128::from(*x)).collect(),)*
                DatumType::TDim => {
                    let size = |dim: &TDim| Ok(i128::from(dim.eval(symbols).to_i64()?));
                    view.as_slice::<TDim>()?.iter().map(size).collect::<TractResult<Vec<i128>>>()?
                }
                other => bail!("{other:?} is no integer type"),
            }
        };
    }
    let elements: Vec<i128> = elements!(
        Bool bool, I8 i8, I16 i16, I32 i32, I64 i64, U8 u8, U16 u16, U32 u32, U64 u64
    );
    Ok(ArrayD::from_shape_vec(IxDyn(tensor.shape()), elements)?)
}

/// What an operator makes without a plan, where all inputs from the first of them on are numbers
/// and no symbols.
pub(crate) fn eval_of_numbers(
    op: &impl EvalOp,
    inputs: TVec<TValue>,
    first: usize,
) -> TractResult<Option<TVec<TValue>>> {
    let symbols = SymbolValues::default();
    let are_numbers = inputs.iter().skip(first).all(|input| read(input, &symbols).is_ok());
    are_numbers.then(|| op.eval(&EvalContext::out_of_plan(), inputs)).transpose()
}

/// Integers as a tensor of a type, of each the bits that the type has. As dimensions they are those
/// of INT64.
#[allow(clippy::cast_possible_truncation, reason = "integers wrap around")]
pub(crate) fn write(numbers: &WideIntegers, ty: DatumType) -> TractResult<Tensor> {
    macro_rules! tensor {
        ($($name:ident $ty:ty),*) => {
            match ty {
                DatumType::Bool => numbers.mapv(|x| x != 0).into_tensor(),
                $(DatumType::$name => numbers.mapv(|x| x as $ty).into_tensor(),)*
                DatumType::TDim => numbers.mapv(|x| TDim::Val(x as i64)).into_tensor(),
                other => bail!("{other:?} is no integer type"),
            }
        };
    }
    Ok(tensor!(I8 i8, I16 i16, I32 i32, I64 i64, U8 u8, U16 u16, U32 u32, U64 u64))
}

/// Applies a function to the pairs that broadcasting makes of two arrays.
pub(crate) fn pairs<T: Copy>(
    a: ArrayViewD<T>,
    b: ArrayViewD<T>,
    zero: T,
    mut f: impl FnMut(T, T) -> Result<T, Error>,
) -> TractResult<ArrayD<T>> {
    let shape = tract_onnx::tract_core::broadcast::multi_broadcast(&[a.shape(), b.shape()])?;
    let mut result = ArrayD::from_elem(&*shape, zero);
    let mut failure = None;
    Zip::from(&mut result).and_broadcast(a).and_broadcast(b).for_each(|c, a, b| match f(*a, *b) {
        Ok(value) => *c = value,
        Err(error) => failure = Some(error),
    });
    failure.map_or(Ok(result), |error| Err(error.into()))
}

/// The dimensions that a tensor of integers or of dimensions stands for, exactly: tract's cast to
/// them goes through 32 bits. Fails on other types, and where an unsigned number is beyond INT64.
pub(crate) fn dims(tensor: &Tensor) -> TractResult<TVec<TDim>> {
    if tensor.datum_type().is_tdim() {
        return Ok(tensor.try_as_plain_ram()?.as_slice::<TDim>()?.into());
    }
    let numbers = read(tensor, &SymbolValues::default())?;
    numbers.iter().map(|x| Ok(TDim::Val(i64::try_from(*x)?))).collect()
}
