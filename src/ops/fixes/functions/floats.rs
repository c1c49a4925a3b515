//! The elementary functions of FLOATs, right to one unit, in FLOAT arithmetic without branches.

use super::pairs::{
    DOWN, Exponential, add, beside_one, div, fma, mul, negative, pick, power, series,
};

/// 2√(2/π), and times 0.044715: what `Gelu`'s approximation is the sigmoid of.
const TANH_GELU: [(f32, f32); 2] = [(1.595_769_2, -4.534_068e-8), (0.071_354_814, 2.398_832_4e-9)];

/// Beyond it e^−x is 0 to a FLOAT, even times an x that is 2^20 times as large; e^−126.3 itself is
/// 0.86 · 2^−182.
const FARTHEST: f32 = 126.3;

/// 1 / (1 + e^−(x + rest)) as a pair, and by which two numbers it is to be multiplied one after the
/// other.
#[inline(always)]
fn logistic<const FUSED: bool>(x: f32, rest: f32) -> ((f32, f32), [f32; 2]) {
    let is_far = x.abs() > FARTHEST;
    let (size, below) = (-x.abs(), negative(x));
    let rest = if is_far { 0.0 } else { pick(below, rest, -rest) };
    let power = power::<FUSED>(if is_far { -FARTHEST } else { size }, rest);
    let (up, mantissa) = (power.up(), power.mantissa());
    let scale = beside_one(up);
    let sum = fma::<FUSED>(mantissa.0, scale, 1.0);
    let low = fma::<FUSED>(mantissa.1, scale, fma::<FUSED>(mantissa.0, scale, 1.0 - sum));
    let above = (pick(below, mantissa.0, 1.0), pick(below, mantissa.1, 0.0));
    let up = if is_far { 0.0 } else { up };
    (div::<FUSED>(above, (sum, low)), [pick(below, up, 1.0), pick(below, DOWN, 1.0)])
}

/// x times a pair, and times two numbers one after the other.
#[inline(always)]
fn times<const FUSED: bool>(x: f32, pair: (f32, f32), scales: [f32; 2]) -> f32 {
    let high = x * pair.0;
    let low = fma::<FUSED>(x, pair.1, fma::<FUSED>(x, pair.0, -high));
    let low = if x.abs() > f32::MAX { 0.0 } else { low };
    (high + low) * scales[0] * scales[1]
}

/// e^(x − most) of an x that is at most so large.
#[inline(always)]
pub(crate) fn exp_of_difference<const FUSED: bool>(x: f32, most: f32) -> f32 {
    let (difference, rest) = add(x, -most);
    let is_far = difference < -FARTHEST;
    let difference = if is_far { -FARTHEST } else { difference };
    let power = power::<FUSED>(difference, if is_far { 0.0 } else { rest });
    (1.0 + power.high) * power.up() * DOWN
}

#[inline(always)]
pub(super) fn sigmoid<const FUSED: bool>(x: f32) -> f32 {
    let (pair, [up, down]) = logistic::<FUSED>(x, 0.0);
    (pair.0 + pair.1) * up * down
}

/// x · sigmoid(alpha · x).
#[inline(always)]
pub(super) fn swish<const FUSED: bool>(x: f32, alpha: f32) -> f32 {
    let product = alpha * x;
    let (pair, scales) = logistic::<FUSED>(product, fma::<FUSED>(alpha, x, -product));
    times::<FUSED>(x, pair, scales)
}

/// `Gelu` by a hyperbolic tangent, which is a sigmoid.
#[inline(always)]
pub(super) fn tanh_gelu<const FUSED: bool>(x: f32) -> f32 {
    // From there on it is x or 0.
    let near = if x < -20.0 { -20.0 } else { x };
    let near = if near > 20.0 { 20.0 } else { near };
    let [one, cube] = TANH_GELU;
    let square = mul::<FUSED>((near, 0.0), (near, 0.0));
    let term = mul::<FUSED>(square, cube);
    let (high, low) = add(one.0, term.0);
    let product = mul::<FUSED>((high, low + (one.1 + term.1)), (near, 0.0));
    let (pair, scales) = logistic::<FUSED>(product.0, product.1);
    times::<FUSED>(x, pair, scales)
}

