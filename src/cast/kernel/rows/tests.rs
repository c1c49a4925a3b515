//! That the sums are the tables.

use super::{BytePlaces, RowSums, TermReach};

fn sum(rows: &RowSums, byte: usize, code: u8) -> u8 {
    let digit = |row: Option<[u8; 16]>, digit: u8| row.map_or(0, |row| row[usize::from(digit)]);
    let mut sum = digit(rows.low[byte], code & 15).wrapping_add(digit(rows.high[byte], code >> 4));
    let own = if rows.reach == TermReach::Row { code } else { code ^ 0x80 };
    for (base, terms) in [(code & rows.mask, &rows.shared), (own, &rows.own)] {
        for term in terms {
            let is_reached = match rows.reach {
                TermReach::Row => base & 0xF0 == term.row[0],
                _ => base as i8 >= term.row[0] as i8,
            };
            let more = term.bytes[byte][usize::from(base & 15)];
            sum = sum.wrapping_add(if is_reached { more } else { 0 });
        }
    }
    sum
}

/// The number of terms, for each reach.
fn terms(table: &[u32; 256], form: BytePlaces) -> [usize; 3] {
    [TermReach::Row, TermReach::Above, TermReach::Everything].map(|reach| {
        let bytes: Vec<u8> = table.iter().flat_map(|target| target.to_le_bytes()).collect();
        let rows = RowSums::new(&bytes, 4, reach).expect("two bytes that differ");
        assert!(rows.form == form);
        for (code, target) in (0..=255).zip(table) {
            let [first, second] = [0, 1].map(|byte| u32::from(sum(&rows, byte, code)));
            let whole = match form {
                BytePlaces::Upper => first << 16 | second << 24,
                BytePlaces::Extended => first | (second * 0x0101_0100),
            };
            assert_eq!(whole, *target, "{code}, {reach:?}");
        }
        rows.shared.len() + rows.own.len()
    })
}

#[test]
fn an_exponent_takes_no_term() {
    assert_eq!(
        terms(&std::array::from_fn(|code| (code as u32) << 23), BytePlaces::Upper),
        [0, 0, 9]
    );
}

#[test]
fn rows_that_are_alike_are_one_term() {
    let nan = |code: usize| code & 0x70 == 0x70 && code & 15 > 3;
    let table = |code: usize| ((code as u32) << 20) + if nan(code) { 0x0340_0000 } else { 0 };
    assert_eq!(terms(&std::array::from_fn(table), BytePlaces::Upper), [1, 1, 9]);
}

#[test]
fn a_digit_in_twos_complement_is_extended() {
    let table = |code: usize| ((code as i32) << 28 >> 28) as u32;
    assert_eq!(terms(&std::array::from_fn(table), BytePlaces::Extended), [0, 0, 1]);
}

#[test]
fn any_bytes_are_a_sum() {
    let byte = |code: usize| (code as u32 + 1).pow(3).wrapping_mul(0x9E37_79B9) >> 24;
    terms(&std::array::from_fn(|code| byte(code) << 24), BytePlaces::Upper);
    terms(
        &std::array::from_fn(|code| byte(code) | (byte(255 - code) * 0x0101_0100)),
        BytePlaces::Extended,
    );
}

#[test]
fn three_bytes_are_not_two() {
    let targets: Vec<u8> =
        (0..=255u32).flat_map(|code| (code | 1 << (8 + code % 16)).to_le_bytes()).collect();
    assert!(RowSums::new(&targets, 4, TermReach::Row).is_none());
}
