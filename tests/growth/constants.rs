//! What tract makes of constants while it loads a model is bounded, whatever operator makes them,
//! and whatever operator makes their shape: all operators of ONNX are tried as both.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Cursor;

use tract_onnx::pb::{AttributeProto, ModelProto, NodeProto, TensorProto};
use tract_onnx::prelude::*;
use tract_onnx_cast::ElementType::{self, Bool, Float, Int32, Int64, String as Text, Uint8};
use tract_onnx_cast::untrusted::without_panic;
use tract_onnx_cast::{Error, Limits, onnx};

use crate::common::proto::{
    bytes, cast, graph, int, int64, ints, model, node, raw, shaped, symbol, tensor_attribute,
    unshaped, value,
};
use crate::{alone, peak};

const SCHEMAS: &str = include_str!("../../src/onnx/operators/schemas.tsv");
const ATTRIBUTES: &str = include_str!("../../src/onnx/operators/attributes.tsv");

/// What may be made, in bytes.
const LIMIT: u64 = 1 << 22;
/// What loading may take, with all copies that are there for a time.
const MOST: usize = 1 << 26;

/// The operators, with the attributes that each cannot do without.
fn operators() -> BTreeMap<&'static str, Vec<AttributeProto>> {
    let rows = SCHEMAS.lines().filter(|row| !row.starts_with(['#', '\t']));
    let names = rows.filter_map(|row| row.split('\t').next()).filter(|name| !name.is_empty());
    let mut operators: BTreeMap<_, _> = names.map(|name| (name, vec![])).collect();
    let mut last = "";
    for row in ATTRIBUTES.lines().filter(|row| !row.starts_with('#')) {
        let mut columns = row.split('\t');
        let name = columns.next().unwrap_or_default();
        last = if name.is_empty() { last } else { name };
        // The newest row that says anything has them all.
        let Some(given) = columns.nth(1) else { continue };
        if let Some(attributes) = operators.get_mut(last) {
            *attributes = given.split(' ').filter_map(obligatory).collect();
        }
    }
    operators
}

fn obligatory(column: &str) -> Option<AttributeProto> {
    let (name, ty) = column.strip_suffix('!')?.split_once(':')?;
    match (name, ty) {
        ("to", "INT") => Some(int("to", Int64 as i64)),
        ("shape", "INTS") => Some(ints("shape", &[4096, 4096])),
        ("sample_size" | "kernel_shape" | "axis" | "blocksize" | "hidden_size", "INT") => {
            Some(int(name, 1))
        }
        (_, "INT") => Some(int(name, 0)),
        (_, "INTS") => Some(ints(name, &[1])),
        _ => None,
    }
}

/// Ones, of a type and shape.
fn ones(name: &str, ty: ElementType, dims: &[i64]) -> TensorProto {
    filled(name, ty, dims, 1)
}

/// One number or text throughout, of a type and shape.
fn filled(name: &str, ty: ElementType, dims: &[i64], number: u8) -> TensorProto {
    let count = dims.iter().product::<i64>() as usize;
    let one = match ty {
        Int64 => i64::from(number).to_le_bytes().to_vec(),
        Int32 => i32::from(number).to_le_bytes().to_vec(),
        Float => f32::from(number).to_le_bytes().to_vec(),
        Text => {
            let string_data = vec![number.to_string().into_bytes(); count];
            return TensorProto { string_data, ..raw(name, ty as i32, dims, &[]) };
        }
        _ => vec![number],
    };
    raw(name, ty as i32, dims, &one.repeat(count))
}

fn of(nodes: Vec<NodeProto>, constants: Vec<TensorProto>) -> ModelProto {
    let mut graph = graph(&[], &nodes, &[unshaped("y", Float)]);
    graph.initializer = constants;
    model(21, graph)
}

/// Loads the model, within what it may take. Whether it was refused for what it makes of constants.
#[track_caller]
fn is_bounded(what: &str, model: &ModelProto) -> bool {
    let file = bytes(model);
    let mut limits = Limits::default();
    limits.made_bytes = LIMIT;
    let load =
        || onnx().with_limits(limits).model_for_read(&mut Cursor::new(&file))?.into_optimized();
    let mut outcome = Ok(());
    let most = peak(|| outcome = without_panic(load).map(|_| ()));
    assert!(most < MOST, "{what}: {most} bytes, {outcome:?}");
    let error = outcome.as_ref().err();
    let own = error.and_then(|error| error.chain().find_map(|link| link.downcast_ref()));
    own.and_then(Error::limit) == Some("made_bytes")
}

