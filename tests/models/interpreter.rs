//! A model node by node gives what its plan gives: either would find a fault of the other.

use std::path::{Path, PathBuf};

use prost::Message;
use test_tools::tempfile;
use tract_onnx::pb::ModelProto;
use tract_onnx::prelude::*;
use tract_onnx_cast::HalfArithmetic;
use tract_onnx_cast::audit::AuditRow;
use tract_onnx_cast::interpreter::{Interpreter, NodeRun, ObservedTensor, Observer, OnnxValue};
use tract_onnx_cast::untrusted::without_panic;
use tract_onnx_cast::{ElementType, ErrorKind, OnnxTensor, Rules, model_proto, tensor_proto};

use crate::common::cases::{
    Preparation, Tolerance, Typed, cases, data, differences, root, run, tensors,
};
use crate::common::proto::{
    cast, dim, graph, graph_attribute, int, int64, ints, model, node, shaped, tensor, unshaped,
    untyped, value,
};

/// Sums in another order: what the optimiser fuses.
const ORDER: Tolerance = Tolerance { rtol: 1e-2, atol: 1e-4 };

fn by_nodes(path: &Path, inputs: &[Typed]) -> tract_onnx_cast::Result<Vec<Typed>> {
    let model = Interpreter::open(tract_onnx_cast::onnx(), path)?;
    let given = inputs.iter().map(|typed| OnnxTensor::new(typed.ty, typed.tensor.clone()));
    let outputs = model.run(given.collect::<Result<_, _>>().expect("carriers"))?;
    let typed =
        |output: OnnxTensor| Typed { ty: output.element_type(), tensor: output.into_tensor() };
    Ok(outputs.into_iter().map(typed).collect())
}

/// The cases of this repository, and those of a folder that the environment names.
fn all_cases() -> impl Iterator<Item = (String, PathBuf)> {
    let elsewhere = std::env::var_os("ONNX_CAST_MODELS").map(PathBuf::from);
    let folders = ["models", "tests/data/node_tests", "tests/data/expanded_tests"];
    let folders = folders.map(|folder| root().join(folder));
    folders.into_iter().chain(elsewhere).flat_map(|folder| cases(&folder))
}

#[test]
fn models_run_as_their_plans_do() {
    let (mut wrong, mut equal, mut more) = (vec![], 0, 0);
    for (name, folder) in all_cases() {
        let path = folder.join("model.onnx");
        let inputs = tensors(&data(&folder), "input");
        let planned = without_panic(|| run(&path, &inputs, Preparation::Optimized));
        let walked = by_nodes(&path, &inputs);
        match (planned, walked) {
            (Ok(planned), Ok(walked)) => {
                let is_same = planned.len() == walked.len()
                    && planned.iter().zip(&walked).all(|(planned, walked)| {
                        (planned.ty, planned.tensor.shape()) == (walked.ty, walked.tensor.shape())
                            && differences(walked, planned, Some(ORDER)).is_empty()
                    });
                if is_same { equal += 1 } else { wrong.push(format!("{name}: others")) }
            }
            (Ok(_), Err(error)) => wrong.push(format!("{name}: {error}")),
            (Err(_), Ok(_)) => more += 1,
            (Err(_), Err(_)) => {}
        }
    }
    println!("{equal} equal, {more} that no plan can be made of, {} wrong", wrong.len());
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(equal > 500, "{equal}");
}

fn float(values: &[f32]) -> OnnxTensor {
    OnnxTensor::new(ElementType::Float, tensor1(values)).expect("FLOAT")
}

fn walk(model: ModelProto, inputs: Vec<OnnxTensor>) -> tract_onnx_cast::Result<Vec<Tensor>> {
    let outputs = Interpreter::of_proto(tract_onnx_cast::onnx(), model, None)?.run(inputs)?;
    Ok(outputs.into_iter().map(OnnxTensor::into_tensor).collect())
}

