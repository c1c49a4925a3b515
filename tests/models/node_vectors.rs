//! Single nodes of operators with many attributes, with what the standard gives: the vectors that
//! `scripts/operators` makes, in the lines that `node_vectors.py` describes. Each is run with its
//! inputs as data and as constants, with sizes that are numbers and symbols, typed and optimised.

use crate::common::cases::{Typed, root};
use crate::common::proto::{graph, imports, int, ints, model, node, set_dim, string, symbol};
use tract_nnef::framework::Nnef;
use tract_onnx::pb::attribute_proto::AttributeType;
use tract_onnx::pb::{AttributeProto, ModelProto, OperatorSetIdProto};
use tract_onnx::prelude::tract_ndarray::ArrayD;
use tract_onnx::prelude::*;
use tract_onnx_cast::interop::WithOnnxCast;
use tract_onnx_cast::interpreter::Interpreter;
use tract_onnx_cast::{Conversion, ElementType, OnnxTensor, Rules, onnx, tensor_proto};

/// How far a result may be off: the vectors are rounded from DOUBLE, and sums have no order.
const RELATIVE: f64 = 1e-5;
const ABSOLUTE: f64 = 2e-6;

/// A line of a file of vectors.
#[derive(Clone)]
struct Case {
    line: String,
    operator: String,
    opset: i64,
    attributes: Vec<AttributeProto>,
    inputs: Vec<Option<Typed>>,
    outputs: Vec<Option<Typed>>,
    /// What the message has where the node is refused.
    refused: Option<String>,
}

fn cases(file: &str) -> Vec<Case> {
    let path = root().join("tests/data").join(file);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
    text.lines().map(Case::of).collect()
}

impl Case {
    fn of(line: &str) -> Case {
        let [operator, opset, attributes, inputs, outputs] =
            line.split('\t').collect::<Vec<_>>()[..]
        else {
            panic!("not 5 columns: {line}")
        };
        let refused = outputs.strip_prefix("refused:").map(String::from);
        let tensors = |text: &str| text.split(' ').map(tensor).collect();
        Case {
            line: line.chars().take(250).collect(),
            operator: operator.into(),
            opset: opset.parse().unwrap(),
            attributes: attributes
                .split(';')
                .filter(|text| !text.is_empty())
                .map(attribute)
                .collect(),
            inputs: tensors(inputs),
            outputs: if refused.is_some() { vec![None] } else { tensors(outputs) },
            refused,
        }
    }

    /// The model of the node. `is_data` says which inputs are the model's, `name` what an axis of
    /// an input is called where its size is a symbol.
    fn model(
        &self,
        is_data: impl Fn(usize) -> bool,
        name: impl Fn(&Case, usize, usize) -> Option<String>,
    ) -> ModelProto {
        let names = |kind: &str, tensors: &[Option<Typed>]| -> Vec<String> {
            let name = |(at, tensor): (usize, &Option<Typed>)| {
                tensor.as_ref().map_or(String::new(), |_| format!("{kind}{at}"))
            };
            tensors.iter().enumerate().map(name).collect()
        };
        let (inputs, mut outputs) = (names("i", &self.inputs), names("o", &self.outputs));
        if self.refused.is_some() {
            outputs = vec!["o0".into()];
        }
        let strs = |names: &'_ [String]| -> Vec<String> { names.to_vec() };
        let (of_node, to_node) = (strs(&inputs), strs(&outputs));
        let of_node: Vec<&str> = of_node.iter().map(String::as_str).collect();
        let to_node: Vec<&str> = to_node.iter().map(String::as_str).collect();
        let mut made =
            graph(&[], &[node(&self.operator, &of_node, &to_node, self.attributes.clone())], &[]);
        for (at, tensor) in self.inputs.iter().enumerate() {
            let Some(Typed { ty, tensor }) = tensor else { continue };
            if !is_data(at) {
                made.initializer.push(tensor_proto::write(&inputs[at], *ty, tensor).unwrap());
                continue;
            }
            let shape: Vec<i64> = tensor.shape().iter().map(|size| *size as i64).collect();
            let mut value = crate::common::proto::value(&inputs[at], *ty, &shape);
            for axis in 0..shape.len() {
                if let Some(name) = name(self, at, axis) {
                    set_dim(&mut value, axis, symbol(&name));
                }
            }
            made.input.push(value);
        }
        for (at, name) in outputs.iter().enumerate().filter(|(_, name)| !name.is_empty()) {
            let input = self.inputs.iter().flatten().next().unwrap();
            let ty = self.outputs[at].as_ref().unwrap_or(input).ty;
            made.output.push(crate::common::proto::unshaped(name, ty));
        }
        let mut model = model(self.opset, made);
        if let Some((domain, _)) = self.operator.rsplit_once('.') {
            let version = if domain == "ai.onnx.ml" { 4 } else { 1 };
            let import = OperatorSetIdProto { domain: domain.into(), version };
            model.opset_import = [imports(self.opset), vec![import]].concat();
        }
        model
    }

