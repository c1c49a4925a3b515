//! Operators of ONNX Runtime's between quantisers.

use onnx_cast_graph::{int, int_attribute, ints_attribute};

use super::{NodeParts, PartInput};
use crate::error::Error;

impl NodeParts<'_> {
    /// An operator between quantisers of ONNX Runtime's: `QLinear` and its name. Whether there is
    /// such a one. `rank` is that of the first input, where it is known.
    pub(super) fn quantized(&mut self, operator: &str, rank: Option<usize>) -> Result<bool, Error> {
        match operator {
            "Add" | "Mul" => {
                let [a, b] = [self.dequantize(0)?, self.dequantize(3)?];
                let result = self.add(operator, &[a, b], vec![]);
                self.quantize(result, 6, self.ty(0))?;
            }
            "Sigmoid" | "LeakyRelu" => {
                let x = self.dequantize(0)?;
                let attributes = self.own(&["alpha"]);
                let result = self.add(operator, &[x], attributes);
                self.quantize(result, 3, self.ty(0))?;
            }
            "Softmax" => {
                let x = self.dequantize(0)?;
                let axis = int_attribute("axis", int(self.node, "axis").unwrap_or(-1));
                let result = self.add("Softmax", &[x], vec![axis]);
                // Before opset 13, a Softmax is one of a matrix.
                if let (Some(opset), Some(softmax)) =
                    (int(self.node, "opset"), self.nodes.last_mut())
                {
                    softmax.opset = Some(opset);
                }
                self.quantize(result, 3, self.ty(0))?;
            }
            "GlobalAveragePool" | "AveragePool" => self.pool(operator, rank)?,
            "Concat" => {
                let inputs: Result<Vec<PartInput>, Error> = (2..self.node.inputs().len())
                    .step_by(3)
                    .map(|first| self.dequantize(first))
                    .collect();
                let attributes = self.own(&["axis"]);
                let result = self.add("Concat", &inputs?, attributes);
                self.quantize(result, 0, self.ty(2))?;
            }
            "Where" => {
                let [x, y] = [self.dequantize(1)?, self.dequantize(4)?];
                let condition = self.needed(0)?;
                let result = self.add("Where", &[condition, x, y], vec![]);
                self.quantize(result, 7, self.ty(1))?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// A pool, of images that may have their channels last.
    fn pool(&mut self, operator: &str, rank: Option<usize>) -> Result<(), Error> {
        let mut x = self.dequantize(0)?;
        let names =
            ["auto_pad", "ceil_mode", "count_include_pad", "kernel_shape", "pads", "strides"];
        let attributes = self.own(&names);
        let turned = match (int(self.node, "channels_last").unwrap_or(0), rank) {
            (0, _) => None,
            (_, Some(rank)) if rank > 2 => Some(rank as i64 - 1),
            _ => return Err(self.refusal("has channels that are last, of an unknown or no image")),
        };
        if let Some(last) = turned {
            let perm = [0, last].into_iter().chain(1..last).collect();
            x = self.add("Transpose", &[x], vec![ints_attribute("perm", perm)]);
        }
        let mut result = self.add(operator, &[x], attributes);
        if let Some(last) = turned {
            let perm = [0].into_iter().chain(2..=last).chain([1]).collect();
            result = self.add("Transpose", &[result], vec![ints_attribute("perm", perm)]);
        }
        self.quantize(result, 3, self.ty(0))
    }
}
