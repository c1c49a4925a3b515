//! Elements as codes: the bit pattern of one element in the low bits of a word, as ONNX stores it.

use tract_onnx::prelude::*;
use tract_onnx_cast::{ElementType, Family, RoundMode, Rules};

/// Bytes per element of a numeric type, in a tensor and in the vectors.
pub fn width(ty: ElementType) -> usize {
    ty.carrier_bytes().expect("a numeric type")
}

/// The code in little-endian bytes, as files have it.
pub fn code_of_le_bytes(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |code, byte| code << 8 | u64::from(*byte))
}

/// The code in bytes of the machine's own order, as tensors have it.
fn code_of_ne_bytes(bytes: &[u8]) -> u64 {
    if cfg!(target_endian = "little") {
        return code_of_le_bytes(bytes);
    }
    bytes.iter().fold(0, |code, byte| code << 8 | u64::from(*byte))
}

/// The low bytes of a code in the machine's own order.
fn write_ne_bytes(code: u64, place: &mut [u8]) {
    let (bytes, size) = (code.to_ne_bytes(), place.len());
    let low = if cfg!(target_endian = "little") { 0..size } else { 8 - size..8 };
    place.copy_from_slice(&bytes[low]);
}

/// A tensor of one dimension from codes, small signed integers sign-extended as carriers have them.
pub fn tensor_of_codes(ty: ElementType, codes: &[u64]) -> Tensor {
    let mut tensor = Tensor::zero_dt(ty.datum_type(), &[codes.len()]).expect("a tensor");
    let unused = 64 - ty.bits();
    let is_signed = ty.family() == Family::Signed;
    for (place, code) in tensor.as_bytes_mut().chunks_mut(width(ty)).zip(codes) {
        let value = if is_signed { ((code << unused) as i64 >> unused) as u64 } else { *code };
        write_ne_bytes(value, place);
    }
    tensor
}

/// The inverse of [`tensor_of_codes`].
pub fn codes_of_tensor(ty: ElementType, tensor: &Tensor) -> Vec<u64> {
    tensor
        .as_bytes()
        .chunks(width(ty))
        .map(|place| code_of_ne_bytes(place) & ty.code_mask())
        .collect()
}

/// The generator that the sweeps' inputs are defined by: numbers that look like nothing in
/// particular, the same on every run.
pub struct SplitMix64(pub u64);

impl SplitMix64 {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ z >> 31
    }
}

/// Every numeric element type.
pub fn numeric() -> impl Iterator<Item = ElementType> {
    ElementType::ALL.iter().copied().filter(|ty| ty.family() != Family::Text)
}

/// The attributes that make a difference for a target.
pub fn rules(to: ElementType) -> Vec<Rules> {
    let modes = match to {
        ElementType::Float8E8M0 => vec![RoundMode::Up, RoundMode::Down, RoundMode::Nearest],
        _ => vec![RoundMode::Up],
    };
    let saturates = |round_mode| [true, false].map(|saturate| Rules::new(saturate, round_mode));
    modes.into_iter().flat_map(saturates).collect()
}

/// Every code of a narrow type. Of a wide one: around every power of two, around halves of every
/// format's last place, integers and their neighbours, and so many at random.
pub fn samples(ty: ElementType, at_random: usize) -> Vec<u64> {
    if ty == ElementType::Bool {
        // tract's tensors of bool hold nothing else.
        return vec![0, 1];
    }
    if ty.bits() <= 16 {
        return (0..=ty.code_mask()).collect();
    }
    let mut random = SplitMix64(u64::from(ty.bits()) + ty as u64);
    let mut samples = vec![0, ty.code_mask()];
    for power in 0..ty.bits() {
        for nudge in 0..5u64 {
            let near = (1u64 << power).wrapping_add(nudge).wrapping_sub(2);
            samples.extend([near, near.wrapping_neg(), !near]);
        }
    }
    if let Family::Float(format) = ty.family() {
        let m = format.mantissa_bits;
        for exponent in 0..1u64 << format.exponent_bits {
            for _ in 0..(at_random >> format.exponent_bits).clamp(5, 200) {
                // A short mantissa, so that ties are as likely as anything else, or one step beside
                // it.
                let kept = random.next() % u64::from(m + 1);
                let mantissa = random.next() >> (64 - m) >> kept << kept;
                let beside = [0, 1, u64::MAX][(random.next() % 3) as usize];
                let sign = random.next() & format.sign_bit();
                samples.push((sign | exponent << m | mantissa).wrapping_add(beside));
            }
        }
        for _ in 0..at_random / 10 {
            let integer = (random.next() >> (random.next() % 64)) as f64;
            let is_double = ty == ElementType::Double;
            let code =
                if is_double { integer.to_bits() } else { (integer as f32).to_bits().into() };
            samples.extend([code, code | format.sign_bit(), code + 1]);
        }
    }
    samples.extend((0..at_random).map(|_| random.next()));
    // Integers of every magnitude.
    samples.extend((0..at_random).map(|_| random.next() >> (random.next() % 64)));
    samples.iter().map(|code| code & ty.code_mask()).collect()
}
