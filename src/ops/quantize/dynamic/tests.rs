use super::*;

#[test]
fn scale_and_zero_point_are_those_of_the_range_with_zero() {
    let of = |numbers: &[f32]| {
        let (least, greatest) = range(numbers);
        parameters(least, greatest)
    };
    assert_eq!(of(&[-127.0, 128.0, 0.5]), (1.0, 127));
    // The zero point is a tie.
    assert_eq!(of(&[-253.0, 257.0]), (2.0, 126));
    assert_eq!(of(&[510.0, 3.0]), (2.0, 0));
    assert_eq!(of(&[-510.0, -3.0]), (2.0, 255));
    assert_eq!(of(&[0.0; 3]), (0.0, 0));
    assert_eq!(of(&[f32::NAN, 255.0]), (1.0, 0));
    let many: Vec<f32> = (0..1000).map(|i| i as f32 - 300.0).collect();
    assert_eq!(range(&many), (-300.0, 699.0));
}
