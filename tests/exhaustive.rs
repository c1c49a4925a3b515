//! Kernels against the scalar form: every code of the types of at most 16 bits, shaped and random codes of the wider
//! ones, every attribute, every CPU level, every length of tail.

mod common;

use common::{SplitMix64, codes_of_tensor, tensor_of_codes};
use tract_onnx_cast::{Conversion, ElementType, Family, Level, RoundMode, Rules, convert_scalar};

fn numeric() -> impl Iterator<Item = ElementType> {
    ElementType::ALL.iter().copied().filter(|ty| ty.family() != Family::Text)
}

/// The attributes that make a difference for a target.
fn rules(to: ElementType) -> Vec<Rules> {
    let modes = match to {
        ElementType::Float8E8M0 => vec![RoundMode::Up, RoundMode::Down, RoundMode::Nearest],
        _ => vec![RoundMode::Up],
    };
    let saturates = |round_mode| [true, false].map(|saturate| Rules { saturate, round_mode });
    modes.into_iter().flat_map(saturates).collect()
}

/// Every code of a narrow type. Of a wide one: around every power of two, around halves of every format's last place,
/// and at random.
fn samples(ty: ElementType) -> Vec<u64> {
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
        for nudge in 0..4u64 {
            let near = (1u64 << power).wrapping_add(nudge).wrapping_sub(2);
            samples.extend([near, near.wrapping_neg(), !near]);
        }
    }
    if let Family::Float(format) = ty.family() {
        let m = format.mantissa_bits;
        for exponent in 0..1u64 << format.exponent_bits {
            for _ in 0..if ty.bits() == 32 { 200 } else { 40 } {
                // A short mantissa, so that ties are as likely as anything else, or one step beside it.
                let kept = random.next() % u64::from(m + 1);
                let mantissa = random.next() >> (64 - m) >> kept << kept;
                let beside = [0, 1, u64::MAX][(random.next() % 3) as usize];
                let sign = random.next() & format.sign_bit();
                samples.push((sign | exponent << m | mantissa).wrapping_add(beside));
            }
        }
    }
    samples.extend((0..50_000).map(|_| random.next()));
    // Integers of every magnitude.
    samples.extend((0..50_000).map(|_| random.next() >> (random.next() % 64)));
    samples.iter().map(|code| code & ty.code_mask()).collect()
}

#[test]
fn kernels_equal_the_scalar_form_at_every_level() {
    for from in numeric() {
        let codes_in = samples(from);
        let input = tensor_of_codes(from, &codes_in);
        for to in numeric() {
            for rules in rules(to) {
                let truth: Vec<u64> = codes_in
                    .iter()
                    .map(|code| convert_scalar(from, to, rules, *code).expect("numeric types"))
                    .collect();
                for level in Level::available() {
                    let conversion = Conversion::new(from, to, rules).at_level(level);
                    let output =
                        codes_of_tensor(to, &conversion.run(&input).expect("a conversion"));
                    let wrong = (0..truth.len()).find(|index| truth[*index] != output[*index]);
                    if let Some(index) = wrong {
                        let (code, got, want) = (codes_in[index], output[index], truth[index]);
                        panic!(
                            "{from} {code:x} to {to}, {rules:?}, {level:?}: {got:x}, not {want:x}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn every_length_is_converted_to_its_end_and_no_further() {
    // Beyond the widest vector of bytes, and its double, in every remainder.
    let lengths = 0..=133usize;
    for from in numeric() {
        let all = samples(from);
        for to in numeric() {
            for level in Level::available() {
                let conversion = Conversion::new(from, to, Rules::default()).at_level(level);
                for length in lengths.clone() {
                    let some: Vec<u64> =
                        all.iter().cycle().skip(7 * length).take(length).copied().collect();
                    let output =
                        conversion.run(&tensor_of_codes(from, &some)).expect("a conversion");
                    let truth: Vec<u64> = some
                        .iter()
                        .filter_map(|code| convert_scalar(from, to, Rules::default(), *code))
                        .collect();
                    assert_eq!(
                        codes_of_tensor(to, &output),
                        truth,
                        "{length} of {from} to {to}, {level:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn carrier_elements_are_what_the_list_says() {
    for from in numeric() {
        let codes_in = samples(from);
        for to in numeric().filter(|to| to.bits() < 16) {
            let conversion = Conversion::new(from, to, Rules::default());
            let output = conversion.run(&tensor_of_codes(from, &codes_in)).expect("a conversion");
            assert_eq!(output.datum_type(), to.datum_type());
            for byte in output.as_bytes() {
                let unused = to.bits()..8;
                let upper: Vec<bool> = unused.map(|bit| byte >> bit & 1 == 1).collect();
                let sign = byte >> (to.bits() - 1) & 1 == 1;
                let extends = to.family() == Family::Signed && sign;
                assert!(upper.iter().all(|bit| *bit == extends), "{from} to {to}: {byte:x}");
                assert!(to != ElementType::Bool || *byte <= 1, "{from} to BOOL: {byte:x}");
            }
        }
    }
}
