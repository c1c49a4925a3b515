use super::*;
use crate::cast::element_type::ElementType;

fn counted(text: &str, to: ElementType, y: f64) -> CastStats {
    let mut stats = CastStats::default();
    count(&CastPair::new(ElementType::String, to), text, Number::Real(y), &mut stats);
    stats
}

#[test]
fn white_space_is_that_of_the_cast() {
    let stats = counted("\x0B1", ElementType::Float, 1.0);
    assert_eq!((stats.count(Outcome::Exact), stats.source.nans), (1, 0));
}

#[test]
fn a_number_too_small_for_a_double_is_no_zero() {
    let stats = counted("-1e-400", ElementType::Float, -0.0);
    assert_eq!((stats.count(Outcome::Flushed), stats.source.zeros), (1, 0));
    assert_eq!(stats.source.limits, Some((-5e-324, -5e-324)));
}