#[test]
fn whatever_makes_a_shape_makes_nothing_enormous() {
    let _alone = alone();
    let mut seen = BTreeSet::new();
    for (operator, attributes) in operators() {
        for ty in [Int64, Float, Int32, Bool, Text] {
            for operands in 1..=3 {
                let inputs = &["a", "b", "c"][..operands];
                let nodes = vec![
                    node(operator, inputs, &["s"], attributes.clone()),
                    cast("s", Int64, "t"),
                    node("Reshape", &["t", "flat"], &["u"], vec![]),
                    node("ReduceMax", &["u"], &["v"], vec![int("keepdims", 1)]),
                    node("Max", &["v", "large"], &["w"], vec![]),
                    node("Concat", &["w", "w"], &["shape"], vec![int("axis", 0)]),
                    node("ConstantOfShape", &["shape"], &["y"], vec![]),
                ];
                let mut constants = vec![int64("flat", &[-1]), int64("large", &[100_000])];
                constants.extend(inputs.iter().map(|name| ones(name, ty, &[1])));
                if is_bounded(&format!("{operator} of {operands} {ty:?}"), &of(nodes, constants)) {
                    seen.insert(operator);
                }
            }
        }
    }
    // The others are refused of these operands, or have no tensor for a result.
    assert!(seen.len() > 100, "{} {seen:?}", seen.len());
}

#[test]
fn whatever_grows_makes_nothing_enormous() {
    const LONG: i64 = 5000;
    let _alone = alone();
    let shapes: [[&[i64]; 3]; 3] = [
        [&[LONG, 1], &[1, LONG], &[1, LONG]],
        [&[LONG], &[LONG], &[LONG]],
        [&[1, 1, LONG], &[LONG, 1, 1], &[1]],
    ];
    let mut seen = BTreeSet::new();
    for (operator, attributes) in operators() {
        for ty in [Float, Int64, Bool] {
            for shapes in shapes {
                for operands in 1..=3 {
                    let inputs = &["a", "b", "c"][..operands];
                    let nodes = vec![node(operator, inputs, &["y"], attributes.clone())];
                    let constants = inputs.iter().zip(shapes);
                    let constants = constants.map(|(name, shape)| ones(name, ty, shape)).collect();
                    let what = format!("{operator} of {operands} {ty:?} of {shapes:?}");
                    if is_bounded(&what, &of(nodes, constants)) {
                        seen.insert(operator);
                    }
                }
            }
        }
    }
    assert!(seen.len() > 20, "{} {seen:?}", seen.len());
}

/// An input that is declared as large as can be, or as nothing of many rows, is not there yet:
/// nothing as large is made of its shape.
#[test]
fn what_is_declared_is_not_made() {
    let _alone = alone();
    let mut refused = BTreeSet::new();
    for (operator, attributes) in operators() {
        let mut check = |shape: &[i64], ty, number, operands, outputs: usize| {
            let inputs = &["x", "b", "c"][..operands];
            let made = &["d", "e"][..outputs];
            let last = cast(made[outputs - 1], Float, "y");
            let nodes = vec![node(operator, inputs, made, attributes.clone()), last];
            let others = inputs[1..].iter().map(|name| filled(name, ty, &[1], number));
            let mut model = of(nodes, others.collect());
            let graph = model.graph.as_mut().expect("a graph");
            graph.input.push(value("x", ty, shape));
            if is_bounded(&format!("{operator} of {operands} {ty:?} {number} {shape:?}"), &model) {
                refused.insert(operator);
            }
        };
        for ty in [Float, Int64, Bool] {
            for (operands, outputs) in [(1, 1), (1, 2), (2, 1), (2, 2), (3, 1), (3, 2)] {
                check(&[2, 1 << 32], ty, 0, operands, outputs);
                check(&[2, 1 << 32], ty, 1, operands, outputs);
                check(&[1 << 32, 1, 0], ty, 1, operands, outputs);
            }
        }
    }
    let known = ["Dropout", "GlobalMaxPool"];
    assert!(known.iter().all(|operator| refused.contains(operator)), "{refused:?}");
}

