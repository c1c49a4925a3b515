use tract_onnx::pb::attribute_proto::AttributeType;
use tract_onnx::pb::{
    AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, TypeProto, ValueInfoProto,
};

use crate::{At, Given, Graph, Made, NewNode, NodeView, Origin, Place, Use};

fn value(name: &str) -> ValueInfoProto {
    ValueInfoProto { name: name.into(), ..ValueInfoProto::default() }
}

fn node(op_type: &str, input: &[&str], output: &[&str]) -> NodeProto {
    let names = |names: &[&str]| names.iter().map(|name| String::from(*name)).collect();
    let (input, output) = (names(input), names(output));
    NodeProto { op_type: op_type.into(), input, output, ..NodeProto::default() }
}

/// `y = If(c) { t = Neg(x) } { e = Add(x, w) }`, `z = Abs(y)`, the nodes in the wrong order.
fn model() -> ModelProto {
    let branch = |name: &str, node: NodeProto, output: &str| AttributeProto {
        name: name.into(),
        r#type: AttributeType::Graph as i32,
        g: Some(GraphProto {
            name: name.into(),
            node: vec![node],
            output: vec![value(output)],
            ..GraphProto::default()
        }),
        ..AttributeProto::default()
    };
    let attribute = vec![
        branch("then_branch", node("Neg", &["x"], &["t"]), "t"),
        branch("else_branch", node("Add", &["x", "w"], &["e"]), "e"),
    ];
    let choice = NodeProto { attribute, name: "choice".into(), ..node("If", &["c"], &["y"]) };
    let w = TensorProto { name: "w".into(), data_type: 1, dims: vec![1], ..TensorProto::default() };
    let graph = GraphProto {
        name: "main".into(),
        node: vec![node("Abs", &["y"], &["z"]), choice],
        input: vec![value("x"), value("c")],
        initializer: vec![w],
        output: vec![value("z")],
        ..GraphProto::default()
    };
    ModelProto { graph: Some(graph), ..ModelProto::default() }
}

fn step(node: &str, part: &str) -> String {
    format!("{node}.{part}")
}

fn import(model: ModelProto) -> Graph {
    let (graph, problems) = Graph::import(model, &step).unwrap();
    assert_eq!(problems, []);
    graph.verify().unwrap();
    graph
}

#[test]
fn import_sorts_nodes_and_resolves_names() {
    let graph = import(model());
    let nodes = graph.nodes_of(graph.main());
    let ops: Vec<&str> = nodes.iter().map(|id| graph.node(*id).op_type()).collect();
    assert_eq!(ops, ["If", "Abs"]);
    let all = graph.all_nodes(graph.main());
    let paths: Vec<&str> = all.iter().map(|id| &*graph.node(*id).path).collect();
    assert_eq!(paths, ["main/choice.then_branch", "main/choice.else_branch", "main", "main"]);
    let x = graph.body(graph.main()).inputs()[0];
    assert_eq!(graph.value(x).uses().len(), 2);
    let captured = graph.captures(graph.node(nodes[0]).bodies()[1].body);
    let names: Vec<&str> = captured.iter().map(|id| &*graph.value(*id).name).collect();
    assert_eq!(names, ["x", "w"]);
}

#[test]
fn export_gives_back_what_was_imported() {
    let exported = import(model()).export(|_, _| {});
    let mut expected = model();
    expected.graph.as_mut().unwrap().node.swap(0, 1);
    assert_eq!(exported, expected);
}

#[test]
fn a_weight_is_moved_through() {
    let mut file = model();
    let tensor = &mut file.graph.as_mut().unwrap().initializer[0];
    tensor.raw_data = vec![1, 2, 3, 4];
    let data = tensor.raw_data.as_ptr();
    let exported = import(file).export(|_, _| {});
    assert_eq!(exported.graph.unwrap().initializer[0].raw_data.as_ptr(), data);
}

#[test]
fn what_is_wrong_with_names_is_told() {
    let mut file = model();
    let graph = file.graph.as_mut().unwrap();
    graph.node.push(node("Neg", &["q"], &["z"]));
    let (_, problems) = Graph::import(file, &step).unwrap();
    let texts: Vec<&str> = problems.iter().map(|problem| &*problem.text).collect();
    assert_eq!(texts, ["value `z` is made twice", "nothing makes its input `q`"]);
    assert_eq!(problems[0].at, At::Graph("main".into()));
    assert_eq!(problems[1].at, At::Node("z".into(), "Neg".into()));
}

