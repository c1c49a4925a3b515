//! Trees over DOUBLE, which tract rounds to FLOAT before it compares: whether a number is below a
//! threshold, a FLOAT, is told by the next FLOAT that is not above it, and whether it is above by
//! the next that is not below. So each feature becomes three, and each node of a tree asks for the
//! one that its comparison is told by.

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_core::ndarray::{ArrayD, IxDyn};
use tract_onnx::tract_hir::internal::*;

use crate::ops::host::element_wise::typed_op;
use crate::ops::host::hook::{Wired, Wires};
use crate::ops::host::saved::save;
use crate::ops::host::stock::stock;

/// How many features stand for one.
const WAYS: usize = 3;

/// Builds tract's operator as it is for FLOAT, and the same over what stands for DOUBLE.
pub(super) fn build(
    context: &ParsingContext,
    node: &NodeProto,
) -> TractResult<Box<dyn InferenceOp>> {
    let build = stock(&node.op_type).with_context(|| format!("tract has no {}", node.op_type))?;
    let built = |node: &NodeProto| -> TractResult<Box<dyn Expansion>> {
        let (op, _) = build(context, node)?;
        let trees = op.as_op().downcast_ref::<Box<dyn Expansion>>().cloned();
        trees.with_context(|| format!("{} is no expansion", node.op_type))
    };
    let mut bounded = node.clone();
    let modes = node.attribute.iter().find(|attribute| attribute.name == "nodes_modes");
    let modes = modes.map_or(&[][..], |modes| &modes.strings);
    let values: Vec<f32> = node.get_attr_opt_vec("nodes_values")?.unwrap_or_default();
    for given in bounded.attribute.iter_mut().filter(|given| given.name == "nodes_featureids") {
        for (place, id) in given.ints.iter_mut().enumerate() {
            let way = match modes.get(place).map_or(&[][..], |mode| &mode[..]) {
                b"BRANCH_LT" | b"BRANCH_GTE" => 0,
                b"BRANCH_LEQ" | b"BRANCH_GT" => 1,
                // No other number is as infinite.
                _ if values.get(place).is_some_and(|value| value.is_infinite()) => 0,
                _ => 2,
            };
            *id = id.saturating_mul(WAYS as i64).saturating_add(way);
        }
    }
    Ok(expand(Trees { floats: built(node)?, doubles: built(&bounded)? }))
}

#[derive(Debug, Clone)]
struct Trees {
    floats: Box<dyn Expansion>,
    /// Over three features for each.
    doubles: Box<dyn Expansion>,
}

impl Expansion for Trees {
    fn name(&self) -> StaticName {
        self.floats.name()
    }

    fn nboutputs(&self) -> TractResult<usize> {
        Expansion::nboutputs(&*self.floats)
    }

    fn rules<'r, 'p: 'r, 's: 'r>(
        &'s self,
        solver: &mut Solver<'r>,
        inputs: &'p [TensorProxy],
        outputs: &'p [TensorProxy],
    ) -> InferenceResult {
        self.floats.rules(solver, inputs, outputs)
    }

    fn wire(&self, prefix: &str, model: &mut TypedModel, inputs: &[OutletId]) -> Wired {
        let features = bounded(prefix, model, inputs)?;
        let trees = if &*features == inputs { &self.floats } else { &self.doubles };
        trees.wire(prefix, model, &features)
    }
}

/// What stands for the features of a node, themselves where they are no DOUBLE.
pub(super) fn bounded(
    node: &str,
    model: &mut TypedModel,
    inputs: &[OutletId],
) -> TractResult<Wires> {
    match inputs {
        [input] if model.outlet_fact(*input)?.datum_type == DatumType::F64 => {
            model.wire_node(format!("{node}.features"), Features, inputs)
        }
        _ => Ok(inputs.into()),
    }
}

/// Of each DOUBLE of rows the next FLOAT that is not above it, the next that is not below, and
/// itself where it is a FLOAT, or else one that no finite FLOAT is equal to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Features;

#[allow(clippy::cast_possible_truncation, reason = "it is rounded to FLOAT")]
fn ways(x: f64) -> [f32; WAYS] {
    let near = x as f32;
    let below = if f64::from(near) > x { near.next_down() } else { near };
    let above = if f64::from(near) < x { near.next_up() } else { near };
    let itself = if below < above { f32::INFINITY } else { near };
    [below, above, itself]
}

typed_op!(Features, "Features");

impl EvalOp for Features {
    op_out_of_plan!();

    fn eval(&self, _: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let input = args_1!(inputs);
        let mut shape = input.shape().to_vec();
        let columns = shape.last_mut().context("rows of features")?;
        *columns *= WAYS;
        let doubles = input.to_plain_array_view::<f64>()?;
        let made = doubles.iter().flat_map(|x| ways(*x)).collect();
        let made = ArrayD::from_shape_vec(IxDyn(&shape), made)?;
        Ok(tvec!(made.into_tensor().into_tvalue()))
    }
}

impl TypedOp for Features {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let [input] = inputs else { bail!("has {} inputs, not 1", inputs.len()) };
        let mut shape = input.shape.to_tvec();
        let columns = shape.last_mut().context("rows of features")?;
        *columns = columns.clone() * WAYS;
        Ok(tvec!(DatumType::F32.fact(shape)))
    }

    as_op!();
}

save!(Features, "tract_onnx_cast_features", {});
