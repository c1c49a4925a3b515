//! Functions of one number.

use std::f64::consts::{FRAC_1_SQRT_2, PI};

use tract_onnx_cast::ElementType;

use crate::answer::{Answer, Ask, finite, moved, numbers, only, unit, wide};
use crate::data::{FLOATS, NUMBERS};
use crate::draw::{Attributed, Draw};
use crate::graph::Attribute::{Float as F, Int, Text};
use crate::table::{Row, row};
use crate::tensor::Val;

use ElementType::{Bool, Double};

pub const ROWS: &[Row] = &[
    row(
        "Acos Acosh Asin Asinh Atan Ceil Cos Cosh Erf Exp Floor HardSwish Log Mish Reciprocal \
         Round Sigmoid Sin Sinh Softplus Softsign Sqrt Tan Tanh com.microsoft.Gelu",
        unary,
        function,
    ),
    row("Abs Neg Relu Sign", number, function),
    row("Celu Elu LeakyRelu Swish ThresholdedRelu", alpha, function),
    row("Gelu", gelu, function),
    row("HardSigmoid", alpha_beta, function),
    row("Selu", selu, function),
    row("Shrink", shrink, function),
    row("IsInf", is_inf, test),
    row("IsNaN", unary, test),
];

fn unary(d: &mut Draw) -> Option<usize> {
    let x = d.operand(&FLOATS, 0..5)?;
    d.make(&[x], vec![])
}

fn number(d: &mut Draw) -> Option<usize> {
    let x = d.operand(&NUMBERS, 0..5)?;
    d.make(&[x], vec![])
}

