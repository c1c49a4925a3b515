//! Matrices of codes, whose elements are dequantised when they are asked for.

#![forbid(unsafe_code)]

use std::fmt;
use std::sync::Arc;

use anyhow::Context;
use tract_onnx::prelude::{Tensor, TractResult};

use super::late::{self, LATE, MatrixSource};
use super::memory::Memory;
use super::quantization::{Prepared, Quantization};
use crate::cast::quantize::layout::ScaleLayout;
use crate::cast::quantize::operator::Quantizer;

/// A matrix of codes, and what dequantises them.
struct CodeMatrix {
    quantization: Quantization,
    codes: Arc<Tensor>,
    prepared: Prepared,
    layout: ScaleLayout,
}

impl Quantization {
    /// What [`Quantization::run`] makes of a large matrix of codes, each part when it is asked for; `None` where it quantises, and
    /// of any other x. Its errors are those of that, and come at once.
    pub(crate) fn late(
        &self,
        x: &Arc<Tensor>,
        (scale, zero_point): (&Tensor, Option<&Tensor>),
        axis: i64,
        block_size: usize,
    ) -> TractResult<Option<Tensor>> {
        let y = self.quantizer().y();
        let (&[rows, columns], Quantizer::Dequantize(_)) = (x.shape(), self.quantizer()) else {
            return Ok(None);
        };
        if x.len().saturating_mul(y.carrier_bytes().unwrap_or(0)) < LATE {
            return Ok(None);
        }
        let prepared = self.prepare(scale, zero_point)?;
        let layout = self.layout(x, &prepared, axis, block_size)?;
        let quantization = self.clone().sharing(&Memory::default());
        let source = CodeMatrix { quantization, codes: x.clone(), prepared, layout };
        Ok(Some(late::matrix(Arc::new(source), y.datum_type(), [rows, columns])))
    }
}

impl MatrixSource for CodeMatrix {
    fn read(&self, bytes: &mut Vec<u8>, before: usize, length: usize) -> TractResult<()> {
        let quantizer = self.quantization.quantizer();
        let [read, written] = [quantizer.x(), quantizer.y()].map(|ty| ty.carrier_bytes());
        let (read, written) = read.zip(written).context("a quantiser has no text")?;
        let (first, count) = (before / written, length / written);
        let codes = self.codes.try_as_plain_ram()?.as_bytes();
        let codes = codes.get(first * read..(first + count) * read);
        let codes = codes.context("the codes are fewer than the matrix has elements")?;
        let x = (codes, &[count][..]);
        let part = self.quantization.part(x, &self.prepared, self.layout, first)?;
        bytes.extend_from_slice(part.try_as_plain_ram()?.as_bytes());
        Ok(())
    }

    fn block(&self) -> usize {
        // It fits into a cache, and its memory is used again and again.
        2 << 20
    }

    fn is_read_by_parts(&self, _: usize, _: usize) -> bool {
        true
    }
}

impl fmt::Debug for CodeMatrix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} of {:?}", self.quantization, self.codes.shape())
    }
}
