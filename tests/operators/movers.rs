//! Operators that move elements, and those that make and measure shapes.

use tract_onnx_cast::ElementType;

use crate::answer::{Answer, Ask, moved, numbers, only, rounded};
use crate::data::{Data, NUMBERS, elements};
use crate::draw::{Attributed, Draw};
use crate::graph::Attribute::{Int, Ints, Tensor, Text};
use crate::table::{Row, row};
use crate::tensor::{Val, axis_of, indices, place, volume};

use ElementType::*;

pub const ROWS: &[Row] = &[
    row("Concat", concat, moved),
    row("Slice", slice, modern),
    row("Transpose", transpose, moved),
    row("Reshape", reshape, moved),
    row("Flatten", flatten, moved),
    row("Squeeze", squeeze, modern),
    row("Unsqueeze", unsqueeze, modern),
    row("Split", split, modern),
    row("Expand Tile", expand, moved),
    row("Pad", pad, padded),
    row("Gather GatherElements", gather, moved),
    row("GatherND", gather_nd, taken),
    row("Shape Size", measure, moved),
    row("ConstantOfShape", of_shape, moved),
    row("Constant", constant, held),
    row("Range", range, counted),
    row("NonZero", non_zero, moved),
    row("OneHot", one_hot, moved),
];

/// What is moved, whatever it is.
fn any(d: &mut Draw, ranks: std::ops::Range<usize>) -> Option<usize> {
    d.operand(&[&NUMBERS[..], &[Bool]].concat(), ranks)
}

fn concat(d: &mut Draw) -> Option<usize> {
    let x = any(d, 1..5)?;
    let axis = d.random.below(d.rank(x));
    let mut all = vec![x];
    for _ in 0..1 + d.random.below(2) {
        let size = d.size();
        let sizes = (0..d.rank(x)).map(|at| if at == axis { Some(size) } else { d.sized(x, at) });
        let sizes: Vec<Option<usize>> = sizes.collect();
        let other = d.weights(d.ty(x), &sizes, Data::Small);
        all.insert(d.random.below(all.len() + 1), other);
    }
    let negative = d.opset() >= 11 && d.random.one_in(2);
    let axis = axis as i64 - if negative { d.rank(x) as i64 } else { 0 };
    d.make(&all, vec![("axis", Int(axis))])
}

fn slice(d: &mut Draw) -> Option<usize> {
    let x = any(d, 1..5)?;
    let is_old = d.opset() < 10;
    if is_old && d.is_symbolic() {
        return None;
    }
    let axes = d.axes(d.rank(x));
    let (mut starts, mut ends, mut steps) = (vec![], vec![], vec![]);
    for _ in &axes {
        let step = if is_old { 1 } else { d.random.of(&[1, 1, 2, 3, -1, -2]) };
        let [from, to] =
            [0, 1].map(|_| d.random.of(&[-7, -2, -1, 0, 1, 2, 3, i64::MAX, i64::from(i32::MAX)]));
        let (start, end) = if step > 0 { (from.min(to), from.max(to)) } else { (to, from) };
        starts.push(start);
        ends.push(if step < 0 && d.random.one_in(3) { i64::MIN } else { end });
        steps.push(step);
    }
    let (mut inputs, mut attributes): (_, Attributed) = (vec![Some(x)], vec![]);
    // Before opset 11 axes are not negative.
    let rank = d.rank(x) as i64;
    let axes: Vec<i64> =
        axes.iter().map(|a| if d.opset() < 11 && *a < 0 { a + rank } else { *a }).collect();
    for (name, list) in [("starts", &starts), ("ends", &ends), ("axes", &axes)] {
        d.list(10, name, list, &mut inputs, &mut attributes);
    }
    if !is_old && (steps.iter().any(|step| *step != 1) || d.random.one_in(2)) {
        let steps = d.ints(&steps);
        inputs.push(Some(steps));
    }
    Some(d.node(&inputs, 1, attributes)?[0])
}

/// As `moved`, of older versions, whose lists are attributes.
fn modern(ask: &Ask) -> Option<Vec<Answer>> {
    let lists: Vec<Val> = ["starts", "ends", "axes", "split"]
        .iter()
        .filter_map(|name| Some(Val::int64(ask.attributes.ints(name)?)))
        .collect();
    let inputs: Vec<Option<&Val>> =
        ask.inputs.iter().copied().chain(lists.iter().map(Some)).collect();
    moved(&Ask { inputs: &inputs, ..*ask })
}

