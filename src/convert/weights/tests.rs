use onnx_cast_graph::{external_data, graph_attribute, value_attribute};
use prost::Message;
use tract_onnx::pb::tensor_proto::DataLocation;
use tract_onnx::pb::{GraphProto, ModelProto};

use crate::cast::element_type::ElementType::{self, Float, Float16, Int4, Int8};
use crate::convert::tests::{bytes, printed, written};
use crate::convert::{Options, WeightFormat, convert};
use crate::passes::testing::{lines, read};
use crate::tensor::proto;

const PRODUCT: &str = "
    in x FLOAT
    const w FLOAT 512
    y = MatMul(x, w)
    z = Exp(y)
    out z FLOAT";

/// What [`PRODUCT`] stays.
const UNCHANGED: &str = "
    const w FLOAT
    y = MatMul(x, w)
    z = Exp(y)
    out z FLOAT";

/// [`PRODUCT`] at an opset, w being 32 rows of 16 numbers that INT4 holds with a scale of 0.5, but
/// for `last`.
fn product(opset: i64, last: f32) -> Vec<u8> {
    product_of(PRODUCT, opset, last)
}

fn product_of(text: &str, opset: i64, last: f32) -> Vec<u8> {
    let mut model = ModelProto { ir_version: 8, ..read(text) };
    model.opset_import[0].version = opset;
    let weight = &mut model.graph.as_mut().expect("a graph").initializer[0];
    weight.dims = vec![32, 16];
    let mut numbers: Vec<f32> = (0..512).map(|i| (i * 7 % 15) as f32 * 0.5 - 3.5).collect();
    numbers[511] = last;
    weight.raw_data = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    model.encode_to_vec()
}

fn only(ty: ElementType, block: Option<usize>) -> Options {
    let weights = Some(WeightFormat::new(ty, block));
    Options { from: Some(vec![]), weights, ..Options::new(Float) }
}

/// The numbers that the weight stands for, dequantised by what the node says.
fn dequantized(graph: &GraphProto) -> Vec<f32> {
    let node = graph.node.iter().find(|node| node.op_type == "DequantizeLinear").expect("a node");
    let attribute = |name: &str| node.attribute.iter().find(|a| a.name == name).map(|a| a.i);
    let (axis, block) = (attribute("axis").expect("an axis"), attribute("block_size").unwrap_or(1));
    let tensor = |name: &str| {
        let found = graph.initializer.iter().find(|tensor| tensor.name == name);
        proto::read(found.expect("a tensor"), None).expect("a tensor").1
    };
    let (codes, scales) = (tensor(&node.input[0]), tensor(&node.input[1]));
    let codes = codes.cast_to::<f32>().expect("numbers").into_owned();
    let scales = scales.cast_to::<f32>().expect("numbers").into_owned();
    let (codes, scales) = (
        codes.try_as_plain_ram().expect("data").as_slice::<f32>().expect("codes").to_vec(),
        scales.try_as_plain_ram().expect("data").as_slice::<f32>().expect("scales").to_vec(),
    );
    let scale = |i: usize| match (axis, attribute("block_size")) {
        (1, None) => scales[i % 16],
        (0, Some(_)) => scales[i / 16 / block as usize * 16 + i % 16],
        other => panic!("{other:?}"),
    };
    codes.iter().enumerate().map(|(i, code)| code * scale(i)).collect()
}

fn graph_of(file: &[u8], options: &Options) -> GraphProto {
    written(file, options).0.graph.expect("a graph")
}

#[test]
fn weights_become_codes_with_scales() {
    let file = product(21, -3.5);
    for (ty, block) in [(Int8, None), (Int4, None), (Int4, Some(16)), (Int8, Some(32))] {
        let graph = graph_of(&file, &only(ty, block));
        let expected = format!(
            "const w {ty}
            const w_scale FLOAT
            w_dequantized = DequantizeLinear(w, w_scale)
            y = MatMul(x, w_dequantized)
            z = Exp(y)
            out z FLOAT"
        );
        assert_eq!(printed(&graph), lines(&expected), "{ty} {block:?}");
        let mut held: Vec<f32> = (0..512).map(|i| (i * 7 % 15) as f32 * 0.5 - 3.5).collect();
        held[511] = -3.5;
        for (got, want) in dequantized(&graph).iter().zip(held) {
            let tolerance = if ty == Int4 { 0.0 } else { 0.015 };
            assert!((got - want).abs() <= tolerance, "{ty} {block:?}: {got} {want}");
        }
        let twice = bytes(&bytes(&file, &only(ty, block)), &only(ty, block));
        assert_eq!(twice, bytes(&file, &only(ty, block)));
    }
}

