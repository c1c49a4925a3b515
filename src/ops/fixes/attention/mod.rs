//! ONNX's `Attention`, and `MultiHeadAttention` of ONNX Runtime's where it looks back only.
//!
//! tract's `Sdpa` has no softcap, no windows, no lengths of a cache and no fourth output; its
//! causal mask does not count the past (tract-onnx, `ops/nn/attention.rs`), and a row of which
//! everything is hidden is NaN. Here `Attend` computes what the standard says. tract's operator
//! stays where nothing hides but a causal mask without a past.
//!
//! - `op`: the operator; `shapes`: its sizes; `compute`: its elements; `bias`: what it sees and
//!   what it adds

mod bias;
mod compute;
mod op;
mod shapes;

use tract_onnx::model::{ParsingContext, optional_inputs};
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_hir::internal::*;

pub(crate) use self::op::Attend;
use self::op::{AttentionInput, Heads};
use super::recurrent::Real;
use crate::error::Error;
use crate::onnx::node::{node_name, refusal};
use crate::ops::host::at_opset::imported;
use crate::ops::host::element_wise::rules;
use crate::ops::host::hook::Wired;
use crate::ops::host::stock::{Built, stock};

/// What an error of a node says.
struct Refuse<'a> {
    node: &'a NodeProto,
    opset: i64,
}

impl Refuse<'_> {
    fn because(&self, problem: impl std::fmt::Display) -> Error {
        let problem = format!("{problem}, the model imports {}", self.opset);
        refusal(self.node, problem)
    }

    fn int(&self, name: &str, default: i64) -> TractResult<i64> {
        Ok(self.node.get_attr_opt(name)?.unwrap_or(default))
    }

    fn flag(&self, name: &str) -> TractResult<bool> {
        match self.int(name, 0)? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(self.because(format!("has attribute `{name}` {other}, not 0 or 1")))?,
        }
    }

    /// A number of heads.
    fn count(&self, name: &str) -> TractResult<Option<usize>> {
        let given: Option<i64> = self.node.get_attr_opt(name)?;
        let Some(given) = given else { return Ok(None) };
        match usize::try_from(given).ok().filter(|count| *count > 0) {
            Some(count) => Ok(Some(count)),
            None => Err(self.because(format!("has attribute `{name}` {given}")))?,
        }
    }

    /// How far one side of a window goes, if it ends.
    fn window(&self, name: &str) -> TractResult<Option<usize>> {
        match self.int(name, -1)? {
            -1 => Ok(None),
            size => match usize::try_from(size) {
                Ok(size) => Ok(Some(size)),
                Err(_) => Err(self.because(format!("has attribute `{name}` {size}")))?,
            },
        }
    }
}

/// Builds `Attention` of a node.
pub(crate) fn build(context: &ParsingContext, node: &NodeProto) -> Built {
    let refuse = Refuse { node, opset: imported(node, context.onnx_operator_set_version) };
    let softcap: f32 = node.get_attr_opt("softcap")?.unwrap_or(0.0);
    if softcap.is_nan() || softcap < 0.0 {
        Err(refuse.because(format!("has attribute `softcap` {softcap}")))?;
    }
    let heads = match (refuse.count("q_num_heads")?, refuse.count("kv_num_heads")?) {
        (Some(queries), Some(keys)) => Some(Heads { queries, keys }),
        (None, None) => None,
        _ => Err(refuse.because("has one of `q_num_heads` and `kv_num_heads`, not both"))?,
    };
    // Narrower than the products are, ONNX Runtime's CPU computes no softmax either.
    let in_double = match refuse.int("softmax_precision", 1)? {
        1 | 10 | 16 => false,
        11 => true,
        other => {
            let types = "1 (FLOAT), 10 (FLOAT16), 11 (DOUBLE) and 16 (BFLOAT16) are floats";
            let problem = format!("has attribute `softmax_precision` {other}, where {types}");
            Err(refuse.because(problem))?
        }
    };
    let mode = refuse.int("qk_matmul_output_mode", 0)?;
    if !(0..=3).contains(&mode) {
        Err(refuse.because(format!("has attribute `qk_matmul_output_mode` {mode}")))?;
    }
    let places: Vec<usize> = optional_inputs(node)
        .take(7)
        .enumerate()
        .filter_map(|(place, input)| input.map(|_| place))
        .collect();
    if places.get(..3) != Some(&[0, 1, 2]) {
        Err(refuse.because("has no Q, no K or no V"))?;
    }
    let given: TVec<AttentionInput> =
        places.iter().filter_map(|place| AttentionInput::of(*place)).collect();
    let has = |which| given.contains(&which);
    if has(AttentionInput::PastKey) != has(AttentionInput::PastValue) {
        Err(refuse.because("has one of `past_key` and `past_value`, not both"))?;
    }
    if has(AttentionInput::PastKey) && has(AttentionInput::Lengths) {
        Err(refuse.because("has both `past_key` and `nonpad_kv_seqlen`"))?;
    }
    let is_there = |place: usize| node.output.get(place).is_some_and(|name| !name.is_empty());
    let op = Attend {
        node: node_name(node).into(),
        heads,
        scale: node.get_attr_opt("scale")?,
        softcap,
        is_causal: refuse.flag("is_causal")?,
        left: refuse.window("left_window_size")?,
        right: refuse.window("right_window_size")?,
        mode: mode as usize,
        in_double,
        given,
        emitted: std::array::from_fn(is_there),
    };
    let stock = if has_stock(&op) { build_stock(context, node)? } else { None };
    Ok((expand(Attention { op, stock }), vec![]))
}

