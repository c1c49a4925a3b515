//! The op that is left of a quantiser in a typed model: what it is and what it computes.

use tract_onnx::tract_core::internal::*;

use crate::cast::element_type::ElementType;
use crate::cast::quantize::layout::{self, ScaleLayout};
use crate::cast::quantize::operator::{Dequantize, Quantize, Quantizer};
use crate::error::Error;
use crate::onnx::quantizers::QuantizerSpec;
use crate::ops::cast::op::OnnxCast;
use crate::ops::host::label::Label;
use crate::ops::host::saved::{Row, Save, Saved};
use crate::ops::quantize::small_weights::SmallWeights;
use crate::tensor::memory::Memory;
use crate::tensor::quantization::{Prepared, Quantization, check_shape_of_zero_points};

/// An ONNX `QuantizeLinear` or `DequantizeLinear` in a typed model: x, scale and perhaps zero point
/// in, y out.
#[derive(Debug, Clone)]
pub(crate) struct OnnxQuantizer {
    /// For messages; the op's identity does not depend on it, nor on the opset.
    pub(super) node: String,
    pub(super) opset: i64,
    pub(super) quantization: Quantization,
    pub(super) axis: i64,
    pub(super) block_size: usize,
    /// Which constants a product takes as they are; no part of what the op computes.
    pub(super) small: SmallWeights,
    /// What has been read of scales and zero points that are constants of the model.
    pub(super) constants: Option<Arc<QuantizerConstants>>,
}

/// Scales and zero points of a model, and what was read of them.
#[derive(Debug)]
pub(super) struct QuantizerConstants {
    scale: Arc<Tensor>,
    zero_point: Option<Arc<Tensor>>,
    prepared: Prepared,
}

impl OnnxQuantizer {
    pub(super) fn new(spec: &QuantizerSpec, quantization: Quantization) -> OnnxQuantizer {
        // The others are in the types of the quantisation, and in its precision.
        let QuantizerSpec {
            node,
            quantizes: _,
            opset,
            judged_by: _,
            has_zero_point: _,
            axis,
            block_size,
            saturate: _,
            precision: _,
            output: _,
            exotic: _,
        } = spec;
        OnnxQuantizer {
            node: node.as_str().into(),
            opset: *opset,
            quantization,
            axis: *axis,
            block_size: *block_size,
            small: SmallWeights::WhereExact,
            constants: None,
        }
    }

    /// The same, which shares what is kept of large outputs with the ops that a model has.
    pub(super) fn beside_ops_of(self, model: &TypedModel) -> OnnxQuantizer {
        let memory = model.nodes.iter().rev().find_map(|node| {
            let cast = node.op_as::<OnnxCast>().map(|cast| cast.conversion().memory());
            cast.or_else(|| node.op_as::<OnnxQuantizer>().map(|op| op.quantization.memory()))
        });
        match memory {
            Some(memory) => {
                let quantization = self.quantization.clone().sharing(memory);
                OnnxQuantizer { quantization, ..self }
            }
            None => self,
        }
    }

    /// Has it keep its large outputs where others keep theirs.
    pub(crate) fn share(&mut self, memory: &Memory) {
        self.quantization = self.quantization.clone().sharing(memory);
    }

    /// Whether its constants may become weights in few bits.
    pub(super) fn may_stay_small(&self) -> bool {
        let quantizer = self.quantizer();
        may_stay_small(matches!(quantizer, Quantizer::Quantize(_)), Some(quantizer.x()))
    }

    /// What it does to tensors.
    pub(crate) fn quantization(&self) -> &Quantization {
        &self.quantization
    }

    /// The attributes `axis` and `block_size`.
    pub(crate) fn layout(&self) -> (i64, usize) {
        (self.axis, self.block_size)
    }

    /// The operator and its types.
    pub(crate) fn quantizer(&self) -> Quantizer {
        self.quantization.quantizer()
    }

