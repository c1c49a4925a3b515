//! Products of matrices, and of tensors by letters.

use std::collections::BTreeSet;

use tract_onnx_cast::ElementType;

use crate::answer::{Answer, Ask, numbers, only, sum, wide};
use crate::data::{Data, FLOATS};
use crate::draw::{Attributed, Draw};
use crate::graph::Attribute::{Float as F, Int, Text};
use crate::reduce::groups;
use crate::table::{Row, row};
use crate::tensor::{Val, broadcast, indices, place, sources, volume};

use ElementType::{BFloat16, Double, Float, Float16, Int8, Int32, Int64, Uint8};

pub const ROWS: &[Row] = &[
    row("MatMul", matmul, product),
    row("MatMulInteger", integers, integer_product),
    row("QLinearMatMul", quantized, requantized_product),
    row("Gemm", gemm, general),
    row("Einsum", einsum, contracted),
];

/// A shape, and the places of each element's factors.
type Terms = (Vec<usize>, Vec<Vec<(usize, usize)>>);

/// Terms of each element of a product of matrices with broadcast batches.
fn terms(a: &Val, b: &Val) -> Option<Terms> {
    let (mut left, mut right) = (a.shape.clone(), b.shape.clone());
    let (is_row, is_column) = (left.len() == 1, right.len() == 1);
    if is_row {
        left.insert(0, 1);
    }
    if is_column {
        right.push(1);
    }
    let ([batch @ .., rows, inner], [others @ .., depth, columns]) = (&left[..], &right[..]) else {
        return None;
    };
    let whole = broadcast(&[batch, others])?;
    let shape = [&whole[..], &[*rows, *columns]].concat();
    let at = |own: &[usize], index: &[usize]| {
        let skipped = whole.len() - own.len();
        let index = index[skipped..whole.len()].iter().zip(own);
        let index: Vec<usize> = index.map(|(at, size)| if *size == 1 { 0 } else { *at }).collect();
        place(own, &index)
    };
    let cell = |index: Vec<usize>| {
        let [row, column] = [index[whole.len()], index[whole.len() + 1]];
        let (left, right) = (at(batch, &index) * rows + row, at(others, &index) * depth);
        (0..*inner).map(|k| (left * inner + k, (right + k) * columns + column)).collect()
    };
    let cells = indices(&shape).map(cell).collect();
    let mut out = whole.clone();
    out.extend((!is_row).then_some(*rows));
    out.extend((!is_column).then_some(*columns));
    (inner == depth && *inner > 0).then_some((out, cells))
}

fn matmul(d: &mut Draw) -> Option<usize> {
    let x = d.operand(&[&FLOATS[..], &[Int32, Int64]].concat(), 1..5)?;
    let rank = d.rank(x);
    let inner = d.sized(x, rank - 1);
    let columns = d.size();
    let mut sizes = vec![inner, Some(columns)];
    match d.random.below(4) {
        0 => sizes.truncate(1),
        1 if rank > 2 => {
            for axis in (d.random.below(rank - 2)..rank - 2).rev() {
                let own = d.sized(x, axis);
                sizes.insert(0, if d.random.one_in(3) { Some(1) } else { own });
            }
        }
        2 if rank == 2 => sizes.insert(0, Some(2)),
        _ => {}
    }
    let y = d.weights(d.ty(x), &sizes, Data::Small);
    d.make(&[x, y], vec![])
}

fn product(ask: &Ask) -> Option<Vec<Answer>> {
    let (a, b) = (ask.input(0)?, ask.input(1)?);
    let (shape, cells) = terms(a, b)?;
    if a.is_int() {
        let (x, y) = (a.ints(), b.ints());
        let sums = cells.iter().map(|terms| terms.iter().map(|(i, j)| x[*i] * y[*j]).sum());
        return only(Val::of_ints(a.ty, shape, sums.collect::<Vec<i128>>()));
    }
    let (x, y) = (numbers(a), numbers(b));
    let value = |terms: &Vec<(usize, usize)>| {
        sum(wide(a.ty), &terms.iter().map(|(i, j)| x[*i] * y[*j]).collect::<Vec<_>>())
    };
    Some(vec![Answer::near(a.ty, shape, 1.0, cells.iter().map(value).collect::<Vec<_>>())])
}

fn integers(d: &mut Draw) -> Option<usize> {
    let x = d.operand(&[Uint8, Int8], 2..4)?;
    let inner = d.sized(x, d.rank(x) - 1);
    let (columns, ty) = (d.size(), d.random.of(&[Uint8, Int8]));
    let y = d.weights(ty, &[inner, Some(columns)], Data::Usual);
    let zero = |d: &mut Draw, ty| {
        let is_there = d.random.one_in(2);
        is_there.then(|| d.fixed(ty, &[], Data::Small))
    };
    let (a, b) = (zero(d, d.ty(x)), zero(d, ty));
    Some(d.node(&[Some(x), Some(y), a, b], 1, vec![])?[0])
}

