//! Operators that slide a window: convolutions and pools.

use tract_onnx_cast::ElementType;

use crate::answer::{Answer, Ask, epsilon, finite, largest, numbers, only, sum, wide};
use crate::data::Data;
use crate::draw::{Attributed, Draw};
use crate::graph::Attribute::{Int, Ints, Text};
use crate::products::{requantized, scale};
use crate::table::{Row, row};
use crate::tensor::{Val, indices, place, volume};

use ElementType::*;

pub const ROWS: &[Row] = &[
    row("Conv", conv, convolved),
    row("ConvInteger", conv_integer, convolved),
    row("QLinearConv", quantized, requantized_windows),
    row("ConvTranspose", transposed, spread),
    row("MaxPool", pool, pooled),
    row("AveragePool", pool, pooled),
    row("GlobalAveragePool GlobalMaxPool", global, pooled_whole),
    row("GlobalLpPool", global_lp, pooled_whole),
];

const FLOATS: [ElementType; 4] = [Float, Float, Float, Float16];

/// How a window slides over some axes.
struct Window {
    kernel: Vec<usize>,
    strides: Vec<usize>,
    dilations: Vec<usize>,
    before: Vec<usize>,
    out: Vec<usize>,
}

impl Window {
    fn new(ask: &Ask, sizes: &[usize], kernel: &[usize]) -> Option<Window> {
        let rank = sizes.len();
        let list = |name: &str| match ask.attributes.ints(name) {
            Some(list) => list.iter().map(|i| *i as usize).collect(),
            None => vec![1; rank],
        };
        let (strides, dilations) = (list("strides"), list("dilations"));
        let mut before: Vec<usize> = vec![0; rank];
        let (mut after, mut out) = (before.clone(), before.clone());
        if let Some(pads) = ask.attributes.ints("pads") {
            before = pads[..rank].iter().map(|pad| *pad as usize).collect();
            after = pads[rank..].iter().map(|pad| *pad as usize).collect();
        }
        let auto = ask.text("auto_pad", "NOTSET");
        for axis in 0..rank {
            let reach = (kernel[axis] - 1) * dilations[axis] + 1;
            if auto.starts_with("SAME") {
                out[axis] = sizes[axis].div_ceil(strides[axis]);
                let total = ((out[axis].checked_sub(1)?) * strides[axis] + reach)
                    .saturating_sub(sizes[axis]);
                let small = total / 2;
                before[axis] = if auto == "SAME_UPPER" { small } else { total - small };
                after[axis] = total - before[axis];
                continue;
            }
            let space = (sizes[axis] + before[axis] + after[axis]).checked_sub(reach)?;
            // VALID has a formula of its own, which rounds down.
            let is_ceil = ask.int("ceil_mode", 0) == 1 && auto != "VALID";
            out[axis] =
                1 + if is_ceil { space.div_ceil(strides[axis]) } else { space / strides[axis] };
            // Versions of ONNX do not agree on windows that begin behind the end, and on what one
            // that reaches beyond it counts.
            let is_beyond = (out[axis] - 1) * strides[axis] >= sizes[axis] + before[axis];
            let counts = ask.int("count_include_pad", 0) == 1 && space % strides[axis] != 0;
            if is_ceil && (is_beyond || counts) {
                return None;
            }
        }
        Some(Window { kernel: kernel.to_vec(), strides, dilations, before, out })
    }

    /// Where a window's element lies, if it is no padding.
    fn at(&self, out: &[usize], inner: &[usize], sizes: &[usize]) -> Option<Vec<usize>> {
        let place = |axis: usize| {
            let at = out[axis] * self.strides[axis] + inner[axis] * self.dilations[axis];
            at.checked_sub(self.before[axis]).filter(|at| *at < sizes[axis])
        };
        (0..sizes.len()).map(place).collect()
    }
}

