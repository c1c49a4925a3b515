//! Errors that programs can tell apart, and the nodes that they are about.

use test_tools::tempfile;
use tract_onnx::pb::{NodeProto, OperatorSetIdProto};
use tract_onnx::prelude::*;
use tract_onnx_cast::audit::audit;
use tract_onnx_cast::untrusted::without_panic;
use tract_onnx_cast::{ElementType, Error, ErrorKind, bf16_tensor};

use crate::common::cases::root;
use crate::common::proto::{
    Change, bytes, external, graph, graph_attribute, imports, int, ints, model, node, raw, shaped,
    string, symbol, untyped, value,
};
use ElementType::{Float, Float16};

fn error_of(model: &tract_onnx::pb::ModelProto) -> TractError {
    let loaded = tract_onnx_cast::onnx().model_for_read(&mut &*bytes(model));
    loaded.expect_err("the model is refused")
}

#[test]
fn an_error_knows_its_node() {
    let cast = node("Cast", &["x"], &["y"], vec![int("to", 10), int("saturate", 0)]).named("c1");
    let cast = graph(&[value("x", Float, &[2])], &[cast], &[value("y", Float16, &[2])]);
    let error = error_of(&model(13, cast));
    let own = error.downcast_ref::<Error>().expect("an error of this crate");
    assert_eq!(own.kind(), ErrorKind::Attribute, "{own:?}");
    assert_eq!(own.node(), Some("c1"));
    let empty = tract_onnx_cast::mend::mend(&[]).expect_err("no model");
    assert_eq!((empty.kind(), empty.node()), (ErrorKind::Model, None));
}

/// A composition is written in an opset of its own.
#[test]
fn a_part_of_a_composition_names_the_opset_of_the_model() {
    let sum = node("SkipLayerNormalization", &["x", "skip", "gamma"], &["y"], vec![]);
    let sum = NodeProto { domain: "com.microsoft".into(), ..sum };
    let inputs = [("x", &[2, 3, 4][..]), ("skip", &[2, 3, 5]), ("gamma", &[4])];
    let inputs = inputs.map(|(name, shape)| value(name, Float, shape));
    let mut model = model(17, graph(&inputs, &[sum], &[untyped("y")]));
    model.opset_import.push(OperatorSetIdProto { domain: "com.microsoft".into(), version: 1 });
    let load = || tract_onnx_cast::onnx().model_for_read(&mut &*bytes(&model))?.into_typed();
    let error = format!("{:#}", load().expect_err("shapes that do not fit"));
    assert!(error.ends_with(", the model imports 17"), "{error}");
}

#[test]
fn what_tract_refuses_is_a_typed_error() {
    let odd = vec![string("auto_pad", "sideways")];
    let conv = node("Conv", &["x", "w"], &["y"], odd).named("r1");
    let inputs = [value("x", Float, &[1, 1, 2, 2]), value("w", Float, &[1, 1, 2, 2])];
    let error = error_of(&model(13, graph(&inputs, &[conv], &[untyped("y")])));
    let own = error.downcast_ref::<Error>().expect("an error of this crate");
    assert_eq!(own.kind(), ErrorKind::Tract, "{own:?}");
    assert_eq!(own.node(), Some("r1"));
    assert!(own.to_string().contains("sideways"), "{own}");
}

/// Not where tract was, nor what it was about to do there.
#[test]
fn what_a_plan_cannot_know_is_said_of_the_node() {
    let said = |op: &str, inputs: &[&str]| {
        let axes = value("a", ElementType::Int64, &[1]);
        let node = node(op, inputs, &["y"], vec![]).named("n1");
        let model =
            bytes(&model(18, graph(&[value("x", Float, &[1, 4]), axes], &[node], &[untyped("y")])));
        let load = || tract_onnx_cast::onnx().model_for_read(&mut &*model)?.into_typed();
        without_panic(load).expect_err("axes are wanted").to_string()
    };
    assert_eq!(said("Unsqueeze", &["x", "a"]), "node `n1` (Unsqueeze): Need axes to be a constant");
    let slice = said("Slice", &["x", "a", "a", "a"]);
    let known = "has axes that are only known when the model runs, the model imports 18";
    assert_eq!(slice, format!("node `n1` (Slice): {known}"));
}