/// A loop that doubles what it carries until that is 100 or more, and keeps each step.
fn doubling(most: i64) -> ModelProto {
    let body = graph(
        &[untyped("i"), untyped("go"), untyped("x")],
        &[
            node("Add", &["x", "x"], &["twice"], vec![]),
            node("Less", &["twice", "limit"], &["small"], vec![]),
            node("Squeeze", &["small"], &["on"], vec![]),
        ],
        &[
            unshaped("on", ElementType::Bool),
            unshaped("twice", ElementType::Float),
            shaped("twice", ElementType::Float, vec![dim(1)]),
        ],
    );
    let attributes = vec![graph_attribute("body", body)];
    let mut main = graph(
        &[shaped("x", ElementType::Float, vec![dim(1)])],
        &[node("Loop", &["most", "", "x"], &["y", "steps"], attributes)],
        &[unshaped("y", ElementType::Float), unshaped("steps", ElementType::Float)],
    );
    main.initializer = vec![tensor("limit", ElementType::Float, &[100.0]), int64("most", &[most])];
    model(21, main)
}

#[test]
fn large_weights_stay_in_the_file() {
    let weights: Vec<f32> = (0..300_000u32).map(|x| x as f32).collect();
    let weight = tensor_proto::write("w", ElementType::Float, &tensor1(&weights)).expect("FLOAT");
    let mut made = graph(
        &[value("x", ElementType::Float, &[1])],
        &[node("Add", &["x", "w"], &["y"], vec![])],
        &[unshaped("y", ElementType::Float)],
    );
    made.initializer.push(weight);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("model.onnx");
    std::fs::write(&path, model(17, made).encode_to_vec()).expect("a file");
    let light = model_proto::light(&tract_onnx_cast::onnx(), &path).expect("a model");
    let held = &light.graph.expect("a graph").initializer[0];
    assert!(held.raw_data.is_empty() && held.external_data.len() == 3);
    let model = Interpreter::open(tract_onnx_cast::onnx(), &path).expect("a model");
    let outputs = model.run(vec![float(&[0.5])]).expect("outputs");
    let expected: Vec<f32> = weights.iter().map(|x| x + 0.5).collect();
    assert_eq!(outputs[0].tensor(), &tensor1(&expected));
}

#[test]
fn a_transposition_moves_every_element_of_any_width() {
    let shapes: [&[usize]; 4] = [&[70, 37], &[2, 33, 40], &[1, 65, 3, 1], &[4, 0, 3]];
    let types = [ElementType::Int8, ElementType::Float16, ElementType::Float, ElementType::Int64];
    for shape in shapes {
        let rank = shape.len();
        for (from, to) in (0..rank).flat_map(|from| (0..rank).map(move |to| (from, to))) {
            let mut perm: Vec<usize> = (0..rank).filter(|axis| *axis != from).collect();
            perm.insert(to, from);
            for ty in types {
                let count = shape.iter().product::<usize>();
                let values: Vec<i64> = (0..count as i64).map(|x| x % 127).collect();
                let x = Tensor::from_shape(shape, &values).expect("INT64");
                let x = x.cast_to_dt(ty.datum_type()).expect("numbers").into_owned();
                let axes: Vec<i64> = perm.iter().map(|axis| *axis as i64).collect();
                let nodes = [node("Transpose", &["x"], &["y"], vec![ints("perm", &axes)])];
                let dims: Vec<i64> = shape.iter().map(|size| *size as i64).collect();
                let graph = graph(&[value("x", ty, &dims)], &nodes, &[unshaped("y", ty)]);
                let given = OnnxTensor::new(ty, x.clone()).expect("a carrier");
                let made = walk(model(17, graph), vec![given]).expect("an output");
                assert_eq!(
                    made[0],
                    x.permute_axes(&perm).expect("axes"),
                    "{ty} {shape:?} {perm:?}"
                );
            }
        }
    }
}

#[test]
fn a_loop_ends_by_its_condition_or_its_count() {
    let outputs = walk(doubling(50), vec![float(&[3.0])]).unwrap();
    assert_eq!(outputs[0], tensor1(&[192f32]));
    assert_eq!(outputs[1], tensor2(&[[6f32], [12.0], [24.0], [48.0], [96.0], [192.0]]));
    let outputs = walk(doubling(2), vec![float(&[3.0])]).unwrap();
    assert_eq!(outputs[0], tensor1(&[12f32]));
    let outputs = walk(doubling(0), vec![float(&[3.0])]).unwrap();
    assert_eq!((outputs[0].clone(), outputs[1].shape()), (tensor1(&[3f32]), &[0, 1][..]));
}

