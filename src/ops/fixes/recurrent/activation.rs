//! The functions that a recurrent operator can be given.

use super::product::Real;
use crate::cast::kernel::level::Level;
use crate::ops::host::saved::members;

/// One of the functions, by ONNX's name, and the numbers it uses.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Activation {
    pub(super) function: ActivationFunction,
    pub(super) alpha: f32,
    pub(super) beta: f32,
}

members! {
    pub(super) enum ActivationFunction {
        Affine,
        Elu,
        HardSigmoid,
        LeakyRelu,
        Relu,
        ScaledTanh,
        Sigmoid,
        Softplus,
        Softsign,
        Tanh,
        ThresholdedRelu,
    }
}

impl ActivationFunction {
    /// The function of a name, in which ONNX Runtime does not look at the case either.
    pub(super) fn named(name: &str) -> Option<ActivationFunction> {
        let is_it = |function: &ActivationFunction| function.name().eq_ignore_ascii_case(name);
        ActivationFunction::ALL.iter().copied().find(is_it)
    }

    pub(super) fn name(self) -> String {
        format!("{self:?}")
    }

    /// What `alpha` is where the model does not say, for a function that uses it. That of `Affine`
    /// and `ScaledTanh` no operator of ONNX's has, and ONNX Runtime's is 0.
    pub(super) fn alpha(self) -> Option<Option<f32>> {
        match self {
            ActivationFunction::Affine | ActivationFunction::ScaledTanh => Some(None),
            ActivationFunction::Elu | ActivationFunction::ThresholdedRelu => Some(Some(1.0)),
            ActivationFunction::HardSigmoid => Some(Some(0.2)),
            ActivationFunction::LeakyRelu => Some(Some(0.01)),
            _ => None,
        }
    }

    /// As [`ActivationFunction::alpha`], of `beta`.
    pub(super) fn beta(self) -> Option<Option<f32>> {
        match self {
            ActivationFunction::Affine => Some(Some(0.0)),
            ActivationFunction::HardSigmoid => Some(Some(0.5)),
            ActivationFunction::ScaledTanh => Some(None),
            _ => None,
        }
    }
}

impl Activation {
    /// Puts the function of each element in its place, once it is clipped to a magnitude. NaN
    /// stays.
    pub(super) fn apply<T: Real>(&self, level: Level, clip: Option<f32>, elements: &mut [T]) {
        if let Some(clip) = clip {
            let high: T = clip.into();
            let low = -high;
            map(level, elements, |x| if x < low { low } else { if x > high { high } else { x } });
        }
        let (zero, one) = (T::zero(), T::one());
        let (alpha, beta): (T, T) = (self.alpha.into(), self.beta.into());
        match self.function {
            ActivationFunction::Affine => map(level, elements, |x| alpha * x + beta),
            ActivationFunction::Elu => {
                map(level, elements, |x| if x < zero { alpha * x.exp_m1() } else { x })
            }
            ActivationFunction::HardSigmoid => map(level, elements, |x| {
                let y = alpha * x + beta;
                let y = if y < zero { zero } else { y };
                if y > one { one } else { y }
            }),
            ActivationFunction::LeakyRelu => {
                map(level, elements, |x| if x < zero { alpha * x } else { x })
            }
            ActivationFunction::Relu => map(level, elements, |x| if x < zero { zero } else { x }),
            ActivationFunction::ScaledTanh => {
                map(level, elements, |x| alpha * (beta * x).tangent())
            }
            ActivationFunction::Sigmoid => map(level, elements, T::sigmoid),
            ActivationFunction::Softplus => map(level, elements, T::softplus),
            ActivationFunction::Softsign => map(level, elements, |x| x / (one + x.abs())),
            ActivationFunction::Tanh => map(level, elements, T::tangent),
            ActivationFunction::ThresholdedRelu => {
                map(level, elements, |x| if x < alpha { zero } else { x })
            }
        }
    }
}

#[inline(always)]
fn map<T: Real>(level: Level, elements: &mut [T], f: impl Fn(T) -> T) {
    level.run(
        #[inline(always)]
        || {
            for element in elements {
                *element = f(*element);
            }
        },
    );
}
