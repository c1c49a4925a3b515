use onnx_cast_graph::graph_attribute;
use prost::Message;
use tract_onnx::pb::attribute_proto::AttributeType;
use tract_onnx::pb::{AttributeProto, GraphProto};

use crate::cast::element_type::ElementType::{Float, Float16};
use crate::convert::tests::{check, printed, to, written};
use crate::passes::testing::{lines, read, with_function};

fn reasons(model: &str) -> Vec<String> {
    let converted = written(&read(model).encode_to_vec(), &to(Float16)).1;
    converted.kept.into_iter().map(|kept| format!("{}: {}", kept.op, kept.why)).collect()
}

/// The same with this weight as a matrix of two rows.
fn with_matrix(model: &str, name: &str) -> Vec<u8> {
    let mut model = read(model);
    let weights = &mut model.graph.as_mut().expect("a graph").initializer;
    for weight in weights.iter_mut().filter(|weight| weight.name == name) {
        weight.dims = vec![2, weight.dims[0] / 2];
    }
    model.encode_to_vec()
}

#[test]
fn what_is_only_measured_need_not_be_exact() {
    let model = "
        in ids INT64
        const w FLOAT 4
        const two FLOAT 1
        a = Gather(w, ids)
        b = Mul(a, two)
        s = Shape(b)
        e = Expand(b, s)
        out e FLOAT";
    assert_eq!(reasons(model), [""; 0]);
}

#[test]
fn what_learned_weights_are_part_of_is_no_shape_arithmetic() {
    let model = "
        in ids INT64
        const w FLOAT 4
        const two FLOAT 1
        a = Gather(w, ids)
        b = Mul(a, two)
        n = Cast<to=7>(b)
        r = Expand(b, n)
        out r FLOAT";
    let (proto, converted) = written(&with_matrix(model, "w"), &to(Float16));
    let expected = "
        const w FLOAT16
        const two FLOAT16
        a = Gather(w, ids)
        b = Mul(a, two)
        n = Cast(b) to INT64
        r_FLOAT16 = Expand(b, n)
        r = Cast(r_FLOAT16) to FLOAT
        out r FLOAT";
    assert_eq!(printed(proto.graph.as_ref().expect("a graph")), lines(expected));
    assert_eq!(converted.kept, []);
    // Of a vector it is.
    let kept = reasons(model);
    assert_eq!(kept[..2], ["Gather: it computes a shape", "Mul: it computes a shape"]);
}

#[test]
fn back_in_float_nothing_stays_for_a_shape() {
    let model = "
        in x FLOAT16
        in f FLOAT
        const two FLOAT16 1
        a = Mul(x, two)
        g = Neg(f)
        h = Cast<to=10>(g)
        b = Add(a, h)
        s = Shape(b)
        e = Expand(h, s)
        out e FLOAT16";
    let expected = "
        const two FLOAT
        x_FLOAT = Cast(x) to FLOAT
        a = Mul(x_FLOAT, two)
        g = Neg(f)
        b = Add(a, g)
        s = Shape(b)
        e_FLOAT = Expand(g, s)
        e = Cast(e_FLOAT) to FLOAT16
        out e FLOAT16";
    check(model, &to(Float), expected);
}

#[test]
fn what_reads_bits_stays() {
    let model = "
        in x FLOAT
        a = Neg(x)
        b = BitCast<to=6>(a)
        out b INT32";
    let expected = "
        x_FLOAT16 = Cast(x) to FLOAT16
        a = Neg(x_FLOAT16)
        a_FLOAT = Cast(a) to FLOAT
        b = BitCast(a_FLOAT) to INT32
        out b INT32";
    check(model, &to(Float16), expected);
}

#[test]
fn angles_of_positions_stay() {
    let model = "
        in x FLOAT
        in position INT64
        const k FLOAT 4
        p = Cast<to=1>(position)
        a = Mul(p, k)
        s = Sin(a)
        c = Cos(x)
        y = Mul(s, c)
        out y FLOAT";
    let expected = "
        const k FLOAT
        x_FLOAT16 = Cast(x) to FLOAT16
        p = Cast(position) to FLOAT
        a = Mul(p, k)
        s = Sin(a)
        s_FLOAT16 = Cast(s) to FLOAT16
        c = Cos(x_FLOAT16)
        y_FLOAT16 = Mul(s_FLOAT16, c)
        y = Cast(y_FLOAT16) to FLOAT
        out y FLOAT";
    let converted = check(model, &to(Float16), expected);
    assert!(converted.kept.iter().all(|kept| kept.why == "it computes an angle from integers"));
    assert_eq!(converted.kept.len(), 3);
}