/// A branch as well: a graph holds one of them.
#[test]
fn an_attribute_that_is_given_twice_is_told() {
    let mut file = model();
    let choice = &mut file.graph.as_mut().unwrap().node[1];
    choice.attribute.push(choice.attribute[0].clone());
    let (_, problems) = Graph::import(file, &step).unwrap();
    let texts: Vec<&str> = problems.iter().map(|problem| &*problem.text).collect();
    assert_eq!(texts, ["attribute `then_branch` is given twice, the model imports 1"]);
    assert_eq!(problems[0].at, At::Node("choice".into(), "If".into()));
}

#[test]
fn a_circle_is_told() {
    let graph = GraphProto {
        node: vec![node("Neg", &["b"], &["a"]), node("Neg", &["a"], &["b"])],
        output: vec![value("b")],
        ..GraphProto::default()
    };
    let file = ModelProto { graph: Some(graph), ..ModelProto::default() };
    let (graph, problems) = Graph::import(file, &step).unwrap();
    assert_eq!(problems[0].text, "node `a` depends on its own output");
    // What follows values back to what makes them comes to an end.
    let [first, _] = graph.nodes_of(graph.main())[..] else { panic!("two nodes") };
    let b = graph.node(first).input(0).unwrap();
    assert!(matches!(graph.value(b).origin(), Origin::Missing));
}

#[test]
fn a_node_is_put_behind_a_value() {
    let mut graph = import(model());
    let [choice, abs] = graph.nodes_of(graph.main())[..] else { panic!("two nodes") };
    let y = graph.node(choice).output(0).unwrap();
    let exact = graph.take_output(y, "exact").unwrap();
    graph.add(Place::After(choice), NewNode::making("Identity", &[exact], y));
    graph.verify().unwrap();
    assert_eq!(graph.node(abs).input(0), Some(y));
    assert!(matches!(graph.value(exact).origin(), Origin::Node(maker, 0) if *maker == choice));
    let changes = graph.take_changes();
    assert_eq!((changes.added, changes.removed), (1, 0));
}

#[test]
fn uses_follow_a_replacement_into_bodies() {
    let mut graph = import(model());
    let x = graph.body(graph.main()).inputs()[0];
    let main = graph.main();
    let minus = graph.add_value(Place::First(main), NewNode::of("Neg", &[x], "x"));
    assert_eq!(&*graph.value(minus).name, "x~1");
    let own = graph.maker(minus);
    graph.replace_uses(x, minus, |used| !matches!(used, Use::Node(node, _) if Some(node) == own));
    graph.verify().unwrap();
    assert_eq!((graph.value(x).uses().len(), graph.value(minus).uses().len()), (1, 2));
}

#[test]
fn a_node_that_is_used_stays() {
    let mut graph = import(model());
    let [choice, abs] = graph.nodes_of(graph.main())[..] else { panic!("two nodes") };
    assert!(!graph.remove(choice));
    let y = graph.node(choice).output(0).unwrap();
    let z = graph.node(abs).output(0).unwrap();
    graph.replace_all_uses(z, y);
    assert!(graph.remove(abs));
    graph.verify().unwrap();
    let x = graph.body(graph.main()).inputs()[0];
    let main = graph.main();
    graph.set_output(main, 0, x);
    assert!(graph.remove(choice));
    graph.verify().unwrap();
    assert_eq!(graph.value(x).uses().len(), 1);
}

#[test]
fn verify_finds_what_does_not_hold() {
    let mut graph = import(model());
    let main = graph.main();
    let [choice, abs] = graph.nodes_of(main)[..] else { panic!("two nodes") };
    let z = graph.node(abs).output(0).unwrap();
    graph.add(Place::Before(choice), NewNode::of("Neg", &[z], "early"));
    assert!(graph.verify().unwrap_err().contains("cannot be seen"));
    let mut graph = import(model());
    graph.add(
        Place::Last(main),
        NewNode { outputs: vec![Made::Unwanted], ..NewNode::of("Neg", &[z], "") },
    );
    graph.verify().unwrap();
}

#[test]
fn a_value_with_many_uses_is_rewired_in_linear_time() {
    let nodes = 40_000;
    let users = (0..nodes).map(|i| node("Neg", &["x"], &[&format!("y{i}")])).collect();
    let graph = GraphProto { node: users, input: vec![value("x")], ..GraphProto::default() };
    let mut graph = import(ModelProto { graph: Some(graph), ..ModelProto::default() });
    let main = graph.main();
    let x = graph.body(main).inputs()[0];
    let other = graph.add_value(Place::First(main), NewNode::of("Abs", &[x], "other"));
    let start = std::time::Instant::now();
    for id in graph.nodes_of(main).into_iter().skip(1) {
        graph.set_input(id, 0, Some(other));
    }
    graph.replace_all_uses(other, x);
    assert!(start.elapsed().as_secs() < 5, "it takes the square of the uses");
    assert_eq!(graph.value(x).uses().len(), nodes + 1);
}

