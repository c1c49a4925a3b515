//! The operators that stand in the place of tract's own, where tract computes something else: each
//! with its inputs as data and as constants, with concrete and with symbolic sizes, typed and
//! optimised.

use tract_nnef::framework::Nnef;
use tract_onnx::Onnx;
use tract_onnx::pb::attribute_proto::AttributeType;
use tract_onnx::pb::tensor_shape_proto::{Dimension, dimension::Value as Size};
use tract_onnx::pb::type_proto::{self, Value};
use tract_onnx::pb::{
    AttributeProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorShapeProto,
    TypeProto, ValueInfoProto,
};
use tract_onnx::prelude::tract_ndarray::ArrayD;
use tract_onnx::prelude::*;
use tract_onnx_cast::interop::WithOnnxCast;
use tract_onnx_cast::{CastOnnx, ElementType, onnx, tensor_proto};

/// Numbers that 32 bits or a FLOAT do not have, and their neighbours.
const WIDE: [i64; 16] = [
    i64::MIN,
    i64::MIN + 1,
    -(1 << 53) - 1,
    -(1 << 33),
    -(1 << 31) - 1,
    -(1 << 31),
    -7,
    -1,
    1,
    5,
    (1 << 31) - 1,
    1 << 31,
    (1 << 32) + 1,
    (1 << 53) + 1,
    i64::MAX - 1,
    i64::MAX,
];

