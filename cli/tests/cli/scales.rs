//! Scales and zero points of weights in codes: another one is told where nothing makes up for it,
//! and where the reference is in codes itself.

use tract_onnx::pb::{AttributeProto, ModelProto, NodeProto, TensorProto};
use tract_onnx_cast::ElementType::{
    self, Float, Float8E4M3FN, Float8E5M2, Float16, Int4, Int8, Uint8,
};

use crate::common::proto::{Change, cast, int, node, raw};
use crate::program::{Folder, onnx_cast};
use crate::verdict::{broken, held, judged, of, packed, verdict};

const ROWS: usize = 64;
const COLUMNS: usize = 16;
const SHAPE: [i64; 2] = [3, ROWS as i64];
const MADE: [i64; 2] = [3, COLUMNS as i64];

/// Numbers between -1 and 1.
fn even(place: usize) -> f32 {
    (place * 7919 % 1009) as f32 / 504.5 - 1.0
}

/// The size of a column.
fn size(column: usize) -> f32 {
    if column.is_multiple_of(2) { 1.0 } else { 1.5 }
}

fn weight() -> Vec<f32> {
    (0..ROWS * COLUMNS).map(|place| even(place) * size(place % COLUMNS)).collect()
}

fn product(weight: &str, made: &str) -> NodeProto {
    node("MatMul", &["x", weight], &[made], vec![]).named("product")
}

fn last(given: &str) -> NodeProto {
    node("Tanh", &[given], &["y"], vec![]).named("last")
}

fn at_21(nodes: Vec<NodeProto>, held: Vec<TensorProto>) -> ModelProto {
    let mut model = of(&SHAPE, nodes, &MADE, held);
    model.opset_import[0].version = 21;
    model
}

fn reference() -> ModelProto {
    let weights = held("w", Float, &[ROWS as i64, COLUMNS as i64], &weight());
    at_21(vec![product("w", "p"), last("p")], vec![weights])
}

/// Codes up to `most` of a type, by a share of the scale that each column fits, and that scale.
fn codes(ty: ElementType, most: f32, share: f32) -> (TensorProto, Vec<f32>) {
    let scales: Vec<f32> = (0..COLUMNS).map(|column| share * size(column) / most).collect();
    let code = |(place, x): (usize, f32)| {
        let code = x / scales[place % COLUMNS];
        if ty.is_float() { code } else { code.round().clamp(-most, most) }
    };
    let codes: Vec<f32> = weight().into_iter().enumerate().map(code).collect();
    (held("q", ty, &[ROWS as i64, COLUMNS as i64], &codes), scales)
}

/// The weight in codes by scales of a type that a function makes of those that each column fits.
fn coded(
    (ty, most): (ElementType, f32),
    of_scales: ElementType,
    change: impl Fn(&[f32]) -> Vec<f32>,
) -> ModelProto {
    let (codes, scales) = codes(ty, most, 1.0);
    let scales = held("s", of_scales, &[COLUMNS as i64], &change(&scales));
    let taker = |given: &str| {
        node("DequantizeLinear", &["q", given], &["w"], vec![int("axis", 1)]).named("taker")
    };
    let nodes = match of_scales {
        Float => vec![taker("s"), product("w", "p"), last("p")],
        _ => vec![cast("s", Float, "wide"), taker("wide"), product("w", "p"), last("p")],
    };
    at_21(nodes, vec![codes, scales])
}

fn kept(scales: &[f32]) -> Vec<f32> {
    scales.to_vec()
}

fn half_of_them(by: f32) -> impl Fn(&[f32]) -> Vec<f32> {
    move |scales| {
        let each = scales.iter().enumerate();
        each.map(|(column, x)| if column < COLUMNS / 2 { by * x } else { *x }).collect()
    }
}

fn all_of_them(by: f32) -> impl Fn(&[f32]) -> Vec<f32> {
    move |scales| scales.iter().map(|x| by * x).collect()
}

