//! `BatchNormalization` by the statistics of the batch. Before: `training_mode` = 1; after: means, and what they are of.

use onnx_cast_graph::{Node, NodeView, attribute, int, int_attribute, ints_attribute};
use tract_onnx::pb::TensorProto;

use super::{Operand, Parts};
use crate::cast::element_type::ElementType;
use crate::error::Error;
use crate::onnx::node::refusal;

/// Of a ReduceMean with an attribute `axes`.
const REDUCE: i64 = 13;

/// Whether a node normalises by statistics of its own.
pub(super) fn is_trained(node: &Node) -> bool {
    node.is("BatchNormalization") && int(node, "training_mode") == Some(1)
}

impl Parts<'_> {
    /// (x − mean) / √(variance + ε) · scale + bias, of channels with all else in rows.
    pub(super) fn batch_normalization(&mut self) -> Result<(), Error> {
        let ty = self.ty(0).ok_or_else(|| refusal(self.node, "has data of unknown type"))?;
        let wide = if ty == ElementType::Double { ty } else { ElementType::Float };
        let data = self.needed(0)?;
        let shape = self.add("Shape", &[data], vec![]);
        let data = self.cast(data, ty, wide);
        let rows = self.integers(&[0, 0, -1]);
        let data = self.add("Reshape", &[data, rows], vec![]);
        let mean = self.mean(data);
        let apart = self.add("Sub", &[data, mean], vec![]);
        let squares = self.add("Mul", &[apart, apart], vec![]);
        let variance = self.mean(squares);
        let epsilon = attribute(self.node, "epsilon").map_or(1e-5, |epsilon| epsilon.f);
        let epsilon = self.float_constant(epsilon);
        let epsilon = self.cast(epsilon, ElementType::Float, wide);
        let variance = self.add("Add", &[variance, epsilon], vec![]);
        let deviation = self.add("Sqrt", &[variance], vec![]);
        let mut result = self.add("Div", &[apart, deviation], vec![]);
        for (place, operator) in [(1, "Mul"), (2, "Add")] {
            let given = self.needed(place)?;
            let of = self.ty(place).unwrap_or(ty);
            let given = self.cast(given, of, wide);
            let column = self.integers(&[1, -1, 1]);
            let given = self.add("Reshape", &[given, column], vec![]);
            result = self.add(operator, &[result, given], vec![]);
        }
        result = self.add("Reshape", &[result, shape], vec![]);
        self.cast(result, wide, ty);
        Ok(())
    }

    fn mean(&mut self, data: Operand) -> Operand {
        let mean = self.add("ReduceMean", &[data], vec![ints_attribute("axes", vec![0, 2])]);
        self.at_opset(REDUCE);
        mean
    }

    pub(super) fn cast(&mut self, value: Operand, from: ElementType, to: ElementType) -> Operand {
        if from == to {
            return value;
        }
        self.add("Cast", &[value], vec![int_attribute("to", to as i64)])
    }

    fn integers(&mut self, numbers: &[i64]) -> Operand {
        self.constant(TensorProto {
            data_type: ElementType::Int64 as i32,
            dims: vec![numbers.len() as i64],
            int64_data: numbers.to_vec(),
            ..TensorProto::default()
        })
    }
}
