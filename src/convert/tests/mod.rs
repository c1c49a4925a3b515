mod ends;

use onnx_cast_graph::{float_attribute, graph_attribute};
use tract_onnx::pb::type_proto::Value as TypeValue;
use tract_onnx::pb::{GraphProto, ValueInfoProto};

use super::*;
use crate::passes::testing::{lines, read, with_function};
use ElementType::{BFloat16, Float, Float16};

pub(super) fn written(file: &[u8], options: &Options) -> (ModelProto, Converted) {
    let bytes = bytes(file, options);
    let converted = convert(file, None, options).expect("a conversion");
    (ModelProto::decode(&*bytes).expect("a model"), converted)
}

pub(super) fn bytes(file: &[u8], options: &Options) -> Vec<u8> {
    let converted = convert(file, None, options).expect("a conversion");
    let mut bytes = vec![];
    converted.write(&mut bytes, None).expect("a file");
    bytes
}

fn type_name(id: i32) -> String {
    ElementType::from_id(id).map_or("?".into(), |ty| ty.name().into())
}

fn declared_name(value: &ValueInfoProto) -> String {
    match value.r#type.as_ref().and_then(|ty| ty.value.as_ref()) {
        Some(TypeValue::TensorType(tensor)) => type_name(tensor.elem_type),
        None => "?".into(),
    }
}

/// A graph as the tests write it down: what is FLOAT in weights and declarations is left out.
pub(super) fn printed(graph: &GraphProto) -> String {
    let mut lines = vec![];
    for tensor in &graph.initializer {
        lines.push(format!("const {} {}", tensor.name, type_name(tensor.data_type)));
    }
    for value in &graph.value_info {
        lines.push(format!("info {} {}", value.name, declared_name(value)));
    }
    for node in &graph.node {
        let to = node.attribute.iter().find(|a| matches!(&*a.name, "to" | "dtype"));
        let to = to.map_or(String::new(), |to| format!(" to {}", type_name(to.i as i32)));
        let held = node.attribute.iter().find_map(|attribute| attribute.t.as_ref());
        let held = held.map_or(String::new(), |t| format!(" of {}", type_name(t.data_type)));
        let (outputs, inputs) = (node.output.join(", "), node.input.join(", "));
        lines.push(format!("{outputs} = {}({inputs}){to}{held}", node.op_type));
        for graph in node.attribute.iter().filter_map(|attribute| attribute.g.as_ref()) {
            lines.extend(printed(graph).lines().map(|line| format!("{}: {line}", graph.name)));
        }
    }
    for value in &graph.output {
        lines.push(format!("out {} {}", value.name, declared_name(value)));
    }
    lines.join("\n")
}

pub(super) fn check(model: &str, options: &Options, expected: &str) -> Converted {
    let file = ModelProto { ir_version: 8, ..read(model) }.encode_to_vec();
    let (proto, converted) = written(&file, options);
    assert_eq!(printed(proto.graph.as_ref().expect("a graph")), lines(expected));
    let again = proto.encode_to_vec();
    let (twice, _) = written(&again, options);
    assert_eq!(twice, proto, "converted twice");
    converted
}

pub(super) fn to(ty: ElementType) -> Options {
    Options::new(ty)
}

fn keeping(name: &str) -> Options {
    Options { keep: vec![name.into()], ..to(Float16) }
}

const CHAIN: &str = "
    in x FLOAT
    const w FLOAT 4
    info a FLOAT
    a = Mul(x, w)
    b = Exp(a)
    c = Add(b, w)
    d = Mul(c, b)
    out d FLOAT";

#[test]
fn casts_stand_at_the_ends() {
    let expected = "
        const w FLOAT16
        info a FLOAT16
        x_FLOAT16 = Cast(x) to FLOAT16
        a = Mul(x_FLOAT16, w)
        b = Exp(a)
        c = Add(b, w)
        d_FLOAT16 = Mul(c, b)
        d = Cast(d_FLOAT16) to FLOAT
        out d FLOAT";
    let converted = check(CHAIN, &to(Float16), expected);
    assert_eq!(converted.kept, []);
    let Counts { casts, added_casts, weights, nodes, .. } = converted.counts;
    assert_eq!((casts, added_casts, weights, nodes), (2, 2, 1, 4));
}

