//! A `Resize` node of any version, and the shape of what it makes.

use tract_onnx::model::{ParsingContext, optional_inputs};
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_hir::internal::*;

use super::plan::{Coordinates, Mode, Rule};
use super::{Aspect, Resize, named, numbers};
use crate::onnx::node::{from_front, node_name};
use crate::ops::host::at_opset::imported;
use crate::ops::host::element_wise::rules;
use crate::ops::host::hook::{Wired, refused, unplanned};
use crate::ops::host::integers::dims;
use crate::ops::host::stock::Built;

/// Builds it of a node.
pub(crate) fn build(context: &ParsingContext, node: &NodeProto) -> Built {
    let opset = context.onnx_operator_set_version;
    let text = |name: &str, default: &'static str| -> TractResult<String> {
        Ok(node.get_attr_opt::<&str>(name)?.unwrap_or(default).to_string())
    };
    let flag = |name: &str| Ok::<_, TractError>(node.get_attr_opt::<i64>(name)?.unwrap_or(0) != 0);
    let number = |name: &str, default: f32| -> TractResult<f32> {
        Ok(node.get_attr_opt(name)?.unwrap_or(default))
    };
    let unknown = |name: &str, value: &str| {
        let opset = imported(node, opset);
        let problem = format!("attribute `{name}` is {value:?}, the model imports {opset}");
        refused(&node_name(node), "Resize", problem)
    };
    let is_first = opset < 11;
    let mode = text("mode", "nearest")?;
    let nearest =
        text("nearest_mode", if is_first { "floor_or_ceil" } else { "round_prefer_floor" })?;
    let coordinates = if is_first { "asymmetric" } else { "half_pixel" };
    let coordinates = text("coordinate_transformation_mode", coordinates)?;
    let aspect = text("keep_aspect_ratio_policy", "stretch")?;
    let rule = Rule {
        coordinates: named(&Coordinates::ALL, &coordinates)
            .ok_or_else(|| unknown("coordinate_transformation_mode", &coordinates))?,
        mode: match mode.as_str() {
            "nearest" => {
                let nearest_mode = named(&Mode::NEAREST, &nearest);
                nearest_mode.ok_or_else(|| unknown("nearest_mode", &nearest))?
            }
            _ => named(&Mode::BETWEEN, &mode).ok_or_else(|| unknown("mode", &mode))?,
        },
        cubic_coeff_a: number("cubic_coeff_a", -0.75)?,
        exclude_outside: flag("exclude_outside")?,
        antialias: flag("antialias")?,
    };
    if rule.mode.is_nearest() && rule.antialias {
        bail!(refused(&node_name(node), "Resize", "attribute `antialias` is 1, of mode nearest"));
    }
    let by = if is_first { [None, Some(1), None] } else { [Some(1), Some(2), Some(3)] };
    let given: Vec<Option<usize>> = optional_inputs(node).take(4).collect();
    let [region, scales, sizes] =
        by.map(|place| place.and_then(|place| given.get(place).copied().flatten()));
    let resize = Resize {
        node: node_name(node).into(),
        rule,
        aspect: named(&Aspect::ALL, &aspect)
            .ok_or_else(|| unknown("keep_aspect_ratio_policy", &aspect))?,
        extrapolation_value: number("extrapolation_value", 0.0)?,
        axes: tvec!(),
        has_sizes: false,
    };
    let axes = node.get_attr_opt_vec("axes")?;
    Ok((expand(ResizeNode { resize, axes, region, scales, sizes }), vec![]))
}

/// The operator before the rank of its input is known.
#[derive(Debug, Clone)]
struct ResizeNode {
    resize: Resize,
    axes: Option<Vec<i64>>,
    /// Which inputs these are.
    region: Option<usize>,
    scales: Option<usize>,
    sizes: Option<usize>,
}

impl ResizeNode {
    /// The operator for a rank, by sizes or by scales.
    fn of_rank(&self, rank: usize, has_sizes: bool) -> TractResult<Resize> {
        let resize = Resize { has_sizes, ..self.resize.clone() };
        let Some(axes) = &self.axes else {
            return Ok(Resize { axes: (0..rank).collect(), ..resize });
        };
        let place = |axis: &i64| {
            from_front(*axis, rank).ok_or_else(|| {
                resize.error(format!("has no axis {axis}, its input's rank is {rank}"))
            })
        };
        let axes = axes.iter().map(place).collect::<TractResult<TVec<usize>>>()?;
        Ok(Resize { axes, ..resize })
    }

    /// The input that says how large it becomes, which one without elements does not.
    fn by(&self, count: impl Fn(usize) -> Option<TDim>) -> Option<(usize, bool)> {
        let is_empty = |input: &usize| count(*input).is_some_and(|count| count == 0.to_dim());
        let scales = self.scales.filter(|input| !is_empty(input)).map(|input| (input, false));
        scales.or(self.sizes.filter(|input| !is_empty(input)).map(|input| (input, true)))
    }
}

