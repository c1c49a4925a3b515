//! That every machine converts, spells, reads and quantises to the same bits: whatever its byte
//! order, its words and its instructions are, the digests of all results are the three numbers
//! below.

use crate::cast::element_type::ElementType;
use crate::cast::kernel::level::Level;
use crate::cast::kernel::places::TargetBytes;
use crate::cast::kernel::select::select;
use crate::cast::quantize::operator::{Dequantize, Quantize, Quantizer};
use crate::cast::quantize::scalar;
use crate::cast::rules::Rules;
use crate::cast::scalar::write_carrier;
use crate::cast::text::parse::Parse;
use crate::cast::text::spell::Spell;
use crate::numbers::{numeric, rules_for, sample};

/// Every code of 16 bits.
const CODES: usize = 1 << 16;

/// What it is everywhere, for every number of every type to every other type with every attribute.
const NUMBERS: u64 = 0x5A0F_78AE_4F55_34F7;
/// For numbers as strings, and what those are as numbers.
const TEXTS: u64 = 0x6211_0B23_55F9_09E1;
/// For every `QuantizeLinear` and `DequantizeLinear`.
const QUANTIZED: u64 = 0x0423_412E_9C1D_F887;

/// As FNV-1a, of words.
struct Digest(u64);

impl Digest {
    fn new() -> Digest {
        Digest(0xCBF2_9CE4_8422_2325)
    }

    fn add(&mut self, word: u64) {
        self.0 = (self.0 ^ word).wrapping_mul(0x0000_0100_0000_01B3).rotate_left(29);
    }

    fn must_be(&self, digest: u64, what: &str) {
        assert!(self.0 == digest, "{what}: {:#x}, not {digest:#x}", self.0);
    }
}

/// The elements' codes in a buffer of carriers of this machine's byte order.
fn codes(ty: ElementType, carriers: &[u64], count: usize) -> Vec<u64> {
    let bytes: &[u8] = bytemuck::cast_slice(carriers);
    let code = |place: &[u8]| match *place {
        [byte] => byte.into(),
        [a, b] => u16::from_ne_bytes([a, b]).into(),
        [a, b, c, d] => u32::from_ne_bytes([a, b, c, d]).into(),
        _ => u64::from_ne_bytes(place.try_into().expect("8 bytes at most")),
    };
    let width = ty.carrier_bytes().expect("a number");
    bytes.chunks(width).take(count).map(|place| code(place) & ty.code_mask()).collect()
}

/// Carriers of codes, beginning where every element may.
fn carriers(ty: ElementType, codes: &[u64]) -> Vec<u64> {
    let mut words = vec![0; codes.len()];
    let width = ty.carrier_bytes().expect("a number");
    let places = bytemuck::cast_slice_mut::<u64, u8>(&mut words).chunks_mut(width);
    places.zip(codes).for_each(|(place, code)| write_carrier(ty, *code, place));
    words
}

#[test]
fn numbers_are_converted_to_the_same_bits() {
    for level in Level::available() {
        let mut digest = Digest::new();
        for from in numeric() {
            let width = from.carrier_bytes().expect("a number");
            let input = carriers(from, &sample(from, CODES));
            let input = &bytemuck::cast_slice(&input)[..CODES * width];
            for to in numeric() {
                for rules in rules_for(to) {
                    let mut output = vec![0; CODES];
                    let width = to.carrier_bytes().expect("a number");
                    let places = &mut bytemuck::cast_slice_mut(&mut output)[..CODES * width];
                    select(from, to, rules).overwrite(level, input, places);
                    codes(to, &output, CODES).into_iter().for_each(|code| digest.add(code));
                }
            }
        }
        digest.must_be(NUMBERS, &format!("{level:?}"));
    }
}

#[test]
fn numbers_are_spelled_and_read_the_same() {
    let mut digest = Digest::new();
    for ty in numeric() {
        let width = ty.carrier_bytes().expect("a number");
        let input = carriers(ty, &sample(ty, CODES));
        let mut texts = vec![String::new(); CODES];
        Spell::new(ty).run(
            Level::best(),
            &bytemuck::cast_slice(&input)[..CODES * width],
            &mut texts,
        );
        texts.iter().for_each(|text| text.bytes().for_each(|byte| digest.add(byte.into())));
        for to in
            [ElementType::Double, ElementType::Float, ElementType::Float16, ElementType::Int64]
        {
            let parse = Parse::new(to, Rules::default());
            let width = to.carrier_bytes().expect("a number");
            for text in texts.chunks(1).step_by(5) {
                let mut output = [0u64];
                let place = &mut bytemuck::cast_slice_mut(&mut output)[..width];
                match parse.run(Level::BASELINE, text, TargetBytes::over(place)) {
                    Ok(()) => digest.add(codes(to, &output, 1)[0]),
                    Err(index) => digest.add(index as u64 + 1),
                }
            }
        }
    }
    digest.must_be(TEXTS, "text");
}

#[test]
fn numbers_are_quantised_to_the_same_bits() {
    let types = || ElementType::ALL.iter().copied();
    let mut digest = Digest::new();
    for (x, scale, y) in
        types().flat_map(|x| types().flat_map(move |scale| types().map(move |y| (x, scale, y))))
    {
        let dequantize = Dequantize { x, scale, y };
        if Quantizer::Dequantize(dequantize).is_defined() {
            for (x, scale, zero) in elements(dequantize.x, scale, dequantize.x) {
                digest.add(scalar::dequantize(dequantize, x, scale, zero));
            }
        }
        for precision in [ElementType::Float, ElementType::Float16, ElementType::BFloat16] {
            let quantize =
                Quantize { x, scale, y, precision, saturate: (y as u8).is_multiple_of(2) };
            if Quantizer::Quantize(quantize).is_defined() {
                for (x, scale, zero) in elements(quantize.x, scale, quantize.y) {
                    digest.add(scalar::quantize(quantize, x, scale, zero));
                }
            }
        }
    }
    digest.must_be(QUANTIZED, "quantisers");
}

/// Some x, scales and zero points.
fn elements(
    x: ElementType,
    scale: ElementType,
    zero: ElementType,
) -> impl Iterator<Item = (u64, u64, Option<u64>)> {
    const SOME: usize = 2000;
    // Not in step with one another.
    let of = |ty, skipped| sample(ty, SOME + skipped).into_iter().skip(skipped);
    let pairs = of(x, 0).zip(of(scale, 77));
    pairs.zip(of(zero, 531)).map(|((x, scale), zero)| (x, scale, (zero % 3 > 0).then_some(zero)))
}
