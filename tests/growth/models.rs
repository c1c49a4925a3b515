//! Models of any size, each kind with much of one thing.

use tract_onnx::pb::{FunctionProto, ModelProto, NodeProto, ValueInfoProto};
use tract_onnx_cast::ElementType;

use crate::common::proto::{
    Change, cast, graph, graph_attribute, imports, int, model, node, raw, symbol, untyped, value,
    value_of,
};

const FLOAT: ElementType = ElementType::Float;
const HALF: ElementType = ElementType::Float16;

fn float(name: &str) -> ValueInfoProto {
    value(name, FLOAT, &[2])
}

/// An input of which the model does not tell the size.
fn open(name: &str) -> ValueInfoProto {
    value_of(name, FLOAT as i32, Some(vec![symbol("?")]))
}

/// A value or a node by its number.
fn numbered(letter: char, count: usize) -> Vec<String> {
    (0..count).map(|index| format!("{letter}{index}")).collect()
}

fn of(inputs: &[ValueInfoProto], nodes: &[NodeProto], outputs: &[ValueInfoProto]) -> ModelProto {
    model(21, graph(inputs, nodes, outputs))
}

/// Each casts what the one before it has made.
pub fn chain(count: usize) -> ModelProto {
    let values = numbered('v', count + 1);
    let to = |index: usize| if index.is_multiple_of(2) { HALF } else { FLOAT };
    let one = |(index, pair): (usize, &[String])| cast(&pair[0], to(index), &pair[1]);
    let nodes: Vec<_> = values.windows(2).enumerate().map(one).collect();
    of(&[float("v0")], &nodes, &[value(&values[count], to(count - 1), &[2])])
}

/// As [`chain`], the last node first.
pub fn backwards(count: usize) -> ModelProto {
    let mut model = chain(count);
    model.graph.as_mut().expect("a graph").node.reverse();
    model
}

/// All cast the same input, and each is an output.
pub fn wide(count: usize) -> ModelProto {
    let values = numbered('v', count);
    let nodes: Vec<_> = values.iter().map(|name| cast("x", HALF, name)).collect();
    let outputs: Vec<_> = values.iter().map(|name| value(name, HALF, &[2])).collect();
    of(&[float("x")], &nodes, &outputs)
}

/// Nodes that are no casts.
pub fn nodes(count: usize) -> ModelProto {
    let values = numbered('v', count + 1);
    let one = |pair: &[String]| node("Add", &[&pair[0], "v0"], &[&pair[1]], vec![]);
    let nodes: Vec<_> = values.windows(2).map(one).collect();
    of(&[float("v0")], &nodes, &[float(&values[count])])
}

/// Inputs that nothing uses.
pub fn inputs(count: usize) -> ModelProto {
    let inputs: Vec<_> = numbered('x', count).iter().map(|name| float(name)).collect();
    of(&inputs, &[cast("x0", HALF, "y")], &[value("y", HALF, &[2])])
}

/// Inputs whose size is open, each with an output of its own.
pub fn open_inputs(count: usize) -> ModelProto {
    let (inputs, outputs) = (numbered('x', count), numbered('y', count));
    let nodes: Vec<_> = inputs.iter().zip(&outputs).map(|(x, y)| cast(x, HALF, y)).collect();
    let inputs: Vec<_> = inputs.iter().map(|name| open(name)).collect();
    let outputs: Vec<_> = outputs.iter().map(|name| value_of(name, HALF as i32, None)).collect();
    of(&inputs, &nodes, &outputs)
}

/// Inputs whose size is open and that one node takes.
pub fn open_together(count: usize) -> ModelProto {
    let names = numbered('x', count);
    let inputs: Vec<_> = names.iter().map(|name| open(name)).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let nodes = [node("Concat", &names, &["s"], vec![int("axis", 0)]), cast("s", HALF, "y")];
    of(&inputs, &nodes, &[value_of("y", HALF as i32, None)])
}

/// Initializers, of which one is used.
pub fn initializers(count: usize) -> ModelProto {
    let sum = node("Add", &["x", "w0"], &["s"], vec![]);
    let mut model = of(&[float("x")], &[sum, cast("s", HALF, "y")], &[value("y", HALF, &[2])]);
    let names = numbered('w', count);
    let tensors = names.iter().map(|name| raw(name, FLOAT as i32, &[2], &[0; 8]));
    model.graph.as_mut().expect("a graph").initializer = tensors.collect();
    model
}

/// Initializers of BFLOAT16, each cast.
pub fn cast_initializers(count: usize) -> ModelProto {
    let (names, values) = (numbered('w', count), numbered('v', count));
    let nodes: Vec<_> = names.iter().zip(&values).map(|(w, v)| cast(w, FLOAT, v)).collect();
    let mut model = of(&[], &nodes, &[float("v0")]);
    let bfloat16 = ElementType::BFloat16 as i32;
    let tensors = names.iter().map(|name| raw(name, bfloat16, &[2], &[0x80, 0x3f, 0x80, 0x3f]));
    model.graph.as_mut().expect("a graph").initializer = tensors.collect();
    model
}

