//! Functions of one number, right at both ends and for NaN.
//!
//! tract computes many of them as FLOAT formulas that overflow or cancel, or by kernels that are right to some 1e-7 and end at
//! some number (tract-hir, `ops/activations.rs`; tract-onnx, `ops/nn`; tract-linalg, `generic/sigmoid.rs` and `tanh.rs`), takes
//! NaN for a number in maxima and minima, and has few of them in DOUBLE. Here FLOAT and FLOAT16 are computed in DOUBLE and
//! rounded once, and DOUBLE by the functions of the standard library and of `libm`.
//!
//! - `arithmetic`: what they are made of; `wire`: where they take tract's place; `join`: several operators that are one

mod arithmetic;
mod join;
mod wire;

use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_core::ops::binary::TypedBinOp;
use tract_onnx::tract_core::ops::math::{Max, Min};
use tract_onnx::tract_core::ops::matmul::optimized::OptMatMul;
use tract_onnx::tract_core::tract_linalg::multithread::par_chunks_mut;

use crate::cast::kernel::level::Level;
use crate::ops::host::element_wise::element_wise;
use crate::ops::host::label::Label;
use crate::ops::host::saved::{Save, Saved};
pub(crate) use arithmetic::exp;
pub(crate) use wire::{extreme, function};

/// A function of ONNX, of which `alpha` and `beta` are the attributes where it has some.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Acosh,
    Asinh,
    /// At least `alpha` and at most `beta`: `Relu` and `Clip`.
    Bound,
    Celu,
    Elu,
    Erf,
    Gelu,
    HardSigmoid,
    HardSwish,
    LeakyRelu,
    Mish,
    Round,
    /// `alpha` and `gamma`, which is `beta` here.
    Selu,
    Sigmoid,
    Softplus,
    Swish,
    Tanh,
    /// `Gelu` by a hyperbolic tangent.
    TanhGelu,
}

impl Kind {
    const ALL: [Kind; 18] = [
        Kind::Acosh,
        Kind::Asinh,
        Kind::Bound,
        Kind::Celu,
        Kind::Elu,
        Kind::Erf,
        Kind::Gelu,
        Kind::HardSigmoid,
        Kind::HardSwish,
        Kind::LeakyRelu,
        Kind::Mish,
        Kind::Round,
        Kind::Selu,
        Kind::Sigmoid,
        Kind::Softplus,
        Kind::Swish,
        Kind::Tanh,
        Kind::TanhGelu,
    ];
}

/// A function of each element.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Function {
    pub(crate) kind: Kind,
    pub(crate) alpha: f64,
    pub(crate) beta: f64,
}

impl PartialEq for Function {
    fn eq(&self, other: &Function) -> bool {
        let bits = |function: &Function| [function.alpha.to_bits(), function.beta.to_bits()];
        self.kind == other.kind && bits(self) == bits(other)
    }
}

impl Eq for Function {}

/// √(2/π), and what the cube has in `Gelu`'s approximation.
const TANH_GELU: (f64, f64) = (0.797_884_560_802_865_4, 0.044_715);

/// The value at a place, given the functions that those are made of.
macro_rules! value {
    ($function:expr, $x:expr, $of:path) => {{
        use $of as of;
        let (x, alpha, beta): (f64, f64, f64) = ($x, $function.alpha, $function.beta);
        let bound = |x: f64, low: f64, high: f64| {
            let x = if x < low { low } else { x };
            if x > high { high } else { x }
        };
        move |kind: Kind| match kind {
            Kind::Acosh => x.acosh(),
            Kind::Asinh => x.asinh(),
            Kind::Bound => bound(x, alpha, beta),
            Kind::Celu => {
                let below = alpha * of::exp_m1(x / alpha);
                (if x < 0.0 { 0.0 } else { x }) + (if below > 0.0 { 0.0 } else { below })
            }
            Kind::Elu => if x > 0.0 { x } else { alpha * of::exp_m1(x) },
            Kind::Erf => of::erf(x),
            Kind::Gelu => {
                let tail = of::erfc((x * std::f64::consts::FRAC_1_SQRT_2).abs());
                0.5 * x * if x < 0.0 { tail } else { 2.0 - tail }
            }
            Kind::HardSigmoid => bound(alpha * x + beta, 0.0, 1.0),
            Kind::HardSwish => x * bound(x / 6.0 + 0.5, 0.0, 1.0),
            Kind::LeakyRelu => if x < 0.0 { alpha * x } else { x },
            Kind::Mish => {
                // tanh(ln(1 + e)) of e = e^x, which is 1 to far more than a FLOAT's precision from 40 on.
                let power = of::exp(if x > 40.0 { 40.0 } else { x });
                let ratio = power * (power + 2.0);
                x * (ratio / (ratio + 2.0))
            }
            Kind::Round => x.round_ties_even(),
            Kind::Selu => beta * if x > 0.0 { x } else { alpha * of::exp_m1(x) },
            Kind::Sigmoid => of::sigmoid(x),
            Kind::Softplus => of::softplus(x),
            Kind::Swish => x * of::sigmoid(alpha * x),
            Kind::Tanh => of::tanh(x),
            Kind::TanhGelu => {
                let (root, cube) = TANH_GELU;
                x * of::sigmoid(2.0 * root * (x + cube * x * x * x))
            }
        }
    }};
}