    fn feeds(&self, is_data: impl Fn(usize) -> bool) -> TVec<TValue> {
        let data = self.inputs.iter().enumerate().filter(|(at, _)| is_data(*at));
        data.filter_map(|(_, input)| Some(input.as_ref()?.tensor.clone().into_tvalue())).collect()
    }

    fn check(&self, form: &str, got: TractResult<TVec<TValue>>) {
        let got = got.unwrap_or_else(|error| panic!("{form}: {error:#}\n{}", self.line));
        let want: Vec<&Typed> = self.outputs.iter().flatten().collect();
        assert_eq!(got.len(), want.len(), "{form}: {}", self.line);
        for (got, want) in got.into_iter().zip(want) {
            let got = Typed { ty: want.ty, tensor: got.into_tensor() };
            let is_type = got.tensor.datum_type() == want.tensor.datum_type();
            assert!(is_type && got.tensor.shape() == want.tensor.shape(), "{form}: {}", self.line);
            let [got, want] = [&got, want].map(crate::common::cases::numbers);
            for (got, want) in got.iter().zip(&want) {
                let is_near = got == want || (got - want).abs() <= ABSOLUTE + RELATIVE * want.abs();
                let is_same = is_near || got.is_nan() && want.is_nan();
                assert!(is_same, "{form}: {got} for {want}\n{}", self.line);
            }
        }
    }

    fn check_refused(&self, reason: &str, is_data: impl Fn(usize) -> bool) {
        let model = onnx().model_for_proto_model(&self.model(&is_data, |_, _, _| None));
        let outcome = model.and_then(|model| {
            model.into_optimized()?.into_runnable()?.run(self.feeds(is_data)).map(|_| ())
        });
        let error = outcome.err().unwrap_or_else(|| panic!("computed: {}", self.line));
        let text = format!("{error:#}");
        assert!(text.contains(reason), "{text}\n{}", self.line);
    }
}

fn tensor(text: &str) -> Option<Typed> {
    let (name, rest) = text.split_once('[')?;
    let (shape, rest) = rest.split_once(']').expect("a shape");
    let shape: Vec<usize> = shape
        .split(',')
        .filter(|size| !size.is_empty())
        .map(|size| size.parse().unwrap())
        .collect();
    let ty = ElementType::from_name(name).expect("a type");
    let count: usize = shape.iter().product();
    let numbers: Vec<f64> = if let Some(drawn) = rest.strip_prefix('@') {
        let (seed, scale) = drawn.split_once('*').expect("a seed and a scale");
        let (seed, scale): (usize, f64) = (seed.parse().unwrap(), scale.parse().unwrap());
        let code = |index: usize| ((1916 * index + 1093 * seed) % 2001) as f64 - 1000.0;
        (0..count).map(|index| code(index) / 1000.0 * scale).collect()
    } else {
        let elements = rest.strip_prefix('=').expect("elements").split(',');
        elements.filter(|text| !text.is_empty()).map(|text| text.parse().unwrap()).collect()
    };
    assert_eq!(numbers.len(), count, "{text}");
    let tensor = match ty {
        ElementType::Double => of(&shape, numbers),
        ElementType::Float => of(&shape, numbers.iter().map(|x| *x as f32).collect()),
        ElementType::Int8 => of(&shape, numbers.iter().map(|x| *x as i8).collect()),
        ElementType::Uint8 => of(&shape, numbers.iter().map(|x| *x as u8).collect()),
        ElementType::Float16 => {
            let doubles = of(&shape, numbers);
            doubles.cast_to::<f16>().expect("a number is cast").into_owned()
        }
        ElementType::BFloat16 => {
            let narrow = Conversion::new(ElementType::Double, ty, Rules::default());
            narrow.run(&of(&shape, numbers)).expect("a number is cast")
        }
        ElementType::Int32 => of(&shape, numbers.iter().map(|x| *x as i32).collect()),
        ElementType::Int64 => of(&shape, numbers.iter().map(|x| *x as i64).collect()),
        ElementType::Bool => of(&shape, numbers.iter().map(|x| *x != 0.0).collect()),
        _ => panic!("{ty} is not read"),
    };
    Some(Typed { ty, tensor })
}

