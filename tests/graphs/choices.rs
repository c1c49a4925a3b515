//! Which node comes next, and what it takes.

use tract_onnx_cast::ElementType;

use crate::build::{Attributes, Builder};
use crate::graph::{Attribute, Value};
use crate::tensor::Val;

use Attribute::{Int, Ints, Tensor, Text};
use ElementType::*;

type Choice = fn(&mut Builder) -> Option<Vec<usize>>;

/// The more often a choice stands here, the more often it is tried.
const CHOICES: [Choice; 52] = [
    sized, sized, sized, folded, shape, shape, shape, sizes, sizes, sizes, arithmetic, arithmetic,
    arithmetic, arithmetic, arithmetic, arithmetic, comparison, comparison, logic, selection, clip,
    unary, unary, bits, cast, cast, cast, cast, to_int64, like, reshape, reshape, transpose,
    squeeze, unsqueeze, concat, concat, split, slice, slice, gather, gather, gathers, expand, tile,
    pad, of_shape, range, search, search, reduce, reduce,
];

const TYPES: [ElementType; 17] = [
    Float,
    Float,
    Double,
    Int64,
    Int64,
    Int64,
    Int32,
    Int32,
    Uint8,
    Int8,
    Bool,
    Float16,
    BFloat16,
    Uint32,
    Uint64,
    Float8E4M3FN,
    Int4,
];

pub fn any(b: &mut Builder) -> Option<Vec<usize>> {
    match b.random.below(20) {
        0 if b.depth == 0 => branches(b),
        1 if b.depth == 0 => scan(b),
        2 => moved(b),
        _ => b.random.of(&CHOICES)(b),
    }
}

fn is_int(value: &Value) -> bool {
    value.worlds[0].is_int()
}

fn is_number(value: &Value) -> bool {
    value.worlds[0].is_int() || value.worlds[0].is_float()
}

/// An INT64 list, as shapes are.
fn is_list(value: &Value) -> bool {
    value.ty() == Int64 && value.shape().len() == 1
}

/// A list to give an operator as a shape: data only now and then, since tract wants to see it come
/// from sizes.
fn some_shape(b: &mut Builder, length: Option<usize>) -> Option<usize> {
    let is_any = b.random.one_in(12);
    b.pick(|value| {
        is_list(value)
            && (is_any || value.is_shape)
            && length.is_none_or(|length| value.shape()[0] == length)
    })
}

fn some_axis(b: &mut Builder, id: usize) -> Option<i64> {
    let rank = b.rank(id) as i64;
    let axis = b.random.maybe(&(-rank..rank).collect::<Vec<_>>())?;
    Some(axis)
}

fn shape(b: &mut Builder) -> Option<Vec<usize>> {
    let x = b.pick(|_| true)?;
    if b.random.one_in(6) {
        return b.node("Size", &[x], vec![]);
    }
    let mut attributes: Attributes = vec![];
    if b.graph.opset >= 15 && b.random.one_in(4) {
        attributes.push(("start", Int(b.random.below(3) as i64 - 1)));
        if b.random.one_in(2) {
            attributes.push(("end", Int(b.random.below(4) as i64)));
        }
    }
    b.node("Shape", &[x], attributes)
}

/// A piece of a list, as exporters take sizes from shapes.
fn sizes(b: &mut Builder) -> Option<Vec<usize>> {
    let list = b.pick(is_list)?;
    let length = b.value(list).shape()[0] as i64;
    let at = b.random.maybe(&(-length..length).collect::<Vec<_>>())?;
    match b.random.below(3) {
        0 => {
            let at = b.scalar(at);
            b.node("Gather", &[list, at], vec![("axis", Int(0))])
        }
        1 => {
            let at = b.ints(&[at]);
            b.node("Gather", &[list, at], vec![])
        }
        _ => {
            let (start, end) = (at, if at == -1 { i64::MAX } else { at + 1 });
            let (start, end) = (b.ints(&[start]), b.ints(&[end]));
            let axes = b.ints(&[0]);
            b.node("Slice", &[list, start, end, axes], vec![])
        }
    }
}