fn rolled(scales: &[f32]) -> Vec<f32> {
    let mut rolled = scales.to_vec();
    rolled.rotate_right(1);
    rolled
}

const TYPES: [(ElementType, f32); 4] =
    [(Float8E4M3FN, 448.0), (Float8E5M2, 57344.0), (Int4, 7.0), (Int8, 127.0)];

#[test]
fn scales_that_nothing_makes_up_for_are_told_at_their_weight() {
    let reference = reference();
    for ty in TYPES {
        assert_eq!(verdict(&reference, &coded(ty, Float, kept)), "rounded", "{ty:?}");
        for by in [0.5, 1.6, 2.0] {
            let found = judged(&reference, &coded(ty, Float, half_of_them(by)));
            assert_eq!(found, broken("taker", "weight"), "{ty:?} by {by}");
        }
        let found = judged(&reference, &coded(ty, Float, rolled));
        assert_eq!(found, broken("taker", "weight"), "{ty:?}");
        let (found, _, kind) = judged(&reference, &coded(ty, Float, all_of_them(1.4)));
        assert_eq!((&*found, &*kind), ("broken", "weight"), "{ty:?}");
    }
    // By little more than half a step of most values.
    for by in [0.8, 0.87, 1.15, 1.2] {
        let found = judged(&reference, &coded((Float8E4M3FN, 448.0), Float, all_of_them(by)));
        assert_eq!((&*found.0, &*found.2), ("broken", "weight"), "{by}");
    }
}

/// Half a step hides values that are far smaller than the largest one: the reference's own weight
/// makes the better value.
#[test]
fn scales_of_small_values_are_told_by_the_weight_that_makes_better_ones() {
    const SIZES: [usize; 2] = [256, 64];
    let [rows, columns] = SIZES.map(|size| size as i64);
    let weight: Vec<f32> = (0..SIZES[0] * SIZES[1]).map(|place| even(place).powi(3)).collect();
    let model = |nodes: Vec<NodeProto>, constants: Vec<TensorProto>| {
        let last = node("Softmax", &["p"], &["y"], vec![int("axis", -1)]).named("last");
        let nodes = nodes.into_iter().chain([last]).collect();
        let mut model = of(&[3, rows], nodes, &[3, columns], constants);
        model.opset_import[0].version = 21;
        model
    };
    let reference =
        model(vec![product("w", "p")], vec![held("w", Float, &[rows, columns], &weight)]);
    let converted = |by: f32| {
        let codes: Vec<f32> = weight.iter().map(|x| (x * 7.0).round()).collect();
        let scale = |column: usize| if column.is_multiple_of(2) { by / 7.0 } else { 1.0 / 7.0 };
        let scales: Vec<f32> = (0..SIZES[1]).map(scale).collect();
        let taker = node("DequantizeLinear", &["q", "s"], &["made"], vec![int("axis", 1)]);
        let codes = held("q", Int4, &[rows, columns], &codes);
        let nodes = vec![taker.named("taker"), product("made", "p")];
        model(nodes, vec![codes, held("s", Float, &[columns], &scales)])
    };
    assert_eq!(verdict(&reference, &converted(1.0)), "rounded");
    for by in [1.5, 2.0] {
        assert_eq!(judged(&reference, &converted(by)), broken("taker", "weight"), "{by}");
    }
}

