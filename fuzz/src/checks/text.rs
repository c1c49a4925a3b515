//! Strings as numbers and numbers as strings, against the standard library's.

use tract_onnx::prelude::*;
use tract_onnx_cast::kernel::convert_scalar;
use tract_onnx_cast::{Conversion, ElementType, Family, Rules};

use super::{Made, carrier, choose, little, numbers, tensor, valid};

thread_local! {
    static CONVERSIONS: Made<(ElementType, ElementType), Conversion> = Made::new();
}

fn conversion(from: ElementType, to: ElementType, rules: Rules) -> Conversion {
    CONVERSIONS.with(|made| made.of((from, to), || Conversion::new(from, to, rules)))
}

fn exact() -> Rules {
    let mut rules = Rules::default();
    rules.saturate = false;
    rules
}

/// Byte 0 chooses the direction; then a text, or a type and the bits of an element.
pub fn agrees(mut data: &[u8]) {
    match choose(&mut data, &[true, false]) {
        Some(true) => std::str::from_utf8(data).into_iter().for_each(parses),
        Some(false) => {
            let ty = choose(&mut data, &numbers());
            if let (Some(ty), Some(bits)) = (ty, data.first_chunk::<8>()) {
                returns(ty, valid(ty, u64::from_le_bytes(*bits)));
            }
        }
        None => {}
    }
}

fn cast(text: &Tensor, to: ElementType) -> Option<u64> {
    let output = conversion(ElementType::String, to, exact()).run(text).ok()?;
    match to.family() {
        Family::Text => None,
        _ => Some(little(output.as_bytes()) & to.code_mask()),
    }
}

fn parses(text: &str) {
    let input = &tensor0(text.to_string());
    let trimmed = text.trim_matches([' ', '\t', '\n', '\r', '\x0B', '\x0C']);
    let double = cast(input, ElementType::Double).map(f64::from_bits);
    let float = cast(input, ElementType::Float).map(|code| f32::from_bits(code as u32));
    let same = |a: f64, b: f64| a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan());
    match (double, trimmed.parse::<f64>()) {
        (Some(ours), Ok(theirs)) => assert!(same(ours, theirs), "{text:?}: {ours}, not {theirs}"),
        (ours, theirs) => assert!(ours.is_none() && theirs.is_err(), "{text:?}: {ours:?}"),
    }
    match (float, trimmed.parse::<f32>()) {
        (Some(ours), Ok(theirs)) => assert!(same(ours.into(), theirs.into()), "{text:?}: {ours}"),
        (ours, theirs) => assert!(ours.is_none() && theirs.is_err(), "{text:?}: {ours:?}"),
    }
    if let Ok(value) = trimmed.parse::<i128>() {
        let int64 = cast(input, ElementType::Int64).map(|code| code as i64);
        assert_eq!(int64, i64::try_from(value).ok(), "{text:?}");
        assert_eq!(cast(input, ElementType::Uint64), u64::try_from(value).ok(), "{text:?}");
        let int4 = cast(input, ElementType::Int4).map(|code| ((code as i8) << 4) >> 4);
        let fits = i8::try_from(value).ok().filter(|value| (-8..8).contains(value));
        assert_eq!(int4, fits, "{text:?}");
    }
    // Few digits without a point are a DOUBLE with nothing rounded, so one rounding is all there
    // is.
    let is_exact = trimmed.len() < 16 && !trimmed.contains(['e', 'E', '.']);
    for to in numbers() {
        let code = cast(input, to);
        if to.is_float() {
            assert_eq!(code.is_some(), double.is_some(), "{text:?} to {to}");
            if let Some(double) = double.filter(|double| is_exact && double.is_finite()) {
                let wanted = convert_scalar(ElementType::Double, to, exact(), double.to_bits());
                assert_eq!(code, wanted, "{text:?} to {to}");
            }
        }
    }
}

/// What a number is spelled as is read as that number.
fn returns(ty: ElementType, code: u64) {
    let input = tensor(ty, &[code], &[1]);
    let text = conversion(ty, ElementType::String, Rules::default()).run(&input);
    let text = text.expect("every number has a spelling");
    let back = conversion(ElementType::String, ty, exact()).run(&text).expect("our spelling");
    let double = convert_scalar(ty, ElementType::Double, Rules::default(), code);
    let is_float = ty.is_float();
    let is_nan = is_float && double.is_some_and(|double| f64::from_bits(double).is_nan());
    // FLOAT8E8M0 rounds by another rule; a NaN has one spelling for many codes.
    if !is_nan && ty != ElementType::Float8E8M0 {
        let width = ty.carrier_bytes().expect("a number");
        assert_eq!(back.as_bytes(), &carrier(ty, code)[..width], "{ty} {code:#x} {text:?}");
    }
}
