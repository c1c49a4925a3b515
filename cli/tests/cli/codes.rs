//! Conversions to codes: what is sound is not broken, and what is turned is told where it is.

use tract_onnx::pb::attribute_proto::AttributeType;
use tract_onnx::pb::tensor_proto::DataType;
use tract_onnx::pb::{AttributeProto, GraphProto, ModelProto};
use tract_onnx::prelude::tensor1;
use tract_onnx_cast::ElementType::{self, Float, Float8E4M3FN, Float16, Int4, Int8, Int64};

use crate::common::proto::{
    Change, cast, external, graph, int, int64, ints, model, node, raw, set_dim, string, symbol,
    unshaped, value,
};
use crate::program::{Folder, json, onnx_cast, refused, said, stdout};
use crate::verdict::{broken, held, judged, of, one, values, verdict};

/// A product of values that FLOAT8 holds in FLOAT16, and of which the codes lie the farther apart
/// the larger they are.
fn in_float8(spoiled: f32) -> [ModelProto; 2] {
    let weight = values(64, 3);
    let (shape, made) = ([6, 16], [6, 4]);
    let product = |x: &str, made: &str| node("MatMul", &[x, "w"], &[made], vec![]).named("product");
    let weights = |ty, weight: &[f32]| held("w", ty, &[16, 4], weight);
    let reference = of(&shape, vec![product("x", "y")], &made, vec![weights(Float, &weight)]);
    let nodes = vec![
        cast("x", Float16, "h"),
        node("QuantizeLinear", &["h", "scale", "zero"], &["q"], vec![]).named("quantiser"),
        node("DequantizeLinear", &["q", "scale", "zero"], &["d"], vec![]).named("taker"),
        product("d", "p"),
        cast("p", Float, "y"),
    ];
    let mut other = weight;
    other[5] += spoiled;
    let constants = vec![
        weights(Float16, &other),
        one("scale", Float16, 1.0 / 64.0),
        one("zero", Float8E4M3FN, 0.0),
    ];
    let mut converted = of(&shape, nodes, &made, constants);
    converted.opset_import[0].version = 21;
    [reference, converted]
}

#[test]
fn half_a_code_of_floats_is_half_the_way_to_the_next() {
    let [reference, sound] = in_float8(0.0);
    assert_ne!(verdict(&reference, &sound), "broken");
    let [_, spoiled] = in_float8(3.0);
    assert_eq!(judged(&reference, &spoiled).0, "broken");
}

/// A reference that is in codes itself, in a wider type: its codes stand for its values as the
/// conversion's do.
#[test]
fn codes_of_the_reference_are_taken_back_to_its_own_values() {
    let coded = |ty| {
        let nodes = vec![
            cast("x", ty, "n"),
            node("Mul", &["n", "factor"], &["h"], vec![]).named("scaled"),
            cast("h", Float, "same"),
            node(
                "QuantizeLinear",
                &["same", "scale", "zero"],
                &["h_QuantizeLinear_Output"],
                vec![],
            )
            .named("quantiser"),
            node("DequantizeLinear", &["h_QuantizeLinear_Output", "scale", "zero"], &["d"], vec![])
                .named("taker"),
            node("Abs", &["d"], &["y"], vec![]).named("last"),
        ];
        let held = vec![
            one("factor", ty, 3.0),
            one("scale", Float, 0.03),
            one("zero", ElementType::Int8, 0.0),
        ];
        of(&[6, 16], nodes, &[6, 16], held)
    };
    assert_eq!(verdict(&coded(Float), &coded(ElementType::Double)), "same");
}