/// A scale, which is a power of two now and then.
pub fn scale(d: &mut Draw, count: Option<usize>) -> usize {
    let numbers = [0.5, 0.25, 0.125, 0.037, 0.0071, 1.0];
    let shape: Vec<usize> = count.into_iter().collect();
    let codes = (0..count.unwrap_or(1)).map(|_| d.random.of(&numbers) as f32);
    let codes = codes.map(|scale: f32| u64::from(scale.to_bits())).collect();
    d.constant(Val::new(Float, shape, codes))
}

fn quantized(d: &mut Draw) -> Option<usize> {
    let x = d.operand(&[Uint8, Int8], 2..4)?;
    let inner = d.sized(x, d.rank(x) - 1);
    let (columns, ty) = (d.size(), d.random.of(&[Uint8, Int8]));
    let y = d.weights(ty, &[inner, Some(columns)], Data::Usual);
    let mut inputs = vec![];
    for (val, ty) in [(Some(x), d.ty(x)), (Some(y), ty), (None, d.ty(x))] {
        let scale = scale(d, None);
        let zero = d.fixed(ty, &[], Data::Small);
        inputs.extend(val);
        inputs.extend([scale, zero]);
    }
    d.make(&inputs, vec![])
}

/// Sums of products of codes by what their scales come to, rounded to codes; where the last bit of
/// that decides, both neighbours are right.
pub fn requantized(
    ty: ElementType,
    shape: Vec<usize>,
    sums: impl IntoIterator<Item = (f64, f64)>,
    zero: f64,
) -> Vec<Answer> {
    let (low, high) = if ty == Uint8 { (0.0, 255.0) } else { (-128.0, 127.0) };
    let (mut codes, mut slack) = (vec![], vec![]);
    for (sum, scale) in sums {
        let exact = sum * scale;
        let is_open = ((exact - exact.floor()) - 0.5).abs() < 1e-4 + exact.abs() * 1e-6;
        codes.push((exact.round_ties_even() + zero).clamp(low, high) as i128);
        slack.push(if is_open { 1.0 } else { 0.0 });
    }
    vec![Answer { slack: Some(slack), val: Val::of_ints(ty, shape, codes) }]
}

fn requantized_product(ask: &Ask) -> Option<Vec<Answer>> {
    let number = |at: usize| Some(numbers(ask.input(at)?)[0]);
    let inputs = [0, 3, 2, 5].map(|at| ask.input(at));
    let sums = integer_product(&Ask { inputs: &inputs, ..*ask })?.remove(0).val;
    let scale = number(1)? * number(4)? / number(6)?;
    let all = numbers(&sums).into_iter().map(|sum| (sum, scale));
    Some(requantized(ask.input(7)?.ty, sums.shape.clone(), all, number(7)?))
}

fn integer_product(ask: &Ask) -> Option<Vec<Answer>> {
    let shifted = |at: usize| {
        let (val, zero) = (ask.input(at)?, ask.input(at + 2));
        let zero = zero.map_or(0, |zero| zero.ints()[0]);
        Some(Val::of_ints(Int32, val.shape.clone(), val.ints().into_iter().map(|i| i - zero)))
    };
    let (a, b) = (shifted(0)?, shifted(1)?);
    product(&Ask { inputs: &[Some(&a), Some(&b)], ..*ask })
}

fn gemm(d: &mut Draw) -> Option<usize> {
    let x = d.operand(&[Float, Float, Double, Float16, BFloat16], 2..3)?;
    let (left, right) = (d.random.one_in(3), d.random.one_in(3));
    let (rows, inner) = if left { (1, 0) } else { (0, 1) };
    let (rows, inner, columns) = (d.sized(x, rows), d.sized(x, inner), Some(d.size()));
    let y =
        d.weights(d.ty(x), &if right { [columns, inner] } else { [inner, columns] }, Data::Small);
    let sizes = [
        vec![],
        vec![columns],
        vec![rows, columns],
        vec![Some(1), columns],
        vec![rows, Some(1)],
        vec![Some(1)],
    ];
    let bias = sizes[d.random.below(sizes.len())].clone();
    let has_bias = d.opset() < 11 || !d.random.one_in(3);
    let bias = has_bias.then(|| d.weights(d.ty(x), &bias, Data::Small));
    let mut attributes: Attributed = vec![];
    for (name, is) in [("transA", left), ("transB", right)] {
        if is || d.random.one_in(3) {
            attributes.push((name, Int(i64::from(is))));
        }
    }
    for name in ["alpha", "beta"] {
        if d.random.one_in(2) {
            attributes.push((name, F(d.random.of(&[0.5, 2.0, -1.0, 0.3]))));
        }
    }
    Some(d.node(&[Some(x), Some(y), bias], 1, attributes)?[0])
}

fn turned(val: &Val) -> Val {
    let places = groups(&val.shape, &[0]).concat();
    val.picked(vec![val.shape[1], val.shape[0]], places).expect("as many")
}

