//! Normalisations.

use tract_onnx_cast::ElementType;

use crate::answer::{Answer, Ask, epsilon, finite, numbers, wide};
use crate::data::{Data, FLOATS};
use crate::draw::{Attributed, Draw};
use crate::graph::Attribute::{Float as F, Int, Ints};
use crate::reduce::groups;
use crate::table::{Row, row};
use crate::tensor::{axis_of, indices, place};

use ElementType::{Double, Float, Float16};

pub const ROWS: &[Row] = &[
    row("BatchNormalization", batch, batch_normalised),
    row("InstanceNormalization", instance, by_group),
    row("GroupNormalization", group, by_group),
    row("LayerNormalization", layer, by_axes),
    row("RMSNormalization SimplifiedLayerNormalization", layer, by_axes),
    row("com.microsoft.SkipLayerNormalization", skip, by_axes),
    row("com.microsoft.SkipSimplifiedLayerNormalization", skip, by_axes),
    row("LpNormalization", lp, by_norm),
    row("MeanVarianceNormalization", mean_variance, standardised),
    row("LRN", lrn, normalised),
];

fn eps(d: &mut Draw, attributes: &mut Attributed) {
    if d.random.one_in(2) {
        attributes.push(("epsilon", F(d.random.of(&[1e-5, 1e-3, 0.1]))));
    }
}

fn batch(d: &mut Draw) -> Option<usize> {
    let x = d.operand(&FLOATS, 2..6)?;
    let channels = d.graph.values[x].fixed_sizes()?[1].map(|size| [size])?;
    let mut attributes = vec![];
    eps(d, &mut attributes);
    let ty = d.ty(x);
    let all = [Data::Small, Data::Small, Data::Small, Data::Positive]
        .map(|data| d.fixed(ty, &channels, data));
    d.make(&[x, all[0], all[1], all[2], all[3]], attributes)
}

fn batch_normalised(ask: &Ask) -> Option<Vec<Answer>> {
    let x = ask.input(0)?;
    let all: Vec<Vec<f64>> = ask.inputs.iter().copied().flatten().map(numbers).collect();
    let off = epsilon(wide(x.ty));
    let value = |(index, x): (Vec<usize>, &f64)| {
        let [scale, bias, mean, variance] = [1, 2, 3, 4].map(|at| all[at][index[1]]);
        let root = (variance + ask.float("epsilon", 1e-5)).sqrt();
        let value = (x - mean) / root * scale + bias;
        // Scale and bias may be joined before.
        let sizes = (x.abs() + mean.abs()) / root * scale.abs() + bias.abs();
        (value, finite(12.0 * off * sizes))
    };
    let values: Vec<_> = indices(&x.shape).zip(&all[0]).map(value).collect();
    Some(vec![Answer::near(x.ty, x.shape.clone(), 1.0, values)])
}

fn instance(d: &mut Draw) -> Option<usize> {
    let x = d.operand(&[Float, Float16, Double], 3..6)?;
    let channels = [d.sized(x, 1)?];
    let mut attributes = vec![];
    eps(d, &mut attributes);
    let [scale, bias] = [0, 1].map(|_| d.fixed(d.ty(x), &channels, Data::Small));
    d.make(&[x, scale, bias], attributes)
}

fn group(d: &mut Draw) -> Option<usize> {
    let x = d.operand(&[Float, Float, Float16], 3..5)?;
    let channels = d.sized(x, 1)?;
    let divisors: Vec<usize> =
        (1..=channels).filter(|group| channels.is_multiple_of(*group)).collect();
    let groups = d.random.maybe(&divisors)?;
    let mut attributes = vec![("num_groups", Int(groups as i64))];
    eps(d, &mut attributes);
    let count = if d.opset() < 21 { groups } else { channels };
    let [scale, bias] = [0, 1].map(|_| d.fixed(d.ty(x), &[count], Data::Small));
    d.make(&[x, scale, bias], attributes)
}

/// A number of a group with mean and deviation taken out, and by how much it may be off.
fn standard(own: &[f64], at: f64, epsilon_: f64, is_centred: bool, off: f64) -> (f64, f64) {
    let count = own.len() as f64;
    let mean = if is_centred { own.iter().sum::<f64>() / count } else { 0.0 };
    let variance = own.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count;
    let root = (variance + epsilon_).sqrt();
    let size = own.iter().map(|x| x.abs()).fold(0.0, f64::max);
    let value = (at - mean) / root;
    // Squares beyond FLOAT are open.
    if size > 1e15 || own.iter().any(|x| !x.is_finite()) {
        return (value, f64::INFINITY);
    }
    (value, (count + 8.0) * off * (1.0 + value.abs()) * (1.0 + size / root))
}