#[test]
fn a_root_has_values_of_its_own_and_names_that_are_nobody_elses() {
    let mut graph = import(model());
    let proto = GraphProto {
        name: "f".into(),
        node: vec![node("Neg", &["x"], &["y"]), node("Abs", &["y"], &["r"])],
        input: vec![value("x")],
        output: vec![value("r")],
        ..GraphProto::default()
    };
    let (root, problems) = graph.import_root(proto.clone(), 13, "f".into(), &step);
    assert_eq!(problems, []);
    let nodes = graph.nodes_of(root);
    assert_eq!(graph.node(nodes[0]).opset, 13);
    assert_ne!(graph.body(root).inputs()[0], graph.body(graph.main()).inputs()[0]);
    let y = graph.node(nodes[0]).output(0).unwrap();
    let added = graph.add_value(Place::After(nodes[0]), NewNode::of("Relu", &[y], "y"));
    assert_eq!(&*graph.value(added).name, "y~1");
    graph.set_input(nodes[1], 0, Some(added));
    graph.verify().unwrap();
    let exported = graph.export_root(root, |_, _| {});
    let ops: Vec<&str> = exported.node.iter().map(|node| node.op_type.as_str()).collect();
    assert_eq!(ops, ["Neg", "Relu", "Abs"]);
    assert_eq!((exported.input, exported.output), (proto.input, proto.output));
}

#[test]
fn a_value_takes_the_place_of_another() {
    let mut graph = import(model());
    let abs = graph.nodes_of(graph.main())[1];
    let (y, z) = (graph.node(abs).input(0).unwrap(), graph.node(abs).output(0).unwrap());
    let choice = graph.maker(y).unwrap();
    graph.take_output(z, "gone");
    assert!(graph.remove(abs));
    graph.put_output(choice, 0, z);
    graph.verify().unwrap();
    assert_eq!(graph.maker(z), Some(choice));
    assert_eq!(graph.maker(y), None);
}

#[test]
fn a_part_takes_what_is_given_and_makes_what_is_wanted() {
    let graph = import(model());
    let find = |name: &str| {
        let main = graph.nodes_of(graph.main());
        let mut made = main.into_iter().flat_map(|id| graph.node(id).outputs().to_vec()).flatten();
        made.find(|id| &*graph.value(*id).name == name).unwrap()
    };
    let given = || vec![(find("y"), Given::Input(TypeProto::default()))];
    let names = |infos: &[ValueInfoProto]| infos.iter().map(|i| i.name.clone()).collect::<Vec<_>>();
    let ops = |graph: &GraphProto| graph.node.iter().map(|n| n.op_type.clone()).collect::<Vec<_>>();
    let (part, stands) = graph.part(given(), vec![(find("z"), value("z"))]);
    part.verify().unwrap();
    assert_eq!(&*part.value(stands[0]).name, "y");
    let held = part.export(|_, _| {}).graph.unwrap();
    assert_eq!((names(&held.input), names(&held.output)), (vec!["y".into()], vec!["z".into()]));
    assert_eq!((ops(&held), held.initializer.len()), (vec!["Abs".into()], 0));
    // What is made and given has two names.
    let wanted = ["y", "z"].map(|name| (find(name), value(name))).to_vec();
    let (part, stands) = graph.part(given(), wanted);
    part.verify().unwrap();
    assert_ne!(&*part.value(stands[0]).name, "y");
    let held = part.export(|_, _| {}).graph.unwrap();
    assert_eq!((names(&held.output), held.initializer.len()), (vec!["y".into(), "z".into()], 1));
    // A constant in the place of an input.
    let x = graph.body(graph.main()).inputs()[0];
    let tensor = TensorProto { name: "x".into(), data_type: 1, ..TensorProto::default() };
    let given = vec![(x, Given::Constant(tensor.into()))];
    let (part, _) = graph.part(given, vec![(find("z"), value("z"))]);
    part.verify().unwrap();
    let held = part.export(|_, _| {}).graph.unwrap();
    assert_eq!((names(&held.input), held.initializer.len()), (vec!["c".into()], 2));
}

#[test]
fn a_body_becomes_the_main_graph() {
    let mut graph = import(model());
    let choice = graph.nodes_of(graph.main())[0];
    let body = graph.node(choice).bodies()[1].body;
    let captured = graph.open(body, |_| None);
    graph.verify().unwrap();
    assert_eq!(captured.len(), 1);
    let held = graph.export(|_, _| {}).graph.unwrap();
    assert_eq!((held.input[0].name.as_str(), held.initializer.len()), ("x", 1));
    assert_eq!(held.node[0].op_type, "Add");
}