fn arithmetic(b: &mut Builder) -> Option<Vec<usize>> {
    let x = if b.random.one_in(3) { b.pick(is_list) } else { b.pick(is_number) }?;
    let y = b.operand(x);
    let (x, y) = if b.random.one_in(3) { (y, x) } else { (x, y) };
    let op =
        b.random.of(&["Add", "Add", "Sub", "Sub", "Mul", "Mul", "Mul", "Div", "Mod", "Max", "Min"]);
    let mut attributes = vec![];
    if op == "Mod" && b.random.one_in(3) {
        attributes.push(("fmod", Int(1)));
    }
    b.node(op, &[x, y], attributes)
}

/// Numbers that fit 32 bits, whose products do not.
const MIDDLING: [i64; 12] = [
    60,
    24,
    1_000_000,
    1_000_000_000,
    2_147_483_647,
    -2_147_483_648,
    65_536,
    -3,
    3,
    -1,
    46_341,
    1_000_003,
];

/// A size that is computed with, by numbers that look harmless.
fn sized(b: &mut Builder) -> Option<Vec<usize>> {
    let size = b.pick(|value| value.ty() == Int64 && value.is_shape && value.leaf.is_none())?;
    if b.random.one_in(4) {
        let op = b.random.of(&["ReduceProd", "ReduceMax", "ReduceMin", "ReduceSum", "Neg", "Abs"]);
        return b.node(op, &[size], vec![]);
    }
    let other = match b.pick(|value| value.ty() == Int64 && value.is_shape) {
        Some(other) if b.random.one_in(3) => other,
        _ => {
            let number = b.random.of(&MIDDLING);
            let number = Val::int64(&[number]);
            let number = if b.random.one_in(2) { number.reshaped(vec![])? } else { number };
            b.leaf(number, true)
        }
    };
    let (x, y) = if b.random.one_in(3) { (other, size) } else { (size, other) };
    let op = b.random.of(&[
        "Mul",
        "Mul",
        "Mul",
        "Add",
        "Add",
        "Sub",
        "Div",
        "Mod",
        "Less",
        "Greater",
        "Equal",
        "LessOrEqual",
        "Max",
        "Min",
    ]);
    b.node(op, &[x, y], vec![])
}

/// Constants that become large before they meet anything.
fn folded(b: &mut Builder) -> Option<Vec<usize>> {
    let number = |b: &mut Builder| {
        let number = Val::int64(&[b.random.of(&MIDDLING)]);
        b.leaf(number, true)
    };
    let (x, y) = (number(b), number(b));
    let op = b.random.of(&["Mul", "Mul", "Add", "Sub"]);
    b.node(op, &[x, y], vec![])
}

fn comparison(b: &mut Builder) -> Option<Vec<usize>> {
    let x = b.pick(is_number)?;
    let y = b.operand(x);
    let mut op = b.random.of(&["Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"]);
    if b.ty(x) == Bool {
        op = "Equal";
    }
    b.node(op, &[x, y], vec![])
}

fn logic(b: &mut Builder) -> Option<Vec<usize>> {
    let x = b.pick(|value| value.ty() == Bool)?;
    if b.random.one_in(3) {
        return b.node("Not", &[x], vec![]);
    }
    let y = b.operand(x);
    let op = b.random.of(&["And", "Or", "Xor"]);
    b.node(op, &[x, y], vec![])
}

fn selection(b: &mut Builder) -> Option<Vec<usize>> {
    let condition = b.pick(|value| value.ty() == Bool)?;
    let x = b.pick(|_| true)?;
    let y = b.operand(x);
    b.node("Where", &[condition, x, y], vec![])
}

