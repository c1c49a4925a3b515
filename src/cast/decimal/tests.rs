use super::*;

#[test]
fn words_and_white_space_are_those_of_the_grammar() {
    let nearest = |text| Spelled::read(text).map(|spelled| spelled.nearest());
    assert_eq!(nearest("\x0B1\x0C"), Some(1.0));
    assert_eq!(nearest(" -INFINITY "), Some(f64::NEG_INFINITY));
    assert_eq!(nearest("True"), Some(1.0));
    assert_eq!(nearest("\u{a0}1"), None);
    assert!(nearest("-nan").is_some_and(f64::is_nan));
}

#[test]
fn no_number_but_zero_is_near_zero() {
    let nearest = |text| Spelled::read(text).map(|spelled| spelled.nearest());
    assert_eq!(nearest("-1e-400"), Some(-5e-324));
    assert_eq!(nearest("1e400"), Some(f64::MAX));
    assert_eq!(nearest("-0e99999999999999999999"), Some(0.0));
    assert_eq!(nearest("1e99999999999999999999"), Some(f64::MAX));
}

#[test]
fn distances_are_those_of_the_decimals() {
    let distance = |a, b| Decimal::new(a).distance(&Decimal::new(b));
    assert_eq!(distance("464.00000000000000000001", "464"), 1e-20);
    assert_eq!(distance("1", "0.999"), 0.001);
    assert_eq!(distance("100", "1e-3"), 99.999);
    assert_eq!(distance("0", "25e-1"), 2.5);
    assert_eq!(distance("9007199254740993", "9007199254740992"), 1.0);
}

/// No DOUBLE has more than 1074 digits after the point.
#[test]
fn doubles_are_exact() {
    let powers = (-1074..1024).map(|exponent| 2f64.powi(exponent));
    let some = [0.0, 1.5, 0.1, 1e-7, f64::MAX, f64::MIN_POSITIVE, 5e-324, 123456789.125, 1e300];
    for x in powers.flat_map(|power| [power, power * 1.1, -power * 3.0]).chain(some) {
        if x.is_finite() {
            assert_eq!(Decimal::of(x), Decimal::new(&format!("{x:.1074}")), "{x:e}");
        }
    }
}
