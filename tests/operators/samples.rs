//! Operators that sample: between elements, boxes that overlap, and waves.

use std::f64::consts::PI;

use tract_onnx_cast::ElementType;

use crate::answer::{Answer, Ask, numbers, only};
use crate::data::Data;
use crate::draw::{Attributed, Draw};
use crate::graph::Attribute::{Float as F, Int, Text};
use crate::reduce::groups;
use crate::table::{Row, row};
use crate::tensor::{Val, axis_of, indices, place, volume};

use ElementType::{Double, Float, Int64};

pub const ROWS: &[Row] = &[
    row("GridSample", grid, sampled),
    row("Resize", resize, resized),
    row("NonMaxSuppression", boxes, chosen),
    row("DFT", transform, transformed),
];

/// Elements that are no matter of infinities, or of numbers that vanish beside one another.
fn tame(val: &Val) -> Option<Vec<f64>> {
    let all = numbers(val);
    all.iter().all(|x| x.is_finite() && x.abs() < 1e4).then_some(all)
}

/// How far off numbers of such a size may be after a few dozen steps.
fn off(ty: ElementType, all: &[f64]) -> f64 {
    let most = all.iter().fold(1.0, |most: f64, x| most.max(x.abs()));
    most * if ty == Double { 1e-12 } else { 2e-5 }
}

fn grid(d: &mut Draw) -> Option<usize> {
    let x = d.operand(&[Float, Float, Double], if d.opset() < 20 { 4..5 } else { 3..6 })?;
    let rank = d.rank(x) - 2;
    let mut sizes = vec![d.sized(x, 0)];
    sizes.extend((0..rank).map(|_| Some(1 + d.random.below(4))));
    sizes.push(Some(rank));
    let places = d.weights(d.ty(x), &sizes, Data::Within(-2, 2));
    let modes = if d.opset() < 20 {
        ["bilinear", "nearest", "bicubic"]
    } else {
        ["linear", "nearest", "cubic"]
    };
    let mut attributes: Attributed = vec![("mode", Text(d.random.of(&modes)))];
    if d.random.one_in(2) {
        let padding = d.random.of(&["zeros", "border", "reflection"]);
        attributes.push(("padding_mode", Text(padding)));
    }
    if d.random.one_in(2) {
        attributes.push(("align_corners", Int(d.random.below(2) as i64)));
    }
    d.make(&[x, places], attributes)
}

/// How a cubic through four elements weighs one so far away.
fn cubic(distance: f64, a: f64) -> f64 {
    let x = distance.abs();
    if x <= 1.0 {
        (a + 2.0) * x.powi(3) - (a + 3.0) * x.powi(2) + 1.0
    } else if x < 2.0 {
        a * x.powi(3) - 5.0 * a * x.powi(2) + 8.0 * a * x - 4.0 * a
    } else {
        0.0
    }
}

/// Mirrored at both ends until it is between them.
fn mirrored(mut x: f64, low: f64, high: f64) -> f64 {
    while x < low || x > high {
        x = if x < low { 2.0 * low - x } else { 2.0 * high - x };
    }
    x
}

/// The elements along an axis around a coordinate, and how much each weighs; `None` where the last
/// bit decides.
fn around(ask: &Ask, coordinate: f64, size: usize) -> Option<Vec<(Option<usize>, f64)>> {
    let is_aligned = ask.int("align_corners", 0) == 1;
    let (whole, last) = (size as f64, size as f64 - 1.0);
    let (low, high) = if is_aligned { (0.0, last) } else { (-0.5, whole - 0.5) };
    let mut x = if is_aligned {
        (coordinate + 1.0) * last / 2.0
    } else {
        (coordinate * whole + last) / 2.0
    };
    let mode = ask.text("mode", "linear");
    let is_nearest = mode == "nearest";
    let near = |a: f64, b: f64| (a - b).abs() < 1e-4;
    if near(x, low) || near(x, high) || is_nearest && near(x - x.floor(), 0.5) {
        return None;
    }
    let padding = ask.text("padding_mode", "zeros");
    x = if is_nearest { x.round() } else { x };
    if padding == "border" && (x < low || x > high) {
        x = x.clamp(0.0, last);
    } else if padding == "reflection" && low < high {
        x = mirrored(x, low, high);
    } else if padding == "reflection" {
        x = low;
    }
    let at = |place: f64| match padding {
        "zeros" => (place >= 0.0 && place <= last).then_some(place as usize),
        "border" => Some(place.clamp(0.0, last) as usize),
        _ if low == high => Some(0),
        _ => Some(mirrored(place, low, high) as usize),
    };
    let first = x.floor();
    Some(match mode {
        "nearest" => vec![(at(x.round()), 1.0)],
        "linear" | "bilinear" => {
            vec![(at(first), first + 1.0 - x), (at(first + 1.0), x - first)]
        }
        _ => (-1..3)
            .map(|step| first + f64::from(step))
            .map(|place| (at(place), cubic(x - place, -0.75)))
            .collect(),
    })
}

