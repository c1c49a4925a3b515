use proptest::prelude::*;

use super::*;

fn format_f32(x: f32) -> String {
    // Over something else, as outputs are that come back.
    let mut text = "-12345.678".into();
    spell(bytemuck::bytes_of(&x), std::slice::from_mut(&mut text), write_float::<f32>);
    text
}

fn format_f64(x: f64) -> String {
    let mut text = String::new();
    write_float(x, &mut text);
    text
}

fn positional(shortest: &str) -> String {
    let mut text = String::new();
    write_positional(&mut text, shortest);
    text
}

/// The recipe of [SEMANTICS §9](crate::semantics) as it stands there, over the standard library's
/// formatting.
fn recipe<F>(x: F) -> String
where
    F: std::fmt::Display + std::fmt::LowerExp + std::str::FromStr + PartialEq + Copy,
{
    let scientific = format!("{x:e}");
    let mantissa = scientific.split('e').next().unwrap_or_default();
    let digits = mantissa.bytes().filter(u8::is_ascii_digit).count();
    let even = format!("{x:.*e}", digits - 1);
    let reads_back = even.parse::<F>().ok() == Some(x);
    let plain = if even != scientific && reads_back { positional(&even) } else { format!("{x}") };
    if plain.contains('.') { plain } else { format!("{plain}.0") }
}

#[test]
fn digit_ties_go_to_the_even_digit() {
    assert_eq!(format_f32(f32::from_bits(0x3E99_0000)), "0.29882812");
    assert_eq!(recipe(f32::from_bits(0x3E99_0000)), "0.29882812");
}

#[test]
fn floats_are_spelled_in_plain_notation() {
    let cases = [
        (1.0, "1.0"),
        (-0.5, "-0.5"),
        (-0.0, "-0.0"),
        (0.00001, "0.00001"),
        (1e20, "100000000000000000000.0"),
        (123456789.0, "123456790.0"),
        (f32::NAN, "NaN"),
        (f32::INFINITY, "INF"),
        (f32::NEG_INFINITY, "-INF"),
    ];
    for (x, expected) in cases {
        assert_eq!(format_f32(x), expected);
    }
}

proptest! {
    #[test]
    fn float_spelling_is_the_recipe(bits: u32) {
        let x = f32::from_bits(bits);
        prop_assume!(x.is_finite());
        prop_assert_eq!(format_f32(x), recipe(x));
    }

    #[test]
    fn short_float_spelling_is_the_recipe(mantissa in 0u32..1 << 12, exponent in 0u32..255) {
        let x = f32::from_bits(exponent << 23 | mantissa << 11);
        prop_assert_eq!(format_f32(x), recipe(x));
    }

    #[test]
    fn double_spelling_is_the_recipe(bits: u64) {
        let x = f64::from_bits(bits);
        prop_assume!(x.is_finite());
        prop_assert_eq!(format_f64(x), recipe(x));
    }
}