#[test]
fn a_cast_of_the_model_and_an_added_one_are_one() {
    let model = "
        in x FLOAT
        info h FLOAT16
        a = Neg(x)
        h = Cast<to=10>(x)
        b = Exp(h)
        c = Cast<to=1>(b)
        d = Add(a, c)
        out d FLOAT
        out b FLOAT16";
    let expected = "
        x_FLOAT16 = Cast(x) to FLOAT16
        a = Neg(x_FLOAT16)
        b = Exp(x_FLOAT16)
        d_FLOAT16 = Add(a, b)
        d = Cast(d_FLOAT16) to FLOAT
        out d FLOAT
        out b FLOAT16";
    check(model, &to(Float16), expected);
}

#[test]
fn a_kept_node_has_its_own_weights_and_one_cast_for_all_who_use_it() {
    // `b` is used twice, `w` on both sides.
    let expected = "
        const w FLOAT
        const w_FLOAT16 FLOAT16
        info a FLOAT
        a = Mul(x, w)
        a_FLOAT16 = Cast(a) to FLOAT16
        b = Exp(a_FLOAT16)
        c = Add(b, w_FLOAT16)
        d_FLOAT16 = Mul(c, b)
        d = Cast(d_FLOAT16) to FLOAT
        out d FLOAT";
    let converted = check(CHAIN, &keeping("a"), expected);
    let kept: Vec<&str> = converted.kept.iter().map(|kept| &*kept.node).collect();
    assert_eq!(kept, ["a"]);
    let missing = convert(&read(CHAIN).encode_to_vec(), None, &keeping("nobody"));
    assert_eq!(missing.unwrap_err().to_string(), "the model has no node `nobody` to keep");
}

#[test]
fn what_only_moves_elements_between_kept_nodes_stays() {
    let model = "
        in x FLOAT
        a = Exp(x)
        b = Transpose(a)
        c = Identity(b)
        d = Log(c)
        e = Neg(d)
        out e FLOAT";
    let options = Options { keep: vec!["a".into(), "d".into()], ..to(Float16) };
    let expected = "
        a = Exp(x)
        b = Transpose(a)
        c = Identity(b)
        d = Log(c)
        d_FLOAT16 = Cast(d) to FLOAT16
        e_FLOAT16 = Neg(d_FLOAT16)
        e = Cast(e_FLOAT16) to FLOAT
        out e FLOAT";
    check(model, &options, expected);
}

#[test]
fn casts_of_the_model_become_narrow_or_go() {
    let model = "
        in x FLOAT
        in i INT64
        a = Cast<to=1>(i)
        b = Add(a, x)
        c = Cast<to=10>(b)
        d = Neg(c)
        e = Cast<to=1>(d)
        f = Abs(e)
        g = Cast<to=7>(f)
        out f FLOAT
        out g INT64";
    let expected = "
        x_FLOAT16 = Cast(x) to FLOAT16
        a = Cast(i) to FLOAT16
        b = Add(a, x_FLOAT16)
        d = Neg(b)
        f_FLOAT16 = Abs(d)
        f = Cast(f_FLOAT16) to FLOAT
        g = Cast(f_FLOAT16) to INT64
        out f FLOAT
        out g INT64";
    check(model, &to(Float16), expected);
}

#[test]
fn what_computes_a_shape_stays() {
    let model = "
        in x FLOAT
        const two FLOAT 1
        s = Shape(x)
        f = Cast<to=1>(s)
        m = Mul(f, two)
        i = Cast<to=7>(m)
        y = Expand(x, i)
        z = Neg(y)
        out z FLOAT";
    let expected = "
        const two FLOAT
        x_FLOAT16 = Cast(x) to FLOAT16
        s = Shape(x)
        f = Cast(s) to FLOAT
        m = Mul(f, two)
        i = Cast(m) to INT64
        y = Expand(x_FLOAT16, i)
        z_FLOAT16 = Neg(y)
        z = Cast(z_FLOAT16) to FLOAT
        out z FLOAT";
    let converted = check(model, &to(Float16), expected);
    assert!(converted.kept.iter().all(|kept| kept.why == "it computes a shape"));
    assert_eq!(converted.kept.len(), 2);
}

