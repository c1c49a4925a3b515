//! What is computed of an element, its scale and its zero point, as the loops have them.

#![forbid(unsafe_code)]

use std::marker::PhantomData;

use bytemuck::Pod;

use crate::cast::kernel::round::Narrow;

/// A function of an element and its parameters, inlined into loops that are compiled for each
/// level.
pub(super) trait ElementStep: Copy + Send + Sync + 'static {
    type In: Pod;
    type Out: Pod;
    fn apply(self, x: Self::In, scale: f32, zero: f32) -> Self::Out;
}

/// A machine type that a FLOAT is made of, and the nearest one.
pub(super) trait MachineWord: Pod + Send + Sync {
    fn to_float(self) -> f32;
    /// The value of the low bits, where so many above them are not part of it; of a float, all are.
    fn without(self, unused: u32) -> Self;
}

macro_rules! words {
    ($($word:ty)*) => {$(
        impl MachineWord for $word {
            #[inline(always)]
            fn to_float(self) -> f32 { self as f32 }
            #[inline(always)]
            fn without(self, unused: u32) -> $word { self << unused >> unused }
        }
    )*};
}

words!(u8 i8 u16 i16 i32);

impl MachineWord for f32 {
    #[inline(always)]
    fn to_float(self) -> f32 {
        self
    }

    #[inline(always)]
    fn without(self, _: u32) -> f32 {
        self
    }
}

/// A result that is NaN becomes the canonical one, with the sign of an operand.
#[inline(always)]
fn one_nan(result: f32, operand: f32) -> f32 {
    let nan = operand.to_bits() & 0x8000_0000 | 0x7FC0_0000;
    if result.is_nan() { f32::from_bits(nan) } else { result }
}

/// (x − zero point) · scale, of an x with so many unused bits.
#[derive(Clone, Copy)]
pub(super) struct Multiply<X, const UNUSED: u32>(pub(super) PhantomData<fn(X)>);

impl<X: MachineWord + 'static, const UNUSED: u32> ElementStep for Multiply<X, UNUSED> {
    type In = X;
    type Out = f32;

    #[inline(always)]
    fn apply(self, x: X, scale: f32, zero: f32) -> f32 {
        let difference = x.without(UNUSED).to_float() - zero;
        one_nan(difference * scale, difference)
    }
}

/// x / scale.
#[derive(Clone, Copy)]
pub(super) struct Divide;

impl ElementStep for Divide {
    type In = f32;
    type Out = f32;

    #[inline(always)]
    fn apply(self, x: f32, scale: f32, _: f32) -> f32 {
        one_nan(x / scale, x)
    }
}

/// x + zero point.
#[derive(Clone, Copy)]
pub(super) struct AddZero;

impl ElementStep for AddZero {
    type In = f32;
    type Out = f32;

    #[inline(always)]
    fn apply(self, x: f32, _: f32, zero: f32) -> f32 {
        one_nan(x + zero, x)
    }
}

/// A float of at most 8 bits made of x / scale, moved by the zero point if `MOVES`.
#[derive(Clone, Copy)]
pub(super) struct Narrowed<const SATURATES: bool, const SIGNS_ZERO: bool, const MOVES: bool>(
    pub(super) Narrow,
);

impl<const SATURATES: bool, const SIGNS_ZERO: bool, const MOVES: bool> ElementStep
    for Narrowed<SATURATES, SIGNS_ZERO, MOVES>
{
    type In = f32;
    type Out = u8;

    #[inline(always)]
    fn apply(self, x: f32, scale: f32, zero: f32) -> u8 {
        let v = one_nan(x / scale, x);
        let v = if MOVES { one_nan(v + zero, v) } else { v };
        self.0.code::<SATURATES, SIGNS_ZERO>(v) as u8
    }
}

/// An integer of so many low bits of a word.
pub(super) trait Integer: Pod + Send + Sync {
    fn of_low_bits(bits: u32) -> Self;
}

impl Integer for u8 {
    #[inline(always)]
    fn of_low_bits(bits: u32) -> u8 {
        bits as u8
    }
}

impl Integer for u16 {
    #[inline(always)]
    fn of_low_bits(bits: u32) -> u16 {
        bits as u16
    }
}

/// saturate(round(x) + zero point), or, if `DIVIDES`, of x / scale.
#[derive(Clone, Copy)]
pub(super) struct Saturate<Y, const DIVIDES: bool> {
    least: f32,
    greatest: f32,
    target: PhantomData<fn() -> Y>,
}

impl<Y, const DIVIDES: bool> Saturate<Y, DIVIDES> {
    /// The ends of an integer type of at most 16 bits.
    pub(super) fn new((least, greatest): (i32, i32)) -> Saturate<Y, DIVIDES> {
        Saturate { least: least as f32, greatest: greatest as f32, target: PhantomData }
    }
}

impl<Y: Integer + 'static, const DIVIDES: bool> ElementStep for Saturate<Y, DIVIDES> {
    type In = f32;
    type Out = Y;

    /// The ends are integers, so it makes no difference that the number is bounded before it is
    /// rounded. A FLOAT of this magnitude has 1 as its unit in the last place: adding it rounds,
    /// and leaves the integer in the low bits, in two's complement.
    #[inline(always)]
    fn apply(self, x: f32, scale: f32, zero: f32) -> Y {
        const UNIT: f32 = 1.5 * (1 << 23) as f32;
        let v = if DIVIDES { x / scale } else { x };
        let (least, greatest) = (self.least - zero, self.greatest - zero);
        // False for NaN.
        let v = if v > least { v } else { least };
        let v = if v < greatest { v } else { greatest };
        Y::of_low_bits((v + UNIT + zero).to_bits())
    }
}
