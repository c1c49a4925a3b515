//! Nodes of which ONNX's text leaves open what they mean: what ONNX Runtime makes of them is what
//! comes out, in a plan and node by node. What it refuses is an error of one line.

use tract_onnx::pb::{AttributeProto, ModelProto};
use tract_onnx::prelude::*;
use tract_onnx::tract_core::internal::Approximation;
use tract_onnx_cast::ElementType::{Bool, Float, Int64, String as Text, Uint8};
use tract_onnx_cast::interpreter::Interpreter;
use tract_onnx_cast::untrusted::without_panic;
use tract_onnx_cast::{ElementType, OnnxTensor, onnx, tensor_proto};

use crate::common::proto::{
    dim, float, graph, graph_attribute, imports, int, ints, model, node, shaped, string, unshaped,
    untyped,
};

/// A node of inputs by their types, the constants last.
struct Case {
    op: &'static str,
    opset: i64,
    attributes: Vec<AttributeProto>,
    inputs: Vec<(ElementType, Tensor)>,
    constants: usize,
    outputs: Vec<ElementType>,
}

fn case(op: &'static str, opset: i64, attributes: Vec<AttributeProto>) -> Case {
    Case { op, opset, attributes, inputs: vec![], constants: 0, outputs: vec![Float] }
}

impl Case {
    fn of(mut self, ty: ElementType, tensor: Tensor) -> Case {
        self.inputs.push((ty, tensor));
        self
    }

    fn constant(mut self, ty: ElementType, tensor: Tensor) -> Case {
        self.constants += 1;
        self.of(ty, tensor)
    }

    fn makes(self, outputs: &[ElementType]) -> Case {
        Case { outputs: outputs.into(), ..self }
    }

    fn model(&self) -> ModelProto {
        let names: Vec<String> = (0..self.inputs.len()).map(|place| format!("i{place}")).collect();
        let given: Vec<&str> = names.iter().map(String::as_str).collect();
        let outputs: Vec<String> =
            (0..self.outputs.len()).map(|place| format!("o{place}")).collect();
        let made: Vec<&str> = outputs.iter().map(String::as_str).collect();
        let outputs: Vec<_> =
            made.iter().zip(&self.outputs).map(|(name, ty)| unshaped(name, *ty)).collect();
        let mut graph =
            graph(&[], &[node(self.op, &given, &made, self.attributes.clone())], &outputs);
        let data = self.inputs.len() - self.constants;
        for (place, (name, (ty, tensor))) in given.iter().zip(&self.inputs).enumerate() {
            if place >= data {
                graph.initializer.push(tensor_proto::write(name, *ty, tensor).expect("a tensor"));
                continue;
            }
            let sizes = tensor.shape().iter().map(|size| dim(*size as i64));
            graph.input.push(shaped(name, *ty, sizes.collect()));
        }
        let mut model = model(self.opset, graph);
        for (domain, version) in [("ai.onnx.ml", 1), ("com.microsoft", 1)] {
            let mut import = imports(version);
            import[0].domain = domain.into();
            model.opset_import.extend(import);
        }
        model
    }

    fn data(&self) -> &[(ElementType, Tensor)] {
        &self.inputs[..self.inputs.len() - self.constants]
    }

    fn planned(&self) -> Result<Vec<Tensor>, String> {
        let run = || {
            let plan = onnx().model_for_proto_model(&self.model())?;
            let plan = plan.into_optimized()?.into_runnable()?;
            let inputs = self.data().iter().map(|(_, tensor)| tensor.clone().into_tvalue());
            plan.run(inputs.collect())
        };
        let made = without_panic(run).map_err(|error| format!("{error:#}"))?;
        Ok(made.into_iter().map(TValue::into_tensor).collect())
    }

