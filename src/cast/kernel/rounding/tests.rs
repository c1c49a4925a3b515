use super::*;
use crate::cast::scalar;

/// Every FLOAT whose upper half is any, its lower one at a tie or beside it.
#[test]
fn rounding_is_the_two_casts_at_every_level() {
    for ty in [ElementType::Float16, ElementType::BFloat16] {
        let rounding = Rounding::to(ty).expect("half precision");
        let lower = [0u32, 1, 0x0FFF, 0x1000, 0x1001, 0x7FFF, 0x8000, 0x8001, 0xFFFF];
        let bits = (0..=u16::MAX)
            .flat_map(|upper| lower.iter().map(move |lower| u32::from(upper) << 16 | *lower));
        let floats: Vec<f32> = bits.map(f32::from_bits).collect();
        let cast = |from, to, code| scalar::convert(from, to, Rules::default(), code);
        let rounded = |x: &f32| {
            let half = cast(ElementType::Float, ty, u64::from(x.to_bits())).expect("numbers");
            cast(ty, ElementType::Float, half).expect("numbers") as u32
        };
        let expected: Vec<u32> = floats.iter().map(rounded).collect();
        for level in Level::available() {
            for length in [floats.len(), 0, 1, 7, TILE - 1, TILE + 5] {
                let mut made = floats[..length].to_vec();
                rounding.run(level, &mut made);
                let made = made.iter().map(|x| x.to_bits());
                assert!(made.eq(expected[..length].iter().copied()), "{ty} {level:?}");
            }
        }
    }
}