impl Expansion for ResizeNode {
    fn name(&self) -> StaticName {
        "Resize".into()
    }

    rules!(self, |s, inputs, outputs| {
        check_output_arity(outputs, 1)?;
        let [data, ..] = inputs else { bail!(self.resize.error("has no input")) };
        let [made] = outputs else { bail!(self.resize.error("has one output")) };
        s.equals(&data.datum_type, &made.datum_type)?;
        s.equals(&data.rank, &made.rank)?;
        for (input, has_sizes) in [(self.scales, false), (self.sizes, true)] {
            let Some(by) = input.and_then(|input| inputs.get(input)) else { continue };
            s.equals(&by.rank, 1)?;
            s.given_2(&data.shape, &by.value, move |s, shape, by| {
                if by.len() == 0 {
                    return Ok(());
                }
                let resize = self.of_rank(shape.len(), has_sizes)?;
                let dims = resize.made_shape(&shape, &by)?;
                dims.into_iter()
                    .enumerate()
                    .try_for_each(|(axis, dim)| s.equals(&made.shape[axis], dim))
            })?;
        }
        Ok(())
    });

    fn wire(&self, prefix: &str, model: &mut TypedModel, inputs: &[OutletId]) -> Wired {
        let wire = |place: usize| {
            inputs.get(place).copied().with_context(|| self.resize.error("lacks an input"))
        };
        let length = |place: usize| {
            let fact = model.outlet_fact(*inputs.get(place)?).ok()?;
            Some(fact.shape.volume())
        };
        let Some((by, has_sizes)) = self.by(length) else {
            bail!(self.resize.error("has neither scales nor sizes"));
        };
        let rank = model.outlet_fact(wire(0)?)?.rank();
        let mut wires = tvec!(wire(0)?, wire(by)?);
        if self.resize.rule.coordinates == Coordinates::TfCropAndResize {
            let region = self.region.context("has no region, which its coordinates are in");
            wires.push(wire(region.map_err(|problem| self.resize.error(problem.to_string()))?)?);
        }
        model.wire_node(prefix, self.of_rank(rank, has_sizes)?, &wires)
    }
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "sizes of axes, computed in FLOAT as ONNX Runtime and tract do"
)]
impl Resize {
    /// The shape of what is made, given scales or sizes.
    pub(super) fn made_shape(&self, shape: &[TDim], by: &Tensor) -> TractResult<TVec<TDim>> {
        let mut made: TVec<TDim> = shape.into();
        let befores: Vec<TDim> =
            self.axes.iter().filter_map(|axis| shape.get(*axis)).cloned().collect();
        let count = befores.len();
        if by.len() != count {
            let problem = format!("has {} scales or sizes, not {count}", by.len());
            bail!(self.error(problem));
        }
        let afters: Vec<TDim> = if self.has_sizes {
            self.sizes(&befores, &dims(by)?)?
        } else {
            let scales = numbers(by)?;
            let pairs = befores.iter().zip(&scales);
            pairs
                .map(|(before, scale)| self.scaled_dim(before, *scale))
                .collect::<TractResult<_>>()?
        };
        for (axis, after) in self.axes.iter().zip(afters) {
            if let Some(dim) = made.get_mut(*axis) {
                *dim = after;
            }
        }
        Ok(made)
    }

    /// Sizes, or those that keep the ratios between them.
    fn sizes(&self, befores: &[TDim], sizes: &[TDim]) -> TractResult<Vec<TDim>> {
        if self.aspect == Aspect::Stretch {
            return Ok(sizes.to_vec());
        }
        let pair =
            |(before, size): (&TDim, &TDim)| Some((before.to_usize().ok()?, size.to_usize().ok()?));
        let pairs: Option<Vec<(usize, usize)>> = befores.iter().zip(sizes).map(pair).collect();
        let pairs = pairs.with_context(|| {
            let problem = "keeps the ratios of sizes that are only known when the model runs";
            unplanned(&self.node, "Resize", problem)
        })?;
        let scale = self.share(&pairs).unwrap_or(1.0);
        Ok(pairs.iter().map(|(before, _)| Resize::shared(*before, scale as f32).to_dim()).collect())
    }

    /// A dimension by a scale: exactly where it is a symbol.
    fn scaled_dim(&self, dim: &TDim, scale: f32) -> TractResult<TDim> {
        if let Ok(size) = dim.to_usize() {
            return Ok(Resize::scaled(size, scale).to_dim());
        }
        // Products of numbers that a FLOAT holds are not rounded.
        for divisor in [1u64, 2, 4, 8, 16, 32, 64] {
            let factor = scale * divisor as f32;
            if factor.fract() == 0.0 && (0.0..256.0).contains(&factor) {
                return Ok((dim.clone() * factor as usize) / divisor);
            }
        }
        let problem = format!("has the scale {scale} of an axis that only a run tells");
        bail!(unplanned(&self.node, "Resize", &problem))
    }
}