    /// The op for inputs of other float types than it was made for, as tract's change of a model's
    /// float precision leaves them: y of a `DequantizeLinear` goes with the scale that it had the
    /// type of. `None` where nothing is to be changed, or nothing can be.
    pub(super) fn adapted_to(&self, inputs: &[DatumType]) -> Option<OnnxQuantizer> {
        let [x_type, scale_type, ..] = inputs else { return None };
        let float = |ty: ElementType, got: DatumType| match ty {
            ElementType::Float | ElementType::Float16 if got.is_float() => ElementType::native(got),
            _ => Some(ty),
        };
        let quantizer = match self.quantizer() {
            Quantizer::Quantize(op) => {
                let (x, scale) = (float(op.x, *x_type)?, float(op.scale, *scale_type)?);
                Quantizer::Quantize(Quantize { x, scale, ..op })
            }
            Quantizer::Dequantize(op) => {
                let scale = float(op.scale, *scale_type)?;
                let y = if op.y == op.scale { scale } else { op.y };
                Quantizer::Dequantize(Dequantize { scale, y, ..op })
            }
        };
        if quantizer == self.quantizer() {
            return None;
        }
        let quantization = Quantization::new(quantizer)?.sharing(self.quantization.memory());
        Some(OnnxQuantizer { quantization, constants: None, ..self.clone() })
    }

    pub(super) fn error(&self, problem: impl std::fmt::Display) -> Error {
        let problem = format!("{problem} (opset {})", self.opset);
        Error::of_node(&self.node, self.quantizer().name(), problem)
    }

    /// Checks that a scale fits x, as far as their shapes are known.
    pub(super) fn check_shapes(&self, x: &ShapeFact, scale: &ShapeFact) -> TractResult<()> {
        let known = |dim: &TDim| dim.to_usize().ok();
        let scales: Option<TVec<usize>> = scale.iter().map(known).collect();
        // A dimension that is not known is left open by taking the one that fits; a scale of one
        // element fits any x.
        let Some(scales) = scales.filter(|scales| scales.iter().any(|dim| *dim != 1)) else {
            return Ok(());
        };
        let axis = layout::axis(self.axis, x.rank()).map_err(|problem| self.error(problem))?;
        let fitting = |(index, dim): (usize, &TDim)| {
            let own = match (self.block_size, &*scales) {
                (0, [scales]) => *scales,
                (block, scales) => {
                    let count = scales.get(index).copied().unwrap_or(1);
                    if index == axis { count.saturating_mul(block) } else { count }
                }
            };
            known(dim).unwrap_or(own)
        };
        let x: TVec<usize> = x.iter().enumerate().map(fitting).collect();
        ScaleLayout::new(&x, self.axis, self.block_size, &scales)
            .map_err(|problem| self.error(problem))?;
        Ok(())
    }

    /// Checks the zero points by their shape, and by their values where these are constants.
    pub(super) fn check_zero_points(
        &self,
        scale: &ShapeFact,
        zero_point: &TypedFact,
    ) -> TractResult<()> {
        let checked = match (scale.as_concrete(), zero_point.shape.as_concrete()) {
            (Some(scale), Some(own)) => check_shape_of_zero_points(own, scale),
            _ => Ok(()),
        };
        let checked = checked.and_then(|()| {
            let constant = zero_point.konst.as_ref();
            constant.map_or(Ok(()), |zero_point| self.quantization.check_zero_point(zero_point))
        });
        Ok(checked.map_err(|problem| self.error(format!("{problem:#}")))?)
    }

    /// Reads scales and zero points.
    pub(super) fn prepare(
        &self,
        scale: &Arc<Tensor>,
        zero_point: Option<&Arc<Tensor>>,
    ) -> TractResult<QuantizerConstants> {
        let prepared = self.quantization.prepare(scale, zero_point.map(|tensor| &**tensor));
        let prepared = prepared.map_err(|problem| self.error(format!("{problem:#}")))?;
        Ok(QuantizerConstants { scale: scale.clone(), zero_point: zero_point.cloned(), prepared })
    }

