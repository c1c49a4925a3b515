//! In NNEF, the operators that stand in the place of tract's own.
//!
//! Each is one invocation, of its inputs and its parameters:
//!
//! ```text
//! y = tract_onnx_cast_reduce([x], texts = ["Sum"], dims = [], axes = [1]);
//! ```

use tract_nnef::internal::*;
use tract_nnef::ser::{array, tdims};
use tract_onnx::tract_core::ops::math::{Add, Div, Mul, Pow, Sub};

use crate::ops::arithmetic::{IntegerDiv, IntegerMul, Unsimplified};
use crate::ops::bit_cast::OnnxBitCast;
use crate::ops::bit_shift::Shift;
use crate::ops::dynamic_quantize::DynamicQuantize;
use crate::ops::extremum::Extremum;
use crate::ops::fixes::apart::Apart;
use crate::ops::fixes::attention::Attend;
use crate::ops::fixes::extremes::KeepNan;
use crate::ops::fixes::functions::Function;
use crate::ops::fixes::recurrent::{Activate, Recurrent};
use crate::ops::fixes::rows::Rows;
use crate::ops::indices::Indices;
use crate::ops::one_hot::OneHot;
use crate::ops::power::Power;
use crate::ops::product::IntegerEinSum;
use crate::ops::quantize::op::OnnxQuantizer;
use crate::ops::quantize::table::OnnxCodeTable;
use crate::ops::range::IntegerRange;
use crate::ops::reduce::IntegerReduce;
use crate::ops::remainder::{Remainder, RemainderOfDims};
use crate::ops::saved::{Save, Saved};
use crate::ops::slice::SliceByData;
use crate::ops::squeeze::OtherThanOne;
use crate::ops::tree_ensemble::TwoClasses;

/// Makes a registry write and read them.
pub(super) fn register(registry: &mut Registry) {
    let node = || "of an NNEF file".to_string();
    registry.register_binary("tract_onnx_cast_mul", &IntegerMul);
    registry.register_binary("tract_onnx_cast_div", &IntegerDiv { node: node() });
    registry.register_binary("tract_onnx_cast_max", &KeepNan::<true>);
    registry.register_binary("tract_onnx_cast_min", &KeepNan::<false>);
    registry.register_binary("tract_onnx_cast_pow", &Power { node: node() });
    registry.register_binary("tract_onnx_cast_mod", &Remainder::<true> { node: node() });
    registry.register_binary("tract_onnx_cast_fmod", &Remainder::<false> { node: node() });
    registry.register_binary("tract_onnx_cast_shift_left", &Shift::<true>);
    registry.register_binary("tract_onnx_cast_shift_right", &Shift::<false>);
    registry.register_binary("tract_onnx_cast_exact_add", &Unsimplified(Add));
    registry.register_binary("tract_onnx_cast_exact_sub", &Unsimplified(Sub));
    registry.register_binary("tract_onnx_cast_exact_mul", &Unsimplified(Mul));
    registry.register_binary("tract_onnx_cast_exact_div", &Unsimplified(Div));
    registry.register_binary("tract_onnx_cast_exact_pow", &Unsimplified(Pow));
    register_one::<Activate>(registry);
    register_one::<Apart>(registry);
    register_one::<Attend>(registry);
    register_one::<DynamicQuantize>(registry);
    register_one::<Extremum>(registry);
    register_one::<Function>(registry);
    register_one::<Indices>(registry);
    register_one::<IntegerEinSum>(registry);
    register_one::<IntegerRange>(registry);
    register_one::<IntegerReduce>(registry);
    register_one::<OneHot>(registry);
    register_one::<OnnxBitCast>(registry);
    register_one::<OnnxCodeTable>(registry);
    register_one::<OnnxQuantizer>(registry);
    register_one::<OtherThanOne>(registry);
    register_one::<Recurrent>(registry);
    register_one::<RemainderOfDims>(registry);
    register_one::<Rows>(registry);
    register_one::<SliceByData>(registry);
    register_one::<TwoClasses>(registry);
}

