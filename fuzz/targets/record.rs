#![no_main]

onnx_cast_fuzz::target!(onnx_cast_fuzz::record::copies, onnx_cast_fuzz::mutate::mutate);
