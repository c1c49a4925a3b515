//! Operators whose elements come from the elements at the same place.

use tract_onnx_cast::{ElementType, Family};

use crate::eval::{Attributes, Inputs, computes};
use crate::tensor::{Val, broadcast, sources, volume};

use ElementType::{Bool, Double, Float};

pub fn eval(op: &str, attributes: Attributes, inputs: Inputs) -> Option<Vec<Val>> {
    let inputs: Vec<&Val> = inputs.iter().copied().map_while(|input| input).collect();
    let val = match inputs[..] {
        [x] => unary(op, attributes, x)?,
        [a, b] => binary(op, attributes, a, b)?,
        [a, b, c] => ternary(op, a, b, c)?,
        _ => return None,
    };
    Some(vec![val])
}

/// The elements of inputs that are broadcast to one another.
fn spread(inputs: &[&Val]) -> Option<(Vec<usize>, Vec<Vec<u64>>)> {
    let shapes: Vec<&[usize]> = inputs.iter().map(|val| &val.shape[..]).collect();
    let shape = broadcast(&shapes)?;
    let codes = |val: &&Val| sources(&val.shape, &shape).iter().map(|at| val.codes[*at]).collect();
    let codes = inputs.iter().map(codes).collect();
    (volume(&shape) <= 256).then_some((shape, codes))
}

fn unary(op: &str, attributes: Attributes, x: &Val) -> Option<Val> {
    let ty = x.ty;
    let ints = |f: fn(i128) -> i128| Val::of_ints(ty, x.shape.clone(), x.ints().into_iter().map(f));
    let bools =
        |bools: Vec<bool>| Val::of_ints(Bool, x.shape.clone(), bools.into_iter().map(i128::from));
    let floats = |double: fn(f64) -> f64, single: fn(f32) -> f32| {
        let code = |code: &u64| match ty {
            Double => double(f64::from_bits(*code)).to_bits(),
            _ => u64::from(single(f32::from_bits(*code as u32)).to_bits()),
        };
        Val::new(ty, x.shape.clone(), x.codes.iter().map(code).collect())
    };
    let is_signed = ty.family() == Family::Signed;
    Some(match op {
        "Identity" => x.clone(),
        "Neg" if x.is_float() => floats(|x| -x, |x| -x),
        "Neg" if is_signed && computes(ty) => ints(|x| -x),
        "Abs" if x.is_float() => floats(f64::abs, f32::abs),
        "Abs" if x.is_int() && computes(ty) => ints(i128::abs),
        "Sign" if x.is_float() && !x.has_nan() => floats(
            |x| if x == 0.0 { 0.0 } else { x.signum() },
            |x| if x == 0.0 { 0.0 } else { x.signum() },
        ),
        "Sign" if x.is_int() && computes(ty) => ints(i128::signum),
        "Not" if ty == Bool => ints(|x| 1 - x),
        "BitwiseNot" if x.is_int() && computes(ty) => ints(|x| !x),
        "Floor" if x.is_float() => floats(f64::floor, f32::floor),
        "Ceil" if x.is_float() => floats(f64::ceil, f32::ceil),
        "Round" if x.is_float() => floats(f64::round_ties_even, f32::round_ties_even),
        "Sqrt" if x.is_float() => floats(f64::sqrt, f32::sqrt),
        "Reciprocal" if x.is_float() => floats(|x| 1.0 / x, |x| 1.0 / x),
        // Which zero comes of -0 is open.
        "Relu" if x.is_float() && !x.has_nan() && !has_negative_zero(x) => {
            floats(|x| if x > 0.0 { x } else { 0.0 }, |x| if x > 0.0 { x } else { 0.0 })
        }
        "IsNaN" if x.is_float() => bools(x.floats().iter().map(|x| x.is_nan()).collect()),
        "IsInf" if ty == Float && attributes.0.is_empty() => {
            bools(x.floats().iter().map(|x| x.is_infinite()).collect())
        }
        "Trilu" => return trilu(attributes, x, 0),
        _ => return None,
    })
}

fn has_negative_zero(x: &Val) -> bool {
    x.floats().iter().any(|x| *x == 0.0 && x.is_sign_negative())
}

/// The upper or the lower triangle, the rest zero.
fn trilu(attributes: Attributes, x: &Val, k: i64) -> Option<Val> {
    let [.., rows, columns] = x.shape[..] else { return None };
    let upper = attributes.int("upper").unwrap_or(1) != 0;
    let kept = |at: usize| {
        let (row, column) = ((at / columns % rows) as i64, (at % columns) as i64);
        if upper { column >= row + k } else { column <= row + k }
    };
    let codes = x.codes.iter().enumerate().map(|(at, code)| if kept(at) { *code } else { 0 });
    Some(Val::new(x.ty, x.shape.clone(), codes.collect()))
}

const BINARY: [&str; 19] = [
    "Add",
    "Sub",
    "Mul",
    "Div",
    "Mod",
    "Max",
    "Min",
    "BitwiseAnd",
    "BitwiseOr",
    "BitwiseXor",
    "BitShift",
    "And",
    "Or",
    "Xor",
    "Equal",
    "Less",
    "LessOrEqual",
    "Greater",
    "GreaterOrEqual",
];

