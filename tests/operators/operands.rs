//! Operators whose elements come from the elements at the same place of several tensors.

use tract_onnx_cast::ElementType;

use crate::answer::{Answer, Ask, largest, moved, numbers, only, rounded, sum, unit, wide};
use crate::data::{Data, FLOATS, INTS, NUMBERS};
use crate::draw::Draw;
use crate::functions::with;
use crate::graph::Attribute::{Float as F, Int, Text};
use crate::table::{Row, row};
use crate::tensor::{Val, broadcast, sources, volume};

use ElementType::*;

pub const ROWS: &[Row] = &[
    row("Add Sub Mul Div", two, binary),
    row("Mod", modulo, binary),
    row("Pow", pow, power),
    row("PRelu", prelu, binary),
    row("Max Min Sum Mean", several, fold),
    row("Equal Less LessOrEqual Greater GreaterOrEqual", compared, compare),
    row("And Or Xor", logic, moved),
    row("Not", not, moved),
    row("BitwiseNot BitwiseAnd BitwiseOr BitwiseXor", bits, moved),
    row("BitShift", shift, moved),
    row("Where", select, selected),
    row("Clip", clip, clipped),
    row("Identity", identity, same),
    row("Dropout", dropout, same),
];

/// Two operands of a type, the one or the other first.
fn pair(d: &mut Draw, types: &[ElementType], data: &[Data]) -> Option<[usize; 2]> {
    let x = d.operand(types, 0..5)?;
    let data = d.random.of(data);
    let y = match d.random.below(8) {
        0 => x,
        _ => d.beside(x, d.ty(x), data),
    };
    Some(if d.random.one_in(3) { [y, x] } else { [x, y] })
}

fn two(d: &mut Draw) -> Option<usize> {
    let operands = pair(d, &NUMBERS, &[Data::Small, Data::Usual, Data::Special])?;
    d.make(&operands, vec![])
}

fn modulo(d: &mut Draw) -> Option<usize> {
    let operands = pair(d, &NUMBERS, &[Data::Positive, Data::Small])?;
    let is_float = !INTS.contains(&d.ty(operands[0]));
    let fmod = is_float || d.random.one_in(2);
    d.make(&operands, if fmod { vec![("fmod", Int(1))] } else { vec![] })
}

fn prelu(d: &mut Draw) -> Option<usize> {
    let x = d.operand(&FLOATS, 1..5)?;
    let slope = d.beside(x, d.ty(x), Data::Small);
    d.make(&[x, slope], vec![])
}

/// The elements of inputs that are broadcast to one another.
fn spread(inputs: &[&Val]) -> Option<(Vec<usize>, Vec<Vec<f64>>)> {
    let shapes: Vec<&[usize]> = inputs.iter().map(|val| &val.shape[..]).collect();
    let shape = broadcast(&shapes)?;
    let of = |val: &&Val| {
        let numbers = numbers(val);
        sources(&val.shape, &shape).iter().map(|at| numbers[*at]).collect()
    };
    let all = inputs.iter().map(of).collect();
    Some((shape, all))
}

/// What a quotient may be off besides: tract multiplies by the reciprocal, as the README says,
/// which has to be a normal number.
fn reciprocal(ty: ElementType, y: f64) -> f64 {
    let is_normal = unit(ty, 1.0 / y) > unit(ty, 0.0) && (1.0 / y).abs() <= largest(ty);
    if is_normal || y == 0.0 || !y.is_finite() { 0.0 } else { f64::INFINITY }
}

fn binary(ask: &Ask) -> Option<Vec<Answer>> {
    let a = ask.input(0)?;
    if a.is_int() {
        return moved(ask);
    }
    let b = ask.input(1)?;
    let (shape, all) = spread(&[a, b])?;
    // Products by constants are put together.
    let units = if matches!(ask.op, "Div" | "Mul" | "PRelu") { 1.0 } else { 0.0 };
    let number = |(x, y): (&f64, &f64)| match ask.op {
        "Add" => (x + y, 0.0),
        "Sub" => (x - y, 0.0),
        "Mul" => (x * y, 0.0),
        "Div" => (x / y, reciprocal(wide(a.ty), *y)),
        "Mod" => (x % y, 0.0),
        "PRelu" if *x < 0.0 => (x * y, 0.0),
        _ => (*x, 0.0),
    };
    let all = all[0].iter().zip(&all[1]).map(number);
    Some(vec![Answer::near(a.ty, shape, units, all.collect::<Vec<_>>())])
}

