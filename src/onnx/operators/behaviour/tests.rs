use tract_onnx::pb::NodeProto;

use super::*;
use crate::onnx::operators::schema::versions;

#[test]
fn rows_are_sorted_and_name_operators_of_onnx() {
    assert!(BEHAVIOURS.is_sorted_by(|a, b| a.operator < b.operator));
    for row in BEHAVIOURS {
        assert!(!versions(row.operator).is_empty(), "{}", row.operator);
    }
}

#[test]
fn an_operator_of_another_domain_is_not_onnx_s() {
    let node = |domain: &str| NodeProto {
        op_type: "Identity".into(),
        domain: domain.into(),
        ..NodeProto::default()
    };
    assert!(Behaviour::of(&node("ai.onnx")).only_rearranges);
    assert!(!Behaviour::of(&node("com.example")).only_rearranges);
}
