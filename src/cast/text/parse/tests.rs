use proptest::prelude::*;

use super::*;

#[test]
fn decimals_round_once() {
    let rules = Rules { saturate: false, ..Rules::default() };
    let parse = |text: &str, to: ElementType| {
        let mut word = [0; 8];
        let code = &mut word[..to.carrier_bytes()?];
        let texts = [text.to_string()];
        Parse::new(to, rules).run(Level::best(), &texts, TargetBytes::over(code)).ok()?;
        let code = code.iter().map(|byte| u64::from(*byte));
        let places = code.enumerate().map(|(index, byte)| {
            if cfg!(target_endian = "big") {
                (to.carrier_bytes().unwrap_or(1) - 1 - index, byte)
            } else {
                (index, byte)
            }
        });
        Some(places.fold(0, |code, (place, byte)| code | byte << (8 * place)))
    };
    let cases = [
        ("16777217.0000000001", ElementType::Float, Some(0x4B80_0001)),
        ("65519.999999999999999", ElementType::Float16, Some(0x7BFF)),
        ("65520", ElementType::Float16, Some(0x7C00)),
        ("464", ElementType::Float8E4M3FN, Some(0x7E)),
        ("464.00000000000000000001", ElementType::Float8E4M3FN, Some(0x7F)),
        ("1e-400", ElementType::Bool, Some(1)),
        ("0e99999999999999999999", ElementType::Bool, Some(0)),
        ("1e-400", ElementType::Float8E8M0, Some(0xFF)),
        ("9007199254740993", ElementType::Int64, Some(9007199254740993)),
        ("18446744073709551615.9", ElementType::Uint64, Some(u64::MAX)),
        ("18446744073709551616", ElementType::Uint64, None),
        ("-0.5", ElementType::Uint8, Some(0)),
        ("-1", ElementType::Uint8, None),
        ("1e2", ElementType::Int8, Some(100)),
        ("1e99999999999999999999", ElementType::Int64, None),
        ("inf", ElementType::Int64, None),
        ("nan", ElementType::Int8, None),
        (" \t5. \x0B", ElementType::Int8, Some(5)),
        ("\u{a0}5", ElementType::Int8, None),
        ("0x10", ElementType::Float, None),
        ("", ElementType::Float, None),
    ];
    for (text, to, expected) in cases {
        assert_eq!(parse(text, to), expected, "{text:?} to {to}");
    }
}

proptest! {
    #[test]
    fn short_decimals_are_read_as_std_reads_them(
        digits in 0u64..1_000_000_000_000_000,
        dropped in 0u32..15,
        point in 0usize..15,
        sign in "[+-]?",
    ) {
        let mut text = (digits / 10u64.pow(dropped)).to_string();
        text.insert(point.min(text.len()), '.');
        let text = sign + &text;
        prop_assert_eq!(parse_f32(&text).map(f32::to_bits), text.parse().ok().map(f32::to_bits));
        prop_assert_eq!(parse_f64(&text).map(f64::to_bits), text.parse().ok().map(f64::to_bits));
    }

    /// The middle between two FLOATs, and its neighbours among the decimals.
    #[test]
    fn decimals_around_a_middle_are_read_as_std_reads_them(
        float in 1u32 << 23..1 << 24,
        shift in 0u32..12,
        off in -1i64..=1,
        places in 0usize..4,
    ) {
        let middle = (2 * u64::from(float) + 1) << shift;
        let scaled = middle as i64 * 10i64.pow(places as u32) + off;
        let mut text = scaled.to_string();
        text.insert(text.len() - places, '.');
        prop_assert_eq!(parse_f32(&text).map(f32::to_bits), text.parse().ok().map(f32::to_bits));
    }

    #[test]
    fn integers_are_read_by_their_value(text in "[+-]?[0-9]{1,21}") {
        let value: i128 = text.parse().expect("21 digits fit 128 bits");
        prop_assert_eq!(integer(&text), u64::try_from(value).ok());
        prop_assert_eq!(integer(&text), i64::try_from(value).ok());
        prop_assert_eq!(integer(&text), i8::try_from(value).ok());
        prop_assert_eq!(integer(&text), u8::try_from(value).ok());
    }
}
