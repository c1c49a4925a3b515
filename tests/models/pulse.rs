//! Streaming: a model that runs a few frames at a time gives the bits of the whole sequence at
//! once.

use crate::common::cases::{root, tensors};
use crate::common::elements::{samples, tensor_of_codes};
use crate::common::proto::{Sketch, int, set_dim, symbol, unshaped};
use tract_onnx::prelude::*;
use tract_onnx::tract_core::internal::ToDim;
use tract_onnx_cast::interop::OnnxCast;
use tract_onnx_cast::{ElementType, Rules, tensor_proto};
use tract_pulse::internal::{PulsedModel, PulsedModelExt};

/// Runs a model whose one input streams over `axis`, in pulses, and joins its outputs, which stream
/// over the same axis.
fn streamed(model: &TypedModel, input: &Tensor, axis: usize, pulse: usize) -> Vec<Tensor> {
    let time = model.input_fact(0).unwrap().shape[axis].symbols().into_iter().next().unwrap();
    let pulsed = PulsedModel::new(model, time, &pulse.to_dim()).unwrap().into_typed().unwrap();
    let delays = pulsed.properties["pulse.delay"].clone();
    let delays = delays.try_as_plain_ram().unwrap().as_slice::<i64>().unwrap().to_vec();
    let plan = pulsed.into_optimized().unwrap().into_runnable().unwrap();
    let mut state = plan.spawn().unwrap();
    let mut parts = vec![vec![]; delays.len()];
    for start in (0..input.shape()[axis]).step_by(pulse) {
        let frames = input.slice(axis, start, start + pulse).unwrap();
        for (parts, part) in parts.iter_mut().zip(state.run(tvec!(frames.into_tvalue())).unwrap()) {
            parts.push(part.into_tensor());
        }
    }
    let join = |(parts, delay): (Vec<Tensor>, i64)| {
        let whole = Tensor::stack_tensors(axis, &parts).unwrap();
        whole.slice(axis, delay as usize, whole.shape()[axis]).unwrap()
    };
    parts.into_iter().zip(delays).map(join).collect()
}

fn at_once(model: &TypedModel, input: &Tensor) -> Vec<Tensor> {
    let plan = model.clone().into_optimized().unwrap().into_runnable().unwrap();
    let outputs = plan.run(tvec!(input.clone().into_tvalue())).unwrap();
    outputs.into_iter().map(TValue::into_tensor).collect()
}

#[test]
fn a_filter_between_casts_streams() {
    let folder = root().join("models/whole/streaming_filter");
    let model = tract_onnx_cast::onnx().model_for_path(folder.join("model.onnx")).unwrap();
    let model = model.into_typed().unwrap().into_decluttered().unwrap();
    let input = tensors(&folder.join("test_data_set_0"), "input").remove(0).tensor;
    let expected = at_once(&model, &input);
    for pulse in [1, 2, 4, 8, 12] {
        assert_eq!(streamed(&model, &input, 2, pulse), expected, "pulse {pulse}");
    }
}

#[test]
fn a_product_of_codes_streams() {
    use crate::common::proto::tensor;
    use ElementType::{Float, Uint8};
    let codes: Vec<f32> = (0..12).map(|code| (code * 5 % 7) as f32).collect();
    let quantized: &[&str] = &["x", "scale", "zero", "w", "scale", "zero", "scale", "zero"];
    let mut sketch = Sketch::new()
        .input("x", Uint8, &[1, -1, 4])
        .initializer(tract_onnx::pb::TensorProto { dims: vec![4, 3], ..tensor("w", Uint8, &codes) })
        .initializer(tensor("scale", Float, &[0.5]))
        .initializer(tensor("zero", Uint8, &[3.]))
        .node("QLinearMatMul", quantized, &["y"], vec![]);
    set_dim(&mut sketch.0.input[0], 1, symbol("time"));
    sketch.0.output.push(unshaped("y", Uint8));
    let model = tract_onnx_cast::onnx().model_for_proto_model(&sketch.model()).unwrap();
    let model = model.into_typed().unwrap().into_decluttered().unwrap();
    let frames: Vec<u8> = (0..48).map(|x| x * 5).collect();
    let input = Tensor::from_shape(&[1, 12, 4], &frames).unwrap();
    let expected = at_once(&model, &input);
    for pulse in [1, 4] {
        assert_eq!(streamed(&model, &input, 1, pulse), expected, "pulse {pulse}");
    }
}

#[test]
fn every_pair_of_types_streams() {
    use ElementType::String;
    let numeric = || ElementType::ALL.iter().copied().filter(|ty| *ty != String);
    for from in numeric() {
        let input = tensor_of_codes(from, &samples(from, 100)[..2]);
        let input = Tensor::stack_tensors(0, &vec![input; 12]).unwrap();
        for to in ElementType::ALL.iter().copied() {
            let mut model = TypedModel::default();
            let time = model.symbols.sym("T");
            let fact = from.datum_type().fact(&[time.to_dim()]);
            let x = model.add_source("x", fact).unwrap();
            let op = OnnxCast::new("cast", from, to, Rules::default());
            let y = model.wire_node("y", op, &[x]).unwrap();
            model.select_output_outlets(&y).unwrap();
            let expected = at_once(&model, &input);
            // A cast that changes nothing leaves nothing to stream.
            if from != to {
                assert_eq!(streamed(&model, &input, 0, 8), expected, "{from} to {to}");
            }
        }
    }
}

#[test]
fn a_recurrent_layer_whose_time_is_a_symbol_streams() {
    for (operator, gates) in [("RNN", 1), ("GRU", 3)] {
        let weights = |name: &str, last: usize| {
            let count = gates * 4 * last;
            let values: Vec<f32> = (0..count).map(|i| (i * 37 % 19) as f32 / 19.0 - 0.5).collect();
            let carrier = tensor1(&values).into_shape(&[1, gates * 4, last]).unwrap();
            tensor_proto::write(name, ElementType::Float, &carrier).unwrap()
        };
        let mut sketch = Sketch::new()
            .input("x", ElementType::Float, &[0, 1, 3])
            .initializer(weights("w", 3))
            .initializer(weights("r", 4))
            .node(operator, &["x", "w", "r"], &["y"], vec![int("hidden_size", 4)]);
        set_dim(&mut sketch.0.input[0], 0, symbol("T"));
        sketch.0.output.push(unshaped("y", ElementType::Float));
        let model = sketch.load().unwrap().into_typed().unwrap().into_decluttered().unwrap();
        let values: Vec<f32> = (0..36).map(|i| (i * 11 % 36) as f32 / 36.0).collect();
        let input = tensor1(&values).into_shape(&[12, 1, 3]).unwrap();
        let expected = at_once(&model, &input);
        assert_eq!(streamed(&model, &input, 0, 4), expected, "{operator}");
    }
}

#[test]
fn an_axis_that_cannot_stream_is_tract_s_error_with_the_node() {
    let mut model = TypedModel::default();
    let time = model.symbols.sym("T");
    let x = model.add_source("x", f32::fact(&[3.to_dim()])).unwrap();
    let op = OnnxCast::new("cast", ElementType::Float, ElementType::Int4, Rules::default());
    let y = model.wire_node("y", op, &[x]).unwrap();
    model.select_output_outlets(&y).unwrap();
    let pulsed = PulsedModel::new(&model, time, &4.to_dim()).and_then(PulsedModelExt::into_typed);
    let error = format!("{:#}", pulsed.unwrap_err());
    assert!(error.contains('x'), "{error}");
    println!("{error}");
}