/// tract notes where each place of a window lies.
#[test]
fn windows_that_are_declared_are_counted() {
    let _alone = alone();
    for (operator, ty) in [("Conv", Float), ("ConvTranspose", Float), ("ConvInteger", Uint8)] {
        let convolution = node(operator, &["x", "w"], &["d"], vec![]);
        let mut model = of(vec![convolution, cast("d", Float, "y")], vec![]);
        let graph = model.graph.as_mut().expect("a graph");
        graph.input =
            vec![value("x", ty, &[1, 3, 9, 1 << 41]), value("w", ty, &[3, 3, 9, 1 << 40])];
        assert!(is_bounded(operator, &model), "{operator} is not refused for what it makes");
    }
}

#[test]
fn texts_and_sums_are_counted() {
    let _alone = alone();
    let text = TensorProto { string_data: vec![vec![b'9'; 10_000]], ..ones("w", Text, &[1]) };
    let names: Vec<String> = (0..16).map(|index| format!("w{index}")).collect();
    let mut last = "w";
    let mut doubled = vec![];
    for name in &names {
        doubled.push(node("Concat", &[last, last], &[name], vec![int("axis", 0)]));
        last = name;
    }
    doubled.push(node("Identity", &[last], &["y"], vec![]));
    assert!(is_bounded("texts", &of(doubled, vec![text])));
    let names: Vec<String> = (0..1000).map(|index| format!("m{index}")).collect();
    let mut made: Vec<NodeProto> =
        names.iter().map(|name| node("ConstantOfShape", &["s"], &[name], vec![])).collect();
    let all: Vec<&str> = names.iter().map(String::as_str).collect();
    made.push(node("Sum", &all, &["y"], vec![]));
    assert!(is_bounded("small ones", &of(made, vec![int64("s", &[1 << 15])])));
}

/// tract computes nothing of what is as large when it infers facts, but does when it declutters.
#[test]
fn what_is_known_late_decides_on_no_size() -> TractResult<()> {
    let _alone = alone();
    let nodes = |op: &str| {
        vec![
            node("ConstantOfShape", &["s"], &["c"], vec![]),
            node(op, &["c"], &["n"], vec![]),
            cast("n", Int64, "i"),
            node("ReduceMax", &["i"], &["m"], vec![int("keepdims", 0)]),
            node("Max", &["m", "large"], &["l"], vec![]),
            node("Range", &["zero", "l", "one"], &["y"], vec![]),
        ]
    };
    let scalar = |name: &str, number| TensorProto { dims: vec![], ..int64(name, &[number]) };
    for op in ["Identity", "Neg", "NonZero"] {
        let mut limits = Limits::default();
        limits.made_bytes = 1 << 23;
        let constants = vec![
            int64("s", &[1 << 20]),
            scalar("large", 1 << 36),
            scalar("zero", 0),
            scalar("one", 1),
        ];
        let mut model = of(nodes(op), constants);
        if let Some(output) = model.graph.as_mut().and_then(|graph| graph.output.first_mut()) {
            *output = unshaped("y", Int64);
        }
        let file = bytes(&model);
        let load =
            || onnx().with_limits(limits).model_for_read(&mut Cursor::new(&file))?.into_optimized();
        let most = peak(|| drop(without_panic(load)));
        assert!(most < MOST, "{op}: {most} bytes");
    }
    Ok(())
}

