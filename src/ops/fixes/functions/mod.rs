//! Functions of one number, right at both ends and for NaN.
//!
//! tract computes many of them as FLOAT formulas that overflow or cancel, or by kernels that are
//! right to some 1e-7 and end at some number (tract-hir, `ops/activations.rs`; tract-onnx,
//! `ops/nn`; tract-linalg, `generic/sigmoid.rs` and `tanh.rs`), takes NaN for a number in maxima
//! and minima, and has few of them in DOUBLE. Here FLOAT and FLOAT16 are computed in FLOATs of
//! which two are one number where that takes it, and DOUBLE by the functions of the standard
//! library and of `libm`.
//!
//! - `floats`: the kernels; `pairs`: what they are made of
//! - `wire`: where they take tract's place; `join`: several operators that are one

mod floats;
mod join;
mod pairs;
mod wire;

#[cfg(test)]
mod tests;

use half::slice::HalfFloatSliceExt;
use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_core::ops::binary::TypedBinOp;
use tract_onnx::tract_core::ops::math::{Max, Min};
use tract_onnx::tract_core::ops::matmul::optimized::OptMatMul;
use tract_onnx::tract_core::tract_linalg::multithread::par_chunks_mut;

use crate::cast::kernel::level::Level;
use crate::ops::host::element_wise::{element_wise, same_facts, typed_op};
use crate::ops::host::hook::Patch;
use crate::ops::host::saved::{members, save};
pub(crate) use floats::exp_of_difference;
pub(crate) use wire::{extreme, function};

members! {
    /// A function of ONNX, of which `alpha` and `beta` are the attributes where it has some.
    pub(crate) enum Kind {
        Acosh,
        Asinh,
        /// At least `alpha` and at most `beta`: `Relu` and `Clip`.
        Bound,
        Celu,
        /// As tract's, which waits for each element behind a product of its kernels
        /// ([`Level::clear_upper_halves`]).
        Cos,
        Elu,
        Erf,
        Gelu,
        HardSigmoid,
        HardSwish,
        /// The power by 0.5, a square root but for −∞ and −0.
        HalfPower,
        LeakyRelu,
        Mish,
        /// By `alpha`.
        Power,
        Round,
        /// `alpha` and `gamma`, which is `beta` here.
        Selu,
        Sigmoid,
        /// As `Cos`.
        Sin,
        Sinh,
        Softplus,
        /// What tract takes for a number where it is squared.
        Sqrt,
        Swish,
        Tanh,
        /// `Gelu` by a hyperbolic tangent.
        TanhGelu,
    }
}

/// A function of each element.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ElementFunction {
    pub(crate) kind: Kind,
    pub(crate) alpha: f64,
    pub(crate) beta: f64,
}

impl PartialEq for ElementFunction {
    fn eq(&self, other: &ElementFunction) -> bool {
        let bits = |function: &ElementFunction| [function.alpha.to_bits(), function.beta.to_bits()];
        self.kind == other.kind && bits(self) == bits(other)
    }
}

impl Eq for ElementFunction {}

/// √(2/π), and what the cube has in `Gelu`'s approximation.
const TANH_GELU: (f64, f64) = (0.797_884_560_802_865_4, 0.044_715);

impl ElementFunction {
    /// The value at a place, of a kind that the compiler may know.
    #[inline(always)]
    fn value(&self, kind: Kind, x: f64) -> f64 {
        let (alpha, beta) = (self.alpha, self.beta);
        let bound = |x: f64, low: f64, high: f64| {
            let x = if x < low { low } else { x };
            if x > high { high } else { x }
        };
        let elu = |x: f64| if x > 0.0 { x } else { alpha * x.exp_m1() };
        match kind {
            // The standard library's loses digits near 1, this one has a number below -1.
            Kind::Acosh if x < 1.0 => f64::NAN,
            Kind::Acosh => libm::acosh(x),
            Kind::Asinh => x.asinh(),
            Kind::Bound => bound(x, alpha, beta),
            Kind::Celu => {
                let below = alpha * (x / alpha).exp_m1();
                (if x < 0.0 { 0.0 } else { x }) + (if below > 0.0 { 0.0 } else { below })
            }
            Kind::Cos => x.cos(),
            Kind::Elu => elu(x),
            Kind::Erf => libm::erf(x),
            Kind::Gelu => {
                let tail = libm::erfc((x * std::f64::consts::FRAC_1_SQRT_2).abs());
                0.5 * x * if x < 0.0 { tail } else { 2.0 - tail }
            }
            Kind::HardSigmoid => bound(alpha * x + beta, 0.0, 1.0),
            Kind::HardSwish => x * bound(x / 6.0 + 0.5, 0.0, 1.0),
            Kind::HalfPower if x == f64::NEG_INFINITY => f64::INFINITY,
            Kind::HalfPower => (x + 0.0).sqrt(),
            Kind::LeakyRelu => {
                if x < 0.0 {
                    alpha * x
                } else {
                    x
                }
            }
            Kind::Mish => {
                // tanh(ln(1 + e)) of e = e^x, which is 1 to more than a DOUBLE's precision from 40
                // on.
                let power = if x > 40.0 { 40.0 } else { x }.exp();
                let ratio = power * (power + 2.0);
                x * (ratio / (ratio + 2.0))
            }
            Kind::Round => x.round_ties_even(),
            Kind::Selu => beta * elu(x),
            Kind::Sigmoid => sigmoid(x),
            Kind::Power => x.powf(alpha),
            Kind::Sin => x.sin(),
            Kind::Sinh => x.sinh(),
            Kind::Softplus => (if x < 0.0 { 0.0 } else { x }) + (-x.abs()).exp().ln_1p(),
            Kind::Sqrt => x.sqrt(),
            Kind::Swish => x * sigmoid(alpha * x),
            Kind::Tanh => x.tanh(),
            Kind::TanhGelu => {
                let (root, cube) = TANH_GELU;
                x * sigmoid(2.0 * root * (x + cube * x * x * x))
            }
        }
    }
}