#[inline(always)]
pub(super) fn tanh<const FUSED: bool>(x: f32) -> f32 {
    let size = x.abs();
    let size = if size > 10.0 { 10.0 } else { size };
    let (high, low) = power::<FUSED>(-2.0 * size, 0.0).minus_one::<FUSED>();
    let sum = 2.0 + high;
    let (quotient, rest) = div::<FUSED>((high, low), (sum, (high - (sum - 2.0)) + low));
    (quotient + rest).copysign(x)
}

/// x from 0 on times `scale`, below alpha · (e^(x / divisor) − 1): `alpha` and 1 / `divisor`,
/// `inverse`, are pairs.
#[inline(always)]
pub(super) fn elu<const FUSED: bool>(
    x: f32,
    alpha: (f32, f32),
    inverse: (f32, f32),
    divisor: f32,
    scale: f32,
) -> f32 {
    let farthest = -20.0 * divisor;
    let below = if x < farthest { farthest } else { x };
    let below = if below > 0.0 { 0.0 } else { below };
    let (quotient, rest) = mul::<FUSED>(inverse, (below, 0.0));
    let (high, low) = power::<FUSED>(quotient, 0.0).minus_one::<FUSED>();
    let made = mul::<FUSED>(alpha, (high, fma::<FUSED>(rest, 1.0 + high, low)));
    if x > 0.0 { scale * x } else { made.0 + made.1 }
}

/// (ln((1 + s) / (1 − s)) / 2s − 1) / s² in powers of s², of s up to 1/3, to 2^-27.
const LOGARITHM: [f32; 4] = [0.333_332_07, 0.200_108_49, 0.139_995_73, 0.140_122_19];

/// ln(1 + e^x).
#[inline(always)]
pub(super) fn softplus<const FUSED: bool>(x: f32) -> f32 {
    // From there on it is x, and as far below 0 it is e^x.
    const FAR: f32 = 20.0;
    let size = if x > FAR { FAR } else { x.abs() };
    let power = power::<FUSED>(-if size > FARTHEST { FARTHEST } else { size }, 0.0);
    let (up, mantissa) = (power.up(), power.mantissa());
    let scale = beside_one(up);
    let half = 0.5 * scale;
    let sum = fma::<FUSED>(mantissa.0, half, 1.0);
    let low = fma::<FUSED>(mantissa.1, half, fma::<FUSED>(mantissa.0, half, 1.0 - sum));
    let (high, low) = div::<FUSED>(mantissa, (sum, low));
    let s = high * half;
    let low = fma::<FUSED>(high * (s * s), series::<FUSED>(&LOGARITHM, s * s), low);
    let above = if x < 0.0 { 0.0 } else { x };
    let (sum, rest) = add(above, high * scale);
    let near = sum + fma::<FUSED>(low, scale, rest);
    let below = (high + low) * up * DOWN;
    if x > FAR { x } else { pick(negative(x + FAR), below, near) }
}

/// x · tanh(softplus(x)), which is x · n / (n + 2) of n = e^x · (e^x + 2).
#[inline(always)]
pub(super) fn mish<const FUSED: bool>(x: f32) -> f32 {
    let is_far = x < -FARTHEST;
    let near = if is_far { -FARTHEST } else { x };
    let power = power::<FUSED>(if near > 20.0 { 20.0 } else { near }, 0.0);
    let (up, mantissa) = (power.up(), power.mantissa());
    let scale = beside_one(up);
    let (sum, rest) = add(2.0, mantissa.0 * scale);
    let above = mul::<FUSED>(mantissa, (sum, fma::<FUSED>(mantissa.1, scale, rest)));
    let (sum, rest) = add(2.0, above.0 * scale);
    let pair = div::<FUSED>(above, (sum, fma::<FUSED>(above.1, scale, rest)));
    // What is above 2^64 · x overflows, so that what is there is x alone.
    let scales = [if is_far { 0.0 } else { up }, DOWN];
    if x > 20.0 { x } else { times::<FUSED>(x, pair, scales) }
}

