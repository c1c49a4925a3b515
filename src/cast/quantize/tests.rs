//! Every kernel against the definition: every combination of types, every level of this CPU, every
//! layout, and parts of tensors that begin anywhere.

use std::mem::MaybeUninit;

use super::kernel::{ScaleKernel, Scales};
use super::layout::ScaleLayout;
use super::operator::{Dequantize, Quantize, Quantizer};
use super::parameters::ParameterReader;
use super::scalar::{dequantize, quantize};
use crate::cast::element_type::{ElementType, Family};
use crate::cast::kernel::level::Level;
use crate::cast::kernel::tests::Random;
use crate::cast::scalar::write_carrier;

/// Every quantiser whose types the newest versions have.
fn quantizers() -> Vec<Quantizer> {
    let all = ElementType::ALL;
    let mut quantizers = vec![];
    for (x, scale, y) in all
        .iter()
        .flat_map(|x| all.iter().flat_map(move |scale| all.iter().map(move |y| (*x, *scale, *y))))
    {
        quantizers.push(Quantizer::Dequantize(Dequantize { x, scale, y }));
        for precision in [ElementType::Float, ElementType::Float16, ElementType::BFloat16] {
            for saturate in [true, false] {
                let op = Quantize { x, scale, y, precision, saturate };
                quantizers.push(Quantizer::Quantize(op));
            }
        }
    }
    quantizers.retain(|quantizer| quantizer.is_defined());
    quantizers
}

fn truth(quantizer: Quantizer, x: u64, scale: u64, zero_point: Option<u64>) -> u64 {
    match quantizer {
        Quantizer::Quantize(op) => quantize(op, x, scale, zero_point),
        Quantizer::Dequantize(op) => dequantize(op, x, scale, zero_point),
    }
}

impl Random {
    /// A code of a type: any, or a number not far from 1 or from a multiple of a half.
    fn code(&mut self, ty: ElementType) -> u64 {
        let (any, choice) = (self.next(), self.next());
        let Family::Float(format) = ty.family() else {
            let small = (any >> 40) as i64 >> (choice >> 8 & 15);
            let code = if choice.is_multiple_of(2) { any } else { small.wrapping_sub(64) as u64 };
            return code & ty.code_mask();
        };
        let m = format.mantissa_bits;
        let near = (format.bias as u64).saturating_add(choice >> 8 & 15).saturating_sub(6) << m;
        let mantissa = any & ((1 << m) - 1);
        let halves = mantissa >> m.saturating_sub(3) << m.saturating_sub(3);
        let code = match choice % 4 {
            0 => any,
            1 => near | mantissa,
            2 => near | halves | (any >> 32 & 1),
            _ => near | halves,
        };
        (code | (any & format.sign_bit())) & ty.code_mask()
    }

    fn codes(&mut self, ty: ElementType, count: usize) -> Vec<u64> {
        (0..count).map(|_| self.code(ty)).collect()
    }
}

/// Carriers that begin where every element may.
fn carriers(ty: ElementType, codes: &[u64]) -> (Vec<u64>, usize) {
    let width = ty.carrier_bytes().expect("a numeric type");
    let bytes = width * codes.len();
    let mut words = vec![0; bytes.div_ceil(8)];
    let places = bytemuck::cast_slice_mut::<u64, u8>(&mut words).chunks_mut(width);
    for (place, code) in places.zip(codes) {
        write_carrier(ty, *code, place);
    }
    (words, bytes)
}

fn bytes((words, bytes): &(Vec<u64>, usize)) -> &[u8] {
    &bytemuck::cast_slice(words)[..*bytes]
}

/// A tensor of three axes and how its scales are spread: the index of an element's, and how many
/// there are.
struct LayoutCase {
    layout: ScaleLayout,
    elements: usize,
    scale_of: Box<dyn Fn(usize) -> usize>,
    scales: usize,
}

/// x of shape (`outer`, `length`, `inner`) in every layout.
fn cases(outer: usize, length: usize, inner: usize, block: usize) -> Vec<LayoutCase> {
    let shape = [outer, length, inner];
    let elements = shape.iter().product();
    let new = |axis, block, scale: &[usize]| {
        ScaleLayout::new(&shape, axis, block, scale).expect("a scale that fits")
    };
    let blocks = length.div_ceil(block);
    vec![
        LayoutCase { layout: new(7, 0, &[1, 1]), elements, scale_of: Box::new(|_| 0), scales: 1 },
        LayoutCase {
            layout: new(1, 0, &[length]),
            elements,
            scale_of: Box::new(move |index| index / inner % length),
            scales: length,
        },
        LayoutCase {
            layout: new(-1, 0, &[inner]),
            elements,
            scale_of: Box::new(move |index| index % inner),
            scales: inner,
        },
        LayoutCase {
            layout: new(-2, block, &[outer, blocks, inner]),
            elements,
            scale_of: Box::new(move |index| {
                let (row, column) = (index / inner, index % inner);
                (row / length * blocks + row % length / block) * inner + column
            }),
            scales: outer * blocks * inner,
        },
    ]
}

