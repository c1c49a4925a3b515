#![no_main]

onnx_cast_fuzz::target!(onnx_cast_fuzz::checks::quantizers::agree);
