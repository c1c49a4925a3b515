//! What tract asks of operators that are alike: of all of ours; of those that make each element of
//! the element at the same place; of those along axes; of those whose sizes may be symbols.

use tract_onnx::tract_core::axes::Axis;
use tract_onnx::tract_core::internal::*;

use super::hook::Mapped;

/// `$op` is an operator of a typed model called `$name`, of which `$info` says more. One that makes
/// symbols while a model runs says `mints_runtime_symbols`.
macro_rules! typed_op {
    ($op:ty, |$named:ident| $name:expr $(, |$told:ident| $info:expr)? $(, $mints:ident)?) => {
        impl Op for $op {
            fn name(&self) -> StaticName {
                let $named = self;
                $name.into()
            }

            $(fn info(&self) -> TractResult<Vec<String>> {
                let $told = self;
                Ok(vec![$info])
            })?

            $(fn $mints(&self) -> bool {
                true
            })?

            op_as_typed_op!();
        }
    };
    ($op:ty, $name:expr $(, |$told:ident| $info:expr)? $(, $mints:ident)?) => {
        $crate::ops::host::element_wise::typed_op!(
            $op, |_op| $name $(, |$told| $info)? $(, $mints)?
        );
    };
}

/// Its facts are inferred by the rules of `$body`, as those of tract's `Expansion`, with so many
/// inputs and outputs where they are counted.
macro_rules! rules {
    ($self:ident, [$given:expr, $made:expr], |$solver:ident, $inputs:ident, $outputs:ident| $body:expr) => {
        $crate::ops::host::element_wise::rules!($self, |$solver, $inputs, $outputs| {
            check_input_arity($inputs, $given)?;
            check_output_arity($outputs, $made)?;
            $body
        });
    };
    ($self:ident, |$solver:ident, $inputs:ident, $outputs:ident| $body:expr) => {
        fn rules<'r, 'p: 'r, 's: 'r>(
            &'s $self,
            $solver: &mut Solver<'r>,
            $inputs: &'p [TensorProxy],
            $outputs: &'p [TensorProxy],
        ) -> InferenceResult {
            $body
        }
    };
}

/// Its outputs are of the types and shapes of its inputs.
macro_rules! same_facts {
    () => {
        fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
            Ok(inputs.iter().map(|fact| fact.without_value()).collect())
        }
    };
}

/// Its axes are those of its inputs.
macro_rules! natural_axes {
    () => {
        fn axes_mapping(
            &self,
            inputs: &[&TypedFact],
            outputs: &[&TypedFact],
        ) -> TractResult<AxesMapping> {
            AxesMapping::natural(inputs, outputs)
        }
    };
}

/// It has one input: axes may change, and be cut, before it as well as behind it.
macro_rules! element_wise {
    () => {
        $crate::ops::host::element_wise::natural_axes!();

        fn change_axes(
            &self,
            model: &TypedModel,
            node: &TypedNode,
            _io: tract_onnx::tract_core::ops::change_axes::InOut,
            change: &tract_onnx::tract_core::ops::change_axes::AxisOp,
        ) -> TractResult<Option<tract_onnx::tract_core::ops::change_axes::AxisChangeConsequence>> {
            use tract_onnx::tract_core::ops::change_axes::AxisChangeConsequence;
            Ok(Some(AxisChangeConsequence::new(model, node, None, change)))
        }

        fn slice(
            &self,
            patch: &mut TypedModelPatch,
            _model: &TypedModel,
            node: &TypedNode,
            _prefix: &str,
            inputs: &[OutletId],
            _output_axis: usize,
            _start: &TDim,
            _end: &TDim,
        ) -> TractResult<Option<TVec<OutletId>>> {
            patch.wire_node(&node.name, &node.op, inputs).map(Some)
        }
    };
}

