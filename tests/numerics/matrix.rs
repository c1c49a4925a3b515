//! Claim and deed over every version and every pair of types: a node is accepted exactly when both
//! types are allowed by its version, and then a model of it loads, runs through tract, and converts
//! as a [`Conversion`] alone does.

use tract_onnx::pb::{AttributeProto, ModelProto};
use tract_onnx::prelude::*;
use tract_onnx_cast::survey::Operator;
use tract_onnx_cast::{
    Conversion, ElementType, Family, Rules, input_element_types, output_element_types,
};

use crate::common::proto::{self, Change, graph, int, node, string, value};

const ELEMENTS: i64 = 5;

fn to(opset: i64, ty: ElementType) -> AttributeProto {
    if opset < 6 { string("to", ty.name()) } else { int("to", ty as i64) }
}

/// A model of one node, `Cast`, or `CastLike` with a second input.
fn model(operator: Operator, opset: i64, from: ElementType, target: ElementType) -> ModelProto {
    let value = |name, ty| value(name, ty, &[ELEMENTS]);
    let (x, y) = (value("x", from), value("y", target));
    let (inputs, node) = if operator == Operator::CastLike {
        let like = value("like", target);
        (vec![x, like], node(operator.name(), &["x", "like"], &["y"], vec![]))
    } else {
        (vec![x], node(operator.name(), &["x"], &["y"], vec![to(opset, target)]))
    };
    proto::model(opset, graph(&inputs, &[node.named("c")], &[y]))
}

/// A few elements of any type.
fn elements(ty: ElementType) -> Tensor {
    let texts: Vec<String> = ["0", "1", "-0", "1.0", "+1"].map(String::from).into();
    let texts = tensor1(&texts);
    Conversion::new(ElementType::String, ty, Rules::default()).run(&texts).expect("numbers")
}

fn check_all(operator: Operator, opset: i64, newest: i64) {
    for from in ElementType::ALL.iter().copied() {
        for target in ElementType::ALL.iter().copied() {
            let about = format!("{operator} of {from} to {target} at opset {opset}");
            let is_allowed = from.since() <= newest && target.since() <= newest;
            let loaded = tract_onnx_cast::onnx()
                .model_for_proto_model(&model(operator, opset, from, target));
            let loaded = match loaded {
                Ok(loaded) => loaded,
                Err(error) => {
                    assert!(!is_allowed, "{about}: {error:#}");
                    let message = format!("{error:#}");
                    assert!(message.contains("`c`"), "{about}: {message}");
                    assert!(message.contains(&opset.to_string()), "{about}: {message}");
                    continue;
                }
            };
            assert!(is_allowed, "{about} is accepted");
            let optimized = loaded.into_optimized().unwrap_or_else(|e| panic!("{about}: {e:#}"));
            let inputs = input_element_types(&optimized).expect("types of inputs");
            let outputs = output_element_types(&optimized).expect("types of outputs");
            assert_eq!((inputs[0], outputs[0]), (from, target), "{about}");
            let x = elements(from);
            let mut values = tvec!(x.clone().into_tvalue());
            if operator == Operator::CastLike {
                values.push(elements(target).into_tvalue());
            }
            let result = optimized.into_runnable().and_then(|plan| plan.run(values));
            let y = result.unwrap_or_else(|e| panic!("{about}: {e:#}")).remove(0).into_tensor();
            let alone = Conversion::new(from, target, Rules::default()).run(&x).expect("alone");
            match target.family() {
                Family::Text => assert_eq!(y, alone, "{about}"),
                _ => assert_eq!(y.as_bytes(), alone.as_bytes(), "{about}"),
            }
        }
    }
}

#[test]
fn every_pair_of_every_cast_version() {
    for opset in [1, 5, 6, 8, 9, 12, 13, 18, 19, 20, 21, 22, 23, 24, 25, 27, 28, 31] {
        let newest = Operator::Cast.version(opset).expect("a version");
        check_all(Operator::Cast, opset, newest);
    }
}

#[test]
fn every_pair_of_every_castlike_version() {
    for opset in [15, 18, 19, 20, 21, 22, 23, 24, 25, 28] {
        let newest = Operator::CastLike.version(opset).expect("a version");
        check_all(Operator::CastLike, opset, newest);
    }
}

#[test]
fn castlike_is_refused_before_its_first_version() {
    let model = model(Operator::CastLike, 14, ElementType::Float, ElementType::Float16);
    let error = tract_onnx_cast::onnx().model_for_proto_model(&model).expect_err("too early");
    let message = format!("{error:#}");
    assert_eq!(message, "node `c` (CastLike): CastLike needs opset 15, the model imports 14");
}
