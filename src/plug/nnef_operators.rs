//! In NNEF, the operators that stand in the place of tract's own.
//!
//! Each is one invocation, of its inputs and its parameters:
//!
//! ```text
//! y = tract_onnx_cast_reduce([x], texts = ["Sum"], dims = [], axes = [1]);
//! ```

use tract_nnef::internal::*;
use tract_nnef::ser::{array, tdims};
use tract_onnx::tract_core::ops::binary::{BinMiniOp, TypedBinOp};
use tract_onnx::tract_core::ops::logic::{And, BitAnd, Or, Xor};
use tract_onnx::tract_core::ops::math::{Add, Mul, Pow, Sub};

use crate::ops::cast::bit_cast::OnnxBitCast;
use crate::ops::fixes::apart::Apart;
use crate::ops::fixes::arithmetic::binary::{IntegerDiv, IntegerMul, Unsimplified};
use crate::ops::fixes::arithmetic::bit_shift::Shift;
use crate::ops::fixes::arithmetic::einsum::Diagonal;
use crate::ops::fixes::arithmetic::extremum::Extremum;
use crate::ops::fixes::arithmetic::power::Power;
use crate::ops::fixes::arithmetic::product::IntegerEinSum;
use crate::ops::fixes::arithmetic::quotient::Quotient;
use crate::ops::fixes::arithmetic::reduce::IntegerReduce;
use crate::ops::fixes::arithmetic::remainder::{Remainder, RemainderOfDims};
use crate::ops::fixes::arithmetic::sum::CorrectedSum;
use crate::ops::fixes::arithmetic::sum::norm::Norm;
use crate::ops::fixes::attention::Attend;
use crate::ops::fixes::control::features::Features;
use crate::ops::fixes::control::last_state::LastState;
use crate::ops::fixes::control::tree_ensemble::TwoClasses;
use crate::ops::fixes::extremes::KeepNan;
use crate::ops::fixes::functions::ElementFunction;
use crate::ops::fixes::places::gathered::Within;
use crate::ops::fixes::places::grid_sample::GridSampler;
use crate::ops::fixes::places::indices::Indices;
use crate::ops::fixes::places::one_hot::OneHot;
use crate::ops::fixes::places::pad::around::BorderPad;
use crate::ops::fixes::places::range::IntegerRange;
use crate::ops::fixes::places::slice::SliceByData;
use crate::ops::fixes::places::squeeze::OtherThanOne;
use crate::ops::fixes::places::suppression::BoxLimit;
use crate::ops::fixes::places::top::Top;
use crate::ops::fixes::products::of_sizes::OfSizes;
use crate::ops::fixes::products::requantize::Requantize;
use crate::ops::fixes::recurrent::{Activate, Recurrent};
use crate::ops::fixes::rows::Rows;
use crate::ops::fixes::rows::cumulated::Zeros;
use crate::ops::fixes::windows::max_pool::Greatest;
use crate::ops::fixes::windows::resize::Resize;
use crate::ops::fixes::windows::room::HasRoom;
use crate::ops::host::checked::constants::Held;
use crate::ops::host::checked::sizes::ops::{BoundSymbols, Named};
use crate::ops::host::label::Label;
use crate::ops::host::saved::{Save, Saved};
use crate::ops::quantize::dynamic::DynamicQuantize;
use crate::ops::quantize::op::OnnxQuantizer;
use crate::ops::quantize::table::OnnxCodeTable;
use crate::ops::weights::tied::Tied;
use crate::ops::weights::unpack::Unpack;

/// Is shown each of the operators.
trait OperatorVisitor {
    /// An operator with parameters.
    fn visit<T: Save>(&mut self);

    /// One of two operands, element by element.
    fn visit_binary<T: BinMiniOp>(&mut self, name: &str, op: T);
}