/// What ONNX Runtime makes of a Split in codes: the names of its results have no underscore.
#[test]
fn results_in_codes_that_are_turned_are_told_at_their_node() {
    let (shape, made) = ([6, 16], [6, 8]);
    let reference = of(
        &shape,
        vec![
            node("Split", &["x", "sizes"], &["a", "b"], vec![int("axis", 1)]).named("parts"),
            node("Sigmoid", &["a"], &["s"], vec![]).named("gate"),
            node("Mul", &["s", "b"], &["y"], vec![]).named("last"),
        ],
        &made,
        vec![int64("sizes", &[8, 8])],
    );
    let converted = |parts: [&str; 2]| {
        let nodes = vec![
            node("QuantizeLinear", &["x", "scale", "zero"], &["x_quantized"], vec![]).named("in"),
            node("Split", &["x_quantized", "sizes"], &parts, vec![int("axis", 1)])
                .named("parts_quant"),
            node("DequantizeLinear", &["aquantized", "scale", "zero"], &["a_back"], vec![])
                .named("first"),
            node("DequantizeLinear", &["bquantized", "scale", "zero"], &["b_back"], vec![])
                .named("second"),
            node("Sigmoid", &["a_back"], &["s"], vec![]).named("gate"),
            node("Mul", &["s", "b_back"], &["y"], vec![]).named("last"),
        ];
        let constants = vec![
            int64("sizes", &[8, 8]),
            one("scale", Float, 1.0 / 64.0),
            one("zero", ElementType::Uint8, 64.0),
        ];
        of(&shape, nodes, &made, constants)
    };
    assert_ne!(verdict(&reference, &converted(["aquantized", "bquantized"])), "broken");
    let turned = judged(&reference, &converted(["bquantized", "aquantized"]));
    assert_eq!(turned, broken("parts_quant", "input_order"));
}

/// A table that lacks its last rows.
#[test]
fn values_that_the_conversion_alone_refuses_are_a_fault_of_it() {
    let folder = Folder::new();
    let table = |rows: i64| {
        let nodes = [node("Gather", &["table", "i"], &["y"], vec![]).named("rows")];
        let graph = graph(&[value("i", Int64, &[3])], &nodes, &[unshaped("y", Float)]);
        let held = held("table", Float, &[rows, 2], &values(2 * rows as usize, 1));
        model(17, GraphProto { initializer: vec![held], ..graph })
    };
    let (a, b) = (folder.message("a.onnx", &table(6)), folder.message("b.onnx", &table(4)));
    let indices = tract_onnx::prelude::tensor1(&[1i64, 5, 0]);
    let given = format!("i={}", folder.tensor("i.pb", Int64, indices));
    let report = json(&said(1, &["compare", "--json", &a, &b, "-i", &given]));
    let pair = &report["comparisons"][0];
    assert_eq!(
        (&pair["verdict"], &pair["culprits"][0]["node"]),
        (&"broken".into(), &"rows".into())
    );
    // What cannot be run whatever it is given is no finding.
    assert!(refused(&["compare", &b, &b, "-i", &given]).contains("has an index 5"));
}

/// A product in codes with a scale for each column, whose result ends where its codes end.
#[test]
fn a_gemm_in_codes_by_columns_is_looked_into() {
    let (shape, made) = ([6, 16], [6, 4]);
    let codes: Vec<f32> = values(64, 5).iter().map(|x| (x * 120.0).round()).collect();
    let scales = [0.01, 0.02, 0.005, 0.01];
    let weight = |spoiled: f32| -> Vec<f32> {
        let of = |(place, code): (usize, &f32)| code * scales[place / 16];
        let mut weight: Vec<f32> = codes.iter().enumerate().map(of).collect();
        weight[7] += spoiled;
        weight
    };
    let turned = || vec![int("transB", 1)];
    let reference = |spoiled| {
        let gemm = node("Gemm", &["x", "w"], &["y"], turned()).named("product");
        of(&shape, vec![gemm], &made, vec![held("w", Float, &[4, 16], &weight(spoiled))])
    };
    let inputs = ["x_q", "x_scale", "x_zero", "w_q", "w_scale", "w_zero", "", "y_scale", "y_zero"];
    let nodes = vec![
        node("QuantizeLinear", &["x", "x_scale", "x_zero"], &["x_q"], vec![]).named("in"),
        node("com.microsoft.QGemm", &inputs, &["y_quantized"], turned()).named("product_quant"),
        node("DequantizeLinear", &["y_quantized", "y_scale", "y_zero"], &["y"], vec![])
            .named("out"),
    ];
    let constants = vec![
        one("x_scale", Float, 1.0 / 32.0),
        one("x_zero", ElementType::Uint8, 128.0),
        held("w_q", ElementType::Int8, &[4, 16], &codes),
        held("w_scale", Float, &[4], &scales),
        held("w_zero", ElementType::Int8, &[4], &[0.0; 4]),
        one("y_scale", Float, 1.0 / 24.0),
        one("y_zero", ElementType::Uint8, 128.0),
    ];
    let converted = of(&shape, nodes, &made, constants);
    assert_ne!(verdict(&reference(0.0), &converted), "broken");
    assert_eq!(judged(&reference(1.0), &converted).0, "broken");
}

