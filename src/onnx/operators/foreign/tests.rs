#[test]
fn rows_are_sorted() {
    assert!(super::CONTRIB.is_sorted_by(|a, b| a.0 < b.0));
}