/// Each function in a loop of its own, in which the compiler knows which it is.
macro_rules! loops {
    ($function:expr, $elements:expr, $read:expr, $write:expr, [$($kind:ident),*]) => {
        match $function.kind {
            $(Kind::$kind => {
                for element in $elements.iter_mut() {
                    let x: f64 = $read(*element);
                    *element = $write(value!($function, x, arithmetic)(Kind::$kind));
                }
            })*
        }
    };
}

impl Function {
    #[allow(clippy::cast_possible_truncation, reason = "it is rounded to FLOAT")]
    fn of_floats(&self, elements: &mut [f32]) {
        Level::best().run(
            #[inline(always)]
            || {
                if self.kind == Kind::Bound {
                    // FLOATs are compared as they are.
                    let (low, high) = (self.alpha as f32, self.beta as f32);
                    for element in elements.iter_mut() {
                        let bound = if *element < low { low } else { *element };
                        *element = if bound > high { high } else { bound };
                    }
                    return;
                }
                loops!(
                    self,
                    elements,
                    f64::from,
                    |y: f64| y as f32,
                    [
                        Acosh,
                        Asinh,
                        Bound,
                        Celu,
                        Elu,
                        Erf,
                        Gelu,
                        HardSigmoid,
                        HardSwish,
                        LeakyRelu,
                        Mish,
                        Round,
                        Selu,
                        Sigmoid,
                        Softplus,
                        Swish,
                        Tanh,
                        TanhGelu
                    ]
                );
            },
        );
    }

    fn of_halves(&self, elements: &mut [f16]) {
        for part in elements.chunks_mut(256) {
            let mut floats: Vec<f32> = part.iter().map(|half| half.to_f32()).collect();
            self.of_floats(&mut floats);
            for (half, float) in part.iter_mut().zip(floats) {
                *half = f16::from_f32(float);
            }
        }
    }

    fn of_doubles(&self, elements: &mut [f64]) {
        for element in elements {
            *element = value!(self, *element, double)(self.kind);
        }
    }

    /// The operators of tract's that make the same of anything but NaN, where a product takes them into it: its kernels keep
    /// NaN on CPUs of which that is known.
    fn fused(&self, model: &TypedModel, node: &TypedNode) -> TractResult<Option<TypedModelPatch>> {
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

/// Whether the kernels of products keep NaN in a maximum with a scalar: `vmaxps` has its second operand there, and `fmax` NaN.
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

/// The same in DOUBLE, to its precision.
mod double {
    pub(super) fn exp(x: f64) -> f64 {
        x.exp()
    }

    pub(super) fn exp_m1(x: f64) -> f64 {
        x.exp_m1()
    }

    pub(super) fn sigmoid(x: f64) -> f64 {
        if x < 0.0 { x.exp() / (1.0 + x.exp()) } else { 1.0 / (1.0 + (-x).exp()) }
    }

    pub(super) fn tanh(x: f64) -> f64 {
        x.tanh()
    }

    pub(super) fn softplus(x: f64) -> f64 {
        (if x < 0.0 { 0.0 } else { x }) + (-x.abs()).exp().ln_1p()
    }

    pub(super) fn erf(x: f64) -> f64 {
        libm::erf(x)
    }

    pub(super) fn erfc(x: f64) -> f64 {
        libm::erfc(x)
    }
}

impl Op for Function {
    fn name(&self) -> StaticName {
        format!("{:?}", self.kind).into()
    }

    fn info(&self) -> TractResult<Vec<String>> {
        Ok(vec![format!("alpha: {}, beta: {}", self.alpha, self.beta)])
    }

    op_as_typed_op!();
}

impl EvalOp for Function {
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
                self.of_floats(part);
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

impl TypedOp for Function {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        Ok(inputs.iter().map(|fact| fact.without_value()).collect())
    }

    fn declutter(
        &self,
        model: &TypedModel,
        node: &TypedNode,
    ) -> TractResult<Option<TypedModelPatch>> {
        match join::join(self, model, node)? {
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

impl Save for Function {
    const NAME: &'static str = "tract_onnx_cast_function";

    fn save(&self) -> Saved {
        let saved = Saved::default().text(format!("{:?}", self.kind));
        saved.text(self.alpha.to_string()).text(self.beta.to_string())
    }

    fn restore(_: Label, saved: &Saved) -> TractResult<Function> {
        let name = saved.text_at(0)?;
        let kind = Kind::ALL.into_iter().find(|kind| format!("{kind:?}") == name);
        let kind = kind.with_context(|| format!("{name:?} is no function"))?;
        let (alpha, beta) = (saved.text_at(1)?.parse()?, saved.text_at(2)?.parse()?);
        Ok(Function { kind, alpha, beta })
    }
}