fn by_group(ask: &Ask) -> Option<Vec<Answer>> {
    let (x, scale, bias) = (ask.input(0)?, numbers(ask.input(1)?), numbers(ask.input(2)?));
    let channels = x.shape[1];
    let groups = ask.int("num_groups", channels as i64) as usize;
    let each = channels.checked_div(groups)?;
    if scale.len() != channels && scale.len() != groups {
        return None;
    }
    let all = numbers(x);
    let mut own = vec![vec![]; x.shape[0] * groups];
    let of = |index: &[usize]| index[0] * groups + index[1] / each;
    for (index, x) in indices(&x.shape).zip(&all) {
        own[of(&index)].push(*x);
    }
    let value = |(index, at): (Vec<usize>, &f64)| {
        let own = &own[of(&index)];
        let (value, slack) =
            standard(own, *at, ask.float("epsilon", 1e-5), true, epsilon(wide(x.ty)));
        let place = if scale.len() == channels { index[1] } else { index[1] / each };
        let sizes = (value * scale[place]).abs() + bias[place].abs();
        (
            value * scale[place] + bias[place],
            slack * scale[place].abs().max(1e-9) + 4.0 * epsilon(wide(x.ty)) * finite(sizes),
        )
    };
    let values: Vec<_> = indices(&x.shape).zip(&all).map(value).collect();
    Some(vec![Answer::near(x.ty, x.shape.clone(), 1.0, values)])
}

fn layer(d: &mut Draw) -> Option<usize> {
    let x = d.operand(&[Float, Float, Float16], 1..5)?;
    let rank = d.rank(x);
    let axis = d.random.below(rank);
    let sizes: Vec<usize> = (axis..rank).map(|axis| d.sized(x, axis)).collect::<Option<_>>()?;
    let mut attributes = vec![("axis", Int(axis as i64 - d.random.of(&[0, rank as i64])))];
    eps(d, &mut attributes);
    let ty = d.ty(x);
    let scale = d.fixed(ty, &sizes, Data::Small);
    let has_bias = d.op() == "LayerNormalization" && d.random.one_in(2);
    let bias = has_bias.then(|| d.fixed(ty, &sizes, Data::Small));
    Some(d.node(&[Some(x), Some(scale), bias], 1, attributes)?[0])
}

fn skip(d: &mut Draw) -> Option<usize> {
    let x = d.operand(&[Float, Float, Float16], 3..4)?;
    let last = [d.sized(x, 2)?];
    let ty = d.ty(x);
    let skip = d.like(x, ty, Data::Small);
    let mut attributes = vec![];
    eps(d, &mut attributes);
    let gamma = d.fixed(ty, &last, Data::Small);
    let is_plain = d.op().contains("Simplified");
    let beta = (!is_plain && d.random.one_in(2)).then(|| d.fixed(ty, &last, Data::Small));
    Some(d.node(&[Some(x), Some(skip), Some(gamma), beta], 1, attributes)?[0])
}

fn by_axes(ask: &Ask) -> Option<Vec<Answer>> {
    let x = ask.input(0)?;
    let rank = x.shape.len();
    let is_skip = ask.op.contains("Skip");
    let (scale, bias) = (2 - usize::from(!is_skip), 3 - usize::from(!is_skip));
    let (scale, bias) = (numbers(ask.input(scale)?), ask.input(bias).map(numbers));
    let default = if is_skip { 1e-12 } else { 1e-5 };
    let axes: Vec<usize> = (ask.axis(-1, rank)?..rank).collect();
    let mut all = numbers(x);
    if is_skip {
        let skip = ask.input(1)?;
        if skip.shape != x.shape {
            return None;
        }
        let rounded_sum = |(x, y): (&f64, f64)| x + y;
        all = all.iter().zip(numbers(skip)).map(rounded_sum).collect();
    }
    let is_centred = ask.op.contains("LayerNormalization") && !ask.op.contains("Simplified");
    let off = epsilon(wide(x.ty));
    let mut values = vec![(0.0, 0.0); all.len()];
    for group in groups(&x.shape, &axes) {
        if scale.len() != group.len() || bias.as_ref().is_some_and(|bias| bias.len() != group.len())
        {
            return None;
        }
        let own: Vec<f64> = group.iter().map(|at| all[*at]).collect();
        for (place, at) in group.iter().enumerate() {
            let (value, slack) =
                standard(&own, all[*at], ask.float("epsilon", default), is_centred, off);
            let bias = bias.as_ref().map_or(0.0, |bias| bias[place]);
            let scaled = value * scale[place];
            let sizes = finite(scaled.abs() + bias.abs());
            // FLOAT16 is rounded before it is scaled.
            let before = if x.ty == Float16 {
                crate::answer::unit(x.ty, value) * scale[place].abs()
            } else {
                0.0
            };
            values[*at] = (
                scaled + bias,
                slack * scale[place].abs().max(1e-9) + 4.0 * off * sizes + finite(2.0 * before),
            );
        }
    }
    let units = if x.ty == Float16 { 2.0 } else { 1.0 };
    Some(vec![Answer::near(x.ty, x.shape.clone(), units, values)])
}