/// A kernel and the attributes of a window over some axes.
fn window(d: &mut Draw, rank: usize, is_pool: bool) -> (Vec<usize>, Attributed) {
    let kernel: Vec<usize> = (0..rank).map(|_| d.random.of(&[1, 2, 2, 3])).collect();
    let list = |list: &[usize]| list.iter().map(|i| *i as i64).collect::<Vec<i64>>();
    let mut attributes: Attributed = vec![];
    if is_pool || d.random.one_in(2) {
        attributes.push(("kernel_shape", Ints(list(&kernel))));
    }
    if d.random.one_in(2) {
        let strides: Vec<usize> = (0..rank).map(|_| d.random.of(&[1, 2, 2, 3])).collect();
        attributes.push(("strides", Ints(list(&strides))));
    }
    let may_dilate = !is_pool || d.op() == "MaxPool" && d.opset() >= 10 || d.opset() >= 19;
    if may_dilate && d.random.one_in(3) {
        let dilations: Vec<usize> = (0..rank).map(|_| 1 + d.random.below(2)).collect();
        attributes.push(("dilations", Ints(list(&dilations))));
    }
    match d.random.below(5) {
        0 => {
            attributes.push(("auto_pad", Text(d.random.of(&["SAME_UPPER", "SAME_LOWER", "VALID"]))))
        }
        // A window that sees nothing but padding is another matter.
        1 | 2 => {
            let pad = |at: usize| {
                d.random.below(kernel[at % rank].min(if is_pool { 3 } else { 4 })) as i64
            };
            attributes.push(("pads", Ints((0..2 * rank).map(pad).collect())));
        }
        _ => {}
    }
    (kernel, attributes)
}

/// Groups, and how many channels of output each has.
fn groups(d: &mut Draw, channels: usize, attributes: &mut Attributed) -> (usize, usize) {
    let divisors: Vec<usize> =
        (1..=channels).filter(|group| channels.is_multiple_of(*group)).collect();
    let group = d.random.maybe(&divisors).unwrap_or(1);
    if group > 1 || d.random.one_in(4) {
        attributes.push(("group", Int(group as i64)));
    }
    (group, 1 + d.random.below(3))
}

fn conv(d: &mut Draw) -> Option<usize> {
    let x = d.operand(&FLOATS, 3..6)?;
    let rank = d.rank(x) - 2;
    let (kernel, mut attributes) = window(d, rank, false);
    let channels = d.sized(x, 1)?;
    let (group, each) = groups(d, channels, &mut attributes);
    let sizes = [&[group * each, channels / group][..], &kernel].concat();
    let sizes: Vec<Option<usize>> = sizes.into_iter().map(Some).collect();
    let weights = d.weights(d.ty(x), &sizes, Data::Small);
    let bias = d.random.one_in(2).then(|| d.weights(d.ty(x), &[Some(group * each)], Data::Small));
    Some(d.node(&[Some(x), Some(weights), bias], 1, attributes)?[0])
}

fn conv_integer(d: &mut Draw) -> Option<usize> {
    let x = d.operand(&[Uint8, Int8], 3..5)?;
    let (kernel, mut attributes) = window(d, d.rank(x) - 2, false);
    let channels = d.sized(x, 1)?;
    let (group, each) = groups(d, channels, &mut attributes);
    let shape = [&[group * each, channels / group][..], &kernel].concat();
    let ty = d.ty(x);
    let weights = d.fixed(ty, &shape, Data::Usual);
    let zero = d.random.one_in(2).then(|| d.fixed(ty, &[], Data::Small));
    let other = zero.and_then(|_| d.random.one_in(2).then(|| d.fixed(ty, &[], Data::Small)));
    Some(d.node(&[Some(x), Some(weights), zero, other], 1, attributes)?[0])
}

fn quantized(d: &mut Draw) -> Option<usize> {
    let x = d.operand(&[Uint8, Int8], 3..5)?;
    let (kernel, mut attributes) = window(d, d.rank(x) - 2, false);
    let channels = d.sized(x, 1)?;
    let (group, each) = groups(d, channels, &mut attributes);
    let (count, ty) = (group * each, d.ty(x));
    let shape = [&[count, channels / group][..], &kernel].concat();
    let (scale_x, zero_x) = (scale(d, None), d.fixed(ty, &[], Data::Small));
    let other = d.random.of(&[Int8, ty]);
    let weights = d.fixed(other, &shape, Data::Usual);
    let each = d.random.one_in(2).then_some(count);
    let (scale_w, zero_w) = (scale(d, each), d.fixed(other, &[], Data::Small));
    let (scale_y, zero_y) = (scale(d, None), d.fixed(ty, &[], Data::Small));
    let inputs = [x, scale_x, zero_x, weights, scale_w, zero_w, scale_y, zero_y];
    let mut inputs: Vec<Option<usize>> = inputs.into_iter().map(Some).collect();
    if d.random.one_in(2) {
        inputs.push(Some(d.fixed(Int32, &[count], Data::Small)));
    }
    Some(d.node(&inputs, 1, attributes)?[0])
}