/// Attributes of some FLOATs, of which some are left out; two operators that ONNX has dropped need
/// them.
pub fn with(d: &mut Draw, names: &[&'static str], numbers: &[f32]) -> Option<usize> {
    let mut attributes: Attributed = vec![];
    for name in names {
        if d.random.one_in(2) || matches!(d.op(), "ScaledTanh" | "ParametricSoftplus") {
            attributes.push((name, F(d.random.of(numbers))));
        }
    }
    let x = d.operand(&FLOATS, 0..5)?;
    d.make(&[x], attributes)
}

fn alpha(d: &mut Draw) -> Option<usize> {
    with(d, &["alpha"], &[0.1, 0.5, 1.0, 1.702, 2.0, 3.0])
}

fn alpha_beta(d: &mut Draw) -> Option<usize> {
    with(d, &["alpha", "beta"], &[0.1, 0.25, 0.5, 1.0, 2.0])
}

fn selu(d: &mut Draw) -> Option<usize> {
    with(d, &["alpha", "gamma"], &[0.5, 1.5, 2.0])
}

fn shrink(d: &mut Draw) -> Option<usize> {
    with(d, &["bias", "lambd"], &[0.0, 0.5, 1.0, 1.5])
}

fn gelu(d: &mut Draw) -> Option<usize> {
    let x = d.operand(&FLOATS, 0..5)?;
    let kind = d.random.of(&["none", "tanh"]);
    d.make(&[x], vec![("approximate", Text(kind))])
}

/// What a function makes of a number, in DOUBLE.
fn value(ask: &Ask, x: f64) -> f64 {
    let alpha = |default| ask.float("alpha", default);
    let beta = |default| ask.float("beta", default);
    match ask.op {
        "Abs" => x.abs(),
        "Acos" => x.acos(),
        "Acosh" if x < 1.0 => f64::NAN,
        "Acosh" => libm::acosh(x),
        "Asin" => x.asin(),
        "Asinh" => libm::asinh(x),
        "Atan" => x.atan(),
        "Ceil" => x.ceil(),
        "Cos" => x.cos(),
        "Cosh" => x.cosh(),
        "Erf" => libm::erf(x),
        "Exp" => x.exp(),
        "Floor" => x.floor(),
        "HardSwish" => x * (x / 6.0 + 0.5).clamp(0.0, 1.0),
        "Log" => x.ln(),
        "Mish" => mish(x),
        "Neg" => -x,
        "Reciprocal" => 1.0 / x,
        "Relu" if x < 0.0 => 0.0,
        "Relu" => x,
        "Round" => x.round_ties_even(),
        "Sigmoid" => sigmoid(x),
        "Sign" if x == 0.0 => 0.0,
        "Sign" => x.signum(),
        "Sin" => x.sin(),
        "Sinh" => x.sinh(),
        "Softplus" => softplus(x),
        "Softsign" => x / (1.0 + x.abs()),
        "Sqrt" => x.sqrt(),
        "Tan" => x.tan(),
        "Tanh" => x.tanh(),
        "Celu" if x < 0.0 => alpha(1.0) * (x / alpha(1.0)).exp_m1(),
        "Elu" if x < 0.0 => alpha(1.0) * x.exp_m1(),
        "Celu" | "Elu" => x,
        "HardSigmoid" => (alpha(0.2) * x + beta(0.5)).clamp(0.0, 1.0),
        "LeakyRelu" if x < 0.0 => alpha(0.01) * x,
        "LeakyRelu" => x,
        "Selu" => {
            let gamma = ask.float("gamma", 1.050_701);
            gamma * if x < 0.0 { alpha(1.673_263_2) * x.exp_m1() } else { x }
        }
        "Shrink" if x < -ask.float("lambd", 0.5) => x + ask.float("bias", 0.0),
        "Shrink" if x > ask.float("lambd", 0.5) => x - ask.float("bias", 0.0),
        "Shrink" => 0.0,
        "Swish" => x * sigmoid(alpha(1.0) * x),
        "com.microsoft.QuickGelu" => x * sigmoid(alpha(1.702) * x),
        "ThresholdedRelu" if x > alpha(1.0) => x,
        "ThresholdedRelu" => 0.0,
        "ScaledTanh" => alpha(1.0) * (beta(1.0) * x).tanh(),
        "ParametricSoftplus" => alpha(1.0) * softplus(beta(1.0) * x),
        "Gelu" if ask.text("approximate", "none") == "tanh" => tanh_gelu(x),
        "Gelu" | "com.microsoft.Gelu" => x * 0.5 * libm::erfc(-x * FRAC_1_SQRT_2),
        _ => unreachable!("{} is no function here", ask.op),
    }
}

pub fn sigmoid(x: f64) -> f64 {
    if x < 0.0 { x.exp() / (1.0 + x.exp()) } else { 1.0 / (1.0 + (-x).exp()) }
}

fn softplus(x: f64) -> f64 {
    if x > 0.0 { x + (-x).exp().ln_1p() } else { x.exp().ln_1p() }
}

/// x tanh(softplus(x)), in a form that keeps small results.
fn mish(x: f64) -> f64 {
    let e = x.exp();
    if x > 20.0 { x } else { x * (e * (e + 2.0) / (e * (e + 2.0) + 2.0)) }
}

fn tanh_gelu(x: f64) -> f64 {
    x * sigmoid(2.0 * (2.0 / PI).sqrt() * (x + 0.044715 * x * x * x))
}

/// Where ONNX's formula and its implementations part: products of 0 and infinity, and NaN in
/// comparisons.
fn is_open(op: &str, x: f64) -> bool {
    match op {
        "HardSwish"
        | "Mish"
        | "Swish"
        | "Gelu"
        | "com.microsoft.QuickGelu"
        | "com.microsoft.Gelu"
        | "com.microsoft.FastGelu"
        | "com.microsoft.BiasGelu" => x == f64::NEG_INFINITY,
        "Softsign" => x.is_infinite(),
        "Sign" | "Shrink" | "ThresholdedRelu" => x.is_nan(),
        _ => false,
    }
}

/// Those of one rounding have no tolerance; formulas of several are off by their arguments'
/// rounding besides.
pub fn near(ask: &Ask, ty: ElementType, at: &[f64], f: impl Fn(f64) -> f64) -> Vec<(f64, f64)> {
    let is_exact = matches!(
        ask.op,
        "Abs" | "Ceil" | "Floor" | "Neg" | "Relu" | "Round" | "Sign" | "ThresholdedRelu"
    );
    let by_argument = matches!(
        ask.op,
        "HardSigmoid"
            | "ScaledTanh"
            | "ParametricSoftplus"
            | "Shrink"
            | "Celu"
            | "Swish"
            | "com.microsoft.QuickGelu"
            | "com.microsoft.FastGelu"
            | "com.microsoft.BiasGelu"
            | "HardSwish"
    ) || ask.op == "Gelu" && ask.text("approximate", "none") == "tanh";
    // A quotient of a sum.
    let units = if ask.op == "Softsign" { 2.0 } else { 1.01 };
    let beside = |x: f64| {
        if is_open(ask.op, x) {
            return f64::INFINITY;
        }
        let step = unit(wide(ty), x);
        let own = if by_argument {
            (f(x + 2.0 * step) - f(x)).abs() + (f(x - 2.0 * step) - f(x)).abs()
        } else {
            0.0
        };
        if is_exact {
            0.0
        } else {
            finite(own) + units * unit(ty, f(x)) * if ty == Double { 4.0 } else { 1.0 }
        }
    };
    at.iter().map(|x| (f(*x), beside(*x))).collect()
}

fn function(ask: &Ask) -> Option<Vec<Answer>> {
    let x = ask.input(0)?;
    if x.is_int() {
        return match ask.op {
            "Relu" => {
                only(Val::of_ints(x.ty, x.shape.clone(), x.ints().into_iter().map(|i| i.max(0))))
            }
            _ => moved(ask),
        };
    }
    let numbers = near(ask, x.ty, &numbers(x), |x| value(ask, x));
    Some(vec![Answer::near(x.ty, x.shape.clone(), 0.0, numbers)])
}

fn is_inf(d: &mut Draw) -> Option<usize> {
    let mut attributes: Attributed = vec![];
    for name in ["detect_negative", "detect_positive"] {
        if d.random.one_in(2) {
            attributes.push((name, Int(d.random.below(2) as i64)));
        }
    }
    let x = d.operand(&FLOATS, 0..5)?;
    d.make(&[x], attributes)
}

/// Which numbers are infinite, or NaN.
fn test(ask: &Ask) -> Option<Vec<Answer>> {
    let x = ask.input(0)?;
    let (down, up) = (ask.int("detect_negative", 1) == 1, ask.int("detect_positive", 1) == 1);
    let holds = |x: f64| match ask.op {
        "IsNaN" => x.is_nan(),
        _ => down && x == f64::NEG_INFINITY || up && x == f64::INFINITY,
    };
    let bools = numbers(x).into_iter().map(|x| i128::from(holds(x)));
    only(Val::of_ints(Bool, x.shape.clone(), bools))
}
