use super::*;
use crate::cast::rules::Rules;
use crate::cast::scalar::{convert, decode};
use crate::cast::value::ExactValue;

/// Against every code of the small types.
#[test]
fn a_type_holds_another_if_every_code_survives() {
    let small = || ElementType::ALL.iter().copied().filter(|ty| (1..=16).contains(&ty.bits()));
    for of in small() {
        for held_in in ElementType::ALL.iter().copied().filter(|ty| ty.bits() > 0) {
            let survives = |code: u64| {
                let code = if of == ElementType::Bool { code & 1 } else { code };
                let rules = Rules { saturate: false, ..Rules::default() };
                let there =
                    convert(of, held_in, rules, code).and_then(|code| decode(held_in, code));
                let here = decode(of, code);
                there.zip(here).is_some_and(|(there, here)| is_same(there, here))
            };
            let all = of == held_in || (0..1u64 << of.bits()).all(survives);
            assert_eq!(holds_every_value(of, held_in), all, "{of} in {held_in}");
        }
    }
}

fn is_same(a: ExactValue, b: ExactValue) -> bool {
    let is_nan = |value| matches!(value, ExactValue::NaN { .. });
    let both_zero = a.is_zero() && b.is_zero();
    both_zero || (is_nan(a) && is_nan(b)) || a.lowest_terms() == b.lowest_terms()
}

#[test]
fn what_rounds_into_range_is_not_beyond() {
    use ElementType::*;
    let beyond = |ty, x: f64| Reach::of(ty).expect("numeric").is_beyond(Number::Real(x));
    let integer = |ty, n| Reach::of(ty).expect("numeric").is_beyond(Number::Integer(n));
    assert!(!beyond(Float8E4M3FN, 464.0) && beyond(Float8E4M3FN, 464.000_000_1));
    assert!(!beyond(Float8E4M3FNUZ, 247.999) && beyond(Float8E4M3FNUZ, 248.0));
    assert!(!beyond(Float8E5M2, 61439.9) && beyond(Float8E5M2, 61440.0));
    assert!(beyond(Float16, 65520.0) && !beyond(Float16, 65519.9));
    // FLOAT8E8M0 tests the value itself (§5.4).
    let two_127 = 2f64.powi(127);
    assert!(!beyond(Float8E8M0, two_127) && beyond(Float8E8M0, 1.1 * two_127));
    assert!(beyond(Float8E8M0, 0.0) && beyond(Float8E8M0, 0.9 * 2f64.powi(-127)));
    // Integers truncate (§7.2).
    assert!(!beyond(Int8, 127.9) && beyond(Int8, 128.0) && !beyond(Int8, -128.9));
    assert!(!beyond(Uint8, -0.5) && !beyond(Uint8, 255.5) && beyond(Uint8, -1.0));
    let (two_63, two_64) = (2f64.powi(63), 2f64.powi(64));
    assert!(beyond(Int64, two_63) && !beyond(Int64, -two_63) && beyond(Uint64, two_64));
    assert!(!integer(Uint64, i128::from(u64::MAX)) && integer(Int64, 1 << 63));
    assert!(!beyond(Bool, 1e300) && !beyond(Int8, f64::NAN));
}

#[test]
fn the_last_place_of_a_wide_integer_is_that_of_its_own_binade() {
    let float = Reach::of(ElementType::Float).expect("numeric");
    assert_eq!(float.ulp(Number::Integer((1 << 62) - 1)), 2f64.powi(38));
    assert_eq!(float.ulp(Number::Integer(1 << 62)), 2f64.powi(39));
}
