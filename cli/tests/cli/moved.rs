//! What is moved between layers with all nodes and names kept: factors of channels, and their
//! order. It is sound where all that takes it makes up for it, and nowhere else.

use tract_onnx::pb::{ModelProto, NodeProto};
use tract_onnx_cast::ElementType::{Float, Float16, Int8};

use crate::common::proto::{Change, cast, float, int, node};
use crate::verdict::{held, of, one, values, verdict};

/// How many channels are inside, and in each of the layers around.
const INSIDE: usize = 16;
const WIDTH: usize = 8;

/// A weight by its name, with its sizes and elements.
#[derive(Clone)]
struct Weight(&'static str, Vec<usize>, Vec<f32>);

type Weights = Vec<Weight>;

/// `relu(h · first + shift) · second + h · beside`, where h is a normalisation of x. The fourth
/// channel inside is 0 whatever x is.
fn weights() -> Weights {
    let weight = |name, sizes: &[usize], seed| {
        Weight(name, sizes.into(), values(sizes.iter().product(), seed))
    };
    let mut all = vec![
        weight("scale", &[WIDTH], 1),
        weight("bias", &[WIDTH], 2),
        weight("first", &[WIDTH, INSIDE], 3),
        weight("shift", &[INSIDE], 4),
        weight("second", &[INSIDE, WIDTH], 5),
        weight("beside", &[WIDTH, WIDTH], 6),
    ];
    elements(&mut all, "shift")[3] = -30.0;
    elements(&mut all, "scale").iter_mut().for_each(|x| *x += 1.5);
    all
}

fn find<'a>(all: &'a mut Weights, name: &str) -> &'a mut Weight {
    all.iter_mut().find(|weight| weight.0 == name).expect("a weight")
}

fn elements<'a>(all: &'a mut Weights, name: &str) -> &'a mut Vec<f32> {
    &mut find(all, name).2
}

/// Which channel of an axis an element of a weight belongs to.
fn channel(sizes: &[usize], axis: usize, place: usize) -> usize {
    let width: usize = sizes.iter().skip(axis + 1).product();
    place / width % sizes[axis]
}

/// Multiplies each channel of an axis.
fn multiply(all: &mut Weights, (name, axis): (&str, usize), by: impl Fn(usize) -> f32) {
    let Weight(_, sizes, elements) = find(all, name);
    for (place, x) in elements.iter_mut().enumerate() {
        *x *= by(channel(sizes, axis, place));
    }
}

/// Puts the channels of an axis in another order.
fn turn(all: &mut Weights, (name, axis): (&str, usize)) {
    let Weight(_, sizes, elements) = find(all, name);
    let (count, width) = (sizes[axis], sizes.iter().skip(axis + 1).product::<usize>());
    let from = |place: usize| {
        let own = place / width % count;
        place - own * width + (own * 5 + 3) % count * width
    };
    *elements = (0..elements.len()).map(|place| elements[from(place)]).collect();
}

fn factor(channel: usize) -> f32 {
    0.37 + 0.23 * (channel * 7 % 11) as f32
}

fn smooth(all: &mut Weights) {
    ["scale", "bias"].into_iter().for_each(|name| multiply(all, (name, 0), |at| 1.0 / factor(at)));
    ["first", "beside"].into_iter().for_each(|name| multiply(all, (name, 0), factor));
}

fn equalise(all: &mut Weights) {
    multiply(all, ("first", 1), |at| 1.0 / factor(at));
    multiply(all, ("shift", 0), |at| 1.0 / factor(at));
    multiply(all, ("second", 0), factor);
}

fn permute(all: &mut Weights) {
    for place in [("first", 1), ("shift", 0), ("second", 0)] {
        turn(all, place);
    }
}

/// What is done to a weight.
type Fault = fn(&mut Weight);

/// How the conversion has its weights.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Stored {
    Plain,
    Half,
    /// The three matrices in codes of 8 bits, by columns.
    Codes,
}

