#![no_main]

onnx_cast_fuzz::target!(onnx_cast_fuzz::readers::read);
