//! Arithmetic of two operands, where tract's is another.
//!
//! - `Mul` of an integer by itself: tract's `Square` computes in FLOAT, or has no such type
//!   (tract-core, `ops/math/mod.rs`).
//! - `Div` of an integer by 0, where tract panics.
//! - `Mod`: tract takes it for commutative, and so for the remainder of the other division where
//!   the left operand is the one that is broadcast; of dimensions it is the remainder of
//!   truncation, and the divisor one of 32 bits.
//! - `Pow` of integers: tract cuts the exponent to 32 bits, takes a negative one for a large one,
//!   and types the result by both operands. Of an integer by a float it cuts off what the integer's
//!   type does not hold, where a Cast does not.
//! - `Mul`, `Add`, `Sub` and `Pow` with a constant: tract removes what changes nothing, and looks
//!   for it in FLOAT. A DOUBLE of 1e-60 is a zero there, and 1 + 1e-10 a one; −0 + 0 is −0. Of
//!   other factors it makes others too (`factors`).
//! - `And`, `Or`, `Xor`, `BitwiseAnd`, `Mul`, `Add` and `Sub` with one value throughout, where
//!   sizes are open: tract forgets them. `And`, `Or` and `Xor` of a result beyond the limits as
//!   well, which tract makes while it loads.
//! - `PRelu` by a constant, as `Mul`.
//! - `Equal` of BOOL, which tract does not have.

use tract_onnx::tract_core::broadcast::multi_broadcast;
use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_core::ops::binary::{BinMiniOp, TypedBinOp};
use tract_onnx::tract_core::ops::cast::{cast, wire_cast};
use tract_onnx::tract_core::ops::change_axes::wire_rank_broadcast;
use tract_onnx::tract_core::ops::logic::{And, BitAnd, IfThenElse, Iff, Or, Xor, comp_gt, not};
use tract_onnx::tract_core::ops::math::{Add, Div, Mul, Pow, Sub};
use tract_onnx::tract_core::ops::scan::Scan;
use tract_onnx::tract_core::tract_linalg::BinOp;

use crate::cast::element_type::ElementType;
use crate::cast::rules::Rules;
use crate::onnx::lowered::divides_exactly;
use crate::ops::cast::op::OnnxCast;
use crate::ops::fixes::arithmetic::factors;
use crate::ops::fixes::arithmetic::power::Power;
use crate::ops::fixes::arithmetic::quotient::Quotient;
use crate::ops::fixes::arithmetic::reciprocal;
use crate::ops::fixes::arithmetic::remainder::{Remainder, RemainderOfDims};
use crate::ops::fixes::functions::{ElementFunction, Kind};
use crate::ops::host::checked::allowance::is_kept;
use crate::ops::host::element_wise::{binary_by, binary_like};
use crate::ops::host::hook::{HookSite, Instead, Patch, refused};
use crate::ops::host::integers::is_integer;
use crate::ops::host::label::Label;

/// The types of a node's two operands.
fn types(model: &TypedModel, inputs: &[OutletId]) -> TractResult<Option<[DatumType; 2]>> {
    let [a, b] = inputs else { return Ok(None) };
    Ok(Some([model.outlet_fact(*a)?.datum_type, model.outlet_fact(*b)?.datum_type]))
}

/// Wires an operator between operands that have been given one rank and one type.
pub(crate) fn wire(
    site: &HookSite,
    model: &mut TypedModel,
    inputs: &[OutletId],
    operator: Box<dyn BinMiniOp>,
    ty: DatumType,
) -> Instead {
    let inputs = wire_rank_broadcast(&site.name, model, inputs)?;
    let inputs = wire_cast(&site.name, model, &inputs, ty)?;
    model.wire_node(&site.name, TypedBinOp(operator, None), &inputs).map(Some)
}

/// The values of the operands that are constants of one value, as DOUBLE.
fn uniform(model: &TypedModel, inputs: &[OutletId]) -> TractResult<TVec<Option<f64>>> {
    let value = |input: &OutletId| {
        let uniform = &model.outlet_fact(*input)?.uniform;
        Ok(uniform.as_ref().and_then(|value| value.cast_to_scalar::<f64>().ok()))
    };
    inputs.iter().map(value).collect()
}