fn nodes() -> Vec<NodeProto> {
    let product = |x: &str, weight: &str, made: &str, name: &str| {
        node("MatMul", &[x, weight], &[made], vec![]).named(name)
    };
    vec![
        node("LayerNormalization", &["x", "scale", "bias"], &["h"], vec![float("epsilon", 1e-5)])
            .named("normal"),
        product("h", "first", "p", "product"),
        node("Add", &["p", "shift"], &["s"], vec![]).named("sum"),
        node("Relu", &["s"], &["r"], vec![]).named("relu"),
        product("r", "second", "o", "last"),
        product("h", "beside", "k", "other"),
        node("Add", &["o", "k"], &["y"], vec![]).named("both"),
    ]
}

fn stored(all: &Weights, stored: Stored) -> ModelProto {
    let sizes = |sizes: &[usize]| sizes.iter().map(|size| *size as i64).collect::<Vec<i64>>();
    let ty = if stored == Stored::Half { Float16 } else { Float };
    let (mut first, mut constants) = (vec![], vec![]);
    for Weight(name, dims, elements) in all {
        if stored != Stored::Codes || dims.len() != 2 {
            constants.push(held(name, ty, &sizes(dims), elements));
            continue;
        }
        let columns = dims[1];
        let step = |column: usize| {
            let all = elements.iter().skip(column).step_by(columns);
            let most = all.fold(0.0f32, |most, x| most.max(x.abs()));
            if most > 0.0 { most / 127.0 } else { 1.0 }
        };
        let steps: Vec<f32> = (0..columns).map(step).collect();
        let code = |(place, x): (usize, &f32)| (x / steps[place % columns]).round();
        let codes: Vec<f32> = elements.iter().enumerate().map(code).collect();
        let [code, scale] = ["code", "step"].map(|part| format!("{name}_{part}"));
        constants.push(held(&code, Int8, &sizes(dims), &codes));
        constants.push(held(&scale, Float, &[columns as i64], &steps));
        let taker = node("DequantizeLinear", &[&code, &scale], &[*name], vec![int("axis", 1)]);
        first.push(taker.named(&format!("{name}_taken")));
    }
    first.extend(nodes());
    if stored == Stored::Half {
        for ran in &mut first {
            for value in ran.input.iter_mut().chain(&mut ran.output) {
                match value.as_str() {
                    "x" => *value = "x_half".into(),
                    "y" => *value = "y_half".into(),
                    _ => {}
                }
            }
        }
        first.insert(0, cast("x", Float16, "x_half"));
        first.push(cast("y_half", Float, "y"));
    }
    let shape = [5, WIDTH as i64];
    of(&shape, first, &shape, constants)
}

fn moved(by: &[fn(&mut Weights)]) -> Weights {
    let mut all = weights();
    by.iter().for_each(|by| by(&mut all));
    all
}

const MOVES: [&[fn(&mut Weights)]; 4] =
    [&[smooth], &[equalise], &[permute], &[permute, equalise, smooth]];

#[test]
fn what_is_moved_and_made_up_for_is_sound() {
    let reference = stored(&weights(), Stored::Plain);
    for (at, by) in MOVES.into_iter().enumerate() {
        for how in [Stored::Plain, Stored::Half, Stored::Codes] {
            let found = verdict(&reference, &stored(&moved(by), how));
            assert_eq!(found, "rounded", "{at} {how:?}");
        }
    }
}

