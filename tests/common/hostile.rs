//! Models that are made to hurt, each so large that what is not in proportion to it takes far too
//! long or too much.

use tract_onnx::pb::attribute_proto::AttributeType;
use tract_onnx::pb::{
    AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto,
    StringStringEntryProto, TensorProto, ValueInfoProto,
};
use tract_onnx_cast::ElementType::{self, Bool, Float, Float16, Int64, String as Text};

use super::proto::{
    cast, graph, graph_attribute, imports, int, int64, ints, model, node, raw, symbol,
    tensor_attribute, untyped, value, value_of,
};

fn numbered(letter: &str, count: usize) -> Vec<String> {
    (0..count).map(|index| format!("{letter}{index}")).collect()
}

fn float(name: &str) -> ValueInfoProto {
    value(name, Float, &[2])
}

fn names(all: &[String]) -> Vec<&str> {
    all.iter().map(String::as_str).collect()
}

/// `x` and constants in, `t` cast to `y` out.
fn of(nodes: &[NodeProto], x: &[i64], constants: Vec<TensorProto>) -> ModelProto {
    let nodes = [nodes, &[cast("t", Float16, "y")]].concat();
    let mut graph = graph(&[value("x", Float, x)], &nodes, &[untyped("y")]);
    graph.initializer = constants;
    model(21, graph)
}

fn casts(values: &[String]) -> Vec<NodeProto> {
    let to = |index: usize| if index.is_multiple_of(2) { Float16 } else { Float };
    let one = |(index, pair): (usize, &[String])| cast(&pair[0], to(index), &pair[1]);
    values.windows(2).enumerate().map(one).collect()
}

/// Each casts what the one before it has made.
fn chain(values: &[String]) -> ModelProto {
    let last = &values[values.len() - 1];
    model(21, graph(&[float(&values[0])], &casts(values), &[untyped(last)]))
}

fn scalar(name: &str, number: i64) -> TensorProto {
    TensorProto { dims: vec![], ..int64(name, &[number]) }
}

fn floats(name: &str, values: &[f32]) -> TensorProto {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    raw(name, Float as i32, &[values.len() as i64], &bytes)
}

fn declared(dims: &[i64]) -> ModelProto {
    let weight = TensorProto { dims: dims.to_vec(), ..raw("w", Float as i32, &[], &[]) };
    of(&[node("Identity", &["w"], &["t"], vec![])], &[2], vec![weight])
}

fn function(name: &str, nodes: Vec<NodeProto>) -> FunctionProto {
    FunctionProto {
        name: Some(name.into()),
        domain: Some("own".into()),
        input: vec!["a".into()],
        output: vec!["b".into()],
        node: nodes,
        opset_import: [imports(21), vec![own()]].concat(),
        ..FunctionProto::default()
    }
}

fn own() -> OperatorSetIdProto {
    OperatorSetIdProto { domain: "own".into(), version: 1 }
}

/// Calls that call twice each, so many levels.
fn doubling(levels: usize) -> ModelProto {
    let call =
        |level: usize, from: &str, to: &str| node(&format!("own.f{level}"), &[from], &[to], vec![]);
    let twice = |level| {
        let nodes = vec![call(level + 1, "a", "t"), call(level + 1, "t", "b")];
        function(&format!("f{level}"), nodes)
    };
    let mut model = model(21, graph(&[float("x")], &[call(0, "x", "y")], &[untyped("y")]));
    model.opset_import.push(own());
    model.functions = (0..levels).map(twice).collect();
    model.functions.push(function(&format!("f{levels}"), vec![cast("a", Float, "b")]));
    model
}

/// Calls of a function, each of one value.
fn calls(nodes: &[NodeProto], arguments: &[String]) -> ModelProto {
    let mut model = model(21, graph(&[float("x")], nodes, &[untyped("y0")]));
    model.opset_import.push(own());
    let mut called = function("f", vec![cast("a0", Float, "b")]);
    called.input = arguments.to_vec();
    model.functions = vec![called];
    model
}

fn conditions(count: usize) -> ModelProto {
    let values = numbered("v", count + 1);
    let one = |pair: &[String]| {
        let branch = |name: &str| {
            let made = node("Range", &["from", "to", "by"], &["i"], vec![]);
            let nodes = [made, cast(&pair[0], Float, "o")];
            graph_attribute(name, graph(&[], &nodes, &[value("o", Float, &[2])]))
        };
        node("If", &["c"], &[&pair[1]], vec![branch("then_branch"), branch("else_branch")])
    };
    let nodes: Vec<_> = values.windows(2).map(one).collect();
    let inputs = [float("v0"), value("c", Bool, &[])];
    let mut graph = graph(&inputs, &nodes, &[untyped(&values[count])]);
    graph.initializer = vec![scalar("from", 0), scalar("to", 5), scalar("by", 1)];
    model(21, graph)
}