/// Wires the operator with nothing removed, if both operands are floats and one is a constant of
/// which `is_misread` says that tract takes it for another.
fn unsimplified<T: BinMiniOp + Clone + PartialEq + Eq>(
    site: &HookSite,
    model: &mut TypedModel,
    inputs: &[OutletId],
    operator: T,
    is_misread: fn(f64) -> bool,
) -> Instead {
    let Some([a, b]) = types(model, inputs)? else { return Ok(None) };
    if !a.is_float() || a != b || !uniform(model, inputs)?.into_iter().flatten().any(is_misread) {
        return Ok(None);
    }
    wire(site, model, inputs, Box::new(Unsimplified(operator)), a)
}

/// Whether a number is another one but rounds to it as a FLOAT.
#[allow(clippy::cast_possible_truncation, reason = "that is how tract compares")]
fn rounds_to(x: f64, other: f32) -> bool {
    x as f32 == other && x != f64::from(other)
}

/// Whether an operand has one value throughout, and one of open sizes is among them: tract forgets
/// the sizes where the value is neutral, or the result is it (tract-core, `optim/uniform_mask.rs`).
fn is_open_uniform(model: &TypedModel, inputs: &[OutletId]) -> TractResult<bool> {
    let mut is_uniform = false;
    for input in inputs {
        is_uniform |= model.outlet_fact(*input)?.uniform.is_some();
    }
    Ok(is_uniform && is_open(model, inputs)?)
}

fn is_open(model: &TypedModel, inputs: &[OutletId]) -> TractResult<bool> {
    let mut any = false;
    for input in inputs {
        any |= model.outlet_fact(*input)?.shape.iter().any(|dim| dim.as_i64().is_none());
    }
    Ok(any)
}

/// The shape that operands of one rank or several are broadcast to, where it is known.
fn made(model: &TypedModel, inputs: &[OutletId]) -> TractResult<Option<TVec<usize>>> {
    let shapes = inputs.iter().map(|input| Ok(&*model.outlet_fact(*input)?.shape));
    let made = multi_broadcast(&shapes.collect::<TractResult<TVec<&[TDim]>>>()?)?;
    Ok(made.iter().map(|size| size.to_usize().ok()).collect())
}

/// Wires `And`, `Or`, `Xor` and `BitwiseAnd` of open sizes: an operand may turn out to be a
/// constant when the model is simplified, and tract then makes a constant of the result, however
/// large.
pub(crate) fn logic(site: &HookSite, model: &mut TypedModel, inputs: &[OutletId]) -> Instead {
    let Some([ty, other]) = types(model, inputs)? else { return Ok(None) };
    if ty != other || ty != DatumType::Bool && !is_integer(ty) {
        return Ok(None);
    }
    if made(model, inputs)?.is_some_and(|made| is_kept(&made, ty)) {
        return Ok(None);
    }
    let op: Box<dyn BinMiniOp> = match site.proto.op_type.as_str() {
        "And" => Box::new(Unsimplified(And)),
        "Or" => Box::new(Unsimplified(Or)),
        "Xor" => Box::new(Unsimplified(Xor)),
        _ => Box::new(Unsimplified(BitAnd)),
    };
    wire(site, model, inputs, op, ty)
}

pub(crate) fn mul(site: &HookSite, model: &mut TypedModel, inputs: &[OutletId]) -> Instead {
    let Some([a, b]) = types(model, inputs)? else { return Ok(None) };
    if a == b && is_integer(a) {
        return wire(site, model, inputs, Box::new(IntegerMul), a);
    }
    if a == b && a.is_float() && factors::are_misread(model, inputs)? {
        return wire(site, model, inputs, Box::new(Unsimplified(Mul)), a);
    }
    let is_misread: fn(f64) -> bool = if is_open_uniform(model, inputs)? {
        |x| rounds_to(x, 0.) || rounds_to(x, 1.) || x == 1.
    } else {
        |x| rounds_to(x, 0.) || rounds_to(x, 1.)
    };
    unsimplified(site, model, inputs, Mul, is_misread)
}

