//! Quantising whole tensors, with or without a model.

#![forbid(unsafe_code)]

use std::fmt;

use anyhow::{Context, anyhow, ensure};
use tract_onnx::prelude::{TVec, Tensor, TractResult};

use super::late::PIECE;
use super::late::reader::{RowReader, upright_reader};
use super::memory::Memory;
use super::output::{self, Scaling};
use crate::cast::element_type::ElementType;
use crate::cast::kernel::level::Level;
use crate::cast::quantize::kernel::{ScaleKernel, Scales};
use crate::cast::quantize::layout::ScaleLayout;
use crate::cast::quantize::operator::Quantizer;
use crate::cast::quantize::parameters::{NotZero, ParameterReader, Parameters};
use crate::cast::quantize::scalar;
use crate::error::{Error, Result};

/// A `QuantizeLinear` or `DequantizeLinear` of tensors, its loops chosen.
///
/// Tensors are carriers (see [`ElementType::datum_type`]): x of any shape, and scales and zero
/// points of one of these:
///
/// - one element, for all of x
/// - as many elements as x has indices along `axis`, if `block_size` is 0
/// - x's shape with ⌈D / `block_size`⌉ for the dimension D of `axis`, each for that many indices,
///   the last possibly for fewer
///
/// A large tensor is divided among the threads of tract's current executor, which makes no
/// difference to the result.
///
/// ```
/// use tract_onnx::prelude::{tensor0, tensor1};
/// use tract_onnx_cast::ElementType::*;
/// use tract_onnx_cast::quantize::{Dequantize, Quantization, Quantizer};
///
/// let types = Dequantize { x: Uint8, scale: Float, y: Float };
/// let dequantize = Quantization::new(Quantizer::Dequantize(types)).expect("types that the operator has");
/// let y = dequantize.run(&tensor1(&[0u8, 130]), &tensor0(0.5f32), Some(&tensor0(128u8)), 0, 0)?;
/// assert_eq!(y, tensor1(&[-64f32, 1.0]));
/// # tract_onnx_cast::Result::Ok(())
/// ```
#[derive(Clone)]
pub struct Quantization {
    quantizer: Quantizer,
    level: Level,
    reader: ParameterReader,
    plain: ScaleKernel,
    moved: ScaleKernel,
    memory: Memory,
}

/// Scales and zero points of tensors, read.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Prepared {
    parameters: Parameters,
    has_zero_points: bool,
    /// That of the scales.
    shape: TVec<usize>,
}

impl fmt::Debug for Quantization {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Quantization({:?}, {:?})", self.quantizer, self.level)
    }
}

/// Quantisations are equal if their results are: the level does not matter.
impl PartialEq for Quantization {
    fn eq(&self, other: &Quantization) -> bool {
        self.quantizer == other.quantizer
    }
}

impl Eq for Quantization {}

impl Quantization {
    /// A quantiser of tensors; `None` where no version of the operator has its types.
    pub fn new(quantizer: Quantizer) -> Option<Quantization> {
        quantizer.is_defined().then(|| Quantization {
            quantizer,
            level: Level::best(),
            reader: ParameterReader::new(quantizer),
            plain: ScaleKernel::new(quantizer, false),
            moved: ScaleKernel::new(quantizer, true),
            memory: Memory::default(),
        })
    }

    /// The same with the instructions of another level, and the same results.
    pub fn at_level(self, level: Level) -> Quantization {
        Quantization { level, ..self }
    }

    /// The same, which keeps large outputs where another op does.
    pub(crate) fn sharing(self, memory: &Memory) -> Quantization {
        Quantization { memory: memory.clone(), ..self }
    }

    /// What is kept of large outputs.
    pub(crate) fn memory(&self) -> &Memory {
        &self.memory
    }

    /// The operator and its types.
    pub fn quantizer(&self) -> Quantizer {
        self.quantizer
    }

    /// What the operator makes of one element. Elements are codes as those of
    /// [`convert_scalar`](crate::kernel::convert_scalar).
    pub fn scalar(&self, x: u64, scale: u64, zero_point: Option<u64>) -> u64 {
        match self.quantizer {
            Quantizer::Quantize(op) => scalar::quantize(op, x, scale, zero_point),
            Quantizer::Dequantize(op) => scalar::dequantize(op, x, scale, zero_point),
        }
    }

    /// Makes y of x.
    ///
    /// # Errors
    ///
    /// When a tensor is not of its type's carrier, the scale fits neither x, nor its axis, nor its
    /// blocks, the zero point does not have the scale's shape, or it is not 0 where its type has no
    /// other: float8 and INT32.
    pub fn run(
        &self,
        x: &Tensor,
        scale: &Tensor,
        zero_point: Option<&Tensor>,
        axis: i64,
        block_size: usize,
    ) -> Result<Tensor> {
        self.prepare(scale, zero_point)
            .and_then(|prepared| self.run_prepared(x, &prepared, axis, block_size))
            .map_err(Error::of_argument)
    }