fn of<T: tract_onnx::prelude::Datum>(shape: &[usize], elements: Vec<T>) -> Tensor {
    ArrayD::from_shape_vec(shape, elements).unwrap().into()
}

fn attribute(text: &str) -> AttributeProto {
    let (name, value) = text.split_once('=').expect("a name");
    let (kind, value) = value.split_once(':').expect("a kind");
    let list = || value.split(',').filter(|text| !text.is_empty());
    let empty = |ty: AttributeType| AttributeProto {
        name: name.into(),
        r#type: ty as i32,
        ..Default::default()
    };
    match kind {
        "i" => int(name, value.parse().unwrap()),
        "is" => ints(name, &list().map(|text| text.parse().unwrap()).collect::<Vec<i64>>()),
        "f" => crate::common::proto::float(name, value.parse().unwrap()),
        "fs" => {
            let floats = list().map(|text| text.parse().unwrap()).collect();
            AttributeProto { floats, ..empty(AttributeType::Floats) }
        }
        "s" => string(name, value),
        "ss" => {
            let strings = list().map(|text| text.into()).collect();
            AttributeProto { strings, ..empty(AttributeType::Strings) }
        }
        _ => panic!("{kind} is no attribute's type"),
    }
}

fn typed(model: &ModelProto) -> TractResult<TypedModel> {
    onnx().model_for_proto_model(model)?.into_typed()
}

/// Runs a case with all inputs as data, and with all but the first as constants.
fn run(case: &Case) {
    if let Some(reason) = &case.refused {
        return case.check_refused(reason, |_| true);
    }
    let model = case.model(|_| true, |_, _, _| None);
    let plan = typed(&model).and_then(|model| model.into_runnable());
    case.check("typed", plan.and_then(|plan| plan.run(case.feeds(|_| true))));
    let plan = typed(&model).and_then(|model| model.into_optimized()?.into_runnable());
    case.check("optimised", plan.and_then(|plan| plan.run(case.feeds(|_| true))));
    run_with_symbols(case, |at| at == 0, |_, _, _| None);
}

fn run_with_symbols(
    case: &Case,
    is_data: impl Fn(usize) -> bool,
    name: impl Fn(&Case, usize, usize) -> Option<String>,
) {
    let plan = typed(&case.model(&is_data, name));
    let plan = plan.and_then(|model| model.into_optimized()?.into_runnable());
    case.check("symbols", plan.and_then(|plan| plan.run(case.feeds(is_data))));
}

#[test]
fn recurrent_layers_are_as_specified() {
    let cases = cases("recurrent.tsv");
    for case in &cases {
        run(case);
        if case.refused.is_none() {
            for (time, batch) in [(true, true), (true, false), (false, true)] {
                // Whatever has a batch is data, beside x the lengths and the states.
                let is_data = |at: usize| matches!(at, 0 | 4..=6);
                run_with_symbols(case, is_data, |case, at, axis| {
                    let of_layout = case.attributes.iter().find(|given| given.name == "layout");
                    let is_batch_first = of_layout.is_some_and(|layout| layout.i == 1);
                    let of_batch = if is_batch_first || at == 4 { 0 } else { 1 };
                    let of_time = if is_batch_first { 1 } else { 0 };
                    let is_time = time && at == 0 && axis == of_time;
                    let is_batch = batch && axis == of_batch;
                    is_batch.then(|| "N".into()).or(is_time.then(|| "T".into()))
                });
            }
        }
    }
    assert!(cases.len() > 300, "{} cases", cases.len());
}

#[test]
fn attention_is_as_specified() {
    let cases = cases("attention.tsv");
    for case in &cases {
        run(case);
        // Batch and lengths are symbols, those of the past and of a mask too.
        let name = |case: &Case, at: usize, axis: usize| {
            let rank = case.inputs[at].as_ref().unwrap().tensor.shape().len();
            let name = match (at, axis) {
                (0..=2 | 4..=6, 0) => "N",
                (0, axis) if axis + 2 == rank => "S",
                (1 | 2, axis) if axis + 2 == rank => "T",
                (4 | 5, 2) => "P",
                _ => return None,
            };
            Some(name.to_string())
        };
        if case.refused.is_none() {
            run_with_symbols(case, |_| true, name);
        }
    }
    assert!(cases.len() > 60, "{} cases", cases.len());
}

