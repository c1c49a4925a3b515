use super::super::testing::after;
use super::*;

#[test]
fn what_constants_make_is_bounded() {
    let small = "
        const n = 1000 1000
        z = ConstantOfShape(n)
        out z FLOAT";
    assert!(after(small, &[check]).is_ok());
    let large = "
        const n = 100000 100000
        z = ConstantOfShape(n)
        out z FLOAT";
    let error = after(large, &[check]).expect_err("too much");
    let expected =
        "node `z` (ConstantOfShape): `made_elements` is 10000000000, and the limit is 16777216";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn many_small_ones_are_counted_together() {
    let sums: String = (0..40).map(|i| format!("z{i} = Tile(c, n)\n")).collect();
    let model = format!("const n = 500000\nconst c FLOAT 1\n{sums}out z0 FLOAT");
    assert!(after(&model, &[check]).is_err());
}