fn sampled(ask: &Ask) -> Option<Vec<Answer>> {
    let (x, grid) = (ask.input(0)?, ask.input(1)?);
    let (all, places) = (tame(x)?, tame(grid)?);
    let sizes = &x.shape[2..];
    let shape = [&x.shape[..2], &grid.shape[1..grid.shape.len() - 1]].concat();
    if sizes.contains(&0) || grid.shape[0] != x.shape[0] {
        return None;
    }
    let value = |index: Vec<usize>| {
        let point = |axis: usize| {
            let own = [&[index[0]][..], &index[2..], &[sizes.len() - 1 - axis]].concat();
            places[place(&grid.shape, &own)]
        };
        let taps: Option<Vec<_>> =
            (0..sizes.len()).map(|axis| around(ask, point(axis), sizes[axis])).collect();
        let Some(taps) = taps else { return (0.0, f64::INFINITY) };
        let counts: Vec<usize> = taps.iter().map(Vec::len).collect();
        let terms = indices(&counts).map(|of| {
            let taps: Vec<_> = of.iter().zip(&taps).map(|(at, taps)| taps[*at]).collect();
            let weight: f64 = taps.iter().map(|(_, weight)| weight).product();
            let at: Option<Vec<usize>> = taps.iter().map(|(at, _)| *at).collect();
            at.map_or(0.0, |at| weight * all[place(&x.shape, &[&index[..2], &at].concat())])
        });
        (terms.sum(), 4.0 * off(x.ty, &all))
    };
    let values: Vec<_> = indices(&shape).map(value).collect();
    Some(vec![Answer::near(x.ty, shape, 1.0, values)])
}

fn resize(d: &mut Draw) -> Option<usize> {
    if d.opset() < 11 {
        return None;
    }
    let x = d.operand(&[Float, Float, Double], 1..4)?;
    let rank = d.rank(x);
    let sizes: Option<Vec<usize>> = (0..rank).map(|axis| d.sized(x, axis)).collect();
    let sizes = sizes.filter(|sizes| !sizes.contains(&0))?;
    let mode = d.random.of(&["nearest", "linear", "cubic"]);
    let mut attributes: Attributed = vec![("mode", Text(mode))];
    let ways =
        ["half_pixel", "asymmetric", "pytorch_half_pixel", "align_corners", "half_pixel_symmetric"];
    let count = if d.opset() < 19 { 4 } else { 5 };
    if d.random.one_in(2) {
        attributes.push(("coordinate_transformation_mode", Text(d.random.of(&ways[..count]))));
    }
    let nearest = ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"];
    if mode == "nearest" && d.random.one_in(2) {
        attributes.push(("nearest_mode", Text(d.random.of(&nearest))));
    }
    if mode == "cubic" && d.random.one_in(2) {
        attributes.push(("cubic_coeff_a", F(d.random.of(&[-0.5, -0.75]))));
        attributes.push(("exclude_outside", Int(d.random.below(2) as i64)));
    }
    let empty = (d.opset() < 13).then(|| d.constant(Val::new(Float, vec![0], vec![])));
    let inputs = if d.random.one_in(2) {
        let scales: Vec<f32> =
            (0..rank).map(|_| d.random.of(&[1.0, 0.5, 2.0, 1.5, 0.6, 3.0])).collect();
        let scales = Val::new(
            Float,
            vec![rank],
            scales.iter().map(|scale| u64::from(scale.to_bits())).collect(),
        );
        let scales = d.constant(scales);
        vec![Some(x), empty, Some(scales)]
    } else {
        let to: Vec<i64> = sizes.iter().map(|_| 1 + d.random.below(6) as i64).collect();
        let to = d.ints(&to);
        vec![Some(x), empty, empty, Some(to)]
    };
    Some(d.node(&inputs, 1, attributes)?[0])
}