/// A name that is another weight's on the other side keeps nothing from its own.
#[test]
fn a_weight_whose_name_another_one_has_is_held_against_its_own() {
    let square: Vec<f32> = (0..COLUMNS * COLUMNS).map(|place| even(place * 3 + 1)).collect();
    let square = |name: &str| held(name, Float, &[COLUMNS as i64; 2], &square);
    let behind = |weight: &str| node("MatMul", &["t", weight], &["y"], vec![]).named("behind");
    let between = || node("Tanh", &["p"], &["t"], vec![]).named("between");
    let weights = held("w", Float, &[ROWS as i64, COLUMNS as i64], &weight());
    let reference =
        at_21(vec![product("w", "p"), between(), behind("v")], vec![weights, square("v")]);
    let converted = |by: f32| {
        let (codes, scales) = codes(Float8E4M3FN, 448.0, 1.0);
        let scales = held("s", Float, &[COLUMNS as i64], &all_of_them(by)(&scales));
        let taker = node("DequantizeLinear", &["q", "s"], &["made"], vec![int("axis", 1)]);
        let nodes = vec![taker.named("taker"), product("made", "p"), between(), behind("w")];
        at_21(nodes, vec![codes, scales, square("w")])
    };
    let folder = Folder::new();
    let passes = |converted: &ModelProto| {
        let (a, b) = (folder.message("a.onnx", &reference), folder.message("b.onnx", converted));
        onnx_cast(["compare", "--weights-only", &*a, &*b]).status.success()
    };
    assert!(passes(&converted(1.0)) && !passes(&converted(1.3)));
    assert_eq!(verdict(&reference, &converted(1.0)), "rounded");
    assert_eq!(judged(&reference, &converted(1.3)).0, "broken");
}

/// A factor of half of the columns that a node behind the product takes back.
#[test]
fn scales_that_something_makes_up_for_are_sound() {
    let reference = reference();
    for ty in TYPES {
        let folded = {
            let mut model = coded(ty, Float, half_of_them(1.6));
            let graph = model.graph.as_mut().expect("a graph");
            let factors: Vec<f32> =
                (0..COLUMNS).map(|x| if x < COLUMNS / 2 { 1.0 / 1.6 } else { 1.0 }).collect();
            graph.initializer.push(held("back", Float, &[COLUMNS as i64], &factors));
            graph.node[1].output[0] = "m".into();
            graph.node.insert(2, node("Mul", &["m", "back"], &["p"], vec![]).named("factor"));
            model
        };
        assert_ne!(verdict(&reference, &folded), "broken", "{ty:?}");
    }
}

/// Scales of the least error cut off what is largest.
#[test]
fn scales_that_cut_a_little_off_are_sound() {
    let (codes, scales) = codes(Int4, 7.0, 0.85);
    let scales = held("s", Float, &[COLUMNS as i64], &scales);
    let taker = node("DequantizeLinear", &["q", "s"], &["w"], vec![int("axis", 1)]).named("taker");
    let clipped = at_21(vec![taker, product("w", "p"), last("p")], vec![codes, scales]);
    assert_eq!(verdict(&reference(), &clipped), "rounded");
}

#[test]
fn codes_that_the_reference_has_as_well_are_not_rounded_again() {
    for ty in TYPES {
        let reference = coded(ty, Float, kept);
        assert_eq!(verdict(&reference, &coded(ty, Float, kept)), "same");
        // Scales may be rounded, and the weight to another type.
        assert_eq!(verdict(&reference, &coded(ty, Float16, kept)), "rounded", "{ty:?}");
        assert_ne!(verdict(&reference, &coded((Int4, 7.0), Float, kept)), "broken", "{ty:?}");
        let changed = [
            coded(ty, Float, all_of_them(1.1)),
            coded(ty, Float, rolled),
            coded(ty, Float, half_of_them(0.95)),
        ];
        for converted in changed {
            assert_eq!(judged(&reference, &converted).0, "broken", "{ty:?}");
            assert_eq!(judged(&reference, &converted).1, "taker", "{ty:?}");
        }
        let mut turned = coded(ty, Float, kept);
        turned.graph.as_mut().expect("a graph").initializer[0].raw_data.reverse();
        assert_eq!(judged(&reference, &turned).1, "taker", "{ty:?}");
    }
}