/// Has a product of floats that is part of an operator computed with NaN, also where a factor is 0:
/// a scale, or `alpha`.
pub(crate) fn keep_product(model: &mut TypedModel, id: usize) -> TractResult<()> {
    let node = model.node(id);
    if is_float_product(node) && factors::have_zero(model, &node.inputs)? {
        leave_product(model.node_mut(id));
    }
    Ok(())
}

/// The same of all products in the bodies of a node, if it takes what may become 0: tract puts a
/// body into the model around it, where that is known.
pub(crate) fn keep_products_inside(model: &mut TypedModel, id: usize) -> TractResult<()> {
    for input in &model.node(id).inputs {
        let is_float = model.outlet_fact(*input)?.datum_type.is_float();
        if is_float && factors::are_misread(model, &[*input])? {
            bodies(model.node_mut(id)).into_iter().for_each(keep_products);
            break;
        }
    }
    Ok(())
}

fn keep_products(body: &mut TypedModel) {
    for node in &mut body.nodes {
        leave_product(node);
        bodies(node).into_iter().for_each(keep_products);
    }
}

fn bodies(node: &mut TypedNode) -> Vec<&mut TypedModel> {
    if node.op_is::<Scan>() {
        return node.op_as_mut::<Scan>().map(|scan| vec![&mut scan.body]).unwrap_or_default();
    }
    let branches = node.op_as_mut::<IfThenElse>();
    branches.map(|op| vec![&mut op.then_body, &mut op.else_body]).unwrap_or_default()
}

fn is_float_product(node: &TypedNode) -> bool {
    let is_float = |output: &Outlet<TypedFact>| output.fact.datum_type.is_float();
    node.op_as::<TypedBinOp>().is_some_and(|op| op.0.is::<Mul>())
        && node.outputs.iter().all(is_float)
}

fn leave_product(node: &mut TypedNode) {
    if is_float_product(node) {
        node.op = Box::new(TypedBinOp(Box::new(Unsimplified(Mul)), None));
    }
}

/// Wires `PRelu` by a constant that a product would misread.
pub(crate) fn prelu(site: &HookSite, model: &mut TypedModel, inputs: &[OutletId]) -> Instead {
    let [x, _] = *inputs else { return Ok(None) };
    let mut product = site.clone();
    product.name = site.part("product");
    let Some(product) = mul(&product, model, inputs)? else { return Ok(None) };
    let fact = model.outlet_fact(x)?;
    let zero = tensor0(0f32).cast_to_dt(fact.datum_type)?.into_owned();
    let zero = zero.broadcast_into_rank(fact.rank())?;
    let zero = model.add_const(site.part("zero"), zero)?;
    let is_below = TypedBinOp(comp_gt(), None);
    let is_below = model.wire_node(site.part("is-below"), is_below, &[zero, x])?;
    model.wire_node(&site.name, Iff, &[&*is_below, &*product, &[x]].concat()).map(Some)
}

pub(crate) fn add(site: &HookSite, model: &mut TypedModel, inputs: &[OutletId]) -> Instead {
    // −0 becomes 0, where it may be.
    let has_no_negative =
        inputs.iter().any(|input| reciprocal::is_never_negative_zero(model, *input));
    let is_misread: fn(f64) -> bool = if has_no_negative && !is_open_uniform(model, inputs)? {
        |x| rounds_to(x, 0.)
    } else {
        |x| rounds_to(x, 0.) || x == 0. && x.is_sign_positive()
    };
    unsimplified(site, model, inputs, Add, is_misread)
}

pub(crate) fn sub(site: &HookSite, model: &mut TypedModel, inputs: &[OutletId]) -> Instead {
    let is_misread: fn(f64) -> bool = if is_open_uniform(model, inputs)? {
        |x| rounds_to(x, 0.) || x == 0.
    } else {
        |x| rounds_to(x, 0.) || x == 0. && x.is_sign_negative()
    };
    unsimplified(site, model, inputs, Sub, is_misread)
}

