//! What is given to a model, and what it returns.

use tract_onnx::pb::{SparseTensorProto, TensorProto, TypeProto};

use super::*;

#[test]
fn inputs_and_outputs_are_converted_where_that_is_wanted() {
    let options = Options { convert_io: true, ..to(BFloat16) };
    let expected = "
        const w BFLOAT16
        info a BFLOAT16
        a = Mul(x, w)
        b = Exp(a)
        c = Add(b, w)
        d = Mul(c, b)
        out d BFLOAT16";
    check(CHAIN, &options, expected);
}

/// What a SequenceMap makes is returned as it is: no Cast takes a sequence.
#[test]
fn a_sequence_that_is_returned_stays() {
    let mut model = read("in x FLOAT\ns = SplitToSequence(x)\nm = SequenceMap(s)\nout m FLOAT");
    let graph = model.graph.as_mut().expect("a graph");
    graph.output[0].r#type = Some(TypeProto::default());
    let body = read("in e FLOAT\nf = Exp(e)\nout f FLOAT").graph.expect("a graph");
    graph.node[1].attribute.push(graph_attribute("body", body));
    let options = Options { convert_io: true, ..to(Float16) };
    let graph = written(&model.encode_to_vec(), &options).0.graph.expect("a graph");
    let maker = graph.node.iter().find(|node| node.output == ["m"]).expect("a maker");
    assert_eq!(maker.op_type, "SequenceMap");
}

#[test]
fn defaults_of_inputs_are_converted_with_them() {
    let model = |default: f32| {
        let mut model = read("in x FLOAT\nin s FLOAT\nconst s FLOAT 1\ny = Mul(x, s)\nout y FLOAT");
        model.ir_version = 8;
        let graph = model.graph.as_mut().expect("a graph");
        graph.initializer[0].raw_data = default.to_le_bytes().into();
        model.encode_to_vec()
    };
    let options = Options { convert_io: true, ..to(Float16) };
    let types = |default: f32| {
        let graph = written(&model(default), &options).0.graph.expect("a graph");
        (declared_name(&graph.input[1]), type_name(graph.initializer[0].data_type))
    };
    let [narrow, wide] = ["FLOAT16", "FLOAT"].map(str::to_owned);
    assert_eq!(types(0.5), (narrow.clone(), narrow));
    // Nothing is clipped.
    assert_eq!(types(1e6), (wide.clone(), wide));
}

#[test]
fn sparse_weights_become_dense() {
    let mut model = read("in x FLOAT\ny = Mul(x, w)\nout y FLOAT");
    let values = TensorProto {
        name: "w".into(),
        data_type: Float as i32,
        dims: vec![1],
        float_data: vec![0.5],
        ..TensorProto::default()
    };
    let indices = TensorProto {
        data_type: ElementType::Int64 as i32,
        dims: vec![1],
        int64_data: vec![2],
        ..TensorProto::default()
    };
    let sparse = SparseTensorProto { values: Some(values), indices: Some(indices), dims: vec![4] };
    model.graph.as_mut().expect("a graph").sparse_initializer.push(sparse);
    let graph = written(&model.encode_to_vec(), &to(Float16)).0.graph.expect("a graph");
    let halves = [0.0, 0.0, 0.5, 0.0].map(|x| half::f16::from_f32(x).to_le_bytes()).concat();
    assert_eq!((graph.initializer[0].data_type, &graph.initializer[0].raw_data), (10, &halves));
    assert!(graph.sparse_initializer.is_empty());
}

#[test]
fn a_table_is_narrow_though_what_is_looked_up_is_returned() {
    let model = "
        in i INT64
        const w FLOAT 4
        y = Gather(w, i)
        out y FLOAT";
    let expected = "
        const w FLOAT16
        y_FLOAT16 = Gather(w, i)
        y = Cast(y_FLOAT16) to FLOAT
        out y FLOAT";
    assert_eq!(check(model, &to(Float16), expected).kept, []);
    // What is taken of a value, or of a weight at fixed places, is worth no cast.
    for given in ["in w FLOAT\nin i INT64", "const w FLOAT 4\nconst i INT64 1"] {
        let model = read(&format!("{given}\ny = Gather(w, i)\nout y FLOAT"));
        let (proto, _) = written(&model.encode_to_vec(), &to(Float16));
        let graph = proto.graph.expect("a graph");
        assert!(graph.node.iter().all(|node| node.op_type != "Cast"));
    }
}