    fn walked(&self) -> Result<Vec<Tensor>, String> {
        let run = || {
            let nodes = Interpreter::of_proto(onnx(), self.model(), None)?;
            let given = self.data().iter().map(|(ty, tensor)| OnnxTensor::new(*ty, tensor.clone()));
            nodes.run(given.collect::<Result<_, _>>()?)
        };
        let made = run().map_err(|error| error.to_string())?;
        Ok(made.into_iter().map(OnnxTensor::into_tensor).collect())
    }

    #[track_caller]
    fn is(self, expected: &[Tensor]) {
        self.is_node_by_node(expected);
        let made = self.planned().unwrap_or_else(|error| panic!("{}, a plan: {error}", self.op));
        self.are("a plan", &made, expected);
    }

    #[track_caller]
    fn is_node_by_node(&self, expected: &[Tensor]) {
        let made = self.walked().unwrap_or_else(|error| panic!("{}: {error}", self.op));
        self.are("node by node", &made, expected);
    }

    #[track_caller]
    fn are(&self, engine: &str, made: &[Tensor], expected: &[Tensor]) {
        assert_eq!(made.len(), expected.len(), "{}", self.op);
        for (made, expected) in made.iter().zip(expected) {
            let is_same =
                made == expected || made.close_enough(expected, Approximation::Close).is_ok();
            assert!(is_same, "{}, {engine}: {made:?} is not {expected:?}", self.op);
        }
    }

    /// Is refused by both with one line that has all of these words.
    #[track_caller]
    fn refuses(self, words: &[&str]) {
        for (engine, made) in [("a plan", self.planned()), ("node by node", self.walked())] {
            let error = made.expect_err(engine);
            let name = format!("node `{}_o0`", self.op.rsplit('.').next().unwrap_or_default());
            let is_told = words.iter().all(|word| error.contains(word)) && error.contains(&name);
            assert!(is_told && !error.contains("index out of"), "{engine}: {error}");
            assert_eq!(error.matches(&name).count(), 1, "{engine}: {error}");
        }
    }
}

fn floats(shape: &[usize], values: &[f32]) -> Tensor {
    Tensor::from_shape(shape, values).expect("as many numbers")
}

fn six() -> Tensor {
    floats(&[2, 3], &[1., 2., 3., 4., 5., 6.])
}

#[test]
fn axes_of_none_are_all_axes() {
    let none = || ints("axes", &[]);
    for op in ["ReduceSum", "ReduceL1"] {
        case(op, 11, vec![none()]).of(Float, six()).is(&[floats(&[1, 1], &[21.])]);
        let flat = vec![none(), int("keepdims", 0)];
        case(op, 11, flat).of(Float, six()).is(&[tensor0(21f32)]);
    }
    case("ReduceMax", 17, vec![none()]).of(Float, six()).is(&[floats(&[1, 1], &[6.])]);
    let column = floats(&[1, 3, 1], &[1., 2., 3.]);
    case("Squeeze", 11, vec![none()]).of(Float, column.clone()).is(&[tensor1(&[1f32, 2., 3.])]);
    let given = case("Squeeze", 13, vec![]).of(Float, column);
    given.constant(Int64, tensor1::<i64>(&[])).is(&[tensor1(&[1f32, 2., 3.])]);
}

#[test]
fn an_axis_that_is_there_twice_is_reduced_once() {
    let twice = vec![ints("axes", &[1, -1]), int("keepdims", 0)];
    case("ReduceSum", 11, twice).of(Float, six()).is(&[tensor1(&[6f32, 15.])]);
    let given = case("ReduceMax", 18, vec![int("keepdims", 0)]).of(Float, six());
    given.constant(Int64, tensor1(&[0i64, -2])).is(&[tensor1(&[4f32, 5., 6.])]);
}

