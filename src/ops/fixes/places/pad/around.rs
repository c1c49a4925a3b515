//! Padding by the elements at the ends of an axis, by those around them in turn, or by the axis
//! again.

use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_core::ndarray::{Array, Axis, IxDyn};
use tract_onnx::tract_core::ops::array::PadMode;

use crate::ops::host::element_wise::typed_op;
use crate::ops::host::hook::{HookSite, refused};
use crate::ops::host::label::Label;
use crate::ops::host::saved::{members, save};

members! {
    /// What is added to an axis.
    enum BorderMode {
        /// The element at the end.
        Edge,
        /// The elements from the end backwards, and from the other end on, as often as it takes.
        Reflection,
        /// The elements from the other end on, as often as it takes.
        Wrap,
    }
}

/// How many elements are added before and after those of each axis, and which.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BorderPad {
    /// For messages.
    node: Label,
    by: BorderMode,
    pads: TVec<(usize, usize)>,
}

impl BorderPad {
    /// The operator in the place of tract's, where some axis has or may have fewer elements than
    /// that takes, and for a mode that tract does not have, which is `None`.
    pub(super) fn instead(
        site: &HookSite,
        mode: Option<&PadMode>,
        pads: &[(usize, usize)],
        shape: &[TDim],
    ) -> TractResult<Option<BorderPad>> {
        let (by, least) = match mode {
            Some(PadMode::Constant(_)) => return Ok(None),
            Some(PadMode::Edge) => (BorderMode::Edge, 0),
            Some(PadMode::Reflect) => (BorderMode::Reflection, usize::MAX),
            None => (BorderMode::Wrap, 0),
        };
        let mut is_short = mode.is_none();
        for ((before, after), dim) in pads.iter().zip(shape).filter(|(pad, _)| **pad != (0, 0)) {
            match dim.to_usize() {
                Ok(0) => bail!(site.error("adds elements of an axis that has none")),
                Ok(size) => is_short |= *before.max(after).min(&least) >= size,
                Err(_) => is_short = true,
            }
        }
        let around = || BorderPad { node: site.node(), by, pads: pads.into() };
        Ok(is_short.then(around))
    }

    /// Where an element is that comes so far from the first one.
    fn place(&self, offset: i128, size: i128) -> i128 {
        let last = size - 1;
        match self.by {
            BorderMode::Edge => offset.clamp(0, last),
            BorderMode::Reflection if last == 0 => 0,
            BorderMode::Wrap => offset.rem_euclid(size),
            BorderMode::Reflection => last - (offset.rem_euclid(2 * last) - last).abs(),
        }
    }

    fn padded<T: Datum + Copy>(&self, input: &Tensor) -> TractResult<Tensor> {
        let mut made: Array<T, IxDyn> = input.to_plain_array_view::<T>()?.to_owned();
        for (axis, (before, after)) in self.pads.iter().enumerate() {
            let size = input.shape().get(axis).copied().context("an axis of the input")?;
            if (*before, *after) == (0, 0) {
                continue;
            }
            if size == 0 {
                bail!(refused(&self.node, "Pad", "adds elements of an axis that has none"));
            }
            let (first, end) = (-i128::try_from(*before)?, i128::try_from(size + after)?);
            let places = (first..end).map(|offset| self.place(offset, size as i128));
            let places: Vec<usize> = places.map(usize::try_from).collect::<Result<_, _>>()?;
            made = made.select(Axis(axis), &places);
        }
        Ok(made.into_tensor())
    }
}

typed_op!(BorderPad, "Pad", |op| format!("{:?} by {:?}", op.by, op.pads));

impl EvalOp for BorderPad {
    op_out_of_plan!();

    fn eval(&self, _: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let input = args_1!(inputs);
        let made = dispatch_copy!(Self::padded(input.datum_type())(self, &input))?;
        Ok(tvec!(made.into_tvalue()))
    }
}

impl TypedOp for BorderPad {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let [input] = inputs else { bail!("has {} inputs, not 1", inputs.len()) };
        ensure!(input.rank() == self.pads.len(), "pads {} axes", self.pads.len());
        let mut fact = input.without_value();
        for (axis, (before, after)) in self.pads.iter().enumerate() {
            let size = fact.shape.get(axis).context("an axis")?.clone() + *before + *after;
            fact.shape.set(axis, size);
        }
        Ok(tvec!(fact))
    }

    as_op!();
}

save!(BorderPad, "tract_onnx_cast_pad", node { by, pads });