/// The model of `MatMulNBits` with its product in FLOAT16.
fn halved(model: &ModelProto) -> ModelProto {
    let mut half = model.clone();
    let graph = half.graph.as_mut().expect("a graph");
    let product = &mut graph.node[0];
    (product.input[0], product.output[0]) = ("x_half".into(), "p_half".into());
    graph.node.insert(0, cast("x", Float16, "x_half"));
    graph.node.insert(2, cast("p_half", Float, "p"));
    graph.initializer[1] = held("s", Float16, &[8], &[0.125; 8]);
    half
}

/// A scale that FLOAT16 rounds, and zero points.
fn blocks(is_swapped: bool, scale: f32, zero: u8) -> ModelProto {
    let [_, mut model] = packed(is_swapped);
    let graph = model.graph.as_mut().expect("a graph");
    graph.initializer[1] = held("s", Float, &[8], &[scale; 8]);
    graph.initializer.push(raw("z", Uint8 as i32, &[8], &[zero; 8]));
    graph.node[0].input.push("z".into());
    model
}

#[test]
fn codes_in_blocks_that_the_reference_has_as_well_are_not_rounded_again() {
    let at = |opset: i64, mut model: ModelProto| {
        model.opset_import[0].version = opset;
        model
    };
    for opset in [11, 17, 21] {
        let reference = at(opset, blocks(false, 0.125, 8));
        for other in [11, 17, 21] {
            let sound = at(other, halved(&blocks(false, 0.125, 8)));
            assert_eq!(verdict(&reference, &sound), "rounded", "{opset} and {other}");
        }
        let wrong = [blocks(true, 0.125, 8), blocks(false, 0.14, 8), blocks(false, 0.125, 9)];
        for converted in wrong {
            let found = judged(&reference, &at(opset, converted));
            assert_eq!((&*found.0, &*found.1), ("broken", "p_Q4"), "{opset}: {found:?}");
        }
        let swapped = judged(&reference, &at(opset, halved(&blocks(true, 0.125, 8))));
        assert_eq!((&*swapped.0, &*swapped.1), ("broken", "p_Q4"), "{opset}: {swapped:?}");
    }
}

/// Codes of 2 bits, one of the reference's values two fifths off from each.
#[test]
fn codes_of_2_bits_have_the_limit_of_2_bits() {
    let code = |row: usize, column: usize| (row * 5 + column * 3 + row * column) % 4;
    let off = |place: usize| if even(place) > 0.0 { 0.4 } else { -0.4 };
    let weight: Vec<f32> = (0..ROWS * COLUMNS)
        .map(|place| code(place / COLUMNS, place % COLUMNS) as f32 - 2.0 + off(place))
        .collect();
    let bytes: Vec<u8> = (0..COLUMNS * ROWS / 4)
        .map(|byte| {
            let (column, row) = (byte / (ROWS / 4), byte % (ROWS / 4) * 4);
            (0..4).fold(0, |held, part| held | (code(row + part, column) as u8) << (2 * part))
        })
        .collect();
    let sizes = [("K", ROWS as i64), ("N", COLUMNS as i64), ("bits", 2), ("block_size", 64)];
    let sizes: Vec<AttributeProto> = sizes.iter().map(|(name, i)| int(name, *i)).collect();
    let weights = held("w", Float, &[ROWS as i64, COLUMNS as i64], &weight);
    let reference = of(&SHAPE, vec![product("w", "y")], &MADE, vec![weights]);
    let nodes =
        vec![node("com.microsoft.MatMulNBits", &["x", "q", "s"], &["y"], sizes).named("product")];
    let codes = raw("q", Uint8 as i32, &[COLUMNS as i64, 1, 16], &bytes);
    let scales = held("s", Float, &[COLUMNS as i64], &[1.0; COLUMNS]);
    let converted = of(&SHAPE, nodes, &MADE, vec![codes, scales]);
    assert_eq!(verdict(&reference, &converted), "rounded");
}