/// Conditions in the branches of others, with long names, and casts in the innermost.
fn nested(depth: usize, casts: usize) -> ModelProto {
    let values = numbered("v", casts);
    let nodes: Vec<_> = values.iter().map(|name| cast("x", Float16, name)).collect();
    let inner = graph(&[], &nodes, &[untyped("v0")]);
    let around = |inner: GraphProto, level: usize| {
        let made = format!("o{level}");
        let other = graph(&[], &[cast("x", Float16, "e")], &[untyped("e")]);
        let branches = [("then_branch", inner), ("else_branch", other)];
        let branches = branches.map(|(name, graph)| graph_attribute(name, graph));
        let mut node = node("If", &["c"], &[&made], branches.into());
        node.name = format!("{}{level}", "n".repeat(100_000));
        graph(&[], &[node], &[untyped(&made)])
    };
    let mut graph = (0..depth).fold(inner, around);
    graph.input = vec![float("x"), value("c", Bool, &[])];
    model(21, graph)
}

/// Operators that make something enormous of next to nothing, in attributes and constants.
pub fn makers() -> Vec<(&'static str, ModelProto)> {
    const HUGE: i64 = 1 << 30;
    let make =
        |op: &str, inputs: &[&str], with: Vec<AttributeProto>| vec![node(op, inputs, &["t"], with)];
    let image = [1, 1, 2, 2];
    let of_shape = |shape: &str, to: &str| node("ConstantOfShape", &[shape], &[to], vec![]);
    let outer = |op: &str, inputs: &[&str], a: &[i64], b: &[i64]| {
        let nodes = [of_shape("s", "a"), of_shape("u", "b"), node(op, inputs, &["t"], vec![])];
        of(&nodes, &[2], vec![int64("s", a), int64("u", b)])
    };
    let unit = || TensorProto { dims: vec![1; 4], ..floats("w", &[1.0]) };
    let side = 1 << 20;
    vec![
        (
            "ConstantOfShape",
            of(&make("ConstantOfShape", &["s"], vec![]), &[2], vec![int64("s", &[HUGE])]),
        ),
        ("Expand", of(&make("Expand", &["x", "s"], vec![]), &[1], vec![int64("s", &[side, side])])),
        ("Tile", of(&make("Tile", &["x", "s"], vec![]), &[2], vec![int64("s", &[HUGE])])),
        ("Pad", of(&make("Pad", &["x", "s"], vec![]), &[2], vec![int64("s", &[HUGE, HUGE])])),
        (
            "Range",
            of(
                &make("Range", &["a", "b", "d"], vec![]),
                &[2],
                vec![scalar("a", 0), scalar("b", HUGE), scalar("d", 1)],
            ),
        ),
        (
            "computed shape",
            of(
                &[node("Mul", &["s", "s"], &["u"], vec![]), of_shape("u", "t")],
                &[2],
                vec![int64("s", &[1 << 15])],
            ),
        ),
        (
            "joined shape",
            of(
                &[
                    node("Identity", &["s"], &["r"], vec![]),
                    node("Concat", &["s", "r"], &["u"], vec![int("axis", 0)]),
                    of_shape("u", "t"),
                ],
                &[2],
                vec![int64("s", &[side])],
            ),
        ),
        ("sum of many", {
            let parts = numbered("p", 40);
            let mut nodes: Vec<_> = parts.iter().map(|part| of_shape("s", part)).collect();
            nodes.push(node("Sum", &names(&parts), &["t"], vec![]));
            of(&nodes, &[2], vec![int64("s", &[1 << 25])])
        }),
        (
            "Resize",
            of(
                &make("Resize", &["x", "", "", "s"], vec![]),
                &image,
                vec![int64("s", &[1, 1, side, side])],
            ),
        ),
        (
            "Resize by scales",
            of(
                &make("Resize", &["x", "", "s"], vec![]),
                &image,
                vec![floats("s", &[1.0, 1.0, 1e6, 1e6])],
            ),
        ),
        (
            "ConvTranspose",
            of(
                &make("ConvTranspose", &["x", "w"], vec![ints("strides", &[side, side])]),
                &image,
                vec![unit()],
            ),
        ),
        (
            "padding of a window",
            of(
                &make(
                    "AveragePool",
                    &["x"],
                    vec![ints("kernel_shape", &[2, 2]), ints("pads", &[side; 4])],
                ),
                &image,
                vec![],
            ),
        ),
        (
            "OneHot",
            of(
                &make("OneHot", &["i", "d", "v"], vec![]),
                &[2],
                vec![int64("i", &[1; 8]), scalar("d", HUGE), floats("v", &[0.0, 1.0])],
            ),
        ),
        (
            "what a transform works with",
            of(&make("DFT", &["x", "l"], vec![]), &[1, 8, 1], vec![scalar("l", (1 << 24) + 1)]),
        ),
        ("broadcast", outer("Add", &["a", "b"], &[side, 1], &[side])),
        ("outer product", outer("MatMul", &["a", "b"], &[side, 1], &[1, side])),
    ]
}

