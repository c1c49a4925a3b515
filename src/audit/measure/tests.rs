use super::*;

/// Codes of every kind: shaped random ones, with more of those that are alike than chance would
/// give.
fn codes(ty: ElementType, length: usize, seed: u64) -> Tensor {
    let mut state = seed;
    let mut next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state ^ state >> 29
    };
    let mut tensor = Tensor::zero_dt(ty.datum_type(), &[length]).expect("a tensor");
    for (index, place) in
        tensor.as_bytes_mut().chunks_mut(ty.carrier_bytes().expect("numeric")).enumerate()
    {
        let number = next();
        // Stretches of ordinary values are what the loops are made for.
        let shaped = match index / TILE % 3 {
            0 => number,
            1 => number & 0xFF,
            _ => {
                let x = (number as i32 as f64) / f64::from(1 << 28);
                let code = crate::cast::scalar::convert(
                    ElementType::Double,
                    ty,
                    Rules::default(),
                    x.to_bits(),
                );
                code.expect("numeric")
            }
        };
        crate::cast::scalar::write_carrier(ty, shaped & ty.code_mask(), place);
    }
    if ty == ElementType::Bool {
        tensor.as_bytes_mut().iter_mut().for_each(|byte| *byte &= 1);
    }
    tensor
}

#[test]
fn the_loops_count_as_the_definition_does() {
    const LENGTH: usize = 7 * TILE + 13;
    let numeric = || ElementType::ALL.iter().filter(|ty| ty.family() != Family::Text);
    for (seed, from) in numeric().enumerate() {
        let x = codes(*from, LENGTH, seed as u64 + 1);
        for to in numeric() {
            for saturate in [true, false] {
                let rules = Rules { saturate, ..Rules::default() };
                let y = Conversion::new(*from, *to, rules).run(&x).expect("a cast");
                let fast = measure(*from, &x, *to, &y).expect("carriers");
                let pair = CastPair::new(*from, *to);
                let (source, target) = (ElementWidening::new(*from), ElementWidening::new(*to));
                let mut slow = CastStats::default();
                let (mut wide_x, mut wide_y) = (WideTile::zeroed(), WideTile::zeroed());
                let tiles = x.as_bytes().chunks(TILE * source.width);
                for (x, y) in tiles.zip(y.as_bytes().chunks(TILE * target.width)) {
                    source.widen(x, &mut wide_x);
                    target.widen(y, &mut wide_y);
                    for index in 0..x.len() / source.width {
                        let (x, y) = (source.number(&wide_x, index), target.number(&wide_y, index));
                        pair.count(x, y, &mut slow);
                    }
                }
                assert_eq!(fast, slow, "{from} to {to}, saturate {saturate}");
                let conversion = Conversion::new(*from, *to, rules);
                let known = measure_conversion(&conversion, &x, &y, 1).expect("carriers");
                assert_eq!(known, slow, "{from} to {to}, saturate {saturate}");
                assert_eq!(range(*from, &x).expect("a carrier"), slow.source, "{from}");
            }
        }
    }
}

#[test]
fn parts_that_are_counted_at_once_add_up() {
    let (from, to) = (ElementType::Float, ElementType::Float16);
    let x = codes(from, 3 * SHARE + 5, 7);
    let y = Conversion::new(from, to, Rules::default()).run(&x).expect("a cast");
    let counter = Counter::new(from, to);
    let alone = counter.count(x.as_bytes(), y.as_bytes(), 0, x.len());
    assert_eq!(measure(from, &x, to, &y).expect("carriers"), alone);
    assert_eq!(alone.elements(), x.len() as u64);
}