#[test]
fn operators_that_do_not_take_the_type_stay() {
    let model = "
        in x FLOAT
        in s FLOAT
        const k INT64 1
        a = Neg(x)
        n = NonMaxSuppression(a, s, k)
        out n INT64";
    let expected = "
        const k INT64
        a = Neg(x)
        n = NonMaxSuppression(a, s, k)
        out n INT64";
    let narrow = "
        const k INT64
        x_FLOAT16 = Cast(x) to FLOAT16
        a = Neg(x_FLOAT16)
        a_FLOAT = Cast(a) to FLOAT
        n = NonMaxSuppression(a_FLOAT, s, k)
        out n INT64";
    let options = Options { keep: vec!["a".into()], ..to(Float16) };
    check(model, &options, expected);
    let converted = check(model, &to(Float16), narrow);
    assert_eq!(converted.kept[0].why, "NonMaxSuppression takes no FLOAT16 at opset 17");
}

#[test]
fn operators_of_onnx_runtime_are_converted_where_their_types_are_known() {
    let model = "
        in x FLOAT
        a = com.microsoft::QuickGelu(x)
        b = com.microsoft::Strange(a)
        info b FLOAT
        out b FLOAT";
    let expected = "
        info b FLOAT
        x_FLOAT16 = Cast(x) to FLOAT16
        a = QuickGelu(x_FLOAT16)
        a_FLOAT = Cast(a) to FLOAT
        b = Strange(a_FLOAT)
        out b FLOAT";
    check(model, &to(Float16), expected);
    // Of what nobody knows it cannot be told whether a weight beside it may change.
    let model = "
        in x FLOAT
        const w FLOAT 2
        b = com.microsoft::Strange(x)
        c = com.microsoft::BiasGelu(b, w)
        d = Shape(c)
        out d INT64";
    let expected = "
        const w FLOAT
        b = Strange(x)
        c = BiasGelu(b, w)
        d = Shape(c)
        out d INT64";
    check(model, &to(Float16), expected);
}

fn with_weight(value: f32) -> Vec<u8> {
    let mut model = read(
        "
        in x FLOAT
        const w FLOAT 2
        a = Neg(x)
        b = Mul(a, w)
        out b FLOAT",
    );
    let graph = model.graph.as_mut().expect("a graph");
    graph.initializer[0].raw_data = [1.0f32, value].map(f32::to_le_bytes).concat();
    model.encode_to_vec()
}

#[test]
fn a_weight_that_does_not_fit_keeps_its_node() {
    for (value, why) in [(7e4, "7e4 overflows in FLOAT16"), (-1e38, "-1e38 overflows in FLOAT16")] {
        let (proto, converted) = written(&with_weight(value), &to(Float16));
        let graph = proto.graph.expect("a graph");
        assert_eq!(graph.initializer[0].raw_data[4..], value.to_le_bytes());
        assert!(converted.kept[0].why.ends_with(why), "{}", converted.kept[0].why);
    }
    for value in [65519.0, -1e-9, f32::INFINITY] {
        let (proto, converted) = written(&with_weight(value), &to(Float16));
        let graph = proto.graph.expect("a graph");
        let half = half::f16::from_f32(value).to_le_bytes();
        assert_eq!(graph.initializer[0].raw_data[2..], half);
        assert_eq!(converted.kept, []);
    }
}

#[test]
fn back_in_float_weights_are_those_of_the_narrow_model() {
    let value = 0.1f32;
    let narrow = bytes(&with_weight(value), &to(Float16));
    let (proto, converted) = written(&narrow, &to(Float));
    let graph = proto.graph.expect("a graph");
    let expected = "
        const w FLOAT
        a = Neg(x)
        b = Mul(a, w)
        out b FLOAT";
    assert_eq!(printed(&graph), lines(expected));
    let rounded = half::f16::from_f32(value).to_f32();
    assert_eq!(graph.initializer[0].raw_data[4..], rounded.to_le_bytes());
    assert_eq!(converted.counts.removed_casts, 2);
}