fn transpose(d: &mut Draw) -> Option<usize> {
    let x = any(d, 0..5)?;
    if d.random.one_in(4) {
        return d.make(&[x], vec![]);
    }
    let perm = d.permutation(d.rank(x));
    d.make(&[x], vec![("perm", Ints(perm))])
}

fn reshape(d: &mut Draw) -> Option<usize> {
    let x = any(d, 1..5)?;
    let sizes: Vec<i64> =
        (0..d.rank(x)).map(|axis| d.sized(x, axis).map_or(0, |size| size as i64)).collect();
    let mut to = sizes.clone();
    match d.random.below(4) {
        0 => to = vec![-1],
        1 => to.insert(d.random.below(to.len() + 1), 1),
        2 if to.len() > 1 => {
            let last = to.pop()? * to.pop()?;
            to.push(if d.random.one_in(2) { -1 } else { last });
        }
        _ => to[0] = -1,
    }
    let to = d.ints(&to);
    d.make(&[x, to], vec![])
}

fn flatten(d: &mut Draw) -> Option<usize> {
    let x = any(d, 1..5)?;
    let rank = d.rank(x);
    let axis = d.random.below(rank + 1) as i64;
    let negative = d.opset() >= 11 && axis < rank as i64 && d.random.one_in(2);
    d.make(&[x], vec![("axis", Int(if negative { axis - rank as i64 } else { axis }))])
}

fn squeeze(d: &mut Draw) -> Option<usize> {
    let x = any(d, 1..5)?;
    let ones: Vec<i64> =
        (0..d.rank(x)).filter(|axis| d.sized(x, *axis) == Some(1)).map(|a| a as i64).collect();
    let (mut inputs, mut attributes): (_, Attributed) = (vec![Some(x)], vec![]);
    if ones.is_empty() || !d.random.one_in(4) {
        let mut axes: Vec<i64> = ones.into_iter().filter(|_| d.random.one_in(2)).collect();
        if axes.is_empty() {
            return None;
        }
        let negative = d.opset() >= 11 && d.random.one_in(2);
        axes.iter_mut().for_each(|axis| *axis -= if negative { d.rank(x) as i64 } else { 0 });
        d.list(13, "axes", &axes, &mut inputs, &mut attributes);
    }
    Some(d.node(&inputs, 1, attributes)?[0])
}

fn unsqueeze(d: &mut Draw) -> Option<usize> {
    let x = any(d, 0..4)?;
    let rank = d.rank(x) + 1 + d.random.below(2);
    let (mut inputs, mut attributes): (_, Attributed) = (vec![Some(x)], vec![]);
    let mut axes = d.permutation(rank)[..rank - d.rank(x)].to_vec();
    let negative = d.opset() >= 11 && d.random.one_in(2);
    axes.iter_mut().for_each(|axis| *axis -= if negative { rank as i64 } else { 0 });
    d.list(13, "axes", &axes, &mut inputs, &mut attributes);
    Some(d.node(&inputs, 1, attributes)?[0])
}

fn split(d: &mut Draw) -> Option<usize> {
    let x = any(d, 1..5)?;
    let axis = d.random.below(d.rank(x));
    let size = d.sized(x, axis)?;
    let first = d.random.below(size + 1);
    let (mut inputs, mut attributes): (_, Attributed) =
        (vec![Some(x)], vec![("axis", Int(axis as i64))]);
    if d.opset() >= 18 && size > 1 && size.is_multiple_of(2) && d.random.one_in(3) {
        attributes.push(("num_outputs", Int(2)));
    } else if size.is_multiple_of(2) && d.opset() < 18 && d.random.one_in(3) {
        let half = size as i64 / 2;
        d.list(13, "split", &[half, half], &mut inputs, &mut attributes);
    } else {
        d.list(13, "split", &[first as i64, (size - first) as i64], &mut inputs, &mut attributes);
    }
    let outputs = d.node(&inputs, 2, attributes)?;
    Some(d.random.of(&outputs))
}

fn expand(d: &mut Draw) -> Option<usize> {
    let x = any(d, 1..4)?;
    if d.op() == "Tile" {
        let counts: Vec<i64> = (0..d.rank(x)).map(|_| d.random.of(&[1, 1, 2, 3])).collect();
        let counts = d.ints(&counts);
        return d.make(&[x, counts], vec![]);
    }
    let mut to: Vec<i64> = (0..d.rank(x))
        .map(|axis| match d.sized(x, axis) {
            Some(1) => d.size() as i64,
            Some(size) if d.random.one_in(2) => size as i64,
            _ => 1,
        })
        .collect();
    match d.random.below(3) {
        0 => to.insert(0, 2),
        1 if to.len() > 1 => drop(to.remove(0)),
        _ => {}
    }
    let to = d.ints(&to);
    d.make(&[x, to], vec![])
}

