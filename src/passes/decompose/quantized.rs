//! Operators of ONNX Runtime's between quantisers.

use onnx_cast_graph::{int, int_attribute};

use super::{NodeParts, PartInput};
use crate::error::Error;

impl NodeParts<'_> {
    /// An operator between quantisers of ONNX Runtime's: `QLinear` and its name. Whether there is
    /// such a one.
    pub(super) fn quantized(&mut self, operator: &str) -> Result<bool, Error> {
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
            "GlobalAveragePool" | "AveragePool" => {
                let x = self.dequantize(0)?;
                let names = [
                    "auto_pad",
                    "ceil_mode",
                    "count_include_pad",
                    "kernel_shape",
                    "pads",
                    "strides",
                ];
                let attributes = self.own(&names);
                let result = self.add(operator, &[x], attributes);
                self.quantize(result, 3, self.ty(0))?;
            }
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
}