fn pow(d: &mut Draw) -> Option<usize> {
    let x = d.operand(&[Float, Float, Double, Float16, Int32, Int64], 0..5)?;
    let is_mixed = d.opset() >= 12 && d.random.one_in(3);
    let ty = if is_mixed { d.random.of(&[Float, Int32, Int64]) } else { d.ty(x) };
    let data = if INTS.contains(&d.ty(x)) {
        Data::Within(0, 4)
    } else {
        d.random.of(&[Data::Within(-3, 4), Data::Small])
    };
    let y = d.beside(x, ty, data);
    d.make(&[x, y], vec![])
}

fn power(ask: &Ask) -> Option<Vec<Answer>> {
    let (x, y) = (ask.input(0)?, ask.input(1)?);
    let (shape, all) = spread(&[x, y])?;
    let powers: Vec<f64> = all[0].iter().zip(&all[1]).map(|(x, y)| x.powf(*y)).collect();
    if x.is_int() {
        // What is no integer of the type, ONNX does not say how to round.
        let limit = 2f64.powi(x.ty.bits().min(54) as i32 - 1);
        let fits = powers.iter().all(|x| x.fract() == 0.0 && x.abs() < limit);
        return fits.then(|| vec![Answer::exact(rounded(x.ty, shape, &powers))]);
    }
    let units = if x.ty == Double { 4.0 } else { 1.5 };
    Some(vec![Answer::near(x.ty, shape, units, powers.into_iter().map(|x| (x, 0.0)))])
}

fn several(d: &mut Draw) -> Option<usize> {
    let x = d.operand(&NUMBERS, 0..4)?;
    let mut all = vec![x];
    for _ in 0..d.random.below(3) {
        let data = d.random.of(&[Data::Small, Data::Usual, Data::Special]);
        all.push(d.beside(x, d.ty(x), data));
    }
    d.make(&all, vec![])
}

/// Of as many as there are.
fn fold(ask: &Ask) -> Option<Vec<Answer>> {
    let all: Vec<&Val> = ask.inputs.iter().copied().collect::<Option<_>>()?;
    let ty = all[0].ty;
    if all[0].is_int() {
        let mut whole = all[0].clone();
        for other in &all[1..] {
            let inputs = [Some(&whole), Some(*other)];
            let op = if ask.op == "Sum" { "Add" } else { ask.op };
            whole = moved(&Ask { op, inputs: &inputs, ..*ask })?.pop()?.val;
        }
        return only(whole);
    }
    let (shape, all) = spread(&all)?;
    let number = |at: usize| {
        let own: Vec<f64> = all.iter().map(|numbers| numbers[at]).collect();
        let is_nan = own.iter().any(|x| x.is_nan());
        let (sum, slack) = sum(ty, &own);
        match ask.op {
            "Max" | "Min" if is_nan => (f64::NAN, 0.0),
            "Max" => (own.into_iter().fold(f64::NEG_INFINITY, f64::max), 0.0),
            "Min" => (own.into_iter().fold(f64::INFINITY, f64::min), 0.0),
            "Sum" if own.len() <= 2 => (sum, 0.0),
            "Sum" => (sum, slack),
            _ => (sum / own.len() as f64, slack),
        }
    };
    let count = volume(&shape);
    Some(vec![Answer::near(ty, shape, 0.0, (0..count).map(number).collect::<Vec<_>>())])
}

fn compared(d: &mut Draw) -> Option<usize> {
    let operands = pair(d, &[&NUMBERS[..], &[Bool]].concat(), &[Data::Small, Data::Special])?;
    d.make(&operands, vec![])
}

fn compare(ask: &Ask) -> Option<Vec<Answer>> {
    let (a, b) = (ask.input(0)?, ask.input(1)?);
    if a.is_int() || a.ty == Bool {
        return moved(ask);
    }
    let (shape, all) = spread(&[a, b])?;
    let holds = |(a, b): (&f64, &f64)| match ask.op {
        "Equal" => a == b,
        "Less" => a < b,
        "LessOrEqual" => a <= b,
        "Greater" => a > b,
        _ => a >= b,
    };
    let bools = all[0].iter().zip(&all[1]).map(|pair| i128::from(holds(pair)));
    only(Val::of_ints(Bool, shape, bools.collect::<Vec<_>>()))
}

fn logic(d: &mut Draw) -> Option<usize> {
    let operands = pair(d, &[Bool], &[Data::Small])?;
    d.make(&operands, vec![])
}

fn not(d: &mut Draw) -> Option<usize> {
    let x = d.operand(&[Bool], 0..5)?;
    d.make(&[x], vec![])
}

