//! Operators that put elements at places, and those that know where they are.

use tract_onnx_cast::ElementType;

use crate::answer::{Answer, Ask, largest, moved, numbers, only, rounded, sum, unit};
use crate::data::{Data, NUMBERS};
use crate::draw::{Attributed, Draw};
use crate::eval::Attributes;
use crate::graph::Attribute::{Int, Text};
use crate::movers::within;
use crate::reduce::groups;
use crate::table::{Row, row};
use crate::tensor::{Val, axis_of, indices, place, volume};

use ElementType::*;

pub const ROWS: &[Row] = &[
    row("Scatter ScatterElements", scatter, scattered),
    row("ScatterND", scatter_nd, put),
    row("EyeLike", eye, diagonal),
    row("Trilu com.microsoft.Trilu", trilu, triangle),
    row("DepthToSpace SpaceToDepth", depth, blocks),
    row("TopK", top, best),
];

fn scatter(d: &mut Draw) -> Option<usize> {
    let x = d.operand(&NUMBERS, 1..4)?;
    let axis = d.random.below(d.rank(x));
    let size = d.sized(x, axis)?;
    let shape = d.shape(x);
    let shape: Vec<usize> = shape.iter().map(|size| 1 + d.random.below(*size)).collect();
    let places = within(d, &shape, size);
    let updates = d.fixed(d.ty(x), &shape, Data::Small);
    let mut attributes: Attributed = vec![("axis", Int(axis as i64))];
    if d.op() == "ScatterElements" && d.opset() >= 16 {
        let kinds = ["none", "add", "mul", "max", "min"];
        let kind = d.random.of(&kinds[..if d.opset() >= 18 { 5 } else { 3 }]);
        attributes.push(("reduction", Text(kind)));
    }
    d.make(&[x, places, updates], attributes)
}

/// Puts updates at places, each joined to what is there; `None` where two without an order meet.
fn join(ask: &Ask, x: &Val, updates: &Val, to: &[usize]) -> Option<Vec<Answer>> {
    let kind = ask.text("reduction", "none");
    let mut seen = vec![0; x.codes.len()];
    let (mut codes, own, new) = (x.codes.clone(), numbers(x), numbers(updates));
    let mut sums: Vec<Vec<f64>> = own.iter().map(|x| vec![*x]).collect();
    let is_float = !x.is_int();
    for (place, at) in to.iter().enumerate() {
        seen[*at] += 1;
        sums[*at].push(new[place]);
        let [a, b] = [
            Val::new(x.ty, vec![], vec![codes[*at]]),
            Val::new(x.ty, vec![], vec![updates.codes[place]]),
        ];
        let op = match kind {
            "none" if seen[*at] > 1 => return None,
            "none" => {
                codes[*at] = updates.codes[place];
                continue;
            }
            "add" => "Add",
            "mul" => "Mul",
            "max" => "Max",
            _ => "Min",
        };
        if !is_float {
            let inputs = [Some(&a), Some(&b)];
            codes[*at] = moved(&Ask { op, inputs: &inputs, attributes: Attributes(&[]), ..*ask })?
                [0]
            .val
            .codes[0];
        }
    }
    if !is_float || kind == "none" {
        return only(Val::new(x.ty, x.shape.clone(), codes));
    }
    let value = |terms: &Vec<f64>| match kind {
        _ if terms.len() == 1 => (terms[0], 0.0),
        "add" => sum(x.ty, terms),
        "mul" => {
            let product: f64 = terms.iter().product();
            let most: f64 = terms.iter().map(|x| x.abs().max(1.0)).product();
            let slack = terms.len() as f64 * unit(x.ty, product);
            (product, if most > largest(x.ty) { f64::INFINITY } else { slack })
        }
        _ if terms.iter().any(|x| x.is_nan()) => (f64::NAN, f64::INFINITY),
        "max" => (terms.iter().copied().fold(f64::NEG_INFINITY, f64::max), 0.0),
        _ => (terms.iter().copied().fold(f64::INFINITY, f64::min), 0.0),
    };
    let values: Vec<_> = sums.iter().map(value).collect();
    Some(vec![Answer::near(x.ty, x.shape.clone(), 0.0, values)])
}