fn clip(b: &mut Builder) -> Option<Vec<usize>> {
    let x = b.pick(is_number)?;
    let ty = b.ty(x);
    let (low, high) = (b.elements(ty, &[]), b.elements(ty, &[]));
    let (low, high) = (b.leaf(low, true), b.leaf(high, true));
    b.node("Clip", &[x, low, high], vec![])
}

fn unary(b: &mut Builder) -> Option<Vec<usize>> {
    let x = b.pick(is_number)?;
    let op = b.random.of(&[
        "Neg",
        "Neg",
        "Abs",
        "Sign",
        "Floor",
        "Ceil",
        "Round",
        "Sqrt",
        "Reciprocal",
        "Relu",
        "IsNaN",
        "IsInf",
        "Trilu",
    ]);
    b.node(op, &[x], vec![])
}

fn bits(b: &mut Builder) -> Option<Vec<usize>> {
    let x = b.pick(is_int)?;
    if b.graph.opset >= 18 && b.random.one_in(4) {
        return b.node("BitwiseNot", &[x], vec![]);
    }
    let y = b.operand(x);
    if b.graph.opset < 18 || b.random.one_in(4) {
        let direction = b.random.of(&["LEFT", "RIGHT"]);
        return b.node("BitShift", &[x, y], vec![("direction", Text(direction))]);
    }
    let op = b.random.of(&["BitwiseAnd", "BitwiseOr", "BitwiseXor"]);
    b.node(op, &[x, y], vec![])
}

fn cast_to(b: &mut Builder, x: usize, to: ElementType) -> Option<Vec<usize>> {
    b.is_allowed(to).then(|| b.node("Cast", &[x], vec![("to", Int(to as i64))]))?
}

fn cast(b: &mut Builder) -> Option<Vec<usize>> {
    let x = b.pick(|_| true)?;
    let to = b.random.of(&TYPES);
    cast_to(b, x, to)
}

fn to_int64(b: &mut Builder) -> Option<Vec<usize>> {
    let x = b.pick(|value| value.ty() != Int64)?;
    cast_to(b, x, Int64)
}

fn like(b: &mut Builder) -> Option<Vec<usize>> {
    let (x, like) = (b.pick(|_| true)?, b.pick(|_| true)?);
    (b.graph.opset >= 15).then(|| b.node("CastLike", &[x, like], vec![]))?
}

fn reshape(b: &mut Builder) -> Option<Vec<usize>> {
    let x = b.pick(|_| true)?;
    if b.random.one_in(5) {
        let axis = b.random.below(b.rank(x) + 1) as i64;
        return b.node("Flatten", &[x], vec![("axis", Int(axis))]);
    }
    if b.random.one_in(3) {
        let shape = some_shape(b, None)?;
        return b.node("Reshape", &[x, shape], vec![]);
    }
    let count = b.value(x).worlds[0].codes.len() as i64;
    let shape = match b.random.below(5) {
        0 => vec![-1],
        1 => vec![1, -1],
        2 => vec![0, -1],
        3 if count % 2 == 0 => vec![2, -1],
        _ => vec![-1, 1, count.clamp(1, 3)],
    };
    let shape = b.ints(&shape);
    b.node("Reshape", &[x, shape], vec![])
}

fn transpose(b: &mut Builder) -> Option<Vec<usize>> {
    let x = b.pick(|value| value.shape().len() > 1)?;
    if b.random.one_in(3) {
        return b.node("Transpose", &[x], vec![]);
    }
    let mut order: Vec<i64> = (0..b.rank(x) as i64).collect();
    for at in 1..order.len() {
        let other = b.random.below(at + 1);
        order.swap(at, other);
    }
    b.node("Transpose", &[x], vec![("perm", Ints(order))])
}

fn squeeze(b: &mut Builder) -> Option<Vec<usize>> {
    let x = b.pick(|value| value.shape().contains(&1))?;
    if b.random.one_in(4) {
        return b.node("Squeeze", &[x], vec![]);
    }
    let axis = some_axis(b, x)?;
    let axes = b.ints(&[axis]);
    b.node("Squeeze", &[x, axes], vec![])
}