#[test]
fn products_of_integers_and_their_scales_stay() {
    let model = "
        in x FLOAT
        const w INT8 4
        const k FLOAT 1
        q, s, z = DynamicQuantizeLinear(x)
        m = MatMulInteger(q, w, z)
        f = Cast<to=1>(m)
        t = Mul(s, k)
        y = Mul(f, t)
        e = Exp(y)
        out e FLOAT";
    let expected = "
        const w INT8
        const k FLOAT
        q, s, z = DynamicQuantizeLinear(x)
        m = MatMulInteger(q, w, z)
        f = Cast(m) to FLOAT
        t = Mul(s, k)
        y = Mul(f, t)
        y_FLOAT16 = Cast(y) to FLOAT16
        e_FLOAT16 = Exp(y_FLOAT16)
        e = Cast(e_FLOAT16) to FLOAT
        out e FLOAT";
    let converted = check(model, &to(Float16), expected);
    let kept = converted.kept.iter().filter(|kept| kept.why == "it scales integer products");
    assert_eq!(kept.count(), 3);
}

#[test]
fn what_runtimes_have_in_float_alone_stays() {
    let model = "
        in x FLOAT
        in i INT64
        w = HannWindow(i)
        y = Mul(x, w)
        out y FLOAT";
    assert_eq!(
        reasons(model),
        ["HannWindow: what makes it is not in every runtime in another type"]
    );
}

#[test]
fn a_constant_that_a_branch_returns_stays_if_it_does_not_fit() {
    let mut model = read(
        "
        in x FLOAT
        in c BOOL
        y = If(c)
        z = Neg(y)
        out z FLOAT",
    );
    let graph = |text: &str| read(text).graph.expect("a graph");
    let mut large = graph("const k FLOAT 1\nout k FLOAT");
    large.initializer[0].raw_data = 1e6f32.to_le_bytes().into();
    let bodies = [("then_branch", large), ("else_branch", graph("e = Exp(x)\nout e FLOAT"))];
    let held = bodies.map(|(name, graph)| graph_attribute(name, graph));
    model.graph.as_mut().expect("a graph").node[0].attribute.extend(held);
    let (proto, _) = written(&model.encode_to_vec(), &to(Float16));
    let graph = proto.graph.expect("a graph");
    let large = graph.node.iter().find(|node| node.op_type == "If").expect("an If");
    let large = large.attribute[0].g.as_ref().expect("a branch");
    assert_eq!(large.initializer[0].raw_data, 1e6f32.to_le_bytes());
}

/// What becomes of the body of a function, the attributes of whose nodes named here are the
/// function's.
fn function(body: &str, referred: &[(&str, &str, AttributeType)]) -> String {
    let mut model = with_function("in x FLOAT\ny = my::F(x)\nout y FLOAT", body, "r");
    let function = &mut model.functions[0];
    function.attribute = vec!["of_call".into()];
    for (op, name, ty) in referred {
        let attribute = AttributeProto {
            name: (*name).into(),
            ref_attr_name: "of_call".into(),
            r#type: *ty as i32,
            ..AttributeProto::default()
        };
        let held = function.node.iter_mut().find(|node| node.op_type == *op).expect("a node");
        held.attribute.push(attribute);
    }
    let (proto, _) = written(&model.encode_to_vec(), &to(Float16));
    printed(&GraphProto { node: proto.functions[0].node.clone(), ..GraphProto::default() })
}

#[test]
fn attributes_of_a_call_that_decide_on_no_type_keep_nothing() {
    let body = "b = Elu(a)\nr = Softmax(b)";
    let referred =
        [("Elu", "alpha", AttributeType::Float), ("Softmax", "axis", AttributeType::Int)];
    assert_eq!(function(body, &referred), body);
    let body = "b = Exp(a)\nc = Cast(b)\nr = Cast<to=1>(c)";
    let printed = function(body, &[("Cast", "to", AttributeType::Int)]);
    assert!(printed.contains("c = Cast(b) to ?"), "{printed}");
}

#[test]
fn a_number_of_a_call_stays_and_is_cast() {
    let body = "k = Constant()\nr = Mul(a, k)";
    let expected = "
        k = Constant()
        k_FLOAT16 = Cast(k) to FLOAT16
        r = Mul(a, k_FLOAT16)";
    let printed = function(body, &[("Constant", "value_float", AttributeType::Float)]);
    assert_eq!(printed, lines(expected));
}