    /// Makes y of a large matrix x of codes, each part when it is asked for; `None` of any other x,
    /// and where it quantises.
    pub(crate) fn late(
        &self,
        x: &Arc<Tensor>,
        scale: &Tensor,
        zero_point: Option<&Tensor>,
    ) -> TractResult<Option<Tensor>> {
        let parameters = (scale, zero_point);
        let late = self.quantization.late(x, parameters, self.axis, self.block_size);
        Ok(late.map_err(|problem| self.error(format!("{problem:#}")))?)
    }

    /// Makes y of x.
    pub(super) fn run(&self, inputs: &[TValue]) -> TractResult<Tensor> {
        let [x, scale, zero_point @ ..] = inputs else { bail!("a quantiser has an x and a scale") };
        let is = |value: &TValue, tensor: &Arc<Tensor>| {
            value.as_arc_tensor().is_some_and(|value| Arc::ptr_eq(value, tensor))
        };
        let known = self.constants.as_ref().filter(|constants| {
            let is_zero_point = match (zero_point.first(), &constants.zero_point) {
                (Some(value), Some(tensor)) => is(value, tensor),
                (None, None) => true,
                _ => false,
            };
            is(scale, &constants.scale) && is_zero_point
        });
        let (axis, block_size) = (self.axis, self.block_size);
        let y = match known {
            Some(known) => self.quantization.run_prepared(x, &known.prepared, axis, block_size),
            None => {
                let zero_point = zero_point.first().map(|value| &**value);
                let prepared = self.quantization.prepare(scale, zero_point)?;
                self.quantization.run_prepared(x, &prepared, axis, block_size)
            }
        };
        Ok(y.map_err(|problem| self.error(format!("{problem:#}")))?)
    }
}

/// Whether constants of a quantiser may become weights in few bits.
pub(super) fn may_stay_small(quantizes: bool, x: Option<ElementType>) -> bool {
    use ElementType::{Int2, Int4, Uint2, Uint4};
    !quantizes && matches!(x, Some(Int2 | Uint2 | Int4 | Uint4))
}

/// Two quantisers are the same op if they do the same, whatever the nodes are called.
impl PartialEq for OnnxQuantizer {
    fn eq(&self, other: &OnnxQuantizer) -> bool {
        let attributes = |op: &OnnxQuantizer| (op.axis, op.block_size);
        self.quantization == other.quantization && attributes(self) == attributes(other)
    }
}

impl Eq for OnnxQuantizer {}

/// Whether it quantises, the types of x, scale and y, and of the precision where there is one; then
/// numbers.
impl Save for OnnxQuantizer {
    const NAME: &'static str = "tract_onnx_cast_quantizer";

    fn save(&self) -> Saved {
        let quantizer = self.quantizer();
        let (quantizes, precision, saturate) = match quantizer {
            Quantizer::Quantize(op) => (true, op.precision, op.saturate),
            Quantizer::Dequantize(op) => (false, op.y, true),
        };
        let types = [quantizer.x(), quantizer.scale(), quantizer.y(), precision];
        let saved = Saved::default().with(&quantizes).with(&types).with(&saturate);
        saved.with(&self.axis).with(&self.block_size)
    }

    fn restore(node: Label, row: &mut Row) -> TractResult<OnnxQuantizer> {
        let quantizes: bool = row.take()?;
        let [x, scale, y, precision]: [ElementType; 4] = row.take()?;
        let saturate = row.take()?;
        let quantizer = if quantizes {
            Quantizer::Quantize(Quantize { x, scale, y, precision, saturate })
        } else {
            Quantizer::Dequantize(Dequantize { x, scale, y })
        };
        let quantization = Quantization::new(quantizer);
        let quantization = quantization.with_context(|| format!("has types {quantizer:?}"))?;
        Ok(OnnxQuantizer {
            node: node.to_string(),
            opset: i64::MAX,
            quantization,
            axis: row.take()?,
            block_size: row.take()?,
            small: SmallWeights::WhereExact,
            constants: None,
        })
    }
}
