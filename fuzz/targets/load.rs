#![no_main]

onnx_cast_fuzz::target!(onnx_cast_fuzz::measured::load, onnx_cast_fuzz::mutate::mutate);