fn sigmoid(x: f64) -> f64 {
    if x < 0.0 { x.exp() / (1.0 + x.exp()) } else { 1.0 / (1.0 + (-x).exp()) }
}

/// A kernel of `floats` in a loop of its own, at a level of the CPU.
macro_rules! map {
    ($level:expr, $elements:expr, $function:ident($($argument:expr),*)) => {
        if $level.fuses() {
            $level.run(
                #[inline(always)]
                || {
                    for x in $elements.iter_mut() {
                        *x = floats::$function::<true>(*x $(, $argument)*);
                    }
                },
            )
        } else {
            for x in $elements.iter_mut() {
                *x = floats::$function::<false>(*x $(, $argument)*);
            }
        }
    };
}

/// A number as a sum of two FLOATs.
#[allow(clippy::cast_possible_truncation, reason = "it is rounded to FLOAT")]
fn pair(x: f64) -> (f32, f32) {
    let high = x as f32;
    (high, (x - f64::from(high)) as f32)
}

impl ElementFunction {
    fn of_floats(&self, level: Level, elements: &mut [f32]) {
        Level::clear_upper_halves();
        if !self.by_kernel(level, elements) {
            level.run(
                #[inline(always)]
                || match self.kind {
                    // Each in a loop in which the compiler knows which it is.
                    Kind::HardSigmoid => self.by_doubles(Kind::HardSigmoid, elements),
                    Kind::HardSwish => self.by_doubles(Kind::HardSwish, elements),
                    kind => self.by_doubles(kind, elements),
                },
            );
        }
    }

    #[inline(always)]
    #[allow(clippy::cast_possible_truncation, reason = "it is rounded to FLOAT")]
    fn by_doubles(&self, kind: Kind, elements: &mut [f32]) {
        for element in elements {
            *element = self.value(kind, f64::from(*element)) as f32;
        }
    }

    /// In FLOAT arithmetic, where there is a kernel for the function and its attributes; whether
    /// there is.
    #[allow(clippy::cast_possible_truncation, reason = "attributes are FLOATs")]
    fn by_kernel(&self, level: Level, elements: &mut [f32]) -> bool {
        let (alpha, beta) = (self.alpha as f32, self.beta as f32);
        // What is beyond these would overflow, or vanish, on the way.
        let usual = |x: f64| (2f64.powi(-20)..2f64.powi(20)).contains(&x.abs());
        let (one, scale) = (pair(1.0), pair(self.alpha));
        match self.kind {
            Kind::Cos => elements.iter_mut().for_each(|x| *x = x.cos()),
            Kind::Sin => elements.iter_mut().for_each(|x| *x = x.sin()),
            Kind::Power => elements.iter_mut().for_each(|x| *x = x.powf(alpha)),
            Kind::Bound => level.run(
                #[inline(always)]
                || {
                    for element in elements.iter_mut() {
                        let bound = if *element < alpha { alpha } else { *element };
                        *element = if bound > beta { beta } else { bound };
                    }
                },
            ),
            Kind::Celu if usual(self.alpha) && alpha > 0.0 => {
                let inverse = pair(1.0 / self.alpha);
                map!(level, elements, elu(scale, inverse, alpha, 1.0));
            }
            Kind::Elu if usual(self.alpha) => map!(level, elements, elu(scale, one, 1.0, 1.0)),
            Kind::Erf => map!(level, elements, erf()),
            Kind::Gelu => map!(level, elements, gelu()),
            Kind::Mish => map!(level, elements, mish()),
            Kind::Selu if usual(self.alpha * self.beta) => {
                let scale = pair(self.alpha * self.beta);
                map!(level, elements, elu(scale, one, 1.0, beta));
            }
            Kind::Sigmoid => map!(level, elements, sigmoid()),
            Kind::Softplus => map!(level, elements, softplus()),
            Kind::Sqrt => level.run(
                #[inline(always)]
                || elements.iter_mut().for_each(|element| *element = element.sqrt()),
            ),
            Kind::Swish if usual(self.alpha) => map!(level, elements, swish(alpha)),
            Kind::Tanh => map!(level, elements, tanh()),
            Kind::TanhGelu => map!(level, elements, tanh_gelu()),
            _ => return false,
        }
        true
    }

