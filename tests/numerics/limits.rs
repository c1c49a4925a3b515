//! The ends of every numeric type, against `data/limits.tsv`, which
//! `scripts/vectors/make_limits.py` makes of rational numbers.

use std::collections::BTreeMap;
use std::fs;

use tract_onnx_cast::audit::{Number, Reach};
use tract_onnx_cast::kernel::convert_scalar;
use tract_onnx_cast::{ElementType, Family, Rules};

use crate::common::cases::root;
use crate::common::elements::numeric;

/// An exact value: so many times two to a power.
type Dyadic = (i128, i32);

struct Limit {
    ty: ElementType,
    name: String,
    code: u64,
    value: Dyadic,
}

fn limits() -> Vec<Limit> {
    let text = fs::read_to_string(root().join("tests/data/limits.tsv")).expect("the limits");
    let limit = |line: &str| {
        let [ty, name, code, value] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("{line}");
        };
        let (number, power) = value.split_once('p').expect("a power of two");
        Limit {
            ty: ElementType::from_name(ty).expect("a type"),
            name: name.into(),
            code: u64::from_str_radix(code, 16).expect("a code"),
            value: (number.parse().expect("a number"), power.parse().expect("a power")),
        }
    };
    text.lines().skip(1).map(limit).collect()
}

/// What an element is worth; `None` for NaN and infinities.
fn worth(ty: ElementType, code: u64) -> Option<Dyadic> {
    if let Family::Signed | Family::Unsigned | Family::Bool = ty.family() {
        let unused = 64 - ty.bits();
        let value = match ty.family() {
            Family::Signed => i128::from((code << unused) as i64 >> unused),
            _ => i128::from(code),
        };
        return Some(reduced((value, 0)));
    }
    let double = convert_scalar(ty, ElementType::Double, Rules::default(), code).expect("numeric");
    let x = f64::from_bits(double);
    if !x.is_finite() {
        return None;
    }
    let (field, fraction) = ((double >> 52 & 0x7FF) as i32, double & ((1 << 52) - 1));
    let significand = i128::from(if field == 0 { fraction } else { fraction | 1 << 52 });
    let signed = if x.is_sign_negative() { -significand } else { significand };
    Some(reduced((signed, field.max(1) - 1075)))
}

/// With an odd number, or zero times one.
fn reduced((number, power): Dyadic) -> Dyadic {
    if number == 0 {
        return (0, 0);
    }
    let twos = number.trailing_zeros();
    (number >> twos, power + twos as i32)
}

#[test]
fn limits_are_worth_what_rational_numbers_say() {
    let mut of_type: BTreeMap<ElementType, Vec<String>> = BTreeMap::new();
    for Limit { ty, name, code, value } in limits() {
        assert_eq!(worth(ty, code), Some(value), "{name} of {ty}");
        of_type.entry(ty).or_default().push(name);
    }
    for ty in numeric() {
        let is_float = ty.is_float();
        let names = ["max", "min", "min_positive", "min_normal"];
        assert_eq!(of_type[&ty], names[..if is_float { 4 } else { 3 }], "{ty}");
    }
}

/// A dyadic as the library has exact values.
fn number((number, power): Dyadic) -> Number {
    let is_integer = (0..64).contains(&power);
    let integer = is_integer.then(|| number << power).filter(|n| n.abs() > 1 << 53);
    // By halves, for a power of two alone may be beyond DOUBLE.
    let real = || number as f64 * 2f64.powi(power / 2) * 2f64.powi(power - power / 2);
    integer.map_or_else(|| Number::from(real()), Number::from)
}

#[test]
fn the_reach_of_a_type_is_what_rational_numbers_say() {
    for Limit { ty, name, value, .. } in limits() {
        let reach = Reach::of(ty).expect("a numeric type");
        let (min, max) = reach.limits();
        let limit = match (name.as_str(), reach) {
            ("max", _) => max,
            ("min", _) => min,
            ("min_positive", Reach::Float(float)) => Number::from(float.min_positive),
            ("min_normal", Reach::Float(float)) => Number::from(float.min_normal),
            _ => Number::from(1.0),
        };
        assert!(limit.is(number(value)), "{name} of {ty}: {limit:?}, not {value:?}");
    }
    let text = fs::read_to_string(root().join("tests/data/reach.tsv")).expect("the table");
    let mut lines = 0;
    for line in text.lines().skip(1) {
        let [ty, value, beyond, ulp] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("{line}");
        };
        let dyadic = |text: &str| -> Dyadic {
            let (number, power) = text.split_once('p').expect("a power of two");
            (number.parse().expect("a number"), power.parse().expect("a power"))
        };
        let ty = ElementType::from_name(ty).expect("a type");
        let reach = Reach::of(ty).expect("a numeric type");
        let x = number(dyadic(value));
        if !x.rounded().is_finite() {
            // No element of any type is worth that.
            continue;
        }
        assert_eq!(reach.is_beyond(x), beyond == "1", "{value} of {ty}");
        assert!(
            Number::from(reach.ulp(x)).is(number(dyadic(ulp))),
            "the last place of {ty} at {value}"
        );
        lines += 1;
    }
    assert!(lines > 1000, "{lines} values");
}
