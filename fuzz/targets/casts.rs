#![no_main]

onnx_cast_fuzz::target!(onnx_cast_fuzz::checks::models::casts, onnx_cast_fuzz::mutate::mutate);