/// The elements along an axis that one of the output is made of.
fn mixed(ask: &Ask, at: usize, size: usize, made: usize, scale: f64) -> Option<Vec<(usize, f64)>> {
    let (out, own, place) = (made as f64, size as f64, at as f64);
    let is_whole = (scale * own - out).abs() < 1e-9;
    let x = match ask.text("coordinate_transformation_mode", "half_pixel") {
        "asymmetric" => place / scale,
        "pytorch_half_pixel" if made == 1 => 0.0,
        "align_corners" if made == 1 => 0.0,
        "align_corners" if !is_whole => return None,
        "align_corners" => place * (own - 1.0) / (out - 1.0),
        "half_pixel_symmetric" => {
            own / 2.0 * (1.0 - out / (scale * own)) + (place + 0.5) / scale - 0.5
        }
        _ => (place + 0.5) / scale - 0.5,
    };
    let within = |place: f64| place.clamp(0.0, own - 1.0) as usize;
    let rest = x - x.floor();
    let near = |b: f64| (rest - b).abs() < 1e-4;
    // Where a scale is no power of two, the last bit decides.
    let is_exact = scale.log2().fract() == 0.0 && is_whole;
    match ask.text("mode", "nearest") {
        "linear" => Some(vec![(within(x.floor()), 1.0 - rest), (within(x.floor() + 1.0), rest)]),
        "cubic" => {
            let a = ask.float("cubic_coeff_a", -0.75);
            let is_inside = |place: &f64| (0.0..own).contains(place);
            let places = (-1..3).map(|step| x.floor() + f64::from(step));
            let places: Vec<f64> = match ask.int("exclude_outside", 0) {
                1 => places.filter(is_inside).collect(),
                _ => places.collect(),
            };
            let total: f64 = places.iter().map(|place| cubic(x - place, a)).sum();
            (total.abs() > 1e-3).then(|| {
                places.iter().map(|place| (within(*place), cubic(x - place, a) / total)).collect()
            })
        }
        _ => {
            let kind = ask.text("nearest_mode", "round_prefer_floor");
            let is_tie = if kind.starts_with("round") { near(0.5) } else { near(0.0) || near(1.0) };
            if is_tie && !is_exact {
                return None;
            }
            let place = match kind {
                "floor" => x.floor(),
                "ceil" => x.ceil(),
                "round_prefer_ceil" => (x + 0.5).floor(),
                _ => (x - 0.5).ceil(),
            };
            Some(vec![(within(place), 1.0)])
        }
    }
}

fn resized(ask: &Ask) -> Option<Vec<Answer>> {
    let x = ask.input(0)?;
    let all = tame(x)?;
    let (shape, scales): (Vec<usize>, Vec<f64>) = match ask.input(3) {
        Some(sizes) => {
            let sizes: Vec<usize> = sizes.i64s()?.iter().map(|size| *size as usize).collect();
            let scales = sizes.iter().zip(&x.shape).map(|(to, from)| *to as f64 / *from as f64);
            (sizes.clone(), scales.collect())
        }
        None => {
            let scales = numbers(ask.input(2)?);
            let size = |(scale, size): (&f64, &usize)| {
                let made = (*size as f64 * scale + 1e-6).floor() as usize;
                (made > 0).then_some(made)
            };
            let shape: Option<Vec<usize>> = scales.iter().zip(&x.shape).map(size).collect();
            (shape?, scales)
        }
    };
    let value = |index: Vec<usize>| {
        let taps: Option<Vec<_>> = (0..shape.len())
            .map(|axis| mixed(ask, index[axis], x.shape[axis], shape[axis], scales[axis]))
            .collect();
        let Some(taps) = taps else { return (0.0, f64::INFINITY) };
        let counts: Vec<usize> = taps.iter().map(Vec::len).collect();
        let term = |of: Vec<usize>| {
            let taps: Vec<_> = of.iter().zip(&taps).map(|(at, taps)| taps[*at]).collect();
            let at: Vec<usize> = taps.iter().map(|(at, _)| *at).collect();
            let weight: f64 = taps.iter().map(|(_, weight)| weight).product();
            weight * all[place(&x.shape, &at)]
        };
        (indices(&counts).map(term).sum(), 4.0 * off(x.ty, &all))
    };
    let values: Vec<_> = indices(&shape).map(value).collect();
    Some(vec![Answer::near(x.ty, shape, 1.0, values)])
}

