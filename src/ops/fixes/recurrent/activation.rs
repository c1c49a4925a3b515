//! The functions that a recurrent operator can be given.

use super::product::Real;
use crate::cast::kernel::level::Level;
use crate::ops::host::saved::members;

/// One of the functions, by ONNX's name, and the numbers it uses.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Activation {
    pub(super) function: Function,
    pub(super) alpha: f32,
    pub(super) beta: f32,
}

members! {
    pub(super) enum Function {
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

impl Function {
    /// The function of a name, in which ONNX Runtime does not look at the case either.
    pub(super) fn named(name: &str) -> Option<Function> {
        let is_it = |function: &Function| function.name().eq_ignore_ascii_case(name);
        Function::ALL.iter().copied().find(is_it)
    }

    pub(super) fn name(self) -> String {
        format!("{self:?}")
    }

    /// What `alpha` is where the model does not say, for a function that uses it. That of `Affine` and `ScaledTanh` no
    /// operator of ONNX's has, and ONNX Runtime's is 0.
    pub(super) fn alpha(self) -> Option<Option<f32>> {
        match self {
            Function::Affine | Function::ScaledTanh => Some(None),
            Function::Elu | Function::ThresholdedRelu => Some(Some(1.0)),
            Function::HardSigmoid => Some(Some(0.2)),
            Function::LeakyRelu => Some(Some(0.01)),
            _ => None,
        }
    }

    /// As [`Function::alpha`], of `beta`.
    pub(super) fn beta(self) -> Option<Option<f32>> {
        match self {
            Function::Affine => Some(Some(0.0)),
            Function::HardSigmoid => Some(Some(0.5)),
            Function::ScaledTanh => Some(None),
            _ => None,
        }
    }
}

impl Activation {
    /// Puts the function of each element in its place, once it is clipped to a magnitude. NaN stays.
    pub(super) fn apply<T: Real>(&self, level: Level, clip: Option<f32>, elements: &mut [T]) {
        if let Some(clip) = clip {
            let high: T = clip.into();
            let low = -high;
            map(level, elements, |x| if x < low { low } else { if x > high { high } else { x } });
        }
        let (zero, one) = (T::zero(), T::one());
        let (alpha, beta): (T, T) = (self.alpha.into(), self.beta.into());
        match self.function {
            Function::Affine => map(level, elements, |x| alpha * x + beta),
            Function::Elu => {
                map(level, elements, |x| if x < zero { alpha * x.exp_m1() } else { x })
            }
            Function::HardSigmoid => map(level, elements, |x| {
                let y = alpha * x + beta;
                let y = if y < zero { zero } else { y };
                if y > one { one } else { y }
            }),
            Function::LeakyRelu => map(level, elements, |x| if x < zero { alpha * x } else { x }),
            Function::Relu => map(level, elements, |x| if x < zero { zero } else { x }),
            Function::ScaledTanh => map(level, elements, |x| alpha * (beta * x).tangent()),
            Function::Sigmoid => map(level, elements, T::sigmoid),
            Function::Softplus => map(level, elements, T::softplus),
            Function::Softsign => map(level, elements, |x| x / (one + x.abs())),
            Function::Tanh => map(level, elements, T::tangent),
            Function::ThresholdedRelu => map(level, elements, |x| if x < alpha { zero } else { x }),
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
