//! Scales and zero points as the loops read them: FLOATs.

#![forbid(unsafe_code)]

use std::ops::Range;
use std::sync::Arc;

use super::operator::Quantizer;
use crate::cast::element_type::ElementType;
use crate::cast::kernel::level::Level;
use crate::cast::kernel::loops::Kernel;
use crate::cast::kernel::select::select;
use crate::cast::rules::Rules;

/// Scales and their zero points, in the order of their tensors. Those of a short axis are
/// repeated, so that a loop over rows with a scale for each element has something to do.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Parameters {
    pub(super) scales: Vec<f32>,
    /// The zero point of each scale, or that of all.
    zeros: Vec<f32>,
}

impl Parameters {
    /// The zero point of a scale.
    #[inline(always)]
    pub(super) fn zero(&self, place: usize) -> f32 {
        self.zeros[if self.zeros.len() == 1 { 0 } else { place }]
    }

    /// The zero points of some scales, or that of all.
    #[inline(always)]
    pub(super) fn zeros(&self, places: Range<usize>) -> &[f32] {
        if self.zeros.len() == 1 { &self.zeros } else { &self.zeros[places] }
    }
}

/// Axes shorter than this are repeated.
const LONG_ROW: usize = 256;

/// What is wrong with a zero point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NotZero;

/// Makes parameters of tensors' bytes.
#[derive(Clone)]
pub(crate) struct ParameterReader {
    quantizer: Quantizer,
    scale: Arc<dyn Kernel>,
    zero: Arc<dyn Kernel>,
}

impl ParameterReader {
    pub(crate) fn new(quantizer: Quantizer) -> ParameterReader {
        let to_float = |ty| select(ty, ElementType::Float, Rules::default());
        let (scale, zero) = (to_float(quantizer.scale()), to_float(quantizer.zero_point()));
        ParameterReader { quantizer, scale, zero }
    }

    /// Scales in a tensor's bytes: carriers of the quantiser's type.
    pub(crate) fn scales(&self, level: Level, scales: &[u8]) -> Vec<f32> {
        floats(&*self.scale, self.quantizer.scale(), level, scales)
    }

    /// Scales, and the zero points in a tensor's bytes: carriers of the quantiser's type. Without
    /// zero points they are 0; one alone is that of every scale. `is_axis` tells that the scales
    /// may be those of an axis. Fails when a zero point is not 0 though its type has no other.
    pub(crate) fn read(
        &self,
        level: Level,
        scales: Vec<f32>,
        zero_points: Option<&[u8]>,
        is_axis: bool,
    ) -> Result<Parameters, NotZero> {
        let mut zeros = match zero_points {
            Some(zeros) => self.zeros(level, self.one_of_all(zeros))?,
            None => vec![],
        };
        if zeros.len() != scales.len() {
            zeros.truncate(1);
            zeros.resize(1, 0.0);
        }
        if is_axis && (2..LONG_ROW).contains(&scales.len()) {
            let times = LONG_ROW.div_ceil(scales.len());
            let zeros = if zeros.len() == 1 { zeros } else { zeros.repeat(times) };
            return Ok(Parameters { scales: scales.repeat(times), zeros });
        }
        Ok(Parameters { scales, zeros })
    }

    /// The first of zero points that are all the same; others as they are.
    fn one_of_all<'a>(&self, zero_points: &'a [u8]) -> &'a [u8] {
        let width = self.quantizer.zero_point().carrier_bytes().unwrap_or(1);
        let before = zero_points.len().checked_sub(width).and_then(|end| zero_points.get(..end));
        match zero_points.split_at_checked(width) {
            Some((first, behind)) if before == Some(behind) => first,
            _ => zero_points,
        }
    }

    /// The zero points in a tensor's bytes. Fails as [`ParameterReader::read`] does.
    pub(crate) fn zeros(&self, level: Level, zero_points: &[u8]) -> Result<Vec<f32>, NotZero> {
        let zeros = floats(&*self.zero, self.quantizer.zero_point(), level, zero_points);
        if self.quantizer.zero_point_is_zero() && zeros.iter().any(|zero| *zero != 0.0) {
            Err(NotZero)
        } else {
            Ok(zeros)
        }
    }
}

fn floats(kernel: &dyn Kernel, ty: ElementType, level: Level, carriers: &[u8]) -> Vec<f32> {
    // The bytes of an empty tensor are nowhere, not even aligned.
    if carriers.is_empty() {
        return vec![];
    }
    let mut floats = vec![0.0; carriers.len() / ty.carrier_bytes().unwrap_or(1)];
    kernel.overwrite(level, carriers, bytemuck::cast_slice_mut(&mut floats));
    floats
}