fn lp(d: &mut Draw) -> Option<usize> {
    let x = d.operand(&FLOATS, 1..5)?;
    let axis = d.axis(d.rank(x));
    let mut attributes: Attributed = vec![("axis", Int(axis))];
    if d.random.one_in(2) {
        attributes.push(("p", Int(1 + d.random.below(2) as i64)));
    }
    d.make(&[x], attributes)
}

fn by_norm(ask: &Ask) -> Option<Vec<Answer>> {
    let x = ask.input(0)?;
    let axis = ask.axis(-1, x.shape.len())?;
    let all = numbers(x);
    let p = ask.int("p", 2) as i32;
    let mut values = vec![(0.0, 0.0); all.len()];
    for group in groups(&x.shape, &[axis]) {
        let total: f64 = group.iter().map(|at| all[*at].abs().powi(p)).sum();
        let norm = total.powf(1.0 / f64::from(p));
        // 0 by 0, and what overflows or vanishes on the way, is open.
        let is_open = !(1e-6..1e15).contains(&norm);
        for at in &group {
            let off = (group.len() as f64 + 6.0) * epsilon(wide(x.ty)) * (all[*at] / norm).abs();
            values[*at] = (all[*at] / norm, if is_open { f64::INFINITY } else { finite(off) });
        }
    }
    Some(vec![Answer::near(x.ty, x.shape.clone(), 1.0, values)])
}

fn mean_variance(d: &mut Draw) -> Option<usize> {
    let x = d.operand(&[Float, Float, Float16], 4..5)?;
    if d.random.one_in(3) {
        return d.make(&[x], vec![]);
    }
    let axes: Vec<i64> = (0..4).filter(|_| d.random.one_in(2)).collect();
    if axes.is_empty() {
        return None;
    }
    d.make(&[x], vec![("axes", Ints(axes))])
}

fn standardised(ask: &Ask) -> Option<Vec<Answer>> {
    let x = ask.input(0)?;
    let axes = ask.attributes.ints("axes").unwrap_or(&[0, 2, 3]);
    let axes: Vec<usize> = axes.iter().map(|axis| axis_of(*axis, 4)).collect::<Option<_>>()?;
    let all = numbers(x);
    let mut values = vec![(0.0, 0.0); all.len()];
    for group in groups(&x.shape, &axes) {
        let own: Vec<f64> = group.iter().map(|at| all[*at]).collect();
        let count = own.len() as f64;
        let mean = own.iter().sum::<f64>() / count;
        let squares = own.iter().map(|x| x * x).sum::<f64>() / count;
        let deviation = (own.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count).sqrt();
        // ONNX takes the difference of two squares, which cancels.
        let is_usual = (1e-8..1e15).contains(&(deviation * deviation)) && squares < 1e15;
        let is_open = !is_usual || deviation * deviation < 0.01 * squares;
        for at in &group {
            let value = (all[*at] - mean) / (deviation + 1e-9);
            let off = (count + 8.0) * 400.0 * epsilon(wide(x.ty)) * (1.0 + value.abs());
            values[*at] = (value, if is_open { f64::INFINITY } else { finite(off) });
        }
    }
    Some(vec![Answer::near(x.ty, x.shape.clone(), 2.0, values)])
}

fn lrn(d: &mut Draw) -> Option<usize> {
    let x = d.operand(&[Float, Float, Float, Float16], 3..5)?;
    let mut attributes: Attributed = vec![("size", Int(1 + d.random.below(4) as i64))];
    for (name, numbers) in
        [("alpha", [0.0001, 0.5, 1.0]), ("beta", [0.75, 0.5, 1.0]), ("bias", [1.0, 2.0, 0.5])]
    {
        if d.random.one_in(2) {
            attributes.push((name, F(d.random.of(&numbers))));
        }
    }
    d.make(&[x], attributes)
}

fn normalised(ask: &Ask) -> Option<Vec<Answer>> {
    let x = ask.input(0)?;
    let size = ask.int("size", 1);
    let (alpha, beta, bias) =
        (ask.float("alpha", 0.0001), ask.float("beta", 0.75), ask.float("bias", 1.0));
    let all = numbers(x);
    // Powers of what is beyond the type on the way are open.
    if all.iter().any(|x| !x.is_finite() || x.abs() > 1e4) {
        return None;
    }
    let value = |index: Vec<usize>| {
        let channel = index[1] as i64;
        let near = channel - (size - 1) / 2..=channel + size / 2;
        let squares = near.filter(|c| (0..x.shape[1] as i64).contains(c)).map(|c| {
            let mut own = index.clone();
            own[1] = c as usize;
            all[place(&x.shape, &own)].powi(2)
        });
        let base = bias + alpha / size as f64 * squares.sum::<f64>();
        let value = all[place(&x.shape, &index)] / base.powf(beta);
        (value, (size as f64 + 12.0) * epsilon(wide(x.ty)) * value.abs())
    };
    let values: Vec<_> = indices(&x.shape).map(value).collect();
    Some(vec![Answer::near(x.ty, x.shape.clone(), 1.0, values)])
}