#[test]
fn bodies_are_converted_with_what_they_capture() {
    let mut model = read(
        "
        in x FLOAT
        in c BOOL
        const w FLOAT 4
        a = Neg(x)
        y = If(c)
        z = Exp(y)
        out z FLOAT",
    );
    let body = |name: &str, text: &str| GraphProto {
        name: name.into(),
        ..read(text).graph.expect("a graph")
    };
    let branches = [
        graph_attribute("then_branch", body("then", "t = Mul(a, w)\nout t FLOAT")),
        graph_attribute("else_branch", body("else", "e = Abs(x)\nf = Exp(e)\nout f FLOAT")),
    ];
    let graph = model.graph.as_mut().expect("a graph");
    graph.node[1].attribute.extend(branches);
    let options = Options { keep: vec!["e".into(), "f".into()], ..to(Float16) };
    let (proto, _) = written(&model.encode_to_vec(), &options);
    let expected = "
        const w FLOAT16
        x_FLOAT16 = Cast(x) to FLOAT16
        a = Neg(x_FLOAT16)
        y = If(c)
        then: t = Mul(a, w)
        then: out t FLOAT16
        else: e = Abs(x)
        else: f_FLOAT = Exp(e)
        else: f = Cast(f_FLOAT) to FLOAT16
        else: out f FLOAT16
        z_FLOAT16 = Exp(y)
        z = Cast(z_FLOAT16) to FLOAT
        out z FLOAT";
    assert_eq!(printed(proto.graph.as_ref().expect("a graph")), lines(expected));
    // Bodies are attributes, which the operator needs in each version.
    let raised = Options { opset: Some(21), ..to(Float16) };
    assert_eq!(written(&model.encode_to_vec(), &raised).0.opset_import[0].version, 21);
}

#[test]
fn functions_are_converted_where_they_are() {
    let model = "
        in x FLOAT
        y = my::F(x)
        z = my::F(y)
        out z FLOAT";
    let mut model = with_function(model, "k = Constant()\nm = Mul(a, k)\nr = Abs(m)", "r");
    model.functions[0].node[0].attribute.push(float_attribute("value_float", 0.5));
    let (proto, converted) = written(&model.encode_to_vec(), &to(Float16));
    let body = GraphProto { node: proto.functions[0].node.clone(), ..GraphProto::default() };
    let expected = "
        k = Constant() of FLOAT16
        m = Mul(a, k)
        r = Abs(m)";
    assert_eq!(printed(&body), lines(expected));
    assert_eq!((converted.counts.casts, converted.kept.len()), (2, 0));
}

/// `Erf` has no integers since opset 13.
#[test]
fn an_opset_is_raised_where_an_operator_keeps_the_type_that_it_has() {
    let raised = Options { opset: Some(13), ..to(Float16) };
    let of = |ty: &str| {
        let mut model = read(&format!("in x {ty}\nb = Erf(x)\nout b {ty}"));
        model.opset_import[0].version = 12;
        model.encode_to_vec()
    };
    assert_eq!(written(&of("FLOAT"), &raised).0.opset_import[0].version, 13);
    let refused = convert(&of("INT32"), None, &raised).unwrap_err().to_string();
    assert!(refused.ends_with("from opset 12 to 13: input 0 is another since 13"), "{refused}");
}

#[test]
fn an_opset_without_the_type_is_refused() {
    let mut model = read("in x FLOAT\nb = Neg(x)\nout b FLOAT");
    model.opset_import[0].version = 12;
    let refused = convert(&model.encode_to_vec(), None, &to(BFloat16));
    let expected = "the model imports opset 12, and casts to BFLOAT16 are there since opset 13: `--opset 13` raises it";
    assert_eq!(refused.unwrap_err().to_string(), expected);
    let refused = convert(&model.encode_to_vec(), None, &to(ElementType::Int8));
    assert!(refused.is_err());
}