fn check(
    quantizer: Quantizer,
    case: &LayoutCase,
    level: Level,
    has_zero_points: bool,
    random: &mut Random,
) {
    let zero_type = quantizer.zero_point();
    let x = random.codes(quantizer.x(), case.elements);
    let scales = random.codes(quantizer.scale(), case.scales);
    let mut zeros = random.codes(zero_type, case.scales);
    if quantizer.zero_point_is_zero() {
        zeros.fill(0);
    }
    if let (0, Some(zero)) = (random.next() % 4, zeros.first().copied()) {
        zeros.fill(zero);
    }
    let scale_bytes = carriers(quantizer.scale(), &scales);
    let zero_bytes = carriers(zero_type, &zeros);
    let zero_bytes = has_zero_points.then(|| bytes(&zero_bytes));
    let is_axis = matches!(case.layout, ScaleLayout::Axis { .. });
    let reader = ParameterReader::new(quantizer);
    let parameters = reader.scales(level, bytes(&scale_bytes));
    let parameters = reader.read(level, parameters, zero_bytes, is_axis).expect("0");
    let kernel = ScaleKernel::new(quantizer, has_zero_points);
    let [x_width, y_width] = [quantizer.x(), quantizer.y()].map(|ty| ty.carrier_bytes().unwrap());
    let (input, mut output) = (carriers(quantizer.x(), &x), vec![0u64; case.elements]);
    let output: &mut [u8] = bytemuck::cast_slice_mut(&mut output);
    // In two parts, of which the second begins anywhere.
    let cut = random.next() as usize % (case.elements + 1);
    for (first, end) in [(0, cut), (cut, case.elements)] {
        let mut part = vec![MaybeUninit::new(0u64); case.elements];
        let part: &mut [MaybeUninit<u8>] = bytes_of(&mut part, (end - first) * y_width);
        let src = &bytes(&input)[first * x_width..end * x_width];
        // An aligned copy, as tensors and their parts are.
        let aligned: Vec<u64> = {
            let mut words = vec![0u64; src.len().div_ceil(8)];
            bytemuck::cast_slice_mut::<u64, u8>(&mut words)[..src.len()].copy_from_slice(src);
            words
        };
        let src = &bytemuck::cast_slice(&aligned)[..src.len()];
        let scales = Scales { parameters: &parameters, layout: case.layout, first };
        kernel.run(level, scales, src, part);
        for (place, byte) in output[first * y_width..].iter_mut().zip(&*part) {
            *place = read(byte);
        }
    }
    for (index, x) in x.iter().enumerate() {
        let own = (case.scale_of)(index);
        let zero_point = has_zero_points.then(|| zeros[own]);
        let want = truth(quantizer, *x, scales[own], zero_point);
        let mut place = vec![0; y_width];
        write_carrier(quantizer.y(), want, &mut place);
        let got = &output[index * y_width..(index + 1) * y_width];
        assert!(
            got == place,
            "{quantizer:?} {:?} {level:?} #{index}: {x:x}, scale {:x}, zero point {zero_point:x?}: {got:x?}, not {place:x?}",
            case.layout,
            scales[own],
        );
    }
}

#[expect(unsafe_code, reason = "memory that is not initialised has no safe casts")]
fn bytes_of(words: &mut [MaybeUninit<u64>], bytes: usize) -> &mut [MaybeUninit<u8>] {
    // SAFETY: a `MaybeUninit` of a byte may be any byte.
    let (_, all, _) = unsafe { words.align_to_mut::<MaybeUninit<u8>>() };
    &mut all[..bytes]
}

#[expect(unsafe_code, reason = "what a kernel has written is initialised")]
fn read(byte: &MaybeUninit<u8>) -> u8 {
    // SAFETY: made initialised, and written by a kernel.
    unsafe { byte.assume_init() }
}

#[test]
fn kernels_equal_the_definition_at_every_level() {
    let mut random = Random(12);
    let cases = &cases(3, 5, 41, 4)[2..];
    let quantizers = quantizers();
    assert_eq!(quantizers.len(), 4 * 5 * 15 * 3 * 2 + 16 * 4 * 3);
    for quantizer in quantizers {
        for level in Level::available() {
            for has_zero_points in [true, false] {
                for case in cases {
                    check(quantizer, case, level, has_zero_points, &mut random);
                }
            }
        }
    }
}

#[test]
fn every_layout_finds_each_element_s_scale() {
    use ElementType::{Float, Float16, Int4, Uint8};
    let quantizers = [
        Quantizer::Dequantize(Dequantize { x: Uint8, scale: Float, y: Float }),
        Quantizer::Dequantize(Dequantize { x: Int4, scale: Float16, y: Float16 }),
    ];
    let mut random = Random(13);
    for (outer, length, inner, block) in [
        (1, 1, 1, 1),
        (2, 3, 1, 2),
        (3, 7, 5, 3),
        (2, 64, 3, 32),
        (1, 40, 30, 7),
        (5, 600, 1, 64),
        (3, 2, 700, 5),
        (0, 3, 2, 1),
        (2, 0, 3, 4),
        (2, 3, 0, 4),
    ] {
        for case in cases(outer, length, inner, block) {
            for quantizer in quantizers {
                check(quantizer, &case, Level::best(), true, &mut random);
            }
        }
    }
}

#[test]
fn a_scale_that_does_not_fit_is_refused() {
    let refused = |shape: &[usize], axis, block, scale: &[usize]| {
        ScaleLayout::new(shape, axis, block, scale).expect_err("does not fit")
    };
    assert!(refused(&[2, 3], 1, 0, &[2]).contains("axis 1"));
    assert!(refused(&[2, 3], 2, 0, &[3]).contains("`axis` is 2"));
    assert!(refused(&[2, 3], -3, 0, &[3]).contains("`axis` is -3"));
    assert!(refused(&[2, 3], i64::MIN, 0, &[3]).contains("axis"));
    assert!(refused(&[2, 3], 1, 0, &[2, 3]).contains("[2, 3]"));
    assert!(refused(&[2, 3], 1, 2, &[2, 3]).contains("`block_size` 2"));
    assert!(refused(&[2, 3], 1, usize::MAX, &[2]).contains("`block_size`"));
    assert_eq!(ScaleLayout::new(&[2, 3], 9, 5, &[]), Ok(ScaleLayout::Tensor));
}