fn boxes(d: &mut Draw) -> Option<usize> {
    let count = 1 + d.random.below(6);
    let boxes = d.shaped(&[Float], &[2, count, 4])?;
    let batch = d.sized(boxes, 0);
    let classes = 1 + d.random.below(3);
    let scores = d.weights(Float, &[batch, Some(classes), Some(count)], Data::Usual);
    let most = d.random.below(5) as i64;
    let most = d.ints(&[most]);
    let number = |d: &mut Draw, numbers: &[f32]| {
        let code = u64::from(d.random.of(numbers).to_bits());
        d.random.one_in(2).then(|| d.constant(Val::new(Float, vec![1], vec![code])))
    };
    let overlap = number(d, &[0.1, 0.3, 0.5, 0.0]);
    let least = overlap.and_then(|_| number(d, &[0.0, -1.0, 0.5]));
    let mut attributes: Attributed = vec![];
    if d.random.one_in(2) {
        attributes.push(("center_point_box", Int(d.random.below(2) as i64)));
    }
    let inputs = [Some(boxes), Some(scores), Some(most), overlap, least];
    Some(d.node(&inputs, 1, attributes)?[0])
}

/// The ends of a box along its two axes, the lesser first.
fn ends(own: &[f64], is_centred: bool) -> [(f64, f64); 2] {
    let [a, b, c, e] = [own[0], own[1], own[2], own[3]];
    if is_centred {
        [(b - e / 2.0, b + e / 2.0), (a - c / 2.0, a + c / 2.0)]
    } else {
        [(a.min(c), a.max(c)), (b.min(e), b.max(e))]
    }
}

/// What two boxes share of both; `None` where there is nothing, or less.
fn shared(a: &[(f64, f64); 2], b: &[(f64, f64); 2]) -> Option<f64> {
    let area = |own: &[(f64, f64); 2]| own.iter().map(|(low, high)| high - low).product::<f64>();
    let common: f64 =
        a.iter().zip(b).map(|(a, b)| (a.1.min(b.1) - a.0.max(b.0)).max(0.0)).product();
    let is_flat = area(a) <= 1e-6 || area(b) <= 1e-6;
    (!is_flat).then(|| common / (area(a) + area(b) - common))
}

fn chosen(ask: &Ask) -> Option<Vec<Answer>> {
    let (boxes, scores) = (ask.input(0)?, ask.input(1)?);
    let (places, all) = (tame(boxes)?, tame(scores)?);
    let most = ask.input(2)?.i64()?.max(0) as usize;
    let overlap = ask.input(3).map_or(0.0, |val| numbers(val)[0]);
    let least = ask.input(4).map(|val| numbers(val)[0]);
    let is_centred = ask.int("center_point_box", 0) == 1;
    let (classes, count) = (scores.shape[1], scores.shape[2]);
    let corners: Vec<_> = places.chunks(4).map(|own| ends(own, is_centred)).collect();
    // A box whose sizes are negative is none, and what a flat one shares is open.
    if corners.iter().flatten().any(|(low, high)| high - low < 1e-3) {
        return None;
    }
    let mut rows: Vec<i64> = vec![];
    for own in groups(&scores.shape, &[2]) {
        let (batch, class) = (own[0] / count / classes, own[0] / count % classes);
        let mut order: Vec<usize> = (0..count).collect();
        order.sort_by(|a, b| all[own[*b]].total_cmp(&all[own[*a]]).then(a.cmp(b)));
        let mut taken: Vec<usize> = vec![];
        for at in order {
            let score = all[own[at]];
            if taken.len() == most || least.is_some_and(|least| score <= least) {
                break;
            }
            let mut is_free = true;
            for other in &taken {
                let part = shared(&corners[batch * count + at], &corners[batch * count + other])?;
                if (part - overlap).abs() < 1e-5 && part > 0.0 {
                    return None;
                }
                is_free &= part <= overlap;
            }
            if is_free {
                taken.push(at);
                rows.extend([batch as i64, class as i64, at as i64]);
            }
        }
    }
    let codes = rows.iter().map(|i| i128::from(*i)).collect::<Vec<_>>();
    only(Val::of_ints(Int64, vec![rows.len() / 3, 3], codes))
}