/// Codes whose scales are FLOAT, and whose values `output_dtype` has in FLOAT16.
#[test]
fn values_of_codes_in_half_precision_are_off_by_half_a_step_too() {
    const STEP: f32 = 0.15;
    let (weight, shape, made) = (values(96, 4), [3, 8], [3, 12]);
    let product = |weight: &str| node("MatMul", &["x", weight], &["y"], vec![]).named("product");
    let reference =
        of(&shape, vec![product("w")], &made, vec![held("w", Float, &[8, 12], &weight)]);
    let converted = |spoiled: f32| {
        let mut codes: Vec<f32> = weight.iter().map(|x| (x / STEP).round()).collect();
        codes[17] += spoiled;
        let half = vec![int("output_dtype", DataType::Float16 as i64)];
        let nodes = vec![
            node("DequantizeLinear", &["q", "scale"], &["h"], half).named("values"),
            cast("h", Float, "f"),
            product("f"),
        ];
        let codes = held("q", Int8, &[8, 12], &codes);
        let mut model = of(&shape, nodes, &made, vec![codes, one("scale", Float, STEP)]);
        model.opset_import[0].version = 23;
        model
    };
    assert_eq!(verdict(&reference, &converted(0.0)), "rounded");
    assert_eq!(verdict(&reference, &converted(60.0)), "broken");
}

/// A window beyond an image of one row, which the other pads by itself.
#[test]
fn a_size_that_the_conversion_alone_refuses_is_a_fault_of_it() {
    let pool = |pads: AttributeProto| {
        let attributes = vec![ints("kernel_shape", &[3, 3]), ints("strides", &[2, 2]), pads];
        let pool = node("MaxPool", &["x"], &["y"], attributes).named("pool");
        let mut image = value("x", Float, &[1, 2, 0, 0]);
        set_dim(&mut image, 2, symbol("height"));
        set_dim(&mut image, 3, symbol("width"));
        model(17, graph(&[image], &[pool], &[unshaped("y", Float)]))
    };
    let folder = Folder::new();
    let a = folder.message("a.onnx", &pool(string("auto_pad", "SAME_UPPER")));
    let b = folder.message("b.onnx", &pool(ints("pads", &[0, 0, 1, 1])));
    let report = json(&said(1, &["compare", "--json", &a, &b]));
    let pair = &report["comparisons"][0];
    assert_eq!(
        (&pair["verdict"], &pair["culprits"][0]["node"]),
        (&"broken".into(), &"pool".into())
    );
}

/// A recurrent layer, and the same that quantises what it is given as it runs; the scale of its
/// weights is so many times what it is to be.
fn recurrent(times: [f32; 2]) -> [ModelProto; 2] {
    let [weights, states] = [values(6 * 32, 3), values(8 * 32, 5)];
    let scales = [1.0 / 127.0, 0.5 / 127.0];
    let coded = |weights: &[f32], scale: f32, own: usize| -> Vec<f32> {
        let code = |place: usize| (weights[place % 32 * own + place / 32] / scale).round();
        (0..weights.len()).map(code).collect()
    };
    let states: Vec<f32> = states.iter().map(|x| x / 2.0).collect();
    let of = |layer: &str, inputs: &[&str], held| {
        let layer = node(layer, inputs, &["h"], vec![int("hidden_size", 8)]).named("layer");
        let last = node("Squeeze", &["h", "axis"], &["y"], vec![]).named("last");
        of(&[5, 2, 6], vec![layer, last], &[5, 2, 8], held)
    };
    let axis = || int64("axis", &[1]);
    let mut plain =
        vec![held("w", Float, &[1, 32, 6], &weights), held("r", Float, &[1, 32, 8], &states)];
    plain.push(axis());
    let mut narrow = vec![
        held("w_quantized", Int8, &[1, 6, 32], &coded(&weights, scales[0], 6)),
        held("r_quantized", Int8, &[1, 8, 32], &coded(&states, scales[1], 8)),
        held("ws", Float, &[1], &[scales[0] * times[0]]),
        held("rs", Float, &[1], &[scales[1] * times[1]]),
        held("z", Int8, &[1], &[0.0]),
    ];
    narrow.push(axis());
    let inputs = ["x", "w_quantized", "r_quantized", "", "", "", "", "", "ws", "z", "rs", "z"];
    [of("LSTM", &["x", "w", "r"], plain), of("com.microsoft.DynamicQuantizeLSTM", &inputs, narrow)]
}

