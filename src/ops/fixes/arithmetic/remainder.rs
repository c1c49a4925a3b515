//! `Mod`, whose result has the sign of the divisor, or with `fmod` that of the dividend.

use tract_onnx::tract_core::broadcast::multi_broadcast;
use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_core::ndarray::ArrayD;
use tract_onnx::tract_core::ops::binary::BinMiniOp;
use tract_onnx::tract_core::ops::change_axes::wire_rank_broadcast;

use crate::error::Error;
use crate::ops::host::element_wise::{binary_by_eval, natural_axes, typed_op};
use crate::ops::host::hook::{HookSite, Instead, refused};
use crate::ops::host::integers::{dims, is_integer, pairs, read, write};
use crate::ops::host::label::Label;
use crate::ops::host::saved::save;

/// The remainder of integers.
fn remainder(node: &str, floor: bool, a: i128, b: i128) -> Result<i128, Error> {
    if b == 0 {
        return Err(refused(node, "Mod", "divides an integer by 0"));
    }
    let remainder = a % b;
    let is_other_side = floor && remainder != 0 && (remainder < 0) != (b < 0);
    Ok(if is_other_side { remainder + b } else { remainder })
}

/// `Mod` of two tensors of one type.
///
/// Of `FLOOR` is whether the quotient is rounded down, rather than towards zero.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Remainder<const FLOOR: bool> {
    /// For messages.
    pub(crate) node: Label,
}

impl<const FLOOR: bool> Remainder<FLOOR> {
    fn of_floats(&self, a: &Tensor, b: &Tensor) -> TractResult<Tensor> {
        // The remainder of two floats is a float of their type: DOUBLE has it exactly.
        let floats = |tensor: &Tensor| -> TractResult<ArrayD<f64>> {
            Ok(tensor.cast_to::<f64>()?.to_plain_array_view::<f64>()?.to_owned())
        };
        let remainders = pairs(floats(a)?.view(), floats(b)?.view(), 0., |a, b| {
            let remainder = a % b;
            let is_other_side = FLOOR && remainder != 0. && (remainder < 0.) != (b < 0.);
            Ok(if is_other_side { remainder + b } else { remainder })
        })?;
        Ok(remainders.into_tensor())
    }
}

impl<const FLOOR: bool> BinMiniOp for Remainder<FLOOR> {
    fn name(&self) -> &'static str {
        "Rem"
    }

    fn is_commutative(&self) -> bool {
        false
    }

    fn result_datum_type(&self, a: DatumType, b: DatumType) -> TractResult<DatumType> {
        ensure!(a == b, "Mod of {a:?} by {b:?}");
        Ok(a)
    }

    fn eval(&self, a: TValue, b: TValue, ty: DatumType) -> TractResult<Tensor> {
        if !is_integer(ty) {
            return Ok(self.of_floats(&a, &b)?.cast_to_dt(ty)?.into_owned());
        }
        let symbols = SymbolValues::default();
        let (a, b) = (read(&a, &symbols)?, read(&b, &symbols)?);
        let remainders = pairs(a.view(), b.view(), 0, |a, b| remainder(&self.node, FLOOR, a, b))?;
        write(&remainders, ty)
    }

    binary_by_eval!();
}

/// `Mod` of dimensions that is not known before they have their values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RemainderOfDims {
    /// For messages.
    pub(crate) node: Label,
    /// Whether the quotient is rounded down, rather than towards zero.
    pub(crate) floor: bool,
}

impl RemainderOfDims {
    /// Wires it, or leaves it to tract where that is right: dimensions that are not negative by a
    /// positive number.
    pub(crate) fn wire(
        self,
        site: &HookSite,
        model: &mut TypedModel,
        inputs: &[OutletId],
    ) -> Instead {
        let [a, b] = inputs else { return Ok(None) };
        let constant =
            |outlet: &OutletId| model.outlet_fact(*outlet).map(|fact| fact.konst.clone());
        if let (Some(a), Some(b)) = (constant(a)?, constant(b)?) {
            let is_small = |dim: &TDim| dim.as_i64().is_some_and(|b| (1..1 << 31).contains(&b));
            if dims(&a)?.iter().all(TDim::prove_positive_or_zero) && dims(&b)?.iter().all(is_small)
            {
                return Ok(None);
            }
        }
        let inputs = wire_rank_broadcast(&site.name, model, inputs)?;
        model.wire_node(&site.name, self, &inputs).map(Some)
    }
}

typed_op!(RemainderOfDims, "RemainderOfDims");

impl EvalOp for RemainderOfDims {
    fn eval_out_of_plan(&self, inputs: TVec<TValue>) -> TractResult<Option<TVec<TValue>>> {
        // Fails where a dimension is a symbol.
        Ok(self.eval(&EvalContext::out_of_plan(), inputs).ok())
    }

    fn eval(&self, context: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let (a, b) = args_2!(inputs);
        let (a, b) = (read(&a, context.symbols)?, read(&b, context.symbols)?);
        let remainders =
            pairs(a.view(), b.view(), 0, |a, b| remainder(&self.node, self.floor, a, b))?;
        Ok(tvec!(write(&remainders, DatumType::TDim)?.into_tvalue()))
    }
}

impl TypedOp for RemainderOfDims {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let [a, b] = inputs else { bail!("has {} inputs, not 2", inputs.len()) };
        let shape = multi_broadcast(&[&a.shape.to_tvec(), &b.shape.to_tvec()])?;
        Ok(tvec!(DatumType::TDim.fact(&*shape)))
    }

    natural_axes!();

    as_op!();
}

save!(RemainderOfDims, "tract_onnx_cast_mod_of_dims", node { floor });
