//! Every kernel against the definition: every code of the types of at most 16 bits, shaped and
//! random codes of the wider ones, every attribute, every level of this CPU, every length of tail.

use super::level::Level;
use super::select::select;
use crate::cast::element_type::{ElementType, Family};
use crate::cast::rules::{RoundMode, Rules};
use crate::cast::scalar::{convert, write_carrier};

fn numeric() -> impl Iterator<Item = ElementType> {
    ElementType::ALL.iter().copied().filter(|ty| ty.family() != Family::Text)
}

/// The attributes that make a difference for a target.
fn all_rules(to: ElementType) -> impl Iterator<Item = Rules> {
    let modes = match to {
        ElementType::Float8E8M0 => &[RoundMode::Up, RoundMode::Down, RoundMode::Nearest][..],
        _ => &[RoundMode::Up],
    };
    let saturates = |mode: &RoundMode| {
        let round_mode = *mode;
        [true, false].map(|saturate| Rules { saturate, round_mode })
    };
    modes.iter().flat_map(saturates)
}

/// Numbers that look like nothing in particular, the same on every run (splitmix64).
pub(in crate::cast) struct Random(pub(in crate::cast) u64);

impl Random {
    pub(in crate::cast) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ z >> 31
    }
}

/// Every code of a narrow type. Of a wide one: those around powers of two; short mantissas, on
/// which ties lie, and their neighbours, at every exponent; integers of every magnitude; and any.
fn codes(ty: ElementType) -> Vec<u64> {
    const AT_RANDOM: usize = 4096;
    let mut random = Random(ty as u64);
    if ty.bits() <= 16 {
        return (0..=ty.code_mask()).collect();
    }
    let mut codes = vec![];
    for power in 0..ty.bits() {
        for off in 0..5u64 {
            let near = (1u64 << power).wrapping_add(off).wrapping_sub(2);
            codes.extend([near, near.wrapping_neg()]);
        }
    }
    if let Family::Float(format) = ty.family() {
        let m = format.mantissa_bits;
        for exponent in 0..1u64 << format.exponent_bits {
            for _ in 0..5 {
                let mantissa = random.next() >> (64 - m) >> (m / 2) << (m / 2);
                let beside = [0, 1, u64::MAX][(random.next() % 3) as usize];
                let sign = random.next() & format.sign_bit();
                codes.push((sign | exponent << m | mantissa).wrapping_add(beside));
            }
        }
    }
    for _ in 0..AT_RANDOM {
        let (any, shift) = (random.next(), random.next() % 64);
        codes.extend([any, any >> shift, (any >> shift).wrapping_neg()]);
    }
    codes.iter().map(|code| code & ty.code_mask()).collect()
}

/// A buffer that begins where every element may.
struct ElementBuffer {
    words: Vec<u64>,
    bytes: usize,
}

impl ElementBuffer {
    fn new(ty: ElementType, count: usize) -> ElementBuffer {
        let bytes = count * ty.carrier_bytes().expect("a numeric type");
        ElementBuffer { words: vec![0; bytes.div_ceil(8)], bytes }
    }

    fn of(ty: ElementType, codes: &[u64]) -> ElementBuffer {
        let mut elements = ElementBuffer::new(ty, codes.len());
        let width = ty.carrier_bytes().expect("a numeric type");
        for (place, code) in elements.bytes_mut().chunks_mut(width).zip(codes) {
            write_carrier(ty, *code, place);
        }
        elements
    }

    fn bytes(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.words)[..self.bytes]
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.words)[..self.bytes]
    }
}

/// Compares what a kernel makes of codes with the definition, bytes of the machine type and all.
fn check(from: ElementType, to: ElementType, rules: Rules, level: Level, codes: &[u64]) {
    let truth: Vec<u64> =
        codes.iter().map(|code| convert(from, to, rules, *code).expect("numeric types")).collect();
    let mut output = ElementBuffer::new(to, codes.len());
    // What was there before must not shine through.
    output.bytes_mut().fill(0xA5);
    let input = ElementBuffer::of(from, codes);
    select(from, to, rules).overwrite(level, input.bytes(), output.bytes_mut());
    let expected = ElementBuffer::of(to, &truth);
    if output.bytes() != expected.bytes() {
        let width = to.carrier_bytes().expect("a numeric type");
        let pairs = output.bytes().chunks(width).zip(expected.bytes().chunks(width));
        let (index, (got, want)) =
            pairs.enumerate().find(|(_, (got, want))| got != want).expect("a difference");
        let code = codes[index];
        panic!("{from} {code:x} to {to}, {rules:?}, {level:?}: {got:x?}, not {want:x?}");
    }
}

#[test]
fn kernels_equal_the_definition_at_every_level() {
    println!("levels of this CPU: {:?}", Level::available());
    for from in numeric() {
        // A BOOL in memory is 0 or 1.
        let codes = if from == ElementType::Bool { vec![0, 1] } else { codes(from) };
        for to in numeric() {
            for rules in all_rules(to) {
                for level in Level::available() {
                    check(from, to, rules, level, &codes);
                }
            }
        }
    }
}

#[test]
fn every_length_is_converted_to_its_end() {
    for from in numeric() {
        let all = if from == ElementType::Bool { vec![0, 1] } else { codes(from) };
        for to in numeric() {
            for level in Level::available() {
                // Beyond the widest vector of bytes, and its double, in every remainder.
                for length in 0..=133 {
                    let some: Vec<u64> =
                        all.iter().cycle().skip(7 * length).take(length).copied().collect();
                    check(from, to, Rules::default(), level, &some);
                }
            }
        }
    }
}

/// Numbers of one magnitude after the other, each so often that they fill blocks: a block is
/// converted in another way where one of its numbers is out of some range.
fn in_runs(ty: ElementType) -> Vec<u64> {
    const RUN: u64 = 37;
    let mut random = Random(ty as u64);
    let mut codes = vec![];
    match ty.family() {
        Family::Float(format) => {
            let m = format.mantissa_bits;
            let last = (1u64 << format.exponent_bits) - 1;
            // Around 1 and at both ends, where anything changes; of the others, some.
            let near = |exponent: &u64| exponent.abs_diff(last / 2) < 160 || exponent % 64 > 61;
            for exponent in (0..=last).filter(near) {
                for _ in 0..RUN {
                    let (mantissa, sign) = (random.next() >> (64 - m), random.next());
                    codes.push(sign & format.sign_bit() | exponent << m | mantissa);
                }
            }
        }
        _ => {
            for unused in 0..ty.bits() {
                for _ in 0..RUN {
                    let magnitude = random.next() >> (64 - ty.bits()) >> unused;
                    let is_negated = random.next().is_multiple_of(2);
                    codes.push(if is_negated { magnitude.wrapping_neg() } else { magnitude });
                }
            }
        }
    }
    codes.iter().map(|code| code & ty.code_mask()).collect()
}

#[test]
fn numbers_of_one_magnitude_are_converted_together() {
    for from in numeric().filter(|ty| ty.bits() > 8) {
        let codes = in_runs(from);
        for to in numeric() {
            for level in Level::available() {
                check(from, to, Rules::default(), level, &codes);
            }
        }
    }
}