fn pad(d: &mut Draw) -> Option<usize> {
    let x = d.operand(&NUMBERS, 1..5)?;
    let rank = d.rank(x);
    let modes = ["constant", "constant", "edge", "reflect", "wrap"];
    let mode = d.random.of(&modes[..if d.opset() < 19 { 4 } else { 5 }]);
    let shape = d.shape(x);
    let most = |axis: usize| if mode == "reflect" { shape[axis].min(3) } else { 3 };
    let pads: Vec<i64> =
        (0..2 * rank).map(|at| d.random.below(most(at % rank).max(1)) as i64).collect();
    let (mut inputs, mut attributes): (_, Attributed) = (vec![Some(x)], vec![("mode", Text(mode))]);
    d.list(11, "pads", &pads, &mut inputs, &mut attributes);
    if d.opset() >= 11 && d.random.one_in(2) {
        let fill = d.fixed(d.ty(x), &[], Data::Special);
        let fill = d.graph.values[fill].worlds[0].clone();
        let fill = d.constant(fill);
        inputs.push(Some(fill));
    }
    Some(d.node(&inputs, 1, attributes)?[0])
}

fn padded(ask: &Ask) -> Option<Vec<Answer>> {
    let x = ask.input(0)?;
    let pads = ask.list(1, "pads")?;
    let rank = x.shape.len();
    let fill = ask.input(2).map_or(0, |fill| fill.codes[0]);
    let mode = ask.text("mode", "constant");
    let reaches = |(at, pad): (usize, &i64)| *pad >= x.shape[at % rank] as i64;
    let of_nothing = |(at, pad): (usize, &i64)| *pad > 0 && x.shape[at % rank] == 0;
    let is_lacking = match mode {
        "constant" => false,
        "reflect" => pads.iter().enumerate().any(reaches),
        _ => pads.iter().enumerate().any(of_nothing),
    };
    if is_lacking {
        return None;
    }
    let sizes = x.shape.iter().enumerate();
    let shape: Vec<usize> =
        sizes.map(|(axis, size)| size + (pads[axis] + pads[axis + rank]) as usize).collect();
    let source = |axis: usize, at: usize| {
        let (at, size) = (at as i64 - pads[axis], x.shape[axis] as i64);
        let at = match mode {
            "edge" => at.clamp(0, (size - 1).max(0)),
            "wrap" => at.rem_euclid(size.max(1)),
            "reflect" if size > 1 => {
                let at = at.rem_euclid(2 * size - 2);
                at.min(2 * size - 2 - at)
            }
            _ => at,
        };
        (0..size).contains(&at).then_some(at as usize)
    };
    let code = |index: Vec<usize>| {
        let own: Option<Vec<usize>> = (0..rank).map(|axis| source(axis, index[axis])).collect();
        own.map_or(fill, |own| x.codes[place(&x.shape, &own)])
    };
    only(Val::new(x.ty, shape.clone(), indices(&shape).map(code).collect()))
}

/// Places within a size, negative ones among them.
pub fn within(d: &mut Draw, shape: &[usize], size: usize) -> usize {
    let size = size as i64;
    let ty = d.random.of(&[Int64, Int64, Int32]);
    let from = if d.opset() >= 11 { -size } else { 0 };
    d.fixed(ty, shape, Data::Within(from, size))
}

fn gather(d: &mut Draw) -> Option<usize> {
    let x = any(d, 1..4)?;
    let axis = d.random.below(d.rank(x));
    let size = d.sized(x, axis)?;
    let shape = match d.op() {
        "Gather" => {
            let rank = d.random.below(3);
            d.sizes(rank)
        }
        _ => {
            let shape = d.shape(x);
            shape.iter().map(|size| 1 + d.random.below(*size)).collect()
        }
    };
    let places = within(d, &shape, size);
    let axis = axis as i64 - d.random.of(&[0, d.rank(x) as i64]);
    d.make(&[x, places], vec![("axis", Int(axis))])
}

