//! Conversions of tensors, at every level of this CPU, against the definition of a conversion of
//! one element.

use tract_onnx::prelude::*;
use tract_onnx_cast::kernel::{Level, convert_scalar};
use tract_onnx_cast::{Conversion, ElementType, RoundMode, Rules};

use super::{Made, choose, little, numbers, tensor, valid};

const LONGEST: usize = 6000;

type Pair = (ElementType, ElementType, Rules);

thread_local! {
    static CONVERSIONS: Made<Pair, Conversion> = Made::new();
    static JOINED: Made<(Pair, ElementType), Option<Conversion>> = Made::new();
}

fn conversion(from: ElementType, to: ElementType, rules: Rules) -> Conversion {
    let make = || Conversion::new(from, to, rules);
    CONVERSIONS.with(|made| made.of((from, to, rules), make))
}

/// Bytes 0 and 1 are the types, 2 the rules, 3 how often the elements that follow are repeated,
/// each time with the next codes, so that there are vectors and their tails.
pub fn agree(mut data: &[u8]) {
    let types = numbers();
    let header = (choose(&mut data, &types), choose(&mut data, &types));
    let (Some(from), Some(to)) = header else { return };
    let modes = [RoundMode::Up, RoundMode::Down, RoundMode::Nearest];
    let rules = |saturate, round_mode| {
        let mut rules = Rules::default();
        (rules.saturate, rules.round_mode) = (saturate, round_mode);
        rules
    };
    let all = [true, false].map(|saturate| modes.map(|round_mode| rules(saturate, round_mode)));
    let Some(rules) = choose(&mut data, all.as_flattened()) else { return };
    let Some((times, elements)) = data.split_first() else { return };
    let width = from.carrier_bytes().expect("a number");
    let few: Vec<u64> = elements.chunks_exact(width).map(little).collect();
    if few.is_empty() {
        return;
    }
    // Few are longer than the pieces that a conversion takes: they are as slow as a thousand
    // others.
    let times = match (times % 8, usize::from(times / 8)) {
        (7, eighth @ 30..) => eighth * 40,
        (7, eighth) => 1 + eighth * 3,
        (6, _) => 5,
        _ => 1,
    };
    let times = times.min(1 + LONGEST / few.len()) as u64;
    let bits = (0..times).flat_map(|time| few.iter().map(move |bits| bits.wrapping_add(time)));
    let codes: Vec<u64> = bits.map(|bits| valid(from, bits)).collect();
    let input = tensor(from, &codes, &[codes.len()]);
    let convert = |code: &u64| convert_scalar(from, to, rules, *code).expect("numbers");
    let wanted: Vec<u64> = codes.iter().map(convert).collect();
    let wanted = tensor(to, &wanted, &[codes.len()]);
    let (width, wanted) = (to.carrier_bytes().expect("a number"), wanted.as_bytes());
    let conversion = self::conversion(from, to, rules);
    for level in Level::available() {
        let conversion = conversion.clone().at_level(level);
        let what = || format!("{from} to {to}, {rules:?}, {level:?}");
        same(&conversion.run(&input).expect("numbers"), wanted, what);
        same(&conversion.run_owned(input.clone()).expect("numbers"), wanted, what);
        // Without the first element, so that the others are not aligned.
        if codes.len() > 1 {
            let rest = input.slice(0, 1, codes.len()).expect("an element");
            same(&conversion.run(&rest).expect("numbers"), &wanted[width..], what);
        }
    }
    let third = types[usize::from(elements[0]) % types.len()];
    let next = self::conversion(to, third, rules);
    // There and back is no cast at all, which keeps even the bits of a NaN.
    if third == from {
        return;
    }
    let join = || conversion.then(&next);
    if let Some(joined) = JOINED.with(|made| made.of(((from, to, rules), third), join)) {
        let two = next.run(&conversion.run(&input).expect("numbers")).expect("numbers");
        let one = joined.run(&input).expect("numbers");
        assert_eq!(one.as_bytes(), two.as_bytes(), "{from} to {to} to {third}, {rules:?}");
    }
}

fn same(output: &Tensor, wanted: &[u8], what: impl Fn() -> String) {
    assert!(output.as_bytes() == wanted, "{}: {:?}, not {wanted:?}", what(), output.as_bytes());
}