/// Of floats, tract multiplies by the divisor's reciprocal, which is left to it where that is as
/// good; where the quotient is rounded to half precision, it is a division.
pub(crate) fn div(site: &HookSite, model: &mut TypedModel, inputs: &[OutletId]) -> Instead {
    let Some([a, b]) = types(model, inputs)? else { return Ok(None) };
    if a == b && is_integer(a) {
        return wire(site, model, inputs, Box::new(IntegerDiv { node: site.node() }), a);
    }
    let [dividend, divisor] = inputs else { return Ok(None) };
    if a != b || !a.is_float() {
        return Ok(None);
    }
    if !divides_exactly(&site.proto)
        && reciprocal::is_as_good_a_product(model, *dividend, *divisor)?
    {
        return Ok(None);
    }
    wire(site, model, inputs, Box::new(Quotient), a)
}

pub(crate) fn pow(site: &HookSite, model: &mut TypedModel, inputs: &[OutletId]) -> Instead {
    let Some([a, b]) = types(model, inputs)? else { return Ok(None) };
    if is_integer(a) && is_integer(b) {
        let inputs = wire_rank_broadcast(&site.name, model, inputs)?;
        let power = TypedBinOp(Box::new(Power { node: site.node() }), None);
        return model.wire_node(&site.name, power, &inputs).map(Some);
    }
    if is_integer(a) && b.is_float() {
        // tract cuts a result that the base's type does not hold off where a Cast does not.
        let both = wire_rank_broadcast(&site.name, model, inputs)?;
        let both = wire_cast(&site.name, model, &both, DatumType::F64)?;
        let power = TypedBinOp(Box::new(Unsimplified(Pow)), None);
        let power = model.wire_node(site.part("power"), power, &both)?;
        let to = ElementType::native(a).context("an integer")?;
        let cut = OnnxCast::new(&site.name, ElementType::Double, to, Rules::default());
        let cut = cut.beside_casts_of(model);
        return model.wire_node(&site.name, cut, &power).map(Some);
    }
    if a.is_float() && a != b && b == DatumType::F64 {
        // tract gives the result the type of both.
        let both = wire_rank_broadcast(&site.name, model, inputs)?;
        let both = wire_cast(&site.name, model, &both, b)?;
        let power = TypedBinOp(Box::new(Unsimplified(Pow)), None);
        let power = model.wire_node(site.part("power"), power, &both)?;
        return model.wire_node(&site.name, cast(a), &power).map(Some);
    }
    if let Some(power) = by_a_number(site, model, inputs)? {
        return Ok(Some(power));
    }
    let is_misread = |x| x == 0.5 || [0.5, 1., 2.].iter().any(|other| rounds_to(x, *other));
    unsimplified(site, model, inputs, Pow, is_misread)
}

/// Wires the power by a number. By 0.5 it is a square root but for −∞ and −0. Powers by 1 and 2
/// stay tract's, which multiplies; by any other number tract's own waits for each element behind a
/// product of its kernels ([`Level::clear_upper_halves`]).
fn by_a_number(site: &HookSite, model: &mut TypedModel, inputs: &[OutletId]) -> Instead {
    let (Some([a, b]), [base, exponent]) = (types(model, inputs)?, inputs) else { return Ok(None) };
    let Some(&Some(number)) = uniform(model, &[*exponent])?.first() else { return Ok(None) };
    let (shape, other) = (&model.outlet_fact(*base)?.shape, &model.outlet_fact(*exponent)?.shape);
    let is_one = other.rank() <= shape.rank() && other.volume() == 1.to_dim();
    if !a.is_float() || !b.is_float() || !is_one {
        return Ok(None);
    }
    let (kind, alpha) = match number {
        0.5 => (Kind::HalfPower, 1.0),
        1.0 | 2.0 => return Ok(None),
        _ => (Kind::Power, number),
    };
    let function = ElementFunction { kind, alpha, beta: 1.0 };
    model.wire_node(&site.name, function, &[*base]).map(Some)
}

pub(crate) fn modulo(site: &HookSite, model: &mut TypedModel, inputs: &[OutletId]) -> Instead {
    let Some([a, b]) = types(model, inputs)? else { return Ok(None) };
    let floor = site.int("fmod", 0)? == 0;
    let is_dim = |ty: DatumType| ty.is_tdim() || is_integer(ty);
    if a == b && (is_integer(a) || a.is_float()) {
        let node = site.node();
        let operator: Box<dyn BinMiniOp> = if floor {
            Box::new(Remainder::<true> { node })
        } else {
            Box::new(Remainder::<false> { node })
        };
        return wire(site, model, inputs, operator, a);
    }
    if (a.is_tdim() || b.is_tdim()) && is_dim(a) && is_dim(b) {
        return RemainderOfDims { node: site.node(), floor }.wire(site, model, inputs);
    }
    Ok(None)
}

