//! Every kernel at every level of this CPU: the same bits as without instructions that round a
//! product and a sum once.

use super::{ElementFunction, Kind};
use crate::cast::kernel::level::Level;

fn functions() -> Vec<ElementFunction> {
    let function = |kind, alpha: f32, beta: f32| ElementFunction {
        kind,
        alpha: f64::from(alpha),
        beta: f64::from(beta),
    };
    vec![
        function(Kind::Celu, 1.0, 1.0),
        function(Kind::Celu, 3.0, 1.0),
        function(Kind::Elu, 0.7, 1.0),
        function(Kind::Erf, 1.0, 1.0),
        function(Kind::Gelu, 1.0, 1.0),
        function(Kind::Mish, 1.0, 1.0),
        function(Kind::Power, 1.7, 1.0),
        function(Kind::Selu, 1.673_263_2, 1.050_701),
        function(Kind::Sigmoid, 1.0, 1.0),
        function(Kind::Softplus, 1.0, 1.0),
        function(Kind::Swish, 1.0, 1.0),
        function(Kind::Swish, 0.1, 1.0),
        function(Kind::Swish, -1.5, 1.0),
        function(Kind::Tanh, 1.0, 1.0),
        function(Kind::TanhGelu, 1.0, 1.0),
    ]
}

/// All numbers of both halves, and FLOATs of every exponent.
fn floats() -> Vec<f32> {
    let halves = (0..=u16::MAX).flat_map(|bits| {
        [half::f16::from_bits(bits).to_f32(), half::bf16::from_bits(bits).to_f32()]
    });
    halves.chain((0..=u32::MAX).step_by(20_011).map(f32::from_bits)).collect()
}

#[test]
fn every_level_computes_the_same_bits() {
    let floats = floats();
    for function in functions() {
        let mut truth = floats.clone();
        assert!(function.by_kernel(Level::BASELINE, &mut truth), "{function:?}");
        for level in Level::available() {
            let mut made = floats.clone();
            function.of_floats(level, &mut made);
            for ((x, made), truth) in floats.iter().zip(made).zip(&truth) {
                let is_same = made.to_bits() == truth.to_bits() || made.is_nan() && truth.is_nan();
                assert!(is_same, "{function:?} of {x:e} at {level:?}: {made:e}, not {truth:e}");
            }
        }
    }
}

#[test]
fn powers_are_those_of_the_standard_library() {
    for exponent in [-1.5f32, 0.0, 3.0, 1.7, f32::INFINITY] {
        let power = ElementFunction { kind: Kind::Power, alpha: f64::from(exponent), beta: 1.0 };
        let (floats, halves) = (floats(), (0..=u16::MAX).map(half::f16::from_bits));
        let mut made = floats.clone();
        power.of_floats(Level::best(), &mut made);
        let wanted = floats.iter().map(|x| x.powf(exponent).to_bits());
        assert!(made.iter().map(|x| x.to_bits()).eq(wanted), "{exponent}");
        let mut made: Vec<half::f16> = halves.clone().collect();
        power.of_halves(&mut made);
        let wanted = halves.map(|x| half::f16::from_f32(x.to_f32().powf(exponent)));
        let is_same = |(x, y): (half::f16, half::f16)| x == y || x.is_nan() && y.is_nan();
        assert!(made.into_iter().zip(wanted).all(is_same), "{exponent}");
        let mut made = [2.5f64, -2.0, 0.0];
        power.of_doubles(&mut made);
        let wanted = [2.5f64, -2.0, 0.0].map(|x| x.powf(f64::from(exponent)).to_bits());
        assert_eq!(made.map(f64::to_bits), wanted);
    }
}

/// What overflows on the way through a kernel is computed otherwise.
#[test]
fn attributes_far_from_1_are_right() {
    let of = |kind, alpha: f64, x: f32| {
        let mut made = [x];
        ElementFunction { kind, alpha, beta: 1.0 }.of_floats(Level::best(), &mut made);
        made[0]
    };
    assert_eq!(of(Kind::Elu, 0.0, -3.0), 0.0);
    assert_eq!(of(Kind::Elu, 1e30, -100.0), -1e30);
    assert_eq!(of(Kind::Swish, 0.0, 3.0), 1.5);
    assert_eq!(of(Kind::Swish, 1e30, 3.0), 3.0);
    assert_eq!(of(Kind::Celu, 1e30, -3.0), -3.0);
}