/// Shows all of the operators.
fn visit_all(visitor: &mut impl OperatorVisitor) {
    let node = || Label::from("of an NNEF file");
    visitor.visit_binary("tract_onnx_cast_mul", IntegerMul);
    visitor.visit_binary("tract_onnx_cast_div", IntegerDiv { node: node() });
    visitor.visit_binary("tract_onnx_cast_max", KeepNan::<true>);
    visitor.visit_binary("tract_onnx_cast_min", KeepNan::<false>);
    visitor.visit_binary("tract_onnx_cast_pow", Power { node: node() });
    visitor.visit_binary("tract_onnx_cast_mod", Remainder::<true> { node: node() });
    visitor.visit_binary("tract_onnx_cast_fmod", Remainder::<false> { node: node() });
    visitor.visit_binary("tract_onnx_cast_shift_left", Shift::<true>);
    visitor.visit_binary("tract_onnx_cast_shift_right", Shift::<false>);
    visitor.visit_binary("tract_onnx_cast_exact_add", Unsimplified(Add));
    visitor.visit_binary("tract_onnx_cast_exact_sub", Unsimplified(Sub));
    visitor.visit_binary("tract_onnx_cast_exact_mul", Unsimplified(Mul));
    visitor.visit_binary("tract_onnx_cast_exact_div", Quotient);
    visitor.visit_binary("tract_onnx_cast_exact_pow", Unsimplified(Pow));
    visitor.visit_binary("tract_onnx_cast_exact_and", Unsimplified(And));
    visitor.visit_binary("tract_onnx_cast_exact_or", Unsimplified(Or));
    visitor.visit_binary("tract_onnx_cast_exact_xor", Unsimplified(Xor));
    visitor.visit_binary("tract_onnx_cast_exact_bitand", Unsimplified(BitAnd));
    visitor.visit::<Activate>();
    visitor.visit::<CorrectedSum>();
    visitor.visit::<BorderPad>();
    visitor.visit::<Apart>();
    visitor.visit::<Attend>();
    visitor.visit::<BoundSymbols>();
    visitor.visit::<Diagonal>();
    visitor.visit::<DynamicQuantize>();
    visitor.visit::<Extremum>();
    visitor.visit::<ElementFunction>();
    visitor.visit::<Greatest>();
    visitor.visit::<HasRoom>();
    visitor.visit::<Held>();
    visitor.visit::<Features>();
    visitor.visit::<Indices>();
    visitor.visit::<LastState>();
    visitor.visit::<Within>();
    visitor.visit::<IntegerEinSum>();
    visitor.visit::<IntegerRange>();
    visitor.visit::<IntegerReduce>();
    visitor.visit::<Named>();
    visitor.visit::<Norm>();
    visitor.visit::<OneHot>();
    visitor.visit::<OnnxBitCast>();
    visitor.visit::<OnnxCodeTable>();
    visitor.visit::<OnnxQuantizer>();
    visitor.visit::<OtherThanOne>();
    visitor.visit::<Recurrent>();
    visitor.visit::<RemainderOfDims>();
    visitor.visit::<OfSizes>();
    visitor.visit::<Requantize>();
    visitor.visit::<Rows>();
    visitor.visit::<Resize>();
    visitor.visit::<GridSampler>();
    visitor.visit::<SliceByData>();
    visitor.visit::<BoxLimit>();
    visitor.visit::<Tied>();
    visitor.visit::<Top>();
    visitor.visit::<TwoClasses>();
    visitor.visit::<Unpack>();
    visitor.visit::<Zeros>();
}

/// Makes a registry write and read them.
pub(super) fn register(registry: &mut Registry) {
    visit_all(registry);
}

impl OperatorVisitor for Registry {
    fn visit<T: Save>(&mut self) {
        register_one::<T>(self);
    }

    fn visit_binary<T: BinMiniOp>(&mut self, name: &str, op: T) {
        self.register_binary(name, &op);
    }
}

/// Whether it is an operator of these.
pub(super) fn is_ours(op: &dyn TypedOp) -> bool {
    let mut search = OperatorSearch { op, found: false };
    visit_all(&mut search);
    search.found
}

/// Looks for the type of an operator.
struct OperatorSearch<'a> {
    op: &'a dyn TypedOp,
    found: bool,
}

impl OperatorVisitor for OperatorSearch<'_> {
    fn visit<T: Save>(&mut self) {
        self.found |= self.op.is::<T>();
    }

    fn visit_binary<T: BinMiniOp>(&mut self, _: &str, _: T) {
        self.found |= self.op.downcast_ref::<TypedBinOp>().is_some_and(|op| op.0.is::<T>());
    }
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
    let arguments = [("texts", array(texts)), ("dims", tdims(&saved.dims))];
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
    let saved = Saved { texts: texts.into_vec(), dims };
    let op = T::restore(node.to_string().into(), &mut saved.row());
    let op = op.with_context(|| format!("node `{node}` ({})", T::NAME))?;
    builder.wire(op, &inputs)
}
