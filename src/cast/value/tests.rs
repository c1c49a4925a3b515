use super::*;

#[test]
fn integers_and_reals_compare_by_their_values() {
    use Ordering::{Equal, Greater, Less};
    let two_53 = (1i128 << 53) as f64;
    let cases = [
        (Number::Real(two_53), (1 << 53) + 1, Less),
        (Number::Real(two_53), 1 << 53, Equal),
        (Number::Real(-0.5), 0, Less),
        (Number::Real(-0.5), -1, Greater),
        (Number::Real(2.5), 2, Greater),
        (Number::Real(1e300), i128::from(i64::MAX), Greater),
        (Number::Real(-1e300), i128::from(i64::MIN), Less),
        (Number::Real(f64::NEG_INFINITY), i128::from(i64::MIN), Less),
    ];
    for (real, integer, expected) in cases {
        let integer = Number::Integer(integer);
        assert_eq!(real.compare(integer), Some(expected), "{real:?} and {integer:?}");
        assert_eq!(integer.compare(real), Some(expected.reverse()));
        assert_eq!(real.is(integer), expected == Equal);
    }
    assert_eq!(Number::Real(f64::NAN).compare(Number::Integer(0)), None);
}

#[test]
fn distances_are_rounded_once() {
    let distance = |a, b| Number::distance(a, b);
    assert_eq!(distance(Number::Integer((1 << 62) - 1), Number::Real(2f64.powi(62))), 1.0);
    assert_eq!(distance(Number::Real(0.25), Number::Integer(1)), 0.75);
    // 2^53 + 1.5, between 2^53 and 2^53 + 2.
    let half = Number::Real(-0.5);
    assert_eq!(distance(half, Number::Integer((1 << 53) + 1)), 2f64.powi(53) + 2.0);
    assert_eq!(distance(Number::Integer(i128::from(u64::MAX)), Number::Integer(-1)), 2f64.powi(64));
}
