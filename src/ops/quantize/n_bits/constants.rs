//! Constant weights, scales and zero points, read.

use tract_onnx::tract_core::internal::*;

use super::{CodeMeaning, NBits};

/// Constants of the model, read.
pub(super) struct NBitsConstants {
    pub(super) codes: Arc<Tensor>,
    pub(super) scales: Vec<f32>,
    /// For each scale.
    pub(super) zeros: Vec<f32>,
    /// The block of each column, where that is not its place.
    pub(super) order: Option<Vec<usize>>,
}

impl NBits {
    /// The zero point of each scale, of which there are `count`: numbers, or codes of so many bits.
    fn zeros(&self, tensor: &Tensor, bits: usize, count: Option<usize>) -> TractResult<Vec<f32>> {
        const WHAT: &str = "zero points";
        if tensor.datum_type() != u8::datum_type() {
            self.check(tensor, WHAT, count)?;
            return floats(tensor);
        }
        let (blocks, row) = (self.blocks(), self.blocks().div_ceil(8 / bits));
        self.check(tensor, WHAT, self.n.checked_mul(row))?;
        let bytes = tensor.try_as_plain_ram()?;
        let zero = |row: &[u8], block: usize| f32::from(low_first(row, bits, block));
        let rows = bytes.as_slice::<u8>()?.chunks_exact(row);
        Ok(rows.flat_map(|row| (0..blocks).map(move |block| zero(row, block))).collect())
    }

    pub(super) fn constants(
        &self,
        model: &TypedModel,
        inputs: &[OutletId],
    ) -> TractResult<NBitsConstants> {
        let constant = |index: usize, what: &str| -> TractResult<Arc<Tensor>> {
            let outlet = inputs.get(index).ok_or_else(|| self.refuse(format!("lacks {what}")))?;
            let constant = model.outlet_fact(*outlet)?.konst.clone();
            let dynamic = || self.refuse(format!("has {what} that are not constant"));
            Ok(constant.ok_or_else(dynamic)?)
        };
        let (codes, scales) = (constant(1, "weights")?, constant(2, "scales")?);
        let is_bytes = codes.datum_type() == u8::datum_type();
        ensure!(is_bytes, self.refuse("has weights that are not UINT8"));
        let (blocks, all) = (self.blocks(), self.n.checked_mul(self.k));
        let (bytes, count) = match self.codes {
            CodeMeaning::Bits(bits) => {
                let count = self.n.checked_mul(blocks);
                (count.and_then(|count| count.checked_mul(self.block / (8 / bits))), count)
            }
            CodeMeaning::Table(_) => {
                (all.map(|all| all.div_ceil(2)), all.map(|all| all.div_ceil(self.block)))
            }
        };
        self.check(&codes, "weights", bytes)?;
        self.check(&scales, "scales", count)?;
        let zeros = match (self.codes, self.zero_points) {
            (CodeMeaning::Bits(bits), Some(place)) => {
                let tensor = constant(place, "zero points")?;
                self.zeros(&tensor, bits, count)?
            }
            (CodeMeaning::Bits(bits), None) => vec![(1 << (bits - 1)) as f32; scales.len()],
            (CodeMeaning::Table(_), _) => vec![],
        };
        let order = match self.order {
            Some(place) => {
                let tensor = constant(place, "an order of columns")?;
                Some(self.order(&tensor)?)
            }
            None => None,
        };
        Ok(NBitsConstants { codes, scales: floats(&scales)?, zeros, order })
    }

    /// The block of each column; a list may go on to the end of the last block.
    fn order(&self, tensor: &Tensor) -> TractResult<Vec<usize>> {
        let blocks = tensor.cast_to::<i64>()?;
        let blocks = blocks.try_as_plain_ram()?;
        let blocks = blocks.as_slice::<i64>()?;
        let block =
            |block: &i64| usize::try_from(*block).ok().filter(|block| *block < self.blocks());
        let is_whole = [Some(self.k), self.blocks().checked_mul(self.block)];
        let columns = blocks.get(..self.k).filter(|_| is_whole.contains(&Some(blocks.len())));
        let known: Option<Vec<usize>> =
            columns.and_then(|columns| columns.iter().map(block).collect());
        Ok(known.ok_or_else(|| self.refuse("has a `g_idx` that is not a block for each column"))?)
    }

    /// The weights in FLOAT, N rows of K.
    pub(super) fn floats(&self, constants: &NBitsConstants) -> TractResult<Tensor> {
        let NBitsConstants { codes, scales, zeros, order } = constants;
        let (codes, blocks) = (codes.try_as_plain_ram()?, self.blocks());
        let codes = codes.as_slice::<u8>()?;
        let mut weights = Vec::with_capacity(self.n * self.k);
        for row in 0..self.n {
            match (self.codes, order) {
                (CodeMeaning::Bits(bits), None) => {
                    for block in 0..blocks {
                        let (first, place) = (block * self.block, row * blocks + block);
                        let (zero, scale) = (zeros[place], scales[place]);
                        let codes = &codes[place * self.block / (8 / bits)..];
                        weights.extend((0..self.block.min(self.k - first)).map(|column| {
                            (f32::from(low_first(codes, bits, column)) - zero) * scale
                        }));
                    }
                }
                (CodeMeaning::Bits(bits), Some(order)) => {
                    for (column, block) in order.iter().enumerate() {
                        let code = low_first(codes, bits, row * blocks * self.block + column);
                        let block = row * blocks + block;
                        weights.push((f32::from(code) - zeros[block]) * scales[block]);
                    }
                }
                (CodeMeaning::Table(table), _) => {
                    for place in row * self.k..(row + 1) * self.k {
                        // The first is in the high bits.
                        let code = low_first(codes, 4, place ^ 1);
                        weights.push(table[usize::from(code)] * scales[place / self.block]);
                    }
                }
            }
        }
        Tensor::from_shape(&[self.n, self.k], &weights)
    }
}

fn floats(tensor: &Tensor) -> TractResult<Vec<f32>> {
    let tensor = tensor.cast_to::<f32>()?;
    Ok(tensor.try_as_plain_ram()?.as_slice::<f32>()?.to_vec())
}

/// An integer of so many bits, the first of a byte in its low bits.
pub(super) fn low_first(bytes: &[u8], bits: usize, index: usize) -> u8 {
    // A power of two.
    let each = 8 / bits;
    bytes[index >> each.trailing_zeros()] >> ((index & (each - 1)) * bits) & (u8::MAX >> (8 - bits))
}