/// A value that is much larger than the others makes the steps of all large.
#[test]
fn what_a_layer_quantises_itself_may_be_half_a_step_off() {
    let folder = Folder::new();
    let mut x = values(5 * 2 * 6, 7);
    x[0] = 120.0;
    let x = tensor1(&x).into_shape(&[5, 2, 6]).expect("as many values");
    folder.tensor("x.pb", Float, x);
    let given = format!("x={}", folder.text("x.pb"));
    let verdict = |times| {
        let [a, b] = recurrent([times, 1.0]);
        let (a, b) = (folder.message("a.onnx", &a), folder.message("b.onnx", &b));
        let report = json(&stdout(&onnx_cast(["compare", &a, &b, "--json", "-i", &given])));
        report["comparisons"][0]["verdict"].as_str().map(String::from)
    };
    assert_ne!(verdict(1.0).as_deref(), Some("broken"));
    let [reference, spoiled] = recurrent([-2.0, 1.0]);
    let (found, node, _) = judged(&reference, &spoiled);
    assert_eq!((&*found, &*node), ("broken", "layer"));
}

/// What the state is multiplied by shows little in what is made of it.
#[test]
fn the_scale_of_what_a_layer_multiplies_its_state_by_is_held_against_its_values() {
    let folder = Folder::new();
    let told = |times| {
        let [a, b] = recurrent([1.0, times]);
        let (a, b) = (folder.message("a.onnx", &a), folder.message("b.onnx", &b));
        let report = json(&stdout(&onnx_cast(["compare", &a, &b, "--weights-only", "--json"])));
        let changed = &report["comparisons"][0]["weights"]["changed"];
        changed[0]["text"].as_str().map(String::from)
    };
    assert_eq!(told(1.0), None);
    let text = told(1.1).unwrap_or_default();
    assert!(text.contains("all are about 1."), "{text}");
}

/// A product by 64 rows of 4 columns in blocks of 32, which is off by so many steps of INT4 codes,
/// given their places.
fn in_blocks(off: impl Fn(usize) -> f32) -> [ModelProto; 2] {
    const STEP: f32 = 1.0 / 8.0;
    // The codes at both ends stand for what lies beyond them.
    let code = |place: usize| (place * 7919 / 5 % 13) as i8 - 6;
    let weight: Vec<f32> =
        (0..64 * 4).map(|place| (f32::from(code(place)) + off(place)) * STEP).collect();
    let bytes = (0..64 * 2).map(|byte| {
        let [low, high] = [code(2 * byte), code(2 * byte + 1)].map(i8::cast_unsigned);
        low & 15 | high << 4
    });
    let (shape, made) = ([3, 64], [3, 4]);
    let product = node("MatMul", &["x", "w"], &["y"], vec![]).named("product");
    let weights = held("w", Float, &[64, 4], &weight);
    let reference = of(&shape, vec![product.clone()], &made, vec![weights]);
    let blocks = vec![int("axis", 0), int("block_size", 32)];
    let taken = node("DequantizeLinear", &["q", "s"], &["w"], blocks).named("taker");
    let codes = raw("q", Int4 as i32, &[64, 4], &bytes.collect::<Vec<u8>>());
    let scales = held("s", Float, &[2, 4], &[STEP; 8]);
    let mut converted = of(&shape, vec![taken, product], &made, vec![codes, scales]);
    converted.opset_import[0].version = 21;
    [reference, converted]
}