fn bits(d: &mut Draw) -> Option<usize> {
    if d.op() == "BitwiseNot" {
        let x = d.operand(&INTS, 0..5)?;
        return d.make(&[x], vec![]);
    }
    let operands = pair(d, &INTS, &[Data::Small, Data::Special])?;
    d.make(&operands, vec![])
}

fn shift(d: &mut Draw) -> Option<usize> {
    let x = d.operand(&[Uint8, Uint16, Uint32, Uint64], 0..4)?;
    let by = d.beside(x, d.ty(x), Data::Within(0, 8));
    let direction = d.random.of(&["LEFT", "RIGHT"]);
    d.make(&[x, by], vec![("direction", Text(direction))])
}

fn select(d: &mut Draw) -> Option<usize> {
    let x = d.operand(&[&NUMBERS[..], &[Bool]].concat(), 0..4)?;
    let y = d.beside(x, d.ty(x), Data::Small);
    let condition = d.beside(x, Bool, Data::Small);
    let branches = if d.random.one_in(2) { [x, y] } else { [y, x] };
    d.make(&[condition, branches[0], branches[1]], vec![])
}

fn selected(ask: &Ask) -> Option<Vec<Answer>> {
    let [c, x, y] = [ask.input(0)?, ask.input(1)?, ask.input(2)?];
    let shape = broadcast(&[&c.shape, &x.shape, &y.shape])?;
    let [conditions, ones, others] = [c, x, y].map(|val| sources(&val.shape, &shape));
    let code = |at: usize| match c.codes[conditions[at]] {
        1 => x.codes[ones[at]],
        _ => y.codes[others[at]],
    };
    let codes = (0..conditions.len()).map(code).collect();
    only(Val::new(x.ty, shape, codes))
}

fn clip(d: &mut Draw) -> Option<usize> {
    if d.opset() < 11 {
        return with(d, &["min", "max"], &[-1.0, 0.0, 0.5, 2.0]);
    }
    let x = d.operand(&NUMBERS, 0..5)?;
    let bound = |d: &mut Draw| {
        let is_there = !d.random.one_in(3);
        is_there.then(|| d.fixed(d.ty(x), &[], Data::Small))
    };
    let (least, most) = (bound(d), bound(d));
    Some(d.node(&[Some(x), least, most], 1, vec![])?[0])
}

fn clipped(ask: &Ask) -> Option<Vec<Answer>> {
    let x = ask.input(0)?;
    let bound = |at: usize, name: &str, farthest: f32| {
        let default = Some(farthest).filter(|_| ask.opset < 11);
        let attribute = ask.attributes.float(name).or(default).map(f64::from);
        ask.input(at).map(|val| numbers(val)[0]).or(attribute)
    };
    let (least, most) = (bound(1, "min", f32::MIN), bound(2, "max", f32::MAX));
    // Where they cross, versions differ, and NaN is no bound.
    if least.is_some_and(|x| x.is_nan()) || least > most && most.is_some() {
        return None;
    }
    let clip = |x: f64| {
        let x = if least.is_some_and(|least| x < least) { least? } else { x };
        Some(if most.is_some_and(|most| x > most) { most? } else { x })
    };
    if x.is_int() {
        let clip = |i: i128| {
            let i = least.map_or(i, |least| i.max(least as i128));
            most.map_or(i, |most| i.min(most as i128))
        };
        return only(Val::of_ints(x.ty, x.shape.clone(), x.ints().into_iter().map(clip)));
    }
    let numbers: Option<Vec<f64>> = numbers(x).into_iter().map(clip).collect();
    let units = if ask.opset < 11 { 0.5 } else { 0.0 };
    Some(vec![Answer::near(x.ty, x.shape.clone(), units, numbers?.into_iter().map(|x| (x, 0.0)))])
}

fn identity(d: &mut Draw) -> Option<usize> {
    let x = d.operand(&[&NUMBERS[..], &[Bool]].concat(), 0..5)?;
    d.make(&[x], vec![])
}

fn dropout(d: &mut Draw) -> Option<usize> {
    let x = d.operand(&FLOATS, 0..5)?;
    if d.opset() < 12 {
        return d.make(&[x], vec![("ratio", F(0.3))]);
    }
    let ratio = d.random.one_in(2).then(|| d.constant(Val::new(Float, vec![], vec![0x3f00_0000])));
    Some(d.node(&[Some(x), ratio], 1, vec![])?[0])
}

fn same(ask: &Ask) -> Option<Vec<Answer>> {
    only(ask.input(0)?.clone())
}