fn binary(op: &str, attributes: Attributes, a: &Val, b: &Val) -> Option<Val> {
    if op == "Trilu" {
        return trilu(attributes, a, b.i64().filter(|k| k.abs() < 100)?);
    }
    // An empty tensor has no element that would tell another operator.
    if a.ty != b.ty || !BINARY.contains(&op) {
        return None;
    }
    let ty = a.ty;
    let (shape, codes) = spread(&[a, b])?;
    let pairs = codes[0].iter().copied().zip(codes[1].iter().copied());
    let of = |codes: Vec<u64>| Val::new(ty, shape.clone(), codes);
    let bools =
        |bools: Vec<bool>| Val::of_ints(Bool, shape.clone(), bools.into_iter().map(i128::from));
    if let "Equal" | "Less" | "LessOrEqual" | "Greater" | "GreaterOrEqual" = op {
        if !(computes(ty) || ty == Bool && op == "Equal") {
            return None;
        }
        return Some(bools(pairs.map(|(a, b)| compare(op, ty, a, b)).collect()));
    }
    if ty == Bool {
        let logical = |(a, b): (u64, u64)| match op {
            "And" => Some(a & b),
            "Or" => Some(a | b),
            "Xor" => Some(a ^ b),
            _ => None,
        };
        return pairs.map(logical).collect::<Option<_>>().map(of);
    }
    if !computes(ty) {
        return None;
    }
    let codes: Option<Vec<u64>> = match ty {
        Double => pairs.map(|(a, b)| double(op, f64::from_bits(a), f64::from_bits(b))).collect(),
        Float => pairs
            .map(|(a, b)| single(op, f32::from_bits(a as u32), f32::from_bits(b as u32)))
            .collect(),
        _ => pairs.map(|(a, b)| integer(op, attributes, ty, a, b)).collect(),
    };
    codes.map(of)
}

fn number(ty: ElementType, code: u64) -> Val {
    Val::new(ty, vec![], vec![code])
}

fn compare(op: &str, ty: ElementType, a: u64, b: u64) -> bool {
    let (a, b) = (number(ty, a), number(ty, b));
    let order = if a.is_float() {
        a.floats()[0].partial_cmp(&b.floats()[0])
    } else {
        Some(a.ints()[0].cmp(&b.ints()[0]))
    };
    match (op, order) {
        (_, None) => false,
        ("Equal", Some(order)) => order.is_eq(),
        ("Less", Some(order)) => order.is_lt(),
        ("LessOrEqual", Some(order)) => order.is_le(),
        ("Greater", Some(order)) => order.is_gt(),
        (_, Some(order)) => order.is_ge(),
    }
}

/// The larger or the smaller of two that are ordered; neither NaN nor zeros of either sign are.
fn extreme(op: &str, a: f64, b: f64) -> Option<bool> {
    let takes_first = if op == "Max" { a > b } else { a < b };
    let is_open = a.is_nan() || b.is_nan() || a == 0.0 && b == 0.0;
    (!is_open).then_some(takes_first)
}

fn double(op: &str, a: f64, b: f64) -> Option<u64> {
    let value = match op {
        "Add" => a + b,
        "Sub" => a - b,
        "Mul" => a * b,
        "Div" => a / b,
        "Max" | "Min" => {
            if extreme(op, a, b)? {
                a
            } else {
                b
            }
        }
        _ => return None,
    };
    Some(value.to_bits())
}

fn single(op: &str, a: f32, b: f32) -> Option<u64> {
    let value = match op {
        "Add" => a + b,
        "Sub" => a - b,
        "Mul" => a * b,
        "Div" => a / b,
        "Max" | "Min" => {
            if extreme(op, a.into(), b.into())? {
                a
            } else {
                b
            }
        }
        _ => return None,
    };
    Some(value.to_bits().into())
}

fn integer(op: &str, attributes: Attributes, ty: ElementType, a: u64, b: u64) -> Option<u64> {
    let (x, y) = (number(ty, a).ints()[0], number(ty, b).ints()[0]);
    let bits = i128::from(ty.bits());
    let lowest = if ty.family() == Family::Signed { -(1 << (bits - 1)) } else { 0 };
    let value = match op {
        "Add" => x + y,
        "Sub" => x - y,
        "Mul" => x.wrapping_mul(y),
        "Max" => x.max(y),
        "Min" => x.min(y),
        // The quotient of the lowest value by -1 is beyond the type.
        "Div" | "Mod" if y == 0 || y == -1 && x == lowest => return None,
        "Div" => x / y,
        "Mod" if attributes.int("fmod") == Some(1) => x % y,
        "Mod" => (x % y + y) % y,
        "BitwiseAnd" => x & y,
        "BitwiseOr" => x | y,
        "BitwiseXor" => x ^ y,
        "BitShift" if ty.family() == Family::Unsigned && y < bits => {
            if attributes.text("direction")? == "LEFT" { x << y } else { x >> y }
        }
        _ => return None,
    };
    Some(value as u64 & ty.code_mask())
}

fn ternary(op: &str, a: &Val, b: &Val, c: &Val) -> Option<Val> {
    match op {
        "Where" if a.ty == Bool && b.ty == c.ty => {
            let (shape, codes) = spread(&[a, b, c])?;
            let pick = |at: usize| codes[if codes[0][at] == 1 { 1 } else { 2 }][at];
            let picked = (0..codes[0].len()).map(pick).collect();
            Some(Val::new(b.ty, shape, picked))
        }
        "Clip" if b.shape.is_empty() && c.shape.is_empty() => {
            let none = Attributes(&[]);
            let above = binary("Max", none, a, b)?;
            binary("Min", none, &above, c)
                .filter(|_| compare("LessOrEqual", b.ty, b.codes[0], c.codes[0]))
        }
        _ => None,
    }
}
