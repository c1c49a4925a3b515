use super::*;

/// [`ElementType::since`] and the versions of each operator are what ONNX's schemas say.
#[test]
fn a_type_is_allowed_since_its_opset() {
    for operator in [Operator::Cast, Operator::CastLike] {
        for schema in operator.versions() {
            let output = schema.output(0).expect("an output");
            for ty in ElementType::ALL {
                let is_allowed = schema.allows(output.ty, *ty);
                assert_eq!(is_allowed, ty.since() <= schema.since, "{operator} {schema:?} {ty}");
            }
        }
    }
    let versions = |operator: Operator| -> Vec<i64> {
        operator.versions().iter().map(|schema| schema.since).collect()
    };
    assert_eq!(versions(Operator::Cast), [1, 6, 9, 13, 19, 21, 23, 24, 25, 28]);
    assert_eq!(versions(Operator::CastLike), [15, 19, 21, 23, 24, 25]);
}