fn gather_nd(d: &mut Draw) -> Option<usize> {
    let x = any(d, 1..5)?;
    let rank = d.rank(x);
    let batch = if d.opset() >= 12 { d.random.below(rank.min(3)) } else { 0 };
    let depth = 1 + d.random.below(rank - batch);
    let shape = d.shape(x);
    let least = *shape[batch..batch + depth].iter().min()? as i64;
    let mut sizes: Vec<Option<usize>> = (0..batch).map(|axis| d.sized(x, axis)).collect();
    sizes.extend([Some(d.size()), Some(depth)]);
    let places = d.weights(Int64, &sizes, Data::Within(-least, least));
    let attributes = if batch > 0 { vec![("batch_dims", Int(batch as i64))] } else { vec![] };
    d.make(&[x, places], attributes)
}

fn taken(ask: &Ask) -> Option<Vec<Answer>> {
    let (x, to) = (ask.input(0)?, ask.input(1)?);
    let batch = ask.int("batch_dims", 0) as usize;
    let (depth, outer) = to.shape.split_last()?;
    let inner = &x.shape[batch + depth..];
    let count = volume(inner);
    let places = to.i64s()?;
    if x.shape[..batch] != to.shape[..batch] {
        return None;
    }
    let mut sources = vec![];
    for (index, own) in indices(outer).zip(places.chunks(*depth)) {
        let mut at = index[..batch].to_vec();
        for (axis, place) in own.iter().enumerate() {
            at.push(axis_of(*place, x.shape[batch + axis])?);
        }
        let whole = place(&x.shape[..at.len()], &at);
        sources.extend(whole * count..(whole + 1) * count);
    }
    only(x.picked([outer, inner].concat(), sources)?)
}

fn measure(d: &mut Draw) -> Option<usize> {
    let x = any(d, 0..5)?;
    let mut attributes: Attributed = vec![];
    if d.op() == "Shape" && d.opset() >= 15 {
        for name in ["start", "end"] {
            if d.random.one_in(2) {
                attributes.push((name, Int(d.random.below(7) as i64 - 3)));
            }
        }
    }
    d.make(&[x], attributes)
}

fn of_shape(d: &mut Draw) -> Option<usize> {
    let sizes = d.sizes(2);
    let x = d.ints(&sizes.iter().map(|size| *size as i64).collect::<Vec<_>>());
    let ty = d.random.of(&[Float, Double, Int64, Int32, Uint8, Bool, Float16]);
    let value = elements(&mut d.random, ty, vec![1], Data::Special);
    let attributes = if d.random.one_in(4) { vec![] } else { vec![("value", Tensor(value))] };
    d.make(&[x], attributes)
}

fn constant(d: &mut Draw) -> Option<usize> {
    let ty = d.random.of(&NUMBERS);
    let shape = d.sizes(2);
    let value = elements(&mut d.random, ty, shape, Data::Special);
    d.make(&[], vec![("value", Tensor(value))])
}

fn held(ask: &Ask) -> Option<Vec<Answer>> {
    only(ask.attributes.tensor("value")?.clone())
}

fn range(d: &mut Draw) -> Option<usize> {
    let ty = d.random.of(&[Float, Double, Int64, Int32, Int16]);
    let step = d.random.of(&[1, 2, 3, -1, -2]);
    let start = d.random.below(9) as i64 - 4;
    let limit = start + step * d.random.below(6) as i64 + d.random.below(2) as i64;
    let scalar = |i: i64| rounded(ty, vec![], &[i as f64]);
    let all = [start, limit, step].map(|i| d.constant(scalar(i)));
    d.make(&all, vec![])
}

fn counted(ask: &Ask) -> Option<Vec<Answer>> {
    let [start, limit, step] = [0, 1, 2].map(|at| ask.input(at).map_or(0.0, |val| numbers(val)[0]));
    let count = ((limit - start) / step).ceil().max(0.0) as usize;
    let all: Vec<f64> = (0..count).map(|at| start + at as f64 * step).collect();
    only(rounded(ask.input(0)?.ty, vec![count], &all))
}

fn non_zero(d: &mut Draw) -> Option<usize> {
    let x = d.operand(&[Float, Int64, Int32, Bool, Uint8], 1..4)?;
    d.make(&[x], vec![])
}

fn one_hot(d: &mut Draw) -> Option<usize> {
    let x = d.operand(&[Int64], 0..3)?;
    let depth = 1 + d.random.below(5) as i64;
    let depth = if d.random.one_in(2) { d.scalar(depth) } else { d.ints(&[depth]) };
    let ty = d.random.of(&[Float, Int64, Int32, Bool, Uint8, Double]);
    let values = d.fixed(ty, &[2], Data::Small);
    let axis = d.axis(d.rank(x) + 1);
    d.make(&[x, depth, values], vec![("axis", Int(axis))])
}
