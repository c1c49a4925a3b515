//! `OneHot` of indices of any size.
//!
//! tract cuts the indices to 32 bits, and ends in a panic where one is outside of the depth
//! (tract-core, `ops/array/one_hot.rs`). The specification has no hot element there. The depth may
//! be a dimension, and depth and values may be data.

use tract_onnx::tract_core::axes::Axis;
use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_core::ndarray::{ArrayD, Dimension, IxDyn};

use crate::error::Error;
use crate::onnx::node::from_front;
use crate::ops::host::checked::allowance::is_kept;
use crate::ops::host::element_wise::{typed_op, with_symbols};
use crate::ops::host::hook::{HookSite, Instead, Mapped, refused};
use crate::ops::host::integers::{WideIntegers, dims, read};
use crate::ops::host::label::Label;
use crate::ops::host::saved::save;

/// Wires it for indices that are integers. Those of floats are tract's.
pub(crate) fn one_hot(site: &HookSite, model: &mut TypedModel, inputs: &[OutletId]) -> Instead {
    let [indices, depth, _] = inputs else { return Ok(None) };
    let rank = model.outlet_fact(*indices)?.rank();
    let axis = site.int("axis", -1)?;
    let axis = from_front(axis, rank + 1)
        .ok_or_else(|| site.error(format!("has no axis {axis}, its indices' rank is {rank}")))?;
    let depth = &model.outlet_fact(*depth)?.konst;
    let dim = match depth {
        Some(depth) => depth_of(site, depth)?,
        None => model.symbols.new_with_prefix("depth").to_dim(),
    };
    model.wire_node(&site.name, OneHot { node: site.node(), axis, dim }, inputs).map(Some)
}

fn depth_of(site: &HookSite, depth: &Tensor) -> TractResult<TDim> {
    let problem = || site.error("has a depth that is not one number of dimensions");
    let whole =
        if depth.datum_type().is_float() { depth.cast_to::<i64>()? } else { Cow::Borrowed(depth) };
    match &*dims(&whole)? {
        [dim] if dim.as_i64().is_none_or(|depth| depth >= 0) => Ok(dim.clone()),
        _ => Err(problem().into()),
    }
}

/// Makes of each index a row that is hot in one place: inputs are the indices, the depth, and the
/// two values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OneHot {
    /// For messages.
    node: Label,
    /// Where the rows lie in the output.
    axis: usize,
    /// Their length.
    dim: TDim,
}

impl OneHot {
    fn error(&self, problem: impl Into<String>) -> Error {
        refused(&self.node, "OneHot", problem)
    }

    fn rows<T: Datum>(
        &self,
        indices: &WideIntegers,
        depth: usize,
        values: &Tensor,
    ) -> TractResult<Tensor> {
        let values = values.try_as_plain_ram()?;
        let [off, on] = values.as_slice::<T>()? else {
            bail!(self.error("has values other than the cold and the hot one"));
        };
        let mut shape: TVec<usize> = indices.shape().into();
        shape.insert(self.axis, depth);
        let size = shape.iter().try_fold(size_of::<T>(), |size, len| size.checked_mul(*len));
        let fits = size.is_some_and(|size| Vec::<u8>::new().try_reserve_exact(size).is_ok());
        if !fits {
            bail!(self.error(format!("makes the shape {shape:?}, for which there is no memory")));
        }
        let mut rows = ArrayD::from_elem(IxDyn(&shape), off.clone());
        for (place, index) in indices.indexed_iter() {
            let index = if *index < 0 { index + depth as i128 } else { *index };
            if let Some(index) = usize::try_from(index).ok().filter(|index| *index < depth) {
                let mut place: TVec<usize> = place.slice().into();
                place.insert(self.axis, index);
                if let Some(element) = rows.get_mut(&*place) {
                    *element = on.clone();
                }
            }
        }
        Ok(rows.into_tensor())
    }

    fn depth(&self, depth: &Tensor, symbols: &SymbolValues) -> TractResult<usize> {
        let depth = whole(depth, symbols)?;
        let depth = depth.iter().next().filter(|_| depth.len() == 1);
        let depth = depth.and_then(|depth| usize::try_from(*depth).ok());
        depth.ok_or_else(|| self.error("has a depth that is not one number of elements").into())
    }
}

/// Numbers as integers, of FLOATs their whole parts.
fn whole(tensor: &Tensor, symbols: &SymbolValues) -> TractResult<WideIntegers> {
    if tensor.datum_type().is_float() {
        read(&*tensor.cast_to::<i64>()?, symbols)
    } else {
        read(tensor, symbols)
    }
}

typed_op!(
    OneHot,
    "Onehot",
    |op| format!("axis: {} depth: {}", op.axis, op.dim),
    mints_runtime_symbols
);

impl EvalOp for OneHot {
    fn eval_out_of_plan(&self, inputs: TVec<TValue>) -> TractResult<Option<TVec<TValue>>> {
        let context = EvalContext::out_of_plan();
        let [indices, depth, values] = &*inputs else { return Ok(None) };
        let depth = self.depth(depth, context.symbols)?;
        if !is_kept(&[indices.len(), depth], values.datum_type()) {
            return Ok(None);
        }
        self.eval(&context, inputs).map(Some)
    }

    fn eval(&self, context: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let (indices, depth, values) = args_3!(inputs);
        let depth = self.depth(&depth, context.symbols)?;
        let indices = whole(&indices, context.symbols)?;
        let ty = values.datum_type();
        Ok(tvec!(dispatch_datum!(Self::rows(ty)(self, &indices, depth, &values))?.into_tvalue()))
    }
}

impl TypedOp for OneHot {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let [indices, _, values] = inputs else { bail!("has {} inputs, not 3", inputs.len()) };
        let mut shape = indices.shape.to_tvec();
        shape.insert(self.axis, self.dim.clone());
        Ok(tvec!(values.datum_type.fact(&*shape)))
    }

    fn axes_mapping(&self, inputs: &[&TypedFact], outputs: &[&TypedFact]) -> Mapped {
        let [indices, ..] = inputs else { bail!("has no inputs") };
        let mut letters = 'a'..;
        let mut axes = vec![];
        let mut axis = || {
            let letter = letters.next().context("letters for the axes")?;
            TractResult::Ok(Axis::new(letter, inputs.len(), outputs.len()))
        };
        for place in 0..indices.rank() {
            axes.push(axis()?.input(0, place).output(0, place + usize::from(place >= self.axis)));
        }
        axes.push(axis()?.output(0, self.axis));
        for (slot, input) in inputs.iter().enumerate().skip(1) {
            for place in 0..input.rank() {
                axes.push(axis()?.input(slot, place));
            }
        }
        AxesMapping::new(inputs.len(), outputs.len(), axes)
    }

    with_symbols!(|self, values| OneHot { dim: self.dim.substitute_all(values)?, ..self.clone() });

    as_op!();
}

save!(OneHot, "tract_onnx_cast_one_hot", node { axis, dim });