/// What GPTQ chooses: many codes are not the nearest ones, none by far, and no block or column
/// alike.
#[test]
fn codes_that_make_up_for_one_another_are_sound() {
    let even = |place: usize| (place * 7919 % 101) as f32 / 50.0 - 1.0;
    let spread = |place: usize| 0.45 * (even(place) + even(3 * place + 1) + even(7 * place + 2));
    let [reference, converted] = in_blocks(spread);
    assert_ne!(verdict(&reference, &converted), "broken");
    let is_of_block = |place: usize| place % 4 == 1 && place >= 32 * 4;
    let moved = |place: usize| if is_of_block(place) { 1.0 } else { 0.0 };
    let few = |place: usize| if place % 90 == 7 { 1.5 } else { 0.4 * even(place) };
    let [of_block, _] = in_blocks(|place| spread(place) + moved(place));
    let [of_few, _] = in_blocks(few);
    for reference in [&of_block, &of_few] {
        assert_eq!(judged(reference, &converted).0, "broken");
    }
    // A few codes that are far off are told from what GPTQ chooses without a run, too, whatever
    // makes the weight of them.
    let folder = Folder::new();
    let passes = |verb: &[&str], reference: &ModelProto, converted: &ModelProto| {
        let (a, b) = (folder.message("a.onnx", reference), folder.message("b.onnx", converted));
        let call = verb.iter().map(|word| if *word == "REFERENCE" { &a } else { *word });
        onnx_cast(call.chain([&*b])).status.success()
    };
    let far = |place: usize| if place % 85 == 7 { 3.0 } else { spread(place) };
    let [gptq, _] = in_blocks(far);
    for converted in [&converted, &turned(&converted)] {
        for verb in
            [&["compare", "--weights-only", "REFERENCE"][..], &["audit", "--baseline", "REFERENCE"]]
        {
            assert!(passes(verb, &gptq, converted), "{verb:?}");
            assert!(!passes(verb, &of_few, converted), "{verb:?}");
        }
    }
}

/// The same of [`in_blocks`], whose codes are of the transpose, and whose scale is in FLOAT16 and a
/// node's.
fn turned(converted: &ModelProto) -> ModelProto {
    let mut turned = converted.clone();
    let graph = turned.graph.as_mut().expect("a graph");
    let held = &graph.initializer[0].raw_data;
    let code = |place: usize| held[place / 2] >> (4 * (place % 2)) & 15;
    let of_transpose = |place: usize| code(place % 64 * 4 + place / 64);
    let bytes = (0..64 * 2).map(|byte| of_transpose(2 * byte) | of_transpose(2 * byte + 1) << 4);
    let codes = raw("q", Int4 as i32, &[4, 64], &bytes.collect::<Vec<u8>>());
    let product = graph.node.pop().expect("a product");
    let scale = AttributeProto {
        name: "value".into(),
        r#type: AttributeType::Tensor as i32,
        t: Some(self::held("", Float16, &[4, 2], &[1.0 / 8.0; 8])),
        ..AttributeProto::default()
    };
    let blocks = vec![int("axis", 1), int("block_size", 32)];
    graph.node = vec![
        node("Constant", &[], &["s"], vec![scale]),
        node("DequantizeLinear", &["q", "s"], &["half"], blocks).named("taker"),
        cast("half", Float, "wide"),
        node("Transpose", &["wide"], &["w"], vec![]),
        product,
    ];
    graph.initializer = vec![codes];
    turned
}

