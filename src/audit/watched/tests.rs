use tract_onnx::prelude::{IntoTValue, Tensor, tensor0, tensor1, tvec};

use super::*;
use crate::audit::element::CastPair;
use crate::cast::value::Number;

fn carriers(ty: ElementType, values: &[f32]) -> Tensor {
    let float = tensor1(values);
    Conversion::new(ElementType::Float, ty, Rules::default()).run(&float).expect("numbers")
}

/// By the definition, with numbers that are all exact in FLOAT.
fn expected(op: Quantize, x: &[f32], scale: f32, back: &[f32]) -> CastStats {
    let pair = CastPair::new(op.x, ElementType::Float);
    let mut stats = CastStats::default();
    for (x, back) in x.iter().zip(back) {
        let (x, y) = (Number::Real((*x).into()), Number::Real((*back).into()));
        let mut one = CastStats::default();
        pair.count(x, y, &mut one);
        let quotient = x.rounded() / f64::from(scale);
        let limit = match op.y {
            ElementType::Int8 if quotient < 0.0 => 128.5,
            ElementType::Int8 => 127.49,
            ElementType::Float8E4M3FN => 464.0,
            ty => panic!("{ty} has no limit here"),
        };
        if quotient.is_finite() && quotient.abs() > limit && back.is_finite() {
            let was = Outcome::ALL.into_iter().find(|outcome| one.count(*outcome) > 0);
            one.recount(1, was.expect("an outcome"), Outcome::Saturated);
            one.cut_off_at = back.abs().into();
        }
        one.errors.ulp = 0.0;
        stats.merge(&one);
    }
    stats
}

#[test]
fn a_quantizer_is_counted_by_what_comes_back() {
    let inf = f32::INFINITY;
    let x = [0.0, 0.25, -0.375, 0.125, 63.5, 63.75, -64.0, -64.25, 1e9, 232.0, 232.5, inf];
    for from in [ElementType::Float, ElementType::Float16, ElementType::BFloat16] {
        // What the narrower type makes of them.
        let held = floats(from, &carriers(from, &x)).expect("FLOATs");
        let held = view(&held).expect("plain");
        for (to, saturate) in [
            (ElementType::Int8, true),
            (ElementType::Float8E4M3FN, true),
            (ElementType::Float8E4M3FN, false),
        ] {
            let precision = ElementType::Float;
            let op = Quantize { x: from, scale: from, y: to, precision, saturate };
            let quantize = Quantization::new(Quantizer::Quantize(op)).expect("defined");
            let watched = WatchedQuantizer::new(&quantize, 0, 0).expect("a QuantizeLinear");
            let watched = WatchedOp::Quantizer(Arc::new(watched));
            let scale = carriers(from, &[0.5]).into_shape(&[]).expect("one element");
            let inputs = tvec!(carriers(from, held).into_tvalue(), scale.into_tvalue());
            let y = watched.run(&inputs).expect("y");
            let stats = watched.measure(&inputs, &y, 1).expect("carriers");
            let back: Vec<f32> = view(&floats(to, &y).expect("FLOATs"))
                .expect("plain")
                .iter()
                .map(|y| y * 0.5)
                .collect();
            assert_eq!(stats, expected(op, held, 0.5, &back), "{from} to {to}, {saturate}");
            let beyond = if saturate { Outcome::Saturated } else { Outcome::BecameNan };
            assert!(stats.count(beyond) >= 2, "{from} to {to}, {saturate}");
        }
    }
}

#[test]
fn each_element_has_its_own_scale_and_zero_point() {
    let op = Quantize {
        x: ElementType::Float,
        scale: ElementType::Float,
        y: ElementType::Uint8,
        precision: ElementType::Float,
        saturate: true,
    };
    let quantize = Quantization::new(Quantizer::Quantize(op)).expect("defined");
    let x = [1.0f32, -1.0, 300.0, 2.0, 130.0, -130.0];
    // By rows: the first reaches from 0 to 255, the second from -128 to 127.
    let rows = (Tensor::from_shape(&[2, 3], &x), tensor1(&[1.0f32, 1.0]), tensor1(&[0u8, 128]));
    // By blocks of two along the second axis, the last one short.
    let blocks = (
        Tensor::from_shape(&[2, 3], &x),
        Tensor::from_shape(&[2, 2], &[1.0f32, 2.0, 1.0, 1.0]).expect("four"),
        Tensor::from_shape(&[2, 2], &[0u8, 0, 128, 130]).expect("four"),
    );
    for ((x, scale, zero_point), axis, block_size, saturated, exact) in
        [(rows, 0, 0, 4, 2), (blocks, 1, 2, 2, 4)]
    {
        let watched = WatchedQuantizer::new(&quantize, axis, block_size);
        let watched = WatchedOp::Quantizer(Arc::new(watched.expect("a QuantizeLinear")));
        let x = x.expect("six").into_tvalue();
        let inputs = tvec!(x, scale.into_tvalue(), zero_point.into_tvalue());
        let y = watched.run(&inputs).expect("y");
        let stats = watched.measure(&inputs, &y, 1).expect("carriers");
        let counts = (stats.count(Outcome::Saturated), stats.count(Outcome::Exact));
        assert_eq!(counts, (saturated, exact), "{stats:?}");
    }
    let nan = tvec!(tensor1(&[f32::NAN]).into_tvalue(), tensor0(1.0f32).into_tvalue());
    let watched = WatchedQuantizer::new(&quantize, 0, 0).expect("a QuantizeLinear");
    let watched = WatchedOp::Quantizer(Arc::new(watched));
    let y = watched.run(&nan).expect("y");
    let stats = watched.measure(&nan, &y, 1).expect("carriers");
    assert_eq!(stats.count(Outcome::NanLost), 1);
}