    /// Reads scales and zero points.
    pub(crate) fn prepare(
        &self,
        scale: &Tensor,
        zero_point: Option<&Tensor>,
    ) -> TractResult<Prepared> {
        check(scale, self.quantizer.scale(), "scale")?;
        if let Some(zero_point) = zero_point {
            check(zero_point, self.quantizer.zero_point(), "zero point")?;
            check_shape_of_zero_points(zero_point.shape(), scale.shape())?;
        }
        let zero_bytes = match zero_point {
            Some(zero_point) => Some(zero_point.try_as_plain_ram()?.as_bytes()),
            None => None,
        };
        let scales = match upright_reader(scale)? {
            Some(rows) => self.late_scales(rows, scale)?,
            None => self.reader.scales(self.level, scale.try_as_plain_ram()?.as_bytes()),
        };
        let is_axis = scale.rank() == 1;
        let parameters = self.reader.read(self.level, scales, zero_bytes, is_axis);
        let parameters = parameters.map_err(|NotZero| self.not_zero())?;
        Ok(Prepared {
            parameters,
            has_zero_points: zero_point.is_some(),
            shape: scale.shape().into(),
        })
    }

    /// Scales that are read now, a part at a time.
    fn late_scales(&self, mut rows: RowReader, scale: &Tensor) -> TractResult<Vec<f32>> {
        let width = scale.datum_type().size_of();
        let mut scales = Vec::with_capacity(scale.len());
        let mut part = Tensor::zero_dt(scale.datum_type(), &[PIECE / width])?;
        while scales.len() < scale.len() {
            let count = (PIECE / width).min(scale.len() - scales.len());
            let part = part.as_bytes_mut().get_mut(..count * width).context("room for scales")?;
            rows.read(scales.len(), part)?;
            scales.extend(self.reader.scales(self.level, part));
        }
        Ok(scales)
    }

    /// Checks a zero point by itself.
    pub(crate) fn check_zero_point(&self, zero_point: &Tensor) -> TractResult<()> {
        check(zero_point, self.quantizer.zero_point(), "zero point")?;
        let zeros = self.reader.zeros(self.level, zero_point.try_as_plain_ram()?.as_bytes());
        zeros.map(|_| ()).map_err(|NotZero| self.not_zero())
    }

    fn not_zero(&self) -> anyhow::Error {
        let ty = self.quantizer.zero_point();
        anyhow!("its zero point is not 0, and a zero point of type {ty} can only be 0")
    }

    /// As [`Quantization::run`], with scales and zero points that have been read.
    pub(crate) fn run_prepared(
        &self,
        x: &Tensor,
        prepared: &Prepared,
        axis: i64,
        block_size: usize,
    ) -> TractResult<Tensor> {
        let layout = self.layout(x, prepared, axis, block_size)?;
        let x = (x.try_as_plain_ram()?.as_bytes(), x.shape());
        output::scale(&self.scaling(prepared, layout, 0), x, &self.memory)
    }

    /// How scales that have been read lie in x. Fails when they do not fit it.
    pub(super) fn layout(
        &self,
        x: &Tensor,
        prepared: &Prepared,
        axis: i64,
        block_size: usize,
    ) -> TractResult<ScaleLayout> {
        check(x, self.quantizer.x(), "x")?;
        let layout = ScaleLayout::new(x.shape(), axis, block_size, &prepared.shape);
        layout.map_err(anyhow::Error::msg)
    }

    /// Makes a part of y of the bytes of its elements of x, which stand one behind the other from
    /// the place `first` on.
    pub(super) fn make_part(
        &self,
        x: &[u8],
        prepared: &Prepared,
        (layout, first): (ScaleLayout, usize),
        y: &mut [u8],
    ) -> TractResult<()> {
        output::scale_over(&self.scaling(prepared, layout, first), x, y)
    }

    fn scaling<'a>(
        &'a self,
        prepared: &'a Prepared,
        layout: ScaleLayout,
        first: usize,
    ) -> Scaling<'a> {
        Scaling {
            kernel: if prepared.has_zero_points { &self.moved } else { &self.plain },
            level: self.level,
            quantizer: self.quantizer,
            scales: Scales { parameters: &prepared.parameters, layout, first },
        }
    }
}

/// Checks that there is a zero point for each scale.
pub(crate) fn check_shape_of_zero_points(own: &[usize], scales: &[usize]) -> TractResult<()> {
    let is_one = |shape: &[usize]| shape.iter().all(|size| *size == 1);
    let fits = own == scales || is_one(own) && is_one(scales);
    ensure!(fits, "a zero point of shape {own:?} does not fit a scale of shape {scales:?}");
    Ok(())
}

fn check(tensor: &Tensor, ty: ElementType, role: &str) -> TractResult<()> {
    let (expected, got) = (ty.datum_type(), tensor.datum_type());
    ensure!(got == expected, "{role} of {ty} is held in {expected:?}, not {got:?}");
    Ok(())
}