/// A range that cuts off more than a tenth of the size of its weight is no rounding.
#[test]
fn what_the_last_codes_cut_off_is_looked_at() {
    let coarse = |by: f32| {
        let [mut reference, mut converted] = in_blocks(|_| 0.0);
        let weight = |model: &mut ModelProto, change: &dyn Fn(usize, f32) -> f32| {
            let held = &mut model.graph.as_mut().expect("a graph").initializer[0];
            let floats = held.raw_data.as_chunks_mut::<4>().0.iter_mut().enumerate();
            floats.for_each(|(place, x)| *x = change(place, f32::from_le_bytes(*x)).to_le_bytes());
        };
        // Of every 16th value the code is the last one.
        weight(&mut reference, &|place, x| if place % 16 == 0 { by * 7.0 / 8.0 } else { x });
        let codes = &mut converted.graph.as_mut().expect("a graph").initializer[0].raw_data;
        codes.iter_mut().step_by(8).for_each(|byte| *byte = *byte & 0xf0 | 7);
        verdict(&reference, &converted)
    };
    assert_ne!(coarse(1.05), "broken");
    assert_eq!(coarse(1.9), "broken");
}

#[test]
fn a_weight_has_no_band() {
    let [reference, converted] = in_blocks(|place| (place % 7) as f32 / 8.0 - 0.375);
    let folder = Folder::new();
    let (a, b) = (folder.message("a.onnx", &reference), folder.message("b.onnx", &converted));
    let report = json(&stdout(&onnx_cast(["compare", &a, &b, "--json", "--search", "0"])));
    let rows = report["comparisons"][0]["errors_inside"].as_array().expect("rows").clone();
    let band = |tensor: &str| {
        rows.iter().find(|row| row["tensor"] == *tensor).map(|row| row["band"].clone())
    };
    assert!(band("w").is_some_and(|band| band.is_null()), "{rows:?}");
    assert!(band("y").is_some_and(|band| band.is_number()), "{rows:?}");
}

/// A `MatMulNBits` of 8 bits whose codes are in another file, the last block of each column padded.
#[test]
fn codes_of_8_bits_in_another_file_are_held_against_the_references() {
    const ROWS: usize = 24;
    const COLUMNS: usize = 4;
    const PADDED: usize = 32;
    const STEP: f32 = 1.0 / 128.0;
    let code = |row: usize, column: usize| ((row * 37 + column * 101) % 251) as u8;
    let weight: Vec<f32> = (0..ROWS * COLUMNS)
        .map(|place| (f32::from(code(place / COLUMNS, place % COLUMNS)) - 128.0) * STEP)
        .collect();
    let (shape, made) = ([3, ROWS as i64], [3, COLUMNS as i64]);
    let product = node("MatMul", &["x", "w"], &["y"], vec![]).named("product");
    let weights = held("w", Float, &[ROWS as i64, COLUMNS as i64], &weight);
    let reference = of(&shape, vec![product], &made, vec![weights]);
    let sizes = [("K", ROWS as i64), ("N", COLUMNS as i64), ("bits", 8), ("block_size", 16)];
    let sizes = sizes.map(|(name, size)| int(name, size)).into();
    let nodes = [node("com.microsoft.MatMulNBits", &["x", "q", "s"], &["y"], sizes).named("coded")];
    let codes = external(raw("q", ElementType::Uint8 as i32, &[4, 2, 16], &[]), "q.data", None);
    let scales = held("s", Float, &[8], &[STEP; 8]);
    let mut converted = of(&shape, nodes.into(), &made, vec![codes, scales]);
    converted.opset_import[0].version = 21;
    let folder = Folder::new();
    let (a, b) = (folder.message("a.onnx", &reference), folder.message("b.onnx", &converted));
    let compared = |status: i32, off: u8| {
        let mut codes: Vec<u8> =
            (0..COLUMNS * PADDED).map(|place| code(place % PADDED, place / PADDED)).collect();
        codes[2 * PADDED + 17] ^= off;
        folder.write("q.data", codes);
        let report = json(&said(status, &["compare", "--json", &a, &b]));
        report["comparisons"][0].clone()
    };
    let sound = compared(0, 0);
    assert_eq!(sound["weights"]["compared"], 1, "{sound}");
    assert_eq!(sound["weights"]["changed"], serde_json::json!([]), "{sound}");
    let wrong = compared(1, 0x40);
    let first = &wrong["culprits"][0];
    assert_eq!((&wrong["verdict"], &first["node"]), (&"broken".into(), &"coded".into()), "{wrong}");
    assert_eq!(wrong["weights"]["changed"][0]["name"], "w", "{wrong}");
}
