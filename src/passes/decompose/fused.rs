//! Operators of ONNX Runtime's that are several of ONNX's in one.

use onnx_cast_graph::{attribute, int, int_attribute};
use tract_onnx::pb::AttributeProto;
use tract_onnx::pb::attribute_proto::AttributeType;

use super::NodeParts;
use crate::cast::element_type::ElementType;
use crate::error::Error;
use crate::onnx::node::refusal;

/// Of an Einsum.
const EINSUM: i64 = 12;

impl NodeParts<'_> {
    fn flag(&self, name: &str) -> bool {
        int(self.node, name).is_some_and(|flag| flag != 0)
    }

    fn at_opset(&mut self, opset: i64) {
        if let Some(node) = self.nodes.last_mut() {
            node.opset = Some(opset);
        }
    }

    /// `alpha` times the product of matrices, of which dimensions are in another order, or of
    /// vectors, which have one order. Fails for what ONNX Runtime computes as no such product: a
    /// vector behind a transposed matrix, whose numbers it reads in their old order, and batches of
    /// vectors.
    pub(super) fn fused_matmul(&mut self, are_vectors: [bool; 2]) -> Result<(), Error> {
        let operands = [self.needed(0)?, self.needed(1)?];
        let has_vector = are_vectors.contains(&true);
        let letters = |batch: bool, transposed: bool, [row, column]: [char; 2]| {
            let [first, last] = if transposed { [column, row] } else { [row, column] };
            if batch { format!("{first}...{last}") } else { format!("...{first}{last}") }
        };
        let a = (self.flag("transBatchA"), self.flag("transA") && !are_vectors[0]);
        let b = (self.flag("transBatchB"), self.flag("transB") && !are_vectors[1]);
        if has_vector && (a.0 || b.0 || a.1) {
            return Err(self.refusal("transposes a matrix or batches beside a vector"));
        }
        let product = if (a, b) == ((false, false), (false, false)) {
            self.add("MatMul", &operands, vec![])
        } else {
            let a = letters(a.0, a.1, ['i', 'k']);
            let b = letters(b.0, b.1, ['k', 'j']);
            let equation =
                if has_vector { "k,...jk->...j".into() } else { format!("{a},{b}->...ij") };
            let equation = AttributeProto {
                name: "equation".into(),
                r#type: AttributeType::String as i32,
                s: equation.into_bytes(),
                ..AttributeProto::default()
            };
            let product = self.add("Einsum", &operands, vec![equation]);
            self.at_opset(EINSUM);
            product
        };
        let alpha = attribute(self.node, "alpha").map_or(1.0, |alpha| alpha.f);
        if alpha.to_bits() == 1f32.to_bits() {
            return Ok(());
        }
        let factor = self.float_constant(alpha);
        let ty = self.ty(0).ok_or_else(|| refusal(self.node, "has data of unknown type"))?;
        let factor = match ty {
            ElementType::Float => factor,
            _ => self.add("Cast", &[factor], vec![int_attribute("to", ty as i64)]),
        };
        self.add("Mul", &[product, factor], vec![]);
        Ok(())
    }
}