fn scattered(ask: &Ask) -> Option<Vec<Answer>> {
    let (x, places, updates) = (ask.input(0)?, ask.input(1)?, ask.input(2)?);
    let axis = ask.axis(0, x.shape.len())?;
    let at = |(mut index, at): (Vec<usize>, i128)| {
        index[axis] = axis_of(at as i64, x.shape[axis])?;
        Some(place(&x.shape, &index))
    };
    let fits = updates.shape.iter().zip(&x.shape).all(|(own, size)| own <= size);
    let to: Option<Vec<usize>> = indices(&places.shape).zip(places.ints()).map(at).collect();
    fits.then(|| join(ask, x, updates, &to?))?
}

fn scatter_nd(d: &mut Draw) -> Option<usize> {
    let x = d.operand(&NUMBERS, 1..4)?;
    let depth = 1 + d.random.below(d.rank(x));
    let shape = d.shape(x);
    let least = *shape[..depth].iter().min()? as i64;
    let count = 1 + d.random.below(3);
    let places = d.fixed(Int64, &[count, depth], Data::Within(0, least));
    let mut sizes = vec![Some(count)];
    sizes.extend((depth..d.rank(x)).map(|axis| d.sized(x, axis)));
    let updates = d.weights(d.ty(x), &sizes, Data::Small);
    let kinds = ["none", "add", "mul", "max", "min"];
    let kind = d.random.of(&kinds[..if d.opset() >= 18 { 5 } else { 3 }]);
    d.make(
        &[x, places, updates],
        if d.opset() >= 16 { vec![("reduction", Text(kind))] } else { vec![] },
    )
}

fn put(ask: &Ask) -> Option<Vec<Answer>> {
    let (x, places, updates) = (ask.input(0)?, ask.input(1)?, ask.input(2)?);
    let depth = *places.shape.last()?;
    let count = volume(&x.shape[depth..]);
    let mut to = vec![];
    for own in places.i64s()?.chunks(depth) {
        let at: Vec<usize> = own
            .iter()
            .zip(&x.shape)
            .map(|(at, size)| axis_of(*at, *size))
            .collect::<Option<_>>()?;
        let whole = place(&x.shape[..depth], &at);
        to.extend(whole * count..(whole + 1) * count);
    }
    (to.len() == updates.codes.len()).then(|| join(ask, x, updates, &to))?
}

fn eye(d: &mut Draw) -> Option<usize> {
    let x = d.operand(&[Float, Int32, Int64, Double], 2..3)?;
    let mut attributes: Attributed = vec![];
    if d.random.one_in(2) {
        attributes.push(("dtype", Int(d.random.of(&[Float, Int64, Int32, Double]) as i64)));
    }
    if d.random.one_in(2) {
        attributes.push(("k", Int(d.random.below(7) as i64 - 3)));
    }
    d.make(&[x], attributes)
}

fn diagonal(ask: &Ask) -> Option<Vec<Answer>> {
    let x = ask.input(0)?;
    let ty = ElementType::ALL.iter().find(|ty| **ty as i64 == ask.int("dtype", x.ty as i64))?;
    let (columns, k) = (x.shape[1] as i64, ask.int("k", 0));
    let ones = (0..x.codes.len() as i64).map(|at| f64::from(at % columns == at / columns + k));
    only(rounded(*ty, x.shape.clone(), &ones.collect::<Vec<_>>()))
}

fn trilu(d: &mut Draw) -> Option<usize> {
    let x = d.operand(&[Float, Float, Double, Int32, Int64, Float16], 2..5)?;
    let k = d.random.below(9) as i64 - 4;
    let k = d.random.one_in(2).then(|| d.scalar(k));
    let upper = d.random.below(2) as i64;
    Some(d.node(&[Some(x), k], 1, vec![("upper", Int(upper))])?[0])
}

fn triangle(ask: &Ask) -> Option<Vec<Answer>> {
    let x = ask.input(0)?;
    let k = ask.input(1).map_or(Some(0), Val::i64)?;
    let [.., rows, columns] = x.shape[..] else { return None };
    let upper = ask.int("upper", 1) == 1;
    let kept = |at: usize| {
        let more = (at % columns) as i64 - (at / columns % rows) as i64;
        if upper { more >= k } else { more <= k }
    };
    let codes = x.codes.iter().enumerate().map(|(at, code)| if kept(at) { *code } else { 0 });
    only(Val::new(x.ty, x.shape.clone(), codes.collect()))
}