fn requantized_windows(ask: &Ask) -> Option<Vec<Answer>> {
    let inputs = [0, 3, 2, 5].map(|at| ask.input(at));
    let sums = convolved(&Ask { op: "ConvInteger", inputs: &inputs, ..*ask })?.remove(0).val;
    let scales = [1, 4, 6].map(|at| ask.input(at).map(numbers).unwrap_or_default());
    let bias = ask.input(8).map(numbers);
    let of = |(index, sum): (Vec<usize>, f64)| {
        let own = scales[1][index[1] % scales[1].len()];
        let sum = sum + bias.as_ref().map_or(0.0, |bias| bias[index[1]]);
        (sum, scales[0][0] * own / scales[2][0])
    };
    let all: Vec<_> = indices(&sums.shape).zip(numbers(&sums)).map(of).collect();
    let zero = numbers(ask.input(7)?)[0];
    Some(requantized(ask.input(7)?.ty, sums.shape.clone(), all, zero))
}

fn convolved(ask: &Ask) -> Option<Vec<Answer>> {
    let (x, w) = (ask.input(0)?, ask.input(1)?);
    let is_integer = ask.op == "ConvInteger";
    let zero = |at: usize| ask.input(at).filter(|_| is_integer).map_or(0.0, |val| numbers(val)[0]);
    let (zero_x, zero_w) = (zero(2), zero(3));
    let bias = ask.input(2).filter(|_| !is_integer).map(numbers);
    let (sizes, kernel) = (&x.shape[2..], &w.shape[2..]);
    let window = Window::new(ask, sizes, kernel)?;
    let group = ask.int("group", 1) as usize;
    let (each, own) = (w.shape[0] / group, w.shape[1]);
    if own * group != x.shape[1] {
        return None;
    }
    let (xs, ws) = (numbers(x), numbers(w));
    let shape = [&[x.shape[0], w.shape[0]][..], &window.out].concat();
    let value = |index: Vec<usize>| {
        let mut terms: Vec<f64> = bias.iter().map(|bias| bias[index[1]]).collect();
        for inner in indices(&[&[own], kernel].concat()) {
            let Some(at) = window.at(&index[2..], &inner[1..], sizes) else { continue };
            let channel = index[1] / each * own + inner[0];
            let from = place(&x.shape, &[&[index[0], channel][..], &at].concat());
            let weight = place(&w.shape, &[&[index[1]], &inner[..]].concat());
            terms.push((xs[from] - zero_x) * (ws[weight] - zero_w));
        }
        sum(wide(x.ty), &terms)
    };
    let values: Vec<(f64, f64)> = indices(&shape).map(value).collect();
    if is_integer {
        return only(Val::of_ints(Int32, shape, values.iter().map(|(value, _)| *value as i128)));
    }
    Some(vec![Answer::near(x.ty, shape, 1.0, values)])
}

fn transposed(d: &mut Draw) -> Option<usize> {
    let x = d.operand(&[Float], 3..5)?;
    let rank = d.rank(x) - 2;
    let (kernel, mut attributes) = window(d, rank, false);
    let channels = d.sized(x, 1)?;
    let (group, each) = groups(d, channels, &mut attributes);
    let strides = attributes.iter().find(|(name, _)| *name == "strides");
    if let Some((_, Ints(strides))) = strides
        && d.random.one_in(3)
    {
        let strides = strides.clone();
        let more = strides.iter().map(|stride| d.random.below(*stride as usize) as i64);
        let more = Ints(more.collect());
        attributes.push(("output_padding", more));
    }
    let shape = [&[channels, each][..], &kernel].concat();
    let weights = d.fixed(d.ty(x), &shape, Data::Small);
    let bias = d.random.one_in(2).then(|| d.fixed(d.ty(x), &[group * each], Data::Small));
    Some(d.node(&[Some(x), Some(weights), bias], 1, attributes)?[0])
}