/// Whether tract's operator can be right.
fn has_stock(op: &Attend) -> bool {
    op.softcap == 0.0
        && op.left.is_none()
        && op.right.is_none()
        && !op.in_double
        && !op.emitted[3]
        && !op.given.contains(&AttentionInput::Mask)
        && !op.given.contains(&AttentionInput::Lengths)
        && !(op.is_causal && op.given.contains(&AttentionInput::PastKey))
}

fn build_stock(
    context: &ParsingContext,
    node: &NodeProto,
) -> TractResult<Option<Box<dyn InferenceOp>>> {
    let mut node = node.clone();
    let ours = ["qk_matmul_output_mode", "softmax_precision"];
    node.attribute.retain(|attribute| !ours.contains(&attribute.name.as_str()));
    let build = stock("Attention").context("tract has no Attention")?;
    Ok(Some(build(context, &node)?.0))
}

/// Builds `MultiHeadAttention` of a node: ours where it looks back only.
pub(crate) fn build_multi_head(context: &ParsingContext, node: &NodeProto) -> Built {
    let build = stock("MultiHeadAttention").context("tract has no MultiHeadAttention")?;
    let stock = build(context, node)?;
    let refuse = Refuse { node, opset: imported(node, context.onnx_operator_set_version) };
    if !refuse.flag("unidirectional")? {
        return Ok(stock);
    }
    // tract's builder has seen that there is nothing but query, key and value.
    let count = refuse.count("num_heads")?;
    let count = count.ok_or_else(|| refuse.because("has no attribute `num_heads`"))?;
    let is_there = |place: usize| node.output.get(place).is_some_and(|name| !name.is_empty());
    let op = Attend {
        node: node_name(node).into(),
        heads: Some(Heads { queries: count, keys: count }),
        scale: node.get_attr_opt("scale")?.filter(|scale| *scale != 0.0),
        softcap: 0.0,
        is_causal: true,
        left: None,
        right: None,
        mode: 0,
        in_double: false,
        given: tvec![],
        emitted: [is_there(0), is_there(1), is_there(2), false],
    };
    Ok((expand(Attention { op, stock: None }), vec![]))
}

/// The operator, and tract's where that can be right.
#[derive(Debug, Clone)]
struct Attention {
    op: Attend,
    stock: Option<Box<dyn InferenceOp>>,
}

impl Expansion for Attention {
    fn name(&self) -> StaticName {
        "Attention".into()
    }

    fn nboutputs(&self) -> TractResult<usize> {
        Ok(self.op.emitted.iter().filter(|is_there| **is_there).count())
    }

    rules!(self, [3 + self.op.given.len(), self.nboutputs()?], |solver, inputs, outputs| {
        for (output, place) in outputs.iter().zip(self.op.places()) {
            // Present keys and values are of the types of K and V, all else of that of Q.
            let of = if place == 3 { 0 } else { place };
            solver.equals(&output.datum_type, &inputs[of].datum_type)?;
        }
        let shapes = inputs.iter().map(|input| &input.shape);
        solver.given_all(shapes, move |solver, shapes| {
            let shapes: Vec<&[TDim]> = shapes.iter().map(|shape| &**shape).collect();
            let made = self.op.shapes(&shapes)?;
            for (output, place) in outputs.iter().zip(self.op.places()) {
                if let Some(shape) = made.get(place) {
                    solver.equals(&output.shape, shape.clone())?;
                }
            }
            Ok(())
        })
    });

    fn wire(&self, prefix: &str, model: &mut TypedModel, inputs: &[OutletId]) -> Wired {
        let facts: Vec<TypedFact> = inputs
            .iter()
            .map(|input| model.outlet_fact(*input).cloned())
            .collect::<TractResult<_>>()?;
        let shapes: Vec<TVec<TDim>> = facts.iter().map(|fact| fact.shape.to_tvec()).collect();
        let shapes: Vec<&[TDim]> = shapes.iter().map(|shape| &**shape).collect();
        self.op.check(&facts, &shapes)?;
        // tract has no products of DOUBLE by groups of heads.
        let is_double = facts.iter().any(|fact| fact.datum_type == DatumType::F64);
        if let (Some(stock), false, true) = (&self.stock, is_double, self.sees_as_stock(&shapes)) {
            let stock = stock.as_op().downcast_ref::<Box<dyn Expansion>>();
            return stock.context("Attention is no expansion")?.wire(prefix, model, inputs);
        }
        model.wire_node(prefix, self.op.clone(), inputs)
    }
}

impl Attention {
    /// Whether tract's causal mask, if there is one, is the standard's: where lengths are symbols
    /// it is one of equal lengths.
    fn sees_as_stock(&self, shapes: &[&[TDim]]) -> bool {
        let length = |place: usize| {
            let shape: &[TDim] = shapes.get(place).copied().unwrap_or_default();
            shape.get(shape.len().checked_sub(2)?).cloned()
        };
        let (queries, keys) = (length(0), length(1));
        let are_numbers = queries.as_ref().and_then(TDim::as_i64).is_some()
            && keys.as_ref().and_then(TDim::as_i64).is_some();
        !self.op.is_causal || are_numbers || queries == keys
    }
}
