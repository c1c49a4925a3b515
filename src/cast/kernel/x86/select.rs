//! Which pairs have blocks of their own.

use std::marker::PhantomData;
use std::sync::Arc;

use half::{bf16, f16};

use super::blocks::{Floats, blocks};
use super::bytes::{Avx2ToHalf, Low16Bits, LowBits, Small, ToScale, UpperHalf};
use super::half::FromDoubles;
use super::words::{
    Avx2ToOdd, DoubleToFloat, Doubles, FloatToDouble, Integers, LowWords, OddToHalf, RoundedToOdd,
    ToInt32, ToWords, WordsToDouble, WordsToFloat,
};
use crate::cast::element_type::{ElementType, Family};
use crate::cast::format::Specials;
use crate::cast::kernel::lookup::tabulate;
use crate::cast::kernel::loops::Kernel;
use crate::cast::kernel::round::{Narrow, Scale};
use crate::cast::rules::Rules;

/// The kernel of a pair, with blocks for some of the elements if there are any.
pub(in crate::cast::kernel) fn with_blocks(
    (from, to, rules): (ElementType, ElementType, Rules),
    kernel: Arc<dyn Kernel>,
) -> Arc<dyn Kernel> {
    use ElementType::*;
    match (from, to) {
        (Double, Float) => blocks(DoubleToFloat, kernel),
        (Float, Double) => blocks(FloatToDouble, kernel),
        (Int64, Float) => blocks(WordsToFloat::<i64>(PhantomData), kernel),
        (Uint64, Float) => blocks(WordsToFloat::<u64>(PhantomData), kernel),
        (Int64, Double) => blocks(WordsToDouble::<i64>(PhantomData), kernel),
        (Uint64, Double) => blocks(WordsToDouble::<u64>(PhantomData), kernel),
        (Double, Float16) => blocks(OddToHalf::<f64>(PhantomData), Arc::new(FromDoubles(kernel))),
        (Int64, Float16) => blocks(OddToHalf::<i64>(PhantomData), kernel),
        (Uint64, Float16) => blocks(OddToHalf::<u64>(PhantomData), kernel),
        (Float, _) => from_floats::<f32>(to, rules, kernel),
        (Float16, _) => from_floats::<f16>(to, rules, kernel),
        (BFloat16, _) => from_floats::<bf16>(to, rules, kernel),
        (Double, Int64 | Uint64) => blocks(ToWords::<f64>(PhantomData), kernel),
        (Double, Uint32) => blocks(LowWords::<f64>(PhantomData), kernel),
        // With AVX-512 looking up is faster.
        (Uint8, Float16) => blocks(Avx2ToHalf::<u8>(PhantomData), tabulate(from, to, rules)),
        (Int8, Float16) => blocks(Avx2ToHalf::<i8>(PhantomData), tabulate(from, to, rules)),
        (Uint16, Float16) => blocks(Avx2ToHalf::<u16>(PhantomData), kernel),
        (Int16, Float16) => blocks(Avx2ToHalf::<i16>(PhantomData), kernel),
        _ => kernel,
    }
}

/// The kernel of a 64-bit word to FLOAT rounded to odd.
pub(in crate::cast::kernel) fn to_odd(
    from: ElementType,
    kernel: Arc<dyn Kernel>,
) -> Arc<dyn Kernel> {
    fn of<S: RoundedToOdd>(kernel: Arc<dyn Kernel>) -> Arc<dyn Kernel> {
        blocks(Avx2ToOdd::<S>(PhantomData), kernel)
    }
    match from {
        ElementType::Double => of::<f64>(kernel),
        ElementType::Int64 => of::<i64>(kernel),
        ElementType::Uint64 => of::<u64>(kernel),
        _ => kernel,
    }
}

fn from_floats<S: Floats + Doubles>(
    to: ElementType,
    rules: Rules,
    kernel: Arc<dyn Kernel>,
) -> Arc<dyn Kernel> {
    fn small<S: Floats>(narrow: &Narrow, kernel: Arc<dyn Kernel>) -> Arc<dyn Kernel> {
        if narrow.signs_zero() {
            blocks(Small::<S, true>::new(narrow), kernel)
        } else {
            blocks(Small::<S, false>::new(narrow), kernel)
        }
    }
    match (to.family(), to.bits()) {
        (Family::Signed | Family::Unsigned, bits @ ..=8) => {
            blocks(LowBits::<S>::new(bits, to.family() == Family::Signed), kernel)
        }
        (Family::Signed | Family::Unsigned, 16) => blocks(Low16Bits::<S>(PhantomData), kernel),
        (Family::Unsigned, 32) => {
            blocks(Integers::<S, _>(LowWords::<S>(PhantomData), PhantomData), kernel)
        }
        (Family::Signed, 32) => blocks(ToInt32::<S>(PhantomData), kernel),
        (Family::Signed | Family::Unsigned, 64) => {
            blocks(Integers::<S, _>(ToWords::<S>(PhantomData), PhantomData), kernel)
        }
        (Family::Float(_), 16) if to == ElementType::Float16 => {
            blocks(Avx2ToHalf::<S>(PhantomData), kernel)
        }
        (Family::Float(_), 16) if to == ElementType::BFloat16 => {
            blocks(UpperHalf::<S>(PhantomData), kernel)
        }
        (Family::Float(format), ..=8) if format.specials == Specials::ScaleOnly => {
            blocks(ToScale::<S>::new(Scale::new(format, rules)), kernel)
        }
        (Family::Float(format), ..=8) => small::<S>(&Narrow::new(format, rules), kernel),
        _ => kernel,
    }
}
