//! Operators of ONNX Runtime's that are several of ONNX's in one.

use onnx_cast_graph::{attribute, float_attribute, int};
use tract_onnx::pb::AttributeProto;
use tract_onnx::pb::attribute_proto::AttributeType;

use super::{Operand, Parts};
use crate::cast::element_type::ElementType;
use crate::error::Error;
use crate::onnx::node::refusal;

/// Of an Einsum.
const EINSUM: i64 = 12;
/// Of a Clip with attributes.
const CLIP: i64 = 6;

impl Parts<'_> {
    fn flag(&self, name: &str) -> bool {
        int(self.node, name).is_some_and(|flag| flag != 0)
    }

    pub(super) fn at_opset(&mut self, opset: i64) {
        if let Some(node) = self.nodes.last_mut() {
            node.opset = Some(opset);
        }
    }

    /// `alpha` times the product of matrices, of which dimensions are in another order.
    pub(super) fn fused_matmul(&mut self) -> Result<(), Error> {
        let operands = [self.needed(0)?, self.needed(1)?];
        let letters = |batch: bool, transposed: bool, [row, column]: [char; 2]| {
            let [first, last] = if transposed { [column, row] } else { [row, column] };
            if batch { format!("{first}...{last}") } else { format!("...{first}{last}") }
        };
        let a = (self.flag("transBatchA"), self.flag("transA"));
        let b = (self.flag("transBatchB"), self.flag("transB"));
        let product = if (a, b) == ((false, false), (false, false)) {
            self.add("MatMul", &operands, vec![])
        } else {
            let a = letters(a.0, a.1, ['i', 'k']);
            let b = letters(b.0, b.1, ['k', 'j']);
            let equation = AttributeProto {
                name: "equation".into(),
                r#type: AttributeType::String as i32,
                s: format!("{a},{b}->...ij").into_bytes(),
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
        let factor = self.cast(factor, ElementType::Float, ty);
        self.add("Mul", &[product, factor], vec![]);
        Ok(())
    }

    /// A convolution, a sum, and a function of it.
    pub(super) fn fused_conv(&mut self) -> Result<(), Error> {
        let inputs = [self.needed(0)?, self.needed(1)?, self.input(2)];
        let names = ["auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"];
        let attributes = self.own(&names);
        let mut result = self.add("Conv", &inputs, attributes);
        if let sum @ Operand::Value(_) = self.input(3) {
            result = self.add("Add", &[result, sum], vec![]);
        }
        let params = attribute(self.node, "activation_params");
        let params = params.map(|params| params.floats.clone()).unwrap_or_default();
        self.activate(result, &params)
    }

    /// A product of matrices and a sum, and a function of it.
    pub(super) fn fused_gemm(&mut self) -> Result<(), Error> {
        let inputs = [self.needed(0)?, self.needed(1)?, self.input(2)];
        let attributes = self.own(&["alpha", "beta", "transA", "transB"]);
        let result = self.add("Gemm", &inputs, attributes);
        let given = ["activation_alpha", "activation_beta", "activation_gamma"];
        let params = given.iter().map_while(|name| Some(attribute(self.node, name)?.f));
        let params: Vec<f32> = params.collect();
        self.activate(result, &params)
    }

    /// The function that `activation` names.
    fn activate(&mut self, x: Operand, params: &[f32]) -> Result<(), Error> {
        let Some(name) = attribute(self.node, "activation") else { return Ok(()) };
        let name = String::from_utf8_lossy(&name.s).into_owned();
        let names: &[&str] = match name.as_str() {
            "" => return Ok(()),
            "Relu" | "Tanh" | "Sigmoid" => &[],
            "LeakyRelu" => &["alpha"],
            "Clip" => &["min", "max"],
            "HardSigmoid" => &["alpha", "beta"],
            _ => {
                let problem = format!("attribute `activation` is {name:?}, which is not computed");
                return Err(refusal(self.node, problem));
            }
        };
        let attributes = names.iter().zip(params).map(|(name, x)| float_attribute(name, *x));
        self.add(&name, &[x], attributes.collect());
        if name == "Clip" {
            self.at_opset(CLIP);
        }
        Ok(())
    }
}