fn unsqueeze(b: &mut Builder) -> Option<Vec<usize>> {
    let x = b.pick(|value| value.shape().len() < 4)?;
    let axis = b.random.below(b.rank(x) + 1) as i64;
    let axes = b.ints(&[axis]);
    b.node("Unsqueeze", &[x, axes], vec![])
}

fn concat(b: &mut Builder) -> Option<Vec<usize>> {
    let x = if b.random.one_in(2) { b.pick(is_list) } else { b.pick(|v| !v.shape().is_empty()) }?;
    let (ty, rank) = (b.ty(x), b.rank(x));
    let y = b.pick(|value| value.ty() == ty && value.shape().len() == rank).filter(|y| *y != x);
    let y = match y {
        Some(y) if b.random.one_in(2) => y,
        _ => {
            let sizes: Vec<usize> =
                b.value(x).fixed_sizes()?.into_iter().map(|size| size.unwrap_or(1)).collect();
            let val = b.elements(ty, &sizes);
            let is_constant = b.random.one_in(2);
            b.leaf(val, is_constant)
        }
    };
    let parts = if b.random.one_in(2) { vec![x, y] } else { vec![y, x] };
    let axis = some_axis(b, x)?;
    b.node("Concat", &parts, vec![("axis", Int(axis))])
}

fn split(b: &mut Builder) -> Option<Vec<usize>> {
    let x = b.pick(|value| !value.shape().is_empty())?;
    let axis = some_axis(b, x)?;
    let own = if axis < 0 { axis + b.rank(x) as i64 } else { axis };
    let size = b.value(x).fixed_sizes()?[own as usize]? as i64;
    let mut attributes = vec![("axis", Int(axis))];
    if b.graph.opset >= 18 && size % 2 == 0 && size > 0 && b.random.one_in(2) {
        attributes.push(("num_outputs", Int(2)));
        return b.node("Split", &[x], attributes);
    }
    let first = b.random.below(size as usize + 1) as i64;
    let sizes = b.ints(&[first, size - first]);
    b.node("Split", &[x, sizes], attributes)
}

fn slice(b: &mut Builder) -> Option<Vec<usize>> {
    let x = b.pick(|value| !value.shape().is_empty())?;
    let axis = some_axis(b, x)?;
    let far = [i64::MAX, i64::MIN, 1 << 32, (1 << 32) + 1, -(1 << 33), i64::from(i32::MAX)];
    let (start, end) = match b.random.below(8) {
        0 => (b.random.of(&far), b.random.of(&far)),
        1 => (b.random.below(4) as i64 - 2, b.random.of(&far)),
        2 => (b.random.of(&far), b.random.below(4) as i64 - 2),
        3 | 4 => (b.random.below(2) as i64, i64::MAX),
        5 => (-1, i64::MAX),
        _ => {
            let start = b.random.below(2) as i64;
            (start, start + b.random.below(2) as i64)
        }
    };
    let step = b.random.of(&[1, 1, 1, 1, 1, 1, 1, 2, 2, -1, 1 << 32, (1 << 33) + 2]);
    let dims = some_shape(b, Some(1));
    let (start, end) = match dims {
        Some(dim) if b.random.one_in(3) => {
            if b.random.one_in(2) {
                (dim, b.ints(&[end]))
            } else {
                (b.ints(&[start]), dim)
            }
        }
        _ => (b.ints(&[start]), b.ints(&[end])),
    };
    let axes = b.ints(&[axis]);
    if b.random.one_in(2) {
        return b.node("Slice", &[x, start, end, axes], vec![]);
    }
    let step = b.ints(&[step]);
    b.node("Slice", &[x, start, end, axes, step], vec![])
}