/// erf(x) / x − 1 in powers of x², of x up to 0.875, and −ln(erfc(x)) / x in those of x, from there
/// to 4.
const ERF_NEAR: [f32; 7] = [
    0.128_379_17,
    -0.376_126_36,
    0.112_837_36,
    -0.026_861_774,
    0.005_207_219,
    -0.000_821_654_73,
    0.000_086_989_68,
];
const ERF_FAR: [f32; 7] = [
    1.128_627_1,
    0.635_238_9,
    0.106_091_27,
    -0.023_636_028,
    0.003_582_615,
    -0.000_308_031_24,
    9.750_612e-6,
];

#[inline(always)]
pub(super) fn erf<const FUSED: bool>(x: f32) -> f32 {
    let size = x.abs();
    let near = fma::<FUSED>(series::<FUSED>(&ERF_NEAR, size * size), size, size);
    let bound = if size > 4.0 { 4.0 } else { size };
    let power = power::<FUSED>(-bound * series::<FUSED>(&ERF_FAR, bound), 0.0);
    let (high, low) = power.minus_one::<FUSED>();
    let value = if size < 0.875 { near } else { -(high + low) };
    value.copysign(x)
}

/// Φ(−u) · e^(u²/2) · (1 + 0.3 u), Φ being the normal distribution, in powers of 1 / (1 + 0.3 u) −
/// 1/2, of u up to 15; what the first two are more than these; and the 0.3.
const TAIL: [f32; 10] = [
    0.221_970_62,
    0.329_158_96,
    0.346_198_83,
    0.222_082_65,
    0.029_056_487,
    -0.077_551_57,
    -0.036_460_9,
    0.035_916_32,
    0.019_636_372,
    -0.020_629_162,
];
const TAIL_REST: [f32; 2] = [2.986_893_8e-9, 1.375_652_3e-8];
const TAIL_SLOPE: f32 = 0.3;

/// x · Φ(x).
#[inline(always)]
pub(super) fn gelu<const FUSED: bool>(x: f32) -> f32 {
    let is_far = x.abs() > 15.0;
    let u = if is_far { 15.0 } else { x.abs() };
    let square = u * u;
    let power = power::<FUSED>(-0.5 * square, -0.5 * fma::<FUSED>(u, u, -square));
    let divisor = fma::<FUSED>(TAIL_SLOPE, u, 1.0);
    let divisor = (divisor, fma::<FUSED>(TAIL_SLOPE, u, 1.0 - divisor));
    let (inverse, rest) = div::<FUSED>((1.0, 0.0), divisor);
    let tail = tail::<FUSED>(inverse - 0.5, rest);
    let product = mul::<FUSED>(power.mantissa(), tail);
    let below = mul::<FUSED>(product, (inverse, rest));
    of_tail::<FUSED>(x, power, below, is_far)
}

/// What the tail's series makes of v + rest.
#[inline(always)]
fn tail<const FUSED: bool>(v: f32, rest: f32) -> (f32, f32) {
    let [first, second, others @ ..] = &TAIL;
    let sum = series::<FUSED>(others, v);
    let high = fma::<FUSED>(v, sum, *second);
    let low = fma::<FUSED>(v, sum, second - high) + TAIL_REST[1];
    let value = fma::<FUSED>(v, high, *first);
    let part = fma::<FUSED>(v, high, first - value) + TAIL_REST[0];
    let slope = fma::<FUSED>(v, sum, high);
    (value, fma::<FUSED>(rest, slope, fma::<FUSED>(v, low, part)))
}

/// x times 2^k · `below` where x is negative, and times 1 less that where it is not.
#[inline(always)]
fn of_tail<const FUSED: bool>(x: f32, power: Exponential, below: (f32, f32), is_far: bool) -> f32 {
    let up = if is_far { 0.0 } else { power.up() };
    let scale = beside_one(up);
    let less = fma::<FUSED>(-below.0, scale, 1.0);
    let rest = fma::<FUSED>(-below.0, scale, 1.0 - less);
    let above = (less, fma::<FUSED>(-below.1, scale, rest));
    let mask = negative(x);
    let pair = (pick(mask, below.0, above.0), pick(mask, below.1, above.1));
    times::<FUSED>(x, pair, [pick(mask, up, 1.0), pick(mask, DOWN, 1.0)])
}