#[test]
fn nothing_is_unique_among_no_elements() {
    let nodes = [node("Unique", &["x"], &["y", "firsts", "inverse", "counts"], vec![])];
    let outputs = ["firsts", "inverse", "counts"].map(|name| unshaped(name, ElementType::Int64));
    let outputs = [&[unshaped("y", ElementType::Float)], &outputs[..]].concat();
    let made = graph(&[value("x", ElementType::Float, &[2, 0])], &nodes, &outputs);
    let x = OnnxTensor::new(ElementType::Float, Tensor::zero::<f32>(&[2, 0]).expect("none"));
    let made = walk(model(21, made), vec![x.expect("FLOAT")]).expect("outputs");
    let none = tensor1::<i64>(&[]);
    assert_eq!(made, [tensor1::<f32>(&[]), none.clone(), none.clone(), none]);
}

#[test]
fn small_floats_are_unique_by_their_values() {
    let nodes = [node("Unique", &["x"], &["y", "", "inverse"], vec![])];
    let ty = ElementType::BFloat16;
    let outputs = [unshaped("y", ty), unshaped("inverse", ElementType::Int64)];
    let made = graph(&[value("x", ty, &[5])], &nodes, &outputs);
    let of =
        |numbers: &[f32]| OnnxTensor::new(ElementType::Float, tensor1(numbers)).expect("FLOAT");
    let of = |numbers: &[f32]| of(numbers).cast(ty, Rules::default()).expect("BFLOAT16");
    let made = walk(model(28, made), vec![of(&[2.0, -1.0, 0.5, 2.0, -1.0])]).expect("outputs");
    assert_eq!(&made[0], of(&[-1.0, 0.5, 2.0]).tensor());
    assert_eq!(made[1], tensor1(&[2i64, 0, 1, 2, 0]));
}

#[test]
fn what_is_made_of_constants_is_computed_by_its_name() {
    let mut made = graph(
        &[value("x", ElementType::Float, &[2])],
        &[
            node("Neg", &["w"], &["v"], vec![]),
            node("Mul", &["x", "v"], &["z"], vec![]),
            node("Add", &["v", "w"], &["none"], vec![]),
            node("Add", &["z", "none"], &["y"], vec![]),
        ],
        &[unshaped("y", ElementType::Float)],
    );
    made.initializer.push(tensor("w", ElementType::Float, &[1.0, -2.0]));
    let model = Interpreter::of_proto(tract_onnx_cast::onnx(), model(17, made), None);
    let model = model.expect("a model");
    let of = |name: &str| model.constant(name).expect("a value").map(|(_, tensor)| tensor);
    assert_eq!(of("v").as_deref(), Some(&tensor1(&[-1f32, 2.0])));
    assert_eq!(of("none").as_deref(), Some(&tensor1(&[0f32, 0.0])));
    assert_eq!([of("z"), of("x"), of("nobody")], [None, None, None]);
}

#[test]
fn sequences_are_built_and_taken_apart() {
    let nodes = [
        node("SplitToSequence", &["x", "two"], &["parts"], vec![]),
        node("SequenceAt", &["parts", "last"], &["end"], vec![]),
        node("SequenceInsert", &["parts", "end", "zero"], &["more"], vec![]),
        node("SequenceErase", &["more"], &["fewer"], vec![]),
        node("ConcatFromSequence", &["fewer"], &["y"], vec![int("axis", -1)]),
        node("SequenceLength", &["fewer"], &["n"], vec![]),
        node("Optional", &["fewer"], &["held"], vec![]),
        node("OptionalHasElement", &["held"], &["has"], vec![]),
    ];
    let mut main = graph(
        &[shaped("x", ElementType::Float, vec![dim(5)])],
        &nodes,
        &[
            unshaped("y", ElementType::Float),
            unshaped("n", ElementType::Int64),
            unshaped("has", ElementType::Bool),
        ],
    );
    let mut two = int64("two", &[2]);
    two.dims.clear();
    main.initializer = vec![two, int64("last", &[-1]), int64("zero", &[0])];
    let outputs = walk(model(21, main), vec![float(&[1.0, 2.0, 3.0, 4.0, 5.0])]).unwrap();
    assert_eq!(outputs[0], tensor1(&[5f32, 1.0, 2.0, 3.0, 4.0]));
    assert_eq!((&outputs[1], &outputs[2]), (&tensor0(3i64), &tensor0(true)));
}

