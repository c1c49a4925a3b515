//! `ConvInteger` and `QLinearConv` by tract's convolution of FLOATs, where no sum can be too large
//! for it to be exact.
//!
//! tract's own goes through several passes over sums and results, element by element, and has no
//! kernel for groups. What is summed in FLOAT is exact below 2^24, in whatever order; of weights
//! that are too large for that, several convolutions of some of the input's channels each are
//! summed in INT32.

use std::ops::Range;

use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_core::ndarray::{ArrayD, Axis as Along};
use tract_onnx::tract_core::ops::array::Slice;
use tract_onnx::tract_core::ops::cast::cast;
use tract_onnx::tract_core::ops::change_axes::wire_rank_broadcast;
use tract_onnx::tract_core::ops::cnn::{Conv, KernelFormat};
use tract_onnx::tract_core::ops::math;

use super::requantize::Requantize;
use crate::ops::host::hook::{HookSite, Instead};

/// Sums of integers below it are exact in FLOAT.
pub(super) const EXACT: u64 = 1 << 24;

/// The places of the data, its zero point, the weights and theirs among a node's inputs.
pub(super) type Places = [usize; 4];

/// Those of `MatMulInteger` and `ConvInteger`.
pub(super) const INTEGERS: Places = [0, 2, 1, 3];

/// Those of `QLinearMatMul` and `QLinearConv`.
pub(super) const QUANTIZED: Places = [0, 2, 3, 5];

/// The operands of a convolution of integers, whose weights are constants.
struct Operands {
    data: OutletId,
    /// Its zero point, a number that may be data.
    zero: Option<OutletId>,
    /// The weights less their zero points.
    weights: ArrayD<i32>,
    /// What the data less its zero point are at most.
    reach: u64,
}

/// Wires `ConvInteger` and `QLinearConv`.
pub(crate) fn convolution(site: &HookSite, model: &mut TypedModel, inputs: &[OutletId]) -> Instead {
    let quantizes = site.proto.op_type == "QLinearConv";
    let [data, data_zero, weights, weights_zero] = if quantizes { QUANTIZED } else { INTEGERS };
    let given = |place| site.given(inputs, place);
    // Of a place: nothing where it is data, and no tensor where it is left out.
    let known = |place| match given(place) {
        Some(outlet) => constant(model, outlet).map(Some),
        None => Some(None),
    };
    let (Some(data), Some(weights)) = (given(data), given(weights)) else { return Ok(None) };
    let Some(weights_zero) = known(weights_zero) else { return Ok(None) };
    let Some(operands) = Operands::of(model, data, weights, given(data_zero), weights_zero)? else {
        return Ok(None);
    };
    let Some(conv) = conv_of(site, model, inputs)? else { return Ok(None) };
    let Some(slices) = operands.slices(&conv) else { return Ok(None) };
    let last = if quantizes {
        match Requantize::of(model, conv.output_channels(), &[1, 4, 6, 7, 8].map(given))? {
            Some(last) => Some(last),
            None => return Ok(None),
        }
    } else {
        None
    };
    let sum = operands.wire(site, model, &conv, &slices)?;
    match last {
        Some((op, scale, bias)) => {
            let scale = model.add_const(site.part("scale"), scale)?;
            let bias = model.add_const(site.part("bias"), bias)?;
            model.wire_node(&site.name, op, &[sum, scale, bias]).map(Some)
        }
        None => model.wire_node(&site.name, cast(DatumType::I32), &[sum]).map(Some),
    }
}

/// The value of an outlet that is a constant.
pub(super) fn constant(model: &TypedModel, outlet: OutletId) -> Option<Arc<Tensor>> {
    model.outlet_fact(outlet).ok()?.konst.clone()
}

/// tract's operator of the node, in a model that is thrown away.
fn conv_of(site: &HookSite, model: &TypedModel, inputs: &[OutletId]) -> TractResult<Option<Conv>> {
    let mut scratch = TypedModel::default();
    let mut sources = vec![];
    for (place, input) in inputs.iter().enumerate() {
        let fact = model.outlet_fact(*input)?.clone();
        sources.push(scratch.add_source(place.to_string(), fact)?);
    }
    let made = site.wire_stock(&mut scratch, &sources)?;
    let conv = made.first().and_then(|made| scratch.node(made.node).op_as::<Conv>());
    Ok(conv.filter(|conv| conv.kernel_fmt == KernelFormat::OIHW).cloned())
}

/// Whether it is a type of codes that tract has products of.
pub(super) fn is_byte(ty: DatumType) -> bool {
    [DatumType::U8, DatumType::I8].contains(&ty)
}

/// How far data of a type can be from a zero point, nothing where there are several.
pub(super) fn reach(
    model: &TypedModel,
    ty: DatumType,
    zero: Option<OutletId>,
) -> TractResult<Option<u64>> {
    let zero = match zero {
        None => 0,
        Some(zero) => {
            let fact = model.outlet_fact(zero)?;
            match &fact.konst {
                _ if !fact.shape.volume().is_one() => return Ok(None),
                Some(zero) => {
                    zero.cast_to::<i32>()?.into_owned().into_shape(&[])?.cast_to_scalar()?
                }
                None => return Ok(Some(255)),
            }
        }
    };
    let ends = if ty == DatumType::U8 { [0, 255] } else { [-128, 127] };
    Ok(ends.into_iter().map(|end: i32| u64::from(end.abs_diff(zero))).max())
}

