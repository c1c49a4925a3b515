//! Matrices of codes, whose elements are dequantised when they are asked for.

#![forbid(unsafe_code)]

use std::fmt;
use std::sync::Arc;

use anyhow::Context;
use tract_onnx::prelude::{Tensor, TractResult};

use super::late::{self, LATE, MatrixSource, PartReader};
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
    /// What [`Quantization::run`] makes of a large matrix of codes, each part when it is asked for;
    /// `None` where it quantises, and of any other x. Its errors are those of that, and come at
    /// once.
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
        let quantization = self.clone();
        let source = CodeMatrix { quantization, codes: x.clone(), prepared, layout };
        let (source, memory) = (Arc::new(source), Memory::default());
        Ok(Some(late::matrix(source, y.datum_type(), [rows, columns], &memory)))
    }
}

impl MatrixSource for CodeMatrix {
    fn reader(&self) -> TractResult<PartReader<'_>> {
        let quantizer = self.quantization.quantizer();
        let [read, written] = [quantizer.x(), quantizer.y()].map(|ty| ty.carrier_bytes());
        let (read, written) = read.zip(written).context("a quantiser has no text")?;
        let codes = &self.codes;
        let make = move |codes: Option<&[u8]>, first: usize, bytes: &mut [u8]| {
            let codes = codes.context("the codes are fewer than the matrix has elements")?;
            let place = (self.layout, first);
            self.quantization.make_part(codes, &self.prepared, place, bytes)
        };
        if let Some(mut rows) = late::reader::upright_reader(codes)? {
            let mut held = Tensor::zero_dt(codes.datum_type(), &[0])?;
            return Ok(Box::new(move |before, bytes| {
                let (first, count) = (before / written, bytes.len() / written);
                if held.len() < count {
                    held = Tensor::zero_dt(held.datum_type(), &[count])?;
                }
                let part = held.as_bytes_mut().get_mut(..count * read).context("room for codes")?;
                rows.read(first, part)?;
                make(Some(part), first, bytes)
            }));
        }
        let codes = codes.try_as_plain_ram()?.as_bytes();
        Ok(Box::new(move |before, bytes| {
            let (first, count) = (before / written, bytes.len() / written);
            make(codes.get(first * read..(first + count) * read), first, bytes)
        }))
    }

    fn block(&self) -> usize {
        // It fits into a cache, and its memory is used again and again.
        const BLOCK: usize = 2 << 20;
        late::block(&self.codes).map_or(BLOCK, |block| block.max(BLOCK))
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