#[test]
fn sequences_and_optionals_go_in_and_come_out() {
    use OnnxValue::{Optional, Sequence, Tensor};
    let nodes = [
        node("SequenceInsert", &["parts", "x"], &["more"], vec![]),
        node("SplitToSequence", &["x", "lengths"], &["pieces"], vec![]),
        node("Optional", &["more"], &["held"], vec![]),
        node("OptionalHasElement", &["nothing"], &["has"], vec![]),
    ];
    let names = ["more", "pieces", "held", "has"].map(untyped);
    let mut main = graph(&["parts", "x", "nothing"].map(untyped), &nodes, &names);
    main.initializer.push(int64("lengths", &[0, 2, 0]));
    let model = model(18, main);
    let model = Interpreter::of_proto(tract_onnx_cast::onnx(), model, None).expect("a model");
    let (tensor, parts) = (float(&[1.0, 2.0]), vec![float(&[3.0])]);
    let given = vec![Sequence(parts.clone()), Tensor(tensor.clone()), Optional(None)];
    let made = model.run_values(given).expect("outputs");
    let more = Sequence([parts, vec![tensor.clone()]].concat());
    let pieces = Sequence(vec![float(&[]), tensor, float(&[])]);
    let has = OnnxTensor::new(ElementType::Bool, tensor0(false)).expect("BOOL");
    assert_eq!(made, [more.clone(), pieces, Optional(Some(more.into())), Tensor(has)]);
}

#[test]
fn a_scan_may_run_backwards_along_any_axis() {
    let body = graph(
        &[untyped("sum"), untyped("part")],
        &[node("Add", &["sum", "part"], &["next"], vec![])],
        &[unshaped("next", ElementType::Float), unshaped("next", ElementType::Float)],
    );
    let attributes = vec![
        graph_attribute("body", body),
        int("num_scan_inputs", 1),
        ints("scan_input_axes", &[1]),
        ints("scan_input_directions", &[1]),
        ints("scan_output_axes", &[-1]),
    ];
    let main = graph(
        &[
            shaped("start", ElementType::Float, vec![dim(2)]),
            shaped("x", ElementType::Float, vec![dim(2), dim(3)]),
        ],
        &[node("Scan", &["start", "x"], &["sum", "sums"], attributes)],
        &[unshaped("sum", ElementType::Float), unshaped("sums", ElementType::Float)],
    );
    let x = tensor2(&[[1f32, 2.0, 4.0], [10.0, 20.0, 40.0]]);
    let x = OnnxTensor::new(ElementType::Float, x).expect("FLOAT");
    let outputs = walk(model(21, main), vec![float(&[0.0, 100.0]), x]).unwrap();
    assert_eq!(outputs[0], tensor1(&[7f32, 170.0]));
    assert_eq!(outputs[1], tensor2(&[[4f32, 6.0, 7.0], [140.0, 160.0, 170.0]]));
}

#[test]
fn errors_name_the_node_that_was_not_the_first_of_its_kind() {
    let gather = |name: &str, input: &str| {
        let mut gather = node("Gather", &["x", input], &[name], vec![]);
        gather.name = format!("node_{name}");
        gather
    };
    let mut main = graph(
        &[shaped("x", ElementType::Float, vec![dim(2)])],
        &[gather("first", "inside"), gather("second", "outside")],
        &[unshaped("first", ElementType::Float), unshaped("second", ElementType::Float)],
    );
    main.initializer = vec![int64("inside", &[1]), int64("outside", &[7])];
    let error = walk(model(21, main), vec![float(&[1.0, 2.0])]).unwrap_err().to_string();
    assert!(error.contains("node_second") && !error.contains("node_first"), "{error}");
}

