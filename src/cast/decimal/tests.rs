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