/// The second and later operands of an Einsum are data too.
#[test]
fn single_operators_are_as_specified() {
    let cases = cases("singles.tsv");
    for case in &cases {
        if let Some(reason) = &case.refused {
            case.check_refused(reason, |at| at == 0);
            continue;
        }
        if case.operator == "Einsum" {
            run(case);
            continue;
        }
        let model = case.model(|at| at == 0, |_, _, _| None);
        let plan = typed(&model).and_then(|model| model.into_runnable());
        case.check("typed", plan.and_then(|plan| plan.run(case.feeds(|at| at == 0))));
        run_with_symbols(case, |at| at == 0, |_, _, _| None);
    }
    assert!(cases.len() > 80, "{} cases", cases.len());
}

/// In a plan, where there is one, with all but the first input as constants, and node by node with
/// all of them as data.
#[test]
fn compositions_are_as_specified() {
    let cases = cases("compositions.tsv");
    for case in &cases {
        if let Some(reason) = &case.refused {
            case.check_refused(reason, |at| at == 0);
            continue;
        }
        let operator = case.operator.rsplit('.').next().unwrap();
        if !Interpreter::runs_alone(operator) {
            run_with_symbols(case, |at| at == 0, |_, _, _| None);
        }
        let model = Interpreter::of_proto(onnx(), case.model(|_| true, |_, _, _| None), None);
        let inputs = case.inputs.iter().flatten();
        let inputs = inputs.map(|given| OnnxTensor::new(given.ty, given.tensor.clone()).unwrap());
        let made = model.and_then(|model| model.run(inputs.collect()));
        let made = made.map(|made| made.into_iter().map(|y| y.into_tensor().into_tvalue()));
        case.check("node by node", made.map(Iterator::collect).map_err(Into::into));
    }
    assert!(cases.len() > 100, "{} cases", cases.len());
}

#[test]
fn a_layer_and_the_same_run_backwards_differ() {
    let cases = cases("recurrent.tsv");
    let is = |case: &&Case, way: &str, operator: &str| {
        let names = ["hidden_size", "direction"];
        let way_of = case.attributes.iter().find(|attribute| attribute.name == "direction");
        case.operator == operator
            && case.attributes.iter().all(|attribute| names.contains(&&*attribute.name))
            && way_of.map_or("forward".as_bytes(), |attribute| &attribute.s) == way.as_bytes()
    };
    for operator in ["RNN", "GRU", "LSTM"] {
        let [forward, reverse] = ["forward", "reverse"]
            .map(|way| cases.iter().find(|case| is(case, way, operator)).unwrap());
        let first = |case: &Case| crate::common::cases::numbers(case.outputs[0].as_ref().unwrap());
        assert!(first(forward)[0] != first(reverse)[0], "{operator}");
    }
}

/// The names of operators that stand in the place of tract's own.
const OURS: &[&str] = &["RNN", "GRU", "LSTM", "Attention", "Diagonal", "MaxPool"];

#[test]
fn nnef_has_these_operators() {
    let nnef: Nnef = tract_nnef::nnef().with_onnx_cast();
    let is_ours =
        |model: &TypedModel| model.nodes().iter().any(|node| OURS.contains(&&*node.op.name()));
    let cases = [cases("recurrent.tsv"), cases("attention.tsv"), cases("singles.tsv")].concat();
    let mut count = 0;
    for case in cases.iter().filter(|case| case.refused.is_none()).step_by(2) {
        let model = typed(&case.model(|at| at == 0, |_, _, _| None));
        let model = model.and_then(|model| model.into_decluttered()).unwrap();
        if !is_ours(&model) {
            continue;
        }
        count += 1;
        let bytes =
            nnef.write_to_tar(&model, vec![]).unwrap_or_else(|e| panic!("{e:#} {}", case.line));
        let back = nnef.model_for_read(&mut &*bytes).and_then(|back| back.into_optimized());
        let back = back.unwrap_or_else(|error| panic!("{error:#}\n{}", case.line));
        case.check("NNEF", back.into_runnable().unwrap().run(case.feeds(|at| at == 0)));
    }
    assert!(count > 50, "{count} cases");
}