#[test]
fn a_declaration_that_the_graph_contradicts_is_refused() {
    let main = graph(
        &[shaped("x", ElementType::Float, vec![dim(2)])],
        &[cast("x", ElementType::Float16, "half"), node("Neg", &["half"], &["y"], vec![])],
        &[unshaped("y", ElementType::Float)],
    );
    let error = walk(model(21, main), vec![float(&[1.0, 2.0])]).unwrap_err().to_string();
    let said = "node `Neg_y` (Neg): makes `y` FLOAT16, but the model declares it FLOAT";
    assert_eq!(error, said);
}

/// Converters leave the old type among what is declared of inner values.
#[test]
fn an_output_is_of_the_type_that_is_declared_as_its_own() -> tract_onnx_cast::Result<()> {
    let mut main = graph(
        &[shaped("x", ElementType::Float, vec![dim(2)])],
        &[node("Neg", &["x"], &["y"], vec![])],
        &[unshaped("y", ElementType::Float)],
    );
    main.value_info.push(unshaped("y", ElementType::Float16));
    let made = walk(model(21, main), vec![float(&[1.0, 2.0])])?;
    assert_eq!(made, [tensor1(&[-1.0f32, -2.0])]);
    Ok(())
}

#[test]
fn what_does_not_fit_is_one_line() {
    let body = graph(
        &[untyped("i"), untyped("go"), untyped("x")],
        &[],
        &[unshaped("go", ElementType::Bool), unshaped("x", ElementType::Float)],
    );
    let mut endless = graph(
        &[shaped("x", ElementType::Float, vec![dim(1)])],
        &[node("Loop", &["most", "", "x"], &["y"], vec![graph_attribute("body", body)])],
        &[unshaped("y", ElementType::Float)],
    );
    endless.initializer = vec![int64("most", &[i64::MAX])];
    let endless = model(21, endless);
    for (model, given, says) in [
        (endless, vec![float(&[0.0])], "node `Loop_y` (Loop): goes round more than"),
        (doubling(1), vec![], "takes 1 input (["),
    ] {
        let error = walk(model, given).unwrap_err();
        assert_eq!(error.is_endless(), says.contains("goes round"), "{error}");
        let error = error.to_string();
        assert!(error.contains(says) && !error.contains('\n'), "{error}");
    }
}

/// Notes what each node made, and has one value doubled for what is behind it.
#[derive(Default)]
struct Watcher {
    seen: Vec<String>,
    constants: usize,
    doubled: &'static str,
}

impl Observer for Watcher {
    fn node(
        &mut self,
        node: &NodeRun,
        outputs: &mut [Option<ObservedTensor>],
    ) -> tract_onnx_cast::Result<()> {
        for made in outputs.iter_mut().flatten() {
            self.seen.push(format!("{}/{} {}", made.graph, made.name, node.op_type));
            if &*made.name == self.doubled {
                let given = |input: &Option<ObservedTensor>| {
                    input.as_ref().map(|input| (input.element_type, made.tensor.clone()))
                };
                let inputs: Vec<_> = node.inputs.iter().map(given).collect();
                made.tensor = node.run_on(&inputs)?[0].clone().expect("a tensor").1;
            }
        }
        Ok(())
    }

    fn constant(&mut self, tensor: &mut ObservedTensor) -> tract_onnx_cast::Result<()> {
        assert!(tensor.is_constant);
        self.constants += 1;
        Ok(())
    }
}

/// The body of the loop runs three times, for 30, 60 and 120; once each step counts twice, for 60
/// and 240.
#[test]
fn a_run_is_watched_and_changed() {
    for (doubled, last) in [("", 120f32), ("twice", 240.0)] {
        let mut watcher = Watcher { doubled, ..Watcher::default() };
        let model = Interpreter::of_proto(tract_onnx_cast::onnx(), doubling(9), None);
        let outputs = model.expect("sound").run_observed(vec![float(&[15.0])], &mut watcher);
        let carried = outputs.expect("it runs").swap_remove(0).into_tensor();
        assert_eq!(carried, tensor1(&[last]));
        let steps = watcher.seen.iter().filter(|seen| seen.ends_with("/twice Add")).count();
        assert_eq!(steps, if doubled.is_empty() { 3 } else { 2 });
        assert!(watcher.constants > 0);
        assert!(
            watcher.seen.last().is_some_and(|seen| seen.starts_with('/')),
            "{:?}",
            watcher.seen
        );
    }
}

