//! The exact vectors of `data/quantizers.zip`, bit for bit: every combination of types, every
//! layout, every level of this CPU. `data/vectors.md` describes their form. `ONNX_CAST_QUANTIZERS`
//! is another archive of that form.

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use test_tools::{serde_json, zip};
use tract_onnx::prelude::Tensor;
use tract_onnx_cast::ElementType;
use tract_onnx_cast::quantize::{Dequantize, Quantization, Quantize, Quantizer};

use crate::common::cases::root;
use crate::common::elements::{code_of_le_bytes, codes_of_tensor, tensor_of_codes, width};
use crate::common::machine::levels;

fn lines<T: DeserializeOwned>(member: &str) -> Vec<T> {
    let other = std::env::var_os("ONNX_CAST_QUANTIZERS").map(PathBuf::from);
    let path = other.unwrap_or_else(|| root().join("tests/data/quantizers.zip"));
    let file = File::open(path).expect("the vectors");
    let mut archive = zip::ZipArchive::new(file).expect("an archive");
    let mut text = String::new();
    let mut member = archive.by_name(member).expect("a member");
    member.read_to_string(&mut text).expect("UTF-8");
    text.lines().map(|line| serde_json::from_str(line).expect("a line of vectors")).collect()
}

#[derive(Deserialize)]
struct Line {
    x: String,
    scale: String,
    y: String,
    x_hex: String,
    scale_hex: String,
    zero_point_hex: Option<String>,
    /// Of a `QuantizeLinear`.
    #[serde(default)]
    results: Vec<Results>,
    /// Of a `DequantizeLinear`.
    y_hex: Option<String>,
}

#[derive(Deserialize)]
struct Results {
    precision: String,
    saturate: i64,
    y_hex: String,
}

fn element_type(name: &str) -> ElementType {
    ElementType::from_name(name).unwrap_or_else(|| panic!("no element type {name}"))
}

fn codes_of_hex(ty: ElementType, hex: &str) -> Vec<u64> {
    let bytes: Vec<u8> = (0..hex.len() / 2)
        .map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).expect("hexadecimal digits"))
        .collect();
    bytes.chunks(width(ty)).map(code_of_le_bytes).collect()
}

/// Columns of as many codes, one after the other.
fn transposed(codes: &[u64], columns: usize) -> Vec<u64> {
    (0..codes.len())
        .map(|at| codes[at % columns * (codes.len() / columns) + at / columns])
        .collect()
}

fn of_shape(ty: ElementType, codes: &[u64], shape: &[usize]) -> Tensor {
    tensor_of_codes(ty, codes).into_shape(shape).expect("as many elements")
}

/// The shape of x, `axis`, `block_size`, the shape of the scale, and whether the elements of a
/// scale are a column of x.
type Layout<'a> = (&'a [usize], i64, usize, &'a [usize], bool);

/// Compares what a quantiser makes of a line, of at least 240 elements, with what is expected.
fn check(quantizer: Quantizer, line: &Line, y_hex: &str) {
    let quantization = Quantization::new(quantizer).expect("types that the operator has");
    let x = codes_of_hex(quantizer.x(), &line.x_hex);
    let scales = codes_of_hex(quantizer.scale(), &line.scale_hex);
    let zeros = line.zero_point_hex.as_ref().map(|hex| codes_of_hex(quantizer.zero_point(), hex));
    let want = codes_of_hex(quantizer.y(), y_hex);
    let (columns, each) = (scales.len(), x.len() / scales.len());
    for (index, (x, want)) in x.iter().zip(&want).enumerate() {
        let own = index / each;
        let zero_point = zeros.as_ref().map(|zeros| zeros[own]);
        let got = quantization.scalar(*x, scales[own], zero_point);
        let about = format!("{quantizer:?} #{index}: {x:x}, {:x}, {zero_point:x?}", scales[own]);
        assert_eq!(got, *want, "{about}: {got:x}, want {want:x}");
    }
    let layouts: [Layout; 5] = [
        (&[columns, each], 0, 0, &[columns], false),
        (&[2, columns / 2, each], -2, 1, &[2, columns / 2, each], false),
        (&[each, columns], -1, 0, &[columns], true),
        (&[columns * each], 0, each, &[columns], false),
        (&[1, each, columns], 1, each + 3, &[1, 1, columns], true),
    ];
    for level in levels() {
        let quantization = quantization.clone().at_level(*level);
        for (shape, axis, block, scale_shape, turns) in layouts {
            let arrange =
                |codes: &[u64]| if turns { transposed(codes, columns) } else { codes.to_vec() };
            let spread = |codes: &[u64]| -> Vec<u64> {
                let times = scale_shape.iter().product::<usize>() / columns;
                codes.iter().flat_map(|code| std::iter::repeat_n(*code, times)).collect()
            };
            let input = of_shape(quantizer.x(), &arrange(&x), shape);
            let scale = of_shape(quantizer.scale(), &spread(&scales), scale_shape);
            let zero_point = zeros
                .as_ref()
                .map(|zeros| of_shape(quantizer.zero_point(), &spread(zeros), scale_shape));
            let output = quantization.run(&input, &scale, zero_point.as_ref(), axis, block);
            let output = output.expect("a scale that fits");
            assert_eq!(output.shape(), shape);
            let got = codes_of_tensor(quantizer.y(), &output);
            assert!(
                got == arrange(&want),
                "{quantizer:?} at {level:?}, {shape:?} by {axis}, {block}"
            );
        }
    }
    assert!(want.len() >= 240, "{quantizer:?}: {} elements", want.len());
}

#[test]
fn quantize_linear_is_exact() {
    let mut combinations = 0;
    for line in lines::<Line>("quantize.jsonl") {
        let [x, scale, y] = [&line.x, &line.scale, &line.y].map(|name| element_type(name));
        for results in &line.results {
            let (precision, saturate) = (element_type(&results.precision), results.saturate != 0);
            let op = Quantize { x, scale, y, precision, saturate };
            check(Quantizer::Quantize(op), &line, &results.y_hex);
            combinations += 1;
        }
    }
    assert_eq!(combinations, 4 * 5 * (11 * 3 + 4 * 6));
}

#[test]
fn dequantize_linear_is_exact() {
    let mut combinations = 0;
    for line in lines::<Line>("dequantize.jsonl") {
        let [x, scale, y] = [&line.x, &line.scale, &line.y].map(|name| element_type(name));
        let y_hex = line.y_hex.as_deref().expect("results");
        check(Quantizer::Dequantize(Dequantize { x, scale, y }), &line, y_hex);
        combinations += 1;
    }
    assert_eq!(combinations, 16 * 4 * 3);
}