fn gather(b: &mut Builder) -> Option<Vec<usize>> {
    let x = b.pick(|value| !value.shape().is_empty())?;
    let axis = some_axis(b, x)?;
    if b.random.one_in(3) {
        let places = b.pick(|value| matches!(value.ty(), Int64 | Int32))?;
        return b.node("Gather", &[x, places], vec![("axis", Int(axis))]);
    }
    let places: Vec<i64> = (0..b.random.below(4)).map(|_| b.random.below(4) as i64 - 2).collect();
    let is_constant = b.random.one_in(2);
    let places = b.leaf(Val::int64(&places), is_constant);
    b.node("Gather", &[x, places], vec![("axis", Int(axis))])
}

fn gathers(b: &mut Builder) -> Option<Vec<usize>> {
    let x = b.pick(|value| !value.shape().is_empty())?;
    let rank = b.rank(x);
    if b.random.one_in(12) {
        let condition = b.elements(Bool, &[1 + rank.min(2)]);
        let condition = b.leaf(condition, true);
        let axis = some_axis(b, x)?;
        return b.node("Compress", &[x, condition], vec![("axis", Int(axis))]);
    }
    let is_constant = b.random.one_in(2);
    if b.random.one_in(2) {
        let depth = 1 + b.random.below(rank);
        let places = vec![b.random.below(3) as i64 - 1; depth];
        let places = Val::int64(&places).reshaped(vec![1, depth])?;
        let places = b.leaf(places, is_constant);
        return b.node("GatherND", &[x, places], vec![]);
    }
    let sizes: Vec<usize> =
        b.value(x).fixed_sizes()?.into_iter().map(|size| size.unwrap_or(1)).collect();
    let places =
        (0..sizes.iter().product()).map(|_| b.random.below(3) as i128 - 1).collect::<Vec<_>>();
    let places = b.leaf(Val::of_ints(Int64, sizes, places), is_constant);
    let axis = some_axis(b, x)?;
    b.node("GatherElements", &[x, places], vec![("axis", Int(axis))])
}

fn expand(b: &mut Builder) -> Option<Vec<usize>> {
    let x = b.pick(|_| true)?;
    if b.random.one_in(2) {
        let shape = some_shape(b, None)?;
        return b.node("Expand", &[x, shape], vec![]);
    }
    let sizes = b.value(x).fixed_sizes()?;
    let mut shape: Vec<i64> = sizes
        .iter()
        .map(|size| size.map_or(1, |size| if size == 1 { 3 } else { size as i64 }))
        .collect();
    if b.random.one_in(2) {
        shape.insert(0, 2);
    }
    let is_constant = !b.random.one_in(4);
    let shape = b.leaf(Val::int64(&shape), is_constant);
    b.node("Expand", &[x, shape], vec![])
}

fn tile(b: &mut Builder) -> Option<Vec<usize>> {
    let x = b.pick(|value| !value.shape().is_empty())?;
    let rank = b.rank(x);
    if b.random.one_in(3) {
        let repeats = some_shape(b, Some(rank))?;
        return b.node("Tile", &[x, repeats], vec![]);
    }
    let repeats: Vec<i64> = (0..rank).map(|_| b.random.below(3) as i64).collect();
    let repeats = b.ints(&repeats);
    b.node("Tile", &[x, repeats], vec![])
}

fn pad(b: &mut Builder) -> Option<Vec<usize>> {
    let x = b.pick(|value| !value.shape().is_empty() && value.ty() != Bool)?;
    let pads: Vec<i64> = (0..2 * b.rank(x)).map(|_| b.random.below(3) as i64).collect();
    let pads = b.ints(&pads);
    if b.random.one_in(4) {
        return b.node("Pad", &[x, pads], vec![("mode", Text("edge"))]);
    }
    if b.random.one_in(3) {
        return b.node("Pad", &[x, pads], vec![]);
    }
    let ty = b.ty(x);
    let fill = b.elements(ty, &[]);
    let fill = b.leaf(fill, true);
    b.node("Pad", &[x, pads, fill], vec![])
}