/// tract calls operators and their parts by names of its own.
#[test]
fn an_error_speaks_of_operators_as_the_model_does() {
    let said = |op: &str, body: bool| {
        let axes = value("a", ElementType::Int64, &[1]);
        let (x, c) = (value("x", Float, &[1, 4]), value("c", ElementType::Bool, &[]));
        let unknown = node(op, &["x", "a"], &["y"], vec![]).named("n1");
        let nodes = if !body {
            vec![unknown]
        } else {
            let branch = |name| {
                graph_attribute(name, graph(&[], std::slice::from_ref(&unknown), &[untyped("y")]))
            };
            let branches = ["then_branch", "else_branch"].map(branch);
            vec![node("If", &["c"], &["z"], branches.into()).named("if1")]
        };
        let output = untyped(if body { "z" } else { "y" });
        let model = model(18, graph(&[x, axes, c], &nodes, &[output]));
        let load = || tract_onnx_cast::onnx().model_for_read(&mut &*bytes(&model))?.into_typed();
        let error = without_panic(load).expect_err("axes are wanted");
        let own = error.downcast_ref::<Error>().unwrap_or_else(|| panic!("{error:#}"));
        let told = own.clone().in_model(&model);
        assert_eq!(told.clone().in_model(&model), told, "an opset is told once");
        (told.operator().map(String::from), told.to_string())
    };
    for body in [false, true] {
        for op in ["ReduceSum", "ReduceProd", "Unsqueeze"] {
            let (operator, told) = said(op, body);
            assert_eq!(operator.as_deref(), Some(op), "{told}");
            assert!(told.starts_with(&format!("node `n1` ({op}): ")), "{told}");
            assert_eq!(told.matches(", the model imports 18").count(), 1, "{told}");
        }
    }
}

#[test]
fn a_part_of_an_operator_is_told_as_the_operator() {
    let grid = node("AffineGrid", &["t", "s"], &["y"], vec![]).named("n1");
    let inputs = [value("t", Float, &[1, 3, 4]), value("s", ElementType::Int64, &[5])];
    let model = model(20, graph(&inputs, &[grid], &[untyped("y")]));
    let load = || tract_onnx_cast::onnx().model_for_read(&mut &*bytes(&model))?.into_typed();
    let error = without_panic(load).expect_err("sizes are wanted");
    let own = error.downcast_ref::<Error>().unwrap_or_else(|| panic!("{error:#}"));
    let told = own.clone().in_model(&model).to_string();
    let wanted =
        "node `n1` (AffineGrid): shape input is variable in a part of it, the model imports 20";
    assert_eq!(told, wanted);
}

/// A product whose operands do not fit, which tract sees when it types the model; the model may
/// leave their shapes open.
fn misfit(is_open: bool) -> Vec<u8> {
    let side = |name: &str, size: i64| {
        if is_open {
            shaped(name, Float, vec![symbol(name), symbol(&format!("{name}s"))])
        } else {
            value(name, Float, &[size, 3])
        }
    };
    let product = node("MatMul", &["a", "b"], &["y"], vec![]).named("m1");
    let inputs = [side("a", 2), side("b", 4)];
    bytes(&model(13, graph(&inputs, &[product], &[untyped("y")])))
}

#[test]
fn what_tract_refuses_later_is_a_typed_error_too() {
    let named = |error: TractError| {
        let own = error.downcast_ref::<Error>().unwrap_or_else(|| panic!("{error:#}"));
        assert_eq!(own.kind(), ErrorKind::Tract, "{own:?}");
        own.node().map(String::from)
    };
    let load = |is_open| tract_onnx_cast::onnx().model_for_read(&mut &*misfit(is_open));
    let typed = without_panic(|| load(false)?.into_optimized()).expect_err("no product");
    assert_eq!(named(typed).as_deref(), Some("m1"));
    let run = without_panic(|| {
        let reshape = node("Reshape", &["x", "i"], &["y"], vec![]).named("r1");
        let inputs = [value("x", Float, &[4]), value("i", ElementType::Int64, &[1])];
        let reshape = bytes(&model(13, graph(&inputs, &[reshape], &[untyped("y")])));
        let reshape = tract_onnx_cast::onnx().model_for_read(&mut &*reshape)?;
        let x = Tensor::zero::<f32>(&[4])?.into_tvalue();
        reshape.into_typed()?.into_runnable()?.run(tvec!(x, tensor1(&[9i64]).into_tvalue()))
    });
    assert_eq!(named(run.expect_err("no such shape")).as_deref(), Some("r1"));
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), misfit(true)).expect("is written");
    let zeros = |rows| Tensor::zero::<f32>(&[rows, 3]).expect("zeros");
    let audited = audit(file.path(), [zeros(2), zeros(4)]).expect_err("no product");
    assert_eq!(named(audited.into()).as_deref(), Some("m1"));
    // What is not tract's stays what it is.
    let missing = without_panic(|| tract_onnx_cast::onnx().model_for_path("no such file"));
    assert!(missing.expect_err("no file").chain().any(|link| link.is::<std::io::Error>()));
}

