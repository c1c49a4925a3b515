//! `ConvTranspose` to a given shape.
//!
//! tract appends what the shape has more than there is, and fails where it has less (tract-core,
//! `ops/cnn/deconv/mod.rs`, `adjustments`). Here that is cut off, at the end that `auto_pad` says.

use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_core::ops::cnn::{Deconv, KernelFormat, PaddingSpec, PoolSpec};
use tract_onnx::tract_core::ops::nn::DataFormat;

use crate::ops::host::hook::{HookSite, Instead};

/// The sizes of a node along the axes that its kernel slides along.
struct DeconvParameters {
    kernel: TVec<usize>,
    dilations: TVec<usize>,
    strides: TVec<usize>,
    padding: PaddingSpec,
    /// What is appended.
    adjustments: TVec<usize>,
}

/// Wires it where the shape of the output is given.
pub(crate) fn conv_transpose(
    site: &HookSite,
    model: &mut TypedModel,
    inputs: &[OutletId],
) -> Instead {
    let given: Option<TVec<usize>> = site.proto.get_attr_opt_tvec("output_shape")?;
    let (Some(output), [data, kernel, bias @ ..]) = (given, inputs) else { return Ok(None) };
    let fact = model.outlet_fact(*data)?;
    let (ty, shape) = (fact.datum_type, fact.shape.to_tvec());
    let group = usize::try_from(site.int("group", 1)?)?;
    let kernel_shape = model.outlet_fact(*kernel)?.shape.as_concrete().map(TVec::from);
    let kernel_shape = kernel_shape.context("a kernel of known shape")?;
    let [channels, of_group, ..] = *kernel_shape else { return Ok(None) };
    ensure!(group > 0 && channels.is_multiple_of(group), "{group} groups of {channels} channels");
    let sizes = sizes(site, &shape, &kernel_shape, &output)?;
    let step = |model: &mut TypedModel, name: &str, op: AxisOp, wires: &[OutletId]| {
        model.wire_node(site.part(name), op, wires)
    };
    // From groups of inputs to outputs of groups.
    let split = tvec!(group.to_dim(), (channels / group).to_dim());
    let split = AxisOp::Reshape(0, tvec!(channels.to_dim()), split);
    let merged = tvec!((group * of_group).to_dim());
    let merge = AxisOp::Reshape(0, tvec!(group.to_dim(), of_group.to_dim()), merged);
    let kernel = step(model, "kernel.split", split, &[*kernel])?;
    let kernel = step(model, "kernel.order", AxisOp::Move(1, 2), &kernel)?;
    let kernel = step(model, "kernel.merge", merge, &kernel)?;
    let bias = match bias {
        [bias, ..] => *bias,
        [] => model.add_const(site.part("bias"), Tensor::zero_scalar_dt(ty)?)?,
    };
    let DeconvParameters { kernel: of_kernel, dilations, strides, padding, adjustments } = sizes;
    let (dilations, strides) = (Some(dilations), Some(strides));
    let made = group * of_group;
    let spec =
        PoolSpec::new(DataFormat::NCHW, of_kernel, padding, dilations, strides, channels, made);
    let op = Deconv::new(spec, KernelFormat::OIHW, adjustments, group);
    model.wire_node(&site.name, op, &[&[*data], &*kernel, &[bias]].concat()).map(Some)
}

/// How much is cut off at both ends, or appended, for an output of this shape.
fn sizes(
    site: &HookSite,
    data: &[TDim],
    kernel: &[usize],
    output: &[usize],
) -> TractResult<DeconvParameters> {
    let of_kernel: TVec<usize> = kernel.iter().skip(2).copied().collect();
    let rank = of_kernel.len();
    let numbers = |name: &str, default: usize| -> TractResult<TVec<usize>> {
        let given: Option<TVec<usize>> = site.proto.get_attr_opt_tvec(name)?;
        let numbers = given.unwrap_or_else(|| tvec!(default; rank));
        if numbers.len() != rank {
            bail!(site.error(format!("has {} of `{name}`, not {rank}", numbers.len())));
        }
        Ok(numbers)
    };
    let (strides, dilations) = (numbers("strides", 1)?, numbers("dilations", 1)?);
    let mut adjustments = numbers("output_padding", 0)?;
    let output = output.get(output.len().saturating_sub(rank)..).unwrap_or_default();
    if output.len() != rank {
        bail!(site.error(format!("has {} of `output_shape`, not {rank}", output.len())));
    }
    let is_upper = site.proto.get_attr_opt::<&str>("auto_pad")? == Some("SAME_UPPER");
    let (mut before, mut after): (TVec<usize>, TVec<usize>) = Default::default();
    let data = data.iter().skip(2).map(Some).chain(std::iter::repeat(None));
    let steps = of_kernel.iter().zip(&dilations).zip(&strides);
    for (((data, wanted), ((field, dilation), stride)), more) in
        data.zip(output).zip(steps).zip(&mut adjustments)
    {
        let size = data.and_then(|dim| dim.to_usize().ok()).filter(|size| *size > 0);
        let size = size.ok_or_else(|| {
            site.unplanned("has `output_shape`, and an input of sizes that only a run tells")
        })?;
        let all = made(size, *field, *dilation, *stride).and_then(|all| all.checked_add(*more));
        let all =
            all.ok_or_else(|| site.error("has a window of no size, or of too many places"))?;
        let cut = all.saturating_sub(*wanted);
        let (less, rest) = (cut / 2, cut - cut / 2);
        before.push(if is_upper { less } else { rest });
        after.push(if is_upper { rest } else { less });
        *more += wanted.saturating_sub(all);
    }
    let padding = PaddingSpec::Explicit(before, after);
    Ok(DeconvParameters { kernel: of_kernel, dilations, strides, padding, adjustments })
}

/// How many places an axis of a size becomes; `None` for a kernel without places, or for more than
/// can be counted.
fn made(size: usize, field: usize, dilation: usize, stride: usize) -> Option<usize> {
    let field = field.checked_sub(1)?.checked_mul(dilation)?.checked_add(1)?;
    (size - 1).checked_mul(stride)?.checked_add(field)
}