fn transform(d: &mut Draw) -> Option<usize> {
    let parts = 1 + d.random.below(2);
    let rank = 1 + d.random.below(3);
    let mut sizes = d.sizes(rank);
    let (inverse, onesided) = (d.random.below(2) as i64, d.random.below(2) as i64);
    let parts = match (inverse, onesided) {
        (0, 1) => 1,
        (1, 1) => 2,
        _ => parts,
    };
    sizes.push(parts);
    let x = d.shaped(&[Float, Float, Double], &sizes)?;
    let axis = d.random.below(rank);
    let mut attributes: Attributed = vec![("inverse", Int(inverse)), ("onesided", Int(onesided))];
    let is_open = d.sized(x, axis).is_none();
    let length = 1 + d.random.below(6) as i64;
    let length = (!is_open && d.random.one_in(2)).then(|| d.scalar(length));
    if is_open && inverse + onesided == 2 {
        return None;
    }
    let named = axis as i64 - d.random.of(&[0, rank as i64 + 1]);
    let mut inputs = vec![Some(x), length];
    if d.opset() < 20 {
        attributes.push(("axis", Int(named)));
    } else if axis + 1 != rank || d.random.one_in(2) {
        let named = d.scalar(named);
        inputs.push(Some(named));
    }
    Some(d.node(&inputs, 1, attributes)?[0])
}

fn transformed(ask: &Ask) -> Option<Vec<Answer>> {
    let x = ask.input(0)?;
    let all = tame(x)?;
    let rank = x.shape.len();
    let named = match ask.input(2) {
        Some(axis) => axis.i64()?,
        None => ask.int("axis", if ask.opset < 20 { 1 } else { -2 }),
    };
    let axis = axis_of(named, rank).filter(|axis| axis + 1 < rank)?;
    let (inverse, onesided) = (ask.int("inverse", 0) == 1, ask.int("onesided", 0) == 1);
    let size = x.shape[axis];
    let length = match ask.input(1) {
        Some(length) => length.i64()? as usize,
        None if inverse && onesided => (2 * size).checked_sub(2)?,
        None => size,
    };
    if length == 0 {
        return None;
    }
    let is_real = inverse && onesided;
    let made = if onesided && !inverse { length / 2 + 1 } else { length };
    let mut shape = x.shape.clone();
    (shape[axis], shape[rank - 1]) = (made, if is_real { 1 } else { 2 });
    let part = |index: &[usize], place_: usize, part: usize| {
        let mut own = index.to_vec();
        (own[axis], own[rank - 1]) = (place_, part);
        let is_there = place_ < size && part < x.shape[rank - 1];
        if is_there { all[place(&x.shape, &own)] } else { 0.0 }
    };
    // Of half a spectrum, the other half is conjugate.
    let number = |index: &[usize], k: usize| {
        if is_real && k > length / 2 {
            (part(index, length - k, 0), -part(index, length - k, 1))
        } else {
            (part(index, k, 0), part(index, k, 1))
        }
    };
    let sign = if inverse { 1.0 } else { -1.0 };
    let value = |index: Vec<usize>| {
        let terms = (0..length).map(|k| {
            let turn = (k * index[axis] % length) as f64 / length as f64;
            let (sin, cos) = (sign * 2.0 * PI * turn).sin_cos();
            let (re, im) = number(&index, k);
            if index[rank - 1] == 0 { re * cos - im * sin } else { re * sin + im * cos }
        });
        let total: f64 = terms.sum::<f64>() / if inverse { length as f64 } else { 1.0 };
        let ty = if inverse { x.ty } else { Double };
        (total, length as f64 * off(ty, &all))
    };
    let values: Vec<_> = indices(&shape).map(value).collect();
    (volume(&shape) > 0).then(|| vec![Answer::near(x.ty, shape, 1.0, values)])
}