fn depth(d: &mut Draw) -> Option<usize> {
    let (size, batch) = (1 + d.random.below(3), d.size());
    let [channels, rows, columns] = [d.size(), d.size(), d.size()];
    let is_deep = d.op() == "DepthToSpace";
    let shape = if is_deep {
        [batch, channels * size * size, rows, columns]
    } else {
        [batch, channels, rows * size, columns * size]
    };
    let x = d.shaped(&[Float, Float, Double, Float16], &shape)?;
    let mut attributes: Attributed = vec![("blocksize", Int(size as i64))];
    if is_deep && d.opset() >= 11 {
        attributes.push(("mode", Text(d.random.of(&["DCR", "CRD"]))));
    }
    d.make(&[x], attributes)
}

fn blocks(ask: &Ask) -> Option<Vec<Answer>> {
    let x = ask.input(0)?;
    let size = ask.int("blocksize", 1) as usize;
    let [batch, channels, rows, columns] = x.shape[..] else { return None };
    let is_deep = ask.op == "DepthToSpace";
    let deep = if is_deep { channels / (size * size) } else { channels };
    let is_last = ask.text("mode", "DCR") == "CRD";
    // The channel of a block's element in the deep form.
    let channel = |c: usize, i: usize, j: usize| {
        if is_last { (c * size + i) * size + j } else { (i * size + j) * deep + c }
    };
    let shape = if is_deep {
        vec![batch, deep, rows * size, columns * size]
    } else {
        vec![batch, channels * size * size, rows / size, columns / size]
    };
    let wide = if is_deep { &shape } else { &x.shape };
    let narrow = if is_deep { &x.shape } else { &shape };
    let mut codes = vec![0; x.codes.len()];
    for index in indices(wide) {
        let [n, c, i, j] = index[..] else { return None };
        let own = [n, channel(c, i % size, j % size), i / size, j / size];
        let (to, from) = (place(wide, &index), place(narrow, &own));
        let (to, from) = if is_deep { (to, from) } else { (from, to) };
        codes[to] = x.codes[from];
    }
    only(Val::new(x.ty, shape, codes))
}

fn top(d: &mut Draw) -> Option<usize> {
    let x = d.operand(&[Float, Float, Double, Float16, Int32, Int64], 1..4)?;
    let axis = d.random.below(d.rank(x));
    let k = 1 + d.random.below(d.sized(x, axis)?) as i64;
    let k = d.ints(&[k]);
    let mut attributes: Attributed = vec![("axis", Int(axis as i64))];
    if d.opset() >= 11 && d.random.one_in(2) {
        attributes.push(("largest", Int(d.random.below(2) as i64)));
    }
    let outputs = d.node(&[Some(x), Some(k)], 2, attributes)?;
    Some(d.random.of(&outputs))
}

/// The largest or smallest along an axis; of equals the first comes first.
fn best(ask: &Ask) -> Option<Vec<Answer>> {
    let x = ask.input(0)?;
    let axis = ask.axis(-1, x.shape.len())?;
    let k = ask.input(1)?.i64()? as usize;
    let largest = ask.int("largest", 1) == 1;
    let (all, ints) = (numbers(x), if x.is_int() { x.ints() } else { vec![0; x.codes.len()] });
    if all.iter().any(|x| x.is_nan()) || k > x.shape[axis] {
        return None;
    }
    let mut shape = x.shape.clone();
    shape[axis] = k;
    let (mut values, mut places) = (vec![0; volume(&shape)], vec![0; volume(&shape)]);
    for (of, to) in groups(&x.shape, &[axis]).iter().zip(groups(&shape, &[axis])) {
        let mut order: Vec<usize> = (0..of.len()).collect();
        order.sort_by(|a, b| {
            let (a, b) = (of[*a], of[*b]);
            let order = ints[a].cmp(&ints[b]).then(all[a].partial_cmp(&all[b]).expect("no NaN"));
            if largest { order.reverse() } else { order }
        });
        for (to, from) in to.iter().zip(order) {
            (values[*to], places[*to]) = (x.codes[of[from]], from as u64);
        }
    }
    let values =
        Answer { slack: Some(vec![0.0; values.len()]), val: Val::new(x.ty, shape.clone(), values) };
    Some(vec![values, Answer::exact(Val::new(Int64, shape, places))])
}