/// The output of a transposed convolution, each element's terms gathered from where a convolution
/// would have taken it.
fn spread(ask: &Ask) -> Option<Vec<Answer>> {
    let (x, w) = (ask.input(0)?, ask.input(1)?);
    let rank = x.shape.len() - 2;
    let list = |name: &str, default: usize| match ask.attributes.ints(name) {
        Some(list) => list.iter().map(|i| *i as usize).collect(),
        None => vec![default; rank],
    };
    let (strides, dilations, more) =
        (list("strides", 1), list("dilations", 1), list("output_padding", 0));
    let pads: Vec<usize> = match ask.attributes.ints("pads") {
        Some(pads) => pads.iter().map(|pad| *pad as usize).collect(),
        None => vec![0; 2 * rank],
    };
    let (group, each) = (ask.int("group", 1) as usize, w.shape[1]);
    let own = x.shape[1] / group;
    let auto = ask.text("auto_pad", "NOTSET");
    let (mut out, mut before) = (vec![], vec![]);
    for axis in 0..rank {
        let whole = x.shape[axis + 2].checked_sub(1)? * strides[axis]
            + more[axis]
            + (w.shape[axis + 2] - 1) * dilations[axis]
            + 1;
        if auto.starts_with("SAME") {
            // Where the kernel is smaller than the stride, nothing is cut off, and nothing added.
            let total = whole.saturating_sub(x.shape[axis + 2] * strides[axis]);
            out.push(whole - total);
            before.push(if auto == "SAME_UPPER" { total / 2 } else { total - total / 2 });
        } else {
            out.push(whole.checked_sub(pads[axis] + pads[axis + rank]).filter(|size| *size > 0)?);
            before.push(pads[axis]);
        }
    }
    let (xs, ws, bias) = (numbers(x), numbers(w), ask.input(2).map(numbers));
    let shape = [&[x.shape[0], group * each][..], &out].concat();
    let mut terms = vec![vec![]; volume(&shape)];
    for from in indices(&x.shape) {
        for inner in indices(&w.shape[1..]) {
            let at = |axis: usize| {
                let at = from[axis + 2] * strides[axis] + inner[axis + 1] * dilations[axis];
                at.checked_sub(before[axis]).filter(|at| *at < out[axis])
            };
            let Some(at) = (0..rank).map(at).collect::<Option<Vec<_>>>() else { continue };
            let to = [&[from[0], from[1] / own * each + inner[0]][..], &at].concat();
            let weight = place(&w.shape, &[&[from[1]], &inner[..]].concat());
            terms[place(&shape, &to)].push(xs[place(&x.shape, &from)] * ws[weight]);
        }
    }
    for (index, terms) in indices(&shape).zip(&mut terms) {
        terms.extend(bias.iter().map(|bias| bias[index[1]]));
    }
    let values: Vec<_> = terms.iter().map(|terms| sum(wide(x.ty), terms)).collect();
    Some(vec![Answer::near(x.ty, shape, 1.0, values)])
}

fn pool(d: &mut Draw) -> Option<usize> {
    let is_max = d.op() == "MaxPool";
    let x = if is_max {
        d.operand(&[Float, Float, Float16, Uint8, Int8], 3..6)
    } else {
        d.operand(&FLOATS, 3..6)
    }?;
    let (_, mut attributes) = window(d, d.rank(x) - 2, true);
    if d.opset() >= 10 && d.random.one_in(3) {
        attributes.push(("ceil_mode", Int(1)));
    }
    if !is_max && d.random.one_in(3) {
        attributes.push(("count_include_pad", Int(d.random.below(2) as i64)));
    }
    let has_places = is_max && d.opset() >= 8 && d.random.one_in(3);
    if has_places && d.random.one_in(3) {
        attributes.push(("storage_order", Int(1)));
    }
    Some(d.node(&[Some(x)], 1 + usize::from(has_places), attributes)?[0])
}