#[test]
fn activations_may_be_narrow_beside() {
    let options = Options { weights: Some(WeightFormat::new(Int8, None)), ..Options::new(Float16) };
    let expected = "
        const w INT8
        const w_scale FLOAT16
        x_FLOAT16 = Cast(x) to FLOAT16
        w_dequantized = DequantizeLinear(w, w_scale)
        y = MatMul(x_FLOAT16, w_dequantized)
        z_FLOAT16 = Exp(y)
        z = Cast(z_FLOAT16) to FLOAT
        out z FLOAT";
    assert_eq!(printed(&graph_of(&product(21, -3.5), &options)), lines(expected));
    // Before opset 19 scales are FLOAT.
    let expected = "
        const w INT8
        const w_scale FLOAT
        x_FLOAT16 = Cast(x) to FLOAT16
        w_dequantized = DequantizeLinear(w, w_scale)
        w_dequantized_FLOAT16 = Cast(w_dequantized) to FLOAT16
        y = MatMul(x_FLOAT16, w_dequantized_FLOAT16)
        z_FLOAT16 = Exp(y)
        z = Cast(z_FLOAT16) to FLOAT
        out z FLOAT";
    assert_eq!(printed(&graph_of(&product(17, -3.5), &options)), lines(expected));
}

#[test]
fn others_than_products_take_the_weight_as_it_was() {
    let shared = "
        in x FLOAT
        const w FLOAT 512
        y = MatMul(x, w)
        v = Identity(w)
        out y FLOAT
        out v FLOAT";
    let options = Options { weights: Some(WeightFormat::new(Int8, None)), ..Options::new(Float16) };
    let (once, _) = written(&product_of(shared, 21, -3.5), &options);
    let expected = "
        const w FLOAT
        const w_INT8 INT8
        const w_INT8_scale FLOAT16
        x_FLOAT16 = Cast(x) to FLOAT16
        w_INT8_dequantized = DequantizeLinear(w_INT8, w_INT8_scale)
        y_FLOAT16 = MatMul(x_FLOAT16, w_INT8_dequantized)
        y = Cast(y_FLOAT16) to FLOAT
        v = Identity(w)
        out y FLOAT
        out v FLOAT";
    assert_eq!(printed(once.graph.as_ref().expect("a graph")), lines(expected));
    assert_eq!(written(&once.encode_to_vec(), &options).0, once, "converted twice");
}

#[test]
fn what_would_lose_too_much_or_is_kept_stays() {
    // One channel, in which one element is so large that the others are less than half a step.
    let mut model = ModelProto::decode(&*product(21, -3.5)).expect("a model");
    let weight = &mut model.graph.as_mut().expect("a graph").initializer[0];
    weight.dims = vec![512, 1];
    weight.raw_data[2044..].copy_from_slice(&100f32.to_le_bytes());
    let file = model.encode_to_vec();
    let (proto, converted) = written(&file, &only(Int4, None));
    assert_eq!(printed(proto.graph.as_ref().expect("a graph")), lines(UNCHANGED));
    assert_eq!((converted.counts.coded, converted.kept.len()), (0, 1));
    assert!(converted.kept[0].why.ends_with(" % would be lost in INT4"), "{:?}", converted.kept);
    // In blocks only those beside it are.
    assert_eq!(written(&file, &only(Int4, Some(32))).1.counts.coded, 1);
    let kept = Options { keep_ops: vec!["MatMul".into()], ..only(Int8, None) };
    let (proto, _) = written(&product(21, -3.5), &kept);
    assert_eq!(printed(proto.graph.as_ref().expect("a graph")), lines(UNCHANGED));
    let (proto, converted) = written(&product(21, f32::NAN), &only(Int8, None));
    assert_eq!(printed(proto.graph.as_ref().expect("a graph")), lines(UNCHANGED));
    assert_eq!(converted.kept[0].why, "`w` has values that are not finite");
}

#[test]
fn an_opset_without_such_weights_is_refused_or_raised() {
    let file = product(17, -3.5);
    let refused = |options: &Options| convert(&file, None, options).unwrap_err().to_string();
    let line = "the model imports opset 17, and INT4 weights are there since opset 21: `--opset 21` raises it";
    assert_eq!(refused(&only(Int4, None)), line);
    assert!(refused(&only(Int8, Some(16))).contains("scales of blocks are there since opset 21"));
    assert!(refused(&only(Int8, Some(0))).contains("at least one"));
    assert!(refused(&only(Float16, None)).contains("weights cannot be FLOAT16"));
    let raised = Options { opset: Some(21), ..only(Int4, None) };
    let model: ModelProto = written(&file, &raised).0;
    assert_eq!((model.opset_import[0].version, model.ir_version), (21, 10));
}

