//! `QuantizeLinear` and `DequantizeLinear` of tensors, at every level of this CPU and in every
//! layout of scales, against the definition of one element.

use tract_onnx_cast::ElementType;
use tract_onnx_cast::kernel::Level;
use tract_onnx_cast::quantize::{Dequantize, Quantization, Quantize, Quantizer};

use super::{Made, choose, code, little, numbers, tensor, valid};

thread_local! {
    static QUANTIZATIONS: Made<Quantizer, Option<Quantization>> = Made::new();
}

/// Columns of x, and how many of them make a block; 0 for a scale for each.
const LAYOUTS: [(usize, usize); 6] = [(1, 0), (7, 0), (3, 3), (3, 0), (300, 0), (40, 16)];

/// Bytes 0 to 4 are the operator and its types, 5 the layout; then the elements of x, scales and
/// zero points, one after the other and over again.
pub fn agree(mut data: &[u8]) {
    let types = numbers();
    let Some(dequantizes) = choose(&mut data, &[false, true]) else { return };
    let mut ty = || choose(&mut data, &types);
    let (Some(x), Some(scale), Some(y), Some(precision)) = (ty(), ty(), ty(), ty()) else { return };
    let quantizer = if dequantizes {
        Quantizer::Dequantize(Dequantize { x, scale, y })
    } else {
        let saturate = data.first().is_none_or(|byte| byte & 1 == 0);
        Quantizer::Quantize(Quantize { x, scale, y, precision, saturate })
    };
    let make = || Quantization::new(quantizer);
    let Some(quantization) = QUANTIZATIONS.with(|made| made.of(quantizer, make)) else { return };
    let Some(layout) = choose(&mut data, &LAYOUTS) else {
        return;
    };
    let has_zero_points = choose(&mut data, &[true, false]) == Some(true);
    if data.is_empty() {
        return;
    }
    let mut bits = data.iter().copied().cycle();
    let mut codes = |ty: ElementType, count: usize| -> Vec<u64> {
        let width = ty.carrier_bytes().expect("a number");
        let mut next = || {
            let mut bytes = [0; 8];
            bytes[..width].fill_with(|| bits.next().expect("a byte, over and over again"));
            little(&bytes)
        };
        (0..count).map(|_| valid(ty, next())).collect()
    };
    // Two rows; a scale for all, for each index of the second axis, or for each block of it.
    let (columns, block) = layout;
    let per_row = match (columns, block) {
        (1, _) => 1,
        (columns, 0) => columns,
        (columns, block) => columns.div_ceil(block),
    };
    let count = if block == 0 { per_row } else { 2 * per_row };
    let shape = match (columns, block) {
        (1, _) => vec![],
        (_, 0) => vec![count],
        _ => vec![2, per_row],
    };
    let xs = codes(x, 2 * columns);
    let scales = codes(scale, count);
    let is_zero = |ty: ElementType| ty.bits() == 32 || format!("{ty}").starts_with("FLOAT");
    let zero_type = quantizer.zero_point();
    let zeros = if is_zero(zero_type) { vec![0; count] } else { codes(zero_type, count) };
    let zero_points = has_zero_points.then(|| tensor(zero_type, &zeros, &shape));
    let place = |index: usize| match (columns, block) {
        (1, _) => 0,
        (columns, 0) => index % columns,
        (columns, block) => index / columns * per_row + index % columns / block,
    };
    let wanted = xs.iter().enumerate().map(|(index, x)| {
        let zero = has_zero_points.then(|| zeros[place(index)]);
        quantization.scalar(*x, scales[place(index)], zero)
    });
    let wanted: Vec<u64> = wanted.collect();
    let input = tensor(x, &xs, &[2, columns]);
    let scale = tensor(quantizer.scale(), &scales, &shape);
    let width = quantizer.y().carrier_bytes().expect("a number");
    for level in Level::available() {
        let quantization = quantization.clone().at_level(level);
        let axis = if columns == 1 { 0 } else { 1 };
        let y = quantization.run(&input, &scale, zero_points.as_ref(), axis, block);
        let y = y.unwrap_or_else(|error| panic!("{quantizer:?} {layout:?}: {error:#}"));
        for (index, (got, wanted)) in y.as_bytes().chunks(width).zip(&wanted).enumerate() {
            let got = code(quantizer.y(), got);
            assert_eq!(got, *wanted, "{quantizer:?} {layout:?} {level:?}: element {index}");
        }
    }
}