fn pooled(ask: &Ask) -> Option<Vec<Answer>> {
    let x = ask.input(0)?;
    let sizes = &x.shape[2..];
    let kernel: Vec<usize> =
        ask.attributes.ints("kernel_shape")?.iter().map(|i| *i as usize).collect();
    let window = Window::new(ask, sizes, &kernel)?;
    let all = numbers(x);
    let (mut values, mut places) = (vec![], vec![]);
    let shape = [&x.shape[..2], &window.out].concat();
    for index in indices(&shape) {
        let at = |inner: Vec<usize>| {
            let at = window.at(&index[2..], &inner, sizes)?;
            Some(place(&x.shape, &[&index[..2], &at].concat()))
        };
        let own: Vec<usize> = indices(&window.kernel).filter_map(at).collect();
        let terms: Vec<f64> = own.iter().map(|at| all[*at]).collect();
        // What becomes of NaN is open, of the least number, and of nothing but padding.
        let first =
            own.iter().copied().reduce(|best, at| if all[at] > all[best] { at } else { best })?;
        let is_least = ask.op == "MaxPool" && !x.is_int() && all[first] <= -largest(x.ty);
        let is_open = is_least || terms.iter().any(|x| x.is_nan());
        let count = if ask.int("count_include_pad", 0) == 1 { volume(&kernel) } else { own.len() };
        let (total, slack) = sum(wide(x.ty), &terms);
        places.push(first as i128);
        values.push(match ask.op {
            _ if is_open => (f64::NAN, f64::INFINITY),
            "MaxPool" => (all[first], 0.0),
            _ => (total / count as f64, slack),
        });
    }
    let places = Val::of_ints(
        Int64,
        shape.clone(),
        places.into_iter().map(|at| stored(ask, x, at as usize)),
    );
    let units = if ask.op == "MaxPool" { 0.0 } else { 1.0 };
    let has_nan = values.iter().any(|(value, _)| value.is_nan());
    (!has_nan || ask.outputs == 1)
        .then(|| vec![Answer::near(x.ty, shape, units, values), Answer::exact(places)])
}

/// A place in the order that an attribute names: in the other one, an image's columns come first.
fn stored(ask: &Ask, x: &Val, at: usize) -> i128 {
    if ask.int("storage_order", 0) == 0 {
        return at as i128;
    }
    let sizes = &x.shape[2..];
    let inner = volume(sizes);
    let own = indices(sizes).nth(at % inner).expect("within");
    let turned = own.iter().zip(sizes).rev().fold(0, |place, (at, size)| place * size + at);
    (at / inner * inner + turned) as i128
}

fn global(d: &mut Draw) -> Option<usize> {
    let x = d.operand(&FLOATS, 3..6)?;
    d.make(&[x], vec![])
}

fn global_lp(d: &mut Draw) -> Option<usize> {
    let x = d.operand(&FLOATS, 3..6)?;
    let p = d.random.of(&[1, 2, 3]);
    d.make(&[x], vec![("p", Int(p))])
}

fn pooled_whole(ask: &Ask) -> Option<Vec<Answer>> {
    let x = ask.input(0)?;
    let axes: Vec<usize> = (2..x.shape.len()).collect();
    let all = numbers(x);
    let p = ask.int("p", 2) as i32;
    let value = |group: Vec<usize>| {
        let own: Vec<f64> = group.iter().map(|at| all[*at]).collect();
        let (total, slack) = match ask.op {
            "GlobalLpPool" => {
                sum(wide(x.ty), &own.iter().map(|x| x.abs().powi(p)).collect::<Vec<_>>())
            }
            _ => sum(wide(x.ty), &own),
        };
        let has_nan = own.iter().any(|x| x.is_nan());
        let root = total.powf(1.0 / f64::from(p));
        match ask.op {
            "GlobalAveragePool" => (total / own.len() as f64, slack),
            "GlobalMaxPool" if has_nan => (f64::NAN, f64::INFINITY),
            "GlobalMaxPool" => (own.into_iter().fold(f64::NEG_INFINITY, f64::max), 0.0),
            _ if slack == f64::INFINITY || total > 0.0 && total < 1e-12 => (root, f64::INFINITY),
            // The exponent is rounded as well.
            _ => {
                let off = epsilon(wide(x.ty)) * root * (4.0 + total.ln().abs());
                (root, finite(slack / total * root + off))
            }
        }
    };
    let shape = crate::reduce::without(&x.shape, &axes, true);
    let values: Vec<_> = crate::reduce::groups(&x.shape, &axes).into_iter().map(value).collect();
    Some(vec![Answer::near(x.ty, shape, 1.0, values)])
}