fn function(attributes: usize) -> FunctionProto {
    FunctionProto {
        name: Some("f".into()),
        domain: Some("own".into()),
        input: vec!["a".into()],
        output: vec!["b".into()],
        node: vec![cast("a", FLOAT, "b").named("c")],
        opset_import: imports(21),
        attribute: numbered('a', attributes),
        ..FunctionProto::default()
    }
}

/// Attributes of a function and of its call.
pub fn attributes(count: usize) -> ModelProto {
    let attributes = numbered('a', count).iter().map(|name| int(name, 1)).collect();
    let call = node("own.f", &["x"], &["y"], attributes);
    let mut model = of(&[float("x")], &[call], &[float("y")]);
    model.functions = vec![function(count)];
    model
}

/// Calls of a function, all of one name.
pub fn calls(count: usize) -> ModelProto {
    let values = numbered('v', count + 1);
    let call = |pair: &[String]| node("own.f", &[&pair[0]], &[&pair[1]], vec![]).named("same");
    let nodes: Vec<_> = values.windows(2).map(call).collect();
    let mut model = of(&[float("v0")], &nodes, &[float(&values[count])]);
    model.functions = vec![function(0)];
    model
}

/// Functions, each called once.
pub fn functions(count: usize) -> ModelProto {
    let values = numbered('v', count + 1);
    let call = |(index, pair): (usize, &[String])| {
        node(&format!("own.f{index}"), &[&pair[0]], &[&pair[1]], vec![])
    };
    let nodes: Vec<_> = values.windows(2).enumerate().map(call).collect();
    let mut model = of(&[float("v0")], &nodes, &[float(&values[count])]);
    let functions = numbered('f', count).into_iter();
    model.functions =
        functions.map(|name| FunctionProto { name: Some(name), ..function(0) }).collect();
    model
}

/// Conditions, each on what the one before has made, with a cast in either branch.
pub fn ifs(count: usize) -> ModelProto {
    let values = numbered('v', count + 1);
    let one = |pair: &[String]| {
        let branch = |name: &str| {
            let inner = graph(&[], &[cast(&pair[0], FLOAT, "i")], &[float("i")]);
            graph_attribute(name, inner)
        };
        node("If", &["c"], &[&pair[1]], vec![branch("then_branch"), branch("else_branch")])
    };
    let nodes: Vec<_> = values.windows(2).map(one).collect();
    let condition = value("c", ElementType::Bool, &[]);
    of(&[float("v0"), condition], &nodes, &[float(&values[count])])
}

/// A node of very many inputs.
pub fn operands(count: usize) -> ModelProto {
    let values = vec!["x"; count];
    let nodes = [node("Concat", &values, &["s"], vec![int("axis", 0)]), cast("s", HALF, "y")];
    of(&[float("x")], &nodes, &[untyped("y")])
}

/// A sum of very many values.
pub fn sums(count: usize) -> ModelProto {
    of_many(count, |values| node("Sum", values, &["y"], vec![]))
}

/// Very many values side by side.
pub fn concats(count: usize) -> ModelProto {
    of_many(count, |values| node("Concat", values, &["y"], vec![int("axis", 0)]))
}

/// What takes as many values as there are, each made by a node.
fn of_many(count: usize, taker: impl Fn(&[&str]) -> NodeProto) -> ModelProto {
    let values = numbered('v', count);
    let made = values.iter().map(|name| node("Neg", &["x"], &[name], vec![]));
    let taken: Vec<&str> = values.iter().map(String::as_str).collect();
    let nodes: Vec<_> = made.chain([taker(&taken)]).collect();
    of(&[float("x")], &nodes, &[untyped("y")])
}

/// Sequences, each with one tensor more than the one before, and what they hold side by side.
pub fn sequences(count: usize) -> ModelProto {
    let values = numbered('s', count + 1);
    let insert = |pair: &[String]| node("SequenceInsert", &[&pair[0], "x"], &[&pair[1]], vec![]);
    let empty = node("SequenceEmpty", &[], &["s0"], vec![]);
    let all = node("ConcatFromSequence", &[&values[count]], &["y"], vec![int("axis", 0)]);
    let nodes: Vec<_> = [empty].into_iter().chain(values.windows(2).map(insert)).collect();
    of(&[float("x")], &[&nodes[..], &[all]].concat(), &[untyped("y")])
}

/// Casts in a graph with a very long name.
pub fn long_name(count: usize) -> ModelProto {
    let mut model = wide(count);
    model.graph.as_mut().expect("a graph").name = "G".repeat(1_000_000);
    model
}