fn of_shape(b: &mut Builder) -> Option<Vec<usize>> {
    let shape = some_shape(b, None)?;
    if b.random.one_in(3) {
        return b.node("ConstantOfShape", &[shape], vec![]);
    }
    let ty = b.random.of(&TYPES);
    if !b.is_allowed(ty) {
        return None;
    }
    let value = b.elements(ty, &[1]);
    b.node("ConstantOfShape", &[shape], vec![("value", Tensor(value))])
}

fn range(b: &mut Builder) -> Option<Vec<usize>> {
    let is_any = b.random.one_in(4);
    let limit = b.pick(|v| v.ty() == Int64 && v.shape().is_empty() && (is_any || v.is_shape))?;
    let (start, step) = (b.scalar(0), b.scalar(1));
    if b.random.one_in(4) {
        let step = b.scalar(-1);
        return b.node("Range", &[limit, start, step], vec![]);
    }
    b.node("Range", &[start, limit, step], vec![])
}

fn search(b: &mut Builder) -> Option<Vec<usize>> {
    let x = b.pick(|value| is_number(value) || value.ty() == Bool)?;
    let keep = b.random.below(2) as i64;
    match b.random.below(6) {
        0 => b.node("NonZero", &[x], vec![]),
        1 => {
            let axis = some_axis(b, x)?;
            let op = b.random.of(&["ArgMax", "ArgMin"]);
            b.node(op, &[x], vec![("axis", Int(axis)), ("keepdims", Int(keep))])
        }
        2 => {
            let axis = some_axis(b, x)?;
            let k = b.random.below(3) as i64;
            let dims = b.pick(|value| is_list(value) && value.shape()[0] == 1);
            let k = match dims {
                Some(dim) if b.random.one_in(2) => dim,
                _ => b.ints(&[k]),
            };
            b.node("TopK", &[x, k], vec![("axis", Int(axis)), ("largest", Int(keep))])
        }
        3 => {
            let axis = some_axis(b, x)?;
            let axis = b.scalar(axis);
            let attributes = match b.random.below(3) {
                0 => vec![("exclusive", Int(1))],
                1 => vec![("reverse", Int(1))],
                _ => vec![],
            };
            b.node("CumSum", &[x, axis], attributes)
        }
        4 => {
            let places = b.pick(|value| value.ty() == Int64)?;
            let dims = b.pick(|value| value.ty() == Int64 && value.shape().is_empty());
            let depth = match dims {
                Some(dim) if b.random.one_in(3) => dim,
                _ => b.scalar(3),
            };
            let ty = b.random.of(&[Int64, Float, Int32]);
            let values = b.elements(ty, &[2]);
            let values = b.leaf(values, true);
            b.node("OneHot", &[places, depth, values], vec![])
        }
        _ => {
            let y = b.operand(x);
            b.node("MatMul", &[x, y], vec![])
        }
    }
}

fn reduce(b: &mut Builder) -> Option<Vec<usize>> {
    let is_any = b.random.one_in(20);
    let x = b.pick(|value| {
        is_number(value) && (is_any || matches!(value.ty(), Int64 | Int32 | Float | Double))
    })?;
    let op = b.random.of(&[
        "ReduceSum",
        "ReduceSum",
        "ReduceMax",
        "ReduceMin",
        "ReduceProd",
        "ReduceMean",
        "ReduceL1",
        "ReduceSumSquare",
    ]);
    let mut attributes = vec![];
    if b.random.one_in(2) {
        attributes.push(("keepdims", Int(b.random.below(2) as i64)));
    }
    let axis = some_axis(b, x).filter(|_| !b.random.one_in(3));
    let Some(axis) = axis else { return b.node(op, &[x], attributes) };
    if b.graph.opset < 18 && op != "ReduceSum" {
        attributes.push(("axes", Ints(vec![axis])));
        return b.node(op, &[x], attributes);
    }
    let axes = b.ints(&[axis]);
    b.node(op, &[x, axes], attributes)
}