/// What has but one side of it, a channel of another factor, and elements that are wrong besides.
#[test]
fn what_nothing_makes_up_for_is_broken() {
    let plain = weights();
    let reference = stored(&plain, Stored::Plain);
    let faults: [(&str, Fault); 5] = [
        ("a channel by a bit", |weight| {
            let last = weight.1[weight.1.len() - 1];
            weight.2.iter_mut().skip(2).step_by(last).for_each(|x| *x *= 1.0 + 1.0 / 64.0);
        }),
        ("a row of zeros", |weight| {
            let row = weight.2.len() / weight.1[0];
            weight.2.iter_mut().skip(row).take(row).for_each(|x| *x = 0.0);
        }),
        ("an element", |weight| weight.2[5] = -weight.2[5] + 0.5),
        ("a sign", |weight| {
            let last = weight.1[weight.1.len() - 1];
            weight.2.iter_mut().skip(1).step_by(last).for_each(|x| *x = -*x);
        }),
        ("two rows for one another", |weight| {
            let row = weight.2.len() / weight.1[0];
            (0..row).for_each(|at| weight.2.swap(at, row + at));
        }),
    ];
    for (at, by) in MOVES.into_iter().enumerate() {
        let sound = moved(by);
        let changed = (0..sound.len()).filter(|place| sound[*place].2 != plain[*place].2);
        for place in changed {
            let name = sound[place].0;
            let mut alone = sound.clone();
            alone[place] = plain[place].clone();
            let found = verdict(&reference, &stored(&alone, Stored::Plain));
            assert_eq!(found, "broken", "{at}: `{name}` is as it was");
            for (what, fault) in faults {
                let mut wrong = sound.clone();
                fault(&mut wrong[place]);
                let found = verdict(&reference, &stored(&wrong, Stored::Plain));
                assert_eq!(found, "broken", "{at}: {what} of `{name}`");
            }
        }
    }
}

/// Quantisers give the scale 1 to what is all 0, which rounds nothing.
#[test]
fn a_column_that_was_lost_before_it_was_quantised_is_broken() {
    let plain = weights();
    let reference = stored(&plain, Stored::Plain);
    for by in MOVES {
        let sound = moved(by);
        let both = sound.iter().zip(&plain).filter(|(is, was)| is.1.len() == 2 && is.2 != was.2);
        for name in both.map(|(is, _)| is.0) {
            let mut all = sound.clone();
            multiply(&mut all, (name, 1), |at| if at == 5 { 0.0 } else { 1.0 });
            let found = verdict(&reference, &stored(&all, Stored::Codes));
            assert_eq!(found, "broken", "a column of `{name}`");
        }
    }
}

/// A channel that is always 0 behind the Relu hides from each output what is done to it.
#[test]
fn a_channel_that_does_not_show_has_to_be_made_up_for() {
    let reference = stored(&weights(), Stored::Plain);
    let by = |at: usize| if at == 3 { 3.0 } else { 1.0 };
    let mut all = moved(&[smooth]);
    multiply(&mut all, ("first", 1), by);
    multiply(&mut all, ("shift", 0), by);
    assert_eq!(verdict(&reference, &stored(&all, Stored::Plain)), "broken");
    multiply(&mut all, ("second", 0), |at| 1.0 / by(at));
    assert_eq!(verdict(&reference, &stored(&all, Stored::Plain)), "rounded");
    elements(&mut all, "second")[3 * WIDTH + 2] += 1.0;
    assert_eq!(verdict(&reference, &stored(&all, Stored::Plain)), "broken");
}

/// The codes of a value that was moved are to have room for that, and not for the reference's.
#[test]
fn a_range_of_codes_is_held_against_what_was_moved() {
    let reference = stored(&weights(), Stored::Plain);
    let all = moved(&[smooth]);
    let coded = |step: f32| {
        let mut model = stored(&all, Stored::Plain);
        let graph = model.graph.as_mut().expect("a graph");
        for ran in &mut graph.node {
            ran.input.iter_mut().filter(|input| *input == "h").for_each(|input| {
                *input = "h_DequantizeLinear_Output".into();
            });
        }
        let [down, up] = crate::verdict::coded("h", ["scale_of_h", "scale_of_h"]);
        graph.node.splice(1..1, [down, up]);
        graph.initializer.push(one("scale_of_h", Float, step));
        graph.initializer.push(one("zero", Int8, 0.0));
        model
    };
    // The normalisation makes up to 2.6, times up to 2.4 and more where it was moved.
    assert_ne!(verdict(&reference, &coded(0.15)), "broken");
    assert_eq!(verdict(&reference, &coded(0.01)), "broken");
}