fn attribute(name: &str, r#type: AttributeType) -> AttributeProto {
    AttributeProto { name: name.into(), r#type: r#type as i32, ..Default::default() }
}

fn int(name: &str, i: i64) -> AttributeProto {
    AttributeProto { i, ..attribute(name, AttributeType::Int) }
}

fn ints(name: &str, ints: &[i64]) -> AttributeProto {
    AttributeProto { ints: ints.to_vec(), ..attribute(name, AttributeType::Ints) }
}

fn floats(name: &str, floats: &[f32]) -> AttributeProto {
    AttributeProto { floats: floats.to_vec(), ..attribute(name, AttributeType::Floats) }
}

fn float(name: &str, f: f32) -> AttributeProto {
    AttributeProto { f, ..attribute(name, AttributeType::Float) }
}

fn text(name: &str, text: &str) -> AttributeProto {
    AttributeProto { s: text.into(), ..attribute(name, AttributeType::String) }
}

fn texts(name: &str, texts: &[&str]) -> AttributeProto {
    let strings = texts.iter().map(|text| text.as_bytes().to_vec()).collect();
    AttributeProto { strings, ..attribute(name, AttributeType::Strings) }
}

fn graph_of(name: &str, graph: GraphProto) -> AttributeProto {
    AttributeProto { g: Some(graph), ..attribute(name, AttributeType::Graph) }
}

fn node(op: &str, inputs: &[&str], outputs: &[&str], attributes: &[AttributeProto]) -> NodeProto {
    NodeProto {
        name: format!("the_{}", op.to_lowercase()),
        op_type: op.into(),
        input: inputs.iter().map(|name| name.to_string()).collect(),
        output: outputs.iter().map(|name| name.to_string()).collect(),
        attribute: attributes.to_vec(),
        ..Default::default()
    }
}

fn value(name: &str, ty: DatumType, sizes: Option<Vec<Size>>) -> ValueInfoProto {
    let dim = |size| Dimension { value: Some(size), ..Default::default() };
    let shape = sizes.map(|sizes| TensorShapeProto { dim: sizes.into_iter().map(dim).collect() });
    let elem_type = ElementType::native(ty).expect("a type of tract's") as i32;
    let tensor = type_proto::Tensor { elem_type, shape };
    let r#type = TypeProto { value: Some(Value::TensorType(tensor)), ..Default::default() };
    ValueInfoProto { name: name.into(), r#type: Some(r#type), ..Default::default() }
}

/// How a model has its inputs.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Form {
    Data,
    Symbolic,
    Constants,
}

const FORMS: [Form; 3] = [Form::Data, Form::Symbolic, Form::Constants];

/// Nodes whose inputs have names, and which make `y` and perhaps more.
#[derive(Clone)]
struct Case {
    nodes: Vec<NodeProto>,
    inputs: Vec<(&'static str, Tensor)>,
    /// Inputs that are constants in every form.
    fixed: Vec<(&'static str, Tensor)>,
    outputs: Vec<(&'static str, DatumType)>,
    opset: i64,
}

impl Case {
    fn new(nodes: &[NodeProto], inputs: &[(&'static str, Tensor)], output: DatumType) -> Case {
        Case {
            nodes: nodes.to_vec(),
            inputs: inputs.to_vec(),
            fixed: vec![],
            outputs: vec![("y", output)],
            opset: 21,
        }
    }

    fn fixed(mut self, name: &'static str, tensor: Tensor) -> Case {
        self.fixed.push((name, tensor));
        self
    }

    fn opset(mut self, opset: i64) -> Case {
        self.opset = opset;
        self
    }

    fn model(&self, form: Form) -> ModelProto {
        let mut graph =
            GraphProto { name: "g".into(), node: self.nodes.clone(), ..Default::default() };
        let initializer = |(name, tensor): &(&str, Tensor)| {
            let ty = ElementType::native(tensor.datum_type()).unwrap();
            tensor_proto::write(name, ty, tensor).unwrap()
        };
        graph.initializer.extend(self.fixed.iter().map(initializer));
        for (name, tensor) in &self.inputs {
            if form == Form::Constants {
                graph.initializer.push(initializer(&(name, tensor.clone())));
                continue;
            }
            // The first size of the first input, and of those that have its shape.
            let first = self.inputs.first().map(|(_, tensor)| tensor.shape());
            let has_symbol = form == Form::Symbolic && first == Some(tensor.shape());
            let size = |(axis, len): (usize, &usize)| match axis {
                0 if has_symbol => Size::DimParam("N".into()),
                _ => Size::DimValue(*len as i64),
            };
            let sizes = tensor.shape().iter().enumerate().map(size).collect();
            graph.input.push(value(name, tensor.datum_type(), Some(sizes)));
        }
        graph.output.extend(self.outputs.iter().map(|(name, ty)| value(name, *ty, None)));
        let versions = [("", self.opset), ("ai.onnx.ml", 3)];
        let opset =
            |(domain, version): (&str, i64)| OperatorSetIdProto { domain: domain.into(), version };
        ModelProto {
            ir_version: 10,
            opset_import: versions.map(opset).to_vec(),
            graph: Some(graph),
            ..Default::default()
        }
    }

    fn outputs_of(&self, model: TypedModel, form: Form) -> TractResult<Vec<Tensor>> {
        let inputs = self.inputs.iter().filter(|_| form != Form::Constants);
        let inputs = inputs.map(|(_, tensor)| tensor.clone().into_tvalue()).collect();
        let outputs = model.into_runnable()?.run(inputs)?;
        Ok(outputs.into_iter().map(TValue::into_tensor).collect())
    }

    fn typed(&self, form: Form) -> TractResult<TypedModel> {
        onnx().model_for_proto_model(&self.model(form))?.into_typed()
    }

    /// Runs every form, and asks for these outputs bit by bit.
    #[track_caller]
    fn gives(&self, wanted: &[Tensor]) {
        for form in FORMS {
            let check = |stage: &str, outputs: TractResult<Vec<Tensor>>| match outputs {
                Err(error) => panic!("{form:?}, {stage}: {error:#}"),
                Ok(outputs) => {
                    for (got, want) in outputs.iter().zip(wanted) {
                        let same = got.datum_type() == want.datum_type()
                            && got.shape() == want.shape()
                            && spell(got) == spell(want);
                        assert!(same, "{form:?}, {stage}: {got:?}, not {want:?}");
                    }
                    assert_eq!(outputs.len(), wanted.len(), "{form:?}, {stage}");
                }
            };
            let typed = self.typed(form);
            check("typed", typed.and_then(|model| self.outputs_of(model, form)));
            let optimized = self.typed(form).and_then(TypedModel::into_optimized);
            check("optimised", optimized.and_then(|model| self.outputs_of(model, form)));
        }
    }

    /// The error of each form: of loading it, or of running it.
    #[track_caller]
    fn is_refused(&self, with: &str) {
        for form in FORMS {
            let outputs = self.typed(form).and_then(TypedModel::into_optimized);
            let outputs = outputs.and_then(|model| self.outputs_of(model, form));
            let error = format!("{:#}", outputs.expect_err("an error"));
            assert!(error.contains(with), "{form:?}: {error}");
        }
    }
}

/// Elements, of which any NaN is like another.
fn spell(tensor: &Tensor) -> Vec<String> {
    fn elements<T: Datum + std::fmt::Debug>(tensor: &Tensor) -> Vec<String> {
        let view = tensor.to_plain_array_view::<T>().unwrap();
        view.iter().map(|element| format!("{element:?}")).collect()
    }
    match tensor.datum_type() {
        DatumType::Bool => elements::<bool>(tensor),
        DatumType::F32 => elements::<f32>(tensor),
        DatumType::F64 => elements::<f64>(tensor),
        DatumType::I32 => elements::<i32>(tensor),
        DatumType::I64 => elements::<i64>(tensor),
        DatumType::U8 => elements::<u8>(tensor),
        DatumType::U64 => elements::<u64>(tensor),
        DatumType::String => elements::<String>(tensor),
        other => panic!("{other:?}"),
    }
}

fn shaped<T: Datum>(shape: &[usize], elements: &[T]) -> Tensor {
    ArrayD::from_shape_vec(shape, elements.to_vec()).unwrap().into_tensor()
}

fn i64s(elements: &[i64]) -> Tensor {
    tensor1(elements)
}

/// Every two of the wide numbers.
fn pairs() -> (Vec<i64>, Vec<i64>) {
    WIDE.iter().flat_map(|a| WIDE.iter().map(move |b| (*a, *b))).unzip()
}

/// A binary operator of INT64 on all pairs, with each operand a constant of one element too.
#[track_caller]
fn binary(op: &str, attributes: &[AttributeProto], f: impl Fn(i128, i128) -> i128) {
    let f = |a: i64, b: i64| f(a.into(), b.into()) as i64;
    let nodes = [node(op, &["a", "b"], &["y"], attributes)];
    let (a, b) = pairs();
    let all: Vec<i64> = a.iter().zip(&b).map(|(a, b)| f(*a, *b)).collect();
    let case = Case::new(&nodes, &[("a", i64s(&a)), ("b", i64s(&b))], DatumType::I64);
    case.gives(&[i64s(&all)]);
    for constant in WIDE.into_iter().chain([2, 4, -4, 3]) {
        let right: Vec<i64> = WIDE.iter().map(|a| f(*a, constant)).collect();
        let case = Case::new(&nodes, &[("a", i64s(&WIDE))], DatumType::I64);
        case.fixed("b", tensor0(constant)).gives(&[i64s(&right)]);
        let left: Vec<i64> = WIDE.iter().map(|b| f(constant, *b)).collect();
        let case = Case::new(&nodes, &[("b", i64s(&WIDE))], DatumType::I64);
        case.fixed("a", tensor0(constant)).gives(&[i64s(&left)]);
    }
}

#[test]
fn arithmetic_of_int64_is_exact() {
    binary("Add", &[], |a, b| a + b);
    binary("Sub", &[], |a, b| a - b);
    binary("Mul", &[], i128::wrapping_mul);
    binary("Div", &[], |a, b| a / b);
    binary("Mod", &[], |a, b| {
        a - b * a.div_euclid(b) - if b < 0 && a.rem_euclid(b) != 0 { -b } else { 0 }
    });
    binary("Mod", &[int("fmod", 1)], |a, b| a % b);
    binary("Max", &[], i128::max);
    binary("Min", &[], i128::min);
}

#[test]
fn a_number_times_itself_is_exact() {
    let nodes = [node("Mul", &["x", "x"], &["y"], &[])];
    let squares: Vec<i64> = WIDE.iter().map(|x| x.wrapping_mul(*x)).collect();
    Case::new(&nodes, &[("x", i64s(&WIDE))], DatumType::I64).gives(&[i64s(&squares)]);
    let x = [46341, 32767, -5, i32::MAX];
    let squares = x.map(|x: i32| x.wrapping_mul(x));
    Case::new(&nodes, &[("x", tensor1(&x))], DatumType::I32).gives(&[tensor1(&squares)]);
    let x = [16u8, 255, 3];
    let case = Case::new(&nodes, &[("x", tensor1(&x))], DatumType::U8);
    case.gives(&[tensor1(&x.map(|x| x.wrapping_mul(x)))]);
    // The same number by two names, which tract makes one.
    let nodes = [node("Identity", &["x"], &["z"], &[]), node("Mul", &["x", "z"], &["y"], &[])];
    let x = i64s(&[(1 << 31) + 1]);
    Case::new(&nodes, &[("x", x)], DatumType::I64).gives(&[i64s(&[4611686022722355201])]);
}

/// NaN and what is beyond the base's type become the least integer, as in a Cast, and in onnx's
/// evaluator and ONNX Runtime.
#[test]
fn powers_of_integers_by_floats_are_cast() {
    let nodes = [node("Pow", &["a", "b"], &["y"], &[])];
    let b = [0.5, -1., 30., 31., 0.5, 2.];
    let a = [-2, 0, 10, -10, 2, 46340];
    let least = i64::MIN;
    for b in [tensor1(&b), tensor1(&b.map(|x| x as f32))] {
        let wide = Case::new(&nodes, &[("a", i64s(&a)), ("b", b.clone())], DatumType::I64);
        wide.gives(&[i64s(&[least, least, least, least, 1, 46340 * 46340])]);
        let least = i32::MIN;
        let narrow = tensor1(&a.map(|x| x as i32));
        let narrow = Case::new(&nodes, &[("a", narrow), ("b", b)], DatumType::I32);
        narrow.gives(&[tensor1(&[least, least, least, least, 1, 46340 * 46340])]);
    }
}

#[test]
fn powers_of_integers_are_exact() {
    let nodes = [node("Pow", &["a", "b"], &["y"], &[])];
    let (a, b, powers): (Vec<i64>, Vec<i64>, Vec<i64>) = [
        (2, 62, 1 << 62),
        (3, 2, 9),
        (-2, 63, i64::MIN),
        (3037000499, 2, 9223372030926249001),
        (1 << 33, 2, 0),
        (0, 1 << 33, 0),
        (-1, (1 << 40) + 1, -1),
        (-1, -2, 1),
        (5, -3, 0),
        (7, 0, 1),
    ]
    .into_iter()
    .fold(Default::default(), |mut all: (Vec<_>, Vec<_>, Vec<_>), (a, b, power)| {
        all.0.push(a);
        all.1.push(b);
        all.2.push(power);
        all
    });
    let case = Case::new(&nodes, &[("a", i64s(&a)), ("b", i64s(&b))], DatumType::I64);
    case.gives(&[i64s(&powers)]);
    for exponent in [tensor0(2i64), tensor0(2i32)] {
        let case = Case::new(&nodes, &[("a", i64s(&[3, -5, 1 << 31]))], DatumType::I64);
        case.fixed("b", exponent).gives(&[i64s(&[9, 25, 1 << 62])]);
    }
    let case = Case::new(&nodes, &[("a", tensor1(&[46341i32, 3]))], DatumType::I32);
    case.fixed("b", tensor0(2i64)).gives(&[tensor1(&[-2147479015i32, 9])]);
    let case = Case::new(&nodes, &[("a", i64s(&[0])), ("b", i64s(&[-1]))], DatumType::I64);
    case.is_refused("node `the_pow` (Pow): 0 has no power of -1");
}

#[test]
fn a_remainder_of_an_operand_that_is_broadcast_is_not_the_other_one() {
    let nodes = |fmod| [node("Mod", &["a", "b"], &["y"], &[int("fmod", fmod)])];
    let case = Case::new(&nodes(0), &[("b", tensor1(&[2i32, 3, -4]))], DatumType::I32);
    case.fixed("a", tensor0(7i32)).gives(&[tensor1(&[1i32, 1, -1])]);
    let case = Case::new(&nodes(1), &[("b", tensor1(&[2f32, -4., 0.75]))], DatumType::F32);
    case.fixed("a", tensor0(-7f32)).gives(&[tensor1(&[-1f32, -3., -0.25])]);
    let case = Case::new(&nodes(0), &[("a", i64s(&[1])), ("b", i64s(&[0]))], DatumType::I64);
    case.is_refused("node `the_mod` (Mod): divides an integer by 0");
    let nodes = [node("Div", &["a", "b"], &["y"], &[])];
    let case = Case::new(&nodes, &[("a", i64s(&[1, 2])), ("b", i64s(&[1, 0]))], DatumType::I64);
    case.is_refused("node `the_div` (Div): divides an integer by 0");
}

#[test]
fn a_remainder_of_dimensions_has_the_divisors_sign() {
    let nodes = [
        node("Shape", &["x"], &["s"], &[]),
        node("Mod", &["s", "minus_three"], &["y"], &[]),
        node("Sub", &["s", "five"], &["n"], &[]),
        NodeProto { name: "other".into(), ..node("Mod", &["n", "three"], &["z"], &[]) },
    ];
    let mut case = Case::new(&nodes, &[("x", tensor1(&[0f32; 4]))], DatumType::I64)
        .fixed("minus_three", i64s(&[-3]))
        .fixed("three", i64s(&[3]))
        .fixed("five", i64s(&[5]));
    case.outputs.push(("z", DatumType::I64));
    case.gives(&[i64s(&[-2]), i64s(&[2])]);
}

/// The square of the largest is no signed number of 128 bits.
#[test]
fn norms_of_uint64_are_exact() {
    let norm = [node("ReduceL2", &["x"], &["y"], &[int("keepdims", 0)])];
    let case = Case::new(&norm, &[("x", tensor1(&[0, u64::MAX]))], DatumType::U64);
    case.gives(&[tensor0(u64::MAX)]);
}

#[test]
fn reductions_of_int64_are_exact() {
    let x = [(1 << 53) + 1, 2, -(1 << 31), 1 << 33, 7, -1];
    let rows = [&x[..3], &x[3..]];
    let data = || shaped(&[2, 3], &x);
    type Reduction = (&'static str, fn(&[i64]) -> i64);
    let reductions: [Reduction; 9] = [
        ("ReduceSum", |x| x.iter().sum()),
        ("ReduceMean", |x| x.iter().sum::<i64>() / x.len() as i64),
        ("ReduceL1", |x| x.iter().map(|x| x.abs()).sum()),
        ("ReduceSumSquare", |x| x.iter().fold(0, |sum, x| sum.wrapping_add(x.wrapping_mul(*x)))),
        ("ReduceProd", |x| x.iter().fold(1, |product, x| product.wrapping_mul(*x))),
        ("ReduceMax", |x| *x.iter().max().unwrap()),
        ("ReduceMin", |x| *x.iter().min().unwrap()),
        ("ReduceL2", |x| {
            x.iter().map(|x| i128::from(*x) * i128::from(*x)).sum::<i128>().isqrt() as i64
        }),
        ("ReduceLogSum", |x| (x.iter().sum::<i64>() as f64).ln() as i64),
    ];
    for (op, f) in reductions {
        let of_rows = rows.map(f);
        let nodes = [node(op, &["x", "axes"], &["y"], &[int("keepdims", 0)])];
        let case = Case::new(&nodes, &[("x", data())], DatumType::I64);
        for axis in [1, -1] {
            case.clone().fixed("axes", i64s(&[axis])).gives(&[i64s(&of_rows)]);
        }
        case.fixed("axes", i64s(&[2])).is_refused("(Reduce");
        let nodes = [node(op, &["x"], &["y"], &[ints("axes", &[1])])];
        let case = Case::new(&nodes, &[("x", data())], DatumType::I64).opset(11);
        case.gives(&[shaped(&[2, 1], &of_rows)]);
        let nodes = [node(op, &["x"], &["y"], &[])];
        let case = Case::new(&nodes, &[("x", data())], DatumType::I64);
        case.gives(&[shaped(&[1, 1], &[f(&x)])]);
    }
    let nodes = [node("ReduceSumSquare", &["x"], &["y"], &[int("noop_with_empty_axes", 1)])];
    let case = Case::new(&nodes, &[("x", i64s(&[3, 1 << 31]))], DatumType::I64);
    case.gives(&[i64s(&[9, 1 << 62])]);
}

#[test]
fn reductions_of_other_integers_are_those_of_their_type() {
    let nodes = |op| [node(op, &["x"], &["y"], &[int("keepdims", 0)])];
    let wide = || tensor1(&[u64::MAX - 1, 1 << 63, 5]);
    let case = Case::new(&nodes("ReduceMax"), &[("x", wide())], DatumType::U64);
    case.gives(&[tensor0(u64::MAX - 1)]);
    let case = Case::new(&nodes("ReduceSum"), &[("x", wide())], DatumType::U64);
    case.gives(&[tensor0((1u64 << 63) + 3)]);
    let case = Case::new(&nodes("ReduceMax"), &[("x", tensor1(&[false, true]))], DatumType::Bool);
    case.gives(&[tensor0(true)]);
    let nodes = [node("ArgMax", &["x"], &["y"], &[int("keepdims", 0)])];
    Case::new(&nodes, &[("x", wide())], DatumType::I64).gives(&[tensor0(0i64)]);
}

/// Where ONNX Runtime gives an error; the specification gives the type's other end.
#[test]
fn extrema_of_nothing_are_the_ends_of_a_type() {
    let of = |op, none: Tensor, wanted: Tensor| {
        let nodes = [node(op, &["x", "axes"], &["y"], &[int("keepdims", 0)])];
        let ty = none.datum_type();
        Case::new(&nodes, &[("x", none)], ty).fixed("axes", i64s(&[0])).gives(&[wanted]);
    };
    of("ReduceMax", Tensor::zero_dt(DatumType::Bool, &[0, 2]).unwrap(), tensor1(&[false; 2]));
    of("ReduceMin", Tensor::zero_dt(DatumType::Bool, &[0, 2]).unwrap(), tensor1(&[true; 2]));
    of("ReduceMax", Tensor::zero::<u64>(&[0, 2]).unwrap(), tensor1(&[0u64; 2]));
    of("ReduceMin", Tensor::zero::<u64>(&[0, 2]).unwrap(), tensor1(&[u64::MAX; 2]));
    of("ReduceMax", Tensor::zero::<i64>(&[0, 2]).unwrap(), i64s(&[i64::MIN; 2]));
}

#[test]
fn reductions_of_dimensions_are_not_cut() {
    let nodes = [
        node("Shape", &["x"], &["s"], &[]),
        node("Mul", &["s", "billion"], &["m"], &[]),
        node("ReduceMax", &["m"], &["y"], &[int("keepdims", 0)]),
    ];
    let case = Case::new(&nodes, &[("x", tensor1(&[0f32; 4]))], DatumType::I64);
    case.fixed("billion", i64s(&[1_000_000_000])).gives(&[tensor0(4_000_000_000i64)]);
}

#[test]
fn extrema_of_infinities_are_infinite() {
    let infinity = f32::INFINITY;
    let x = || shaped(&[2, 2], &[-infinity, -infinity, 1., -infinity]);
    let nodes = |op| [node(op, &["x", "axes"], &["y"], &[int("keepdims", 0)])];
    for (axis, wanted) in [(1, [-infinity, 1.]), (0, [1., -infinity])] {
        let case = Case::new(&nodes("ReduceMax"), &[("x", x())], DatumType::F32);
        case.fixed("axes", i64s(&[axis])).gives(&[tensor1(&wanted)]);
    }
    let x = tensor1(&[f64::INFINITY; 3]);
    let case = Case::new(&nodes("ReduceMin"), &[("x", x)], DatumType::F64);
    case.fixed("axes", i64s(&[0])).gives(&[tensor0(f64::INFINITY)]);
}

#[test]
fn constants_are_not_taken_for_zero_or_one() {
    let cases: [(&str, &[f64], f64, &[f64]); 8] = [
        ("Mul", &[1e100], 1e-60, &[1e40]),
        ("Mul", &[1e10], 1. + 1e-10, &[1e10 * (1. + 1e-10)]),
        ("Mul", &[f64::NAN, f64::INFINITY, 2.], 0., &[f64::NAN, f64::NAN, 0.]),
        ("Add", &[1e-60, 0.], 1e-60, &[2e-60, 1e-60]),
        ("Sub", &[1e-60], 1e-60, &[0.]),
        ("Div", &[1e10], 1. + 1e-10, &[1e10 / (1. + 1e-10)]),
        ("Div", &[1e70], 1e60, &[1e70 / 1e60]),
        ("Pow", &[1e10], 2. + 1e-9, &[1e10f64.powf(2. + 1e-9)]),
    ];
    for (op, x, constant, wanted) in cases {
        let nodes = [node(op, &["x", "c"], &["y"], &[])];
        let case = Case::new(&nodes, &[("x", tensor1(x))], DatumType::F64);
        case.fixed("c", tensor0(constant)).gives(&[tensor1(wanted)]);
    }
    let nodes = [node("Mul", &["c", "x"], &["y"], &[])];
    let case = Case::new(&nodes, &[("x", tensor1(&[f32::NAN, -1., 3.]))], DatumType::F32);
    case.fixed("c", tensor1(&[0f32; 3])).gives(&[tensor1(&[f32::NAN, -0., 0.])]);
}

#[test]
fn truths_are_compared() {
    let nodes = [node("Equal", &["a", "b"], &["y"], &[])];
    let (a, b) = (tensor1(&[true, false, true]), tensor1(&[true, true, false]));
    let case = Case::new(&nodes, &[("a", a), ("b", b)], DatumType::Bool);
    case.gives(&[tensor1(&[true, false, false])]);
}

#[test]
fn one_hot_rows_of_any_index() {
    let indices = || i64s(&[(1 << 32) + 1, -(1 << 33), 2, -1, 3, -4, i64::MAX, i64::MIN]);
    let rows = |on: i64| {
        let mut rows = vec![0; 24];
        (rows[2 * 3 + 2], rows[3 * 3 + 2]) = (on, on);
        shaped(&[8, 3], &rows)
    };
    let nodes = [node("OneHot", &["i", "d", "v"], &["y"], &[])];
    let case = Case::new(&nodes, &[("i", indices())], DatumType::I64);
    let case = case.fixed("d", tensor0(3i64));
    case.clone().fixed("v", i64s(&[0, 1])).gives(&[rows(1)]);
    let mut data = case;
    data.inputs.push(("v", i64s(&[0, (1 << 53) + 1])));
    data.gives(&[rows((1 << 53) + 1)]);
    // The depth is a dimension.
    let nodes = [
        node("Shape", &["x"], &["s"], &[]),
        node("Squeeze", &["s", "zero"], &["d"], &[]),
        node("OneHot", &["i", "d", "v"], &["y"], &[int("axis", 0)]),
    ];
    let inputs = [("i", i64s(&[2, 5])), ("x", tensor1(&[0f32; 3]))];
    let case = Case::new(&nodes, &inputs, DatumType::I64);
    let case = case.fixed("zero", i64s(&[0])).fixed("v", i64s(&[0, 7]));
    case.gives(&[shaped(&[3, 2], &[0i64, 0, 0, 0, 7, 0])]);
}

#[test]
fn indices_count_from_either_end_and_are_checked() {
    let x = || tensor1(&[0f32, 1., 2., 3.]);
    let gather = [node("GatherND", &["x", "i"], &["y"], &[])];
    let gathered = |index: i64| {
        Case::new(&gather, &[("x", x()), ("i", shaped(&[1, 1], &[index]))], DatumType::F32)
    };
    gathered(-1).gives(&[tensor1(&[3f32])]);
    gathered(2).gives(&[tensor1(&[2f32])]);
    for index in [(1 << 32) + 1, 4, -5, i64::MIN] {
        let problem = format!("node `the_gathernd` (GatherND): index {index} is outside");
        gathered(index).is_refused(&problem);
    }
    for (reduction, wanted) in [("none", 9f32), ("add", 12.)] {
        let scatter =
            [node("ScatterND", &["x", "i", "u"], &["y"], &[text("reduction", reduction)])];
        let scattered = |index: i64| {
            let inputs = [("x", x()), ("i", shaped(&[1, 1], &[index])), ("u", tensor1(&[9f32]))];
            Case::new(&scatter, &inputs, DatumType::F32)
        };
        scattered(-1).gives(&[tensor1(&[0f32, 1., 2., wanted])]);
        scattered(1 << 32)
            .is_refused("node `the_scatternd` (ScatterND): index 4294967296 is outside");
    }
}

/// What a slice of six elements takes, by the text of Slice-13: a start before the axis is,
/// backwards, its first place.
fn taken(start: i64, end: i64, step: i64) -> Vec<f32> {
    let place = |bound: i64| if bound < 0 { i128::from(bound) + 6 } else { i128::from(bound) };
    let (mut place, end) = if step > 0 {
        (place(start).clamp(0, 6), place(end).clamp(0, 6))
    } else {
        (place(start).clamp(0, 5), place(end).clamp(-1, 5))
    };
    let mut taken = vec![];
    while if step > 0 { place < end } else { place > end } {
        taken.push(place as f32);
        place += i128::from(step);
    }
    taken
}

#[test]
fn slices_begin_end_and_step_anywhere() {
    let x = || tensor1(&[0f32, 1., 2., 3., 4., 5.]);
    let bounds =
        [0, 2, 4, 6, -1, -4, -7, 1 << 31, (1 << 32) + 5, -(1 << 32) + 5, i64::MAX, i64::MIN];
    let nodes = [node("Slice", &["x", "s", "e", "a", "p"], &["y"], &[])];
    for start in bounds {
        for end in bounds {
            for step in [1, 2, -1, (1 << 32) + 2, -(1 << 32) - 1, i64::MIN] {
                let inputs =
                    [("x", x()), ("s", i64s(&[start])), ("e", i64s(&[end])), ("p", i64s(&[step]))];
                let wanted = [tensor1(&taken(start, end, step))];
                let case = Case::new(&nodes, &inputs, DatumType::F32).fixed("a", i64s(&[0]));
                case.gives(&wanted);
                // The bounds are constants, the data is not.
                let mut half = case;
                half.fixed.extend(half.inputs.drain(1..));
                let model = half.typed(Form::Data).unwrap().into_optimized().unwrap();
                let outputs = half.outputs_of(model, Form::Data).unwrap();
                assert_eq!(spell(&outputs[0]), spell(&wanted[0]));
            }
        }
    }
    let case = |step| {
        let inputs = [("x", x()), ("s", i64s(&[0])), ("e", i64s(&[6])), ("p", i64s(&[step]))];
        Case::new(&nodes, &inputs, DatumType::F32).fixed("a", i64s(&[0]))
    };
    case(0).is_refused("node `the_slice` (Slice): has a step of 0");
}

#[test]
fn slices_of_symbolic_sizes_know_what_is_beyond_them() {
    let nodes = [node("Slice", &["x", "s", "e", "a", "p"], &["y"], &[])];
    let x = tensor1(&[0f32, 1., 2., 3., 4., 5.]);
    let huge = (1 << 32) + 5;
    for (start, end, step) in [
        (0, huge, 1),
        (-huge, huge, 2),
        (huge, i64::MAX, 1),
        (huge, -huge, -1),
        (-1, i64::MIN, -2),
        (-3, -1, 1),
        (1, i64::MAX, huge),
    ] {
        let case = Case::new(&nodes, &[("x", x.clone())], DatumType::F32)
            .fixed("s", i64s(&[start]))
            .fixed("e", i64s(&[end]))
            .fixed("a", i64s(&[0]))
            .fixed("p", i64s(&[step]));
        case.gives(&[tensor1(&taken(start, end, step))]);
    }
}

#[test]
fn slices_before_opset_10_have_their_bounds_in_attributes() {
    let attributes =
        [ints("starts", &[-(1 << 33), 1]), ints("ends", &[1 << 33, -1]), ints("axes", &[0, -1])];
    let nodes = [node("Slice", &["x"], &["y"], &attributes)];
    let x = shaped(&[2, 4], &[0f32, 1., 2., 3., 4., 5., 6., 7.]);
    let case = Case::new(&nodes, &[("x", x)], DatumType::F32).opset(9);
    case.gives(&[shaped(&[2, 2], &[1f32, 2., 5., 6.])]);
}

#[test]
fn ranges_of_int64_are_exact() {
    let nodes = [node("Range", &["s", "l", "d"], &["y"], &[])];
    for (start, limit, step) in [
        ((1 << 53) + 1, (1 << 53) + 5, 1),
        (1 << 33, (1 << 33) - 5, -2),
        ((1 << 31) - 2, (1 << 31) + 3, 2),
        (-(1 << 33), -(1 << 33) + 7, 3),
        (5, 1 << 33, 1 << 33),
        (1 << 33, 0, 1),
        (0, 1 << 34, 1 << 33),
    ] {
        let mut numbers = vec![];
        let mut number = start;
        while if step > 0 { number < limit } else { number > limit } {
            numbers.push(number);
            number += step;
        }
        let inputs = [("s", tensor0(start)), ("l", tensor0(limit)), ("d", tensor0(step))];
        Case::new(&nodes, &inputs, DatumType::I64).gives(&[i64s(&numbers)]);
    }
    let inputs = [("s", tensor0(0i64)), ("l", tensor0(1i64)), ("d", tensor0(0i64))];
    let case = Case::new(&nodes, &inputs, DatumType::I64);
    case.is_refused("node `the_range` (Range): has a step of 0");
}

#[test]
fn products_of_int64_are_exact() {
    let a = [1 << 33, 3, -(1 << 31), 7, (1 << 53) + 1, 1];
    let b = [1, 2, 3, 4, 5, 1 << 31];
    let mut product = vec![0i64; 4];
    for (row, column, k) in (0..12).map(|i| (i / 6, i / 3 % 2, i % 3)) {
        let term = i64::wrapping_mul(a[row * 3 + k], b[k * 2 + column]);
        product[row * 2 + column] = product[row * 2 + column].wrapping_add(term);
    }
    let inputs = [("a", shaped(&[2, 3], &a)), ("b", shaped(&[3, 2], &b))];
    let wanted = shaped(&[2, 2], &product);
    let nodes = [node("MatMul", &["a", "b"], &["y"], &[])];
    Case::new(&nodes, &inputs, DatumType::I64).gives(std::slice::from_ref(&wanted));
    let nodes = [node("Einsum", &["a", "b"], &["y"], &[text("equation", "ij,jk->ik")])];
    Case::new(&nodes, &inputs, DatumType::I64).gives(&[wanted]);
    let nodes = [node("Gemm", &["a", "b", "c"], &["y"], &[float("alpha", 2.), float("beta", -1.)])];
    let c = [(1 << 53) + 1, 1];
    let sums: Vec<i64> =
        (0..4).map(|i| product[i].wrapping_mul(2).wrapping_sub(c[i % 2])).collect();
    let mut inputs = inputs.to_vec();
    inputs.push(("c", i64s(&c)));
    Case::new(&nodes, &inputs, DatumType::I64).gives(&[shaped(&[2, 2], &sums)]);
    let nodes = [node("Gemm", &["a", "b"], &["y"], &[float("alpha", 0.5)])];
    let case = Case::new(&nodes, &inputs[..2], DatumType::I64);
    case.is_refused("node `the_gemm` (Gemm): multiplies I64 by `alpha`, 0.5");
}

#[test]
fn a_scan_may_collect_a_constant() {
    let scalar = |name| value(name, DatumType::I64, Some(vec![]));
    for (length, zero) in [(1, 0i64), (3, 0), (1, 7), (3, 7)] {
        let collected = if zero == 0 { "Mul" } else { "Identity" };
        let operands: &[&str] = if zero == 0 { &["sum", "zero"] } else { &["zero"] };
        let body = GraphProto {
            name: "body".into(),
            node: vec![
                node("Add", &["state", "element"], &["sum"], &[]),
                node(collected, operands, &["constant"], &[]),
            ],
            input: vec![scalar("state"), scalar("element")],
            output: vec![scalar("sum"), scalar("constant")],
            ..Default::default()
        };
        let attributes = [int("num_scan_inputs", 1), graph_of("body", body)];
        let nodes = [node("Scan", &["first", "x"], &["last", "y"], &attributes)];
        let x: Vec<i64> = (1..=length).collect();
        let mut case = Case::new(&nodes, &[("x", i64s(&x))], DatumType::I64)
            .fixed("first", tensor0(0i64))
            .fixed("zero", tensor0(zero));
        let constants = i64s(&vec![zero; x.len()]);
        case.gives(std::slice::from_ref(&constants));
        case.outputs.push(("last", DatumType::I64));
        case.gives(&[constants, tensor0(x.iter().sum::<i64>())]);
    }
}

/// A tree that asks whether the first of two features is at most 0.5.
fn tree(weights: [f32; 2], more: &[AttributeProto]) -> [NodeProto; 1] {
    let mut attributes = vec![
        ints("nodes_treeids", &[0, 0, 0]),
        ints("nodes_nodeids", &[0, 1, 2]),
        ints("nodes_featureids", &[0, 0, 0]),
        floats("nodes_values", &[0.5, 0., 0.]),
        texts("nodes_modes", &["BRANCH_LEQ", "LEAF", "LEAF"]),
        ints("nodes_truenodeids", &[1, 0, 0]),
        ints("nodes_falsenodeids", &[2, 0, 0]),
        ints("class_treeids", &[0, 0]),
        ints("class_nodeids", &[1, 2]),
        ints("class_ids", &[0, 0]),
        floats("class_weights", &weights),
    ];
    attributes.extend_from_slice(more);
    let node = node("TreeEnsembleClassifier", &["x"], &["y", "scores"], &attributes);
    [NodeProto { domain: "ai.onnx.ml".into(), ..node }]
}

#[test]
fn labels_may_be_texts() {
    let names = texts("classlabels_strings", &["no", "yes", "maybe"]);
    let gives = |nodes: &[NodeProto], expected: [Tensor; 2]| {
        let mut case =
            Case::new(nodes, &[("x", shaped(&[2, 2], &[0f32, 3., 2., 1.]))], DatumType::String);
        case.outputs.push(("scores", DatumType::F32));
        let outputs = case.outputs_of(case.typed(Form::Data).unwrap(), Form::Data).unwrap();
        assert_eq!(outputs.iter().map(spell).collect::<Vec<_>>(), expected.each_ref().map(spell));
    };
    let labels = |labels: [&str; 2]| tensor1(&labels.map(String::from));
    let scores = shaped(&[2, 3], &[-0.25f32, 0., 0., 0.75, 0., 0.]);
    let trees = tree([-0.25, 0.75], std::slice::from_ref(&names));
    gives(&trees, [labels(["yes", "no"]), scores]);
    let rows = floats("coefficients", &[1., 0., 0., 1., -1., 2.]);
    let attributes = [rows, floats("intercepts", &[0., 0., 0.5]), names];
    let rows = node("LinearClassifier", &["x"], &["y", "scores"], &attributes);
    let rows = NodeProto { domain: "ai.onnx.ml".into(), ..rows };
    let scores = shaped(&[2, 3], &[0f32, 3., 6.5, 2., 1., 0.5]);
    gives(&[rows], [labels(["maybe", "no"]), scores]);
}

/// tract's sigmoid ends at 4.5e-7.
#[test]
fn scores_far_from_zero_are_told_apart() {
    let x = || shaped(&[2, 1], &[-31f32, -18.]);
    let logistic = |op: &str, outputs: &[&str], attributes: &[AttributeProto]| {
        let post = [attributes, &[text("post_transform", "LOGISTIC")]].concat();
        let node = node(op, &["x"], outputs, &post);
        NodeProto { domain: "ai.onnx.ml".into(), ..node }
    };
    let rows = floats("coefficients", &[1., 2., -1.]);
    let zeros = floats("intercepts", &[0., 0., 0.]);
    let is_near = |got: &Tensor, scores: &[f64]| {
        let plain = got.try_as_plain_ram().unwrap();
        let got = plain.as_slice::<f32>().unwrap();
        for (got, score) in got.iter().zip(scores) {
            let wanted = 1. / (1. + (-score).exp());
            assert!((f64::from(*got) - wanted).abs() <= 1e-6 * wanted, "{got} for {wanted}");
        }
    };
    let labels = ints("classlabels_ints", &[1, 2, 3]);
    let classes = [rows.clone(), zeros.clone(), labels];
    let nodes = [logistic("LinearClassifier", &["y", "scores"], &classes)];
    let mut case = Case::new(&nodes, &[("x", x())], DatumType::I64);
    case.outputs.push(("scores", DatumType::F32));
    let outputs = case.outputs_of(case.typed(Form::Data).unwrap(), Form::Data).unwrap();
    is_near(&outputs[1], &[-31., -62., 31., -18., -36., 18.]);
    let targets = [rows, zeros, int("targets", 3)];
    let nodes = [logistic("LinearRegressor", &["y"], &targets)];
    let case = Case::new(&nodes, &[("x", x())], DatumType::F32);
    let outputs = case.outputs_of(case.typed(Form::Data).unwrap(), Form::Data).unwrap();
    is_near(&outputs[0], &[-31., -62., 31., -18., -36., 18.]);
}

#[test]
fn trees_of_two_classes_give_the_label_of_their_score() {
    let x = || shaped(&[3, 2], &[0f32, 9., 1., 9., 0.5, 9.]);
    let case = |nodes: &[NodeProto], label| {
        let mut case = Case::new(nodes, &[("x", x())], label);
        case.outputs.push(("scores", DatumType::F32));
        case
    };
    let labels = ints("classlabels_int64s", &[4, 1 << 40]);
    let shares = tree([0.25, 0.75], std::slice::from_ref(&labels));
    let scores = shaped(&[3, 2], &[0.75f32, 0.25, 0.25, 0.75, 0.75, 0.25]);
    case(&shares, DatumType::I64).gives(&[i64s(&[4, 1 << 40, 4]), scores.clone()]);
    let named = tree([0.25, 0.75], &[texts("classlabels_strings", &["no", "yes"])]);
    let names = tensor1(&["no", "yes", "no"].map(String::from));
    case(&named, DatumType::String).gives(&[names, scores]);
    // 1 / (1 + e^-1) and its complement.
    let (more, less) = (0.731_058_6f32, 0.268_941_4f32);
    let with = |transform: &str| {
        [labels.clone(), text("post_transform", transform), floats("base_values", &[0.5])]
    };
    // The same of 0.5, where no weight is negative.
    let (some, rest) = (0.622_459_35_f32, 0.377_540_65_f32);
    for (weights, transform, [first, second], [third, fourth]) in [
        ([-1.5, 0.5], "LOGISTIC", [more, less], [less, more]),
        ([0.0, 0.5], "LOGISTIC", [rest, some], [less, more]),
        ([0.0, 0.5], "SOFTMAX", [0.5, 0.5], [0.0, 1.0]),
    ] {
        let odds = tree(weights, &with(transform));
        let case = case(&odds, DatumType::I64);
        let outputs = case.outputs_of(case.typed(Form::Data).unwrap(), Form::Data).unwrap();
        assert_eq!(spell(&outputs[0]), spell(&i64s(&[4, 1 << 40, 4])));
        let scores = shaped(&[3, 2], &[first, second, third, fourth, first, second]);
        outputs[1]
            .close_enough(&scores, tract_onnx::tract_core::internal::Approximation::Close)
            .unwrap();
    }
}

#[test]
fn an_operator_that_the_user_has_registered_stays_the_users() {
    let mut stock: Onnx = tract_onnx::onnx();
    stock
        .op_register
        .insert("ReduceSum", |_, node| anyhow::bail!("the user's, of {} inputs", node.input.len()));
    let nodes = [node("ReduceSum", &["x"], &["y"], &[])];
    let case = Case::new(&nodes, &[("x", i64s(&WIDE))], DatumType::I64);
    let loaded = CastOnnx::from(stock).model_for_proto_model(&case.model(Form::Data));
    let error = format!("{:#}", loaded.expect_err("the user's error"));
    assert!(error.contains("the user's, of 1 inputs"), "{error}");
}

#[test]
fn floats_keep_tracts_operators() {
    let nodes = [
        node("Mul", &["x", "x"], &["square"], &[]),
        node("Add", &["square", "one"], &["sum"], &[]),
        node("ReduceSum", &["sum"], &["y"], &[]),
    ];
    let case = Case::new(&nodes, &[("x", tensor1(&[1f32, 2.]))], DatumType::F32);
    let case = case.fixed("one", tensor0(1f32));
    let ours = case.typed(Form::Data).unwrap().into_optimized().unwrap();
    let stock = tract_onnx::onnx().model_for_proto_model(&case.model(Form::Data));
    let stock = stock.unwrap().into_optimized().unwrap();
    assert_eq!(ours.nodes.len(), stock.nodes.len());
    for (ours, stock) in ours.nodes.iter().zip(&stock.nodes) {
        assert_eq!(ours.op, stock.op);
    }
}

#[test]
fn nnef_has_these_operators() {
    let nodes = [
        node("Mul", &["x", "x"], &["square"], &[]),
        node("Mod", &["square", "seven"], &["rest"], &[]),
        node("ReduceSum", &["rest"], &["sum"], &[int("keepdims", 0)]),
        node("Range", &["zero", "sum", "seven"], &["range"], &[]),
        node("OneHot", &["range", "seven", "values"], &["rows"], &[]),
        node("Slice", &["rows", "starts", "ends"], &["part"], &[]),
        node("MatMul", &["part", "weights"], &["y"], &[]),
    ];
    let case = Case::new(
        &nodes,
        &[("x", i64s(&[1 << 31, 3, 5])), ("starts", i64s(&[-1])), ("ends", i64s(&[i64::MAX]))],
        DatumType::I64,
    );
    let case = case
        .fixed("zero", tensor0(0i64))
        .fixed("seven", tensor0(7i64))
        .fixed("values", i64s(&[0, (1 << 53) + 1]))
        .fixed("weights", shaped(&[7, 1], &[1i64; 7]));
    let model = case.typed(Form::Data).unwrap().into_decluttered().unwrap();
    let wanted = case.outputs_of(model.clone(), Form::Data).unwrap();
    let nnef: Nnef = tract_nnef::nnef().with_onnx().with_onnx_cast();
    let bytes = nnef.write_to_tar(&model, vec![]).unwrap();
    let back = nnef.model_for_read(&mut &*bytes).unwrap().into_optimized().unwrap();
    let got = case.outputs_of(back, Form::Data).unwrap();
    assert_eq!(spell(&got[0]), spell(&wanted[0]));
}