#[test]
fn a_model_is_audited_in_one_call() {
    let path = root().join("models/whole/rms_norm_FLOAT16/model.onnx");
    let rows = audit(&path, [tensor0(3f32).broadcast_to_shape(&[2, 8]).expect("a shape")]);
    let rows = rows.expect("the model runs");
    let row = rows.iter().find(|row| row.cast.node == "Cast_sum_half").expect("the cast");
    assert_eq!(row.stats.outcomes().collect::<Vec<_>>(), [("overflowed", 2)]);
    assert!(audit(&path, [bf16_tensor(&[0], &[]).expect("no values")]).is_err());
}

/// A file's names may hold what writes over a terminal, or what looks like another error.
#[test]
fn errors_are_one_line_whatever_names_hold() {
    let odd = "a\nerror: fake\r\u{1b}[2J\u{9b}31m\u{7f}\u{85}\u{2028}b\0";
    let one = |op: &str, attributes: Vec<_>| {
        let node = node(op, &["x"], &["y"], attributes);
        model(21, graph(&[value("x", Float, &[2])], &[node], &[untyped("y")]))
    };
    let cast = || one("Cast", vec![int("to", 10)]);
    let first = |model: &mut tract_onnx::pb::ModelProto,
                 rename: fn(&mut tract_onnx::pb::NodeProto, &str)| {
        rename(&mut model.graph.as_mut().expect("a graph").node[0], odd);
    };
    let mut unknown_domain = cast();
    first(&mut unknown_domain, |node, odd| node.domain = odd.into());
    let mut unnamed = one("Cast", vec![int("to", 99)]);
    first(&mut unnamed, |node, odd| node.name = odd.into());
    let mut misfit = one("Resize", vec![string("mode", odd)]);
    first(&mut misfit, |node, odd| node.name = odd.into());
    let mut weight = cast();
    let graph = weight.graph.as_mut().expect("a graph");
    graph.initializer = vec![external(raw(odd, 1, &[2], &[]), odd, None)];
    let mut dangling = cast();
    first(&mut dangling, |node, odd| node.input[0] = odd.into());
    for model in [
        one("Cast", vec![int("to", 10), int(odd, 1)]),
        one(odd, vec![]),
        unknown_domain,
        unnamed,
        misfit,
        weight,
        dangling,
    ] {
        let load =
            || tract_onnx_cast::onnx().model_for_read(&mut &*bytes(&model))?.into_optimized();
        let error = without_panic(load).expect_err("the model is refused");
        for line in [error.to_string(), format!("{error:#}")] {
            let is_plain = |c: char| !c.is_control() && !matches!(c, '\u{2028}' | '\u{2029}');
            assert!(line.chars().all(is_plain), "{line:?}");
        }
    }
    let panicked = without_panic(|| -> TractResult<()> { panic!("{odd}") }).expect_err("a panic");
    assert!(!panicked.to_string().contains(char::is_control), "{panicked:?}");
}

/// Readers of ONNX differ in which of two they take.
#[test]
fn what_contradicts_itself_is_refused_by_name() {
    let imported = |domains: [(&str, i64); 2]| {
        let cast = node("Cast", &["x"], &["y"], vec![int("to", 10)]);
        let mut model = model(21, graph(&[value("x", Float, &[2])], &[cast], &[untyped("y")]));
        let import = |(domain, version): (&str, i64)| {
            let mut import = imports(version).remove(0);
            import.domain = domain.into();
            import
        };
        model.opset_import = domains.map(import).into();
        model
    };
    let problem = |model: &_| error_of(model).root_cause().to_string();
    let twice = "the model imports domain `` in two versions, 13 and 21";
    assert_eq!(problem(&imported([("", 13), ("", 21)])), twice);
    let both = "the model imports ONNX's own domain twice, as `` and as `ai.onnx`";
    for versions in [(13, 21), (21, 21)] {
        let imported = imported([("", versions.0), ("ai.onnx", versions.1)]);
        assert_eq!(problem(&imported), both);
        let mended = tract_onnx_cast::mend::mend(&bytes(&imported)).expect_err("no model");
        assert_eq!(mended.to_string(), both);
    }
    let same = bytes(&imported([("", 21), ("", 21)]));
    tract_onnx_cast::onnx().model_for_read(&mut &*same).expect("nothing is contradicted");

    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("a.bin"), [0; 8]).expect("is written");
    let weight = || external(raw("w", 1, &[2], &[]), "a.bin", None);
    let refused = |tensor| {
        let read = tract_onnx_cast::tensor_proto::read(&tensor, Some(folder.path()));
        read.expect_err("two readings").to_string()
    };
    tract_onnx_cast::tensor_proto::read(&weight(), Some(folder.path())).expect("one reading");
    let mut two = weight();
    two.external_data.extend(external(raw("w", 1, &[2], &[]), "b.bin", None).external_data);
    assert_eq!(refused(two), "tensor `w`: FLOAT external data has `location` twice");
    let mut both = weight();
    both.raw_data = vec![0; 8];
    assert_eq!(refused(both), "tensor `w`: FLOAT has data in raw_data beside its external data");
}

