//! Which casts keep every value, and which two in a row are one: what is claimed against what
//! values become.
//!
//! For sources of at most 16 bits every value is tried, with every element type in the middle and
//! at the end and with every attribute. The wider types cannot be tried out; there a claim must
//! hold on numbers that are chosen to break it, and it must be refused where one such number shows
//! it wrong.

use std::collections::{BTreeMap, BTreeSet};

use crate::common::elements::{codes_of_tensor, numeric, rules, samples, tensor_of_codes};
use test_tools::insta;
use tract_onnx::prelude::Tensor;
use tract_onnx_cast::{Conversion, ElementType, Family, Rules};

/// A tensor's elements, all codes of NaN being one.
fn elements(ty: ElementType, tensor: &Tensor) -> Vec<u64> {
    let codes = codes_of_tensor(ty, tensor);
    match ty.family() {
        Family::Float(format) => codes
            .into_iter()
            .map(|code| if format.is_nan(code) { u64::MAX } else { code })
            .collect(),
        _ => codes,
    }
}

fn texts(tensor: &Tensor) -> Vec<String> {
    tensor.try_as_plain_ram().unwrap().as_slice::<String>().unwrap().to_vec()
}

/// Whether two conversions in a row give what one gives.
fn equal(chain: &Tensor, single: &Tensor, to: ElementType) -> bool {
    match to {
        ElementType::String => texts(chain) == texts(single),
        _ => elements(to, chain) == elements(to, single),
    }
}

/// What an element is worth, exactly.
#[derive(Debug, Clone, Copy)]
enum Worth {
    Integer(i128),
    Float(f64),
}

impl PartialEq for Worth {
    fn eq(&self, other: &Worth) -> bool {
        match (*self, *other) {
            (Worth::Integer(a), Worth::Integer(b)) => a == b,
            (Worth::Float(a), Worth::Float(b)) => {
                let same_sign = a.is_sign_negative() == b.is_sign_negative();
                same_sign && (a == b || (a.is_nan() && b.is_nan()))
            }
            // Up to 2^120 an f64 without a fraction is an i128.
            (Worth::Integer(a), Worth::Float(x)) | (Worth::Float(x), Worth::Integer(a)) => {
                x.fract() == 0.0 && x.abs() < 2f64.powi(120) && x as i128 == a
            }
        }
    }
}

fn worths(ty: ElementType, tensor: &Tensor) -> Vec<Worth> {
    let codes = codes_of_tensor(ty, tensor);
    match ty.family() {
        Family::Float(_) => {
            let wide = Conversion::new(ty, ElementType::Double, Rules::default());
            let wide = wide.run(tensor).unwrap();
            let numbers = wide.try_as_plain_ram().unwrap().as_slice::<f64>().unwrap().to_vec();
            numbers.into_iter().map(Worth::Float).collect()
        }
        Family::Signed => {
            let unused = 64 - ty.bits();
            let signed = |code: u64| ((code << unused) as i64) >> unused;
            codes.into_iter().map(|code| Worth::Integer(signed(code).into())).collect()
        }
        _ => codes.into_iter().map(|code| Worth::Integer(code.into())).collect(),
    }
}

#[test]
fn a_cast_is_lossless_where_and_only_where_every_value_stays() {
    for from in numeric() {
        let input = tensor_of_codes(from, &samples(from, 2_000));
        let before = worths(from, &input);
        for to in numeric() {
            for rules in rules(to) {
                let conversion = Conversion::new(from, to, rules);
                let after = worths(to, &conversion.run(&input).unwrap());
                let lost = before.iter().zip(&after).find(|(before, after)| before != after);
                assert_eq!(conversion.is_lossless(), lost.is_none(), "{conversion:?}: {lost:?}");
            }
        }
    }
}

/// The wide types' claims, from what the types are: an integer type holds a range, a binary float
/// with p bits of significand every integer up to 2^p and not 2^p + 1, DOUBLE every FLOAT.
#[test]
fn the_wide_types_are_lossless_where_arithmetic_says_so() {
    use ElementType::{Double, Float, Int32, Int64, Uint32, Uint64};
    let expected: [(ElementType, &[ElementType]); 6] = [
        (Float, &[Float, Double]),
        (Double, &[Double]),
        (Int32, &[Int32, Int64, Double]),
        (Uint32, &[Uint32, Int64, Uint64, Double]),
        (Int64, &[Int64]),
        (Uint64, &[Uint64]),
    ];
    for (from, targets) in expected {
        for to in numeric() {
            let claimed = Conversion::new(from, to, Rules::default()).is_lossless();
            assert_eq!(claimed, targets.contains(&to), "{from} to {to}");
        }
    }
}

#[test]
fn two_casts_are_one_where_no_value_changes() {
    // What holds on every value of a narrow source and is not claimed, as few would write it: two
    // roundings that happen to agree, integers in the middle that happen to be wide enough.
    let mut unclaimed: BTreeMap<String, BTreeSet<ElementType>> = BTreeMap::new();
    for from in numeric() {
        let input = tensor_of_codes(from, &samples(from, 2_000));
        for via in numeric() {
            for first_rules in rules(via) {
                let first = Conversion::new(from, via, first_rules);
                let middle = first.run(&input).unwrap();
                for to in ElementType::ALL.iter().copied() {
                    for rules in rules(to) {
                        let next = Conversion::new(via, to, rules);
                        let single = Conversion::new(from, to, rules);
                        let chain = next.run(&middle).unwrap();
                        let holds = equal(&chain, &single.run(&input).unwrap(), to);
                        let what = || format!("{from} to {via} {first_rules:?} to {to} {rules:?}");
                        match first.then(&next) {
                            Some(one) if first.is_identity() => assert_eq!(one, next),
                            Some(one) if next.is_identity() => assert_eq!(one, first),
                            Some(one) => {
                                assert_eq!(one, single, "{}", what());
                                assert!(holds, "{}", what());
                            }
                            None if holds && from.bits() <= 16 => {
                                assert!(!first.is_lossless() || to == ElementType::String);
                                let chain = format!("{from} to {via}");
                                unclaimed.entry(chain).or_default().insert(to);
                            }
                            None => {}
                        }
                    }
                }
            }
        }
    }
    let lines = unclaimed.into_iter().map(|(chain, targets)| {
        let targets: Vec<&str> = targets.into_iter().map(ElementType::name).collect();
        format!("{chain} to {}", targets.join(", "))
    });
    insta::assert_snapshot!("unclaimed", lines.collect::<Vec<_>>().join("\n"));
}
