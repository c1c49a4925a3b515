//! Kernels against the scalar form: every code of the types of at most 16 bits, shaped and random
//! codes of the wider ones, every attribute, every CPU level, every length of tail.

use crate::common::elements::{codes_of_tensor, numeric, rules, samples, tensor_of_codes};
use crate::common::machine::levels;
use tract_onnx_cast::kernel::convert_scalar;
use tract_onnx_cast::{Conversion, ElementType, Family, Rules};

#[test]
fn kernels_equal_the_scalar_form_at_every_level() {
    for from in numeric() {
        let codes_in = samples(from, 50_000);
        let input = tensor_of_codes(from, &codes_in);
        for to in numeric() {
            for rules in rules(to) {
                let truth: Vec<u64> = codes_in
                    .iter()
                    .map(|code| convert_scalar(from, to, rules, *code).expect("numeric types"))
                    .collect();
                for &level in levels() {
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
        let all = samples(from, 50_000);
        for to in numeric() {
            for &level in levels() {
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
        let codes_in = samples(from, 50_000);
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
