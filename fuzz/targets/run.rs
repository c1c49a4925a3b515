#![no_main]

onnx_cast_fuzz::target!(onnx_cast_fuzz::checks::plans::run, onnx_cast_fuzz::mutate::mutate);