/// Wires codes less their zero point as FLOATs.
pub(super) fn less_zero(
    site: &HookSite,
    model: &mut TypedModel,
    codes: OutletId,
    zero: Option<OutletId>,
) -> TractResult<OutletId> {
    let float = || cast(DatumType::F32);
    let mut data = model.wire_node(site.part("float"), float(), &[codes])?;
    if let Some(zero) = zero {
        let zero = model.wire_node(site.part("zero"), float(), &[zero])?;
        let name = site.part("less-zero");
        let operands = wire_rank_broadcast(&name, model, &[&*data, &*zero].concat())?;
        data = model.wire_node(name, math::sub(), &operands)?;
    }
    data.first().copied().context("an output")
}

impl Operands {
    /// `None` where tract's operator computes the node: of other types, or of weights that are
    /// data.
    fn of(
        model: &TypedModel,
        data: OutletId,
        weights: OutletId,
        zero: Option<OutletId>,
        weights_zero: Option<Arc<Tensor>>,
    ) -> TractResult<Option<Operands>> {
        let Some(constant) = constant(model, weights) else { return Ok(None) };
        let ty = model.outlet_fact(data)?.datum_type;
        if !is_byte(ty) || !is_byte(constant.datum_type()) {
            return Ok(None);
        }
        let Some(reach) = reach(model, ty, zero)? else { return Ok(None) };
        let mut weights = constant.cast_to::<i32>()?.to_plain_array_view::<i32>()?.to_owned();
        let zeros = match weights_zero {
            Some(zeros) => {
                zeros.cast_to::<i32>()?.to_plain_array_view::<i32>()?.iter().copied().collect()
            }
            None => vec![0],
        };
        let channels = weights.shape().first().copied().unwrap_or(0);
        if zeros.len() != 1 && zeros.len() != channels || weights.ndim() < 3 {
            return Ok(None);
        }
        for (mut part, zero) in weights.outer_iter_mut().zip(zeros.iter().cycle()) {
            part.mapv_inplace(|weight| weight - zero);
        }
        Ok(Some(Operands { data, zero, weights, reach }))
    }

    /// The channels of the input of which a sum is exact together; `None` where there are none.
    fn slices(&self, conv: &Conv) -> Option<Vec<Range<usize>>> {
        let channels = self.weights.shape().get(1).copied()?;
        let (mut slices, mut first) = (vec![], 0);
        let (mut sums, mut totals) = (vec![0u64; conv.output_channels()], 0u64);
        for channel in 0..channels {
            let of_channel = self.weights.index_axis(Along(1), channel);
            let sizes: Vec<u64> = of_channel
                .outer_iter()
                .map(|kernel| kernel.iter().map(|w| u64::from(w.unsigned_abs())).sum::<u64>())
                .map(|sum| sum * self.reach)
                .collect();
            let with: Vec<u64> = sums.iter().zip(&sizes).map(|(sum, size)| sum + size).collect();
            totals += sizes.iter().max()?;
            if with.iter().all(|sum| *sum < EXACT) {
                sums = with;
                continue;
            }
            if sizes.iter().any(|size| *size >= EXACT) || conv.group != 1 {
                return None;
            }
            slices.push(first..channel);
            (first, sums) = (channel, sizes);
        }
        slices.push(first..channels);
        (totals < 1 << 31).then_some(slices)
    }

    /// Wires the sums: FLOATs of one slice, INT32 of several.
    fn wire(
        &self,
        site: &HookSite,
        model: &mut TypedModel,
        conv: &Conv,
        slices: &[Range<usize>],
    ) -> TractResult<OutletId> {
        let wire =
            |model: &mut TypedModel, name: String, op: Box<dyn TypedOp>, inputs: &[OutletId]| {
                let outlets = model.wire_node(name, op, inputs)?;
                outlets.first().copied().context("an output")
            };
        let data = less_zero(site, model, self.data, self.zero)?;
        let bias = model.add_const(site.part("no-bias"), tensor0(0f32))?;
        let mut sum: Option<OutletId> = None;
        for (place, slice) in slices.iter().enumerate() {
            let part = |part: &str| site.part(&format!("{part}-{place}"));
            let mut conv = Conv { q_params: None, ..conv.clone() };
            let weights = self.weights.slice_axis(Along(1), slice.clone().into());
            #[allow(clippy::cast_precision_loss, reason = "they are of 9 bits")]
            let weights = weights.mapv(|weight| weight as f32).into_tensor();
            let weights = model.add_const(part("weights"), weights)?;
            let mut some = data;
            if slices.len() > 1 {
                conv.pool_spec.input_channels = slice.len();
                let op = Slice::new(1, slice.start, slice.end);
                some = wire(model, part("channels"), Box::new(op), &[data])?;
            }
            let mut made = wire(model, part("sum"), Box::new(conv), &[some, weights, bias])?;
            if slices.len() > 1 {
                made = wire(model, part("integer"), Box::new(cast(DatumType::I32)), &[made])?;
            }
            sum = Some(match sum {
                Some(sum) => wire(model, part("total"), Box::new(math::add()), &[sum, made])?,
                None => made,
            });
        }
        sum.context("a slice")
    }
}