/// A product of batches has one for each, of which the columns share a scale.
#[test]
fn weights_of_batches_become_codes_too() {
    let mut model = ModelProto::decode(&*product(21, -3.5)).expect("a model");
    model.graph.as_mut().expect("a graph").initializer[0].dims = vec![2, 16, 16];
    for (block, dims) in [(None, vec![16]), (Some(8), vec![2, 2, 16])] {
        let graph = graph_of(&model.encode_to_vec(), &only(Int8, block));
        assert_eq!(
            (graph.initializer[0].data_type, &graph.initializer[1].dims),
            (Int8 as i32, &dims)
        );
    }
}

#[test]
fn weights_of_constant_nodes_become_codes_too() {
    let mut model = ModelProto::decode(&*product(21, -3.5)).expect("a model");
    let graph = model.graph.as_mut().expect("a graph");
    let mut node = read("w = Constant()").graph.expect("a graph").node.remove(0);
    node.attribute.push(value_attribute(graph.initializer.remove(0)));
    graph.node.insert(0, node);
    let expected = "
        w = Constant() of INT8
        w_scale = Constant() of FLOAT
        w_dequantized = DequantizeLinear(w, w_scale)
        y = MatMul(x, w_dequantized)
        z = Exp(y)
        out z FLOAT";
    assert_eq!(printed(&graph_of(&model.encode_to_vec(), &only(Int8, None))), lines(expected));
}

/// As all weights were before IR version 4.
#[test]
fn weights_that_are_inputs_are_none_any_more_where_the_opset_is_raised() {
    let mut model = ModelProto::decode(&*product(8, -3.5)).expect("a model");
    model.ir_version = 3;
    let graph = model.graph.as_mut().expect("a graph");
    graph.input.extend(read("in w FLOAT").graph.expect("a graph").input);
    let raised = Options { opset: Some(21), ..only(Int4, None) };
    let graph = graph_of(&model.encode_to_vec(), &raised);
    assert_eq!(graph.input.len(), 1);
    assert_eq!(graph.initializer[0].data_type, Int4 as i32);
}

/// Two branches may call their weights alike.
#[test]
fn weights_of_one_name_beside_the_model_have_codes_of_their_own() {
    let folder = std::env::temp_dir().join(format!("onnx-cast-codes-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let mut model = read("in x FLOAT\nin c BOOL\ny = If(c)\nout y FLOAT");
    model.opset_import[0].version = 21;
    for (place, name) in ["then_branch", "else_branch"].into_iter().enumerate() {
        let product = ModelProto::decode(&*product(21, -3.5)).expect("a model");
        let mut graph = product.graph.expect("a graph");
        graph.input.clear();
        let weight = &mut graph.initializer[0];
        let numbers =
            weight.raw_data.chunks(4).map(|x| f32::from_le_bytes([x[0], x[1], x[2], x[3]]));
        let bytes: Vec<u8> =
            numbers.flat_map(|x| (x * 10f32.powi(place as i32)).to_le_bytes()).collect();
        std::fs::write(folder.join(name), &bytes).expect("a file");
        weight.raw_data.clear();
        weight.data_location = Some(DataLocation::External as i32);
        weight.external_data = external_data(name, 0, bytes.len() as u64);
        let branch = graph_attribute(name, graph);
        model.graph.as_mut().expect("a graph").node[0].attribute.push(branch);
    }
    let file = model.encode_to_vec();
    let converted = convert(&file, Some(&folder), &only(Int8, None)).expect("a conversion");
    let (mut out, mut side) = (vec![], vec![]);
    converted.write(&mut out, Some(("o.data", &mut side))).expect("a file");
    std::fs::remove_dir_all(&folder).expect("no folder");
    assert_eq!(side.len(), 1024);
    assert_eq!(side[..512], side[512..], "ten times the numbers have ten times the scales");
}

#[test]
fn what_is_declared_of_a_weight_goes() {
    let mut model = ModelProto::decode(&*product(21, -3.5)).expect("a model");
    let graph = model.graph.as_mut().expect("a graph");
    graph.value_info.extend(read("info w FLOAT\ninfo y FLOAT").graph.expect("a graph").value_info);
    let expected = "
        const w INT8
        const w_scale FLOAT
        info y FLOAT
        w_dequantized = DequantizeLinear(w, w_scale)
        y = MatMul(x, w_dequantized)
        z = Exp(y)
        out z FLOAT";
    assert_eq!(printed(&graph_of(&model.encode_to_vec(), &only(Int8, None))), lines(expected));
}
