//! `IsNaN` and `IsInf`. Of the results tract says that they are of the inputs' types where it has
//! no kernel for these: of DOUBLE, and of FLOAT16 for `IsInf`.

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_core::ops::binary::TypedBinOp;
use tract_onnx::tract_core::ops::cast::cast;
use tract_onnx::tract_core::ops::logic::{comp_eq, or};
use tract_onnx::tract_core::ops::math;
use tract_onnx::tract_hir::internal::*;

use crate::cast::element_type::ElementType;
use crate::cast::rules::Rules;
use crate::ops::cast::op::OnnxCast;
use crate::ops::host::element_wise::rules;
use crate::ops::host::hook::Wired;
use crate::ops::host::stock::Built;

/// Builds either of a node.
pub(crate) fn build(_: &ParsingContext, node: &NodeProto) -> Built {
    let flag = |name: &str| {
        let given: Option<i64> = node.get_attr_opt(name)?;
        TractResult::Ok(given.unwrap_or(1) != 0)
    };
    let test = match node.op_type.as_str() {
        "IsNaN" => FloatTest::Nan,
        _ => FloatTest::Infinity {
            is_above: flag("detect_positive")?,
            is_below: flag("detect_negative")?,
        },
    };
    Ok((expand(test), vec![]))
}

/// What is asked of each element.
#[derive(Debug, Clone, Copy)]
enum FloatTest {
    Nan,
    /// Of either sign, as these say.
    Infinity {
        is_above: bool,
        is_below: bool,
    },
}

impl Expansion for FloatTest {
    fn name(&self) -> StaticName {
        match self {
            FloatTest::Nan => "IsNaN".into(),
            FloatTest::Infinity { .. } => "IsInf".into(),
        }
    }

    rules!(self, [1, 1], |solver, inputs, outputs| {
        let ([input], [output]) = (inputs, outputs) else { return Ok(()) };
        solver.equals(&output.datum_type, DatumType::Bool)?;
        solver.equals(&input.shape, &output.shape)
    });

    fn wire(&self, prefix: &str, model: &mut TypedModel, inputs: &[OutletId]) -> Wired {
        let input = *inputs.first().context("an input")?;
        match *self {
            FloatTest::Nan => wire_is_nan(prefix, model, input),
            FloatTest::Infinity { is_above, is_below } => {
                wire_is_infinite(prefix, model, input, [is_above, is_below])
            }
        }
    }
}

/// Says of each float whether it is infinite, of the signs that count.
fn wire_is_infinite(
    name: &str,
    model: &mut TypedModel,
    input: OutletId,
    signs: [bool; 2],
) -> Wired {
    let fact = model.outlet_fact(input)?;
    let (ty, rank) = (fact.datum_type, fact.rank());
    if ty != DatumType::F64 {
        let floats = match ty {
            DatumType::F16 => {
                model.wire_node(format!("{name}.float"), cast(DatumType::F32), &[input])?
            }
            _ => tvec!(input),
        };
        return model.wire_node(name, math::is_inf(signs[0], signs[1]), &floats);
    }
    let mut is = |name: String, value: f64| -> TractResult<OutletId> {
        let value = tensor0(value).broadcast_into_rank(rank)?;
        let value = model.add_const(format!("{name}.value"), value)?;
        let is_equal = TypedBinOp(comp_eq(), None);
        let made = model.wire_node(name, is_equal, &[input, value])?;
        made.first().copied().context("an output")
    };
    let made = match signs {
        [true, true] => {
            let above = is(format!("{name}.above"), f64::INFINITY)?;
            let below = is(format!("{name}.below"), f64::NEG_INFINITY)?;
            return model.wire_node(name, or(), &[above, below]);
        }
        [true, false] => is(name.into(), f64::INFINITY)?,
        [false, true] => is(name.into(), f64::NEG_INFINITY)?,
        // Nothing is NaN to a comparison.
        [false, false] => is(name.into(), f64::NAN)?,
    };
    Ok(tvec!(made))
}

/// Says of each float whether it is NaN. A FLOAT is where the DOUBLE that it is made of is.
pub(crate) fn wire_is_nan(name: &str, model: &mut TypedModel, input: OutletId) -> Wired {
    let is_nan = math::is_nan();
    if model.outlet_fact(input)?.datum_type != DatumType::F64 {
        return model.wire_node(name, is_nan, &[input]);
    }
    let (from, to) = (ElementType::Double, ElementType::Float);
    let double_cast = OnnxCast::new(name, from, to, Rules::default()).beside_casts_of(model);
    let floats = model.wire_node(format!("{name}.float"), double_cast, &[input])?;
    model.wire_node(name, is_nan, &floats)
}