    fn of_halves(&self, elements: &mut [f16]) {
        let mut floats = [0.0; 256];
        for part in elements.chunks_mut(floats.len()) {
            let (floats, _) = floats.split_at_mut(part.len());
            part.convert_to_f32_slice(floats);
            self.of_floats(Level::best(), floats);
            part.convert_from_f32_slice(floats);
        }
    }

    fn of_doubles(&self, elements: &mut [f64]) {
        Level::clear_upper_halves();
        for element in elements {
            *element = self.value(self.kind, *element);
        }
    }

    /// The operators of tract's that make the same of anything but NaN, where a product takes them
    /// into it: its kernels keep NaN on CPUs of which that is known.
    fn fused(&self, model: &TypedModel, node: &TypedNode) -> Patch {
        let [input] = &*node.inputs else { return Ok(None) };
        let fact = model.outlet_fact(*input)?;
        if self.kind != Kind::Bound
            || fact.datum_type != DatumType::F32
            || !KEEPS_NAN
            || !follows_product(model, *input)
        {
            return Ok(None);
        }
        let mut patch = TypedModelPatch::default();
        let mut wire = patch.tap_model(model, *input)?;
        let bounds: [(f64, Box<dyn tract_onnx::tract_core::ops::binary::BinMiniOp>); 2] =
            [(self.alpha, Box::new(Max)), (self.beta, Box::new(Min))];
        for (bound, op) in bounds.into_iter().filter(|(bound, _)| bound.is_finite()) {
            let name = format!("{}.{}", node.name, op.name());
            #[allow(clippy::cast_possible_truncation, reason = "it is a FLOAT")]
            let bound = tensor0(bound as f32).broadcast_into_rank(fact.rank())?;
            let bound = patch.add_const(format!("{name}.bound"), bound)?;
            let outlets = patch.wire_node(name, TypedBinOp(op, None), &[wire, bound])?;
            wire = *outlets.first().context("an output")?;
        }
        patch.shunt_outside(model, node.id.into(), wire)?;
        Ok(Some(patch))
    }
}

/// Whether the kernels of products keep NaN in a maximum with a scalar: `vmaxps` has its second
/// operand there, and `fmax` NaN.
const KEEPS_NAN: bool = cfg!(any(target_arch = "x86_64", target_arch = "aarch64"));

/// Whether a value is only used here, and made by a product, or by changes of its axes alone.
fn follows_product(model: &TypedModel, mut value: OutletId) -> bool {
    loop {
        let node = model.node(value.node);
        let is_used_once =
            model.outlet_successors(value).len() == 1 && !model.outputs.contains(&value);
        if !is_used_once {
            return false;
        }
        if node.op_is::<OptMatMul>() {
            return true;
        }
        match (&*node.inputs, node.op_is::<AxisOp>()) {
            ([input], true) => value = *input,
            _ => return false,
        }
    }
}

typed_op!(ElementFunction, |op| format!("{:?}", op.kind), |op| format!(
    "alpha: {}, beta: {}",
    op.alpha, op.beta
));

impl EvalOp for ElementFunction {
    op_out_of_plan!();

    fn eval(&self, _: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let mut tensor = args_1!(inputs).into_tensor();
        let (ty, len) = (tensor.datum_type(), tensor.len());
        let mut plain = tensor.try_as_plain_ram_mut()?;
        match ty {
            DatumType::F16 => par_chunks_mut(plain.as_slice_mut()?, 1, len, |_, part| {
                self.of_halves(part);
                Ok(())
            })?,
            DatumType::F32 => par_chunks_mut(plain.as_slice_mut()?, 1, len, |_, part| {
                self.of_floats(Level::best(), part);
                Ok(())
            })?,
            DatumType::F64 => par_chunks_mut(plain.as_slice_mut()?, 1, len, |_, part| {
                self.of_doubles(part);
                Ok(())
            })?,
            other => bail!("{:?} is a function of floats, not of {other:?}", self.kind),
        }
        Ok(tvec!(tensor.into_tvalue()))
    }
}

impl TypedOp for ElementFunction {
    same_facts!();

    fn declutter(&self, model: &TypedModel, node: &TypedNode) -> Patch {
        if let Some(patch) = join::join(self, model, node)? {
            return Ok(Some(patch));
        }
        match join::root(self, model, node)? {
            Some(patch) => Ok(Some(patch)),
            None => self.fused(model, node),
        }
    }

    fn cost(&self, inputs: &[&TypedFact]) -> TractResult<TVec<(Cost, TDim)>> {
        let [input] = inputs else { return Ok(tvec!()) };
        Ok(tvec!((Cost::FMA(input.datum_type), input.shape.iter().product())))
    }

    element_wise!();

    as_op!();
}

save!(ElementFunction, "tract_onnx_cast_function", { kind, alpha, beta });