/// tract follows the path from a tree's first node while it runs the model.
#[test]
fn trees_whose_paths_do_not_end_are_refused() {
    use tract_onnx::pb::AttributeProto;
    use tract_onnx::pb::attribute_proto::AttributeType;
    let words = |name: &str, words: &[&str]| AttributeProto {
        name: name.into(),
        r#type: AttributeType::Strings as i32,
        strings: words.iter().map(|word| word.as_bytes().into()).collect(),
        ..AttributeProto::default()
    };
    let floats = |name: &str, floats: &[f32]| AttributeProto {
        name: name.into(),
        r#type: AttributeType::Floats as i32,
        floats: floats.into(),
        ..AttributeProto::default()
    };
    let load = |changes: &[AttributeProto]| {
        let mut attributes = vec![
            ints("nodes_treeids", &[0, 0, 0]),
            ints("nodes_nodeids", &[0, 1, 2]),
            ints("nodes_featureids", &[0, 0, 0]),
            floats("nodes_values", &[0.5, 0., 0.]),
            words("nodes_modes", &["BRANCH_LEQ", "LEAF", "LEAF"]),
            ints("nodes_truenodeids", &[1, 0, 0]),
            ints("nodes_falsenodeids", &[2, 0, 0]),
            ints("class_treeids", &[0, 0]),
            ints("class_nodeids", &[1, 2]),
            ints("class_ids", &[0, 1]),
            floats("class_weights", &[0.25, 0.75]),
            ints("classlabels_int64s", &[0, 1]),
        ];
        attributes.retain(|attribute| changes.iter().all(|change| change.name != attribute.name));
        attributes.extend_from_slice(changes);
        let mut trees = node("TreeEnsembleClassifier", &["x"], &["y", "s"], attributes).named("t");
        trees.domain = "ai.onnx.ml".into();
        let outputs = [untyped("y"), untyped("s")];
        let mut model = model(21, graph(&[value("x", Float, &[1, 2])], &[trees], &outputs));
        model.opset_import.extend(imports(1));
        model.opset_import[1].domain = "ai.onnx.ml".into();
        tract_onnx_cast::onnx().model_for_proto_model(&model)
    };
    load(&[]).expect("a tree");
    let two = words("nodes_modes", &["BRANCH_LEQ", "BRANCH_LEQ", "LEAF"]);
    let cases: [(&[AttributeProto], &str); 7] = [
        (&[ints("nodes_truenodeids", &[0, 0, 0])], "has tree 0 whose node 0 is below itself"),
        (&[two, ints("nodes_falsenodeids", &[2, 2, 0])], "has tree 0 whose node 0 is below itself"),
        (
            &[ints("nodes_falsenodeids", &[7, 0, 0])],
            "has tree 0 that leads to node 7, which it does not have",
        ),
        (&[ints("nodes_nodeids", &[0, 1, 1])], "has node 1 of tree 0 twice"),
        (&[ints("nodes_nodeids", &[0, 1, 3])], "has tree 0 whose nodes are not numbered from 0: 3"),
        (&[ints("class_ids", &[0, 2])], "has weights of class 2, and 2 labels"),
        (&[ints("classlabels_int64s", &[])], "has weights of class 0, and 0 labels"),
    ];
    for (changes, problem) in cases {
        let error = load(changes).expect_err(problem).to_string();
        assert_eq!(error, format!("node `t` (TreeEnsembleClassifier): {problem}"));
    }
}