fn general(ask: &Ask) -> Option<Vec<Answer>> {
    let turn = |at: usize, name: &str| {
        let val = ask.input(at)?;
        Some(if ask.int(name, 0) == 1 { turned(val) } else { val.clone() })
    };
    let (a, b) = (turn(0, "transA")?, turn(1, "transB")?);
    let (shape, cells) = terms(&a, &b)?;
    let (alpha, beta) = (ask.float("alpha", 1.0), ask.float("beta", 1.0));
    let (x, y) = (numbers(&a), numbers(&b));
    let bias = match ask.input(2) {
        Some(bias) if broadcast(&[&bias.shape, &shape])? == shape => {
            let own = numbers(bias);
            sources(&bias.shape, &shape).iter().map(|at| own[*at]).collect()
        }
        Some(_) => return None,
        None => vec![0.0; volume(&shape)],
    };
    let value = |(terms, bias): (&Vec<(usize, usize)>, f64)| {
        let mut all: Vec<f64> = terms.iter().map(|(i, j)| alpha * x[*i] * y[*j]).collect();
        all.push(beta * bias);
        let (value, slack) = sum(wide(a.ty), &all);
        // The product may be beyond the type before it is scaled.
        let plain: Vec<f64> = terms.iter().map(|(i, j)| x[*i] * y[*j]).collect();
        (value, 2.0 * slack.max(sum(wide(a.ty), &plain).1 * alpha.abs()))
    };
    let values: Vec<_> = cells.iter().zip(bias).map(value).collect();
    Some(vec![Answer::near(a.ty, shape, 1.0, values)])
}

/// Two operands of any letters, the output of some of them; each letter once in an operand, and an
/// output that is not empty.
fn einsum(d: &mut Draw) -> Option<usize> {
    const LETTERS: [char; 5] = ['i', 'j', 'k', 'b', 'h'];
    let x = d.operand(&[Float, Float, Double, Float16], 1..4)?;
    let first: Vec<char> = LETTERS[..d.rank(x)].to_vec();
    let size = |d: &Draw, letter: &char| match first.iter().position(|other| other == letter) {
        Some(axis) => d.sized(x, axis),
        None => Some(2 + usize::from(*letter == 'h')),
    };
    let mut second: Vec<char> =
        LETTERS.iter().copied().filter(|_| d.random.one_in(2)).take(3).collect();
    (1..second.len()).for_each(|at| second.swap(at, d.random.below(at + 1)));
    let all: BTreeSet<char> = first.iter().chain(&second).copied().collect();
    let mut output: Vec<char> = all.into_iter().filter(|_| !d.random.one_in(3)).collect();
    (1..output.len()).for_each(|at| output.swap(at, d.random.below(at + 1)));
    if output.is_empty() || second.is_empty() {
        return None;
    }
    let text = |letters: &[char]| letters.iter().collect::<String>();
    let equation = format!("{},{}->{}", text(&first), text(&second), text(&output));
    let sizes: Vec<Option<usize>> = second.iter().map(|letter| size(d, letter)).collect();
    let y = d.weights(d.ty(x), &sizes, Data::Small);
    d.make(&[x, y], vec![("equation", Text(Box::leak(equation.into_boxed_str())))])
}

fn contracted(ask: &Ask) -> Option<Vec<Answer>> {
    let (from, to) = ask.text("equation", "").split_once("->")?;
    let operands: Vec<(&str, &Val)> =
        from.split(',').zip(ask.inputs.iter().copied().flatten()).collect();
    let mut letters: Vec<char> = to.chars().collect();
    letters.extend(from.chars().filter(|c| *c != ',' && !to.contains(*c)).collect::<BTreeSet<_>>());
    let size = |letter: &char| {
        let of = |(text, val): &(&str, &Val)| val.shape.get(text.find(*letter)?).copied();
        operands.iter().find_map(of)
    };
    let sizes: Vec<usize> = letters.iter().map(size).collect::<Option<_>>()?;
    let shape = sizes[..to.len()].to_vec();
    let mut sums = vec![vec![]; volume(&shape)];
    let all: Vec<Vec<f64>> = operands.iter().map(|(_, val)| numbers(val)).collect();
    for index in indices(&sizes) {
        let mut term = 1.0;
        for ((text, val), all) in operands.iter().zip(&all) {
            let at =
                |letter: char| index[letters.iter().position(|c| *c == letter).expect("known")];
            let own: Vec<usize> = text.chars().map(at).collect();
            let fits = own.len() == val.shape.len()
                && own.iter().zip(&val.shape).all(|(at, size)| at < size);
            term *= *all.get(place(&val.shape, &own)).filter(|_| fits)?;
        }
        sums[place(&shape, &index[..to.len()])].push(term);
    }
    let ty = operands.first()?.1.ty;
    let value = |terms: &Vec<f64>| match sum(wide(ty), terms) {
        // Factors may be summed before they are multiplied, which makes NaN of other infinities.
        (value, _) if !value.is_finite() => (value, f64::INFINITY),
        other => other,
    };
    let values: Vec<_> = sums.iter().map(value).collect();
    Some(vec![Answer::near(ty, shape, 1.0, values)])
}