/// What any type does.
fn moved(b: &mut Builder) -> Option<Vec<usize>> {
    let x = b.pick(|_| true)?;
    if b.random.one_in(2) {
        return b.node("Identity", &[x], vec![]);
    }
    let ty = b.random.of(&TYPES);
    let value = b.elements(ty, &[2]);
    b.is_allowed(ty).then(|| b.node("Constant", &[], vec![("value", Tensor(value))]))?
}

/// Two graphs that make values of one type and rank.
fn branches(b: &mut Builder) -> Option<Vec<usize>> {
    let condition = match b.pick(|value| value.ty() == Bool && value.shape().is_empty()) {
        Some(condition) => condition,
        None => {
            let val = b.elements(Bool, &[]);
            b.leaf(val, false)
        }
    };
    let then = b.body(vec![], few)?;
    let made = then.outputs[0];
    let (ty, shape) = (b.ty(made), b.value(made).worlds.clone().map(|val| val.shape));
    let alike = |value: &Value| {
        value.ty() == ty && value.worlds[0].shape == shape[0] && value.worlds[1].shape == shape[1]
    };
    let other = b.body(vec![], |b| {
        few(b);
        let last = b.pick(alike)?;
        match b.random.below(3) {
            0 => Some(vec![last]),
            1 => b.node("Identity", &[last], vec![]),
            _ => {
                let y = b.operand(last);
                b.node("Add", &[last, y], vec![]).filter(|made| alike(b.value(made[0])))
            }
        }
    })?;
    let (then, other) = if b.random.one_in(2) { (then, other) } else { (other, then) };
    let attributes =
        vec![("then_branch", Attribute::Graph(then)), ("else_branch", Attribute::Graph(other))];
    b.node("If", &[condition], attributes)
}

/// One to three nodes; the last one's first output.
fn few(b: &mut Builder) -> Option<Vec<usize>> {
    let wanted = 1 + b.random.below(3);
    for _ in 0..12 * wanted {
        if b.graph.nodes.len() >= wanted {
            break;
        }
        any(b);
    }
    let last = b.graph.nodes.last()?;
    Some(vec![last.outputs[0]])
}

/// A sum or another running value over the first axis.
fn scan(b: &mut Builder) -> Option<Vec<usize>> {
    let series = b.pick(|value| {
        let has_elements = |val: &Val| !val.shape.is_empty() && !val.codes.is_empty();
        is_number(value) && value.worlds.iter().all(has_elements)
    })?;
    let ty = b.ty(series);
    let slices = b.value(series).worlds.clone().map(|val| {
        let size = val.codes.len() / val.shape[0];
        val.picked(val.shape[1..].to_vec(), 0..size).expect("the first")
    });
    let start = if b.value(series).fixed_sizes()?[1..].iter().all(Option::is_some) {
        let shape = b.value(series).shape()[1..].to_vec();
        let val = b.elements(ty, &shape);
        let is_constant = b.random.one_in(2);
        b.leaf(val, is_constant)
    } else {
        return None;
    };
    let state = b.value(start).worlds.clone();
    let (state, slice) = (b.body_input(state), b.body_input(slices));
    let body = b.body(vec![state, slice], |b| {
        let op = b.random.of(&["Add", "Sub", "Max", "Min", "Mul"]);
        let next = b.node(op, &[state, slice], vec![])?[0];
        let to = b.random.of(&[Int64, Float, Double, BFloat16, Int32]);
        let given = match b.random.below(4) {
            0 => b.node("Neg", &[slice], vec![])?[0],
            1 => cast_to(b, next, to)?[0],
            2 => {
                let y = b.operand(next);
                b.node("Add", &[next, y], vec![])?[0]
            }
            _ => b.node("Identity", &[slice], vec![])?[0],
        };
        Some(vec![next, given])
    })?;
    let attributes = vec![("body", Attribute::Graph(body)), ("num_scan_inputs", Int(1))];
    b.node("Scan", &[start, series], attributes)
}