pub(crate) fn equal(site: &HookSite, model: &mut TypedModel, inputs: &[OutletId]) -> Instead {
    if types(model, inputs)? != Some([DatumType::Bool; 2]) {
        return Ok(None);
    }
    let inputs = wire_rank_broadcast(&site.name, model, inputs)?;
    let differ = TypedBinOp(Box::new(Xor), None);
    let differ = model.wire_node(site.part("differ"), differ, &inputs)?;
    model.wire_node(&site.name, not(), &differ).map(Some)
}

/// Products of integers, of which tract squares none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct IntegerMul;

impl BinMiniOp for IntegerMul {
    binary_like!(self, Mul);
    binary_by!(self, Mul);

    /// No neutral element is told to tract, which forgets the shape of a factor that it knows to be
    /// 1 throughout (tract-core, `optim/uniform_mask.rs`). It is removed here where the other
    /// factor has all of the shape. Nor is 0 told to absorb the other factor: that would not run
    /// any more, and not find out that a size is not what the plan took it for.
    fn declutter(&self, model: &TypedModel, node: &TypedNode) -> Patch {
        let [a, b] = &*node.inputs else { return Ok(None) };
        if a == b {
            return Ok(None);
        }
        let output = model.outlet_fact(node.id.into())?;
        let ty = output.datum_type;
        for (factor, other) in [(a, b), (b, a)] {
            let Some(value) = &model.outlet_fact(*factor)?.uniform else { continue };
            let is = |number: i64| -> TractResult<bool> {
                Ok(*value.as_bytes() == *tensor0(number).cast_to_dt(ty)?.as_bytes())
            };
            if is(0)? {
                return Ok(None);
            }
            if is(1)? && model.outlet_fact(*other)?.shape == output.shape {
                let keep = |_: &mut TypedModelPatch, taps: &[OutletId]| Ok(taps.into());
                return TypedModelPatch::rewire(model, &[*other], &[node.id.into()], &keep)
                    .map(Some);
            }
        }
        Mul.declutter(model, node)
    }
}

/// Quotients of integers, with an error for a divisor of 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct IntegerDiv {
    /// For messages.
    pub(crate) node: Label,
}

impl IntegerDiv {
    fn check(&self, divisor: &Tensor) -> TractResult<()> {
        let ty = divisor.datum_type();
        let zero = Tensor::zero_scalar_dt(ty)?;
        let zero = zero.as_bytes();
        if divisor.as_bytes().chunks(ty.size_of()).any(|element| element == zero) {
            bail!(refused(&self.node, "Div", "divides an integer by 0"));
        }
        Ok(())
    }
}

impl BinMiniOp for IntegerDiv {
    binary_like!(self, Div);

    fn is_commutative(&self) -> bool {
        Div.is_commutative()
    }

    fn eval_in_a(&self, a: &mut Tensor, b: &Tensor) -> TractResult<()> {
        self.check(b)?;
        Div.eval_in_a(a, b)
    }

    fn eval_out_of_place(&self, c: &mut Tensor, a: &Tensor, b: &Tensor) -> TractResult<()> {
        self.check(b)?;
        Div.eval_out_of_place(c, a, b)
    }

    fn neutral_element(&self) -> Option<i64> {
        Div.neutral_element()
    }

    fn declutter(&self, model: &TypedModel, node: &TypedNode) -> Patch {
        Div.declutter(model, node)
    }
}

/// One of tract's operators that is left as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unsimplified<T>(pub(crate) T);

impl<T: BinMiniOp + Clone + PartialEq + Eq> BinMiniOp for Unsimplified<T> {
    binary_like!(self, self.0);
    binary_by!(self, self.0);

    fn validation(&self) -> Validation {
        self.0.validation()
    }

    fn is_commutative(&self) -> bool {
        self.0.is_commutative()
    }

    fn as_linalg_binop(&self) -> Option<BinOp> {
        self.0.as_linalg_binop()
    }
}