/// It is along `$axes`: where these change, `$op` is the operator along the changed ones, in their
/// order.
macro_rules! along_axes {
    ($self:ident, $axes:expr, |$changed:ident| $op:expr) => {
        fn change_axes(
            &$self,
            model: &TypedModel,
            node: &TypedNode,
            _io: tract_onnx::tract_core::ops::change_axes::InOut,
            change: &tract_onnx::tract_core::ops::change_axes::AxisOp,
        ) -> TractResult<Option<tract_onnx::tract_core::ops::change_axes::AxisChangeConsequence>> {
            use tract_onnx::tract_core::ops::change_axes::AxisChangeConsequence;
            let axes = $axes.iter().map(|axis| change.transform_axis(*axis));
            let Some(mut $changed) = axes.collect::<Option<TVec<usize>>>() else { return Ok(None) };
            $changed.sort_unstable();
            Ok(Some(AxisChangeConsequence::new(model, node, Some(Box::new($op)), change)))
        }
    };
}

/// Its sizes may have symbols: `$op` is the operator where these stand for `$values`.
macro_rules! with_symbols {
    (|$self:ident, $values:ident| $op:expr) => {
        fn set_symbols(
            &$self,
            _source: &TypedModel,
            node: &TypedNode,
            target: &mut TypedModel,
            mapping: &HashMap<OutletId, OutletId>,
            $values: &HashMap<Symbol, TDim>,
        ) -> TractResult<TVec<OutletId>> {
            let inputs = $crate::ops::host::hook::mapped(node.inputs.iter(), mapping)?;
            target.wire_node(&node.name, $op, &inputs)
        }
    };
}

/// It is of two operands, and to tract as `$stock` is: by its name, its types and its cost.
macro_rules! binary_like {
    ($self:ident, $stock:expr) => {
        fn name(&$self) -> &'static str {
            $stock.name()
        }

        fn result_datum_type(&$self, a: DatumType, b: DatumType) -> TractResult<DatumType> {
            $stock.result_datum_type(a, b)
        }

        fn cost_per_element(&$self, ty: DatumType) -> TVec<(Cost, usize)> {
            $stock.cost_per_element(ty)
        }
    };
}

/// It is of two operands, and computes as `$stock` does.
macro_rules! binary_by {
    ($self:ident, $stock:expr) => {
        fn eval_in_a(&$self, a: &mut Tensor, b: &Tensor) -> TractResult<()> {
            $stock.eval_in_a(a, b)
        }

        fn eval_out_of_place(&$self, c: &mut Tensor, a: &Tensor, b: &Tensor) -> TractResult<()> {
            $stock.eval_out_of_place(c, a, b)
        }
    };
}

/// It is of two operands and has no way but `eval` to compute.
macro_rules! binary_by_eval {
    () => {
        fn eval_in_a(&self, a: &mut Tensor, b: &Tensor) -> TractResult<()> {
            let ty = a.datum_type();
            *a = self.eval(a.clone().into_tvalue(), b.clone().into_tvalue(), ty)?;
            Ok(())
        }

        fn eval_out_of_place(&self, c: &mut Tensor, a: &Tensor, b: &Tensor) -> TractResult<()> {
            *c = self.eval(a.clone().into_tvalue(), b.clone().into_tvalue(), c.datum_type())?;
            Ok(())
        }
    };
}

/// The mapping of an operator whose output has the axes of its first input but for these, which are
/// its own; so are those of other inputs.
pub(crate) fn mapping_apart(inputs: &[&TypedFact], apart: &[usize]) -> Mapped {
    let mut names = 'a'..;
    let mut axis = || {
        let name = names.next().context("a name for each axis")?;
        TractResult::Ok(Axis::new(name, inputs.len(), 1))
    };
    let mut axes = tvec!();
    for (slot, input) in inputs.iter().enumerate() {
        for place in 0..input.rank() {
            let of_input = axis()?.input(slot, place);
            match slot {
                0 if apart.contains(&place) => axes.extend([of_input, axis()?.output(0, place)]),
                0 => axes.push(of_input.output(0, place)),
                _ => axes.push(of_input),
            }
        }
    }
    AxesMapping::new(inputs.len(), 1, axes)
}

pub(crate) use {
    along_axes, binary_by, binary_by_eval, binary_like, element_wise, natural_axes, rules,
    same_facts, typed_op, with_symbols,
};
