//! Which casts keep every value, and which two in a row are one: what is claimed against what values become.
//!
//! For sources of at most 16 bits every value is tried, with every element type in the middle and at the end and with
//! every attribute. The wider types cannot be tried out; there a claim must hold on numbers that are chosen to break it,
//! and it must be refused where one such number shows it wrong.

mod common;

use std::collections::BTreeMap;

use common::{SplitMix64, codes_of_tensor, tensor_of_codes};
use tract_onnx::prelude::Tensor;
use tract_onnx_cast::{Conversion, ElementType, Family, RoundMode, Rules};

fn numeric() -> impl Iterator<Item = ElementType> {
    ElementType::ALL.iter().copied().filter(|ty| ty.family() != Family::Text)
}

/// The attributes that make a difference for a target.
fn rules(to: ElementType) -> Vec<Rules> {
    let modes = match to {
        ElementType::Float8E8M0 => vec![RoundMode::Up, RoundMode::Down, RoundMode::Nearest],
        _ => vec![RoundMode::Up],
    };
    let saturates: &[bool] = if to.name().starts_with("FLOAT8") { &[true, false] } else { &[true] };
    let rules = |round_mode| saturates.iter().map(move |s| Rules { saturate: *s, round_mode });
    modes.into_iter().flat_map(rules).collect()
}

/// Every code of a narrow type; of a wide one, those around powers of two, around halves of the last places of narrower
/// formats, around the limits of integers, and at random.
fn codes(ty: ElementType) -> Vec<u64> {
    if ty == ElementType::Bool {
        return vec![0, 1];
    }
    if ty.bits() <= 16 {
        return (0..=ty.code_mask()).collect();
    }
    let mut random = SplitMix64(ty as u64);
    let mut codes = vec![0, ty.code_mask()];
    for power in 0..ty.bits() {
        for nudge in 0..5u64 {
            let near = (1u64 << power).wrapping_add(nudge).wrapping_sub(2);
            codes.extend([near, near.wrapping_neg(), !near]);
        }
    }
    if let Family::Float(format) = ty.family() {
        let m = format.mantissa_bits;
        for exponent in 0..1u64 << format.exponent_bits {
            for kept in [0, 1, 2, 3, 4, 8, 11, 12, 24, 25, m].into_iter().filter(|bits| *bits <= m)
            {
                let mantissa = random.next() >> (64 - m) >> (m - kept) << (m - kept);
                for (beside, sign) in [(0, 0), (1, 1), (u64::MAX, 0)] {
                    let code = sign * format.sign_bit() | exponent << m | mantissa;
                    codes.push(code.wrapping_add(beside));
                }
            }
        }
        for nan in [false, true] {
            codes.push(format.nan(nan));
        }
        codes.extend(format.infinity().map(|code| code | format.sign_bit()));
        // Integers of every magnitude and their neighbours, exact in the format or nearly.
        for _ in 0..4000 {
            let integer = (random.next() >> (random.next() % 64)) as f64;
            let code =
                if m == 52 { integer.to_bits() } else { u64::from((integer as f32).to_bits()) };
            codes.extend([code, code | format.sign_bit(), code + 1]);
        }
    }
    codes.extend((0..4000).map(|_| random.next() >> (random.next() % 64)));
    codes.iter().map(|code| code & ty.code_mask()).collect()
}

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
        let input = tensor_of_codes(from, &codes(from));
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

/// The wide types' claims, from what the types are: an integer type holds a range, a binary float with p bits of
/// significand every integer up to 2^p and not 2^p + 1, DOUBLE every FLOAT.
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
    // What holds on every value of a narrow source and is not claimed, as few would write it: two roundings that happen
    // to agree, integers in the middle that happen to be wide enough.
    let mut unclaimed: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for from in numeric() {
        let input = tensor_of_codes(from, &codes(from));
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
                                unclaimed
                                    .entry(format!("{from} to {via}"))
                                    .or_default()
                                    .push(to.name());
                            }
                            None => {}
                        }
                    }
                }
            }
        }
    }
    let lines = unclaimed.into_iter().map(|(chain, mut targets)| {
        targets.dedup();
        format!("{chain} to {}", targets.join(", "))
    });
    insta::assert_snapshot!("unclaimed", lines.collect::<Vec<_>>().join("\n"));
}