/// Nothing tells that these are numbers before tract has simplified the expressions.
#[test]
fn what_expressions_come_to_makes_nothing_enormous() {
    const LONG: i64 = 1 << 28;
    let _alone = alone();
    let numbers: [&[NodeProto]; 3] = [
        &[node("Mul", &["n", "zero"], &["a"], vec![]), node("Add", &["a", "long"], &["k"], vec![])],
        &[node("Sub", &["n", "n"], &["a"], vec![]), node("Add", &["a", "long"], &["k"], vec![])],
        &[node("Mul", &["n", "zero"], &["a"], vec![]), node("Max", &["a", "long"], &["k"], vec![])],
    ];
    let scalar = |name: &str| node("Squeeze", &["k"], &[name], vec![]);
    let join = |shape: [&str; 2]| node("Concat", &shape, &["shape"], vec![int("axis", 0)]);
    let makers: [&[NodeProto]; 9] = [
        &[node("ConstantOfShape", &["k"], &["y"], vec![])],
        &[node("Expand", &["one", "k"], &["y"], vec![])],
        &[node("Tile", &["one", "k"], &["y"], vec![])],
        &[
            scalar("l"),
            node("Range", &["start", "l", "step"], &["z"], vec![]),
            cast("z", Float, "y"),
        ],
        &[
            scalar("l"),
            cast("l", Float, "f"),
            node("Range", &["fstart", "f", "fstep"], &["y"], vec![]),
        ],
        &[node("OneHot", &["zero", "k", "pair"], &["y"], vec![])],
        &[
            join(["k", "step1"]),
            node("ConstantOfShape", &["shape"], &["z"], vec![]),
            node("EyeLike", &["z"], &["y"], vec![]),
        ],
        &[join(["zero", "k"]), node("Pad", &["one", "shape"], &["y"], vec![])],
        &[scalar("l"), node("HannWindow", &["l"], &["y"], vec![])],
    ];
    for (number, maker) in numbers.iter().flat_map(|n| makers.iter().map(move |m| (*n, *m))) {
        let first = node("Shape", &["x"], &["n"], vec![]);
        let nodes: Vec<NodeProto> = [&[first], number, maker].concat();
        let mut model = of(nodes, vec![]);
        let graph = model.graph.as_mut().expect("a graph");
        let number = |name: &str, ty, number: &[u8]| raw(name, ty as i32, &[], number);
        graph.initializer = vec![
            int64("zero", &[0]),
            int64("step1", &[1]),
            int64("long", &[LONG]),
            ones("one", Float, &[1]),
            ones("pair", Float, &[2]),
            number("start", Int64, &0i64.to_le_bytes()),
            number("step", Int64, &1i64.to_le_bytes()),
            number("fstart", Float, &0f32.to_le_bytes()),
            number("fstep", Float, &1f32.to_le_bytes()),
        ];
        graph.input = vec![shaped("x", Float, vec![symbol("N")])];
        let what: Vec<&str> = graph.node.iter().map(|node| node.op_type.as_str()).collect();
        is_bounded(&what.join(" "), &model);
    }
}

/// There is time in proportion to the bytes.
#[test]
fn what_takes_long_is_computed_when_the_model_runs() -> TractResult<()> {
    const SIDE: i64 = 900;
    let _alone = alone();
    let one = raw("", Float as i32, &[1], &1f32.to_le_bytes());
    let nodes = vec![
        node("ConstantOfShape", &["s"], &["a"], vec![tensor_attribute("value", one)]),
        node("MatMul", &["a", "a"], &["y"], vec![]),
    ];
    let file = bytes(&of(nodes, vec![int64("s", &[SIDE, SIDE])]));
    for (made_bytes, is_left) in [(10_000_000, true), (20_000_000, false)] {
        let mut limits = Limits::default();
        limits.made_bytes = made_bytes;
        let onnx = onnx().with_limits(limits);
        let model = onnx.model_for_read(&mut Cursor::new(&file))?.into_optimized()?;
        let left = model.nodes.iter().any(|node| node.op.name() == "Held");
        assert_eq!(left, is_left, "{made_bytes}");
        let made = model.into_runnable()?.run(tvec!())?;
        let mut expected = Tensor::zero::<f32>(&[SIDE as usize; 2])?;
        expected.fill_t(SIDE as f32)?;
        assert_eq!(*made[0], expected);
    }
    Ok(())
}

#[test]
fn what_fits_is_made() -> TractResult<()> {
    let _alone = alone();
    let nodes = vec![node("ConstantOfShape", &["s"], &["y"], vec![])];
    let file = bytes(&of(nodes, vec![int64("s", &[25 << 20])]));
    onnx().model_for_read(&mut Cursor::new(&file))?.into_optimized()?;
    Ok(())
}