#[test]
fn windows_of_empty_lists() {
    let x = || floats(&[1, 1, 3], &[1., 2., 4.]);
    let lists = || vec![ints("strides", &[]), ints("pads", &[]), ints("dilations", &[])];
    let pooled = |op| {
        let attributes = [lists(), vec![ints("kernel_shape", &[2])]].concat();
        case(op, 19, attributes).of(Float, x())
    };
    pooled("AveragePool").is(&[floats(&[1, 1, 2], &[1.5, 3.])]);
    pooled("MaxPool").is(&[floats(&[1, 1, 2], &[2., 4.])]);
    let convolved = |op| case(op, 19, lists()).of(Float, x());
    let kernel = || floats(&[1, 1, 2], &[1., 1.]);
    convolved("Conv").constant(Float, kernel()).is(&[floats(&[1, 1, 2], &[3., 6.])]);
    let spread = floats(&[1, 1, 4], &[1., 3., 6., 4.]);
    convolved("ConvTranspose").constant(Float, kernel()).is(&[spread]);
    let refused = case("AveragePool", 19, vec![ints("kernel_shape", &[])]).of(Float, x());
    refused.refuses(&["kernel_shape", "19"]);
}

/// A tree of one question, whether the number is 0 or less.
fn tree(ids: &[i64], weights: &[f32], bases: &[f32], transform: &str) -> Case {
    let list = |name: &str, floats: &[f32]| AttributeProto {
        floats: floats.into(),
        r#type: 6,
        ..ints(name, &[])
    };
    let modes = ["BRANCH_LEQ", "LEAF", "LEAF"].map(|mode| mode.as_bytes().to_vec()).to_vec();
    let mut attributes = vec![
        ints("nodes_treeids", &[0, 0, 0]),
        ints("nodes_nodeids", &[0, 1, 2]),
        ints("nodes_featureids", &[0, 0, 0]),
        list("nodes_values", &[0., 0., 0.]),
        AttributeProto { strings: modes, r#type: 8, ..ints("nodes_modes", &[]) },
        ints("nodes_truenodeids", &[1, 0, 0]),
        ints("nodes_falsenodeids", &[2, 0, 0]),
        ints("class_treeids", &[0, 0]),
        ints("class_nodeids", &[1, 2]),
        ints("class_ids", ids),
        list("class_weights", weights),
        ints("classlabels_int64s", &[10, 20]),
        string("post_transform", transform),
    ];
    if !bases.is_empty() {
        attributes.push(list("base_values", bases));
    }
    let case = case("ai.onnx.ml.TreeEnsembleClassifier", 21, attributes);
    case.of(Float, floats(&[2, 1], &[-1., 1.])).makes(&[Int64, Float])
}

/// What ONNX Runtime 1.31 makes of two classes whose weights are of one.
#[test]
fn two_classes_of_trees_for_one() {
    let is = |case: Case, labels: [i64; 2], scores: [f32; 4]| {
        case.is(&[tensor1(&labels), floats(&[2, 2], &scores)]);
    };
    let share = [0.9, 0.1];
    is(tree(&[0, 0], &share, &[], "NONE"), [20, 10], [0.1, 0.9, 0.9, 0.1]);
    is(tree(&[0, 0], &share, &[0., 0.], "NONE"), [20, 10], [0.9, 0., 0.1, 0.]);
    is(tree(&[0, 0], &share, &[0.9, -0.8], "NONE"), [20, 20], [1.8, 0., 1., 0.]);
    let of_first = [0.731_058_6, 0.5, 0.549_834, 0.5];
    is(tree(&[0, 0], &share, &[0.1, 0.2], "LOGISTIC"), [20, 10], of_first);
    let shares = [0.731_058_6, 0.268_941_4, 0.549_834, 0.450_166];
    is(tree(&[0, 0], &share, &[0.1, 0.2], "SOFTMAX"), [20, 10], shares);
    is(tree(&[1, 1], &share, &[], "NONE"), [20, 10], [0., 0.9, 0., 0.1]);
    is(tree(&[1, 1], &[0.9, -0.3], &[0.25], "NONE"), [20, 10], [0., 0.9, 0., -0.3]);
    is(tree(&[1, 1], &[0.9, -0.3], &[0.1, 0.2], "NONE"), [20, 20], [0., 0.2, 0., 0.2]);
}

#[test]
fn a_mask_of_numbers() {
    for opset in [6, 7] {
        let ones = floats(&[2, 3], &[1.; 6]);
        let given = case("Dropout", opset, vec![float("ratio", 0.3)]).of(Float, six());
        given.makes(&[Float, Float]).is(&[six(), ones]);
    }
}

#[test]
fn what_the_cosines_have_not_is_an_error() {
    let x = || floats(&[1, 1, 1, 4], &[1., 2., 3., 4.]);
    let rows = |rows: usize| floats(&[rows, 2], &vec![0.5; rows * 2]);
    let words = ["index 7", "RotaryEmbedding"];
    for count in [7, 0] {
        let onnx = case("RotaryEmbedding", 23, vec![]).of(Float, x());
        let onnx = onnx.of(Float, rows(count)).of(Float, rows(count));
        onnx.of(Int64, Tensor::from_shape(&[1, 1], &[7i64]).unwrap()).refuses(&words);
    }
}

#[test]
fn inputs_that_are_missing_are_named() {
    let row = || floats(&[1, 2, 4], &[0.5; 8]);
    let attributes = vec![int("num_heads", 1)];
    let keys = case("com.microsoft.MultiHeadAttention", 21, attributes).of(Float, row());
    keys.of(Float, row()).refuses(&["lacks input 2"]);
}

#[test]
fn lists_of_n_grams() {
    let attributes = |least: i64, skipped: i64| {
        vec![
            int("min_gram_length", least),
            int("max_gram_length", 1),
            int("max_skip_count", skipped),
            string("mode", "TF"),
            ints("ngram_counts", &[0]),
            ints("ngram_indexes", &[0, 1]),
            ints("pool_int64s", &[2, 3]),
        ]
    };
    let words = || tensor1(&[2i64, 3, 3]);
    let endless = case("TfIdfVectorizer", 9, attributes(i64::MIN, 0)).of(Int64, words());
    endless.is_node_by_node(&[tensor1(&[1f32, 2.])]);
    let skipped = case("TfIdfVectorizer", 9, attributes(1, i64::MIN)).of(Int64, words());
    let error = skipped.walked().expect_err("no such number");
    assert!(error.contains("TfIdfVectorizer_o0") && error.contains("max_skip_count"), "{error}");
}

#[test]
fn a_softmax_narrower_than_its_scores() {
    let row = || floats(&[1, 1, 2, 2], &[1., 2., 3., 4.]);
    for precision in [1, 10, 16] {
        let attributes = vec![int("softmax_precision", precision)];
        let plain = case("Attention", 23, vec![]).of(Float, row()).of(Float, row());
        let expected = plain.of(Float, row()).walked().expect("a result");
        let given = case("Attention", 23, attributes).of(Float, row()).of(Float, row());
        given.of(Float, row()).is(&expected);
    }
}

#[test]
fn windows_of_no_elements() {
    for op in ["HannWindow", "HammingWindow", "BlackmanWindow"] {
        case(op, 17, vec![]).constant(Int64, tensor0(0i64)).is(&[tensor1::<f32>(&[])]);
    }
}

#[test]
fn labels_by_their_places() {
    let classes = ["a", "b", "c"].map(|class| class.as_bytes().to_vec()).to_vec();
    let classes =
        || AttributeProto { strings: classes.clone(), r#type: 8, ..ints("classes_strings", &[]) };
    let text = |texts: &[&str]| tensor1(&texts.iter().map(|x| x.to_string()).collect::<Vec<_>>());
    let places = case("ai.onnx.ml.LabelEncoder", 21, vec![classes(), int("default_int64", 7)]);
    let places = places.of(Text, text(&["a", "b", "z"])).makes(&[Int64]);
    places.is_node_by_node(&[tensor1(&[0i64, 1, 7])]);
    let texts = case("ai.onnx.ml.LabelEncoder", 21, vec![classes(), string("default_string", "?")]);
    let texts = texts.of(Int64, tensor1(&[2i64, 3])).makes(&[Text]);
    texts.is_node_by_node(&[text(&["c", "?"])]);
}

#[test]
fn truths_are_put_together() {
    let data = || tensor1(&[false, true, true]);
    let updates = || tensor1(&[true, false, true]);
    for (reduction, expected) in [("add", [true, true, true]), ("mul", [false, false, true])] {
        let with = vec![string("reduction", reduction)];
        let elements = case("ScatterElements", 18, with.clone()).of(Bool, data());
        let elements = elements.of(Int64, tensor1(&[0i64, 1, 2])).of(Bool, updates());
        elements.makes(&[Bool]).is(&[tensor1(&expected)]);
        let rows = Tensor::from_shape(&[3, 1], &[0i64, 1, 2]).expect("indices");
        let nd = case("ScatterND", 18, with).of(Bool, data()).of(Int64, rows);
        nd.of(Bool, updates()).makes(&[Bool]).is(&[tensor1(&expected)]);
    }
}

/// An attribute that is computed with other values is told with its node once.
#[test]
fn a_refused_value_names_its_node_once() {
    let normal = case("ai.onnx.ml.LinearClassifier", 21, vec![string("post_transform", "PROBIT")]);
    normal.of(Float, six()).refuses(&["post_transform"]);
}

#[test]
fn lists_of_axes_of_a_resize() {
    let scales = tensor1(&[1f32, 2.]);
    let with = vec![ints("axes", &[]), string("mode", "nearest")];
    let mut given = case("Resize", 18, with).of(Float, six()).constant(Float, tensor1::<f32>(&[]));
    given = given.constant(Float, scales);
    let rows = [1., 1., 2., 2., 3., 3., 4., 4., 5., 5., 6., 6.];
    given.is(&[floats(&[2, 6], &rows)]);
}

/// Version 8 has a batch axis and `directions`, neither of which is computed; the others have not.
#[test]
fn directions_of_a_scan() {
    let body = || {
        let nodes = [node("Add", &["s", "x"], &["t"], vec![])];
        graph(&[untyped("s"), untyped("x")], &nodes, &[unshaped("t", Float)])
    };
    for (opset, words) in [(8, "batch axis"), (9, "`directions`, which opset 9")] {
        let list = vec![graph_attribute("body", body()), ints("directions", &[1])];
        let list = [list, vec![int("num_scan_inputs", 1)]].concat();
        let nodes = [node("Scan", &["", "a", "b"][usize::from(opset > 8)..], &["y"], list)];
        let inputs = ["a", "b"].map(|name| shaped(name, Float, vec![dim(1), dim(2)]));
        let model = model(opset, graph(&inputs, &nodes, &[unshaped("y", Float)]));
        let given = || OnnxTensor::new(Float, floats(&[1, 2], &[1., 2.])).expect("a tensor");
        let nodes = Interpreter::of_proto(onnx(), model, None);
        let error = nodes.and_then(|nodes| nodes.run(vec![given(), given()]));
        let error = error.expect_err("no Scan").to_string();
        assert!(error.contains(words) && error.contains("Scan_y"), "{error}");
    }
}

/// 2.5 / 3 − 0.5 is a third less what a FLOAT rounds, of which 88.999995 is made, and 89 by sums of
/// FLOATs.
#[test]
fn whole_numbers_stay_whole_where_they_are_resized() {
    let given = case("Resize", 19, vec![string("mode", "linear")]);
    let given = given.of(Uint8, tensor1(&[11u8, 245]).into_shape(&[1, 2]).expect("a row"));
    let given = given.constant(Float, tensor1::<f32>(&[])).constant(Float, tensor1(&[1f32, 3.]));
    let row = tensor1(&[11u8, 11, 89, 167, 245, 245]).into_shape(&[1, 6]).expect("a row");
    given.makes(&[Uint8]).is(&[row]);
}