/// Has a node run on what it makes more of than there is room for, and goes on.
struct Greedy;

impl Observer for Greedy {
    fn node(
        &mut self,
        node: &NodeRun,
        _: &mut [Option<ObservedTensor>],
    ) -> tract_onnx_cast::Result<()> {
        let side = 1usize << 23;
        let held = |shape: [usize; 2]| Arc::new(Tensor::zero::<f32>(&shape).expect("a tensor"));
        let given = [[side, 1], [1, side]].map(|shape| Some((ElementType::Float, held(shape))));
        assert!(node.run_on(&given).is_err());
        Ok(())
    }
}

#[test]
fn a_run_ends_where_there_is_no_memory_for_what_its_observer_asks() {
    let sides = ["a", "b"].map(|name| shaped(name, ElementType::Float, vec![dim(1), dim(1)]));
    let product = node("MatMul", &["a", "b"], &["y"], vec![]);
    let product = graph(&sides, &[product], &[unshaped("y", ElementType::Float)]);
    let model = Interpreter::of_proto(tract_onnx_cast::onnx(), model(13, product), None);
    let one = || OnnxTensor::new(ElementType::Float, tensor2(&[[1f32]])).expect("a number");
    let error = model.expect("sound").run_observed(vec![one(), one()], &mut Greedy).unwrap_err();
    assert_eq!((error.kind(), error.node()), (ErrorKind::Memory, Some("MatMul_y")), "{error}");
}

/// What the casts of a model do when its plan runs, and when it runs node by node.
fn counted(path: &Path, inputs: &[Typed]) -> TractResult<[Vec<AuditRow>; 2]> {
    let onnx = tract_onnx_cast::onnx().with_half_arithmetic(HalfArithmetic::Widened);
    let loaded = onnx.clone().with_probes(true).load(path)?;
    let [planned, walked] = [loaded.audit(), loaded.audit()];
    let mut model = loaded.into_model();
    let run = || -> TractResult<()> {
        for (place, input) in inputs.iter().enumerate() {
            let fact = InferenceFact::dt_shape(input.tensor.datum_type(), input.tensor.shape());
            model.set_input_fact(place, fact)?;
        }
        let mut typed = model.into_typed()?;
        planned.watch(&mut typed)?;
        let given = inputs.iter().map(|input| input.tensor.clone().into_tvalue());
        typed.into_optimized()?.into_runnable()?.run(given.collect())?;
        Ok(())
    };
    without_panic(run)?;
    // As a model is read that runs in other ways as well.
    let interpreter = Interpreter::open(tract_onnx_cast::onnx(), path)?.built_by(onnx);
    interpreter.watch(&walked);
    let given = inputs.iter().map(|typed| OnnxTensor::new(typed.ty, typed.tensor.clone()));
    interpreter.run(given.collect::<Result<_, _>>()?)?;
    Ok([planned.rows(), walked.rows()])
}

#[test]
fn casts_count_as_in_plans() {
    let (mut wrong, mut equal) = (vec![], 0);
    for (name, folder) in all_cases() {
        let inputs = tensors(&data(&folder), "input");
        let Ok([planned, walked]) = counted(&folder.join("model.onnx"), &inputs) else { continue };
        for (planned, walked) in planned.iter().zip(&walked) {
            let told = |row: &AuditRow| (row.runs, row.stats.elements(), row.types);
            // Values may differ by the order of sums.
            let is_exact = !name.contains("real") || planned.stats == walked.stats;
            // A plan leaves out what nobody wants to know.
            if planned.runs == 0 || told(planned) == told(walked) && is_exact {
                equal += 1;
            } else {
                let [a, b] = [planned, walked].map(|row| format!("{:?}", told(row)));
                wrong.push(format!(
                    "{name}: {} {:?}: {a}, {b}",
                    planned.cast.node, planned.cast.kind
                ));
            }
        }
    }
    println!("{equal} equal");
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(equal > 500, "{equal}");
}