/// Whether it is an operator of these.
pub(super) fn is_ours(op: &dyn TypedOp) -> bool {
    op.is::<Activate>()
        || op.is::<Apart>()
        || op.is::<Attend>()
        || op.is::<DynamicQuantize>()
        || op.is::<Extremum>()
        || op.is::<Function>()
        || op.is::<Indices>()
        || op.is::<IntegerEinSum>()
        || op.is::<IntegerRange>()
        || op.is::<IntegerReduce>()
        || op.is::<OneHot>()
        || op.is::<OnnxBitCast>()
        || op.is::<OnnxCodeTable>()
        || op.is::<OnnxQuantizer>()
        || op.is::<OtherThanOne>()
        || op.is::<Recurrent>()
        || op.is::<RemainderOfDims>()
        || op.is::<Rows>()
        || op.is::<SliceByData>()
        || op.is::<TwoClasses>()
        || op.downcast_ref::<tract_onnx::tract_core::ops::binary::TypedBinOp>().is_some_and(|op| {
            op.0.is::<IntegerMul>()
                || op.0.is::<IntegerDiv>()
                || op.0.is::<KeepNan<true>>()
                || op.0.is::<KeepNan<false>>()
                || op.0.is::<Power>()
                || op.0.is::<Remainder<true>>()
                || op.0.is::<Remainder<false>>()
                || op.0.is::<Shift<true>>()
                || op.0.is::<Shift<false>>()
                || op.0.is::<Unsimplified<Add>>()
                || op.0.is::<Unsimplified<Sub>>()
                || op.0.is::<Unsimplified<Mul>>()
                || op.0.is::<Unsimplified<Div>>()
                || op.0.is::<Unsimplified<Pow>>()
        })
}

fn register_one<T: Save>(registry: &mut Registry) {
    registry.register_dumper(dump::<T>);
    let output = |name: &&'static str| (*name, TypeName::Scalar.tensor());
    let outputs: Vec<_> = T::OUTPUTS.iter().map(output).collect();
    registry.register_primitive(
        T::NAME,
        &[
            TypeName::Scalar.tensor().array().named("inputs"),
            TypeName::String.array().named("texts"),
            TypeName::Integer.array().named("dims"),
            TypeName::Integer.array().named("axes"),
        ],
        &outputs,
        load::<T>,
    );
}

fn dump<T: Save>(ast: &mut IntoAst, node: &TypedNode, op: &T) -> TractResult<Option<Arc<RValue>>> {
    let inputs =
        node.inputs.iter().map(|input| ast.mapping.get(input).map(|value| (**value).clone()));
    let inputs: Option<Vec<RValue>> = inputs.collect();
    let inputs = inputs.with_context(|| format!("node `{}` has no input", node.name))?;
    let saved = op.save();
    let texts: Vec<RValue> = saved.texts.iter().map(string).collect();
    let axes: Vec<TDim> = saved.axes.iter().map(|axis| axis.to_dim()).collect();
    let arguments = [("texts", array(texts)), ("dims", tdims(&saved.dims)), ("axes", tdims(&axes))];
    Ok(Some(invocation(T::NAME, &[Arc::new(array(inputs))], &arguments)))
}

fn load<T: Save>(
    builder: &mut ModelBuilder,
    invocation: &ResolvedInvocation,
) -> TractResult<Value> {
    let node = builder.generate_node_name();
    let inputs: TVec<OutletId> = invocation.named_arg_as(builder, "inputs")?;
    let texts: TVec<String> = invocation.named_arg_as(builder, "texts")?;
    let dims: TVec<TDim> =
        builder.allowing_new_symbols(|builder| invocation.named_arg_as(builder, "dims"))?;
    let axes: TVec<usize> = invocation.named_arg_as(builder, "axes")?;
    let saved = Saved { texts: texts.into_vec(), dims, axes };
    let op = T::restore(node.to_string(), &saved);
    let op = op.with_context(|| format!("node `{node}` ({})", T::NAME))?;
    builder.wire(op, &inputs)
}