/// Models with very much of one thing, and nonsense.
pub fn crowds() -> Vec<(&'static str, ModelProto)> {
    let ok = || chain(&numbered("v", 3));
    let with = |change: &dyn Fn(&mut ModelProto)| {
        let mut model = ok();
        change(&mut model);
        model
    };
    let graph_with = |change: &dyn Fn(&mut tract_onnx::pb::GraphProto)| {
        with(&|model| change(model.graph.as_mut().expect("a graph")))
    };
    let long = "n".repeat(1_000_000);
    let each = numbered("x", 15_000);
    let outputs = numbered("y", 15_000);
    let wide = |inputs: &[ValueInfoProto], count: usize| {
        let nodes: Vec<_> =
            each.iter().zip(&outputs).take(count).map(|(x, y)| cast(x, Float16, y)).collect();
        let made: Vec<_> = outputs.iter().take(count).map(|name| untyped(name)).collect();
        model(21, graph(inputs, &nodes, &made))
    };
    let typed: Vec<_> = each.iter().map(|name| float(name)).collect();
    let open: Vec<_> =
        each.iter().map(|name| value_of(name, Float as i32, Some(vec![symbol("?")]))).collect();
    let ranks = vec![1; 100_000];
    vec![
        ("chain", chain(&numbered("v", 30_000))),
        ("chain backwards", {
            let mut model = chain(&numbered("v", 30_000));
            model.graph.as_mut().expect("a graph").node.reverse();
            model
        }),
        ("short chain", chain(&numbered("v", 1_500))),
        ("inputs and outputs", wide(&typed, each.len())),
        ("open inputs", wide(&open, each.len())),
        ("some open inputs", wide(&open[..800], 800)),
        ("outputs of one value", {
            let nodes: Vec<_> =
                outputs.iter().take(4_000).map(|name| cast("x", Float16, name)).collect();
            let made: Vec<_> = outputs.iter().take(4_000).map(|name| untyped(name)).collect();
            model(21, graph(&[float("x")], &nodes, &made))
        }),
        ("conditions", conditions(3_000)),
        ("some conditions", conditions(300)),
        ("long names of conditions", nested(8, 1_000)),
        ("doubling calls", doubling(13)),
        ("arguments of a call", {
            let call = node("own.f", &["x"; 15_000], &["y0"], vec![]);
            calls(&[call], &numbered("a", 15_000))
        }),
        ("calls with one value", {
            let made = numbered("y", 60_000);
            let call = |made: &String| node("own.f", &["x"], &[made], vec![]);
            calls(&made.iter().map(call).collect::<Vec<_>>(), &numbered("a", 1))
        }),
        ("doubling calls without end", doubling(60)),
        ("long names of values", chain(&numbered(&long[..10_000], 500))),
        ("long names of nodes", {
            let mut model = chain(&numbered("v", 200));
            let nodes = &mut model.graph.as_mut().expect("a graph").node;
            nodes
                .iter_mut()
                .enumerate()
                .for_each(|(i, node)| node.name = format!("{}{i}", &long[..50_000]));
            model
        }),
        ("long name of an operator", of(&[node(&long, &["x"], &["t"], vec![])], &[2], vec![])),
        (
            "long name of a domain",
            of(&[node(&format!("{long}.Op"), &["x"], &["t"], vec![])], &[2], vec![]),
        ),
        (
            "long name of a dimension",
            graph_with(&|graph| {
                graph.input = vec![value_of("v0", Float as i32, Some(vec![symbol(&long)]))];
            }),
        ),
        (
            "deep dimension",
            graph_with(&|graph| {
                let text = format!("{}a{}", "(".repeat(50_000), ")".repeat(50_000));
                graph.input = vec![value_of("v0", Float as i32, Some(vec![symbol(&text)]))];
            }),
        ),
        ("nodes of one name", {
            let mut model = chain(&numbered("v", 3_000));
            let nodes = &mut model.graph.as_mut().expect("a graph").node;
            nodes.iter_mut().for_each(|node| node.name = "same".into());
            model
        }),
        (
            "imports",
            with(&|model| {
                let import = |domain: String| OperatorSetIdProto { domain, version: 3 };
                model.opset_import.extend(numbered("d", 50_000).into_iter().map(import));
            }),
        ),
        (
            "metadata",
            with(&|model| {
                let entry = |key: String| StringStringEntryProto { key, value: "v".into() };
                model.metadata_props = numbered("k", 100_000).into_iter().map(entry).collect();
            }),
        ),
        (
            "declarations of nothing",
            graph_with(&|graph| {
                graph.value_info = numbered("q", 50_000).iter().map(|name| float(name)).collect();
            }),
        ),
        (
            "declarations of one value",
            graph_with(&|graph| {
                graph.value_info = vec![float("v0"); 50_000];
            }),
        ),
        (
            "attributes of a cast",
            graph_with(&|graph| {
                let attributes = numbered("a", 50_000);
                graph.node[0].attribute.extend(attributes.iter().map(|name| int(name, 1)));
            }),
        ),
        (
            "the same attributes",
            graph_with(&|graph| {
                graph.node[0].attribute.extend(vec![int("to", 10); 50_000]);
            }),
        ),
        ("long permutation", {
            let places: Vec<i64> = (0..500_000).collect();
            of(&[node("Transpose", &["x"], &["t"], vec![ints("perm", &places)])], &[2], vec![])
        }),
        ("axes without end", {
            let axes: Vec<i64> = (1..50_000).collect();
            of(&[node("Unsqueeze", &["x", "a"], &["t"], vec![])], &[2], vec![int64("a", &axes)])
        }),
        (
            "rank without end",
            of(&[node("Reshape", &["x", "a"], &["t"], vec![])], &[2], vec![int64("a", &ranks)]),
        ),
        ("declared rank without end", declared(&ranks)),
        ("negative dimensions", declared(&[-1, i64::MIN])),
        ("nothing by very much", declared(&[0, 1 << 62, 1 << 62])),
        ("outputs of a node", {
            let parts = numbered("s", 20_000);
            let outputs = [vec!["t"], names(&parts)].concat();
            of(&[node("Split", &["x"], &outputs, vec![int("num_outputs", 20_001)])], &[2], vec![])
        }),
        (
            "operands of a node",
            of(&[node("Concat", &vec!["x"; 50_000], &["t"], vec![int("axis", 0)])], &[2], vec![]),
        ),
        (
            "functions that nobody calls",
            with(&|model| {
                let one =
                    |name: &String| function(name, vec![node("Identity", &["a"], &["b"], vec![])]);
                model.functions = numbered("f", 20_000).iter().map(one).collect();
            }),
        ),
        (
            "functions of one name",
            with(&|model| {
                model.functions =
                    vec![function("f", vec![node("Identity", &["a"], &["b"], vec![])]); 20_000];
            }),
        ),
        ("texts", {
            let texts = TensorProto {
                data_type: Text as i32,
                dims: vec![200_000],
                name: "w".into(),
                string_data: vec![b"1e-7".to_vec(); 200_000],
                ..TensorProto::default()
            };
            of(&[cast("w", Float, "t")], &[2], vec![texts])
        }),
        (
            "initializers",
            graph_with(&|graph| {
                graph.initializer =
                    numbered("w", 15_000).iter().map(|name| floats(name, &[1.0, 2.0])).collect();
            }),
        ),
        (
            "initializers of one name",
            graph_with(&|graph| {
                graph.initializer = vec![floats("w", &[1.0, 2.0]); 50_000];
            }),
        ),
        ("sum of constants, one by one", {
            let (sums, parts) = (numbered("s", 1_500), numbered("c", 1_500));
            let mut nodes = vec![node("Add", &["c0", "c0"], &["s0"], vec![])];
            nodes.extend(
                sums.windows(2)
                    .zip(&parts)
                    .map(|(pair, part)| node("Add", &[&pair[0], part], &[&pair[1]], vec![])),
            );
            nodes.push(node("Add", &[&sums[sums.len() - 1], "x"], &["t"], vec![]));
            of(&nodes, &[2], parts.iter().map(|name| floats(name, &[1.0, 2.0])).collect())
        }),
        ("a scan of many steps", {
            let values = |names: [&str; 2]| names.map(|name| value(name, Float, &[1]));
            let nodes = [
                node("Add", &["state", "item"], &["next"], vec![]),
                node("Identity", &["next"], &["each"], vec![]),
            ];
            let body = graph(&values(["state", "item"]), &nodes, &values(["next", "each"]));
            let with = vec![graph_attribute("body", body), int("num_scan_inputs", 1)];
            let items = raw("w", Float as i32, &[50_000, 1], &vec![0; 200_000]);
            of(&[node("Scan", &["x", "w"], &["last", "t"], with)], &[1], vec![items])
        }),
        ("scans inside of scans", {
            let values = |names: [&str; 2]| names.map(|name| value(name, Float, &[1]));
            let mut nodes = vec![node("Add", &["state", "item"], &["next"], vec![])];
            nodes.push(node("Identity", &["next"], &["each"], vec![]));
            for level in 0..30 {
                let body = graph(&values(["state", "item"]), &nodes, &values(["next", "each"]));
                let with = vec![graph_attribute("body", body), int("num_scan_inputs", 1)];
                let inner = format!("inner{level}");
                nodes = vec![node("Scan", &["state", "w"], &["next", &inner], with)];
                nodes.push(node("Identity", &["next"], &["each"], vec![]));
            }
            let body = graph(&values(["state", "item"]), &nodes, &values(["next", "each"]));
            let with = vec![graph_attribute("body", body), int("num_scan_inputs", 1)];
            let items = raw("w", Float as i32, &[1, 1], &[0; 4]);
            of(&[node("Scan", &["x", "w"], &["t", "all"], with)], &[1], vec![items])
        }),
        ("a loop without end", {
            let body = graph(
                &[value("i", Int64, &[]), value("c", Bool, &[]), float("s")],
                &[node("Identity", &["c"], &["go"], vec![]), cast("s", Float, "next")],
                &[value("go", Bool, &[]), float("next")],
            );
            let truth = raw("b", Bool as i32, &[], &[1]);
            let nodes =
                [node("Loop", &["m", "b", "x"], &["t"], vec![graph_attribute("body", body)])];
            of(&nodes, &[2], vec![scalar("m", i64::MAX), truth])
        }),
        ("a block without end", {
            let with = || vec![int("axis", 0), int("block_size", 1 << 62)];
            let nodes = [
                node("QuantizeLinear", &["x", "s", "z"], &["q"], with()),
                node("DequantizeLinear", &["q", "s", "z"], &["t"], with()),
            ];
            of(
                &nodes,
                &[2],
                vec![floats("s", &[1.0]), raw("z", ElementType::Int8 as i32, &[1], &[0])],
            )
        }),
        ("a constant in many attributes", {
            let mut constant = node("Constant", &[], &["t"], vec![]);
            let tensors = (0..20_000).map(|_| tensor_attribute("value", floats("", &[1.0])));
            constant.attribute = tensors.collect();
            of(&[constant], &[2], vec![])
        }),
        ("a sparse constant", {
            let mut sparse = AttributeProto { name: "sparse_value".into(), ..int("", 0) };
            sparse.r#type = AttributeType::SparseTensor as i32;
            of(&[node("Constant", &[], &["t"], vec![sparse])], &[2], vec![])
        }),
        ("half precision", {
            let values = numbered("v", 1_000);
            let sum = |pair: &[String]| node("Add", &[&pair[0], "v0"], &[&pair[1]], vec![]);
            let nodes: Vec<_> = values.windows(2).map(sum).collect();
            model(21, graph(&[value("v0", Float16, &[2])], &nodes, &[untyped(&values[999])]))
        }),
    ]
    .into_iter()
    .map(|(name, model)| (name, importing(model)))
    .collect()
}

/// Whatever calls functions imports their domain.
fn importing(mut model: ModelProto) -> ModelProto {
    if !model.functions.is_empty()
        && !model.opset_import.iter().any(|import| import.domain == "own")
    {
        model.opset_import.push(own());
    }
    model
}
