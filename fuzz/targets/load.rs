#![no_main]

onnx_cast_fuzz::target!(onnx_cast_fuzz::checks::models::load, onnx_cast_fuzz::mutate::mutate);
