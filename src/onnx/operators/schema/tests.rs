use super::*;

#[test]
fn every_row_can_be_read_and_they_are_sorted() {
    let mut previous = ("", 0);
    for row in rows() {
        let (operator, schema) = read(row).unwrap_or_else(|| panic!("{row:?}"));
        assert!(previous < (operator, schema.since), "{row:?}");
        previous = (operator, schema.since);
    }
    assert!(TABLE.lines().count() > 600);
}

#[test]
fn repeated_parameters_go_on_and_others_end() {
    let concat = schema("Concat", 13).unwrap();
    assert_eq!(concat.bound("T", &[None, None, Some(ElementType::Int8)]), Some(ElementType::Int8));
    let sum = schema("Add", 13).unwrap();
    assert_eq!(sum.bound("T", &[None, None, Some(ElementType::Int8)]), None);
    assert_eq!(sum.output(1), None);
    // Each output of a Loop has a type of its own.
    let looped = schema("Loop", 21).unwrap();
    assert!(looped.output(7).is_some_and(|output| output.has_any_types()));
    assert_eq!(looped.bound("V", &[None, None, Some(ElementType::Int8)]), None);
}

#[test]
fn a_schema_says_which_types_it_allows() {
    let reshape = |opset| {
        let schema = schema("Reshape", opset).unwrap();
        schema.allows(schema.output(0).unwrap().ty, ElementType::Float8E5M2)
    };
    assert!(!reshape(18) && reshape(19));
    assert!(versions("Frobnicate").is_empty() && schema("Frobnicate", 21).is_none());
}
